/* A SPI controller without hardware, with one device on it: whatever is written is read back. It gives /dev/spidev0.0
 * to the tests of kern's virtual machine; a module of that machine, no part of kern. */
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/spi/spi.h>
#include <linux/string.h>

static struct platform_device *parent;

static int kern_spi_transfer(struct spi_controller *controller, struct spi_device *device,
                             struct spi_transfer *transfer)
{
    if (transfer->rx_buf != NULL) {
        if (transfer->tx_buf != NULL)
            memcpy(transfer->rx_buf, transfer->tx_buf, transfer->len);
        else
            memset(transfer->rx_buf, 0, transfer->len);
    }
    spi_finalize_current_transfer(controller);
    return 0;
}

static int kern_spi_probe(struct platform_device *platform)
{
    /* The name is one that spidev of this kernel takes. */
    struct spi_board_info info = {.modalias = "dh2228fv", .max_speed_hz = 1000000, .chip_select = 0};
    struct spi_controller *controller = devm_spi_alloc_master(&platform->dev, 0);
    int result;

    if (controller == NULL)
        return -ENOMEM;
    controller->bus_num = 0;
    controller->num_chipselect = 1;
    controller->mode_bits = SPI_CPOL | SPI_CPHA | SPI_CS_HIGH | SPI_LSB_FIRST | SPI_LOOP;
    controller->transfer_one = kern_spi_transfer;
    result = devm_spi_register_controller(&platform->dev, controller);
    if (result < 0)
        return result;
    return spi_new_device(controller, &info) != NULL ? 0 : -ENODEV;
}

static struct platform_driver driver = {.probe = kern_spi_probe, .driver = {.name = "kern-spi"}};

static int __init kern_spi_init(void)
{
    int result = platform_driver_register(&driver);

    if (result < 0)
        return result;
    parent = platform_device_register_simple("kern-spi", -1, NULL, 0);
    if (IS_ERR(parent))
        platform_driver_unregister(&driver);
    return PTR_ERR_OR_ZERO(parent);
}

static void __exit kern_spi_exit(void)
{
    platform_device_unregister(parent);
    platform_driver_unregister(&driver);
}

module_init(kern_spi_init);
module_exit(kern_spi_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a SPI controller that hands back what it is sent");

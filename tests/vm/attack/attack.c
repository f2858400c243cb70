/* A hostile program for the tests of vgpio: runs in a box that has line 1 and line 2 of gpiochip0, or address 0x50 of I2C bus 0,
 * and tries to get at line 3, or at 0x51 and the bus as a whole. Prints what it got; exits 0 when that is nothing.
 * `messages`: it has 0x40 of bus 1, and 0x41 to be read; whoever starts it counts what reached other addresses.
 * usage: attack gpio|i2c|messages RACES */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/gpio.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define GRANTED   1u
#define FORBIDDEN 3u

static int breaches;

static void expect(const char *what, long result, int error)
{
    if (result >= 0) {
        printf("BREACH: %s succeeded (%ld)\n", what, result);
        breaches++;
    } else if (error != 0 && errno != error) {
        printf("odd: %s failed with %s instead of %s\n", what, strerror(errno), strerror(error));
        breaches++;
    }
}

static void need(const char *what, long result)
{
    if (result < 0) {
        printf("what is granted does not work: %s: %s\n", what, strerror(errno));
        breaches++;
    }
}

/* ---- GPIO ---- */

static int second(int chip, unsigned count, const unsigned *lines)
{
    struct gpio_v2_line_request request = {.num_lines = count, .config = {.flags = GPIO_V2_LINE_FLAG_INPUT}};
    memcpy(request.consumer, "attack", 7);
    memcpy(request.offsets, lines, count * sizeof(*lines));
    return ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &request) == 0 ? request.fd : -1;
}

static int first(int chip, unsigned line)
{
    struct gpiohandle_request request = {
        .lines = 1, .lineoffsets = {line}, .flags = GPIOHANDLE_REQUEST_INPUT};
    return ioctl(chip, GPIO_GET_LINEHANDLE_IOCTL, &request) == 0 ? request.fd : -1;
}

static int event(int chip, unsigned line)
{
    struct gpioevent_request request = {.lineoffset = line, .eventflags = GPIOEVENT_REQUEST_BOTH_EDGES};
    return ioctl(chip, GPIO_GET_LINEEVENT_IOCTL, &request) == 0 ? request.fd : -1;
}

static int is_ours(int chip, unsigned line)
{
    struct gpio_v2_line_info info = {.offset = line};
    return ioctl(chip, GPIO_V2_GET_LINEINFO_IOCTL, &info) == 0 && strcmp(info.consumer, "attack") == 0;
}

static struct gpio_v2_line_request raced;
static volatile int racing = 1;

static void *race(void *unused)
{
    while (racing)
        __atomic_store_n(&raced.offsets[0], raced.offsets[0] == GRANTED ? FORBIDDEN : GRANTED,
                         __ATOMIC_RELAXED);
    return unused;
}

/* The request is exchanged while it is being judged. */
static void race_lines(int chip, int rounds)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, race, NULL) != 0)
        return;
    for (int i = 0; i < rounds; i++) {
        raced.num_lines = 1;
        raced.config.flags = GPIO_V2_LINE_FLAG_INPUT;
        memcpy(raced.consumer, "attack", 7);
        if (ioctl(chip, GPIO_V2_GET_LINE_IOCTL, &raced) != 0)
            continue;
        if (is_ours(chip, FORBIDDEN)) {
            printf("BREACH: race %d got the line\n", i);
            breaches++;
        }
        close(raced.fd);
    }
    racing = 0;
    pthread_join(thread, NULL);
}

static int passed(int fd)
{
    int pair[2];
    char bytes[CMSG_SPACE(sizeof(int))] = {0}, byte = 0;
    struct iovec data = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &data, .msg_iovlen = 1, .msg_control = bytes, .msg_controllen = sizeof(bytes)};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &fd, sizeof(int));
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) != 0 || sendmsg(pair[0], &message, 0) != 1 ||
        recvmsg(pair[1], &message, 0) != 1)
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    return fd;
}

static void attack_lines(int rounds)
{
    int chip = open("/dev/gpiochip0", O_RDWR | O_CLOEXEC);
    need("opening the chip", chip);
    const unsigned good[] = {GRANTED, 2}, bad[] = {FORBIDDEN}, mixed[] = {GRANTED, 2, FORBIDDEN};
    int line = second(chip, 2, good);
    need("the granted lines", line);
    struct gpio_v2_line_config config = {.flags = GPIO_V2_LINE_FLAG_OUTPUT};
    need("configuring the granted lines anew", ioctl(line, GPIO_V2_LINE_SET_CONFIG_IOCTL, &config));
    close(line);
    expect("second interface", second(chip, 1, bad), EPERM);
    expect("one among granted lines", second(chip, 3, mixed), EPERM);
    expect("first interface", first(chip, FORBIDDEN), EPERM);
    expect("events", event(chip, FORBIDDEN), EPERM);
    expect("a dup'd descriptor", second(dup(chip), 1, bad), EPERM);
    expect("a passed descriptor", second(passed(chip), 1, bad), EPERM);
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", chip);
    expect("the chip opened anew", second(open(path, O_RDWR), 1, bad), EPERM);
    expect("the chip opened for reading", second(open("/dev/gpiochip0", O_RDONLY), 1, bad), EPERM);
    struct gpio_v2_line_request request = {.num_lines = 1, .offsets = {FORBIDDEN}};
    expect("a request number with more bits",
           syscall(SYS_ioctl, chip, 0xdeadbeef00000000 | GPIO_V2_GET_LINE_IOCTL, &request), EPERM);
    expect("no memory", ioctl(chip, GPIO_V2_GET_LINE_IOCTL, (void *)8), EFAULT);
    expect("another file", ioctl(0, GPIO_V2_GET_LINE_IOCTL, &request), ENOTTY);
    expect("a configuration of a chip", ioctl(chip, GPIO_V2_LINE_SET_CONFIG_IOCTL, &config), ENOTTY);
    expect("another chip", open("/dev/gpiochip1", O_RDWR), ENOENT);
    expect("a node of one's own", mknod("/tmp/chip", S_IFCHR | 0666, makedev(254, 1)), EPERM);
    expect("mmap", mmap(NULL, 4096, PROT_READ, MAP_SHARED, chip, 0) == MAP_FAILED ? -1 : 0, 0);
    pid_t child = fork();
    if (child == 0)
        _exit(second(chip, 1, bad) >= 0);
    int status = 0;
    waitpid(child, &status, 0);
    expect("a child", status == 0 ? -1 : 0, 0);
#ifdef __x86_64__
    child = fork();
    if (child == 0) { /* ioctl of the 32-bit interface; needs low addresses, but dies before */
        long result;
        __asm__ volatile("int $0x80"
                         : "=a"(result)
                         : "a"(54), "b"(chip), "c"(GPIO_V2_GET_LINE_IOCTL), "d"(0));
        _exit(7);
    }
    waitpid(child, &status, 0);
    expect("a 32-bit call", WIFSIGNALED(status) ? -1 : 0, 0);
#endif
    race_lines(chip, rounds);
    if (is_ours(chip, FORBIDDEN))
        expect("the line is ours in the end", 0, 0);
    line = second(chip, 1, good);
    need("a granted line after all of this", line);
}

/* ---- I2C ---- */

static int messages(int bus, unsigned a, unsigned b, unsigned flags)
{
    uint8_t bytes[2] = {0};
    struct i2c_msg list[2] = {
        {.addr = (uint16_t)a, .flags = (uint16_t)flags, .len = 1, .buf = bytes},
        {.addr = (uint16_t)b, .flags = (uint16_t)(flags | I2C_M_RD), .len = 1, .buf = bytes + 1}};
    struct i2c_rdwr_ioctl_data request = {list, 2};
    return ioctl(bus, I2C_RDWR, &request);
}

static int read_byte(int bus, unsigned command)
{
    union i2c_smbus_data data;
    struct i2c_smbus_ioctl_data request = {I2C_SMBUS_READ, (uint8_t)command, I2C_SMBUS_BYTE_DATA, &data};
    return ioctl(bus, I2C_SMBUS, &request) == 0 ? data.byte : -1;
}

static volatile unsigned raced_address = 0x50;
static struct i2c_msg raced_list[1];

static void *race_address(void *unused)
{
    while (racing)
        __atomic_store_n(&raced_list[0].addr, raced_list[0].addr == 0x50 ? 0x51 : 0x50, __ATOMIC_RELAXED);
    return unused;
}

static void attack_bus(int rounds)
{
    int bus = open("/dev/i2c-0", O_RDWR | O_CLOEXEC);
    need("opening the bus", bus);
    expect("a transfer with no address chosen", read_byte(bus, 0), 0);
    uint8_t bytes[4] = {6};
    expect("a write with no address chosen", write(bus, bytes, 1), 0);
    need("the granted address", ioctl(bus, I2C_SLAVE, 0x50));
    need("a transfer to it", read_byte(bus, 0));
    expect("another address", ioctl(bus, I2C_SLAVE, 0x51), EPERM);
    expect("address 0", ioctl(bus, I2C_SLAVE, 0), EPERM);
    expect("by force", ioctl(bus, I2C_SLAVE_FORCE, 0x51), EPERM);
    expect("a number with more bits", syscall(SYS_ioctl, bus, 0xdead00000000 | I2C_SLAVE, 0x51), EPERM);
    expect("an address with more bits", syscall(SYS_ioctl, bus, I2C_SLAVE, 0x5100000050), EPERM);
    expect("ten bits", ioctl(bus, I2C_TENBIT, 1), EPERM);
    expect("the bus's timeout", ioctl(bus, I2C_TIMEOUT, 1), EPERM);
    expect("a list with another address", messages(bus, 0x51, 0x51, 0), EPERM);
    expect("a mixed list", messages(bus, 0x50, 0x51, 0), EPERM);
    expect("flags", messages(bus, 0x50, 0x50, I2C_M_NOSTART), EPERM);
    struct i2c_rdwr_ioctl_data many = {(void *)8, 43};
    expect("too many messages", ioctl(bus, I2C_RDWR, &many), EINVAL);
    struct i2c_rdwr_ioctl_data nowhere = {(void *)8, 1};
    expect("messages nowhere", ioctl(bus, I2C_RDWR, &nowhere), EFAULT);
    need("an address that was granted, after all", read_byte(bus, 0));
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", bus);
    const int modes[] = {O_RDWR, O_WRONLY, O_RDONLY};
    for (int i = 0; i < 3; i++) {
        expect("the open bus anew", open(path, modes[i]), EACCES);
        if (modes[i] != O_RDWR)
            expect("the node", open("/dev/i2c-0", modes[i]), EACCES);
    }
    struct open_how how = {.flags = O_RDWR};
    expect("openat2", syscall(SYS_openat2, AT_FDCWD, "/dev/i2c-0", &how, sizeof(how)), EACCES);
    if (symlink("/dev/i2c-0", "/tmp/bus") == 0)
        expect("by a link", open("/tmp/bus", O_RDWR), EACCES);
    if (chdir("/dev") == 0)
        expect("by a relative path", open("i2c-0", O_RDWR), EACCES);
    expect("another bus", open("/dev/i2c-1", O_RDWR), ENOENT);
    /* The list is exchanged while it is judged. 0x51 answers 0xee at 0x20, 0x50 does not. */
    pthread_t thread;
    uint8_t byte = 0;
    raced_list[0] = (struct i2c_msg){.addr = 0x50, .flags = I2C_M_RD, .len = 1, .buf = &byte};
    if (pthread_create(&thread, NULL, race_address, NULL) != 0)
        return;
    for (int i = 0; i < rounds; i++) {
        struct i2c_rdwr_ioctl_data one = {raced_list, 1};
        (void)ioctl(bus, I2C_RDWR, &one);
    }
    racing = 0;
    pthread_join(thread, NULL);
    for (int i = 0; i < 100; i++) { /* more than the files that kern keeps ready */
        int again = open("/dev/i2c-0", O_RDWR);
        need("opening it often", again);
        expect("parked each time", read_byte(again, 0), 0);
        close(again);
    }
}

/* ---- A bus that takes plain messages ---- */

static int send_list(int bus, struct i2c_msg *list, unsigned count)
{
    struct i2c_rdwr_ioctl_data request = {list, count};
    return ioctl(bus, I2C_RDWR, &request);
}

/* All that is odd about one message, and is not granted. */
static void odd_messages(int bus)
{
    static uint8_t bytes[8192];
    const unsigned flags[] = {I2C_M_TEN,        I2C_M_NOSTART,   I2C_M_REV_DIR_ADDR,
                              I2C_M_IGNORE_NAK, I2C_M_NO_RD_ACK, I2C_M_DMA_SAFE};
    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) {
        struct i2c_msg one = {.addr = 0x40, .flags = (uint16_t)flags[i], .len = 1, .buf = bytes};
        expect("a flag", send_list(bus, &one, 1), EPERM);
    }
    struct i2c_msg far = {.addr = 0x140, .len = 1, .buf = bytes};
    expect("an address with more bits", send_list(bus, &far, 1), EPERM);
    struct i2c_msg long_one = {.addr = 0x40, .len = 8193, .buf = bytes};
    expect("a long message", send_list(bus, &long_one, 1), EINVAL);
    struct i2c_msg nowhere = {.addr = 0x40, .flags = I2C_M_RD, .len = 1, .buf = (void *)8};
    expect("a message nowhere", send_list(bus, &nowhere, 1), EFAULT);
    struct i2c_msg tail[42];
    for (unsigned i = 0; i < 42; i++)
        tail[i] = (struct i2c_msg){.addr = i == 41 ? 0x42 : 0x40, .flags = I2C_M_RD, .len = 1, .buf = bytes};
    expect("the last of 42", send_list(bus, tail, 42), EPERM);
    for (unsigned i = 0; i < 42; i++)
        tail[i] = (struct i2c_msg){.addr = 0x40, .flags = I2C_M_RD, .len = 8192, .buf = bytes};
    expect("more bytes than kern takes", send_list(bus, tail, 42), EMSGSIZE);
    /* Read only: a write ahead of a read of another device, a pointer of two bytes, SMBus writes and process calls. */
    struct i2c_msg pair[2] = {{.addr = 0x41, .len = 1, .buf = bytes},
                              {.addr = 0x40, .flags = I2C_M_RD, .len = 1, .buf = bytes}};
    expect("a write ahead of another's read", send_list(bus, pair, 2), EPERM);
    pair[1].addr = 0x41;
    need("a pointer and a read", send_list(bus, pair, 2));
    pair[1].len = 0;
    expect("a read of nothing", send_list(bus, pair, 2), EPERM);
    pair[0].len = 2;
    expect("a pointer of two bytes", send_list(bus, pair, 2), EPERM);
}

static void block_tricks(int bus)
{
    union i2c_smbus_data data = {.block = {255}};
    const unsigned sizes[] = {I2C_SMBUS_QUICK,     I2C_SMBUS_BYTE,           I2C_SMBUS_BYTE_DATA,
                              I2C_SMBUS_WORD_DATA, I2C_SMBUS_BLOCK_DATA,     I2C_SMBUS_I2C_BLOCK_DATA,
                              I2C_SMBUS_PROC_CALL, I2C_SMBUS_BLOCK_PROC_CALL};
    need("the read-only address", ioctl(bus, I2C_SLAVE, 0x41));
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct i2c_smbus_ioctl_data request = {I2C_SMBUS_WRITE, 0, sizes[i], &data};
        expect("a write by SMBus", ioctl(bus, I2C_SMBUS, &request), EPERM);
    }
    struct i2c_smbus_ioctl_data process = {I2C_SMBUS_READ, 0, I2C_SMBUS_PROC_CALL, &data};
    expect("a process call", ioctl(bus, I2C_SMBUS, &process), EPERM);
    uint8_t bytes[2] = {0};
    expect("write(2) to a read-only address", write(bus, bytes, 2), 0);
    need("the granted address", ioctl(bus, I2C_SLAVE, 0x40));
    for (unsigned length = 33; length <= 255; length += 222) { /* a block has at most 32 bytes */
        data.block[0] = (uint8_t)length;
        struct i2c_smbus_ioctl_data request = {I2C_SMBUS_WRITE, 0, I2C_SMBUS_BLOCK_DATA, &data};
        expect("a block that is too long", ioctl(bus, I2C_SMBUS, &request), EINVAL);
    }
    struct i2c_smbus_ioctl_data odd = {I2C_SMBUS_READ, 0, 99, &data};
    expect("a kind that there is not", ioctl(bus, I2C_SMBUS, &odd), EINVAL);
    struct i2c_smbus_ioctl_data nothing = {I2C_SMBUS_READ, 0, I2C_SMBUS_BYTE_DATA, NULL};
    expect("no place for the answer", ioctl(bus, I2C_SMBUS, &nothing), EINVAL);
}

static void *race_messages(void *unused)
{
    while (racing)
        __atomic_store_n(&raced_list[0].addr, raced_list[0].addr == 0x40 ? 0x42 : 0x40, __ATOMIC_RELAXED);
    return unused;
}

static void attack_messages(int rounds)
{
    int bus = open("/dev/i2c-1", O_RDWR | O_CLOEXEC);
    need("opening the bus", bus);
    odd_messages(bus);
    block_tricks(bus);
    pthread_t thread;
    uint8_t byte = 0;
    unsigned done = 0;
    raced_list[0] = (struct i2c_msg){.addr = 0x40, .flags = I2C_M_RD, .len = 1, .buf = &byte};
    if (pthread_create(&thread, NULL, race_messages, NULL) != 0)
        return;
    for (int i = 0; i < rounds; i++)
        done += send_list(bus, raced_list, 1) == 1;
    racing = 0;
    pthread_join(thread, NULL);
    if (done == 0 || (rounds > 100 && done == (unsigned)rounds))
        expect("a race that was none", 0, 0);
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int rounds = count > 2 ? atoi(words[2]) : 1000;
    if (count > 1 && strcmp(words[1], "i2c") == 0)
        attack_bus(rounds);
    else if (count > 1 && strcmp(words[1], "messages") == 0)
        attack_messages(rounds);
    else
        attack_lines(rounds);
    return breaches != 0;
}

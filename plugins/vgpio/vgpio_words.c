/* Reads the items of `pins` and `i2c`; see vgpio_words.h. Tables come as JSON text, which libjansson reads. Pure; runs in kern. */
#include "vgpio_words.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LINE_MOST     4095
#define BUS_MOST      1023
#define ADDRESS_LEAST 0x03 /* below: general call and reserved */
#define ADDRESS_MOST  0x77 /* above: ten-bit prefixes and reserved */

int vgpio_read_number(const char *text, const char *prefix, uint32_t *ret_number)
{
    size_t length = prefix != NULL ? strlen(prefix) : 0;
    if (length > 0 && strncmp(text, prefix, length) == 0)
        text += length;
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || digits > 6 || text[digits] != '\0')
        return -EINVAL;
    *ret_number = (uint32_t)strtoul(text, NULL, 10);
    return 0;
}

static int refuse_pin(const char *text, const char *why, struct kern_error *err)
{
    int result = kern_refuse(err, 0, "cannot use pin %s: %s", text, why);
    kern_hint(err, "write 17, \"GPIO17\", \"gpiochip0:17\" or {chip = \"pinctrl-bcm2711\", line = 17}");
    return result;
}

static int keep(char *room, size_t size, const char *text, size_t length)
{
    if (length == 0 || length >= size)
        return -EINVAL;
    memcpy(room, text, length);
    room[length] = '\0';
    return 0;
}

static int set_line(struct vgpio_pin *pin, const char *text)
{
    if (text[0] == '-')
        return -EINVAL;
    if (text[0] == '\0' || text[strspn(text, "0123456789")] != '\0')
        return keep(pin->line, sizeof(pin->line), text, strlen(text));
    return vgpio_read_number(text, NULL, &pin->offset) == 0 && pin->offset <= LINE_MOST ? 0 : -ERANGE;
}

static int read_short_pin(const char *text, struct vgpio_pin *pin, struct kern_error *err)
{
    const char *colon = strrchr(text, ':');
    const char *line = colon != NULL ? colon + 1 : text;
    int failed = colon != NULL ? keep(pin->chip, sizeof(pin->chip), text, (size_t)(colon - text)) : 0;
    failed = failed == 0 ? set_line(pin, line) : failed;
    if (failed == -ERANGE)
        return refuse_pin(text, "no chip has that many lines", err);
    return failed == 0 ? 0 : refuse_pin(text, "that is neither a line nor CHIP:LINE", err);
}

/* ---- Tables ---- */

/* The place of `word` in a list that ends with NULL, or -1. */
static int place_of(const char *word, const char *const *list)
{
    for (int i = 0; list[i] != NULL; i++)
        if (strcmp(list[i], word) == 0)
            return i;
    return -1;
}

struct choice {
    const char *key;
    const char *const *words;
    size_t at; /* in struct vgpio_terms */
};

static const char *const directions[] = {"any", "in", "out", NULL};
static const char *const biases[] = {"as-is", "disabled", "pull-up", "pull-down", NULL};
static const char *const exits[] = {"none", "hold", "low", "high", "input", NULL};

static const struct choice choices[] = {
    {"direction", directions, offsetof(struct vgpio_terms, direction)},
    {"bias", biases, offsetof(struct vgpio_terms, bias)},
    {"on_exit", exits, offsetof(struct vgpio_terms, on_exit)},
};

static int set_choice(const char *text, const struct choice *choice, const json_t *value,
                      struct vgpio_terms *terms, struct kern_error *err)
{
    int place = json_is_string(value) ? place_of(json_string_value(value), choice->words) : -1;
    if (place >= 0) {
        ((uint8_t *)terms)[choice->at] = (uint8_t)place;
        return 0;
    }
    char list[96];
    size_t used = 0;
    for (size_t i = 0; choice->words[i] != NULL; i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s", i > 0 ? ", " : "",
                                 choice->words[i]); /* the words above fit */
    int result = kern_refuse(err, 0, "cannot use pin %s: %s is one of %s", text, choice->key, list);
    return result;
}

static int set_place(const char *text, const char *key, const json_t *value, struct vgpio_pin *pin,
                     struct kern_error *err)
{
    char number[32];
    const char *word = json_string_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0 && strcmp(key, "line") == 0) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value)); /* fits */
        word = number;
    }
    int failed = word == NULL               ? -EINVAL
                 : strcmp(key, "chip") == 0 ? keep(pin->chip, sizeof(pin->chip), word, strlen(word))
                                            : set_line(pin, word);
    if (failed == -ERANGE)
        return refuse_pin(text, "no chip has that many lines", err);
    return failed == 0 ? 0 : refuse_pin(text, "chip is a label or a name, line a number or a name", err);
}

static int set_pin_key(const char *text, const char *key, const json_t *value, struct vgpio_pin *pin,
                       struct kern_error *err)
{
    if (strcmp(key, "chip") == 0 || strcmp(key, "line") == 0)
        return set_place(text, key, value, pin, err);
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        if (strcmp(choices[i].key, key) == 0)
            return set_choice(text, &choices[i], value, &pin->terms, err);
    if (strcmp(key, "active_low") == 0 && json_is_boolean(value)) {
        pin->terms.active_low = json_is_true(value);
        return 0;
    }
    char why[160];
    (void)snprintf(
        why, sizeof(why),
        "its keys are chip, line, direction, bias, on_exit and active_low (true or false), not \"%.32s\"",
        key); /* fits */
    return refuse_pin(text, why, err);
}

static int check_terms(const char *text, const struct vgpio_terms *terms, struct kern_error *err)
{
    if (terms->direction == VGPIO_IN &&
        (terms->on_exit == VGPIO_EXIT_LOW || terms->on_exit == VGPIO_EXIT_HIGH))
        return refuse_pin(text, "a line that is only read cannot be set on exit", err);
    return 0;
}

int vgpio_read_pin(const char *text, struct vgpio_pin *ret_pin, struct kern_error *err)
{
    struct vgpio_pin pin = {0};
    if (text[0] != '{') {
        int failed = read_short_pin(text, &pin, err);
        if (failed == 0)
            *ret_pin = pin;
        return failed;
    }
    json_auto_t *table = json_loads(text, 0, NULL);
    if (!json_is_object(table) || json_object_get(table, "line") == NULL)
        return refuse_pin(text, "it has no line", err);
    const char *key;
    json_t *value;
    json_object_foreach(table, key, value)
    {
        int failed = set_pin_key(text, key, value, &pin, err);
        if (failed != 0)
            return failed;
    }
    int failed = check_terms(text, &pin.terms, err);
    if (failed == 0)
        *ret_pin = pin;
    return failed;
}

/* ---- I2C ---- */

static int refuse_i2c(const char *text, const char *why, struct kern_error *err)
{
    int result = kern_refuse(err, 0, "cannot use i2c %s: %s", text, why);
    kern_hint(err, "write \"1\" for the whole of bus 1, or {bus = 1, address = 0x40} for one device of it");
    return result;
}

static int add_address(const char *text, const json_t *value, struct vgpio_i2c *i2c, struct kern_error *err)
{
    json_int_t address = json_is_integer(value) ? json_integer_value(value) : -1;
    char why[96];
    if (address >= ADDRESS_LEAST && address <= ADDRESS_MOST) {
        i2c->address[i2c->count++ % sizeof(i2c->address)] = (uint8_t)address;
        return 0;
    }
    (void)snprintf(why, sizeof(why), "an address is a number from 0x%02x to 0x%02x", ADDRESS_LEAST,
                   ADDRESS_MOST); /* fits */
    return refuse_i2c(text, why, err);
}

static int set_addresses(const char *text, const json_t *value, struct vgpio_i2c *i2c, struct kern_error *err)
{
    if (!json_is_array(value))
        return add_address(text, value, i2c, err);
    if (json_array_size(value) == 0 || json_array_size(value) > sizeof(i2c->address))
        return refuse_i2c(text, "a list of addresses has 1 to 128", err);
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < json_array_size(value); i++)
        failed = add_address(text, json_array_get(value, i), i2c, err);
    return failed;
}

static int set_bus(const char *text, const char *word, struct vgpio_i2c *i2c, struct kern_error *err)
{
    const char *number = strncmp(word, "/dev/", 5) == 0 ? word + 5 : word;
    if (vgpio_read_number(number, "i2c-", &i2c->bus) == 0 && i2c->bus <= BUS_MOST)
        return 0;
    return refuse_i2c(text, "that is no number of a bus", err);
}

static int set_i2c_key(const char *text, const char *key, const json_t *value, struct vgpio_i2c *i2c,
                       struct kern_error *err)
{
    char number[32];
    if (strcmp(key, "bus") == 0 && (json_is_string(value) || json_is_integer(value))) {
        (void)snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value)); /* fits */
        return set_bus(text, json_is_string(value) ? json_string_value(value) : number, i2c, err);
    }
    if (strcmp(key, "address") == 0)
        return set_addresses(text, value, i2c, err);
    if (strcmp(key, "readonly") == 0 && json_is_boolean(value)) {
        i2c->readonly = json_is_true(value);
        return 0;
    }
    return refuse_i2c(text, "its keys are bus, address (a number or a list) and readonly (true or false)",
                      err);
}

int vgpio_read_i2c(const char *text, struct vgpio_i2c *ret_i2c, struct kern_error *err)
{
    struct vgpio_i2c i2c = {0};
    int failed = 0;
    if (text[0] != '{') {
        failed = set_bus(text, text, &i2c, err);
    } else {
        json_auto_t *table = json_loads(text, 0, NULL);
        if (!json_is_object(table) || json_object_get(table, "bus") == NULL)
            return refuse_i2c(text, "it has no bus", err);
        const char *key;
        json_t *value;
        json_object_foreach(table, key, value)
        {
            failed = set_i2c_key(text, key, value, &i2c, err);
            if (failed != 0)
                return failed;
        }
        if (i2c.readonly && i2c.count == 0)
            return refuse_i2c(text, "readonly is for addresses; a whole bus cannot be read only", err);
    }
    if (failed == 0)
        *ret_i2c = i2c;
    return failed;
}

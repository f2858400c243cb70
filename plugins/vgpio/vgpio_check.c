/* Judges a [[vgpio]] profile against its [[gpio]] pool; see vgpio_check.h. Pure; runs in kern on the host. */
#include "vgpio_check.h"

#include "vgpio_words.h"

#include <string.h>

static int is_given(const kern_values *values, const char *key)
{
    return values != NULL && kern_get_source(values, key) != KERN_FROM_DEFAULT;
}

static int same_pin(const struct vgpio_pin *a, const struct vgpio_pin *b)
{
    int same_chip = a->chip[0] == '\0' || b->chip[0] == '\0' || strcmp(a->chip, b->chip) == 0;
    return same_chip && strcmp(a->line, b->line) == 0 && (a->line[0] != '\0' || a->offset == b->offset);
}

/* A pool that lists pins offers these and no others. */
static int is_offered(const kern_values *pool, const struct vgpio_pin *pin, struct kern_error *err)
{
    for (uint32_t i = 0; i < kern_get_count(pool, "pins"); i++) {
        struct vgpio_pin offered;
        int failed = vgpio_read_pin(kern_get_item(pool, "pins", i), &offered, err);
        if (failed != 0)
            return failed;
        /* A name in one list and a number in the other can only be compared where the chip is known: in prepare. */
        if (same_pin(&offered, pin) || (offered.line[0] == '\0') != (pin->line[0] == '\0'))
            return 1;
    }
    return kern_get_count(pool, "pins") == 0;
}

static int check_pin(const char *text, const kern_values *pool, struct kern_error *err)
{
    struct vgpio_pin pin;
    int result = vgpio_read_pin(text, &pin, err);
    if (result != 0)
        return result;
    if (pool == NULL && pin.chip[0] == '\0' && pin.line[0] == '\0') {
        result = kern_refuse(
            err, 0, "pin %s is a bare number, and the profile has no [[gpio]] pool that says of which chip",
            text);
        kern_hint(err,
                  "add [[gpio]] with id = \"header\" and write backend = \"header\", or {chip = \"LABEL\", "
                  "line = %u}",
                  pin.offset);
        return result;
    }
    if (pool == NULL)
        return 0;
    const char *id = kern_get_string(pool, "id");
    if (is_given(pool, "total-pins") && pin.line[0] == '\0' &&
        pin.offset >= (uint64_t)kern_get_int(pool, "total-pins"))
        return kern_refuse(err, 0, "pin %s is beyond pool \"%s\", which has %s lines (0 to %lld)", text, id,
                           kern_get_string(pool, "total-pins"),
                           (long long)kern_get_int(pool, "total-pins") - 1);
    result = is_offered(pool, &pin, err);
    return result < 0   ? result
           : result > 0 ? 0
                        : kern_refuse(err, 0, "pin %s is not among the pins of pool \"%s\"", text, id);
}

static int need_pool(const kern_values *profile, const kern_values *pool, const char *key,
                     struct kern_error *err)
{
    if (!is_given(profile, key) || pool != NULL)
        return 0;
    int result = kern_refuse(err, 0, "%s needs a [[gpio]] pool as its backend", key);
    kern_hint(err, "add [[gpio]] with id = \"header\", and write backend = \"header\" in the profile");
    return result;
}

int vgpio_check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    static const char *const pooled[] = {"pwm", "adc", "onewire"};
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(pooled) / sizeof(pooled[0]); i++)
        failed = need_pool(profile, pool, pooled[i], err);
    for (uint32_t i = 0; failed == 0 && i < kern_get_count(profile, "pins"); i++)
        failed = check_pin(kern_get_item(profile, "pins", i), pool, err);
    for (uint32_t i = 0; failed == 0 && i < kern_get_count(profile, "i2c"); i++) {
        struct vgpio_i2c i2c;
        failed = vgpio_read_i2c(kern_get_item(profile, "i2c", i), &i2c, err);
    }
    return failed;
}

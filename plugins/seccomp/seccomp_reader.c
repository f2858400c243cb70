/* Reads single values of a seccomp profile; see seccomp_reader.h. */
#include "seccomp_reader.h"

#include "kern/cleanup.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define LARGEST_ERRNO 4095

struct seccomp_place seccomp_place_below(const struct seccomp_place *above, const char *format, ...)
{
    struct seccomp_place below;
    size_t used = strlen(above->text);
    memcpy(below.text, above->text, used + 1);
    va_list args;
    va_start(args, format);
    format += used == 0 && format[0] == '.'; /* nothing to part from at the top */
    (void)vsnprintf(below.text + used, sizeof(below.text) - used, format, args); /* a cut place still helps */
    va_end(args);
    return below;
}

int seccomp_read_refuse(const struct seccomp_reader *reader, const struct seccomp_place *place,
                        const char *problem, const json_t *found)
{
    auto_free char *shown = found != NULL ? json_dumps(found, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
    return kern_refuse(reader->err, 0, "cannot use the seccomp profile \"%s\": %s: %s%s%.80s", reader->file,
                       place->text[0] != '\0' ? place->text : "the document", problem,
                       shown != NULL ? ": " : "", shown != NULL ? shown : "");
}

int seccomp_read_member(const struct seccomp_reader *reader, const json_t *object,
                        const struct seccomp_place *place, const char *key, json_type type,
                        json_t **ret_value)
{
    static const char wanted[][24] = {[JSON_OBJECT] = "an object is expected",
                                      [JSON_ARRAY] = "an array is expected",
                                      [JSON_STRING] = "a string is expected",
                                      [JSON_INTEGER] = "a number is expected"};
    json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        *ret_value = NULL;
        return 0;
    }
    if (json_typeof(value) != type) {
        struct seccomp_place here = seccomp_place_below(place, ".%s", key);
        return seccomp_read_refuse(reader, &here, wanted[type], value);
    }
    *ret_value = value;
    return 0;
}

int seccomp_read_keys(const struct seccomp_reader *reader, json_t *object, const struct seccomp_place *place,
                      const char *const *keys, size_t count)
{
    const char *key;
    json_t *value;
    json_object_foreach(object, key, value)
    {
        size_t i = 0;
        while (i < count && strcmp(keys[i], key) != 0)
            i++;
        if (i < count)
            continue;
        json_t *name = json_string(key);
        int failed = seccomp_read_refuse(reader, place, "unknown key", name);
        json_decref(name);
        return failed;
    }
    return 0;
}

int seccomp_read_errno(const struct seccomp_reader *reader, const json_t *object,
                       const struct seccomp_place *place, const char *number_key, const char *name_key,
                       uint16_t *ret_errno)
{
    json_t *number = NULL, *name = NULL;
    int failed = seccomp_read_member(reader, object, place, number_key, JSON_INTEGER, &number);
    if (failed == 0)
        failed = seccomp_read_member(reader, object, place, name_key, JSON_STRING, &name);
    if (failed != 0)
        return failed;
    json_int_t value = number != NULL ? json_integer_value(number) : EPERM;
    if (number == NULL && name != NULL) {
        value = 1;
        while (value <= LARGEST_ERRNO && (strerrorname_np((int)value) == NULL ||
                                          strcmp(strerrorname_np((int)value), json_string_value(name)) != 0))
            value++;
    }
    if (value < 0 || value > LARGEST_ERRNO) {
        struct seccomp_place here = seccomp_place_below(place, ".%s", number != NULL ? number_key : name_key);
        return seccomp_read_refuse(reader, &here, "not an errno", number != NULL ? number : name);
    }
    *ret_errno = (uint16_t)value;
    return 0;
}

int seccomp_read_action(const struct seccomp_reader *reader, const json_t *value,
                        const struct seccomp_place *place, uint16_t code, uint32_t *ret_action)
{
    const struct {
        char name[24];
        uint32_t action;
    } known[] = {{"SCMP_ACT_KILL", SCMP_ACT_KILL_THREAD},
                 {"SCMP_ACT_KILL_THREAD", SCMP_ACT_KILL_THREAD},
                 {"SCMP_ACT_KILL_PROCESS", SCMP_ACT_KILL_PROCESS},
                 {"SCMP_ACT_TRAP", SCMP_ACT_TRAP},
                 {"SCMP_ACT_ERRNO", SCMP_ACT_ERRNO(code)},
                 {"SCMP_ACT_TRACE", SCMP_ACT_TRACE(code)},
                 {"SCMP_ACT_ALLOW", SCMP_ACT_ALLOW},
                 {"SCMP_ACT_LOG", SCMP_ACT_LOG}};
    if (value == NULL)
        return seccomp_read_refuse(reader, place, "is missing", NULL);
    if (strcmp(json_string_value(value), "SCMP_ACT_NOTIFY") == 0)
        return seccomp_read_refuse(
            reader, place, "SCMP_ACT_NOTIFY is not available: a box has one listener, kern's own", NULL);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, json_string_value(value)) != 0)
            continue;
        *ret_action = known[i].action;
        return 0;
    }
    int failed = seccomp_read_refuse(reader, place, "unknown action", value);
    kern_hint(reader->err,
              "the actions are SCMP_ACT_ALLOW, SCMP_ACT_ERRNO, SCMP_ACT_KILL_PROCESS, "
              "SCMP_ACT_KILL_THREAD, SCMP_ACT_KILL, SCMP_ACT_TRAP, SCMP_ACT_TRACE and SCMP_ACT_LOG");
    return failed;
}

int seccomp_read_op(const struct seccomp_reader *reader, const json_t *value,
                    const struct seccomp_place *place, enum scmp_compare *ret_op)
{
    static const struct {
        char name[24];
        enum scmp_compare op;
    } known[] = {{"SCMP_CMP_NE", SCMP_CMP_NE},
                 {"SCMP_CMP_LT", SCMP_CMP_LT},
                 {"SCMP_CMP_LE", SCMP_CMP_LE},
                 {"SCMP_CMP_EQ", SCMP_CMP_EQ},
                 {"SCMP_CMP_GE", SCMP_CMP_GE},
                 {"SCMP_CMP_GT", SCMP_CMP_GT},
                 {"SCMP_CMP_MASKED_EQ", SCMP_CMP_MASKED_EQ}};
    if (value == NULL)
        return seccomp_read_refuse(reader, place, "is missing", NULL);
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        if (strcmp(known[i].name, json_string_value(value)) != 0)
            continue;
        *ret_op = known[i].op;
        return 0;
    }
    int failed = seccomp_read_refuse(reader, place, "unknown comparison", value);
    kern_hint(reader->err, "the comparisons are SCMP_CMP_EQ, NE, LT, LE, GE, GT and MASKED_EQ, each with the "
                           "prefix SCMP_CMP_");
    return failed;
}

int seccomp_read_number(const struct seccomp_reader *reader, const json_t *object,
                        const struct seccomp_place *place, const char *key, json_int_t largest,
                        uint64_t *ret_number)
{
    json_t *value = NULL;
    int failed = seccomp_read_member(reader, object, place, key, JSON_INTEGER, &value);
    if (failed != 0)
        return failed;
    if (value != NULL && (json_integer_value(value) < 0 || json_integer_value(value) > largest)) {
        struct seccomp_place here = seccomp_place_below(place, ".%s", key);
        return seccomp_read_refuse(reader, &here, "out of range", value);
    }
    *ret_number = value != NULL ? (uint64_t)json_integer_value(value) : 0;
    return 0;
}

/* Takes typed values out of a seccomp profile's JSON, or says what is wrong with them and where. Runs in
 * prepare, on the host side; part of the object that only --seccomp FILE loads. */
#ifndef SECCOMP_READER_H
#define SECCOMP_READER_H

#include "kern/plugin.h"

#include <jansson.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>

struct seccomp_reader {
    const char *file;
    uint64_t caps;
    unsigned kernel_major;
    unsigned kernel_minor;
    struct kern_error *err;
};

/* Where in the document: "syscalls[3].args[0]". */
struct seccomp_place {
    char text[96];
};

struct seccomp_place seccomp_place_below(const struct seccomp_place *above, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* `found` is shown as JSON in ASCII, so that no byte of the file reaches a terminal raw. */
int seccomp_read_refuse(const struct seccomp_reader *reader, const struct seccomp_place *place,
                        const char *problem, const json_t *found);

/* Docker writes null where it means "none". *ret_value is NULL then, and when the key is missing. */
int seccomp_read_member(const struct seccomp_reader *reader, const json_t *object,
                        const struct seccomp_place *place, const char *key, json_type type,
                        json_t **ret_value);

/* A key that is not known is a fault: a misspelt "includes" would silently widen the filter. */
int seccomp_read_keys(const struct seccomp_reader *reader, json_t *object, const struct seccomp_place *place,
                      const char *const *keys, size_t count);

#define SECCOMP_READ_KEYS(reader, object, place, keys) \
    seccomp_read_keys(reader, object, place, keys, sizeof(keys) / sizeof((keys)[0]))

int seccomp_read_number(const struct seccomp_reader *reader, const json_t *object,
                        const struct seccomp_place *place, const char *key, json_int_t largest,
                        uint64_t *ret_number);

/* "errnoRet" is Docker's number, "errno" Podman's name for it; with both, the number counts. */
int seccomp_read_errno(const struct seccomp_reader *reader, const json_t *object,
                       const struct seccomp_place *place, const char *number_key, const char *name_key,
                       uint16_t *ret_errno);

/* The action's name to SCMP_ACT_*; NULL stands for a missing one. */
int seccomp_read_action(const struct seccomp_reader *reader, const json_t *value,
                        const struct seccomp_place *place, uint16_t code, uint32_t *ret_action);
int seccomp_read_op(const struct seccomp_reader *reader, const json_t *value,
                    const struct seccomp_place *place, enum scmp_compare *ret_op);

#endif

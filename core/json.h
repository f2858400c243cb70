/* Writing JSON into a growing buffer, with commas and escapes taken care of. Pure. Nothing is parsed here. */
#ifndef CORE_JSON_H
#define CORE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct core_json {
    char *text; /* NUL-terminated; owned; NULL until something was written */
    size_t length, room;
    bool comma;  /* the next value needs one */
    bool failed; /* memory ran out: text is not to be used */
};

void core_json_open(struct core_json *json, const char *key, char bracket);
void core_json_close(struct core_json *json, char bracket);
void core_json_string(struct core_json *json, const char *key, const char *value); /* NULL: null */
void core_json_int(struct core_json *json, const char *key, int64_t value);
void core_json_bool(struct core_json *json, const char *key, bool value);
void core_json_null(struct core_json *json, const char *key);
/* Milliseconds with three decimals, bytes as they are: a number or, below 0, null. */
void core_json_known(struct core_json *json, const char *key, int64_t value);
void core_json_double(struct core_json *json, const char *key, double value);
void core_json_free(struct core_json *json);

#endif

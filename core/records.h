/* What is written down about a box for those who look at it from outside: `kern ps`, `stop`, `inspect` and their like. A living
 * box's record is its state file (registry.h), "key value" lines that only ever grow, the last of a key counting; a
 * detached one that has ended leaves a short record for a day. Host side. */
#ifndef CORE_RECORDS_H
#define CORE_RECORDS_H

#include "box.h"

#define CORE_RECORD_MOST  ((size_t)256 * 1024) /* bytes of a record that are looked at */
#define CORE_EXITED_FOR_S ((int64_t)24 * 3600)

struct core_record {
    char name[CORE_NAME_MAX + 1];
    unsigned place; /* which run directory, for core_registry_run() */
    int pid;
    bool exited;
    char *text;   /* owned: the lines, cut into strings */
    char **line;  /* owned: key, value, key, value ... */
    size_t count; /* of pairs */
};

struct core_records {
    struct core_record *item;
    size_t count;
};

/* Living boxes, sorted by name; with `exited` those that ended within a day as well. Nothing that is not this user's own
 * file, or that no living kern holds, is believed. */
int core_records_read(bool exited, struct core_records *ret_records, struct kern_error *err);
/* One living box of that name. Returns 0 and the record, -ENOENT (an error is set: "no running box named"), or another error. */
int core_record_find(const char *name, struct core_record *ret_record, struct kern_error *err);
/* The record of one that ended within a day, or -ENOENT without an error. */
int core_record_find_exited(const char *name, struct core_record *ret_record);
void core_records_clear(struct core_records *records);
void core_record_clear(struct core_record *record);

/* The last value of `key`, or NULL; the nth one of a key that may stand there several times. */
const char *core_record_get(const struct core_record *record, const char *key);
const char *core_record_nth(const struct core_record *record, const char *key, unsigned index);
int64_t core_record_number(const struct core_record *record, const char *key, int64_t otherwise);

struct core_json;
/* "labels": {...} and NAME: [...] of the values of a key. */
void core_record_labels(const struct core_record *record, struct core_json *json);
void core_record_list(const struct core_record *record, const char *key, const char *name,
                      struct core_json *json);

/* In a supervisor: what the box is, once it runs; a change of a value; how it ended. */
void core_record_describe(kern_box *box);
void core_record_change(kern_box *box, const char *key, const char *value);
void core_record_ended(kern_box *box, int exit_code);
/* In the sweep: `text` is the state of a box whose kern was killed. Keeps a row for it where it was a detached one. */
void core_record_lost(int run, const char *name, const char *text);
/* Removes the rows, and the logs that belong to them, that are older than a day. */
void core_records_forget(int run);
/* Removes one such row and its log. Returns 0, -ENOENT when there is none. */
int core_record_remove(const char *name);

#endif

/* The flags of the verbs that look at boxes and end them; for verbs.c alone. */
#ifndef CORE_VERB_FLAGS_H
#define CORE_VERB_FLAGS_H

#include "kern/plugin.h"

#define FLAG KERN_OPT_FLAG

static const struct kern_option ps_flags[] = {
    {.name = "all",
     .type = KERN_BOOL,
     .flags = FLAG,
     .letter = "a",
     .help = "those that ended within a day as well"},
    {.name = "json", .type = KERN_BOOL, .flags = FLAG, .help = "print JSON"},
    {.name = "quiet", .type = KERN_BOOL, .flags = FLAG, .letter = "q", .help = "print names only"},
    {.name = "no-trunc",
     .type = KERN_BOOL,
     .flags = FLAG,
     .help = "whole commands, not their first line as far as it fits"},
    {.name = "format",
     .type = KERN_STRING,
     .flags = FLAG,
     .arg = "TEMPLATE",
     .help = "a line for each: {{.name}} and other fields of --json; {{json .}} is all of them"},
    {.name = "filter",
     .type = KERN_STRING,
     .flags = FLAG | KERN_OPT_LIST,
     .letter = "f",
     .arg = "K=V",
     .help = "only those with this name, status, health or label (label=K[=V], or K=V)"},
    {.name = NULL},
};

static const struct kern_option stop_flags[] = {
    {.name = "all", .type = KERN_BOOL, .flags = FLAG, .letter = "a", .help = "every box"},
    {.name = "timeout",
     .type = KERN_DURATION,
     .flags = FLAG,
     .letter = "t",
     .arg = "SECONDS",
     .min = 0,
     .max = INT64_C(31536000000),
     .fallback = "10",
     .help = "SIGKILL after this (default: what --stop-timeout of the box says)"},
    {.name = NULL},
};

static const struct kern_option kill_flags[] = {
    {.name = "all", .type = KERN_BOOL, .flags = FLAG, .letter = "a", .help = "every box"},
    {.name = "signal",
     .type = KERN_STRING,
     .flags = FLAG,
     .letter = "s",
     .arg = "SIGNAL",
     .fallback = "KILL",
     .help = "to the box's first process; KILL ends the box"},
    {.name = NULL},
};

static const struct kern_option rm_flags[] = {
    {.name = "force", .type = KERN_BOOL, .flags = FLAG, .letter = "f", .help = "end the box first"},
    {.name = NULL},
};

static const struct kern_option dry_flags[] = {
    {.name = "dry-run", .type = KERN_BOOL, .flags = FLAG, .help = "only list, and leave all of it"},
    {.name = NULL},
};

static const struct kern_option stats_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = FLAG, .help = "print JSON, once"},
    {.name = "format",
     .type = KERN_STRING,
     .flags = FLAG,
     .arg = "TEMPLATE",
     .help = "a line for each: {{.name}} and other fields of --json; {{json .}} is all of them"},
    {.name = "no-stream", .type = KERN_BOOL, .flags = FLAG, .help = "print once, also on a terminal"},
    {.name = NULL},
};

static const struct kern_option logs_flags[] = {
    {.name = "follow", .type = KERN_BOOL, .flags = FLAG, .letter = "f", .help = "go on until the box ends"},
    {.name = "tail",
     .type = KERN_INT,
     .flags = FLAG,
     .letter = "n",
     .arg = "N",
     .min = 0,
     .max = INT32_MAX,
     .fallback = "0",
     .help = "only the last N lines (default: all)"},
    {.name = "since",
     .type = KERN_STRING,
     .flags = FLAG,
     .arg = "TIME",
     .help = "only what is newer: a duration back from now, or a time as --timestamps shows it"},
    {.name = "timestamps", .type = KERN_BOOL, .flags = FLAG, .help = "begin each line with its time"},
    {.name = NULL},
};

static const struct kern_option attach_flags[] = {
    {.name = "interactive", .type = KERN_BOOL, .flags = FLAG, .letter = "i", .help = "type into it, too"},
    {.name = NULL},
};

static const struct kern_option volume_flags[] = {
    {.name = "json", .type = KERN_BOOL, .flags = FLAG, .help = "ls: print JSON"},
    {.name = "force", .type = KERN_BOOL, .flags = FLAG, .letter = "f", .help = "prune: do it"},
    {.name = "size",
     .type = KERN_SIZE,
     .flags = FLAG,
     .arg = "SIZE",
     .min = 1 << 20,
     .max = (INT64_C(64) << 40) - 1,
     .help = "create: what it may hold, as with -v SRC:DST:rw,max=SIZE"},
    {.name = NULL},
};

static const struct kern_option exec_flags[] = {
    {.name = "tty",
     .type = KERN_BOOL,
     .flags = FLAG,
     .letter = "t",
     .help = "a terminal of the command's own"},
    {.name = "interactive",
     .type = KERN_BOOL,
     .flags = FLAG,
     .letter = "i",
     .help = "keep standard input, without a terminal"},
    {.name = "env",
     .type = KERN_STRING,
     .flags = FLAG | KERN_OPT_LIST,
     .letter = "e",
     .arg = "K=V",
     .help = "environment variable, over those of the box"},
    {.name = "env-file",
     .type = KERN_PATH,
     .flags = FLAG | KERN_OPT_LIST,
     .arg = "FILE",
     .help = "file of K=V lines; # and blank lines are skipped"},
    {.name = "workdir",
     .type = KERN_STRING,
     .flags = FLAG,
     .letter = "w",
     .arg = "DIR",
     .help = "working directory in the box; without it, that of the box"},
    {.name = "timeout",
     .type = KERN_DURATION,
     .flags = FLAG,
     .arg = "SECONDS",
     .min = 1,
     .max = INT64_C(31536000000),
     .help = "SIGTERM after SECONDS (decimals accepted), SIGKILL two seconds later"},
    {.name = "report",
     .type = KERN_STRING,
     .flags = FLAG,
     .arg = "FILE|fd:N",
     .help = "write one JSON object that says how the command ended"},
    {.name = "quiet", .type = KERN_BOOL, .flags = FLAG, .letter = "q", .help = "no notes and warnings"},
    {.name = NULL},
};

#undef FLAG
#endif

/* Resource limits as text; see creds_ulimit.h. Pure. */
#include "creds_ulimit.h"

#include "creds_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define RESOURCE_COUNT 16

static const char *const names[RESOURCE_COUNT] = {
    [RLIMIT_AS] = "as",           [RLIMIT_CORE] = "core",         [RLIMIT_CPU] = "cpu",
    [RLIMIT_DATA] = "data",       [RLIMIT_FSIZE] = "fsize",       [RLIMIT_LOCKS] = "locks",
    [RLIMIT_MEMLOCK] = "memlock", [RLIMIT_MSGQUEUE] = "msgqueue", [RLIMIT_NICE] = "nice",
    [RLIMIT_NOFILE] = "nofile",   [RLIMIT_NPROC] = "nproc",       [RLIMIT_RSS] = "rss",
    [RLIMIT_RTPRIO] = "rtprio",   [RLIMIT_RTTIME] = "rttime",     [RLIMIT_SIGPENDING] = "sigpending",
    [RLIMIT_STACK] = "stack",
};

const char *creds_ulimit_name(int resource)
{
    return resource >= 0 && resource < RESOURCE_COUNT ? names[resource] : "unknown";
}

struct creds_ulimit_text creds_ulimit_format(rlim_t value)
{
    struct creds_ulimit_text out = {.text = "unlimited"};
    if (value != RLIM_INFINITY)
        (void)snprintf(out.text, sizeof(out.text), "%llu", (unsigned long long)value); /* 20 digits fit */
    return out;
}

static int find_resource(const char *name, size_t length)
{
    for (int resource = 0; resource < RESOURCE_COUNT; resource++)
        if (strlen(names[resource]) == length && memcmp(names[resource], name, length) == 0)
            return resource;
    return -1;
}

static int refuse_name(const char *text, size_t length, struct kern_error *err)
{
    char name[32];
    size_t kept = length < sizeof(name) ? length : sizeof(name) - 1;
    memcpy(name, text, kept);
    name[kept] = '\0';
    int result = kern_refuse(err, 0, "--ulimit \"%s\": unknown limit \"%s\"", text, name);
    const char *nearest = creds_nearest(name, names, RESOURCE_COUNT);
    if (nearest != NULL)
        kern_hint(err, "did you mean --ulimit %s%s?", nearest, text + length);
    else
        kern_hint(err, "known: nofile nproc core as cpu data fsize locks memlock msgqueue nice rss rtprio "
                       "rttime sigpending stack");
    return result;
}

static int read_value(const char *text, size_t length, rlim_t *ret_value)
{
    if ((length == 9 && memcmp(text, "unlimited", 9) == 0) || (length == 2 && memcmp(text, "-1", 2) == 0)) {
        *ret_value = RLIM_INFINITY;
        return 0;
    }
    uint64_t number = 0;
    int result = creds_decimal(text, length, RLIM_INFINITY - 1, &number);
    if (result == 0)
        *ret_value = number;
    return result;
}

int creds_ulimit_parse(const char *text, struct creds_ulimit *ret_ulimit, struct kern_error *err)
{
    const char *equals = strchr(text, '=');
    size_t name_length = equals != NULL ? (size_t)(equals - text) : strlen(text);
    int resource = find_resource(text, name_length);
    if (resource < 0)
        return refuse_name(text, name_length, err);
    const char *soft = equals != NULL ? equals + 1 : text + name_length;
    const char *colon = strchr(soft, ':');
    size_t soft_length = colon != NULL ? (size_t)(colon - soft) : strlen(soft);
    const char *hard = colon != NULL ? colon + 1 : soft;
    size_t hard_length = colon != NULL ? strlen(hard) : soft_length;

    struct rlimit limit = {0};
    if (read_value(soft, soft_length, &limit.rlim_cur) < 0 ||
        read_value(hard, hard_length, &limit.rlim_max) < 0) {
        int result = kern_refuse(err, 0, "--ulimit \"%s\": a limit is a whole number or \"unlimited\"", text);
        kern_hint(err, "write it as --ulimit %s=SOFT or --ulimit %s=SOFT:HARD", names[resource],
                  names[resource]);
        return result;
    }
    if (limit.rlim_cur > limit.rlim_max)
        return kern_refuse(err, 0, "--ulimit \"%s\": the soft limit is above the hard limit", text);
    *ret_ulimit = (struct creds_ulimit){.resource = resource, .limit = limit};
    return 0;
}

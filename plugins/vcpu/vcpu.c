/* The vcpu plugin: a [[vcpu]] profile becomes limits of the box. Everything happens in kern, in prepare: the core has
 * applied the keys that are options of the box themselves (cpus, memory); what is left is where it runs and how
 * eagerly. The cgroup plugin and the creds plugin, which prepare later, do the binding. */
#include "vcpu_manifest.h"

#include "kern/cleanup.h"
#include "vcpu_check.h"
#include "vcpu_cpus.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define NODES "/sys/devices/system/node"

/* Room for the CPU list of a large machine with every second CPU off. */
#define LIST_SIZE 4096

/* Reads one line of sysfs without its newline. */
static int read_line(const char *path, char *ret_line, size_t size)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    ssize_t got = read(fd, ret_line, size - 1);
    if (got < 0)
        return -errno;
    ret_line[got] = '\0';
    ret_line[strcspn(ret_line, "\n")] = '\0';
    return 0;
}

static int refuse_node(const char *profile, int64_t node, struct kern_error *err)
{
    char online[256];
    if (read_line(NODES "/online", online, sizeof(online)) < 0)
        return kern_refuse(err, 0, "vcpu \"%s\": numa = %lld, but this machine tells nothing of NUMA nodes",
                           profile, (long long)node);
    int result =
        kern_refuse(err, 0, "vcpu \"%s\": this machine has no NUMA node %lld", profile, (long long)node);
    kern_hint(err, "nodes that exist: %s; set numa in [[vcpu]] or [[cpu]] to one of them", online);
    return result;
}

static int read_node(const char *profile, int64_t node, struct vcpu_cpus *ret_cpus, struct kern_error *err)
{
    char path[sizeof(NODES) + 40];
    (void)snprintf(path, sizeof(path), NODES "/node%lld/cpulist", (long long)node); /* 20 digits fit */
    char list[LIST_SIZE];
    int result = read_line(path, list, sizeof(list));
    if (result == -ENOENT)
        return refuse_node(profile, node, err);
    if (result == 0)
        result = vcpu_cpus_parse(list, ret_cpus);
    if (result < 0)
        return kern_refuse(err, -result, "vcpu \"%s\": cannot read \"%s\"", profile, path);
    return 0;
}

static int has(const kern_values *values, const char *key)
{
    return values != NULL && kern_get_source(values, key) != KERN_FROM_DEFAULT;
}

/* Narrows `cpus` to what one table, the profile's or its pool's, allows. */
static int narrow(const char *profile, const kern_values *table, struct vcpu_cpus *cpus,
                  struct kern_error *err)
{
    struct vcpu_cpus allowed;
    if (has(table, "cpuset")) {
        const char *list = kern_get_string(table, "cpuset");
        int result = vcpu_cpus_parse(list, &allowed);
        if (result < 0)
            return kern_refuse(err, -result, "vcpu \"%s\": cannot use cpuset \"%s\"", profile, list);
        vcpu_cpus_intersect(cpus, &allowed);
    }
    if (has(table, "numa")) {
        int result = read_node(profile, kern_get_int(table, "numa"), &allowed, err);
        if (result < 0)
            return result;
        vcpu_cpus_intersect(cpus, &allowed);
    }
    return 0;
}

static int says_where(const kern_values *table)
{
    return has(table, "cpuset") || has(table, "numa");
}

/* Whatever the profile and its pool say of lists and nodes holds together. */
static int place(kern_box *box, uint32_t index, struct kern_error *err)
{
    const char *name = kern_profile_name(box, index);
    const kern_values *profile = kern_profile(box, index);
    const kern_values *pool = kern_profile_pool(box, index);
    if (!says_where(profile) && !says_where(pool))
        return 0;
    struct vcpu_cpus cpus;
    memset(&cpus, 0xff, sizeof(cpus));
    int result = narrow(name, profile, &cpus, err);
    if (result == 0)
        result = narrow(name, pool, &cpus, err);
    if (result < 0)
        return result;
    if (vcpu_cpus_is_empty(&cpus)) {
        (void)kern_refuse(err, 0, "vcpu \"%s\": no CPU is left to run on", name);
        kern_hint(err, "compare cpuset and numa of [[vcpu]] and its [[cpu]] with %s/node*/cpulist", NODES);
        return -EINVAL;
    }
    struct vcpu_cpus_text list;
    vcpu_cpus_format(&cpus, &list);
    return kern_set_option(box, "cpuset-cpus", list.text, err);
}

static int vcpu_prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)state; /* nothing outlives prepare */
    for (uint32_t i = 0; i < kern_profile_count(box); i++) {
        int result = place(box, i, err);
        const kern_values *profile = kern_profile(box, i);
        if (result == 0 && has(profile, "nice"))
            result = kern_set_option(box, "nice", kern_get_string(profile, "nice"), err);
        if (result < 0)
            return result;
    }
    return 0;
}

/* What prepare sets here, the cgroup plugin's prepare reads. */
static const char *const vcpu_before[] = {"cgroup", NULL};

KERN_PLUGIN(VCPU_MANIFEST, .before = vcpu_before, .prepare = vcpu_prepare, .check = vcpu_check);

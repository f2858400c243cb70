/* Judges a [[vdisk]] profile; see vdisk_check.h. Pure; runs in kern on the host, when kern.toml is read. */
#include "vdisk_check.h"

#include <errno.h>
#include <string.h>

#define NAME_MOST 64

/* It becomes the name of a file and of a directory in the box. */
static int check_name(const char *name, struct kern_error *err)
{
    static const char good[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    if (name[strspn(name, good)] == '\0' && name[0] != '.' && name[0] != '-' && strlen(name) <= NAME_MOST)
        return 0;
    return kern_refuse(err, 0, "\"%.80s\" cannot be the name of a disk: at most %d of A-Z a-z 0-9 _ . -",
                       name, NAME_MOST);
}

static int check_ram(const kern_values *profile, struct kern_error *err)
{
    static const char *const keys[] = {"iops", "bandwidth"};
    if (kern_get_int(profile, "persistent") != 0) {
        kern_refuse(err, 0, "what is in memory cannot be persistent");
        kern_hint(err, "declare a [[disk]] pool and name it in backend, or leave out persistent");
        return -EINVAL;
    }
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (kern_get_string(profile, keys[i]) != NULL)
            return kern_refuse(err, 0, "%s needs a [[disk]] pool: memory cannot be throttled", keys[i]);
    return 0;
}

int vdisk_check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    int failed = check_name(kern_get_string(profile, "name"), err);
    if (failed != 0 || pool == NULL)
        return failed != 0 ? failed : check_ram(profile, err);
    int64_t size = kern_get_int(profile, "size");
    if (size < VDISK_DISK_LEAST)
        return kern_refuse(err, 0, "size = %s is too small for ext4: 1m is the least",
                           kern_get_string(profile, "size"));
    if (kern_get_string(pool, "size") != NULL && size > kern_get_int(pool, "size"))
        return kern_refuse(err, 0, "size = %s is more than the %s of pool \"%s\"",
                           kern_get_string(profile, "size"), kern_get_string(pool, "size"),
                           kern_get_string(pool, "id"));
    return 0;
}

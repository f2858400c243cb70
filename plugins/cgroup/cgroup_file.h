/* The files of a group, by name below a descriptor of its directory. Runs in kern; none of this allocates. */
#ifndef CGROUP_FILE_H
#define CGROUP_FILE_H

#include <stddef.h>

/* An O_PATH descriptor of `path`, refused with -ENOTSUP where it is not a control group of either version. */
int cgroup_open_group(const char *path, int *ret_fd);

int cgroup_write(int dir, const char *file, const char *text);
/* The beginning of the file, NUL-terminated. */
int cgroup_read(int dir, const char *file, char *text, size_t room);
/* Writes and reads what the kernel made of it through one descriptor. `text` is "" when it cannot be read. */
int cgroup_write_back(int dir, const char *file, const char *value, char *text, size_t room);

#endif

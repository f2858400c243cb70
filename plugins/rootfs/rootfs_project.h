/* Volumes with a size on file systems that have project quotas (ext4 and xfs, mounted with prjquota): what is in the directory
 * gets a project id of kern's for as long as the box lives, and the kernel lets that project have no more. Runs in kern, as real
 * root, on the host. Compiled into the plugin (prepare, teardown) and into the core (the sweep of what a killed kern left). */
#ifndef ROOTFS_PROJECT_H
#define ROOTFS_PROJECT_H

#include <stdint.h>
#include <sys/types.h>

/* One id for each volume of each living kern: a range that nobody else uses by habit. */
#define ROOTFS_PROJECT_FIRST    UINT32_C(0x4b000000)
#define ROOTFS_PROJECTS_PER_BOX 8u

uint32_t rootfs_project_id(pid_t pid, uint32_t index);

/* 0 when the directory `dir` (any descriptor of it) could be held to a size. -ENOTSUP: no project quota, or not enforced; -EBUSY:
 * it belongs to a project already, or the id is in use. Changes nothing. */
int rootfs_project_probe(int dir, uint32_t id);
/* Gives all that is in it to the project and lets that have `most` bytes, read back. On failure everything is as it was: -E2BIG
 * when more is in it already or it has too many files to go through, or any other -errno. */
int rootfs_project_hold(int dir, uint32_t id, uint64_t most);
/* The way back. What belongs to other projects is left alone. */
void rootfs_project_release(int dir, uint32_t id);
/* What a killed kern with this pid wrote down: "ID PATH". Judges both: an id that is not that kern's is ignored. */
void rootfs_project_sweep(const char *record, pid_t pid);

#endif

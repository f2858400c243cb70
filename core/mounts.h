/* What stands in a box besides its root: asked for in prepare, attached by the box's first process. */
#ifndef CORE_MOUNTS_H
#define CORE_MOUNTS_H

#include "box.h"

/* Host side. Fills identity (device, inode, canonical path) from an O_PATH descriptor; keeps a duplicate. */
int core_mount_source(struct core_mount *mount, int fd, struct kern_error *err);
/* Host side. The canonical path of what a descriptor stands for. */
int core_mount_source_path(int fd, char *ret_path, size_t size, struct kern_error *err);
/* Host side, real root, before the clone, so that every process of the box has the descriptors: detached copies of all
 * sources. */
int core_detach_sources(kern_box *box, struct kern_error *err);
/* Host side, before the clone: mounts that plugins made go to the box as they are. */
void core_offer_trees(kern_box *box);
/* After the maps are written: gives those copies the ids of the box. */
int core_idmap_mounts(kern_box *box, struct kern_error *err);
void core_mounts_clear(kern_box *box);
/* The nodes that were made for a box of real root, when it has ended and before its state file is gone. */
void core_mounts_remove_nodes(const kern_box *box);

/* Child. Opens a source again by its canonical path and refuses anything but what prepare saw. */
int core_mount_reopen(const struct core_mount *mount, int *ret_fd, struct kern_error *err);
/* Child. Attaches all of box->mount below box->root_fd, parents before children. */
int core_attach_mounts(kern_box *box, struct kern_error *err);
/* Child, once it is known whom the command runs as and while that may still be said of a file: those that are for the command. */
int core_give_files(kern_box *box, uint32_t uid, uint32_t gid, struct kern_error *err);
/* Child. Opens a directory of the new root, creating what is missing where the root is the box's own. */
int core_root_mkdirs(kern_box *box, const char *path, int *ret_fd, struct kern_error *err);

#endif

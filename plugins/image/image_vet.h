/* What an archive may name: judged before anything is made. Pure. */
#ifndef IMAGE_VET_H
#define IMAGE_VET_H

#include <limits.h>
#include <stddef.h>

#define IMAGE_DEEPEST 512u

/* The path below the layer's root, without "." parts and doubled slashes; "" is the root itself. NULL on success, or why
 * the name is refused. */
const char *image_vet_name(const char *name, char ret_path[static PATH_MAX]);

/* What the last part of a path stands for. */
#define IMAGE_NAME_PLAIN    0
#define IMAGE_NAME_WHITEOUT 1 /* *ret_hidden is the name it hides */
#define IMAGE_NAME_OPAQUE   2 /* all below its directory is hidden */
#define IMAGE_NAME_IGNORED  3 /* bookkeeping of another program */
#define IMAGE_NAME_BAD      4 /* hides "", "." or ".." */
int image_vet_whiteout(const char *base, const char **ret_hidden);

/* 1: an extended attribute that a layer may set. Not those that an overlay would take for its own. */
int image_vet_xattr(const char *name);

#endif

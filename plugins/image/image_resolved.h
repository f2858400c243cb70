/* A resolved image: the one small file that a start reads, and what it says. Lines of a word and a value; the last is
 * "end", so that a file cut short is none. Pure but for reading. */
#ifndef IMAGE_RESOLVED_H
#define IMAGE_RESOLVED_H

#include "kern/plugin.h"

#include <stdint.h>

#define IMAGE_VALUES_MOST   1024u
#define IMAGE_RESOLVED_MOST ((size_t)1 << 20) /* bytes of the file */

struct image_list {
    char **item; /* in `text` of the image */
    uint32_t count;
};

struct image_resolved {
    char *ref;      /* in full */
    char *digest;   /* what the reference means: the registry's, or the manifest's own */
    char *manifest; /* digests of blobs */
    char *config;
    char *platform;          /* OS/ARCH[/VARIANT] */
    int64_t pulled;          /* seconds since 1970 */
    struct image_list layer; /* "BLOB DIFF SIZE", the lowest first */
    struct image_list entrypoint, cmd, env, volume;
    char *workdir, *user, *stop_signal; /* NULL where the image says nothing */
    char *text;                         /* owns all of it, with the arrays */
    char **items;
};

/* Takes `text` apart, which must come from malloc and is the image's from then on, also on failure. 0 or -EBADMSG. */
int image_resolved_parse(char *text, struct image_resolved *ret_image);
/* 0, -ENOENT, -EBADMSG for a file that is not whole, or another errno. */
int image_resolved_read(int refs, const char *full, struct image_resolved *ret_image);
void image_resolved_clear(struct image_resolved *image);

/* Appends a line to a growing text; `value` may hold any bytes but NUL. 0 or -ENOMEM. */
struct image_text {
    char *text;
    size_t length, room;
};
int image_text_line(struct image_text *out, const char *word, const char *value);

#endif

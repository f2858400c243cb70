/* Image references and digests: what the user writes, taken apart. Pure. */
#ifndef IMAGE_REF_H
#define IMAGE_REF_H

#include "kern/plugin.h"

#define IMAGE_DIGEST_SIZE 72 /* "sha256:" and 64 hexadecimal digits, with the NUL */
#define IMAGE_REF_SIZE    256

/* Where an image without a host is. */
#define IMAGE_DEFAULT_HOST \
    "docker"               \
    ".io"

/* "alpine" is host IMAGE_DEFAULT_HOST, repository "library/alpine", tag "latest". A digest wins over a tag, which is then "". */
struct image_ref {
    char host[128]; /* with its port, if one was given */
    char repository[IMAGE_REF_SIZE];
    char tag[132];                  /* "" with a digest */
    char digest[IMAGE_DIGEST_SIZE]; /* "" with a tag */
};

/* Refused: what is not a reference, or one of 240 characters and more in full. */
int image_ref_parse(const char *text, struct image_ref *ret_ref, struct kern_error *err);

/* In full: HOST/REPOSITORY:TAG or HOST/REPOSITORY@DIGEST. Two references are one image when these are equal. */
void image_ref_full(const struct image_ref *ref, char ret_text[static IMAGE_REF_SIZE]);

/* As people write it: without the default host and "library/". */
void image_ref_short(const struct image_ref *ref, char ret_text[static IMAGE_REF_SIZE]);

/* 1 for "sha256:" and 64 lower-case hexadecimal digits. No other algorithm is accepted anywhere. */
int image_digest_is_valid(const char *text);

#endif

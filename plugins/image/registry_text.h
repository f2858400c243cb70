/* Base64, for Basic authentication and Docker's config.json. Pure. */
#ifndef REGISTRY_TEXT_H
#define REGISTRY_TEXT_H

#include <stddef.h>

/* NULL: no memory. Free it after explicit_bzero() when it is secret. */
char *registry_base64(const char *bytes, size_t length);
/* NUL-terminated into `ret_text`. Returns the length, or -EINVAL for what is not base64, does not fit or holds a NUL. */
int registry_base64_decode(const char *text, char *ret_text, size_t size);

#endif

/* The registry client, as its callers see it: the verbs pull, login and logout, and the image plugin for `kern box --image`.
 * An object of its own (image_registry.so, with libcurl and jansson) that they open by kern_companion() only when a registry
 * has to be asked. Its functions run in kern itself and start the processes that do the work. */
#ifndef REGISTRY_H
#define REGISTRY_H

#include "image_ref.h"

#define REGISTRY_OBJECT "image_registry"

struct registry_request {
    uint32_t struct_size;
    uint32_t lines;       /* 1: layers are told on standard output, 0: as notes */
    const char *platform; /* "linux/arm64"; NULL: this machine's */
    struct image_ref ref;
    uint32_t signal;                /* filled with -EINTR */
    char digest[IMAGE_DIGEST_SIZE]; /* filled: what the reference meant, of the index where there is one */
    char note[600]; /* filled where no platform was asked for: what it means that the image is for another */
};

/* Puts the image into the store. -EINTR when the user stopped it; what has come by then is kept. */
typedef int (*registry_pull_fn)(struct registry_request *request, struct kern_error *err);
KERN_EXPORT int registry_pull(struct registry_request *request, struct kern_error *err);

/* The same by what the user wrote, with notes instead of lines: what `kern box --image` calls in a child of kern. */
KERN_EXPORT int image_registry_pull(const char *text, struct kern_error *err);

struct registry_login {
    uint32_t struct_size;
    uint32_t plain; /* filled: the secret lies in a file, readable for who can read that */
    uint32_t open;  /* filled: the registry asked for no credentials, so these were not tried */
    const char *registry;
    const char *user;
    const char *secret;
    char where[200]; /* filled: where they are kept */
};

/* Tries the credentials and keeps them. */
typedef int (*registry_login_fn)(struct registry_login *login, struct kern_error *err);
KERN_EXPORT int registry_login(struct registry_login *login, struct kern_error *err);
/* -ENOENT without an error text: there were none. */
typedef int (*registry_logout_fn)(const char *registry, struct kern_error *err);
KERN_EXPORT int registry_logout(const char *registry, struct kern_error *err);

#endif

/* The verbs of images: what `kern load`, `import`, `save`, `tag`, `images`, `rmi`, `gc` and `inspect` do. In the object that is
 * opened for them. */
#ifndef IMAGE_TOOL_H
#define IMAGE_TOOL_H

#include "image_store_impl.h"

struct image_call {
    int count;    /* of the words after the verb */
    char **words; /* words[0] is the first of them */
    const kern_values *values;
};

/* The exported entry; 0, or a negative errno with the error filled. */
KERN_EXPORT int image_tool(const char *verb, int count, char **words, const kern_values *values,
                           struct kern_error *err);
/* 1 when the store has an image that the text means. */
KERN_EXPORT int image_tool_has(const char *text);
/* The exported entry for a start: unpacks what is missing for these ids. Prints nothing. */
KERN_EXPORT int image_tool_repair(const char *full, int want_range, struct kern_error *err);

int image_cmd_load(const struct image_call *call, struct kern_error *err);
int image_cmd_import(const struct image_call *call, struct kern_error *err);
int image_cmd_save(const struct image_call *call, struct kern_error *err);
int image_cmd_tag(const struct image_call *call, struct kern_error *err);
int image_cmd_images(const struct image_call *call, struct kern_error *err);
int image_cmd_rmi(const struct image_call *call, struct kern_error *err);
int image_cmd_gc(const struct image_call *call, struct kern_error *err);
int image_cmd_inspect(const struct image_call *call, struct kern_error *err);

/* With the limits of the caller's options where the verb has them. */
int image_open_for(const struct image_call *call, struct image_store **ret_store, struct kern_error *err);
/* Finds an image of the store by what the user wrote: a reference, or the beginning of its digest. */
int image_find(const struct image_store *store, const char *text, char ret_full[static IMAGE_REF_SIZE],
               struct image_resolved *ret_image, struct kern_error *err);
/* A manifest for layers and a configuration that came without one; its digest. */
int image_make_manifest(struct image_store *store, const char *config, uint64_t config_size,
                        const struct image_parts *parts, char ret_digest[static IMAGE_DIGEST_SIZE],
                        struct kern_error *err);
/* In a child: the directory as a tar into `out`; `fold`: all of it root's. 0 or -1. */
int image_pack_folder(int folder, int out, int fold);
/* All that comes out of `in`, as a blob. */
int image_take_stream(struct image_store *store, int in, char ret_digest[static IMAGE_DIGEST_SIZE],
                      uint64_t *ret_size, struct kern_error *err);
/* Frees what nothing uses. `wait` 0: only when nobody else is at work. `only_looks`: prints a line of each with its size
 * instead, and `ret_freed` is the sum. */
int image_collect(int wait, int only_looks, uint64_t *ret_freed, uint32_t *ret_things,
                  struct kern_error *err);

#endif

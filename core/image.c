/* What an image makes of a box, as the image plugin says it in prepare: where its layers are, its command, its name. The
 * layers are mounted by the rootfs plugin. Host side; kern_get_root_layers() also in the box's first process. */
#include "box.h"
#include "mounts.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int kern_root_layers(kern_box *box, int32_t fd, const char *folder, uint32_t count, struct kern_error *err)
{
    if (count == 0 || strlen(folder) >= sizeof(box->layer_folder) || strchr(folder, '/') != NULL)
        return kern_fail(err, EINVAL, "cannot use %u layers in \"%s\"", count, folder);
    int failed = kern_root_source(box, fd, err);
    if (failed != 0)
        return failed;
    memcpy(box->layer_folder, folder, strlen(folder) + 1);
    box->layer_count = count;
    return 0;
}

uint32_t kern_get_root_layers(const kern_box *box, const char **ret_folder)
{
    *ret_folder = box->layer_folder;
    return box->layer_count;
}

int kern_set_image(kern_box *box, const char *ref, const char *digest, struct kern_error *err)
{
    char *own_ref = strdup(ref), *own_digest = strdup(digest);
    if (own_ref == NULL || own_digest == NULL) {
        free(own_ref);
        free(own_digest);
        return kern_fail(err, ENOMEM, "cannot keep the name of image \"%s\"", ref);
    }
    free(box->image_ref);
    free(box->image_digest);
    box->image_ref = own_ref;
    box->image_digest = own_digest;
    return 0;
}

static size_t count_words(char *const *words)
{
    size_t count = 0;
    while (words[count] != NULL)
        count++;
    return count;
}

int kern_image_command(kern_box *box, char *const *entry, uint32_t entry_count, char *const *words,
                       uint32_t word_count, struct kern_error *err)
{
    if (!box->command_given && (box->own_terminal || entry_count + word_count == 0))
        return 0; /* a shell */
    char *const *rest = box->command_given ? box->command : words;
    size_t rest_count = box->command_given ? count_words(box->command) : word_count;
    char **command = calloc(entry_count + rest_count + 1, sizeof(*command));
    int failed = command == NULL ? -ENOMEM : 0;
    for (size_t i = 0; failed == 0 && i < entry_count + rest_count; i++) {
        command[i] = strdup(i < entry_count ? entry[i] : rest[i - entry_count]);
        failed = command[i] == NULL ? -ENOMEM : 0;
    }
    box->image_command = command; /* freed with the box */
    if (failed != 0)
        return kern_fail(err, ENOMEM, "cannot keep the command of the image");
    box->command = command;
    return 0;
}

/* The root of a box from an image: finds the resolved image and tells the core and the rootfs plugin what it holds. prepare
 * runs in kern on the host; the mounts are made by the rootfs plugin. A warm start reads one small file and takes one
 * lock here; what is missing is fetched and unpacked by a child, whose libraries kern itself never opens. */
#include "image_fetch.h"
#include "image_machine.h"
#include "image_manifest.h"
#include "image_place.h"
#include "image_resolved.h"

#include "kern/cleanup.h"
#include "kern/foundation.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>

struct image_state {
    struct image_resolved image;
    struct image_ids ids;
    int top, refs, layers;
    char links[80]; /* the name of the image's folder of links in `layers` */
    uint32_t links_count;
    int lock; /* the folder of links, locked as long as the box lives: gc leaves it and its layers alone */
};

/* ---- The store ---- */

static int open_store(struct image_state *state, struct kern_error *err)
{
    char path[PATH_MAX];
    struct stat st;
    if (image_directory(path, sizeof(path)) != 0)
        return kern_refuse(err, ENAMETOOLONG, "cannot find the image store");
    state->top = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (state->top < 0 && errno == ENOENT)
        return 0;
    if (state->top < 0 || fstat(state->top, &st) != 0)
        return kern_refuse(err, errno, "cannot open the image store \"%s\"", path);
    if (st.st_uid != geteuid() || (st.st_mode & 0077) != 0) {
        kern_refuse(err, 0, "cannot use the image store \"%s\": others could have written to it", path);
        kern_hint(err, "chown %u '%s' && chmod go-rwx '%s'", geteuid(), path, path);
        return -EPERM;
    }
    state->refs = openat(state->top, "refs", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return 0;
}

/* 0 with the image, -ENOENT where there is none, or -EBADMSG. */
static int find(struct image_state *state, const char *full, struct kern_error *err)
{
    if (state->top < 0) {
        int failed = open_store(state, err);
        if (failed != 0)
            return failed;
    }
    image_resolved_clear(&state->image);
    return state->refs < 0 ? -ENOENT : image_resolved_read(state->refs, full, &state->image);
}

static int fetch_when_due(kern_box *box, struct image_state *state, const char *text, const char *full,
                          struct kern_error *err)
{
    const char *when = kern_get_string(kern_options(box), "pull");
    int found = find(state, full, err);
    if (err->category != KERN_ERROR_NONE)
        return found;
    /* What a digest means cannot have changed. */
    int pinned = strchr(full, '@') != NULL;
    if (found == 0 && (strcmp(when, "always") != 0 || pinned))
        return 0;
    if (strcmp(when, "never") == 0) {
        kern_refuse(err, 0, "cannot use image \"%s\": it is not here, and --pull never forbids to fetch it",
                    text);
        kern_hint(err, "kern pull %s", text);
        return -ENOENT;
    }
    int failed = image_fetch(box, text, err);
    if (failed != 0)
        return failed;
    kern_close_fd(&state->refs);
    kern_close_fd(&state->top);
    found = find(state, full, err);
    if (found == 0 || err->category != KERN_ERROR_NONE)
        return found;
    return kern_refuse(err, -found, "cannot use image \"%s\" after it was fetched", text);
}

/* ---- Its layers ---- */

/* 0 with the lock, -ENOENT where the folder is not there or was removed meanwhile. */
static int lock_links(struct image_state *state, const char *name)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "layers/%s", state->ids.name); /* fits */
    kern_close_fd(&state->layers);
    kern_close_fd(&state->lock);
    state->layers = openat(state->top, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    state->lock =
        state->layers < 0 ? -1 : openat(state->layers, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    struct stat ours, there;
    if (state->lock < 0)
        return -ENOENT;
    /* gc holds it alone only while it removes it. */
    if (flock(state->lock, LOCK_SH | LOCK_NB) != 0 || fstat(state->lock, &ours) != 0 ||
        fstatat(state->layers, name, &there, AT_SYMLINK_NOFOLLOW) != 0 || ours.st_ino != there.st_ino)
        return -ENOENT;
    return 0;
}

static int use_layers(kern_box *box, struct image_state *state, const char *ref, struct kern_error *err)
{
    char *name = state->links, last[16];
    (void)snprintf(name, sizeof(state->links), "s-%.64s", state->image.config + strlen("sha256:")); /* fits */
    int failed = lock_links(state, name);
    if (failed != 0) {
        failed = image_repair(box, state->image.ref, state->ids.kind != IMAGE_IDS_FOLDED, err);
        if (failed == 0)
            failed = lock_links(state, name);
        if (failed != 0)
            return kern_refuse(err, -failed, "cannot unpack the layers of image \"%s\"", ref);
    }
    /* Fewer links than layers: one of them hides all that is below it, or stands there again. One more: see image_parents.h. */
    uint32_t count = state->image.layer.count + 1;
    for (; count > 1; count--) {
        (void)snprintf(last, sizeof(last), "%u", count - 1); /* fits */
        if (faccessat(state->lock, last, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
            break;
    }
    state->links_count = count;
    return kern_root_layers(box, state->layers, name, count, err);
}

/* The lock is held: the layers stay while they are copied. */
static int fill_volume(kern_box *box, void *block, int32_t volumes, const struct kern_wanted_volume *volume,
                       struct kern_error *err)
{
    const struct image_state *state = block;
    const struct image_fill fill = {.volume = volume,
                                    .links = state->links,
                                    .count = state->links_count,
                                    .want_range = state->ids.kind != IMAGE_IDS_FOLDED,
                                    .layers = state->layers,
                                    .volumes = volumes};
    return image_fill(box, state->image.ref, &fill, err);
}

/* ---- What the image says ---- */

static int check_platform(kern_box *box, const struct image_resolved *image, const char *name,
                          struct kern_error *err)
{
    int runs = image_machine_runs(image->platform);
    if (runs == IMAGE_RUNS_EMULATED)
        kern_note(box, "image %s is made for %s: it runs through binfmt_misc", name, image->platform);
    if (runs >= IMAGE_RUNS_EMULATED)
        return 0;
    if (runs == IMAGE_RUNS_NEVER)
        return kern_refuse(err, 0, "cannot run image \"%s\": it is made for %s", name, image->platform);
    kern_refuse(err, 0, "cannot run image \"%s\": it is made for %s, this machine is %s", name,
                image->platform, image_machine_name);
    kern_hint(err,
              "kern pull --platform %s %s, or install an emulator that registers itself with binfmt_misc "
              "(Debian: qemu-user-static)",
              image_machine_name, name);
    return -ENOEXEC;
}

static int set_env(kern_box *box, const struct image_list *env, struct kern_error *err)
{
    for (uint32_t i = 0; i < env->count; i++) {
        char *equals = strchr(env->item[i], '=');
        if (equals == NULL || equals == env->item[i])
            continue; /* says nothing */
        *equals = '\0';
        int failed = kern_set_env(box, env->item[i], equals + 1, err);
        *equals = '=';
        if (failed != 0)
            return failed;
    }
    return 0;
}

/* Below a read-only root an image's volumes are still to be written to. Elsewhere the root itself takes what is written. */
static int add_volumes(kern_box *box, const struct image_list *volumes, struct kern_error *err)
{
    if (kern_get_int(kern_options(box), "read-only") == 0)
        return 0;
    for (uint32_t i = 0; i < volumes->count; i++) {
        const char *path = volumes->item[i];
        static const char *const taken[] = {"/proc", "/sys", "/dev", "/etc", "/run/secrets"};
        int usable = path[0] == '/' && path[1] != '\0' && strstr(path, "..") == NULL;
        for (size_t j = 0; usable && j < sizeof(taken) / sizeof(taken[0]); j++)
            usable = strncmp(path, taken[j], strlen(taken[j])) != 0;
        if (usable && !image_is_mounted(kern_options(box), path)) {
            int failed = kern_add_tmpfs(box, path, 0, 0755, KERN_MOUNT_EXEC, err);
            if (failed != 0)
                return failed;
        }
    }
    return 0;
}

static int is_root_user(const char *user)
{
    static const char *const names[] = {"", "0", "root", "0:0", "root:root", "0:root", "root:0"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(user, names[i]) == 0)
            return 1;
    return 0;
}

static int apply(kern_box *box, const struct image_state *state, struct kern_error *err)
{
    const struct image_resolved *image = &state->image;
    int failed = set_env(box, &image->env, err);
    if (failed == 0 && state->ids.kind == IMAGE_IDS_RANGE)
        failed = kern_set_option(box, "uid-range", "true", err);
    if (failed == 0 && image->workdir != NULL)
        failed = kern_set_option(box, "workdir", image->workdir, err);
    if (failed == 0 && image->user != NULL && !is_root_user(image->user))
        failed = kern_set_option(box, "user", image->user, err);
    if (failed == 0 && image->stop_signal != NULL)
        failed = kern_set_option(box, "stop-signal", image->stop_signal, err);
    if (failed == 0)
        failed = add_volumes(box, &image->volume, err);
    return failed == 0 ? kern_image_command(box, image->entrypoint.item, image->entrypoint.count,
                                            image->cmd.item, image->cmd.count, err)
                       : failed;
}

/* ---- The hooks ---- */

static int check_words(const kern_values *options, struct kern_error *err)
{
    if (kern_get_string(options, "rootfs") == NULL)
        return 0;
    kern_refuse(err, 0, "cannot use --image and --rootfs together");
    kern_hint(err, "kern import '%s' NAME makes an image of a directory", kern_get_string(options, "rootfs"));
    return -EINVAL;
}

static int prepare(kern_box *box, void *block, struct kern_error *err)
{
    struct image_state *state = block;
    const kern_values *options = kern_options(box);
    const char *text = kern_get_string(options, "image");
    struct image_ref ref;
    char full[IMAGE_REF_SIZE], brief[IMAGE_REF_SIZE];
    state->top = state->refs = state->layers = state->lock = -1;
    if (text == NULL)
        return 0; /* taken part by kern.toml, without an image */
    int failed = check_words(options, err);
    if (failed == 0)
        failed = image_ref_parse(text, &ref, err);
    if (failed != 0)
        return failed;
    image_ref_full(&ref, full);
    image_ref_short(&ref, brief);
    int one_id =
        kern_get_int(options, "no-uid-range") != 0 || strcmp(kern_get_string(options, "userns"), "keep") == 0;
    image_find_ids(!one_id, &state->ids);
    failed = fetch_when_due(box, state, text, full, err);
    if (failed == 0)
        failed = kern_set_image(box, brief, state->image.digest, err);
    if (failed == 0)
        failed = check_platform(box, &state->image, brief, err);
    if (failed == 0)
        failed = use_layers(box, state, brief, err);
    if (failed == 0)
        kern_volume_content(box, fill_volume, state);
    return failed == 0 ? apply(box, state, err) : failed;
}

static void teardown(kern_box *box, void *block, const struct kern_outcome *outcome)
{
    struct image_state *state = block;
    (void)box, (void)outcome; /* the mounts went with their namespace */
    int *const fds[] = {&state->lock, &state->layers, &state->refs, &state->top};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        kern_close_fd(fds[i]);
    image_resolved_clear(&state->image);
}

KERN_PLUGIN(IMAGE_MANIFEST, .state_size = sizeof(struct image_state), .prepare = prepare,
            .teardown = teardown);

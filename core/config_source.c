/* Which kern.toml counts, whether it can be trusted, and its bytes. Host side, before the box exists.
 *
 * Whoever can write the file, or put another in its place, decides what a box may do; so the file and each
 * folder above it must be out of others' reach. The opened file is judged, not its name. */
#include "config_internal.h"

#include "cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void config_source_clear(struct config_source *source)
{
    if (source == NULL)
        return;
    free(source->path);
    free(source->folder);
    free(source->text);
    *source = (struct config_source){0};
}

/* secure_getenv: a kern that runs with more rights than its caller must not be led by the caller's
 * environment. */
static const char *from_environment(const char *name)
{
    const char *value = secure_getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

int config_source_own_path(char *ret_path, size_t size)
{
    const char *base = from_environment("XDG_CONFIG_HOME");
    const char *middle = "";
    if (base == NULL || base[0] != '/') { /* the XDG rules have relative values ignored */
        base = from_environment("HOME");
        middle = "/.config";
    }
    if (base == NULL)
        return -ENOENT;
    int n = snprintf(ret_path, size, "%s%s/kern/kern.toml", base, middle);
    return n > 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

static int check_folder(const char *path, const char *folder, struct kern_error *err)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return kern_refuse(err, errno, "cannot look at \"%s\", the folder of \"%s\"", folder, path);
    bool shared = (st.st_mode & (S_IWGRP | S_IWOTH)) != 0 && (st.st_mode & S_ISVTX) == 0;
    bool foreign = st.st_uid != 0 && st.st_uid != geteuid();
    if (!shared && !foreign)
        return 0;
    int r = kern_refuse(err, 0, "cannot trust \"%s\": its folder \"%s\" %s", path, folder,
                        shared ? "may be written by others" : "belongs to another user");
    kern_hint(err, shared ? "chmod go-w '%s'" : "sudo chown root '%s'", folder);
    return r;
}

/* From the file's folder up to the root. */
static int check_folders(const char *path, const char *folder, struct kern_error *err)
{
    char up[PATH_MAX];
    (void)snprintf(up, sizeof(up), "%s", folder); /* came from a buffer of the same size */
    for (;;) {
        int r = check_folder(path, up[0] != '\0' ? up : "/", err);
        char *slash = strrchr(up, '/');
        if (r < 0 || slash == NULL || up[1] == '\0')
            return r;
        *(slash == up ? slash + 1 : slash) = '\0';
    }
}

static int check_file(const char *path, const struct stat *st, struct kern_error *err)
{
    if (!S_ISREG(st->st_mode))
        return kern_refuse(err, 0, "cannot read \"%s\": it is not a regular file", path);
    if (st->st_size > (off_t)CORE_TOML_MAX_SIZE)
        return kern_refuse(err, EFBIG, "cannot read \"%s\"", path);
    if (st->st_uid != 0 && st->st_uid != geteuid()) {
        int r = kern_refuse(err, 0, "cannot trust \"%s\": it belongs to user %u, not to you or to root", path,
                            (unsigned)st->st_uid);
        kern_hint(err, "if you know what it says: sudo chown \"$(id -u)\" '%s'", path);
        return r;
    }
    if ((st->st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        int r = kern_refuse(err, 0, "cannot trust \"%s\": others than its owner may write to it", path);
        kern_hint(err, "chmod go-w '%s'", path);
        return r;
    }
    return 0;
}

/* The folder of the opened file itself, whatever links its name goes through. */
static int find_folder(int fd, const char *path, char *ret_folder, struct kern_error *err)
{
    char link[64];
    (void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
    ssize_t n = readlink(link, ret_folder, PATH_MAX - 1);
    if (n > 0)
        ret_folder[n] = '\0';
    else if (realpath(path, ret_folder) == NULL) /* no /proc here: the name must do */
        return kern_refuse(err, errno, "cannot find where \"%s\" stands", path);
    char *slash = strrchr(ret_folder, '/');
    if (slash == NULL)
        return kern_refuse(err, 0, "cannot find where \"%s\" stands", path);
    *(slash == ret_folder ? slash + 1 : slash) = '\0';
    return 0;
}

static int read_all(int fd, const char *path, size_t expected, char **ret_text, size_t *ret_length,
                    struct kern_error *err)
{
    auto_free char *text = malloc(expected + 1);
    size_t used = 0;
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"%s\"", path);
    while (used < expected) {
        ssize_t n = read(fd, text + used, expected - used);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return kern_refuse(err, errno, "cannot read \"%s\"", path);
        if (n == 0)
            break;
        used += (size_t)n;
    }
    text[used] = '\0';
    *ret_text = steal_ptr(text);
    *ret_length = used;
    return 0;
}

/* 1: there is no such file. O_NONBLOCK: a fifo in the file's place must not hang kern before it is refused. */
static int read_file(const char *path, int trust, struct config_source *ret_source, struct kern_error *err)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
        return 1;
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open \"%s\"", path);
    struct stat st;
    if (fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot look at \"%s\"", path);
    char folder[PATH_MAX];
    int r = check_file(path, &st, err);
    r = r < 0 ? r : find_folder(fd, path, folder, err);
    r = r < 0 ? r : check_folders(path, folder, err);
    if (r < 0)
        return r;
    cleanup(config_source_clear) struct config_source source = {.trust = trust};
    source.path = strdup(path);
    source.folder = strdup(folder);
    if (source.path == NULL || source.folder == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"%s\"", path);
    r = read_all(fd, path, (size_t)st.st_size, &source.text, &source.length, err);
    if (r < 0)
        return r;
    *ret_source = source;
    source = (struct config_source){0};
    return 0;
}

static int read_chosen(const char *path, const char *chooser, struct config_source *ret_source,
                       struct kern_error *err)
{
    int r = read_file(path, CORE_CONFIG_FOREIGN, ret_source, err);
    if (r == 1)
        return kern_refuse(err, ENOENT, "cannot open \"%s\"%s", path, chooser);
    return r;
}

static int compiled_in(struct config_source *ret_source, struct kern_error *err)
{
    char *path = strdup("(compiled default)");
    if (path == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the compiled configuration");
    *ret_source = (struct config_source){.path = path, .trust = CORE_CONFIG_COMPILED};
    return 0;
}

int config_source_read_own(struct config_source *ret_source, struct kern_error *err)
{
    char own[PATH_MAX];
    int r =
        config_source_own_path(own, sizeof(own)) == 0 ? read_file(own, CORE_CONFIG_OWN, ret_source, err) : 1;
    if (r == 1)
        r = read_file("/etc/kern/kern.toml", CORE_CONFIG_OWN, ret_source, err);
    return r == 1 ? compiled_in(ret_source, err) : r;
}

int config_source_read(const char *chosen, struct config_source *ret_source, struct kern_error *err)
{
    if (chosen != NULL)
        return read_chosen(chosen, "", ret_source, err);
    const char *from_env = from_environment("KERN_CONFIG");
    if (from_env != NULL)
        return read_chosen(from_env, ", which KERN_CONFIG names", ret_source, err);
    return config_source_read_own(ret_source, err);
}

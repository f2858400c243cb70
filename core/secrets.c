/* --secret; see secrets.h. */
#include "secrets.h"

#include "cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SECRET_MOST ((size_t)1 << 20)
#define NAME_CHARS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

static bool is_name(const char *name, size_t length)
{
    return length > 0 && length <= 64 && name[0] != '.' && strspn(name, NAME_CHARS) >= length;
}

int core_secret_parse(const char *text, struct core_secret *ret_secret, struct kern_error *err)
{
    struct core_secret secret = {.path = "-"};
    size_t length = strlen(text);
    const char *name = text;
    size_t name_length = length > 2 ? length - 2 : 0;
    if (length < 2 || strcmp(text + length - 2, "=-") != 0) {
        const char *colon = strrchr(text, ':');
        size_t path = colon != NULL ? (size_t)(colon - text) : length;
        if (path == 0 || path >= sizeof(secret.path))
            return kern_refuse(err, 0, "cannot use --secret \"%s\": write it as FILE, FILE:NAME or NAME=-",
                               text);
        memcpy(secret.path, text, path);
        secret.path[path] = '\0';
        const char *slash = strrchr(secret.path, '/');
        name = colon != NULL ? colon + 1 : slash != NULL ? slash + 1 : secret.path;
        name_length = strlen(name);
        if (!is_name(name, name_length))
            return kern_refuse(err, 0, "cannot use --secret \"%s\": its name is not of [A-Za-z0-9_.-]", text);
    } else if (!is_name(name, name_length)) {
        return kern_refuse(err, 0, "cannot use --secret \"%s\": its name is not of [A-Za-z0-9_.-]", text);
    }
    memcpy(secret.name, name, name_length);
    *ret_secret = secret;
    return 0;
}

/* A secret that others can read is none: better to say so than to keep up appearances. */
static int check_file(int fd, const char *path, struct kern_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
        return kern_refuse(err, 0, "cannot use secret \"%s\": it is not a regular file", path);
    if ((st.st_mode & 07) == 0)
        return 0;
    kern_refuse(err, 0, "cannot use secret \"%s\": everybody may read or write it (mode %03o)", path,
                (unsigned)st.st_mode & 0777);
    kern_hint(err, "chmod o= '%s'", path);
    return -EPERM;
}

static int read_secret(const struct core_secret *secret, char *bytes, size_t *ret_length,
                       struct kern_error *err)
{
    bool typed = strcmp(secret->path, "-") == 0;
    auto_fd fd = typed ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                       : open(secret->path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return kern_refuse(err, errno, "cannot open secret \"%s\"", secret->path);
    int failed = typed ? 0 : check_file(fd, secret->path, err);
    if (failed != 0)
        return failed;
    size_t used = 0;
    for (;;) {
        ssize_t got = read(fd, bytes + used, SECRET_MOST + 1 - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return kern_refuse(err, errno, "cannot read secret \"%s\"", secret->name);
        if (got == 0)
            break;
        used += (size_t)got;
        if (used > SECRET_MOST)
            return kern_refuse(err, 0, "cannot use secret \"%s\": it has more than 1 MiB", secret->name);
    }
    *ret_length = used;
    return 0;
}

static int remember(kern_box *box, const char *text, char *bytes, bool *typed, struct kern_error *err)
{
    struct core_secret secret;
    struct core_secret_file *file = &box->secret[box->secret_count];
    int failed = core_secret_parse(text, &secret, err);
    if (failed == 0 && strcmp(secret.path, "-") == 0) {
        if (*typed)
            return kern_refuse(err, 0, "cannot use --secret \"%s\": another one has standard input already",
                               text);
        *typed = true;
    }
    if (failed == 0)
        failed = read_secret(&secret, bytes, &file->length, err);
    if (failed != 0)
        return failed;
    (void)snprintf(file->target, sizeof(file->target), "/run/secrets/%s", secret.name); /* sized for it */
    file->bytes = malloc(file->length + 1);
    if (file->bytes == NULL)
        return kern_fail(err, ENOMEM, "cannot keep secret \"%s\"", secret.name);
    memcpy(file->bytes, bytes, file->length);
    box->secret_count++;
    return 0;
}

/* Standard input can be read once, and a file may be gone when a box runs again. */
static int read_all(kern_box *box, uint32_t count, struct kern_error *err)
{
    auto_free char *bytes = malloc(SECRET_MOST + 1);
    box->secret = calloc(count, sizeof(*box->secret));
    if (bytes == NULL || box->secret == NULL)
        return kern_fail(err, ENOMEM, "cannot read the secrets");
    int failed = 0;
    bool typed = false;
    for (uint32_t i = 0; failed == 0 && i < count; i++)
        failed = remember(box, kern_get_item(&box->options, "secret", i), bytes, &typed, err);
    explicit_bzero(bytes, SECRET_MOST + 1);
    return failed;
}

int core_secrets_add(kern_box *box, struct kern_error *err)
{
    uint32_t count = kern_get_count(&box->options, "secret");
    if (count == 0)
        return 0;
    int failed = box->secret == NULL ? read_all(box, count, err) : 0;
    if (failed == 0)
        failed = kern_add_tmpfs(box, "/run/secrets", 65536, 0755, 0, err);
    for (size_t i = 0; failed == 0 && i < box->secret_count; i++) {
        const struct core_secret_file *file = &box->secret[i];
        failed = kern_add_file(box, file->target, 0400, file->bytes, file->length, err);
        if (failed == 0) /* whom --user means, or the image's own, is known only inside */
            box->mount[box->mount_count - 1].for_command = true;
    }
    return failed;
}

void core_secrets_clear(kern_box *box)
{
    for (size_t i = 0; box->secret != NULL && i < box->secret_count; i++) {
        explicit_bzero(box->secret[i].bytes, box->secret[i].length);
        free(box->secret[i].bytes);
    }
    free(box->secret);
    box->secret = NULL;
}

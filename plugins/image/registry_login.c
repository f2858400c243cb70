/* Credentials on disk and in helper programs; see registry_login.h. Runs in kern itself. */
#include "registry_login.h"

#include "registry_auth.h"
#include "registry_helper.h"

#include "kern/cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define FILE_MAX ((off_t)1 << 20)

static void drop_secret(char **text)
{
    if (*text != NULL)
        explicit_bzero(*text, strlen(*text));
    free(*text);
    *text = NULL;
}

static int folder_path(char *ret_path, size_t size, struct kern_error *err)
{
    const char *config = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
    int used = -1;
    if (config != NULL && config[0] != '\0')
        used = snprintf(ret_path, size, "%s", config);
    else if (home != NULL && home[0] != '\0')
        used = snprintf(ret_path, size, "%s/.docker", home);
    else
        ret_path[0] = '\0';
    if (used >= 0 && (size_t)used >= size)
        return kern_refuse(err, ENAMETOOLONG, "cannot name Docker's config.json");
    return 0;
}

static int file_path(char *ret_path, size_t size, struct kern_error *err)
{
    char folder[PATH_MAX - 16];
    int r = folder_path(folder, sizeof(folder), err);
    if (r < 0)
        return r;
    if (folder[0] == '\0')
        ret_path[0] = '\0';
    else
        (void)snprintf(ret_path, size, "%s/config.json", folder); /* the sizes fit */
    return 0;
}

/* *ret_text stays NULL where there is no file. */
static int read_file(const char *path, char **ret_text, size_t *ret_length, struct kern_error *err)
{
    struct stat st;
    auto_fd fd = path[0] != '\0' ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    if (fd < 0 && (path[0] == '\0' || errno == ENOENT || errno == ENOTDIR))
        return 0;
    if (fd < 0 || fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot read \"%s\"", path);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MAX)
        return kern_refuse(err, 0, "cannot use \"%s\": it is not a small file", path);
    size_t room = (size_t)st.st_size, used = 0;
    cleanup(drop_secret) char *text = calloc(1, room + 1);
    if (text == NULL)
        return kern_fail(err, ENOMEM, "cannot read \"%s\"", path);
    for (ssize_t got; used < room && (got = read(fd, text + used, room - used)) != 0; used += (size_t)got)
        if (got < 0)
            return kern_refuse(err, errno, "cannot read \"%s\"", path);
    *ret_text = steal_ptr(text);
    *ret_length = used;
    return 0;
}

static int find(const char *registry, struct registry_auth *ret_auth, struct kern_error *err)
{
    char path[PATH_MAX];
    cleanup(drop_secret) char *text = NULL;
    size_t length = 0;
    int r = file_path(path, sizeof(path), err);
    r = r < 0 ? r : read_file(path, &text, &length, err);
    if (r < 0 || text == NULL)
        return r;
    return registry_auth_find(text, length, path, registry, ret_auth, err);
}

static int find_helper(const char *registry, char ret_helper[REGISTRY_HELPER_SIZE], struct kern_error *err)
{
    char path[PATH_MAX];
    cleanup(drop_secret) char *text = NULL;
    size_t length = 0;
    int r = file_path(path, sizeof(path), err);
    r = r < 0 ? r : read_file(path, &text, &length, err);
    return r < 0 ? r : registry_auth_helper(text, length, path, registry, ret_helper, err);
}

static int ask_helper(const char *helper, const char *registry, struct registry_credentials *ret_credentials,
                      struct kern_error *err)
{
    cleanup(drop_secret) char *answer = malloc(REGISTRY_HELPER_ANSWER);
    if (answer == NULL)
        return kern_fail(err, ENOMEM, "cannot ask a credential helper");
    int r = registry_helper_run(helper, "get", registry_auth_key(registry), answer, err);
    if (r == 0)
        r = registry_auth_read_helper(answer, strlen(answer), ret_credentials, err);
    return r < 0 && r != -ENOENT ? kern_wrap(err, "credentials for \"%s\"", registry) : r;
}

int registry_credentials_get(const char *registry, struct registry_credentials *ret_credentials,
                             struct kern_error *err)
{
    struct registry_auth auth = {0};
    int r = find(registry, &auth, err);
    if (r == 0 && auth.helper[0] != '\0') {
        r = ask_helper(auth.helper, registry, &auth.credentials, err);
        r = r == -ENOENT ? 0 : r; /* what the file says counts then */
    }
    if (r == 0)
        *ret_credentials = auth.credentials;
    explicit_bzero(&auth, sizeof(auth));
    return r;
}

/* ---- Writing ------------------------------------------------------------------------------------------ */

static int write_all(int fd, const char *text)
{
    for (size_t left = strlen(text); left > 0;) {
        ssize_t done = write(fd, text, left);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -errno;
        text += done;
        left -= (size_t)done;
    }
    return fsync(fd) == 0 ? 0 : -errno;
}

/* Beside it, then over it: a reader sees the old file or the new one. A link is followed to the file it means. */
static int replace_file(const char *path, const char *text, struct kern_error *err)
{
    char real[PATH_MAX], next[PATH_MAX + 16];
    if (realpath(path, real) == NULL)
        (void)snprintf(real, sizeof(real), "%s", path);    /* both are as long; it is new */
    (void)snprintf(next, sizeof(next), "%s.XXXXXX", real); /* fits */
    auto_fd fd = mkostemp(next, O_CLOEXEC);                /* 0600 */
    if (fd < 0)
        return kern_refuse(err, errno, "cannot write beside \"%s\"", real);
    int r = write_all(fd, text);
    if (r == 0 && rename(next, real) != 0)
        r = -errno;
    if (r < 0) {
        (void)unlink(next); /* ours */
        return kern_refuse(err, -r, "cannot write \"%s\"", real);
    }
    return 0;
}

/* The folder, made when missing, locked against another login at this moment. */
static int lock_folder(struct kern_error *err, int *ret_fd)
{
    char folder[PATH_MAX - 16];
    int r = folder_path(folder, sizeof(folder), err);
    if (r < 0)
        return r;
    if (folder[0] == '\0') {
        r = kern_refuse(err, 0,
                        "there is no place to keep credentials: neither HOME nor DOCKER_CONFIG is set");
        kern_hint(err, "export HOME=/root, or wherever you are at home");
        return r;
    }
    if (mkdir(folder, 0700) != 0 && errno != EEXIST)
        return kern_refuse(err, errno, "cannot make \"%s\"", folder);
    auto_fd fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        return kern_refuse(err, errno, "cannot lock \"%s\"", folder);
    *ret_fd = steal_fd(&fd);
    return 0;
}

static int edit(const char *registry, const struct registry_credentials *credentials, bool by_helper,
                bool *ret_had, char *ret_path, struct kern_error *err)
{
    cleanup(drop_secret) char *text = NULL;
    cleanup(drop_secret) char *edited = NULL;
    size_t length = 0;
    int r = file_path(ret_path, PATH_MAX, err);
    r = r < 0 ? r : read_file(ret_path, &text, &length, err);
    r = r < 0 ? r
              : registry_auth_edit(text, length, ret_path, registry, credentials, by_helper, &edited, ret_had,
                                   err);
    if (r < 0 || (credentials == NULL && !*ret_had))
        return r;
    return replace_file(ret_path, edited, err);
}

static int run_store(const char *helper, const char *registry, const struct registry_credentials *credentials,
                     struct kern_error *err)
{
    cleanup(drop_secret) char *entry = registry_auth_helper_entry(registry, credentials);
    cleanup(drop_secret) char *answer = malloc(REGISTRY_HELPER_ANSWER);
    if (entry == NULL || answer == NULL)
        return kern_fail(err, ENOMEM, "cannot keep the credentials");
    int r = registry_helper_run(helper, "store", entry, answer, err);
    return r == -ENOENT ? kern_refuse(err, 0, "credential helper \"%s\" does not keep them", helper) : r;
}

int registry_credentials_store(const char *registry, const struct registry_credentials *credentials,
                               char *ret_where, bool *ret_plain, struct kern_error *err)
{
    char path[PATH_MAX], helper[REGISTRY_HELPER_SIZE] = "";
    auto_fd lock = -1;
    bool had = false;
    int r = lock_folder(err, &lock);
    r = r < 0 ? r : find_helper(registry, helper, err);
    bool by_helper = helper[0] != '\0';
    if (r == 0 && by_helper)
        r = run_store(helper, registry, credentials, err);
    r = r < 0 ? r : edit(registry, credentials, by_helper, &had, path, err);
    if (r < 0)
        return r;
    if (by_helper)
        (void)snprintf(ret_where, 200, "docker-credential-%s", helper); /* fits */
    else
        (void)snprintf(ret_where, 200, "%.199s", path); /* a cut path is still recognised */
    *ret_plain = !by_helper;
    return 0;
}

int registry_credentials_erase(const char *registry, struct kern_error *err)
{
    char path[PATH_MAX], helper[REGISTRY_HELPER_SIZE] = "";
    auto_fd lock = -1;
    bool had = false, erased = false;
    int r = lock_folder(err, &lock);
    r = r < 0 ? r : find_helper(registry, helper, err);
    if (r == 0 && helper[0] != '\0') {
        cleanup(drop_secret) char *answer = malloc(REGISTRY_HELPER_ANSWER);
        r = answer != NULL ? registry_helper_run(helper, "erase", registry_auth_key(registry), answer, err)
                           : kern_fail(err, ENOMEM, "cannot ask a credential helper");
        erased = r == 0;
        r = r == -ENOENT ? 0 : r;
    }
    r = r < 0 ? r : edit(registry, NULL, false, &had, path, err);
    return r < 0 ? r : had || erased ? 0 : -ENOENT;
}

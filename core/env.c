/* The environment of the command; see env.h. In a box nothing of the caller's own environment is in it. Host side. */
#include "env.h"

#include "cleanup.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#define VARIABLES_MOST 4096 /* execve takes hardly more, and looking for doubles takes the square of it */
#define FILE_MOST      ((off_t)1 << 20)

static char *trim(char *line)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t length = strlen(line);
    while (length > 0 && isspace((unsigned char)line[length - 1]))
        line[--length] = '\0';
    return line;
}

static int refuse_line(const char *file, unsigned number, const char *why, struct kern_error *err)
{
    kern_refuse(err, 0, "cannot use environment file \"%s\": line %u %s", file, number, why);
    kern_hint(err, "write one NAME=VALUE a line; quotes are kept as they are");
    return -EINVAL;
}

int core_env_parse(char *text, const char *file, struct core_list *list, struct kern_error *err)
{
    unsigned number = 0;
    for (char *next = text; next != NULL;) {
        char *line = next;
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        number++;
        line = trim(line);
        if (line[0] == '\0' || line[0] == '#')
            continue;
        const char *equals = strchr(line, '=');
        if (equals == NULL || equals == line)
            return refuse_line(file, number, equals == NULL ? "has no \"=\"" : "has no name before \"=\"",
                               err);
        if (core_list_add(list, line) != 0)
            return kern_refuse(err, ENOMEM, "cannot read environment file \"%s\"", file);
    }
    return 0;
}

static int read_file(const char *path, struct core_list *list, struct kern_error *err)
{
    auto_fd fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) != 0)
        return kern_refuse(err, errno, "cannot open environment file \"%s\"", path);
    if (!S_ISREG(st.st_mode) || st.st_size > FILE_MOST)
        return kern_refuse(err, 0, "cannot use environment file \"%s\": not a regular file of at most 1 MiB",
                           path);
    auto_free char *text = calloc(1, (size_t)st.st_size + 1);
    ssize_t length = text != NULL ? read(fd, text, (size_t)st.st_size) : -1;
    if (length < 0)
        return kern_refuse(err, errno, "cannot read environment file \"%s\"", path);
    if (memchr(text, '\0', (size_t)length) != NULL)
        return kern_refuse(err, 0, "cannot use environment file \"%s\": it has a NUL byte in it", path);
    return core_env_parse(text, path, list, err);
}

static int add(struct core_list *list, const char *name, const char *value, struct kern_error *err)
{
    char text[320];
    (void)snprintf(text, sizeof(text), "%s=%s", name, value); /* callers pass short ones */
    return core_list_add(list, text) == 0 ? 0 : kern_fail(err, ENOMEM, "cannot build the environment");
}

int core_env_overrides(const kern_values *options, struct core_list *list, struct kern_error *err)
{
    int failed = 0;
    for (uint32_t i = 0; failed == 0 && i < kern_get_count(options, "env-file"); i++)
        failed = read_file(kern_get_item(options, "env-file", i), list, err);
    for (uint32_t i = 0; failed == 0 && i < kern_get_count(options, "env"); i++) {
        const char *item = kern_get_item(options, "env", i);
        if (item[0] == '=' || item[0] == '\0' || strchr(item, '=') == NULL)
            return kern_refuse(err, 0, "cannot use --env \"%s\": write it as NAME=VALUE", item);
        failed = core_list_add(list, item);
    }
    return failed;
}

static int collect(const kern_box *box, struct core_list *list, struct kern_error *err)
{
    const struct kern_values *options = &box->options;
    const char *hostname = kern_get_string(options, "hostname");
    int failed = add(list, "PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", err);
    if (failed == 0 && box->privileged)
        failed = add(list, "container", "kern", err); /* for a kern inside: see core/engine.c, is_nested() */
    if (failed == 0)
        failed = add(list, "TERM", "xterm", err);
    if (failed == 0)
        failed = add(list, "HOSTNAME", hostname != NULL ? hostname : box->name, err);
    for (size_t i = 0; failed == 0 && i < box->env.count; i++)
        failed = core_list_add(list, box->env.item[i]);
    return failed == 0 ? core_env_overrides(options, list, err) : failed;
}

/* What the caller has, as it is; a descriptor that kern was given is no business of the command's. */
static int collect_host(const kern_box *box, struct core_list *list, struct kern_error *err)
{
    int failed = 0;
    for (char **each = environ; failed == 0 && *each != NULL; each++)
        if (strncmp(*each, "KERN_STARTED_FD=", 16) != 0 && strncmp(*each, "KERN_ALIVE_FD=", 14) != 0 &&
            strncmp(*each, "KERN_OWNER_FD=", 14) != 0)
            failed = core_list_add(list, *each);
    for (size_t i = 0; failed == 0 && i < box->env.count; i++)
        failed = core_list_add(list, box->env.item[i]);
    return failed == 0 ? core_env_overrides(&box->options, list, err) : failed;
}

static bool same_name(const char *a, const char *b)
{
    size_t length = strcspn(a, "=");
    return strncmp(a, b, length) == 0 && b[length] == '=';
}

/* The last of one name wins, in the place of the first. */
static size_t deduplicate(char **env, size_t count)
{
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < kept && !same_name(env[at], env[i]))
            at++;
        if (at < kept)
            free(env[at]);
        else
            kept++;
        env[at] = env[i];
    }
    return kept;
}

static int build(kern_box *box, int (*from)(const kern_box *, struct core_list *, struct kern_error *),
                 struct kern_error *err)
{
    struct core_list list = {0};
    int failed = from(box, &list, err);
    if (failed == 0 && list.count > VARIABLES_MOST)
        failed = kern_refuse(err, 0, "cannot use %zu environment variables: %d are the most", list.count,
                             VARIABLES_MOST);
    char **env = failed == 0 ? calloc(list.count + 2, sizeof(*env)) : NULL;
    if (env == NULL) {
        core_list_clear(&list);
        return failed != 0 ? kern_fail(err, -failed, "cannot build the environment")
                           : kern_fail(err, ENOMEM, "cannot build the environment");
    }
    memcpy(env, list.item, list.count * sizeof(*env));
    size_t count = deduplicate(env, list.count);
    free(list.item);
    for (size_t i = 0; i < count; i++)
        box->home_is_fixed = box->home_is_fixed || strncmp(env[i], "HOME=", 5) == 0;
    memset(env + count, 0, (list.count + 2 - count) * sizeof(*env));
    if (!box->home_is_fixed && !box->bare) {
        (void)snprintf(box->home, sizeof(box->home), "HOME=/root"); /* fits */
        env[count] = box->home;
    }
    box->child_env = env;
    return 0;
}

int core_env_build(kern_box *box, struct kern_error *err)
{
    return build(box, collect, err);
}

int core_env_build_host(kern_box *box, struct kern_error *err)
{
    return build(box, collect_host, err);
}

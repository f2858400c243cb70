/* The writing half of records.h: what a supervisor says about its box while it lives and once it has ended, and what the sweep
 * says of one whose supervisor was killed. A record is a help for people: that it cannot be written ends no box. */
#include "records.h"

#include "cleanup.h"
#include "registry.h"
#include "supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define VALUE_MOST 4096 /* of a command line: enough to know it by */

struct text {
    char *bytes;
    size_t length, room;
};

static void put(struct text *text, const char *bytes, size_t length)
{
    if (text->length + length + 1 > text->room) {
        size_t room = 2 * text->room + length + 512;
        char *more = realloc(text->bytes, room);
        if (more == NULL)
            return; /* a shorter record */
        text->bytes = more;
        text->room = room;
    }
    memcpy(text->bytes + text->length, bytes, length);
    text->length += length;
}

static void put_escaped(struct text *text, const char *value)
{
    for (size_t i = 0; value[i] != '\0' && i < VALUE_MOST; i++) {
        if (value[i] == '\n')
            put(text, "\\n", 2);
        else if (value[i] == '\\')
            put(text, "\\\\", 2);
        else
            put(text, &value[i], 1);
    }
}

static void put_pair(struct text *text, const char *key, const char *value)
{
    put(text, key, strlen(key));
    put(text, " ", 1);
    put_escaped(text, value);
    put(text, "\n", 1);
}

static void put_number(struct text *text, const char *key, int64_t number)
{
    char digits[24];
    (void)snprintf(digits, sizeof(digits), "%lld", (long long)number); /* fits */
    put_pair(text, key, digits);
}

static void put_list(struct text *text, const char *key, const kern_values *options, const char *option)
{
    for (uint32_t i = 0; i < kern_get_count(options, option); i++)
        put_pair(text, key, kern_get_item(options, option, i));
}

static void put_limit(struct text *text, const struct kern_limit *limit)
{
    char row[128];
    (void)snprintf(row, sizeof(row), "%s %d %s %s", limit->name, limit->enforced, limit->by,
                   limit->asked); /* fits by its parts; names have no spaces, and what was asked comes last */
    put_pair(text, "limit", row);
}

static void put_command(struct text *text, char *const *command)
{
    put(text, "command ", 8);
    for (size_t i = 0; command[i] != NULL; i++) {
        put(text, " ", i > 0 ? 1 : 0);
        put_escaped(text, command[i]);
    }
    put(text, "\n", 1);
}

static const char *root_of(const kern_values *options)
{
    const char *image = kern_get_string(options, "image"), *rootfs = kern_get_string(options, "rootfs");
    return image != NULL ? image : rootfs != NULL ? rootfs : "host";
}

/* Those that both a living box's record and the row of an ended one have. */
static void put_identity(struct text *text, const kern_box *box)
{
    put_command(text, box->command);
    put_pair(text, "rootfs", root_of(&box->options));
    put_list(text, "label", &box->options, "label");
    if (box->detached)
        put_pair(text, "detached", "1");
}

/* What the box may reach, wherever that was written: see read_rules() of plugins/egress. */
static void put_egress(struct text *text, const kern_box *box)
{
    const struct core_plugin *egress = core_catalog_find(box->catalog, "egress");
    bool from_line = kern_get_source(&box->options, "egress-allow") == KERN_FROM_FLAG;
    put_list(text, "egress", &box->options, "egress-allow");
    for (uint32_t i = 0; egress != NULL && i < egress->profile_count; i++)
        if (egress->profile[i].name[0] != '\0' || !from_line)
            put_list(text, "egress", &egress->profile[i].values, "allow");
}

void core_record_describe(kern_box *box)
{
    struct text text = {0};
    struct timespec now;
    (void)clock_gettime(CLOCK_REALTIME, &now); /* cannot fail with a valid clock and pointer */
    int64_t age_s = box->exec_ns > 0 ? (core_now_ns() - box->exec_ns) / 1000000000 : 0;
    put_number(&text, "started", (int64_t)now.tv_sec - age_s);
    put_identity(&text, box);
    put_list(&text, "port", &box->options, "publish");
    put_list(&text, "volume", &box->options, "volume");
    put_egress(&text, box);
    put_list(&text, "landlock-rw", &box->options, "landlock-rw");
    for (uint32_t i = 0; i < box->limit_count; i++) {
        char key[32];
        (void)snprintf(key, sizeof(key), "limit-%s", box->limit[i].name); /* names are short */
        if (box->limit[i].enforced == 1)
            put_pair(&text, key, box->limit[i].asked);
        put_limit(&text, &box->limit[i]);
    }
    put_pair(&text, "status", box->executed ? "running" : "starting");
    if (text.bytes != NULL)
        (void)!write(box->state_fd, text.bytes, text.length); /* see above */
    free(text.bytes);
    box->described = true;
}

void core_record_change(kern_box *box, const char *key, const char *value)
{
    struct text text = {0};
    put_pair(&text, key, value);
    if (text.bytes != NULL)
        (void)!write(box->state_fd, text.bytes, text.length); /* see above */
    free(text.bytes);
}

/* ---- Those that have ended ---- */

static void write_row(int run, const char *name, const struct text *text)
{
    char temporary[CORE_NAME_MAX + 32];
    if (mkdirat(run, "exited", 0700) != 0 && errno != EEXIST)
        return;
    auto_fd folder = core_registry_folder(run, "exited");
    (void)snprintf(temporary, sizeof(temporary), ".%s.%d", name, (int)getpid()); /* names are bounded */
    auto_fd fd = folder < 0
                     ? -1
                     : openat(folder, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || text->bytes == NULL)
        return;
    if (write(fd, text->bytes, text->length) != (ssize_t)text->length ||
        renameat(folder, temporary, folder, name) != 0)
        (void)unlinkat(folder, temporary, 0); /* half a row is none */
}

static void remove_log(int run, const char *name)
{
    char path[CORE_NAME_MAX + 16];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "logs/%s/%d", name, i); /* names are bounded */
        (void)unlinkat(run, path, 0);                              /* there may be none */
    }
    (void)snprintf(path, sizeof(path), "logs/%s", name); /* names are bounded */
    (void)unlinkat(run, path, AT_REMOVEDIR);             /* there may be none */
}

void core_record_ended(kern_box *box, int exit_code)
{
    if (!box->detached || box->run_fd < 0 || box->state_fd < 0)
        return;
    if (!box->executed && box->restarts == 0) {
        remove_log(box->run_fd, box->name); /* it never was a box, and its caller has been told why */
        return;
    }
    struct text text = {0};
    put_number(&text, "pid", getpid());
    put_number(&text, "exit", exit_code);
    put_number(&text, "ended", (int64_t)time(NULL));
    put_identity(&text, box);
    write_row(box->run_fd, box->name, &text);
    free(text.bytes);
}

void core_record_lost(int run, const char *name, const char *state)
{
    if (strstr(state, "\ndetached 1\n") == NULL)
        return;
    struct text text = {0};
    static const char *const kept[] = {"pid ", "command ", "rootfs ", "label ", "detached "};
    for (const char *line = state; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
            if (strncmp(line, kept[i], strlen(kept[i])) != 0)
                continue;
            put(&text, line, length);
            put(&text, "\n", 1);
        }
        line += length + (line[length] == '\n');
    }
    put_number(&text, "exit", 128 + SIGKILL); /* with its supervisor */
    put_number(&text, "ended", (int64_t)time(NULL));
    write_row(run, name, &text);
    free(text.bytes);
}

static int remove_row(int run, int folder, const char *name)
{
    if (unlinkat(folder, name, 0) != 0)
        return -errno;
    remove_log(run, name);
    return 0;
}

void core_records_forget(int run)
{
    auto_fd folder = core_registry_folder(run, "exited");
    int copy = folder >= 0 ? fcntl(folder, F_DUPFD_CLOEXEC, 3) : -1;
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    if (dir == NULL)
        return;
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0 ||
            fstatat(folder, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            st.st_mtime + CORE_EXITED_FOR_S > time(NULL))
            continue;
        (void)remove_row(run, folder, entry->d_name); /* the next sweep tries again */
    }
}

int core_record_remove(const char *name)
{
    int result = -ENOENT;
    for (unsigned place = 0; place < CORE_RUN_PLACES; place++) {
        auto_fd run = core_registry_run(place);
        auto_fd folder = run >= 0 ? core_registry_folder(run, "exited") : -1;
        int removed = folder >= 0 ? remove_row(run, folder, name) : -ENOENT;
        result = removed == 0 ? 0 : result;
    }
    return result;
}

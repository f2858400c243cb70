/* `kern volume`: the named volumes of this user, directories that `-v NAME:/PATH` puts into boxes. Host side. */
#include "cmd.h"

#include "cleanup.h"
#include "engine.h"
#include "json.h"
#include "log.h"
#include "plugin.h"
#include "records.h"
#include "resources.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct job {
    const struct core_call *call;
    struct core_records boxes; /* living ones, which may use a volume */
    int store;                 /* the directory of all volumes, or -1 */
    char path[PATH_MAX];
    int code;
};

static void drop_job(struct job *job)
{
    core_records_clear(&job->boxes);
    kern_close_fd(&job->store);
}

static void complain(struct job *job, const struct kern_error *err)
{
    core_log_error(err);
    job->code = 1;
}

/* The living box that has the volume, or NULL. */
static const char *user_of(const struct job *job, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < job->boxes.count; i++) {
        const char *volume;
        for (unsigned n = 0; (volume = core_record_nth(&job->boxes.item[i], "volume", n)) != NULL; n++)
            if (strncmp(volume, name, length) == 0 && volume[length] == ':')
                return job->boxes.item[i].name;
    }
    return NULL;
}

static bool is_volume(const struct job *job, const char *name)
{
    struct stat st;
    return job->store >= 0 && name[0] != '.' && name[0] != '\0' && strchr(name, '/') == NULL &&
           fstatat(job->store, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(const struct job *job, struct core_list *ret_names)
{
    int copy = job->store >= 0 ? fcntl(job->store, F_DUPFD_CLOEXEC, 3) : -1;
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir))
        if (is_volume(job, entry->d_name) && core_list_add(ret_names, entry->d_name) != 0)
            return -ENOMEM;
    if (ret_names->count > 0)
        qsort(ret_names->item, ret_names->count, sizeof(char *), by_name);
    return 0;
}

/* ---- What can be done ---- */

static void create(struct job *job, const char *name)
{
    struct kern_error err = {0};
    if (core_volume_create(name, (uint64_t)kern_get_int(&job->call->flags, "size"), &err) != 0)
        complain(job, &err);
    else
        (void)printf("%s\n", name); /* checked at the end */
}

/* Files of the box's other users belong to subordinate ids, which only a helper of theirs can remove for the caller. */
static int remove_tree(const struct job *job, const char *name)
{
    int failed = kern_remove_tree(job->store, name);
    if (failed != -EACCES && failed != -EPERM)
        return failed;
    struct kern_error ignored = {0};
    union {
        void *object;
        int (*run)(int folder, const char *name);
    } helper = {.object = core_plugin_companion("image_tool", "image_tool_remove", &ignored)};
    return helper.object != NULL && helper.run(job->store, name) == 0 ? 0 : failed;
}

static void remove_one(struct job *job, const char *name)
{
    struct kern_error err = {0};
    const char *user = user_of(job, name);
    int failed = 0;
    if (!is_volume(job, name)) {
        failed = kern_refuse(&err, 0, "no volume named '%s'", name);
        kern_hint(&err, "kern volume ls shows them");
    } else if (user != NULL) {
        failed = kern_refuse(&err, 0, "volume '%s' is used by box '%s'", name, user);
        kern_hint(&err, "kern stop %s", user);
    } else if ((failed = remove_tree(job, name)) != 0) {
        kern_refuse(&err, -failed, "cannot remove volume '%s'", name);
        if (failed == -EACCES || failed == -EPERM)
            kern_hint(
                &err,
                "files of the box's other users are in it: kern box --uid-range -v %s:/v -- rm -rf /v/.",
                name);
    }
    if (failed == 0)
        (void)core_volume_forget(name); /* what stays is written over when the name is used again */
    if (failed != 0)
        complain(job, &err);
    else
        (void)printf("removed volume '%s'\n", name); /* checked at the end */
}

/* 0: none, or one that cannot be read, which a box that wants the volume is told. */
static uint64_t size_of(const char *name)
{
    struct kern_error ignored = {0};
    kern_box box;
    uint64_t bytes = 0;
    core_box_init(&box);
    return kern_named_volume_size(&box, name, &bytes, &ignored) == 0 ? bytes : 0;
}

static void write_volume(const struct job *job, const char *name, struct core_json *json)
{
    char path[PATH_MAX + 300];
    struct stat st = {0};
    uint64_t bytes = size_of(name);
    (void)snprintf(path, sizeof(path), "%s/%s", job->path, name); /* sized for it */
    (void)fstatat(job->store, name, &st, AT_SYMLINK_NOFOLLOW);    /* zeros for one just removed */
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", name);
    core_json_string(json, "path", path);
    core_json_int(json, "changed", (int64_t)st.st_mtime);
    core_json_known(json, "size", bytes > 0 ? (int64_t)bytes : -1);
    core_json_string(json, "used_by", user_of(job, name));
    core_json_close(json, '}');
}

static void print_json(struct core_json *json)
{
    (void)printf("%s\n", json->text != NULL ? json->text : "[]"); /* checked at the end */
    core_json_free(json);
}

static void show_all(struct job *job)
{
    struct core_list names = {0};
    struct core_json json = {0};
    bool as_json = kern_get_int(&job->call->flags, "json") != 0;
    if (list(job, &names) != 0)
        job->code = 1;
    core_json_open(&json, NULL, '[');
    for (size_t i = 0; i < names.count; i++) {
        const char *user = user_of(job, names.item[i]);
        if (as_json)
            write_volume(job, names.item[i], &json);
        else
            (void)printf("%s%s%s\n", names.item[i], user != NULL ? "  used by " : "",
                         user != NULL ? user : ""); /* checked at the end */
    }
    core_json_close(&json, ']');
    if (as_json)
        print_json(&json);
    core_json_free(&json);
    core_list_clear(&names);
}

static void inspect(struct job *job, const char *name)
{
    struct kern_error err = {0};
    struct core_json json = {0};
    if (!is_volume(job, name)) {
        (void)kern_refuse(&err, 0, "no volume named '%s'", name); /* the code is 1 */
        kern_hint(&err, "kern volume ls shows them");
        complain(job, &err);
        return;
    }
    write_volume(job, name, &json);
    print_json(&json);
}

static void prune(struct job *job)
{
    struct core_list names = {0};
    struct kern_error err = {0};
    if (kern_get_int(&job->call->flags, "force") == 0) {
        (void)kern_refuse(&err, 0,
                          "prune removes every volume that no box uses, with all that is in it"); /* 1 */
        kern_hint(&err, "kern volume ls shows them; kern volume prune --force removes them");
        complain(job, &err);
        return;
    }
    if (list(job, &names) != 0)
        job->code = 1;
    for (size_t i = 0; i < names.count; i++)
        if (user_of(job, names.item[i]) == NULL)
            remove_one(job, names.item[i]);
    core_list_clear(&names);
}

static int carry_out(struct job *job, struct kern_error *err)
{
    static const struct {
        const char *word;
        void (*each)(struct job *job, const char *name);
        void (*all)(struct job *job);
    } table[] = {{"create", create, NULL},
                 {"rm", remove_one, NULL},
                 {"inspect", inspect, NULL},
                 {"ls", NULL, show_all},
                 {"prune", NULL, prune}};
    const struct core_call *call = job->call;
    for (size_t i = 0; call->words > 0 && i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(call->word[0], table[i].word) != 0 || (table[i].each != NULL) != (call->words > 1))
            continue;
        if (table[i].all != NULL)
            table[i].all(job);
        for (int word = 1; word < call->words; word++)
            table[i].each(job, call->word[word]);
        return core_log_close_stdout() != 0 ? 1 : job->code;
    }
    int r = kern_refuse(err, 0, "kern volume takes create NAME, ls, inspect NAME, rm NAME or prune");
    kern_hint(err, "kern volume --help");
    return r;
}

int core_cmd_volume(struct core_call *call, struct kern_error *err)
{
    cleanup(drop_job) struct job job = {.call = call, .store = -1};
    char base[PATH_MAX - 16];
    int failed = core_data_directory(base, sizeof(base)) == 0
                     ? core_records_read(false, &job.boxes, err)
                     : kern_refuse(err, ENAMETOOLONG, "cannot find the directory of named volumes");
    if (failed != 0)
        return failed;
    (void)snprintf(job.path, sizeof(job.path), "%s/volumes", base); /* sized for it */
    job.store = open(job.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* there may be none yet */
    return carry_out(&job, err);
}

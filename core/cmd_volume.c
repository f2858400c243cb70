/* `kern volume`: the named volumes of this user, directories that `-v NAME:/PATH` puts into boxes. Host side. */
#include "cmd.h"

#include "args.h"
#include "cleanup.h"
#include "engine.h"
#include "help.h"
#include "json.h"
#include "log.h"
#include "plugin.h"
#include "records.h"
#include "resources.h"
#include "scratch.h"
#include "verbs.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct call {
    struct kern_values flags;
    struct core_records boxes; /* living ones, which may use a volume */
    int store;                 /* the directory of all volumes, or -1 */
    char path[PATH_MAX];
    int code;
};

static void drop_call(struct call *call)
{
    core_values_clear(&call->flags);
    core_records_clear(&call->boxes);
    kern_close_fd(&call->store);
}

static void complain(struct call *call, const struct kern_error *err)
{
    core_log_error(err);
    call->code = 1;
}

/* The living box that has the volume, or NULL. */
static const char *user_of(const struct call *call, const char *name)
{
    size_t length = strlen(name);
    for (size_t i = 0; i < call->boxes.count; i++) {
        const char *volume;
        for (unsigned n = 0; (volume = core_record_nth(&call->boxes.item[i], "volume", n)) != NULL; n++)
            if (strncmp(volume, name, length) == 0 && volume[length] == ':')
                return call->boxes.item[i].name;
    }
    return NULL;
}

static bool is_volume(const struct call *call, const char *name)
{
    struct stat st;
    return call->store >= 0 && name[0] != '.' && name[0] != '\0' && strchr(name, '/') == NULL &&
           fstatat(call->store, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(const struct call *call, struct core_list *ret_names)
{
    int copy = call->store >= 0 ? fcntl(call->store, F_DUPFD_CLOEXEC, 3) : -1;
    auto_dir dir = copy >= 0 ? fdopendir(copy) : NULL;
    for (struct dirent *entry = dir != NULL ? readdir(dir) : NULL; entry != NULL; entry = readdir(dir))
        if (is_volume(call, entry->d_name) && core_list_add(ret_names, entry->d_name) != 0)
            return -ENOMEM;
    if (ret_names->count > 0)
        qsort(ret_names->item, ret_names->count, sizeof(char *), by_name);
    return 0;
}

/* ---- What can be done ---- */

static void create(struct call *call, const char *name)
{
    struct kern_error err = {0};
    if (core_volume_create(name, (uint64_t)kern_get_int(&call->flags, "size"), &err) != 0)
        complain(call, &err);
    else
        (void)printf("%s\n", name); /* checked at the end */
}

/* Files of the box's other users belong to subordinate ids, which only a helper of theirs can remove for the caller. */
static int remove_tree(const struct call *call, const char *name)
{
    int failed = core_remove_tree(call->store, name);
    if (failed != -EACCES && failed != -EPERM)
        return failed;
    struct kern_error ignored = {0};
    union {
        void *object;
        int (*run)(int folder, const char *name);
    } helper = {.object = core_plugin_companion("image_tool", "image_tool_remove", &ignored)};
    return helper.object != NULL && helper.run(call->store, name) == 0 ? 0 : failed;
}

static void remove_one(struct call *call, const char *name)
{
    struct kern_error err = {0};
    const char *user = user_of(call, name);
    int failed = 0;
    if (!is_volume(call, name)) {
        failed = kern_refuse(&err, 0, "no volume named '%s'", name);
        kern_hint(&err, "kern volume ls shows them");
    } else if (user != NULL) {
        failed = kern_refuse(&err, 0, "volume '%s' is used by box '%s'", name, user);
        kern_hint(&err, "kern stop %s", user);
    } else if ((failed = remove_tree(call, name)) != 0) {
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
        complain(call, &err);
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

static void write_volume(const struct call *call, const char *name, struct core_json *json)
{
    char path[PATH_MAX + 300];
    struct stat st = {0};
    uint64_t bytes = size_of(name);
    (void)snprintf(path, sizeof(path), "%s/%s", call->path, name); /* sized for it */
    (void)fstatat(call->store, name, &st, AT_SYMLINK_NOFOLLOW);    /* zeros for one just removed */
    core_json_open(json, NULL, '{');
    core_json_string(json, "name", name);
    core_json_string(json, "path", path);
    core_json_int(json, "changed", (int64_t)st.st_mtime);
    core_json_known(json, "size", bytes > 0 ? (int64_t)bytes : -1);
    core_json_string(json, "used_by", user_of(call, name));
    core_json_close(json, '}');
}

static void print_json(struct core_json *json)
{
    (void)printf("%s\n", json->text != NULL ? json->text : "[]"); /* checked at the end */
    core_json_free(json);
}

static void show_all(struct call *call)
{
    struct core_list names = {0};
    struct core_json json = {0};
    bool as_json = kern_get_int(&call->flags, "json") != 0;
    if (list(call, &names) != 0)
        call->code = 1;
    core_json_open(&json, NULL, '[');
    for (size_t i = 0; i < names.count; i++) {
        const char *user = user_of(call, names.item[i]);
        if (as_json)
            write_volume(call, names.item[i], &json);
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

static void inspect(struct call *call, const char *name)
{
    struct kern_error err = {0};
    struct core_json json = {0};
    if (!is_volume(call, name)) {
        (void)kern_refuse(&err, 0, "no volume named '%s'", name); /* the code is 1 */
        kern_hint(&err, "kern volume ls shows them");
        complain(call, &err);
        return;
    }
    write_volume(call, name, &json);
    print_json(&json);
}

static void prune(struct call *call)
{
    struct core_list names = {0};
    struct kern_error err = {0};
    if (kern_get_int(&call->flags, "force") == 0) {
        (void)kern_refuse(&err, 0,
                          "prune removes every volume that no box uses, with all that is in it"); /* 1 */
        kern_hint(&err, "kern volume ls shows them; kern volume prune --force removes them");
        complain(call, &err);
        return;
    }
    if (list(call, &names) != 0)
        call->code = 1;
    for (size_t i = 0; i < names.count; i++)
        if (user_of(call, names.item[i]) == NULL)
            remove_one(call, names.item[i]);
    core_list_clear(&names);
}

static int dispatch(struct call *call, char **argv, int words)
{
    static const struct {
        const char *word;
        void (*each)(struct call *call, const char *name);
        void (*all)(struct call *call);
    } table[] = {{"create", create, NULL},
                 {"rm", remove_one, NULL},
                 {"inspect", inspect, NULL},
                 {"ls", NULL, show_all},
                 {"prune", NULL, prune}};
    struct kern_error err = {0};
    for (size_t i = 0; words > 0 && i < sizeof(table) / sizeof(table[0]); i++) {
        if (strcmp(argv[1], table[i].word) != 0 || (table[i].each != NULL) != (words > 1))
            continue;
        if (table[i].all != NULL)
            table[i].all(call);
        for (int word = 2; word <= words; word++)
            table[i].each(call, argv[word]);
        return 0;
    }
    kern_refuse(&err, 0, "kern volume takes create NAME, ls, inspect NAME, rm NAME or prune");
    kern_hint(&err, "kern volume --help");
    complain(call, &err);
    return -EINVAL;
}

int core_cmd_volume(int argc, char **argv)
{
    cleanup(drop_call) struct call call = {.store = -1};
    struct kern_error err = {0};
    char base[PATH_MAX - 16];
    int words = 0;
    bool help = false;
    const struct core_verb *verb = core_verb_find(argv[0]);
    int failed = core_args_verb(argc, argv, verb->options, &call.flags, 1024, &words, &help, &err);
    if (failed == 0 && help)
        return core_help_print(verb);
    if (failed == 0 && core_data_directory(base, sizeof(base)) != 0)
        failed = kern_refuse(&err, ENAMETOOLONG, "cannot find the directory of named volumes");
    if (failed == 0)
        failed = core_records_read(false, &call.boxes, &err);
    if (failed != 0) {
        core_log_error(&err);
        return 1;
    }
    (void)snprintf(call.path, sizeof(call.path), "%s/volumes", base); /* sized for it */
    call.store = open(call.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* there may be none yet */
    if (dispatch(&call, argv, words) != 0)
        return call.code;
    return core_log_close_stdout() != 0 ? 1 : call.code;
}

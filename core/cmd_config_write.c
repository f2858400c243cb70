/* `kern config setup`, `add`, `rm` and `edit`: change kern.toml and keep what else its owner wrote there. Host side. */
#include "cmd.h"

#include "catalog.h"
#include "cleanup.h"
#include "config_write.h"
#include "log.h"
#include "option_check.h"
#include "options.h"
#include "toml.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define WORDS_MOST 128

/* ---- The file ---- */

struct target {
    char path[PATH_MAX];
    char *text;     /* what it says; NULL when there is none */
    char *original; /* the same, or NULL: what the change is made from */
};

static void clear_target(struct target *target)
{
    free(target->text);
    free(target->original);
}

static int read_target(struct target *target, struct kern_error *err)
{
    auto_file file = fopen(target->path, "re");
    if (file == NULL)
        return errno == ENOENT ? 0 : kern_refuse(err, errno, "cannot open \"%s\"", target->path);
    target->text = calloc(1, CORE_TOML_MAX_SIZE + 1);
    size_t length = target->text != NULL ? fread(target->text, 1, CORE_TOML_MAX_SIZE, file) : 0;
    if (target->text == NULL || ferror(file) || strlen(target->text) != length)
        return kern_refuse(err, 0, "cannot read \"%s\"", target->path);
    target->original = strdup(target->text);
    return target->original != NULL ? 0 : kern_fail(err, ENOMEM, "cannot read \"%s\"", target->path);
}

/* --config FILE, else KERN_CONFIG, else one's own. */
static int find_target(const char *chosen, struct target *target, struct kern_error *err)
{
    const char *named = chosen != NULL ? chosen : secure_getenv("KERN_CONFIG");
    int r = 0;
    if (named != NULL && named[0] == '/')
        r = snprintf(target->path, sizeof(target->path), "%s", named) < (int)sizeof(target->path)
                ? 0
                : -ENAMETOOLONG;
    else if (named != NULL && named[0] != '\0')
        r = realpath(named, target->path) != NULL ? 0 : -errno;
    else
        r = config_source_own_path(target->path, sizeof(target->path));
    if (r < 0)
        return kern_refuse(err, -r, "cannot find the kern.toml to change%s%s", named != NULL ? ": " : "",
                           named != NULL ? named : " (neither XDG_CONFIG_HOME nor HOME is set)");
    return read_target(target, err);
}

/* A first file takes the compiled-in profiles along: without it they would be gone. */
static int begin(struct target *target, struct kern_error *err)
{
    if (target->text != NULL)
        return 0;
    target->text = strndup((const char *)core_config_example, core_config_example_size);
    return target->text != NULL ? 0 : kern_fail(err, ENOMEM, "cannot begin \"%s\"", target->path);
}

static void say(const char *what, const char *path)
{
    char clean[PATH_MAX];
    core_escape(path, clean, sizeof(clean));
    (void)printf("%s %s\n", what, clean); /* found when standard output is closed */
}

/* ---- add ---- */

static const struct kern_option *find_option(const struct kern_plugin *table, const char *name, size_t length)
{
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL; option++)
        if ((option->flags & KERN_OPT_PROFILE) != 0 && core_option_is_named(option->name, name, length))
            return option;
    return NULL;
}

static int refuse_key(const struct kern_plugin *table, const char *flag, struct kern_error *err)
{
    const char *names[WORDS_MOST];
    size_t count = 0;
    for (const struct kern_option *option = table->options; option != NULL && option->name != NULL; option++)
        if ((option->flags & KERN_OPT_PROFILE) != 0 && count + 1 < WORDS_MOST)
            names[count++] = option->name;
    names[count] = NULL;
    const char *near = core_nearest(flag + strspn(flag, "-"), names);
    int r = kern_refuse(err, 0, "a [[%s]] has no key \"%s\"", table->profile, flag + strspn(flag, "-"));
    if (near != NULL)
        kern_hint(err, "did you mean --%s?", near);
    else
        kern_hint(err, "its keys: kern plugin info %s", table->name);
    return r;
}

/* As in kern.toml, [1, 2]: it would be written as one text. (A host may be "[::1]", which is no array.) */
static bool is_array(const char *text)
{
    size_t size = strlen(text) + 5;
    auto_free char *line = malloc(size);
    struct toml_doc *doc = NULL;
    if (line == NULL || text[0] != '[')
        return false;
    (void)snprintf(line, size, "a = %s", text); /* sized for it */
    struct kern_error err = {0};
    bool is = core_toml_parse(line, strlen(line), "", &doc, &err) == 0;
    core_toml_free(doc);
    return is;
}

/* One --KEY VALUE or --KEY=VALUE; a switch may stand alone. Returns how many words it took. */
static int read_word(const struct kern_plugin *table, int argc, char **argv, struct config_word *ret_word,
                     struct kern_error *err)
{
    const char *flag = argv[0], *equals = strchr(flag, '=');
    size_t length = equals != NULL ? (size_t)(equals - flag - 2) : strlen(flag) - 2;
    const struct kern_option *def = strncmp(flag, "--", 2) == 0 ? find_option(table, flag + 2, length) : NULL;
    if (def == NULL || strcmp(def->name, "name") == 0)
        return refuse_key(table, flag, err);
    int taken = 1;
    const char *text = equals != NULL ? equals + 1 : NULL;
    if (text == NULL && def->type == KERN_BOOL)
        text = "true";
    if (text == NULL && argc > 1) {
        text = argv[1];
        taken = 2;
    }
    if (text == NULL)
        return kern_refuse(err, 0, "--%s needs a value", def->name);
    if ((def->flags & KERN_OPT_LIST) != 0 && is_array(text)) {
        int r = kern_refuse(err, 0, "--%s takes one item, and \"%s\" is a list", def->name, text);
        kern_hint(err, "give the flag once for each item: --%s ITEM --%s ITEM", def->name, def->name);
        return r;
    }
    struct core_parsed parsed;
    char where[64];
    (void)snprintf(where, sizeof(where), "--%s", def->name); /* names of options are short */
    int r = core_option_parse(def, text, where, &parsed, err);
    *ret_word = (struct config_word){.def = def, .text = text};
    return r < 0 ? r : taken;
}

/* KIND:NAME of a built-in plugin. */
static int find_kind(const struct core_catalog *catalog, const char *token,
                     const struct kern_plugin **ret_table, char *ret_kind, size_t size, const char **ret_name,
                     struct kern_error *err)
{
    const char *colon = strchr(token, ':');
    if (colon == NULL || colon == token || colon[1] == '\0' || (size_t)(colon - token) >= size) {
        int r = kern_refuse(err, 0, "\"%s\" is no profile: write KIND:NAME", token);
        kern_hint(err, "such as: kern config add vcpu:slim --cpus 0.5 --memory 256m");
        return r;
    }
    (void)snprintf(ret_kind, size, "%.*s", (int)(colon - token), token); /* fits */
    const struct core_plugin *plugin = core_catalog_kind(catalog, ret_kind);
    if (plugin == NULL) {
        int r = kern_refuse(err, 0, "there is no kind of profile \"%s\"", ret_kind);
        kern_hint(err, "kinds and their plugins: kern plugin list");
        return r;
    }
    *ret_table = plugin->table;
    *ret_name = colon + 1;
    return 0;
}

static int add(struct target *target, const char *token, int argc, char **argv, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    struct config_word words[WORDS_MOST];
    const struct kern_plugin *table = NULL;
    const char *name = NULL;
    char kind[32];
    int r = core_catalog_builtin(&catalog, err);
    r = r < 0 ? r : find_kind(&catalog, token, &table, kind, sizeof(kind), &name, err);
    size_t count = 0;
    for (int at = 0; r >= 0 && at < argc; at += r) {
        if (count == WORDS_MOST)
            return kern_refuse(err, E2BIG, "cannot add %s", token);
        r = read_word(table, argc - at, argv + at, &words[count++], err);
    }
    r = r < 0 ? r : begin(target, err);
    auto_free char *made = NULL;
    r = r < 0 ? r : config_write_add(target->text, kind, name, words, count, &made, err);
    r = r < 0 ? r : config_write_save(target->path, target->original, made, err);
    if (r == 0)
        say("added to", target->path);
    return r;
}

/* ---- rm, setup ---- */

static int take_out(struct target *target, const char *token, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    const struct kern_plugin *table = NULL;
    const char *name = NULL;
    char kind[32];
    int r = core_catalog_builtin(&catalog, err);
    r = r < 0 ? r : find_kind(&catalog, token, &table, kind, sizeof(kind), &name, err);
    if (r == 0 && target->text == NULL)
        r = kern_refuse(err, ENOENT, "cannot remove %s: \"%s\"", token, target->path);
    auto_free char *made = NULL;
    r = r < 0 ? r : config_write_remove(target->text, target->path, kind, name, &made, err);
    r = r < 0 ? r : config_write_save(target->path, target->original, made, err);
    if (r == 0)
        say("removed from", target->path);
    return r;
}

static int set_up(struct target *target, struct kern_error *err)
{
    if (target->text != NULL) {
        int r = kern_refuse(err, EEXIST, "cannot set up \"%s\"", target->path);
        kern_hint(err, "change it: kern config edit; a whole example: kern examples");
        return r;
    }
    int r = begin(target, err);
    r = r < 0 ? r : config_write_save(target->path, NULL, target->text, err);
    if (r == 0)
        say("wrote", target->path);
    return r;
}

/* ---- edit ---- */

static const char *editor(void)
{
    const char *words[] = {getenv("VISUAL"), getenv("EDITOR")};
    for (size_t i = 0; i < 2; i++)
        if (words[i] != NULL && words[i][0] != '\0')
            return words[i];
    return access("/usr/bin/editor", X_OK) == 0 ? "/usr/bin/editor" : "vi";
}

/* By a shell, because the variable may hold a command with words of its own. */
static int run_editor(const char *path, struct kern_error *err)
{
    auto_free char *line = NULL;
    const char *program = editor();
    if (asprintf(&line, "%s \"$1\"", program) < 0)
        return kern_fail(err, ENOMEM, "cannot start an editor");
    pid_t pid = fork();
    if (pid == 0) {
        (void)execl("/bin/sh", "sh", "-c", line, "kern", path, (char *)NULL);
        _exit(127);
    }
    int status = 0;
    if (pid < 0 || waitpid(pid, &status, 0) != pid)
        return kern_refuse(err, errno, "cannot start the editor \"%s\"", program);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    int r = kern_refuse(err, 0, "the editor \"%s\" failed, nothing was changed", program);
    kern_hint(err, "choose another: EDITOR=nano kern config edit");
    return r;
}

static int write_draft(const char *text, char *ret_path, size_t size, struct kern_error *err)
{
    (void)snprintf(ret_path, size, "%s/kern.toml.XXXXXX",
                   getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp");
    auto_fd fd = mkostemp(ret_path, O_CLOEXEC);
    size_t length = strlen(text);
    return fd >= 0 && write(fd, text, length) == (ssize_t)length
               ? 0
               : kern_refuse(err, errno, "cannot write a draft to \"%s\"", ret_path);
}

static int edit(struct target *target, struct kern_error *err)
{
    struct target draft = {.text = NULL};
    bool kept = false;
    int r = begin(target, err);
    r = r < 0 ? r : write_draft(target->text, draft.path, sizeof(draft.path), err);
    r = r < 0 ? r : run_editor(draft.path, err);
    r = r < 0 ? r : read_target(&draft, err);
    if (r == 0 && draft.text != NULL && strcmp(draft.text, target->text) == 0 && target->original != NULL) {
        say("nothing changed in", target->path);
    } else if (r == 0) {
        r = config_write_save(target->path, target->original, draft.text != NULL ? draft.text : "", err);
        if (r == 0)
            say("wrote", target->path);
        else
            core_log_note("what you wrote is kept in %s", draft.path);
        kept = r < 0;
    }
    if (!kept && draft.path[0] != '\0')
        (void)unlink(draft.path); /* it lies in a folder for such files */
    clear_target(&draft);
    return r;
}

/* ---- The words ---- */

int core_cmd_config_write(struct core_call *call, struct kern_error *err)
{
    int argc = call->argc;
    char **argv = call->argv;
    cleanup(clear_target) struct target target = {.text = NULL};
    const char *verb = argv[1], *chosen = NULL;
    int at = 2;
    if (argc > at + 1 && strcmp(argv[at], "--config") == 0) {
        chosen = argv[at + 1];
        at += 2;
    }
    bool wants_token = strcmp(verb, "add") == 0 || strcmp(verb, "rm") == 0;
    int r = 0;
    if (wants_token == (argc == at) || (strcmp(verb, "add") != 0 && argc > at + (wants_token ? 1 : 0))) {
        r = kern_refuse(err, 0, "kern config %s needs %s", verb,
                        wants_token ? "one KIND:NAME" : "no words after it");
        kern_hint(err, "kern config --help");
    }
    r = r < 0 ? r : find_target(chosen, &target, err);
    if (r == 0 && strcmp(verb, "add") == 0)
        r = add(&target, argv[at], argc - at - 1, argv + at + 1, err);
    else if (r == 0 && strcmp(verb, "rm") == 0)
        r = take_out(&target, argv[at], err);
    else if (r == 0 && strcmp(verb, "setup") == 0)
        r = set_up(&target, err);
    else if (r == 0)
        r = edit(&target, err);
    return core_log_close_stdout() != 0 && r == 0 ? 1 : r;
}

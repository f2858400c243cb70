/* `kern plugin new`: a project for a plugin from the templates that are installed with kern (sdk/new), which a test builds and runs as
 * they come out here. Host side. */
#include "cmd_plugin.h"

#include "catalog.h"
#include "cleanup.h"

#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

struct template
{
    const char *file; /* in the folder of templates */
    const char *target;
};

/* @NAME@ in a target is replaced, too. A folder comes before what stands in it. */
static const struct template templates[] = {
    {"CMakeLists.txt.in", "CMakeLists.txt"},
    {"plugin.c.in", "@NAME@.c"},
    {"README.md.in", "README.md"},
    {"gitignore.in", ".gitignore"},
    {NULL, "tests"},
    {"unit.c.in", "tests/unit.c"},
    {"kern.toml.in", "tests/kern.toml"},
    {NULL, ".github"},
    {NULL, ".github/workflows"},
    {"ci.yml.in", ".github/workflows/ci.yml"},
};

struct words {
    const char *name;
    const char *kind; /* NULL: no profiles */
    char ident[32];   /* the name as C can write it */
};

static bool is_name(const char *text)
{
    size_t length = strlen(text);
    return text[0] >= 'a' && text[0] <= 'z' && length <= 31 &&
           strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == length;
}

static int check_words(const struct words *words, struct kern_error *err)
{
    const struct kern_plugin table = {.name = words->name, .profile = words->kind};
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    if (!is_name(words->name) || (words->kind != NULL && !is_name(words->kind)))
        return kern_refuse(
            err, 0,
            "\"%.64s\" cannot be the name of a plugin or a kind: it is at most 31 of a-z, 0-9 and -, first "
            "a letter",
            is_name(words->name) ? words->kind : words->name);
    int failed = core_catalog_builtin(&catalog, err);
    if (failed != 0)
        return failed;
    if (core_catalog_find(&catalog, words->name) != NULL)
        return kern_refuse(err, 0, "there is a plugin \"%s\" already: it ships with kern", words->name);
    if (words->kind != NULL && core_catalog_kind(&catalog, words->kind) != NULL)
        return kern_refuse(err, 0, "the kind \"%s\" is served by a plugin that ships with kern", words->kind);
    /* The build of the project makes targets of these names. */
    static const char *const targets[] = {"all", "clean", "help", "install", "package", "test", "unit", NULL};
    for (const char *const *target = targets; *target != NULL; target++)
        if (strcmp(words->name, *target) == 0)
            return kern_refuse(err, 0,
                               "\"%s\" cannot be the name of a plugin: cmake has a target of that name",
                               words->name);
    struct core_plugin *plugin = NULL;
    return core_catalog_add(&catalog, &table, words->name, &plugin, err);
}

static int open_templates(int *ret_fd, struct kern_error *err)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof(KERN_TEMPLATE_RELATIVE_DIR) - 1);
    if (length <= 0)
        return kern_fail(err, errno, "cannot find kern's own path in \"/proc/self/exe\"");
    path[length] = '\0';
    (void)strcpy(strrchr(path, '/') + 1, KERN_TEMPLATE_RELATIVE_DIR); /* room was left for it */
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        kern_refuse(err, errno, "cannot find the templates of a plugin in \"%s\"", path);
        kern_hint(err, "install kern again: they belong to it");
        return -ENOENT;
    }
    *ret_fd = fd;
    return 0;
}

/* The value of the "@WORD@" that `at` begins with, and its length there; NULL for anything else. */
static const char *value_of(const struct words *words, const char *at, size_t *ret_length)
{
    const struct {
        const char *word;
        const char *value;
    } known[] = {
        {"@NAME@", words->name},
        {"@IDENT@", words->ident},
        {"@KIND@", words->kind != NULL ? words->kind : words->name},
        {"@SUMMARY@", "puts a generated file into the box"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        *ret_length = strlen(known[i].word);
        if (strncmp(at, known[i].word, *ret_length) == 0)
            return known[i].value;
    }
    return NULL;
}

static void put_line(const struct words *words, const char *line, FILE *out)
{
    while (*line != '\0') {
        size_t length = 1;
        const char *value = value_of(words, line, &length);
        if (value != NULL)
            (void)fputs(value, out); /* what is lost is found when the file is closed */
        else
            (void)fputc(*line, out); /* the same */
        line += value != NULL ? length : 1;
    }
}

/* Lines between "@if profile@", "@else@" and "@end@" are for a plugin with profiles, or for one without. */
static void fill(const struct words *words, FILE *in, FILE *out)
{
    char line[512];
    bool wanted = true;
    while (fgets(line, sizeof(line), in) != NULL) {
        if (strcmp(line, "@if profile@\n") == 0)
            wanted = words->kind != NULL;
        else if (strcmp(line, "@else@\n") == 0)
            wanted = words->kind == NULL;
        else if (strcmp(line, "@end@\n") == 0)
            wanted = true;
        else if (wanted)
            put_line(words, line, out);
    }
}

static int write_file(const struct words *words, int from, const char *template, int to, const char *target,
                      struct kern_error *err)
{
    auto_fd in_fd = openat(from, template, O_RDONLY | O_CLOEXEC);
    if (in_fd < 0)
        return kern_refuse(err, errno, "cannot read template \"%s\"", template);
    auto_fd out_fd = openat(to, target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (out_fd < 0)
        return kern_refuse(err, errno, "cannot make \"%s/%s\"", words->name, target);
    auto_file in = fdopen(in_fd, "r");
    FILE *out = fdopen(out_fd, "w");
    if (in != NULL)
        (void)steal_fd(&in_fd);
    if (out == NULL || in == NULL) {
        if (out != NULL)
            (void)steal_fd(&out_fd), (void)fclose(out); /* nothing was written */
        return kern_fail(err, ENOMEM, "cannot make \"%s/%s\"", words->name, target);
    }
    (void)steal_fd(&out_fd);
    fill(words, in, out);
    return fclose(out) == 0 ? 0 : kern_refuse(err, errno, "cannot write \"%s/%s\"", words->name, target);
}

static int write_all(const struct words *words, int from, int to, struct kern_error *err)
{
    int failed = 0;
    for (size_t i = 0; failed == 0 && i < sizeof(templates) / sizeof(templates[0]); i++) {
        char target[96];
        bool named = strncmp(templates[i].target, "@NAME@", 6) == 0;
        (void)snprintf(target, sizeof(target), "%s%s", named ? words->name : "",
                       templates[i].target + (named ? 6 : 0)); /* names are short */
        if (templates[i].file == NULL)
            failed = mkdirat(to, target, 0777) == 0
                         ? 0
                         : kern_refuse(err, errno, "cannot make \"%s/%s\"", words->name, target);
        else
            failed = write_file(words, from, templates[i].file, to, target, err);
    }
    return failed;
}

int core_plugin_new(const char *name, const char *kind, struct kern_error *err)
{
    struct words words = {.name = name, .kind = kind};
    auto_fd from = -1;
    int failed = check_words(&words, err);
    if (failed == 0)
        failed = open_templates(&from, err);
    if (failed != 0)
        return failed;
    for (size_t i = 0; i < strlen(name); i++)
        words.ident[i] = name[i] == '-' ? '_' : name[i];
    if (mkdir(name, 0777) != 0) {
        kern_refuse(err, errno, "cannot make folder \"%s\"", name);
        kern_hint(err, "choose another name, or go to another folder");
        return -EEXIST;
    }
    auto_fd to = open(name, O_PATH | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (to < 0)
        return kern_refuse(err, errno, "cannot open folder \"%s\"", name);
    failed = write_all(&words, from, to, err);
    if (failed == 0) /* what is lost is found when standard output is closed */
        (void)printf(
            "wrote '%s'\n\ncd %s && cmake -B build && cmake --build build && ctest --test-dir build\n", name,
            name);
    return failed;
}

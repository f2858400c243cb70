/* Changes to kern.toml; see config_write.h. */
#include "config_write.h"

#include "catalog.h"
#include "cleanup.h"
#include "resources.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

static int no_memory(struct kern_error *err)
{
    return kern_fail(err, ENOMEM, "cannot keep kern.toml");
}

/* ---- Adding ---- */

static void print_quoted(FILE *out, const char *text)
{
    (void)fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at != '\0'; at++) {
        if (*at == '"' || *at == '\\')
            (void)fprintf(out, "\\%c", *at);
        else if (*at < 0x20 || *at == 0x7f)
            (void)fprintf(out, "\\u%04x", *at);
        else
            (void)fputc(*at, out);
    }
    (void)fputc('"', out); /* a stream in memory: what fails is found when it is closed */
}

static bool is_number(const char *text)
{
    return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0' && (text[0] != '0' || text[1] == '\0');
}

static void print_value(FILE *out, const struct config_word *word)
{
    uint32_t type = word->def->type;
    bool bare = type == KERN_INT || type == KERN_FLOAT || type == KERN_BOOL || type == KERN_TABLE ||
                (type == KERN_ANY && (is_number(word->text) || word->text[0] == '{'));
    if (bare)
        (void)fputs(word->text, out);
    else
        print_quoted(out, word->text);
}

static bool is_first(const struct config_word *words, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (words[i].def == words[at].def)
            return false;
    return true;
}

static void print_key(FILE *out, const struct config_word *words, size_t count, size_t at)
{
    bool list = (words[at].def->flags & KERN_OPT_LIST) != 0;
    (void)fprintf(out, "%s = %s", words[at].def->name, list ? "[" : "");
    print_value(out, &words[at]);
    for (size_t i = at + 1; i < count; i++) {
        if (words[i].def != words[at].def)
            continue;
        (void)fputs(", ", out);
        print_value(out, &words[i]);
    }
    (void)fputs(list ? "]\n" : "\n", out);
}

int config_write_add(const char *text, const char *kind, const char *name, const struct config_word *words,
                     size_t count, char **ret_text, struct kern_error *err)
{
    auto_free char *made = NULL;
    size_t length = 0, old = strlen(text);
    FILE *out = open_memstream(&made, &length);
    if (out == NULL)
        return no_memory(err);
    (void)fputs(text, out);
    (void)fprintf(out, "%s%s[[%s]]\nname = ", old > 0 && text[old - 1] != '\n' ? "\n" : "",
                  old > 0 ? "\n" : "", kind);
    print_quoted(out, name);
    (void)fputc('\n', out);
    for (size_t i = 0; i < count; i++)
        if (is_first(words, i))
            print_key(out, words, count, i);
    if (fclose(out) != 0)
        return no_memory(err);
    *ret_text = steal_ptr(made);
    return 0;
}

/* ---- Removing ---- */

static void drop_doc(struct toml_doc **doc)
{
    core_toml_free(*doc);
}

/* The first line of the table or array of tables that comes after `line`, or 0. */
static uint32_t next_header(const struct toml_node *root, uint32_t line)
{
    uint32_t next = 0;
    for (size_t i = 0; i < core_toml_count(root); i++) {
        const struct toml_node *entry = core_toml_at(root, i);
        bool many = core_toml_is_array_of_tables(entry);
        for (size_t k = 0; k < (many ? core_toml_count(entry) : 1); k++) {
            const struct toml_node *table = many ? core_toml_at(entry, k) : entry;
            if (table->type == TOML_TABLE && table->line > line && (next == 0 || table->line < next))
                next = table->line;
        }
    }
    return next;
}

static const char *line_at(const char *text, uint32_t line)
{
    for (uint32_t at = 1; at < line && *text != '\0'; at++) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return text;
}

static bool is_remark(const char *line)
{
    line += strspn(line, " \t\r");
    return *line == '\n' || *line == '#' || *line == '\0';
}

/* Blank lines and comments ahead of the next table belong to that one. */
static const char *end_of_table(const char *text, uint32_t first, uint32_t next)
{
    if (next == 0) {
        next = first;
        while (*line_at(text, next) != '\0')
            next++;
    }
    while (next > first + 1 && is_remark(line_at(text, next - 1)))
        next--;
    return line_at(text, next);
}

/* A blank line between two tables is one too many when there is one table, or the end, behind it. */
static const char *without_gap(const char *text, const char *start, const char *end)
{
    bool gap = start - text >= 2 && start[-1] == '\n' && start[-2] == '\n';
    return gap && (*end == '\0' || *end == '\n') ? start - 1 : start;
}

int config_write_remove(const char *text, const char *path, const char *kind, const char *name,
                        char **ret_text, struct kern_error *err)
{
    cleanup(drop_doc) struct toml_doc *doc = NULL;
    int r = core_toml_parse(text, strlen(text), path, &doc, err);
    if (r < 0)
        return r;
    const struct toml_node *rows = core_toml_get(core_toml_root(doc), kind), *found = NULL;
    for (size_t i = 0; rows != NULL && core_toml_is_array_of_tables(rows) && i < core_toml_count(rows); i++) {
        const struct toml_node *own = core_toml_get(core_toml_at(rows, i), "name");
        if (own != NULL && own->type == TOML_STRING && strcmp(own->as.text.bytes, name) == 0)
            found = core_toml_at(rows, i);
    }
    if (found == NULL) {
        r = kern_refuse(err, ENOENT, "cannot remove %s:%s: \"%s\" has no such table", kind, name, path);
        kern_hint(err, "the profiles there are: kern config list");
        return r;
    }
    const char *start = line_at(text, found->line);
    const char *end = end_of_table(text, found->line, next_header(core_toml_root(doc), found->line));
    start = without_gap(text, start, end);
    char *made = NULL;
    if (asprintf(&made, "%.*s%s", (int)(start - text), text, end) < 0)
        return no_memory(err);
    *ret_text = made;
    return 0;
}

/* ---- Saving ---- */

static void drop_config(struct core_config **config)
{
    core_config_free(*config);
}

static int check(const char *path, const char *text, struct kern_error *err)
{
    cleanup(core_catalog_clear) struct core_catalog catalog = {0};
    cleanup(drop_config) struct core_config *config = NULL;
    struct config_source source = {.trust = CORE_CONFIG_OWN,
                                   .path = strdup(path),
                                   .folder = strdup("/"),
                                   .text = strdup(text),
                                   .length = strlen(text)};
    if (source.path == NULL || source.folder == NULL || source.text == NULL) {
        config_source_clear(&source);
        return no_memory(err);
    }
    int r = core_catalog_builtin(&catalog, err);
    if (r < 0)
        config_source_clear(&source);
    r = r < 0 ? r : config_parse(&source, &catalog, &config, NULL, NULL, err);
    return r < 0 ? r : core_config_check_all(config, &catalog, err);
}

static int open_folder(const char *path, int *ret_fd, struct kern_error *err)
{
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof(folder), "%s", path); /* or is not there */
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder)
        return kern_refuse(err, 0, "cannot write \"%s\": its path is not absolute", path);
    *slash = '\0';
    int r = core_make_path(folder);
    int fd = r == 0 ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0)
        return kern_refuse(err, r < 0 ? -r : errno, "cannot open \"%s\" for kern.toml", folder);
    *ret_fd = fd;
    return 0;
}

/* Under the lock of its folder: nobody else's kern changes it now. */
static int is_unchanged(int folder, const char *name, const char *original, struct kern_error *err)
{
    auto_fd fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
    auto_free char *text = fd >= 0 ? calloc(1, CORE_TOML_MAX_SIZE + 1) : NULL;
    ssize_t length = text != NULL ? read(fd, text, CORE_TOML_MAX_SIZE) : -1;
    if (fd < 0 && errno == ENOENT && original == NULL)
        return 0;
    if (length >= 0 && original != NULL && strcmp(text, original) == 0)
        return 0;
    int r = kern_refuse(err, 0, "cannot write \"%s\": it was changed meanwhile", name);
    kern_hint(err, "try again");
    return r;
}

int config_write_save(const char *path, const char *original, const char *text, struct kern_error *err)
{
    auto_fd folder = -1;
    int r = check(path, text, err);
    if (r == 0)
        r = open_folder(path, &folder, err);
    if (r < 0)
        return r;
    const char *name = strrchr(path, '/') + 1;
    if (flock(folder, LOCK_EX) != 0)
        return kern_refuse(err, errno, "cannot lock the folder of \"%s\"", path);
    r = is_unchanged(folder, name, original, err);
    if (r < 0)
        return r;
    char made[NAME_MAX];
    struct stat st = {.st_mode = 0644};
    (void)snprintf(made, sizeof(made), ".kern.toml.%d", (int)getpid()); /* fits */
    (void)fstatat(folder, name, &st, 0);                                /* a new file has the usual mode */
    auto_fd fd = openat(folder, made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0755);
    size_t length = strlen(text);
    if (fd < 0 || write(fd, text, length) != (ssize_t)length || fsync(fd) != 0 ||
        renameat(folder, made, folder, name) != 0) {
        r = kern_refuse(err, errno, "cannot write \"%s\"", path);
        (void)unlinkat(folder, made, 0); /* it may not have come into being */
    }
    return r;
}

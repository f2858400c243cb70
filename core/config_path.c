/* Paths of the host that a kern.toml names, and what a file that somebody else wrote may not say. Host side. */
#include "config_internal.h"

#include "cleanup.h"
#include "option_check.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The part of an option's text that is a path of the host. */
struct span {
    size_t start, length;
};

/* -v SRC:DST, where a bare word is a named volume; --mount has src= among its parts. */
static bool find_source(const struct kern_option *def, const char *text, struct span *ret_span)
{
    if (def->type == KERN_PATH || strcmp(def->name, "volume") == 0) {
        *ret_span = (struct span){0, def->type == KERN_PATH ? strlen(text) : strcspn(text, ":")};
        return true;
    }
    if (strcmp(def->name, "mount") != 0)
        return false;
    for (const char *part = text; *part != '\0'; part += strcspn(part, ","), part += *part == ',') {
        size_t skip = strncmp(part, "src=", 4) == 0 ? 4 : strncmp(part, "source=", 7) == 0 ? 7 : 0;
        if (skip == 0)
            continue;
        *ret_span = (struct span){(size_t)(part - text) + skip, strcspn(part + skip, ",")};
        return true;
    }
    return false;
}

static bool is_below(const char *path, const char *folder)
{
    size_t length = strlen(folder);
    if (strcmp(folder, "/") == 0)
        return true;
    return strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == '\0');
}

/* What the box will use is the resolved path that was judged, so that no link in it can be bent in between. */
static int confine(const struct core_config *config, const char *prefix, char *path, struct kern_error *err)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL)
        return kern_refuse(err, errno, "%s: cannot find %s", prefix, core_option_quote(path).text);
    if (!is_below(real, config->folder)) {
        int r = kern_refuse(err, 0,
                            "%s: %s is outside \"%s\", and a file that --config or KERN_CONFIG names may not "
                            "reach further",
                            prefix, core_option_quote(real).text, config->folder);
        kern_hint(err, "give it on the command line, or put it in your own kern.toml");
        return r;
    }
    (void)snprintf(path, PATH_MAX, "%s", real); /* the same size */
    return 0;
}

static int refuse_named_volume(const char *prefix, const char *text, struct kern_error *err)
{
    int r = kern_refuse(
        err, 0, "%s: %s is a named volume, which a file that --config or KERN_CONFIG names may not use",
        prefix, core_option_quote(text).text);
    kern_hint(err, "give it on the command line, or put it in your own kern.toml");
    return r;
}

bool config_path_is_one(const struct kern_option *def)
{
    return def->type == KERN_PATH || strcmp(def->name, "volume") == 0 || strcmp(def->name, "mount") == 0;
}

int config_path_resolve(const struct core_config *config, const struct kern_option *def, const char *text,
                        const char *prefix, char **ret_text, struct kern_error *err)
{
    struct span span;
    if (config->folder == NULL || !find_source(def, text, &span) || span.length == 0)
        return 0;
    const char *source = text + span.start;
    bool foreign = config->trust == CORE_CONFIG_FOREIGN;
    bool named = def->type != KERN_PATH && memchr(source, '/', span.length) == NULL && source[0] != '.';
    if (named)
        return foreign ? refuse_named_volume(prefix, text, err) : 0;
    if (source[0] == '/' && !foreign)
        return 0;
    char path[PATH_MAX];
    int n = snprintf(path, sizeof(path), "%s%s%.*s", source[0] == '/' ? "" : config->folder,
                     source[0] == '/' ? "" : "/", (int)span.length, source);
    if (n < 0 || (size_t)n >= sizeof(path))
        return kern_refuse(err, ENAMETOOLONG, "%s: cannot use %s", prefix, core_option_quote(text).text);
    int r = foreign ? confine(config, prefix, path, err) : 0;
    if (r < 0)
        return r;
    /* A colon or comma that came in with the folder would be read as the end of the path. */
    const char *mark = def->type == KERN_PATH ? "" : strcmp(def->name, "mount") == 0 ? "," : ":";
    if (strpbrk(path, mark) != NULL)
        return kern_refuse(err, 0, "%s: the path %s has a \"%s\" in it, which ends a path here", prefix,
                           core_option_quote(path).text, mark);
    char *joined = NULL;
    if (asprintf(&joined, "%.*s%s%s", (int)span.start, text, path, source + span.length) < 0)
        return kern_fail(err, ENOMEM, "%s: cannot keep the path", prefix);
    *ret_text = joined;
    return 0;
}

/* Saying what holds anyhow does no harm, and projects like to say it. */
static bool is_default(const struct kern_option *def, const struct toml_node *node)
{
    if (node->type == TOML_BOOLEAN)
        return !node->as.boolean && (def->fallback == NULL || strcmp(def->fallback, "false") == 0);
    return node->type == TOML_STRING && def->fallback != NULL &&
           strcmp(def->fallback, node->as.text.bytes) == 0;
}

/* A profile's key sets the box option of the same name, so it is judged as that too. */
int config_guard(const struct core_config *config, const struct kern_option *def,
                 const struct toml_node *node, struct kern_error *err)
{
    if (config->trust != CORE_CONFIG_FOREIGN)
        return 0;
    bool apart = (def->flags & KERN_OPT_APART) != 0;
    const struct kern_option *box = apart ? NULL : config_schema_find(&config->box_schema, node);
    uint32_t flags = def->flags | (box != NULL ? box->flags : 0);
    if ((flags & KERN_OPT_GUARDED) == 0 || is_default(box != NULL ? box : def, node))
        return 0;
    char own[256];
    if (config_source_own_path(own, sizeof(own)) < 0)
        (void)snprintf(own, sizeof(own), "/etc/kern/kern.toml"); /* fits */
    int r = kern_refuse(err, 0, "%s: \"%s\" is not accepted from a file that --config or KERN_CONFIG names",
                        config_at(config, node->line, node->column).text, def->name);
    if ((def->flags & KERN_OPT_FLAG) != 0)
        kern_hint(err, "put it in your own kern.toml (%s), or give --%s on the command line", own, def->name);
    else
        kern_hint(err, "put it in your own kern.toml (%s)", own);
    return r;
}

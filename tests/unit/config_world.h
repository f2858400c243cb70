/* A catalog, a box and a folder for the tests of kern.toml: documents are handed over as text. Included by
 * test_config*.c, each of which is a program of its own. */
#ifndef TESTS_CONFIG_WORLD_H
#define TESTS_CONFIG_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "config_internal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct world {
    struct core_catalog catalog;
    struct core_config *config;
    struct kern_values box;
    struct kern_error err;
    char notes[2000];
    char folder[64];
};

static inline int make_world(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    *state = world;
    if (world == NULL || core_catalog_builtin(&world->catalog, NULL) < 0)
        return -1;
    (void)snprintf(world->folder, sizeof(world->folder), "/tmp/kern-test-config-XXXXXX");
    if (mkdtemp(world->folder) == NULL)
        return -1;
    for (size_t i = 0; i < world->catalog.count; i++)
        if (core_values_add(&world->box, world->catalog.plugin[i].table->options,
                            KERN_OPT_FLAG | KERN_OPT_BOX, NULL) < 0)
            return -1;
    return 0;
}

static inline int drop_world(void **state)
{
    struct world *world = *state;
    char command[128];
    (void)snprintf(command, sizeof(command), "rm -rf '%s'", world->folder);
    int r = system(command);
    core_config_free(world->config);
    core_values_clear(&world->box);
    core_catalog_clear(&world->catalog);
    free(world);
    return r;
}

static inline void keep_note(void *data, const char *text)
{
    struct world *world = data;
    size_t used = strlen(world->notes);
    (void)snprintf(world->notes + used, sizeof(world->notes) - used, "%s\n", text);
}

/* What a file of this text in world->folder would be. */
static inline int load(struct world *world, const char *text, int trust)
{
    struct config_source source = {.path = strdup("kern.toml"),
                                   .folder = strdup(world->folder),
                                   .text = text != NULL ? strdup(text) : NULL,
                                   .length = text != NULL ? strlen(text) : 0,
                                   .trust = trust};
    core_config_free(world->config);
    world->config = NULL;
    world->err = (struct kern_error){0};
    world->notes[0] = '\0';
    int r = config_parse(&source, &world->catalog, &world->config, keep_note, world, &world->err);
    config_source_clear(&source);
    return r;
}

static inline void accept(struct world *world, const char *text, int trust)
{
    int r = load(world, text, trust);
    assert_string_equal(world->err.message, "");
    assert_int_equal(r, 0);
}

static inline void refuse(struct world *world, const char *text, int trust, const char *message)
{
    assert_true(load(world, text, trust) < 0);
    assert_string_equal(world->err.message, message);
    assert_int_equal(world->err.category, KERN_ERROR_REFUSED);
    assert_null(world->config);
}

static inline const kern_values *profile(struct world *world, const char *kind, const char *name)
{
    struct core_plugin *plugin = core_catalog_kind(&world->catalog, kind);
    assert_non_null(plugin);
    int r = core_config_profile(world->config, plugin, name, &world->err);
    assert_string_equal(world->err.message, "");
    assert_int_equal(r, 0);
    return &plugin->profile[plugin->profile_count - 1].values;
}

static inline const struct core_profile *last_profile(struct world *world, const char *kind)
{
    const struct core_plugin *plugin = core_catalog_kind(&world->catalog, kind);
    return &plugin->profile[plugin->profile_count - 1];
}

#define IN_WORLD(test) cmocka_unit_test_setup_teardown(test, make_world, drop_world)

#endif

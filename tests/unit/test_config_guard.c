/* kern.toml: what a file of somebody else may not set, and the keys and tables of plugins of third parties. */
#include "config_world.h"

/* ---- Files of somebody else --------------------------------------------------------------------------- */

static void a_foreign_file_may_not_weaken_the_box(void **state)
{
    struct world *world = *state;
    static const char *const guarded[] = {
        "privileged = true",  "net = \"host\"",         "userns = \"keep\"",     "rootfs = \"/\"",
        "bind-rootfs = true", "cap-add = [\"SYSLOG\"]", "allow_uncapped = true", "seccomp = \"x\""};
    for (size_t i = 0; i < sizeof(guarded) / sizeof(guarded[0]); i++) {
        char text[64], name[32], message[160];
        (void)snprintf(text, sizeof(text), "[box]\n%s\n", guarded[i]);
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(guarded[i], " "), guarded[i]);
        for (char *at = name; *at != '\0'; at++)
            *at = *at == '_' ? '-' : *at;
        (void)snprintf(message, sizeof(message),
                       "kern.toml:2:1: \"%s\" is not accepted from a file that --config or KERN_CONFIG names",
                       name);
        refuse(world, text, CORE_CONFIG_FOREIGN, message);
        assert_non_null(strstr(world->err.hint, "put it in your own kern.toml"));
        (void)snprintf(message, sizeof(message), "or give --%s on the command line", name);
        assert_non_null(strstr(world->err.hint, message));
        accept(world, text, CORE_CONFIG_OWN);
    }
    accept(world, "[box]\nprivileged = false\nnet = \"none\"\nuserns = \"auto\"\nmemory = \"1g\"\n",
           CORE_CONFIG_FOREIGN);
    refuse(world, "[[plugin]]\npath = \"/x.so\"\n", CORE_CONFIG_FOREIGN,
           "kern.toml:2:1: \"path\" is not accepted from a file that --config or KERN_CONFIG names");
    refuse(world, "[registry]\nmirrors = []\n", CORE_CONFIG_FOREIGN,
           "kern.toml:1:2: [registry] is not accepted from a file that --config or KERN_CONFIG names");
    accept(world, "[[plugin]]\nname = \"x\"\n", CORE_CONFIG_FOREIGN);
}

static void make(const struct world *world, const char *name, const char *link)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", world->folder, name);
    assert_int_equal(link != NULL ? symlink(link, path) : mkdir(path, 0755), 0);
}

static void a_foreign_file_may_not_reach_outside_its_folder(void **state)
{
    struct world *world = *state;
    char message[400], wanted[160];
    make(world, "in", NULL);
    make(world, "out", "/etc");
    static const char *const outside[] = {"volume = \"/etc:/x\"",
                                          "volume = [\"./in/../../../etc:/x\"]",
                                          "volume = \"out:/x\"",
                                          "volume = \"./out:/x\"",
                                          "mount = \"type=bind,src=/etc,dst=/x\"",
                                          "mount = \"type=bind,source=./out,dst=/x\"",
                                          "env-file = \"out/passwd\"",
                                          "env-file = [\"/etc/passwd\"]",
                                          "volume = \"./missing:/x\""};
    for (size_t i = 0; i < sizeof(outside) / sizeof(outside[0]); i++) {
        (void)snprintf(message, sizeof(message), "[box]\n%s\n", outside[i]);
        assert_true(load(world, message, CORE_CONFIG_FOREIGN) < 0);
        assert_memory_equal(world->err.message, "kern.toml:2:", 12);
    }
    (void)snprintf(
        message, sizeof(message),
        "kern.toml:2:10: volume: \"/etc\" is outside \"%s\", and a file that --config or KERN_CONFIG names "
        "may not reach further",
        world->folder);
    refuse(world, "[box]\nvolume = \"./out:/x\"\n", CORE_CONFIG_FOREIGN, message);
    refuse(world, "[box]\nvolume = \"cache:/x\"\n", CORE_CONFIG_FOREIGN,
           "kern.toml:2:10: volume: \"cache:/x\" is a named volume, which a file that --config or "
           "KERN_CONFIG names may "
           "not use");
    accept(world, "[box]\nvolume = \"./in:/x:ro\"\n", CORE_CONFIG_FOREIGN);
    assert_int_equal(core_config_box(world->config, &world->box, NULL), 0);
    (void)snprintf(wanted, sizeof(wanted), "%s/in:/x:ro", world->folder);
    assert_string_equal(kern_get_item(&world->box, "volume", 0), wanted);
}

/* ---- Plugins of third parties ------------------------------------------------------------------------- */

static int check_hello(const kern_values *values, const kern_values *pool, struct kern_error *err)
{
    (void)pool;
    if (kern_get_int(values, "loud") == 7)
        return kern_refuse(err, 0, "seven is too loud");
    return kern_get_int(values, "loud") == 8 ? -EINVAL : 0;
}

static const struct kern_option hello_options[] = {
    {.name = "loud", .type = KERN_INT, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED},
    {.name = "extra", .type = KERN_TABLE, .flags = KERN_OPT_PROFILE},
    {.name = "privileged", .type = KERN_BOOL, .flags = KERN_OPT_PROFILE},
    {.name = "colour", .type = KERN_STRING, .flags = KERN_OPT_PLUGIN | KERN_OPT_FLAG, .fallback = "red"},
    {.name = NULL},
};
static const struct kern_plugin hello = {
    .name = "hello", .profile = "hello", .options = hello_options, .check = check_hello};

static void a_declared_plugin_gets_its_keys_and_its_tables(void **state)
{
    struct world *world = *state;
    const struct core_plugin_entry *entry;
    accept(world,
           "[[plugin]]\nname = \"hello\"\ncolour = \"blue\"\n[[plugin]]\nname = \"off\"\nenabled = false\n"
           "[[hello]]\nname = \"x\"\nloud = 3\nextra = { a = [1, \"b\"] }\n[odd]\n",
           CORE_CONFIG_OWN);
    assert_string_equal(world->notes, "");
    assert_int_equal(core_config_plugins(world->config, &entry), 2);
    assert_string_equal(entry[0].name, "hello");
    assert_null(entry[0].path);
    assert_true(entry[0].enabled);
    assert_false(entry[1].enabled);
    assert_int_equal(entry[1].line, 4);

    struct core_plugin *plugin;
    assert_int_equal(core_catalog_add(&world->catalog, &hello, "/hello.so", &plugin, NULL), 0);
    assert_int_equal(core_config_plugin_values(world->config, 0, plugin, &world->err), 0);
    assert_string_equal(kern_get_string(&plugin->own, "colour"), "blue");
    assert_int_equal(core_config_bind(world->config, &world->catalog, keep_note, world, &world->err), 0);
    assert_string_equal(world->notes, "kern.toml:11:2: table [odd] is unknown and does nothing\n");
    const kern_values *x = profile(world, "hello", "x");
    assert_int_equal(kern_get_int(x, "loud"), 3);
    assert_string_equal(kern_get_string(x, "extra"), "{\"a\":[1,\"b\"]}");
    assert_string_equal(last_profile(world, "hello")->name, "x");
}

/* Read while the plugin is not known, as at a start; bound when it is. */
static void assert_unbound(struct world *world, const char *text, const char *message)
{
    struct core_plugin *plugin;
    accept(world, text, CORE_CONFIG_FOREIGN);
    assert_int_equal(core_catalog_add(&world->catalog, &hello, "/hello.so", &plugin, NULL), 0);
    int r = core_config_bind(world->config, &world->catalog, NULL, NULL, &world->err);
    assert_string_equal(world->err.message, message);
    assert_true(r < 0);
    core_catalog_clear(&world->catalog);
    assert_int_equal(core_catalog_builtin(&world->catalog, NULL), 0);
}

static void the_tables_of_a_declared_plugin_are_checked_when_it_is_there(void **state)
{
    struct world *world = *state;
    struct core_plugin *plugin;
    accept(world, "[[plugin]]\nname = \"hello\"\ncolor = \"blue\"\n", CORE_CONFIG_OWN);
    assert_int_equal(core_catalog_add(&world->catalog, &hello, "/hello.so", &plugin, NULL), 0);
    assert_true(core_config_plugin_values(world->config, 0, plugin, &world->err) < 0);
    assert_string_equal(world->err.message, "kern.toml:3:1: unknown key \"color\" in [[plugin]] \"hello\"");
    assert_string_equal(world->err.hint, "did you mean \"colour\"?");
    core_catalog_clear(&world->catalog);
    assert_int_equal(core_catalog_builtin(&world->catalog, NULL), 0);

    assert_unbound(world, "[[hello]]\nname = \"x\"\n", "kern.toml:1:3: this [[hello]] needs a key \"loud\"");
    assert_unbound(world, "[[hello]]\nname = \"x\"\nloud = 7\n", "kern.toml:1:3: hello:x: seven is too loud");
    assert_unbound(world, "[[hello]]\nname = \"x\"\nloud = 8\n",
                   "kern.toml:1:3: hello:x: its plugin refuses it");
    assert_unbound(
        world, "[[hello]]\nname = \"x\"\nloud = 1\nprivileged = true\n",
        "kern.toml:4:1: \"privileged\" is not accepted from a file that --config or KERN_CONFIG names");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(a_foreign_file_may_not_weaken_the_box),
        IN_WORLD(a_foreign_file_may_not_reach_outside_its_folder),
        IN_WORLD(a_declared_plugin_gets_its_keys_and_its_tables),
        IN_WORLD(the_tables_of_a_declared_plugin_are_checked_when_it_is_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

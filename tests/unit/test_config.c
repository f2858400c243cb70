/* kern.toml: what it may say, what is refused and with which words, profiles, pools and chains, the compiled
 * default. Its source and trust are in test_config_source.c, files of somebody else in test_config_guard.c. */
#include "config_world.h"

/* ---- Faults ------------------------------------------------------------------------------------------- */

static const struct {
    const char *text, *message, *hint;
} faults[] = {
    {"[[vcpu]]\nname = \"a\"\n  memroy = \"1g\"\n", "kern.toml:3:3: unknown key \"memroy\" in [[vcpu]]",
     "did you mean \"memory\"?"},
    {"[box]\nmemory = \"1g\"\npidslimit = 5\n", "kern.toml:3:1: unknown key \"pidslimit\" in [box]",
     "did you mean \"pids-limit\"?"},
    {"[box]\nzzz = 1\n", "kern.toml:2:1: unknown key \"zzz\" in [box]", ""},
    {"[box]\nmemory = true\n",
     "kern.toml:2:10: memory is a boolean, but must be a size such as \"512m\", or bytes", ""},
    {"[box]\n  memory = 1.5\n",
     "kern.toml:2:12: memory is a float, but must be a size such as \"512m\", or bytes", ""},
    {"[box]\nmemory = [1]\n",
     "kern.toml:2:10: memory is an array, but must be a size such as \"512m\", or bytes", ""},
    {"[box]\npids-limit = 1.0\n", "kern.toml:2:14: pids-limit is a float, but must be a whole number", ""},
    {"[box]\ninit = 1\n", "kern.toml:2:8: init is an integer, but must be true or false", ""},
    {"[box]\ncpuset-cpus = 2\n", "kern.toml:2:15: cpuset-cpus is an integer, but must be a string",
     "write it in quotes: cpuset-cpus = \"2\""},
    {"[box]\nenv = [\n  \"A=b\",\n  {}]\n", "kern.toml:4:3: env is a table, but must be a string", ""},
    {"[box]\ntimeout = 1979-05-27\n",
     "kern.toml:2:11: timeout is a local date, but must be a duration such as 1.5 (seconds) or \"500ms\"",
     ""},
    {"[box]\nmemory = \"1g\"\nmemory = \"2g\"\n",
     "kern.toml:3:1: the key \"memory\" is defined already (line 2, column 1)", ""},
    {"[box]\npids_limit = 3\npids-limit = 4\n",
     "kern.toml:3:1: key \"pids-limit\" is the same as \"pids_limit\" in line 2", ""},
    {"[box]\nmemory = 0\n", "kern.toml:2:10: memory: \"0\" is out of range: it must be at least 1 byte", ""},
    {"[box]\nmemory = -1\n",
     "kern.toml:2:10: memory: \"-1\" is not a size; write bytes, or a number with k, m, g or t such as "
     "\"512m\"",
     ""},
    {"[box]\nmemory = \"99999999999999g\"\n",
     "kern.toml:2:10: memory: \"99999999999999g\" is more than 64 bits of bytes can say", ""},
    {"[box]\npids-limit = 1\n",
     "kern.toml:2:14: pids-limit: \"1\" is out of range: it must be from 2 to 4194304", ""},
    {"[box]\npids-limit = \"1\"\n",
     "kern.toml:2:14: pids-limit: \"1\" is out of range: it must be from 2 to 4194304", ""},
    {"[box]\ncpus = -1\n", "kern.toml:2:8: cpus: \"-1\" is out of range: it must be from 0.001 to 4096", ""},
    {"[box]\ncpus = nan\n", "kern.toml:2:8: cpus: \"nan\" is not a number", ""},
    {"[box]\ncpus = inf\n", "kern.toml:2:8: cpus: \"inf\" is out of range: it must be from 0.001 to 4096",
     ""},
    {"[box]\ncpus = \"nan\"\n", "kern.toml:2:8: cpus: \"nan\" is not a number", ""},
    {"[box]\ntimeout = nan\n", "kern.toml:2:11: timeout: it is not a number", ""},
    {"[box]\nnet = \"hots\"\n", "kern.toml:2:7: net: \"hots\" is not known; it can be: none, host",
     "did you mean \"host\"?"},
    {"[box]\nhostname = \"a\\u0000b\"\n", "kern.toml:2:12: hostname: a string for kern cannot hold U+0000",
     ""},
    {"[[box]]\n", "kern.toml:1:3: \"box\" must be one table, under a line [box]", ""},
    {"memory = \"1g\"\n", "kern.toml:1:1: key \"memory\" stands outside a table",
     "put it under a line [box]"},
    {"[box\n", "kern.toml:1:5: expected \"]\" after the name of the table, found the end of the line", ""},
    {"[vcpu]\nname = \"a\"\n",
     "kern.toml:1:2: \"vcpu\" must be written as tables, each under a line [[vcpu]]", ""},
    {"[egress]\nname = \"a\"\nallow = []\n", "kern.toml:2:1: [egress] is for every box: it has no \"name\"",
     "a profile that is attached by name stands under a line [[egress]]"},
    {"[egress]\nextends = \"a\"\n", "kern.toml:2:1: [egress] is for every box: it has no \"extends\"",
     "a profile that is attached by name stands under a line [[egress]]"},
    {"[egress]\nallow = [\"a/b\"]\n",
     "kern.toml:1:2: [egress]: cannot use egress rule \"a/b\": a rule names a host and has no path",
     "leave out the path, as in: api.example.com:443"},
    {"[[vcpu]]\ncpus = 1\n", "kern.toml:1:3: this [[vcpu]] needs a key \"name\"", ""},
    {"[[cpu]]\ncores = 1\n", "kern.toml:1:3: this [[cpu]] needs a key \"id\"", ""},
    {"[[vcpu]]\nname = \"a\"\n[[vcpu]]\nname = \"a\"\n",
     "kern.toml:4:1: there is a [[vcpu]] called \"a\" already, in line 1", ""},
    {"[[vcpu]]\nname = \"a\"\nbackend = \"pool\"\n",
     "kern.toml:3:1: backend \"pool\" of profile \"a\" is no [[cpu]] pool; none is declared",
     "declare it with [[cpu]] and id = \"pool\", or write backend = \"host\""},
    {"[[cpu]]\nid = \"host\"\n", "kern.toml:2:1: a [[cpu]] pool cannot be called \"host\"",
     "backend = \"host\" means that a profile has no pool; choose another id"},
    {"[[cpu]]\nid = \"p\"\n[[cpu]]\nid = \"q\"\n[[vcpu]]\nname = \"a\"\nbackend = \"r\"\n",
     "kern.toml:7:1: backend \"r\" of profile \"a\" is no [[cpu]] pool; the pools are: p, q",
     "declare it with [[cpu]] and id = \"r\", or write backend = \"host\""},
    {"[[cpu]]\nid = \"p\"\ncores = 1\n[[vcpu]]\nname = \"a\"\nbackend = \"p\"\ncpus = 2\n",
     "kern.toml:4:3: vcpu:a: cpus = 2 is more than the 1 cores of pool \"p\"", ""},
    {"[[cpu]]\nid = \"p\"\nmemory = \"1g\"\n[[vcpu]]\nname = \"a\"\nbackend = \"p\"\nmemory = \"2g\"\n",
     "kern.toml:4:3: vcpu:a: memory = 2g is more than the 1g of pool \"p\"", ""},
    {"[[vcpu]]\nname = \"x\"\nextends = \"a\"\n[[vcpu]]\nname = \"a\"\nextends = \"b\"\n[[vcpu]]\nname = "
     "\"b\"\n"
     "extends = \"c\"\n[[vcpu]]\nname = \"c\"\nextends = \"a\"\n",
     "kern.toml:6:1: profiles extend each other in a circle: a -> b -> c -> a", ""},
    {"[[vcpu]]\nname = \"a\"\nextends = \"a\"\n",
     "kern.toml:3:1: profiles extend each other in a circle: a -> a", ""},
    {"[[vcpu]]\nname = \"a\"\nextends = \"b\"\n",
     "kern.toml:3:1: profile \"a\" extends \"b\", which is not there; there are: a", ""},
    {"[[plugin]]\n", "kern.toml:1:3: this [[plugin]] needs a key \"name\" or \"path\"", ""},
    {"[[plugin]]\npath = \"x.so\"\n", "kern.toml:1:3: the path \"x.so\" of a [[plugin]] must be absolute",
     ""},
    {"[[plugin]]\nname = \"x\"\n[[plugin]]\nname = \"x\"\n",
     "kern.toml:3:3: plugin \"x\" is declared in line 1 already", ""},
    {"[[plugin]]\nname = 1\n", "kern.toml:2:8: name is an integer, but must be a string",
     "write it in quotes: name = \"1\""},
    {"plugin = 1\n", "kern.toml:1:1: \"plugin\" must be written as tables, each under a line [[plugin]]", ""},
};

static void faults_are_named_with_their_place(void **state)
{
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        refuse(*state, faults[i].text, CORE_CONFIG_OWN, faults[i].message);
        assert_string_equal(((struct world *)*state)->err.hint, faults[i].hint);
    }
}

static void unknown_tables_are_noted(void **state)
{
    struct world *world = *state;
    accept(world, "[boxx]\nanything = 1\n[[egress]]\nname = \"leds\"\n[registry]\nmirrors = []\n[other]\n",
           CORE_CONFIG_OWN);
    assert_string_equal(world->notes,
                        "kern.toml:1:2: table [boxx] is unknown and does nothing; did you mean \"box\"?\n"
                        "kern.toml:7:2: table [other] is unknown and does nothing\n");
    assert_string_equal(core_config_names(world->config, "egress")[0], "leds");
    assert_null(core_config_names(world->config, "egress")[1]);
    assert_null(core_config_names(world->config, "nosuch")[0]);
}

/* ---- Values ------------------------------------------------------------------------------------------- */

static void box_keys_become_values(void **state)
{
    struct world *world = *state;
    accept(world,
           "[box]\nmemory = 1073741824\nmemory_swap_max = \"2 GB\"\ncpus = \"2\"\npids_limit = "
           "\"64\"\ntimeout = 1.5\n"
           "env = [\"A=1\", \"B=2\"]\ncap-drop = \"KILL\"\nread-only = true\nnice = -5\nnet = "
           "\"host\"\nio-weight = 10\n",
           CORE_CONFIG_OWN);
    assert_int_equal(core_config_box(world->config, &world->box, &world->err), 0);
    assert_int_equal(kern_get_int(&world->box, "memory"), INT64_C(1) << 30);
    assert_int_equal(kern_get_int(&world->box, "memory-swap-max"), INT64_C(2) << 30);
    assert_string_equal(kern_get_string(&world->box, "memory-swap-max"), "2 GB");
    assert_string_equal(kern_get_string(&world->box, "cpus"), "2");
    assert_true(kern_get_float(&world->box, "cpus") > 1.99);
    assert_int_equal(kern_get_int(&world->box, "pids-limit"), 64);
    assert_int_equal(kern_get_int(&world->box, "timeout"), 1500);
    assert_int_equal(kern_get_count(&world->box, "env"), 2);
    assert_string_equal(kern_get_item(&world->box, "env", 1), "B=2");
    assert_string_equal(kern_get_item(&world->box, "cap-drop", 0), "KILL");
    assert_int_equal(kern_get_int(&world->box, "read-only"), 1);
    assert_int_equal(kern_get_int(&world->box, "nice"), -5);
    assert_string_equal(kern_get_string(&world->box, "net"), "host");
    assert_int_equal(kern_get_source(&world->box, "net"), KERN_FROM_CONFIG);
    assert_string_equal(core_values_find(&world->box, "timeout")->where, "kern.toml:6:1");
    assert_int_equal(kern_get_source(&world->box, "userns"), KERN_FROM_DEFAULT);
}

static void numbers_survive_the_way_through_libconfuse(void **state)
{
    struct world *world = *state;
    accept(world, "[box]\ncpus = 0.1\nmemory = 9223372036854775807\npids-limit = 4194304\ntimeout = 3\n",
           CORE_CONFIG_OWN);
    assert_int_equal(core_config_box(world->config, &world->box, &world->err), 0);
    assert_string_equal(kern_get_string(&world->box, "cpus"), "0.1");
    assert_true(kern_get_int(&world->box, "memory") == INT64_MAX);
    assert_int_equal(kern_get_int(&world->box, "pids-limit"), 4194304);
    assert_int_equal(kern_get_int(&world->box, "timeout"), 3000);
}

/* libconfuse's own syntax would expand these. */
static void text_is_taken_as_it_stands(void **state)
{
    struct world *world = *state;
    accept(world, "[box]\nenv = ['A=${HOME}', \"B=\\\\n # \\\"x\\\"\"]\n", CORE_CONFIG_OWN);
    assert_int_equal(core_config_box(world->config, &world->box, &world->err), 0);
    assert_string_equal(kern_get_item(&world->box, "env", 0), "A=${HOME}");
    assert_string_equal(kern_get_item(&world->box, "env", 1), "B=\\n # \"x\"");
}

static void relative_paths_start_at_the_file(void **state)
{
    struct world *world = *state;
    char wanted[128];
    accept(world,
           "[box]\nrootfs = \"root\"\nvolume = [\"./a:/a:ro\", \"named:/n\", \"/etc:/e\"]\n"
           "mount = \"type=bind,src=b/c,dst=/d,ro\"\n",
           CORE_CONFIG_OWN);
    assert_int_equal(core_config_box(world->config, &world->box, &world->err), 0);
    (void)snprintf(wanted, sizeof(wanted), "%s/root", world->folder);
    assert_string_equal(kern_get_string(&world->box, "rootfs"), wanted);
    (void)snprintf(wanted, sizeof(wanted), "%s/./a:/a:ro", world->folder);
    assert_string_equal(kern_get_item(&world->box, "volume", 0), wanted);
    assert_string_equal(kern_get_item(&world->box, "volume", 1), "named:/n");
    assert_string_equal(kern_get_item(&world->box, "volume", 2), "/etc:/e");
    (void)snprintf(wanted, sizeof(wanted), "type=bind,src=%s/b/c,dst=/d,ro", world->folder);
    assert_string_equal(kern_get_item(&world->box, "mount", 0), wanted);
}

/* ---- Profiles ----------------------------------------------------------------------------------------- */

static void a_chain_is_resolved_nearest_first(void **state)
{
    struct world *world = *state;
    accept(
        world,
        "[[vcpu]]\nname = \"top\"\nextends = \"mid\"\nnice = 1\n[[vcpu]]\nname = \"base\"\ncpus = 4\nmemory "
        "= \"4g\"\n"
        "nice = 3\nbackend = \"p\"\n[[vcpu]]\nname = \"mid\"\nextends = \"base\"\nmemory = \"2g\"\nnice = 2\n"
        "[[cpu]]\nid = \"p\"\ncores = 4\n",
        CORE_CONFIG_OWN);
    const kern_values *top = profile(world, "vcpu", "top");
    assert_string_equal(kern_get_string(top, "name"), "top");
    assert_int_equal(kern_get_int(top, "nice"), 1);
    assert_int_equal(kern_get_int(top, "memory"), INT64_C(2) << 30);
    assert_true(kern_get_float(top, "cpus") > 3.99);
    assert_string_equal(core_values_find(top, "memory")->where, "kern.toml:14:1");
    assert_true(last_profile(world, "vcpu")->has_pool);
    assert_string_equal(kern_get_string(&last_profile(world, "vcpu")->pool, "id"), "p");
}

static void an_inherited_limit_is_judged_too(void **state)
{
    refuse(*state,
           "[[vcpu]]\nname = \"base\"\ncpus = 4\n[[vcpu]]\nname = \"a\"\nextends = \"base\"\nbackend = "
           "\"p\"\n[[cpu]]\n"
           "id = \"p\"\ncores = 2\n",
           CORE_CONFIG_OWN, "kern.toml:4:3: vcpu:a: cpus = 4 is more than the 2 cores of pool \"p\"");
}

static void an_unknown_profile_is_refused_with_what_there_is(void **state)
{
    struct world *world = *state;
    struct core_plugin *vcpu = core_catalog_kind(&world->catalog, "vcpu");
    accept(world, "[[vcpu]]\nname = \"heavy\"\n[[vcpu]]\nname = \"light\"\n", CORE_CONFIG_OWN);
    assert_true(core_config_profile(world->config, vcpu, "heavi", &world->err) < 0);
    assert_string_equal(world->err.message,
                        "there is no profile \"vcpu:heavi\" in \"kern.toml\" (did you mean "
                        "vcpu:heavy?); there are: heavy, light");
    assert_string_equal(world->err.hint,
                        "to make one: printf '\\n[[vcpu]]\\nname = \"heavi\"\\n' >> 'kern.toml'");
    assert_int_equal(vcpu->profile_count, 0);
    world->err = (struct kern_error){0};
    assert_true(core_config_profile(world->config, vcpu, "$(reboot)'", &world->err) < 0);
    assert_null(strstr(world->err.hint, "reboot"));
    world->err = (struct kern_error){0};
    assert_true(core_config_profile(world->config, core_catalog_kind(&world->catalog, "greeting"), "x",
                                    &world->err) < 0);
    assert_string_equal(world->err.message,
                        "there is no profile \"greeting:x\" in \"kern.toml\"; it has none of this kind");
}

static void a_profile_sets_the_options_of_its_keys(void **state)
{
    struct world *world = *state;
    accept(world,
           "[box]\nmemory = \"3g\"\n[[vcpu]]\nname = \"a\"\nmemory = \"1g\"\nnice = 4\ncpuset = "
           "\"0\"\n[[vcpu]]\n"
           "name = \"b\"\nmemory = \"2g\"\n",
           CORE_CONFIG_OWN);
    assert_int_equal(core_config_box(world->config, &world->box, NULL), 0);
    assert_int_equal(
        core_value_set(core_values_find(&world->box, "nice"), "9", KERN_FROM_FLAG, "--nice", NULL), 0);
    (void)profile(world, "vcpu", "a");
    assert_int_equal(
        core_config_apply_profile(last_profile(world, "vcpu"), "vcpu", &world->box, keep_note, world, NULL),
        0);
    assert_string_equal(world->notes, "");
    assert_int_equal(kern_get_int(&world->box, "memory"), INT64_C(1) << 30);
    assert_string_equal(core_values_find(&world->box, "memory")->where, "vcpu:a");
    assert_int_equal(kern_get_int(&world->box, "nice"), 9);
    assert_null(kern_get_string(&world->box, "cpuset-cpus"));
    (void)profile(world, "vcpu", "b");
    assert_int_equal(
        core_config_apply_profile(last_profile(world, "vcpu"), "vcpu", &world->box, keep_note, world, NULL),
        0);
    assert_int_equal(kern_get_int(&world->box, "memory"), INT64_C(2) << 30);
    assert_string_equal(world->notes, "vcpu:a and vcpu:b both set memory; the later, 2g, wins\n");
    /* The same one again replaces nothing of another. */
    assert_int_equal(
        core_config_apply_profile(last_profile(world, "vcpu"), "vcpu", &world->box, keep_note, world, NULL),
        0);
    assert_int_equal(strlen(world->notes), 55);
}

/* ---- The compiled default ----------------------------------------------------------------------------- */

static void the_compiled_default_serves_profiles_and_sets_nothing(void **state)
{
    struct world *world = *state;
    accept(world, NULL, CORE_CONFIG_COMPILED);
    assert_null(world->config->lazy->doc); /* not even read, as long as nobody asks */
    assert_int_equal(core_config_box(world->config, &world->box, NULL), 0);
    const kern_values *heavy = profile(world, "vcpu", "heavy");
    assert_true(kern_get_float(heavy, "cpus") > 1.99 && kern_get_float(heavy, "cpus") < 2.01);
    assert_int_equal(kern_get_int(heavy, "memory"), INT64_C(1) << 30);
    assert_string_equal(kern_get_string(heavy, "backend"), "host");
    assert_false(last_profile(world, "vcpu")->has_pool);
    assert_string_equal(kern_get_string(profile(world, "greeting", "hello"), "path"), "/etc/greeting");
    assert_int_equal(core_config_check_all(world->config, &world->catalog, NULL), 0);
    assert_string_equal(core_config_names(world->config, "vgpio")[0], "leds");
    assert_string_equal(core_config_names(world->config, "vdisk")[0], "scratch");
    for (size_t i = 0; i < world->box.count; i++)
        assert_int_equal(world->box.value[i].source, KERN_FROM_DEFAULT);
}

static void the_example_read_as_a_file_sets_nothing_either(void **state)
{
    struct world *world = *state;
    accept(world, core_config_example, CORE_CONFIG_FOREIGN);
    assert_int_equal(core_config_box(world->config, &world->box, NULL), 0);
    for (size_t i = 0; i < world->box.count; i++)
        assert_int_equal(world->box.value[i].source, KERN_FROM_DEFAULT);
}

/* Every key of [box] stands in the example as a comment; without the "# " it is a right one. */
static void the_example_shows_every_key_of_box(void **state)
{
    struct world *world = *state;
    char *text = strdup(core_config_example), *plain = calloc(1, core_config_example_size + 1);
    assert_non_null(text);
    assert_non_null(plain);
    char *rest = strstr(text, "\n[box]\n"), *end = strstr(text, "\n[[vcpu]]\n");
    assert_non_null(rest);
    assert_true(end > rest);
    rest++;
    *end = '\0';
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        bool commented =
            strncmp(line, "# ", 2) == 0 && strncmp(line, "# -", 3) != 0 && strstr(line, " = ") != NULL;
        strcat(strcat(plain, commented ? line + 2 : line), "\n");
    }
    accept(world, plain, CORE_CONFIG_OWN);
    for (size_t i = 0; i < world->box.count; i++) {
        const struct kern_option *def = world->box.value[i].def;
        if ((def->flags & KERN_OPT_BOX) == 0)
            continue;
        if (config_table_text(&world->config->box, def->name) == NULL &&
            config_find(world->config->box.node, def->name) == NULL)
            fail_msg("etc/kern.toml.example does not show \"%s\"", def->name);
    }
    free(text);
    free(plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_WORLD(faults_are_named_with_their_place),
        IN_WORLD(unknown_tables_are_noted),
        IN_WORLD(box_keys_become_values),
        IN_WORLD(numbers_survive_the_way_through_libconfuse),
        IN_WORLD(text_is_taken_as_it_stands),
        IN_WORLD(relative_paths_start_at_the_file),
        IN_WORLD(a_chain_is_resolved_nearest_first),
        IN_WORLD(an_inherited_limit_is_judged_too),
        IN_WORLD(an_unknown_profile_is_refused_with_what_there_is),
        IN_WORLD(a_profile_sets_the_options_of_its_keys),
        IN_WORLD(the_compiled_default_serves_profiles_and_sets_nothing),
        IN_WORLD(the_example_read_as_a_file_sets_nothing_either),
        IN_WORLD(the_example_shows_every_key_of_box),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

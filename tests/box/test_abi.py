"""Plugins that were built before and plugins that were built later: tests/abi keeps the compiled plugin of each release, which today's kern
must run unchanged; what was built for a newer kern is refused, and it is said which of the two to update."""

import glob
import os
import unittest

import kerntest
from kerntest import as_root_and_user
from test_plugins import Plugins, built

FUTURE = r"""
#include <kern/plugin.h>
int kern_from_the_future(kern_box *box);
static int prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)state, (void)err;
    return kern_from_the_future(box);
}
KERN_PLUGIN(.name = "future", .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT, .prepare = prepare);
"""

SIZED = r"""
#include <kern/plugin.h>
#include <string.h>
static int prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)state;
    return kern_set_env(box, "OLD", "yes", err);
}
static int check(const kern_values *profile, const kern_values *pool, struct kern_error *err)
{
    (void)profile, (void)pool;
    return kern_refuse(err, 0, "a field that an old table does not have was read");
}
static const struct kern_option options[] = {
    {.name = "name", .type = KERN_STRING, .flags = KERN_OPT_PROFILE, .help = "x"}, {.name = NULL}};
KERN_EXPORT extern const struct kern_plugin kern_plugin_table;
const struct kern_plugin kern_plugin_table = {
    .struct_size = SIZE, .abi = KERN_ABI, .name = "sized", .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT,
    .profile = "sized", .options = options, .prepare = prepare, .check = check};
"""

# A table, or a request of its prepare, that says something which no kern of today knows.
LATER = r"""
#include <kern/plugin.h>
#include <fcntl.h>
static int prepare(kern_box *box, void *state, struct kern_error *err)
{
    const struct kern_rule rule = {.struct_size = sizeof(rule), .call = 1, .action = 77};
    (void)rule, (void)state, (void)err, (void)box;
    return ASK;
}
static const struct kern_option options[] = {
    {.name = "odd", .type = TYPE, .flags = KERN_OPT_PLUGIN | OPTION, .help = "x"}, {.name = NULL}};
KERN_PLUGIN(.name = "later", .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT, .options = options, .flags = FLAGS,
            .prepare = prepare);
"""

FOUNDATION = r"""
#include <kern/foundation.h>
#undef KERN_FOUNDATION_RELEASE
#define KERN_FOUNDATION_RELEASE RELEASE
KERN_PLUGIN(.name = "bound", .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT);
"""

# Its one flag is --NAME-OPTION.
FLAG = r"""
#include <kern/plugin.h>
static const struct kern_option options[] = {
    {.name = OPTION, .type = KERN_STRING, .flags = KERN_OPT_FLAG, .help = "x"}, {.name = NULL}};
KERN_PLUGIN(.name = NAME, .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT, .options = options);
"""


@as_root_and_user
class Abi(Plugins):
    def declared(self, path, name, more=""):
        return self.own_config(f'[[plugin]]\nname = "{name}"\npath = "{path}"\n{more}')

    def made(self, name, text, *flags):
        source = kerntest.write(os.path.join(kerntest.scratch(), name + ".c"), text)
        return self.place(built(name + ".so", *flags, source=source), name + ".so")

    def test_the_plugins_of_each_release(self):
        found = glob.glob(f"{kerntest.SOURCE}/tests/abi/*/{os.uname().machine}.so")
        if not found:
            self.skipTest("no release has a plugin for this machine")
        for path in found:
            with self.subTest(path):
                plugin = self.place(path, "abi.so")
                env = self.declared(plugin, "abi", '[[abi]]\nname = "it"\nsize = "64k"\n')
                script = 'cat /etc/abi; echo $ABI; grep -c " /abi " /proc/self/mountinfo; probe call personality 0'
                result = self.rooted("sh", "-c", script, options=["abi:it", "--abi-word", "hello"], env=env)
                self.assertEqual(result.code, 0, result)
                self.assertEqual(result.out, f"hello from {result.report['box']}\nold\n1\npersonality -1 33\n")
                self.assertEqual(result.report["plugins"]["abi"], {"prepared": 1, "exit": 0, "fault": "none"})
                bad = self.declared(plugin, "abi", '[[abi]]\nname = "bad"\nsize = 13\n')
                self.refused("abi:bad", env=bad, parts=["size 13 brings bad luck"])
                listed = self.kern("plugin", "info", "abi", env=env, report=False)
                self.assertIn("version:  0.", listed.out)

    def test_a_table_of_an_older_header(self):
        path = self.made("sized", SIZED, "-DSIZE=offsetof(struct kern_plugin,check)")
        env = self.declared(path, "sized", '[[sized]]\nname = "it"\n')
        self.assertEqual(self.rooted("sh", "-c", "echo $OLD", options=["sized:it"], env=env).out, "yes\n")

    def test_a_table_of_a_newer_header(self):
        path = self.made("bigger", SIZED.replace('"sized"', '"bigger"'), "-DSIZE=sizeof(struct kern_plugin)+8")
        self.refused(env=self.declared(path, "bigger"), parts=["built for a newer kern", "its table has"], hint="update kern")
        path = self.made("smaller", SIZED.replace('"sized"', '"smaller"'), "-DSIZE=40")
        self.refused(env=self.declared(path, "smaller"), parts=["built for an older kern", "its table has 40 bytes"],
                     hint="build the plugin again")

    def test_what_a_newer_header_may_have(self):
        path = self.folder() + "/later.c"
        kerntest.write(path, LATER)
        for index, (more, code, part) in enumerate((
                ({}, 0, ""), ({"TYPE": "42"}, 1, 'the type of its option "odd", 0x2a is not known'),
                ({"TYPE": "0"}, 1, 'its option "odd" has no type'),
                ({"OPTION": "0x40000u"}, 1, 'a flag of its option "odd", 0x40000 is not known'),
                ({"FLAGS": "0x100u"}, 1, "a flag of its table, 0x100 is not known"),
                ({"ASK": 'kern_add_tmpfs(box,"/x",0,0755,0x800,err)'}, 125, "flag 0x800 is not known"),
                ({"ASK": 'kern_add_bind(box,open("/etc",O_PATH|O_CLOEXEC),"/x",0x800,err)'}, 125, "flag 0x800 is not known"),
                ({"ASK": "kern_add_rule(box,&rule,err)"}, 125, "action (77) or a condition is not known"))):
            with self.subTest(more):
                words = {"TYPE": "KERN_STRING", "OPTION": "0", "FLAGS": "0", "ASK": "0", **more}
                flags = ["-D_GNU_SOURCE", *(f"-D{key}={value}" for key, value in words.items())]
                env = self.declared(self.place(built(f"later{index}.so", *flags, source=path), "later.so"), "later")
                result = self.rooted("true", env=env)
                self.assertEqual(result.code, code, result)
                self.assertIn(part, result.err)
                if code != 0 and "has no type" not in part:
                    self.assertIn("built for a newer kern than ", result.err)
                    self.assertIn("hint: update kern", result.err)

    def test_foundation_is_bound_to_its_release(self):
        version = self.kern("--version", report=False).out.split()[-1]
        number = [int(part) for part in version.split(".")]
        own = number[0] * 10000 + number[1] * 100 + number[2]
        for release, hint in ((own, None), (own + 1, "update kern"), (own - 1, "build the plugin again")):
            path = self.made(f"bound{release}", FOUNDATION, f"-DRELEASE={release}u")
            env = self.declared(path, "bound")
            if hint is None:
                self.assertEqual(self.rooted("true", env=env).code, 0)
                continue
            told = f"{release // 10000}.{release // 100 % 100}.{release % 100}"
            self.refused(env=env, parts=[f"kern/foundation.h of kern {told}, which counts for that release only: this is kern {version}"],
                         hint=hint)

    def flags(self, *named):
        """A kern.toml with plugins of these names and the option of each."""
        tables = []
        for name, option in named:
            path = self.made(f"{name}.{option}", FLAG, f'-DNAME="{name}"', f'-DOPTION="{option}"')
            tables.append(f'[[plugin]]\nname = "{name}"\npath = "{path}"\n')
        return self.own_config("".join(tables))

    def test_flags_that_collide(self):
        for named, flag, other in (([("one", "two-three"), ("one-two", "three")], "--one-two-three", '"one"'),
                                   ([("one-two", "three"), ("one", "two-three")], "--one-two-three", '"one-two"'),
                                   ([("cap", "add")], "--cap-add", '"creds"'), ([("no", "view")], "--no-view", '"view"')):
            with self.subTest(named):
                self.refused(env=self.flags(*named), parts=[f'plugin "{named[-1][0]}"', f"{flag} is one of plugin {other} already"],
                             hint="take one of the two out")
        self.assertEqual(self.rooted("true", options=["--one-two", "x", "--one-b-two", "y"],
                                     env=self.flags(("one", "two"), ("one-b", "two"))).code, 0)

    def test_a_function_of_a_newer_kern(self):
        path = self.made("future", FUTURE)
        self.refused(env=self.declared(path, "future"), parts=["built for a newer kern", "kern_from_the_future()"],
                     hint="update kern")


if __name__ == "__main__":
    kerntest.main()

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
        self.refused(env=self.declared(path, "bigger"), parts=["built for a newer kern"], hint="update kern")

    def test_a_function_of_a_newer_kern(self):
        path = self.made("future", FUTURE)
        self.refused(env=self.declared(path, "future"), parts=["built for a newer kern", "kern_from_the_future()"],
                     hint="update kern")


if __name__ == "__main__":
    kerntest.main()

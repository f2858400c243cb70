"""`kern config setup`, `add`, `rm` and `edit`: what they write, what they leave as it was, what they refuse."""

import os

import kerntest
from kerntest import BoxCase, as_root_and_user

OWN = """# my own file

[box]
memory = "64m"   # small

# the first
[[vcpu]]
name = "one"
cpus = 1

# the second

[[vcpu]]   # a remark
name = "two"
extends = "one"
# inside

# ahead of the disk
[[vdisk]]
name = "three"
size = "1m"
"""


@as_root_and_user
class Changes(BoxCase):
    def setUp(self):
        self.env = self.own_config(OWN)
        self.path = os.path.join(self.env["XDG_CONFIG_HOME"], "kern/kern.toml")

    def text(self):
        with open(self.path, encoding="utf-8") as file:
            return file.read()

    def config(self, *words, **more):
        return self.kern("config", *words, env={**self.env, **more})

    def test_add(self):
        result = self.config("add", "vcpu:slim", "--cpus", "0.5", "--memory=256m", "--nice", "5")
        self.assertEqual((result.code, result.out), (0, f"added to {self.path}\n"), result)
        self.assertEqual(self.text(), OWN + '\n[[vcpu]]\nname = "slim"\ncpus = 0.5\nmemory = "256m"\nnice = 5\n')
        self.assertEqual(self.kern("box", "vcpu:slim", "--", "true", env=self.env).code, 0)

    def test_add_lists_and_switches(self):
        result = self.config("add", "vgpio:io", "--spi", "0.0", "--spi", 'a"b', "--i2c", "{bus = 1, address = 0x40}",
                             "--required")
        self.assertEqual(result.code, 0, result)
        self.assertTrue(self.text().endswith('name = "io"\nspi = ["0.0", "a\\"b"]\n'
                                             'i2c = [{bus = 1, address = 0x40}]\nrequired = true\n'), self.text())

    def test_a_list_is_not_taken_for_a_text(self):
        before = self.text()
        for value in ("[17, 27]", "[3]", '["GPIO17"]'):
            with self.subTest(value):
                result = self.config("add", "vgpio:led", "--pins", value)
                self.assert_failed(result, 1, "--pins takes one item")
                self.assertIn("hint: give the flag once for each item: --pins", result.err)
                self.assertEqual(self.text(), before)
        self.assertEqual(self.config("add", "egress:here", "--allow", "[2001:db8::7]:443").code, 0)

    def test_remove_keeps_what_is_around_it(self):
        self.assertEqual(self.config("rm", "vcpu:two").code, 0)
        self.assertEqual(self.text(), OWN.replace('[[vcpu]]   # a remark\nname = "two"\nextends = "one"\n', ""))
        self.assertEqual(self.config("rm", "vdisk:three").code, 0)
        self.assertTrue(self.text().endswith("# inside\n\n# ahead of the disk\n"), self.text())

    def test_what_was_added_leaves_nothing_behind(self):
        for kinds in (("vcpu:slim",), ("vcpu:slim", "vcpu:wide", "vcpu:high")):
            for words in [("add", kind, "--cpus", "2") for kind in kinds] + [("rm", kind) for kind in kinds]:
                self.assertEqual(self.config(*words).code, 0)
            self.assertEqual(self.text(), OWN)

    def test_what_would_not_be_valid_is_not_written(self):
        for words, part in ((("add", "vcpu:one", "--cpus", "1"), "already"), (("add", "vcpu:x", "--cpus", "many"), "--cpus"),
                            (("add", "vcpu:x", "--cpu", "1"), 'no key "cpu"'), (("add", "vcpu:x", "--backend", "no"), "no"),
                            (("rm", "vcpu:one"), "extends"), (("rm", "vcpu:nosuch"), "no such table"),
                            (("add", "nosuch:x"), "kind"), (("add", "vcpu"), "KIND:NAME"), (("add",), "one KIND:NAME"),
                            (("rm", "vcpu:one", "vcpu:two"), "one KIND:NAME"), (("setup",), "File exists"),
                            (("add", "vcpu:x", "--cpus"), "needs a value")):
            with self.subTest(words):
                result = self.config(*words)
                self.assertEqual(result.code, 1, result)
                self.assertIn(part, result.err, result)
                self.assertEqual(self.text(), OWN)

    def test_a_first_file_has_the_compiled_profiles(self):
        for words in (("setup",), ("add", "vcpu:slim", "--cpus", "0.5")):
            with self.subTest(words):
                os.unlink(self.path)
                self.assertEqual(self.config(*words).code, 0)
                self.assertEqual(self.kern("box", "vcpu:tiny", "--", "true", env=self.env).code, 0)

    def test_edit(self):
        result = self.config("edit", EDITOR="sed -i s/64m/65m/")
        self.assertEqual(result.code, 0, result)
        self.assertEqual(self.text(), OWN.replace("64m", "65m"))
        result = self.config("edit", EDITOR="true")
        self.assertEqual((result.code, result.out), (0, f"nothing changed in {self.path}\n"))

    def test_an_edit_that_is_not_valid_is_kept_beside(self):
        folder = self.folder()
        result = self.config("edit", EDITOR="sed -i s/cpus/cpuss/", TMPDIR=folder)
        self.assertEqual(result.code, 1, result)
        self.assertIn("cpuss", result.err)
        self.assertIn(f"kern: note: what you wrote is kept in {folder}/kern.toml.", result.err)
        self.assertEqual(self.text(), OWN)
        self.assertEqual(self.config("edit", EDITOR="false", TMPDIR=folder).code, 1)
        self.assertEqual(len(os.listdir(folder)), 1)

    def test_another_file(self):
        other = self.file("", "other.toml")
        self.assertEqual(self.config("add", "--config", other, "vcpu:slim", "--cpus", "1").code, 0)
        with open(other, encoding="utf-8") as file:
            self.assertEqual(file.read(), '[[vcpu]]\nname = "slim"\ncpus = 1\n')
        self.assertEqual(self.text(), OWN)


if __name__ == "__main__":
    kerntest.main()

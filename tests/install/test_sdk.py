"""The SDK as somebody outside this tree has it, from an installed package: `kern plugin new` writes a project that builds and passes at
once, `kern plugin check` finds what is wrong with a plugin, kern-plugin-test fails where it should, and the fake box has every function
of the header. As root and as a user whom the tests make and remove."""

import os
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

BUILD = os.environ["KERN_BUILD"]
SOURCE = os.environ["KERN_SOURCE"]
USER = "kernsdk"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

BROKEN = r"""
#include <kern/plugin.h>
#include <fcntl.h>
#include <stddef.h>
int prepare(kern_box *box, void *state, struct kern_error *err);
int prepare(kern_box *box, void *state, struct kern_error *err)
{
    (void)box, (void)state, (void)err;
    BODY;
    return 0;
}
static const struct kern_option options[] = {OPTIONS {.name = NULL}};
TABLE
"""

TABLE = 'KERN_PLUGIN(.name = "broken", VERSION .stage = KERN_STAGE_MOUNT, .options = options, .prepare = prepare);'

ENTER = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <kern/sys.h>
static int enter(kern_box *box, void *state, struct kern_error *err)
{
    (void)box, (void)state, (void)err;
    BODY;
    return 0;
}
KERN_PLUGIN(.name = "broken", .version = "1", .summary = "x", .stage = KERN_STAGE_MOUNT, .flags = KERN_PLUGIN_LEAN,
            .prepare = prepare, .enter = enter);
"""


class Sdk(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="kern-sdk-")
        os.chmod(cls.folder, 0o755)
        cls.prefix = cls.folder + "/kern"
        subprocess.run(["cmake", "--install", BUILD, "--prefix", cls.prefix], check=True, capture_output=True)
        cls.people = [{}]
        if os.geteuid() == 0:
            subprocess.run(["useradd", "--no-create-home", USER], check=True)
            account = pwd.getpwnam(USER)
            cls.people.append({"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []})

    @classmethod
    def tearDownClass(cls):
        if os.geteuid() == 0:
            subprocess.run(["userdel", USER], check=False)
        shutil.rmtree(cls.folder)

    def place(self, person):
        folder = tempfile.mkdtemp(dir=self.folder)
        os.chmod(folder, 0o755)
        if person:
            os.chown(folder, person["user"], person["group"])
        return folder

    def run_in(self, folder, *words, person=None, code=0):
        environment = {"PATH": f"{self.prefix}/bin:{PATH}", "HOME": folder, "PKG_CONFIG_PATH": self.prefix + "/lib/pkgconfig",
                       "CMAKE_PREFIX_PATH": self.prefix}
        done = subprocess.run(words, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=100, check=False, umask=0o022, **(person or {}))
        self.assertEqual(done.returncode, code, f"{words}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def build(self, folder, source, name="broken", flags=()):
        with open(f"{folder}/{name}.c", "w", encoding="utf-8") as file:
            file.write(source)
        sdk = self.run_in(folder, "pkg-config", "--cflags", "--libs", "kern-plugin").split()
        self.run_in(folder, "cc", *[flag for flag in sdk if flag not in flags], "-o", f"{name}.so", f"{name}.c")
        return f"{name}.so"

    def broken(self, folder, body="", options="", version='.version = "1", .summary = "x",', flags=(), table=TABLE):
        source = BROKEN.replace("BODY", body).replace("TABLE", table).replace("OPTIONS", options).replace("VERSION", version)
        return self.build(folder, source, flags=flags)

    # ---- kern plugin new

    def test_a_new_project_builds_and_passes_at_once(self):
        for person in self.people:
            for more in ((), ("--profile", "snack")):
                with self.subTest(person=person, more=more):
                    folder = self.place(person)
                    self.run_in(folder, "kern", "plugin", "new", "my-snack", *more, person=person)
                    work = folder + "/my-snack"
                    with open(work + "/my-snack.c", encoding="utf-8") as file:
                        self.assertNotIn("@", file.read())
                    self.run_in(work, "cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                                "-DCMAKE_C_FLAGS=-Werror", person=person)
                    self.run_in(work, "cmake", "--build", "build", person=person)
                    said = self.run_in(work, "ctest", "--test-dir", "build", "--output-on-failure", person=person)
                    self.assertIn("100% tests passed, 0 tests failed out of 3", said)

    def test_new_refuses(self):
        folder = self.place({})
        os.mkdir(folder + "/taken")
        for words, part in ((["taken"], "File exists"), (["Bad"], "cannot be the name"), (["rootfs"], "ships with kern"),
                            (["mine", "--profile", "vcpu"], "ships with kern"), (["mine", "--profile", "box"], "belongs to kern itself"),
                            (["mine", "--profile", "disk"], "already serves"), (["test"], "cmake has a target"), (["a/b"], "cannot be the name")):
            with self.subTest(words):
                self.assertIn(part, self.run_in(folder, "kern", "plugin", "new", *words, code=1))
        self.assertEqual(os.listdir(folder), ["taken"])

    def test_the_sdk_suffices_for_three_plugins_of_kern(self):
        """audit, timens and gpu build from their own folders with nothing but what is installed, and use nothing of foundation.h."""
        folder = self.place({})
        names = ("audit", "timens", "gpu")
        text = "cmake_minimum_required(VERSION 3.16)\nproject(three C)\nset(CMAKE_C_STANDARD 17)\nfind_package(kern-plugin REQUIRED)\n"
        for name in names:
            shutil.copytree(f"{SOURCE}/plugins/{name}", f"{folder}/{name}")
            sources = " ".join(f"{name}/{file}" for file in sorted(os.listdir(f"{folder}/{name}")) if file.endswith(".c"))
            text += f"kern_add_plugin({name} {sources})\ntarget_compile_definitions({name} PRIVATE KERN_VERSION=\"9\")\n"
        with open(folder + "/CMakeLists.txt", "w", encoding="utf-8") as file:
            file.write(text)
        self.run_in(folder, "cmake", "-B", "build", f"-DCMAKE_PREFIX_PATH={self.prefix}", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
        self.run_in(folder, "cmake", "--build", "build")
        listed = subprocess.run(["nm", "-D", "--defined-only", self.prefix + "/bin/kern"], capture_output=True, text=True,
                                check=True).stdout
        promised = set(re.findall(r"\b(kern_\w+)@@?KERN_1\b", listed))
        for name in names:
            undefined = subprocess.run(["nm", "-D", "--undefined-only", f"{folder}/build/{name}.so"], capture_output=True,
                                       text=True, check=True).stdout
            used = set(re.findall(r"\b(kern_\w+)", undefined))
            self.assertTrue(used)
            self.assertEqual(used - promised, set(), name)

    def test_a_debian_package_as_the_page_says(self):
        """The four files of docs/PLUGINS.md. Where there is no debhelper, what it would do for rules of this kind is done by hand."""
        with open(SOURCE + "/docs/PLUGINS.md", encoding="utf-8") as file:
            blocks = re.findall(r"```text\n(.*?)```", file.read().split("## Packages")[1].split("\n## ")[0], re.S)
        folder = self.place({})
        self.run_in(folder, "kern", "plugin", "new", "motd", "--profile", "motd")
        work = folder + "/motd"
        os.makedirs(work + "/debian/source")
        for name, text in zip(("rules", "control", "changelog", "source/format"), [*blocks, "3.0 (native)\n"], strict=True):
            with open(f"{work}/debian/{name}", "w", encoding="utf-8") as file:
                file.write(text)
        os.chmod(work + "/debian/rules", 0o755)
        # dh refuses files in /usr/local, where kern is when nothing else was said, unless the rules have an empty target for that.
        self.assertIn("\noverride_dh_usrlocal:\n", blocks[0])
        if all(shutil.which(tool) for tool in ("dh", "dpkg-buildpackage")):
            os.makedirs(work + "/debian/kern-motd/usr/local/lib")
            steps = self.run_in(work, "dh", "binary", "--no-act", "--buildsystem=cmake")
            self.assertIn("dh_installdocs", steps)
            self.assertNotIn("dh_usrlocal", steps)
            self.run_in(work, "dpkg-buildpackage", "-us", "-uc", "-b", "-d")
            deb = [name for name in os.listdir(folder) if name.startswith("kern-motd_0.1_") and name.endswith(".deb")]
            listed = self.run_in(folder, "dpkg-deb", "-c", *deb)
        else:
            self.assertIn("dh binary --buildsystem=cmake", self.run_in(work, "make", "-nf", "debian/rules", "binary"))
            self.run_in(work, "cmake", "-B", "obj", "-DCMAKE_INSTALL_PREFIX=/usr", "-DCMAKE_BUILD_TYPE=None",
                        f"-DCMAKE_PREFIX_PATH={self.prefix}")
            self.run_in(work, "cmake", "--build", "obj")
            self.run_in(work + "/obj", "make", "test", "ARGS=-E box")
            self.run_in(work + "/obj", "make", "install", f"DESTDIR={work}/debian/kern-motd")
            listed = self.run_in(work, "find", "debian/kern-motd")
        self.assertIn(f"{self.prefix}/lib/kern/motd.so", listed)

    # ---- kern plugin check

    def test_check_of_a_good_one(self):
        for person in self.people:
            folder = self.place({})
            self.broken(folder)
            said = self.run_in(folder, "kern", "plugin", "check", "broken.so", person=person)
            self.assertIn("prepare and teardown run", said)
            self.assertRegex(said, r"opening it takes 0\.\d\d ms")
            self.assertNotIn("wrong", said)
            self.assertTrue(said.endswith("ok     usable\n"), said)

    def test_check_finds(self):
        option = '{.name = "%s", .type = %s, .flags = KERN_OPT_PLUGIN, .fallback = %s, .help = "x"},'
        for words, part in (({"body": "*(volatile int *)8 = 1"}, "crashed"),
                            ({"body": 'open("/dev/null", O_RDONLY)'}, "without O_CLOEXEC"),
                            ({"body": 'open("/dev/null", O_RDONLY | O_CLOEXEC)'}, "left descriptor"),
                            ({"table": TABLE.replace('"broken"', '"bro ken"')}, "no valid name"),
                            ({"table": TABLE.replace("VERSION", 'VERSION .profile = "a b",')}, "no valid .profile"),
                            ({"version": ""}, "no version"),
                            ({"options": option % ("Big", "KERN_STRING", "NULL")}, "a-z, 0-9"),
                            ({"options": option % ("a", "99", "NULL")}, "0x63 is not known"),
                            ({"options": option % ("a", "KERN_ENUM", "NULL")}, "needs choices"),
                            ({"options": option % ("a", "KERN_ENUM", 'NULL, .choices = (const char *const[]){NULL}')}, "needs choices"),
                            ({"options": option % ("a", "KERN_INT", "NULL, .min = 5, .max = 3")}, "no value lies between .min = 5"),
                            ({"options": option % ("a", "KERN_INT", "NULL") + option % ("a", "KERN_STRING", "NULL")}, "is there twice"),
                            ({"options": '{.name = "a", .type = KERN_INT, .flags = KERN_OPT_POOL, .help = "x"},'}, "no .pool"),
                            ({"options": '{.name = "a", .type = KERN_INT, .flags = KERN_OPT_PROFILE, .help = "x", .fallback = "many"},',
                              "table": TABLE.replace("VERSION", 'VERSION .profile = "b",')}, ".fallback is no value of its type"),
                            ({"table": TABLE.replace("VERSION", 'VERSION .profile = "a", .pool = "a",')}, "are both \"a\""),
                            ({"table": TABLE.replace("VERSION", "VERSION .state_size = UINT64_C(1) << 60,")}, "write sizeof"),
                            ({"table": TABLE.replace("VERSION", "VERSION .state_size = UINT64_MAX,")}, "write sizeof"),
                            ({"table": TABLE.replace("VERSION", "VERSION .after = (const char *const *)1,")}, "leads nowhere: Segmentation"),
                            ({"options": option % ("path", "KERN_STRING", "NULL")}, "every [[plugin]] has"),
                            ({"options": option % ("a", "KERN_INT", '"many"')}, "not a whole number"),
                            ({"options": '{.name = "a", .type = KERN_INT, .flags = KERN_OPT_PROFILE, .help = "x"},'}, "no .profile")):
            with self.subTest(part):
                folder = self.place({})
                self.broken(folder, **words)
                said = self.run_in(folder, "kern", "plugin", "check", "broken.so", code=1)
                self.assertIn(part, said)
                if "wrong" in said:  # else kern would not open it
                    self.assertRegex(said, r"wrong  not to be used: \d fault")

    def test_check_without_a_profile_to_try(self):
        folder = self.place({})
        self.broken(folder, table=TABLE.replace("VERSION", 'VERSION .profile = "a",'),
                    options='{.name = "must", .type = KERN_INT, .flags = KERN_OPT_PROFILE | KERN_OPT_REQUIRED, .help = "x"},')
        self.assertIn('note   no profile was tried: "must" is required', self.run_in(folder, "kern", "plugin", "check", "broken.so"))

    def test_check_of_what_uses_foundation(self):
        folder = self.place({})
        body = "extern const char *kern_box_id(const kern_box *); (void)kern_box_id(box)"
        self.broken(folder, body=body, table="#include <kern/foundation.h>\n" + TABLE)
        self.assertIn("note   it uses kern_box_id() of kern/foundation.h: no other release of kern",
                      self.run_in(folder, "kern", "plugin", "check", "broken.so"))
        self.broken(folder, body=body)
        self.assertIn("wrong  it uses kern_box_id() of kern/foundation.h, which its table does not say",
                      self.run_in(folder, "kern", "plugin", "check", "broken.so", code=1))

    def entering(self, body, prepare="", code=0):
        folder = self.place({})
        self.broken(folder, body=prepare, table=ENTER.replace("BODY", body))
        return self.run_in(folder, "kern", "plugin", "check", "broken.so", code=code)

    def test_check_runs_enter(self):
        add = 'if (kern_add_file(box, "/etc/broken", 0444, "hello", 5, err) != 0) return -1;'
        read = ('char text[8] = ""; int fd = sys_open_beneath(kern_box_root(box), "/etc/broken", O_RDONLY, 0, RESOLVE_IN_ROOT); '
                'if (fd < 0 || sys_read(fd, text, 8) != 5 || memcmp(text, "hello", 5) != 0) '
                'return kern_fail(err, ENOENT, "no greeting"); sys_close(fd)')
        said = self.entering(read, prepare=add)
        self.assertIn("prepare, enter and teardown run", said)
        self.assertRegex(said, r"ok     usable(, with 1 note)?\n")
        self.assertIn("note   enter, with a root that has only what prepare asked for, says: no greeting", self.entering(read))
        for body, part in (("*(volatile int *)8 = 1", "enter crashed, or ended its process: Segmentation fault"),
                           ("_exit(0)", "enter crashed, or ended its process"),
                           ('open("/dev/null", O_RDONLY | O_CLOEXEC)', "one of its hooks is at fault"),
                           ("chdir(\"/tmp\")", "one of its hooks is at fault"),
                           ("void *volatile leak = malloc(100000); (void)leak", "enter allocates memory")):
            with self.subTest(part):
                self.assertIn(f"wrong  {part}", self.entering(body, code=1))

    def test_check_survives_constructors(self):
        for body, part in (("*(volatile int *)8 = 1;", "it crashed when it was opened: Segmentation fault"),
                           ("_exit(0);", "it ended the process when it was opened")):
            with self.subTest(part):
                folder = self.place({})
                table = TABLE + "\n#include <unistd.h>\n__attribute__((constructor)) static void early(void) { " + body + " }\n"
                self.broken(folder, table=table)
                self.assertIn(part, self.run_in(folder, "kern", "plugin", "check", "broken.so", code=1))

    def test_check_of_heavy_libraries(self):
        folder = self.place({})
        self.broken(folder)
        self.run_in(folder, "cc", "-shared", "-fPIC", "-o", "libheavy.so", "-x", "c", "/dev/null")
        sdk = self.run_in(folder, "pkg-config", "--cflags", "--libs", "kern-plugin").split()
        self.run_in(folder, "cc", *sdk, "-o", "broken.so", "broken.c", "-Wl,--no-as-needed", "-L.", "-lheavy", f"-Wl,-rpath,{folder}")
        said = self.run_in(folder, "kern", "plugin", "check", "broken.so")
        self.assertIn("note   it needs libheavy.so at each start", said)

    def test_an_option_that_is_not_there_is_named(self):
        folder = self.place({})
        self.broken(folder, body='(void)kern_get_string(kern_options(box), "txet")')
        part = 'asks for the option "txet", which its table does not have'
        self.assertIn(part, self.run_in(folder, "kern", "plugin", "check", "broken.so"))
        self.assertIn(part, self.run_in(folder, "kern-plugin-test", "broken.so", "--", "true", code=1))

    def test_check_notes(self):
        folder = self.place({})
        self.broken(folder, flags=("-fvisibility=hidden",))
        os.rename(folder + "/broken.so", folder + "/other.so")
        said = self.run_in(folder, "kern", "plugin", "check", "other.so")
        self.assertIn('shows more than its table ("prepare")', said)
        self.assertIn('only as "broken.so"', said)
        self.assertTrue(said.endswith("ok     usable, with 2 notes\n"), said)

    def test_check_refuses_what_kern_would(self):
        folder = self.place({})
        self.broken(folder)
        os.chmod(folder + "/broken.so", 0o666)
        self.assertIn("others may write", self.run_in(folder, "kern", "plugin", "check", "broken.so", code=1))
        self.assertIn("cannot find", self.run_in(folder, "kern", "plugin", "check", "nosuch.so", code=1))

    # ---- the test kit

    def test_kern_plugin_test_fails_where_it_should(self):
        folder = self.place({})
        self.broken(folder)
        for words, code, part in ((["broken.so", "--", "true"], 0, ""),
                                  (["--exit", "7", "broken.so", "--", "sh", "-c", "exit 7"], 0, ""),
                                  (["broken.so", "--", "false"], 1, "exit code is 1, expected 0"),
                                  (["--stdout", "a\\n", "broken.so", "--", "echo", "b"], 1, "standard output"),
                                  (["--report", "exit=3", "broken.so", "--", "true"], 1, "exit of the report is 0"),
                                  (["--report", "a.b=3", "broken.so", "--", "true"], 1, "(missing)"),
                                  (["--stderr", "zebra", "broken.so", "--", "true"], 1, "does not say 'zebra'"),
                                  (["--nosuch", "broken.so"], 2, "unknown option"), ([], 2, "which plugin")):
            with self.subTest(words):
                self.assertIn(part, self.run_in(folder, "kern-plugin-test", *words, code=code))
        self.broken(folder, body='open("/dev/null", O_RDONLY | O_CLOEXEC)')
        self.assertIn("left descriptor", self.run_in(folder, "kern-plugin-test", "broken.so", "--", "true", code=1))

    def test_the_fake_box_has_every_function(self):
        with open(SOURCE + "/core/include/kern/plugin.h", encoding="utf-8") as file:
            wanted = set(re.findall(r"^[a-z][^\n(]*?\b(kern_\w+)\(", file.read(), re.M))
        listed = subprocess.run(["nm", "--defined-only", f"{self.prefix}/lib/libkern-plugin-test.a"], capture_output=True,
                                text=True, check=True).stdout
        defined = {line.split()[-1] for line in listed.splitlines() if " T " in line}
        self.assertGreater(len(wanted), 35)
        self.assertEqual(wanted - defined, set())


if __name__ == "__main__":
    unittest.main()

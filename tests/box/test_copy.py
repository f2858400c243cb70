"""kern cp and kern diff: files between the host and a box, and what a box has changed; with boxes that mean harm."""

import json
import os
import stat
import subprocess

import kerntest
from kerntest import as_root, as_root_and_user
from test_exec import ExecCase


def tree(path):
    """{relative path: (kind, permissions, content)} of all that is below."""
    found = {}
    for folder, folders, files in os.walk(path):
        for name in folders + files:
            full = os.path.join(folder, name)
            st = os.lstat(full)
            content = os.readlink(full) if stat.S_ISLNK(st.st_mode) else None
            if stat.S_ISREG(st.st_mode):
                with open(full, "rb") as file:
                    content = file.read()
            mode = 0 if stat.S_ISLNK(st.st_mode) else stat.S_IMODE(st.st_mode)
            found[os.path.relpath(full, path)] = (stat.S_IFMT(st.st_mode), mode, content)
    return found


class CopyCase(ExecCase):
    def cp(self, source, target, **keywords):
        self.assertEqual(self.succeed("cp", source, target, **keywords), "")

    def cp_refused(self, source, target, *parts, hint=None):
        done = self.kern("cp", source, target, report=False)
        self.assert_failed(done, 1, *parts, hint=hint)

    def place(self):
        """A folder of whoever runs kern."""
        path = self.folder()
        return path

    def sample(self):
        path = os.path.join(self.place(), "tree")
        os.makedirs(os.path.join(path, "sub/deep"))
        os.makedirs(os.path.join(path, "empty"))
        kerntest.write(os.path.join(path, "a"), "one\n", 0o640)
        kerntest.write(os.path.join(path, "sub/b\n"), "two\n", 0o755)
        kerntest.write(os.path.join(path, "sub/deep/none"), "", 0o600)
        with open(os.path.join(path, "big"), "wb") as file:
            file.write(os.urandom(300000))
        os.symlink("sub/deep", os.path.join(path, "link"))
        os.symlink("/etc/passwd", os.path.join(path, "away"))
        os.utime(os.path.join(path, "a"), (1e9, 1e9))
        kerntest.give(path, self.me)
        return path


@as_root_and_user
class There(CopyCase):
    def test_there_and_back(self):
        name, sample, out = self.detach("sleep", "60"), self.sample(), self.place()
        self.cp(sample, f"{name}:/tmp")
        self.assertEqual(self.run_in(name, "cat", "/tmp/tree/sub/b\n"), "two\n")
        self.assertEqual(self.run_in(name, "stat", "-c", "%u:%g %Y", "/tmp/tree/a"), "0:0 1000000000\n")
        self.cp(f"{name}:/tmp/tree", out)
        self.assertEqual(tree(out + "/tree"), tree(sample))
        self.assertEqual(os.stat(out + "/tree/a").st_mtime, 1e9)
        self.assertEqual({os.lstat(os.path.join(f, n)).st_uid for f, d, files in os.walk(out) for n in d + files}, {self.me.uid})

    def test_names(self):
        """Where a copy goes, as with cp -r."""
        name, sample, out = self.detach("sleep", "60"), self.sample(), self.place()
        self.cp(sample + "/a", f"{name}:/tmp/b")
        self.cp(sample + "/a", f"{name}:/tmp/")
        self.cp(sample + "/a", f"{name}:tmp/c")
        self.assertEqual(self.sh(name, "cat /tmp/a /tmp/b /tmp/c"), "one\n" * 3)
        self.cp(sample, f"{name}:/tmp/new")
        self.cp(sample + "/.", f"{name}:/tmp/new")
        self.cp(sample, f"{name}:/tmp/new")
        self.assertEqual(self.sh(name, "cd /tmp/new; ls -d a sub tree tree/a"), "a\nsub\ntree\ntree/a\n")
        self.cp(f"{name}:/tmp/b", out)
        self.cp(f"{name}:/tmp/b", out + "/renamed")
        self.cp(f"{name}:/tmp/new/.", out + "/all")
        self.assertEqual(sorted(os.listdir(out)), ["all", "b", "renamed"])
        self.cp(sample + "/big", f"{name}:/tmp/b")
        self.cp(sample + "/a", f"{name}:/tmp/b")
        self.assertEqual(self.sh(name, "cat /tmp/b; stat -c %a /tmp/b"), "one\n640\n")
        self.cp(f"{name}:/tmp/b", "here", cwd=out)
        self.assertTrue(os.path.exists(out + "/here"))

    def test_words(self):
        name, out = self.detach("sleep", "60"), self.place()
        self.cp_refused("a", "b", "one path in a box", hint="kern cp web:/etc/motd .")
        self.cp_refused("a:/x", "b:/x", "not between two boxes", hint="copy to a directory of the host")
        self.cp_refused("nobody:/etc/passwd", out, "no running box named 'nobody'", hint="kern ps")
        self.cp_refused(f"{name}:/none", out, 'cannot copy "/none": No such file')
        self.cp_refused("/none", f"{name}:/tmp", 'cannot copy "/none": No such file')
        self.cp_refused(f"{name}:/etc/passwd", "/none/x", 'cannot copy to "/none/x"', '"/none"')
        self.cp_refused(f"{name}:/etc/passwd", out + "/none/", "there is no such directory")
        self.cp_refused(self.file("x"), f"{name}:/none/x", 'cannot copy to "/none/x"')
        self.cp_refused(f"{name}:/etc", self.file("x"), "it is not a directory")
        self.cp_refused(self.place(), f"{name}:/etc/passwd", "it is not a directory")
        self.assertEqual(self.kern("cp", name + ":/x", report=False).code, 1)

    def test_holes_stay_holes(self):
        name, out = self.detach("sleep", "60"), self.place()
        self.sh(name, "cd /tmp; echo begin >s; dd if=/dev/zero of=s bs=1 count=0 seek=1099511627776 2>/dev/null; echo end >>s")
        self.cp(f"{name}:/tmp/s", out)
        st = os.stat(out + "/s")
        self.assertEqual((st.st_size, st.st_blocks < 1000), ((1 << 40) + 4, True))
        self.cp(out + "/s", f"{name}:/tmp/t")
        self.assertEqual(self.sh(name, "stat -c %s /tmp/t; tail -c 4 /tmp/t"), f"{(1 << 40) + 4}\nend\n")

    def test_a_tree_that_is_copied_into_itself(self):
        shared = self.folder(0o777)
        name = self.detach("sleep", "60", options=["-v", f"{shared}:/shared"])
        kerntest.give(kerntest.write(shared + "/f", "x"), self.me)
        done = self.kern("cp", shared, f"{name}:/shared/in", report=False)
        self.assertEqual(done.code, 1)
        self.assertIn("it is what is being made", done.err)
        self.assertEqual(sorted(os.listdir(shared + "/in")), ["f"])
        subprocess.run(["rm", "-rf", shared + "/in"], check=True)

    def test_a_full_box(self):
        name = self.detach("sleep", "60", options=["--tmpfs", "/small:64k"])
        self.cp_refused(self.sample() + "/big", f"{name}:/small", "No space left on device")
        self.assertEqual(self.row(name)["status"], "running")

    def test_with_the_rights_of_the_command(self):
        name = self.detach("sleep", "60", options=["--read-only", "--tmpfs", "/w"])
        self.cp_refused(self.file("x"), f"{name}:/etc/x", "Read-only file system")
        self.cp(self.file("x"), f"{name}:/w/x")
        name = self.detach("sleep", "60", options=["--security-profile", "untrusted"])
        self.assertIn("root:", self.copied_out(name, "/etc/passwd"))

    def test_where_landlock_binds(self):
        if kerntest.doctor().get("landlock") is not True:
            kerntest.skip("no Landlock in this kernel")
        name = self.detach("sleep", "60", options=["--landlock-rw", "/tmp"])
        self.cp_refused(self.file("x"), f"{name}:/var/x", "Permission denied")

    def copied_out(self, name, path):
        out = self.place() + "/it"
        self.cp(f"{name}:{path}", out)
        with open(out, encoding="utf-8") as file:
            return file.read()

    def test_nothing_is_kept(self):
        name, sample = self.detach("sleep", "60"), self.sample()
        self.cp(sample, f"{name}:/tmp")
        def held():
            return len(os.listdir(f"/proc/{self.supervisor}/fd"))

        def keeps():
            before = held()
            for _ in range(5):
                self.cp(f"{name}:/tmp/tree", self.place())
            return not kerntest.eventually(lambda: held() <= before, seconds=3)
        # What a box gets when it lives on may come meanwhile, but not each time.
        self.assertFalse(all(keeps() for _ in range(4)))
        self.assertTrue(kerntest.eventually(
            lambda: self.run_in(name, "sh", "-c", "ls -d /proc/[0-9]* | wc -l").strip() == "3"))


@as_root
class User(CopyCase):
    def test_it_belongs_to_the_boxes_user(self):
        name = self.detach("sleep", "60", options=["--user", "ann"])
        self.cp(self.sample(), f"{name}:/tmp")
        self.assertEqual(self.run_in(name, "stat", "-c", "%u:%g", "/tmp/tree/sub/deep/none"), "7:8\n")
        self.cp_refused(self.file("x"), f"{name}:/etc/x", "Permission denied")


@as_root_and_user
class Hostile(CopyCase):
    def test_links_do_not_leave_the_root(self):
        self.check_links()

    def test_links_where_a_filter_keeps_openat2_back(self):
        self.check_links("-v", f"{self.folder()}:/shared")
        with open(os.path.join(self.folder(), "profile"), "w", encoding="utf-8") as file:
            json.dump({"defaultAction": "SCMP_ACT_ALLOW",
                       "syscalls": [{"names": ["openat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}, file)
        os.chmod(file.name, 0o644)
        self.check_links("--seccomp", file.name)

    def check_links(self, *options):
        secret = kerntest.write(os.path.join(self.place(), "secret"), "host")
        kerntest.give(secret, self.me)
        name = self.detach("sh", "-c", f"cd /tmp; ln -s /proc/1/root/etc/passwd magic; ln -s /proc/self/cwd/x cwd;"
                           f" ln -s ../../../../../../..{secret} up; ln -s {secret} abs; ln -s /proc/self/environ env;"
                           " ln -s /proc/self/mem mem; ln -s /proc/1/root/tmp dir; ln -s /etc/passwd ok; exec sleep 60",
                           options=options)
        out = self.place()
        self.assertTrue(kerntest.eventually(lambda: "ok" in self.run_in(name, "ls", "/tmp")))
        self.cp_refused(f"{name}:/tmp/magic", out, "Too many levels of symbolic links")
        self.cp_refused(f"{name}:/tmp/cwd", out, "Too many levels of symbolic links")
        self.cp_refused(f"{name}:/tmp/up", out, "No such file")
        self.cp_refused(f"{name}:/tmp/abs", out, "No such file")
        self.cp_refused(f"{name}:/tmp/env", out, "cannot copy")
        self.cp_refused(f"{name}:/tmp/../../../..{secret}", out, "No such file")
        self.cp_refused(secret, f"{name}:/tmp/mem", "cannot copy to")
        self.cp_refused(secret, f"{name}:/tmp/dir", "Too many levels of symbolic links")
        self.cp_refused(secret, f"{name}:/proc/1/root/tmp/x", "Too many levels of symbolic links")
        self.cp(secret, f"{name}:/tmp/abs")
        self.assertEqual(os.listdir(out), [])
        self.cp(f"{name}:/tmp/ok", out)
        with open(out + "/ok", encoding="utf-8") as file:
            self.assertIn("/home/ann", file.read())

    def test_what_is_no_file(self):
        name, out = self.detach("sleep", "60"), self.place()
        self.sh(name, "mkdir /tmp/d; cd /tmp/d; mkfifo fifo; echo x >file; chmod 6777 file; mkdir sub; echo y >sub/z")
        self.cp_refused(f"{name}:/dev/null", out, "it is a device")
        self.cp_refused(f"{name}:/tmp/d/fifo", out, "it is a pipe")
        self.cp_refused(f"{name}:/proc", out, "kept nowhere")
        self.cp_refused(self.file("x"), f"{name}:/dev/null", "neither a file nor a directory")
        self.cp_refused(self.file("x"), f"{name}:/tmp/d/fifo", "neither a file nor a directory")
        done = self.kern("cp", f"{name}:/tmp/d", out, report=False)
        self.assertEqual((done.code, done.err), (1, 'kern: "/tmp/d/fifo" was left out: a pipe\n'))
        self.assertEqual(tree(out), {"d": (stat.S_IFDIR, 0o755, None), "d/file": (stat.S_IFREG, 0o777, b"x\n"),
                                     "d/sub": (stat.S_IFDIR, 0o755, None), "d/sub/z": (stat.S_IFREG, 0o644, b"y\n")})

    def test_links_on_the_host(self):
        """A box that shares the directory put links where the copy goes."""
        name, out, victim = self.detach("sleep", "60"), self.place(), self.place()
        self.sh(name, "mkdir -p /tmp/t/sub; echo new >/tmp/t/f; echo new >/tmp/t/sub/f; ln -s /tmp /tmp/t/l")
        kerntest.give(kerntest.write(victim + "/f", "old"), self.me)
        os.symlink(victim + "/f", out + "/f")
        os.symlink(victim, out + "/sub")
        os.symlink(victim, out + "/folder")
        self.cp_refused(f"{name}:/tmp/t/f", out + "/f", "it is a symbolic link", hint="means that")
        done = self.kern("cp", f"{name}:/tmp/t/.", out, report=False)
        self.assertEqual(done.code, 1)
        self.assertIn(f'cannot write "{out}/sub"', done.err)
        self.assertEqual(tree(victim), {"f": (stat.S_IFREG, 0o644, b"old")})
        self.cp(f"{name}:/tmp/t/f", out + "/folder/")
        self.assertEqual(tree(victim)["f"][2], b"new\n")

    def test_a_tree_that_moves(self):
        """Names change while they are copied: whatever arrives, it is the box's own, and the host's files stay."""
        name, out = self.detach("sh", "-c", "mkdir -p /tmp/t/a /tmp/t/b; cd /tmp/t; echo in >a/f; i=0; while :; do"
                                " ln -s /etc c; mv -T c b 2>/dev/null || { mv b d; mv c b; }; rm -f b c; mkdir -p b;"
                                " rm -rf d; done"), self.place()
        for i in range(8):
            done = self.kern("cp", f"{name}:/tmp/t", f"{out}/{i}", report=False)
            self.assertIn(done.code, (0, 1), done)
            found = tree(f"{out}/{i}") if os.path.exists(f"{out}/{i}") else {}
            self.assertFalse([path for path in found if path.endswith("passwd")], found)

    def test_nobody_in_the_box_looks_into_it(self):
        """Something in the box, of the same user, tries the memory and descriptors of each process that comes."""
        name = self.detach("sh", "-c", "echo up; while :; do for p in /proc/[0-9]*; do case $p in /proc/1|/proc/$$) continue;; esac;"
                           " (: <$p/mem) 2>/dev/null && echo mem $p $(cat $p/comm); ls $p/fd >/dev/null 2>&1 && echo fd $p $(cat $p/comm);"
                           " done; done")
        out = self.place()
        with open(out + "/big", "wb") as file:
            file.truncate(1)
            file.write(b"x" * (32 << 20))
        kerntest.give(out, self.me)
        for i in range(3):
            self.cp(out + "/big", f"{name}:/tmp/{i}")
            self.cp(f"{name}:/tmp/{i}", out + "/back")
        found = self.kern("logs", name).out.splitlines()
        self.assertEqual([line for line in found if line.endswith("kern")], [])
        self.assertIn("up", found)

    def test_depth_has_an_end(self):
        name, out = self.detach("sleep", "60"), self.place()
        self.sh(name, "cd /tmp; for i in $(seq 140); do mkdir d; cd d; done; echo x >f")
        done = self.kern("cp", f"{name}:/tmp/d", out, report=False)
        self.assertEqual(done.code, 1)
        self.assertIn("its path has too many parts", done.err)

    def test_a_box_that_is_being_stopped(self):
        name = self.detach("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done", options=["--stop-timeout", "50"])
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "ready\n"))
        stopping = self.start("stop", name, report=False)
        place = self.place()
        self.assertTrue(kerntest.eventually(
            lambda: "is being stopped" in self.kern("cp", f"{name}:/etc/passwd", place, report=False).err))
        self.cp_refused(f"{name}:/etc/passwd", place, "is being stopped")
        self.succeed("kill", name)
        stopping.wait()

    def test_who_goes_away_takes_the_copy_along(self):
        name = self.detach("sleep", "60")
        self.sh(name, "mkfifo /tmp/x; dd if=/dev/zero of=/tmp/big bs=1M count=16 2>/dev/null")
        running = self.start("cp", f"{name}:/tmp/big", "/dev/full", report=False)
        self.assertEqual(running.wait().code, 1)
        self.assertTrue(kerntest.eventually(
            lambda: self.run_in(name, "sh", "-c", "ls -d /proc/[0-9]* | wc -l").strip() == "3"))


@as_root_and_user
class Diff(CopyCase):
    def changes(self, name):
        return self.succeed("diff", name).splitlines()

    def check(self, *options):
        name = self.detach("sleep", "60", options=options)
        before = self.changes(name)
        self.sh(name, "echo x >/new; mkdir -p /d/e; echo y >>/etc/passwd; rm /etc/group; rm -r /home; mkdir /home;"
                      " mkdir /home/other; chmod 700 /d; mv /bin/ls /bin/moved")
        found = self.changes(name)
        self.assertEqual([line for line in found if line not in before],
                         ["C /bin", "D /bin/ls", "A /bin/moved", "A /d", "A /d/e", "C /etc", "D /etc/group",
                          "C /etc/passwd", "C /home", "D /home/ann", "A /home/other", "A /new"])
        self.sh(name, "mkdir /x; touch '/x/a\nb'; rm -r /d /new; mkdir -p /x/y")
        self.assertIn("A /x/a\\x0ab", self.changes(name))
        return name

    def test_in_memory(self):
        self.check()

    def test_on_disk(self):
        self.check("--scratch", "disk")

    def test_of_an_image(self):
        loaded = self.kern("import", self.root, "diff.test/it", report=False)
        self.assertEqual(loaded.code, 0, loaded)
        self.addCleanup(self.kern, "rmi", "diff.test/it", report=False)
        name = self.name()
        done = self.kern("box", name, "-d", "--image", "diff.test/it", "--no-uid-range", "--", "sleep", "60", report=False)
        self.assertEqual(done.code, 0, done)
        self.addCleanup(self.forget, name)
        self.sh(name, "echo x >/etc/new; rm /etc/passwd")
        found = self.changes(name)
        for line in ("C /etc", "A /etc/new", "D /etc/passwd"):
            self.assertIn(line, found)

    def test_where_there_are_none(self):
        name = self.name()
        self.assertEqual(self.kern("box", name, "-d", "--", "sleep", "60", report=False).code, 0)
        self.addCleanup(self.forget, name)
        self.assert_failed(self.kern("diff", name, report=False), 1, "a view of the host")
        bound = self.folder()
        name = self.detach("sleep", "60", options=["--read-only"])
        self.assertEqual([line for line in self.changes(name) if line[0] == "D"], [])
        self.assert_failed(self.kern("diff", "nobody", report=False), 1, "no running box named 'nobody'")
        self.assert_failed(self.kern("diff", report=False), 1, "which box?")
        os.rmdir(bound)

    def test_hostile_names(self):
        name = self.detach("sleep", "60")
        self.sh(name, "cd /tmp; for i in $(seq 210); do mkdir d; cd d; done; ln -s /etc/passwd /tmp/l; ln -s ../.. /tmp/up")
        done = self.kern("diff", name, report=False)
        self.assertEqual(done.code, 1)
        self.assertIn("cannot look into", done.err)
        self.assertIn("A /tmp/up\n", done.out)
        self.assertNotIn("passwd", done.out)


if __name__ == "__main__":
    kerntest.main()

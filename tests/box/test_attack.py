"""What an attacker found: each way in or out that was once open, kept shut."""

import json
import os
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user


class Attack(BoxCase):
    def hostile_root(self, **links):
        """A root folder with extra names in bin: text for a script, or a link when it begins with "->"."""
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        for name, text in links.items():
            path = f"{root}/bin/{name}"
            if text.startswith("->"):
                os.symlink(text[2:], path)
            else:
                kerntest.write(path, text, 0o755)
            os.lchown(path, self.me.uid, self.me.gid)
        return root


@as_root_and_user
class Programs(Attack):
    """The kernel follows the command, its #! line and its loader while kern's process still is what /proc/self names."""

    def test_no_program_through_proc(self):
        root = self.hostile_root(exe="->/proc/self/exe", script="#!/proc/self/exe\n", chain="#!/bin/script\n",
                                 thread="->/proc/thread-self/exe")
        for name in ("exe", "script", "chain", "thread"):
            with self.subTest(name):
                self.assert_failed(self.box(name, options=["--rootfs", root]), 126, f"cannot start '{name}' in box",
                                   "outside the box")

    def test_no_program_through_proc_where_openat2_is_kept_back(self):
        root = self.hostile_root(exe="->/proc/self/exe", script="#!/proc/self/exe\n", fine="#!/bin/sh\necho fine\n")
        profile = self.file(json.dumps({"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
            {"names": ["openat2"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}), "profile.json")
        for options in (["--seccomp", profile], ["-v", f"{self.folder()}:/x:rw"]):
            for name in ("exe", "script"):
                with self.subTest(name=name, options=options):
                    self.assert_failed(self.box(name, options=["--rootfs", root, *options]), 126,
                                       f"cannot start '{name}' in box", "outside the box")
            self.assertEqual(self.box("fine", options=["--rootfs", root, *options]).out, "fine\n")

    def test_no_descriptor_leads_out(self):
        links = {f"d{fd}": f"->/proc/self/fd/{fd}/../../../../../../../../bin/busybox" for fd in range(3, 40)}
        root = self.hostile_root(**links)
        for name in links:
            result = self.box(name, options=["--rootfs", root])
            self.assertIn(result.code, (126, 127), (name, result))

    def test_nothing_but_the_standard_streams_is_open(self):
        names = self.rooted("sh", "-c", "for f in /proc/self/fd/*; do readlink $f; done", text="").out.split()
        self.assertTrue(all(not name.startswith(("/run", "/tmp/kern", "socket", "anon_inode")) for name in names), names)


@as_root_and_user
class Streams(Attack):
    def test_a_directory_as_standard_stream_is_refused(self):
        directory = os.open(self.folder(), os.O_RDONLY)
        done = subprocess.run([kerntest.KERN, "box", "-q", "--", "true"], stdin=directory, capture_output=True, text=True)
        os.close(directory)
        self.assertEqual(done.returncode, 1, done)
        self.assertIn("standard stream 0", done.stderr)

    def test_closed_output_is_the_commands_error(self):
        script = f"exec {kerntest.KERN} box -q -- sh -c 'echo x' >&-"
        done = subprocess.run(["sh", "-c", script], stderr=subprocess.PIPE, text=True)
        self.assertNotEqual(done.returncode, 0, done)

    def test_a_full_stderr_stops_no_deadline(self):
        read_end, write_end = os.pipe()
        fill = "dd if=/dev/zero bs=4096 count=16 >&2 2>/dev/null; unshare -U true; exec sleep 60"
        process = subprocess.Popen([kerntest.KERN, "box", "--timeout", "1", "--", "sh", "-c", fill], stderr=write_end,
                                   stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        os.close(write_end)
        try:
            self.assertEqual(process.wait(30), 143)
        finally:
            process.kill()
            os.close(read_end)

    def test_an_ignored_signal_stays_ignored(self):
        process = subprocess.Popen(["sh", "-c", f"trap '' HUP; exec {kerntest.KERN} box -q -- sh -c 'echo up; sleep 2; exit 4'"],
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "up\n")
        process.send_signal(1)
        self.assertEqual(process.wait(30), 4)
        process.stdout.close()


@as_root_and_user
class Reports(Attack):
    def test_a_report_in_a_volume_cannot_be_forged(self):
        folder = self.folder(0o777)
        path = f"{folder}/report.json"
        for script in ("mv /w/report.json /w/mine; echo forged >/w/report.json", "rm /w/report.json; ln -s /etc/passwd /w/report.json",
                       "head -c 5000 /dev/zero >/w/report.json"):
            with self.subTest(script):
                self.kern("box", "-q", "-v", f"{folder}:/w", "--report", path, "--", "sh", "-c", script, report=False)
                with open(path, "rb") as file:
                    text = file.read()
                self.assertTrue(text.startswith(b'{"version": 1') and text.endswith(b"}\n"), text[:80])
                self.assertFalse(os.path.islink(path))
                os.unlink(path)

    def test_a_report_that_is_lost_is_said(self):
        result = self.kern("box", "-q", "--report", "/dev/full", "--", "true", report=False)
        self.assertEqual(result.code, 1, result)
        self.assertIn("/dev/full", result.err)


@as_user
class Places(Attack):
    def test_a_volume_shows_no_run_directory(self):
        script = "mkdir /host/kern-%d/boxes 2>/dev/null && echo made; ls /host/kern-%d; :" % (self.me.uid, self.me.uid)
        self.assertEqual(self.output("sh", "-c", script, options=["-v", "/tmp:/host"]), "")

    def test_the_sweep_follows_no_link_and_removes_nothing_strange(self):
        run = self.folder(0o700)
        kept = self.folder()
        kerntest.write(f"{kept}/letter", "mine")
        kerntest.give(kept, self.me)
        os.mkdir(f"{run}/kern", 0o700)
        os.symlink(kept, f"{run}/kern/boxes")
        kerntest.give(run, self.me)
        result = self.box("true", env={"XDG_RUNTIME_DIR": run})
        self.assertEqual(result.code, 1, result)
        self.assertTrue(os.path.exists(f"{kept}/letter"))
        os.unlink(f"{run}/kern/boxes")
        os.mkdir(f"{run}/kern/boxes", 0o700)
        kerntest.write(f"{run}/kern/boxes/strange", "no kern wrote this")
        kerntest.give(run, self.me)
        self.assertEqual(self.box("true", env={"XDG_RUNTIME_DIR": run}).code, 0)
        self.assertTrue(os.path.exists(f"{run}/kern/boxes/strange"))


@as_root
class Setuid(Attack):
    def test_none_in_a_volume_of_roots(self):
        folder = self.folder()
        script = """cp /bin/busybox /v/b
            for m in 4755 2755 6755; do chmod $m /v/b 2>/dev/null && echo chmod $m; done
            mkdir -m 4755 /v/d 2>/dev/null && echo mkdir; chmod 755 /v/b; :"""
        self.assertEqual(self.shell(script, options=["-v", f"{folder}:/v"]), "")
        self.assertEqual(os.stat(f"{folder}/b").st_mode & 0o7777, 0o755)

    def test_where_it_does_no_harm_it_works(self):
        self.assertEqual(self.shell("cp /bin/busybox /b; chmod 4755 /b; stat -c %a /b"), "4755\n")
        folder = self.folder()
        os.chown(folder, 12345, 12345)
        self.shell("cp /bin/busybox /v/b; chmod 4755 /v/b", options=["-v", f"{folder}:/v"])
        self.assertEqual(os.stat(f"{folder}/b").st_uid, 12345)


@as_root_and_user
class Blame(Attack):
    def test_a_blocked_child_does_not_explain_a_later_kill(self):
        running = self.start("box", "-q", "--", "sh", "-c", "unshare -U true 2>/dev/null; echo up; exec sleep 60")
        self.assertEqual(running.line().strip(), "up")
        time.sleep(0.1)
        running.signal(15)
        result = running.wait()
        self.assertEqual((result.code, result.fault), (143, None), result)
        self.assertEqual(result.report["denied"]["syscalls"], {"unshare": 1})


if __name__ == "__main__":
    kerntest.main()

"""The three plugins that use nothing but the public header: audit (--audit), timens and gpu."""

import glob
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
import unittest

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


@as_root_and_user
class Audit(BoxCase):
    def lines(self, path):
        with open(path, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def own_folder(self):
        folder = self.folder()
        kerntest.give(folder, self.me)
        return folder

    def test_the_phases_of_a_box(self):
        path = self.own_folder() + "/audit"
        result = self.rooted("sh", "-c", "exit 3", options=["--audit", path])
        self.assertEqual((result.code, result.report["plugins"]["audit"]), (3, {"lines": 3, "lost": 0}), result)
        lines = self.lines(path)
        self.assertEqual([line["event"] for line in lines], ["prepare", "started", "ended"])
        self.assertEqual(lines[0]["command"], ["sh", "-c", "exit 3"])
        self.assertEqual((lines[0]["pid"], lines[0]["uid"]), (result.pid, self.me.uid))
        self.assertEqual({key: lines[2][key] for key in ("exit", "signal", "fault", "started")},
                         {"exit": 3, "signal": 0, "fault": None, "started": 1})
        for line in lines:
            self.assertEqual(line["box"], result.report["box"])
            self.assertRegex(line["time"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual(os.stat(path).st_mode & 0o777, 0o600)

    def test_a_full_disk_is_named(self):
        path = kerntest.write(self.own_folder() + "/audit", " " * 8192)
        kerntest.give(os.path.dirname(path), self.me)
        result = self.rooted("true", options=["--audit", path], report=False,
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192)))
        self.assertEqual(result.code, 1, result)
        self.assertIn(f'cannot write the audit record to "{path}": File too large', result.err)

    def test_half_a_line_does_not_take_the_next_along(self):
        path = kerntest.write(self.own_folder() + "/audit", '{"half": ')
        kerntest.give(os.path.dirname(path), self.me)
        self.assertEqual(self.rooted("true", options=["--audit", path]).code, 0)
        half, *lines = read(path).splitlines()
        self.assertEqual((half, [json.loads(line)["event"] for line in lines]), ('{"half": ', ["prepare", "started", "ended"]))

    def test_it_appends(self):
        path = self.own_folder() + "/audit"
        for _ in range(2):
            self.assertEqual(self.rooted("true", options=["--audit", path]).code, 0)
        self.assertEqual(len(self.lines(path)), 6)

    def test_denials(self):
        path = self.own_folder() + "/audit"
        result = self.rooted("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10 11; do probe call bpf; done; true",
                             options=["--audit", path])
        denied = [line for line in self.lines(path) if line["event"] == "denied"]
        self.assertEqual([(line["kind"], line["what"], line["count"]) for line in denied],
                         [("syscalls", "bpf", 1), ("syscalls", "bpf", 10)], result)

    def test_stopping(self):
        path = self.own_folder() + "/audit"
        result = self.rooted("sleep", "60", options=["--audit", path, "--timeout", "0.2"])
        self.assertEqual(result.fault, "timeout")
        self.assertEqual([line.get("why") for line in self.lines(path) if line["event"] == "stopping"], ["timeout"])
        running = self.start("box", "--rootfs", self.root, "--audit", path, "--", "sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(running.line(), "ready\n")
        running.signal(signal.SIGTERM)
        running.wait()
        self.assertEqual([line.get("why") for line in self.lines(path) if line["event"] == "stopping"], ["timeout", "SIGTERM"])

    def test_a_file_that_is_rotated(self):
        path = self.own_folder() + "/audit"
        running = self.start("box", "--rootfs", self.root, "--audit", path, "--", "sh", "-c", "echo ready; sleep 0.4")
        self.assertEqual(running.line(), "ready\n")
        self.assertTrue(kerntest.eventually(lambda: len(self.lines(path)) == 2))
        os.rename(path, path + ".1")
        self.assertEqual(running.wait().code, 0)
        self.assertEqual([line["event"] for line in self.lines(path)], ["ended"])
        self.assertEqual(len(self.lines(path + ".1")), 2)

    def test_a_unix_socket(self):
        for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM):
            with self.subTest(kind):
                path = self.own_folder() + "/socket"
                with socket.socket(socket.AF_UNIX, kind) as server:
                    server.bind(path)
                    os.chmod(path, 0o666)
                    server.settimeout(10)
                    if kind == socket.SOCK_STREAM:
                        server.listen()
                    self.assertEqual(self.rooted("true", options=["--audit", path]).code, 0)
                    if kind == socket.SOCK_STREAM:
                        peer, _ = server.accept()
                        with peer:
                            text = peer.makefile().read()
                    else:
                        text = "".join(server.recv(4096).decode() for _ in range(3))
                self.assertEqual([json.loads(line)["event"] for line in text.splitlines()], ["prepare", "started", "ended"])

    def test_where_no_record_can_be_kept_no_box_runs(self):
        folder = self.own_folder()
        os.mkfifo(folder + "/fifo")
        os.chmod(folder + "/fifo", 0o666)
        os.symlink("/tmp", folder + "/link")
        for name, part in (("nosuch/file", "No such file"), ("fifo", "audit record"), ("link", "audit record"),
                           (".", "audit record")):
            with self.subTest(name):
                result = self.rooted("true", options=["--audit", f"{folder}/{name}"], started=True)
                self.assert_failed(result, 1, "audit record", part)

    def test_a_file_of_somebody_else_may_not_ask_for_it(self):
        chosen = self.file('[box]\naudit = "/tmp/kern-audit-of-somebody"\n', "kern.toml")
        self.refused("--config", chosen, parts=["audit"])
        self.assertFalse(os.path.exists("/tmp/kern-audit-of-somebody"))


@as_root
class AuditOfRoot(BoxCase):
    def test_half_a_line_of_its_own(self):
        path = self.folder() + "/audit"
        running = self.start("box", "--rootfs", self.root, "--audit", path, "--", "sh", "-c",
                             "trap 'read word; exit' TERM; echo ready; while :; do sleep 0.05; done", stdin=subprocess.PIPE)
        self.assertEqual(running.line(), "ready\n")
        self.assertTrue(kerntest.eventually(lambda: '"started"' in read(path) and read(path).endswith("\n")))
        most = os.path.getsize(path) + 10
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        running.signal(signal.SIGTERM)
        self.assertTrue(kerntest.eventually(lambda: os.path.getsize(path) == most))
        resource.prlimit(running.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        running.wait("word\n")
        prepare, started, half, ended = read(path).splitlines()
        self.assertEqual(len(half), 10)
        self.assertEqual([json.loads(line)["event"] for line in (prepare, started, ended)], ["prepare", "started", "ended"])


@as_root_and_user
class Clocks(BoxCase):
    def timed(self, keys, script, options=()):
        env = self.own_config(f'[[timens]]\nname = "it"\n{keys}\n')
        result = self.rooted("sh", "-c", script, options=["timens:it", *options], env=env)
        if result.code == 1 and "no time namespaces" in result.err:
            self.skipTest("this kernel has no time namespaces")
        return result

    def test_the_clock_since_boot(self):
        for options in ((), ("--init",)):
            if not options and tuple(int(part) for part in re.findall(r"\d+", os.uname().release)[:2]) < (6, 3):
                continue  # before that only a child gets the new clocks
            # The honest view would show the box's own age there.
            result = self.timed("boottime = 864000", "cut -d. -f1 /proc/uptime", ["--no-view", *options])
            with open("/proc/uptime", encoding="utf-8") as file:
                here = float(file.read().split()[0])
            self.assertEqual(result.code, 0, result)
            self.assertAlmostEqual(float(result.out) - here, 864000, delta=5)

    def test_a_clock_cannot_go_below_zero(self):
        result = self.timed("boottime = -3000000000", "true")
        self.assert_failed(result, 125, "timens: enter: ", "cannot set the clocks", hint="seconds since boot")

    def test_variables(self):
        result = self.timed("source-date-epoch = 1700000000\nseed = 42", "env")
        for text in ("SOURCE_DATE_EPOCH=1700000000", "SEED=42", "PYTHONHASHSEED=42", "PERL_HASH_SEED=42"):
            self.assertIn(text + "\n", result.out)
        flag = self.timed("source-date-epoch = 1700000000", "echo $SOURCE_DATE_EPOCH", ["-e", "SOURCE_DATE_EPOCH=1"])
        self.assertEqual(flag.out, "1\n")

    def test_bounds(self):
        env = self.own_config('[[timens]]\nname = "it"\nmonotonic = 99999999999\n')
        self.refused("timens:it", env=env, parts=["monotonic", "99999999999", "out of range"])


@as_root_and_user
class Graphics(BoxCase):
    def test_a_device_that_is_not_there(self):
        env = self.own_config('[[gpu]]\nname = "it"\ndevice = ["0000:ff:1f.7"]\n')
        self.refused("gpu:it", env=env, parts=["gpu:it", '"0000:ff:1f.7"'], hint="/sys/class/drm")

    def test_what_is_no_render_node(self):
        for device in ("card0", "../../dev/sda", "/dev/dri/card0"):
            env = self.own_config(f'[[gpu]]\nname = "it"\nvendor = "0x1002"\ndevice = ["{device}"]\n')
            self.refused("gpu:it", env=env, parts=[device], hint="renderD128")
            self.assertEqual(self.kern("validate", env=env, report=False).code, 1)


@as_root
class MadeUpGraphics(BoxCase):
    """With a made-up /sys/class/drm in a mount namespace of the test's own: the node stands for /dev/null."""

    WORLD = """set -e; mount -t tmpfs none /sys/class; mkdir -p /sys/class/drm/renderD128 /sys/class/x/0000:03:00.0
        echo 0x1002 >/sys/class/x/0000:03:00.0/vendor; echo DEV >/sys/class/drm/renderD128/dev
        ln -s ../../x/0000:03:00.0 /sys/class/drm/renderD128/device
        mkdir -p /dev/dri; mount -t tmpfs none /dev/dri; mknod -m 666 /dev/dri/renderD128 c 1 3; mknod /dev/dri/card0 c 1 3
        """

    def in_world(self, keys, *command, dev="1:3", world=WORLD, options=()):
        env = self.own_config(f'[[gpu]]\nname = "it"\n{keys}\n')
        made = not os.path.isdir("/dev/dri")
        try:
            return subprocess.run(
                ["unshare", "-m", "sh", "-c", world.replace("DEV", dev) + 'exec "$@"', "sh", kerntest.KERN, "box", "gpu:it",
                 "--rootfs", self.root, *options, "--", *command],
                env={"PATH": kerntest.BOX_PATH, "HOME": "/root", **env}, capture_output=True, text=True, check=False,
                stdin=subprocess.DEVNULL, timeout=60)
        finally:
            if made and os.path.isdir("/dev/dri"):
                os.rmdir("/dev/dri")

    def test_exactly_the_node(self):
        script = "ls /dev/dri; echo x >/dev/dri/renderD128 && echo works"
        for device in ("0000:03:00.0", "renderD128"):
            done = self.in_world(f'vendor = "0x1002"\ndevice = ["{device}"]', "sh", "-c", script)
            self.assertEqual((done.stdout, done.returncode), ("renderD128\nworks\n", 0), done.stderr)

    def test_its_directory_of_sysfs(self):
        """A device of this machine stands for a card: its directory is there to be read, the links lead to it, and no other is seen."""
        found = [path for path in glob.glob("/sys/class/tty/*/device") + glob.glob("/sys/class/rtc/*/device")
                 if os.path.exists(os.path.dirname(path) + "/dev")]
        if not found:
            self.skipTest("this machine has no character device with another one behind it")
        node, device = os.path.realpath(os.path.dirname(found[0])), os.path.realpath(found[0])
        with open(node + "/dev", encoding="ascii") as file:
            numbers = file.read().strip()
        world = ["mount -t tmpfs none /sys/class", "mkdir /sys/class/drm", f"ln -s {node} /sys/class/drm/renderD128", "mkdir -p /dev/dri",
                 "mount -t tmpfs none /dev/dri", f"mknod -m 666 /dev/dri/renderD128 c {numbers.replace(':', ' ')}"]
        script = (f"cat /sys/dev/char/{numbers}/dev /sys/class/drm/renderD128/dev; ls /sys/class/drm; ls /sys/dev/char; "
                  f"(echo add >{node}/uevent) 2>/dev/null || echo to be read; "
                  f"test -e {device}/uevent && echo device; ls {os.path.dirname(device)}")
        done = self.in_world('device = ["renderD128"]', "sh", "-c", script, world="set -e; " + "; ".join(world) + "; ")
        expected = [numbers, numbers, "renderD128", numbers, "to be read", "device", os.path.basename(device)]
        self.assertEqual((done.returncode, done.stdout.split("\n")[:-1]), (0, expected), done.stderr)
        done = self.in_world('device = ["renderD128"]', "sh", "-c", "ls /dev/dri /sys/dev", world="set -e; " + "; ".join(world) + "; ",
                             options=("--userns=host",))
        self.assertEqual((done.stdout, done.stderr.count("/sys/dev")), ("/dev/dri:\nrenderD128\n", 1), done.stderr)

    def test_of_another_vendor(self):
        done = self.in_world('vendor = "0x8086"\ndevice = ["renderD128"]', "true")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn('of vendor "0x1002", not "0x8086"', done.stderr)

    def test_a_node_that_is_another_device(self):
        done = self.in_world('device = ["renderD128"]', "true", dev="226:128")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("is not the device 226:128", done.stderr)


if __name__ == "__main__":
    kerntest.main()

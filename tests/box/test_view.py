"""The honest view: where a cap binds, programs see it, in files and in calls; where none does, they see the host's figures."""

import os
import re
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, need

MACHINE = len(os.sched_getaffinity(0))


def fields(text):
    """/proc/meminfo as {NAME: bytes}."""
    return {name: int(size) * 1024 for name, size in re.findall(r"^(\S+): +(\d+) kB$", text, re.M)}


class View(BoxCase):
    def asks(self, *words, options=(), **keywords):
        program = kerntest.program("asks", "-static", "-pthread")
        return self.output("/asks", *words, options=["-v", f"{program}:/asks", *options], **keywords)

    def mask(self, options):
        length, verdict, mask = self.asks("affinity", "0", "128", options=options).split()
        self.assertEqual(verdict, "ok")
        self.assertGreater(int(length), 0)
        return int(mask, 16)

    def need_cpus(self):
        if MACHINE < 2:
            kerntest.skip("one CPU only: there is nothing to narrow")


@as_root
class Cpus(View):
    """A cap on CPU time: one CPU of at least two."""

    def setUp(self):
        self.need_limits()
        self.need_cpus()

    options = ["--cpus", "0.5"]

    def test_files_agree_with_the_call(self):
        mask = self.mask(self.options)
        self.assertEqual(mask.bit_count(), 1)
        out = self.shell("cat /sys/devices/system/cpu/online /sys/devices/system/cpu/possible; grep -c ^processor /proc/cpuinfo;"
                         "grep -c '^cpu[0-9]' /proc/stat; nproc; ls -d /sys/devices/system/cpu/cpu* | wc -l",
                         options=self.options, rooted=False)
        online, possible, *counts = out.split()
        self.assertEqual(online, possible)
        self.assertEqual(counts, ["1"] * 4)

    def test_the_mask_is_real_and_differs_between_boxes(self):
        seen = set()
        for _ in range(12):
            mask = self.mask(self.options)
            self.assertEqual(mask & ~sum(1 << cpu for cpu in os.sched_getaffinity(0)), 0)
            seen.add(mask)
        self.assertGreater(len(seen), 1)

    def test_whole_cpus_are_rounded_up(self):
        self.assertEqual(self.mask(["--cpus", "1"]).bit_count(), 1)
        self.assertEqual(self.mask(["--cpus", "1.1"]).bit_count(), 2)
        self.assertEqual(self.mask(["--cpus", str(MACHINE)]).bit_count(), MACHINE)

    def test_narrowing_oneself_works(self):
        for cpu in sorted(os.sched_getaffinity(0))[:2]:
            self.assertEqual(self.asks("set", str(cpu), options=self.options), f"0 {cpu}\n")
        every = [str(cpu) for cpu in sorted(os.sched_getaffinity(0))]
        self.assertEqual(len(self.asks("set", *every, options=self.options).split()), 2)

    def test_a_thread_that_names_itself(self):
        self.assertEqual(self.asks("thread", options=self.options), "1\n")

    def test_errors_are_those_of_the_kernel(self):
        for words, verdict in ((("0", "7"), "Invalid argument"), (("0", "0"), "Invalid argument"),
                               (("9999", "128"), "No such process"), (("-1", "128"), "No such process")):
            with self.subTest(words):
                self.assertIn(verdict, self.asks("affinity", *words, options=self.options))
        self.assertEqual(self.asks("pointer", options=self.options), "-1 Bad address, -1 Bad address\n")
        real = self.asks("affinity", "0", "1024", options=["--no-view"]).split()[0]
        self.assertEqual(self.asks("affinity", "0", "1024", options=self.options).split()[0], real)

    def test_languages(self):
        need("python3")
        out = self.output("/usr/bin/python3", "-c", "import os; print(os.cpu_count(), len(os.sched_getaffinity(os.getpid())))",
                          options=self.options)
        self.assertEqual(out, "1 1\n")

    def test_node(self):
        need("node")
        out = self.output("node", "-e", "console.log(os.cpus().length, os.availableParallelism(), os.totalmem())",
                          options=[*self.options, "-m", "300m"])
        self.assertEqual(out.split(), ["1", "1", str(300 << 20)])

    def test_who_asks_without_end_is_answered(self):
        self.asks("often", "3000", options=self.options)
        self.asks("signals", "1500", options=self.options)

    def test_killed_while_it_asks(self):
        program = kerntest.program("asks", "-static", "-pthread")
        for _ in range(3):
            box = self.start("box", "-v", f"{program}:/asks", "--timeout", "0.2", "--cpus", "0.5", "--", "/asks", "often",
                             "100000000")
            self.assertEqual(box.wait().code, 143)

    def test_a_pipe_over_a_file_of_proc(self):
        """A box that may mount puts one there and asks about that process: kern does not wait for the other end."""
        need("python3")
        need("unshare")
        inside = ["unshare", "-r", kerntest.KERN, "box", "-q", "--privileged", *self.options, "--timeout", "20", "--"]  # real root is refused
        script = """mkdir /tmp/d; mount -t tmpfs none /tmp/d; mkfifo /tmp/d/pipe; mount --bind /tmp/d/pipe /proc/1/status
            test -p /proc/1/status && python3 -c 'import os; print(len(os.sched_getaffinity(1)))'"""
        try:
            done = subprocess.run([*inside, "unshare", "-Urm", "sh", "-c", script], capture_output=True, text=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            self.fail("kern waits for a pipe of the box, and keeps no deadline")
        self.assertEqual((done.returncode, done.stdout), (0, "1\n"), done)

    def test_the_report_says_it(self):
        result = self.rooted("true", options=[*self.options, "-m", "64m"])
        self.assertEqual(result.report["plugins"]["view"], {"cpus": 1, "memory": 64 << 20})


@as_root_and_user
class Cpuset(View):
    """A list binds by a group or by the mask that the box begins with: no call has to be answered."""

    def test_files(self):
        self.need_cpus()
        last = max(os.sched_getaffinity(0))
        out = self.shell("cat /sys/devices/system/cpu/online; grep ^processor /proc/cpuinfo; grep -o '^cpu[0-9]*' /proc/stat; nproc",
                         options=["--cpuset-cpus", str(last)], rooted=False)
        self.assertEqual(out.split(), [str(last), "processor", ":", str(last), "cpu", f"cpu{last}", "1"])


@as_root
class Memory(View):
    def setUp(self):
        self.need_limits()

    def test_files_and_call(self):
        info = fields(self.shell("cat /proc/meminfo", options=["-m", "100m"]))
        self.assertEqual((info["MemTotal"], info["SwapTotal"]), (100 << 20, 0))
        self.assertLessEqual(info["MemFree"], info["MemTotal"])
        total, free, swap, uptime, procs = map(int, self.asks("sysinfo", options=["-m", "100m"]).split())
        self.assertEqual((total, swap), (100 << 20, 0))
        self.assertTrue(0 < free <= total and uptime < 60 and procs == 1, (free, uptime, procs))

    def test_more_than_the_machine_has(self):
        with open("/proc/meminfo", encoding="utf-8") as file:
            machine = fields(file.read())["MemTotal"]
        self.assertEqual(int(self.asks("sysinfo", options=["-m", "8t"]).split()[0]), machine)

    def test_a_second_later(self):
        """What the box uses is seen; what it only cached counts as available."""
        program = kerntest.program("asks", "-static", "-pthread")
        out = self.shell("(/asks eat 60 6; cat /proc/meminfo) & dd if=/dev/zero of=/f bs=1M count=10 2>/dev/null; sleep 1.9;"
                         "cat /proc/meminfo; cat /proc/loadavg; cat /proc/uptime; grep '^cpu ' /proc/stat; wait",
                         options=["-m", "200m", "-v", f"{program}:/asks"])
        info = fields(out)
        self.assertTrue(65 << 20 < info["MemTotal"] - info["MemFree"] < 120 << 20, out)
        self.assertGreaterEqual(info["AnonPages"], 55 << 20)
        self.assertGreaterEqual(info["Shmem"], 9 << 20)
        total, free = map(int, re.search(r"^(\d{9}) (\d+) 0 ", out, re.M).groups())
        self.assertTrue(65 << 20 < total - free < 120 << 20, out)
        up = float(re.search(r"^(\d+\.\d\d) \d+\.\d\d$", out, re.M).group(1))
        self.assertTrue(1 <= up < 60, out)
        self.assertRegex(out, r"(?m)^\d+\.\d\d \d+\.\d\d \d+\.\d\d \d+/\d+ \d+$")

    def test_load_and_time_are_the_boxes(self):
        out = self.shell("(exec yes >/dev/null) & p=$!; sleep 1.1; kill $p; wait $p 2>/dev/null || true; sleep 1.2;"
                         "grep '^cpu ' /proc/stat; cat /proc/loadavg")
        user = int(out.split()[1])
        if user == 0:
            kerntest.skip("no group of this machine counts CPU time")
        self.assertLess(user, 400)
        self.assertLess(float(out.splitlines()[1].split()[0]), 1)

    def test_the_box_cannot_change_it(self):
        for path in ("/proc/meminfo", "/proc/stat", "/sys/fs/kern/meminfo", "/sys/fs/kern/new"):
            with self.subTest(path):
                self.assertNotEqual(self.rooted("sh", "-c", f"echo x >> {path}", options=["-q"]).code, 0)
        result = self.rooted("umount", "/proc/meminfo", options=["-q"])
        self.assertEqual(result.code, 159, result)

    def test_the_host_keeps_its_own(self):
        with open("/proc/meminfo", encoding="utf-8") as file:
            before = fields(file.read())["MemTotal"]
        self.shell("sleep 1.2", options=["-m", "64m"])
        with open("/proc/meminfo", encoding="utf-8") as file:
            self.assertEqual(fields(file.read())["MemTotal"], before)

    def test_programs_of_procps(self):
        need("free", "uptime")
        out = self.output("sh", "-c", "free -b; uptime", options=["-m", "100m"])
        self.assertEqual(out.split("\n")[1].split()[:2], ["Mem:", str(100 << 20)])
        self.assertIn("up 0 min", out)


@as_root_and_user
class Off(View):
    def test_no_view(self):
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            machine = file.read().count("processor\t")
        options = ["--no-view", "--cpuset-cpus", "0"]
        out = self.shell("grep -c ^processor /proc/cpuinfo; find /sys -maxdepth 2", options=options)
        self.assertEqual(int(out.split()[0]), machine)
        self.assertNotIn("/sys/devices", out)
        self.assertNotIn("/sys/fs/kern", out)
        self.assertGreater(int(self.asks("sysinfo", options=options).split()[3]), 5 if time.monotonic() > 6 else -1)

    def test_in_kern_toml(self):
        env = self.own_config("[box]\nno-view = true\n")
        self.assertEqual(self.shell("find /sys -name kern", env=env), "")
        result = self.rooted("true", env=env, options=["--no-view=false", "--cpuset-cpus", "0"])
        self.assertIn("view", result.report["plugins"], result)

    def test_a_hostile_root(self):
        """Links where the files should go: rootfs refuses them, so nothing of the host is covered."""
        folder = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        os.rmdir(os.path.join(folder, "sys"))
        os.symlink("/etc", os.path.join(folder, "sys"))
        result = self.box("true", options=["--rootfs", folder, "--cpuset-cpus", "0", "-q"])
        self.assertEqual(result.code, 125, result)

    def test_privileged_boxes_nest(self):
        if self.me.is_root:
            return
        result = self.box("find", "/sys", "-name", "kern", options=["--privileged", "--cpuset-cpus", "0", "-q"])
        self.assertEqual((result.code, result.out), (0, ""), result)


if __name__ == "__main__":
    kerntest.main()

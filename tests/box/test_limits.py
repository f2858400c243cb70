"""Limits: memory, pids, CPU, nice and weights, read back and felt; OOM named from the kernel's counter; refusal where a cap
cannot bind; and vcpu profiles."""

import os
import shutil
import statistics
import subprocess
import time

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user


class Limits(BoxCase):
    def limits(self, *options, **keywords):
        result = self.rooted("true", options=options, **keywords)
        self.assertEqual(result.code, 0, result)
        return result.report["limits"]


@as_root_and_user
class Words(Limits):
    def test_sizes(self):
        for text, size in (("64m", 64 << 20), ("64M", 64 << 20), ("65536k", 64 << 20), ("64mb", 64 << 20),
                           ("1g", 1 << 30), ("0.5g", 1 << 29), ("67108864", 64 << 20)):
            with self.subTest(text):
                self.assertEqual(self.limits("-m", text)["memory"]["asked"], size)

    def test_bad_sizes(self):
        for text in ("0", "0m", "-1", "-1m", "x", "12q", "99999999999g", "18446744073709551616", "nan", "", "1e400", "m"):
            with self.subTest(text):
                self.refused(f"--memory={text}", parts=["--memory"])

    def test_bad_numbers(self):
        for option, texts in (("--pids-limit", ("1", "0", "-1", "x", "99999999999", "2.5")),
                              ("--cpus", ("-1", "nan", "inf", "0", "x", "1e99")),
                              ("--nice", ("-21", "20", "x")), ("--io-weight", ("0", "10001", "x")),
                              ("--cpuset-cpus", ("x", "-1", "3-1", "99999", "0,,1", "")),
                              ("--memory-swap-max", ("-1", "x"))):
            for text in texts:
                with self.subTest(f"{option}={text}"):
                    self.refused(f"{option}={text}", parts=[option])

    def test_nothing_remains_of_a_refusal(self):
        self.refused("--pids-limit", "1", parts=["--pids-limit", "2"])
        self.assertEqual(kerntest.group_leaks(), [])

    def test_exclusive(self):
        self.refused("--require-limits", "--allow-uncapped", parts=["require-limits", "allow-uncapped"])

    def test_an_unknown_flag_names_the_nearest(self):
        result = self.refused("--memroy", "1g", parts=["--memroy"])
        self.assertIn("--memory", result.err)


@as_root
class Bind(Limits):
    """As root every kind of control group binds, v1 or v2."""

    def test_memory(self):
        self.need_limits()
        limit = self.limits("-m", "48m")["memory"]
        self.assertEqual((limit["asked"], limit["enforced"]), (48 << 20, True))
        self.assertIn(limit["by"], ("cgroup1", "cgroup2", "scope"))

    def test_oom(self):
        self.need_limits()
        result = self.rooted("probe", "eat", "200", options=["-m", "48m"], started=True)
        self.assertEqual((result.code, result.fault, result.report["signal"]), (137, "oom", 9), result)
        self.assertEqual(result.report["fault"]["limit_bytes"], 48 << 20)
        self.assertEqual(result.started, b"\1\1\1\x09")
        peak = result.report["usage"]["peak_memory_bytes"]
        self.assertTrue(32 << 20 < peak <= 48 << 20, peak)

    def test_oom_of_a_child_ends_the_box(self):
        """As memory.oom.group does on v2: half a box is of no use, and nobody guesses why it misbehaves."""
        self.need_limits()
        result = self.rooted("sh", "-c", "probe eat 200; exit 3", options=["-m", "48m"], started=True)
        self.assertEqual((result.code, result.fault), (137, "oom"), result)
        self.assertEqual(result.started[2], 1)

    def test_oom_passed_on_as_137(self):
        self.need_limits()
        result = self.rooted("sh", "-c", "probe eat 200; exit 137", options=["-m", "48m"])
        self.assertEqual((result.code, result.fault), (137, "oom"), result)

    def test_137_alone_is_no_oom(self):
        self.assertIsNone(self.rooted("sh", "-c", "exit 137", options=["-m", "48m"]).report["fault"])

    def test_no_swap_by_default(self):
        self.need_limits()
        self.assertEqual(self.limits()["swap"]["asked"], 0)

    def test_tiny_memory_fails_or_runs_but_does_not_hang(self):
        for size in ("64k", "1m", "4m"):
            with self.subTest(size):
                result = self.rooted("true", options=["-m", size])
                self.assertIn(result.code, (0, 1, 125, 137), result)

    def test_fork_bomb(self):
        self.need_limits()
        out = self.output("probe", "forks", "300", options=["--pids-limit", "20"], rooted=True)
        _, made, failed = out.split()
        self.assertTrue(10 <= int(made) < 20, out)
        self.assertEqual(failed, "11")  # EAGAIN

    def test_a_fork_bomb_ends_with_its_box(self):
        self.need_limits()
        result = self.rooted("sh", "-c", "b() { b | b & b; }; b", options=["--pids-limit", "30", "--timeout", "1", "-q"],
                             stderr=-3)
        self.assertIn(result.code, (143, 0, 1, 2), result)
        self.assertLessEqual(result.report["usage"]["peak_pids"], 30)

    def test_cpus(self):
        self.need_limits()
        result = self.rooted("sh", "-c", "while :; do :; done", options=["--cpus", "0.2", "--timeout", "2"])
        self.assertEqual(result.code, 143)
        limit = result.report["limits"]["cpu"] if "cpu" in result.report["limits"] else result.report["limits"]["cpus"]
        self.assertEqual((limit["asked"], limit["enforced"]), (0.2, True))
        self.assertLess(result.report["usage"]["cpu_ms"], 1000)

    def test_cpuset(self):
        self.assertEqual(self.output("probe", "cpus", options=["--cpuset-cpus", "0"], rooted=True).split()[-2:],
                         ["affinity", "0"])

    def test_io_weight(self):
        result = self.rooted("true", options=["--io-weight", "50"])
        self.assertIn(result.code, (0, 1), result)
        if result.code == 0:
            self.assertEqual(result.report["limits"]["io"]["asked"], 50)

    def test_require_limits(self):
        self.need_limits()
        self.assertEqual(self.rooted("true", options=["--require-limits"]).code, 0)
        self.assertEqual(self.rooted("true", env={"KERN_REQUIRE_LIMITS": "1"}).code, 0)

    def test_a_negative_nice(self):
        self.assertEqual(self.output("probe", "nice", options=["--nice", "-3"], rooted=True), "-3\n")


@as_root
class Shown(Limits):
    """What limits are for, at the sizes that people use."""

    def setUp(self):
        self.need_limits()

    def test_400_mib_under_128(self):
        result = self.rooted("sh", "-c", "sleep 88.25 & probe eat 400", options=["-m", "128m"])
        self.assertEqual((result.code, result.fault), (137, "oom"), result)
        self.assertEqual(kerntest.running("sleep", "88.25"), [])
        usage = result.report["usage"]
        self.assertTrue(0.95 * (128 << 20) <= usage["peak_memory_bytes"] <= 128 << 20, usage)
        self.assertGreaterEqual(usage["oom_kills"], 1)

    def test_a_fork_bomb_for_5_seconds(self):
        """One that does not give up at the cap, as a shell's does within milliseconds."""
        running = self.start("box", "--rootfs", self.root, "--pids-limit", "64", "--timeout", "5", "-q", "--", "probe", "bomb")
        begun, times = time.monotonic(), []
        while running.process.poll() is None and time.monotonic() - begun < 20:
            before = time.monotonic()
            subprocess.run(["true"], check=True)
            times.append(time.monotonic() - before)
            time.sleep(0.1)
        result = running.wait()
        self.assertEqual((result.code, result.fault), (143, "timeout"), result)
        self.assertLess(max(times), 2)
        self.assertGreaterEqual(result.report["usage"]["cpu_ms"], 1000)  # it did bomb
        self.assertGreaterEqual(time.monotonic() - begun, 5)
        self.assertLess(result.report["usage"]["wall_ms"], 7000, result)
        self.assertEqual(result.report["usage"]["peak_pids"], 64)

    @staticmethod
    def idle():
        """CPU time that nobody wanted so far, of all CPUs, in seconds."""
        with open("/proc/stat", encoding="ascii") as file:
            return sum(map(int, file.readline().split()[4:6])) / os.sysconf("SC_CLK_TCK")

    @staticmethod
    def counted(pid):
        """What the kernel counted for the box of this kern: {"nr_periods": ..., "used_ms": ...}."""
        found = {}
        for path in kerntest.glob.glob(f"/sys/fs/cgroup/**/kern.*.{pid}", recursive=True):
            for name in ("cpu.stat", "cpuacct.usage"):
                if os.path.exists(f"{path}/{name}"):
                    with open(f"{path}/{name}", encoding="ascii") as file:
                        found.update((["cpuacct.usage"] + line.split())[-2:] for line in file)
        used = int(found["cpuacct.usage"]) / 1e6 if "cpuacct.usage" in found else int(found["usage_usec"]) / 1e3
        throttled = int(found["throttled_time"]) / 1e6 if "throttled_time" in found else int(found["throttled_usec"]) / 1e3
        return {"used_ms": used, "throttled_ms": throttled, "periods": int(found["nr_periods"]), "throttled": int(found["nr_throttled"])}

    def test_half_a_cpu(self):
        """By the clock that the box itself reads, and by the periods that the kernel counted: what a busy machine does to either is
        in both sides of each comparison."""
        quota, slack = 50, 25  # of 100 ms; it is noticed at ticks and in slices, on each CPU, and paid back in the next period
        idle, begun = self.idle(), time.monotonic()
        running = self.start("box", "--rootfs", self.root, "--cpus", "0.5", "-q", "--", "sh", "-c", "probe spin 2 4000; read x", stdin=-1)
        elapsed, used = (int(word) / 1e3 for word in running.line().split()[1:])
        idle = (self.idle() - idle) / (time.monotonic() - begun)
        kernel = self.counted(running.pid)
        usage = running.wait("\n").report["usage"]
        told = (elapsed, used, idle, kernel, usage)
        self.assertLessEqual(used, elapsed / 2 + quota + slack, told)
        self.assertLessEqual(kernel["used_ms"], quota * (kernel["periods"] + 1) + slack, told)
        self.assertGreaterEqual(kernel["used_ms"], quota * kernel["throttled"] - slack, told)  # throttled is who had it all
        self.assertGreaterEqual(kernel["used_ms"], used - 1, told)  # and what the shell and the beginning took
        self.assertTrue(-1 <= usage["cpu_ms"] - kernel["used_ms"] < 50, told)
        # Who is paying back when it is looked at is throttled for the rest of that period, on each CPU.
        self.assertTrue(-10 <= usage["throttled_ms"] - kernel["throttled_ms"] <= 100 * os.cpu_count() + 10, told)
        if idle > os.cpu_count() - 0.5 - 0.3 and not kerntest.SLOW:  # nobody else wanted much
            self.assertGreaterEqual(used, 0.475 * elapsed, told)
            self.assertGreaterEqual(kernel["throttled"], 0.9 * kernel["periods"] - 1, told)

    def test_the_box_reads_its_cap(self):
        out = self.shell("cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes",
                         options=["--memory", "256m"])
        self.assertEqual(out, "268435456\n")
        # The buffers of TCP, which version 1 counts apart.
        out = self.shell("cat /sys/fs/cgroup/memory/memory.kmem.tcp.limit_in_bytes 2>/dev/null || echo none", options=["--memory", "256m"])
        self.assertIn(out, ("268435456\n", "none\n"))

    def test_dev_shm_is_charged(self):
        result = self.rooted("sh", "-c", "exec dd if=/dev/zero of=/dev/shm/x bs=1M count=512 2>/dev/null",
                             options=["--memory", "256m"])
        self.assertEqual((result.code, result.fault), (137, "oom"), result)

    def test_an_interpreter_that_catches_it_goes_on(self):
        kerntest.need("python3")
        script = "import os, time\npids = []\ntry:\n  while True:\n    pid = os.fork()\n    if pid == 0: time.sleep(60)\n    " \
                 "pids.append(pid)\nexcept BlockingIOError: print(len(pids))"
        result = self.box("/usr/bin/python3", "-c", script, options=["--pids-limit", "30"])
        self.assertEqual((result.code, result.fault), (0, None), result)
        self.assertLess(int(result.out), 30)

    def cost(self, words):
        """The CPU time of a program and of all that it waited for, in seconds."""
        environment = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home, "XDG_CONFIG_HOME": kerntest.scratch() + "/none"}
        pid = os.posix_spawn(words[0], words, environment, file_actions=[(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0)])
        kerntest._pids.add(pid)
        _, status, usage = os.wait4(pid, 0)
        self.assertEqual(status, 0, words)
        return usage.ru_utime + usage.ru_stime

    @staticmethod
    def kept():
        return sorted(f"{place}/{name}" for place, _, names in os.walk("/run/kern") for name in names)

    def test_500_boxes(self):
        """Or as many as KERN_BOXES says. The last costs what the first did, beside what the kernel takes for namespaces at that
        moment: the pace of a machine, and who else uses it, are in both."""
        kerntest.need("unshare")
        slow = kerntest.SLOW or "KERN_VARIANT" in os.environ
        count = int(os.environ.get("KERN_BOXES") or (20 if kerntest.SLOW else 100 if slow else 500))
        box = [kerntest.KERN, "box", "-q", "-m", "64m", "--pids-limit", "20", "--", "true"]
        like = [shutil.which("unshare"), "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "true"]
        part = min(100, count // 2)
        self.cost(box)
        kept = self.kept()
        for attempt in range(2):
            boxes, others = [], []
            for number in range(count):
                boxes.append(self.cost(box))
                if number < part or number >= count - part:
                    others.append(self.cost(like))
            self.assertEqual(kerntest.group_leaks(), [])
            self.assertEqual(self.kept(), kept)
            if count < 100:  # too few to compare
                return
            median = statistics.median
            growth = median(boxes[-part:]) / median(boxes[:part]) / (median(others[-part:]) / median(others[:part]))
            if growth < 1.1:
                return
        self.fail(f"the last boxes took {growth:.3f} times the CPU time of the first")


@as_user
class MayNotBind(Limits):
    """Without root a cap binds or kern says in one line that it does not."""

    def setUp(self):
        if self.limits_bind():
            kerntest.skip("the caps of an unprivileged user bind here")

    def test_it_is_said_once(self):
        result = self.rooted("true", started=True)
        lines = [line for line in result.err.splitlines() if "not enforced" in line]
        self.assertEqual(len(lines), 1)
        self.assertTrue(lines[0].startswith("kern: warning: "))
        self.assertEqual(result.started[1], 2)
        self.assertFalse(result.report["limits"]["memory"]["enforced"])

    def test_require_limits_refuses(self):
        self.refused("--require-limits", parts=["memory"])
        self.refused(env={"KERN_REQUIRE_LIMITS": "1"}, parts=["memory"])

    def test_allow_uncapped_is_silent(self):
        self.assertEqual(self.rooted("true", options=["--allow-uncapped"]).err, "")
        self.assertEqual(self.rooted("true", env={"KERN_ALLOW_UNCAPPED": "1"}).err, "")

    def test_unknown_figures_are_null(self):
        self.assertIsNone(self.rooted("true").report["usage"]["peak_memory_bytes"])


@as_root_and_user
class Nice(Limits):
    def test_nice(self):
        self.assertEqual(self.output("probe", "nice", options=["--nice", "7"], rooted=True), "7\n")


@as_root_and_user
class Vcpu(Limits):
    def test_heavy_without_a_kern_toml(self):
        result = self.rooted("probe", "nice", options=["vcpu:heavy"])
        self.assertEqual((result.code, result.out), (0, "5\n"), result)
        self.assertEqual(result.report["limits"]["memory"]["asked"], 1 << 30)

    def test_a_token_stands_anywhere(self):
        for words in (["vcpu:tiny", "a1", "-q"], ["a2", "-q", "vcpu:tiny"], ["-q", "vcpu:tiny", "a3"]):
            with self.subTest(words):
                result = self.kern("box", *words, "--", "true")
                self.assertEqual((result.code, result.report["limits"]["memory"]["asked"]), (0, 64 << 20), result)

    def test_a_flag_beats_a_profile_beats_box_beats_the_default(self):
        env = self.own_config('[box]\nmemory = "96m"\nnice = 6\n\n[[vcpu]]\nname = "mine"\nmemory = "80m"\n')
        self.assertEqual(self.limits()["memory"]["asked"], 512 << 20)
        self.assertEqual(self.limits(env=env)["memory"]["asked"], 96 << 20)
        self.assertEqual(self.limits("vcpu:mine", env=env)["memory"]["asked"], 80 << 20)
        self.assertEqual(self.limits("vcpu:mine", "-m", "72m", env=env)["memory"]["asked"], 72 << 20)
        self.assertEqual(self.limits("-m", "72m", "vcpu:mine", env=env)["memory"]["asked"], 72 << 20)
        self.assertEqual(self.output("probe", "nice", options=["vcpu:mine"], rooted=True, env=env), "6\n")

    def test_keys(self):
        env = self.own_config('[[vcpu]]\nname = "all"\ncpus = 0.5\nmemory = "64m"\ncpuset = "0"\nnice = 8\n')
        result = self.rooted("sh", "-c", "probe nice; probe cpus", options=["vcpu:all"], env=env)
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.out.split()[0], "8")
        self.assertEqual(result.out.split()[-2:], ["affinity", "0"])

    def test_extends(self):
        env = self.own_config('[[vcpu]]\nname = "base"\nmemory = "64m"\nnice = 8\n'
                              '[[vcpu]]\nname = "more"\nextends = "base"\nnice = 9\n')
        result = self.rooted("probe", "nice", options=["vcpu:more"], env=env)
        self.assertEqual((result.out, result.report["limits"]["memory"]["asked"]), ("9\n", 64 << 20), result)

    def test_numa(self):
        if not os.path.isdir("/sys/devices/system/node/node0"):
            kerntest.skip("no NUMA nodes on this machine")
        env = self.own_config('[[vcpu]]\nname = "node"\nnuma = 0\n')
        self.assertEqual(self.rooted("true", options=["vcpu:node"], env=env).code, 0)

    def test_unknown_profile(self):
        env = self.own_config('[[vcpu]]\nname = "mine"\n')
        result = self.refused("vcpu:nosuch", env=env, parts=["nosuch"])
        for part in ("kern.toml", "mine", "hint: "):
            self.assertIn(part, result.err)

    def test_unknown_kind(self):
        result = self.refused("nosuch:x", parts=["nosuch"], hint="vcpu")
        self.assertIn("greeting", result.err)


@as_root
class Fleet(Limits):
    """Caps on all boxes of a user together."""

    def setUp(self):
        self.need_limits()

    def group(self, name, file):
        found = kerntest.glob.glob(f"/sys/fs/cgroup/**/kern.fleet/{file}", recursive=True)
        self.assertEqual(len(found), 1, (name, found))
        with open(found[0], encoding="ascii") as text:
            return text.read().strip()

    def test_memory_and_pids_are_capped_together(self):
        env = {"KERN_FLEET_MEMORY_MAX": "96m", "KERN_FLEET_PIDS_MAX": "40"}
        first = self.start("box", "--rootfs", self.root, "--", "sh", "-c", "echo ready; sleep 60", env=env)
        self.assertEqual(first.line(), "ready\n")
        self.assertEqual(self.group("pids", "pids.max"), "40")
        result = self.rooted("probe", "forks", "100", options=["--pids-limit", "90"], env=env)
        _, made, failed = result.out.split()
        self.assertEqual(failed, "11", result)
        self.assertLess(int(made), 40)
        fleet = result.report["limits"]["fleet-memory"]
        self.assertEqual((fleet["asked"], fleet["enforced"]), (96 << 20, True))
        result = self.rooted("probe", "eat", "200", options=["-m", "400m"], env=env)
        self.assertEqual((result.code, result.fault, result.report["fault"]["limit_bytes"]), (137, "oom", 96 << 20), result)
        self.assertIn("all boxes together", result.report["fault"]["message"])
        self.assertIsNone(first.process.poll())
        alone = self.rooted("probe", "eat", "200", options=["-m", "48m"], env=env)
        self.assertEqual((alone.fault, alone.report["fault"]["limit_bytes"]), ("oom", 48 << 20), alone)
        first.signal(15)
        first.wait()

    def test_the_last_box_takes_the_group_away(self):
        env = {"KERN_FLEET_PIDS_MAX": "100"}
        boxes = [self.start("box", "-q", "--", "sleep", "0.2", env=env) for _ in range(6)]
        for box in boxes:
            self.assertEqual(box.wait().code, 0)
        left = lambda: kerntest.glob.glob("/sys/fs/cgroup/**/kern.fleet", recursive=True)
        self.assertTrue(kerntest.eventually(lambda: not left()), left())

    def test_what_a_killed_kern_leaves_is_swept(self):
        env = {"KERN_FLEET_PIDS_MAX": "100"}
        box = self.start("box", "-q", "--", "sh", "-c", "echo ready; sleep 60", env=env)
        self.assertEqual(box.line(), "ready\n")
        box.signal(9)
        box.wait()
        def swept():
            self.kern("box", "-q", "--", "sleep", "0.3")
            return kerntest.glob.glob("/sys/fs/cgroup/**/kern.fleet", recursive=True) == []
        self.assertTrue(kerntest.eventually(swept))

    def test_kern_toml(self):
        env = self.own_config('[box]\n' 'fleet-memory-max = "96m"\n' 'fleet-pids-max = 50\n' 'max-concurrent = 1\n')
        limits = self.limits(env=env)
        self.assertEqual((limits["fleet-memory"]["asked"], limits["fleet-pids"]["asked"]), (96 << 20, 50))
        first = self.start("box", "-q", "--", "sh", "-c", "echo ready; sleep 60", env=env)
        self.assertEqual(first.line(), "ready\n")
        self.refused(env=env, parts=["1 are running"])
        first.signal(15)
        first.wait()

    def test_bad_values(self):
        for name, value in (("KERN_FLEET_MEMORY_MAX", "x"), ("KERN_FLEET_PIDS_MAX", "1"), ("KERN_MAX_CONCURRENT", "0")):
            self.refused(env={name: value}, parts=[name])


@as_root_and_user
class Concurrent(Limits):
    def test_no_more_than_that(self):
        env = {"KERN_MAX_CONCURRENT": "2"}
        boxes = [self.start("box", "-q", "--", "sh", "-c", "echo ready; sleep 60", env=env) for _ in range(2)]
        for box in boxes:
            self.assertEqual(box.line(), "ready\n")
        self.refused(env=env, parts=["2 are running", "KERN_MAX_CONCURRENT"], hint="kern ps")
        self.assertEqual(self.kern("run", "--", "true", env=env, report=False).code, 1)
        self.assertEqual(self.box("true", options=["-q"], env={"KERN_MAX_CONCURRENT": "3"}).code, 0)
        boxes[0].signal(9)  # a killed kern gives its place back
        boxes[0].wait()
        self.assertTrue(kerntest.eventually(lambda: self.box("true", options=["-q"], env=env).code == 0))
        boxes[1].signal(15)
        boxes[1].wait()

    def test_many_at_once(self):
        env = {"KERN_MAX_CONCURRENT": "3"}
        boxes = [self.start("box", "-q", "--", "sh", "-c", "read x; exit 0", env=env, stdin=-1) for _ in range(8)]
        kerntest.eventually(lambda: sum(box.process.poll() is not None for box in boxes) >= 5)  # before the others may end
        self.assertEqual(sorted(box.wait("").code for box in boxes), [0] * 3 + [1] * 5)


if __name__ == "__main__":
    kerntest.main()

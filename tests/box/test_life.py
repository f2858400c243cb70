"""The life of boxes: detached ones, ps, stop, kill, wait, rm, and what is known of them afterwards."""

import json
import os
import random
import signal
import socket
import statistics
import subprocess
import time

import kerntest
from kerntest import as_root_and_user
from lifekit import STARTED, LifeCase

@as_root_and_user
class Detached(LifeCase):
    def test_it_lives_on_and_is_seen(self):
        name = self.detach("sleep", "60", options=["-l", "team=blue", "-l", "odd=a\nb \\ \"c\"", "--memory", "64m"])
        row = self.row(name)
        self.assertEqual(row["pid"], self.supervisor)
        self.assertEqual((row["status"], row["command"], row["rootfs"]), ("running", "sleep 60", self.root))
        self.assertEqual(row["labels"], {"team": "blue", "odd": "a\nb \\ \"c\""})
        self.assertEqual((row["ports"], row["pod"], row["health"]), ([], None, None))
        self.assertLess(abs(row["started"] - time.time()), 10)
        self.assertEqual(os.getsid(self.supervisor), self.supervisor)
        self.assertIn(name, self.succeed("ps"))

    def test_a_box_that_changed_very_often(self):
        """Each change of a box is a line of its record, of which no more than 256 KiB are looked at."""
        name = self.detach("sleep", "60", options=["-l", "team=blue"])
        places = [os.path.join(folder, "boxes", name) for folder in self.me.run_directories()]
        with open(next(place for place in places if os.path.exists(place)), "a", encoding="ascii") as file:
            file.write("health healthy\nhealth unhealthy\n" * 10000 + "health healthy\nstatus paused\n")
        row = self.row(name)
        self.assertEqual((row["status"], row["health"], row["pid"], row["labels"]),
                         ("paused", "healthy", self.supervisor, {"team": "blue"}))

    def test_ps_filters(self):
        name = self.detach("sleep", "60", options=["-l", "team=blue"])
        for wanted in (f"name={name}", "label=team", "label=team=blue", "team=blue", "status=running"):
            self.assertEqual([row["name"] for row in self.ps("--filter", wanted, "--filter", f"name={name}")], [name])
        for other in ("name=other", "label=team=red", "label=tea", "status=paused", "health=healthy"):
            self.assertIsNone(self.row(name, "--filter", other), other)
        self.assertEqual(self.succeed("ps", "-q", "--filter", f"name={name}"), name + "\n")
        for wrong in ("team", "=blue", ""):
            self.assert_failed(self.kern("ps", "--filter", wrong, report=False), 1, "--filter", f'"{wrong}"', hint="name=, status=")

    def test_a_format(self):
        name = self.detach("sleep", "60", options=["-l", "odd=a\"b"])
        mine = ("--filter", f"name={name}", "--format")
        self.assertEqual(self.succeed("ps", *mine, r"{{.Name}}\t{{ .status }} {{.ExitCode}}{{.health}}{{.labels}}x"),
                         name + '\trunning {"odd": "a\\"b"}x\n')
        self.assertEqual(json.loads(self.succeed("ps", *mine, "{{json .}}")), self.row(name))
        self.assertEqual(self.succeed("stats", name, "--format", "{{.name}} {{.pid}}"), f"{name} {self.supervisor}\n")
        for verb in (("ps",), ("stats", name)):
            done = self.kern(*verb, "--format", "{{.nonsense}}", report=False)
            self.assert_failed(done, 1, 'no field "nonsense"', hint="the fields are: name, pid, ")
        self.assert_failed(self.kern("ps", "--format", "{{.name", report=False), 1, "not a template", hint="{{.name}}")

    def test_a_script_of_many_lines(self):
        name = self.detach("sh", "-c", "sleep 60\necho two")
        mine = ("--filter", f"name={name}")
        self.assertTrue(self.succeed("ps", *mine).endswith("  sh -c sleep 60 ...\n"))
        self.assertTrue(self.succeed("ps", *mine, "--no-trunc").endswith("  sh -c sleep 60\\x0aecho two\n"))
        self.assertEqual(self.row(name)["command"], "sh -c sleep 60\necho two")

    def test_a_name_is_taken_once(self):
        name = self.detach("sleep", "60")
        done = self.kern("box", name, "-d", "--rootfs", self.root, "--", "true", report=False)
        self.assert_failed(done, 1, f'"{name}"', "is running", hint="another name")
        one_wins = [self.start("box", name + "-x", "-d", "--rootfs", self.root, "--", "sleep", "60", report=False)
                    for _ in range(4)]
        self.addCleanup(self.forget, name + "-x")
        results = [running.wait() for running in one_wins]
        kerntest._pids.update(int(found.group(2)) for done in results if (found := STARTED.match(done.out)))
        self.assertEqual(sorted(done.code for done in results), [0, 1, 1, 1], results)

    def test_a_start_that_fails_says_why(self):
        name = self.name()
        done = self.kern("box", name, "-d", "--rootfs", self.root, "--", "no-such-program", report=False)
        self.assertEqual((done.code, done.out), (127, ""), done)
        self.assertIn("kern: cannot start 'no-such-program' in box: not found\n", done.err)
        done = self.kern("box", name, "-d", "--rootfs", "/nowhere", "--", "true", report=False)
        self.assertEqual((done.code, done.out), (1, ""), done)
        done = self.kern("box", name, "-d", "--rootfs", self.root, "-w", "/etc/passwd/x", "--", "true", report=False)
        self.assertEqual((done.code, done.out), (125, ""), done)
        self.assertIsNone(self.row(name, "-a"))

    def test_the_caller_can_go(self):
        """Nothing of the caller's is held: its pipes end although the box lives."""
        name = self.detach("sh", "-c", "cat; echo over; sleep 60", stdin=subprocess.PIPE)
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "over\n"))

    def test_options_are_checked(self):
        self.refused("--stop-signal=nonsense", parts=['--stop-signal: "nonsense" is not a signal'])
        self.refused("-l", "nonsense", parts=['cannot use --label "nonsense"'])
        self.refused("--log-max=1k", parts=["--log-max"])

    def test_a_foreground_box_is_seen_and_stopped(self):
        name = self.name()
        running = self.start("box", name, "--rootfs", self.root, "--", "sh", "-c", "echo ready; exec sleep 60")
        self.assertEqual(running.line(), "ready\n")
        self.assertTrue(kerntest.eventually(lambda: (self.row(name) or {}).get("status") == "running"))
        self.assertEqual(self.succeed("stop", name), f"stopped '{name}' (pid {running.pid})\n")
        self.assertEqual(running.wait().code, 143)
        self.assertIsNone(self.row(name, "-a"))


@as_root_and_user
class Ends(LifeCase):
    def up(self, name):
        """Its shell has set its traps; one that has none yet is ended at once."""
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "up\n"))

    def test_stop_wait_and_the_row_that_stays(self):
        name = self.detach("sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done", options=["-l", "a=b"])
        self.up(name)
        self.assertEqual(self.succeed("stop", name), f"stopped '{name}' (pid {self.supervisor})\n")
        self.assertIsNone(self.row(name))
        row = self.row(name, "-a")
        self.assertEqual((row["exit_code"], row["health"], row["pid"], row["labels"]),
                         (5, "exited", self.supervisor, {"a": "b"}))
        self.assertLess(row["exited_ago"], 10)
        self.assertEqual(self.succeed("wait", name), "5\n")
        self.assertEqual(self.succeed("rm", name), f"removed '{name}'\n")
        self.assertIsNone(self.row(name, "-a"))

    def test_the_stop_signal_and_its_grace(self):
        script = "trap 'echo usr1' USR1; trap '' TERM; echo up; while :; do sleep 0.05; done"
        name = self.detach("sh", "-c", script, options=["--stop-signal", "SIGUSR1", "--stop-timeout", "0.3"])
        self.up(name)
        before = time.monotonic()
        self.succeed("stop", name)
        self.assertGreater(time.monotonic() - before, 0.25)
        self.assertEqual(self.succeed("wait", name), f"{128 + signal.SIGUSR1}\n")
        self.assertEqual(self.kern("logs", name).out, "up\nusr1\n")

    def test_a_grace_that_cannot_end_is_not_sat_out(self):
        name = self.detach("sleep", "60", options=["--stop-timeout", "600"])
        self.succeed("stop", name)
        self.assertEqual(self.succeed("wait", name), "143\n")

    def test_stop_with_a_grace_of_its_own(self):
        name = self.detach("sh", "-c", "trap '' TERM; while :; do sleep 0.05; done")
        self.succeed("stop", "-t", "0.2", name)
        self.assertEqual(self.succeed("wait", name), "143\n")

    def test_kill_and_signals(self):
        name = self.detach("sh", "-c", "trap 'echo hup' HUP; echo up; while :; do sleep 0.05; done")
        self.up(name)
        self.succeed("kill", "--signal", "HUP", name)
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "up\nhup\n"))
        self.assertEqual(self.succeed("kill", name), f"killed '{name}'\n")
        self.assertEqual(self.succeed("wait", name), "137\n")

    def test_wait_waits(self):
        name = self.detach("sh", "-c", "sleep 0.5; exit 9")
        self.assertEqual(self.succeed("wait", name), "9\n")

    def test_a_timeout_ends_a_detached_box(self):
        name = self.detach("sleep", "60", options=["--timeout", "0.3"])
        self.assertEqual(self.succeed("wait", name), "143\n")

    def test_what_is_not_there(self):
        for verb in ("stop", "kill", "inspect", "pause", "unpause"):
            self.assert_failed(self.kern(verb, "nobody"), 1, "no running box named 'nobody'", hint="kern ps")
        for verb in ("wait", "logs"):
            self.assert_failed(self.kern(verb, "nobody"), 1, "no box named 'nobody' runs", hint="kern ps -a")
        self.assert_failed(self.kern("rm", "nobody"), 1, "no box named 'nobody' to remove", hint="kern ps -a")
        for verb in ("stop", "kill", "wait", "rm", "inspect", "exec"):
            self.assertEqual(self.kern(verb, report=False).code, 1)
        for name in ("../boxes/x", ".", "", "a/b"):
            self.assertEqual(self.kern("stop", name).code, 1)

    def test_stop_all(self):
        names = [self.detach("sleep", "60") for _ in range(3)]
        out = self.succeed("stop", "--all")
        for name in names:
            self.assertIn(f"stopped '{name}'", out)

    def test_one_that_is_not_built_yet(self):
        """Its image does not come, and it has no socket to be asked at."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            name = self.name()
            start = self.start("box", name, "-d", "--image", f"localhost:{server.getsockname()[1]}/none", report=False)
            self.assertTrue(kerntest.eventually(lambda: (self.row(name) or {"status": ""})["status"] == "starting"))
            self.assertEqual(self.succeed("kill", name), f"killed '{name}'\n")
            self.assertEqual(start.wait().code, 137)
            self.assertIsNone(self.row(name))

    def test_a_killed_supervisor(self):
        """The box is dead, ps and stop tell the truth, and what is known afterwards is 137."""
        name = self.detach("sleep", "4242", options=["-l", "a=b"])
        os.kill(self.supervisor, signal.SIGKILL)
        self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", "4242")))
        self.assertTrue(kerntest.eventually(lambda: self.row(name) is None))
        self.assertEqual(self.kern("stop", name).code, 1)
        self.assertEqual(self.succeed("wait", name), "137\n")
        row = self.row(name, "-a")
        self.assertEqual((row["exit_code"], row["labels"]), (137, {"a": "b"}))

    def test_recover_lists_and_removes(self):
        name = self.detach("sh", "-c", "dd if=/dev/zero of=/tmp/big bs=1M count=3; exec sleep 60", options=["--scratch", "disk"])
        self.assertTrue(kerntest.eventually(lambda: "records out" in self.kern("logs", name).err))
        living = self.detach("sleep", "60")
        self.assertEqual(self.succeed("recover", "--dry-run"), "would clear up after 0 killed boxes, 0.0M of disk\n")
        pid = next(row["pid"] for row in self.ps() if row["name"] == name)
        os.kill(pid, signal.SIGKILL)
        self.assertTrue(kerntest.eventually(lambda: not os.path.exists(f"/proc/{pid}")))
        state = next(path for path in (f"{run}/boxes/{name}" for run in self.me.run_directories()) if os.path.exists(path))
        with open(state, "a", encoding="utf-8") as file:
            file.write("device owner 0 0 0 /sys/kernel/uevent_seqnum\ndevice owner 7 0 0 /sys/kernel/uevent_seqnum\ndevice pwm 77 3\n")
        self.assertTrue(kerntest.eventually(lambda: f"box '{name}'" in self.succeed("recover", "--dry-run")))
        for words, last in ((("--dry-run",), "would clear up after 1 killed box, "), ((), "cleared up after 1 killed box, ")):
            out = self.succeed("recover", *words)
            self.assertIn(f"box '{name}' (pid {pid})\n", out)
            self.assertRegex(out, rf"  scratch {name}\.{pid}, [0-9.]+M\n")
            self.assertIn("  device /sys/kernel/uevent_seqnum\n  device pwm 77 3\n", out)
            self.assertEqual(out.count("uevent_seqnum"), 1)
            self.assertIn(last, out)
        self.assertEqual(self.succeed("recover"), "cleared up after 0 killed boxes, 0.0M of disk\n")
        self.assertIsNotNone(self.row(living))
        self.assertEqual(self.succeed("wait", name), "137\n")

    def test_prune(self):
        name = self.detach("true")
        self.succeed("wait", name)
        self.assertIn(f"removed '{name}'", self.succeed("prune"))
        self.assertIsNone(self.row(name, "-a"))

    def test_rows_of_yesterday_are_gone(self):
        name = self.detach("true")
        self.succeed("wait", name)
        rows = [path for run in self.me.run_directories() if os.path.exists(path := os.path.join(run, "exited", name))]
        self.assertEqual(len(rows), 1)
        os.utime(rows[0], (time.time() - 90000, time.time() - 90000))
        self.assertIsNone(self.row(name, "-a"))
        self.assertFalse(os.path.exists(rows[0]))
        self.assertFalse(os.path.exists(rows[0].replace("/exited/", "/logs/")))


@as_root_and_user
class Forged(LifeCase):
    def test_a_forged_record_is_not_believed(self):
        name = self.detach("sleep", "60")
        run = next(run for run in self.me.run_directories() if os.path.exists(os.path.join(run, "boxes", name)))
        forged = [os.path.join(run, "boxes", f"forged-{i}-{os.getpid()}") for i in range(3)]
        with open(forged[0], "w", encoding="utf-8") as file:  # nobody holds it
            file.write(f"pid {os.getpid()}\nstatus running\n")
        os.symlink(os.path.join(run, "boxes", name), forged[1])
        os.mkfifo(forged[2])
        names = [row["name"] for row in self.ps()]
        self.assertIn(name, names)
        self.assertEqual([path for path in forged if os.path.basename(path) in names], [])
        for path in forged:
            self.assertEqual(self.kern("exec", os.path.basename(path), "--", "true").code, 1)
        for path in forged:
            if os.path.lexists(path):
                os.unlink(path)


@as_root_and_user
class Looks(LifeCase):
    def test_inspect_and_stats(self):
        name = self.detach("sleep", "60", options=["-e", "SECRET=hidden"])
        done = self.succeed("inspect", name, "--json")
        box = json.loads(done)
        wanted = {"name", "pid", "pid1", "rootfs", "command", "started", "uptime", "ports", "health", "mem_bytes", "cpu_usec",
                  "tasks", "pod", "egress", "landlock_rw", "memory_max", "pids_max"}
        self.assertEqual(wanted - set(box), set())
        self.assertEqual((box["name"], box["pid"]), (name, self.supervisor))
        with open(f"/proc/{box['pid1']}/cmdline", "rb") as file:
            self.assertEqual(file.read(), b"sleep\x0060\x00")
        self.assertNotIn("hidden", done)
        self.assertIn(f'"{name}"', self.succeed("inspect", name))
        row = json.loads(self.succeed("stats", "--json", name))[0]
        self.assertEqual((row["name"], row["pid"]), (name, self.supervisor))
        memory = box["limits"]["memory"]
        self.assertEqual((memory["asked"], memory["enforced"]), (512 << 20, self.limits_bind()))
        self.assertIn(memory["by"], ("cgroup1", "cgroup2", "scope") if self.limits_bind() else ("none",))
        if self.limits_bind():
            self.assertEqual((box["tasks"], row["tasks"]), (1, 1))
            self.assertGreater(box["mem_bytes"], 0)
            self.assertEqual((box["memory_max"], box["pids_max"]), (512 << 20, 512))
        table = self.succeed("stats", "--no-stream")
        self.assertIn(name, table)
        self.assertNotIn(" -1 ", table)

    def test_time_on_the_cpu_is_known_wherever_a_group_binds(self):
        name = self.detach("sh", "-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; echo done; exec sleep 60")
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "done\n"))
        used = json.loads(self.succeed("stats", "--json", name))[0]["cpu_usec"]
        self.assertTrue(used > 10000 if self.limits_bind() else used is None, used)

    def test_pause(self):
        name = self.detach("sh", "-c", "trap 'exit 5' TERM; echo up; while :; do sleep 0.05; done", options=["--stop-timeout", "600"])
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out == "up\n"))
        done = self.kern("pause", name)
        if done.code != 0:
            self.assert_failed(done, 1, "no control group of version 2", hint="--signal STOP")
            self.assertEqual(self.row(name)["status"], "running")
            self.assertEqual(self.kern("exec", name, "--", "true").code, 0)
            return
        self.assertEqual(self.row(name)["status"], "paused")
        self.assert_failed(self.kern("exec", name, "--", "true"), 1, "is paused", hint="kern unpause")
        self.assert_failed(self.kern("cp", f"{name}:/etc/passwd", "/dev/null", report=False), 1, "is paused")
        self.succeed("unpause", name)
        self.assertEqual(self.kern("exec", name, "--", "true").code, 0)
        self.succeed("pause", name)
        self.succeed("stop", name)
        self.assertEqual(self.succeed("wait", name), "5\n")


@as_root_and_user
class Secrets(LifeCase):
    def test_where_they_are(self):
        secret = self.file("hush", name="key", mode=0o600)
        out = self.shell("cat /run/secrets/key /run/secrets/other /run/secrets/typed; ls -ln /run/secrets; "
                         "tr '\\0' ' ' </proc/1/cmdline; env; grep secrets /proc/self/mounts",
                         options=["--secret", secret, "--secret", f"{secret}:other", "--secret", "typed=-"], text="loud")
        self.assertTrue(out.startswith("hushhushloud"), out)
        self.assertEqual(out.count("-r--------"), 3, out)
        self.assertEqual(out.count("hush"), 2)
        self.assertIn("tmpfs", out)

    def test_they_are_the_users(self):
        """By any way to other ids the command can read them, and nobody else in the box but its root."""
        secret = self.file("hush", name="key", mode=0o600)
        script = "cat /run/secrets/key; stat -c ' %a %u:%g %h' /run/secrets/key; chmod 444 /run/secrets/key"
        ways = [("-u", "0"), ("--userns", "keep"), ("--userns", "keep", "-u", f"{self.me.uid}:{self.me.gid}")]
        if self.me.is_root:
            ways += [("-u", "7:9"), ("-u", "7:9", "--userns", "host")]
        else:
            ways += [("-u", "7:9", "--uid-range")]
        for options in ways:
            with self.subTest(options):
                done = self.rooted("sh", "-c", script, options=["--secret", secret, *options])
                ids = "7:9" if "7:9" in options else f"{self.me.uid}:{self.me.gid}" if "keep" in options else "0:0"
                self.assertEqual(done.out, f"hush 400 {ids} 1\n", done)
                self.assertIn("Read-only file system", done.err)

    def test_exec_of_a_user(self):
        secret = self.file("hush", name="key", mode=0o600)
        name = self.detach("sleep", "60", options=["--secret", secret, "-u", "7:9", *(() if self.me.is_root else ("--uid-range",))])
        self.assertEqual(self.kern("exec", name, "--", "cat", "/run/secrets/key").out, "hush")
        self.assertNotEqual(self.kern("exec", name, "--", "sh", "-c", "chmod 600 /run/secrets/key").code, 0)

    def test_they_are_nowhere_else(self):
        secret = self.file("hush-hush", name="key", mode=0o600)
        name = self.detach("sleep", "60", options=["--secret", secret])
        self.assertNotIn("hush-hush", self.succeed("inspect", name, "--json") + self.succeed("ps", "--json"))
        self.assertEqual(self.kern("exec", name, "--", "cat", "/run/secrets/key").out, "hush-hush")
        self.assertNotEqual(self.kern("exec", name, "--", "sh", "-c", "echo x >/run/secrets/key").code, 0)
        self.assertNotEqual(self.kern("exec", name, "--", "rm", "/run/secrets/key").code, 0)

    def test_those_that_are_none(self):
        secret = self.file("hush", name="key", mode=0o644)
        self.refused("--secret", secret, parts=["everybody may read", "644"], hint="chmod o=")
        self.refused("--secret", "/none", parts=['"/none"'])
        self.refused("--secret", self.folder(mode=0o700) + ":x", parts=["not a regular file"])
        for word in ("", ":x", "=-", "../x=-", f"{secret}:a/b", f"{secret}:.x"):
            self.refused("--secret", word, parts=["cannot use --secret"])
        self.refused("--secret", "a=-", "--secret", "b=-", parts=['--secret "b=-"', "standard input already"])


@as_root_and_user
class Volumes(LifeCase):
    def setUp(self):
        self.env = {"XDG_DATA_HOME": self.folder()}

    def volume(self, *words):
        return self.kern("volume", *words, env=self.env)

    def test_their_life(self):
        self.assertEqual(self.volume("ls").out, "")
        self.assertEqual(self.volume("create", "data", "more").out, "data\nmore\n")
        self.assert_failed(self.volume("create", "data"), 1, "'data' is there already")
        name = self.detach("sh", "-c", "echo 1 >/v/x; exec sleep 60", options=["-v", "data:/v"], env=self.env)
        self.assertEqual(self.volume("ls").out, f"data  used by {name}\nmore\n")
        self.assert_failed(self.volume("rm", "data"), 1, f"'data' is used by box '{name}'", hint=f"kern stop {name}")
        found = json.loads(self.volume("inspect", "data").out)
        self.assertEqual((found["name"], found["used_by"]), ("data", name))
        self.assertTrue(os.path.isdir(found["path"]))
        self.succeed("stop", name)
        self.assertEqual(self.rooted("cat", "/v/x", options=["-v", "data:/v"], env=self.env).out, "1\n")
        self.assertEqual(self.volume("rm", "data").out, "removed volume 'data'\n")
        self.assertFalse(os.path.exists(found["path"]))
        self.assert_failed(self.volume("prune"), 1, "every volume", hint="--force")
        self.assertEqual(self.volume("prune", "--force").out, "removed volume 'more'\n")
        self.assertEqual(json.loads(self.volume("ls", "--json").out), [])

    def test_a_top_folder_that_was_given_away(self):
        """As the entry point of a database does at its first start: the ids of a volume stay what they were."""
        def run(script, *options):
            if not self.me.is_root:
                options += ("--uid-range",)
            done = self.rooted("sh", "-ec", script, options=["-v", "given:/d", *options], env=self.env)
            self.assertEqual(done.code, 0, done)
            return done.out
        run("touch /d/a; chown 7:8 /d; touch /d/b")
        self.assertEqual(run("touch /d/c; stat -c '%n %u:%g' /d /d/a /d/b /d/c"),
                         "/d 7:8\n/d/a 0:0\n/d/b 0:0\n/d/c 0:0\n")
        if self.me.is_root:
            self.assertEqual(run("cp /bin/busybox /d/x; chmod u+s /d/x || echo no; rm /d/x"), "no\n")
        run("touch /d/e; stat -c %u /d/e", "--user", "7:8")
        self.assertEqual(run("stat -c %u:%g /d/e"), "7:8\n")
        run("rm -r /d/a /d/b /d/c /d/e; chown 0:0 /d")

    def test_odd_words(self):
        for words in ((), ("create",), ("rm",), ("inspect",), ("ls", "x"), ("nonsense",)):
            self.assert_failed(self.volume(*words), 1, "kern volume takes", hint="--help")
        for name in ("../x", ".x", "a/b", ""):
            self.assertEqual(self.volume("create", name).code, 1)
            self.assertEqual(self.volume("rm", name).code, 1)


@as_root_and_user
class Again(LifeCase):
    def test_always_until_it_is_stopped(self):
        name = self.detach("sh", "-c", "echo run; exit 3", options=["--restart=always", "--stop-timeout", "600"])
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out.count("run") >= 3))
        self.assertEqual(self.row(name)["pid"], self.supervisor)
        self.assertTrue(kerntest.eventually(lambda: self.row(name)["status"] == "restarting"))
        self.assertTrue(kerntest.eventually(lambda: "is between two runs" in self.kern("exec", name, "--", "true").err))
        os.kill(self.supervisor, signal.SIGUSR1)  # means what the command says, and there is none
        runs = self.kern("logs", name).out.count("run")
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out.count("run") > runs))
        self.succeed("stop", name)
        runs = self.kern("logs", name).out.count("run")
        time.sleep(0.5)
        self.assertEqual(self.kern("logs", name).out.count("run"), runs)

    def test_on_failure_and_its_most(self):
        for policy in ("--restart=on-failure:2", "--restart"):
            name = self.detach("sh", "-c", "echo run; exit 3", options=[policy, "--restart-max", "2", "--net=host"])
            self.assertEqual(self.succeed("wait", name), "3\n")
            logs = self.kern("logs", name)
            self.assertEqual(logs.out, "run\n" * 3)
            self.assertNotRegex(logs.err, "--net host|not enforced")  # it was said at the start
        name = self.detach("sh", "-c", "echo run", options=["--restart", "--health-timeout", "1", "--health-start-period=1"])
        self.assertEqual(self.succeed("wait", name), "0\n")
        self.assertEqual(self.kern("logs", name).out, "run\n")

    def test_it_runs_as_it_did(self):
        """What was read at the first start counts, whatever became of the files."""
        env, secret = self.file("A=file\n"), self.file("hush\n", name="key", mode=0o600)
        name = self.detach("sh", "-c", "echo $A; cat /run/secrets/key; id -u; grep SigBlk /proc/self/status; sleep 0.4; exit 1",
                           options=["--restart=on-failure:1", "--env-file", env, "--secret", secret])
        os.unlink(env)
        os.unlink(secret)
        self.assertEqual(self.succeed("wait", name), "1\n")
        self.assertEqual(self.kern("logs", name).out, "file\nhush\n0\nSigBlk:\t0000000000000000\n" * 2)

    def test_a_start_that_fails_is_not_tried_again(self):
        done = self.kern("box", self.name(), "-d", "--restart=always", "--rootfs", self.root, "--", "none", report=False)
        self.assertEqual((done.code, done.out), (127, ""), done)

    def test_many_runs_keep_nothing(self):
        name = self.detach("sh", "-c", "sleep 0.05; exit 1", options=["--restart=on-failure:4"])

        def state():
            with open(f"/proc/{self.supervisor}/maps", encoding="utf-8") as file:
                return len(os.listdir(f"/proc/{self.supervisor}/fd")), len(file.readlines())
        seen = []
        while (row := self.row(name)) is not None:
            try:
                seen.append(state() if row["status"] == "restarting" else None)
            except OSError:
                break
            time.sleep(0.03)
        rests = [one[0] for one in seen if one is not None]
        if not rests:
            self.skipTest("this machine is too slow to see a box between two runs")
        self.assertLessEqual(statistics.median(rests[len(rests) // 2:]), rests[0] + 1, rests)

    def test_health(self):
        name = self.detach("sh", "-c", "touch /tmp/up; exec sleep 60", options=[
            "--health-cmd", "test -e /tmp/up", "--health-interval", "0.1", "--health-retries", "2"])
        self.assertTrue(kerntest.eventually(lambda: self.row(name)["health"] == "healthy"))
        self.assertEqual(self.row(name, "--filter", "health=healthy")["name"], name)
        self.kern("exec", name, "--", "rm", "/tmp/up")
        self.assertTrue(kerntest.eventually(lambda: self.row(name)["health"] == "unhealthy"))
        self.assertEqual(self.row(name)["status"], "running")

    def test_an_unhealthy_box_is_started_again_or_stopped(self):
        name = self.detach("sh", "-c", "echo run; exec sleep 60", options=[
            "--health-cmd", "exit 1", "--health-interval", "0.1", "--health-retries", "1", "--health-action", "restart"])
        self.assertTrue(kerntest.eventually(lambda: self.kern("logs", name).out.count("run") >= 2))
        self.succeed("stop", name)
        name = self.detach("sleep", "60", options=["--health-cmd", "sleep 30", "--health-interval", "0.1", "--health-timeout",
                                                   "0.1", "--health-retries", "2", "--health-action", "stop"])
        self.assertEqual(self.succeed("wait", name), "143\n")

    def test_words(self):
        self.refused("--restart", parts=["--restart is for detached boxes"], hint="-d")
        self.refused("--health-cmd", "x", parts=["--health-cmd is for detached boxes"], hint="-d")
        for word in ("", "on-failure:", "on-failure:x", "never"):
            self.refused(f"--restart={word}", parts=["--restart"])


@as_root_and_user
class Killed(LifeCase):
    def test_kill_9_at_any_moment(self):
        """Supervisors that are killed at random moments of their start, life and end: the box is dead, ps and stop tell the
        truth, and the next command leaves nothing of it."""
        rounds, marks = 60, []
        for i in range(rounds):
            name, mark = self.name("killed"), f"7{os.getpid()}.{i}"
            running = self.start("box", name, "-q", "--rootfs", self.root, "-l", "k=v", "--", "sleep", mark, report=False)
            time.sleep(random.random() * 0.03)
            if i % 3 == 0:
                running.signal(signal.SIGTERM)
                time.sleep(random.random() * 0.004)
            running.process.kill()
            running.wait()
            marks.append((name, mark))
            kerntest._pids.add(running.pid)
        for name, mark in marks:
            self.assertTrue(kerntest.eventually(lambda: not kerntest.running("sleep", mark)), name)
        def listed():
            names = [row["name"] for row in self.ps()]
            return [name for name, _ in marks if name in names]
        kerntest.eventually(lambda: not listed())
        self.assertEqual(listed(), [])
        self.assertEqual(self.kern("stop", marks[0][0]).code, 1)

        def left():
            self.kern("ps")
            return {key: found for key, found in kerntest.leaks(self.me.run_directories()).items() if key != "processes"}
        self.assertFalse(kerntest.eventually(lambda: not left()) is False, left())


if __name__ == "__main__":
    kerntest.main()

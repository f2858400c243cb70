"""kern.toml as a box sees it: who is believed, mistakes with file and line, --config, --plan, --show-config, `kern validate`, and
host names and networks, whose options are few."""

import os

import kerntest
from kerntest import BoxCase, as_root_and_user

MISTAKES = {
    "a typo in a key": ('[[vcpu]]\nname = "x"\nmemroy = "1g"\n', ("kern.toml:3", "memroy", "memory")),
    "a typo in [box]": ('[box]\ntimeuot = 3\n', ("kern.toml:2", "timeuot", "timeout")),
    "a wrong type": ('[[vcpu]]\nname = "x"\ncpus = "many"\n', ("kern.toml:3", "cpus")),
    "a wrong type of a boolean": ('[box]\ninit = "yes please"\n', ("kern.toml:2", "init")),
    "a duplicate key": ('[box]\nmemory = "1g"\nmemory = "2g"\n', ("kern.toml:3", "memory")),
    "the same key in two spellings": ('[box]\npids-limit = 9\npids_limit = 8\n', ("kern.toml:3", "pids")),
    "a backend without a pool": ('[[vcpu]]\nname = "x"\nbackend = "nosuch"\n', ("kern.toml", "nosuch")),
    "more than its pool": ('[[cpu]]\nid = "p"\ncores = 1\nmemory = "64m"\n[[vcpu]]\nname = "x"\nbackend = "p"\ncpus = 2\n',
                           ("kern.toml", "cpus")),
    "more memory than its pool": ('[[cpu]]\nid = "p"\nmemory = "64m"\n[[vcpu]]\nname = "x"\nbackend = "p"\nmemory = "65m"\n',
                                  ("kern.toml", "memory")),
    "an extends cycle": ('[[vcpu]]\nname = "x"\nextends = "y"\n[[vcpu]]\nname = "y"\nextends = "x"\n',
                         ("kern.toml", "extend", "x -> y")),
    "extends of itself": ('[[vcpu]]\nname = "x"\nextends = "x"\n', ("kern.toml", "extend", "x -> x")),
    "extends of nothing": ('[[vcpu]]\nname = "x"\nextends = "nosuch"\n', ("kern.toml", "nosuch")),
    "a profile twice": ('[[vcpu]]\nname = "x"\n[[vcpu]]\nname = "x"\n', ("kern.toml:4", "x")),
    "a profile without a name": ('[[vcpu]]\ncpus = 1\n', ("kern.toml:1", "name")),
    "a size of zero": ('[box]\nmemory = 0\n', ("kern.toml:2", "memory")),
    "a size that overflows": ('[box]\nmemory = "99999999999g"\n', ("kern.toml:2", "memory")),
    "no TOML at all": ('[box\n', ("kern.toml:1",)),
    "a bad escape": ('[box]\nhostname = "\\q"\n', ("kern.toml:2",)),
}


@as_root_and_user
class Mistakes(BoxCase):
    def test_each_is_refused_by_box_and_by_validate(self):
        for name, (text, parts) in MISTAKES.items():
            with self.subTest(name):
                env = self.own_config(text)
                result = self.refused("vcpu:x", env=env)
                for part in parts:
                    self.assertIn(part, result.err)
                path = env["XDG_CONFIG_HOME"] + "/kern/kern.toml"
                result = self.kern("validate", path)
                self.assertEqual(result.code, 1, result)
                for part in parts:
                    self.assertIn(part, result.err + result.out)

    def test_an_unknown_table_is_a_note(self):
        env = self.own_config('[telemetry]\non = true\n')
        result = self.box("true", env=env)
        self.assertEqual(result.code, 0, result)
        notes = [line for line in result.err.splitlines() if "telemetry" in line]
        self.assertEqual(len(notes), 1, result)
        self.assertTrue(notes[0].startswith("kern: note: "))
        self.assertEqual(self.box("true", env=env, options=["-q"]).err, "")

    def test_a_file_that_others_may_write(self):
        env = self.own_config("[box]\nnice = 3\n")
        os.chmod(env["XDG_CONFIG_HOME"] + "/kern/kern.toml", 0o666)
        self.refused(env=env, parts=["kern.toml"])

    def test_a_missing_file(self):
        self.refused("--config", "/no/such.toml", parts=["/no/such.toml"])
        self.refused(env={"KERN_CONFIG": "/no/such.toml"}, parts=["/no/such.toml"])
        self.assertEqual(self.box("true", env={"KERN_CONFIG": ""}).code, 0)


@as_root_and_user
class Choice(BoxCase):
    def test_order(self):
        own = self.own_config("[box]\nnice = 11\n")
        named, chosen = self.file("[box]\nnice = 12\n", "a.toml"), self.file("[box]\nnice = 13\n", "b.toml")
        self.assertEqual(self.output("probe", "nice", rooted=True, env=own), "11\n")
        env = {**own, "KERN_CONFIG": named}
        self.assertEqual(self.output("probe", "nice", rooted=True, env=env), "12\n")
        self.assertEqual(self.output("probe", "nice", rooted=True, env=env, options=["--config", chosen]), "13\n")
        self.assertEqual(self.output("probe", "nice", rooted=True, env=env, options=["--config=" + chosen, "--nice=14"]), "14\n")

    def test_home(self):
        home = self.folder()
        os.makedirs(home + "/.config/kern")
        kerntest.write(home + "/.config/kern/kern.toml", "[box]\nnice = 16\n")
        kerntest.give(home, self.me)
        self.assertEqual(self.output("probe", "nice", rooted=True, env={"HOME": home, "XDG_CONFIG_HOME": ""}), "16\n")

    def test_what_somebody_elses_file_may_not_set(self):
        outside = self.folder()
        for text in ("privileged = true", 'seccomp = "/x.json"', 'net = "host"', f'volume = ["{outside}:/v"]',
                     'volume = ["../x:/v"]', f'rootfs = "{outside}"', 'userns = "host"', 'cap-add = ["ALL"]',
                     "allow-uncapped = true", f'mount = ["type=bind,src={outside},dst=/v"]'):
            with self.subTest(text):
                path = self.file(f"[box]\n{text}\n", "kern.toml")
                result = self.refused("--config", path)
                self.assertIn(text.split(" ")[0], result.err)
        path = self.file('[registry]\nmirrors = ["m:1"]\n', "kern.toml")
        self.refused("--config", path, parts=["registry"])

    def test_binds_within_its_own_folder(self):
        path = self.file('[box]\nvolume = ["./data:/v"]\n', "kern.toml")
        os.mkdir(os.path.dirname(path) + "/data")
        kerntest.give(os.path.dirname(path), self.me)
        self.shell("touch /v/x", options=["--config", path])
        self.assertTrue(os.path.exists(os.path.dirname(path) + "/data/x"))

    def test_a_link_out_of_its_folder(self):
        path = self.file('[box]\nvolume = ["./data:/v"]\n', "kern.toml")
        os.symlink("/etc", os.path.dirname(path) + "/data")
        result = self.rooted("ls", "/v", options=["--config", path])
        self.assertIn(result.code, (1, 125), result)
        self.assertEqual(result.out, "")


@as_root_and_user
class Lists(BoxCase):
    """Every key of [box] reaches the box."""

    def test_box_keys(self):
        data = self.folder()
        env = self.own_config(f"""[box]
            hostname = "lab"\nread-only = true\nworkdir = "/tmp"\ntmpfs = ["/t:1m"]\nvolume = ["{data}:/v:ro"]
            add-host = ["db:192.0.2.7"]\nenv = ["A=b"]\nulimit = ["nofile=77"]\ncap-drop = ["ALL"]\npids-limit = 99
            timeout = 30\ninit = true\nquiet = true\nnice = 14\n""")
        out = self.shell("hostname; pwd; ls -d /t /v; echo $A; ulimit -n; nice; grep CapEff /proc/self/status; cat /etc/hosts",
                         env=env, rooted=False)
        lines = out.splitlines()
        self.assertEqual(lines[:7], ["lab", "/tmp", "/t", "/v", "b", "77", "14"])
        self.assertEqual(lines[7].split()[1], "0" * 16)
        self.assertIn(["192.0.2.7", "db"], [line.split() for line in lines])


@as_root_and_user
class Show(BoxCase):
    def test_plan_does_nothing(self):
        mark = os.path.join(self.folder(), "mark")
        result = self.rooted("touch", "/v/mark", options=["--plan", "-m", "64m", "-v", f"{os.path.dirname(mark)}:/v",
                                                          "vcpu:tiny"])
        self.assertEqual((result.code, result.report), (0, None), result)
        self.assertFalse(os.path.exists(mark))
        for part in ("touch", "64m", self.root, "/v", "seccomp"):
            self.assertIn(part, result.out.replace("67108864", "64m").replace("64 MB", "64m").replace("64 MiB", "64m"))

    def test_plan_shows_where_a_box_gets(self):
        env = self.own_config('[[egress]]\nname = "db"\nallow = ["db.example.com:5432"]\ndeny = ["x.example.com"]\n')
        for options, parts in (([], ["network:   an isolated loopback\n"]), (["--net=host"], ["network:   the host's\n"]),
                               (["--egress-allow=a.example.com", "egress:db", "-p8080:80"],
                                ["loopback, which leads to the hosts of the egress rules\n", "allowed:   a.example.com\n",
                                 "allowed:   db.example.com:5432\n", "denied:    x.example.com\n", "port:      8080:80\n"])):
            out = self.box("true", options=["--plan", *options], env=env, report=False).out
            for part in parts:
                self.assertIn(part, out)

    def test_plan_shows_what_a_terminal_would_obey(self):
        """Nor can a file of somebody else's write lines of its own into the plan."""
        told = '\\u001b[2K\\u001b[1Ab\\nlimit none'
        env = self.own_config(f'[box]\ntmpfs = ["/a{told}"]\n')
        result = self.rooted("true", options=["--plan"], env=env)
        self.assertEqual(result.code, 0, result)
        self.assertNotIn("\x1b", result.out)
        self.assertNotIn("\nlimit none", result.out)
        folder = self.folder() + "/\x1b[2K\nlimit none"
        os.mkdir(folder)
        for options in (["-v", folder + ":/v"], ["--rootfs", folder]):
            result = self.box("true", options=["--plan", *options], report=False)
            self.assertNotIn("\x1b", result.out + result.err)
            self.assertNotIn("\nlimit none", result.out + result.err)

    def test_plan_finds_the_same_mistakes(self):
        self.assert_failed(self.box("true", options=["--plan", "-m", "0"]), 1, "--memory")
        self.assert_failed(self.box("true", options=["--plan", "-v", "/no/such:/v"]), 1, "/no/such")

    def test_show_config(self):
        env = self.own_config('[box]\nnice = 3\npids-limit = 99\n[[vcpu]]\nname = "p"\nmemory = "80m"\n')
        result = self.box("true", options=["--show-config", "vcpu:p", "--pids-limit", "98"], env=env)
        self.assertEqual((result.code, result.report), (0, None), result)
        lines = {line.split()[0]: line for line in result.out.splitlines() if line.split()}
        self.assertIn("98", lines["pids-limit"])
        self.assertIn("3", lines["nice"])
        self.assertIn("kern.toml", lines["nice"])
        self.assertIn("80m", lines["memory"])

    def test_validate(self):
        path = self.file('[[vcpu]]\nname = "p"\nmemory = "80m"\n', "kern.toml")
        result = self.kern("validate", path)
        self.assertEqual((result.code, result.err), (0, ""), result)

    def test_examples_are_valid(self):
        result = self.kern("examples")
        self.assertEqual(result.code, 0)
        self.assertEqual(self.kern("validate", self.file(result.out, "kern.toml")).code, 0)


@as_root_and_user
class Names(BoxCase):
    def test_hostname(self):
        self.assertEqual(self.shell("hostname; cat /etc/hostname", rooted=False, options=["--hostname", "lab"]), "lab\nlab\n")
        result = self.kern("box", "my-box", "--rootfs", self.root, "-q", "--", "hostname")
        self.assertEqual(result.out, "my-box\n", result)

    def test_bad_hostnames(self):
        for name in ("", "a b", "a" * 65, "-x", "x\ny", "a/b"):
            with self.subTest(name):
                self.refused(f"--hostname={name}", parts=["host name"])

    def test_box_names(self):
        for name in ("-x", ".x", "a b", "a/b", "x" * 65, "", "ä", "a;b"):
            with self.subTest(name):
                result = self.kern("box", name, "--", "true")
                self.assertEqual(result.code, 1, result)

    def test_a_living_name_is_taken(self):
        running = self.start("box", "taken", "-q", "--", "sh", "-c", "echo up; sleep 60")
        running.line()
        self.assert_failed(self.kern("box", "taken", "--", "true"), 1, '"taken"')
        running.signal(15)
        running.wait()
        self.assertEqual(self.kern("box", "taken", "--", "true").code, 0)

    def test_add_host(self):
        for rooted in (False, True):
            with self.subTest(rooted=rooted):
                out = self.shell("cat /etc/hosts", rooted=rooted,
                                 options=["--add-host", "db:192.0.2.7", "--add-host", "six:2001:db8::1"])
                lines = [line.split() for line in out.splitlines()]
                self.assertIn(["192.0.2.7", "db"], lines)
                self.assertIn(["2001:db8::1", "six"], lines)
                self.assertTrue(any(line[0] == "127.0.0.1" and "localhost" in line for line in lines if line))

    def test_bad_hosts(self):
        for word in ("db", "db:", ":1.2.3.4", "db:x", "d b:1.2.3.4", "db:1.2.3.4\n6.6.6.6 evil"):
            with self.subTest(word):
                self.refused("--add-host", word, parts=["--add-host"])

    def test_sysctl(self):
        self.assertEqual(self.shell("cat /proc/sys/kernel/msgmax", options=["--sysctl", "kernel.msgmax=4242"]), "4242\n")
        self.assertEqual(self.shell("cat /proc/sys/kernel/domainname", options=["--sysctl", "kernel.domainname=lab"]), "lab\n")

    def test_only_namespaced_settings(self):
        for word in ("kernel.core_pattern=x", "vm.swappiness=1", "kernel.hostname=x", "nosuch.knob=1", "net",
                     "../../etc/passwd=1", "net.ipv4.../../../kernel/core_pattern=x"):
            with self.subTest(word):
                result = self.rooted("true", options=["--sysctl", word])
                self.assertIn(result.code, (1, 125), result)
                self.assert_failed(result, result.code, word.partition("=")[0])

    def test_setting_of_a_shared_network(self):
        result = self.rooted("true", options=["--net", "--sysctl", "net.ipv4.ip_forward=1"])
        self.assertIn(result.code, (1, 125), result)


@as_root_and_user
class Net(BoxCase):
    def interfaces(self, *options):
        out = self.shell("cat /proc/net/dev", options=options)
        return {line.split(":")[0].strip() for line in out.splitlines() if ":" in line}

    def test_isolated_by_default(self):
        for options in ((), ("--net", "none"), ("--network=none",)):
            with self.subTest(options):
                self.assertIn("lo", self.interfaces(*options))
                self.assertNotEqual(self.shell("readlink /proc/self/ns/net", options=options).strip(),
                                    os.readlink("/proc/self/ns/net"))

    def test_loopback_is_up(self):
        self.assertIn("hi", self.shell("echo hi | nc -l -p 80 & sleep 0.3; nc 127.0.0.1 80 </dev/null"))

    def test_host(self):
        for options in (("--net",), ("--net", "host"), ("--network", "host"), ("--network=host",)):
            with self.subTest(options):
                self.assertEqual(self.shell("readlink /proc/self/ns/net", options=options).strip(),
                                 os.readlink("/proc/self/ns/net"))

    def test_the_next_word_counts_only_if_it_is_one_of_two(self):
        result = self.kern("box", "--net", "mybox", "--rootfs", self.root, "--", "true")
        self.assertEqual((result.code, result.report["box"]), (0, "mybox"), result)

    def test_anything_else(self):
        self.refused("--net=bridge", parts=["--net", "bridge"])

    def test_abstract_sockets_of_the_host_are_out_of_reach(self):
        self.assertNotIn("@", self.shell("cat /proc/net/unix"))


@as_root_and_user
class Shown(BoxCase):
    def test_verbose_shows_the_panel_and_runs(self):
        result = self.rooted("echo", "ran", options=["--verbose"])
        self.assertEqual((result.code, result.out), (0, "ran\n"), result)
        for line in result.err.splitlines():
            self.assertTrue(line.startswith(kerntest.BENIGN), result)
        self.assertGreater(len(result.err.splitlines()), 2)


if __name__ == "__main__":
    kerntest.main()

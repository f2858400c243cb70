"""The root file system: directories as overlay or bind, read-only roots, volumes, --mount, --tmpfs, who owns what is written,
and what of /dev, /proc and /sys a box sees."""

import os
import subprocess

import kerntest
from kerntest import BoxCase, as_root, as_root_and_user, as_user


@as_root_and_user
class Root(BoxCase):
    def test_a_directory_is_not_changed(self):
        before = sorted(os.listdir(self.root))
        self.assertEqual(self.shell("touch /new; rm /etc/group; echo x >>/etc/passwd; mkdir /var/d; ls /new"), "/new\n")
        self.assertEqual(sorted(os.listdir(self.root)), before)
        self.assertTrue(os.path.exists(self.root + "/etc/group"))
        with open(self.root + "/etc/passwd", encoding="utf-8") as file:
            self.assertNotIn("x\n", file.read().splitlines(True))

    def test_deleted_things_stay_deleted(self):
        self.assertEqual(self.shell("rm -r /home; mkdir /home; ls -A /home; ls -d /home"), "/home\n")

    def test_bind_rootfs(self):
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        self.output("/bin/sh", "-c", "echo text >/tmp/new; mkdir /made", options=["--rootfs", root, "--bind-rootfs"])
        status = os.stat(root + "/tmp/new")
        self.assertEqual((status.st_uid, status.st_gid), (self.me.uid, self.me.gid))
        self.assertTrue(os.path.isdir(root + "/made"))

    def test_bind_rootfs_needs_rootfs(self):
        self.refused("--bind-rootfs", parts=["rootfs"], hint="--rootfs")

    def test_read_only(self):
        for option in ("--read-only", "--ro"):
            for place in ("/new", "/etc/new", "/root/new"):
                with self.subTest(option=option, place=place):
                    result = self.rooted("touch", place, options=[option, "-q"])
                    self.assertEqual(result.code, 1, result)
                    self.assertIn("Read-only", result.err)

    def test_read_only_takes_writable_places(self):
        folder = self.folder()
        self.shell("touch /t/x /v/y /dev/shm/z", options=["--ro", "--tmpfs", "/t", "-v", f"{folder}:/v"])
        self.assertEqual(os.listdir(folder), ["y"])

    def test_read_only_with_bind_rootfs(self):
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        result = self.box("touch", "/new", options=["--rootfs", root, "--bind-rootfs", "--ro", "-q"])
        self.assertEqual(result.code, 1, result)
        self.assertFalse(os.path.exists(root + "/new"))

    def test_a_relative_directory(self):
        out = self.output("cat", "/etc/group", options=["--rootfs", os.path.basename(self.root)],
                          cwd=os.path.dirname(self.root))
        self.assertIn("staff", out)

    def test_a_symlink_to_a_directory(self):
        link = os.path.join(self.folder(), "link")
        os.symlink(self.root, link)
        self.assertIn("staff", self.output("cat", "/etc/group", options=["--rootfs", link]))

    def test_a_directory_without_mount_points(self):
        """No /dev, /proc, /sys or /tmp there, and none afterwards."""
        root = kerntest.make_root_folder(self.me, os.path.join(self.folder(), "root"))
        for name in ("dev", "proc", "sys", "tmp"):
            os.rmdir(f"{root}/{name}")
        self.output("/bin/sh", "-c", "echo >/dev/null && test -d /proc/self", options=["--rootfs", root])
        self.assertEqual(set(os.listdir(root)) & {"dev", "proc", "sys", "tmp"}, set())

    def test_full_scratch_is_no_space_not_out_of_memory(self):
        result = self.rooted("dd", "if=/dev/zero", "of=/fill", "bs=1M", options=["-m", "64m", "-q"])
        self.assertEqual((result.code, result.fault), (1, None), result)
        self.assertIn("No space left", result.err)

    def test_missing_or_no_directory(self):
        result = self.box("true", options=["--rootfs", "/no/such"])
        self.assert_failed(result, 1, '"/no/such"', "No such file or directory")
        path = self.file("x")
        self.assert_failed(self.box("true", options=["--rootfs", path]), 1, f'"{path}"', "irectory")

    def test_without_the_command(self):
        root = self.folder()
        self.assert_failed(self.box("/bin/sh", options=["--rootfs", root]), 127, "cannot start '/bin/sh' in box")
        self.assertEqual(os.listdir(root), [])

    def test_of_another_architecture(self):
        path = kerntest.program("foreign", "-nostdlib", "-static", "-Wl,-e,probe_start", source="foreign.c",
                                compiler="aarch64-linux-gnu-gcc")
        self.assert_failed(self.rooted("/foreign", options=["-v", f"{path}:/foreign:ro"]), 126,
                           "cannot start '/foreign' in box", "aarch64")


@as_root_and_user
class Volumes(BoxCase):
    def test_read_and_write(self):
        folder = self.folder()
        kerntest.write(folder + "/in", "in\n")
        self.assertEqual(self.shell("cat /v/in; echo out >/v/out", options=["-v", f"{folder}:/v"]), "in\n")
        status = os.stat(folder + "/out")
        self.assertEqual((status.st_uid, status.st_gid), (self.me.uid, self.me.gid))

    def test_owners_are_seen_as_root(self):
        folder = self.folder()
        self.assertEqual(self.shell("stat -c %u:%g /v", options=["-v", f"{folder}:/v"]), "0:0\n")

    def test_spellings(self):
        folder = self.folder()
        for options in (["-v", f"{folder}:/v:rw"], ["--volume", f"{folder}:/v"], [f"--volume={folder}:/v"],
                        ["--mount", f"type=bind,src={folder},dst=/v"],
                        ["--mount", f"type=bind,source={folder},target=/v"]):
            with self.subTest(options):
                self.shell("touch /v/x; rm /v/x", options=options)

    def test_read_only(self):
        folder = self.folder()
        for options in (["-v", f"{folder}:/v:ro"], ["--mount", f"type=bind,src={folder},dst=/v,ro"]):
            with self.subTest(options):
                result = self.rooted("touch", "/v/x", options=[*options, "-q"])
                self.assertEqual(result.code, 1, result)
                self.assertIn("Read-only", result.err)
        self.assertEqual(os.listdir(folder), [])

    def test_a_read_only_volume_stays_so(self):
        result = self.rooted("mount", "-o", "remount,rw,bind", "/v", options=["-v", f"{self.folder()}:/v:ro"])
        self.assertEqual(result.code, 159)

    def test_a_file(self):
        path = self.file("one\n")
        self.assertEqual(self.shell("cat /etc/one; echo two >/etc/one", options=["-v", f"{path}:/etc/one"]), "one\n")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), "two\n")

    def test_a_file_over_a_file_of_the_root(self):
        path = self.file("ours\n")
        self.assertEqual(self.shell("cat /etc/passwd", options=["-v", f"{path}:/etc/passwd:ro"]), "ours\n")

    def test_a_colon_in_a_path(self):
        folder = self.folder()
        os.mkdir(folder + "/a:b")
        give = folder + "/a:b"
        kerntest.give(give, self.me)
        self.shell("touch /v/x", options=["--mount", f"type=bind,src={give},dst=/v"])
        self.assertEqual(os.listdir(give), ["x"])

    def test_several_and_nested(self):
        one, two = self.folder(), self.folder()
        os.mkdir(one + "/two")
        kerntest.give(one, self.me)
        self.shell("touch /v/1 /v/two/2", options=["-v", f"{one}:/v", "-v", f"{two}:/v/two"])
        self.assertEqual(sorted(os.listdir(two)), ["2"])

    def test_no_ghosts_in_the_workspace(self):
        """sandbox-runtime#85: mount points are not made in folders of the host."""
        folder = self.folder()
        self.rooted("true", options=["-v", f"{folder}:/v:ro", "-w", "/v"])
        self.assertEqual(os.listdir(folder), [])

    def test_no_setuid_and_no_devices_from_a_volume(self):
        options = self.shell("grep ' /v ' /proc/mounts", options=["-v", f"{self.folder()}:/v"]).split()[3].split(",")
        self.assertLessEqual({"nosuid", "nodev"}, set(options))

    def test_shm_may_be_a_volume(self):
        folder = self.folder(0o777)
        self.shell("touch /dev/shm/x", options=["-v", f"{folder}:/dev/shm"])
        self.assertEqual(os.listdir(folder), ["x"])

    # Deeper than kern has descriptors for; with a name in the way of what is moved up.
    DEEP = f"mkdir -p /v/deep-0; cd /v; for i in 1 2 3 4 5 6 7; do mkdir -p {'d/' * 100}; cd {'d/' * 100}; done; touch x"

    def test_scratch_on_disk(self):
        """What kernels before 6.6 need; asked for here by KERN_DEBUG."""
        data = self.folder()
        env = {"XDG_DATA_HOME": data, "KERN_DEBUG": "disk-scratch"}
        script = "rm -r /etc; mkdir /etc; echo new >/etc/x; ls /etc; mkdir -p /a/b; chmod 0 /a; mkdir -p /c/d; chmod 500 /c; " + self.DEEP
        self.assertEqual(self.shell(script, env=env), "x\n")
        self.assertEqual(os.listdir(self.root + "/etc") != ["x"], True)
        self.assertEqual(os.path.exists(f"{data}/kern/scratch"), False)

    def test_a_named_volume(self):
        data = self.folder()
        env = {"XDG_DATA_HOME": data}
        self.shell("echo kept >/v/file", options=["-v", "cache:/v"], env=env)
        self.assertEqual(self.shell("cat /v/file", options=["-v", "cache:/v"], env=env), "kept\n")
        self.assertTrue(os.path.isdir(f"{data}/kern/volumes/cache"))
        self.shell(self.DEEP, options=["-v", "cache:/v"], env=env)
        self.assertEqual(self.kern("volume", "rm", "cache", env=env).out, "removed volume 'cache'\n")
        self.assertEqual(os.listdir(f"{data}/kern/volumes"), [])

    def test_missing_source(self):
        self.refused("-v", "/no/such:/v", parts=['"/no/such"', "No such file"], hint="mkdir -p")
        self.refused("--mount", "type=bind,src=/no/such,dst=/v", parts=['"/no/such"'])

    def test_bad_targets(self):
        folder = self.folder()
        for target in ("/proc", "/proc/sys", "/sys", "/sys/fs/cgroup", "/dev", "/dev/null", "/v/../../etc", "/..", "/",
                       "//", "v", "", "/./proc", "//proc"):
            with self.subTest(target):
                self.refused("-v", f"{folder}:{target}", parts=["--volume"])

    def test_bad_words(self):
        folder = self.folder()
        for word in (folder, f"{folder}:/v:rx", ":/v", f"{folder}:/v:ro:ro"):
            with self.subTest(word):
                self.refused("-v", word, parts=["--volume"])
        for word in ("type=tmpfs,dst=/v", "type=bind,src=/tmp", "src=,dst=/v", "type=bind,src=/tmp,dst=/v,nosuch=1"):
            with self.subTest(word):
                self.refused("--mount", word, parts=["--mount"])

    def test_kern_state_is_not_for_boxes(self):
        self.box("true")
        run = next(path for path in self.me.run_directories() if os.path.isdir(path))
        for source in (run, run + "/boxes"):
            with self.subTest(source):
                self.refused("-v", f"{source}:/v", parts=["state"])
        result = self.rooted("ls", "-A", "/v/" + os.path.basename(run), options=["-v", f"{os.path.dirname(run)}:/v", "-q"])
        self.assertEqual(result.out, "", result)

    def test_a_link_to_kern_state(self):
        self.box("true")
        run = next(path for path in self.me.run_directories() if os.path.isdir(path))
        link = os.path.join(self.folder(), "link")
        os.symlink(run, link)
        self.refused("-v", f"{link}:/v", parts=["state"])


@as_root
class Ownership(BoxCase):
    """What a box of real root writes belongs to the volume's owner, and its root is not root."""

    def test_written_files_belong_to_the_owner(self):
        other = kerntest.user_identity()
        folder = self.folder()
        kerntest.give(folder, other)
        self.shell("touch /v/x", options=["-v", f"{folder}:/v"])
        self.assertEqual(os.stat(folder + "/x").st_uid, other.uid)

    def test_processes_are_not_root_outside(self):
        mark = str(2000000 + os.getpid())
        running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", f"echo up; exec sleep {mark}")
        running.line()
        pids = kerntest.eventually(lambda: kerntest.running("sleep", mark))
        self.assertEqual(len(pids), 1)
        self.assertNotEqual(os.stat(f"/proc/{pids[0]}").st_uid, 0)
        running.signal(15)
        running.wait()

    def test_two_boxes_do_not_share_ids(self):
        ids = []
        boxes = []
        for _ in range(2):
            running = self.start("box", "-q", "--rootfs", self.root, "--", "sh", "-c", "cat /proc/self/uid_map; sleep 60")
            boxes.append(running)
            running.line()
            inner = kerntest.eventually(lambda pid=running.pid: kerntest.processes(
                lambda p: ancestor(p, pid) and os.stat(f"/proc/{p}").st_uid != 0))
            ids.append(os.stat(f"/proc/{min(inner)}").st_uid)  # the shell: what it runs comes and goes
        self.assertNotEqual(ids[0], ids[1])
        for running in boxes:
            running.signal(15)
            running.wait()

    def test_a_kernel_setting_cannot_be_written(self):
        path = "/proc/sys/kernel/domainname"
        with open(path, encoding="ascii") as file:
            before = file.read()
        self.rooted("sh", "-c", f"echo hacked >{path}", options=["-q"])
        with open(path, encoding="ascii") as file:
            self.assertEqual(file.read(), before)

    def test_userns_keep_and_host(self):
        for mode in ("keep", "host"):
            with self.subTest(mode):
                folder = self.folder()
                self.shell("touch /v/x", options=["--userns", mode, "-v", f"{folder}:/v"])
                self.assertEqual(os.stat(folder + "/x").st_uid, 0)


def ancestor(pid, wanted):
    while pid > 1:
        with open(f"/proc/{pid}/stat", encoding="latin-1") as file:
            pid = int(file.read().rpartition(")")[2].split()[1])
        if pid == wanted:
            return True
    return False


@as_user
class UserRange(BoxCase):
    def test_one_id_by_default(self):
        for options in ((), ("--no-uid-range",)):
            self.assertEqual(self.shell("cat /proc/self/uid_map", options=options).split(), ["0", "0", "1"])

    def test_range(self):
        with open("/etc/subuid", encoding="utf-8") as file:
            if not any(line.startswith(self.me.name + ":") for line in file):
                kerntest.skip("this user has no subordinate ids")
        if not os.path.exists("/usr/bin/newuidmap"):
            kerntest.skip("no newuidmap on this machine")
        folder = self.folder()
        out = self.shell("id -u; touch /v/x; chown 7:8 /v/x; stat -c %u:%g /v/x",
                         options=["--uid-range", "-v", f"{folder}:/v"])
        self.assertEqual(out.splitlines()[-1], "7:8")
        self.assertNotIn(os.stat(folder + "/x").st_uid, (0, 7, self.me.uid))
        os.unlink(folder + "/x")

    def test_keep_and_host(self):
        self.assertEqual(self.shell("id -u", options=["--userns", "keep"]), f"{self.me.uid}\n")
        self.refused("--userns", "host", parts=["userns", "root"])

    def test_they_exclude_each_other(self):
        self.refused("--uid-range", "--no-uid-range", parts=["uid-range"])


@as_root_and_user
class Tmpfs(BoxCase):
    def test_it_is_fresh_and_confined(self):
        out = self.shell("ls -A /var; touch /var/x; grep ' /var ' /proc/mounts; stat -c %a /var", options=["--tmpfs", "/var"])
        mount, mode = out.splitlines()
        self.assertLessEqual({"nosuid", "nodev", "rw"}, set(mount.split()[3].split(",")))
        self.assertEqual((mount.split()[2], mode), ("tmpfs", "1777"))

    def test_size(self):
        result = self.rooted("sh", "-c", "dd if=/dev/zero of=/t/x bs=1M count=3 2>&1; stat -c %s /t/x",
                             options=["--tmpfs", "/t:2m", "-q"])
        self.assertIn("No space left", result.out)
        self.assertIn(str(2 << 20), result.out)

    def test_it_shares_the_memory_cap(self):
        result = self.rooted("sh", "-c", "dd if=/dev/zero of=/t/x bs=1M; dd if=/dev/zero of=/x bs=1M",
                             options=["--tmpfs", "/t", "-m", "64m", "-q"])
        self.assertEqual((result.code, result.fault), (1, None), result)

    def test_a_created_target(self):
        self.shell("touch /not/there/before/x", options=["--tmpfs", "/not/there/before"])

    def test_bad_places(self):
        for word in ("/dev/shm", "/dev", "/dev/x", "/proc", "/proc/x", "/sys", "/sys/x", "t", "/", "/t/../dev"):
            with self.subTest(word):
                self.refused("--tmpfs", word, parts=["--tmpfs"])
        for word in ("/t:0", "/t:x", "/t:-1", "/t:99999999999g"):
            with self.subTest(word):
                self.refused("--tmpfs", word, parts=["--tmpfs"])


@as_root_and_user
class Dev(BoxCase):
    def test_what_is_there(self):
        names = set(self.shell("ls -A /dev").split())
        self.assertEqual(names, set("null zero full random urandom shm fd stdin stdout stderr pts ptmx".split()))

    def test_the_nodes_work(self):
        self.assertEqual(self.shell("""echo x >/dev/null; head -c 3 /dev/zero | od -An -tx1
            head -c 4 /dev/urandom | wc -c; head -c 4 /dev/random | wc -c; echo >/dev/full 2>/dev/null || echo full"""),
                         " 00 00 00\n4\n4\nfull\n")

    def test_links(self):
        self.assertEqual(self.shell("for f in fd stdin stdout stderr; do readlink /dev/$f; done").split(),
                         ["/proc/self/fd", "/proc/self/fd/0", "/proc/self/fd/1", "/proc/self/fd/2"])
        script = f'"{kerntest.KERN}" box -q --rootfs "{self.root}" -- sh -c "echo a >/dev/stdout; echo b | cat /dev/stdin" | cat'
        env = {"PATH": kerntest.BOX_PATH, "HOME": self.me.home}
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False, env=env, **self.me.popen)
        self.assertEqual((done.stdout, done.stderr), ("a\nb\n", ""))

    def test_shm(self):
        self.assertEqual(self.shell("stat -c %a /dev/shm; echo x >/dev/shm/x; cat /dev/shm/x"), "1777\nx\n")

    def test_no_node_can_be_made(self):
        result = self.rooted("mknod", "/dev/mem", "c", "1", "1", options=["-q"])
        self.assertNotEqual(result.code, 0)

    def test_no_terminal_without_one(self):
        self.assertEqual(self.rooted("test", "-e", "/dev/tty", options=["-q"]).code, 1)


@as_root_and_user
class Proc(BoxCase):
    def test_read_only_parts(self):
        for place in ("sys", "sysrq-trigger", "irq", "bus", "fs", "asound"):
            if not os.path.exists(f"/proc/{place}"):
                continue
            with self.subTest(place):
                options = self.shell(f"grep ' /proc/{place} ' /proc/mounts").split()[3].split(",")
                self.assertIn("ro", options)

    def test_covers(self):
        for place in ("kcore", "kallsyms", "kmsg", "keys", "latency_stats", "timer_list", "sched_debug"):
            if not os.path.exists(f"/proc/{place}"):
                continue
            with self.subTest(place):
                self.assertEqual(self.shell(f"timeout 5 head -c 64 /proc/{place}"), "")
        if os.path.isdir("/proc/scsi"):
            self.assertEqual(self.shell("ls -A /proc/scsi"), "")

    def test_only_its_own_processes(self):
        pids = {name for name in self.shell("ls /proc").split() if name.isdigit()}
        self.assertLessEqual(len(pids), 3)
        self.assertIn("1", pids)

    def test_no_write_to_the_kernel(self):
        for place in ("/proc/sys/kernel/core_pattern", "/proc/sys/vm/drop_caches", "/proc/sysrq-trigger",
                      "/proc/sys/kernel/hostname"):
            with self.subTest(place):
                self.assertNotEqual(self.rooted("probe", "write", place, "1", options=["-q"]).out.split()[1], "1")

    def test_mounts_leak_no_host_path(self):
        out = self.shell("cat /proc/self/mountinfo")
        self.assertNotIn("oldroot", out)
        roots = [line.split()[4] for line in out.splitlines()]
        self.assertEqual(roots.count("/"), 1)


@as_root_and_user
class Sys(BoxCase):
    def test_nothing_but_the_own_group(self):
        self.assertEqual(set(self.shell("ls -A /sys").split()) - {"fs"}, set())
        self.assertNotEqual(self.rooted("touch", "/sys/x", options=["-q"]).code, 0)

    def test_the_own_group_is_read_only(self):
        self.need_limits()
        out = self.shell("find /sys -name 'memory.max' -o -name memory.limit_in_bytes | head -1 | xargs cat",
                         options=["-m", "77m"])
        self.assertEqual(out, f"{77 << 20}\n")
        result = self.shell("find /sys/fs -type f | while read f; do if (echo 1 >>$f) 2>/dev/null; then echo $f; fi; done")
        self.assertEqual(result, "")

    def test_no_path_of_the_host_group(self):
        self.assertNotIn("kern", self.shell("cat /proc/self/cgroup"))


@as_root_and_user
class Scratch(BoxCase):
    write = "dd if=/dev/zero of=/file bs=1M count={} 2>&1 || true"

    def test_a_size_in_memory(self):
        result = self.shell(self.write.format(2), options=["--scratch", "ram:1m"])
        self.assertIn("No space left on device", result)
        self.assertNotIn("No space left", self.shell(self.write.format(2), options=["--scratch=ram:4m"]))

    def test_on_disk_there_is_room(self):
        for options, fits in ((["--scratch", "ram"], False), (["--scratch", "disk"], True)):
            with self.subTest(options):
                out = self.shell(self.write.format(40), options=["-m", "48m", *options])
                self.assertEqual("No space left" not in out, fits, out)

    def test_a_size_on_disk_is_measured(self):
        result = self.rooted("sh", "-c", self.write.format(8) + "; sleep 20", options=["--scratch", "disk:1m"])
        self.assertEqual((result.code, result.fault), (137, "workspace_full"), result)

    def test_what_cannot_be(self):
        for options, part in ((["--scratch", "floppy"], "ram or disk"), (["--scratch", "ram:0"], "zero"),
                              (["--scratch", "ram:1t"], "charged to the box's memory"), (["--scratch", "disk:"], "--scratch"),
                              (["--scratch", "disk", "--bind-rootfs"], "--bind-rootfs")):
            with self.subTest(options):
                self.assert_failed(self.rooted("true", options=options), 1, part)
        self.refused("--scratch=disk", parts=["the host root has no changes"])


if __name__ == "__main__":
    kerntest.main()

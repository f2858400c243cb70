"""The harness of the box tests: runs kern as root and as an unprivileged user whom it makes and removes, reads what kern
reports, builds the small programs and root folders that boxes need, and proves that nothing is left behind. It runs on
the host and imports nothing but the standard library.

KERN            the binary under test (default: build/bin/kern beside the sources)
KERN_MUST_WORK  1: a test may not be skipped for a feature that `kern doctor` says exists
KERN_SLOW       1: an emulated machine, where a start takes a tenth of a second
KERN_HELPERS    a folder with programs of helpers/ that were built elsewhere, for a machine without a compiler
"""

import atexit
import fcntl
import glob
import json
import os
import pwd
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
KERN = os.path.realpath(os.environ.get("KERN") or os.path.join(SOURCE, "build", "bin", "kern"))
HELPERS = os.path.join(HERE, "helpers")
BOX_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
IS_ROOT = os.geteuid() == 0
SLOW = os.environ.get("KERN_SLOW") == "1"
PATIENCE = 60  # seconds; only a hang is longer, even where somebody takes the CPUs away for a while
BENIGN = ("kern: note: ", "kern: warning: ", "kern: security-profile=")

if not os.access(KERN, os.X_OK):
    sys.exit(f"no kern to test at {KERN}: build it, or name it with KERN=")

_cache = {}  # what is made once for the whole process: the user, the scratch folder, programs, root folders
_pids = set()  # each kern that was started here: whatever it makes is named after it


# ---- Skipping

def doctor():
    """What `kern doctor --json` says of this machine, as {NAME: exists}; empty where there is no such verb."""
    if "doctor" not in _cache:
        done = subprocess.run([KERN, "doctor", "--json"], capture_output=True, text=True, check=False)
        try:
            found = json.loads(done.stdout)
        except ValueError:
            found = {}
        checks = found.get("checks", found) if isinstance(found, dict) else found
        if isinstance(checks, list):
            checks = {c.get("name"): c.get("ok", c.get("status") == "ok") for c in checks if isinstance(c, dict)}
        _cache["doctor"] = checks
    return _cache["doctor"]


def skip(reason, feature=None):
    """Skips the test. Where it must work, that is a failure if the doctor says that the machine has the feature."""
    if os.environ.get("KERN_MUST_WORK") == "1" and feature is not None and doctor().get(feature) is True:
        raise AssertionError(f"skipped ({reason}), but kern doctor says that this machine has {feature}")
    raise unittest.SkipTest(reason)


def need(*programs):
    """Skips the test unless the box can have the programs: in its PATH, and within what the host root shows."""
    for program in programs:
        found = shutil.which(program, path=BOX_PATH)
        if found is None:
            raise unittest.SkipTest(f"no {program} on this machine")
        if not os.path.realpath(found).startswith(("/usr/", "/bin/", "/sbin/", "/lib")):
            raise unittest.SkipTest(f"{program} of this machine lies outside /usr")


# ---- Who runs kern

class Identity:
    """Somebody who runs kern: root, or the unprivileged user."""

    def __init__(self, account, is_root):
        self.name, self.uid, self.gid, self.home = account.pw_name, account.pw_uid, account.pw_gid, account.pw_dir
        self.is_root = is_root
        other = IS_ROOT and not is_root
        self.popen = {"user": self.uid, "group": self.gid, "extra_groups": []} if other else {}

    def run_directories(self, runtime=None):
        if self.is_root:
            return ["/run/kern"]
        places = [f"/run/user/{self.uid}/kern", f"/tmp/kern-{self.uid}"]
        return ([os.path.join(runtime, "kern")] if runtime else []) + places


def root_identity():
    if not IS_ROOT:
        raise unittest.SkipTest("not run as root")
    return Identity(pwd.getpwuid(0), True)


def user_identity():
    if not IS_ROOT:
        return Identity(pwd.getpwuid(os.geteuid()), False)
    if "user" not in _cache:
        _cache["user"] = _make_user()
    if _cache["user"] is None:
        if os.environ.get("KERN_MUST_WORK") == "1":
            raise AssertionError("the tests of an unprivileged user cannot run")
        raise unittest.SkipTest("no useradd to make an unprivileged user with, or kern is out of reach for others")
    return _cache["user"]


def _make_user():
    if shutil.which("useradd") is None:
        return None
    for account in pwd.getpwall():  # of runs that were killed
        stale = re.fullmatch(r"kernbox(\d+)", account.pw_name)
        if stale and not os.path.exists(f"/proc/{stale.group(1)}"):
            _remove_user(Identity(account, False))
    name = f"kernbox{os.getpid()}"
    # Tests that run alone count their processes from 1, each for itself, and have one /home together.
    home = f"/home/{name}-{os.stat('/proc/self/ns/pid').st_ino}"
    subprocess.run(["useradd", "--create-home", "--home-dir", home, "--shell", "/bin/sh", name], check=True, capture_output=True)
    identity = Identity(pwd.getpwnam(name), False)
    atexit.register(_remove_user, identity)
    reach = subprocess.run(["test", "-x", KERN], check=False, **identity.popen)
    return identity if reach.returncode == 0 else None


def _remove_user(identity):
    for pid in processes(lambda pid: os.stat(f"/proc/{pid}").st_uid == identity.uid):
        kill(pid)
    subprocess.run(["userdel", "--remove", identity.name], check=False, capture_output=True)
    shutil.rmtree(f"/tmp/kern-{identity.uid}", ignore_errors=True)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def processes(wanted):
    """The process ids for which wanted(pid) holds; processes that end meanwhile do not count."""
    found = []
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and wanted(int(name)):
                found.append(int(name))
        except OSError:
            continue
    return found


def running(*words):
    """The processes whose command line has these words one after the other, in whatever box."""
    wanted = "\0".join(words).encode()

    def has_them(pid):
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return wanted in file.read()
    return processes(has_them)


# ---- Scratch, programs, root folders

def scratch():
    """A folder for the files of this process; others may pass through, not list."""
    if "scratch" not in _cache:
        path = tempfile.mkdtemp(prefix=f"kernbox-test-{os.getpid()}-", dir="/tmp")
        os.chmod(path, 0o711)
        atexit.register(shutil.rmtree, path, ignore_errors=True)
        _cache["scratch"] = path
    return _cache["scratch"]


def program(name, *flags, source=None, compiler="cc"):
    """A small static C program of helpers/, built once."""
    if ("program", name) not in _cache:
        ready = os.path.join(os.environ.get("KERN_HELPERS") or "/nowhere", name)
        if os.path.exists(ready):
            _cache["program", name] = ready
            return ready
        if shutil.which(compiler) is None:
            raise unittest.SkipTest(f"no {compiler} on this machine")
        path = os.path.join(scratch(), name)
        words = [compiler, "-O1", "-Wall", "-o", path, os.path.join(HELPERS, source or name + ".c")]
        subprocess.run(words + (list(flags) or ["-static"]), check=True)
        os.chmod(path, 0o755)
        _cache["program", name] = path
    return _cache["program", name]


def root_folder(identity):
    """A folder with a static busybox and the programs of helpers/, belonging to whoever runs kern."""
    key = ("root", identity.uid)
    if key not in _cache:
        _cache[key] = make_root_folder(identity, os.path.join(scratch(), f"root-{identity.uid}"))
    return _cache[key]


def make_root_folder(identity, path):
    busybox = shutil.which("busybox", path=BOX_PATH)
    if busybox is None or subprocess.run(["ldd", busybox], capture_output=True, check=False).returncode == 0:
        raise unittest.SkipTest("no static busybox on this machine (Debian: busybox-static)")
    for directory in ("bin", "etc", "dev", "proc", "sys", "tmp", "root", "home/ann", "var"):
        os.makedirs(os.path.join(path, directory))
    shutil.copy(busybox, os.path.join(path, "bin/busybox"))
    for applet in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if applet != "busybox":
            os.symlink("busybox", os.path.join(path, "bin", applet))
    shutil.copy(program("probe"), os.path.join(path, "bin/probe"))
    write(os.path.join(path, "etc/passwd"), "root:x:0:0::/root:/bin/sh\nann:x:7:8::/home/ann:/bin/sh\n")
    write(os.path.join(path, "etc/group"), "root:x:0:\nstaff:x:8:\nextra:x:9:ann\n")
    os.chmod(os.path.join(path, "tmp"), 0o1777)
    give(path, identity)
    return path


def write(path, text, mode=0o644):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)
    return path


def give(path, identity):
    """Makes the tree belong to whoever runs kern."""
    if not IS_ROOT:
        return
    for directory, folders, files in os.walk(path):
        for name in folders + files:
            os.lchown(os.path.join(directory, name), identity.uid, identity.gid)
    os.lchown(path, identity.uid, identity.gid)


# ---- Running kern

class Result:
    """How a kern ended. `report` is the JSON object of --report; `started` and `alive` the bytes of the descriptors."""

    def __init__(self, code, out, err, pid):
        self.code, self.out, self.err, self.pid = code, out, err, pid
        self.report = self.started = self.alive = None

    def __repr__(self):
        return f"exit {self.code}\nstdout: {self.out}\nstderr: {self.err}\nreport: {self.report}"

    @property
    def fault(self):
        return (self.report or {}).get("fault") and self.report["fault"]["type"]


class _Pipe:
    """A pipe whose other end kern gets; read by a thread, so that neither side waits for the other."""

    def __init__(self):
        self.ours, self.theirs = os.pipe()
        self.bytes = b""
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        with os.fdopen(self.ours, "rb") as file:
            self.bytes = file.read()

    def close(self):
        if self.theirs >= 0:
            os.close(self.theirs)
            self.theirs = -1

    def finish(self):
        self.close()
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            raise AssertionError("somebody still holds a descriptor that only kern was given")
        return self.bytes


class Running:
    """A kern that was started; wait() makes a Result of it."""

    def __init__(self, words, identity, env=None, cwd="/", report=True, started=False, alive=False, stdin=None,
                 pass_fds=(), **popen):
        self.pipes = {name: _Pipe() for name, on in (("report", report), ("started", started), ("alive", alive)) if on}
        environment = {"PATH": BOX_PATH, "HOME": identity.home, "XDG_CONFIG_HOME": os.path.join(scratch(), "none")}
        if started:
            environment["KERN_STARTED_FD"] = str(self.pipes["started"].theirs)
        if alive:
            environment["KERN_ALIVE_FD"] = str(self.pipes["alive"].theirs)
        environment.update(env or {})
        if report and words[0] in ("box", "exec"):
            words = [words[0], f"--report=fd:{self.pipes['report'].theirs}", *words[1:]]
        popen = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **identity.popen, **popen}
        fds = tuple(p.theirs for p in self.pipes.values()) + tuple(pass_fds)
        self.process = subprocess.Popen([KERN, *words], env=environment, cwd=cwd, pass_fds=fds,
                                        stdin=subprocess.DEVNULL if stdin is None else stdin,
                                        encoding="utf-8", errors="surrogateescape", **popen)
        self.pid = self.process.pid
        _pids.add(self.pid)
        for pipe in self.pipes.values():
            pipe.close()

    def signal(self, number):
        self.process.send_signal(number)

    def line(self, seconds=PATIENCE):
        """The next line of standard output; the box says that it is ready so."""
        ready, _, _ = select.select([self.process.stdout], [], [], seconds)
        if not ready:
            self.process.kill()
            raise AssertionError("the box said nothing")
        return self.process.stdout.readline()

    def wait(self, text=None, seconds=PATIENCE):
        try:
            out, err = self.process.communicate(text, timeout=seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"kern did not end: {self.process.args}\nstdout: {out}\nstderr: {err}") from None
        result = Result(self.process.returncode, out, err, self.pid)
        if "report" in self.pipes:
            text = self.pipes["report"].finish()
            result.report = json.loads(text) if text else None
        for name in ("started", "alive"):
            if name in self.pipes:
                setattr(result, name, self.pipes[name].finish())
        return result


# ---- What is left behind

def _named_after_us(name):
    """Names that kern makes end in the pid of the kern that made them: kern.NAME.PID, box-PID-RANDOM."""
    return any(int(number) in _pids for number in re.findall(r"(?<=[.-])\d+(?=$|-|\.)", name))


def group_leaks():
    return [d for d in glob.glob("/sys/fs/cgroup/**/kern.*", recursive=True) if _named_after_us(os.path.basename(d))]


def _is_held(path):
    """Whether a living kern has its lock on the file."""
    with open(path, "rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False


def _belongs_to_us(path):
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return False
    found = re.search(r"^pid (\d+)", text, re.M)
    return int(found.group(1)) in _pids if found else _named_after_us(os.path.basename(path))


def state_leaks(directories, every=False):
    """Entries of dead boxes in the run directories: those of this process, or `every` one."""
    found = []
    for directory in directories:
        for path in glob.glob(f"{directory}/boxes/*") + glob.glob(f"{directory}/ids/*"):
            try:
                if (every or _belongs_to_us(path)) and (path.endswith(".sock") or not _is_held(path)):
                    found.append(path)
            except OSError:
                continue  # ended and removed meanwhile, or somebody's socket
    return found


def kerns(wanted):
    """Living kern processes, their boxes' inits included, for whose environment wanted(bytes) holds."""
    def is_one(pid):
        if os.readlink(f"/proc/{pid}/exe").removesuffix(" (deleted)") != KERN:
            return False
        with open(f"/proc/{pid}/environ", "rb") as file:
            return wanted(file.read())
    return processes(is_one)


def our_processes():
    """Those that were started here."""
    return kerns(lambda environment: os.fsencode(scratch()) in environment)


def mount_leaks():
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        return [line for line in file if "kernbox-test-" in line or f"kernbox{os.getpid()}" in line]


def loops():
    """Loop devices in use, with what is behind them."""
    found = set()
    for path in glob.glob("/sys/block/loop*/loop/backing_file"):
        try:
            with open(path, encoding="utf-8") as file:
                found.add((path.split("/")[3], file.read().strip()))
        except OSError:
            pass  # gone meanwhile
    return found


def leaks(directories):
    return {name: found for name, found in (
        ("processes", our_processes()), ("groups", group_leaks()), ("state", state_leaks(directories)),
        ("mounts", mount_leaks())) if found}


def eventually(condition, seconds=PATIENCE / 2):
    """Waits until the condition holds; returns its last value. The kernel removes some things a moment later."""
    end = time.monotonic() + seconds
    value = condition()
    while not value and time.monotonic() < end:
        time.sleep(0.05)
        value = condition()
    return value


# ---- The test case

class BoxCase:
    """What the tests use. A class of checks derives from this and is decorated with @as_root_and_user."""

    get_identity = staticmethod(user_identity)

    @classmethod
    def setUpClass(cls):
        cls.me = cls.get_identity()
        cls.loops = loops()
        cls.temporary = set(glob.glob("/tmp/kern*"))
        cls.prepare_class()

    @classmethod
    def prepare_class(cls):
        """For what a class needs once."""

    @classmethod
    def tearDownClass(cls):
        directories = cls.me.run_directories() + glob.glob(f"{scratch()}/*/kern")
        eventually(lambda: not leaks(directories))
        left = leaks(directories)
        new = loops() - cls.loops
        # Others use this machine as well; what was left behind stays.
        eventually(lambda: not new.intersection_update(loops()) and not new)
        if new:
            left["loop devices"] = new
        new = set(glob.glob("/tmp/kern*")) - cls.temporary - {scratch(), f"/tmp/kern-{cls.me.uid}"}
        if new := {path for path in new if os.lstat(path).st_uid == cls.me.uid and "kernbox" not in path
                   and not cls.me.is_root}:
            left["scratch"] = new
        if left:
            cls.clean_up()
            raise AssertionError(f"left behind: {left}")

    @classmethod
    def clean_up(cls):
        """One box that lives long enough to sweep, so that the next class is judged by its own doings."""
        Running(["box", "-q", "--", "sleep", "0.3"], cls.me).wait()

    # ---- places

    def folder(self, mode=0o755):
        """A fresh folder of whoever runs kern, removed after the test."""
        path = tempfile.mkdtemp(dir=scratch())
        os.chmod(path, mode)
        give(path, self.me)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def file(self, text="", name="file", mode=0o644):
        path = write(os.path.join(self.folder(), name), text, mode)
        give(path, self.me)
        return path

    @property
    def root(self):
        return root_folder(self.me)

    def own_config(self, text):
        """Makes the text the user's own kern.toml; returns the environment that leads to it."""
        folder = self.folder()
        os.mkdir(os.path.join(folder, "kern"))
        write(os.path.join(folder, "kern/kern.toml"), text)
        give(folder, self.me)
        return {"XDG_CONFIG_HOME": folder}

    # ---- runs

    def start(self, *words, **keywords):
        running = Running(list(words), self.me, **keywords)
        self.addCleanup(self._reap, running)
        return running

    @staticmethod
    def _reap(running):
        if running.process.poll() is None:  # only after a failure
            running.process.kill()
            running.process.wait()
        for stream in (running.process.stdin, running.process.stdout, running.process.stderr):
            if stream is not None:
                stream.close()

    def kern(self, *words, text=None, seconds=PATIENCE, **keywords):
        """Runs kern with these words to its end."""
        if text is not None:
            keywords["stdin"] = subprocess.PIPE
        return self.start(*words, **keywords).wait(text, seconds)

    def box(self, *command, options=(), **keywords):
        return self.kern("box", *options, "--", *command, **keywords)

    def rooted(self, *command, options=(), **keywords):
        """The same in the busybox root folder."""
        return self.box(*command, options=["--rootfs", self.root, *options], **keywords)

    def output(self, *command, options=(), rooted=False, **keywords):
        """What a command that must succeed prints; kern must have nothing but benign lines to say."""
        result = (self.rooted if rooted else self.box)(*command, options=options, **keywords)
        self.assertEqual(result.code, 0, result)
        self.assertEqual([line for line in result.err.splitlines() if not line.startswith(BENIGN)], [], result)
        return result.out

    def shell(self, script, options=(), rooted=True, **keywords):
        return self.output("/bin/sh", "-ec", script, options=options, rooted=rooted, **keywords)

    # ---- verdicts

    def assert_failed(self, result, code, *parts, hint=None, plugin=None):
        """kern refused (1) or failed (125...): its one line has the parts, a hint follows if asked; nothing ran."""
        self.assertEqual(result.code, code, result)
        lines = [line for line in result.err.splitlines() if not line.startswith(BENIGN)]
        self.assertTrue(lines, result)
        self.assertTrue(lines[0].startswith(f"kern: {plugin}: " if plugin else "kern: "), result)
        for part in parts:
            self.assertIn(part, lines[0])
        if hint is not None:
            self.assertEqual(len(lines), 2, result)
            self.assertTrue(lines[1].startswith("hint: "), result)
            self.assertIn(hint, lines[1])
        self.assertEqual([line for line in lines[1:] if not line.startswith("hint: ")], [], result)
        self.assertEqual(result.out, "", result)
        if result.report is not None:
            self.assertEqual((result.report["started"], result.report["exit"]), (False, code))
            self.assertIn(result.fault, ("startup_failed", "exec_failed"))
        return result

    def refused(self, *options, parts=(), hint=None, command=("true",), **keywords):
        return self.assert_failed(self.box(*command, options=options, **keywords), 1, *parts, hint=hint)

    def limits_bind(self):
        """Whether the memory and pids caps of this identity bind; learnt from a report."""
        key = ("bind", self.me.uid)
        if key not in _cache:
            limits = self.box("true").report["limits"]
            _cache[key] = all(limits[name]["enforced"] for name in ("memory", "pids"))
        return _cache[key]

    def need_limits(self):
        if not self.limits_bind():
            skip("no control group binds for this user here", "limits" if self.me.is_root else None)


def _expand(cls, suffix, get_identity):
    name = cls.__name__ + suffix
    made = type(name, (cls, unittest.TestCase), {"get_identity": staticmethod(get_identity), "__doc__": cls.__doc__,
                                                 "__module__": cls.__module__, "maxDiff": None})
    setattr(sys.modules[cls.__module__], name, made)


def as_root_and_user(cls):
    """Runs the checks of the class twice: as root (when the tests do) and as the unprivileged user."""
    _expand(cls, "AsRoot", root_identity)
    _expand(cls, "AsUser", user_identity)
    return cls


def as_root(cls):
    _expand(cls, "AsRoot", root_identity)
    return cls


def as_user(cls):
    _expand(cls, "AsUser", user_identity)
    return cls


def main():
    import stale
    stale.end_boxes()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the user goes away all the same
    unittest.main()

"""Tries to exceed each limit, once for each way that somebody can come to run kern on this machine, and writes down what held:
/host/results/COLUMN.json, of which tests/vm/limits_table makes the table of docs/LIMITS.md. Runs in the tests' virtual
machine, as root. Usage: table.py COLUMN...: v1-root v2-root v2-delegated systemd-user session
It starts itself once for each column, by that way: table.py --attempt, which prints the cells."""

import json
import os
import re
import shutil
import subprocess
import sys

KERN = os.environ["KERN"]
PROBE = "/var/tmp/probe"  # a tmpfs takes no idmapped mounts before Linux 6.3
DELEGATED = "echo $$ >/sys/fs/cgroup/box/work/cgroup.procs && exec setpriv --reuid 1000 --regid 1000 --init-groups \"$0\" \"$@\""
SERVICE = ["systemd-run", "--quiet", "--pipe", "--wait"]
WAYS = {
    "v1-root": [],
    "v2-root": [],
    "v2-delegated": ["/bin/sh", "-c", DELEGATED, "env", "HOME=/home/box", "XDG_RUNTIME_DIR=/run/user/1000"],
    "systemd-user": [*SERVICE, "--machine=box@.host", "--user"],
    "session": [*SERVICE, "-p", "User=box", "-p", "PAMName=login", "-p", "WorkingDirectory=/"],
}
WIDEN = "import os\ntry: os.sched_setaffinity(0, {0, 1})\nexcept OSError: pass\nprint(os.sched_getaffinity(0))"


class Box:
    def __init__(self, *options, command):
        ours, theirs = os.pipe()  # takes a report without anybody reading
        words = [KERN, "box", "--no-view", f"--report=fd:{theirs}", "-v", f"{PROBE}:/probe:ro", *options, "--", *command]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120, pass_fds=[theirs])
        os.close(theirs)
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        with os.fdopen(ours, encoding="utf-8") as file:
            self.report = json.load(file)
        self.fault = (self.report["fault"] or {}).get("type")
        self.usage = self.report["usage"]
        if not self.report["started"]:
            raise AssertionError(f"{words}: {self.err}")

    def verdict(self, name, held):
        """What the table says: enforced means that it was tried and held."""
        limit = self.report["limits"].get(name, {"enforced": False, "by": "none"})
        if held:
            return "enforced"
        reason = re.search(r"not enforced: ([^(\n]*)", self.err)
        if limit["enforced"]:
            raise AssertionError(f"{name}: kern says that it binds, but it was exceeded: {self.report} {self.out} {self.err}")
        return "no: " + (reason.group(1).strip() if reason else limit["by"])


def eat(mib, *options):
    return Box(*options, command=["/probe", "eat", str(mib)])


def memory():
    box = eat(200, "-m", "64m")
    return box.verdict("memory", box.code == 137 and box.fault == "oom")


def swap():
    without = eat(90, "-m", "64m")
    ample = eat(90, "-m", "64m", "--memory-swap-max", "200m")
    return without.verdict("swap", without.code == 137 and ample.code == 0)


def pids():
    box = Box("--pids-limit", "20", command=["/probe", "forks", "60"])
    return box.verdict("pids", box.out.split()[1:] == [str(box.usage["peak_pids"] - 1), "11"] and box.usage["peak_pids"] <= 20)


def cpu():
    box = Box("--cpus", "0.2", "--timeout", "1.5", command=["/bin/sh", "-c", "(while :; do :; done) & while :; do :; done"])
    return box.verdict("cpu", box.usage["cpu_ms"] < box.usage["wall_ms"] * 0.3)


def cpuset():
    box = Box("--cpuset-cpus", "0", command=["/usr/bin/python3", "-IS", "-c", WIDEN])
    return box.verdict("cpuset", box.out == "{0}\n")


def io():
    """A weight is a share among those who wait for one disk, which an emulated machine is too slow to show."""
    box = Box("--io-weight", "50", command=["true"])
    limit = box.report["limits"]["io"]
    if limit["by"] == "none":
        return box.verdict("io", False)
    return "set; the disk's scheduler decides"


ROWS = {"memory": memory, "swap": swap, "pids": pids, "cpu": cpu, "cpuset": cpuset, "io": io}


def prepare():
    """Swap to flee into, and a disk whose scheduler heeds weights."""
    subprocess.run("dd if=/dev/zero of=/var/tmp/swap bs=1M count=256 status=none && chmod 600 /var/tmp/swap && "
                   "mkswap -q /var/tmp/swap && swapon /var/tmp/swap; "
                   "modprobe bfq && echo bfq >/sys/block/vda/queue/scheduler", shell=True, check=True)
    shutil.copy(os.path.join(os.environ["KERN_HELPERS"], "probe"), PROBE)
    os.makedirs("/host/results", exist_ok=True)


def main():
    if sys.argv[1] == "--attempt":
        print(json.dumps({row: attempt() for row, attempt in ROWS.items()}))
        return
    prepare()
    for column in sys.argv[1:]:
        words = [*WAYS[column], "env", f"KERN={KERN}", sys.executable, "-I", os.path.abspath(__file__), "--attempt"]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True, timeout=200)
        cells = json.loads(done.stdout)
        print(f"{column}: {cells}", flush=True)
        with open(f"/host/results/{column}.json", "w", encoding="utf-8") as file:
            json.dump(cells, file)


main()

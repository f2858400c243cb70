"""The made-up lines and buses of the virtual machine, the kern.toml that grants some of them, and boxes that have them."""

import glob
import json
import os
import shutil
import subprocess
import tempfile
import time

KERN = os.environ["KERN"]
USER = 1000
RACES = int(os.environ.get("KERN_RACES", "150")) # of a hostile program; 10,000 of each kind take four minutes
CONFIG = """
[[gpio]]
id = "sim"
chip = "kern-sim"
total_pins = 8

[[vgpio]]
name = "two"
backend = "sim"
pins = [1, "line2"]

[[vgpio]]
name = "input"
backend = "sim"
pins = [{line = 1, direction = "in"}, {line = 2, direction = "out", active_low = true}]

[[vgpio]]
name = "low"
backend = "sim"
pins = [{line = 1, on_exit = "low"}, {line = 2, on_exit = "hold"}]

[[vgpio]]
name = "exit"
backend = "sim"
pins = [{line = 1, on_exit = "low"}, {line = 2, on_exit = "high"}, {line = 4, on_exit = "input"},
        {line = 5, on_exit = "hold"}, {line = 6, on_exit = "high"},
        {line = 0, on_exit = "high", active_low = true}]

[[vgpio]]
name = "board"
i2c = [{bus = 1, address = 0x40}, {bus = 1, address = 0x41, readonly = true}]

[[vgpio]]
name = "slow"
backend = "sim"
pins = [1, 2]
i2c = [{bus = 1, address = 0x60}]

[[vgpio]]
name = "plug"
pins = [{chip = "kern-plug", line = 1}]

[[vgpio]]
name = "beyond"
pins = [{chip = "kern-sim-b", line = 4}]

[[vgpio]]
name = "other"
pins = [{chip = "kern-sim-b", line = 0}]

[[vgpio]]
name = "bus"
i2c = ["0"]

[[vgpio]]
name = "one"
i2c = [{bus = 0, address = 0x50}]

[[vgpio]]
name = "readonly"
i2c = [{bus = 0, address = 0x50, readonly = true}]

[[vgpio]]
name = "spi"
spi = ["0.0"]

[[vgpio]]
name = "absent"
spi = ["7.7"]

[[vgpio]]
name = "required"
spi = ["7.7"]
required = true

[[vgpio]]
name = "twice"
pins = ["line7"]

[[vgpio]]
name = "never"
required = true
pins = ["nosuch"]

[[vgpio]]
name = "nochip"
required = true
pins = [{chip = "nosuch", line = 1}]

[[vgpio]]
name = "label"
pins = [{chip = "nosuch", line = 17}]

[[vgpio]]
name = "led"
leds = ["kern-led"]

[[vgpio]]
name = "uleds"
extra = ["/dev/uleds"]
"""


# Both interfaces of the kernel without a library: lines v1|v2 get LINE | set LINE VALUE | edge LINE | turn LINE (from input to
# output, high). And: lines NODE keep|let LINE, for an unplugging.
LINES = """#!/usr/bin/python3 -IS
import errno, fcntl, os, struct, sys, time
api, what, line = sys.argv[1], sys.argv[2], int(sys.argv[3])
value = int(sys.argv[4]) if len(sys.argv) > 4 else 0
chip = os.open(api if api[0] == "/" else "/dev/gpiochip0", os.O_RDWR)
IN, OUT, EDGES = 4, 8, 48

def config(flags, value):
    # the values are an attribute; it belongs to outputs only
    if not flags & OUT:
        return struct.pack("QI20x240x", flags, 0)
    return struct.pack("QI20xIIQQ216x", flags, 1, 2, 0, value, 1)

def second(flags):
    body = bytearray(struct.pack("I252x32s", line, b"lines") + config(flags, value) + struct.pack("II20xi", 1, 0, 0))
    fcntl.ioctl(chip, 0xc250b407, body)
    return struct.unpack("i", body[-4:])[0]

def first(flags):
    body = bytearray(struct.pack("I252xIB63x32sIi", line, flags, value, b"lines", 1, 0))
    fcntl.ioctl(chip, 0xc16cb403, body)
    return struct.unpack("i", body[-4:])[0]

def told(function):
    try:
        return function()
    except OSError as error:
        return errno.errorcode[error.errno]

def name():
    body = bytearray(68)
    fcntl.ioctl(chip, 0x8044b401, body)
    return body[32:64].rstrip(bytes(1)).decode()

if api[0] == "/":
    fd, end = second(IN), time.monotonic() + 60
    if what == "let":
        os.close(fd)
    print("has it", flush=True)
    while told(name) != "ENODEV" and time.monotonic() < end:
        time.sleep(.05)
    first_answer = told(lambda: second(IN))
    os.close(chip)
    if what == "keep":
        os.close(fd)
    print(first_answer, flush=True)
    while time.monotonic() < end:
        chip = told(lambda: os.open(api, os.O_RDWR))
        if isinstance(chip, int) or what == "keep" and time.monotonic() > end - 55:
            break
        time.sleep(.05)
    print(*[chip] if isinstance(chip, str) else [name(), "got" if isinstance(told(lambda: second(IN)), int)
                                                 else told(lambda: second(IN))])
    sys.exit(0)
if api == "v2":
    fd = second(EDGES | IN if what == "edge" else OUT if what == "set" else IN)
elif what == "edge":
    body = bytearray(struct.pack("III32si", line, 1, 3, b"lines", 0))
    fcntl.ioctl(chip, 0xc030b404, body)
    fd = struct.unpack("i", body[-4:])[0]
else:
    fd = first(2 if what == "set" else 1)
if what == "turn" and api == "v2":
    fcntl.ioctl(fd, 0xc110b40d, bytearray(config(OUT, 1)))
elif what == "turn":
    fcntl.ioctl(fd, 0xc054b40a, bytearray(struct.pack("IB63x16x", 2, 1)))
if what == "edge":
    print("waits", flush=True)
    print("event of", len(os.read(fd, 64)), "bytes")
else:
    body = bytearray(struct.pack("QQ", 0, 1)) if api == "v2" else bytearray(64)
    fcntl.ioctl(fd, 0xc010b40e if api == "v2" else 0xc040b408, body)
    print("value", body[0])
"""


def setUpModule():
    subprocess.run(["/host/hardware"], check=True, capture_output=True, timeout=60)
    for name in ("attack", "attack32"):
        shutil.copy(os.path.join(os.environ["KERN_HELPERS"], name), "/usr/local/bin")
    with open("/usr/local/bin/lines", "w", encoding="ascii") as file:
        file.write(LINES)
    os.chmod("/usr/local/bin/lines", 0o755)


def pull(line, state, bank="gpiochip0"):
    with open(glob.glob(f"/sys/devices/platform/gpio-sim.*/{bank}/sim_gpio{line}/pull")[0], "w", encoding="ascii") as file:
        file.write(state)


def level(line, bank="gpiochip0"):
    with open(glob.glob(f"/sys/devices/platform/gpio-sim.*/{bank}/sim_gpio{line}/value")[0], encoding="ascii") as file:
        return file.read().strip()


def seen(address):
    """How many messages reached an address of the board's bus."""
    with open("/sys/module/kern_board/parameters/seen", encoding="ascii") as file:
        return int(file.read().split(",")[address])


def direction(line):
    done = subprocess.run(["gpioinfo", "gpiochip0"], check=True, capture_output=True, text=True, timeout=20)
    return "output" if "output" in done.stdout.splitlines()[1 + line] else "input"


def board(*words):
    return subprocess.run(["i2ctransfer", "-y", "1", *words], check=True, capture_output=True, text=True, timeout=20).stdout.strip()


def is_running(word):
    return subprocess.run(["pgrep", "-f", word], capture_output=True, check=False, timeout=20).returncode == 0


SIM = "/sys/kernel/config/gpio-sim"


def shell(line):
    subprocess.run(line, shell=True, check=True, timeout=20)


def plug(name, label):
    """Another chip of four lines. Returns its node."""
    shell(f"mkdir -p {SIM}/{name}/bank; cd {SIM}/{name}; echo 4 >bank/num_lines; echo {label} >bank/label; echo 1 >live;"
          "udevadm settle -t 5; chgrp gpio /dev/gpiochip*; chmod 660 /dev/gpiochip*")
    with open(f"{SIM}/{name}/bank/chip_name", encoding="ascii") as file:
        return "/dev/" + file.read().strip()


def unplug(name):
    shell(f"cd {SIM}; echo 0 >{name}/live; rmdir {name}/bank {name}")


def wait_for_level(line, wanted):
    end = time.monotonic() + 30
    while level(line) != wanted and time.monotonic() < end:
        time.sleep(0.1)


class Result:
    def __init__(self, done, report):
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        self.report = report

    def __str__(self):
        return f"exit {self.code}\n{self.out}\n{self.err}\n{self.report}"


class Boxes:
    """Runs boxes with a kern.toml of its own as user `uid`."""

    options = ()
    in_group = True # that of the hardware

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        os.chmod(cls.folder, 0o755)
        cls.config = os.path.join(cls.folder, "kern.toml")
        home = os.path.join(cls.folder, "home")
        os.makedirs(os.path.join(home, "kern"))
        cls.config = os.path.join(home, "kern", "kern.toml")
        with open(cls.config, "w", encoding="ascii") as file:
            file.write(CONFIG)
        subprocess.run(["chown", "-R", str(cls.uid), home], check=True)
        cls.home = home

    def command(self, profile, *words, options=()):
        name = [] if profile is None else [f"vgpio:{profile}"]
        return [KERN, "box", *name, "--report", f"{self.home}/report", *options, "--",
                *words]

    def start(self, profile, *words, options=(), **more):
        environment = {"PATH": os.environ["PATH"], "XDG_CONFIG_HOME": self.home, "HOME": self.home,
                       "XDG_RUNTIME_DIR": f"/run/user/{self.uid}" if self.uid else ""}
        groups = [os.stat("/dev/gpiochip0").st_gid] * self.in_group if self.uid else None
        return subprocess.Popen(self.command(profile, *words, options=options), env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                user=self.uid or None, group=self.uid or None, extra_groups=groups, **more)

    def box(self, profile, *words, options=()):
        with self.start(profile, *words, options=options) as process:
            out, err = process.communicate(timeout=120 + RACES / 10)
        done = subprocess.CompletedProcess(words, process.returncode, out, err)
        try:
            with open(f"{self.home}/report", encoding="utf-8") as file:
                report = json.load(file)
        except (FileNotFoundError, json.JSONDecodeError):
            report = None
        return Result(done, report)

    def good(self, profile, *words, options=()):
        result = self.box(profile, *words, options=options)
        self.assertEqual(result.code, 0, result)
        return result

    def denied(self, result, what, reason=""):
        rows = result.report["denied"]["devices"]
        self.assertTrue(any(what in json.dumps(row) and reason in json.dumps(row) for row in rows), result)

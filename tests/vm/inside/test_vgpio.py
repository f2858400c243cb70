"""Single GPIO lines and I2C addresses in a box, on the virtual machine's made-up hardware. As root, and as user "box", who is in
group gpio and has no other rights."""

import glob
import json
import os
import shutil
import subprocess
import tempfile
import time
import unittest

KERN = os.environ["KERN"]
USER = 1000
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
name = "led"
leds = ["kern-led"]

[[vgpio]]
name = "uleds"
extra = ["/dev/uleds"]
"""


def setUpModule():
    subprocess.run(["/host/hardware"], check=True, capture_output=True, timeout=60)
    shutil.copy(os.path.join(os.environ["KERN_HELPERS"], "attack"), "/usr/local/bin/attack")


def pull(line, state, bank="gpiochip0"):
    with open(glob.glob(f"/sys/devices/platform/gpio-sim.*/{bank}/sim_gpio{line}/pull")[0], "w", encoding="ascii") as file:
        file.write(state)


def level(line, bank="gpiochip0"):
    with open(glob.glob(f"/sys/devices/platform/gpio-sim.*/{bank}/sim_gpio{line}/value")[0], encoding="ascii") as file:
        return file.read().strip()


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
    """Mixed into the cases of root and of the user."""

    options = ()

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
        groups = [os.stat("/dev/gpiochip0").st_gid] if self.uid else None
        return subprocess.Popen(self.command(profile, *words, options=options), env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                user=self.uid or None, group=self.uid or None, extra_groups=groups, **more)

    def box(self, profile, *words, options=()):
        with self.start(profile, *words, options=options) as process:
            out, err = process.communicate(timeout=120)
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

    # ---- Lines

    def test_a_granted_line_works_as_outside(self):
        for state, value in (("pull-up", "1"), ("pull-down", "0")):
            pull(1, state)
            self.assertEqual(self.good("two", "gpioget", "gpiochip0", "1").out, f"{value}\n")

    def test_a_granted_line_is_set(self):
        with self.start("two", "gpioset", "--mode=time", "--sec=20", "gpiochip0", "2=1") as process:
            wait_for_level(2, "1")
            self.assertEqual(level(2), "1")
            process.terminate()
            process.communicate(timeout=60)

    def test_the_name_of_a_line(self):
        self.assertEqual(self.good("two", "gpiofind", "line2").out, "gpiochip0 2\n")

    def test_an_ungranted_line_is_denied(self):
        result = self.box("two", "gpioget", "gpiochip0", "3")
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("Operation not permitted", result.err)
        self.denied(result, "gpiochip0 line 3", "not granted")
        self.assertIn("kern: note: denied devices: gpiochip0 line 3", result.err)

    def test_one_ungranted_among_granted(self):
        result = self.box("two", "gpioget", "gpiochip0", "1", "2", "3")
        self.assertNotEqual(result.code, 0, result)
        self.denied(result, "gpiochip0 line 3")

    def test_what_is_not_granted_looks_used(self):
        out = self.good("two", "gpioinfo", "gpiochip0").out
        free = [line.split('"')[1] for line in out.splitlines() if "unused" in line]
        self.assertEqual(free, ["line1", "line2"], out)

    def test_another_chip_is_not_there(self):
        result = self.box("two", "ls", "/dev/gpiochip1")
        self.assertNotEqual(result.code, 0, result)

    def test_events(self):
        command = self.start("two", "gpiomon", "--num-events=1", "gpiochip0", "1")
        with command as process:
            end = time.monotonic() + 60
            while process.poll() is None and time.monotonic() < end:
                pull(1, "pull-up")
                time.sleep(0.05)
                pull(1, "pull-down")
                time.sleep(0.05)
            out, err = process.communicate(timeout=10)
        self.assertIn("EDGE", out, err)

    def test_python_libgpiod(self):
        script = ("import gpiod; chip = gpiod.Chip('gpiochip0'); line = chip.get_line(1);"
                  "line.request('x', gpiod.LINE_REQ_DIR_IN); print(line.get_value())")
        pull(1, "pull-up")
        self.assertEqual(self.good("two", "python3", "-c", script).out, "1\n")

    def test_directions(self):
        pull(1, "pull-up")
        self.assertEqual(self.good("input", "gpioget", "gpiochip0", "1").out, "1\n")
        result = self.box("input", "gpioset", "gpiochip0", "1=1")
        self.assertNotEqual(result.code, 0, result)
        self.denied(result, "gpiochip0 line 1", "as an input")
        result = self.box("input", "gpioget", "gpiochip0", "2")
        self.assertNotEqual(result.code, 0, result)

    def test_active_low(self):
        with self.start("input", "gpioset", "--mode=time", "--sec=20", "gpiochip0", "2=0") as process:
            wait_for_level(2, "1")
            self.assertEqual(level(2), "1")
            process.terminate()
            process.communicate(timeout=60)

    def test_hold_keeps_the_value_while_the_box_lives(self):
        with self.start("low", "sh", "-c", "gpioset gpiochip0 2=1; echo set; sleep 5") as process:
            self.assertEqual(process.stdout.readline(), "set\n")
            self.assertEqual(level(2), "1")
            process.terminate()
            process.communicate(timeout=60)

    def test_two_boxes_that_want_one_line(self):
        with self.start("two", "gpioset", "--mode=time", "--sec=30", "gpiochip0", "2=1") as process:
            wait_for_level(2, "1")
            result = self.box("two", "gpioget", "gpiochip0", "2")
            process.terminate()
            process.communicate(timeout=60)
        self.assertNotEqual(result.code, 0, result)
        self.assertIn("taken by another program or box", result.err)

    def test_the_supervisor_is_killed(self):
        with self.start("two", "gpioset", "--mode=time", "--sec=60", "gpiochip0", "2=1") as process:
            wait_for_level(2, "1")
            process.kill()
            process.communicate(timeout=60)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            done = subprocess.run(["gpioget", "gpiochip0", "2"], capture_output=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        self.assertEqual(done.returncode, 0, done)

    # ---- Words

    def test_names(self):
        for profile, part in (("twice", '2 lines are called "line7"'), ("never", "nosuch is not there"),
                              ("nochip", "nosuch")):
            with self.subTest(profile):
                result = self.box(profile, "true")
                self.assertEqual(result.code, 1, result)
                self.assertIn(part, result.err)

    def test_absent_hardware(self):
        result = self.good("absent", "true")
        self.assertIn("kern: warning: spi: 7.7 is not there", result.err)
        self.assertEqual(self.box("required", "true").code, 1)

    # ---- I2C

    def test_the_whole_bus(self):
        self.good("bus", "sh", "-c", "i2cset -y 0 0x51 0x10 0xa1 && i2cget -y 0 0x51 0x10")

    def test_one_address(self):
        result = self.good("one", "sh", "-c", "i2cset -y 0 0x50 0x11 0xb2 && i2cget -y 0 0x50 0x11")
        self.assertEqual(result.out, "0xb2\n")
        result = self.box("one", "i2cget", "-y", "0", "0x51", "0x11")
        self.assertNotEqual(result.code, 0, result)
        self.denied(result, "i2c-0 address 0x51")
        result = self.box("one", "i2cget", "-y", "-f", "0", "0x50", "0x11")
        self.assertNotEqual(result.code, 0, result)

    def test_python_smbus(self):
        script = "import smbus; bus = smbus.SMBus(0); bus.write_byte_data(0x50, 1, 7); print(bus.read_byte_data(0x50, 1))"
        self.assertEqual(self.good("one", "python3", "-c", script).out, "7\n")

    def test_readonly(self):
        subprocess.run(["i2cset", "-y", "0", "0x50", "0x12", "0xc3"], check=True, timeout=20)
        self.assertEqual(self.good("readonly", "i2cget", "-y", "0", "0x50", "0x12").out, "0xc3\n")
        result = self.box("readonly", "i2cset", "-y", "0", "0x50", "0x12", "0x00")
        self.assertNotEqual(result.code, 0, result)
        self.denied(result, "i2c-0 address 0x50", "reading only")
        done = subprocess.run(["i2cget", "-y", "0", "0x50", "0x12"], check=True, capture_output=True, text=True, timeout=20)
        self.assertEqual(done.stdout, "0xc3\n")

    # ---- A hostile program (tests/vm/attack)

    def attack(self, profile, kind):
        races = os.environ.get("KERN_RACES", "300")
        result = self.box(profile, "/usr/local/bin/attack", kind, races)
        self.assertEqual((result.code, result.out), (0, ""), result)

    def test_an_attack_on_lines(self):
        self.attack("two", "gpio")

    def test_an_attack_on_a_bus(self):
        self.attack("one", "i2c")

    # ---- kern probe

    def test_probe(self):
        def probe(*words):
            return subprocess.run([KERN, "probe", *words], capture_output=True, text=True, check=True, timeout=60,
                                  user=self.uid or None, extra_groups=[os.stat("/dev/gpiochip0").st_gid]).stdout
        rows = json.loads(probe("--json", "--scan-i2c"))
        chips = {row["name"]: (row["detail"], row["number"]) for row in rows if row["kind"] == "chip"}
        self.assertEqual(chips, {"gpiochip0": ("kern-sim", 8), "gpiochip1": ("kern-sim-b", 4)})
        names = [row["name"] for row in rows]
        for name in ("gpiochip0:3", "0", "{bus = 0, address = 0x50}", "0.0"):
            self.assertIn(name, names)
        self.assertNotIn("{bus = 0, address = 0x40}", names)
        self.assertIn('chip = "kern-sim"', probe("--toml"))

    # ---- Nodes

    def test_spi(self):
        script = "import os, fcntl; fd = os.open('/dev/spidev0.0', os.O_RDWR); print(fcntl.ioctl(fd, 0x80016b01, b'x'))"
        self.good("spi", "python3", "-c", script)
        self.assertNotEqual(self.box(None, "ls", "/dev/spidev0.0").code, 0)

    def test_a_misc_device_that_is_harmless(self):
        self.good("uleds", "test", "-c", "/dev/uleds")


class AsRoot(Boxes, unittest.TestCase):
    uid = 0


class AsUser(Boxes, unittest.TestCase):
    uid = USER

    def test_groups_are_said(self):
        result = self.good("two", "true")
        self.assertIn("keeps your supplementary groups", result.err)
        result = self.box("two", "true", options=["--security-profile", "untrusted"])
        self.assertEqual(result.code, 1, result)


if __name__ == "__main__":
    unittest.main()

"""The keys of a [[vgpio]] profile that stand for a node or a directory of /sys, each on a device that the kernel makes up. As root,
and as user "box", who is in group gpio. Runs in the tests' virtual machine after test_vgpio.py, in the same boot."""

import fcntl
import glob
import os
import struct
import subprocess
import time
import tty
import unittest

from vgpio_kit import KERN, Boxes

USER = 1000
PROFILES = """
[[gpio]]
id = "board"
chip = "kern-sim"

[[vgpio]]
name = "camera"
camera = [0]

[[vgpio]]
name = "audio"
audio = [0]

[[vgpio]]
name = "midi"
midi = ["midiC1D0"]

[[vgpio]]
name = "input"
input = ["event_test"]

[[vgpio]]
name = "display"
display = ["fb0", "dri/card0"]

[[vgpio]]
name = "usb"
usb = ["001/002"]

[[vgpio]]
name = "uart"
uart = ["ttyACM0"]

[[vgpio]]
name = "can"
can = ["can0"]

[[vgpio]]
name = "bluetooth"
bluetooth = ["hci0"]

[[vgpio]]
name = "adc"
backend = "board"
adc = [0]

[[vgpio]]
name = "onewire"
backend = "board"
onewire = ["01-00316a2795bf"]

[[vgpio]]
name = "pwm"
backend = "board"
pwm = ["pwmchip0:0", "pwmchip0:1"]

[[vgpio]]
name = "leds"
leds = ["kern-led", "kern::user"]

[[vgpio]]
name = "disk"
extra = ["/dev/disk-link"]
"""
LED = "/sys/class/leds/kern-led/brightness"


def read(path):
    with open(path, encoding="ascii") as file:
        return file.read().strip()


def make_input():
    """A keyboard of uinput. Returns what keeps it, and the number of its event node."""
    fd = os.open("/dev/uinput", os.O_WRONLY | os.O_NONBLOCK)
    fcntl.ioctl(fd, 0x40045564, 1)  # UI_SET_EVBIT EV_KEY
    fcntl.ioctl(fd, 0x40045565, 30)  # UI_SET_KEYBIT KEY_A
    fcntl.ioctl(fd, 0x405c5503, struct.pack("HHHH80sI", 3, 1, 1, 1, b"kern-keys", 0))  # UI_DEV_SETUP
    fcntl.ioctl(fd, 0x5501)  # UI_DEV_CREATE
    time.sleep(0.5)
    names = [path for path in glob.glob("/sys/class/input/event*") if read(f"{path}/device/name") == "kern-keys"]
    return fd, os.path.basename(names[0])


def setUpModule():
    subprocess.run(["/host/hardware", "all"], check=True, capture_output=True, timeout=100)
    global KEYS, HCI, USER_LED
    KEYS, event = make_input()
    HCI = os.open("/dev/vhci", os.O_RDWR)
    os.write(HCI, b"\xff\x00")
    USER_LED = os.open("/dev/uleds", os.O_RDWR | os.O_NONBLOCK)
    os.write(USER_LED, struct.pack("64si", b"kern::user", 255))
    globals()["TOML"] = PROFILES.replace("event_test", event)
    os.symlink("/dev/vda", "/dev/disk-link")
    subprocess.run("udevadm settle -t 10; chgrp gpio /dev/snd/* /dev/input/event* /dev/fb0 /dev/dri/* /dev/bus/usb/*/* /dev/ttyACM0 /dev/video0"
                   " /sys/class/leds/kern*/brightness;"
                   "chmod 660 /dev/snd/* /dev/input/event* /dev/fb0 /dev/dri/* /dev/bus/usb/*/* /dev/ttyACM0 /dev/video0"
                   " /sys/class/leds/kern*/brightness", shell=True, check=False, capture_output=True)


class Devices(Boxes):
    """Mixed into the cases of root and of the user."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        with open(cls.config, "w", encoding="ascii") as file:
            file.write(TOML)

    def setUp(self):
        pass

    def python(self, profile, script, **more):
        return self.good(profile, "python3", "-IS", "-c", script, **more).out

    def test_nodes(self):
        """Opened and asked who it is, by what only such a device understands; and no other node is in the box."""
        ioctl = "import fcntl, os; b = bytearray({size}); fcntl.ioctl(os.open({node!r}, os.O_RDWR | os.O_NONBLOCK), {number}, b); print(bytes(b))"
        for profile, node, number, size, part in (
                ("camera", "/dev/video0", 0x80685600, 104, "vivid"), ("audio", "/dev/snd/controlC0", 0x81785501, 376, "Dummy"),
                ("midi", "/dev/snd/midiC1D0", 0x810c5701, 268, "VirMidi"), ("display", "/dev/fb0", 0x4602, 80, "Virtual FB"),
                ("display", "/dev/dri/card0", 0xc0406400, 64, ""), ("usb", "/dev/bus/usb/001/002", 0x8004551a, 4, ""),
                ("uart", "/dev/ttyACM0", 0x5401, 64, "")):
            with self.subTest(node):
                out = self.python(profile, ioctl.format(node=node, number=number, size=size))
                self.assertIn(part, out)
                self.assertNotEqual(self.box(None, "ls", node).code, 0)
        self.assertNotEqual(self.box("camera", "ls", "/dev/video1").code, 0)
        self.assertNotEqual(self.box("audio", "ls", "/dev/snd/midiC1D0").code, 0)
        self.assertEqual(self.box("audio", "ls", "/dev/snd").out, "controlC0\npcmC0D0c\npcmC0D0p\n")

    def test_a_key_arrives(self):
        node = TOML.split('input = ["')[1].split('"')[0]
        script = (f"import os; fd = os.open('/dev/input/{node}', os.O_RDONLY); print('reads', flush=True);"
                  "print(os.read(fd, 24)[16:20].hex())")
        with self.start("input", "python3", "-IS", "-c", script) as process:
            self.assertEqual(process.stdout.readline(), "reads\n")
            for value in (1, 0):
                os.write(KEYS, struct.pack("QQHHi", 0, 0, 1, 30, value) + struct.pack("QQHHi", 0, 0, 0, 0, 0))
            out, err = process.communicate(timeout=60)
        self.assertEqual(out, "01001e00\n", err)

    def test_a_serial_line_carries_words(self):
        script = ("import os, termios, tty; fd = os.open('/dev/ttyACM0', os.O_RDWR | os.O_NOCTTY); tty.setraw(fd);"
                  "os.write(fd, b'ping'); print(os.read(fd, 4).decode())")
        other = os.open("/dev/ttyGS0", os.O_RDWR | os.O_NOCTTY)
        tty.setraw(other)
        with self.start("uart", "python3", "-IS", "-c", script) as process:
            self.assertEqual(os.read(other, 4), b"ping")
            os.write(other, b"pong")
            out, err = process.communicate(timeout=60)
        os.close(other)
        self.assertEqual(out, "pong\n", err)

    def test_directories_to_be_read(self):
        for profile, path, part in (("adc", "/sys/bus/iio/devices/iio:device0/in_voltage0_raw", "1234"),
                                    ("onewire", "/sys/bus/w1/devices/01-00316a2795bf/name", "01-00316a2795bf"),
                                    ("can", "/sys/class/net/can0/type", "280"), ("bluetooth", "/sys/class/bluetooth/hci0/uevent", "DEVTYPE=host")):
            with self.subTest(path):
                self.assertIn(part, self.good(profile, "cat", path).out)
                folder = os.path.dirname(path)
                self.assertEqual(self.good(profile, "ls", os.path.dirname(folder)).out, os.path.basename(folder) + "\n")
                result = self.box(profile, "sh", "-c", f"echo 1 >{folder}/uevent")
                self.assertIn("Read-only file system", result.err)

    def test_a_disk_behind_a_link(self):
        result = self.box("disk", "true")
        self.assertEqual(result.code, 1, result)
        self.assertIn("a disk", result.err)

    def test_leds(self):
        before = os.stat(LED)
        for options in ((), ("--read-only",)):
            with self.subTest(options):
                script = f"echo 7 >{LED}; echo 9 >/sys/class/leds/kern::user/brightness; ls /sys/class/leds"
                out = self.good("leds", "sh", "-c", script, options=options).out
                self.assertEqual(out, "kern-led\nkern::user\n")
                self.assertEqual(read(LED), "7")
                self.assertEqual(struct.unpack("i", os.read(USER_LED, 4))[0], 9)
                self.good("leds", "sh", "-c", f"echo 0 >{LED}; echo 0 >/sys/class/leds/kern::user/brightness", options=options)
                os.read(USER_LED, 4)
        after = os.stat(LED)
        self.assertEqual((after.st_uid, after.st_gid), (before.st_uid, before.st_gid))


class AsRoot(Devices, unittest.TestCase):
    uid = 0

    def test_pwm(self):
        script = ("cd /sys/class/pwm/pwmchip0/pwm1 && echo 1000 >period && echo 500 >duty_cycle && echo 1 >enable && cat duty_cycle;"
                  "ls /sys/class/pwm/pwmchip0")
        self.assertEqual(self.good("pwm", "sh", "-c", script).out, "500\npwm0\npwm1\n")
        self.assertEqual(glob.glob("/sys/class/pwm/pwmchip0/pwm[0-9]"), [], "the channels are taken back")

    def killed(self, profile):
        with self.start(profile, "sh", "-c", "echo up; exec sleep 60") as process:
            self.assertEqual(process.stdout.readline(), "up\n")
            process.kill()
            process.communicate(timeout=60)

    def test_what_a_killed_kern_leaves(self):
        for profile, is_left in (("leds", lambda: os.stat(LED).st_uid != 0),
                                 ("pwm", lambda: os.path.exists("/sys/class/pwm/pwmchip0/pwm1"))):
            with self.subTest(profile):
                self.killed(profile)
                self.assertTrue(is_left())
                subprocess.run([KERN, "ps"], check=True, capture_output=True, timeout=60)
                self.assertFalse(is_left())
        self.killed("leds")
        self.good("leds", "sh", "-c", f"echo 3 >{LED}")  # the next box, before anything else looked
        self.assertEqual(os.stat(LED).st_uid, 0)

    def test_two_boxes_that_want_one_led(self):
        with self.start("leds", "sh", "-c", "echo up; exec sleep 60") as process:
            self.assertEqual(process.stdout.readline(), "up\n")
            result = self.box("leds", "true")
            process.terminate()
            process.communicate(timeout=60)
        self.assertEqual(result.code, 1, result)
        self.assertIn('another box has it', result.err)
        self.good("leds", "true")


class AsUser(Devices, unittest.TestCase):
    uid = USER

    def test_a_channel_that_is_roots(self):
        result = self.box("pwm", "true")
        self.assertEqual(result.code, 1, result)
        self.assertIn("cannot export channel 0 of pwmchip0: Permission denied", result.err)


if __name__ == "__main__":
    unittest.main()

"""Single GPIO lines and I2C addresses in a box, on the virtual machine's made-up hardware. As root, and as user "box", who is in
group gpio and has no other rights."""

import json
import os
import subprocess
import time
import unittest

from vgpio_kit import (Boxes, KERN, RACES, USER, board, direction, is_running, level, plug, pull, seen, setUpModule, unplug,
                       wait_for_level)


class Devices(Boxes):
    """Mixed into the cases of root and of the user."""

    def setUp(self):
        for line in range(8):
            pull(line, "pull-down")

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

    def test_both_interfaces_as_outside(self):
        """The same program, outside and inside: the same answers."""
        for words in (("v1", "get", "1"), ("v2", "get", "1"), ("v1", "set", "2", "1"), ("v2", "set", "2", "1"),
                      ("v1", "turn", "2"), ("v2", "turn", "2")):
            with self.subTest(words):
                pull(1, "pull-up")
                outside = subprocess.run(["lines", *words], check=True, capture_output=True, text=True, timeout=20).stdout
                self.assertEqual(outside, "value 1\n")
                pull(2, "pull-down")
                self.assertEqual(self.good("two", "lines", *words).out, outside)
                self.assertEqual(level(2), str(int(words[1] != "get")))

    def test_on_exit(self):
        subprocess.run(["gpioget", "gpiochip0", "4", "6"], check=True, capture_output=True, timeout=20)
        script = "gpioset gpiochip0 1=1 2=0 4=1 5=1 && lines v2 set 0 1"
        self.good("exit", "sh", "-c", script)
        self.assertEqual([level(line) for line in (1, 2, 5)], ["0", "1", "1"])
        self.assertEqual([direction(line) for line in (1, 2, 4, 5)], ["output", "output", "input", "output"])
        self.assertEqual(level(0), "1", "the level of the pin, whatever active_low says")
        self.assertEqual((level(6), direction(6)), ("0", "input"), "what the box did not request is left alone")

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
        while is_running("gpioset --mode") and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual((level(2), direction(2)), ("1", "output"), "a free line keeps what was set")
        while time.monotonic() < end:
            done = subprocess.run(["gpioget", "gpiochip0", "2"], capture_output=True, check=False)
            if done.returncode == 0:
                break
            time.sleep(0.1)
        self.assertEqual(done.returncode, 0, done)

    def test_the_supervisor_is_killed_in_a_request(self):
        script = "gpioset --mode=time --sec=60 gpiochip0 2=1 & i2ctransfer -y 1 r1@0x60"
        before = seen(0x60)
        with self.start("slow", "sh", "-c", script) as process:
            wait_for_level(2, "1")
            while seen(0x60) == before:
                time.sleep(0.02)
            process.kill() # the device answers two seconds later
            process.communicate(timeout=60)
        end = time.monotonic() + 10
        while (is_running("gpioset --mode") or is_running("i2ctransfer -y")) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertFalse(is_running("gpioset --mode") or is_running("i2ctransfer -y"))
        subprocess.run(["gpioget", "gpiochip0", "2"], check=True, capture_output=True, timeout=20)
        self.good("slow", "gpioget", "gpiochip0", "2")
        self.assertEqual(self.good("slow", "i2ctransfer", "-y", "1", "r1@0x60").out, "0x00\n")

    # ---- Words

    def test_names(self):
        for profile, part in (("twice", '2 lines are called "line7"'), ("never", "nosuch is not there"),
                              ("nochip", "nosuch"), ("beyond", '"gpiochip1" has lines 0 to 3')):
            with self.subTest(profile):
                result = self.box(profile, "true")
                self.assertEqual(result.code, 1, result)
                self.assertIn(part, result.err)

    def test_absent_hardware(self):
        result = self.good("absent", "true")
        self.assertIn("kern: warning: spi: 7.7 is not there", result.err)
        self.assertEqual(self.box("required", "true").code, 1)
        result = self.good("label", "true")
        self.assertIn('kern: warning: pins: line 17 of chip "nosuch" is not there', result.err)

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

    def test_messages(self):
        """I2C_RDWR, as i2ctransfer and smbus2 use it."""
        write, read = ("w3@0x40", "0x10", "0xaa", "0xbb"), ("w1@0x40", "0x10", "r2")
        board("w3@0x40", "0x10", "0x00", "0x00")
        self.good("board", "i2ctransfer", "-y", "1", *write)
        self.assertEqual(board(*read), "0xaa 0xbb")
        self.assertEqual(self.good("board", "i2ctransfer", "-y", "1", *read).out.strip(), "0xaa 0xbb")
        script = ("import smbus; bus = smbus.SMBus(1); bus.write_i2c_block_data(0x40, 0x20, [1, 2, 3]);"
                  "print(bus.read_i2c_block_data(0x40, 0x20, 3), bus.read_word_data(0x40, 0x21))")
        self.assertEqual(self.good("board", "python3", "-c", script).out, "[1, 2, 3] 770\n")

    def test_messages_that_are_denied_reach_no_device(self):
        before = [seen(address) for address in (0x40, 0x42)]
        for words in (("r1@0x42",), ("w1@0x40", "0x10", "r1@0x42"), ("w2@0x40", "0x10", "0x11", "w1@0x42", "0x00")):
            with self.subTest(words):
                result = self.box("board", "i2ctransfer", "-y", "1", *words)
                self.assertNotEqual(result.code, 0, result)
                self.denied(result, "i2c-1 address 0x42", "not granted")
        self.assertEqual([seen(address) for address in (0x40, 0x42)], before)

    def test_messages_to_what_is_read_only(self):
        board("w2@0x41", "0x30", "0x77")
        self.assertEqual(self.good("board", "i2ctransfer", "-y", "1", "w1@0x41", "0x30", "r1").out.strip(), "0x77")
        before = seen(0x41)
        for words in (("w2@0x41", "0x30", "0x00"), ("w1@0x41", "0x30"), ("w2@0x41", "0x30", "0x00", "r1")):
            with self.subTest(words):
                result = self.box("board", "i2ctransfer", "-y", "1", *words)
                self.assertNotEqual(result.code, 0, result)
                self.denied(result, "i2c-1 address 0x41", "reading only")
        self.assertEqual(seen(0x41), before)
        self.assertEqual(board("w1@0x41", "0x30", "r1"), "0x77")

    # ---- A hostile program (tests/vm/attack)

    def attack(self, profile, kind):
        result = self.box(profile, "/usr/local/bin/attack", kind, str(RACES))
        self.assertEqual((result.code, result.out), (0, ""), result)

    def test_an_attack_on_lines(self):
        self.attack("two", "gpio")

    def test_an_attack_on_a_bus_of_messages(self):
        others = [address for address in range(128) if address not in (0x40, 0x41, 0x7f)] # 0x7f: where a bus is parked
        before = [seen(address) for address in others]
        self.attack("board", "messages")
        self.assertEqual([seen(address) for address in others], before)

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
        self.good("spi", "python3", "-IS", "-c", script)
        self.assertNotEqual(self.box(None, "ls", "/dev/spidev0.0").code, 0)

    def test_a_misc_device_that_is_harmless(self):
        self.good("uleds", "test", "-c", "/dev/uleds")


class AsRoot(Devices, unittest.TestCase):
    """And what does not depend on who runs the box."""

    uid = 0

    def plugged(self, label, keeps_line):
        """A program has a chip that is unplugged, lets go of it when told, and opens what has its number then."""
        node = plug("plug", "kern-plug")
        with self.start("plug", "lines", node, "keep" if keeps_line else "let", "1") as process:
            self.assertEqual(process.stdout.readline(), "has it\n")
            unplug("plug")
            self.assertEqual(process.stdout.readline(), "ENODEV\n")
            again = plug("plug", label)
            try:
                out, err = process.communicate(timeout=90)
            finally:
                unplug("plug")
            self.assertEqual(process.returncode, 0, err)
        return node == again, out

    def test_another_chip_of_the_same_number(self):
        self.assertEqual(self.plugged("kern-evil", False), (True, "kern-evil ENODEV\n"))
        self.assertEqual(self.plugged("kern-plug", False), (True, "kern-plug got\n"))

    def test_a_chip_that_goes_while_a_line_is_held(self):
        """This kernel never gives the number of such a chip away again: what comes is another node, which the box has not."""
        self.assertEqual(self.plugged("kern-plug", True), (False, "ENXIO\n"))

    def test_two_chips_of_one_label(self):
        plug("twin", "kern-sim")
        try:
            result = self.box("two", "true")
            self.assertEqual(result.code, 1, result)
            self.assertIn('two chips are called "kern-sim"', result.err)
            self.assertIn('hint: the chips here: gpiochip0 "kern-sim" (8 lines)', result.err)
        finally:
            unplug("twin")

    def test_a_slow_device_keeps_nobody_else_waiting(self):
        script = "(i2ctransfer -y 1 r1@0x60; echo bus) & gpioget gpiochip0 1; echo line; wait"
        self.assertEqual(self.good("slow", "sh", "-c", script).out, "0\nline\n0x00\nbus\n")

    def test_edges_by_both_interfaces(self):
        for api in ("v1", "v2"):
            with self.subTest(api), self.start("two", "lines", api, "edge", "1") as process:
                self.assertEqual(process.stdout.readline(), "waits\n")
                pull(1, "pull-up")
                out, err = process.communicate(timeout=30)
                self.assertRegex(out, "event of (16|48) bytes", err)
                pull(1, "pull-down")

    def test_on_exit_however_the_box_ends(self):
        for api in ("v1", "v2"):
            with self.subTest(api), self.start("exit", "sh", "-c", f"lines {api} set 1 1; echo set; exec sleep 60") as process:
                self.assertEqual(process.stdout.readline(), "value 1\n")
                self.assertEqual(process.stdout.readline(), "set\n")
                self.assertEqual(level(1), "1")
                process.terminate()
                process.communicate(timeout=60)
                self.assertEqual((level(1), direction(1)), ("0", "output"))

    def test_an_attack_by_the_32_bit_interface(self):
        subprocess.run(["attack32"], check=True, timeout=20) # outside it has the line
        result = self.box("two", "attack32")
        self.assertEqual(result.code, 159, result)


class AsUser(Devices, unittest.TestCase):
    uid = USER

    def test_groups_are_said(self):
        result = self.good("two", "true")
        self.assertIn("keeps your supplementary groups", result.err)
        result = self.box("two", "true", options=["--security-profile", "untrusted"])
        self.assertEqual(result.code, 1, result)
        self.assertIn("it would keep all your supplementary groups", result.err)
        result = self.box("two", "true", options=["--uid-range"])
        self.assertEqual(result.code, 1, result)
        self.assertIn("with a range of ids: it would lose group", result.err)
        self.assertNotIn("supplementary", self.good(None, "true").err)

    def test_a_chip_that_may_not_be_opened_is_not_an_absent_one(self):
        self.in_group = False
        for profile, node, group in (("two", "/dev/gpiochip0", "gpio"), ("twice", "/dev/gpiochip0", "gpio"),
                                     ("one", "/dev/i2c-0", "i2c")):
            with self.subTest(profile):
                result = self.box(profile, "true")
                self.assertEqual(result.code, 1, result)
                self.assertIn(f'cannot open "{node}": Permission denied', result.err)
                self.assertIn(f"sudo usermod -aG {group} $USER, and log in again", result.err)


if __name__ == "__main__":
    unittest.main()

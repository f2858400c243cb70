"""The made-up hardware of the tests' virtual machine itself: what the tests of device plugins build on."""

import glob
import os
import subprocess
import time
import unittest


def output(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=20).stdout


class Hardware(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        output("/host/hardware")
        cls.pull = glob.glob("/sys/devices/platform/gpio-sim.*/gpiochip0/sim_gpio3/pull")[0]

    def test_lines_follow_their_pulls(self):
        for state, level in (("pull-up", "1"), ("pull-down", "0")):
            with open(self.pull, "w", encoding="ascii") as file:
                file.write(state)
            self.assertEqual(output("gpioget", "gpiochip0", "3").strip(), level)
        self.assertIn('"line3"', output("gpioinfo", "gpiochip0"))

    def test_a_pull_is_an_edge(self):
        with subprocess.Popen(["gpiomon", "--num-events=1", "gpiochip0", "3"], stdout=subprocess.PIPE, text=True) as monitor:
            end = time.monotonic() + 60
            while monitor.poll() is None and time.monotonic() < end:
                for state in ("pull-up", "pull-down"):
                    with open(self.pull, "w", encoding="ascii") as file:
                        file.write(state)
            monitor.terminate()
            self.assertIn("EDGE", monitor.stdout.read())

    def test_the_i2c_chip_keeps_what_is_written(self):
        output("i2cset", "-y", "0", "0x50", "0x10", "0xa5")
        self.assertEqual(output("i2cget", "-y", "0", "0x50", "0x10").strip(), "0xa5")

    def test_a_user_of_the_group_may(self):
        self.assertEqual(output("su", "box", "-c", "gpioget gpiochip0 1").strip(), "0")

    def test_there_are_spi_and_leds(self):
        for path in ("/dev/spidev0.0", "/dev/uleds"):
            self.assertTrue(os.path.exists(path), path)


if __name__ == "__main__":
    unittest.main()

"""Devices for boxes as far as no hardware is needed: what is refused, and what a box says that goes without. The rest is in
tests/vm/inside/test_vgpio.py."""

import json
import os

import kerntest
from kerntest import BoxCase, as_root_and_user


@as_root_and_user
class Words(BoxCase):
    def profile(self, text, pool="", code=0, parts=(), command=("true",)):
        config = self.file(f'{pool}\n[[vgpio]]\nname = "x"\n{text}\n', "kern.toml")
        result = self.kern("box", "--config", config, "vgpio:x", "--", *command)
        self.assertEqual(result.code, code, result)
        for part in parts:
            self.assertIn(part, result.err, result)
        return result

    pool = '[[gpio]]\nid = "p"\n total-pins = 28\npins = [17, "GPIO4"]\n[[gpio]]\nid = "q"\npins = [17]\n'

    def test_pins_that_cannot_be(self):
        for text, part in (('pins = [17]', "bare number"), ('pins = ["a:b:"]', "neither"), ("pins = [-1]", "-1"),
                           ('backend = "p"\npins = [28]', "beyond pool"), ('backend = "q"\npins = [18]', "not among the pins"),
                           ("pins = [{line = 1, colour = 2}]", "colour"), ('backend = "nosuch"\npins = [1]', "nosuch"),
                           ('pins = [{chip = "x", line = 5000}]', "that many lines"), ("pins = [1.5]", "pins")):
            with self.subTest(text):
                self.profile(text, self.pool, 1, [part])

    def test_a_pool_is_named_with_its_kind_too(self):
        self.profile('backend = "gpio:p"\npins = [17]', self.pool, 0, ["kern: warning: "])
        self.profile('backend = "gpio:nosuch"\npins = [17]', self.pool, 1, ["gpio:nosuch"])

    def test_what_needs_a_pool(self):
        for key in ("pwm", "adc", "onewire"):
            with self.subTest(key):
                self.profile(f"{key} = [0]", "", 1, [f"{key} needs a [[gpio]] pool", "hint: "])

    def test_addresses_that_cannot_be(self):
        for text in ("{bus = 1, address = 0x80}", "{bus = 1, address = 0}", "{address = 1}", '"x"', '"/dev/sda"',
                     "{bus = 1, readonly = true}"):
            with self.subTest(text):
                self.profile(f"i2c = [{text}]", "", 1, ["cannot use i2c"])

    def test_absent_devices_are_a_warning(self):
        for text in ('i2c = ["987"]', 'spi = ["98.7"]', 'uart = ["ttyNOSUCH"]', "camera = [987]", "audio = [987]",
                     'midi = ["midiC98D7"]', 'input = ["event987"]', 'leds = ["nosuch"]', 'bluetooth = ["hci987"]',
                     'display = ["fb987"]', 'usb = ["987/987"]', 'can = ["can987"]', 'net = ["nosuch0"]'):
            with self.subTest(text):
                self.profile(text, "", 0, ["kern: warning: ", "is not there, the box goes without"])
                self.profile(text + "\nrequired = true", "", 1, ["is not there", "hint: "])

    def test_pooled_devices_that_are_absent(self):
        for text in ('pwm = ["pwmchip987:0"]', "adc = [987]", 'onewire = ["28-nosuch"]'):
            with self.subTest(text):
                self.profile('backend = "p"\n' + text, self.pool, 0, ["kern: warning: "])

    def test_one_interface_of_sys(self):
        script = "ls /sys/class/net; ls /sys/class; cat /sys/class/net/lo/address; (echo 1 > /sys/class/net/lo/mtu) 2>/dev/null || echo no"
        result = self.profile('net = ["lo"]', "", 0, [], ("sh", "-c", script))
        self.assertEqual(result.out, "lo\nnet\n00:00:00:00:00:00\nno\n", result)

    def test_sys_is_read_only_all_the_same(self):
        result = self.profile('net = ["lo"]', "", 0, [], ("sh", "-c", "mkdir /sys/x 2>/dev/null || echo no"))
        self.assertEqual(result.out, "no\n", result)


@as_root_and_user
class Refused(BoxCase):
    """Through a kern.toml of one's own: that of somebody else may not name paths out of its folder."""

    def extra(self, path, part):
        env = self.own_config(f'[[vgpio]]\nname = "x"\nextra = ["{path}"]\n')
        result = self.kern("box", "vgpio:x", "--", "true", env=env)
        self.assertEqual(result.code, 1, result)
        self.assertIn(part, result.err, result)

    def test_nodes_that_no_box_gets(self):
        for path, part in (("/dev/null", "every box has"), ("/dev/mem", ""), ("/dev/tty", "terminal of the host"),
                           ("/dev/ptmx", "terminal of the host"), ("/dev/fuse", "control device"), ("/dev/kvm", "control device"),
                           ("/dev/net/tun", "control device"), ("/dev/loop-control", "control device"),
                           ("/dev/shm", "directory"), ("/etc/passwd", "below /dev"), ("/dev/../etc/passwd", "below /dev")):
            if path.startswith("/dev/") and not os.path.exists(path):
                continue
            with self.subTest(path):
                self.extra(path, part)

    def test_a_disk_behind_a_link(self):
        disks = [os.path.join("/dev", name) for name in os.listdir("/dev") if name.startswith(("vda", "sda", "loop0", "nvme0n1"))]
        if not disks or os.geteuid() != 0:
            self.skipTest("no disk here, or no right to make a link in /dev")
        link, fifo = "/dev/kern-test-link", "/dev/kern-test-fifo"
        try:
            os.symlink(disks[0], link)
            os.mkfifo(fifo)
            self.extra(link, "a disk")
            self.extra(fifo, "a FIFO")
        finally:
            for path in (link, fifo):
                if os.path.lexists(path):
                    os.unlink(path)


@as_root_and_user
class Probe(BoxCase):
    def test_three_forms(self):
        table = self.kern("probe")
        self.assertEqual(table.code, 0, table)
        self.assertRegex(table.out, r"KEY +NAME +WHAT IT IS +STATE\n")
        self.assertRegex(table.out, r"\ncpu +host +[0-9]+ MiB of memory, [0-9]+ CPUs")
        rows = json.loads(self.kern("probe", "--json").out)
        cpus = [row for row in rows if row["kind"] == "cpu"]
        self.assertEqual([row["number"] for row in cpus], [len(os.sched_getaffinity(0))])
        self.assertEqual(len(rows), len(table.out.splitlines()) - 1)

    def test_what_it_prints_is_a_kern_toml(self):
        text = self.kern("probe", "--toml").out
        self.assertIn("[[cpu]]", text)
        result = self.kern("validate", self.file(text, "kern.toml"))
        self.assertEqual(result.code, 0, result)

    def test_words(self):
        self.assert_failed(self.kern("probe", "--jsn"), 1, "--jsn")
        self.assertEqual(self.kern("probe", "--help").code, 0)
        self.assertEqual(self.kern("probe", "--scan-i2c", "--json").code, 0)


if __name__ == "__main__":
    kerntest.main()

"""Rich results of the real pandas and matplotlib, in a box. A chart is decoded and looked at: the line is where it was drawn."""

import glob
import os
import struct
import sys
import unittest
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "python"))
os.environ.setdefault("KERN_BIN", os.environ.get("KERN", ""))
from kern_sandbox import Sandbox, run_code

LIBRARY = glob.glob(os.path.join(sys.prefix, "lib", "python3*", "site-packages"))[0]
OPTIONS = {"image": "host", "mounts": {LIBRARY: ("/opt/library", "ro")}, "env": {"PYTHONPATH": "/opt/library"}, "memory_mb": 1024, "timeout_s": 120}
DRAW = """
import matplotlib.pyplot as plt
fig = plt.figure(figsize=(2, 1), dpi=100)
axes = fig.add_axes([0, 0, 1, 1])
axes.axis('off'); axes.set_xlim(0, 1); axes.set_ylim(0, 1)
axes.axhspan(0, 0.5, color='#ff0000')
"""


def pixels(png):
    """(width, height, rows of (r, g, b, a)) of an RGBA PNG."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    at, data = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at:at + 8])
        body = png[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, depth, colour = struct.unpack(">IIBB", body[:10])
            assert (depth, colour) == (8, 6)
        elif kind == b"IDAT":
            data += body
        at += 12 + size
    raw, rows, before = zlib.decompress(data), [], bytes(width * 4)
    for number in range(height):
        start = number * (width * 4 + 1)
        method, line = raw[start], bytearray(raw[start + 1:start + 1 + width * 4])
        for index in range(width * 4):
            left = line[index - 4] if index >= 4 else 0
            above, corner = before[index], before[index - 4] if index >= 4 else 0
            guess = left + above - corner
            nearest = min((left, above, corner), key=lambda value: abs(guess - value))
            line[index] = (line[index] + (0, left, above, (left + above) // 2, nearest)[method]) & 255
        before = bytes(line)
        rows.append([tuple(line[index:index + 4]) for index in range(0, width * 4, 4)])
    return width, height, rows


class Charts(unittest.TestCase):
    def check(self, result):
        self.assertEqual((result.exit_code, result.fault, result.stdout), (0, None, ""))
        # The host root has no /etc/fonts, which is not a matter of results.
        self.assertEqual([line for line in result.code_stderr.splitlines() if not line.startswith("Fontconfig")], [])
        width, height, rows = pixels(result.results[-1].png)
        self.assertEqual((width, height), (200, 100))
        self.assertEqual((rows[10][100], rows[90][100]), ((255, 255, 255, 255), (255, 0, 0, 255)))
        self.assertTrue(result.results[-1].text.startswith("<Figure size 200x100"))

    def test_an_open_figure(self):
        result = run_code(DRAW + "None", **OPTIONS)
        self.assertEqual(len(result.results), 1)
        self.check(result)

    def test_a_figure_as_the_last_expression_comes_once(self):
        result = run_code(DRAW + "fig", **OPTIONS)
        self.assertEqual(len(result.results), 1)
        self.check(result)

    def test_a_kernel_closes_what_it_returned(self):
        with Sandbox(**OPTIONS) as sandbox, sandbox.kernel() as cell:
            self.check(cell.run_code(DRAW + "None"))
            self.assertEqual(cell.run_code("1 + 1").results[0].text, "2")
            self.assertEqual(len(cell.run_code("1 + 1").results), 1)

    def test_a_table(self):
        result = run_code("import pandas as pd\npd.DataFrame({'a': [1, 2], 'b': ['x', '<y>']})", **OPTIONS)
        table = result.results[0]
        self.assertIn("<th>a</th>", table.html)
        self.assertIn("&lt;y&gt;", table.html)
        self.assertIn("a    b\n0  1    x", table.text)


if __name__ == "__main__":
    unittest.main()

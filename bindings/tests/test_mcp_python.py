"""kern-mcp with the official Python SDK: the current revision, which has no handshake, and those before it."""

import os
import sys
import unittest

import anyio
from mcp import Client, StdioServerParameters, stdio_client

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python")


def server():
    return stdio_client(StdioServerParameters(command=sys.executable, args=["-m", "kern_sandbox.mcp"], env={
        **os.environ, "PYTHONPATH": PACKAGE, "KERN_BIN": os.environ["KERN"], "KERN_MCP_IMAGE": "host", "KERN_MCP_QUIET": "1"}))


class Sdk(unittest.TestCase):
    def both(self, mode, version):
        async def talk():
            async with Client(server(), mode=mode) as client:
                self.assertEqual(client.protocol_version, version)
                self.assertEqual([tool.name for tool in (await client.list_tools()).tools], ["run_code", "write_file", "read_file", "list_files"])
                result = await client.call_tool("run_code", {"code": "print(6 * 7)"})
                self.assertEqual((result.content[0].text, result.is_error), ("42", False))
                await client.call_tool("write_file", {"path": "x", "content": "y"})
                self.assertEqual((await client.call_tool("read_file", {"path": "x"})).content[0].text, "y")
                self.assertTrue((await client.call_tool("run_code", {"code": "1 / 0"})).is_error)
                told = []

                async def on_progress(progress, total, message):
                    told.append(progress)

                await client.call_tool("run_code", {"code": "import time; time.sleep(1.3)"}, progress_callback=on_progress)
                self.assertTrue(told)  # more than one where a start takes long
                self.assertEqual(told, list(range(1, len(told) + 1)))
                with anyio.move_on_after(0.5):
                    await client.call_tool("run_code", {"code": "import time; time.sleep(50)"})
                self.assertEqual((await client.call_tool("run_code", {"code": "print(1)"})).content[0].text, "1")

        anyio.run(talk)

    def test_current(self):
        self.both("auto", "2026-07-28")

    def test_handshake(self):
        self.both("legacy", "2025-11-25")


if __name__ == "__main__":
    unittest.main()

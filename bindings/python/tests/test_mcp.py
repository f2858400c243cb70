"""kern-mcp as a client sees it: the protocol line by line, in all revisions, and what hostile or dying clients do to it."""

import base64
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.join(HERE, "..")
MODERN = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}


def boxes_of(pid):
    """The processes whose parent is the server."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        assert file.read()
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


class Server:
    def __init__(self, **environment):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("KERN_MCP")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kern_sandbox.mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**plain, "PYTHONPATH": PACKAGE, "KERN_BIN": os.environ["KERN"], "KERN_MCP_IMAGE": "host", **environment})
        self.number = 0
        self.others = []
        self.buffer = b""

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def read(self, timeout=30):
        end = time.monotonic() + timeout
        while b"\n" not in self.buffer:
            if not select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(self.others)
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                raise EOFError(self.process.stderr.read())
            self.buffer += data
        line, self.buffer = self.buffer.split(b"\n", 1)
        return json.loads(line)

    def wait(self, identity):
        while True:
            message = self.read()
            if message.get("id") == identity:
                return message
            self.others.append(message)

    def start(self, method, params=None, **more):
        self.number += 1
        self.send({"id": self.number, "method": method, **({} if params is None else {"params": params}), **more})
        return self.number

    def ask(self, method, params=None):
        return self.wait(self.start(method, params))

    def call(self, name, arguments=None, **more):
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, **more})["result"]

    def close(self):
        self.process.stdin.close()
        code = self.process.wait(20)
        self.process.stdout.close()
        self.log = self.process.stderr.read().decode()
        self.process.stderr.close()
        return code


class Protocol(unittest.TestCase):
    def serve(self, **environment):
        server = Server(**environment)
        self.addCleanup(lambda: server.process.poll() is None and (server.process.kill(), server.process.wait()))
        return server

    def error(self, reply, code, text=""):
        self.assertEqual(reply["error"]["code"], code, reply)
        self.assertIn(text, reply["error"]["message"])

    def text(self, result):
        return "\n".join(block["text"] for block in result["content"] if block["type"] == "text")

    def test_a_session_by_handshake(self):
        server = self.serve()
        reply = server.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}})["result"]
        self.assertEqual((reply["protocolVersion"], reply["serverInfo"]["name"]), ("2025-11-25", "kern"))
        self.assertEqual(reply["capabilities"], {"tools": {"listChanged": False}})
        server.send({"method": "notifications/initialized"})
        tools = server.ask("tools/list")["result"]["tools"]
        self.assertEqual([tool["name"] for tool in tools], ["run_code", "write_file", "read_file", "list_files"])
        self.assertEqual(server.ask("ping")["result"], {})
        result = server.call("run_code", {"code": "print(6 * 7)\n'last'"})
        self.assertEqual(result, {"content": [{"type": "text", "text": "42\n'last'"}], "isError": False})
        self.assertFalse(server.call("write_file", {"path": "d/x.txt", "content": "hé"})["isError"])
        self.assertEqual(self.text(server.call("read_file", {"path": "d/x.txt"})), "hé")
        self.assertIn("3  d/x.txt", self.text(server.call("list_files")))
        self.assertEqual(self.text(server.call("run_code", {"code": "cat d/x.txt", "language": "bash"})), "hé")
        failed = server.call("run_code", {"code": "import sys; print('o'); sys.exit('e')"})
        self.assertEqual((failed["isError"], self.text(failed)), (True, "o\n[stderr]\ne\n[exit code 1]"))
        late = server.call("run_code", {"code": "while True: pass", "timeout_s": 1.5})
        self.assertTrue(late["isError"])
        self.assertIn("[sandbox: timeout]", self.text(late))
        missing = server.call("read_file", {"path": "nothing"})
        self.assertEqual((missing["isError"], self.text(missing)), (True, "the workspace has no file 'nothing'"))
        self.assertTrue(server.call("read_file", {"path": "../../etc/passwd"})["isError"])
        self.assertEqual(server.close(), 0)
        self.assertTrue(server.log.startswith("kern-mcp: version "))

    def test_revisions(self):
        server = self.serve(KERN_MCP_QUIET="1")
        for asked, got in (("2024-11-05", "2024-11-05"), ("2025-03-26", "2025-03-26"), ("2025-06-18", "2025-06-18"),
                           ("1999-01-01", "2025-11-25"), ("2026-07-28", "2025-11-25")):
            self.assertEqual(server.ask("initialize", {"protocolVersion": asked, "capabilities": {}})["result"]["protocolVersion"], got)
        self.error(server.ask("initialize", {}), -32602, "protocolVersion")
        reply = server.ask("server/discover", {"_meta": MODERN})["result"]
        self.assertEqual((reply["resultType"], reply["supportedVersions"]), ("complete", ["2026-07-28"]))
        self.assertEqual(reply["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "kern")
        listed = server.ask("tools/list", {"_meta": MODERN})["result"]
        self.assertEqual((listed["resultType"], listed["cacheScope"], len(listed["tools"])), ("complete", "public", 4))
        result = server.call("run_code", {"code": "print(1)"}, _meta=MODERN)
        self.assertEqual((result["resultType"], result["isError"]), ("complete", False))
        unknown = server.ask("tools/list", {"_meta": {**MODERN, "io.modelcontextprotocol/protocolVersion": "2099-01-01"}})
        self.error(unknown, -32022)
        self.assertEqual(unknown["error"]["data"], {"supported": ["2026-07-28"], "requested": "2099-01-01"})
        self.error(server.ask("tools/list", {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}), -32602, "clientCapabilities")
        self.error(server.ask("server/discover", {}), -32602)
        self.error(server.ask("ping", {"_meta": MODERN}), -32601)
        server.close()
        self.assertEqual(server.log, "")

    def test_bad_requests(self):
        server = self.serve()
        self.error(server.ask("no/method"), -32601, "no/method")
        self.error(server.ask("resources/list"), -32601)
        self.error(server.ask("tools/call", {"name": "nothing"}), -32602, "nothing")
        for arguments, word in (({}, "code"), ({"code": 5}, "string"), ({"code": "1", "language": "ruby"}, "one of"), ({"code": "1", "x": 1}, "'x'"),
                                ({"code": "1", "timeout_s": "5"}, "number"), ({"code": "1", "timeout_s": -1}, "number"), ([], "object")):
            self.error(server.ask("tools/call", {"name": "run_code", "arguments": arguments}), -32602, word)
        self.error(server.ask("tools/list", []), -32602)
        for line, code in ((b"not json\n", -32700), (b"\xff\xfe\n", -32700), (b"[" * 100000 + b"\n", -32700), (b"5\n", -32600), (b"[]\n", -32600),
                           (b'{"id": 1, "method": "ping"}\n', -32600), (b'{"jsonrpc": "2.0", "id": 1}\n', -32600),
                           (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}\n', -32600)):
            server.write(line)
            self.error(server.read(), code)
        server.write(b"\n  \n" + b'{"jsonrpc": "2.0", "method": "notifications/unknown"}\n{"jsonrpc": "2.0", "id": 99, "result": {}}\n')
        server.write(b'[{"jsonrpc": "2.0", "id": "a", "method": "ping"}, {"jsonrpc": "2.0", "id": "b", "method": "ping"}]\n')
        self.assertEqual([server.read()["id"], server.read()["id"]], ["a", "b"])
        self.assertEqual(server.close(), 0)

    def test_a_huge_frame(self):
        server = self.serve()
        server.write(b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "')
        for _ in range(70):
            server.write(b"x" * (1 << 20))
        server.write(b'"}}\n')
        self.error(server.read(), -32600, "67108864")
        self.assertEqual(server.ask("ping")["result"], {})
        server.close()

    def test_images(self):
        server = self.serve()
        png = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
        code = f"import base64\nclass P:\n    def _repr_png_(self): return base64.b64decode('{png}')\nopen('p.png', 'wb').write(P()._repr_png_())\nP()"
        result = server.call("run_code", {"code": code})
        self.assertEqual(result["content"][1], {"type": "image", "data": png, "mimeType": "image/png"})
        self.assertEqual(server.call("read_file", {"path": "p.png"})["content"], [{"type": "image", "data": png, "mimeType": "image/png"}])
        server.call("run_code", {"code": "open('b', 'wb').write(b'\\xff\\x00')"})
        self.assertEqual(server.call("read_file", {"path": "b"})["content"][0]["resource"]["blob"], "/wA=")
        server.close()

    def test_what_a_box_left_is_kept_in_bounds(self):
        server = self.serve()
        code = "import os\nfor n in range(3000): open(f'{n}-' + 'x' * 200, 'w').close()\nopen(b'bad\\xff', 'w').close(); open('sparse', 'wb').truncate(33 << 20)"
        server.call("run_code", {"code": code})
        listed = self.text(server.call("list_files"))
        self.assertLess(len(listed), 101_000)
        self.assertIn("characters left out", listed)
        self.assertIn("bad\ufffd", listed)  # a lone surrogate is no JSON to most
        result = server.call("read_file", {"path": "sparse"})
        self.assertEqual((result["isError"], "larger than 32 MiB" in self.text(result)), (True, True))
        result = server.call("run_code", {"code": "class S:\n    def _repr_markdown_(self): return 'a' + chr(0xd800)\nS()"})
        self.assertTrue(self.text(result).startswith("a\ufffd"), result)
        for arguments in ({"path": "x", "content": "\ud800"}, {"path": "\ud800", "content": "x"}):
            result = server.call("write_file", arguments)
            self.assertEqual((result["isError"], "kern-mcp failed" in self.text(result)), (True, False))
        self.assertEqual(server.close(), 0)

    def test_a_client_without_patience(self):
        """It closes the stream and sends SIGTERM while the server ends what runs."""
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve(TMPDIR=folder)
            server.call("run_code", {"code": "1"})
            for _ in range(8):
                server.start("tools/call", {"name": "run_code", "arguments": {"code": "while True: pass"}})
            boxes = self.a_box_of(server)
            server.process.stdin.close()
            while server.process.poll() is None:
                server.process.send_signal(signal.SIGTERM)
                time.sleep(0.002)
            self.assertIn(server.process.returncode, (0, 130))
            self.assertEqual(os.listdir(folder), [])
            self.assertEqual([pid for pid in boxes if os.path.exists(f"/proc/{pid}")], [])
            for stream in (server.process.stdout, server.process.stderr):
                stream.close()

    def test_a_cancelled_pull(self):
        with socket.create_server(("127.0.0.1", 0)) as registry:  # which never answers
            registry.settimeout(20)
            server = self.serve(KERN_MCP_IMAGE=f"127.0.0.1:{registry.getsockname()[1]}/some/image")
            one = server.start("tools/call", {"name": "run_code", "arguments": {"code": "1"}})
            two = server.start("tools/call", {"name": "run_code", "arguments": {"code": "2"}})
            connection = registry.accept()[0]
            with connection:
                connection.settimeout(20)
                self.assertEqual(server.wait(server.start("ping", {}))["result"], {})
                for identity in (two, one):
                    server.send({"method": "notifications/cancelled", "params": {"requestId": identity}})
                while connection.recv(1 << 16):  # until the pull is gone
                    pass
        server.close()

    @staticmethod
    def a_box_of(server):
        end = time.monotonic() + 30
        while not (found := boxes_of(server.process.pid)) and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def test_cancelled(self):
        server = self.serve()
        server.call("run_code", {"code": "1"})
        one = server.start("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(50)"}})
        self.assertEqual(len(self.a_box_of(server)), 1)
        server.send({"method": "notifications/cancelled", "params": {"requestId": one, "reason": "enough"}})
        end = time.monotonic() + 30
        while boxes_of(server.process.pid) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual(boxes_of(server.process.pid), [])
        server.send({"method": "notifications/cancelled", "params": {"requestId": 12345}})
        server.send({"method": "notifications/cancelled", "params": {"requestId": []}})
        self.assertEqual(self.text(server.call("run_code", {"code": "print(2)"})), "2")
        self.assertEqual([m for m in server.others if m.get("id") == one], [])
        server.close()

    def test_progress(self):
        server = self.serve()
        server.call("run_code", {"code": "import time; time.sleep(2.3)"}, _meta={"progressToken": "tok"})
        told = [m["params"] for m in server.others if m.get("method") == "notifications/progress"]
        self.assertGreaterEqual(len(told), 2)  # more where a start takes long
        self.assertEqual([p["progress"] for p in told], list(range(1, len(told) + 1)))
        self.assertEqual({p["progressToken"] for p in told}, {"tok"})
        server.close()

    def test_twenty_at_once(self):
        server = self.serve(KERN_MCP_MEMORY_MB="64")
        begin = time.monotonic()
        numbers = [server.start("tools/call", {"name": "run_code", "arguments": {"code": f"import time; time.sleep(1); print({n})"}}) for n in range(20)]
        replies = {}
        while len(replies) < 20:
            message = server.read()
            replies[message["id"]] = self.text(message["result"])
        self.assertEqual([replies[number] for number in numbers], [str(n) for n in range(20)])
        server.close()

    def test_a_kernel(self):
        server = self.serve(KERN_MCP_KERNEL="1")
        server.call("run_code", {"code": "x = 5"})
        self.assertEqual(self.text(server.call("run_code", {"code": "x + 1"})), "6")
        self.assertTrue(server.call("run_code", {"code": "while True: pass", "timeout_s": 1.5})["isError"])
        self.assertIn("restarted", self.text(server.call("run_code", {"code": "print('x' in globals())"})))
        self.assertEqual(self.text(server.call("run_code", {"code": "echo s", "language": "sh"})), "s")
        server.close()

    def test_a_client_that_dies(self):
        for how in ("eof", "closed"):
            server = self.serve()
            server.call("run_code", {"code": "1"})
            server.start("tools/call", {"name": "run_code", "arguments": {"code": "import time; time.sleep(50)"}})
            before = self.a_box_of(server)
            self.assertEqual(len(before), 1)
            if how == "closed":
                server.process.stdout.close()
                server.write(b"not json\n")
            begin = time.monotonic()
            server.process.stdin.close()
            self.assertEqual(server.process.wait(40), 0)
            self.assertLess(time.monotonic() - begin, 40)
            self.assertFalse(os.path.exists(f"/proc/{before[0]}"))
            server.process.stderr.close()
            if how == "eof":
                server.process.stdout.close()

    def test_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            server = self.serve(KERN_MCP_WORKSPACE=folder, KERN_MCP_SETUP="echo s > made", KERN_MCP_TIMEOUT="2.5")
            self.assertEqual(self.text(server.call("run_code", {"code": "print(open('made').read())"})), "s")
            self.assertIn("2.5 s", self.text(server.call("run_code", {"code": "while True: pass"})))
            server.close()
            self.assertTrue(os.path.exists(folder + "/made"))
        broken = self.serve(KERN_MCP_SETUP="exit 3")
        result = broken.call("run_code", {"code": "1"})
        self.assertEqual((result["isError"], "setup failed (exit 3)" in self.text(result)), (True, True))
        broken.close()
        for name, value, word in (("MEMORY_MB", "lots", "not a number"), ("TIMEOUT", "-1", "timeout_s"), ("EGRESS", "https://example.com", "egress_allow"),
                                  ("PROFILES", "nonsense", "profiles"), ("WORKSPACE", "/etc", "/etc")):
            server = self.serve(**{"KERN_MCP_" + name: value})
            self.assertEqual(server.close(), 2)
            self.assertIn(word, server.log)

    def test_help(self):
        def run(*words):
            return subprocess.run([sys.executable, "-m", "kern_sandbox.mcp", *words], env={**os.environ, "PYTHONPATH": PACKAGE},
                                  capture_output=True, text=True, check=False)
        self.assertIn("KERN_MCP_IMAGE", run("--help").stdout)
        self.assertTrue(run("--version").stdout.startswith("kern-mcp "))
        self.assertEqual((run("--bogus").returncode, run("--bogus").stdout), (2, ""))

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.serve()
            server.call("run_code", {"code": "1"})
            server.process.send_signal(number)
            self.assertEqual(server.process.wait(10), 130)
            for stream in (server.process.stdin, server.process.stdout, server.process.stderr):
                stream.close()


if __name__ == "__main__":
    unittest.main()

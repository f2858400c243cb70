"""Runs the cases of bindings/spec with the Python client. See bindings/spec/README.md."""

import gzip
import io
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
os.environ.setdefault("KERN_BIN", os.environ.get("KERN", ""))
import kern_sandbox
from kern_sandbox import ExecutionResult, MountRefused, Sandbox, SandboxError

SPEC = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "spec")
UNCAPPED = re.compile(r"^kern: warning: .* not enforced: .*\n", re.MULTILINE)
FIELDS = {"stdout", "stderr", "exitCode", "success", "truncated", "codeStderr", "runtimeNotes", "durationMs"}
PARTS = {"stdoutHas": "stdout", "stderrHas": "stderr", "codeStderrHas": "code_stderr"}


def snake(name):
    return re.sub(r"([A-Z])", lambda match: "_" + match[1].lower(), name)


def load(name):
    with open(os.path.join(SPEC, name), encoding="utf-8") as file:
        return json.load(file)


_facts = {}


def have(feature):
    """Whether this machine has what a case needs."""
    if feature == "acl":
        return shutil.which("setfacl") is not None
    if feature == "node":
        found = shutil.which("node", path="/usr/local/bin:/usr/bin:/bin")
        return found is not None and os.path.realpath(found).startswith(("/usr/", "/bin/"))
    if feature == "egress" and feature not in _facts:
        _facts[feature] = kern_sandbox.run_code("pass", image="host", egress_allow=["example.com"]).fault is None
    if feature == "uncapped":
        return not have("memory")
    if feature not in _facts:
        result = kern_sandbox.run_code("pass", image="host")
        _facts[feature] = ((result.report or {}).get("limits", {}).get("memory") or {}).get("enforced") is True
    return _facts[feature]


def prepare(folder, things, fill):
    for kind, path, *rest in things:
        path = os.path.join(folder, fill(path))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if kind == "dir":
            os.makedirs(path)
        elif kind == "file":
            with open(path, "w", encoding="utf-8") as file:
                file.write(rest[0])
        elif kind == "link":
            os.symlink(fill(rest[0]), path)
        elif kind == "fifo":
            os.mkfifo(path)
        elif kind == "socket":
            made = socket.socket(socket.AF_UNIX)
            made.bind(path)
            made.close()
        else:
            raise AssertionError(kind)


def archive(path, members):
    """A snapshot, or what an attacker would call one."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.USTAR_FORMAT) as made:
        for kind, name, text in members:
            info = tarfile.TarInfo(name)
            info.size = len(text)
            types = {"symlink": tarfile.SYMTYPE, "hardlink": tarfile.LNKTYPE, "fifo": tarfile.FIFOTYPE, "device": tarfile.CHRTYPE}
            if kind in types:
                info.type, info.linkname, info.size = types[kind], text, 0
                made.addfile(info)
            elif kind == "bomb":
                info.size = (1 << 30) + 512
                made.addfile(info, Zeros())
            elif kind == "hugesize":
                info.size = 0o77777777777
                raw.write(info.tobuf(tarfile.USTAR_FORMAT) + b"x" * 512)
            elif kind == "cut":
                info.size = 5000
                raw.write(info.tobuf(tarfile.USTAR_FORMAT) + b"x" * 512)
            elif kind == "badsum":
                block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
                block[0] ^= 1
                raw.write(bytes(block) + b"x" * 512)
            else:
                made.addfile(info, io.BytesIO(text.encode()))
    data = raw.getvalue()
    if any(kind in ("cut", "hugesize") for kind, _, _ in members):
        data = data.rstrip(b"\0")
    if any(kind == "badsum" for kind, _, _ in members):
        data += bytes(1024)
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(data)


class Zeros:
    def read(self, size=-1):
        return bytes(size)


class Case:
    def __init__(self, test, case, offline):
        self.test, self.case, self.offline = test, case, offline
        self.tmp = tempfile.mkdtemp(prefix="kern-spec-")
        self.sandbox = self.kernel = None

    def fill(self, value):
        if isinstance(value, str):
            value = value.replace("${TMP}", self.tmp).replace("${PID}", str(os.getpid())).replace("${HOME}", os.path.expanduser("~"))
            value = re.sub(r"\$\{DEEP:(\d+)\}", lambda match: "d/" * int(match[1]), value)
            return re.sub(r"\$\{REPEAT:(\d+)\}", lambda match: "r" * int(match[1]), value)
        if isinstance(value, list):
            return [self.fill(item) for item in value]
        if isinstance(value, dict):
            return {self.fill(key): self.fill(item) for key, item in value.items()}
        return value

    def options(self):
        given = {"image": "host", **self.case.get("options", {})}
        return {snake(name) if name != "memoryMB" else "memory_mB": self.fill(value) for name, value in given.items()}

    def run(self):
        saved = dict(os.environ)
        try:
            prepare(self.tmp, self.case.get("prepare", []), self.fill)
            for name, members in self.case.get("archives", []):
                archive(os.path.join(self.tmp, name), members)
            os.environ.update(self.fill(self.case.get("environment", {})))
            if "throws" in self.case:
                self.throws(self.case["throws"], lambda: Sandbox(**self.options()))
                return
            self.sandbox = Sandbox(**self.options())
            if not any("open" in step for step in self.case["steps"]):
                self.sandbox.open()
            for number, step in enumerate(self.case["steps"], 1):
                with self.test.subTest(case=self.case["name"], step=number):
                    self.step(step)
        finally:
            os.environ.clear()
            os.environ.update(saved)
            if self.sandbox is not None:
                path = self.sandbox._workspace.path if self.sandbox._workspace and self.sandbox._workspace.mine else None
                if self.case.get("destroy"):
                    self.sandbox.destroy()
                self.sandbox.close()
                self.test.assertFalse(path and os.path.exists(path), "the workspace was left behind")
            shutil.rmtree(self.tmp)

    def throws(self, wanted, call):
        kind = {"SandboxError": SandboxError, "MountRefused": MountRefused, "missing": FileNotFoundError}[wanted["type"]]
        with self.test.assertRaises(kind) as caught:
            call()
        self.test.assertIs(type(caught.exception), kind)
        text = str(caught.exception).replace("'", '"')
        self.test.assertIn(self.fill(wanted["has"]).replace("'", '"'), text)
        if "option" in wanted:
            self.test.assertIn(snake(wanted["option"]), text)

    def call(self, step):
        more = {snake(name): step[name] for name in ("language", "timeoutS") if name in step}
        if "runCode" in step:
            return self.sandbox.run_code(self.fill(step["runCode"]), **more)
        if "run" in step:
            return self.sandbox.run(self.fill(step["run"]), **more)
        if "cell" in step:
            self.kernel = self.kernel or self.sandbox.kernel()
            return self.kernel.run_code(self.fill(step["cell"]), **more)
        if "writeFile" in step:
            return self.sandbox.write_file(*self.fill(step["writeFile"]))
        if "readFile" in step:
            return self.sandbox.read_file(self.fill(step["readFile"]))
        if "listFiles" in step:
            return self.sandbox.list_files()
        if "snapshot" in step:
            return self.sandbox.snapshot(self.fill(step["snapshot"]))
        if "restore" in step:
            return self.sandbox.restore(self.fill(step["restore"]))
        if "host" in step:
            return prepare(self.sandbox.workspace, step["host"], self.fill)
        if "sleep" in step:
            return time.sleep(step["sleep"])
        if "other" in step:
            with Sandbox(**{**self.options(), **{snake(name): value for name, value in step["other"].items()}}):
                return None
        if "stop" in step:
            return subprocess.run([os.environ["KERN_BIN"], "stop", self.options()["name"]], check=True, capture_output=True)
        if "open" in step:
            return self.sandbox.open()
        if "reopen" in step:
            self.sandbox.close()
            self.sandbox = Sandbox(**self.options()).open()
            return None
        raise AssertionError(f"no such step: {step}")

    def step(self, step):
        if "throws" in step:
            self.throws(step["throws"], lambda: self.call(step))
            return
        begin = time.monotonic()
        result = self.call(step)
        self.check(self.fill(step.get("expect", {})), result, (time.monotonic() - begin) * 1000)

    def check(self, expect, result, took):
        test = self.test
        if isinstance(result, ExecutionResult):  # whether caps bind on this machine is no case's business
            result.stderr = UNCAPPED.sub("", result.stderr)
        for name, wanted in expect.items():
            if name in FIELDS:
                test.assertEqual(getattr(result, snake(name)), wanted, f"{name} of {result}")
            elif name in PARTS:
                for part in wanted if isinstance(wanted, list) else [wanted]:
                    test.assertIn(part, getattr(result, PARTS[name]))
            elif name == "fault":
                test.assertEqual(result.fault and result.fault.type, wanted, str(result))
            elif name == "faultHas":
                test.assertIn(wanted.replace("'", '"').replace("MaxBytes", "max_bytes"), result.fault.message.replace("'", '"'))
            elif name == "files":
                files = result if isinstance(result, list) else result.files
                test.assertEqual([[f.path, f.size, f.change] for f in files], wanted)
            elif name == "text":
                test.assertEqual(result.decode(), wanted)
            elif name == "results":
                self.results(wanted, result.results)
            elif name == "deniedHost":
                test.assertEqual([host["name"] for host in result.denied["hosts"]], [wanted])
            elif name == "maxMs":
                test.assertLess(took, wanted)
            else:
                raise AssertionError(f"no such expectation: {name}")

    def results(self, wanted, found):
        self.test.assertEqual(len(found), len(wanted), [r.data for r in found])
        for mimes, result in zip(wanted, found):
            for mime, payload in mimes.items():
                self.test.assertIn(mime, result.data)
                if payload is not None:
                    self.test.assertEqual(result.data[mime], payload)


def run_file(test, name):
    spec = load(name)
    cases = list(spec["cases"])
    for bad in spec.get("bad", []):
        for value in bad["values"]:
            cases.append({"name": f"{bad['option']}: {value!r}", "options": {bad["option"]: value},
                          "throws": {"type": bad.get("type", "SandboxError"), "has": bad["has"], "option": bad["option"]}})
    only = os.environ.get("KERN_CASE")
    for case in cases:
        if only and only not in case["name"]:
            continue
        with test.subTest(case=case["name"]):
            if "needs" in case and not have(case["needs"]):
                print(f"skip: {case['name']}: this machine has no {case['needs']}", flush=True)
                continue
            try:
                Case(test, case, case.get("offline")).run()
            except MountRefused as problem:
                raise AssertionError(problem) from problem


class Spec(unittest.TestCase):
    maxDiff = None


for _file in sorted(os.listdir(SPEC)):
    if _file.endswith(".json"):
        setattr(Spec, "test_" + _file[:-5], lambda self, _file=_file: run_file(self, _file))

if __name__ == "__main__":
    unittest.main()

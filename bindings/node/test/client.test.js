"use strict";
// The Node client where it is Node's own: promises, callbacks, descriptors and timers, what is left behind, ESM, and a kern
// that is missing or none.

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFileSync, spawnSync } = require("node:child_process");
const { afterEach, beforeEach, test } = require("node:test");
process.env.KERN_BIN ??= process.env.KERN;
const kern = require("../lib/index.js");

const HOST = { image: "host" };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const descriptors = () => fs.readdirSync("/proc/self/fd").length;
const children = () => fs.readFileSync(`/proc/self/task/${process.pid}/children`, "utf8").trim();
let before = null;

beforeEach(async () => {
  await kern.runCode("pass", HOST);
  before = [descriptors(), fs.readdirSync(os.tmpdir()).sort()];
});

afterEach(async () => {
  await sleep(20);
  assert.deepEqual([descriptors(), fs.readdirSync(os.tmpdir()).sort()], before);
  assert.equal(children(), "");
});

async function refused(call, text, kind = kern.SandboxError) {
  await assert.rejects(call, (problem) => {
    assert.ok(problem instanceof kind, problem.stack);
    assert.match(problem.message, text);
    return true;
  });
}

test("use out of order", async () => {
  const sandbox = new kern.Sandbox(HOST);
  for (const call of [
    () => sandbox.runCode("1"), () => sandbox.run(["true"]), () => sandbox.kernel(), () => sandbox.listFiles(),
    () => sandbox.readFile("x"), () => sandbox.writeFile("x", ""), async () => sandbox.snapshot("/x"),
  ]) await refused(call, /not open/);
  await sandbox.close();
  assert.equal(await sandbox.open(), sandbox);
  assert.equal(await sandbox.open(), sandbox);
  const folder = sandbox.workspace;
  const kernel = await sandbox.kernel();
  await sandbox.close();
  await sandbox.close();
  assert.ok(!fs.existsSync(folder));
  await refused(() => kernel.runCode("1"), /kernel is closed/);
});

test("withSandbox cleans up, also on throw", async () => {
  let folder;
  await refused(() => kern.withSandbox(HOST, async (sandbox) => {
    folder = sandbox.workspace;
    await sandbox.kernel();
    throw new TypeError("mine");
  }), /mine/, TypeError);
  assert.ok(!fs.existsSync(folder));
  await refused(() => kern.withSandbox(HOST), /function/);
  assert.equal(await kern.withSandbox(HOST, (sandbox) => sandbox.run(["echo", "x"]).then((r) => r.stdout)), "x\n");
  await refused(() => kern.runCode("1", { ...HOST, timeoutS: -1 }), /timeoutS/);
  await refused(() => kern.withSandbox(HOST, (sandbox) => sandbox.runCode("1", { onstdout: 1 })), /onStdout/);
});

test("callbacks are live and swallowed", async () => {
  const out = [];
  const moments = [];
  const result = await kern.runCode("import sys, time\nprint('a', flush=True); time.sleep(0.3); print('b', flush=True); print('c', file=sys.stderr)", {
    ...HOST,
    onStdout: (data) => {
      moments.push(Date.now());
      out.push(data);
      throw new Error("swallowed");
    },
  });
  assert.equal(Buffer.concat(out).toString(), "a\nb\n");
  assert.equal(result.stdout, "a\nb\n");
  assert.ok(moments[1] - moments[0] > 200);
  await kern.withSandbox(HOST, async (sandbox) => {
    const mine = [];
    await sandbox.run(["echo", "x"], { onStdout: (data) => mine.push(data) });
    const kernel = await sandbox.kernel();
    await kernel.runCode("print('y')", { onStdout: (data) => mine.push(data) });
    assert.equal(Buffer.concat(mine).toString(), "x\ny\n");
  });
});

test("onBlocked", async () => {
  const events = [];
  const result = await kern.runCode("import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'import ctypes; ctypes.CDLL(None).ptrace(0,0,0,0)'])",
    { ...HOST, onBlocked: (event) => events.push(event) });
  assert.equal(result.fault, null);
  assert.deepEqual(events, [{ kind: "syscall", name: "ptrace", count: 1 }]);
});

test("the result as data", async () => {
  const result = await kern.runCode("import sys\nsys.stderr.write('kern: note: x\\ny\\n')\n5", HOST);
  const data = JSON.parse(JSON.stringify(result));
  assert.deepEqual(data.results, [{ "text/plain": "5" }]);
  assert.ok(!("codeStderr" in data) && !("runtimeNotes" in data) && !("report" in data));
  assert.notEqual(result.runtimeNotes, result.runtimeNotes);
  assert.equal(result.codeStderr, "y\n");
  result.stderr = "other";
  assert.equal(result.codeStderr, "other");
  assert.ok(result.usage.wallMs > 0);
  const png = new kern.Result({ "image/png": "iVBORw==" }).png;
  assert.ok(Buffer.isBuffer(png) && png.length === 4);
});

test("a hundred at once", async () => {
  await kern.withSandbox({ ...HOST, memoryMb: 64, timeoutS: 120 }, async (sandbox) => {
    const results = await Promise.all(Array.from({ length: 100 }, (_, n) => sandbox.runCode(`print(${n})`)));
    assert.deepEqual(results.map((r) => r.stdout), Array.from({ length: 100 }, (_, n) => `${n}\n`));
  });
});

test("many calls leave nothing", async () => {
  await kern.withSandbox({ ...HOST, env: { A: "b" } }, async (sandbox) => {
    for (let n = 0; n < 50; n++) assert.equal((await sandbox.run(["true"])).exitCode, 0);
    const base = descriptors();
    await sleep(20);
    const active = process.getActiveResourcesInfo();
    for (let n = 0; n < 50; n++) await sandbox.run(["true"]);
    assert.equal(descriptors(), base);
    await sleep(20);
    assert.deepEqual(process.getActiveResourcesInfo().filter((name) => name !== "Timeout").sort(), active.filter((name) => name !== "Timeout").sort());
  });
});

test("a process ends by itself after a call and after close", () => {
  const code = `const kern = require(${JSON.stringify(path.resolve(__dirname, "../lib/index.js"))});
    kern.runCode("print(1)", { image: "host" }).then((r) => process.stdout.write(r.stdout))`;
  const begin = Date.now();
  const done = spawnSync(process.execPath, ["-e", code], { encoding: "utf8" });
  assert.equal(done.stdout, "1\n", done.stderr);
  assert.ok(Date.now() - begin < 5000);
});

test("ESM has the same names", () => {
  const file = JSON.stringify(path.resolve(__dirname, "../index.mjs"));
  const code = `import kern, * as all from ${file}; console.log(JSON.stringify([Object.keys(all).sort(), Object.keys(kern).sort()]))`;
  const [all, names] = JSON.parse(execFileSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" }));
  assert.deepEqual(names, Object.keys(kern).sort());
  assert.deepEqual(all, [...names, "default"].sort());
  for (const name of ["DEFAULT_TMPFS_MB", "version", "Kernel", "Result", "ExecutionResult", "MountRefused"]) assert.ok(kern[name]);
});

test("cells that are given at once take turns", async () => {
  await kern.withSandbox(HOST, async (sandbox) => {
    const kernel = await sandbox.kernel();
    await kernel.runCode("n = 0");
    await Promise.all(Array.from({ length: 20 }, () => kernel.runCode("n += 1")));
    assert.equal((await kernel.runCode("n")).results[0].text, "20");
  });
});

test("a signal ends the call", async () => {
  await kern.withSandbox(HOST, async (sandbox) => {
    const begin = Date.now();
    const kernel = await sandbox.kernel();
    for (const call of [(signal) => sandbox.run(["sleep", "30"], { signal }), (signal) => kernel.runCode("while True: pass", { signal })]) {
      const stop = new AbortController();
      const running = call(stop.signal);
      setTimeout(() => stop.abort(new Error("enough")), 300);
      await assert.rejects(running, /enough/);
      await assert.rejects(call(stop.signal), /enough|dead/);
    }
    assert.ok(Date.now() - begin < 25000);
    await refused(() => kernel.runCode("1"), /kernel is dead: a prior cell ended it \(interrupted\)/);
    await refused(() => sandbox.run(["true"], { signal: 5 }), /AbortSignal/);
    assert.equal((await sandbox.run(["echo", "x"], { signal: new AbortController().signal })).stdout, "x\n");
  });
});

test("a box that somebody stops is killed", async () => {
  await kern.withSandbox(HOST, async (sandbox) => {
    const call = sandbox.runCode("open('on', 'w').close(); import time; time.sleep(50)");
    for (let i = 0; i < 1500 && !fs.existsSync(path.join(sandbox.workspace, "on")); i++) await sleep(20);
    process.kill(Number(children().split(" ")[0]), "SIGKILL");
    assert.equal((await call).fault.type, "killed");
  });
});

test("a kern that is killed leaves no report, but whether the command was executed", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-killed-"));
  const usual = process.env.KERN_BIN;
  try {
    for (const [said, env, type] of [["A", {}, "startup_failed"], ["AE", {}, "killed"], ["AF", { X: "1" }, "startup_failed"], ["A", { X: "1" }, "killed"]]) {
      process.env.KERN_BIN = path.join(folder, `${said}-${type}`);
      const text = `#!/bin/sh\n[ "$1" != --version ] || exec echo kern 9.0.0\nprintf ${said} >&4\nexec 4>&-\nkill -9 $$\n`;
      fs.writeFileSync(process.env.KERN_BIN, text, { mode: 0o755 });
      await kern.withSandbox({ ...HOST, env }, async (sandbox) => assert.equal((await sandbox.run(["true"])).fault.type, type));
    }
  } finally {
    process.env.KERN_BIN = usual;
    fs.rmSync(folder, { recursive: true });
  }
});

// A workspace that is a file system of its own; null where nothing can be mounted.
function mounted(t, options) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-mounted-"));
  const there = process.geteuid() === 0 && spawnSync("mount", ["-t", "tmpfs", "-o", options, "none", folder]).status === 0;
  t.after(() => {
    if (there) execFileSync("umount", [folder]);
    fs.rmdirSync(folder);
  });
  if (!there) t.skip("nothing can be mounted here");
  return there ? folder : null;
}

test("a full workspace and one that is read-only", async (t) => {
  const full = mounted(t, "size=64k");
  const closed = mounted(t, "ro");
  before[1] = fs.readdirSync(os.tmpdir()).sort();
  if (full === null || closed === null) return;
  await kern.withSandbox({ ...HOST, workspace: full }, async (sandbox) => {
    await refused(() => sandbox.writeFile("x", "x".repeat(200000)), /ENOSPC/);
    await refused(() => sandbox.runCode("#".repeat(200000), { language: "sh" }), /128 KiB and more goes by a file.*ENOSPC/);
    assert.equal((await sandbox.runCode("print(1)")).stdout, "1\n");
    assert.deepEqual((await sandbox.listFiles()).map((file) => file.path), ["x"]);
  });
  await kern.withSandbox({ ...HOST, workspace: closed }, async (sandbox) => {
    await refused(() => sandbox.writeFile("x", "x"), /EROFS/);
    await refused(() => sandbox.runCode("#".repeat(200000), { language: "sh" }), /EROFS/);
    assert.match((await sandbox.runCode("open('y', 'w')")).stderr, /Read-only/);
  });
  await refused(() => new kern.Sandbox({ ...HOST, workspace: closed, setup: "true" }).open(), /setup: cannot make '.deps'.*EROFS/);
});

test("a kern that does not work", async () => {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-test-"));
  const make = (text, mode = 0o755) => {
    const file = path.join(folder, `kern-${Math.random()}`);
    fs.writeFileSync(file, text, { mode });
    return file;
  };
  const saved = { ...process.env };
  const tried = async (environment, text) => {
    Object.assign(process.env, environment);
    await refused(() => kern.runCode("1", HOST), text);
    Object.assign(process.env, saved);
  };
  await tried({ KERN_BIN: "/no/such/kern" }, /no such file/);
  await tried({ KERN_BIN: "", PATH: "/nowhere" }, /no kern on PATH/);
  await tried({ KERN_BIN: make("#!/bin/sh\n", 0o644) }, /not executable: chmod/);
  await tried({ KERN_BIN: make("#!/bin/sh\necho something else\n") }, /is not kern/);
  await tried({ KERN_BIN: make("#!/bin/sh\necho kern 0.0.9\n") }, /0\.1\.0 or newer/);
  await tried({ KERN_BIN: make("#!/bin/sh\n[ $1 = --version ] && echo kern 0.1.0 && exit\necho 'kern: unknown option \"--report\"' >&2; exit 1\n") }, /too old/);
  const platform = Object.getOwnPropertyDescriptor(process, "platform");
  Object.defineProperty(process, "platform", { value: "darwin" });
  await tried({}, /Linux VM/);
  Object.defineProperty(process, "platform", platform);
  fs.rmSync(folder, { recursive: true });
});

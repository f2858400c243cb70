"use strict";
// The Node client where it is Node's own: promises, callbacks, descriptors and timers, what is left behind, ESM, and a kern
// that is missing or none.

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { execFileSync, spawn, spawnSync } = require("node:child_process");
const { Worker } = require("node:worker_threads");
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

test("a call of its own is ended by a signal, and refuses what is none", async () => {
  const begin = Date.now();
  await assert.rejects(kern.runCode("while True: pass", { ...HOST, signal: AbortSignal.timeout(400) }), /timeout/);
  await assert.rejects(kern.runCode("1", { ...HOST, setup: "sleep 60", signal: AbortSignal.timeout(400) }), /timeout/);
  assert.ok(Date.now() - begin < 20000);
  await refused(() => kern.runCode("1", { ...HOST, signal: 5 }), /AbortSignal/);
  for (const options of [null, 5, "host"]) await refused(() => kern.runCode("1", options), /options/);
  await kern.withSandbox(HOST, async (sandbox) => {
    const kernel = await sandbox.kernel();
    await refused(() => kernel.runCode("1", { language: "sh" }), /language: this call has no such option/);
    await refused(() => sandbox.run(["true"], { language: "sh" }), /language: this call has no such option/);
  });
});

test("a callback that rejects later, or writes to what it gets, does nothing to the call", async () => {
  const result = await kern.runCode("print(1)", { ...HOST, onStdout: async (data) => { data.fill(88); throw new Error("later"); } });
  assert.equal(result.stdout, "1\n");
  await kern.runCode("import ctypes; ctypes.CDLL(None).ptrace(0, 0, 0, 0)", { ...HOST, onBlocked: () => Promise.reject(new Error("later")) });
  await sleep(20);
});

test("nothing runs before it is open", async () => { // a box would have none of the options then, not even the image
  const sandbox = new kern.Sandbox({ ...HOST, setup: "sleep 0.3" });
  const opening = sandbox.open();
  for (const call of [() => sandbox.runCode("1"), () => sandbox.run(["true"]), () => sandbox.kernel(), () => sandbox.listFiles()]) await refused(call, /not open/);
  await opening;
  assert.equal((await sandbox.runCode("import os; print(os.getcwd())")).stdout, "/workspace\n");
  await sandbox.close();
});

test("close ends what runs", async () => {
  const code = "open('on', 'w').close(); import time; time.sleep(30)";
  for (const [how, more] of [["call", {}], ["call", { workspaceMaxBytes: 2 ** 30 }], ["call", { prewarm: 1 }], ["cell", {}], ["kernel", {}]]) {
    const sandbox = await new kern.Sandbox({ ...HOST, ...more, timeoutS: 60 }).open();
    const kernel = how === "call" ? null : await sandbox.kernel();
    if (more.prewarm) await sleep(500);
    const running = refused((kernel ?? sandbox).runCode(code), /closed/);
    while (!fs.existsSync(path.join(sandbox.workspace, "on"))) await sleep(10);
    const begin = Date.now();
    await (how === "kernel" ? kernel : sandbox).close();
    await running;
    assert.ok(Date.now() - begin < 15000);
    await sandbox.close();
  }
});

test("several threads at once", async () => {
  const file = JSON.stringify(path.resolve(__dirname, "../lib/index.js"));
  const code = `const kern = require(${file}); const { parentPort } = require("node:worker_threads");
    Promise.all([1, 2, 3].map(() => kern.runCode("import time; time.sleep(0.3); print(1)", { image: "host" })))
      .then((found) => parentPort.postMessage(found.map((r) => r.stdout + (r.fault ? r.fault.message : ""))))`;
  const all = await Promise.all([1, 2, 3].map(() => new Promise((resolve, reject) => {
    const worker = new Worker(code, { eval: true });
    worker.once("message", (found) => worker.terminate().then(() => resolve(found)));
    worker.once("error", reject);
  })));
  assert.deepEqual(all, Array(3).fill(Array(3).fill("1\n")));
});

test("a place for temporary files that is long, and one that is none", async () => {
  const usual = process.env.TMPDIR;
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-long-"));
  const long = path.join(folder, "x".repeat(200));
  fs.mkdirSync(long);
  try {
    process.env.TMPDIR = long;
    await kern.withSandbox(HOST, async (sandbox) => assert.equal((await (await sandbox.kernel()).runCode("1 + 1")).results[0].text, "2"));
    process.env.TMPDIR = path.join(folder, "nothing");
    await refused(() => kern.runCode("1", HOST), /workspace: cannot make.*TMPDIR/);
  } finally {
    process.env.TMPDIR = usual ?? "/tmp";
    if (usual === undefined) delete process.env.TMPDIR;
    fs.rmSync(folder, { recursive: true });
  }
});

test("a client that is killed leaves no box", async () => {
  for (const call of ["sandbox.runCode(code)", "sandbox.kernel().then((kernel) => kernel.runCode(code))"]) {
    const code = `const kern = require(${JSON.stringify(path.resolve(__dirname, "../lib/index.js"))});
      const code = "open('on', 'w').close()\\nwhile True: pass";
      kern.withSandbox({ image: "host", timeoutS: 80 }, (sandbox) => { console.log(sandbox.workspace); return ${call}; });`;
    const client = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
    const folder = await new Promise((resolve) => client.stdout.once("data", (data) => resolve(data.toString().trim())));
    for (let i = 0; i < 500 && !fs.existsSync(path.join(folder, "on")); i++) await sleep(20);
    const there = () => fs.readdirSync("/proc").filter((pid) => {
      try {
        return /^\d+$/.test(pid) && fs.readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(`src=${folder},dst=`);
      } catch {
        return false;
      }
    });
    assert.notEqual(there().length, 0);
    client.kill("SIGKILL");
    for (let i = 0; i < 500 && there().length; i++) await sleep(20);
    assert.deepEqual(there(), []);
    fs.rmSync(folder, { recursive: true });
  }
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

"use strict";
// The sandbox: a workspace on the host, and a box for each call. Isolation is kern's; this file asks for it, feeds it and
// reads its report.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { randomBytes } = require("node:crypto");
const { threadId } = require("node:worker_threads");
const driver = require("./driver.js");
const image = require("./image.js");
const { findKern } = require("./binary.js");
const { SandboxError } = require("./errors.js");
const { bindWords } = require("./mounts.js");
const { DEFAULT_IMAGE, boxWords, checkTimeout, digits, isText, makeOptions } = require("./options.js");
const { Capture, Running } = require("./process.js");
const { PycCache } = require("./pyc.js");
const { ExecutionResult, classify, parseReport } = require("./result.js");
const { Kernel, Pool } = require("./warm.js");
const { ARGUMENT_LIMIT, CLOSED, Workspace, removeTree } = require("./workspace.js");

const LANGUAGES = { python: ["python3", ".py"], bash: ["bash", ".sh"], sh: ["sh", ".sh"], node: ["node", ".js"] };
const BACKSTOP = 5; // seconds that kern's own deadline lies behind this side's
const CALL_OPTIONS = ["timeoutS", "onStdout", "onStderr", "signal"];
const CODE_OPTIONS = ["language", ...CALL_OPTIONS];
let number = 0;
const nextName = () => `kern-${process.pid}-${threadId ? `${threadId}-` : ""}${++number}`; // each thread counts for itself

// What a callback throws, now or later, is its own business.
function tell(callback, value) {
  try {
    callback(value)?.then?.(undefined, () => {});
  } catch {
    // see above
  }
}

// It gets a copy: what it does to the bytes is not the result's.
const feedOf = (callback) => (callback ? (data) => tell(callback, Buffer.from(data)) : null);

function checkCode(code) {
  if (typeof code !== "string") throw new SandboxError(`code: a string is needed, not ${typeof code}`);
  if (code.includes("\0")) throw new SandboxError("code: it has a NUL character");
  if (!isText(code)) throw new SandboxError("code: it has a lone surrogate, which is no text");
}

function checkSignal(signal) {
  if (signal !== null && !(signal instanceof AbortSignal)) throw new SandboxError("signal: an AbortSignal is needed");
  signal?.throwIfAborted();
}

// The workspace around one call: what changed, and whether it grew too large.
class Track {
  constructor(workspace, options) {
    this.workspace = workspace;
    this.limit = options.workspaceMaxBytes;
    this.before = options.trackFiles ? workspace.seen() : null;
    this.full = false;
    this.check = this.limit === null ? null : () => this._measure();
  }

  _measure() {
    if (this.workspace.fd < 0) return null;
    const begin = process.hrtime.bigint();
    if (this.workspace.size() > this.limit) {
      this.full = true;
      return null;
    }
    return Math.max(50, (10 * Number(process.hrtime.bigint() - begin)) / 1e6);
  }

  finish(result) {
    if (this.workspace.fd < 0) throw new SandboxError(CLOSED);
    if (this.limit !== null && !this.full) this._measure();
    if (this.full) result.fault = { type: "workspace_full", message: "the workspace grew beyond workspaceMaxBytes" };
    if (this.before !== null) result.files = this.workspace.changes(this.before);
  }
}

class Sandbox {
  #workspace = null;
  #pool = null;
  #resident = null;
  #first = new Map();
  #words = null; // how its boxes are confined: none is started before that is known
  #calls = new Set();
  #kern = "";
  #opening = null;
  #pyc;

  constructor(options = {}) {
    this.options = makeOptions(options);
    this.#pyc = new PycCache(this);
    this._kernels = new Set();
  }

  // ---- Life

  // Finds kern, makes the workspace, has the image brought here, runs `setup`. A second call does nothing.
  async open() {
    return this._open(null);
  }

  async _open(signal) {
    this.#opening ??= this.#open(signal);
    await this.#opening;
    return this;
  }

  async #open(signal) {
    try {
      this.#kern = findKern();
      this.#workspace = new Workspace(this.options.workspace);
      await image.fetch(this.#kern, this.options.image, signal);
      if (!this.#workspace.mine) this.#first = this.#workspace.seen();
      if (this.options.user !== null) await require("./user.js").share(this, this.#workspace.path);
      if (this.options.setup !== null) await this.#runSetup(this.options.setup, signal);
      this.#words = this.#boxWords(false);
      if (this.options.persist) this.#resident = await require("./persist.js").Resident.open(this, this.#words);
      if (this.options.prewarm) this.#pool = new Pool(this, this.options.prewarm);
    } catch (problem) {
      await this.close();
      throw problem;
    }
  }

  // Ends what is left, and removes the workspace if it was made here. A resident box lives on.
  async close() {
    for (const kernel of [...this._kernels]) await kernel.close();
    const pool = this.#pool;
    this.#pool = null;
    if (pool !== null) await pool.close();
    const workspace = this.#workspace;
    this.#workspace = null;
    this.#opening = null;
    this.#words = null;
    for (const running of this.#calls) running.end(); // who waits for one gets an error, for want of a workspace
    await Promise.all([...this.#calls].map((running) => running.done.catch(() => {})));
    if (workspace === null) return;
    workspace.close();
    if (workspace.mine && this.options.user !== null && fs.existsSync(workspace.path)) {
      await require("./user.js").clear(this, workspace.path);
      removeTree(workspace.path);
    }
  }

  // close(), and the resident box of a persist sandbox is stopped.
  async destroy() {
    if (this.options.persist) await require("./persist.js").stop(this.#kern || findKern(), this.options.name);
    await this.close();
  }

  async [Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose")]() {
    await this.close();
  }

  // For calls: a sandbox that is still being opened is not open.
  #ready() {
    if (this.#words === null) throw new SandboxError("the sandbox is not open: use withSandbox() or await open()");
    return this.#need();
  }

  #need() {
    if (this.#workspace === null) throw new SandboxError("the sandbox is not open: use withSandbox() or await open()");
    return this.#workspace;
  }

  get workspace() {
    return this.#need().path;
  }

  get kern() {
    return this.#kern;
  }

  // ---- Calls

  // Runs a program text. The value of a last expression, what display() was given and open figures are `results`.
  async runCode(code, call = {}) {
    const workspace = this.#ready();
    const { feeds, timeoutS, language, signal } = this._callOptions(code, call, CODE_OPTIONS);
    const [binary, suffix] = LANGUAGES[language];
    if (language === "node" && this.options.image === DEFAULT_IMAGE) {
      return new ExecutionResult({
        exitCode: 127,
        fault: { type: "exec_failed", message: `image '${DEFAULT_IMAGE}' has no 'node': name one that has it, such as image="node:20-slim"` },
      });
    }
    if (language === "python") return this.#runPython(code, timeoutS, feeds, signal);
    let words = [binary, language === "node" ? "-e" : "-c", code];
    let name = null;
    if (Buffer.byteLength(code) >= ARGUMENT_LIMIT) {
      name = workspace.addCode(code, suffix);
      words = [binary, `/workspace/${name}`];
    }
    try {
      return await this.#run(words, timeoutS, feeds, null, signal);
    } finally {
      if (name !== null) workspace.remove(name);
    }
  }

  // Runs a program with its arguments; no shell is involved.
  async run(command, call = {}) {
    this.#ready();
    if (!Array.isArray(command) || command.length === 0) {
      throw new SandboxError(`run: ${JSON.stringify(command)} is not a list of words; for a shell: run(["sh", "-c", ...])`);
    }
    for (const word of command) {
      if (typeof word !== "string" || word.includes("\0") || !isText(word)) {
        throw new SandboxError(`run: ${JSON.stringify(word)} is not a word: strings without NUL and lone surrogates are`);
      }
    }
    const { feeds, timeoutS, signal } = this._callOptions("", call);
    return this.#run([...command], timeoutS, feeds, null, signal);
  }

  // One warm Python interpreter in one box.
  async kernel() {
    this.#ready();
    if (this.#resident !== null) await this.#resident.ensure();
    return Kernel._open(this);
  }

  _callOptions(code, call, known = CALL_OPTIONS) {
    checkCode(code);
    if (typeof call !== "object" || call === null) throw new SandboxError("the options of a call are an object");
    for (const name of Object.keys(call)) {
      if (!known.includes(name)) throw new SandboxError(`${name}: this call has no such option, only ${known.join(", ")}`);
    }
    const { language = "python", timeoutS, onStdout, onStderr, signal = null } = call;
    if (typeof language !== "string" || !Object.hasOwn(LANGUAGES, language)) throw new SandboxError(`language: '${language}' is none of ${Object.keys(LANGUAGES).join(", ")}`);
    for (const [name, value] of Object.entries({ onStdout, onStderr })) {
      if (value !== undefined && value !== null && typeof value !== "function") throw new SandboxError(`${name}: a function is needed, not ${typeof value}`);
    }
    checkSignal(signal);
    return {
      language,
      signal,
      timeoutS: timeoutS === undefined ? this.options.timeoutS : checkTimeout(timeoutS),
      feeds: [feedOf(onStdout ?? this.options.onStdout), feedOf(onStderr ?? this.options.onStderr)],
    };
  }

  async #runPython(code, timeoutS, feeds, signal) {
    const pool = this.#pool;
    const warm = pool === null ? null : pool.take();
    if (warm !== null) {
      this.#calls.add(warm.running);
      try {
        const result = await warm.call(this, "O", code, timeoutS, feeds, signal);
        if (this.#words === null) throw new SandboxError(CLOSED);
        this.#tellBlocked(result);
        return result;
      } finally {
        this.#calls.delete(warm.running);
        pool._end(warm);
      }
    }
    const [words, data] = driver.oneCall(code);
    const call = new driver.CallFile(data, this.options.maxOutputBytes);
    try {
      return await this.#run(words, timeoutS, feeds, call, signal);
    } finally {
      call.close();
    }
  }

  async #run(...words) {
    if (this.#resident === null) return this.#runOnce(...words);
    // A resident box may have ended since the last call: of its age, or with a call that ran out of memory.
    try {
      const result = await this.#runOnce(...words);
      if (result.fault === null || result.fault.type !== "startup_failed" || !(await this.#resident.ensure())) return result;
    } catch (problem) {
      if (!(problem instanceof SandboxError) || !(await this.#resident.ensure())) throw problem;
    }
    return this.#runOnce(...words);
  }

  async #runOnce(command, timeoutS, feeds, call, signal) {
    const cap = this.options.maxOutputBytes;
    const [out, err] = feeds.map((feed) => new Capture(cap, feed));
    const track = this._track();
    const begin = process.hrtime.bigint();
    const running = this._start(command, call === null ? null : call.fd, timeoutS + BACKSTOP);
    running.attach(out, err);
    this.#calls.add(running);
    let code;
    try {
      code = await running.drain(timeoutS * 1000, track.check, null, signal);
    } finally {
      this.#calls.delete(running);
    }
    if (this.#words === null) throw new SandboxError(CLOSED);
    const [results, dropped] = call === null ? [[], false] : call.results();
    const result = this._result(out, err, begin, results, dropped);
    track.finish(result);
    this._judge(result, running, code, timeoutS, command[0], track);
    this.#tellBlocked(result);
    return result;
  }

  _start(command, stdin, life) {
    this.#need();
    if (this.#words === null) throw new SandboxError(CLOSED);
    if (this.#resident !== null) return this.#resident.start(command, stdin, life);
    return this._spawn(["box", nextName(), ...this.#words, ...this.#pyc.words(), "--timeout", digits(life)], command, stdin);
  }

  // Starts kern with the sandbox's environment in a private file, which is gone again when kern has read it.
  _spawn(words, command, stdin) {
    const environment = this.options.enforceLimits ? {} : { KERN_NO_SCOPE: "1" };
    const file = this._writeEnv();
    if (file === null) return new Running(this.#kern, words, command, stdin, environment, null);
    try {
      return new Running(this.#kern, [...words, "--env-file", file.name], command, stdin, environment, file.remove);
    } catch (problem) {
      file.remove();
      throw problem;
    }
  }

  // The sandbox's environment in a private file, {name, remove}; null without one.
  _writeEnv() {
    const entries = Object.entries(this.options.env);
    if (entries.length === 0) return null;
    const name = path.join(os.tmpdir(), `kern-env-${process.pid}-${randomBytes(8).toString("hex")}`);
    const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
    const remove = () => fs.rmSync(name, { force: true });
    try {
      const fd = fs.openSync(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
      try {
        fs.writeFileSync(fd, entries.map(([key, value]) => `${key}=${value}\n`).join(""));
      } finally {
        fs.closeSync(fd);
      }
    } catch (problem) {
      remove();
      throw new SandboxError(`env: cannot write its file: ${problem.message}; TMPDIR names where temporary files go`);
    }
    return { name, remove };
  }

  #boxWords(forSetup) {
    const workspace = this.#need();
    const words = [...boxWords(this.options, forSetup), ...bindWords(workspace.path, "/workspace", false), "--workdir", "/workspace"];
    if (this.options.depsReadonly && !forSetup && workspace.hasDeps()) {
      words.push(...bindWords(`${workspace.path}/.deps`, "/workspace/.deps", true));
    }
    return [...words, ...image.environment(this)];
  }

  async #runSetup(setup, signal) {
    this.#need().makeDeps();
    const pip = "pip install ";
    let text = setup.trim();
    if (text.startsWith(pip)) text = `pip install --target /workspace/.deps --no-cache-dir --disable-pip-version-check ${text.slice(pip.length)}`;
    const limit = Math.max(this.options.timeoutS, 120);
    const [out, err] = [new Capture(this.options.maxOutputBytes), new Capture(this.options.maxOutputBytes)];
    const begin = process.hrtime.bigint();
    const words = ["box", nextName(), ...this.#boxWords(true), "--timeout", digits(limit + BACKSTOP)];
    const running = this._spawn(words, ["sh", "-c", text], null);
    running.attach(out, err);
    const code = await running.drain(limit * 1000, null, null, signal);
    const result = this._result(out, err, begin, [], false);
    this._judge(result, running, code, limit, "sh", null);
    if (!result.success) {
      const why = result.fault !== null ? result.fault.message : result.codeStderr.trim() || result.stdout.trim();
      throw new SandboxError(`setup failed (exit ${result.exitCode}): ${why.slice(-2000)}`);
    }
  }

  // ---- Outcomes

  _track() {
    return new Track(this.#need(), this.options);
  }

  _result(out, err, begin, results, dropped) {
    return new ExecutionResult({
      stdout: out.text(), stderr: err.text(), durationMs: Number(process.hrtime.bigint() - begin) / 1e6, results,
      truncated: out.truncated || err.truncated || dropped,
    });
  }

  // Fills in how a box ended. Throws when kern could not build it: then no code ran.
  _judge(result, running, code, timeoutS, command, track) {
    const report = parseReport(running.report());
    const end = { code, deadline: running.deadlineHit, full: track !== null && track.full, executed: running.executed };
    result.exitCode = running.deadlineHit ? 137 : code;
    result.fault = classify(end, report, timeoutS, this.options.image, command);
    result.report = report;
    const told = report || {};
    const used = told.usage || {};
    result.usage = { wallMs: used.wall_ms ?? null, cpuMs: used.cpu_ms ?? null, peakMemoryBytes: used.peak_memory_bytes ?? null };
    result.denied = told.denied || {};
    this.#pyc.learn((told.image || {}).digest);
    if (result.fault === null || result.fault.type !== "startup_failed" || running.deadlineHit) return;
    const said = result.stderr.split("\n").filter((line) => /^(kern|hint): /.test(line));
    if (report === null && said.some((line) => line.includes("--report"))) {
      throw new SandboxError(`'${this.#kern}' is too old for this package: it has no --report; install a newer kern`);
    }
    if (code === 125) throw new SandboxError(`kern could not build the box: ${said.join("\n") || result.fault.message}`);
    result.fault = { type: "startup_failed", message: image.explain(this.options.image, result.fault.message, Boolean(told.image)) };
  }

  #tellBlocked(result) {
    const callback = this.options.onBlocked;
    if (callback === null) return;
    const events = Object.entries(result.denied.syscalls || {}).map(([name, count]) => ({ kind: "syscall", name, count }));
    for (const kind of ["host", "device"]) {
      for (const found of result.denied[`${kind}s`] || []) events.push({ kind, count: 1, ...(typeof found === "object" ? found : { name: found }) });
    }
    for (const event of events) tell(callback, event);
  }

  // ---- The workspace

  async writeFile(file, data) {
    this.#ready().write(file, data);
  }

  async readFile(file) {
    return this.#ready().read(file);
  }

  // All regular files; `change` is against what was there when the sandbox was opened.
  async listFiles() {
    return this.#ready().list(this.#first);
  }

  // Writes the workspace as .tar.gz, with what setup installed.
  snapshot(destination) {
    this.#ready().snapshot(destination);
  }

  // Unpacks a snapshot over the workspace. Nothing is written unless all of it is acceptable.
  restore(source) {
    this.#ready().restore(source);
  }
}

// withSandbox([options,] fn)
async function withSandbox(options, fn) {
  if (typeof options === "function") [options, fn] = [{}, options];
  if (typeof fn !== "function") throw new SandboxError("withSandbox: a function is needed");
  const sandbox = new Sandbox(options);
  await sandbox.open();
  try {
    return await fn(sandbox);
  } finally {
    await sandbox.close();
  }
}

// Runs one program text in a sandbox of its own.
async function runCode(code, options = {}) {
  checkCode(code);
  if (typeof options !== "object" || options === null) throw new SandboxError("options: an object is needed");
  const { language, signal = null, ...rest } = options;
  checkSignal(signal);
  const sandbox = new Sandbox(rest);
  try {
    await sandbox._open(signal);
    return await sandbox.runCode(code, { signal, ...(language === undefined ? {} : { language }) });
  } finally {
    await sandbox.close();
  }
}

module.exports = { Sandbox, runCode, withSandbox };

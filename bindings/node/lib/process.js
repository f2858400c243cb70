"use strict";
// One running kern: started with pipes of its own, drained while it runs, ended by this side's deadline. When it is over,
// no timer, descriptor or listener is left.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const { SandboxError } = require("./errors.js");

const REPORT_LIMIT = 4 << 20;
const O_TMPFILE = 0o20000000 | fs.constants.O_DIRECTORY; // Node has no name for it; the same on all its architectures
const GRACE = 2000; // milliseconds that kern has to end a box and write its report, after it was told to

// What a stream said: all of it up to the cap, else the head and the tail.
class Capture {
  constructor(cap, feed) {
    this.headRoom = cap - Math.floor(cap / 2);
    this.tailRoom = Math.floor(cap / 2);
    this.feed = feed || null;
    this.head = [];
    this.tail = [];
    this.tailSize = 0;
    this.dropped = 0;
  }

  add(data) {
    if (this.feed !== null) {
      try {
        this.feed(data);
      } catch {
        // what a callback throws is its own business
      }
    }
    if (this.headRoom > 0) {
      const part = data.subarray(0, this.headRoom);
      this.head.push(part);
      this.headRoom -= part.length;
      data = data.subarray(part.length);
      if (data.length === 0) return;
    }
    this.tail.push(data);
    this.tailSize += data.length;
    while (this.tailSize > this.tailRoom) {
      const extra = this.tailSize - this.tailRoom;
      const first = this.tail[0];
      if (first.length <= extra) {
        this.tail.shift();
        this.tailSize -= first.length;
        this.dropped += first.length;
      } else {
        this.tail[0] = first.subarray(extra);
        this.tailSize -= extra;
        this.dropped += extra;
      }
    }
  }

  get truncated() {
    return this.dropped > 0;
  }

  text() {
    const gap = this.dropped ? [Buffer.from(`\n[... ${this.dropped} bytes left out ...]\n`)] : [];
    return Buffer.concat([...this.head, ...gap, ...this.tail]).toString("utf8");
  }
}

// A nameless file, in memory where it can be: what is read at the end needs no pipe, which Node makes a stream of.
function memoryFile(name) {
  const { O_RDWR, O_CREAT, O_EXCL, O_NOFOLLOW } = fs.constants;
  let problem = null;
  for (const place of [() => "/dev/shm", os.tmpdir]) { // asking for the second takes Node some twenty system calls
    const folder = place();
    try {
      return fs.openSync(folder, O_RDWR | O_TMPFILE | O_EXCL, 0o600);
    } catch {
      // a file system without nameless files: one whose name goes at once
    }
    const file = path.join(folder, `${name}-${process.pid}-${randomBytes(8).toString("hex")}`);
    try {
      const fd = fs.openSync(file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
      fs.unlinkSync(file);
      return fd;
    } catch (found) {
      problem = found;
    }
  }
  throw new SandboxError(`cannot make a file for the box in /dev/shm or ${os.tmpdir()}: ${problem.code}`);
}

class Running {
  // onExecuted: called once kern has read all that it was given by name
  constructor(kern, words, command, stdin, env, onExecuted) {
    this.born = process.hrtime.bigint();
    this.out = this.err = null;
    this.early = [[], []];
    this.reportData = Buffer.alloc(0);
    this.files = []; // the report's, and KERN_ALIVE_FD's unless somebody waits for what that says: then it is a pipe
    this.aliveSaid = "";
    this.executed = null;
    this.toldToEnd = false;
    this.exited = false;
    this.onExecuted = onExecuted;
    // Node itself reads all variables of its own process, behind these: a copy of them here would be one more.
    const environment = { __proto__: process.env, ...env, KERN_ALIVE_FD: "4", KERN_OWNER_FD: "2", KERN_STARTED_FD: undefined };
    this.waiting = new Set(); // a kernel's box is waited for at each cell: its one `done` would keep what each wait left on it
    try {
      this.files.push(memoryFile("kern-report"));
      if (this.onExecuted === null) this.files.push(memoryFile("kern-alive"));
      this.process = spawn(kern, [...words, "--report", "fd:3", "--", ...command], {
        stdio: [stdin === null ? "ignore" : stdin, "pipe", "pipe", this.files[0], this.files[1] ?? "pipe"], env: environment, detached: true,
      });
    } catch (problem) {
      this._takeFiles();
      if (problem instanceof SandboxError) throw problem;
      throw new SandboxError(`cannot start '${kern}': ${problem.code || problem.message}`);
    }
    this.done = new Promise((resolve, reject) => {
      this.process.once("error", (problem) => {
        this._executed(false);
        this._takeFiles();
        reject(new SandboxError(`cannot start '${kern}': ${problem.code || problem.message}`));
      });
      this.process.once("exit", (code, signal) => this._exit(code, signal, resolve));
    });
    const tell = (index) => (value) => {
      this.outcome = [index, value];
      for (const pair of this.waiting) pair[index](value);
    };
    this.done.then(tell(0), tell(1));
    const [, out, err, , alive] = this.process.stdio;
    this.streams = [];
    if (!out) return;
    this.streams = alive ? [out, err, alive] : [out, err];
    for (const stream of this.streams) stream.on("error", () => {});
    out.on("data", (data) => (this.out === null ? this.early[0].push(data) : this.out.add(data)));
    err.on("data", (data) => (this.err === null ? this.early[1].push(data) : this.err.add(data)));
    if (!alive) return;
    alive.on("data", (data) => (this.aliveSaid += data.toString("latin1").slice(0, 64)));
    alive.once("end", () => this._executed(this.aliveSaid === "A"));
  }

  _executed(value) {
    if (this.executed === null) this.executed = value;
    if (this.onExecuted !== null) this.onExecuted();
    this.onExecuted = null;
  }

  // kern is gone, and with it every process of the box: what its pipes still hold is all there is.
  _exit(code, signal, resolve) {
    this.exited = true;
    const result = code === null ? 128 + (os.constants.signals[signal] || 0) : code;
    this._takeFiles();
    const { streams } = this;
    const open = new Set(streams.filter((stream) => !stream.destroyed && !stream.readableEnded));
    let timer = null;
    const finish = () => {
      clearTimeout(timer);
      for (const stream of streams) stream.destroy();
      this._executed(false);
      resolve(result);
    };
    if (open.size === 0) return finish();
    timer = setTimeout(finish, 200); // only somebody outside of the box could still hold a pipe
    for (const stream of open) {
      const over = () => open.delete(stream) && open.size === 0 && finish();
      stream.once("end", over).once("close", over);
    }
  }

  attach(out, err) {
    this.out = out;
    this.err = err;
    for (const data of this.early[0].splice(0)) out.add(data);
    for (const data of this.early[1].splice(0)) err.add(data);
  }

  // Tells kern to end the box at once. Two signals: the first is the box's, the second means it.
  end() {
    if (this.toldToEnd || this.exited) return;
    this.toldToEnd = true;
    this.process.kill("SIGTERM");
    this.process.kill("SIGQUIT");
    this.hard = setTimeout(() => this.process.kill("SIGKILL"), GRACE);
    const clear = () => clearTimeout(this.hard);
    this.done.then(clear, clear);
  }

  // Waits for the end, or for `answered` (a promise), whichever is first. check: called now and then, returns the
  // milliseconds until it wants to be called again, null to end the box.
  // signal: an AbortSignal that ends the box; its reason is thrown then.
  async drain(timeoutMs, check, answered, signal = null) {
    this.deadlineHit = false;
    const abort = () => this.end();
    signal?.addEventListener("abort", abort, { once: true });
    if (signal?.aborted) this.end();
    const deadline = timeoutMs === null ? null : setTimeout(() => {
      if (this.exited || this.toldToEnd) return;
      this.deadlineHit = true;
      this.end();
    }, Math.min(timeoutMs, 2 ** 31 - 1));
    let measure = null;
    const again = () => {
      const next = check();
      if (next === null) this.end();
      else measure = setTimeout(again, next);
    };
    if (check) again();
    try {
      const how = await this.ended(answered);
      if (how !== "answered") signal?.throwIfAborted();
      return how;
    } finally {
      signal?.removeEventListener("abort", abort);
      clearTimeout(deadline);
      clearTimeout(measure);
    }
  }

  // The exit code, or what `other` gives, whichever is first.
  async ended(other = null) {
    let pair = null;
    try {
      return await new Promise((resolve, reject) => {
        pair = [resolve, reject];
        if (this.outcome) pair[this.outcome[0]](this.outcome[1]);
        else this.waiting.add(pair);
        if (other) other.then(resolve, reject);
      });
    } finally {
      this.waiting.delete(pair);
    }
  }

  // Takes what the files hold, and closes them. Of the other, only a kern that left no report makes a difference.
  _takeFiles() {
    const [report, alive] = this.files.splice(0);
    if (report === undefined) return;
    const read = (fd) => {
      const data = Buffer.alloc(Math.min(fs.fstatSync(fd).size, REPORT_LIMIT));
      return data.subarray(0, fs.readSync(fd, data, 0, data.length, 0));
    };
    this.reportData = read(report);
    fs.closeSync(report);
    if (alive === undefined) return;
    if (this.reportData.length === 0) this._executed(read(alive).toString("latin1") === "AE");
    fs.closeSync(alive);
  }

  report() {
    return this.reportData;
  }

  async close() {
    this.end();
    await this.done.catch(() => {});
  }
}

module.exports = { Capture, Running, memoryFile };

"use strict";
// Boxes that are there before the call: kernel() keeps one interpreter for many cells, a pool keeps several that each
// serve one call. Both speak with driver/warm.py over a socket that is descriptor 0 of the box.

const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const { randomBytes } = require("node:crypto");
const driver = require("./driver.js");
const { SandboxError } = require("./errors.js");
const { checkTimeout } = require("./options.js");
const { Capture } = require("./process.js");

const LIFE = 86400; // seconds after which kern ends a kernel's box, whatever became of this process
const POOL_LIFE = 600; // the same for a box that waits in a pool
const BETWEEN = 1 << 16;
const QUIET = 30; // milliseconds without a call before a pool refills: a refill within a burst would compete for the CPU

// A pair of connected sockets, which Node has no call for: a listener in a private folder, gone again at once.
async function socketPair() {
  const server = net.createServer({ pauseOnConnect: false });
  let folder = null;
  let fd = -1;
  try {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-socket-"));
    fd = fs.openSync(folder, fs.constants.O_RDONLY | fs.constants.O_DIRECTORY);
    const name = `/proc/self/fd/${fd}/s`; // a socket's name has room for 107 bytes, whatever TMPDIR is
    await new Promise((resolve, reject) => server.once("error", reject).listen(name, resolve));
    const accepted = new Promise((resolve) => server.once("connection", resolve));
    const theirs = net.connect(name);
    const [mine] = await Promise.all([accepted, new Promise((resolve, reject) => theirs.once("connect", resolve).once("error", reject))]);
    return [mine, theirs];
  } catch (problem) {
    throw new SandboxError(`cannot make a socket for the box: ${problem.code || problem.message}`);
  } finally {
    server.close();
    if (fd >= 0) fs.closeSync(fd);
    if (folder !== null) fs.rmSync(folder, { recursive: true, force: true });
  }
}

// A stream up to the mark that ends a cell.
class Marked extends Capture {
  constructor(cap, mark, feed) {
    super(cap, feed);
    this.mark = mark;
    this.pending = Buffer.alloc(0);
    this.marked = new Promise((resolve) => (this.resolve = resolve));
    this.isMarked = false;
  }

  add(data) {
    if (this.isMarked) return;
    const all = this.pending.length ? Buffer.concat([this.pending, data]) : data;
    const at = all.indexOf(this.mark);
    if (at >= 0) {
      this.isMarked = true;
      this.pending = Buffer.alloc(0);
      if (at > 0) super.add(all.subarray(0, at));
      this.resolve();
      return;
    }
    // The mark may be cut in two by a read: keep back what may be its beginning.
    let keep = 0;
    for (let size = Math.min(this.mark.length - 1, all.length); size > 0; size--) {
      if (this.mark.subarray(0, size).equals(all.subarray(all.length - size))) {
        keep = size;
        break;
      }
    }
    this.pending = all.subarray(all.length - keep);
    if (all.length > keep) super.add(all.subarray(0, all.length - keep));
  }

  finish() {
    if (this.pending.length && !this.isMarked) super.add(this.pending);
    this.pending = Buffer.alloc(0);
  }
}

// A box whose interpreter waits for cells.
class WarmBox {
  static async start(sandbox, life) {
    const [mine, theirs] = await socketPair();
    const box = new WarmBox();
    box.socket = mine;
    box.parser = null;
    box.between = [];
    mine.on("error", () => {});
    mine.on("data", (data) => box._take(data));
    mine.write(driver.warmUp());
    try {
      box.running = sandbox._start(driver.warm(), theirs, life);
    } catch (problem) {
      mine.destroy();
      throw problem;
    } finally {
      theirs.destroy();
    }
    return box;
  }

  _take(data) {
    if (this.parser === null) return;
    this.parser.feed(data);
    if (this.parser.end !== null || this.parser.broken) this.answer("answered");
  }

  // What comes until the next cell, of a process that one left behind, is that cell's; as much of it as a pipe holds.
  _idle() {
    this.between = [new Capture(BETWEEN), new Capture(BETWEEN)];
    this.running.attach(...this.between);
  }

  get ended() {
    return this.running.exited;
  }

  age() {
    return Number(process.hrtime.bigint() - this.running.born) / 1e9;
  }

  // Runs one cell. The result has a fault if the box did not live through it.
  async call(sandbox, kind, code, timeoutS, feeds, signal) {
    const limit = sandbox.options.maxOutputBytes;
    const mark = randomBytes(driver.MARK);
    const begin = process.hrtime.bigint();
    const parser = (this.parser = new driver.Parser(limit));
    const outs = feeds.map((feed) => new Marked(limit, mark, feed));
    const track = sandbox._track();
    this.running.attach(outs[0], outs[1]);
    for (const [index, late] of this.between.entries()) for (const data of [...late.head, ...late.tail]) outs[index].add(data);
    const answered = new Promise((resolve) => (this.answer = resolve));
    this.socket.write(driver.cell(kind, code, mark));
    let how = await this.running.drain(timeoutS * 1000, track.check, answered, signal);
    if (how === "answered" && parser.end !== null) {
      // What the cell printed has all been written before the driver answered: read on until its mark.
      if (!outs[0].isMarked || !outs[1].isMarked) await this._marks(outs);
    } else if (how === "answered") {
      this.running.end(); // garbage on the channel: whoever wrote it is no driver any more
      how = await this.running.drain(null, null, null);
    }
    for (const out of outs) out.finish();
    this.parser = null;
    this._idle();
    const result = sandbox._result(outs[0], outs[1], begin, parser.results, parser.dropped);
    track.finish(result);
    if (how === "answered") {
      result.exitCode = parser.end.code;
      result.usage = { wallMs: result.durationMs, cpuMs: parser.end.cpuMs, peakMemoryBytes: null };
    } else {
      sandbox._judge(result, this.running, how, timeoutS, "python3", track);
      if (parser.broken && (result.fault === null || result.fault.type === "killed")) {
        result.fault = { type: "killed", message: "the code wrote to the channel of the interpreter's driver" };
      }
    }
    return result;
  }

  async _marks(outs) {
    let timer;
    const late = new Promise((resolve) => (timer = setTimeout(resolve, 1000)));
    await this.running.ended(Promise.race([Promise.all(outs.map((out) => out.marked)), late]));
    clearTimeout(timer);
  }

  async close() {
    this.socket.destroy();
    await this.running.close();
  }
}

// One warm Python interpreter: names and imports live from cell to cell. A fault ends it.
class Kernel {
  #sandbox;
  #box;
  #dead = null;
  #queue = Promise.resolve();

  static async _open(sandbox) {
    const kernel = new Kernel();
    kernel.#sandbox = sandbox;
    kernel.#box = await WarmBox.start(sandbox, LIFE);
    sandbox._kernels.add(kernel);
    let first;
    try {
      first = await kernel.runCode("", { timeoutS: Math.max(sandbox.options.timeoutS, 30) });
    } catch (problem) {
      await kernel.close();
      throw problem;
    }
    if (first.fault !== null) {
      await kernel.close();
      const text = first.stderr.trim();
      throw new SandboxError(`the kernel did not start (${first.fault.type}): ${first.fault.message}${text ? `\n${text}` : ""}`);
    }
    return kernel;
  }

  get alive() {
    return this.#box !== null;
  }

  // Cells that are given at once run one after the other.
  runCode(code, call = {}) {
    const turn = this.#queue.then(() => this.#run(code, call));
    this.#queue = turn.catch(() => {});
    return turn;
  }

  async #run(code, call) {
    const sandbox = this.#sandbox;
    const { feeds, timeoutS, signal } = sandbox._callOptions(code, call);
    if (this.#dead !== null) throw new SandboxError(`kernel is dead: a prior cell ended it (${this.#dead})`);
    if (this.#box === null) throw new SandboxError("kernel is closed");
    const box = this.#box;
    let result;
    try {
      result = await box.call(sandbox, "C", code, timeoutS, feeds, signal);
    } catch (problem) {
      this.#dead ??= "interrupted";
      await this.#end();
      throw problem;
    }
    if (this.#box !== box) throw new SandboxError("kernel is closed");
    if (result.fault !== null || box.ended) {
      this.#dead = result.fault !== null ? result.fault.type : "exit";
      await this.#end();
    }
    return result;
  }

  async #end() {
    const box = this.#box;
    this.#box = null;
    this.#sandbox._kernels.delete(this);
    if (box) await box.close();
  }

  async close() {
    await this.#end();
  }
}

// Boxes of one sandbox, hence of one posture, that wait for a call each.
class Pool {
  constructor(sandbox, size) {
    this.sandbox = sandbox;
    this.size = size;
    this.ready = [];
    this.ending = new Set();
    this.closed = false;
    this.timer = null;
    this.filling = this._fill();
  }

  async _fill() {
    while (!this.closed && this.ready.length < this.size) {
      try {
        const box = await WarmBox.start(this.sandbox, POOL_LIFE + this.sandbox.options.timeoutS + 5);
        box.socket.unref();
        if (this.closed) this._end(box);
        else this.ready.push(box);
      } catch {
        return; // the next call starts its box itself, and says what is wrong
      }
    }
  }

  take() {
    clearTimeout(this.timer);
    this.timer = this.closed ? null : setTimeout(() => (this.filling = this.filling.then(() => this._fill())), QUIET);
    while (this.ready.length) {
      const box = this.ready.shift();
      if (box.age() < POOL_LIFE && !box.ended) {
        box.socket.ref();
        return box;
      }
      this._end(box);
    }
    return null;
  }

  // Ends a box that served its call, in the background: whoever waits for the call has its result first.
  _end(box) {
    const closing = new Promise(setImmediate).then(() => box.close()).catch(() => {}).then(() => this.ending.delete(closing));
    this.ending.add(closing);
  }

  async close() {
    this.closed = true;
    clearTimeout(this.timer);
    await this.filling;
    for (const box of this.ready.splice(0)) this._end(box);
    await Promise.all(this.ending);
  }
}

module.exports = { Kernel, Pool };

"use strict";
// The Python programs that boxes run, and the frames that they speak (see driver).

const fs = require("node:fs");
const path = require("node:path");
const { memoryFile } = require("./process.js");
const { Result } = require("./result.js");

const HEADER = 9;
const MARK = 16;
const cache = {};

function source(name) {
  return (cache[name] ??= fs.readFileSync(path.join(__dirname, "driver", name)));
}

// The words that start a program of driver/, without its comments: it is parsed at every start.
function command(name) {
  return ["python3", "-c", (cache[`${name} -c`] ??= source(name).toString("utf8").split("\n").filter((line) => !line.startsWith("#")).join("\n"))];
}

const warm = () => command("warm.py");

function frame(kind, body) {
  const head = Buffer.alloc(HEADER);
  head.write(kind, 0, "latin1");
  head.writeBigUInt64BE(BigInt(body.length), 1);
  return [head, body];
}

function cell(kind, code, mark) {
  return Buffer.concat(frame(kind, Buffer.concat([mark, Buffer.from(code, "utf8")])));
}

const GOES_ON = /[)\]}]|(?:elif|else|except|finally)\b/y; // a line that belongs to the statement before it
// What is no expression for sure: by its first word, or an assignment.
const WORD = /^\s*(?:assert|async|break|class|continue|def|del|for|from|global|if|import|nonlocal|pass|raise|return|try|while|with)\b/;
const ASSIGNED = /^\s*(?![^=\n]*\blambda\b)[A-Za-z_][\w.,:[\] \t]*(?:\*\*|\/\/|<<|>>|[-+*/%&|^@])?(?<!:)=(?!=)/;
const WHOLE = /[\r\f]|\b__future__\b|^(?:.*\n)?.*coding[:=]/; // code that cannot be cut in two

// [what runs the last part, the code before its last statement, that and what follows behind as many line breaks]: only
// there can a last expression be. None runs it when it takes the whole syntax to tell.
function split(code) {
  let at = code.length;
  const goesOn = () => {
    if (" \t\n#".includes(code.charAt(at))) return true;
    GOES_ON.lastIndex = at;
    return GOES_ON.test(code);
  };
  do {
    at = at > 1 ? code.lastIndexOf("\n", at - 2) + 1 : at - 1;
  } while (at >= 0 && goesOn());
  if (WHOLE.test(code) || (at >= 0 && "*@".includes(code.charAt(at)))) return ["None", code, ""];
  if (at < 0) return ["exec", "", code];
  const head = code.slice(0, at);
  const tail = "\n".repeat(head.split("\n").length - 1) + code.slice(at);
  if (!WORD.test(tail) && !ASSIGNED.test(tail)) return ["eval", head, tail];
  return [tail.includes(";") ? "None" : "exec", head, tail];
}

// The words that run code in a box for one call, and what the box's descriptor 0 holds then.
function oneCall(code) {
  const [runner, ...parts] = split(code);
  const nul = Buffer.alloc(1);
  const data = Buffer.concat([...parts.flatMap((part) => [Buffer.from(part, "utf8"), nul]), source("helper.py")]);
  const [python, flag, text] = command("boot.py");
  return [[python, flag, `${text}\n_kern_boot(${runner}, ${data.length})`], data];
}

// What a box is told first that gets its cells by a socket.
function warmUp() {
  return Buffer.concat(frame("W", Buffer.concat([source("helper.py"), source("serve.py")])));
}

// A nameless file that is a box's descriptor 0: holds the cell, takes the results. In memory where it can be, so that what
// a box writes there is charged to its own memory cap.
class CallFile {
  constructor(data, room) {
    this.start = data.length;
    this.room = room;
    this.fd = memoryFile("kern-call");
    for (let done = 0; done < data.length;) done += fs.writeSync(this.fd, data, done, data.length - done, done);
  }

  results() {
    const parser = new Parser(this.room);
    const size = fs.fstatSync(this.fd).size - this.start;
    const part = Buffer.alloc(Math.min(Math.max(size, 0), 1 << 16));
    for (let at = 0; at < size && !parser.broken && at <= this.room + HEADER;) {
      const count = fs.readSync(this.fd, part, 0, part.length, this.start + at);
      if (count === 0) break;
      parser.feed(Buffer.from(part.subarray(0, count)));
      at += count;
    }
    return [parser.results, parser.dropped || size > this.room];
  }

  close() {
    fs.closeSync(this.fd);
  }
}

// Frames from a box. Whatever does not fit the protocol ends it; nothing here can make a fault.
class Parser {
  constructor(room) {
    this.room = room;
    this.parts = [];
    this.size = 0;
    this.results = [];
    this.dropped = false;
    this.broken = false;
    this.end = null; // {code, cpuMs}
    this.skip = 0;
  }

  feed(data) {
    if (this.skip) {
      const used = Math.min(this.skip, data.length);
      this.skip -= used;
      data = data.subarray(used);
    }
    this.parts.push(data);
    this.size += data.length;
    while (!this.broken && this.end === null && this.size >= HEADER) {
      if (this.parts[0].length < HEADER) this._join();
      const kind = String.fromCharCode(this.parts[0][0]);
      const size = Number(this.parts[0].readBigUInt64BE(1));
      if (!((kind === "E" && size === 12) || (kind === "R" && size <= 2 ** 40))) {
        this.broken = true;
        return;
      }
      if (kind === "R" && size > this.room) {
        this.dropped = true;
        this._join();
        const have = this.size - HEADER;
        this.skip = Math.max(0, size - have);
        this._shift(Math.min(HEADER + size, this.size));
        continue;
      }
      if (this.size < HEADER + size) return;
      this._join();
      const body = this.parts[0].subarray(HEADER, HEADER + size);
      if (kind === "E") this.end = { code: body.readUInt32BE(0) & 255, cpuMs: Number(body.readBigUInt64BE(4)) };
      else this._result(body);
      if (kind === "R") this.room -= size;
      this._shift(HEADER + size);
    }
  }

  _join() {
    if (this.parts.length > 1) this.parts = [Buffer.concat(this.parts)];
  }

  _shift(count) {
    this.parts = [this.parts[0].subarray(count)];
    this.size -= count;
  }

  _result(body) {
    try {
      const value = JSON.parse(body.toString("utf8"));
      if (value !== null && typeof value === "object" && !Array.isArray(value)) this.results.push(new Result({ "text/plain": "", ...value }));
    } catch {
      // the code's own results are lost, nothing else
    }
  }
}

module.exports = { CallFile, MARK, Parser, cell, oneCall, split, warm, warmUp };

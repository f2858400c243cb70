"use strict";
// The folder that a sandbox and its boxes share, seen from the host. What a box planted there is hostile: each component of
// a path is opened below the descriptor of the one before (through /proc/self/fd, Node has no openat) without following
// links, only regular files are read or written, and nothing waits for a FIFO.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawnSync } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const { SandboxError } = require("./errors.js");
const names = require("./names.js");
const tar = require("./tar.js");

const { O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_WRONLY } = fs.constants;
const CLOSED = "the sandbox was closed while the call ran";
const DEPS = ".deps";
const CODE_PREFIX = ".kern-code-";
const ARGUMENT_LIMIT = 128 << 10; // the kernel's limit for one argument

const DEPTH_LIMIT = 200; // folders: each that is open costs a descriptor, and what a box made decides how many

function under(fd, name) {
  const file = `/proc/self/fd/${fd}/${name}`;
  return names.isOdd(name) ? names.toBytes(file) : file;
}

// What a directory holds, with names that lead to it, whatever bytes they are.
function entriesOf(fd) {
  const place = `/proc/self/fd/${fd}/.`;
  const found = fs.readdirSync(place, { withFileTypes: true });
  if (!found.some((entry) => entry.name.includes("\ufffd"))) return found;
  return fs.readdirSync(place, { withFileTypes: true, encoding: "buffer" }).map((entry) => ({
    name: names.fromBytes(entry.name), isDirectory: () => entry.isDirectory(), isFile: () => entry.isFile(),
  }));
}

function partsOf(file) {
  if (typeof file !== "string") throw new SandboxError(`a path in the workspace is a string, not ${typeof file}`);
  if (file.includes("\0")) throw new SandboxError(`${JSON.stringify(file)} is not a usable path`);
  if (names.isOdd(file)) names.toBytes(file);
  const text = file.startsWith("/workspace/") ? file.slice("/workspace/".length) : file;
  if (text.startsWith("/")) throw new SandboxError(`'${text}' leaves the workspace: give a path relative to it`);
  const parts = text.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) throw new SandboxError(`'${text}' leaves the workspace: no '..' is followed`);
  return parts;
}

class Workspace {
  constructor(folder) {
    this.mine = folder === null;
    try {
      this.path = this.mine ? fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), "kern-workspace-")) : folder;
    } catch (problem) {
      throw new SandboxError(`workspace: cannot make a temporary one: ${problem.message}; TMPDIR names where they go`);
    }
    this.counter = 0;
    try {
      this.fd = fs.openSync(this.path, O_RDONLY | O_DIRECTORY);
    } catch (problem) {
      throw new SandboxError(`workspace: cannot open '${this.path}': ${problem.code}`);
    }
  }

  close() {
    if (this.fd < 0) return;
    fs.closeSync(this.fd);
    this.fd = -1;
    if (this.mine) removeTree(this.path);
  }

  // The directory that holds the last part, opened component by component.
  _folder(parts, make) {
    let current = fs.openSync(`/proc/self/fd/${this.fd}/.`, O_RDONLY | O_DIRECTORY);
    try {
      for (const part of parts) {
        if (make) {
          try {
            fs.mkdirSync(under(current, part), 0o777); // what is left of it the umask says, or a default ACL
          } catch (problem) {
            if (problem.code !== "EEXIST") throw problem;
          }
        }
        const next = fs.openSync(under(current, part), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
        fs.closeSync(current);
        current = next;
      }
      return current;
    } catch (problem) {
      fs.closeSync(current);
      throw problem;
    }
  }

  _open(file, flags) {
    const parts = partsOf(file);
    if (parts.length === 0) throw new SandboxError(`'${file}' names the workspace itself, not a file`);
    let found;
    try {
      const folder = this._folder(parts.slice(0, -1), Boolean(flags & O_CREAT));
      try {
        found = fs.openSync(under(folder, parts[parts.length - 1]), flags | O_NOFOLLOW | O_NONBLOCK, 0o666);
      } finally {
        fs.closeSync(folder);
      }
    } catch (problem) {
      if (problem.code === "ENOENT") {
        throw Object.assign(new Error(`the workspace has no file '${file}'`), { code: "ENOENT" });
      }
      throw new SandboxError(`cannot open '${file}' in the workspace: ${problem.code} (links, FIFOs and devices are not followed)`);
    }
    if (!fs.fstatSync(found).isFile()) {
      fs.closeSync(found);
      throw new SandboxError(`'${file}' in the workspace is not a regular file`);
    }
    return found;
  }

  write(file, data) {
    if (typeof data === "string" && names.isOdd(data)) throw new SandboxError("writeFile: the data has a lone surrogate, which is no text");
    const bytes = typeof data === "string" ? Buffer.from(data, "utf8") : data;
    if (!(bytes instanceof Uint8Array)) throw new SandboxError(`writeFile: the data is a string or bytes, not ${typeof data}`);
    const fd = this._open(file, O_WRONLY | O_CREAT);
    try {
      fs.ftruncateSync(fd, 0);
      fs.writeFileSync(fd, bytes);
    } catch (problem) {
      throw new SandboxError(`cannot write '${file}' in the workspace: ${problem.code}`);
    } finally {
      fs.closeSync(fd);
    }
  }

  read(file) {
    const fd = this._open(file, O_RDONLY);
    try {
      return fs.readFileSync(fd);
    } finally {
      fs.closeSync(fd);
    }
  }

  // Puts a long script where the box can read it; its name. remove() takes it away.
  addCode(code, suffix) {
    const name = `${CODE_PREFIX}${process.pid}-${++this.counter}-${randomBytes(4).toString("hex")}${suffix}`;
    try {
      const fd = fs.openSync(under(this.fd, name), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
      try {
        fs.writeFileSync(fd, code);
      } finally {
        fs.closeSync(fd);
      }
    } catch (problem) {
      this.remove(name);
      throw new SandboxError(`code of ${ARGUMENT_LIMIT >> 10} KiB and more goes by a file in the workspace, which cannot be written: ${problem.code}`);
    }
    return name;
  }

  remove(name) {
    try {
      fs.unlinkSync(under(this.fd, name));
    } catch {
      // the code took it away itself
    }
  }

  makeDeps() {
    try {
      try {
        fs.mkdirSync(under(this.fd, DEPS), 0o777);
      } catch (problem) {
        if (problem.code !== "EEXIST") throw problem;
      }
      fs.closeSync(this._folder([DEPS], false)); // a link planted there is refused
    } catch (problem) {
      throw new SandboxError(`setup: cannot make '${DEPS}' in the workspace: ${problem.code}`);
    }
  }

  hasDeps() {
    try {
      return fs.lstatSync(under(this.fd, DEPS)).isDirectory();
    } catch {
      return false;
    }
  }

  *_walk(fd, prefix, hide, depth) {
    for (const entry of entriesOf(fd)) {
      if (hide && prefix === "" && (entry.name === DEPS || entry.name.startsWith(CODE_PREFIX))) continue;
      try {
        if (entry.isDirectory() && depth === DEPTH_LIMIT) {
          yield [prefix + entry.name, null];
        } else if (entry.isDirectory()) {
          const below = fs.openSync(under(fd, entry.name), O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
          try {
            yield* this._walk(below, `${prefix}${entry.name}/`, hide, depth + 1);
          } finally {
            fs.closeSync(below);
          }
        } else if (entry.isFile()) {
          yield [prefix + entry.name, fs.lstatSync(under(fd, entry.name), { bigint: true })];
        }
      } catch {
        // gone meanwhile, or closed to us
      }
    }
  }

  // Every file; and every folder that is too deep to look into, with null.
  walk(hide) {
    return this._walk(this.fd, "", hide, 0);
  }

  seen() {
    const found = new Map();
    for (const [name, info] of this.walk(true)) {
      if (info !== null) found.set(name, { key: `${info.ctimeNs} ${info.size} ${info.ino}`, size: Number(info.size) });
    }
    return found;
  }

  static _sorted(files) {
    return files.sort((a, b) => Buffer.compare(Buffer.from(a.path), Buffer.from(b.path)));
  }

  changes(before) {
    const found = [];
    for (const [name, now] of this.seen()) {
      const then = before.get(name);
      if (then === undefined || then.key !== now.key) found.push({ path: name, size: now.size, change: then === undefined ? "created" : "modified" });
    }
    return Workspace._sorted(found);
  }

  list(before) {
    return Workspace._sorted([...this.seen()].map(([name, now]) => ({ path: name, size: now.size, change: before.has(name) ? "modified" : "created" })));
  }

  // The bytes on disk; what is too deep to look into counts as more than any limit.
  size() {
    let sum = 0;
    for (const [, info] of this.walk(false)) sum += info === null ? Infinity : Number(info.blocks) * 512;
    return sum;
  }

  // What a snapshot has: nothing is left out of one in silence, and none is made that restore() would refuse.
  _toKeep() {
    const kept = [];
    let size = 0;
    for (const [name, info] of this.walk(false)) {
      if (info === null) throw new SandboxError(`snapshot: '${name.slice(0, 80)}'... is below more than ${DEPTH_LIMIT} folders`);
      if (name.startsWith(CODE_PREFIX)) continue;
      kept.push(name);
      size += Number(info.size) + 2048;
    }
    if (size > tar.INFLATED_LIMIT) {
      throw new SandboxError(`snapshot: the workspace has more than ${tar.INFLATED_LIMIT / 2 ** 20} MiB, which restore would refuse`);
    }
    return kept.sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  }

  snapshot(destination) {
    const files = [];
    for (const name of this._toKeep()) {
      try {
        files.push([name, this.read(name)]);
      } catch {
        // gone meanwhile, or closed to us
      }
    }
    fs.writeFileSync(destination, tar.pack(files));
  }

  // Looks at every member before the first byte is written: what is refused changes nothing.
  restore(source) {
    let packed;
    try {
      packed = fs.readFileSync(source);
    } catch (problem) {
      throw new SandboxError(`cannot restore '${source}': ${problem.code}`);
    }
    let members;
    try {
      members = tar.unpack(packed);
    } catch (problem) {
      throw new SandboxError(`cannot restore '${source}': ${problem.message}`);
    }
    for (const { parts, data } of members) {
      try {
        if (data === null) fs.closeSync(this._folder(parts, true));
        else this._replace(parts, data);
      } catch (problem) {
        throw new SandboxError(`cannot restore '${parts.join("/")}': ${problem.code} (links are not followed)`);
      }
    }
  }

  _replace(parts, data) {
    const folder = this._folder(parts.slice(0, -1), true);
    try {
      const name = under(folder, parts[parts.length - 1]);
      try {
        fs.unlinkSync(name);
      } catch (problem) {
        if (problem.code !== "ENOENT") throw problem;
      }
      const fd = fs.openSync(name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o666);
      try {
        fs.writeFileSync(fd, data);
      } finally {
        fs.closeSync(fd);
      }
    } finally {
      fs.closeSync(folder);
    }
  }
}

// Removes a folder that a box wrote into; directories without permissions are opened first.
function removeTree(folder) {
  try {
    fs.rmSync(folder, { recursive: true, force: true });
    return;
  } catch {
    // once more, with permissions
  }
  const open = (name) => {
    try {
      fs.chmodSync(name, 0o700);
      for (const entry of fs.readdirSync(name, { withFileTypes: true })) if (entry.isDirectory()) open(path.join(name, entry.name));
    } catch {
      // not ours to open
    }
  };
  open(folder);
  try {
    fs.rmSync(folder, { recursive: true, force: true });
  } catch {
    // somebody else's files, or so deep a tree that Node cannot name what is in it
    for (const [program, ...words] of [["chmod", "-R", "u+rwx"], ["rm", "-rf"]]) spawnSync(program, [...words, "--", folder], { stdio: "ignore" });
  }
}

module.exports = { ARGUMENT_LIMIT, CLOSED, Workspace, removeTree };

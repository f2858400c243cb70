"use strict";
// The standard library of an image, compiled once per image into a cache beside the workspace, and mounted read-only into
// its boxes. It is built in a box that outlives the call which began it; whoever comes next takes over what it made, after a
// look at it. A stale cache is harmless: Python compares each file with its source. The Python package shares the cache.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const { createHash, randomBytes } = require("node:crypto");
const { bindWords } = require("./mounts.js");

const TARGET = "/.kern-pyc";
const DONE = ".done";
const SIZE_LIMIT = 256 << 20;
const FILE_LIMIT = 30000;
const KEEP = 8; // images
const BUILD_LIMIT = 180; // seconds
const SCRIPT = `
import compileall, sys, sysconfig
sys.pycache_prefix = "/pyc"
compileall.compile_dir(sysconfig.get_path("stdlib"), quiet=2, maxlevels=10, workers=1)
open("/pyc/.done", "w").close()
`;
const KEY = /^[0-9a-f]{32}$/;

const root = () => path.join(process.env.XDG_CACHE_HOME || path.join(os.homedir(), ".cache"), "kern-sandbox", "pyc");
const hash = (text) => createHash("sha256").update(text).digest("hex").slice(0, 32);

// Whether there is nothing in it but directories and bytecode, and not too much of that.
function fits(folder) {
  let size = 0;
  let count = 0;
  const look = (top) => fs.readdirSync(top, { withFileTypes: true }).every((entry) => {
    const name = path.join(top, entry.name);
    if (entry.isDirectory()) return look(name);
    if (!entry.isFile() || !(entry.name.endsWith(".pyc") || entry.name === DONE)) return false;
    size += fs.lstatSync(name).size;
    count += 1;
    return size <= SIZE_LIMIT && count <= FILE_LIMIT;
  });
  return look(folder);
}

function forgetOld(folder) {
  const kept = fs.readdirSync(folder).filter((name) => KEY.test(name)).map((name) => [fs.statSync(path.join(folder, name)).mtimeMs, name]);
  for (const [, name] of kept.sort((a, b) => b[0] - a[0]).slice(KEEP)) fs.rmSync(path.join(folder, name), { recursive: true, force: true });
}

// What one sandbox knows of its image's cache.
class PycCache {
  constructor(sandbox) {
    const { options } = sandbox;
    this.sandbox = sandbox;
    this.image = options.image;
    this.on = options.pycCache && this.image !== "host" && !("PYTHONPYCACHEPREFIX" in options.env);
    this.ready = null;
    this.tried = false;
  }

  // The words that mount the cache, if there is one.
  words() {
    if (!this.on) return [];
    this.ready ??= this._look();
    return this.ready === null ? [] : [...bindWords(this.ready, TARGET, true), "-e", `PYTHONPYCACHEPREFIX=${TARGET}`];
  }

  // The folder of the image that this reference meant last; takes over a build that is done.
  _look() {
    let key;
    try {
      key = fs.readFileSync(path.join(root(), `ref-${hash(this.image)}`), "latin1").slice(0, 32);
    } catch {
      return null;
    }
    if (!KEY.test(key)) return null;
    const folder = path.join(root(), key);
    const built = `${folder}.building`;
    try {
      if (!fs.existsSync(folder) && fs.existsSync(path.join(built, DONE))) {
        if (!fits(built)) {
          fs.rmSync(built, { recursive: true, force: true });
          return null;
        }
        fs.renameSync(built, folder);
        forgetOld(root());
      }
    } catch {
      // somebody else was faster
    }
    return fs.existsSync(folder) ? folder : null;
  }

  // What image a call ran on: begins a build if there is none.
  learn(digest) {
    if (!this.on || this.tried || this.ready !== null || typeof digest !== "string") return;
    this.tried = true;
    try {
      const folder = path.join(root(), hash(digest));
      fs.mkdirSync(root(), { recursive: true, mode: 0o700 });
      const temporary = path.join(root(), `ref-${process.pid}-${randomBytes(4).toString("hex")}`);
      fs.writeFileSync(temporary, hash(digest), { flag: "wx" });
      fs.renameSync(temporary, path.join(root(), `ref-${hash(this.image)}`));
      if (fs.existsSync(folder)) return;
      const built = `${folder}.building`;
      if (fs.existsSync(built)) {
        if (Date.now() - fs.statSync(built).mtimeMs < 2000 * BUILD_LIMIT) return; // somebody builds it
        fs.rmSync(built, { recursive: true, force: true });
      }
      fs.mkdirSync(built, 0o755);
      this._build(built);
    } catch {
      // no cache, then
    }
  }

  _build(folder) {
    const words = ["box", `kern-pyc-${process.pid}-${randomBytes(3).toString("hex")}`, "--image", this.image, "--ro", "--memory", "512m",
      "--pids-limit", "32", "--timeout", String(BUILD_LIMIT), "--cap-drop", "ALL", "--nice", "10", "--quiet", ...bindWords(folder, "/pyc", false),
      "--", "python3", "-c", SCRIPT];
    spawn(this.sandbox.kern, words, { stdio: "ignore", detached: true }).once("error", () => {}).unref();
  }
}

module.exports = { PycCache };

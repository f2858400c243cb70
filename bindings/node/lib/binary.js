"use strict";
// Finds the kern that is driven: $KERN_BIN, else the one of the platform package, else the one on PATH. It is asked for
// its version once for as long as the file stays the same.

const fs = require("node:fs");
const path = require("node:path");
const { spawnSync } = require("node:child_process");
const { SandboxError } = require("./errors.js");

const OLDEST = [0, 1, 0];
const INSTALL = "install kern, or name it: export KERN_BIN=/path/to/kern";
const known = new Set();

function executable(file) {
  try {
    fs.accessSync(file, fs.constants.X_OK);
    return fs.statSync(file).isFile();
  } catch {
    return false;
  }
}

function packaged() {
  try {
    return require.resolve(`kern-sandbox-linux-${process.arch}/bin/kern`);
  } catch {
    return null;
  }
}

function candidate() {
  if (process.platform !== "linux") {
    throw new SandboxError(`kern needs Linux, and this is ${process.platform}: run it in a Linux VM (Lima, colima, OrbStack, UTM, ` +
      "WSL2), with this package installed there");
  }
  const named = process.env.KERN_BIN;
  if (named) {
    if (!fs.existsSync(named)) throw new SandboxError(`KERN_BIN names '${named}', and there is no such file; ${INSTALL}`);
    if (!executable(named)) throw new SandboxError(`KERN_BIN names '${named}', which is not executable: chmod +x '${named}'`);
    return path.resolve(named);
  }
  const mine = packaged();
  if (mine !== null && executable(mine)) return mine;
  for (const folder of (process.env.PATH || "").split(":")) {
    const file = path.resolve(folder || ".", "kern");
    if (executable(file)) return file;
  }
  throw new SandboxError(`no kern on PATH, none in this package, and KERN_BIN is not set; ${INSTALL}`);
}

function ask(file) {
  const done = spawnSync(file, ["--version"], { stdio: ["ignore", "pipe", "pipe"], timeout: 20000, killSignal: "SIGKILL" });
  if (done.error) throw new SandboxError(`cannot run '${file}': ${done.error.message}; ${INSTALL}`);
  const text = done.stdout.toString("utf8").trim();
  const match = /^kern (\d+)\.(\d+)\.(\d+)/.exec(text);
  if (done.status !== 0 || match === null) {
    throw new SandboxError(`'${file}' is not kern: \`--version\` printed ${JSON.stringify(text.slice(0, 60))}; ${INSTALL}`);
  }
  const version = match.slice(1).map(Number);
  const order = version.map((part, index) => part - OLDEST[index]).find((difference) => difference !== 0) || 0;
  if (order < 0) throw new SandboxError(`'${file}' is ${text}, and this package needs ${OLDEST.join(".")} or newer; ${INSTALL}`);
}

function findKern() {
  const file = candidate();
  const info = fs.statSync(file);
  const key = [file, info.ino, info.mtimeMs, info.size].join("\0");
  if (!known.has(key)) {
    ask(file);
    known.add(key);
  }
  return file;
}

module.exports = { findKern };

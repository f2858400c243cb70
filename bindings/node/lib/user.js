"use strict";
// A sandbox whose boxes run as somebody else than root: that account has to reach the workspace, and this process has to reach
// what it makes there. Which id of the host it is, only a box can tell: one makes a file, and its owner is looked at. A POSIX
// ACL on the workspace then opens it for both.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawnSync } = require("node:child_process");
const { randomBytes } = require("node:crypto");
const { SandboxError } = require("./errors.js");
const { bindWords } = require("./mounts.js");
const { Capture } = require("./process.js");

async function box(sandbox, words, folder, script) {
  const name = `kern-user-${process.pid}-${randomBytes(3).toString("hex")}`;
  const image = sandbox.options.image === "host" ? [] : ["--image", sandbox.options.image];
  const running = sandbox._spawn(["box", name, ...image, "--ro", "--uid-range", ...words, ...bindWords(folder, "/workspace", false), "--timeout", "60"],
    ["sh", "-c", script], null);
  const [out, err] = [new Capture(1 << 16), new Capture(1 << 16)];
  running.attach(out, err);
  return [await running.drain(null, null, null), err.text().trim()];
}

async function hostId(sandbox) {
  const place = fs.mkdtempSync(path.join(fs.realpathSync(os.tmpdir()), "kern-user-"));
  const folder = path.join(place, "w");
  try {
    fs.mkdirSync(folder);
    fs.chmodSync(folder, 0o777); // below a folder that nobody else enters
    const [code, said] = await box(sandbox, ["--user", sandbox.options.user], folder, ": > /workspace/probe");
    if (code !== 0) throw new SandboxError(`user: no box can run as '${sandbox.options.user}': ${said}`);
    return fs.lstatSync(path.join(folder, "probe")).uid;
  } finally {
    fs.rmSync(place, { recursive: true, force: true });
  }
}

// Opens the workspace for the account of the boxes, and what that makes for this process.
async function share(sandbox, workspace) {
  const mine = process.geteuid();
  const theirs = await hostId(sandbox);
  if (mine === theirs) return;
  const rule = [`u:${theirs}:rwX`, `u:${mine}:rwX`];
  const done = spawnSync("setfacl", ["-R", "-P", "-m", rule.join(","), "-m", rule.map((part) => `d:${part}`).join(","), "--", workspace], { encoding: "utf8" });
  if (done.error) {
    throw new SandboxError("user: a box that runs as another account shares the workspace by an ACL, and there is no setfacl: apt install acl");
  }
  if (done.status !== 0) throw new SandboxError(`user: cannot open the workspace '${workspace}' for the account of the boxes: ${done.stderr.trim()}`);
}

// Empties a workspace with what only the account of the boxes may remove.
async function clear(sandbox, workspace) {
  await box(sandbox, [], workspace, "rm -rf /workspace/* /workspace/.[!.]* /workspace/..?*").catch(() => {});
}

module.exports = { clear, share };

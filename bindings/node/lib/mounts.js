"use strict";
// Which paths of the host a box may be given: none that is the host's own, holds credentials, or steers kern.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { MountRefused } = require("./errors.js");

const HOST = ["/etc", "/boot", "/proc", "/sys", "/dev"];
const CREDENTIALS = [
  ".ssh", ".aws", ".gnupg", ".kube", ".docker", ".azure", ".oci", ".terraform.d", ".password-store", ".netrc",
  ".git-credentials", ".pypirc", ".npmrc", ".databrickscfg", ".boto", ".s3cfg", ".rclone.conf",
];
const CONFIG_CREDENTIALS = ["gcloud", "gh", "doctl", "rclone"];
const SOCKETS = ["docker.sock", "podman.sock", "containerd.sock", "crio.sock", "buildkitd.sock"];

const below = (file, folder) => file === folder || file.startsWith(folder.replace(/\/+$/, "") + "/");

// Through links as far as the path exists; what is left of it as it stands.
function realpath(file) {
  let rest = [];
  let head = path.resolve(file);
  for (;;) {
    try {
      return path.join(fs.realpathSync.native(head), ...rest);
    } catch {
      rest = [path.basename(head), ...rest];
      if (head === "/") return path.resolve(file);
      head = path.dirname(head);
    }
  }
}

const home = () => realpath(process.env.HOME || os.homedir());

function kernState() {
  const base = process.env.HOME || os.homedir();
  const uid = process.geteuid ? process.geteuid() : 0;
  const found = ["/run/kern", "/etc/kern", "/var/lib/kern", `/tmp/kern-${uid}`, `/run/user/${uid}/kern`];
  if (process.env.XDG_RUNTIME_DIR) found.push(path.join(process.env.XDG_RUNTIME_DIR, "kern"));
  for (const [variable, standard] of [["XDG_DATA_HOME", ".local/share"], ["XDG_CONFIG_HOME", ".config"], ["XDG_CACHE_HOME", ".cache"]]) {
    found.push(path.join(process.env[variable] || path.join(base, standard), "kern"));
  }
  return found;
}

function refusal(real) {
  const mine = home();
  if (real === "/") return "it is the whole host";
  for (const folder of HOST) {
    if (below(real, folder) && !(folder === "/dev" && below(real, "/dev/shm") && real !== "/dev/shm")) return `${folder} belongs to the host`;
  }
  if (below(real, "/root") && !(below(mine, "/root") && real !== "/root")) return "/root belongs to the host";
  if (below(mine, real)) return "it is or holds your home directory";
  const parts = real.split("/");
  for (const [index, part] of parts.entries()) {
    if (CREDENTIALS.includes(part)) return `${part} holds credentials`;
    if (part === ".config" && CONFIG_CREDENTIALS.includes(parts[index + 1])) return `.config/${parts[index + 1]} holds credentials`;
  }
  if (SOCKETS.includes(parts[parts.length - 1]) || ["/run", "/var/run", "/var"].includes(real)) return "it gives control over a container engine";
  for (const state of kernState().map(realpath)) {
    if (below(real, state)) return "kern keeps its own state there"; // what lies above it kern covers by itself
  }
  return "";
}

function checkSource(source, what) {
  if (typeof source !== "string") throw new MountRefused(`${what}: a path is a string, not ${typeof source}`);
  if (/[\0\n]/.test(source)) throw new MountRefused(`${what}: ${JSON.stringify(source)} is not a usable path`);
  if (!source.startsWith("/")) throw new MountRefused(`${what}: '${source}' is not absolute`);
  const real = realpath(source);
  const reason = refusal(real);
  if (reason) {
    const via = real === path.resolve(source) ? "" : ` (that is '${real}')`;
    throw new MountRefused(`${what}: '${source}'${via} is refused: ${reason}; mount a copy of what the code needs`);
  }
  let info;
  try {
    info = fs.statSync(real);
  } catch (problem) {
    throw new MountRefused(`${what}: '${source}' cannot be used: ${problem.code}`);
  }
  if (!info.isFile() && !info.isDirectory()) {
    throw new MountRefused(`${what}: '${source}' is a socket, a FIFO or a device; only files and directories are mounted`);
  }
  return real;
}

function checkTarget(target, what) {
  if (typeof target !== "string" || !target.startsWith("/") || /[\0\n]/.test(target)) {
    throw new MountRefused(`${what}: target ${JSON.stringify(target)} is not an absolute path`);
  }
  if (target.split("/").includes("..")) throw new MountRefused(`${what}: target '${target}' has a '..'`);
  const clean = path.resolve(target);
  if (clean === "/" || below(clean, "/proc") || below(clean, "/sys") || (below(clean, "/dev") && !below(clean, "/dev/shm"))) {
    throw new MountRefused(`${what}: target '${target}' would cover what kern keeps there`);
  }
  return clean;
}

// The words for kern that bind a path, whatever its name has in it.
function bindWords(source, target, readOnly) {
  if (!source.includes(",") && !target.includes(",")) return ["--mount", `type=bind,src=${source},dst=${target}${readOnly ? ",ro" : ""}`];
  if (source.includes(":") || target.includes(":")) throw new MountRefused(`'${source}': a path with both ':' and ',' cannot be told to kern`);
  return ["-v", `${source}:${target}:${readOnly ? "ro" : "rw"}`];
}

function checkMounts(mounts) {
  if (mounts === undefined || mounts === null) return [];
  if (typeof mounts !== "object" || Array.isArray(mounts)) {
    throw new MountRefused('mounts: give {source: target} or {source: [target, "ro"]}');
  }
  const found = [];
  for (const [source, spec] of Object.entries(mounts)) {
    const what = `mounts['${source}']`;
    if (typeof spec !== "string" && !(Array.isArray(spec) && spec.length === 2)) {
      throw new MountRefused(`${what}: ${JSON.stringify(spec)} is neither a target nor [target, "ro" or "rw"]`);
    }
    const [target, mode] = typeof spec === "string" ? [spec, "rw"] : spec;
    if (mode !== "ro" && mode !== "rw") throw new MountRefused(`${what}: mode ${JSON.stringify(mode)} is neither "ro" nor "rw"`);
    const clean = checkTarget(target, what);
    if (clean === "/workspace" || found.some((other) => other.target === clean)) {
      throw new MountRefused(`${what}: something else is mounted at ${clean} already`);
    }
    found.push({ source: checkSource(source, what), target: clean, readOnly: mode === "ro" });
  }
  return found;
}

module.exports = { bindWords, checkMounts, checkSource, checkTarget };

"use strict";
// The options of a sandbox: each is checked here, with the option, the value and what is allowed in the message, and
// turned into words for `kern box`.

const fs = require("node:fs");
const path = require("node:path");
const { MountRefused, SandboxError } = require("./errors.js");
const { bindWords, checkMounts, checkSource, checkTarget } = require("./mounts.js");

const DEFAULT_IMAGE = "python:3.12-slim";
const DEFAULT_TMPFS_MB = 64;
const UNITS = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };
const PROFILE = /^[a-z][a-z0-9-]*:[A-Za-z0-9][A-Za-z0-9._-]*$/;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}$/;
const HOST_RULE = /^([^\s,/\x00-\x1f\x7f]+|[0-9a-fA-F.:[\]]+\/[0-9]+(:[0-9]+)?)$/; // the grammar itself is kern's to judge
const USER = /^[A-Za-z0-9_][A-Za-z0-9_.-]*(:[A-Za-z0-9_][A-Za-z0-9_.-]*)?$/;
const ENV_NAME = /^[^ \t\r\n\v\f=#\0][^ \t\r\n\v\f=\0]*$/;
const WORD = /^[^\s-][^\s]*$/;
const OPTIONS = [
  "image", "setup", "workspace", "workspaceMaxBytes", "persist", "name", "persistTtlS", "memoryMb", "cpus", "pids", "timeoutS",
  "network", "user", "capDrop", "mounts", "tmpfs", "profiles", "env", "maxOutputBytes", "enforceLimits", "securityProfile",
  "apparmor", "seccomp", "requireLimits", "depsReadonly", "pycCache", "trackFiles", "egressAllow", "prewarm", "onStdout",
  "onStderr", "onBlocked",
];

function show(value) {
  let text;
  try {
    text = typeof value === "function" ? "a function" : JSON.stringify(value) ?? String(value);
  } catch {
    text = String(value);
  }
  return text.length <= 80 ? text : text.slice(0, 77) + "...";
}

const bad = (option, value, allowed) => new SandboxError(`${option}: ${show(value)} is not allowed: ${allowed}`);

// Whether it can be told to anybody: a lone surrogate is in no encoding.
const isText = (value) => !/\p{Cs}/u.test(value);

// A number in words for kern, which takes no exponent; to the nearest millionth, the same from every language.
const digits = (value) => value.toFixed(6).replace(/\.?0+$/, "");

function number(option, value, low, high, unit, whole) {
  if (typeof value !== "number" || !Number.isFinite(value) || value < low || value > high || (whole && !Number.isInteger(value))) {
    throw bad(option, value, `${whole ? "a whole number" : "a number"} of ${unit} from ${low} to ${high}`);
  }
  return value;
}

const checkTimeout = (value) => number("timeoutS", value, 0.001, 86400, "seconds", false);

function text(option, value, pattern, allowed) {
  if (typeof value !== "string" || value === "" || /[\0\n]/.test(value) || (pattern !== null && !pattern.test(value))) {
    throw bad(option, value, allowed);
  }
  return value;
}

function words(option, value, pattern, allowed) {
  if (!Array.isArray(value)) throw bad(option, value, `a list of ${allowed}`);
  return value.map((word) => text(option, word, pattern, allowed));
}

function flag(option, value) {
  if (typeof value !== "boolean") throw bad(option, value, "true or false");
  return value;
}

function callback(option, value) {
  if (value === undefined || value === null) return null;
  if (typeof value !== "function") throw bad(option, value, "a function, or null");
  return value;
}

const isMap = (value) => typeof value === "object" && value !== null && !Array.isArray(value);

function environment(value) {
  if (value === null) return {};
  if (!isMap(value)) throw bad("env", value, "a mapping of names to strings");
  for (const [name, content] of Object.entries(value)) {
    if (!ENV_NAME.test(name) || !isText(name)) throw bad("env", name, "a name without white space, '=', NUL or a leading '#'");
    if (typeof content !== "string") throw new SandboxError(`env['${name}']: the value is a string, not ${typeof content}`);
    if (/[\n\r\0]/.test(content)) throw new SandboxError(`env['${name}']: a value may hold no newline and no NUL`);
    if (!isText(content)) throw new SandboxError(`env['${name}']: a value is text, which lone surrogates are not`);
    if (/[ \t\r\n\v\f]$/.test(content)) { // what is white space to kern
      throw new SandboxError(`env['${name}']: a value may not end with white space, which kern's env files do not keep`);
    }
  }
  return { ...value };
}

function scratch(value, memory, mounts) {
  if (value === null) {
    if (mounts.some((mount) => mount.target === "/tmp")) return {};
    return { "/tmp": `${memory === null ? DEFAULT_TMPFS_MB : Math.max(1, Math.min(DEFAULT_TMPFS_MB, Math.floor(memory / 2)))}m` };
  }
  if (!isMap(value)) throw bad("tmpfs", value, 'a mapping of targets to sizes, such as {"/tmp": "512m"}');
  const found = {};
  for (const [target, size] of Object.entries(value)) {
    const clean = checkTarget(target, "tmpfs");
    if (/[:,]/.test(clean)) throw bad("tmpfs", target, "a target without ':' and ','");
    if (clean === "/workspace" || mounts.some((mount) => mount.target === clean)) {
      throw new MountRefused(`tmpfs: something else is mounted at ${clean} already`);
    }
    if (clean.startsWith("/dev")) throw bad("tmpfs", target, "not below /dev: use mounts for /dev/shm");
    const match = typeof size === "string" ? /^([1-9][0-9]*)([kmgt])b?$/i.exec(size) : null;
    if (match === null) throw bad(`tmpfs['${target}']`, size, 'a size with its unit (k, m, g or t), such as "512m"');
    if (memory !== null && Number(match[1]) * UNITS[match[2].toLowerCase()] > memory * UNITS.m) {
      throw bad(`tmpfs['${target}']`, size, `at most memoryMb, ${memory} MiB: the bytes are charged to it`);
    }
    found[clean] = size.toLowerCase();
  }
  return found;
}

function egress(value) {
  if (value === null) return null;
  const allowed = 'host names such as "example.com", "*.example.com" or "example.com:8443", and never localhost';
  if (!Array.isArray(value)) throw bad("egressAllow", value, `a list of ${allowed}`);
  for (const rule of value) {
    text("egressAllow", rule, HOST_RULE, `${allowed}; no scheme, no path, no comma, no space`);
    const host = rule.split(":")[0].toLowerCase().replace(/\.+$/, "");
    if (host === "localhost" || host.endsWith(".localhost")) {
      throw bad("egressAllow", rule, "not localhost: a box never reaches the services of its host");
    }
  }
  return [...value];
}

function workspace(value) {
  if (value === null) return null;
  if (typeof value !== "string") throw bad("workspace", value, "the path of a directory, or null");
  const real = checkSource(path.resolve(value), "workspace");
  if (!fs.statSync(real).isDirectory()) throw new SandboxError(`workspace: ${show(value)} is not a directory`);
  return real;
}

function seccomp(value) {
  if (value === null) return null;
  let usable = false;
  try {
    usable = typeof value === "string" && fs.statSync(value).isFile();
  } catch {
    // told below
  }
  if (!usable) throw bad("seccomp", value, "the path of a seccomp profile in JSON");
  return path.resolve(value);
}

function distance(a, b) {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) next[j] = Math.min(row[j] + 1, next[j - 1] + 1, row[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1));
    row = next;
  }
  return row[b.length];
}

function checkNames(given) {
  if (!isMap(given)) throw new SandboxError(`options: ${show(given)} is not an object`);
  for (const option of Object.keys(given)) {
    if (OPTIONS.includes(option)) continue;
    const near = OPTIONS.map((known) => [distance(option.toLowerCase(), known.toLowerCase()), known]).sort((a, b) => a[0] - b[0])[0];
    throw new SandboxError(`${option}: there is no such option${near[0] <= 3 ? `; did you mean ${near[1]}?` : ""}`);
  }
}

function checkTogether(options) {
  if (options.egressAllow !== null && options.network) throw new SandboxError("egressAllow: a list and network: true exclude each other");
  if (options.requireLimits && !options.enforceLimits) throw new SandboxError("requireLimits: excludes enforceLimits: false");
  if (options.requireLimits && process.env.KERN_ALLOW_UNCAPPED) {
    throw new SandboxError("requireLimits: excludes the environment variable KERN_ALLOW_UNCAPPED");
  }
  if (options.persist && (options.name === null || options.workspace === null)) {
    throw new SandboxError("persist: needs name and workspace, which two processes share the box by");
  }
  if (options.persist && options.prewarm) throw new SandboxError("prewarm: excludes persist, whose one box is warm already");
  if (options.name !== null && !options.persist) throw new SandboxError("name: only a persist: true sandbox has one");
}

// undefined is "not given"; null is only allowed where it means something.
function makeOptions(given) {
  checkNames(given);
  const get = (option, standard) => (given[option] === undefined ? standard : given[option]);
  const optional = (option, check) => (get(option, null) === null ? null : check(given[option]));
  const memory = get("memoryMb", 512);
  if (memory !== null) number("memoryMb", memory, 4, 2 ** 24, "MiB", true);
  const mounts = checkMounts(get("mounts", null));
  const options = {
    image: text("image", get("image", DEFAULT_IMAGE), WORD, 'a reference such as "python:3.12-slim", or "host"'),
    setup: optional("setup", (value) => {
      if (typeof value !== "string" || value.trim() === "" || value.includes("\0")) throw bad("setup", value, "a shell command");
      return value;
    }),
    workspace: workspace(get("workspace", null)),
    workspaceMaxBytes: optional("workspaceMaxBytes", (value) => number("workspaceMaxBytes", value, 1, 2 ** 53, "bytes", true)),
    persist: flag("persist", get("persist", false)),
    name: optional("name", (value) => text("name", value, NAME, "up to 64 letters, digits, '_', '.' or '-', the first a letter, a digit or '_'")),
    persistTtlS: number("persistTtlS", get("persistTtlS", 3600), 1, 30 * 86400, "seconds", false),
    memoryMb: memory,
    cpus: optional("cpus", (value) => number("cpus", value, 0.01, 4096, "CPUs", false)),
    pids: number("pids", get("pids", 256), 2, 4194304, "processes", true),
    timeoutS: checkTimeout(get("timeoutS", 30)),
    network: flag("network", get("network", false)),
    user: optional("user", (value) => text("user", value, USER, 'an account of the image: "node", "1000" or "1000:1000"')),
    capDrop: words("capDrop", get("capDrop", ["ALL"]), /^[A-Za-z_]+$/, 'capability names, such as "ALL" or "NET_RAW"'),
    mounts,
    tmpfs: scratch(get("tmpfs", null), memory, mounts),
    tmpfsGiven: get("tmpfs", null) !== null,
    profiles: words("profiles", get("profiles", null) ?? [], PROFILE, 'profiles such as "vcpu:heavy"'),
    env: environment(get("env", null)),
    maxOutputBytes: number("maxOutputBytes", get("maxOutputBytes", 64 * 2 ** 20), 1, 2 ** 40, "bytes", true),
    enforceLimits: flag("enforceLimits", get("enforceLimits", true)),
    securityProfile: optional("securityProfile", (value) => {
      if (value !== "untrusted") throw bad("securityProfile", value, '"untrusted", or null');
      return value;
    }),
    apparmor: optional("apparmor", (value) => text("apparmor", value, WORD, "the name of a loaded AppArmor profile")),
    seccomp: seccomp(get("seccomp", null)),
    requireLimits: flag("requireLimits", get("requireLimits", false)),
    depsReadonly: flag("depsReadonly", get("depsReadonly", true)),
    pycCache: flag("pycCache", get("pycCache", true)),
    trackFiles: flag("trackFiles", get("trackFiles", true)),
    egressAllow: egress(get("egressAllow", null)),
    prewarm: number("prewarm", get("prewarm", 0), 0, 256, "boxes", true),
    onStdout: callback("onStdout", given.onStdout),
    onStderr: callback("onStderr", given.onStderr),
    onBlocked: callback("onBlocked", given.onBlocked),
  };
  checkTogether(options);
  return Object.freeze(options);
}

// The words of `kern box` that say how the box is confined.
function boxWords(options, forSetup) {
  const found = [...options.profiles];
  if (options.image !== "host") found.push("--image", options.image);
  found.push("--ro");
  if (options.memoryMb !== null) found.push("--memory", `${options.memoryMb}m`);
  if (options.cpus !== null) found.push("--cpus", digits(options.cpus));
  found.push("--pids-limit", String(options.pids));
  if (options.requireLimits) found.push("--require-limits");
  else if (!options.enforceLimits) found.push("--allow-uncapped");
  if (!forSetup) for (const capability of options.capDrop) found.push("--cap-drop", capability);
  if (forSetup || options.network) found.push("--network", "host");
  else if (options.egressAllow !== null && options.egressAllow.length) found.push("--egress-allow", options.egressAllow.join(","));
  if (options.user !== null) found.push("--uid-range", "--user", options.user);
  if (options.securityProfile !== null && !forSetup) found.push("--security-profile", options.securityProfile);
  if (options.apparmor !== null) found.push("--apparmor", options.apparmor);
  if (options.seccomp !== null && !forSetup) found.push("--seccomp", options.seccomp);
  if (!forSetup || options.tmpfsGiven) for (const [target, size] of Object.entries(options.tmpfs)) found.push("--tmpfs", `${target}:${size}`);
  for (const { source, target, readOnly } of options.mounts) found.push(...bindWords(source, target, readOnly));
  return found;
}

module.exports = { DEFAULT_IMAGE, DEFAULT_TMPFS_MB, boxWords, checkTimeout, digits, isText, makeOptions };

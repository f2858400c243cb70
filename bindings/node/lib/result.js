"use strict";
// What a call returns, and how the outcome is told from kern's report alone: nothing that the code printed decides.

const BENIGN = ["kern: security-profile=", "kern: warning:", "kern: note:"];

class Result {
  constructor(data) {
    this.data = data;
  }
  formats() {
    return Object.keys(this.data);
  }
  _text(mime) {
    return typeof this.data[mime] === "string" ? this.data[mime] : null;
  }
  _bytes(mime) {
    return typeof this.data[mime] === "string" ? Buffer.from(this.data[mime], "base64") : null;
  }
  get text() { return this._text("text/plain"); }
  get html() { return this._text("text/html"); }
  get markdown() { return this._text("text/markdown"); }
  get svg() { return this._text("image/svg+xml"); }
  get latex() { return this._text("text/latex"); }
  get json() { return this.data["application/json"] ?? null; }
  get png() { return this._bytes("image/png"); }
  get jpeg() { return this._bytes("image/jpeg"); }
}

// [what the code wrote, the lines that kern wrote about itself]
function splitStderr(text) {
  if (!text.includes("kern: ")) return [text, []];
  let mine = "";
  const notes = [];
  for (const line of text.match(/[^\n]*\n|[^\n]+/g) || []) {
    const start = line.replace(/^[ \t\r\v\f]+/, "");
    if (BENIGN.some((prefix) => start.startsWith(prefix))) notes.push(line.endsWith("\n") ? line.slice(0, -1) : line);
    else mine += line;
  }
  return [mine, notes];
}

class ExecutionResult {
  #split = null;

  constructor(fields) {
    this.stdout = fields.stdout ?? "";
    this.stderr = fields.stderr ?? "";
    this.exitCode = fields.exitCode ?? 0;
    this.durationMs = fields.durationMs ?? 0;
    this.fault = fields.fault ?? null;
    this.files = fields.files ?? [];
    this.results = fields.results ?? [];
    this.truncated = fields.truncated ?? false;
    this.usage = fields.usage ?? { wallMs: null, cpuMs: null, peakMemoryBytes: null };
    this.denied = fields.denied ?? {};
    Object.defineProperty(this, "report", { value: null, writable: true, enumerable: false });
  }

  get success() {
    return this.exitCode === 0 && this.fault === null;
  }

  #parts() {
    if (this.#split === null || this.#split[0] !== this.stderr) this.#split = [this.stderr, ...splitStderr(this.stderr)];
    return this.#split;
  }

  get codeStderr() {
    return this.#parts()[1];
  }

  get runtimeNotes() {
    return [...this.#parts()[2]];
  }

  toJSON() {
    const { stdout, stderr, exitCode, durationMs, success, fault, files, truncated, usage, denied } = this;
    return { stdout, stderr, exitCode, durationMs, success, fault, files, results: this.results.map((r) => r.data), truncated, usage, denied };
  }
}

function parseReport(data) {
  try {
    const found = data.length ? JSON.parse(data.toString("utf8")) : null;
    return found !== null && typeof found === "object" && !Array.isArray(found) ? found : null;
  } catch {
    return null;
  }
}

const mib = (value) => (typeof value === "number" ? `${Math.round(value / 1048576)} MiB` : "unknown");

function describe(kind, report, image, command) {
  const fault = report.fault || {};
  const text = String(fault.message || kind);
  const memory = (report.limits || {}).memory || {};
  if (kind === "oom") {
    const peak = (report.usage || {}).peak_memory_bytes;
    return `out of memory: the cap is ${mib(fault.limit_bytes || memory.asked)} and the peak was ${mib(peak)}; raise memoryMb`;
  }
  if (kind === "exec_failed") return `${text}: image '${image}' has no usable '${command}'; name an image that has it`;
  if (kind === "killed" && memory.enforced === false) {
    return `${text}; the memory cap does not bind on this machine (\`kern doctor\` says why)`;
  }
  return text;
}

// The fault of a call. The order is a security property: what this side did itself comes first.
// end: {code, deadline, full, executed (null: not known)}
function classify(end, report, timeoutS, image, command) {
  const told = report || {};
  const executed = report !== null ? Boolean(told.started) : Boolean(end.executed);
  const fault = (type, message) => ({ type, message });
  if (end.deadline && !executed) {
    return fault("startup_failed", `kern was still building the box after ${timeoutS} s; run it again: the second call is faster ` +
      "when the image was cold, else look at slow mounts");
  }
  if (end.deadline) return fault("timeout", `the call ran longer than ${timeoutS} s`);
  if (end.full) return fault("workspace_full", "the workspace grew beyond workspaceMaxBytes");
  const kind = (told.fault || {}).type;
  for (const wanted of ["timeout", "workspace_full", "escape_blocked", "oom", "killed", "exec_failed", "startup_failed"]) {
    if (kind === wanted) return fault(kind, describe(kind, told, image, command));
  }
  if (report === null) {
    return executed
      ? fault("killed", "kern ended without a report; somebody killed it")
      : fault("startup_failed", `kern ended with code ${end.code} and without a report`);
  }
  return null;
}

module.exports = { ExecutionResult, Result, classify, parseReport };

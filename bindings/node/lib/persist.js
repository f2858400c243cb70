"use strict";
// persist: true: one resident box for all who share its name and workspace. It is started detached; each call is a
// `kern exec` into it. A box of that name with another posture is refused, never used.

const { execFile } = require("node:child_process");
const { createHash } = require("node:crypto");
const { SandboxError } = require("./errors.js");
const { digits } = require("./options.js");
const { Running } = require("./process.js");

const LABEL = "kern-sandbox.posture";
const IDLE = ["sh", "-c", "trap exit TERM; while :; do sleep 3600 & wait; done"];

function ask(kern, ...words) {
  return new Promise((resolve) => {
    const child = execFile(kern, words, { timeout: 60000, maxBuffer: 64 << 20 }, (problem, stdout, stderr) => {
      resolve({ code: problem ? problem.code ?? 1 : 0, stdout, stderr });
    });
    child.stdin.end();
  });
}

function labels(row) {
  const found = row.labels || {};
  return Array.isArray(found) ? Object.fromEntries(found.map((text) => [text.split("=")[0], text.slice(text.indexOf("=") + 1)])) : found;
}

async function find(kern, name) {
  const done = await ask(kern, "ps", "--json");
  try {
    return JSON.parse(done.stdout).find((row) => row.name === name) ?? null;
  } catch {
    throw new SandboxError(`cannot list kern's boxes: ${done.stderr.trim() || done.stdout.trim().slice(0, 200)}`);
  }
}

// The hash has to be that of the Python package, which writes JSON with ", " between the elements and ASCII only.
function pythonJson(value) {
  if (Array.isArray(value)) return `[${value.map(pythonJson).join(", ")}]`;
  return JSON.stringify(value).replace(/[\x7f-\uffff]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

class Resident {
  static async open(sandbox, words) {
    const resident = new Resident();
    const { options, kern } = sandbox;
    Object.assign(resident, { sandbox, name: options.name, kern });
    const entries = Object.entries(options.env).sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
    resident.posture = createHash("sha256").update(pythonJson([words, entries])).digest("hex").slice(0, 32);
    resident.words = words;
    await resident.ensure();
    return resident;
  }

  // Has the box run; whether it had to be started.
  async ensure() {
    let trouble = "";
    for (let attempt = 0; attempt < 3; attempt++) { // somebody else may start the same box at the same moment
      const row = await find(this.kern, this.name);
      if (row === null) {
        trouble = await this._start(this.words);
        if (trouble === "") return true;
        continue;
      }
      if (labels(row)[LABEL] !== this.posture) {
        throw new SandboxError(`persist: a box named '${this.name}' runs already with another posture (other options, another ` +
          "workspace, or not of this package); destroy() it, or take another name");
      }
      return false;
    }
    throw new SandboxError(`persist: cannot start the box '${this.name}': ${trouble}`);
  }

  // Starts the box; what went wrong, or "".
  async _start(words) {
    const { options } = this.sandbox;
    const more = ["--detach", "--init", "--label", `${LABEL}=${this.posture}`, "--timeout", digits(options.persistTtlS)];
    const file = this.sandbox._writeEnv();
    try {
      const done = await ask(this.kern, "box", this.name, ...words, ...more, ...(file ? ["--env-file", file.name] : []), "--", ...IDLE);
      return done.code === 0 ? "" : done.stderr.trim() || `code ${done.code}`;
    } finally {
      if (file) file.remove();
    }
  }

  start(command, stdin, life) {
    return new Running(this.kern, ["exec", this.name, "--workdir", "/workspace", "--timeout", digits(life)], command, stdin, {}, null);
  }
}

// Ends the resident box; none is fine.
async function stop(kern, name) {
  if ((await find(kern, name)) !== null) await ask(kern, "stop", name);
}

module.exports = { Resident, stop };

"use strict";
// Runs the cases of bindings/spec with the Node client. See bindings/spec/README.md.

const assert = require("node:assert");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const zlib = require("node:zlib");
const { execFileSync } = require("node:child_process");
const { test } = require("node:test");
process.env.KERN_BIN ??= process.env.KERN;
const kern = require("../lib/index.js");

const SPEC = path.join(__dirname, "..", "..", "spec");
const FIELDS = ["stdout", "stderr", "exitCode", "success", "truncated", "codeStderr", "runtimeNotes", "durationMs"];
const PARTS = { stdoutHas: "stdout", stderrHas: "stderr", codeStderrHas: "codeStderr" };
const facts = {};

async function have(feature) {
  if (feature === "acl") return ["/usr/bin/setfacl", "/bin/setfacl"].some((file) => fs.existsSync(file));
  if (feature === "node") return ["/usr/local/bin/node", "/usr/bin/node"].some((file) => fs.existsSync(file));
  if (feature === "egress") facts[feature] ??= (await kern.runCode("pass", { image: "host", egressAllow: ["example.com"] })).fault === null;
  if (feature === "uncapped") return !(await have("memory"));
  if (!(feature in facts)) {
    const result = await kern.runCode("pass", { image: "host" });
    facts[feature] = result.report?.limits?.memory?.enforced === true;
  }
  return facts[feature];
}

function prepare(folder, things, fill) {
  for (const [kind, name, rest] of things) {
    const file = path.join(folder, fill(name));
    fs.mkdirSync(path.dirname(file), { recursive: true });
    if (kind === "dir") fs.mkdirSync(file, { recursive: true });
    else if (kind === "file") fs.writeFileSync(file, rest);
    else if (kind === "link") fs.symlinkSync(fill(rest), file);
    else if (kind === "fifo") execFileSync("mkfifo", [file]);
    else if (kind === "socket") execFileSync("python3", ["-c", "import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])", file]);
    else assert.fail(kind);
  }
}

// A snapshot, or what an attacker would call one.
function archive(file, members) {
  const parts = [];
  for (const [kind, name, text] of members) {
    const block = Buffer.alloc(512);
    const types = { symlink: "2", hardlink: "1", fifo: "6", device: "3" };
    let size = text.length;
    if (types[kind]) size = 0;
    if (kind === "bomb") size = 2 ** 30 + 512;
    if (kind === "hugesize") size = 0o77777777777;
    if (kind === "cut") size = 5000;
    block.write(name, 0);
    block.write("0000644\0" + "0000000\0" + "0000000\0" + size.toString(8).padStart(11, "0") + "\0" + "00000000000\0", 100);
    block.fill(0x20, 148, 156);
    block.write(types[kind] || "0", 156);
    if (types[kind]) block.write(text, 157);
    block.write("ustar\0" + "00", 257);
    block.write(block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0") + "\0 ", 148);
    if (kind === "badsum") block[0] ^= 1;
    parts.push(block);
    if (kind === "bomb") parts.push(Buffer.alloc(size));
    else if (!types[kind]) parts.push(Buffer.concat([Buffer.from(text), Buffer.alloc(512 - text.length)]));
  }
  if (!members.some(([kind]) => kind === "cut" || kind === "hugesize")) parts.push(Buffer.alloc(1024));
  fs.writeFileSync(file, zlib.gzipSync(Buffer.concat(parts), { level: 1 }));
}

class Case {
  constructor(found) {
    this.case = found;
    this.tmp = fs.mkdtempSync(path.join(os.tmpdir(), "kern-spec-"));
    this.fill = this.fill.bind(this);
  }

  fill(value) {
    if (typeof value === "string") {
      return value.replaceAll("${TMP}", this.tmp).replaceAll("${PID}", String(process.pid)).replaceAll("${HOME}", os.homedir())
        .replace(/\$\{DEEP:(\d+)\}/g, (_, count) => "d/".repeat(Number(count)))
        .replace(/\$\{REPEAT:(\d+)\}/g, (_, count) => "r".repeat(Number(count)));
    }
    if (Array.isArray(value)) return value.map(this.fill);
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([k, v]) => [this.fill(k), this.fill(v)]));
    return value;
  }

  options() {
    return this.fill({ image: "host", ...this.case.options });
  }

  async run(t) {
    const saved = { ...process.env };
    let mine = null;
    try {
      prepare(this.tmp, this.case.prepare || [], this.fill);
      for (const [name, members] of this.case.archives || []) archive(path.join(this.tmp, name), members);
      Object.assign(process.env, this.fill(this.case.environment || {}));
      if (this.case.throws) return await this.throws(this.case.throws, async () => new kern.Sandbox(this.options()));
      this.sandbox = new kern.Sandbox(this.options());
      if (!this.case.steps.some((step) => "open" in step)) await this.sandbox.open();
      for (const [index, step] of this.case.steps.entries()) await t.test(`step ${index + 1}`, () => this.step(step));
    } finally {
      for (const name of Object.keys(process.env)) if (!(name in saved)) delete process.env[name];
      Object.assign(process.env, saved);
      if (this.sandbox) {
        try {
          mine = this.options().workspace ? null : this.sandbox.workspace;
        } catch {
          // it did not open
        }
        if (this.case.destroy) await this.sandbox.destroy();
        await this.sandbox.close();
        assert.ok(mine === null || !fs.existsSync(mine), "the workspace was left behind");
      }
      fs.rmSync(this.tmp, { recursive: true });
    }
  }

  async throws(wanted, call) {
    let problem = null;
    try {
      await call();
    } catch (found) {
      problem = found;
    }
    assert.ok(problem !== null, "nothing was thrown");
    if (wanted.type === "missing") assert.equal(problem.code, "ENOENT");
    else assert.equal(problem.constructor.name, wanted.type, problem.stack);
    const text = problem.message.replaceAll("'", '"');
    assert.ok(text.includes(this.fill(wanted.has).replaceAll("'", '"')), `${text} has no ${wanted.has}`);
    if (wanted.option) assert.ok(text.includes(wanted.option), `${text} does not name ${wanted.option}`);
  }

  async call(step) {
    const more = {};
    for (const name of ["language", "timeoutS"]) if (name in step) more[name] = step[name];
    const sandbox = this.sandbox;
    if ("runCode" in step) return sandbox.runCode(this.fill(step.runCode), more);
    if ("run" in step) return sandbox.run(this.fill(step.run), more);
    if ("cell" in step) {
      this.kernel ??= await sandbox.kernel();
      return this.kernel.runCode(this.fill(step.cell), more);
    }
    if ("writeFile" in step) return sandbox.writeFile(...this.fill(step.writeFile));
    if ("readFile" in step) return sandbox.readFile(this.fill(step.readFile));
    if ("listFiles" in step) return sandbox.listFiles();
    if ("snapshot" in step) return sandbox.snapshot(this.fill(step.snapshot));
    if ("restore" in step) return sandbox.restore(this.fill(step.restore));
    if ("host" in step) return prepare(sandbox.workspace, step.host, this.fill);
    if ("sleep" in step) return new Promise((resolve) => setTimeout(resolve, step.sleep * 1000));
    if ("other" in step) {
      const other = new kern.Sandbox({ ...this.options(), ...step.other });
      await other.open();
      return other.close();
    }
    if ("stop" in step) return execFileSync(process.env.KERN_BIN, ["stop", this.options().name]);
    if ("open" in step) return sandbox.open();
    if ("reopen" in step) {
      await sandbox.close();
      this.sandbox = new kern.Sandbox(this.options());
      return this.sandbox.open();
    }
    return assert.fail(`no such step: ${JSON.stringify(step)}`);
  }

  async step(step) {
    if (step.throws) return this.throws(step.throws, () => this.call(step));
    const begin = Date.now();
    const result = await this.call(step);
    if (result instanceof kern.ExecutionResult) { // whether caps bind on this machine is no case's business
      result.stderr = result.stderr.replace(/^kern: warning: .* not enforced: .*\n/gm, "");
    }
    for (const [name, wanted] of Object.entries(this.fill(step.expect || {}))) this.check(name, wanted, result, Date.now() - begin);
  }

  check(name, wanted, result, took) {
    if (FIELDS.includes(name)) assert.deepEqual(result[name], wanted, `${name} is ${JSON.stringify(result[name])?.slice(0, 400)}: ${JSON.stringify(result).slice(0, 400)}`);
    else if (name in PARTS) for (const part of [wanted].flat()) assert.ok(result[PARTS[name]].includes(part), `${name}: ${result[PARTS[name]].slice(0, 400)}`);
    else if (name === "fault") assert.equal(result.fault && result.fault.type, wanted, JSON.stringify(result).slice(0, 600));
    else if (name === "faultHas") assert.ok(result.fault.message.replaceAll("'", '"').includes(wanted.replaceAll("'", '"')), result.fault.message);
    else if (name === "files") assert.deepEqual((Array.isArray(result) ? result : result.files).map((f) => [f.path, f.size, f.change]), wanted);
    else if (name === "text") assert.equal(result.toString(), wanted);
    else if (name === "results") this.results(wanted, result.results);
    else if (name === "deniedHost") assert.deepEqual(result.denied.hosts.map((host) => host.name), [wanted]);
    else if (name === "maxMs") assert.ok(took < wanted, `${took} ms`);
    else assert.fail(`no such expectation: ${name}`);
  }

  results(wanted, found) {
    assert.equal(found.length, wanted.length, JSON.stringify(found));
    for (const [index, mimes] of wanted.entries()) {
      for (const [mime, payload] of Object.entries(mimes)) {
        assert.ok(mime in found[index].data, `no ${mime}`);
        if (payload !== null) assert.deepEqual(found[index].data[mime], payload);
      }
    }
  }
}

for (const name of fs.readdirSync(SPEC).filter((file) => file.endsWith(".json")).sort()) {
  const spec = JSON.parse(fs.readFileSync(path.join(SPEC, name), "utf8"));
  const cases = [...spec.cases];
  for (const { option, values, has, type = "SandboxError" } of spec.bad || []) {
    for (const value of values) cases.push({ name: `${option}: ${JSON.stringify(value)}`, options: { [option]: value }, throws: { type, has, option } });
  }
  test(name, async (t) => {
    for (const found of cases) {
      if (process.env.KERN_CASE && !found.name.includes(process.env.KERN_CASE)) continue;
      if (found.needs && !(await have(found.needs))) {
        t.diagnostic(`skip: ${found.name}: this machine has no ${found.needs}`);
        continue;
      }
      await t.test(found.name, (inner) => new Case(found).run(inner));
    }
  });
}

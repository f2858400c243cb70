// kern-pi in the real pi: its loader takes the extension, and each tool does its work in a box.

import assert from "node:assert";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { test } from "node:test";

process.env.KERN_BIN ??= process.env.KERN;
const home = process.env.KERN_PI; // a copy of integrations/pi beside the packages it needs
const require = createRequire(home + "/");
const { discoverAndLoadExtensions } = await import(require.resolve.paths("x")[0].replace(/kern-pi\/node_modules$/, "node_modules")
  + "/@earendil-works/pi-coding-agent/dist/index.js");
const cwd = fs.mkdtempSync(path.join(os.tmpdir(), "kern-pi-"));
const flags = new Map();
process.chdir(cwd);
fs.writeFileSync("hello.txt", "hello\nworld\n");
fs.mkdirSync("src/deep", { recursive: true });
fs.writeFileSync("src/a.ts", "export const needle = 1;\n");
fs.writeFileSync("src/deep/b.ts", "// needle again\n");
fs.symlinkSync("/etc/passwd", "leak");

async function load() {
  const found = await discoverAndLoadExtensions([path.join(home, "index.ts")], cwd, path.join(cwd, ".pi-agent"));
  assert.deepEqual(found.errors, []);
  const extension = found.extensions.find((one) => one.resolvedPath.includes("kern-pi"));
  for (const [name, value] of flags) found.runtime.flagValues.set(name, value);
  const tools = Object.fromEntries([...extension.tools].map(([name, tool]) => [name, tool.definition]));
  const call = async (name, params, signal) => {
    const result = await tools[name].execute("id", params, signal, undefined, { cwd, sessionManager: { getSessionId: () => "s", getSessionFile: () => undefined } });
    return result.content.map((part) => part.text ?? part.type).join("\n");
  };
  return { extension, tools, call, end: () => extension.handlers.get("session_shutdown")[0]({}, {}) };
}

test("every tool works in a box", async () => {
  const { extension, tools, call, end } = await load();
  assert.deepEqual(Object.keys(tools).sort(), ["bash", "edit", "find", "grep", "ls", "read", "write"]);
  assert.deepEqual([...extension.flags.keys()].sort(), ["kern-egress", "kern-image", "kern-memory", "kern-network"]);

  assert.match(await call("bash", { command: "pwd; hostname; ls -A /root /home; cat hello.txt" }), /^\/workspace\nkern-\S+\n\/home:\n\n\/root:\nhello\nworld/);
  const attempt = (...words) => call(...words).catch((problem) => problem.message);
  assert.match(await attempt("bash", { command: "echo x > /usr/x" }), /Read-only file system[\s\S]*code [12]/);
  assert.match(await attempt("bash", { command: "while :; do :; done", timeout: 1 }), /timed out after 1/);
  const stop = new AbortController();
  setTimeout(() => stop.abort(), 300);
  assert.match(await attempt("bash", { command: "sleep 30" }, stop.signal), /abort/i);

  assert.match(await call("read", { path: "hello.txt" }), /hello\nworld/);
  assert.match(await call("read", { path: "/usr/bin/which" }), /\/bin\//);
  await assert.rejects(call("read", { path: "leak" }));
  await assert.rejects(call("read", { path: "/etc/shadow" }));
  await assert.rejects(call("read", { path: "../../etc/shadow" }));

  await call("write", { path: "new/dir/file.txt", content: "one\n" });
  assert.equal(fs.readFileSync("new/dir/file.txt", "utf8"), "one\n");
  await assert.rejects(call("write", { path: "/etc/x", content: "x" }), /below \/workspace/);
  await assert.rejects(call("write", { path: "leak", content: "x" }));
  await call("edit", { path: "hello.txt", edits: [{ oldText: "world", newText: "box" }] });
  assert.equal(fs.readFileSync("hello.txt", "utf8"), "hello\nbox\n");

  assert.match(await call("ls", { path: "." }), /hello\.txt[\s\S]*new\/[\s\S]*src\//);
  assert.equal((await call("find", { pattern: "*.ts" })).trim(), "src/a.ts\nsrc/deep/b.ts");
  assert.equal((await call("find", { pattern: "src/*.{ts,js}" })).trim(), "src/a.ts");
  assert.equal(await call("grep", { pattern: "needle" }).then((text) => text.split("\n").sort().join("\n")), "src/a.ts:1:export const needle = 1;\nsrc/deep/b.ts:1:// needle again");
  assert.equal(await call("grep", { pattern: "no such thing" }), "No matches found");
  assert.match(await call("grep", { pattern: "NEEDLE", ignoreCase: true, path: "src", limit: 1 }), /\[1 of 2 lines/);

  const shell = extension.handlers.get("user_bash")[0]({ command: "x" }, {});
  const said = [];
  assert.deepEqual(await shell.operations.exec("echo mine; exit 3", "/workspace", { onData: (data) => said.push(data) }), { exitCode: 3 });
  assert.equal(Buffer.concat(said).toString(), "mine\n");
  const prompt = await extension.handlers.get("before_agent_start")[0]({ systemPrompt: `in ${cwd}` }, {});
  assert.match(prompt.systemPrompt, /^in \/workspace\n/);
  await end();
  assert.ok(fs.existsSync("hello.txt"));
});

test("without a box nothing works, and nothing falls back", async () => {
  flags.set("kern-memory", "lots");
  const { call, end } = await load();
  for (const [name, params] of [["bash", { command: "echo x" }], ["read", { path: "hello.txt" }], ["write", { path: "w", content: "" }], ["ls", {}],
    ["find", { pattern: "*" }], ["grep", { pattern: "x" }]]) await assert.rejects(call(name, params), /memoryMb/, name);
  assert.ok(!fs.existsSync("w"));
  await end();
});

test.after?.(() => fs.rmSync(cwd, { recursive: true }));

"use strict";
// kern-mcp with the official TypeScript SDK's client, and with the protocol's conformance package. The latter speaks HTTP: a
// bridge passes each message on as it is.

const assert = require("node:assert");
const http = require("node:http");
const path = require("node:path");
const { randomUUID } = require("node:crypto");
const { execFile } = require("node:child_process");
const { test } = require("node:test");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPServerTransport } = require("@modelcontextprotocol/sdk/server/streamableHttp.js");

function transport() {
  return new StdioClientTransport({
    command: process.env.KERN_PYTHON || "python3", args: ["-m", "kern_sandbox.mcp"], stderr: "ignore",
    env: { ...process.env, PYTHONPATH: path.join(process.env.KERN_SOURCE, "bindings/python"), KERN_BIN: process.env.KERN, KERN_MCP_IMAGE: "host" },
  });
}

test("the official client", async (t) => {
  const client = new Client({ name: "t", version: "1" });
  t.after(() => client.close()); // else a failure leaves the server, and this file waits for it
  await client.connect(transport());
  assert.equal(client.getServerVersion().name, "kern");
  const { tools } = await client.listTools();
  assert.deepEqual(tools.map((tool) => tool.name), ["run_code", "write_file", "read_file", "list_files"]);
  const call = (name, args, options) => client.callTool({ name, arguments: args }, undefined, options);
  assert.equal((await call("run_code", { code: "print(6 * 7)" })).content[0].text, "42");
  await call("write_file", { path: "a/b", content: "c" });
  assert.equal((await call("read_file", { path: "a/b" })).content[0].text, "c");
  assert.match((await call("list_files", {})).content[0].text, /a\/b/);
  const shown = await call("run_code", { code: "class P:\n    def _repr_png_(self): return b'\\x89PNG'\nP()" });
  assert.deepEqual(shown.content[1], { type: "image", data: "iVBORw==", mimeType: "image/png" });
  assert.equal((await call("run_code", { code: "1 / 0" })).isError, true);
  await assert.rejects(call("run_code", {}), (problem) => problem.code === -32602);
  await assert.rejects(call("nothing", {}), (problem) => problem.code === -32602);
  const told = [];
  await call("run_code", { code: "import time; time.sleep(1.3)" }, { onprogress: (progress) => told.push(progress.progress) });
  assert.ok(told.length >= 1); // more where a start takes long
  assert.deepEqual(told, told.map((_, n) => n + 1));
  const stop = new AbortController();
  const late = call("run_code", { code: "import time; time.sleep(50)" }, { signal: stop.signal });
  setTimeout(() => stop.abort("enough"), 500);
  await assert.rejects(late);
  const many = await Promise.all(Array.from({ length: 20 }, (_, n) => call("run_code", { code: `print(${n})` })));
  assert.deepEqual(many.map((reply) => reply.content[0].text), Array.from({ length: 20 }, (_, n) => String(n)));
});

test("conformance", async () => {
  const sessions = new Map();
  const server = http.createServer(async (request, response) => {
    let mine = sessions.get(request.headers["mcp-session-id"]);
    if (!mine) {
      const other = transport();
      mine = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized: (id) => sessions.set(id, mine) });
      mine.other = other;
      other.onmessage = (message) => mine.send(message).catch(() => {});
      mine.onmessage = (message) => other.send(message).catch(() => {});
      await mine.start();
      await other.start();
    }
    await mine.handleRequest(request, response);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const program = require.resolve("@modelcontextprotocol/conformance/dist/index.js");
  for (const scenario of ["server-initialize", "ping", "tools-list"]) {
    const said = await new Promise((resolve) => {
      execFile(process.execPath, [program, "server", "--url", `http://127.0.0.1:${server.address().port}/mcp`, "--scenario", scenario],
        { timeout: 30000 }, (problem, out, err) => resolve([problem ? problem.code ?? 1 : 0, out + err]));
    });
    assert.equal(said[0], 0, said[1]);
    assert.match(said[1], /Passed: \d+\/\d+, 0 failed/, said[1]);
  }
  for (const { other } of sessions.values()) await other.close();
  server.closeAllConnections();
  server.close();
});

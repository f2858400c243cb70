"use strict";
// The LangChain tool for JavaScript, with the real @langchain/core.

const assert = require("node:assert");
const { test } = require("node:test");
process.env.KERN_BIN ??= process.env.KERN;
const kern = require("kern-sandbox");
const { forModel, kernCodeTool } = require("kern-sandbox/langchain");

test("what the model sees", async () => {
  const tool = kernCodeTool({ image: "host", timeoutS: 5 });
  assert.equal(tool.name, "run_python");
  assert.equal(await tool.invoke({ code: "print('a')\n6 * 7" }), "a\n42");
  assert.equal(await tool.invoke({ code: "open('f', 'w').write('x'); None" }), "[no output]");
  assert.equal(await tool.invoke({ code: "print(open('f').read())" }), "x");
  assert.match(await tool.invoke({ code: "1 / 0" }), /ZeroDivisionError[\s\S]*\[exit code 1\]$/);
  const message = await tool.invoke({ type: "tool_call", name: "run_python", args: { code: "5" }, id: "1" });
  assert.equal(message.content, "5");
  assert.equal(message.artifact.results[0].text, "5");
  await assert.rejects(tool.invoke({ nothing: 1 }));
  await tool.close();
});

test("faults and length", async () => {
  const tool = kernCodeTool({ image: "host", timeoutS: 2 });
  const text = await tool.invoke({ code: "print('x' * 100000, flush=True)\nwhile True: pass" });
  assert.ok(text.length <= 8000);
  assert.match(text, /\n\[sandbox: timeout\] [^\n]*$/);
  await tool.close();
  const long = new kern.ExecutionResult({ stdout: "y".repeat(9000), fault: { type: "oom", message: "z".repeat(9000) } });
  assert.ok(forModel(long).length <= 8000);
  const broken = kernCodeTool({ image: "host", setup: "exit 4" });
  assert.match(await broken.invoke({ code: "1" }), /^\[sandbox: error\] setup failed \(exit 4\)/);
});

test("languages and a shared sandbox", async () => {
  await kern.withSandbox({ image: "host" }, async (sandbox) => {
    await kernCodeTool({ sandbox }).invoke({ code: "open('n', 'w').write('7')" });
    assert.equal(await kernCodeTool({ sandbox, language: "bash" }).invoke({ code: "echo $(( $(cat n) + 1 ))" }), "8");
    assert.throws(() => kernCodeTool({ sandbox, image: "host" }), /not both/);
  });
  assert.equal(kernCodeTool({ language: "javascript", image: "host" }).name, "run_javascript");
  assert.throws(() => kernCodeTool({ language: "ruby" }), /ruby/);
  assert.throws(() => kernCodeTool({ memoryMb: "lots" }), /memoryMb/);
});

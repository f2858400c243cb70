"use strict";
// The Node half of bench/soak: a line of JSON for each look at what the client holds.

const fs = require("node:fs");
const os = require("node:os");
const kern = require("../bindings/node/lib/index.js");

const [binary, calls] = [process.argv[2], Number(process.argv[3])];
process.env.KERN_BIN = binary;

function look() {
  const memory = Number(/^Pss_Anon:\s+(\d+)/m.exec(fs.readFileSync("/proc/self/smaps_rollup", "latin1"))[1]);
  const children = fs.readdirSync("/proc/self/task").flatMap((task) => fs.readFileSync(`/proc/self/task/${task}/children`, "latin1").split(" "));
  return {
    memory, descriptors: fs.readdirSync("/proc/self/fd").length, children: children.filter(Boolean).length,
    files: fs.readdirSync(os.tmpdir()).filter((name) => name.startsWith("kern-") && !name.startsWith("kern-workspace-")).length,
    others: process.getActiveResourcesInfo().length,
  };
}

kern.withSandbox({ image: "host", env: { A: "b" } }, async (sandbox) => {
  for (let number = 1; number <= calls; number++) {
    const call = { timeoutS: 20, onStdout: () => {} };
    const result = number % 2 ? await sandbox.runCode("display(1)\nprint('x' * 1000)", call) : await sandbox.run(["echo", "x"], call);
    if (!result.success) throw new Error(`a call went wrong: ${JSON.stringify(result)}`);
    if (number === Math.floor(calls / 10) || number === calls) {
      await new Promise((resolve) => setTimeout(resolve, 300)); // what closes, closes
      globalThis.gc();
      fs.writeSync(1, `${JSON.stringify(look())}\n`); // process.stdout would be a handle of its own
    }
  }
});

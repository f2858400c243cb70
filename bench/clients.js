"use strict";
// The Node half of bench/clients: samples as JSON.

const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");
const { spawn } = require("node:child_process");
const kern = require("../bindings/node/lib/index.js");

const [binary, rounds] = [process.argv[2], Number(process.argv[3])];
const CODE = "print(1)";

function check(result) {
  if (result.stdout !== "1\n" || result.fault !== null) throw new Error(`a call went wrong: ${JSON.stringify(result)}`);
}

const bare = (words, program = binary) => new Promise((resolve, reject) => {
  spawn(program, words, { stdio: "ignore" }).once("exit", (code) => (code === 0 ? resolve() : reject(new Error(`code ${code}`))));
});

// As every caller has to who wants to see what the box printed.
const read = (words) => new Promise((resolve, reject) => {
  const process = spawn(binary, words, { stdio: ["ignore", "pipe", "pipe"] });
  const parts = [];
  for (const stream of [process.stdout, process.stderr]) stream.on("data", (data) => parts.push(data));
  process.once("close", (code) => (code === 0 && Buffer.concat(parts).toString() === "1\n" ? resolve() : reject(new Error(`code ${code}`))));
});

async function timed(call) {
  const begin = process.hrtime.bigint();
  await call();
  return Number(process.hrtime.bigint() - begin) / 1e6;
}

(async () => {
  const samples = {};
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kern-bench-"));
  await kern.withSandbox({ image: "host", workspace: folder }, async (sandbox) => {
    const { boxWords } = require("../bindings/node/lib/options.js");
    const { environment } = require("../bindings/node/lib/image.js");
    const words = ["box", "kern-bench", ...boxWords(sandbox.options, false), "--mount", `type=bind,src=${folder},dst=/workspace`, "--workdir",
      "/workspace", ...environment(sandbox), "--timeout", "35", "--", "python3", "-c", CODE];
    const contestants = {
      "Node: spawn of true": () => bare([], "/bin/true"),
      "Node: spawn of kern box, same words": () => bare(words),
      "Node: the same, and what it prints is read": () => read(words),
      "Node: run": async () => check(await sandbox.run(["python3", "-c", CODE])),
      "Node: runCode": async () => check(await sandbox.runCode(CODE)),
    };
    const names = Object.keys(contestants);
    for (const name of names) samples[name] = [];
    for (let turn = 0; turn < rounds + 5; turn++) {
      for (let place = 0; place < names.length; place++) {
        const name = names[(turn + place) % names.length];
        const took = await timed(contestants[name]);
        if (turn >= 5) samples[name].push(took);
      }
    }
    const cell = await sandbox.kernel();
    samples["Node: a kernel's cell"] = [];
    for (let turn = 0; turn < rounds * 5; turn++) samples["Node: a kernel's cell"].push(await timed(async () => check(await cell.runCode(CODE))));
  });
  samples["Node: prewarmed, within the burst"] = [];
  for (let turn = 0; turn < Math.max(2, rounds / 10); turn++) {
    await kern.withSandbox({ image: "host", prewarm: 8 }, async (sandbox) => {
      await new Promise((resolve) => setTimeout(resolve, 1500));
      for (let call = 0; call < 8; call++) samples["Node: prewarmed, within the burst"].push(await timed(async () => check(await sandbox.runCode(CODE))));
    });
  }
  fs.rmSync(folder, { recursive: true });
  process.stdout.write(JSON.stringify(samples));
})();

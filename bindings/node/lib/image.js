"use strict";
// What depends on the image: bringing it here before the first call, the environment of its boxes, what to say when it
// cannot be had.

const { spawn } = require("node:child_process");

const OFFLINE = 'without a registry: image="host" uses this machine\'s own programs, `kern load -i FILE` brings an image by file';
const OTHER = /profile|volume|mount|limit|option|egress|--[a-z]/; // kern refused for another reason
const DEFAULTS = { PYTHONPATH: "/workspace/.deps", MPLBACKEND: "Agg", MPLCONFIGDIR: "/tmp/.matplotlib" };

const PULL_LIMIT = 1800; // seconds
const here = new Set();

const succeeds = (kern, words, signal) => new Promise((resolve) => {
  const child = spawn(kern, words, { stdio: "ignore", timeout: PULL_LIMIT * 1000, signal: signal ?? undefined });
  child.once("error", () => resolve(false)).once("exit", (code) => resolve(code === 0));
});

// Has an image brought here: what that takes is no call's time. Where it cannot be had, the first call says why. A signal
// ends it, and its reason is thrown.
async function fetch(kern, image, signal = null) {
  const key = `${kern}\0${image}`;
  if (image === "host" || here.has(key)) return;
  if ((await succeeds(kern, ["inspect", image], signal)) || (await succeeds(kern, ["pull", "--quiet", image], signal))) here.add(key);
  signal?.throwIfAborted();
}

// Words that set what every box has, unless `env` sets it. None of it is secret.
function environment(sandbox) {
  const words = [];
  for (const [name, value] of Object.entries(DEFAULTS)) if (!(name in sandbox.options.env)) words.push("-e", `${name}=${value}`);
  return words;
}

// What to do when kern had no image to build a box with.
function explain(image, message, resolved) {
  return image === "host" || resolved || OTHER.test(message) ? message : `${message}; ${OFFLINE}`;
}

module.exports = { environment, explain, fetch };

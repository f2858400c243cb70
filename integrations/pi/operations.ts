// What pi's tools do to files and programs, done in a kern box. Paths are those of the box: the agent's working directory is
// /workspace there. Files below it are read and written by the client, which follows no link that the box planted; whatever
// else a path names is the box's own, and is reached by a program in it.

import { posix } from "node:path";
import type { BashOperations, EditOperations, FindOperations, LsOperations, ReadOperations, WriteOperations } from "@earendil-works/pi-coding-agent";
import type { ExecutionResult, Sandbox } from "kern-sandbox";

export const ROOT = "/workspace";
const IMAGES: [number[], string][] = [
  [[0x89, 0x50, 0x4e, 0x47], "image/png"], [[0xff, 0xd8, 0xff], "image/jpeg"], [[0x47, 0x49, 0x46, 0x38], "image/gif"],
];
const NO_DEADLINE = 86400;

/** A path as the box knows it: what is below the project on the host is below /workspace there. */
function inside(box: Sandbox, path: string): string {
  const clean = posix.resolve(ROOT, path);
  return clean === box.workspace || clean.startsWith(`${box.workspace}/`) ? ROOT + clean.slice(box.workspace.length) : clean;
}

/** The path below /workspace, or null for one of the box's own. */
function inWorkspace(box: Sandbox, path: string): string | null {
  const clean = inside(box, path);
  return clean.startsWith(`${ROOT}/`) ? clean.slice(ROOT.length + 1) : null;
}

function check(result: ExecutionResult, what: string): ExecutionResult {
  if (result.fault) throw new Error(`${what}: the sandbox stopped it (${result.fault.type}): ${result.fault.message}`);
  if (result.exitCode !== 0) throw new Error(`${what}: ${result.codeStderr.trim() || `exit code ${result.exitCode}`}`);
  return result;
}

/** Runs a script in the box with a path as "$1"; nothing of that is read as shell. */
async function inBox(box: Sandbox, script: string, path: string): Promise<ExecutionResult> {
  return box.run(["sh", "-c", script, "sh", inside(box, path)], { timeoutS: 120 });
}

async function readAnywhere(box: Sandbox, path: string): Promise<Buffer> {
  const name = inWorkspace(box, path);
  if (name !== null) return box.readFile(name);
  const parts: Buffer[] = [];
  check(await box.run(["cat", "--", inside(box, path)], { timeoutS: 60, onStdout: (data) => parts.push(data) }), `cannot read ${path}`);
  return Buffer.concat(parts);
}

async function writeInside(box: Sandbox, path: string, content: string): Promise<void> {
  const name = inWorkspace(box, path);
  if (name === null) throw new Error(`cannot write ${path}: only what is below ${ROOT} outlives a command in the box`);
  await box.writeFile(name, content);
}

export function readOperations(open: () => Promise<Sandbox>): ReadOperations {
  return {
    readFile: async (path) => readAnywhere(await open(), path),
    access: async (path) => {
      check(await inBox(await open(), 'test -r "$1" || { echo "no such file" >&2; exit 1; }', path), `cannot read ${path}`);
    },
    detectImageMimeType: async (path) => {
      const head = await readAnywhere(await open(), path).catch(() => Buffer.alloc(0));
      if (head.subarray(0, 4).toString("latin1") === "RIFF" && head.subarray(8, 12).toString("latin1") === "WEBP") return "image/webp";
      return IMAGES.find(([magic]) => magic.every((byte, index) => head[index] === byte))?.[1] ?? null;
    },
  };
}

export function writeOperations(open: () => Promise<Sandbox>): WriteOperations {
  return {
    writeFile: async (path, content) => writeInside(await open(), path, content),
    mkdir: async () => {}, // the client makes what a file needs
  };
}

export function editOperations(open: () => Promise<Sandbox>): EditOperations {
  return {
    readFile: async (path) => readAnywhere(await open(), path),
    writeFile: async (path, content) => writeInside(await open(), path, content),
    access: async (path) => {
      check(await inBox(await open(), 'test -r "$1" && test -w "$1" || { echo "no such file, or it is read-only" >&2; exit 1; }', path),
        `cannot edit ${path}`);
    },
  };
}

export function lsOperations(open: () => Promise<Sandbox>): LsOperations {
  return {
    exists: async (path) => (await inBox(await open(), 'test -e "$1"', path)).exitCode === 0,
    stat: async (path) => {
      const kind = check(await inBox(await open(), 'if test -d "$1"; then echo d; else test -e "$1" && echo f; fi', path), `cannot look at ${path}`);
      return { isDirectory: () => kind.stdout.trim() === "d" };
    },
    readdir: async (path) => check(await inBox(await open(), 'ls -A -- "$1"', path), `cannot list ${path}`).stdout.split("\n").filter((name) => name !== ""),
  };
}

/** A glob as a regular expression over paths relative to where the search began. Without a slash it names files anywhere. */
export function globExpression(glob: string): RegExp {
  const pattern = glob.includes("/") ? glob.replace(/^\.?\//, "") : `**/${glob}`;
  let text = "";
  let braces = 0;
  for (let at = 0; at < pattern.length; at++) {
    const rest = pattern.slice(at);
    const set = /^\[[!^]?\]?[^\]/]*\]/.exec(rest);
    if (rest.startsWith("**/")) {
      text += "(?:[^/]+/)*";
      at += 2;
    } else if (rest.startsWith("**")) {
      text += ".*";
      at += 1;
    } else if (pattern[at] === "*") text += "[^/]*";
    else if (pattern[at] === "?") text += "[^/]";
    else if (pattern[at] === "{" && rest.includes("}")) {
      text += "(?:";
      braces++;
    } else if (pattern[at] === "}" && braces > 0) {
      text += ")";
      braces--;
    } else if (pattern[at] === "," && braces > 0) text += "|";
    else if (set) {
      text += set[0].replace(/^\[!/, "[^").replace(/\\/g, "\\\\");
      at += set[0].length - 1;
    } else text += pattern[at].replace(/[.+^$()|\\{}\[\]]/g, "\\$&");
  }
  return new RegExp(`^${text}$`);
}

const LEAVE_OUT = "\\( -name .git -o -name node_modules \\) -prune";

export function findOperations(open: () => Promise<Sandbox>): FindOperations {
  return {
    exists: async (path) => (await inBox(await open(), 'test -e "$1"', path)).exitCode === 0,
    glob: async (pattern, cwd, { limit }) => {
      const found = check(await inBox(await open(), `cd -- "$1" && find . ${LEAVE_OUT} -o \\( -type f -o -type l \\) -print`, cwd), `cannot search ${cwd}`);
      const wanted = globExpression(pattern);
      const names = found.stdout.split("\n").map((name) => name.replace(/^\.\//, "")).filter((name) => name !== "" && wanted.test(name));
      return names.sort().slice(0, limit).map((name) => posix.join(cwd, name));
    },
  };
}

export function bashOperations(open: () => Promise<Sandbox>): BashOperations {
  return {
    exec: async (command, cwd, { onData, signal, timeout }) => {
      const box = await open();
      signal?.throwIfAborted();
      const words = ["sh", "-c", 'cd -- "$1" && if command -v bash >/dev/null; then exec bash -c "$2"; else exec sh -c "$2"; fi', "sh", inside(box, cwd), command];
      let result: ExecutionResult;
      try {
        result = await box.run(words, { timeoutS: timeout && timeout > 0 ? timeout : NO_DEADLINE, signal, onStdout: onData, onStderr: onData });
      } catch (problem) {
        if (signal?.aborted) throw new Error("aborted");
        throw problem;
      }
      if (result.fault?.type === "timeout") throw new Error(`timeout:${timeout}`);
      if (result.fault) onData(Buffer.from(`\n[sandbox: ${result.fault.type}] ${result.fault.message}\n`));
      return { exitCode: result.exitCode };
    },
  };
}

export interface GrepParams {
  pattern: string;
  path?: string;
  glob?: string;
  ignoreCase?: boolean;
  literal?: boolean;
  context?: number;
  limit?: number;
}

/** The lines that match, as path:line: text, by the box's own grep. */
export async function grep(box: Sandbox, params: GrepParams, signal?: AbortSignal): Promise<string> {
  const limit = Math.max(1, params.limit ?? 100);
  const words = ["-rnHIs", "--exclude-dir=.git", "--exclude-dir=node_modules", params.literal ? "-F" : "-E"];
  if (params.ignoreCase) words.push("-i");
  if (params.glob) words.push(`--include=${params.glob.split("/").pop()}`);
  if (params.context) words.push("-C", String(Math.trunc(params.context)));
  const path = inside(box, params.path ?? ".");
  const result = await box.run(["grep", ...words, "-e", params.pattern, "--", path], { timeoutS: 120, signal });
  if (result.fault || result.exitCode > 1) check(result, "grep");
  const lines = result.stdout.split("\n").filter((line) => line !== "").map((line) => line.replace(`${ROOT}/`, "").slice(0, 500));
  if (lines.length === 0) return "No matches found";
  const shown = lines.slice(0, limit);
  if (lines.length > limit) shown.push(`[${limit} of ${lines.length} lines; give a higher limit or a narrower pattern]`);
  return shown.join("\n");
}

// kern-pi: pi's tools bash, read, write, edit, ls, grep and find work in a kern box, with the working directory at /workspace.
// Where no box can be had they fail; nothing ever falls back to the host.

import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";
import {
  createBashTool, createEditTool, createFindTool, createGrepTool, createLsTool, createReadTool, createWriteTool,
} from "@earendil-works/pi-coding-agent";
import { Sandbox, type SandboxOptions } from "kern-sandbox";
import {
  ROOT, bashOperations, editOperations, findOperations, grep, type GrepParams, lsOperations, readOperations, writeOperations,
} from "./operations.ts";

export default function kern(pi: ExtensionAPI): void {
  pi.registerFlag("kern-image", { description: "image of the box; host (the default): this machine's programs, read-only", type: "string" });
  pi.registerFlag("kern-memory", { description: "memory cap of the box in MiB (4096)", type: "string" });
  pi.registerFlag("kern-egress", { description: "hosts that the box may reach, by comma; none otherwise", type: "string" });
  pi.registerFlag("kern-network", { description: "share the host's network, its loopback included", type: "boolean" });

  const cwd = process.cwd();
  let opening: Promise<Sandbox> | null = null;

  function options(): SandboxOptions {
    const text = (name: string): string | undefined => {
      const value = pi.getFlag(name);
      return typeof value === "string" && value !== "" ? value : undefined;
    };
    const egress = text("kern-egress");
    return {
      image: text("kern-image") ?? "host",
      workspace: cwd,
      memoryMb: Number(text("kern-memory") ?? 4096),
      pids: 1024,
      network: pi.getFlag("kern-network") === true,
      egressAllow: egress === undefined ? null : egress.split(",").map((host) => host.trim()),
      env: { HOME: "/tmp" },
      tmpfs: { "/tmp": "1g" },
      trackFiles: false,
    };
  }

  // A box that could not be had is tried again at the next call.
  function open(): Promise<Sandbox> {
    opening ??= (async () => new Sandbox(options()).open())().catch((problem) => {
      opening = null;
      throw problem;
    });
    return opening;
  }

  // pi resolves paths against the working directory that it knows, which is not that of the box.
  const register = (tool: any): void => pi.registerTool({
    ...tool,
    execute: (id: string, params: unknown, signal?: AbortSignal, onUpdate?: unknown, ctx?: object) =>
      tool.execute(id, params, signal, onUpdate, ctx && Object.create(ctx, { cwd: { value: ROOT } })),
  });
  register(createBashTool(ROOT, { operations: bashOperations(open) }));
  register(createReadTool(ROOT, { operations: readOperations(open) }));
  register(createWriteTool(ROOT, { operations: writeOperations(open) }));
  register(createEditTool(ROOT, { operations: editOperations(open) }));
  register(createLsTool(ROOT, { operations: lsOperations(open) }));
  register(createFindTool(ROOT, { operations: findOperations(open) }));
  register({
    ...createGrepTool(ROOT),
    async execute(_id: string, params: GrepParams, signal?: AbortSignal) {
      return { content: [{ type: "text", text: await grep(await open(), params, signal) }], details: undefined };
    },
  });

  pi.on("user_bash", () => ({ operations: bashOperations(open) }));
  pi.on("before_agent_start", (event) => ({
    systemPrompt: `${event.systemPrompt.replaceAll(cwd, ROOT)}\n\nYour tools work in a sandbox. The project is at ${ROOT}, and only what is ` +
      "written there or below stays. Unless the user allowed it, there is no network.",
  }));
  pi.on("session_shutdown", async () => {
    const box = await opening?.catch(() => null);
    opening = null;
    await box?.close();
  });
}

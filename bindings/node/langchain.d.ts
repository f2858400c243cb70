import type { StructuredToolInterface } from "@langchain/core/tools";
import type { ExecutionResult, Sandbox, SandboxOptions } from "kern-sandbox";

export type ToolLanguage = "python" | "bash" | "javascript";

export interface KernCodeToolOptions extends SandboxOptions {
  language?: ToolLanguage;
  /** An open sandbox that other tools share, instead of options. */
  sandbox?: Sandbox | null;
  /** Of the tool: run_python, run_bash or run_javascript otherwise. */
  toolName?: string;
  description?: string;
}

/** A LangChain tool that runs code in a kern box; close() ends the sandbox that it made. */
export function kernCodeTool(options?: KernCodeToolOptions): StructuredToolInterface & { close(): Promise<void> };

/** A result as a model should read it. */
export function forModel(result: ExecutionResult, limit?: number): string;

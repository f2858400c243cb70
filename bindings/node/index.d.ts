/// <reference types="node" />

export type Language = "python" | "bash" | "sh" | "node";

export type SandboxFaultType =
  | "timeout" | "escape_blocked" | "oom" | "killed" | "exec_failed" | "startup_failed" | "workspace_full";

/** Something that the sandbox did, as opposed to the code. */
export interface SandboxFault {
  readonly type: SandboxFaultType;
  readonly message: string;
}

/** A regular file of the workspace. */
export interface FileInfo {
  path: string;
  size: number;
  change: "created" | "modified";
}

/** Where a mount stands in the box: a path, or a path and whether it can be written. */
export type MountSpec = string | readonly [target: string, mode: "ro" | "rw"];

/** What a call used. null: not known. */
export interface Usage {
  wallMs: number | null;
  cpuMs: number | null;
  peakMemoryBytes: number | null;
}

/** A host or a device that was refused; what else kern knows of it stands beside its name. */
export type DeniedThing = string | { name: string; count?: number; [more: string]: unknown };

/** What kern refused the code. */
export interface Denied {
  syscalls?: Record<string, number>;
  hosts?: DeniedThing[];
  devices?: DeniedThing[];
}

export interface BlockedEvent {
  kind: "syscall" | "host" | "device";
  name: string;
  count: number;
  [more: string]: unknown;
}

export type OutputCallback = (chunk: Buffer) => void;

/** Every option of a Sandbox; the README says what each means. */
export interface SandboxOptions {
  image?: string;
  setup?: string | null;
  workspace?: string | null;
  workspaceMaxBytes?: number | null;
  persist?: boolean;
  name?: string | null;
  persistTtlS?: number;
  memoryMb?: number | null;
  cpus?: number | null;
  pids?: number;
  timeoutS?: number;
  network?: boolean;
  user?: string | null;
  capDrop?: string[];
  mounts?: Record<string, MountSpec> | null;
  tmpfs?: Record<string, string> | null;
  profiles?: string[] | null;
  env?: Record<string, string> | null;
  maxOutputBytes?: number;
  enforceLimits?: boolean;
  securityProfile?: "untrusted" | null;
  apparmor?: string | null;
  seccomp?: string | null;
  requireLimits?: boolean;
  depsReadonly?: boolean;
  pycCache?: boolean;
  trackFiles?: boolean;
  egressAllow?: string[] | null;
  prewarm?: number;
  onStdout?: OutputCallback | null;
  onStderr?: OutputCallback | null;
  onBlocked?: ((event: BlockedEvent) => void) | null;
}

export interface RunOptions {
  timeoutS?: number;
  /** Ends the box of the call, which then throws the signal's reason. */
  signal?: AbortSignal | null;
  onStdout?: OutputCallback | null;
  onStderr?: OutputCallback | null;
}

export interface RunCodeOptions extends RunOptions {
  language?: Language;
}

/** One rich value: what a notebook would show, by MIME type. */
export class Result {
  constructor(data: Record<string, unknown>);
  readonly data: Record<string, unknown>;
  formats(): string[];
  readonly text: string | null;
  readonly html: string | null;
  readonly markdown: string | null;
  readonly svg: string | null;
  readonly latex: string | null;
  readonly json: unknown;
  readonly png: Buffer | null;
  readonly jpeg: Buffer | null;
}

/** The outcome of one call. A non-zero exit code of the code's own is no fault. */
export class ExecutionResult {
  constructor(fields: Partial<ExecutionResult>);
  stdout: string;
  stderr: string;
  /** stderr without kern's own notes: what to show a model. */
  readonly codeStderr: string;
  /** The lines of stderr that kern wrote about itself. */
  readonly runtimeNotes: string[];
  exitCode: number;
  durationMs: number;
  readonly success: boolean;
  fault: SandboxFault | null;
  files: FileInfo[];
  results: Result[];
  truncated: boolean;
  usage: Usage;
  denied: Denied;
  /** kern's own report of the box, null where there is none. */
  readonly report: Record<string, unknown> | null;
  toJSON(): Record<string, unknown>;
}

/** One warm Python interpreter: names and imports live from cell to cell. A fault ends it. */
export class Kernel {
  private constructor();
  readonly alive: boolean;
  runCode(code: string, options?: RunOptions): Promise<ExecutionResult>;
  close(): Promise<void>;
}

/** A workspace and the boxes that share it. Files persist from call to call, processes do not. */
export class Sandbox {
  constructor(options?: SandboxOptions);
  readonly workspace: string;
  open(): Promise<this>;
  close(): Promise<void>;
  destroy(): Promise<void>;
  runCode(code: string, options?: RunCodeOptions): Promise<ExecutionResult>;
  run(command: readonly string[], options?: RunOptions): Promise<ExecutionResult>;
  kernel(): Promise<Kernel>;
  writeFile(path: string, data: string | Uint8Array): Promise<void>;
  readFile(path: string): Promise<Buffer>;
  listFiles(): Promise<FileInfo[]>;
  snapshot(destination: string): void;
  restore(source: string): void;
}

/** A bad option, a sandbox used out of order, no usable kern, or a box that kern could not build. */
export class SandboxError extends Error {
  constructor(message: string);
}

/** The sandbox will not give that path to a box. */
export class MountRefused extends SandboxError {}

export function runCode(code: string, options?: SandboxOptions & { language?: Language; signal?: AbortSignal | null }): Promise<ExecutionResult>;
export function withSandbox<T>(fn: (sandbox: Sandbox) => T | Promise<T>): Promise<T>;
export function withSandbox<T>(options: SandboxOptions, fn: (sandbox: Sandbox) => T | Promise<T>): Promise<T>;

export const DEFAULT_TMPFS_MB: number;
export const version: string;

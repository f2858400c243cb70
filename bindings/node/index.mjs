import kern from "./lib/index.js";

export const {
  DEFAULT_TMPFS_MB, ExecutionResult, Kernel, MountRefused, Result, Sandbox, SandboxError, runCode, version, withSandbox,
} = kern;
export default kern;

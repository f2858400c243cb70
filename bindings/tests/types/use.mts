import { runCode, withSandbox, Sandbox, SandboxError, MountRefused, type SandboxOptions, type ExecutionResult, DEFAULT_TMPFS_MB, version } from "kern-sandbox";
async function main(): Promise<void> {
  const r: ExecutionResult = await runCode("print(1)", { image: "host", language: "python" });
  const t: string | undefined = r.fault?.type;
  const n: number = await withSandbox(async (s) => (await s.run(["true"])).exitCode);
  const o: SandboxOptions = { mounts: { "/a": ["/b", "ro"], "/c": "/d" }, onStdout: (c) => { c.toString("utf8"); } };
  const s = await new Sandbox(o).open();
  const k = await s.kernel();
  const png: Buffer | null = (await k.runCode("1", { timeoutS: 1 })).results[0].png;
  console.log(t, n, png, DEFAULT_TMPFS_MB, version, SandboxError, MountRefused);
  // @ts-expect-error a string is no command
  await s.run("true");
  // @ts-expect-error no such option
  new Sandbox({ memory: 5 });
}
void main();

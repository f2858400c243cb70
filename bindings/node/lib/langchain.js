"use strict";
// A LangChain tool that runs code in a kern box. Needs @langchain/core.

const { tool } = require("@langchain/core/tools");
const { SandboxError } = require("./errors.js");
const { Sandbox } = require("./sandbox.js");

const TEXT_LIMIT = 8000; // characters that go back to the model
const LANGUAGES = { python: ["python", "Python"], bash: ["bash", "bash"], javascript: ["node", "JavaScript (Node)"] };

// A result as a model should read it: output, values, who stopped it; never more than `limit` characters. What the sandbox
// says comes last and is never cut off.
function forModel(result, limit = TEXT_LIMIT) {
  const parts = [result.stdout.replace(/\n+$/, ""), result.codeStderr.replace(/\n+$/, "")];
  for (const value of result.results) parts.push(value.markdown ?? value.text ?? "");
  let text = parts.filter((part) => part !== "").join("\n");
  let verdict = "";
  if (result.fault !== null) verdict = `[sandbox: ${result.fault.type}] ${result.fault.message}`;
  else if (result.exitCode !== 0) verdict = `[exit code ${result.exitCode}]`;
  else if (text === "") verdict = "[no output]";
  verdict = verdict.slice(0, 1000);
  const room = limit - verdict.length - 1;
  if (text.length > room) {
    const gap = "\n[... output left out ...]\n";
    const half = Math.floor((room - gap.length) / 2);
    text = text.slice(0, half) + gap + text.slice(-half);
  }
  return [text, verdict].filter((part) => part !== "").join("\n");
}

// A tool named run_python, run_bash or run_javascript. The model reads text; the ExecutionResult is the artifact of the
// message. Options are those of Sandbox; or give an open sandbox that other tools share. `tool.close()` ends a sandbox that
// was made here.
function kernCodeTool({ language = "python", sandbox = null, toolName, description, ...options } = {}) {
  if (!Object.hasOwn(LANGUAGES, language)) throw new SandboxError(`language: '${language}' is none of ${Object.keys(LANGUAGES).join(", ")}`);
  if (sandbox !== null && Object.keys(options).length) throw new SandboxError("kernCodeTool: give a sandbox or its options, not both");
  const [kernLanguage, what] = LANGUAGES[language];
  const mine = sandbox ?? new Sandbox(options);
  const value = language === "python" ? ", and the value of a last expression" : "";
  const made = tool(
    async ({ code }) => {
      try {
        await mine.open();
        const result = await mine.runCode(code, { language: kernLanguage });
        return [forModel(result), result];
      } catch (problem) {
        if (!(problem instanceof SandboxError)) throw problem;
        return [`[sandbox: error] ${problem.message}`.slice(0, TEXT_LIMIT), null];
      }
    },
    {
      name: toolName ?? `run_${language}`,
      description: description ?? `Run ${what} code in an isolated, throwaway Linux box and return what it printed${value}. No network ` +
        "unless configured. Files in the current directory stay for later calls; variables do not.",
      schema: {
        type: "object",
        properties: { code: { type: "string", description: "The program text to run." } },
        required: ["code"],
        additionalProperties: false,
      },
      responseFormat: "content_and_artifact",
    },
  );
  made.close = async () => {
    if (sandbox === null) await mine.close();
  };
  return made;
}

module.exports = { forModel, kernCodeTool };

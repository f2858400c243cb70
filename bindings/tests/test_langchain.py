"""The LangChain tool and the shell policy, with the real langchain-core and langchain."""

import gc
import json
import os
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
os.environ.setdefault("KERN_BIN", os.environ.get("KERN", ""))
from langchain.agents import create_agent
from langchain.agents.middleware import ShellToolMiddleware
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, ToolCall, ToolMessage

import kern_sandbox
from kern_sandbox import ExecutionResult, Sandbox, SandboxError, SandboxFault, kern_code_tool
from kern_sandbox.langchain import for_model
from kern_sandbox.langchain_shell import KernExecutionPolicy


class Model(GenericFakeChatModel):
    def bind_tools(self, tools, **_):
        return self


def agent(*calls, **more):
    """An agent whose model makes these calls, one a turn, then says done."""
    turns = [AIMessage(content="", tool_calls=[ToolCall(name=name, args=args, id=f"c{number}")]) for number, (name, args) in enumerate(calls)]
    return create_agent(Model(messages=iter([*turns, AIMessage(content="done")])), **more)


def answers(state):
    return [message.content for message in state["messages"] if isinstance(message, ToolMessage)]


class Tool(unittest.TestCase):
    def test_what_the_model_sees(self):
        tool = kern_code_tool(image="host")
        self.assertEqual((tool.name, list(tool.args)), ("run_python", ["code"]))
        self.assertEqual(tool.invoke({"code": "print('a')\n6 * 7"}), "a\n42")
        self.assertEqual(tool.invoke({"code": "open('f', 'w').write('x'); None"}), "[no output]")
        self.assertEqual(tool.invoke({"code": "print(open('f').read())"}), "x")
        self.assertIn("[exit code 1]", tool.invoke({"code": "1 / 0"}))
        message = tool.invoke(ToolCall(type="tool_call", name="run_python", args={"code": "5"}, id="1"))
        self.assertEqual((message.content, message.artifact.results[0].text), ("5", "5"))
        path = tool.func.__closure__ and [c.cell_contents for c in tool.func.__closure__ if hasattr(c.cell_contents, "sandbox")][0].sandbox.workspace
        del tool, message
        gc.collect()
        self.assertFalse(os.path.exists(path))

    def test_faults_and_length(self):
        tool = kern_code_tool(image="host", timeout_s=2)
        text = tool.invoke({"code": "print('x' * 100000, flush=True)\nwhile True: pass"})
        self.assertLessEqual(len(text), 8000)
        self.assertTrue(text.rsplit("\n", 1)[1].startswith("[sandbox: timeout]"))
        self.assertLessEqual(len(for_model(ExecutionResult(stdout="y" * 9000, fault=SandboxFault("oom", "z" * 9000)))), 8000)
        broken = kern_code_tool(image="host", setup="exit 4")
        self.assertIn("[sandbox: error] setup failed (exit 4)", broken.invoke({"code": "1"}))

    def test_languages_and_a_shared_sandbox(self):
        with Sandbox(image="host") as sandbox:
            python, bash = kern_code_tool(sandbox=sandbox), kern_code_tool("bash", sandbox=sandbox)
            python.invoke({"code": "open('n', 'w').write('7')"})
            self.assertEqual((bash.name, bash.invoke({"code": "echo $(( $(cat n) + 1 ))"})), ("run_bash", "8"))
        self.assertEqual(kern_code_tool("javascript", image="host").name, "run_javascript")
        with self.assertRaisesRegex(SandboxError, "ruby"):
            kern_code_tool("ruby")
        with self.assertRaisesRegex(SandboxError, "not both"):
            kern_code_tool(sandbox=sandbox, image="host")
        with self.assertRaisesRegex(SandboxError, "memory_mb"):
            kern_code_tool(memory_mb="lots")

    def test_in_an_agent(self):
        made = agent(("run_python", {"code": "print(2 ** 10)"}), tools=[kern_code_tool(image="host")])
        self.assertEqual(answers(made.invoke({"messages": [("user", "go")]})), ["1024"])


class Shell(unittest.TestCase):
    def shell(self, *commands, **options):
        with tempfile.TemporaryDirectory() as folder:
            middleware = ShellToolMiddleware(workspace_root=folder, env={"A_SECRET": "hunter2"},
                                             execution_policy=KernExecutionPolicy(options={"image": "host", **options}, command_timeout=20))
            made = agent(*[("shell", {"command": command}) for command in commands], tools=[], middleware=[middleware])
            found = answers(made.invoke({"messages": [("user", "go")]}))
            return found, sorted(os.listdir(folder))

    def test_a_shell_in_a_box(self):
        found, files = self.shell("echo hi; x=5; cd /tmp", "echo $x $PWD $A_SECRET", "echo data > /workspace/made; ls /home /root",
                                  "echo x > /usr/x; cat /proc/1/comm", "hostname")
        self.assertEqual(found[0].strip(), "hi")
        self.assertEqual(found[1].strip(), "5 /tmp hunter2")
        self.assertIn("Read-only file system", found[3])
        self.assertIn("kern-shell", found[4])
        self.assertEqual(files, ["made"])

    def test_options(self):
        with self.assertRaisesRegex(SandboxError, "workspace"):
            KernExecutionPolicy(options={"workspace": "/tmp"})
        with self.assertRaisesRegex(SandboxError, "memory_mb"):
            KernExecutionPolicy(options={"memory_mb": -1})


if __name__ == "__main__":
    unittest.main()

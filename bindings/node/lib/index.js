"use strict";
// kern-sandbox: run code that nobody has read in a box that kern makes, and learn who stopped it.

const { MountRefused, SandboxError } = require("./errors.js");
const { DEFAULT_TMPFS_MB } = require("./options.js");
const { ExecutionResult, Result } = require("./result.js");
const { Sandbox, runCode, withSandbox } = require("./sandbox.js");
const { Kernel } = require("./warm.js");
const { version } = require("../package.json");

module.exports = { DEFAULT_TMPFS_MB, ExecutionResult, Kernel, MountRefused, Result, Sandbox, SandboxError, runCode, version, withSandbox };

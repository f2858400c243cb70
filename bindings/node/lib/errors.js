"use strict";
// What is thrown: mistakes of the programmer, and boxes that kern would not build. Faults of a run are data instead.

class SandboxError extends Error {
  constructor(message) {
    super(message);
    this.name = "SandboxError";
  }
}

class MountRefused extends SandboxError {
  constructor(message) {
    super(message);
    this.name = "MountRefused";
  }
}

module.exports = { SandboxError, MountRefused };

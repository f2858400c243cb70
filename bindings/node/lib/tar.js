"use strict";
// Snapshots: ustar with pax records for long names, regular files only. Reading believes nothing.

const zlib = require("node:zlib");
const { SandboxError } = require("./errors.js");
const names = require("./names.js");

const BLOCK = 512;
const INFLATED_LIMIT = 2 ** 30;

function header(name, size, type) {
  const block = Buffer.alloc(BLOCK);
  block.write(name, 0, 100, "utf8");
  const octal = (value, at, length) => block.write(value.toString(8).padStart(length - 1, "0"), at, length - 1, "latin1");
  octal(0o644, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.fill(0x20, 148, 156);
  block.write(type, 156, 1, "latin1");
  block.write("ustar\0" + "00", 257, 8, "latin1");
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(sum.toString(8).padStart(6, "0") + "\0 ", 148, 8, "latin1");
  return block;
}

function padded(data) {
  const rest = data.length % BLOCK;
  return rest ? [data, Buffer.alloc(BLOCK - rest)] : [data];
}

function record(key, value) {
  const tail = Buffer.concat([Buffer.from(` ${key}=`), names.toBytes(String(value)), Buffer.from("\n")]);
  let length = tail.length;
  while (String(length).length + tail.length !== length) length = String(length).length + tail.length;
  return Buffer.concat([Buffer.from(String(length), "latin1"), tail]);
}

// files: [[name, Buffer]...]
function pack(files) {
  const parts = [];
  for (const [name, data] of files) {
    if (Buffer.byteLength(name) > 100 || /[^\x20-\x7e]/.test(name) || data.length >= 8 ** 11) {
      const binary = names.isOdd(name) ? [record("hdrcharset", "BINARY")] : [];
      const body = Buffer.concat([...binary, record("path", name), ...(data.length >= 8 ** 11 ? [record("size", data.length)] : [])]);
      parts.push(header("././@PaxHeader", body.length, "x"), ...padded(body));
    }
    const short = Buffer.from(name, "utf8").subarray(0, 100).toString("latin1").replace(/[^\x20-\x7e]/g, "_");
    parts.push(header(short, Math.min(data.length, 8 ** 11 - 1), "0"), ...padded(data));
  }
  parts.push(Buffer.alloc(2 * BLOCK));
  return zlib.gzipSync(Buffer.concat(parts), { level: 1 });
}

function refuse(text) {
  throw new SandboxError(`snapshot: ${text}`);
}

function field(block, at, length) {
  const end = block.indexOf(0, at);
  return block.subarray(at, end < 0 || end > at + length ? at + length : end);
}

function octal(block, at, length) {
  const text = block.toString("latin1", at, at + length).replace(/[\0 ]+$/, "").trim();
  if (!/^[0-7]*$/.test(text)) refuse("a number in a header is none");
  return text === "" ? 0 : parseInt(text, 8);
}

function checkSum(block) {
  let sum = 8 * 0x20;
  for (let index = 0; index < BLOCK; index++) if (index < 148 || index >= 156) sum += block[index];
  if (octal(block, 148, 8) !== sum) refuse("bad checksum");
}

function paxRecords(body) {
  const found = {};
  let at = 0;
  while (at < body.length && body[at] !== 0) {
    const space = body.indexOf(0x20, at);
    const length = space < 0 ? NaN : Number(body.toString("latin1", at, space));
    if (!Number.isInteger(length) || length < 5 || at + length > body.length) refuse("bad pax record");
    const text = names.fromBytes(body.subarray(space + 1, at + length - 1));
    const equals = text.indexOf("=");
    if (equals < 1) refuse("bad pax record");
    found[text.slice(0, equals)] = text.slice(equals + 1);
    at += length;
  }
  if (Object.keys(found).some((key) => key.startsWith("GNU.sparse"))) refuse("a member is sparse");
  return found;
}

function checkName(name) {
  if (name.startsWith("/") || name.includes("\0")) refuse(`member '${name}' is an absolute path`);
  const parts = name.split("/").filter((part) => part !== "" && part !== ".");
  if (parts.includes("..")) refuse(`member '${name}' has a '..'`);
  return parts;
}

// [{parts, data (null for a directory)}]. The whole archive is looked at before anything is returned.
function unpack(packed) {
  let raw;
  try {
    raw = zlib.gunzipSync(packed, { maxOutputLength: INFLATED_LIMIT });
  } catch (problem) {
    if (problem.code === "ERR_BUFFER_TOO_LARGE") refuse(`more than ${INFLATED_LIMIT / 2 ** 20} MiB when inflated`);
    refuse(problem.message);
  }
  const members = [];
  let at = 0;
  let pax = {};
  let long = null;
  while (at + BLOCK <= raw.length) {
    const block = raw.subarray(at, at + BLOCK);
    if (block.every((byte) => byte === 0)) break;
    checkSum(block);
    const type = String.fromCharCode(block[156] || 0x30);
    const size = pax.size === undefined || "xgL".includes(type) ? octal(block, 124, 12) : Number(pax.size);
    if (!Number.isInteger(size) || size < 0 || at + BLOCK + size > raw.length) refuse("a member claims more than there is");
    const data = raw.subarray(at + BLOCK, at + BLOCK + size);
    at += BLOCK + Math.ceil(size / BLOCK) * BLOCK;
    if (type === "x") {
      pax = paxRecords(data);
      continue;
    }
    if (type === "g") continue;
    if (type === "L") {
      long = names.fromBytes(field(data, 0, data.length));
      continue;
    }
    const prefix = block.toString("latin1", 257, 262) === "ustar" ? names.fromBytes(field(block, 345, 155)) : "";
    const short = names.fromBytes(field(block, 0, 100));
    const name = pax.path ?? long ?? (prefix ? `${prefix}/${short}` : short);
    pax = {};
    long = null;
    if (type !== "0" && type !== "5" && type !== "7") refuse(`member '${name}' is neither a file nor a directory`);
    const parts = checkName(name);
    const folder = type === "5" || name.endsWith("/");
    if (parts.length === 0 && !folder) refuse("a member has no name");
    members.push({ parts, data: folder ? null : data });
  }
  if (raw.subarray(at).some((byte) => byte !== 0)) refuse("what follows the last member is no member");
  return members;
}

module.exports = { INFLATED_LIMIT, pack, unpack };

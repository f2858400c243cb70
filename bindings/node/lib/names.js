"use strict";
// Names of files, which are bytes, as strings: a lone surrogate stands for each byte that is no UTF-8, as in Python, so that
// whatever a box made can be named, listed and kept.

const { SandboxError } = require("./errors.js");

const ODD = /\p{Cs}/u;
const SEQUENCE = new RegExp("[\\xc2-\\xdf][\\x80-\\xbf]|\\xe0[\\xa0-\\xbf][\\x80-\\xbf]|[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}|" +
  "\\xed[\\x80-\\x9f][\\x80-\\xbf]|\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}|[\\xf1-\\xf3][\\x80-\\xbf]{3}|\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2}|[\\x80-\\xff]", "g");

const isOdd = (name) => ODD.test(name);

function fromBytes(bytes) {
  const text = bytes.toString("utf8");
  if (!text.includes("\ufffd")) return text;
  return bytes.toString("latin1").replace(SEQUENCE, (found) => (found.length > 1
    ? Buffer.from(found, "latin1").toString("utf8") : String.fromCharCode(0xdc00 + found.charCodeAt(0))));
}

function toBytes(name) {
  return Buffer.concat(name.split(/(\p{Cs})/u).map((part) => {
    if (!isOdd(part)) return Buffer.from(part, "utf8");
    const byte = part.charCodeAt(0) - 0xdc00;
    if (byte < 0x80 || byte > 0xff) throw new SandboxError(`${JSON.stringify(name)} is not a usable path`);
    return Buffer.from([byte]);
  }));
}

module.exports = { fromBytes, isOdd, toBytes };

"""Work for a first box: hashes a file, sorts its lines in two processes, and tries three things that a box refuses."""

import hashlib
import heapq
import multiprocessing
import os
import socket
import sys
import time


def attempt(what, action):
    try:
        action()
    except OSError as error:
        print(f"{what}: {error.strerror}")
    else:
        print(f"{what}: it worked, and should not have")
        sys.exit(1)


def main(path):
    print(f"python {sys.version.split()[0]} as uid {os.getuid()}, pid {os.getpid()}, on {socket.gethostname()}")
    with open(path, "rb") as file:
        data = file.read()
    print(f"{path}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")

    begin = time.monotonic()
    lines = data.splitlines()
    middle = len(lines) // 2
    with multiprocessing.Pool(2) as pool:
        halves = pool.map(sorted, (lines[:middle], lines[middle:]))
    ordered = hashlib.sha256()
    for line in heapq.merge(*halves):
        ordered.update(line + b"\n")
    took = time.monotonic() - begin
    print(f"sorted {len(lines)} lines in {took:.1f} s by two processes, sha256 {ordered.hexdigest()}")

    attempt("writing to the file", lambda: open(path, "ab"))
    attempt("reading the host's passwords", lambda: open("/etc/shadow", "rb"))
    attempt("reaching the network", lambda: socket.create_connection(("192.0.2.1", 80), timeout=5))


main(sys.argv[1])

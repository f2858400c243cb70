"""Boxes that live on, for the tests of their life and of their logs."""

import json
import os
import re

import kerntest
from kerntest import BoxCase

STARTED = re.compile(r"^started '([^']+)' \[pid (\d+), detached\]\n$")


class LifeCase(BoxCase):
    """Detached boxes, ended after the test."""

    number = 0

    def name(self, word="life"):
        LifeCase.number += 1
        return f"{word}-{os.getpid()}-{LifeCase.number}"

    def detach(self, *command, options=(), name=None, **keywords):
        """A detached box with the busybox root; returns its name."""
        name = name or self.name()
        done = self.kern("box", name, "-d", "--rootfs", self.root, *options, "--", *command, report=False, **keywords)
        self.assertEqual(done.code, 0, done)
        found = STARTED.match(done.out)
        self.assertTrue(found, done)
        self.assertEqual(found.group(1), name)
        kerntest._pids.add(int(found.group(2)))
        self.supervisor = int(found.group(2))
        self.addCleanup(self.forget, name)
        return name

    def forget(self, name):
        self.kern("rm", "--force", name)

    def ps(self, *words):
        done = self.kern("ps", "--json", *words)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return json.loads(done.out)

    def row(self, name, *words):
        rows = [row for row in self.ps(*words) if row["name"] == name]
        return rows[0] if rows else None

    def succeed(self, *words, **keywords):
        done = self.kern(*words, **keywords)
        self.assertEqual((done.code, done.err), (0, ""), done)
        return done.out

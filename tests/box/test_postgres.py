"""A real database as a detached box: Debian's PostgreSQL on the host root, its data in a named volume. It is stopped by its own
signal, its supervisor is killed again and again, and nothing that was committed is lost."""

import glob
import os
import signal
import unittest

import kerntest
from kerntest import as_root
from lifekit import LifeCase

PROGRAMS = next(iter(sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)), None)
START = f"[ -f /data/d/PG_VERSION ] || {PROGRAMS}/initdb -D /data/d -A trust >/dev/null; exec {PROGRAMS}/postgres -D /data/d -k /tmp -h ''"
KILLS = 10


@as_root
class Database(LifeCase):
    def setUp(self):
        if os.environ.get("KERN_VARIANT"):
            raise unittest.SkipTest("once is enough for a database: the other builds differ elsewhere")
        if PROGRAMS is None:
            raise unittest.SkipTest("no PostgreSQL on this machine (Debian: postgresql)")
        self.env = {"XDG_DATA_HOME": self.folder()}
        self.box_name = self.name("postgres")
        self.addCleanup(self.forget, self.box_name)
        made = self.kern("box", "-q", "-v", "pgdata:/data", "--", "chmod", "777", "/data", env=self.env)
        self.assertEqual(made.code, 0, made)

    def start_it(self):
        done = self.kern("box", self.box_name, "-d", "-q", "-v", "pgdata:/data", "--tmpfs", "/tmp:64m", "--user", "65534:65534",
                         "--stop-signal", "SIGINT", "--stop-timeout", "20", "--", "sh", "-c", START, env=self.env, report=False)
        self.assertEqual(done.code, 0, done)
        self.supervisor = int(done.out.split("pid ")[1].split(",")[0])
        kerntest._pids.add(self.supervisor)
        self.assertTrue(kerntest.eventually(lambda: self.sql("select 1").code == 0, 120), self.kern("logs", self.box_name).err)

    def sql(self, text):
        return self.kern("exec", self.box_name, "--", f"{PROGRAMS}/psql", "-qAt", "-h", "/tmp", "-U", "nobody", "postgres", "-c", text,
                         report=False)

    def test_nothing_is_lost(self):
        self.start_it()
        self.assertEqual(self.sql("create table t (n int)").code, 0)
        for i in range(KILLS):
            inserted = self.sql(f"insert into t values ({i})")
            self.assertEqual(inserted.code, 0, inserted)
            os.kill(self.supervisor, signal.SIGKILL)
            self.assertTrue(kerntest.eventually(lambda: not os.path.exists(f"/proc/{self.supervisor}")))
            self.start_it()
            self.assertEqual(self.sql("select count(*), sum(n) from t").out, f"{i + 1}|{sum(range(i + 1))}\n")
        self.succeed("stop", self.box_name)
        self.assertEqual(self.succeed("wait", self.box_name), "0\n")
        self.assertIn("database system is shut down", self.kern("logs", self.box_name).err)


if __name__ == "__main__":
    kerntest.main()

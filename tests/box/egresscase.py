"""What tests of boxes with egress share: the world of egressworld, and ways to run a command that may reach some of it."""

import egressworld
import kerntest
from kerntest import BoxCase, need

NOTHING = ("--egress-allow=none",)


class Egress(BoxCase):
    """`direct` runs a command that uses no proxy."""

    @classmethod
    def prepare_class(cls):
        if "world" not in kerntest._cache:
            egressworld.enter()
            kerntest._cache["world"] = egressworld.NameServer()
        cls.names = kerntest._cache["world"]

    def web(self):
        if "nginx" not in kerntest._cache:
            kerntest._cache["nginx"] = egressworld.nginx()

    def server(self, *words, **keywords):
        echo = egressworld.Echo(*words, **keywords)
        self.addCleanup(echo.close)
        return echo

    def direct(self, *command, allow=("web.example.com",), options=(), **keywords):
        script = 'unset http_proxy https_proxy HTTP_PROXY HTTPS_PROXY; exec "$@"'
        return self.box("/bin/sh", "-c", script, "sh", *command,
                        options=[*(f"--egress-allow={rule}" for rule in allow), *options], **keywords)

    def through_proxy(self, *command, allow=("web.example.com",), options=(), **keywords):
        return self.box(*command, options=[*(f"--egress-allow={rule}" for rule in allow), *options], **keywords)

    def ran(self, result, out=None):
        self.assertEqual(result.code, 0, result)
        if out is not None:
            self.assertEqual(result.out, out, result)

    def denied(self, result):
        return {(row["name"], row["port"], row["reason"]): row["count"] for row in result.report["denied"]["hosts"]}

    def python(self, script, *words, **keywords):
        """Runs Python in the box without a proxy."""
        need("python3")
        return self.direct("python3", "-c", script, *words, **keywords)

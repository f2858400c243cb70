"""pip and npm in a box that may reach the registries which this machine is set up for, and nothing else. Which those are is read from
the machine's own settings; where they cannot be reached, the tests are skipped."""

import json
import re
import subprocess
import urllib.parse
import urllib.request

import kerntest
from kerntest import BoxCase, as_user, need

CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"
TRUSTED = "/trusted.pem"


def ask(*words):
    """What a program of this machine prints, or a skip."""
    try:
        done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        kerntest.skip(f"{words[0]} does not tell what registry it uses")
    return done.stdout.strip()


def fetch(url):
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.read().decode()
    except (OSError, ValueError) as error:
        kerntest.skip(f"the registry that this machine is set up for cannot be reached: {type(error).__name__}")


def host_of(url):
    place = urllib.parse.urlsplit(url)
    if place.scheme != "https" or place.username:
        kerntest.skip("the registry that this machine is set up for wants no TLS, or a password")
    return f"{place.hostname}:{place.port or 443}"


@as_user
class Registries(BoxCase):
    def reach(self, hosts, script, *options):
        with open(CERTIFICATES, encoding="utf-8") as file:  # a copy: /etc may be where no ids can be mapped
            trusted = self.file(file.read(), "trusted.pem")
        rules = [f"--egress-allow={host}" for host in sorted(hosts)]
        result = self.box("/bin/sh", "-ec", f"cd /tmp; {script}", seconds=90,
                          options=[*rules, "-v", f"{trusted}:{TRUSTED}:ro", "-e", "HOME=/tmp", *options])
        self.assertEqual(result.code, 0, result)
        self.assertEqual(result.report["denied"]["hosts"], [], result)
        return result.out

    def test_npm(self):
        need("npm", "node")
        registry = ask("npm", "config", "get", "registry")
        host = host_of(registry)
        version = json.loads(fetch(registry.rstrip("/") + "/left-pad"))["dist-tags"]["latest"]
        out = self.reach([host], "npm pack --silent left-pad", "-e", f"npm_config_registry={registry}", "-e",
                         f"NODE_EXTRA_CA_CERTS={TRUSTED}", "-e", "npm_config_update_notifier=false", "-e", "npm_config_audit=false")
        self.assertEqual(out.strip(), f"left-pad-{version}.tgz")

    def test_pip(self):
        need("python3")
        index = (ask("/usr/bin/python3", "-m", "pip", "config", "get", "global.index-url") or
                 ask("/usr/bin/python3", "-c", "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"))
        if not index:
            kerntest.skip("no pip for /usr/bin/python3 on this machine")
        page = index.rstrip("/") + "/six/"
        files = {host_of(urllib.parse.urljoin(page, link)) for link in re.findall(r'href="([^"#]*)', fetch(page))}
        out = self.reach({host_of(index), *files}, "/usr/bin/python3 -m pip download --no-deps --no-cache-dir --disable-pip-version-check "
                         f"--cert {TRUSTED} --index-url {index} six >/dev/null && ls")
        self.assertRegex(out, r"^six-[0-9.]+.*whl$")


if __name__ == "__main__":
    kerntest.main()

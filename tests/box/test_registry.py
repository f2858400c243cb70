"""The registry client against registries of the tests: logins, Docker's config.json, credential helpers, certificates."""

import json
import os
import stat
import time
import unittest

import kerntest
import registry_kit
from kerntest import BoxCase, as_root_and_user
from registry_kit import Registry

SECRET = "s3cret:with:colons"


class RegistryCase(BoxCase):
    """A home and a kern.toml for each test; the environment that leads to both."""

    def setUp(self):
        self.home = self.folder(0o700)

    def serve(self, **keywords):
        registry = Registry(**keywords)
        self.addCleanup(registry.close)
        return registry

    def settings(self, *plain, extra=""):
        names = ", ".join(f'"{registry.name}"' for registry in plain)
        env = self.own_config(f"[registry]\nplain-http = [{names}]\nattempts = 3\nstall-timeout = 1\n{extra}\n")
        return {**env, "HOME": self.home, "XDG_DATA_HOME": os.path.join(self.home, "data")}

    @property
    def config_path(self):
        return os.path.join(self.home, ".docker/config.json")

    def config(self):
        with open(self.config_path, encoding="utf-8") as file:
            return json.load(file)

    def write_config(self, content):
        os.makedirs(os.path.dirname(self.config_path), exist_ok=True)
        with open(self.config_path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        kerntest.give(self.home, self.me)

    def login(self, registry, env, user="ann", secret=SECRET):
        return self.kern("login", "-u", user, "--password-stdin", registry.name, text=secret + "\n", env=env)


@as_root_and_user
class Login(RegistryCase):
    def test_keeps_credentials_that_work(self):
        for auth in ("basic", "token"):
            with self.subTest(auth):
                registry = self.serve(auth=auth, users={"ann": SECRET})
                env = self.settings(registry)
                result = self.login(registry, env)
                self.assertEqual(result.code, 0, result)
                self.assertEqual(result.out, f"logged in to '{registry.name}'\n")
                self.assertIn(registry.name, self.config()["auths"])
                self.assertEqual(stat.S_IMODE(os.stat(self.config_path).st_mode), 0o600)
                self.assertEqual(stat.S_IMODE(os.stat(os.path.dirname(self.config_path)).st_mode), 0o700)
                self.assertNotIn(SECRET, result.out + result.err)

    def test_credentials_that_do_not_work_are_not_kept(self):
        for auth in ("basic", "token"):
            with self.subTest(auth):
                registry = self.serve(auth=auth, users={"ann": SECRET})
                result = self.login(registry, self.settings(registry), secret="wrong")
                self.assert_failed(result, 1, registry.name, hint=f"kern login {registry.name}")
                if auth == "basic":
                    self.assertIn('does not accept the login of "ann"', result.err)
                self.assertFalse(os.path.exists(self.config_path))
                self.assertNotIn("wrong", result.err)

    def test_other_entries_stay(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        self.write_config({"auths": {"else.example": {"auth": "eDp5"}}, "psFormat": "x"})
        self.assertEqual(self.login(registry, self.settings(registry)).code, 0)
        config = self.config()
        self.assertEqual(config["auths"]["else.example"], {"auth": "eDp5"})
        self.assertEqual(config["psFormat"], "x")

    def test_logout(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        env = self.settings(registry)
        self.assertEqual(self.login(registry, env).code, 0)
        result = self.kern("logout", registry.name, env=env)
        self.assertEqual((result.code, result.out), (0, f"logged out of '{registry.name}'\n"))
        self.assertEqual(self.config()["auths"], {})
        self.assert_failed(self.kern("logout", registry.name, env=env), 1, "no credentials", registry.name)

    def test_a_registry_that_asks_for_nothing(self):
        registry = self.serve()
        result = self.login(registry, self.settings(registry))
        self.assertEqual(result.code, 0, result)
        self.assertIn("not tried", result.err)

    def test_without_a_terminal(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        env = self.settings(registry)
        result = self.kern("login", "-u", "ann", registry.name, env=env, start_new_session=True)
        self.assert_failed(result, 1, "no terminal", hint="--password-stdin")
        self.assert_failed(self.kern("login", "--password-stdin", registry.name, env=env), 1, "--user")
        self.assert_failed(self.kern("login", "--password", "x", registry.name, env=env), 1, "--password")

    def test_the_secret_is_in_no_word_and_no_environment(self):
        seen = []

        def watch(_request, _path):
            for pid in kerntest.our_processes():
                for name in ("cmdline", "environ"):
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        seen.append(file.read())
        registry = self.serve(auth="token", users={"ann": SECRET}, fault=watch)
        env = {**self.settings(registry), "KERN_TEST_SCRATCH": kerntest.scratch()}
        self.assertEqual(self.login(registry, env).code, 0)
        self.assertTrue(any(b"login" in text for text in seen))
        self.assertEqual([text for text in seen if SECRET.encode() in text], [])

    def test_a_helper_keeps_them(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        folder = self.folder()
        helper = os.path.join(folder, "docker-credential-tests")
        kept = os.path.join(folder, "kept")
        kerntest.write(helper, f"""#!/bin/sh
            case $1 in
            store) cat >{kept};;
            get) read -r server; [ -e {kept} ] || {{ echo 'credentials not found in native keychain'; exit 1; }}; cat {kept};;
            erase) rm {kept};;
            esac\n""", 0o755)
        kerntest.give(folder, self.me)
        self.write_config({"credHelpers": {registry.name: "tests"}})
        env = {**self.settings(registry), "PATH": f"{folder}:{kerntest.BOX_PATH}"}
        result = self.login(registry, env)
        self.assertEqual(result.code, 0, result)
        with open(kept, encoding="utf-8") as file:
            self.assertEqual(json.load(file), {"ServerURL": registry.name, "Username": "ann", "Secret": SECRET})
        self.assertEqual(self.config()["auths"], {registry.name: {}})
        self.assertEqual(self.kern("logout", registry.name, env=env).code, 0)
        self.assertFalse(os.path.exists(kept))
        self.write_config({"credsStore": "nosuch"})
        self.assert_failed(self.login(registry, env), 1, "docker-credential-nosuch", hint="credsStore")

    def test_damaged_config(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        self.write_config({})
        kerntest.write(self.config_path, '{"auths": {"x": {"auth": "c2VjcmV0"}}')
        kerntest.give(self.home, self.me)
        result = self.assert_failed(self.login(registry, self.settings(registry)), 1, self.config_path, "not a JSON")
        self.assertNotIn("c2VjcmV0", result.err)


class Places(RegistryCase, unittest.TestCase):
    """Where the client goes, and who is believed to be whom."""

    @classmethod
    def prepare_class(cls):
        cls.certificates = registry_kit.certificates(kerntest.scratch())

    def test_https_by_default(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        result = self.login(registry, self.settings())
        self.assert_failed(result, 1, "https", registry.name, hint="plain_http")
        self.assertEqual(registry.requests, [])

    def test_certificates(self):
        registry = self.serve(tls=self.certificates, auth="basic", users={"ann": SECRET})
        result = self.login(registry, self.settings())
        self.assert_failed(result, 1, "cannot trust", registry.name, hint="ca_file")
        self.assertEqual(registry.requests, [])
        env = self.settings(extra=f'ca-file = "{self.certificates[0]}"')
        result = self.login(registry, env)
        self.assertEqual(result.code, 0, result)
        env = self.settings(extra='ca-file = "/no/such.pem"')
        self.assert_failed(self.login(registry, env), 1, "/no/such.pem")

    def test_a_realm_without_encryption_gets_nothing(self):
        thief = self.serve()
        registry = self.serve(tls=self.certificates, auth="token", users={"ann": SECRET}, realm=thief.url + "/token")
        env = self.settings(extra=f'ca-file = "{self.certificates[0]}"')
        self.assert_failed(self.login(registry, env), 1, "realm", "not encrypted", hint="plain_http")
        self.assertEqual(thief.requests, [])

    def test_a_realm_that_is_no_place(self):
        for realm in ("file:///etc/passwd", "https://ann:pw@127.0.0.1/", "gopher://127.0.0.1/"):
            with self.subTest(realm):
                registry = self.serve(auth="token", users={"ann": SECRET}, realm=realm)
                self.assert_failed(self.login(registry, self.settings(registry)), 1, "realm")

    def test_credentials_do_not_follow_a_redirect(self):
        thief = self.serve(auth="basic", users={"ann": SECRET})

        def away(request, path):
            request.redirect(thief.url + path)
            return True
        registry = self.serve(fault=away)
        result = self.login(registry, self.settings(registry, thief))
        self.assert_failed(result, 1, "does not give")
        self.assertEqual([headers.get("Authorization") for _, _, headers in thief.requests], [None])

    def test_a_redirect_of_the_token_server_is_not_followed(self):
        thief = self.serve()

        def away(request, path):
            if path.startswith("/token"):
                request.redirect(thief.url + "/token")
                return True
            return False
        registry = self.serve(auth="token", users={"ann": SECRET}, fault=away)
        self.assert_failed(self.login(registry, self.settings(registry, thief)), 1, "token", "307")
        self.assertEqual(thief.requests, [])

    def test_nobody_there(self):
        registry = Registry()
        registry.close()
        begin = time.monotonic()
        result = self.login(registry, self.settings(registry))
        self.assert_failed(result, 1, "cannot reach", registry.name, hint="kern load -i")
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_token_answer_without_end(self):
        def flood(request, path):
            if not path.startswith("/token"):
                return False
            request.send_response(200)
            request.send_header("Transfer-Encoding", "chunked")
            request.end_headers()
            while True:
                request.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
        registry = self.serve(auth="token", users={"ann": SECRET}, fault=flood)
        self.assert_failed(self.login(registry, self.settings(registry)), 1, "token", "too long")

    def test_names_that_are_none(self):
        for name in ("a@b", "http://127.0.0.1", "a/b", "a b", ""):
            with self.subTest(name):
                result = self.kern("login", "-u", "x", "--password-stdin", name, text="y\n", env=self.settings())
                self.assert_failed(result, 1, "not the name of a registry")


class Table(RegistryCase, unittest.TestCase):
    """[registry] of kern.toml."""

    def test_mistakes(self):
        for text, part in (("mirors = []", "mirors"), ("mirrors = 5", "mirrors"), ("attempts = 0", "attempts"), ('stall-timeout = "1ms"', "stall-timeout"),
                           ("parallel = 99", "parallel"), ("plain-http = 5", "plain-http"), ("ca-file = 5", "ca-file"),
                           ('max-size = "0"', "max-size"), ("max-ratio = 0", "max-ratio"), ('max-entries = "x"', "max-entries")):
            with self.subTest(text):
                path = self.file(f"[registry]\n{text}\n", "kern.toml")
                result = self.kern("validate", path)
                self.assert_failed(result, 1, "kern.toml:2", part)

    def test_counts_whatever_config_is_chosen(self):
        registry = self.serve(auth="basic", users={"ann": SECRET})
        env = {**self.settings(registry), "KERN_CONFIG": self.file("[box]\nnice = 1\n", "kern.toml")}
        self.assertEqual(self.login(registry, env).code, 0)
        env["KERN_CONFIG"] = self.file("[registry]\nattempts = 1\n", "kern.toml")
        self.assert_failed(self.kern("pull", f"{registry.name}/app", env=env), 1, "[registry] is not accepted", hint="your own kern.toml")


if __name__ == "__main__":
    kerntest.main()

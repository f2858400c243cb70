"""kern pull and `kern box --image` against registries of the tests: what is asked for and what not, registries that break off,
lie, stall and lead elsewhere, logins, mirrors, interruptions; and Debian's docker-registry with skopeo on the other side."""

import ctypes
import json
import os
import pty
import random
import shutil
import signal
import subprocess
import threading
import time
import unittest

import kerntest
import registry_kit
from kerntest import as_root_and_user
from registry_kit import Image, Registry, digest
from test_registry import SECRET, RegistryCase


def noise(size, seed=1):
    return random.Random(seed).randbytes(size)


def busybox():
    path = shutil.which("busybox", path=kerntest.BOX_PATH)
    if path is None:
        raise unittest.SkipTest("no busybox on this machine (Debian: busybox-static)")
    with open(path, "rb") as file:
        return file.read()


def small(seed=1, **keywords):
    """Two layers of 300 kB and a few bytes."""
    return Image([{"data": noise(300_000, seed)}, {"etc/": b"", "etc/word": b"hello\n"}], **keywords)


class PullCase(RegistryCase):
    def pull(self, reference, env, *options, **keywords):
        return self.kern("pull", reference, *options, env=env, **keywords)

    def assert_pulled(self, result, reference=None):
        self.assertEqual(result.code, 0, result)
        self.assertIn("pulled '" + (reference or ""), result.out)
        return result

    def assert_refused(self, result, *parts, hint=None):
        self.assertEqual(result.code, 1, result)
        lines = [line for line in result.err.splitlines() if not line.startswith(kerntest.BENIGN)]
        for part in parts:
            self.assertIn(part, lines[0])
        if hint is not None:
            self.assertIn(hint, lines[1])
        self.assertLessEqual(len(lines), 2, result)

    def fresh(self, *plain, **keywords):
        """Settings with an empty store."""
        return {**self.settings(*plain, **keywords), "XDG_DATA_HOME": self.folder(0o700)}

    def images(self, env):
        return json.loads(self.kern("images", "--json", env=env).out)

    def broken(self, fault, image=None, **keywords):
        """One pull from a registry with this fault: (result, registry, environment, reference)."""
        registry = self.serve(fault=fault, **keywords)
        reference = registry.add(image or small())
        env = self.fresh(registry)
        return self.pull(reference, env), registry, env, reference


def sanitized():
    return os.environ.get("KERN_VARIANT") == "asan"


def is_blob(path, image=None, layer=0):
    return "/blobs/" in path and (image is None or path.endswith(digest(image.layers[layer])))


@as_root_and_user
class Pull(PullCase):
    def test_each_packing_and_what_is_told(self):
        for packing in ("gzip", "zstd", "plain"):
            if packing == "zstd" and shutil.which("zstd") is None:
                continue
            with self.subTest(packing):
                registry = self.serve()
                image = small(packing=packing)
                reference = registry.add(image)
                env = self.fresh(registry)
                result = self.assert_pulled(self.pull(reference, env), reference)
                self.assertIn(image.digest, result.out)
                self.assertEqual(result.out.count("layer "), 2)
                self.assertEqual([entry["image"] for entry in self.images(env)], [reference])

    def test_a_second_pull_moves_nothing_and_a_second_image_what_is_new(self):
        registry = self.serve()
        layers = [{f"file{i}": noise(50_000, i)} for i in range(5)]
        env = self.settings(registry)
        self.assert_pulled(self.pull(registry.add(Image(layers)), env))
        registry.requests.clear()
        result = self.assert_pulled(self.pull(f"{registry.name}/app", env))
        self.assertIn("here already", result.out)
        self.assertEqual(registry.count("/blobs/"), 1)  # the configuration
        registry.requests.clear()
        other = Image([*layers[:4], {"new": noise(50_000, 9)}])
        self.assert_pulled(self.pull(registry.add(other, "other"), env))
        self.assertEqual(sorted(path.rsplit("/", 1)[1] for _, path, _ in registry.requests if "/blobs/" in path),
                         sorted([digest(other.config), digest(other.layers[4])]))

    def test_platforms(self):
        registry = self.serve()
        native = "linux/" + registry_kit.native()
        ours, theirs = small(), small(2, architecture="s390x")
        reference = registry.add_index({native: ours, "linux/s390x": theirs})
        env = self.settings(registry)
        listed = digest(registry.manifests["app", "latest"][0])
        result = self.assert_pulled(self.pull(reference, env))
        self.assertIn(listed, result.out)  # the tag means the index
        self.assertTrue(registry.count(ours.digest) and not registry.count(theirs.digest))
        self.assert_pulled(self.pull(reference, env, "--platform", "linux/s390x"))
        self.assertTrue(registry.count(theirs.digest))
        self.assert_refused(self.pull(reference, env, "--platform=linux/mips"), "linux/mips", native, "s390x",
                            hint="--platform ")
        self.assert_refused(self.pull(reference, env, "--platform", "a/b/c/d"), "not a platform")
        # Without a list, the configuration says what the image is for.
        single = registry.add(small(3, architecture="s390x"), "single")
        self.assert_refused(self.pull(single, env, "--platform", native), native, "there is: linux/s390x", hint="--platform linux/s390x")
        self.assertNotIn("kern: note", self.assert_pulled(self.pull(single, env, "--platform", "s390x")).err)
        # Whoever did not ask is told what a box would say; also of one by digest that is here already.
        note = rf"^kern: note: image \S+ is made for linux/s390x, this machine is {native}: \D+ binfmt_misc.*\n$"
        by_digest = single.rsplit(":", 1)[0] + "@" + small(3, architecture="s390x").digest
        for name in (single, by_digest, by_digest):
            self.assertRegex(self.assert_pulled(self.pull(name, env)).err, note)
        self.assertEqual(self.assert_pulled(self.pull(single, env, "-q")).err, "")
        windows = registry.add(small(4, system="windows"), "windows")
        self.assertIn("windows/" + native[6:] + f", this machine is {native}: no box can be made of it", self.pull(windows, env).err)

    def test_a_digest_is_asked_for_once(self):
        registry = self.serve()
        image = small()
        registry.add(image)
        env = self.settings(registry)
        reference = f"{registry.name}/app@{image.digest}"
        self.assert_pulled(self.pull(reference, env), reference)
        registry.requests.clear()
        result = self.assert_pulled(self.pull(reference, env), reference)
        self.assertIn(image.digest, result.out)
        self.assertEqual(registry.requests, [])

    def test_quiet(self):
        registry = self.serve()
        result = self.pull(registry.add(small()), self.settings(registry), "-q")
        self.assertEqual((result.code, result.err, result.out.count("\n")), (0, "", 1), result)

    def test_words(self):
        env = self.settings()
        self.assert_refused(self.kern("pull", env=env), "which image", hint="kern pull")
        self.assert_refused(self.pull("UPPER", env), "UPPER")
        self.assert_refused(self.pull("a@sha256:1", env), "a@sha256:1")
        self.assert_refused(self.kern("pull", "a", "b", env=env), "b")

    def test_a_box_pulls_what_is_missing(self):
        registry = self.serve()
        image = Image([{"bin/": b"", "bin/sh": busybox(), "word": b"in the box\n"}], config={"Cmd": ["/bin/sh", "-c", "cat /word"]})
        reference = registry.add(image)
        env = self.settings(registry)
        never = self.kern("box", "--image", reference, "--pull", "never", env=env)
        self.assertEqual((never.code, registry.requests), (1, []), never)
        result = self.kern("box", "--image", reference, env=env)
        self.assertEqual((result.code, result.out), (0, "in the box\n"), result)
        self.assertEqual([line for line in result.err.splitlines() if not line.startswith(kerntest.BENIGN)], [], result)
        self.assertEqual(result.report["image"], {"ref": reference, "digest": image.digest})
        registry.requests.clear()
        self.assertEqual(self.kern("box", "--image", reference, env=env).code, 0)
        self.assertEqual(registry.requests, [])
        self.assertEqual(self.kern("box", "--image", reference, "--pull", "always", env=env).code, 0)
        self.assertEqual(registry.count("/manifests/"), 1)
        registry.close()
        gone = self.kern("box", "--image", f"{registry.name}/else", env=env)
        self.assertEqual(gone.code, 1, gone)
        self.assertIn("kern load -i", gone.err)

    def test_bars_on_a_terminal(self):
        def slow(request, path):
            if is_blob(path):
                time.sleep(0.3)
        registry = self.serve(fault=slow)
        reference = registry.add(small())
        env = {**self.settings(registry), "TERM": "xterm"}
        ours, theirs = pty.openpty()
        running = self.start("pull", reference, env=env, stderr=theirs)
        os.close(theirs)
        shown = b""
        try:
            while part := os.read(ours, 4096):
                shown += part
        except OSError:
            pass  # the other end is closed
        os.close(ours)
        self.assertEqual(running.wait().code, 0)
        self.assertIn(digest(small().layers[0])[7:19].encode(), shown)
        self.assertIn(b"\033[J", shown)

    def test_a_proxy(self):
        proxy = self.serve()
        image = small()
        proxy.add(image)

        def forward(request, path):
            if not path.startswith("http://reg.example:5000/"):
                request.send(400)
                return True
            request.path = path.removeprefix("http://reg.example:5000")
            proxy._serve(request, request.path)
            return True
        proxy.fault = forward
        env = self.own_config('[registry]\nplain-http = ["reg.example:5000"]\n')
        env = {**env, "HOME": self.home, "XDG_DATA_HOME": self.home, "HTTP_PROXY": proxy.url}
        self.assert_pulled(self.pull("reg.example:5000/app", env))


class Access(PullCase, unittest.TestCase):
    def test_with_a_login_and_without(self):
        for auth in ("basic", "token"):
            with self.subTest(auth):
                registry = self.serve(auth=auth, users={"ann": SECRET})
                reference = registry.add(small())
                env = self.settings(registry)
                self.assert_refused(self.pull(reference, env), registry.name, "login", hint=f"kern login {registry.name}")
                self.assertEqual(self.login(registry, env).code, 0)
                self.assert_pulled(self.pull(reference, env))
                self.assertEqual(self.kern("logout", registry.name, env=env).code, 0)
                self.assert_refused(self.pull(reference, env), "login")

    def test_an_anonymous_token(self):
        registry = self.serve(auth="token")
        self.assert_pulled(self.pull(registry.add(small()), self.settings(registry)))
        self.assertTrue(any("scope=repository%3aapp%3apull" in path.lower() for _, path, _ in registry.requests))

    def test_a_token_that_runs_out(self):
        image = small()

        def forget(request, path):
            if is_blob(path, image) and not getattr(registry, "forgot", False):
                registry.forgot = True
                registry.tokens.clear()
        registry = self.serve(auth="token", users={"ann": SECRET}, fault=forget)
        env = self.settings(registry)
        self.assertEqual(self.login(registry, env).code, 0)
        self.assert_pulled(self.pull(registry.add(image), env))
        self.assertTrue(registry.forgot)

    def test_an_identity_token(self):
        registry = self.serve(auth="token", users={"": "refresh-me"})
        self.write_config({"auths": {registry.name: {"identitytoken": "refresh-me"}}})
        self.assert_pulled(self.pull(registry.add(small()), self.settings(registry)))
        self.assertTrue(any(command == "POST" for command, _, _ in registry.requests))

    def test_mirrors(self):
        image = small()
        mirror, registry = self.serve(), self.serve()
        mirror.add(image, "cache/app")
        reference = registry.add(image)
        extra = f'mirrors = ["{registry.name}={mirror.name}/cache"]'
        env = self.settings(mirror, registry, extra=extra)
        self.assert_pulled(self.pull(reference, env), reference)
        self.assertEqual(registry.requests, [])
        # A layer that the mirror lost, a manifest that it never had, and a mirror that is gone.
        del mirror.blobs[digest(image.layers[0])]
        env["XDG_DATA_HOME"] = self.folder()
        result = self.assert_pulled(self.pull(reference, env))
        self.assertIn(f'kern: note: registry "{mirror.name}" does not have layer', result.err)
        self.assertEqual([path.rsplit("/", 1)[1] for _, path, _ in registry.requests], [digest(image.layers[0])])
        self.assert_pulled(self.pull(registry.add(small(2), "other"), env))
        mirror.close()
        self.assert_pulled(self.pull(registry.add(small(3), "third"), env))

    def test_a_mirror_of_the_default_registry(self):
        mirror = self.serve()
        mirror.add(small(), "library/app")
        env = self.settings(mirror, extra=f'mirrors = ["{mirror.name}"]')
        self.assert_pulled(self.pull("app", env), "app:latest")

    def test_a_mirror_gets_its_own_credentials_only(self):
        image = small()
        mirror, registry = self.serve(), self.serve(auth="basic", users={"ann": SECRET})
        env = self.settings(mirror, registry, extra=f'mirrors = ["{registry.name}={mirror.name}"]')
        self.assertEqual(self.login(registry, env).code, 0)
        self.assert_pulled(self.pull(registry.add(image), env))
        self.assertTrue(mirror.requests)
        self.assertEqual({headers.get("Authorization") for _, _, headers in mirror.requests}, {None})

    def test_the_worker_has_nothing(self):
        seen = []

        def look(request, path):
            for pid in kerntest.our_processes():
                with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                    seen.append({key: value.split() for key, value in (line.split(":", 1) for line in file)})
        self.assert_pulled(self.broken(look, small())[0])
        workers = [status for status in seen if status["Seccomp"] == ["2"] and status["NoNewPrivs"] == ["1"]]
        self.assertTrue(workers)
        for status in workers:
            self.assertEqual([status[name] for name in ("CapEff", "CapPrm", "CapBnd") if self.me.is_root], [["0" * 16]] * 3 * self.me.is_root)
            self.assertEqual(status["CapEff"], ["0" * 16])
            self.assertEqual(status["Uid"][0], "65534" if self.me.is_root else str(self.me.uid))


class Interrupted(PullCase, unittest.TestCase):
    def held(self, image):
        """A registry that sends the first 200 kB of the first layer and then waits."""
        reached = threading.Event()

        def hold(request, path):
            if not is_blob(path, image) or reached.is_set():
                return False
            request.send_response(200)
            request.send_header("Content-Length", str(len(image.layers[0])))
            request.end_headers()
            request.wfile.write(image.layers[0][:200_000])
            request.wfile.flush()
            reached.set()
            go.wait(kerntest.PATIENCE)
            request.hang_up()
            return True
        go = threading.Event()
        registry = self.serve(fault=hold)
        self.go_on = go.set
        self.addCleanup(go.set)  # before the registry is closed
        reference = registry.add(image)
        env = self.fresh(registry)
        hexes = digest(image.layers[0]).removeprefix("sha256:")
        part = os.path.join(env["XDG_DATA_HOME"], "kern/images/ingest", hexes)

        def arrived():
            return reached.wait(kerntest.PATIENCE) and kerntest.eventually(
                lambda: os.path.exists(part) and os.path.getsize(part) == 200_000)
        return registry, reference, env, arrived

    def assert_goes_on(self, registry, reference, env):
        registry.requests.clear()
        self.assert_pulled(self.pull(reference, env))
        ranges = [headers.get("Range") for _, path, headers in registry.requests if is_blob(path)]
        self.assertIn("bytes=200000-", ranges)

    def test_ctrl_c(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                registry, reference, env, arrived = self.held(small())
                running = self.start("pull", reference, env=env)
                self.assertTrue(arrived())
                running.signal(number)
                result = running.wait()
                self.assertEqual(result.code, 128 + number, result)
                self.assertIn("what has come is kept", result.err)
                self.assertEqual(self.images(env), [])
                self.assert_goes_on(registry, reference, env)

    def test_a_signal_that_is_ignored_stays_so(self):
        for number in (signal.SIGHUP, signal.SIGINT):
            with self.subTest(number):
                _, reference, env, arrived = self.held(small())
                running = self.start("pull", reference, env=env,
                                     preexec_fn=lambda number=number: signal.signal(number, signal.SIG_IGN))
                self.assertTrue(arrived())
                running.signal(number)
                self.go_on()
                self.assert_pulled(running.wait())

    def test_kill(self):
        registry, reference, env, arrived = self.held(small())
        running = self.start("pull", reference, env=env)
        self.assertTrue(arrived())
        running.signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
        self.assert_goes_on(registry, reference, env)

    def test_kill_at_any_moment(self):
        image = Image([{f"file{i}": noise(200_000, i)} for i in range(6)])
        registry = self.serve()
        reference = registry.add(image)
        moments = random.Random(7)
        for _ in range(int(os.environ.get("KERN_KILLS", "2" if sanitized() else "8"))):
            env = self.fresh(registry)
            running = self.start("pull", reference, env=env)
            time.sleep(moments.uniform(0, 0.12))
            running.signal(signal.SIGKILL)
            running.wait()
            self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
            self.assertIn(len(self.images(env)), (0, 1))
            self.assert_pulled(self.pull(reference, env))
            self.assertEqual([entry["image"] for entry in self.images(env)], [reference])

    def test_what_was_damaged_comes_again(self):
        image = small()
        registry, reference, env, arrived = self.held(image)
        running = self.start("pull", reference, env=env)
        self.assertTrue(arrived())
        running.signal(signal.SIGKILL)
        running.wait()
        self.assertTrue(kerntest.eventually(lambda: not kerntest.our_processes()))
        hexes = digest(image.layers[0]).removeprefix("sha256:")
        path = os.path.join(env["XDG_DATA_HOME"], "kern/images/ingest", hexes)
        with open(path, "r+b") as file:
            file.write(b"damage")
        self.assert_pulled(self.pull(reference, env))

    def test_two_at_a_time(self):
        image = Image([{f"file{i}": noise(300_000, i)} for i in range(4)])
        registry = self.serve(fault=lambda request, path: is_blob(path) and time.sleep(0.2))
        reference = registry.add(image)
        env = self.settings(registry)
        both = [self.start("pull", reference, env=env) for _ in range(2)]
        for running in both:
            self.assert_pulled(running.wait())
        for layer in image.layers:
            self.assertEqual(registry.count(digest(layer)), 1)

    def test_memory(self):
        if sanitized():
            self.skipTest("sanitizers take memory of their own")
        image = Image([{"large": bytes(1 << 20) * 60 + noise(60_000_000)}], packing="plain")
        registry = self.serve()
        reference = registry.add(image)
        running = self.start("pull", reference, env=self.settings(registry))
        peak = 0
        while running.process.poll() is None:
            total = 0
            for pid in kerntest.our_processes():
                try:
                    with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as file:
                        total += sum(int(line.split()[1]) for line in file if line.startswith("Pss:"))
                except OSError:
                    continue  # it has ended
            peak = max(peak, total)
            time.sleep(0.02)
        self.assert_pulled(running.wait())
        self.assertGreater(peak, 1000)
        self.assertLess(peak, 64 * 1024)


class RealRegistry(PullCase, unittest.TestCase):
    """Debian's docker-registry, with TLS and a file of passwords, filled by skopeo."""

    get_identity = staticmethod(kerntest.user_identity)

    def setUp(self):
        super().setUp()
        for program in ("docker-registry", "skopeo", "openssl"):
            if shutil.which(program) is None:
                kerntest.skip(f"no {program} on this machine")

    @staticmethod
    def bcrypt(secret):
        """By the library that Debian's logins use: Python has no bcrypt of its own."""
        crypt = ctypes.CDLL("libcrypt.so.1").crypt
        crypt.restype = ctypes.c_char_p
        return crypt(secret.encode(), b"$2b$04$" + b"kern" * 5 + b"te").decode()

    def serve_real(self, secure):
        folder = self.folder()
        port = registry_kit.free_port()
        name = f"127.0.0.1:{port}"
        lines = ["version: 0.1", "log: {level: error, accesslog: {disabled: true}}",
                 f"storage: {{filesystem: {{rootdirectory: {folder}/data}}}}", "http:", f"  addr: {name}"]
        if secure:
            _, certificate, key = registry_kit.certificates(kerntest.scratch())
            lines += ["  tls:", f"    certificate: {certificate}", f"    key: {key}",
                      f"auth: {{htpasswd: {{realm: tests, path: {folder}/users}}}}"]
            kerntest.write(folder + "/users", f"ann:{self.bcrypt(SECRET)}\n")
        kerntest.write(folder + "/config.yml", "\n".join(lines) + "\n")
        server = subprocess.Popen(["docker-registry", "serve", folder + "/config.yml"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.assertTrue(kerntest.eventually(lambda: registry_kit.answers(port)))
        return name

    def push(self, image, name, *options):
        folder = self.folder()
        registry_kit.write_layout(image, folder)
        subprocess.run(["skopeo", "copy", "-q", *options, f"oci:{folder}:latest", f"docker://{name}/app:latest"], check=True)

    def test_plain(self):
        name = self.serve_real(secure=False)
        image = small()
        self.push(image, name, "--dest-tls-verify=false")
        env = {**self.own_config(f'[registry]\nplain-http = ["{name}"]\n'), "HOME": self.home, "XDG_DATA_HOME": self.home}
        result = self.assert_pulled(self.pull(f"{name}/app", env))
        self.assertIn(image.digest, result.out)

    def test_tls_and_passwords(self):
        name = self.serve_real(secure=True)
        authority = registry_kit.certificates(kerntest.scratch())[0]
        self.push(small(), name, "--dest-tls-verify=false", f"--dest-creds=ann:{SECRET}")
        env = {**self.own_config(f'[registry]\nca-file = "{authority}"\n'), "HOME": self.home, "XDG_DATA_HOME": self.home}
        self.assert_refused(self.pull(f"{name}/app", env), "login", hint=f"kern login {name}")
        wrong = self.kern("login", "-u", "ann", "--password-stdin", name, text="no\n", env=env)
        self.assert_refused(wrong, name)
        done = self.kern("login", "-u", "ann", "--password-stdin", name, text=SECRET + "\n", env=env)
        self.assertEqual(done.code, 0, done)
        self.assert_pulled(self.pull(f"{name}/app", env))


if __name__ == "__main__":
    kerntest.main()

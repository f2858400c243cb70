"""Pulls from a registry that is slow, broken or hostile: each fault is told, and nothing half-made remains."""

import json
import time
import unittest

import kerntest
import registry_kit
from registry_kit import Image, Registry, digest
from test_pull import PullCase, is_blob, noise, small
from test_registry import SECRET


class Faults(PullCase, unittest.TestCase):
    """A registry that cannot be relied on."""

    def test_broken_connections_are_resumed(self):
        image = small()
        asked = []

        def cut(request, path):
            if not is_blob(path, image):
                return False
            asked.append(request.headers.get("Range"))
            Registry.send_blob(request, image.layers[0], cut=70_000)
            return True
        result, *_ = self.broken(cut, image)
        self.assert_pulled(result)
        self.assertEqual(asked[0], None)
        self.assertGreater(len(asked), 4)
        starts = [int(value[6:-1]) for value in asked[1:]]
        self.assertEqual(starts, sorted(set(starts)))  # always further

    def test_a_registry_that_does_no_ranges(self):
        image = small()
        tries = []

        def cut(request, path):
            if not is_blob(path, image):
                return False
            tries.append(path)
            del request.headers["Range"]
            Registry.send_blob(request, image.layers[0], cut=100_000 * len(tries))
            return True
        result, *_ = self.broken(cut, image)
        self.assert_pulled(result)
        self.assertGreater(len(tries), 2)

    def test_a_range_that_was_not_asked_for(self):
        image = small()

        def shift(request, path):
            if not is_blob(path, image):
                return False
            if request.headers.get("Range") is None:
                Registry.send_blob(request, image.layers[0], cut=100_000)
            else:
                request.send(206, image.layers[0][50:], Content_Range=f"bytes 50-{len(image.layers[0]) - 1}/*")
            return True
        result, *_ = self.broken(shift, image)
        self.assert_refused(result, "other bytes")

    def test_wrong_content(self):
        image = small()

        def lie(what):
            def fault(request, path):
                if not path.endswith(what):
                    return False
                right = image.blobs.get(what, image.manifest)
                request.send(200, right[:-1] + bytes([right[-1] ^ 1]), registry_kit.MANIFEST)
                return True
            return fault
        result, registry, env, _ = self.broken(lie(digest(image.layers[0])), image)
        self.assert_refused(result, digest(image.layers[0])[:19])
        self.assertEqual(self.images(env), [])
        result, *_ = self.broken(lie(digest(image.config)), image)
        self.assert_refused(result, "wrong content", digest(image.config)[:19])
        registry = self.serve(fault=lie(image.digest))
        registry.add(image)
        result = self.pull(f"{registry.name}/app@{image.digest}", self.settings(registry))
        self.assert_refused(result, "wrong content")

    def test_refusals_that_pass(self):
        for status, headers in ((429, {"Retry_After": "1"}), (503, {}), (500, {}), (502, {})):
            with self.subTest(status):
                seen = []

                def busy(request, path):
                    seen.append(path)
                    if len(seen) == 1:
                        request.send(status, **headers)
                        return True
                    return False
                result = self.assert_pulled(self.broken(busy)[0])
                self.assertEqual("answers with status 429; asking again in 1 s" in result.err, status == 429)

    def test_refusals_that_stay(self):
        result, registry, *_ = self.broken(lambda request, path: request.send(503) or True)
        self.assert_refused(result, "503", registry.name)
        self.assertEqual(len(registry.requests), 3)
        result, registry, *_ = self.broken(lambda request, path: request.send(429, Retry_After="3600") or True)
        self.assert_refused(result, "3600 seconds", hint="kern login")
        self.assertEqual(len(registry.requests), 1)
        result, registry, *_ = self.broken(lambda request, path: request.send(403, b'{"errors": [{"message": "go away\\u001b[2J"}]}') or True)
        self.assert_refused(result, "go away", hint="kern login")
        self.assertNotIn("\033", result.err)

    def test_a_registry_that_cannot_be_reached(self):
        for host, part in (("no-such-host.invalid", "resolve host"), ("127.0.0.1:1", "connect")):
            result = self.kern("pull", f"{host}/x:1", env={"XDG_DATA_HOME": self.folder()})
            self.assert_failed(result, 1, f'cannot reach registry "{host}"', part, hint="kern load -i FILE")

    def test_tls_that_cannot_be_is_told_at_once(self):
        plain, secure = self.serve(), self.serve(tls=registry_kit.certificates(kerntest.scratch()))
        env = self.fresh()
        for registry, part, hint in ((plain, "cannot speak https", f'plain_http = ["{plain.name}"]'), (secure, "cannot trust", "ca_file")):
            result = self.pull(f"{registry.name}/app", env)
            self.assert_refused(result, part, hint=hint)
            self.assertNotIn("again", result.err)

    def test_a_slow_drip(self):
        image = small()
        tries = []

        def drip(request, path):
            if not is_blob(path, image):
                return False
            tries.append(path)
            if len(tries) > 1:
                return False
            request.send_response(200)
            request.send_header("Content-Length", str(len(image.layers[0])))
            request.end_headers()
            for i in range(100):
                request.wfile.write(image.layers[0][i:i + 1])
                request.wfile.flush()
                time.sleep(0.1)
            return True
        result, *_ = self.broken(drip, image)
        self.assert_pulled(result)
        self.assertEqual(len(tries), 2)

    def test_redirects(self):
        image = small()
        cdn = self.serve()
        cdn.add(image)
        secure = self.serve(tls=registry_kit.certificates(kerntest.scratch()))

        def to(location):
            def fault(request, path):
                if not is_blob(path):
                    return False
                request.redirect(location + path)
                return True
            return fault
        registry = self.serve(auth="basic", users={"ann": SECRET}, fault=to(cdn.url))
        reference = registry.add(image)
        env = self.settings(registry, cdn)
        self.assertEqual(self.login(registry, env).code, 0)
        self.assert_pulled(self.pull(reference, env))
        self.assertTrue(cdn.requests)
        self.assertEqual({headers.get("Authorization") for _, _, headers in cdn.requests}, {None})
        for location, parts in ((cdn.url, ("not encrypted",)), ("file://", ("file:", "not https")),
                                ("ftp://127.0.0.1", ("ftp:",)), ("https://ann:pw@127.0.0.1", ("user",))):
            with self.subTest(location):
                cdn.requests.clear()
                self.assert_refused(self.broken(to(location), image)[0], "redirect", *parts)
                self.assertEqual(cdn.requests, [])
        self.assert_refused(self.broken(to(secure.url), image)[0], "cannot trust")
        self.assert_refused(self.broken(lambda request, path: request.redirect(path) or True, image)[0], "circles")

    @staticmethod
    def flood(request, media="application/json"):
        request.send_response(200)
        request.send_header("Content-Type", media)
        request.send_header("Transfer-Encoding", "chunked")
        request.end_headers()
        while True:
            request.wfile.write(b"10000\r\n" + b" " * 0x10000 + b"\r\n")

    def test_bodies_without_end(self):
        image = small()
        result, *_ = self.broken(lambda request, path: "/manifests/" in path and self.flood(request), image)
        self.assert_refused(result, "longer than allowed")
        result, *_ = self.broken(lambda request, path: is_blob(path, image) and self.flood(request), image)
        self.assert_refused(result, "sends more than")
        result, *_ = self.broken(lambda request, path: path.endswith(digest(image.config)) and self.flood(request), image)
        self.assert_refused(result, "longer than allowed")

    def test_a_manifest_of_100_megabytes(self):
        sent = []

        def huge(request, path):
            request.send_response(200)
            request.send_header("Content-Type", registry_kit.MANIFEST)
            request.send_header("Content-Length", str(100 << 20))
            request.end_headers()
            for _ in range(100):
                request.wfile.write(b" " * (1 << 20))
                sent.append(1)
            return True
        result, *_ = self.broken(huge)
        self.assert_refused(result, "longer than allowed")
        self.assertLess(len(sent), 20)

    def test_headers_without_end(self):
        def headers(request, path):
            request.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while True:
                request.wfile.write(b"X-More: " + b"x" * 1000 + b"\r\n")
        self.assert_refused(self.broken(headers)[0], "cannot get")

    def test_chunked_lies(self):
        image = small()

        def lie(ending):
            tries = []

            def fault(request, path):
                if not is_blob(path, image):
                    return False
                tries.append(path)
                if len(tries) > 2:
                    return False
                request.send_response(200)
                request.send_header("Transfer-Encoding", "chunked")
                request.end_headers()
                request.wfile.write(b"10000\r\n" + image.layers[0][:0x10000] + b"\r\n" + ending)
                request.hang_up()
                return True
            return fault
        for ending in (b"0\r\n\r\n", b"ffffffff\r\nx", b"nonsense\r\n", b""):
            with self.subTest(ending):
                result = self.broken(lie(ending), image)[0]
                self.assert_pulled(result)

    def test_documents_that_are_none(self):
        helm = json.loads(small().manifest)
        helm["config"]["mediaType"] = "application/vnd.cncf.helm.config.v1+json"
        both = json.loads(small().manifest)
        both["manifests"] = []
        for text, media, part in ((b"<html>", "text/html", "not JSON"), (b"{}", registry_kit.MANIFEST, "neither layers"),
                                  (json.dumps(helm).encode(), registry_kit.MANIFEST, "not an image"),
                                  (json.dumps(both).encode(), registry_kit.MANIFEST, "ambiguous"),
                                  (b'{"schemaVersion": 1, "fsLayers": []}', "", "schema 1"), (b"", "", "not JSON")):
            with self.subTest(part):
                registry = self.serve()
                registry.add_manifest(text, media, "app", "latest")
                self.assert_refused(self.pull(f"{registry.name}/app", self.settings(registry)), part)

    def test_caps_of_layers(self):
        layers = [{f"f{i}": b"x" * 1000 for i in range(300)}]
        for cap, part in (('max-size = "100k"', "larger than 102400 bytes"), ("max-entries = 200", "more than 200 entries")):
            with self.subTest(cap):
                registry = self.serve()
                env = self.fresh(registry, extra=cap)
                self.assert_refused(self.pull(registry.add(Image(layers)), env), part, hint=cap.split()[0] + " in [registry]")
                self.assertEqual(self.images(env), [])
        several = Image([{f"f{i}": b"x" * 40_000} for i in range(4)])
        for cap, part in (('max-image-size = "100k"', "together are larger than 102400 bytes"),
                          ("max-image-entries = 3", "together have more than 3 entries")):
            with self.subTest(cap):
                registry = self.serve()
                env = self.fresh(registry, extra=cap)
                self.assert_refused(self.pull(registry.add(several), env), part, hint=cap.split()[0] + " in [registry]")
                self.assertEqual(self.images(env), [])
        bomb = Image([{"zeros": bytes(90 << 20)}])
        registry = self.serve()
        reference = registry.add(bomb)
        self.assert_refused(self.pull(reference, self.fresh(registry, extra="max-ratio = 100")), "more than 100 times",
                            hint="max-ratio")

    def test_a_layer_that_is_no_archive(self):
        registry = self.serve()
        image = Image([noise(100_000)], packing="plain")
        env = self.settings(registry)
        result = self.pull(registry.add(image), env)
        self.assertEqual(result.code, 1, result)
        self.assertEqual(self.images(env), [])


if __name__ == "__main__":
    kerntest.main()

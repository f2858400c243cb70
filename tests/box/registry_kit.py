"""A registry of the tests, in the test's own process: images made of a few files, served over HTTP or TLS, with Basic
authentication or a token server, and with whatever fault a test asks for. Imports only the standard library."""

import base64
import gzip
import hashlib
import io
import json
import os
import re
import socket
import ssl
import subprocess
import tarfile
import threading
import time
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar"


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def layer_tar(files):
    """A plain tar of {name: content}; a name that ends in "/" is a directory."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content in files.items():
            info = tarfile.TarInfo(name.rstrip("/"))
            if name.endswith("/"):
                info.type, info.mode = tarfile.DIRTYPE, 0o755
                tar.addfile(info)
                continue
            info.size, info.mode = len(content), 0o755
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


class Image:
    """One image: its blobs by digest, its manifest."""

    def __init__(self, layers, architecture=None, packing="gzip", config=None, system="linux"):
        plain = [data if isinstance(data, bytes) else layer_tar(data) for data in layers]
        self.layers = [self._pack(data, packing) for data in plain]
        settings = {"architecture": architecture or native(), "os": system, "config": config or {"Cmd": ["/bin/sh"]},
                    "rootfs": {"type": "layers", "diff_ids": [digest(data) for data in plain]}}
        self.config = json.dumps(settings).encode()
        media = LAYER + ("" if packing == "plain" else "+" + packing)
        self.manifest = json.dumps({
            "schemaVersion": 2, "mediaType": MANIFEST,
            "config": {"mediaType": CONFIG, "digest": digest(self.config), "size": len(self.config)},
            "layers": [{"mediaType": media, "digest": digest(data), "size": len(data)} for data in self.layers],
        }).encode()
        self.blobs = {digest(data): data for data in [self.config, *self.layers]}
        self.digest = digest(self.manifest)

    @staticmethod
    def _pack(data, packing):
        if packing == "gzip":
            return gzip.compress(data, 1, mtime=0)
        if packing == "zstd":
            return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout
        return data


def native():
    return {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]


def index(images):
    """{platform: image} as an index, {"linux/arm64": Image}."""
    entries = []
    for platform, image in images.items():
        system, architecture, *variant = platform.split("/")
        names = {"os": system, "architecture": architecture}
        if variant:
            names["variant"] = variant[0]
        entries.append({"mediaType": MANIFEST, "digest": image.digest, "size": len(image.manifest), "platform": names})
    return json.dumps({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).encode()


def certificates(folder):
    """An authority and a certificate of it for 127.0.0.1: paths of (authority, certificate, key)."""
    paths = [os.path.join(folder, name) for name in ("ca.pem", "cert.pem", "key.pem", "ca.key", "request", "names")]
    authority, certificate, key, authority_key, request, names = paths
    if os.path.exists(certificate):
        return authority, certificate, key

    def openssl(*words):
        subprocess.run(["openssl", *words], check=True, capture_output=True)
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", authority_key, "-out", authority, "-days", "2", "-subj", "/CN=kern tests")
    openssl("req", *curve, "-keyout", key, "-out", request, "-subj", "/CN=localhost")
    with open(names, "w", encoding="utf-8") as file:
        file.write("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    openssl("x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key, "-CAcreateserial", "-days", "2",
            "-extfile", names, "-out", certificate)
    return authority, certificate, key


class Request(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def handle(self):
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError, TimeoutError):
            pass  # the client left

    def do_GET(self):
        self.server.owner.answer(self)

    def do_POST(self):
        self.server.owner.answer(self)

    # What faults are made of.

    def send(self, status, body=b"", media="application/json", **headers):
        self.send_response(status)
        self.send_header("Content-Type", media)
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self):
        self.close_connection = True
        self.wfile.flush()
        self.connection.close()

    def redirect(self, location, status=307):
        self.send(status, Location=location)


class Registry:
    """Serves until closed. `fault(request, path)` may answer itself and return True. `requests` is what was asked:
    (method, path, headers)."""

    def __init__(self, tls=None, auth=None, users=None, realm=None, fault=None):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Request)
        self.server.daemon_threads = True
        self.server.owner = self
        self.tls = tls
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(tls[1], tls[2])
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.name = f"127.0.0.1:{self.server.server_address[1]}"
        self.url = f"{'https' if tls else 'http'}://{self.name}"
        self.auth, self.users, self.fault = auth, users or {}, fault
        self.realm = realm or f"{self.url}/token"
        self.tokens, self.requests = set(), []
        self.manifests, self.blobs = {}, {}
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def add(self, image, name="app", tag="latest"):
        """Makes `name:tag` this image; the reference for kern."""
        self.blobs.update(image.blobs)
        self.add_manifest(image.manifest, MANIFEST, name, tag)
        return f"{self.name}/{name}:{tag}"

    def add_index(self, images, name="app", tag="latest"):
        for image in images.values():
            self.add(image, name, image.digest)
        self.add_manifest(index(images), INDEX, name, tag)
        return f"{self.name}/{name}:{tag}"

    def add_manifest(self, text, media, name, tag):
        self.manifests[name, tag] = self.manifests[name, digest(text)] = (text, media)

    def count(self, part):
        return sum(part in path for _, path, _ in self.requests)

    # Answering, in a thread for each connection.

    def answer(self, request):
        length = int(request.headers.get("Content-Length") or 0)
        request.body = request.rfile.read(length) if length else b""
        path = request.path
        self.requests.append((request.command, path, dict(request.headers)))
        if self.fault is not None and self.fault(request, path):
            return
        if path.startswith("/token"):
            self._token(request, path)
        elif self._allowed(request):
            self._serve(request, path)

    def _credentials(self, request):
        kind, _, text = (request.headers.get("Authorization") or "").partition(" ")
        if kind != "Basic":
            return None
        return tuple(base64.b64decode(text).decode().split(":", 1))

    def _token(self, request, path):
        if request.command == "POST":
            form = urllib.parse.parse_qs(request.body.decode())
            known = form.get("refresh_token", [""])[0] in self.users.values()
        else:
            given = self._credentials(request)
            known = given is not None and self.users.get(given[0]) == given[1]
        if self.users and not known:
            request.send(401)
            return
        token = f"t{len(self.tokens)}-{time.monotonic_ns()}"
        self.tokens.add(token)
        request.send(200, json.dumps({"token": token, "expires_in": 60}).encode())

    def _allowed(self, request):
        header = request.headers.get("Authorization") or ""
        if self.auth == "basic":
            given = self._credentials(request)
            if given is not None and self.users.get(given[0]) == given[1]:
                return True
            request.send(401, WWW_Authenticate='Basic realm="tests"')
            return False
        if self.auth == "token" and header.removeprefix("Bearer ") not in self.tokens:
            name = re.match(r"/v2/(.+)/(manifests|blobs)/", request.path)
            scope = f',scope="repository:{name.group(1)}:pull"' if name else ""
            request.send(401, WWW_Authenticate=f'Bearer realm="{self.realm}",service="tests"{scope}')
            return False
        return True

    def _serve(self, request, path):
        found = re.fullmatch(r"/v2/(.+)/(manifests|blobs)/([^/]+)", path)
        if path == "/v2/":
            request.send(200, b"{}")
        elif found and found.group(2) == "manifests" and (found.group(1), found.group(3)) in self.manifests:
            text, media = self.manifests[found.group(1), found.group(3)]
            request.send(200, text, media, Docker_Content_Digest=digest(text))
        elif found and found.group(2) == "blobs" and found.group(3) in self.blobs:
            self.send_blob(request, self.blobs[found.group(3)])
        else:
            request.send(404, b'{"errors": [{"code": "UNKNOWN", "message": "not here"}]}')

    @staticmethod
    def send_blob(request, data, cut=None):
        """The blob from where the client wants it; `cut`: only so many bytes, then the connection breaks."""
        start = int((request.headers.get("Range") or "bytes=0-").removeprefix("bytes=").rstrip("-"))
        if start and start >= len(data):
            request.send(416)
            return
        rest = data[start:]
        request.send_response(206 if start else 200)
        request.send_header("Content-Length", str(len(rest)))
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(data) - 1}/{len(data)}")
        request.end_headers()
        request.wfile.write(rest if cut is None else rest[:cut])
        if cut is not None and cut < len(rest):
            request.hang_up()


# ---- Around real registries

def free_port():
    """A port of 127.0.0.1 that nobody has at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def write_layout(image, folder):
    """The image as an OCI layout whose one reference is "latest"."""
    os.makedirs(os.path.join(folder, "blobs/sha256"))
    for data in [image.manifest, *image.blobs.values()]:
        with open(os.path.join(folder, "blobs/sha256", digest(data).removeprefix("sha256:")), "wb") as file:
            file.write(data)
    entry = {"mediaType": MANIFEST, "digest": image.digest, "size": len(image.manifest),
             "annotations": {"org.opencontainers.image.ref.name": "latest"}}
    for name, content in (("oci-layout", {"imageLayoutVersion": "1.0.0"}), ("index.json", {"schemaVersion": 2, "manifests": [entry]})):
        with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
            json.dump(content, file)

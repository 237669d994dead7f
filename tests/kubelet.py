"""A kubelet's /pods, by HTTPS, for those who have its token: as a real one answers."""
import contextlib
import http.server
import json
import os
import ssl
import subprocess
import threading

TOKEN = "eyJhbGciOiJSUzI1NiJ9.test.token"


class Kubelet:
    def __init__(self, directory):
        self.pods, self.asked, self.refused = [], 0, 0
        self.answer = None  # bytes that are answered in place of the list
        self.token_file = os.path.join(directory, "token")
        self.ca_file = os.path.join(directory, "ca.crt")
        self.key = os.path.join(directory, "tls.key")
        with open(self.token_file, "w") as f:
            f.write(TOKEN + "\n")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
                        "/CN=system:node:node-1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                        self.key, "-out", self.ca_file], check=True, capture_output=True)
        for path in (self.token_file, self.ca_file):
            os.chmod(path, 0o644)  # the server half is an ordinary user

    def add(self, uid, name, ident, container="app", image="docker.io/shop/api:7", labels=None):
        self.pods.append({
            "metadata": {"name": name, "namespace": "shop", "uid": uid, "labels": labels or {},
                         "creationTimestamp": "2026-11-18T09:12:44Z",
                         "annotations": {"kubernetes.io/config.source": "api"}},
            "spec": {"nodeName": "node-1", "containers": [{"name": container, "image": image}]},
            "status": {"phase": "Running", "qosClass": "Burstable", "containerStatuses": [{
                "name": container, "image": image, "ready": True,
                "containerID": f"containerd://{ident}", "imageID": "docker.io/shop/api@sha256:fedc"}]}})

    def list(self):
        return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                           "items": self.pods or None}).encode()


@contextlib.contextmanager
def kubelet(directory):
    """A running one, and its URL."""
    k = Kubelet(directory)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            k.asked += 1
            allowed = self.headers.get("Authorization") == f"Bearer {TOKEN}"
            k.refused += not allowed
            found = self.path == "/pods"
            body = (k.answer or k.list()) if allowed and found else b"Unauthorized"
            self.send_response(401 if not allowed else 200 if found else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            with contextlib.suppress(OSError):
                self.wfile.write(body)

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(k.ca_file, k.key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield k, f"https://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

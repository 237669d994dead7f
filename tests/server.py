"""A server of our own for tests: `smolder serve` on a port that is free and a store that goes away."""
import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import urllib.parse

from tap import SMOLDER
from windows import Reply

LISTENING = r"listening on (https?)://(\[?[\w.:]+\]?):(\d+)"


class Server:
    def __init__(self, *args, store=None, program=SMOLDER, **popen):
        self.owned, self.program = store is None, program
        self.store = store or tempfile.mkdtemp(prefix="smolder-test-")
        self.args = args
        self.start(**popen)

    def start(self, **popen):
        self.process = subprocess.Popen(
            [self.program, "serve", "--store", self.store, "--listen", "127.0.0.1:0", *self.args],
            stderr=subprocess.PIPE, text=True, **popen)
        self.first = line = self.process.stderr.readline()
        m = re.search(LISTENING, line)
        while line and not m:  # it has warnings to say first
            line = self.process.stderr.readline()
            self.first += line
            m = re.search(LISTENING, line)
        assert m, f"the server said: {self.first}"
        self.host, self.port = m[2].strip("[]"), int(m[3])
        self.url = f"{m[1]}://{m[2]}:{m[3]}"

    def stop(self, how=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(how)
        code = self.process.wait(timeout=20)
        if not self.process.stderr.closed:
            self.words = self.process.stderr.read()
            self.process.stderr.close()
        return code

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.owned:
            shutil.rmtree(self.store, ignore_errors=True)

    def request(self, method, path, body=None, headers=None, timeout=30):
        c = http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        try:
            c.request(method, path, body, headers or {})
            r = c.getresponse()
            return r.status, r.read(), r.headers
        finally:
            c.close()

    def get(self, path, **params):
        query = "?" + urllib.parse.urlencode(params) if params else ""
        return self.request("GET", path + query)

    def json(self, path, status=200, **params):
        got, body, _ = self.get(path, **params)
        assert got == status, f"{path} {params}: {got}, {body[:500]}"
        return json.loads(body)

    def post(self, message):
        status, body, _ = self.request("POST", "/api/v1/windows", message)
        assert body[:3] == b"SMR", (status, body[:200])
        return Reply(body)


def check_metrics(text):
    """What promtool has to say of the text of /metrics: nothing, or the test fails."""
    p = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    assert p.returncode == 0 and not p.stdout and not p.stderr, p.stdout + p.stderr


def smolder(*args, **kw):
    env = dict(os.environ, **kw.pop("env", {}))
    return subprocess.run([SMOLDER, *args], capture_output=True, text=True, timeout=60, env=env, **kw)

"""For tests of what `smolder agent` sends on: its sender alone, fed with windows; and a far side that does
as it is told."""
import gzip
import http.server
import os
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

from always import until
from tap import SMOLDER
from windows import KNOWN, RESET, STORED, Collector, Reply


class Sender:
    """`smolder agent --windows-fd`: what a collector sends comes from here. Survives its process."""

    def __init__(self, to, *args, spool=None):
        self.dir = tempfile.TemporaryDirectory(prefix="smolder-send-")
        self.spool = spool or os.path.join(self.dir.name, "spool")
        self.to, self.args = to, args
        self.ours, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(20)
        self.collector = Collector()
        self.fed = 0
        self.start()

    def start(self):
        self.words = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [SMOLDER, "agent", "--to", self.to, "--windows-fd", str(self.theirs.fileno()),
             "--spool", self.spool, *self.args],
            stderr=self.words, pass_fds=[self.theirs.fileno()])

    def said(self):
        self.words.seek(0)
        return self.words.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self.ours.close()
        self.theirs.close()
        self.dir.cleanup()

    def offer(self, start_ms, rows, **more):
        """A message until it is answered, as a collector does; the answer's status."""
        c = self.collector
        message = c.message(start_ms, rows, **more)
        while True:
            self.ours.send(message)
            try:
                reply = self.answer(c.sequence)
            except TimeoutError:
                continue
            if reply.status != RESET:
                return reply.status
            c.reset()
            c.sequence -= 1
            message = c.message(start_ms, rows, **{**more, "taken": 0})

    def answer(self, sequence):
        self.ours.settimeout(3)
        while True:
            reply = Reply(self.ours.recv(1 << 20))
            if reply.sequence == sequence:
                return reply

    def feed(self, start_ms, rows, **more):
        status = self.offer(start_ms, rows, **more)
        assert status in (STORED, KNOWN), status
        self.fed += sum(r["count"] for r in rows)

    def metrics(self):
        """{name with labels: value}; {} before there are any"""
        try:
            with open(os.path.join(self.spool, "agent.prom")) as f:
                text = f.read()
        except FileNotFoundError:
            return {}
        return {m[1]: float(m[2]) for m in re.finditer(r"^smolder_agent_(\S+) (\S+)$", text, re.M)}

    def account(self):
        """(taken, sent, {reason: lost}, waiting)"""
        m = self.metrics()
        lost = {re.search('"(.*)"', k)[1]: v for k, v in m.items() if k.startswith("samples_lost_total")}
        return m.get("samples_taken_total"), m.get("samples_sent_total"), lost, m.get("samples_waiting")

    def waiting(self):
        return len([f for f in os.listdir(self.spool) if f.endswith(".window")])

    def drained(self, patience=60):
        until("all to be sent", lambda: os.path.isdir(self.spool) and self.waiting() == 0, patience)


class Request:
    def __init__(self, handler, body):
        self.path, self.headers, self.at = handler.path, handler.headers, time.monotonic()
        packed = handler.headers.get("Content-Encoding") == "gzip"
        self.body = gzip.decompress(body) if packed else body


class Far:
    """A far side. answer(request) -> status, or (status, headers, body); "close": in the middle; a number
    of seconds that it takes, before 200."""

    def __init__(self, answer=lambda request: 200):
        self.answer, self.requests, self.taken = answer, [], []
        far = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                length = int(self.headers["Content-Length"])
                body = self.rfile.read(length)
                if len(body) < length:  # who sent it was killed meanwhile
                    return
                request = Request(self, body)
                far.requests.append(request)
                told = far.answer(request)
                if told == "close":
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
                    self.wfile.flush()
                    self.connection.shutdown(socket.SHUT_RDWR)
                    return
                if isinstance(told, float):
                    time.sleep(told)
                    told = 200
                status, headers, body = told if isinstance(told, tuple) else (told, {}, b"")
                if status == 200:
                    far.taken.append(request)
                self.send_response(status)
                for k, v in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.handle_error = lambda *_: None  # whom it answers may have been killed
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

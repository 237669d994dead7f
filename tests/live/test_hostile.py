#!/usr/bin/env python3
"""The server under AddressSanitizer and UndefinedBehaviorSanitizer, among people who mean it no good:
requests of every kind, mutated windows, connections by the thousand, and its end while requests wait.

The long form (SMOLDER_SOAK=1) sends 100,000 requests and ends the server 100 times; SMOLDER_SEED
repeats a run. `make build/san/smolder` builds the program that is tested.
"""
import contextlib
import functools
import os
import random
import re
import resource
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from messages import encode, pprof  # noqa: E402
from server import Server  # noqa: E402
from tap import BUILD, SOAK, main, skip, test  # noqa: E402
from windows import STORED, Collector, row, u64  # noqa: E402

SEED = int(os.environ.get("SMOLDER_SEED", "0")) or int.from_bytes(os.urandom(4), "little")
SAN = os.path.join(BUILD, "san", "smolder")
REQUESTS = 100_000 if SOAK else 3_000
ENDS = 100 if SOAK else 6
CONNECTIONS = 2_000
THREADS = 12
REPORT = ("AddressSanitizer", "LeakSanitizer", "runtime error", "MHD", "Fatal")

ROUTES = ["/", "/assets/index.js", "/api/v1/query", "/api/v1/diff", "/api/v1/types", "/api/v1/labels",
          "/api/v1/labels/comm/values", "/api/v1/series", "/api/v1/heatmap", "/api/v1/status",
          "/debug/pprof/", "/debug/pprof/profile", "/debug/pprof/block", "/debug/pprof/cmdline",
          "/debug/pprof/symbol",
          "/pyroscope/render", "/pyroscope/render-diff", "/pyroscope/label-values", "/api/v1/ingest", "/ingest",
          "/pyroscope/ingest", "/push.v1.PusherService/Push", "/v1development/profiles",
          "/settings.v1.SettingsService/Get", "/settings.v1.SettingsService/Set",
          *(f"/querier.v1.QuerierService/{m}" for m in (
              "ProfileTypes", "LabelNames", "LabelValues", "Series", "SelectSeries", "SelectMergeStacktraces",
              "SelectMergeSpanProfile", "SelectMergeProfile", "Diff", "GetProfileStats", "AnalyzeQuery")),
          "/login", "/plain.css", "/metrics", "/healthz", "/readyz", "/api/v1/windows", "/nothing",
          "/api/v1/labels//values", "/api/v1/labels/%00/values", "/../../etc/passwd", "//", "/%2e%2e/"]
PARAMS = ["query", "from", "to", "base_from", "base_to", "format", "by", "max", "step", "nodes", "keep",
          "callers", "callees", "focus", "seconds", "pid", "comm", "container", "host", "next", "slots",
          "min", "unit", "kind", "limit", "max_nodes", "max_functions", "base_query", "normalised", "idle", "name",
          "until", "sampleRate", "units", "aggregationType", "label", "leftQuery", "leftFrom", "leftUntil",
          "rightQuery", "rightFrom", "rightUntil", "max-nodes", "groupBy", "service"]
VALUES = ["", "process_cpu:cpu:nanoseconds:cpu:nanoseconds{service_name=~\".*\"}", "app.cpu{a=b}", "dot", "cpu", "wall", "offcpu", "oncpu", 'wall{comm="p1"}', 'offcpu{state="blocked"}', "part", "reason",
          "0-24", 'cpu{comm="nginx"}', 'cpu{comm=~"(a+)+$"}', 'cpu{comm=~".*"}', "cpu{", "cpu{a=",
          'heap:inuse{x!~"["}', "now", "now-5m", "now-100y", "0", "-1", "1", "18446744073709551615",
          "99999999999999999999999", "1e309", "NaN", "folded", "json", "pprof", "svg", "html", "tree",
          "speedscope", "top", "nothing", "comm", "comm,pid", "%00", "%ff%fe", "a" * 3000, "☃", "'\"<>&",
          "10s", "1ms", "1d", "main", "//evil", "/\\evil"]
KINDS = ["cpu", "cpu", "oncpu", "offcpu", "page-faults"]
HEADERS = ["Host", "Origin", "Content-Length", "Content-Type", "Transfer-Encoding", "Expect", "Cookie",
           "Authorization", "Accept", "Accept-Encoding", "If-None-Match", "Connection", "Range",
           "Sec-Fetch-Site", "X-Forwarded-For", "Upgrade"]
HEADER_VALUES = ["", "localhost", "127.0.0.1", "evil.example", "null", "http://evil.example", "0", "-1",
                 "99999999999", "chunked", "gzip;q=0", "100-continue", "smolder-1=1.2", "Bearer x",
                 "text/html", "gzip", '"x"', "close", "keep-alive", "bytes=0-", "cross-site", "::1",
                 "A" * 5000, "\x01\x02", "[::1", "[]:80", ":", "websocket"]


class Sanitized(Server):
    def __init__(self, store=None):
        if not os.path.exists(SAN):
            skip(f"there is no {SAN}: 'make build/san/smolder' builds it")
        options = "exitcode=99:abort_on_error=0:halt_on_error=1:print_stacktrace=1"
        self.heard, self.ending = [], False
        super().__init__("--deadline", "5s", store=store, program=SAN, env=dict(
            os.environ, ASAN_OPTIONS=options, UBSAN_OPTIONS=options))
        # What it says is read all the time: a pipe that is full would hold it up.
        self.reader = threading.Thread(
            target=lambda: self.heard.extend(iter(self.process.stderr.readline, "")), daemon=True)
        self.reader.start()

    def stop(self, how=signal.SIGTERM):
        """Once: a second signal would end it before it has ended."""
        if self.process.poll() is None and not self.ending:
            self.ending = True
            self.process.send_signal(how)
        code = self.process.wait(timeout=60)
        self.reader.join()
        return code

    def judge(self):
        """Ends it; the test fails with what it said, if that is a report or an error."""
        code = self.stop()
        said = "".join(self.heard)
        assert code == 0 and not any(r in said for r in REPORT), f"seed {SEED}: {code}\n{said[-8000:]}"


def recent():
    return int(time.time() * 1000) // 10000 * 10000 - 60000


def rows(rng, count=20, kind="cpu"):
    def waits():
        return {"state": rng.choice(("blocked", "runnable", "idle", "")),
                "reason": rng.choice(("lock", "disk", "timer", ""))} if kind == "offcpu" else {}
    return [row(tuple(f"f{rng.randrange(30)}@lib{rng.randrange(4)}" for _ in range(rng.randrange(1, 12))),
                rng.randrange(1, 5), comm=f"p{rng.randrange(5)}", pid=str(rng.randrange(20)), **waits())
            for _ in range(count)]


def mutated(rng, message):
    m = bytearray(message)
    for _ in range(rng.choice((1, 1, 2, 8))):
        m = m or bytearray(1)  # nothing may be left of it
        at, how = rng.randrange(len(m)), rng.randrange(6)
        if how == 0:
            m[at] ^= 1 << rng.randrange(8)
        elif how == 1:
            del m[at:]
            m += b"\x00"
        elif how == 2:
            m[at:at] = u64(rng.choice((0, 1, 0x7f, 2**31, 2**32 - 1, 2**63, 2**64 - 1)))
        elif how == 3:
            m[at:at + rng.randrange(16)] = bytes(rng.randrange(256) for _ in range(rng.randrange(16)))
        elif how == 4:
            to = rng.randrange(len(m))
            m[at:at] = m[min(at, to):max(at, to)][:2000]
        else:
            m[at] = rng.choice((0, 0x7f, 0x80, 0xff))
    return bytes(m[:130_000])


@functools.cache
def pushes():
    """What programs push and what Grafana asks, as it should be: paths, types and bodies."""
    profile = pprof([("samples", "count"), ("cpu", "nanoseconds")],
                    [(("main", "leaf"), (1, 10), {"k": "v"}), (("main",), (2, 20), {"bytes": 7})],
                    period=("cpu", "nanoseconds", 10))
    series = {"labels": [{"name": "service_name", "value": "a"}], "samples": [{"raw_profile": profile}]}
    cpu = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
    ask = {"profile_typeID": cpu, "label_selector": '{service_name=~"p.*"}', "start": recent(),
           "end": recent() + 60000}
    proto, js = b"application/proto", b"application/json"
    querier = b"/querier.v1.QuerierService/"
    return [
        (b"/api/v1/ingest?service=a", b"application/octet-stream", profile),
        (b"/ingest?name=a.cpu{b=c}", b"text/plain", b"main;a 1\nmain;b 2\n"),
        (b"/ingest?name=a", b"multipart/form-data; boundary=x",
         b'--x\r\nContent-Disposition: form-data; name="profile"\r\n\r\n' + profile + b"\r\n--x--\r\n"),
        (b"/push.v1.PusherService/Push", proto, encode("pyroscope", "PushRequest", {"series": [series]})),
        (b"/v1development/profiles", js, b'{"resourceProfiles":[{"scopeProfiles":[{"profiles":[{"samples":['
         b'{"stackIndex":1,"values":["3"]}]}]}]}],"dictionary":{"stackTable":[{},{"locationIndices":[0]}]}}'),
        (querier + b"SelectMergeStacktraces", proto, encode("pyroscope", "SelectMergeStacktracesRequest", ask)),
        (querier + b"SelectMergeProfile", proto, encode("pyroscope", "SelectMergeProfileRequest", ask)),
        (querier + b"Diff", proto, encode("pyroscope", "DiffRequest", {"left": ask, "right": ask})),
        (querier + b"SelectSeries", proto, encode("pyroscope", "SelectSeriesRequest", {
            **ask, "step": 15.0, "group_by": ["service_name", "comm"], "limit": 5})),
        (querier + b"Series", js, b'{"labelNames":["service_name","__profile_type__"],"matchers":["{}"]}'),
        (querier + b"LabelValues", js, b'{"name":"comm","matchers":["{service_name!=\\"x\\"}"]}'),
        (b"/settings.v1.SettingsService/Set", js, b'{"setting":{"name":"a","value":"b"}}'),
    ]


class Hostile:
    """Makes requests; windows of theirs build on each other until one is spoilt."""

    def __init__(self, rng):
        self.rng = rng
        self.collectors = {kind: Collector() for kind in KINDS}

    def window(self):
        rng = self.rng
        kind = rng.choice(KINDS)
        if rng.random() < 0.05:
            self.collectors[kind] = Collector()
        if rng.random() < 0.02:
            return rng.choice(list(Collector().chain(recent(), rng.choice((10, 16385, 60000)))))
        start = recent() + rng.choice((0,) * 10 + (10000, -10**12, 10**12))
        message = self.collectors[kind].message(start, rows(rng, rng.randrange(30), kind), kind=kind, metrics=[
            (rng.choice(("x_total", "bad name", 'a{b="c"}', 'a{b="', "")), rng.random())
            for _ in range(rng.randrange(3))])
        if rng.random() < 0.6:
            return message
        self.collectors[kind] = Collector()  # what the server knows of the old one is spoilt
        return mutated(rng, message)

    def path(self):
        rng = self.rng
        path = rng.choice(ROUTES)
        if rng.random() < 0.1:
            path += "".join(chr(rng.randrange(33, 127)) for _ in range(rng.randrange(20)))
        params = [(rng.choice(PARAMS), rng.choice(VALUES)) for _ in range(rng.randrange(5))]
        if re.search("pprof/(profile|block)", path) and not any(p == "seconds" for p, _ in params):
            params.append(("seconds", "1"))
        if params:
            path += "?" + (urllib.parse.urlencode(params) if rng.random() < 0.8 else
                           "&".join(f"{k}={v}" for k, v in params))
        return path.encode("utf-8", "replace").replace(b"\n", b"").replace(b" ", b"%20")

    def request(self):
        """Bytes, and whether an answer is sure to come while the connection stays."""
        rng = self.rng
        if rng.random() < 0.02:
            return os.urandom(rng.randrange(1, 400)) + b"\r\n\r\n"
        if rng.random() < 0.15:
            path, kind, body = rng.choice(pushes())
            body = body if rng.random() < 0.3 else mutated(rng, body)
            return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
                    % (path, kind, len(body))) + body
        if rng.random() < 0.3:
            body = self.window()
            return (b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n"
                    % len(body)) + body
        method = rng.choice(("GET",) * 8 + ("POST", "HEAD", "PUT", "OPTIONS", "DELETE", "TRACE", "X" * 50))
        head = method.encode() + b" " + self.path() + b" HTTP/1.1\r\n"
        if rng.random() < 0.95:
            head += b"Host: 127.0.0.1\r\n"
        for _ in range(rng.choice((0,) * 6 + (1, 2, 10))):
            head += f"{rng.choice(HEADERS)}: {rng.choice(HEADER_VALUES)}\r\n".encode()
        if method == "POST" and rng.random() < 0.5:
            body = os.urandom(rng.randrange(200))
            return head + b"Content-Length: %d\r\n\r\n" % len(body) + body
        return head + b"\r\n"


def connect(server):
    s = socket.create_connection((server.host, server.port), timeout=30)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return s


def taken(s, patience):
    """What has come, thrown away: False when nothing has, or the other end has closed."""
    any_came = False
    while select.select([s], [], [], 0 if any_came else patience)[0]:
        if not s.recv(1 << 20):
            return False
        any_came = True
    return any_came


def send_hostile(server, seed, count, sent):
    """So many requests, some on a connection, most after the answer to the one before."""
    hostile = Hostile(random.Random(seed))
    rng = hostile.rng
    while len(sent) < count and server.process.poll() is None:
        with contextlib.suppress(OSError), connect(server) as s:
            try:
                for _ in range(rng.choice((1, 1, 5, 20, 50))):
                    s.sendall(hostile.request())
                    sent.append(1)
                    if rng.random() < 0.8 and not taken(s, 0.05):
                        break
                if rng.random() < 0.5:  # else it goes away with answers on the way
                    s.shutdown(socket.SHUT_WR)
                    taken(s, 0.05)
            except OSError:
                pass


@test
def hostile_requests_are_refused_or_answered():
    with Sanitized() as s:
        sent = [[] for _ in range(THREADS)]
        threads = [threading.Thread(target=send_hostile, args=(s, SEED + n, REQUESTS // THREADS, sent[n]))
                   for n in range(THREADS)]
        for t in threads:
            t.start()
        while any(t.is_alive() for t in threads):
            assert s.process.poll() is None, f"seed {SEED}: it ended\n{''.join(s.heard)[-8000:]}"
            time.sleep(0.1)
        assert all(len(one) >= REQUESTS // THREADS for one in sent), f"seed {SEED}: {''.join(s.heard)[-8000:]}"
        assert s.json("/healthz") == {"healthy": True}
        seen = {m[1]: int(m[2]) for m in re.finditer(r"^smolder_(\w+)(?:{answer=\"stored\"})? (\d+)$",
                                                     s.get("/metrics")[1].decode(), re.M)}
        print(f"# {sum(map(len, sent))} requests sent, {seen['http_requests_total']} of them in a form that "
              f"is HTTP, {seen['windows_received_total']} windows stored, seed {SEED}", flush=True)
        assert seen["http_requests_total"] > REQUESTS / 2, "most were no requests"
        assert seen["windows_received_total"] > REQUESTS / 100, "hardly a window was stored"
        s.judge()


@test
def two_thousand_connections_hold_up_nobody():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, CONNECTIONS + 500), hard), hard))
    rng = random.Random(SEED)
    with Sanitized() as s:
        mine = []
        try:
            for i in range(CONNECTIONS):
                c = connect(s)
                mine.append(c)
                kind = i % 4
                try:
                    if kind == 1:  # a head without end
                        c.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: local")
                    elif kind == 2:  # a body without end
                        c.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                                  b"Content-Length: 100000\r\n\r\nSMW")
                    elif kind == 3:  # an answer that nobody takes
                        c.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                except OSError:
                    pass  # it was closed for room
                if i % 500 == 499:
                    assert s.json("/healthz") == {"healthy": True}
            for _ in range(3):  # a byte now and then
                for c in rng.sample(mine, 200):
                    try:
                        c.sendall(b"x")
                    except OSError:
                        pass
                assert s.json("/healthz") == {"healthy": True}
            assert s.json("/api/v1/status")["program"] == "smolder"
        finally:
            for c in mine:
                c.close()
        s.judge()


def fill(store):
    with Sanitized(store) as s:
        c, rng = Collector(), random.Random(1)
        waits = {kind: Collector() for kind in ("oncpu", "offcpu")}
        for w in range(30):
            assert s.post(c.message(recent() - w * 10000, rows(rng, 200))).status == STORED
            for kind, other in waits.items():
                assert s.post(other.message(recent() - w * 10000, rows(rng, 50, kind), kind=kind)).status == STORED
        s.judge()


@test
def what_is_held_is_answered_when_the_server_ends():
    if not os.path.exists(SAN):
        skip(f"there is no {SAN}: 'make build/san/smolder' builds it")
    rng = random.Random(SEED)
    store = tempfile.mkdtemp(prefix="smolder-test-")
    try:
        fill(store)
        for _ in range(ENDS):
            one_end(store, rng)
    finally:
        shutil.rmtree(store, ignore_errors=True)


def one_end(store, rng):
    """Profiles and questions that wait when it ends: each is answered whole, and nothing is freed twice."""
    with Sanitized(store) as s:
        # A collector that is heard of, so that profiles wait for it.
        assert s.post(Collector().message(recent(), rows(rng))).status == STORED
        asks = [f"/debug/pprof/profile?seconds={rng.randrange(20, 300)}" for _ in range(20)]
        asks += [f"/api/v1/query?query={rng.choice(('cpu', 'wall', 'offcpu'))}&from=now-{rng.randrange(5, 60)}m&to=now&format="
                 + rng.choice(("svg", "json", "tree", "pprof", "folded")) for _ in range(30)]
        asks += ["/debug/pprof/"] * 3 + ["/api/v1/status"] * 3
        rng.shuffle(asks)
        held, told = [], 0
        for path in asks:
            c = connect(s)
            c.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            if rng.random() < 0.1:  # the next request stands behind it
                c.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
            if rng.random() < 0.05:
                c.close()  # nobody waits for this one
            else:
                held.append((path, c))
        time.sleep(rng.random() * 0.3)
        s.ending = True
        s.process.send_signal(signal.SIGTERM)
        for path, c in held:
            c.settimeout(30)
            got = b""
            try:
                while chunk := c.recv(1 << 20):
                    got += chunk
            except ConnectionResetError:
                pass
            c.close()
            # What had not been read when it ended may be cut off; what was held is told.
            if path.startswith("/debug/pprof/profile") and got:
                assert got.startswith(b"HTTP/1.1 503 ") and b"shutting down" in got, (path, got[:300])
                told += 1
            elif got:
                assert got.split(b" ", 2)[1] in (b"200", b"503"), (path, got[:300])
        assert told, "no profile that waited was told"
        s.judge()


main()

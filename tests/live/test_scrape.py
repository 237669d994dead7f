#!/usr/bin/env python3
"""Scraped programs: what is stored of a real Go program is what `go tool pprof` shows of the same answers; targets
that are killed, hang, lie or are too large are counted, shown and harmless."""
import contextlib
import gzip
import http.server
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import until  # noqa: E402
from messages import pprof  # noqa: E402
from server import Server, check_metrics, smolder  # noqa: E402
from tap import main, skip, test  # noqa: E402

CPU = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
ALLOC, INUSE = "memory:alloc_space:bytes:space:bytes", "memory:inuse_space:bytes:space:bytes"
WINDOW = 10
UNITS = {"": 1, "B": 1, "ns": 1, "count": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
SPACE = ("space", "bytes", 524288)
HEAP = [("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes")]


def go_profile(kind, start, *base):
    """What `go tool pprof` has of each function, itself and in all, in the profile's own unit."""
    p = subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=0", "-nodefraction=0", "-edgefraction=0",
                        "-unit=" + ("ns" if kind in ("cpu", "delay") else "B"), f"-sample_index={kind}",
                        *[f"-diff_base={b}" for b in base], start],
                       capture_output=True, text=True, timeout=120, env=dict(os.environ, PPROF_TMPDIR="/tmp"))
    assert p.returncode == 0, p.stderr
    found = {}
    for line in p.stdout.splitlines():
        m = re.match(r"\s*(-?[\d.]+)(\w*)\s+\S+%\s+\S+%\s+(-?[\d.]+)(\w*)\s+\S+%  (.+)", line)
        if m:
            name = m[5].removesuffix(" (inline)").removesuffix(" (partial-inline)")
            found[name] = (float(m[1]) * UNITS[m[2]], float(m[3]) * UNITS[m[4]])
    assert found, p.stdout
    return found


def ours(server, query, **range_):
    """The same of what is stored."""
    status, body, _ = server.get("/api/v1/query", query=query, format="folded", **range_)
    assert status == 200, (query, status, body)
    own, total = {}, {}
    for line in body.decode().splitlines():
        stack, value = line.rsplit(" ", 1)
        names = [re.sub(r"_\[[a-z]\]$", "", n) for n in stack.split(";")]
        own[names[-1]] = own.get(names[-1], 0) + int(value)
        for name in set(names):  # a function that calls itself counts once
            total[name] = total.get(name, 0) + int(value)
    return {name: (own.get(name, 0), total[name]) for name in total}


class Recorder:
    """Between the server and a target: keeps every answer, and can do worse than the target."""

    def __init__(self, port):
        self.answers, self.requests, self.lock = [], [], threading.Lock()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                began = time.time()
                with outer.lock:
                    outer.requests.append((self.path, dict(self.headers)))
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{self.path}", timeout=60) as r:
                        status, body = r.status, r.read()
                except OSError:
                    status, body = 502, b""
                with contextlib.suppress(OSError):
                    self.send_response(status)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)
                    with outer.lock:
                        outer.answers.append((self.path.split("?")[0].rsplit("/", 1)[1], began, time.time(), body))

            def log_message(self, *_):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def of(self, kind):
        with self.lock:
            return [a for a in self.answers if a[0] == kind]


@contextlib.contextmanager
def configured(text, *args, **files):
    """A server with this configuration, beside these files."""
    directory = tempfile.mkdtemp(prefix="smolder-scrape-")
    try:
        for name, content in files.items():
            with open(os.path.join(directory, name.replace("__", ".")), "w") as f:
                f.write(content)
        config = os.path.join(directory, "smolder.yaml")
        with open(config, "w") as f:
            f.write(text)
        with Server("--config", config, *args) as s:
            s.directory = directory
            yield s
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def targets(server, **labels):
    return [t for t in server.json("/api/v1/targets")["targets"] if all(t[k] == v for k, v in labels.items())]


def metrics(server):
    text = server.get("/metrics")[1].decode()
    check_metrics(text)
    return text


def metric(server, name):
    found = re.search(rf"^smolder_{re.escape(name)} (\S+)$", metrics(server), re.M)
    return float(found[1]) if found else 0


def same(got, wanted, off):
    """Of each function; `off`: what a rounded figure may be off by."""
    for name, (own, total) in wanted.items():
        mine = got.get(name, (0, 0))
        assert abs(mine[0] - own) <= off and abs(mine[1] - total) <= off, (name, mine, (own, total))
    # What has no stack at all, a goroutine that is just ending, go tool pprof has no line for.
    more = {n: v for n, v in got.items() if n not in wanted and v[1] > off and n != "[no stack]"}
    assert not more, more


def write(directory, name, answer):
    path = os.path.join(directory, name)
    with open(path, "wb") as f:
        f.write(answer[3])
    return path


@test
def a_go_programs_profiles_are_those_that_go_tool_pprof_shows():
    if not shutil.which("go"):
        skip("go is not installed (golang-go)")
    with workloads.start("exposed") as w:
        r = Recorder(int(w.wait_line("ready ").split()[2]))
        with configured(f"""
scrape_configs:
  - job_name: shop
    scrape_interval: 2s
    static_configs: [{{targets: ['127.0.0.1:{r.port}'], labels: {{env: prod}}}}]
""") as s:
            until("three scrapes of each", lambda: all(
                t["scrapes"] >= 3 for t in targets(s)) and len(targets(s)) == 5)
            # No more of them from here on, and all that came is stored.
            r.server.shutdown()
            r.server.server_close()
            until("the end", lambda: len(targets(s, health="down")) == 5)
            everything = {"from": "now-2h", "to": "now+1h"}
            where = f'{{job="shop",service="shop",env="prod",instance="127.0.0.1:{r.port}"}}'

            # What accumulates: all differences are together the last less the first.
            for kind, path, unit in (("alloc_space", "allocs", "bytes"), ("alloc_objects", "allocs", "count"),
                                     ("delay", "mutex", "nanoseconds"), ("contentions", "mutex", "count"),
                                     ("delay", "block", "nanoseconds"), ("contentions", "block", "count")):
                answers = r.of(path)
                first, last = write(s.directory, "first", answers[0]), write(s.directory, "last", answers[-1])
                kinds = "space:bytes" if path == "allocs" else "contentions:count"
                name = "memory" if path == "allocs" else path
                got = ours(s, f"{name}:{kind}:{unit}:{kinds}{where}", **everything)
                wanted = {n: v for n, v in go_profile(kind, last, first).items() if v != (0, 0)}
                # A count that Go scales may sink by one between two scrapes, which is no difference.
                same(got, wanted, 0 if kind == "alloc_space" else len(answers) * 16)
            assert ours(s, ALLOC + where, **everything)["main.makeGarbage"][0] > 100 << 20

            # CPU time: each profile is a time of its own.
            got, wanted = ours(s, CPU + where, **everything), {}
            for i, a in enumerate(r.of("profile")):
                if not a[3]:
                    continue
                for name, v in go_profile("cpu", write(s.directory, f"cpu{i}", a)).items():
                    had = wanted.get(name, (0, 0))
                    wanted[name] = (had[0] + v[0], had[1] + v[1])
            same(got, wanted, 0)
            assert got["main.compute"][1] > 0.5e9, got["main.compute"]

            # A state is what was measured in a window of ten seconds.
            for kind, path, name in (("inuse_space", "allocs", INUSE),
                                     ("inuse_objects", "allocs", "memory:inuse_objects:count:space:bytes"),
                                     ("goroutine", "goroutine", "goroutine:goroutine:count:goroutine:count")):
                line = s.json("/api/v1/series", query=name + where, step="10s", **{"from": "now-5m", "to": "now+20s"})
                at = max(i for i, c in enumerate(line["covered"]) if c)
                start = line["start"] // 1000 + at * WINDOW
                got = ours(s, name + where, **{"from": start, "to": start + WINDOW})
                fits = []
                for i, a in enumerate(r.of(path)):
                    try:
                        same(got, go_profile(kind, write(s.directory, f"{path}{i}", a)), 0)
                        fits.append(i)
                    except AssertionError:
                        pass
                assert fits, (kind, got)
                # Of a longer time it is the mean, not the sum.
                mean = ours(s, name + where, **everything)
                assert "main.main" not in got or 0.3 < mean["main.main"][1] / got["main.main"][1] < 1.1, (got, mean)


@test
def parcas_documented_configuration_is_taken_as_it_stands():
    with configured("""\
debug_info:
  bucket:
    type: "FILESYSTEM"
    config:
      directory: "./tmp"
  cache:
    type: "FILESYSTEM"
    config:
      directory: "./tmp"

object_storage:
  bucket:
    type: "FILESYSTEM"
    config:
      directory: "./data"

scrape_configs:
  - job_name: "default"
    scrape_interval: "3s"
    scrape_timeout: "2s"
    static_configs:
      - targets: [ '127.0.0.1:7070' ]
""") as s:
        assert "has keys without effect here: debug_info, object_storage\n" in s.first, s.first
        found = targets(s)
        assert {t["profile"] for t in found} == {"process_cpu", "memory", "goroutine", "mutex", "block"}
        assert {t["url"] for t in found if t["profile"] == "process_cpu"} == {
            "http://127.0.0.1:7070/debug/pprof/profile?seconds=1"}, found
        assert all((t["interval_ms"], t["timeout_ms"]) == (3000, 2000) for t in found)


class Targets:
    """Programs that answer as their path says: /good, /hang, /drip, /endless, /bomb, /garbage, /cut, /error,
    /flood, and others that a test adds."""

    def __init__(self):
        self.asked, self.headers, self.grown = {}, [], 0
        self.more = {}
        self.over = threading.Event()
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.split("?")[0].strip("/")
                outer.asked[path] = outer.asked.get(path, 0) + 1
                outer.headers.append((self.path, dict(self.headers)))
                with contextlib.suppress(OSError):
                    getattr(outer, path, outer.other)(self, path)

            def log_message(self, *_):
                pass

        class Many(http.server.ThreadingHTTPServer):
            daemon_threads, block_on_close, request_queue_size = True, False, 64
        self.server = Many(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.bombs = gzip.compress(bytes(200 << 20))
        self.flood_body = pprof([("cpu", "nanoseconds")], [
            (("main", f"f{n % 50}"), (10,), {"request": f"r{n}"}) for n in range(10_000)])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.over.set()
        self.server.shutdown()
        self.server.server_close()

    def send(self, h, body, status=200, length=None):
        h.send_response(status)
        h.send_header("Content-Length", str(len(body) if length is None else length))
        h.end_headers()
        h.wfile.write(body)

    def other(self, h, path):
        body = self.more.get(path)
        self.send(h, body if body is not None else b"nothing", 200 if body is not None else 404)

    def good(self, h, _):
        self.grown += 1
        self.send(h, pprof(HEAP, [(("main", "make"), (self.grown, self.grown * 1000, 3, 3000), {})], SPACE))

    def hang(self, *_):
        self.over.wait()

    def drip(self, h, _):
        h.send_response(200)
        h.send_header("Content-Length", "1000000")
        h.end_headers()
        while not self.over.wait(0.2):
            h.wfile.write(b"x")

    def endless(self, h, _):
        h.send_response(200)
        h.end_headers()
        while not self.over.is_set():
            h.wfile.write(bytes(1 << 20))

    def bomb(self, h, _):
        self.send(h, self.bombs)

    def garbage(self, h, _):
        self.send(h, os.urandom(5000))

    def cut(self, h, _):
        body = pprof(HEAP, [(("main", "make"), (1, 1000, 1, 1000), {})])
        self.send(h, body[:len(body) // 2], length=len(body))

    def error(self, h, _):
        self.send(h, b"profiling is in use", 500)

    def flood(self, h, _):
        self.send(h, self.flood_body)


def job(name, t, path, more="", interval="1s", timeout="2s"):
    off = ", ".join(f"{p}: {{enabled: false}}" for p in ("process_cpu", "goroutine", "mutex", "block"))
    return f"""  - job_name: {name}
    scrape_interval: {interval}
    scrape_timeout: {timeout}
    static_configs: [{{targets: ['{t.address}']}}]
    profiling_config: {{pprof_config: {{memory: {{path: /{path}}}, {off}}}}}
{more}"""


def resident(server):
    return metric(server, "server_resident_bytes")


@test
def targets_that_hang_lie_or_are_too_large_are_told_and_harm_nobody():
    reasons = {"hang": "timeout", "drip": "timeout", "endless": "too_large", "bomb": "too_large",
               "garbage": "malformed", "cut": "no_answer", "error": "status", "nowhere": "no_answer"}
    with Targets() as t:
        bad = [job(f"{name}{i}", t, name) for name in reasons if name != "nowhere" for i in range(3)]
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            nowhere = s.getsockname()[1]
        bad.append(job("nowhere0", t, "good").replace(t.address, f"127.0.0.1:{nowhere}"))
        with configured("scrape_configs:\n" + job("fine", t, "good")) as s:
            until("three good ones", lambda: targets(s, job="fine")[0]["scrapes"] >= 3)
            alone = resident(s)
        t.grown = 0
        with configured("scrape_configs:\n" + job("fine", t, "good") + "".join(bad)) as s:
            said = {}  # whatever was said of each: on a busy machine what has no end may be late first

            def all_failed():
                said.update({(x["job"], x["reason"]): x["error"] for x in targets(s, health="down")})
                return wanted <= said.keys()
            wanted = {(f"{n}{i}", r) for n, r in reasons.items() for i in range(3 if n != "nowhere" else 1)}
            until("all to have failed", all_failed, 120)
            began, first = time.monotonic(), targets(s, job="fine")[0]
            until("each to have failed five times", lambda: all(
                x["failures"] >= 5 for x in targets(s, health="down")), 90)
            took, last = time.monotonic() - began, targets(s, job="fine")[0]
            # The good one was not held up: it was asked every second, and answered each time.
            assert last["health"] == "up" and last["failures"] == 0, last
            assert last["scrapes"] - first["scrapes"] >= 0.4 * took, (first, last, took)
            assert last["took_ms"] < 5000, last
            # Queries are answered, too, and the memory is that of the limits, not of what came.
            began = time.monotonic()
            assert metric(s, "scrape_targets{health=\"down\"}") == len(wanted)
            assert time.monotonic() - began < 5
            more = resident(s) - alone
            print(f"# {len(wanted)} bad targets: {more / 1e6:.0f} MB more than {alone / 1e6:.0f}")
            assert more < 220e6, (alone, more)
            text = metrics(s)
            for name, reason in reasons.items():
                assert re.search(rf'^smolder_scrape_down{{job="{name}0",instance="[^"]+",profile="memory",'
                                 r'reason="[a-z_]+"} 1$', text, re.M), (name, reason, text)
            assert metric(s, 'scrapes_failed_total{reason="timeout"}') >= 30
            # What a person reads.
            assert "did not answer completely within 2.0 s" in said["hang0", "timeout"], said
            assert said["endless0", "too_large"] == "its answer is larger than 16 MB", said
            assert "status 500" in said["error0", "status"], said
            # The sums of the good one: what it has grown by, and the state once.
            line = s.json("/api/v1/series", query=ALLOC + '{job="fine"}', step="10s",
                          **{"from": "now-5m", "to": "now+20s"})
            grown = sum(line["lines"][0]["values"])
            assert grown % 1000 == 0 and 0 < grown <= t.grown * 1000, (grown, t.grown)
            tree = ours(s, INUSE + '{job="fine"}', **{"from": "now-5m", "to": "now+20s"})
            assert 1500 <= tree["main"][1] <= 3000, tree


@test
def a_flood_of_series_is_refused_and_memory_stays_flat():
    with Targets() as t:
        config = "scrape_configs:\n" + job("flood", t, "flood") + job("fine", t, "good")
        with configured(config) as s:
            until("a flood", lambda: targets(s, job="flood")[0]["scrapes"] >= 3, 60)
            before = resident(s)
            at = targets(s, job="flood")[0]["scrapes"]
            until("six more", lambda: targets(s, job="flood")[0]["scrapes"] >= at + 6, 60)
            assert targets(s, job="fine")[0]["health"] == "up"
            assert metric(s, "scraped_series") <= 5000
            assert metric(s, "scraped_samples_without_labels_total") > 0
            more = resident(s) - before
            print(f"# six floods: {more / 1e6:.1f} MB more than {before / 1e6:.0f}")
            assert more < 40e6, (before, more)


@test
def a_program_that_is_killed_is_down_and_up_again_with_sums_from_the_start():
    with Targets() as t:
        t.more["heap"] = pprof(HEAP, [(("main", "old"), (100, 100_000, 1, 1000), {})], SPACE)
        with configured("scrape_configs:\n" + job("p", t, "heap")) as s:
            until("two", lambda: targets(s, job="p")[0]["scrapes"] >= 2)
            t.more["heap"] = None  # killed: 404
            until("it to be down", lambda: targets(s, health="down"))
            assert targets(s)[0]["error"] == "it answers with status 404"
            t.more["heap"] = pprof(HEAP, [(("main", "new"), (5, 5000, 1, 1000), {})], SPACE)
            until("it to be up", lambda: targets(s, health="up"))
            assert targets(s)[0]["restarts"] == 1 and targets(s)[0]["error"] == ""
            t.more["heap"] = pprof(HEAP, [(("main", "new"), (8, 8000, 1, 1000), {})], SPACE)
            until("the growth", lambda: ours(s, ALLOC, **{"from": "now-1h", "to": "now+1h"}) == {
                "main": (0, 8000), "new": (8000, 8000)}, 30)


@test
def targets_come_from_files_and_urls_and_relabelling_changes_them():
    with Targets() as t:
        sd = [{"targets": [t.address, "127.0.0.1:1"], "labels": {"zone": "a", "__meta_team": "x"}}]
        t.more["sd"] = json.dumps(sd).encode()
        relabel = """
    relabel_configs:
      - {source_labels: [__address__], regex: '127.0.0.1:1', action: drop}
      - {source_labels: [__meta_team], target_label: team}
      - {source_labels: [__meta_filepath], regex: '.*/(.*)', target_label: file}
"""
        config = "scrape_configs:\n" + job("file", t, "good", relabel).replace(
            f"static_configs: [{{targets: ['{t.address}']}}]", "file_sd_configs: [{files: ['*.json', 'one.yml']}]")
        config += job("url", t, "good", relabel).replace(
            f"static_configs: [{{targets: ['{t.address}']}}]",
            f"http_sd_configs: [{{url: 'http://{t.address}/sd', refresh_interval: 1s}}]")
        with configured(config, two__json=json.dumps(sd)) as s:
            def up(name):
                return targets(s, job=name, health="up")
            found = until("both", lambda: up("file") and up("url") and up("file") + up("url"))
            assert len(targets(s)) == 2, found
            by = {x["job"]: x["labels"] for x in found}
            assert by["file"]["file"] == "two.json" and by["file"]["team"] == by["url"]["team"] == "x", by
            assert by["url"]["zone"] == "a" and not any(k.startswith("__") for k in by["url"]), by
            assert s.json("/api/v1/targets")["dropped"] == 2
            # A second file; a URL that lies, after which the target that was known stays.
            with open(os.path.join(s.directory, "one.yml"), "w") as f:
                f.write(f"- targets: ['{t.address}']\n  labels: {{zone: b, __profile_path__: /error}}\n")
            t.more["sd"] = b"{]"
            until("the new one", lambda: [x["reason"] for x in targets(s, job="file", health="down")] == ["status"])
            until("the source to fail", lambda: any(
                "line 1" in x["error"] for x in s.json("/api/v1/targets")["sources"]))
            assert len(up("url")) == 1
            # What is gone is not scraped.
            t.more["sd"] = b"[]"
            os.unlink(os.path.join(s.directory, "two.json"))
            until("them to go", lambda: [x["labels"]["zone"] for x in targets(s)] == ["b"])
            # An endless list is refused; ten thousand targets are a thousand.
            t.more["sd"] = json.dumps([{"targets": [f"127.0.0.1:{1 + n}" for n in range(1, 10_001)]}]).encode()
            until("a thousand", lambda: len(targets(s, job="url")) == 1000, 60)
            assert s.json("/api/v1/targets")["left_out"] == 9000
            until("an answer", lambda: s.get("/healthz")[0] == 200)


@test
def those_who_ask_show_who_they_are():
    with Targets() as t:
        basic = "    basic_auth: {username: me, password_file: secret}\n"
        bearer = "    bearer_token_file: token\n"
        lost = "    bearer_token_file: nowhere\n"
        params = "    params: {debug: ['0']}\n"
        config = ("scrape_configs:\n" + job("basic", t, "good", basic) + job("bearer", t, "good", bearer + params)
                  + job("lost", t, "good", lost))
        with configured(config, secret="pass word\n", token="first\n") as s:
            until("all three", lambda: len(targets(s, health="up")) == 2 and targets(s, health="down"))
            sent = {(p, h.get("Authorization")) for p, h in t.headers}
            assert sent == {("/good", "Basic bWU6cGFzcyB3b3Jk"), ("/good?debug=0", "Bearer first")}, sent
            why = targets(s, job="lost")[0]
            assert why["reason"] == "access" and "cannot read the token in" in why["error"], why
            with open(os.path.join(s.directory, "token"), "w") as f:
                f.write("second\n")
            until("the new token", lambda: ("/good?debug=0", "Bearer second") in {
                (p, h.get("Authorization")) for p, h in t.headers})


@test
def https_is_verified_as_told():
    with Targets() as t, tempfile.TemporaryDirectory(prefix="smolder-tls-") as d:
        key, cert = os.path.join(d, "key.pem"), os.path.join(d, "cert.pem")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
                        "/CN=profiles.test", "-addext", "subjectAltName=DNS:profiles.test", "-keyout", key, "-out",
                        cert], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        t.server.socket = context.wrap_socket(t.server.socket, server_side=True)

        def tls(name, more):
            return job(name, t, "good", f"    scheme: https\n    tls_config: {{{more}}}\n")
        config = ("scrape_configs:\n" + tls("named", f"ca_file: {cert}, server_name: profiles.test")
                  + tls("any", "insecure_skip_verify: true") + tls("other", f"ca_file: {cert}")
                  + tls("system", "server_name: profiles.test"))
        with configured(config) as s:
            until("all", lambda: len(targets(s, health="up")) == 2 and len(targets(s, health="down")) == 2)
            assert {x["job"] for x in targets(s, health="up")} == {"named", "any"}, targets(s)
            assert all("certificate" in x["error"] for x in targets(s, health="down")), targets(s)
            assert targets(s, job="named")[0]["instance"] == t.address


@test
def a_wrong_configuration_says_where():
    for text, why in (
            ("scrape_configs:\n  - job_nam: a\n", "line 2: a job of scrape_configs has no 'job_nam'"),
            ("scrape_configs:\n  - static_configs: []\n", "line 2: a job of scrape_configs needs a job_name"),
            ("scrape_configs:\n  - job_name: a\n    scrape_interval: 1h\n",
             "line 2: the scrape_interval of the job a is not from 1s to 5m"),
            ("scrape_configs:\n  - job_name: a\n    static_configs:\n      - targets: 5\n",
             "line 4: targets takes a list"),
            ("scrape_configs:\n  - job_name: a\n    relabel_configs:\n      - {action: what}\n", "line 4: "),
            ("scrape_configs:\n  - job_name: a\n    basic_auth: {username: u}\n    bearer_token: t\n",
             "line 2: a job has either basic_auth or a bearer token"),
            ("scrape_configs: {}\n", "line 1: scrape_configs takes a list")):
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
            f.write(text)
            f.flush()
            p = smolder("serve", "--store", "/nonexistent", "--config", f.name)
            assert p.returncode == 1 and why in p.stderr, (text, p.stderr)


if __name__ == "__main__":
    main()

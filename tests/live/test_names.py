#!/usr/bin/env python3
"""Names of stripped programs: from a debuginfod, and from files that were added; whatever that server does."""
import contextlib
import http.server
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

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from always import Always, free_port, until
from server import Server, check_metrics, smolder
from tap import BUILD, SMOLDER, main, skip, test
from windows import STORED, Collector, row

os.environ.pop("DEBUGINFOD_URLS", None)
TMP = tempfile.TemporaryDirectory()
SANITIZED = os.path.join(BUILD, "san", "smolder")
SOURCE = r"""
#include <stdint.h>
volatile uint64_t sink;
static void __attribute__((noinline)) inner_work(uint64_t n) { while (n--) sink += n * n; }
static void __attribute__((noinline)) outer_work(uint64_t n) { inner_work(n); sink++; }
static void __attribute__((noinline)) other_work(uint64_t n) { while (n--) sink ^= n * SALT; }
int main(void) { for (;;) { outer_work(1000000); other_work(500000); } }
"""
FUNCTIONS = ("main", "outer_work", "inner_work", "other_work")


class Program:
    """A stripped program, and its symbols in a file of their own."""

    def __init__(self, name, salt=7, padding=0):
        self.dir = tempfile.mkdtemp(prefix=name + "-", dir=TMP.name)
        self.name, self.path = name, os.path.join(self.dir, name)
        self.debug = os.path.join(self.dir, "symbols", name + ".debug")
        os.mkdir(os.path.dirname(self.debug))
        source = self.path + ".c"
        with open(source, "w") as f:
            f.write(f"#define SALT {salt}ull\n" + SOURCE)
            f.write(f'__asm__(".section .extra,\\"\\"\\n.zero {padding}\\n.text");\n' if padding else "")
        run("gcc", "-O1", "-g", "-Wl,--build-id", "-o", self.path, source)
        os.remove(source)
        nm = run("nm", self.path).splitlines()
        self.address = {n: int(a, 16) for a, _, n in (line.split() for line in nm if line[:1] != " ")
                        if n in FUNCTIONS}
        run("objcopy", "--only-keep-debug", self.path, self.debug)
        run("strip", self.path)
        notes = run("readelf", "-n", self.path)
        self.build_id = re.search(r"Build ID: (\w+)", notes)[1]

    def unnamed(self, function):
        """As the collector stores it: by where the function begins."""
        return f"[{self.name}+{self.address[function]:#x}]@{self.name}"

    def rows(self):
        stack = [self.unnamed(f) for f in ("main", "outer_work", "inner_work")]
        return [row(stack, 30, comm=self.name),
                row([stack[0], self.unnamed("other_work")], 12, comm=self.name)]

    def post(self, server, start):
        c = Collector()
        c.files = {self.name: (self.path, self.build_id)}
        assert server.post(c.message(start, self.rows())).status == STORED


def run(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def recent(minutes_ago=0):
    return (int(time.time()) // 10 - 2 - 6 * minutes_ago) * 10000


def folded(server, program, start, kind="cpu"):
    _, body, _ = server.get("/api/v1/query", query=f'{kind}{{comm="{program.name}"}}', format="folded",
                            **{"from": start, "to": start + 10000})
    return dict(line.rsplit(" ", 1) for line in body.decode().splitlines())


NAMED = {"main;outer_work;inner_work": "30", "main;other_work": "12"}
BY_COMM = {f"stripped;{stack} {count}" for stack, count in NAMED.items()}  # as commands show it


def metrics(server):
    text = server.get("/metrics")[1].decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^smolder_(\S+) (\S+)$", text, re.M)}


def answers(server, kind):
    return metrics(server)[f'debuginfod_answers_total{{answer="{kind}"}}']


@contextlib.contextmanager
def debuginfod(*dirs):
    """Debian's server of debug files."""
    if not shutil.which("debuginfod"):
        skip("needs debuginfod (Debian: debuginfod)")
    port = free_port()
    env = {**os.environ, "HOME": TMP.name}
    env.pop("DEBUGINFOD_URLS", None)
    p = subprocess.Popen(["debuginfod", "-p", str(port), "-d", ":memory:", "-F", *dirs], env=env,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def scanned():
            assert p.poll() is None, "debuginfod has ended"
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 5) as s:
                s.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
                text = b"".join(iter(lambda: s.recv(65536), b""))
                return b'thread_work_total{role="traverse"} 1' in text and \
                    b'thread_work_pending{role="scan"} 0' in text
        until("debuginfod to have looked at its files", scanned)
        yield f"http://127.0.0.1:{port}"
    finally:
        p.kill()
        p.wait()


class Mirror:
    """A server of debug files of our own, which does to each build id what it is told."""

    def __init__(self, certificate=None):
        self.do, self.asked = {}, []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                m = re.fullmatch(r"/buildid/([0-9a-f]+)/debuginfo", self.path)
                outer.asked.append(m[1] if m else self.path)
                with contextlib.suppress(OSError):
                    outer.do.get(outer.asked[-1], Mirror.absent)(self)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if certificate:
            tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            tls.load_cert_chain(certificate)
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.stopping = threading.Event()
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http{'s' if certificate else ''}://127.0.0.1:{self.server.server_port}"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stopping.set()
        self.server.shutdown()
        self.server.server_close()

    @staticmethod
    def absent(request):
        request.send_error(404)

    @staticmethod
    def broken(request):
        request.send_error(500)

    def hang(self, request):
        self.stopping.wait(60)

    @staticmethod
    def file(path):
        def send(request):
            with open(path, "rb") as f:
                body = f.read()
            request.send_response(200)
            request.send_header("Content-Length", str(len(body)))
            request.end_headers()
            request.wfile.write(body)
        return send

    @staticmethod
    def endless(says_so):
        """Ten gigabytes, announced or not."""
        def send(request):
            request.send_response(200)
            if says_so:
                request.send_header("Content-Length", str(10 << 30))
            request.end_headers()
            for _ in range(10 << 10):
                request.wfile.write(bytes(1 << 20))
        return send


@test
def a_debuginfod_names_what_was_stored_before_it_was_asked():
    p, start = Program("stripped"), recent(30)
    with tempfile.TemporaryDirectory(dir=TMP.name) as store, \
            debuginfod(os.path.dirname(p.debug)) as url:
        with Server(store=store) as s:
            p.post(s, start)
            assert folded(s, p, start).keys() == {
                ";".join(p.unnamed(f).partition("@")[0] for f in stack)
                for stack in (("main", "outer_work", "inner_work"), ("main", "other_work"))}
            s.stop()
        with Server("--debuginfod", url, store=store) as s:
            until("names from debuginfod", lambda: folded(s, p, start) == NAMED)
            params = {"query": f'cpu{{comm="{p.name}"}}', "from": start, "to": start + 10000}
            tree = s.json("/api/v1/query", **params)
            assert {"main", "outer_work", "inner_work", "other_work"} <= set(tree["functions"]["name"]), tree
            assert tree["unnamed"] == 0 and not tree["hint"], tree
            _, packed, _ = s.get("/api/v1/query", format="pprof", **params)
            path = os.path.join(TMP.name, "cpu.pb.gz")
            with open(path, "wb") as f:
                f.write(packed)
            top = smolder("flame", path, "-f", "folded", "-o", "-", "-q").stdout
            assert {line.rsplit(" ", 1)[0] for line in top.splitlines()} == NAMED.keys(), top
            by_server = smolder("query", params["query"], "--server", s.url, "-f", "folded", "-o", "-",
                                "--from", str(start // 1000), "--to", str(start // 1000 + 10))
            assert set(by_server.stdout.splitlines()) == BY_COMM, by_server
            assert answers(s, "found") == 1 and metrics(s)["debug_files"] == 1
            check_metrics(s.get("/metrics")[1].decode())
            s.stop()
        # Without a server, and without anybody to ask.
        r = smolder("query", params["query"], "--store", store, "-f", "folded", "-o", "-",
                    "--from", str(start // 1000), "--to", str(start // 1000 + 10))
        assert set(r.stdout.splitlines()) == BY_COMM, r


@test
def each_build_id_is_asked_for_once():
    one, two, start = Program("one", 11), Program("two", 12), recent(5)
    with tempfile.TemporaryDirectory(dir=TMP.name) as store, Mirror() as m:
        m.do = {one.build_id: Mirror.file(one.debug)}
        with Server("--debuginfod", m.url, store=store) as s:
            for p in (one, two):
                p.post(s, start)
            until("both to be asked for", lambda: answers(s, "found") and answers(s, "absent"))
            for p in (one, two) * 3:
                got = folded(s, p, start)
                assert (got == NAMED) == (p is one), got
                p.post(s, start + 10000)
            t = s.json("/api/v1/query", **{"from": start, "to": start + 10000})
            assert "ask for them" not in t["hint"], t["hint"]
            s.stop()
        with Server("--debuginfod", m.url, store=store) as s:
            for p in (one, two):
                p.post(s, start + 20000)
                folded(s, p, start)
            assert metrics(s)["debuginfod_requests_total"] == 0
            assert metrics(s)["debug_files_missing"] == 1
            s.stop()
        assert sorted(m.asked) == sorted((one.build_id, two.build_id)), m.asked
        # After a day it is worth another try: somebody may have it by now.
        m.do[two.build_id] = Mirror.file(two.debug)
        mark = os.path.join(store, "symbols", two.build_id + ".missing")
        os.utime(mark, (time.time() - 90000,) * 2)
        with Server("--debuginfod", m.url, store=store) as s:
            until("the second to be named", lambda: folded(s, two, start) == NAMED)
            assert not os.path.exists(mark)


@test
def nobody_is_asked_unless_a_server_is_set():
    p = Program("alone", 13)
    with Mirror() as m:
        for args, env in (((), {}), (("--debuginfod", "no"), {"DEBUGINFOD_URLS": m.url})):
            with Server(*args, env={**os.environ, "DEBUGINFOD_URLS": "", **env}) as s:
                p.post(s, recent())
                t = s.json("/api/v1/query", **{"from": recent(2)})
                assert t["unnamed"] and "let the server ask" in t["hint"], t
                assert not os.path.exists(os.path.join(s.store, "symbols"))
        assert not m.asked, m.asked
        m.do = {p.build_id: Mirror.file(p.debug)}
        env = {**os.environ, "DEBUGINFOD_URLS": f"ftp://nowhere {m.url}/"}
        with Server(env=env) as s:
            assert "'ftp://nowhere', which is no URL that can be asked" in s.first, s.first
            start = recent()
            p.post(s, start)
            until("names by the environment's server", lambda: folded(s, p, start) == NAMED)


@test
def a_hostile_debuginfod_harms_nobody():
    good, other = Program("good", 21), Program("other", 22)
    bad = {f"{i:02x}" * 20: what for i, what in enumerate(
        ["hang", "hang", "huge", "endless", "lie", "garbage", "truncated"], 0x10)}
    cut = os.path.join(TMP.name, "cut.debug")
    with open(good.debug, "rb") as f, open(cut, "wb") as to:
        to.write(f.read()[:200])
    env = {**os.environ, "DEBUGINFOD_TIMEOUT": "4"}
    program = SANITIZED if os.path.exists(SANITIZED) else SMOLDER
    with tempfile.TemporaryDirectory(dir=TMP.name) as store, Mirror() as m:
        what = {"hang": m.hang, "huge": Mirror.endless(True), "endless": Mirror.endless(False),
                "lie": Mirror.file(other.debug), "garbage": Mirror.file(__file__),
                "truncated": Mirror.file(cut)}
        m.do = {build_id: what[kind] for build_id, kind in bad.items()}
        m.do[good.build_id] = Mirror.file(good.debug)
        with Server("--debuginfod", m.url, "--symbols-max", "64MiB", store=store, env=env,
                    program=program) as s:
            start, c = recent(), Collector()
            c.files = {name: ("/usr/bin/" + name, name) for name in bad}
            rows = [row((f"[{name}+0x1000]@{name}",), 1, comm="bad") for name in bad]
            began = time.monotonic()
            assert s.post(c.message(start, rows)).status == STORED
            good.post(s, start)
            until("the good one", lambda: folded(s, good, start) == NAMED)
            until("all answers", lambda: answers(s, "failed") >= 2 and answers(s, "wrong") >= 3
                  and answers(s, "too_large") >= 2)
            assert time.monotonic() - began < 40
            got = metrics(s)
            assert got["debuginfod_bytes_total"] < 64 << 20, got["debuginfod_bytes_total"]
            assert got["server_resident_bytes"] < (200 if program == SMOLDER else 500) << 20, got["server_resident_bytes"]
            kept = os.listdir(os.path.join(store, "symbols"))
            assert sorted(n for n in kept if not n.endswith(".missing")) == [good.build_id + ".debug"], kept
            check_metrics(s.get("/metrics")[1].decode())
            told = smolder("doctor", "--server", s.url).stdout
            for name in ("debuginfod failed", "debuginfod wrong", "files too large"):
                assert re.search(rf"warn  {name} ", told), told
            # It ends while some are still hanging.
            more = Collector()
            more.files = {"last": ("", "fe" * 20)}
            m.do["fe" * 20] = m.hang
            s.post(more.message(start, [row(("[last+0x10]@last",), 1)]))
            until("the last to be asked for", lambda: "fe" * 20 in m.asked)
            assert s.stop() == 0, s.words
            assert not re.search("Sanitizer|runtime error", s.words), s.words
            assert s.words.count("is not used, and further ones are only counted") == 1, s.words
            assert len(s.words.splitlines()) <= 3, s.words


@test
def over_tls_only_a_server_that_is_trusted_is_believed():
    p, start = Program("secret", 71), recent()
    certificate = os.path.join(TMP.name, "debuginfod.pem")
    try:
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1",
            "-keyout", certificate + ".key", "-out", certificate)
    except FileNotFoundError:
        skip("no openssl")
    with open(certificate + ".key") as key, open(certificate + ".both", "w") as both, \
            open(certificate) as public:
        both.write(key.read() + public.read())
    with Mirror(certificate + ".both") as m:
        m.do = {p.build_id: Mirror.file(p.debug)}
        with Server("--debuginfod", m.url) as s:
            p.post(s, start)
            until("it to fail", lambda: answers(s, "failed"))
            assert not m.asked and folded(s, p, start) != NAMED
        with Server("--debuginfod", m.url, "--ca-file", certificate) as s:
            p.post(s, start)
            until("names", lambda: folded(s, p, start) == NAMED)


@test
def a_debuginfod_that_is_down_rests_and_the_next_one_is_asked():
    p, q = Program("first", 31), [f"{i:02x}" * 20 for i in range(0x30, 0x40)]
    down = f"http://127.0.0.1:{free_port()}"
    with Mirror() as m, Server("--debuginfod", down, "--debuginfod", m.url) as s:
        m.do = {p.build_id: Mirror.file(p.debug)}
        start, c = recent(), Collector()
        c.files = {name: ("", name) for name in q}
        s.post(c.message(start, [row((f"[{name}+0x10]@{name}",), 1) for name in q]))
        p.post(s, start)
        until("the name from the second", lambda: folded(s, p, start) == NAMED)
        until("the rest to be asked for", lambda: len(m.asked) == len(q) + 1)
        got = metrics(s)
        assert got["debuginfod_resting"] == 1, got
        assert 3 <= answers(s, "failed") <= 6, answers(s, "failed")  # four are asked at once
        s.stop()
        assert s.words.count(f"the debuginfod server {down} gives no debug files") == 1, s.words


@test
def the_least_recently_used_files_make_room():
    programs = [Program(f"sized{i}", 40 + i, 150000) for i in range(8)]
    dead = subprocess.Popen(["true"])
    dead.wait()
    with tempfile.TemporaryDirectory(dir=TMP.name) as store, Mirror() as m:
        m.do = {p.build_id: Mirror.file(p.debug) for p in programs}
        os.mkdir(os.path.join(store, "symbols"))
        for pid in (dead.pid, os.getpid()):  # a server that was killed, and one that is at it
            open(os.path.join(store, "symbols", f"{pid}-0.part"), "w").close()
        with Server("--debuginfod", m.url, "--symbols-max", "1MiB", store=store) as s:
            for i, p in enumerate(programs):
                start = recent()
                p.post(s, start)
                until(p.name, lambda: folded(s, p, start) == NAMED)
                path = os.path.join(store, "symbols", p.build_id + ".debug")
                os.utime(path, (time.time() - 7000 + i,) * 2)
                time.sleep(1.1)
            got = metrics(s)
            assert got["debug_files_bytes"] <= 1 << 20, got
            assert got["debug_files_removed_total"] >= 2, got
            kept = {n.split(".")[0] for n in os.listdir(os.path.join(store, "symbols"))
                    if n.endswith(".debug")}
            assert kept == {p.build_id for p in programs[-len(kept):]}, kept
            parts = [n for n in os.listdir(os.path.join(store, "symbols")) if n.endswith(".part")]
            assert parts == [f"{os.getpid()}-0.part"], parts
            assert len(m.asked) == len(programs), m.asked
            # What made room is not asked for again at once: that would go round in circles.
            assert folded(s, programs[0], start) != NAMED
            assert len(m.asked) == len(programs), m.asked


@test
def files_that_are_added_name_what_a_running_server_shows():
    p, other, start = Program("mine", 51), Program("theirs", 52), recent(3)
    with Server() as s:
        p.post(s, start)
        assert folded(s, p, start) != NAMED
        r = smolder("symbols", "list", "--store", s.store)
        assert r.returncode == 0 and len(r.stdout.splitlines()) == 1, r
        r = smolder("symbols", "add", "--store", s.store, ".", other.debug, cwd=p.dir)
        assert r.returncode == 0 and "added 2 debug files" in r.stderr, r
        until("names", lambda: folded(s, p, start) == NAMED)
        r = smolder("symbols", "list", "--store", s.store)
        assert re.search(rf"^added +\d+ .* {p.build_id}$", r.stdout, re.M), r
        owner = os.stat(s.store)
        for name in os.listdir(os.path.join(s.store, "symbols")):
            st = os.stat(os.path.join(s.store, "symbols", name))
            assert (st.st_uid, st.st_gid, st.st_mode & 0o137) == (owner.st_uid, owner.st_gid, 0), name
        r = smolder("symbols", "remove", "--store", s.store, p.build_id)
        assert r.returncode == 0, r
        until("no names", lambda: folded(s, p, start) != NAMED)
        for args, why in ((("add", __file__), "not an ELF file with a symbol table"),
                          (("add", p.path), "not an ELF file with a symbol table"),
                          (("add", "/nowhere"), "No such file"),
                          (("add", "--symbols-max", "1MiB", SMOLDER), "larger than a quarter"),
                          (("add",), "name the files"), (("take",), "add, list or remove"),
                          (("remove", "ff" * 20), "has no such file"),
                          (("remove", "../x"), "no build id"),
                          (("list", "--store", "/nowhere"), "no store at /nowhere")):
            r = smolder("symbols", args[0], "--store", s.store, *args[1:])
            assert r.returncode and why in r.stderr, (args, r)


@test
def a_stripped_program_has_names_within_a_minute():
    if os.geteuid() != 0:
        skip("needs root")
    p, other = Program("stripped", 61), Program("added", 62)
    with tempfile.TemporaryDirectory() as d, debuginfod(os.path.dirname(p.debug)) as url:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        # What root's own server and commands have made is handed over with the store.
        os.mkdir(store)
        with Server(store=store):
            assert smolder("symbols", "add", "--store", store, other.debug).returncode == 0
        always = Always(store, "--debuginfod", url)
        try:
            always.ready()
            began = time.monotonic()
            busy = subprocess.Popen([p.path])
            try:
                def named():
                    text = always.get(f"/api/v1/query?query={p.name}&format=folded").decode()
                    return "main;outer_work;inner_work" in text
                until("names", named, 60)
                took = time.monotonic() - began
            finally:
                busy.kill()
                busy.wait()
            assert took < 60, took
            print(f"# named after {took:.0f} s")
            # What was stored first, before anybody was asked, has names as well: every window has.
            text = always.get(f"/api/v1/query?query={p.name}&format=folded&from=now-10m").decode()
            lines = [line for line in text.splitlines() if p.name in line or "main" in line]
            assert lines and not [line for line in lines if f"[{p.name}+0x" in line], text
            kept = os.path.join(store, "symbols")
            assert {p.build_id + ".debug", other.build_id + ".added"} <= set(os.listdir(kept))
            owner = os.stat(store).st_uid
            assert owner and all(os.stat(os.path.join(kept, n)).st_uid == owner for n in os.listdir(kept))
        finally:
            always.stop()


main()

#!/usr/bin/env python3
"""`smolder changes` and `smolder explain` on stores whose truth is known: windows made here, stored by a
server, asked of the server and of the store itself."""
import http.server
import json
import os
import random
import re
import shlex
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from always import until  # noqa: E402
from server import Server, smolder  # noqa: E402
from tap import main, test  # noqa: E402
from windows import PERIOD, STORED, WINDOW_MS, Collector, row  # noqa: E402

WINDOWS = 60  # on each side
HZ = 99


class Machine:
    """Some programs that run for a while: {name: {function: samples a window}}."""

    def __init__(self, server, seed=1):
        self.server, self.random = server, random.Random(seed)
        self.collector = Collector()
        self.build = {}  # of a program: its file's build id
        self.labels = {}  # of a program: more of them

    def samples(self, mean):
        return max(0, round(self.random.gauss(mean, mean ** 0.5 + 0.05 * mean)))

    def run(self, start_ms, programs, windows=WINDOWS):
        c = self.collector
        for name in programs:
            c.files[name] = (f"/usr/bin/{name}", self.build.get(name, 20 * "ab"))
        c.reset()
        for w in range(windows):
            load = self.random.uniform(0.8, 1.2)
            rows = [row((f"_start@{name}", f"main@{name}", f"{f}@{name}"), n, comm=name,
                        exe=f"/usr/bin/{name}", pid=str(100 + len(name)), **self.labels.get(name, {}))
                    for name, functions in programs.items() for f, mean in functions.items()
                    if (n := self.samples(mean * load))]
            assert self.server.post(c.message(start_ms + w * WINDOW_MS, rows)).status == STORED
        return start_ms + windows * WINDOW_MS


API = {"parse": 60, "route": 40, "format": 80, "write": 30, "log": 25, "read": 70, "hash": 15}
DB = {"scan": 100, "sort": 60, "lock": 20, "fetch": 30, "plan": 12}


def now_ms():
    return int(time.time() * 1000) // WINDOW_MS * WINDOW_MS


def changed(*args):
    p = smolder("changes", *args)
    assert p.returncode == 0, p.stderr
    return p.stdout


def times(**ms):
    return [x for k, v in ms.items() for x in ("--" + k.replace("_", "-"), str(v))]


@test
def a_slower_function_is_first_and_alone():
    with Server() as s:
        m = Machine(s)
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        middle = m.run(start, {"api": API, "db": DB})
        end = m.run(middle, {"api": {**API, "format": 80 * 1.2}, "db": DB})
        ranges = times(from_=middle, to=end, base_from=start, base_to=middle)
        ranges[0] = "--from"
        by_server = changed("--json", "--server", s.url, *ranges)
        got = json.loads(by_server)
        (c,) = got["comparisons"]
        assert c["compared"] and c["blocks"] == WINDOWS and c["base_blocks"] == WINDOWS, c
        assert [f["function"] for f in c["functions"]] == ["format"], c["functions"]
        f = c["functions"][0]
        assert f["process"] == "api" and f["of"] == "self" and f["module"] == "api", f
        assert f["path"] == ["_start", "main", "format"], f
        assert 0.12 < f["change"] < 0.28, f
        # 16 samples of 1/99 s a window: so many seconds a day.
        assert 0.6 < f["cpu_seconds_a_day"] / (16 / HZ * 8640) < 1.4, f
        assert f"t={middle}-{end}&base={start}-{middle}" in f["link"], f
        assert all(p["process"] == "api" for p in c["processes"]), c["processes"]
        assert got["versions"] == [], got["versions"]
        # The store says the same without a server.
        assert json.loads(changed("--json", "--store", s.store, *ranges)) == got
        text = changed("--store", s.store, *ranges)
        assert "format  (api, api)" in text and "_start > main > format" in text, text
        assert "smolder diff 'cpu{comm=\"api\"}' --store " in text, text
        # Those who select another program hear nothing of it.
        assert "Nothing changed" in changed("db", "--store", s.store, *ranges)


@test
def without_a_change_nothing_is_listed():
    with Server() as s:
        m = Machine(s, 7)
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        middle = m.run(start, {"api": API, "db": DB})
        end = m.run(middle, {"api": API, "db": DB})
        text = changed("--server", s.url, "--from", str(middle), "--to", str(end))
        assert "Nothing changed by more than chance" in text, text
        # Too little is not compared, and that is said.
        text = changed("--server", s.url, "--from", str(end - 30000), "--to", str(end))
        assert "Too little is recorded" in text, text


@test
def a_new_version_is_noticed_by_itself():
    with Server() as s:
        m = Machine(s, 3)
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        m.build = {"api": 20 * "11", "db": 20 * "dd"}
        middle = m.run(start, {"api": API, "db": DB})
        m.build["api"] = 20 * "22"
        m.run(middle, {"api": {**API, "parse": 60 * 1.4}, "db": DB})
        got = json.loads(changed("--json", "--server", s.url))
        (v,) = got["versions"]
        assert (v["process"], v["exe"]) == ("api", "/usr/bin/api"), v
        assert (v["base_build_id"], v["build_id"]) == (20 * "11", 20 * "22"), v
        assert v["at"] == middle and v["sure"] == WINDOW_MS, (v, middle)
        of = [c for c in got["comparisons"] if "version before of api" in c["against"]]
        assert len(of) == 1 and of[0]["query"] == 'cpu{comm="api"}', got["comparisons"]
        assert of[0]["functions"][0]["function"] == "parse", of[0]
        text = changed("--server", s.url)
        assert "build 222222222222 instead of 111111111111" in text, text
        # The command that it suggests says the same.
        at = json.loads(changed("api", "--json", "--server", s.url, "--at", str(middle)))
        assert [f["function"] for f in at["comparisons"][0]["functions"]] == ["parse"], at


@test
def an_image_with_another_tag_is_a_new_version_and_a_container_started_again_is_none():
    with Server() as s:
        m = Machine(s, 6)
        at = now_ms() - 3 * 35 * WINDOW_MS
        # Programs in an interpreter, whose file stays the same; `db` says no more than its build id.
        for web, container in ("1.4.0", "a1"), ("1.4.0", "b2"), ("1.5.0-rc1", "c3"):
            m.labels = {"web": {"version": web, "container_id": 6 * container, "container": "web"},
                        "db": {"version": 6 * "ab"}}
            moment, at = at, m.run(at, {"web": API, "db": DB}, 35)
        (v,) = json.loads(changed("--json", "--server", s.url))["versions"]
        assert (v["process"], v["at"]) == ("web", moment), (v, moment)
        assert (v["base_version"], v["version"]) == ("1.4.0", "1.5.0-rc1"), v
        assert (v["base_build_id"], v["build_id"]) == ("", ""), v
        assert ", version 1.5.0-rc1 instead of 1.4.0" in changed("--server", s.url)


@test
def two_builds_side_by_side_are_no_new_version():
    # Wherever they are in the store's five minutes, which are packed after a while.
    for earlier_s in range(0, 300, 60):
        with Server() as s:
            start = now_ms() - 40 * WINDOW_MS - earlier_s * 1000
            a, b = Machine(s, 4), Machine(s, 5)
            a.build, b.build = {"api": 20 * "11"}, {"api": 20 * "22"}
            a.run(start, {"api": API}, 40)
            b.run(start + 20 * WINDOW_MS, {"api": API}, 20)
            assert json.loads(changed("--json", "--server", s.url))["versions"] == [], earlier_s


def costlier(server):
    """What a server that was just started finds by itself; its first look is ten seconds after that."""
    server.stop()
    server.start()
    looked = time.monotonic() + 25

    def found():
        findings = server.json("/api/v1/findings", **{"from": "now-2h"})["findings"]
        return [f for f in findings if f["kind"] == "costlier-version"] or time.monotonic() > looked
    return until("a look at new versions", found)


@test
def a_new_version_that_costs_more_is_a_finding():
    with Server() as s:
        m = Machine(s, 11)
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        m.build = {"api": 20 * "11", "db": 20 * "dd", "job": 20 * "aa"}
        middle = m.run(start, {"api": API, "db": DB, "job": {"work": 40, "rest": 40}})
        # One that needs more for the same work, one that needs no more, and one that is no new version.
        m.build["api"], m.build["db"] = 20 * "22", 20 * "ee"
        m.run(middle, {"api": {**API, "parse": 60 * 2.5}, "db": DB, "job": {"work": 80, "rest": 80}})
        (f,) = costlier(s)
        assert f["comm"] == "api" and f["began"] == middle and f["active"], f
        assert re.match(r"api takes \d\d % more CPU since its new version: 0\.\d\d CPUs instead of 0\.\d\d "
                        r"\(build 222222222222 instead of 111111111111\); parse takes more for the same work\.$",
                        f["headline"]), f
        assert f["sure"] == 0.95 and f["stack"] == "_start;main;parse", f
        assert abs(f["facts"]["cpus"] / f["facts"]["cpus_before"] - (320 + 90) / 320) < 0.1, f
        text = changed(*shlex.split(f["next"])[2:], "--server", s.url)
        assert "parse" in text, text
        # Whoever is restarted finds the same, and not one more.
        again = costlier(s)
        assert [x["began"] for x in again] == [middle], again


@test
def a_new_version_that_has_as_much_to_do_as_yesterday_is_none():
    with Server() as s:
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        busy = {name: 1.5 * n for name, n in API.items()}
        m = Machine(s, 12)
        m.build = {"api": 20 * "11"}
        middle = m.run(start - 86400_000, {"api": API}) + 86400_000
        m.run(middle - 86400_000, {"api": busy})
        m.run(start, {"api": API})
        m.build = {"api": 20 * "22"}
        m.run(middle, {"api": busy})
        versions = json.loads(changed("--json", "--server", s.url, "--at", str(middle)))["versions"]
        assert len(versions) == 1, "it is a new version, and was looked at"
        assert costlier(s) is True
        # Without a yesterday nobody can know.
    with Server() as s:
        m = Machine(s, 12)
        m.build = {"api": 20 * "11"}
        m.run(start, {"api": API})
        m.build = {"api": 20 * "22"}
        m.run(middle, {"api": busy})
        (f,) = costlier(s)
        assert f["sure"] == 0.6 and "more to do" in f["means"], f


@test
def a_program_is_explained_on_a_page():
    with Server() as s:
        m = Machine(s, 8)
        start = now_ms() - 2 * WINDOWS * WINDOW_MS
        middle = m.run(start, {"api": API, "db": DB})
        end = m.run(middle, {"api": {**API, "format": 80 * 1.5}, "db": DB})
        # Of the second half it is known what its threads waited for, too.
        for w in range(WINDOWS):
            c, at = m.collector, middle + w * WINDOW_MS
            waits = [row(("_start@api", "main@api", "lock@api"), 5, 2 * 10 ** 9, comm="api", pid="103",
                         state="blocked", reason="lock"),
                     row(("_start@api", "main@api", "poll@api"), 5, 6 * 10 ** 9, comm="api", pid="103",
                         state="idle", reason="poll")]
            ran = [row((), 1, 2 * 10 ** 9, comm="api", pid="103")]
            for kind, rows in (("offcpu", waits), ("oncpu", ran)):
                assert s.post(c.message(at, rows, kind=kind, period=0)).status == STORED
        ask = ["api", "--from", str(middle), "--to", str(end)]
        p = smolder("explain", "--json", "--server", s.url, *ask)
        assert p.returncode == 0, p.stderr
        e = json.loads(p.stdout)
        assert abs(e["cpus"] - sum({**API, "format": 120}.values()) / 990) < 0.05 * e["cpus"], e
        everything = sum({**API, "format": 120}.values()) + sum(DB.values())
        assert abs(e["share_of_machine"] - e["cpus"] * 990 / everything) < 0.03, e
        assert e["functions"][0]["function"] == "format", e["functions"]
        assert e["paths"][0]["path"] == ["_start", "main", "format"], e["paths"]
        assert e["processes"][0]["exe"] == "/usr/bin/api", e["processes"]
        parts = {x["part"]: x["share"] for x in e["wall"]["parts"]}
        assert abs(parts["[blocked: lock]"] - 0.2) < 0.01 and abs(parts["[idle]"] - 0.6) < 0.01, parts
        assert e["wall"]["waits"][0]["path"][-1] == "lock", e["wall"]["waits"]
        assert e["changes"]["comparisons"][0]["functions"][0]["function"] == "format", e["changes"]
        assert e["findings"] == [] and e["system_calls"] is None
        assert any("only of the time that is now" in u for u in e["unknown"]), e["unknown"]
        assert e["process_count"] == 1 and e["wall"]["waits"][0]["part"] == "[blocked: lock]", e
        assert json.loads(smolder("explain", "--json", "--store", s.store, *ask).stdout) == e
        page = smolder("explain", "--server", s.url, *ask).stdout
        for word in ("It took 0.", "Processes", "[blocked: lock]", "What changed", "not known",
                     "_start > main > format"):
            assert word in page, (word, page)
        # Of the first half it is not, which is said; so of a process by its number.
        page = smolder("explain", "103", "--server", s.url, "--from", str(start), "--to",
                       str(middle)).stdout
        assert "what it waited for is not recorded: 'smolder run --offcpu yes'" in page, page
        # Whoever has that number now is another process.
        e = json.loads(smolder("explain", "--json", "api", "--server", s.url, "--from", str(start)).stdout)
        assert e["system_calls"] is None, e
        assert any("none of its processes runs on this machine now" in u for u in e["unknown"]), e["unknown"]
        p = smolder("explain", "4711", "--server", s.url)
        assert p.returncode == 1 and "nothing matches" in p.stderr, p.stderr
        for args in ((), ("a", "b"), ("offcpu{}",)):
            assert smolder("explain", "--server", s.url, *args).returncode == 2, args


@test
def processes_by_one_name_are_told_apart():
    """Each path says of whom it is; waits end at the program's own last function, where there is one."""
    with Server() as s:
        c, at = Collector(), now_ms() - 2 * WINDOW_MS
        lock = ("main@web", "lock@libc.so.6", "[k]do_syscall_64", "[k]futex_wait")
        def waits(pid, seconds, stack):
            return row(stack, 1, seconds * 10 ** 9, comm="web", pid=str(pid), host="w1", state="blocked", reason="lock")
        ran = [row(("main@web", "work@web"), n, comm="web", pid=str(pid), host="w1") for pid, n in ((11, 50), (12, 150))]
        off = [waits(11, 6, lock), waits(11, 2, (*lock, "[k]schedule")), waits(12, 2, lock),
               waits(13, 1, ("[k]kthread", "[k]rest"))]
        on = [row((), 1, r["value"], **dict(r["labels"])) for r in ran]
        for kind, rows, period in (("cpu", ran, PERIOD), ("offcpu", off, 0), ("oncpu", on, 0)):
            assert s.post(c.message(at, rows, kind=kind, period=period)).status == STORED
        ask = ["web", "--server", s.url, "--from", str(at), "--to", str(at + WINDOW_MS)]
        e = json.loads(smolder("explain", "--json", *ask).stdout)
        assert e["process_count"] == 2, e["processes"]
        (work,) = e["paths"]
        assert (work["path"], work["process_count"], work["process"]) == (["main", "work"], 2, "web (12)"), work
        assert abs(work["process_share"] - 0.75) < 0.01, work
        first, second = e["wall"]["waits"]
        assert (first["part"], first["path"]) == ("[blocked: lock]", ["main", "lock"]), first
        assert abs(first["share"] - 10 / (11 + 200 * PERIOD / 1e9)) < 0.01, first
        assert (first["process_count"], first["process"]) == (2, "web (11)"), first
        assert abs(first["process_share"] - 0.8) < 0.01, first
        assert (second["path"], second["process"], second["process_count"]) == (["kthread", "rest"], "web (13)", 1), second
        page = smolder("explain", *ask).stdout
        for words in ("These are 2 processes", "in 2 processes, 80 % of it in web (11)", "smolder explain 12 --server", "in web (13)",
                      "[blocked: lock] main > lock\n"):
            assert words in page, (words, page)


class Liar(http.server.BaseHTTPRequestHandler):
    """A server whose answers hold what no terminal should get."""

    def do_GET(self):
        evil = "\x1b]0;owned\x07\u202e"
        one = {"process": evil, "function": evil, "module": evil, "path": [evil, evil], "change": 0.2,
               "share": 1, "base_share": 1, "cpu_seconds_a_day": 1, "link": evil, "query": evil}
        body = json.dumps({"comparisons": [{"against": evil, "query": evil, "compared": True, "samples": 1,
                                            "functions": [one, 7, None], "processes": [one]}],
                           "versions": [{"process": evil, "exe": evil, "build_id": evil}, []]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@test
def what_a_server_says_is_cleaned():
    with http.server.HTTPServer(("127.0.0.1", 0), Liar) as s:
        threading.Thread(target=s.serve_forever, daemon=True).start()
        p = smolder("changes", "--server", f"http://127.0.0.1:{s.server_port}")
        s.shutdown()
    assert p.returncode == 0 and "owned" in p.stdout, (p.returncode, p.stderr)
    assert not set(p.stdout) & set("\x1b\x07\u202e"), ascii(p.stdout)


@test
def wrong_questions_are_answered():
    with Server() as s:
        p = smolder("changes", "--server", s.url)
        assert p.returncode == 1 and "nothing is stored" in p.stderr, p.stderr
        for args, word in ((("--at", "14:02", "--from", "1h"), "--at excludes"),
                           (("--at", "now+1h"), "not in the past"),
                           (("cpu{",), ""), (("a", "b"), "only one selector"),
                           (("--from", "nonsense"), "nonsense")):
            p = smolder("changes", "--server", s.url, *args)
            assert p.returncode == 2 and word in p.stderr, (args, p.stderr)
        for query in ("at=1&from=1h", "query=cpu%7B", "from=nonsense", "base_from=1h", "at=now%2B1h"):
            assert s.request("GET", "/api/v1/changes?" + query)[0] == 400, query
        Machine(s).run(now_ms() - 60000, {"api": API}, 5)
        status, body, _ = s.get("/api/v1/changes", query="wall{}")
        assert status == 400 and b"wall is computed" in body, body


main()

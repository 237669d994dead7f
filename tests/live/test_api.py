#!/usr/bin/env python3
"""The HTTP API: every example of docs/api.md, sums against sums made here, and what is refused."""
import json
import os
import re
import socket
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import debian  # noqa: E402
from server import Server, check_metrics, smolder  # noqa: E402
from tap import ROOT, main, test  # noqa: E402
from windows import (KNOWN, PERIOD, REFUSED, RESET, STORED, Collector, Reply, Sums,  # noqa: E402
                     row)

EXAMPLE_MS = 1794729560000  # when the windows of docs/api.md begin


def recent(windows=6):
    """The start of a window that is over, some windows ago."""
    return int(time.time() * 1000) // 10000 * 10000 - windows * 10000


def fill(server, sums, start, windows=4):
    """A few windows of two collectors, with sample times."""
    one, two = Collector(), Collector()
    for w in range(windows):
        at = start + w * 10000
        rows = sums.add(at, [
            row(("main@app", "work@app", "[k]read@[kernel]"), 3 + w, comm="nginx", pid="1",
                times=[5 * i + w for i in range(3 + w)]),
            row(("main@app", "rest@app"), 2, comm="nginx", pid="2", times=[100, 200]),
            row(("main@api", 'q"uote<&>;ä'), 1, comm="api", times=[499])])
        assert server.post(one.message(at, rows)).status == STORED
        rows = sums.add(at, [row(("main@db", f"query{w}@db"), 7, comm="db", unit="db.service",
                                 times=list(range(0, 70, 10)))])
        assert server.post(two.message(at, rows, metrics=[
            ("uptime_seconds", 100.0), ('cpu_seconds_total{process="collector"}', 0.2),
            ('resident_bytes{process="collector"}', 1e6), ("bad name\n1", 3.0)])).status == STORED
    return one, two


def folded(text):
    out = {}
    for line in text.decode().splitlines():
        stack, count = line.rsplit(" ", 1)
        out[stack] = int(count)
    return out


def of_tree(t, base=""):
    """Folded stacks of a tree's self, and a check of its sums."""
    n, names, path, out = t["nodes"], t["functions"]["name"], [], {}
    children = [0] * len(n["depth"])
    stack = []
    for i, depth in enumerate(n["depth"]):
        del stack[depth:]
        if stack:
            children[stack[-1]] += n[base + "total"][i]
        stack.append(i)
        del path[max(depth - 1, 0):]
        if depth:
            path.append(names[n["function"][i]])
        if n[base + "self"][i]:
            out[";".join(path)] = out.get(";".join(path), 0) + n[base + "self"][i]
    for i, total in enumerate(n[base + "total"]):
        assert total == n[base + "self"][i] + children[i], i
    return out


def shift(text, by_ms):
    """Moves the example's times: those of 13 digits in ms, those of 10 in s."""
    text = re.sub(r"\b17947\d{8}\b", lambda m: str(int(m[0]) + by_ms), text)
    return re.sub(r"\b17947\d{5}\b", lambda m: str(int(m[0]) + by_ms // 1000), text)


@test
def the_examples_of_the_document_are_true():
    with open(os.path.join(ROOT, "docs/api.md"), encoding="utf-8") as f:
        blocks = re.findall(r"^```console\n(.*?)^```", f.read(), re.M | re.S)
    start, c, ran = recent(), Collector(), 0
    with Server() as s:
        assert s.post(c.message(start, [
            row(("main@nginx", "work@nginx", "[k]read@[kernel]"), 3, comm="nginx", pid="1"),
            row(("main@nginx", "work@nginx"), 1, comm="nginx", pid="1")])).status == STORED
        assert s.post(c.message(start + 10000, [row(("main@api",), 2, comm="api")])).status == STORED
        for block in blocks:
            for command, wanted in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", block, re.M):
                command = shift(command, start - EXAMPLE_MS).replace(
                    "localhost:7117", f"{s.host}:{s.port}")
                got = subprocess.run(["sh", "-c", command], capture_output=True, text=True,
                                     timeout=30).stdout
                wanted = shift(wanted, start - EXAMPLE_MS)
                if wanted.startswith("{"):
                    assert json.loads(got) == json.loads(wanted), f"{command}:\n{got}"
                else:
                    assert got.startswith(wanted), f"{command}:\n{got}"
                ran += 1
    assert ran >= 6, ran


@test
def sums_are_exact_for_every_selector():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        for query, wanted in (
                ("cpu", lambda v: True),
                ('cpu{comm="nginx"}', lambda v: v.get("comm") == "nginx"),
                ('cpu{comm!="nginx"}', lambda v: v.get("comm") != "nginx"),
                ('cpu{comm=~"n.*|db"}', lambda v: v.get("comm") in ("nginx", "db")),
                ('cpu{comm!~"n.*",unit=""}', lambda v: v.get("comm") == "api"),
                ('{pid="2"}', lambda v: v.get("pid") == "2"),
                ('cpu{comm="nobody"}', lambda v: False)):
            for first, last in ((0, 4), (1, 3), (3, 4)):
                rows = sums.of(start + first * 10000, start + last * 10000, wanted)
                params = {"query": query, "from": start + first * 10000,
                          "to": start + last * 10000}
                t = s.json("/api/v1/query", **params)
                want = Sums.folded(rows)
                assert of_tree(t) == want, (query, first, last, of_tree(t), want)
                assert t["samples"] == sum(r["count"] for r in rows), t["samples"]
                assert (t["from"], t["to"]) == (params["from"], params["to"])
                _, text, headers = s.get("/api/v1/query", format="folded", by="comm", **params)
                want = {k.replace(";ä", ":ä"): v
                        for k, v in Sums.folded(rows, "comm", "count").items()}
                assert folded(text) == want, (query, folded(text), want)
                assert headers["X-Smolder-Samples"] == str(t["samples"])


@test
def the_hint_names_the_package_that_has_the_names():
    path, build_id = debian.dash()
    with Server() as s:
        for wrong in (False, True):
            c, start = Collector(), recent(20) + 60000 * wrong
            c.files = {"dash": (path, "00" * 20 if wrong else build_id)}
            rows = [row(("main@dash", "[dash+0x1234]@dash"), 5, comm="dash")]
            assert s.post(c.message(start, rows)).status == STORED
            t = s.json("/api/v1/query", **{"from": start, "to": start + 10000})
            assert t["unnamed"] == 5, t
            # A file that is not the one that was sampled says nothing of its package.
            want = (f"most unnamed frames are in {path}; put its debug file at "
                    f"/usr/lib/debug/.build-id/00/{'00' * 19}.debug" if wrong else
                    "most unnamed frames are in dash; install the package dash-dbgsym for its symbols")
            assert t["hint"] == want + ", or let the server ask for them: --debuginfod URL", t["hint"]


@test
def a_cap_of_nodes_keeps_sums():
    sums, start = Sums(), recent()
    with Server() as s:
        c = Collector()
        rows = sums.add(start, [row(("main", f"f{i}", f"g{i}"), i + 1, comm="x")
                                for i in range(300)])
        assert s.post(c.message(start, rows)).status == STORED
        t = s.json("/api/v1/query", max_nodes=20)
        assert t["total"] == sum(r["value"] for r in rows) == t["nodes"]["total"][0]
        assert t["functions"]["name"][t["other"]] == "(other)" and t["pruned"] > 500
        assert len(t["nodes"]["total"]) < 60 and sum(of_tree(t).values()) == t["total"]
        assert len(s.json("/api/v1/query")["nodes"]["total"]) == 602


def functions_of(rows):
    """{name: [self, total]} of rows, each function once a stack."""
    out = {}
    for r in rows:
        for name in {f[0] for f in r["stack"]}:
            out.setdefault(name, [0, 0])[1] += r["value"]
        out[r["stack"][-1][0]][0] += r["value"]
    return out


def functions_in(t, base=""):
    f = t["functions"]
    return {name: [f[base + "self"][i], f[base + "total"][i]] for i, name in enumerate(f["name"])
            if i and (f[base + "self"][i] or f[base + "total"][i])}


@test
def functions_are_summed_over_what_was_left_out():
    sums, start = Sums(), recent()

    def rows_of(window):
        out = []
        for i in range(400):
            deep = ("main", f"f{i % 40}", f"g{i}", f"f{(i + 1) % 40}", f"g{i}", f"f{i % 3}")
            out.append(row(deep[:3 + i % 4], 1 + (i * 7 + window * 31) % 50, comm="x"))
        return out

    with Server() as s:
        c = Collector()
        for w in range(4):
            at = start + w * 10000
            assert s.post(c.message(at, sums.add(at, rows_of(w)))).status == STORED
        two = {"from": start + 20000, "to": start + 40000}
        rows, before = sums.of(two["from"], two["to"]), sums.of(start, start + 20000)
        want, want_base = functions_of(rows), functions_of(before)
        assert len(want) == 441, len(want)
        for nodes in (1, 30, 300, 20000):
            t = s.json("/api/v1/query", max_nodes=nodes, **two)
            assert (t["pruned"] > 0) == (nodes < 20000)
            assert functions_in(t) == want, nodes
            assert sum(t["functions"]["self"]) == t["total"] and t["unlisted"] == 0
            d = s.json("/api/v1/diff", max_nodes=nodes, **two)
            assert functions_in(d) == want and functions_in(d, "base_") == want_base, nodes
            assert sum(d["functions"]["base_self"]) == d["base"]["total"]

        # The largest, and the rest as one function.
        t = s.json("/api/v1/query", max_nodes=30, max_functions=100, **two)
        got = functions_in(t)
        other = got.pop("(other)")
        assert len(got) == 100 and t["unlisted"] == 341, (len(got), t["unlisted"])
        assert all(want[name] == n for name, n in got.items())
        assert other[0] == t["total"] - sum(n for n, _ in got.values())
        assert other[1] == sum(r["value"] for r in rows
                               if any(f[0] not in got for f in r["stack"]))
        least = min(n for n, _ in sorted(got.values(), reverse=True)[:35])
        assert all(n <= least for name, (n, _) in want.items() if name not in got)
        assert s.json("/api/v1/query", 400, max_functions=0)["error"]

        # A table of text has all of it, too, whatever the cap.
        _, text, _ = s.get("/api/v1/query", format="top", max_nodes=5, **two)
        _, whole, _ = s.get("/api/v1/query", format="top", **two)
        assert text == whole


@test
def a_function_has_the_line_that_it_was_seen_in_most():
    start = recent()
    with Server() as s:
        c = Collector()
        assert s.post(c.message(start, [
            row(("main@app /src/main.c:10", "work@app /src/work.c:7"), 3, comm="a"),
            row(("main@app /src/main.c:12", "work@app /src/work.c:8"), 2, comm="a"),
            row(("main@app /src/main.c:12", "work@app /src/work.c:9"), 2, comm="a"),
            row(("main@app /src/main.c:12", "[k]read@[kernel]"), 1, comm="a")])).status == STORED
        assert s.post(c.message(start + 10000, [row(("main@b",), 9, comm="b")])).status == STORED
        t = s.json("/api/v1/query")
        f = t["functions"]
        at = {(name, t["modules"][f["module"][i]]): (t["sources"][f["source"][i]], f["line"][i])
              for i, name in enumerate(f["name"])}
        assert at == {("", ""): ("", 0), ("main", "app"): ("/src/main.c", 12),
                      ("main", "b"): ("", 0), ("read", "[kernel]"): ("", 0),
                      ("work", "app"): ("/src/work.c", 7)}, at
        assert t["sources"] == ["", "/src/main.c", "/src/work.c"], t["sources"]
        t = s.json("/api/v1/query", query='cpu{comm="b"}')
        assert "sources" not in t and not {"source", "line"} & set(t["functions"]), t


@test
def differences_have_both_sides():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        t = s.json("/api/v1/diff", query="cpu", **{"from": start + 20000, "to": start + 40000})
        assert of_tree(t) == Sums.folded(sums.of(start + 20000, start + 40000))
        assert of_tree(t, "base_") == Sums.folded(sums.of(start, start + 20000))
        assert (t["base"]["from"], t["base"]["to"]) == (start, start + 20000)
        t = s.json("/api/v1/diff", query='cpu{comm="nginx"}', base_query='cpu{comm="db"}',
                   **{"from": start, "to": start + 40000})
        assert of_tree(t, "base_") == Sums.folded(
            sums.of(start, start + 40000, lambda v: v["comm"] == "db"))
        assert t["base"]["total"] == t["nodes"]["base_total"][0]
        t = s.json("/api/v1/diff", query='cpu{comm="nginx"}', base_query='cpu{comm="db"}',
                   normalised=1, **{"from": start, "to": start + 40000})
        assert abs(t["nodes"]["base_total"][0] - t["total"]) < 10 and t["base"]["normalised"]
        status, body, _ = s.get("/api/v1/diff", format="folded", **{"from": start + 20000})
        assert status == 200 and re.search(rb"^main;query0 \d+ 0$", body, re.M), body
        assert s.json("/api/v1/diff", 400, format="speedscope")["error"]


@test
def callers_and_callees_are_cut_at_the_function():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        work = sum(r["count"] for r in sums.of(0, 1 << 62) if ("work", "app", 0) in r["stack"])
        _, text, _ = s.get("/api/v1/query", format="folded", callers="work")
        assert folded(text) == {"work;main": work}, text
        _, text, _ = s.get("/api/v1/query", format="folded", callees="work")
        assert folded(text) == {"work;read": work}, text
        assert s.json("/api/v1/query", callers="nothing")["total"] == 0


@test
def slots_are_exact_to_20_ms():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)

        def at(first, last, rows=range(50)):
            return sum(PERIOD for t, r in sums.rows for slot in r["times"]
                       if first <= t + slot * 20 < last and slot % 50 in rows)

        for first, last in ((0, 100), (100, 2000), (10000, 10020), (9980, 10020)):
            t = s.json("/api/v1/query", slots=1, **{"from": start + first, "to": start + last})
            assert t["total"] == at(start + first, start + last), (first, last, t["total"])
        t = s.json("/api/v1/query", slots="0-9", **{"from": start, "to": start + 40000})
        assert t["total"] == at(start, start + 40000, range(10)), t["total"]
        h = s.json("/api/v1/heatmap", **{"from": start, "to": start + 20000})
        assert h["start"] == start and h["step"] == 20 and len(h["counts"]) == 1000
        assert h["period"] == PERIOD
        for slot in (0, 5, 100, 499, 500, 501):
            assert h["counts"][slot] * PERIOD == at(start + slot * 20, start + slot * 20 + 20), slot
        s.json("/api/v1/heatmap", 400, **{"from": start, "to": start + 700000})
        for bad in ("5-2", "x", "0-50", "1-"):
            s.json("/api/v1/query", 400, slots=bad)


# What one thread did in each of four windows, in seconds: all of its ten.
WINDOWS = [{"user": 4, "kernel": 1, "cpu": 1, "disk": 2, "idle": 2},
           {"user": 0, "kernel": 5, "cpu": 0, "disk": 1, "idle": 4},
           {"user": 2, "kernel": 2, "cpu": 2, "disk": 4, "idle": 0},
           {"user": 1, "kernel": 0, "cpu": 0, "disk": 0, "idle": 9}]
SECOND = 1000000000


def fill_waits(server, start):
    """… of a process of two threads that do the same, and of one that is always idle."""
    collectors = {kind: Collector() for kind in ("cpu", "oncpu", "offcpu")}
    stacks = {"user": ("main@api", "parse@api"), "kernel": ("main@api", "read@libc.so.6", "[k]ksys_read"),
              "cpu": ("[m][runnable]", "main@api", "parse@api"),
              "disk": ("main@api", "read@libc.so.6", "[k]io_schedule"),
              "idle": ("[m][idle]", "main@api", "wait@api", "[k]ep_poll")}
    states = {"cpu": "runnable", "disk": "uninterruptible", "idle": "idle"}
    for w, parts in enumerate(WINDOWS):
        at, rows = start + w * 10000, {kind: [] for kind in collectors}
        rows["offcpu"].append(row(stacks["idle"], 1, 10 * SECOND, comm="db", pid="9", tid="9", state="idle",
                                  reason="poll"))
        for tid in ("7", "8"):
            labels = {"comm": "api", "pid": "7", "tid": tid}
            rows["oncpu"].append(row((), 1, (parts["user"] + parts["kernel"]) * SECOND, **labels))
            for part in ("user", "kernel"):  # 10 samples a second: they are not what counts
                rows["cpu"] += [row(stacks[part], 10 * parts[part], **labels)] if parts[part] else []
            for part, state in states.items():
                rows["offcpu"] += [row(stacks[part], 1, parts[part] * SECOND, state=state, reason=part, **labels)
                                   ] if parts[part] else []
        for kind, collector in collectors.items():
            message = collector.message(at, rows[kind], kind=kind, period=PERIOD if kind == "cpu" else 0)
            assert server.post(message).status == STORED


@test
def types_that_are_sums_have_a_heatmap_of_windows():
    start = recent()
    span = {"from": start - 20000, "to": start + 50000}
    awake = [0, 0, *(2 * SECOND * (10 - w["idle"]) for w in WINDOWS), 0]
    waits = [0, 0, *(2 * SECOND * (w["cpu"] + w["disk"]) for w in WINDOWS), 0]
    ran = [0, 0, *(2 * SECOND * (w["user"] + w["kernel"]) for w in WINDOWS), 0]
    everything = [0, 0, *(30 * SECOND for _ in WINDOWS), 0]
    with Server() as s:
        fill_waits(s, start)
        for query, want in (('offcpu{state!="idle"}', waits), ('wall{state!="idle"}', awake), ("oncpu", ran),
                            ("wall", everything), ('wall{comm="nobody"}', [0] * 7),
                            ('wall{tid="8"}', [n // 3 for n in everything])):
            h = s.json("/api/v1/heatmap", query=query, **span)
            assert h == {"start": start - 20000, "step": 10000, "unit": "nanoseconds", "values": want,
                         "covered": [0, 0, 1, 1, 1, 1, 0]}, (query, h)
        # Hours of it, as a window is so much longer than 20 ms.
        for kind, minutes, status, words in (
                ("wall", 719, 200, ""), ("offcpu", 719, 200, ""), ("wall", 721, 400, "12 hours"),
                ("offcpu", 721, 400, "12 hours"), ("cpu", 11, 400, "at most 10 minutes")):
            h = s.json("/api/v1/heatmap", status, query=kind, to=start + 40000,
                       **{"from": start + 40000 - minutes * 60000})
            assert words in h.get("error", "") and len(h.get("values", range(719 * 6))) == 719 * 6, (kind, minutes, h)
        # Nothing shorter is known of them, and that is said: it is not that it was kept too briefly.
        for kind in ("offcpu", "oncpu", "wall"):
            why = s.json("/api/v1/query", 400, query=kind, slots=1, **{"from": start, "to": start + 20})["error"]
            assert why == f"the type {kind} is known of whole windows of 10 s, not of parts of a second", why


@test
def the_parts_of_all_time_over_time():
    """Step by step the samples divide what ran, and all of it is there."""
    start = recent()
    names = {"running: user": "user", "running: kernel": "kernel", "waiting for a CPU": "cpu",
             "blocked: disk": "disk", "idle": "idle"}
    with Server() as s:
        fill_waits(s, start)
        for query, threads in (('wall{pid="7"}', 2), ('wall{tid="8"}', 1)):
            for by in ({}, {"by": "part"}):
                t = s.json("/api/v1/series", query=query, step="10s", **{"from": start, "to": start + 40000}, **by)
                assert [line["value"] for line in t["lines"]] == list(names), t
                for line in t["lines"]:
                    want = [threads * SECOND * w[names[line["value"]]] for w in WINDOWS]
                    assert line["values"] == want and line["total"] == sum(want), (line, want)
        # As the flame graph of one window has it.
        for w, parts in enumerate(WINDOWS):
            at = {"from": start + w * 10000, "to": start + w * 10000 + 10000}
            tree = of_tree(s.json("/api/v1/query", query='wall{pid="7"}', idle=1, **at))
            for name, part in names.items():
                got = sum(n for stack, n in tree.items() if stack.startswith(f"[{name}]"))
                assert got == 2 * SECOND * parts[part], (w, name, got)


@test
def what_was_waited_for_is_compared():
    start = recent()
    with Server() as s:
        fill_waits(s, start)
        sides = {"from": start + 20000, "to": start + 40000, "base_from": start, "base_to": start + 20000}

        def seconds(windows, *parts):
            return 2 * sum(WINDOWS[w][part] for w in windows for part in parts)

        for query, total in (('offcpu{pid="7"}', lambda w: seconds(w, "cpu", "disk", "idle")),
                             ('wall{pid="7"}', lambda w: 20 * len(w))):
            t = s.json("/api/v1/diff", query=query, idle=1, **sides)
            now, before = of_tree(t), of_tree(t, "base_")
            assert t["total"] == total((2, 3)) * SECOND and t["base"]["total"] == total((0, 1)) * SECOND, t
            disk = [sum(n for stack, n in side.items() if stack.endswith("io_schedule")) for side in (before, now)]
            assert disk == [seconds((0, 1), "disk") * SECOND, seconds((2, 3), "disk") * SECOND], disk
        for root, part in (("[running: user]", "user"), ("[running: kernel]", "kernel"), ("[blocked: disk]", "disk"),
                           ("[waiting for a CPU]", "cpu"), ("[idle]", "idle")):
            got = [sum(n for stack, n in side.items() if stack.startswith(root)) for side in (before, now)]
            assert got == [seconds((0, 1), part) * SECOND, seconds((2, 3), part) * SECOND], (root, got)

        # The same by the command, of the server and of the store.
        for source in (("--server", s.url), ("--store", s.store)):
            for query, want in (
                    ('wall{pid="7"}', {"api;[blocked: disk];main;read;io_schedule": "disk", "[idle]": "idle"}),
                    ('offcpu{pid="7"}', {"api;main;read;io_schedule": "disk"})):
                p = smolder("diff", query, "--from", str(start + 20000), "--to", str(start + 40000), "--base-from",
                            str(start), "--base-to", str(start + 20000), "-f", "folded", "-o", "-", *source)
                assert p.returncode == 0, p
                got = {line.rsplit(" ", 2)[0]: line.rsplit(" ", 2)[1:] for line in p.stdout.splitlines()}
                for stack, part in want.items():
                    assert got[stack] == [str(seconds(w, part) * SECOND) for w in ((0, 1), (2, 3))], (stack, got)


@test
def the_range_of_an_answer_is_what_is_covered():
    """Of a range that begins before what is stored and ends after it; in headers as in JSON."""
    start = recent(9)
    end = start + 40000
    with Server() as s:
        fill(s, Sums(), start)
        for params in ({}, {"query": 'cpu{comm="nobody"}'}, {"slots": 1}, {"slots": "10-19"}):
            for asked, want in (((start - 33000, end + 22000), (start, end)),
                                ((start - 33000, start + 10000), (start, start + 10000)),
                                ((start + 20000, end + 22000), (start + 20000, end)),
                                ((start - 50000, start - 30000), (start - 50000, start - 30000))):
                params = {**params, "from": asked[0], "to": asked[1]}
                t = s.json("/api/v1/query", **params)
                assert (t["from"], t["to"]) == want, (params, t["from"] - start, t["to"] - start)
                headers = s.get("/api/v1/query", format="folded", **params)[2]
                assert (int(headers["X-Smolder-From"]), int(headers["X-Smolder-To"])) == want, params


@test
def pids_and_threads_have_names():
    """A pid says which process it is; a thread that is called as its process is called that."""
    start = recent()
    span = {"from": start, "to": start + 20000}
    with Server() as s:
        c = Collector()
        for w, comm in ((0, "sh"), (1, "nginx")):  # an exec
            s.post(c.message(start + w * 10000, [
                row(("main@app",), 4, comm=comm, pid="7", host="h"),
                row(("main@app", "io@app"), 3, comm=comm, pid="7", thread="io#", host="h"),
                row(("main@app",), 2, comm="cc1", host="h")]))
        t = s.json("/api/v1/series", by="pid", **span)
        assert [(x["value"], x.get("name"), x["total"] // PERIOD) for x in t["lines"]] == [
            ("7", "nginx", 14), ("", None, 4)], t["lines"]
        t = s.json("/api/v1/series", by="thread", **span)
        assert [(x["value"], x["total"] // PERIOD) for x in t["lines"]] == [
            ("io#", 6), ("cc1", 4), ("nginx", 4), ("sh", 4)], t["lines"]

        def roots(**params):
            answer = s.json("/api/v1/query", **span, **params)
            names, nodes = answer["functions"]["name"], answer["nodes"]
            return {names[f]: n // PERIOD for f, d, n in
                    zip(nodes["function"], nodes["depth"], nodes["total"]) if d == 1}

        assert roots(by="pid") == {"nginx (7)": 7, "sh (7)": 7, "cc1 (short-lived)": 4}
        assert roots(by="thread") == {"nginx": 4, "sh": 4, "io#": 6, "cc1": 4}
        assert roots(by="thread", query='cpu{thread="nginx"}') == {"nginx": 4}
        assert roots(by="thread", query='cpu{thread!="nginx"}') == {"sh": 4, "io#": 6, "cc1": 4}
        assert s.json("/api/v1/labels/thread/values", **span)["values"] == ["cc1", "io#", "nginx", "sh"]


@test
def a_bare_word_is_a_type_or_a_process():
    start = recent()
    span = {"from": start, "to": start + 40000}
    with Server() as s:
        fill(s, Sums(), start)
        want = s.json("/api/v1/query", query='cpu{comm="nginx"}', **span)
        status, body, headers = s.get("/api/v1/query", query="nginx", **span)
        assert status == 200 and json.loads(body) == want and want["samples"] > 0
        assert headers["X-Smolder-Process"] == "1"
        _, body, headers = s.get("/api/v1/query", query="cpu", **span)
        assert json.loads(body)["samples"] > want["samples"] and "X-Smolder-Process" not in headers
        t = s.json("/api/v1/series", query="nginx", by="comm", **span)
        assert [x["value"] for x in t["lines"]] == ["nginx"]
        d = s.json("/api/v1/diff", query="nginx", base_query="db", **span)
        assert d["base"]["samples"] > 0 and d["samples"] == want["samples"]


@test
def timelines_add_up():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        span = {"from": start - 20000, "to": start + 40000}
        t = s.json("/api/v1/series", step="10s", by="comm", max=2, **span)
        assert (t["start"], t["step"], t["steps"]) == (start - 20000, 10000, 6), t
        assert t["covered"] == [0, 0, 1, 1, 1, 1]
        assert [line["value"] for line in t["lines"]] == ["db", "nginx"], t["lines"]
        for line in t["lines"]:
            want = [sum(r["value"] for r in sums.of(
                start - 20000 + i * 10000, start - 10000 + i * 10000,
                lambda v: v["comm"] == line["value"])) for i in range(6)]
            assert line["values"] == want and line["total"] == sum(want), line
        assert t["rest"] == {"lines": 1, "total": 4 * PERIOD,
                             "values": [0, 0] + [PERIOD] * 4}, t["rest"]
        t = s.json("/api/v1/series", **span)
        assert len(t["lines"]) == 1 and t["lines"][0]["total"] == sum(
            r["value"] for _, r in sums.rows)
        for bad in ({"step": "1s"}, {"step": "x"}, {"max": "0"}, {"max": "1e3"},
                    {"from": "1", "step": "10s"}):
            s.json("/api/v1/series", 400, **{**span, **bad})


@test
def names_are_listed_and_selected():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        assert s.json("/api/v1/types") == {"types": ["cpu"], "cut": False}
        assert s.json("/api/v1/labels")["labels"] == ["comm", "pid", "unit"]
        assert s.json("/api/v1/labels/comm/values")["values"] == ["api", "db", "nginx"]
        some = s.json("/api/v1/labels/comm/values", max=2)
        assert some == {"values": ["api", "db"], "cut": True}, some
        assert s.json("/api/v1/labels/pid/values", query='cpu{comm="nginx"}')["values"] == ["1", "2"]
        assert s.json("/api/v1/labels/none/values")["values"] == []


@test
def every_format_is_served_as_what_it_is():
    sums, start = Sums(), recent()
    types = {"svg": "image/svg+xml", "html": "text/html", "top": "text/plain", "pprof":
             "application/octet-stream", "speedscope": "application/json", "json":
             "application/json", "text": "text/plain", "profile": "application/octet-stream"}
    with Server() as s:
        fill(s, sums, start)
        for name, kind in types.items():
            status, body, headers = s.get("/api/v1/query", format=name, keep="comm,pid")
            assert status == 200 and headers["Content-Type"].startswith(kind), (name, headers)
            assert body and headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Content-Security-Policy"] == "sandbox allow-scripts"
        assert "formats" not in s.json("/api/v1/query", 400, format="gif")
        status, body, _ = s.request("HEAD", "/api/v1/query")
        assert status == 200 and body == b""


@test
def metrics_and_status_tell_of_collectors_and_server():
    sums, start = Sums(), recent()
    with Server() as s:
        fill(s, sums, start)
        _, text, headers = s.get("/metrics")
        assert headers["Content-Type"].startswith("text/plain; version=0.0.4")
        values = {}
        for line in text.decode().splitlines():
            if not line.startswith("#"):
                m = re.fullmatch(r'([a-zA-Z_:][\w:]*(?:\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})?) '
                                 r"(\S+)", line)
                assert m, line
                assert m[1] not in values, f"twice: {line}"
                values[m[1]] = float(m[2])
        samples = sum(r["count"] for _, r in sums.rows)
        assert values["smolder_samples_taken_total"] == samples
        assert values["smolder_samples_stored_total"] == samples
        assert values['smolder_samples_lost_total{reason="ring_full"}'] == 0
        assert values['smolder_windows_received_total{answer="stored"}'] == 8
        assert values["smolder_server_cpu_seconds_total"] > 0
        assert values["smolder_collectors"] == 2
        passed = [k for k in values if k.startswith("smolder_cpu_seconds_total{instance=")]
        assert len(passed) == 1 and 'process="collector"' in passed[0], passed
        assert b"bad name" not in text
        status = s.json("/api/v1/status")
        assert status["collector"]["state"] == "recording" and status["collector"]["count"] == 2
        part = {p["name"]: p for p in status["cost"]["parts"]}["collector"]
        assert part["memory_bytes"] == 1e6
        assert abs(part["cpu_percent"] - 100 * 0.2 / 100 / os.cpu_count()) < 1e-4, part
        assert s.json("/healthz") and s.json("/readyz")


@test
def no_collector_can_spoil_the_metrics():
    """Names that are none, label sets that are none, names of the server's own, and all of it twice."""
    bad = ["", "a b", "1a", "a{", "a{}", "a{b}", "a{b=c}", 'a{b="c"', 'a{b="c"}x', 'a{b="c",}', 'a{b="\\x"}',
           'a{b="\\', 'a{b="c"d="e"}', 'a{1b="c"}', 'a{instance="x"}', "a\n", "é", "smolder_", "a:b",
           "samples_taken_total", "smolder_collectors", 'http_answers_total{class="9xx"}', "a" * 60 + "-"]
    good = [("x_total", 1.0), ("x_total", 2.0), ('y_bytes{b="c"}', float("inf")), ('y_bytes{b="c\\"d"}', -1.0),
            ("z_ratio", float("nan")), ("smolder_uptime_seconds", 5.0)]
    with Server() as s:
        for _ in range(3):
            c = Collector()
            assert s.post(c.message(recent(), [row(("a",), 1, comm="x")],
                                    metrics=[(n, 7.0) for n in bad] + good)).status == STORED
        text = s.get("/metrics")[1].decode()
        check_metrics(text)
        for name, count in (("x_total", 3), ("y_bytes", 6), ("z_ratio", 3), ("uptime_seconds", 3)):
            assert len(re.findall(rf"^smolder_{name}{{instance=", text, re.M)) == count, (name, text)
            assert len(re.findall(rf"^# TYPE smolder_{name} ", text, re.M)) == 1, (name, text)
        assert not re.search(r"^\S+ 7$", text, re.M), text


def cost_metrics(uptime, cpu, bpf, timer, walking):
    return [("uptime_seconds", uptime), ('cpu_seconds_total{process="collector"}', cpu),
            ('resident_bytes{process="collector"}', 2e6),
            ('bpf_seconds_total{program="sample"}', bpf), ("timer_seconds_total", timer),
            ('stage_seconds_total{stage="walking"}', walking)]


@test
def cost_is_told_of_late_and_since_the_start():
    """Of late: what the counters rose by between two looks, not what they are."""
    cpus = os.cpu_count()

    def near(cost, part, want):
        found = {p["name"]: p["cpu_percent"] for p in cost["parts"] + cost["stages"]}
        assert abs(found[part] - want / cpus) < 2e-5, (part, want, cost)

    with Server() as s:
        c, start = Collector(), recent()

        def send(at, *values):
            c.lost[0] += 1
            assert s.post(c.message(at, [row(("a",), 4, comm="x")], taken=5,
                                    metrics=cost_metrics(*values))).status == STORED
            return s.json("/api/v1/status")["cost"]

        cost = send(start, 100, 2.0, 1.0, 0.5, 0.75)
        assert cost["recent"] is None, "too little time has passed"
        for name, want in (("collector", 2.0), ("BPF sample", 1.0), ("walking", 0.75)):
            near(cost, name, want)
        until = time.monotonic() + 30
        while not cost["recent"] and time.monotonic() < until:
            time.sleep(0.2)
            cost = s.json("/api/v1/status")["cost"]
        # It has looked at the collector once: no difference yet, so it is what it was since its start.
        assert cost["recent"] and 10 <= cost["recent"]["seconds"] < 30, cost
        assert cost["recent"]["collector_seconds"] == 100
        near(cost["recent"], "collector", 2.0)
        cost = send(start + 10000, 110, 2.1, 1.04, 0.55, 0.77)
        late = cost["recent"]
        assert late["collector_seconds"] == 10 and cost["collector_seconds"] == 110, cost
        for name, want in (("collector", 1.0), ("BPF sample", 0.4), ("walking", 0.2)):
            near(late, name, want)
        near(cost, "collector", 100 * 2.1 / 110)
        assert abs(late["timer_percent"] - 0.5 / cpus) < 2e-5, late
        assert abs(sum(p["cpu_percent"] for p in late["parts"]) - late["cpu_percent"]) < 1e-4
        assert abs(sum(p["cpu_percent"] for p in late["stages"]) - late["cpu_percent"]) < 1e-4
        assert (late["taken"], late["lost"]) == (10, 2), late
        assert cost["memory_bytes"] > 2e6 and cost["disk_bytes_per_day"] is None


@test
def a_message_is_stored_once_and_a_gap_is_told():
    with Server() as s:
        c, start = Collector(), recent()
        message = c.message(start, [row(("a",), 3, comm="x")])
        assert s.post(message).status == STORED
        assert s.post(message).status == KNOWN
        lost = c.message(start + 10000, [row(("a", "b"), 1, comm="x")])
        after = c.message(start + 20000, [row(("a", "b", "c"), 1, comm="x")])
        assert s.post(after).status == RESET  # it needs what `lost` brought
        c.reset()
        assert s.post(c.message(start + 20000, [row(("a", "b", "c"), 2, comm="x")])).status == STORED
        assert s.json("/api/v1/query")["samples"] == 5
        assert len(lost) > 0


@test
def a_restart_keeps_what_was_answered():
    with Server() as s:
        c, start = Collector(), recent()
        message = c.message(start, [row(("a",), 3, comm="x")])
        assert s.post(message).status == STORED
        s.process.kill()
        s.process.wait()
        s.process.stderr.close()
        s.start()
        assert s.json("/api/v1/query")["samples"] == 3
        assert s.post(message).status == KNOWN  # with its whole dictionary in it
        assert s.post(c.message(start + 10000, [row(("a",), 4, comm="x")])).status == STORED
        assert s.json("/api/v1/query")["samples"] == 7
        assert s.stop() == 0


@test
def garbage_is_refused_with_words():
    with Server() as s:
        c, start = Collector(), recent()
        good = c.message(start, [row(("a",), 3, comm="x")])
        for body in (b"", b"x", os.urandom(1000), b"SMW\x01" + os.urandom(100), good[:-1],
                     good[:len(good) // 2], good + b"x", b"SMW\x09" + good[4:]):
            status, answer, _ = s.request("POST", "/api/v1/windows", body)
            assert status == 400, (status, body[:10])
            assert Reply(answer).status == REFUSED and Reply(answer).words
        assert s.post(good).status == STORED
        assert s.json("/api/v1/query")["samples"] == 3
        future = Collector().message(start + 2 * 3600 * 1000, [row(("a",), 3, comm="x")])
        assert Reply(s.request("POST", "/api/v1/windows", future)[1]).status == REFUSED


@test
def a_stack_is_only_so_deep():
    """2.5 million frames, in parts that are all valid by themselves, are refused, and harm nobody."""
    with Server() as s:
        start = recent()
        replies = [s.post(m) for m in Collector().chain(start, 2_500_000)]
        assert {r.status for r in replies} <= {REFUSED, RESET}, [r.status for r in replies][:5]
        assert "larger than the server accepts" in replies[0].words, replies[0].words
        # What goes is kept whole, and read again: the limit itself.
        for m in Collector().chain(start, 16384):
            assert s.post(m).status == STORED, Reply(m).words
        got = folded(s.get("/api/v1/query", query="cpu", format="folded",
                           **{"from": start - 10000, "to": start + 20000})[1])
        assert list(got) == [";".join(["f"] * 16384)], [len(k) for k in got]
        metrics = s.get("/metrics")[1].decode()
        assert re.search(r"^smolder_windows_malformed_total [1-9]", metrics, re.M), metrics
        code = s.stop()
        assert code == 0, (code, s.words)


@test
def what_is_too_large_is_not_read():
    with Server() as s:
        status, body, _ = s.request("POST", "/api/v1/windows", b"x" * (128 * 1024 + 1))
        assert status == 413 and json.loads(body)["error"]
        with socket.create_connection((s.host, s.port), timeout=30) as c:
            c.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                      b"Content-Length: 104857600\r\n\r\n")
            assert c.recv(1000).startswith(b"HTTP/1.1 413")
        with socket.create_connection((s.host, s.port), timeout=30) as c:
            c.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                      b"Transfer-Encoding: chunked\r\n\r\n")
            sent = 0
            try:
                while sent < 100 << 20:
                    c.sendall(b"10000\r\n" + b"x" * 65536 + b"\r\n")
                    sent += 65536
            except OSError:
                pass
            assert sent < 50 << 20, sent
        for path in ("/" + "x" * 100000, "/api/v1/query?query=" + "x" * 100000):
            status, body, _ = s.request("GET", path)
            assert status in (413, 414, 431), status
        status, _, _ = s.request("GET", "/healthz", headers={"X": "y" * 100000})
        assert status in (413, 431), status
        with open(f"/proc/{s.process.pid}/statm", encoding="ascii") as f:
            assert int(f.read().split()[1]) * 4096 < 64 << 20
        assert s.json("/healthz")


@test
def paths_and_methods_are_known_or_refused():
    with Server() as s:
        for path in ("/nothing", "/api/v1/", "/api/v1/query/", "/..", "/../../etc/passwd",
                     "/%2e%2e/%2e%2e/etc/passwd", "/api/v1/labels/a/b/values", "//healthz",
                     "/api/v1/labels//values"):
            status, body, _ = s.request("GET", path)
            assert status == 404 and json.loads(body)["error"], (path, status)
        for method, path in (("POST", "/api/v1/query"), ("GET", "/api/v1/windows"),
                             ("PUT", "/api/v1/windows"), ("DELETE", "/metrics"),
                             ("OPTIONS", "/api/v1/windows"), ("BREW", "/healthz")):
            status, body, headers = s.request(method, path)
            assert status == 405 and headers["Allow"] in ("GET", "POST"), (method, path, status)
        for params in ({"query": "cpu{"}, {"query": 'cpu{a=~"("}'}, {"from": "soon"},
                       {"from": "now", "to": "now-1h"}, {"max_nodes": "0"}, {"max_nodes": "-1"},
                       {"callers": "a", "callees": "b"}, {"keep": ",".join("abcdefghijklmnopqrstu")}):
            assert s.json("/api/v1/query", 400, **params)["error"]


@test
def a_pattern_without_end_is_an_error():
    with Server() as s:
        c = Collector()
        assert s.post(c.message(recent(), [row(("a",), 3, comm="a" * 40 + "!")])).status == STORED
        for query in ('cpu{comm=~"(a+)+"}', 'cpu{comm!~"(a|a|aa)+[bc]"}'):
            for path in ("query", "labels/comm/values", "series"):
                answer = s.json(f"/api/v1/{path}", 400, query=query)
                assert "takes too long" in answer["error"], answer
        assert s.json("/api/v1/query", query='cpu{comm=~"a+!"}')["samples"] == 3


@test
def other_places_may_not_ask():
    with Server("--names", "profiler.example") as s:
        def ask(headers, method="GET", path="/healthz"):
            return s.request(method, path, b"" if method == "POST" else None, headers)[0]

        here = f"127.0.0.1:{s.port}"
        for host in (here, "localhost", "localhost:1", "[::1]:7117", "10.0.0.1", "PROFILER.example:80",
                     socket.gethostname()):
            assert ask({"Host": host}) == 200, host
        for host in ("evil.example", "evil.example:7117", "127.0.0.1.evil.example", "", "[::1",
                     "localhost.evil.example", "x" * 300):
            assert ask({"Host": host}) in (400, 403), host
        for origin in ("http://evil.example", "null", "http://localhost:1", f"http://{here}.evil"):
            assert ask({"Origin": origin}) == 403, origin
            assert ask({"Origin": origin}, "POST", "/api/v1/windows") == 403, origin
        assert ask({"Host": here, "Origin": f"http://{here}"}) == 200


@test
def a_slow_client_holds_up_nobody():
    with Server() as s:
        slow = []
        for _ in range(40):
            c = socket.create_connection((s.host, s.port), timeout=30)
            c.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n")
            slow.append(c)
        began = time.monotonic()
        assert s.json("/healthz")
        assert s.post(Collector().message(recent(), [row(("a",), 3, comm="x")])).status == STORED
        assert s.json("/api/v1/query")["samples"] == 3
        assert time.monotonic() - began < 10
        for c in slow:
            c.close()
        assert s.stop() == 0


@test
def many_questions_at_once_are_answered_or_told_to_wait():
    with Server() as s:
        c = Collector()
        for i in range(6):
            rows = [row(("main", f"f{j}", f"g{i}"), 1, comm=f"c{j % 50}") for j in range(1000)]
            assert s.post(c.message(recent() + i * 10000, rows)).status == STORED
        path = f"/api/v1/query?from=now-2h&by=comm&x={'y' * 10}"
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
        open_ = []
        for _ in range(100):
            k = socket.create_connection((s.host, s.port), timeout=60)
            k.sendall(request)
            open_.append(k)
        for k in open_[::10]:  # some go away
            k.close()
        statuses = []
        for i, k in enumerate(open_):
            if i % 10 == 0:
                continue
            data = b""
            while chunk := k.recv(1 << 16):
                data += chunk
            statuses.append(int(data.split()[1]))
            k.close()
        assert set(statuses) <= {200, 503} and statuses.count(200) >= 10, statuses
        assert s.json("/api/v1/query", **{"from": "now-2h"})["samples"] == 6000


@test
def a_deadline_ends_a_question():
    with Server("--deadline", "1ms") as s:
        c = Collector()
        for i in range(6):
            rows = [row(("main", f"f{j}", f"g{i}"), 1, comm=f"c{j}") for j in range(1500)]
            assert s.post(c.message(recent() + i * 10000, rows)).status == STORED
        late = 0
        for _ in range(20):
            status, body, _ = s.get("/api/v1/query", by="comm", query='cpu{comm=~".*"}')
            assert status in (200, 504), status
            late += status == 504
        assert late, "nothing took a millisecond"


main()

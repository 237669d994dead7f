#!/usr/bin/env python3
"""-f pgo: what Go's compiler reads in a profile is there, from programs that are sampled and those that push."""
import gzip
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, until  # noqa: E402
from messages import decode, encode  # noqa: E402
from recording import live  # noqa: E402
from server import Server, smolder  # noqa: E402
from tap import ROOT, SMOLDER, main, skip, test  # noqa: E402

SOURCE = os.path.join(ROOT, "tests", "workloads", "inlines.go")


def edges(path):
    """{(caller, lines behind its beginning, callee): weight}, as cmd/internal/pgo makes them of a profile."""
    with gzip.open(path) as f:
        p = decode("google", "Profile", f.read())
    strings = p["string_table"]

    def number(m, name):
        return m.get(name, [0])[0]
    kinds = [(strings[number(t, "type")], strings[number(t, "unit")]) for t in p["sample_type"]]
    at = min(kinds.index(k) for k in (("samples", "count"), ("cpu", "nanoseconds")) if k in kinds)
    functions = {number(f, "id"): (strings[number(f, "name")], number(f, "start_line")) for f in p["function"]}
    # Go's refuses a profile without.
    assert any(start for _, start in functions.values()), "profile missing Function.start_line data"
    assert not any("label" in s for s in p["sample"])
    lines = {number(location, "id"): [(number(n, "function_id"), number(n, "line")) for n in location["line"]]
             for location in p["location"]}
    weights = {}
    for s in p["sample"]:
        chain = [one for location in s["location_id"] for one in lines[location]]  # leaf first
        for callee, (caller, line) in zip(chain, chain[1:]):
            name, start = functions[caller]
            key = (name, line - start, functions[callee[0]][0])
            weights[key] = weights.get(key, 0) + s["value"][at]
    return weights


def offset(caller, call):
    """How many lines behind `func caller` a call of it stands in the source."""
    with open(SOURCE) as f:
        text = f.read().splitlines()
    begin = next(i for i, line in enumerate(text) if line.startswith(f"func {caller}("))
    return next(i for i in range(begin + (caller != "fold"), len(text)) if call in text[i]) - begin


def builds(path):
    """Go's own compiler takes it, where it is one that knows profiles."""
    version = re.search(r"go1\.(\d+)", subprocess.run(["go", "version"], capture_output=True, text=True).stdout)
    if not version or int(version[1]) < 21:
        print(f"# this Go ({version and version[0]}) has no -pgo")
        return
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.run(["go", "build", f"-pgo={path}", "-o", f"{d}/app", SOURCE], capture_output=True, text=True)
        assert p.returncode == 0, p.stderr


def is_ours(weights):
    hot = ("main.main", offset("main", "grind("), "main.grind")
    total = sum(w for (_, _, callee), w in weights.items() if callee == "main.grind")
    # Where a call stands is exact: no other line of main calls it.
    assert weights.get(hot, 0) == total > 0, weights
    assert weights.get(("main.grind", offset("grind", "fold("), "main.fold"), 0) > 0.2 * total, weights


@live
def a_recording_and_a_series_are_profiles_for_gos_compiler():
    if not workloads.path("inlines-go"):
        skip("no go")
    with tempfile.TemporaryDirectory() as d, always("--lines", "inlines-go") as a, \
            workloads.start("inlines-go") as w:
        path = os.path.join(d, "default.pgo")
        p = subprocess.run([SMOLDER, "record", "-q", "-p", str(w.pid), "-d", "3", "-o", path],
                           capture_output=True, text=True)
        assert p.returncode == 0, p.stderr
        is_ours(edges(path))
        builds(path)

        def stored():
            got = a.query('cpu{comm="inlines-go"}', "--from", "now-5m", "-f", "pgo", "-o", path)
            return got.returncode == 0
        until("lines in the store", stored, 60)
        is_ours(edges(path))
        builds(path)
        got = a.query('cpu{comm!="inlines-go"}', "--from", "now-5m", "-f", "pgo", "-o", path + "2")
        assert got.returncode == 1 and "--lines" in got.stderr and not os.path.exists(path + "2"), got


@test
def what_a_program_pushes_of_itself_stays_a_profile_for_its_compiler():
    now = int(time.time()) // 10 * 10 - 60
    strings = ["", "samples", "count", "cpu", "nanoseconds", "main.main", "main.work", "/app/main.go", "main.leaf"]
    profile = {
        "sample_type": [{"type": 1, "unit": 2}, {"type": 3, "unit": 4}], "string_table": strings,
        "period_type": {"type": 3, "unit": 4}, "period": 10_000_000, "time_nanos": now * 10**9,
        "function": [{"id": 1, "name": 5, "filename": 7, "start_line": 20},
                     {"id": 2, "name": 6, "filename": 7, "start_line": 10},
                     {"id": 3, "name": 8, "filename": 7, "start_line": 3}],
        "location": [{"id": 1, "line": [{"function_id": 1, "line": 25}]},
                     {"id": 2, "line": [{"function_id": 3, "line": 4}, {"function_id": 2, "line": 12}]}],
        "sample": [{"location_id": [2, 1], "value": [3, 30_000_000], "label": [{"key": 8, "str": 7}]}]}
    with Server() as s, tempfile.TemporaryDirectory() as d:
        for _ in range(2):
            assert s.request("POST", "/api/v1/ingest?service=app",
                             gzip.compress(encode("google", "Profile", profile)))[0] == 200
        path = os.path.join(d, "default.pgo")
        query = ["query", 'process_cpu:cpu:nanoseconds:cpu:nanoseconds{service="app"}', "--from", str(now - 100),
                 "-o", path]
        for _ in range(2):
            got = smolder(*query, "--server", s.url)
            assert got.returncode == 0, got
            weights = edges(path)
            assert set(weights) == {("main.main", 5, "main.work"), ("main.work", 2, "main.leaf")}, weights
            assert len(set(weights.values())) == 1
            s.stop()
            s.start()
        status, body, _ = s.get("/api/v1/query", query=query[1], format="pgo", **{"from": now - 100})
        assert status == 200 and gzip.decompress(body), body
        status, body, _ = s.get("/api/v1/query", query=query[1].replace("cpu:nanoseconds", "samples:count", 1), format="pgo",
                                **{"from": now - 100})
        assert status == 400 and b"lines" in body, (status, body)


main()

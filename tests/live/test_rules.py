#!/usr/bin/env python3
"""`rules:` of the configuration: what functions cost, as counters, against sums made here."""
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from server import Server, check_metrics
from tap import SMOLDER, main, test
from windows import KNOWN, PERIOD, REFUSED, STORED, Collector, row

RULES = """
rules:
  - name: tax
    query: cpu{comm="api"}
    function: compute_tax
  - name: parsing
    function: "Parser::*"
  - {name: waiting, query: 'offcpu{comm=~"a.*"}', function: compute_tax}
  - {name: process, query: db, function: main}
  - {name: never, query: cpu, function: nothing_has_this_name}
"""


def config(text):
    f = tempfile.NamedTemporaryFile("w", suffix=".yaml")
    f.write(text)
    f.flush()
    return f


def counted(server):
    text = server.get("/metrics")[1].decode()
    check_metrics(text)
    return {m[1]: float(m[2]) for m in
            re.finditer(r'^smolder_rule_seconds_total{rule="(\w+)"} (\S+)$', text, re.M)}


def rows(n):
    tax = ("main@api", "compute_tax@api")
    return [row((*tax, "Parser::next(int)@api"), 3 * n, comm="api"), row(tax, 2, comm="api"),
            row((*tax, "compute_tax@api"), 4, comm="api"),  # counts once, though it calls itself
            row(tax, 50, comm="other"), row(("main@api", "rest@api"), 7, comm="api"),
            row(("main@db", "Parser::Parser()@db"), 11, comm="db")]


def seconds(samples):
    return samples * PERIOD / 1e9


@test
def counters_are_what_the_functions_took():
    start = (int(time.time()) // 10 - 6) * 10000
    with config(RULES) as f, Server("--config", f.name) as s:
        assert counted(s) == {"tax": 0, "parsing": 0, "waiting": 0, "process": 0, "never": 0}
        one, two = Collector(), Collector()
        message = one.message(start, rows(1))
        assert s.post(message).status == STORED
        want = {"tax": 3 + 2 + 4, "parsing": 3 + 11, "waiting": 0, "process": 11, "never": 0}

        def same():
            got = counted(s)
            return got.keys() == want.keys() and \
                all(abs(got[k] - seconds(want[k])) < 1e-9 for k in want), (got, want)
        assert same()[0], same()
        # What is known already counts no more; what the dictionary gains later does.
        assert s.post(message).status == KNOWN
        assert same()[0], same()
        assert s.post(one.message(start + 10000, rows(5))).status == STORED
        assert s.post(two.message(start, rows(2))).status == STORED
        want["tax"] += 15 + 6 + 6 + 6
        want["parsing"] += 15 + 11 + 6 + 11
        want["process"] += 22
        assert same()[0], same()
        # Other types, and times of the others, do not.
        wait = one.message(start + 20000, [row(("main@api", "compute_tax@api"), 8, comm="api")],
                           kind="offcpu")
        assert s.post(wait).status == STORED
        want["waiting"] += 8
        assert same()[0], same()
        faults = one.message(start + 30000, [row(("main@api", "compute_tax@api"), 8, comm="api")],
                             kind="cpu", unit="faults")
        assert s.post(faults).status in (STORED, REFUSED)
        assert s.post(one.message(start - 90 * 86400000, rows(1))).status == REFUSED
        assert same()[0], same()


@test
def a_stack_as_deep_as_any_is_counted_at_once():
    with config('rules: [{name: deep, query: "{}", function: f}]') as f, \
            Server("--config", f.name) as s:
        c, start = Collector(), (int(time.time()) // 10 - 6) * 10000
        began = time.monotonic()
        for message in c.chain(start, 16384):
            assert s.post(message).status == STORED
        assert abs(counted(s)["deep"] - seconds(1)) < 1e-9
        assert time.monotonic() - began < 20


@test
def what_is_wrong_with_a_rule_is_said_with_its_line():
    for text, why in (("rules: yes\n", "line 1: rules is a list"),
                      ("rules:\n  - tax\n", "line 2: rules: a rule has a name, a query and a function"),
                      ("rules:\n  - {name: a, function: f, cost: 1}\n", "and nothing else"),
                      ("rules:\n  - {name: a b, function: f}\n", "letters, digits and _"),
                      ("rules:\n  - {name: a}\n", "a rule needs a function"),
                      ("rules:\n  - {name: a, function: f, query: 'cpu{'}\n", "line 2: rules: "),
                      ("rules:\n  - {name: a, function: f, query: wall}\n", "wall is not stored"),
                      ("rules:\n" + "  - {name: a, function: f}\n" * 2, "line 3: rules: two rules"),
                      ("rules:\n" + "".join(f"  - {{name: r{i}, function: f}}\n" for i in range(33)),
                       "line 34: rules: there are more than 32 rules")):
        with config(text) as f:
            r = subprocess.run([SMOLDER, "serve", "--config", f.name, "--listen", "127.0.0.1:0"],
                               capture_output=True, text=True, timeout=30)
            assert r.returncode == 1 and why in r.stderr, (text, r)


main()

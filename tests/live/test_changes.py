#!/usr/bin/env python3
"""What changed, on recorded load: programs that answer requests, in one of which one function becomes
20 % slower in the middle.

The long form (SMOLDER_SOAK=1, or SMOLDER_CHANGES_MINUTES=20) records for two hours, or that many minutes: the
slower function must be the first that is listed, and of ten pairs of ranges without a change at most one may
have anything listed, in all. The short form records a good minute. From its windows pairs of
ranges of twenty minutes are drawn (bench/changes.c), without a change and with one function that takes 20 %
more; the long form does that, too."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import WINDOW, always  # noqa: E402
from recording import live  # noqa: E402
from server import smolder  # noqa: E402
from tap import BUILD, SOAK, main  # noqa: E402

MINUTES = float(os.environ.get("SMOLDER_CHANGES_MINUTES", 120 if SOAK else 0))
# A program that takes a tenth of a CPU has 36,000 samples in an hour at 99 Hz: enough to tell 20 % of a
# function from chance. In less time there must be more of them.
FREQUENCY = 99 if MINUTES >= 60 else 999
SHORT_S = 60
REPLAY = os.path.join(BUILD, "bench", "changes")
PROGRAMS = ("pace-one", "pace-two", "pace-three")
ONLY = 'cpu{comm=~"pace-.*"}'


def ask(a, command, *args):
    p = smolder(command, *args, "--json", "--server", f"http://127.0.0.1:{a.port}")
    assert p.returncode == 0, p.stderr
    return json.loads(p.stdout)


@contextlib.contextmanager
def programs():
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(workloads.start("pace", name)) for name in PROGRAMS]


@live
def a_live_process_is_explained():
    with always("--frequency", "199") as a, programs() as (one, *_):
        a.wait_sampled(300)
        e = ask(a, "explain", str(one.pid), "--from", "1m")
        names = [f["function"] for f in e["functions"]]
        assert set(names[:4]) & {"compress", "look_up", "format"}, names
        compress = next(f for f in e["functions"] if f["function"] == "compress")
        assert 0.1 < compress["total"] < 0.45, compress
        assert e["processes"][0]["comm"] == "pace-one" and e["processes"][0]["pid"] == str(one.pid), e
        assert 0 < e["share_of_machine"] < 1 and e["cpus"] < 1, e
        assert any("serve" in p["path"] for p in e["paths"]), e["paths"]
        assert not e["changes"]["comparisons"][0]["compared"], "two windows are not enough to compare"
        assert e["wall"] is None and any("--offcpu" in u for u in e["unknown"]), e["unknown"]
        # Its system calls are counted as of now: it computes, and sleeps in between.
        calls = e["system_calls"]
        assert (calls["processes"], e["process_count"]) == (1, 1), (calls, e["processes"])
        # A fast machine reads the clock so often that calls are only counted.
        assert calls["timed"] or calls["per_second"] > 25000, calls
        assert 0.9 < calls["seconds"] < 5 and calls["failed_share"] == 0, calls
        (sleep,) = [c for c in calls["calls"] if c["call"] == "clock_nanosleep"]
        assert 1 < sleep["per_second"] <= calls["per_second"], calls
        assert not calls["timed"] or 100 < sleep["mean_us"] < 10 ** 6, calls
        # Of a range that has ended they are not, nor when nobody wants it; and that is said.
        for args in (("--no-calls",), ("--to", "now")):
            e = ask(a, "explain", str(one.pid), "--from", "1m", *args)
            assert e["system_calls"] is None and any("its system calls" in u for u in e["unknown"]), e["unknown"]


@live
def many_processes_by_one_name_are_told_apart():
    """Calls that fail are told from others, and each path says of whom it is."""
    with always("--frequency", "199", "--offcpu", "yes") as a, workloads.start("troubles", "fail") as one, \
            workloads.start("troubles", "fail") as other:
        a.wait_sampled(300)
        e = ask(a, "explain", "tr-fail", "--from", "1m")
        assert e["process_count"] == 2 and {p["pid"] for p in e["processes"]} == {str(one.pid), str(other.pid)}, e
        assert e["paths"][0]["process_count"] == 2 and e["paths"][0]["process"].startswith("tr-fail ("), e["paths"]
        calls = e["system_calls"]
        assert calls["processes"] == 2 and calls["per_second"] > 1000, calls
        first = calls["calls"][0]
        assert first["call"] in ("open", "openat") and first["failed_share"] > 0.99 and first["error"] == "ENOENT", calls
        # So many that only counting them costs next to nothing.
        assert calls["timed"] == (calls["per_second"] < 50000) or 25000 < calls["per_second"] < 100000, calls
        p = smolder("explain", "tr-fail", "--from", "1m", "--server", f"http://127.0.0.1:{a.port}")
        page = p.stdout
        assert p.returncode == 0 and "These are 2 processes" in page and "fail, mostly with ENOENT" in page, page
        assert max(map(len, page.splitlines())) < 400 and len(page.splitlines()) < 100, page


def listed(comparison):
    return [(f["process"], f["function"], round(f["change"] or 9, 2))
            for f in comparison["functions"] + [{**p, "function": ""} for p in comparison["processes"]]]


def replayed(a, start, end, pairs, minutes):
    """Pairs of ranges of so many minutes that are drawn from what was recorded without a change."""
    p = subprocess.run([REPLAY, a.store, ONLY, str(start * 1000), str(end * 1000), str(pairs), str(minutes)],
                       capture_output=True, text=True)
    assert p.returncode == 0, p.stderr
    got = json.loads(p.stdout)
    print(f"# replayed: {got}")
    assert got["windows"] >= (end - start) // WINDOW - 1 and got["pairs"] == pairs, got
    return got


@live
def what_was_recorded_tells_changes_from_chance():
    with always("--frequency", "999") as a, programs():
        a.wait_stored(100)
        start = (int(time.time()) // WINDOW + 1) * WINDOW
        time.sleep(start + SHORT_S + WINDOW - time.time())
        a.wait_stored(100)
        got = replayed(a, start, start + SHORT_S, 100, 20)
        assert got["alarms"] <= 3, "of 100 pairs one is to be expected at most"
        slower = {(f["process"], f["function"]): f["first"] for f in got["slower"]}
        assert len(slower) == 8 and all(name in PROGRAMS for name, _ in slower), slower
        assert sum(slower.values()) >= 60, "of 80 pairs in which one function takes 20 % more"


def a_slower_function_is_first_and_what_did_not_change_is_not_listed():
    """With SMOLDER_SOAK=1 or SMOLDER_CHANGES_MINUTES=N."""
    half = max(round(MINUTES * 60 / 2 / (10 * WINDOW)), 5) * 10 * WINDOW  # five pairs in each
    with always("--frequency", str(FREQUENCY)) as a, programs() as (one, *_):
        a.wait_stored(100)
        start = (int(time.time()) // WINDOW + 1) * WINDOW
        time.sleep(start + half - time.time())
        os.kill(one.pid, signal.SIGUSR1)
        middle = start + half
        time.sleep(middle + WINDOW + half - time.time())
        a.wait_stored(100)
        ranges = (start, middle), (middle + WINDOW, middle + WINDOW + half)
        (c,) = ask(a, "changes", ONLY, "--from", str(ranges[1][0]), "--to", str(ranges[1][1]),
                   "--base-from", str(start), "--base-to", str(middle))["comparisons"]
        print(f"# {half} s before and after: {listed(c)}")
        alarms = []
        for side, _ in ranges:
            for k in range(5):
                at, length = side + 2 * k * half // 10, half // 10
                (n,) = ask(a, "changes", ONLY, "--from", str(at + length), "--to", str(at + 2 * length),
                           "--base-from", str(at), "--base-to", str(at + length))["comparisons"]
                assert n["compared"] and n["tested"] > 10, n
                alarms += listed(n)
        print(f"# ten pairs without a change: {len(alarms)} false alarms {alarms}")
        assert c["functions"], "the slower function was not found"
        first = c["functions"][0]
        assert (first["process"], first["function"]) == ("pace-one", "format"), c["functions"]
        assert 0.1 < first["change"] < 0.3, first
        assert len(alarms) <= 1, alarms
        alarms = sum(replayed(a, *r, 500, round(half / 60))["alarms"] for r in ranges)
        assert alarms <= 20, "of 1,000 pairs ten are to be expected at most"


if MINUTES:
    live(a_slower_function_is_first_and_what_did_not_change_is_not_listed)

main()

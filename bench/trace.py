#!/usr/bin/env python3
"""bench/trace.py [TOOL ...]: what tracing system calls leaves of the speed of a tight loop of
epoll_wait(…, 0): smolder trace beside strace and perf trace, all of them into a file.

The speed is that over all turns. Not that of the best one, as where noise only ever adds: a tool whose
buffer is full does nothing for a while, and then the loop is fast because its calls are lost. So it is
counted as well how many of the calls that the loop says it made each tool shows, and how many it says it
lost.

A tool that shows less than MOST of the calls is compared by those that it shows: perf loses calls without
saying so where the machine is busy, and the loop runs free meanwhile.

Ends with 1 when the loop keeps less than 20 times the speed that strace -c and perf trace leave it, or
when smolder's calls, shown and lost, are not those that were made.
"""
import os
import re
import shutil
import signal
import sys
import tempfile

from loop import Loop  # finds what follows
import peers
from tap import SMOLDER, hurry

MS, TURNS, FASTER, MOST = 200, 5, 20, 0.9
COUNTED = ("smolder trace", "smolder trace -T -y", "smolder trace -c")


def tools(pid, path):
    yield "smolder trace", [SMOLDER, "trace", "-o", path, "-p", pid]
    yield "smolder trace -T -y", [SMOLDER, "trace", "-T", "-y", "-o", path, "-p", pid]
    yield "smolder trace -c", [SMOLDER, "trace", "-c", "-o", path, "-p", pid]
    yield "smolder trace --failed", [SMOLDER, "trace", "--failed", "-o", path, "-p", pid]
    if shutil.which("strace"):
        yield "strace", ["strace", "-f", "-o", path, "-p", pid]
        yield "strace -c", ["strace", "-c", "-f", "-o", path, "-p", pid]
    if peers.perf():
        yield "perf trace", [peers.perf(), "trace", "-o", path, "-p", pid]
        yield "perf trace -s", [peers.perf(), "trace", "-s", "-o", path, "-p", pid]


SUMMARY = (re.compile(r"^ *[\d.]+ +[\d.]+ +\d+ +(\d+) +(?:\d+ +)?epoll_wait$", re.M),  # strace -c
           re.compile(r"^ +epoll_wait +(\d+) ", re.M))  # perf trace -s


def seen_by(said, path):
    """The calls of a tool's output, and those that it lost."""
    shown, lost = 0, 0
    with open(path, errors="replace") as f:
        for line in f:
            shown += "epoll_wait(" in line
            lost += sum(map(int, re.findall(r"LOST (\d+) events", line)))
            shown += sum(int(n) for rule in SUMMARY for n in rule.findall(line))
    # perf says it of events, of which a call has two.
    lost = lost // 2 + sum(map(int, re.findall(r"calls in [\d.]+ s, (\d+) lost", said)))
    return shown, lost


def compare(ns):
    met = True
    for ours in ("smolder trace", "smolder trace -c"):
        for theirs in ("strace -c", "perf trace", "perf trace -s"):
            if ours not in ns or theirs not in ns:
                continue
            ratio = ns[theirs] / ns[ours]
            # perf's own summary is beside the point of the bar, which is about its lines.
            met &= ratio >= FASTER or theirs == "perf trace -s"
            print(f"{ours}: the loop keeps {ratio:.0f} times the speed that {theirs} leaves it (bar: {FASTER})")
    return met


def main():
    if os.geteuid() != 0:
        sys.exit("needs root")
    hurry()
    # Where we were started to ignore it (nohup, a job in the background), the tools would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loop, ns, met = Loop(), {}, True
    base = loop.turns(TURNS, MS).least
    print(f"{'':24} {'ns a call':>10} {'calls':>10} {'shown':>10} {'lost':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for name, argv in tools(str(loop.process.pid), os.path.join(folder, "out")):
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            turns, said = loop.under(argv, TURNS, MS)
            shown, lost = seen_by(said, os.path.join(folder, "out"))
            ns[name] = turns.ns / turns.calls
            print(f"{name:24} {ns[name]:10.1f} {turns.calls:10} {shown:10} {lost:10}", flush=True)
            if not name.startswith("smolder") and shown < MOST * turns.calls:
                ns[name] = turns.ns / max(shown, 1)
                print(f"  {ns[name]:.0f} ns for each call that it shows, by which it is compared")
            # What is lost may be one of the loop's others: two a turn.
            if name in COUNTED and not 0 <= shown + lost - turns.calls <= 2 * TURNS + 2:
                met = False
                print(f"{name}: {turns.calls - shown - lost} calls are neither shown nor lost")
            base = min(base, loop.turns(TURNS, MS).least)
    print(f"{'without any':24} {base:10.1f}")
    loop.end()
    met &= compare(ns)
    print("bars met" if met else "bars NOT MET")
    return 0 if met else 1


sys.exit(main())

#!/usr/bin/env python3
"""bench/page.py [--recorded DIR] [--windows N] [--day]: the web page in Chromium.

How long a load takes until its first flame graph is painted, of a whole day: bench/store.c makes the
day from windows that are recorded from a busy machine, `smolder serve` answers. And the flame graph of
100,000 frames beside d3-flame-graph on the same data. bench/page.mjs measures both, in the page. Where it
may, it runs before other work of the machine, which would be measured as well.
"""
import argparse
import contextlib
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import store
from server import Server

DAY_MS = 86400000
BEGIN = 20736 * DAY_MS  # as in bench/store.c


def first():
    with contextlib.suppress(PermissionError):
        os.nice(-15)


def node(*args):
    return subprocess.run(["node", os.path.join(HERE, "page.mjs"), *args], preexec_fn=first).returncode


def day(recorded, count):
    with tempfile.TemporaryDirectory(prefix="smolder-bench-") as d:
        if not recorded:
            recorded = os.path.join(d, "windows")
            os.mkdir(recorded)
            store.record(recorded, count)
        files = sorted(os.path.join(recorded, f) for f in os.listdir(recorded))
        path = os.path.join(d, "store")
        made = subprocess.run([store.BENCH, "generate", path, "1", "busy", *files], check=True,
                              stdout=subprocess.PIPE, text=True).stdout
        print("".join(line + "\n" for line in made.splitlines()
                      if line.split()[0] in ("windows", "samples_a_window", "stacks_a_day")), end="")
        with Server("--retention", "36500d", store=path, preexec_fn=first) as s:
            return node("day", s.url, str(BEGIN), str(BEGIN + DAY_MS))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--windows", type=int, default=12, help="to record for the day (12)")
    ap.add_argument("--recorded", help="a directory of windows that were recorded before")
    ap.add_argument("--day", action="store_true", help="only the day")
    a = ap.parse_args()
    if not os.path.exists(store.BENCH):
        sys.exit("bench/page.py: build/bench/store is not built; make bench builds it")
    missed = day(a.recorded, a.windows)
    if not a.day:
        missed |= node()
    return missed


if __name__ == "__main__":
    sys.exit(main())

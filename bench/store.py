#!/usr/bin/env python3
"""bench/store.py [--days N] [--windows N] [--keep DIR]: what the store costs, and how quick it is.

Windows of ten seconds are recorded from a busy machine (the programs of bench/record.py), and from
them bench/store.c makes a store of 30 days: every hour of a day other builds of the same programs
run (their functions have other names), and a fifth of them are new each day, so that a day has
100,000 dictionary entries and more. Beside it, the same windows as gzipped pprof files.
"""
import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
from tap import SMOLDER
from workloads import busy_machine

BENCH = os.path.join(cost.BUILD, "bench", "store")


def record(folder, count):
    """Windows of a busy machine, as pprof files."""
    with busy_machine():
        for i in range(count):
            subprocess.run([SMOLDER, "record", "-q", "-F", "99", "-d", "10", "--no-inlines",
                            "-o", os.path.join(folder, f"{i:04}.pb.gz")], check=True)


def free(path):
    st = os.statvfs(path)
    return st.f_bavail * st.f_frsize


def figures(argv):
    out = subprocess.run(argv, check=True, stdout=subprocess.PIPE, text=True).stdout
    print(out, end="", flush=True)
    return {k: float(v) for k, v in re.findall(r"^(\w+) +(-?[\d.]+)", out, re.M)}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--days", type=int, default=30)
    ap.add_argument("--windows", type=int, default=36, help="to record (36)")
    ap.add_argument("--recorded", help="a directory of windows that were recorded before")
    ap.add_argument("--keep", help="leave the store there")
    ap.add_argument("--record", metavar="DIR", help="only record, into DIR")
    a = ap.parse_args()
    if not os.path.exists(BENCH):
        sys.exit("bench/store.py: build/bench/store is not built; make bench builds it")
    if a.record:
        os.makedirs(a.record, exist_ok=True)
        return record(a.record, a.windows)

    missed = []
    with contextlib.ExitStack() as stack:
        # In memory where there is room: a month of commits in minutes would wait for the disk only.
        shm = "/dev/shm" if os.path.isdir("/dev/shm") and free("/dev/shm") > 4 << 30 else None
        tmp = stack.enter_context(tempfile.TemporaryDirectory(dir=shm))
        recorded = a.recorded or os.path.join(tmp, "windows")
        if not a.recorded:
            os.mkdir(recorded)
            record(recorded, a.windows)
        files = sorted(os.path.join(recorded, f) for f in os.listdir(recorded))

        def bar(what, value, most):
            if value > most:
                missed.append(f"{what}: {value:g}, bar {most:g}")

        print("-- a day of an idle host: the programs that are in every window, 1 in 100 samples",
              flush=True)
        idle = figures([BENCH, "generate", os.path.join(tmp, "idle"), "1", "idle", *files])
        bar("idle, MB a day", (idle["raw_bytes"] + idle["roll_bytes"]) / 1e6, 2)

        path = a.keep or os.path.join(tmp, "store")
        shutil.rmtree(path, ignore_errors=True)
        print(f"-- {a.days} days of a busy host", flush=True)
        busy = figures([BENCH, "generate", path, str(a.days), "busy", *files])
        bar("bytes a sample", busy["bytes_a_sample"], 1.0)
        bar("bytes of times a sample", busy["times_bytes_a_sample"], 1.25)
        bar("less than pprof", 10, busy["times_less_than_pprof"])
        bar("entries a day", 100000, busy["entries_a_day"])
        bar("ms of CPU a commit", busy["append_ms"], 0.5)

        print("-- queries", flush=True)
        found = figures([BENCH, "query", path])
        for what, most in (("hour", 50), ("week", 200), ("month", 500)):
            for kind in ("cpu", "wall"):
                if f"{what}_{kind}_ms" in found:
                    bar(f"{what}, ms {kind}", found[f"{what}_{kind}_ms"], most)
    print("bars met" if not missed else "NOT MET: " + "; ".join(missed))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())

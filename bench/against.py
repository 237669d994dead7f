#!/usr/bin/env python3
"""bench/against.py OLD [--turns N] [--warm-up N] [--seconds N]: this build beside another binary.

Both programs sample one busy machine (tests/workloads.py). First `run`: both at the same time, for as
long as it takes until most of what runs has its names, then for some turns. Then `record`, in turn: OLD,
this one, OLD, … What is compared is the median over the turns of CPU time, BPF programs included, and of
memory: a slow phase of the host meets both.
"""
import argparse
import concurrent.futures
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import steady
from always import Always, until
from tap import SMOLDER
from workloads import busy_machine

NOISE = 1.05  # medians of the same binary against itself differ by less


def start(binary, directory):
    # What one of them has and the other has not is left out.
    helped = subprocess.run([binary, "run", "--help"], capture_output=True, text=True).stdout
    more = ["--offcpu", "no"] if "--offcpu" in helped else []
    a = Always(os.path.join(directory, "store"), "-q", *more, binary=binary)
    until("run to answer", a.metrics)
    return a


def run(a, seconds):
    """(ms of CPU a second, us of BPF a sample, bytes)"""
    f = steady.figures(a, seconds)
    return 1000 * f.cpu / f.seconds, 1e6 * f.sampling / max(1, f.samples), f.memory


def run_both(o, binaries):
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
        runs = {}
        for b in binaries:
            d = stack.enter_context(tempfile.TemporaryDirectory())
            os.chmod(d, 0o755)
            runs[b] = start(b, d)
            stack.callback(runs[b].stop)
        time.sleep(o.warm_up)
        for _ in range(o.turns):
            yield dict(zip(runs, pool.map(lambda a: run(a, o.seconds), runs.values())))


def record(binary, seconds):
    with tempfile.TemporaryDirectory() as d:
        c = cost.Cost([binary, "record", "-a", "-F", "99", "-d", str(seconds), "-o",
                       os.path.join(d, "out.svg")]).wait()
    assert c.code == 0, f"{binary} record ended with {c.code}"
    return 1000 * c.cpu / seconds, 1e6 * c.bpf / max(1, c.runs), c.memory


def record_both(o, binaries):
    for _ in range(o.turns):
        yield {b: record(b, o.seconds) for b in binaries}


def compare(name, turns, o, binaries):
    seen = {b: [] for b in binaries}
    for turn, figures in enumerate(turns):
        for b in binaries:
            seen[b].append(figures[b])
            print(f"{name} {turn + 1}/{o.turns} {'old' if b == o.old else 'new'}: "
                  "{:.3f} ms a second, BPF {:.2f} us, {:.1f} MB".format(
                      *seen[b][-1][:2], seen[b][-1][2] / 1e6), flush=True)
    old, new = ([statistics.median(column) for column in zip(*seen[b])] for b in binaries)
    print(f"{name}, median of {o.turns}: CPU {old[0]:.3f} -> {new[0]:.3f} ms a second "
          f"({new[0] / old[0]:.2f}), BPF {old[1]:.2f} -> {new[1]:.2f} us, "
          f"memory {old[2] / 1e6:.1f} -> {new[2] / 1e6:.1f} MB ({new[2] / old[2]:.2f})", flush=True)
    return new[0] <= NOISE * old[0] and new[2] <= NOISE * old[2]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("old", metavar="OLD", help="the other binary")
    ap.add_argument("--turns", type=int, default=5)
    ap.add_argument("--warm-up", type=int, default=120)
    ap.add_argument("--seconds", type=int, default=30)
    ap.add_argument("--only", choices=("run", "record"))
    o = ap.parse_args()
    binaries, met = (o.old, SMOLDER), True
    with cost.bpf_statistics(), busy_machine():
        for name, both in (("run", run_both), ("record", record_both)):
            if o.only in (None, name):
                met &= compare(name, both(o, binaries), o, binaries)
    print("bar: not above what it was, within 5 %: " + ("met" if met else "NOT MET"))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""bench/against.py OLD [--turns N] [--warm-up N] [--seconds N]: this build beside another binary.

Both programs sample one busy machine (tests/workloads.py), in turn: OLD, this one, OLD, … First
`run`, then `record`. What is compared is the median over the turns of CPU time, BPF programs
included, and of memory: a slow phase of the host meets both.
"""
import argparse
import os
import statistics
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


def run(binary, warm_up, seconds):
    """(ms of CPU a second, us of BPF a sample, bytes)"""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        a = Always(os.path.join(d, "store"), "-q", binary=binary)
        try:
            until("run to answer", a.metrics)
            time.sleep(warm_up)
            f = steady.figures(a, seconds)
        finally:
            a.stop()
    return 1000 * f.cpu / f.seconds, 1e6 * f.bpf / max(1, f.samples), f.memory


def record(binary, _, seconds):
    with tempfile.TemporaryDirectory() as d:
        c = cost.Cost([binary, "record", "-a", "-F", "99", "-d", str(seconds), "-o",
                       os.path.join(d, "out.svg")]).wait()
    assert c.code == 0, f"{binary} record ended with {c.code}"
    return 1000 * c.cpu / seconds, 1e6 * c.bpf / max(1, c.runs), c.memory


def compare(name, measure, binaries, o):
    seen = {b: [] for b in binaries}
    for turn in range(o.turns):
        for b in binaries:
            seen[b].append(measure(b, o.warm_up, o.seconds))
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
    ap.add_argument("--warm-up", type=int, default=40)
    ap.add_argument("--seconds", type=int, default=40)
    ap.add_argument("--only", choices=("run", "record"))
    o = ap.parse_args()
    binaries, met = (o.old, SMOLDER), True
    with cost.bpf_statistics(), busy_machine():
        for name, measure in (("run", run), ("record", record)):
            if o.only in (None, name):
                met &= compare(name, measure, binaries, o)
    print("bar: not above what it was, within 5 %: " + ("met" if met else "NOT MET"))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""The SVG of 100,000 distinct stacks: smolder flame beside flamegraph.pl.

Two inputs: stacks that share prefixes (a program's calls), and stacks that hardly do. Prints CPU
seconds (user and system) and peak memory of each; ends with 1 when smolder is not 50 times as fast
in a tenth of the memory on both.
"""
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SMOLDER = os.path.join(ROOT, os.environ.get("BUILD", "build"), "smolder")
FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
STACKS = 100_000
FASTER, SMALLER = 50, 10


def names(r, count):
    return [f"ns{r.randrange(60)}::module_{i % 97}::function_{i}" for i in range(count)]


def shared(r):
    """A walk over a tree of calls: each stack leaves the one before it near its leaf. Shuffled, as
    a profiler that keeps stacks in a hash table writes them."""
    known, seen, stack = names(r, 5000), {}, ["main"]
    while len(seen) < STACKS:
        keep = max(1, len(stack) - r.randrange(1, 16))
        stack = stack[:keep] + [r.choice(known) for _ in range(r.randrange(2, 16))]
        stack = stack[:36]
        seen[";".join(stack)] = True
    stacks = list(seen)
    r.shuffle(stacks)
    return stacks


def strangers(r):
    known = names(r, 5000)
    return [";".join(r.choice(known) for _ in range(30)) for _ in range(STACKS)]


def write(path, make):
    """In a process of its own: a child's peak memory begins with that of its parent."""
    pid = os.fork()
    if pid == 0:
        r = random.Random(1)
        with open(path, "w") as f:
            for stack in make(r):
                f.write(f"{stack} {r.randrange(1, 50)}\n")
        os._exit(0)
    if os.waitpid(pid, 0)[1]:
        sys.exit("the input could not be made")


def measure(argv, out, runs):
    """The least CPU seconds and the peak memory in MB of a few runs."""
    best, peak = None, 0
    for _ in range(runs):
        with open(out, "wb") as f:
            p = subprocess.Popen(argv, stdout=f)
            _, status, used = os.wait4(p.pid, 0)
        if status:
            sys.exit(f"{argv[0]} ended with {status}")
        cpu = used.ru_utime + used.ru_stime
        best = cpu if best is None else min(best, cpu)
        peak = max(peak, used.ru_maxrss / 1024)
    return best, peak


def main():
    for need in (SMOLDER, FLAMEGRAPH):
        if not os.path.exists(need):
            sys.exit(f"bench/flame.py needs {need}")
    failed = False
    print(f"SVG of {STACKS:,} distinct stacks        CPU s    peak MB    SVG MB")
    with tempfile.TemporaryDirectory() as d:
        for what, make in (("shared prefixes", shared), ("hardly any shared", strangers)):
            folded, out = os.path.join(d, "in.folded"), os.path.join(d, "out.svg")
            write(folded, make)
            rows = []
            for tool, argv, runs in (
                    ("flamegraph.pl", ["perl", FLAMEGRAPH, folded], 2),
                    ("smolder flame", [SMOLDER, "flame", "-f", "svg", "-o", "-", folded], 15)):
                cpu, peak = measure(argv, out, runs)
                rows.append((cpu, peak))
                size = os.path.getsize(out) / 1e6
                print(f"  {what:18} {tool:14} {cpu:8.2f} {peak:10.1f} {size:9.1f}", flush=True)
            faster, smaller = rows[0][0] / rows[1][0], rows[0][1] / rows[1][1]
            good = faster >= FASTER and smaller >= SMALLER
            failed |= not good
            print(f"  {what:18} {'ratio':14} {faster:8.0f} {smaller:10.1f}  "
                  f"{'ok' if good else 'TOO LITTLE'} (wanted {FASTER} and {SMALLER})", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

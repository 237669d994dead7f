#!/usr/bin/env python3
"""bench/unwind.py [--seconds N] [--pairs N]: what whole stacks cost, beside perf's.

On the busy machine of bench/record.py, at 99 Hz: the time of the BPF programs a sample and a frame;
what `perf record --call-graph dwarf` writes, holds and burns for the same. Then how much longer a
program takes that does the same work each time, recorded at 999 Hz by `perf record -g` and by
smolder in turn (the bar wants 40 pairs: --pairs 40; the short form only shows the way). Last, rows
and bytes of the tables of some files, and of all files that a machine would have in use which runs
clang, node, python3, a JVM and the daemons that are installed here, at least forty.
"""
import argparse
import glob
import math
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import folded
import generated
import peers
import workloads
from record import read, run
from tap import BUILD, SMOLDER

RATE, FAST_RATE = 99, 999
BAR_US, BAR_RATIO, BAR_PAIRS = 7.5, 1.3, 40
FILES = ["/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib/x86_64-linux-gnu/libstdc++.so.6",
         "/usr/bin/python3", "/usr/bin/node", "/usr/local/bin/node", "/usr/lib/llvm-14/lib/libLLVM-14.so.1",
         "/usr/lib/llvm-14/lib/libclang-cpp.so.14"]
# A shard of rows, and the arrays that are there from the start: src/bpf/unwind.h.
SHARD_ROWS, ROW, ARRAYS = 128 * 1024, 4, 32768 * 32 + 65536 * 8 + 4096 * 16 + 8192 * 16
BAR_TABLES, BAR_DAEMONS = 24 << 20, 40
LARGE = {"clang": ["/usr/bin/clang", "/usr/lib/llvm-*/lib/libclang-cpp.so.*"],
         "node": ["/usr/bin/node", "/usr/local/bin/node"],
         "python3": ["/usr/bin/python3"],
         "java": ["/usr/lib/jvm/*/lib/server/libjvm.so"]}
DAEMONS = ["/usr/lib/systemd/systemd*", "/usr/sbin/*"]
SAID = re.compile(r"ran for ([\d.]+) ms \(([\d.]+) us a sample\)")


def smolder(seconds, d, *options):
    """(us of BPF a sample, user frames a sample, what it cost, what it said)"""
    out = os.path.join(d, "out.folded")
    c, _, err = run([SMOLDER, "record", "-v", "-a", "-F", str(RATE), "-d", str(seconds),
                     "--annotations", "-o", out, *options], d, "smolder")
    said = read(err)
    stacks = folded.parse(read(out))
    frames = sum(n * sum(not f.endswith("_[k]") for f in s[1:]) for s, n in stacks)
    return float(SAID.search(said)[2]), frames / max(1, stacks.total), c, said


def perf_dwarf(seconds, d):
    data = os.path.join(d, "perf.data")
    c, _, _ = run(["perf", "record", "-q", "-F", str(RATE), "-a", "--call-graph", "dwarf", "-o",
                   data, "--", "sleep", str(seconds)], d, "perf")
    return c, os.path.getsize(data)


def stacks(seconds):
    with cost.bpf_statistics(), workloads.busy_machine(), tempfile.TemporaryDirectory() as d:
        us, frames, c, said = smolder(seconds, d)
        bare, _, _, _ = smolder(seconds, d, "-K")
        print(f"the whole machine at {RATE} Hz for {seconds} s")
        print(f"{'':34} {'CPU s':>7} {'peak MB':>8} {'written':>10}")
        print(f"{'smolder record':34} {c.cpu:7.3f} {c.memory / 1e6:8.1f} "
              f"{os.path.getsize(os.path.join(d, 'out.folded')) / 1e6:7.2f} MB")
        if peers.perf():
            p, size = perf_dwarf(seconds, d)
            print(f"{'perf record --call-graph dwarf':34} {p.cpu:7.3f} {p.memory / 1e6:8.1f} "
                  f"{size / 1e6:7.2f} MB")
        else:
            print("SKIPPED perf: linux-perf is not installed")
    for line in said.split("\n"):
        if "user stacks" in line:
            print(line.replace("smolder: ", ""))
    print(f"{us:.2f} us of BPF a sample, {bare:.2f} without the user stack: "
          f"{1000 * (us - bare) / max(1, frames):.0f} ns a frame, {frames:.1f} frames a sample")
    print(f"bar: at most {BAR_US} us a sample: " + ("met" if us <= BAR_US else "NOT MET"))
    return us <= BAR_US


def work(argv):
    """CPU seconds of a run that does always the same."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Recording:
    """A profiler of the whole machine while `with` lasts."""

    def __init__(self, argv):
        self.argv = argv

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        time.sleep(1)  # both are sampling by then; there is nothing to wait for in perf

    def __exit__(self, *_):
        self.process.send_signal(2)
        self.process.wait()


def slowdown(pairs):
    if not peers.perf():
        print("SKIPPED slowdown: linux-perf is not installed")
        return True
    _, path = generated.program("aa", 3)
    argv = [path, "times", "100000"]
    more = {"perf": [], "smolder": []}
    with tempfile.TemporaryDirectory() as d:
        who = {"perf": ["perf", "record", "-q", "-F", str(FAST_RATE), "-a", "-g", "-o",
                        os.path.join(d, "perf.data")],
               "smolder": [SMOLDER, "record", "-q", "-a", "-F", str(FAST_RATE), "-o",
                           os.path.join(d, "out.folded")]}
        for i in range(pairs):
            alone = work(argv)
            for name in sorted(who, reverse=i % 2 == 1):
                with Recording(who[name]):
                    more[name].append(work(argv) / alone - 1)
    mean = {n: statistics.mean(v) for n, v in more.items()}
    error = {n: statistics.stdev(v) / len(v) ** 0.5 for n, v in more.items()} if pairs > 1 else {}
    print(f"slowdown of a program at {FAST_RATE} Hz, {pairs} pairs: " + ", ".join(
        f"{n} {100 * mean[n]:.2f} %" + (f" +- {100 * error[n]:.2f}" if error else "") for n in mean))
    ratio = mean["smolder"] / mean["perf"] if mean["perf"] > 0 else float("inf")
    spread = abs(ratio) * math.hypot(*(error[n] / mean[n] for n in mean)) if error else 0
    if pairs < BAR_PAIRS:
        print(f"ratio {ratio:.2f}; too few pairs to judge by: --pairs {BAR_PAIRS}")
        return True
    print(f"ratio {ratio:.2f} +- {spread:.2f}, bar: at most {BAR_RATIO}: " +
          ("met" if ratio <= BAR_RATIO else "NOT MET"))
    return ratio <= BAR_RATIO


def tables():
    seen = {os.path.realpath(f): f for f in FILES if os.path.exists(f)}
    subprocess.run([os.path.join(BUILD, "bench", "tables"), *seen], check=True)


def is_program(path):
    try:
        with open(path, "rb") as f:
            return f.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def libraries(path):
    p = subprocess.run(["ldd", path], capture_output=True, text=True)
    return re.findall(r"(?:=> |^\t)(/\S+) \(0x", p.stdout, re.M)


def whole_machine():
    """The tables of everything at once: more than is ever in use."""
    programs = {}
    for name, patterns in LARGE.items():
        found = [f for p in patterns for f in glob.glob(p)]
        if not found:
            print(f"SKIPPED {name}: not installed, so not counted")
        programs.update((os.path.realpath(f), name) for f in found[:2])
    daemons = {os.path.realpath(f) for p in DAEMONS for f in sorted(glob.glob(p)) if is_program(f)}
    daemons -= set(programs)
    files = set(programs) | daemons
    for path in list(files):
        files |= {os.path.realpath(f) for f in libraries(path)}
    p = subprocess.run([os.path.join(BUILD, "bench", "tables"), "-s", *sorted(files)],
                       capture_output=True, text=True, check=True)
    n = {k: int(v) for k, v in re.findall(r"(\w+) (\d+)", p.stdout)}
    shards = math.ceil(n["rows"] / SHARD_ROWS)
    size = shards * SHARD_ROWS * ROW + ARRAYS
    print(f"\n{', '.join(sorted(set(programs.values())))} and {len(daemons)} daemons and tools: "
          f"{n['files']} files, {n['rows']} rows, {n['pages']} pages, {n['rules']} rules "
          f"({n['failed']} files without a table): {size / 2 ** 20:.1f} MB")
    good = size < BAR_TABLES and len(daemons) >= BAR_DAEMONS
    print(f"bar: under {BAR_TABLES >> 20} MB with {BAR_DAEMONS} daemons or more: "
          + ("met" if good else "NOT MET"))
    return good


def main():
    ap = argparse.ArgumentParser(description="what whole stacks cost, beside perf's")
    ap.add_argument("--seconds", type=int, default=30)
    ap.add_argument("--pairs", type=int, default=4)
    a = ap.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/unwind.py: needs root")
    good = stacks(a.seconds)
    good &= slowdown(a.pairs)
    tables()
    good &= whole_machine()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())

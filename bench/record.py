#!/usr/bin/env python3
"""bench/record.py [--seconds N]: what a recording of a busy machine costs, beside its peers.

Seven kinds of program keep both cores busy (C, C++, Go, Python, JavaScript, shells that start
about 75 processes a second, two processes that wait for each other in epoll) while each profiler in
turn samples the whole machine at 99 Hz for the same time.

Not in any figure: the timer interrupt itself, the same for all; and what perf does in the kernel
for each sample, which nothing accounts to anyone (the others do it in BPF programs, which do count).
"""
import argparse
import contextlib
import os
import re
import shutil
import signal
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import folded
import peers
import workloads
from recording import END
from tap import SMOLDER

RATE = 99
BAR_CPU, BAR_MEMORY, BAR_SECONDS = 0.20, 40e6, 30


def kernel_counts():
    """(processes started, idle ticks, ticks) since boot"""
    with open("/proc/stat") as f:
        text = f.read()
    ticks = [int(t) for t in text.split("\n")[0].split()[1:9]]
    return int(re.search(r"^processes (\d+)", text, re.M)[1]), ticks[3] + ticks[4], sum(ticks)


class Failed(Exception):
    """A profiler did not do its job."""


class Result:
    def __init__(self, name, cost_, samples=None, lost=None, named=None, note=""):
        self.name, self.cost, self.samples, self.lost = name, cost_, samples, lost
        self.named, self.note = named, note


def read(path):
    with open(path, errors="replace") as f:
        return f.read()


def run(argv, d, name):
    out, err = os.path.join(d, name + ".out"), os.path.join(d, name + ".err")
    with open(out, "w") as o, open(err, "w") as e:
        c = cost.Cost(argv, stdout=o, stderr=e).wait()
    if c.code != 0:
        raise Failed(f"{' '.join(argv)} ended with {c.code}: {read(err).strip()[-200:]}")
    return c, out, err


def smolder(seconds, d):
    argv = [SMOLDER, "record", "-a", "-F", str(RATE), "-d", str(seconds), "-o"]
    c, _, err = run(argv + [os.path.join(d, "out.svg")], d, "smolder")
    m = END.search(read(err))
    # An svg does not tell how many frames had no name: a second, shorter recording does.
    path = os.path.join(d, "out.folded")
    run(argv[:-2] + [str(min(seconds, 10)), "-o", path], d, "names")
    named, _ = folded.parse(read(path)).named()
    return [Result("smolder record -o out.svg", c, int(m[1]), int(m[2]), named)]


def perf(seconds, d):
    if not peers.perf():
        return "linux-perf is not installed"
    data = os.path.join(d, "perf.data")
    c, _, _ = run(["perf", "record", "-F", str(RATE), "-a", "-g", "-o", data, "--", "sleep",
                   str(seconds)], d, "perf")
    post, out, _ = run(["perf", "script", "-i", data], d, "script")
    stacks = peers.parse_script(read(out))
    lost = len(re.findall("LOST", read(out)))
    return [Result("perf record -g", c, stacks.total, lost, stacks.named()[0],
                   "+ its sampling in the kernel, counted nowhere"),
            Result("  perf script, afterwards", post, note="and no flame graph yet")]


def bpftrace(seconds, d):
    if not peers.bpftrace():
        return "bpftrace is not installed"
    script = (f"profile:hz:{RATE} {{ @[ustack, kstack, comm] = count(); }} "
              f"interval:s:{seconds} {{ exit(); }}")
    c, out, err = run(["bpftrace", "-e", script], d, "bpftrace")
    samples, frames, bad = 0, 0, 0
    for stack, n in re.findall(r"^@\[(.*?)\]: (\d+)$", read(out), re.M | re.S):
        lines = [line.strip() for line in stack.split("\n") if line.startswith("    ")]
        samples += int(n)
        frames += len(lines) * int(n)
        bad += sum(re.fullmatch("0x[0-9a-f]+|[0-9]+", line) is not None for line in lines) * int(n)
    lost = sum(map(int, re.findall(r"[Ll]ost (\d+)", read(err))))
    return [Result("bpftrace profile:hz:99", c, samples, lost, 1 - bad / max(1, frames))]


def bcc(seconds, d):
    argv, why = peers.bcc()
    if not argv:
        return why
    c, out, err = run(argv + ["-F", str(RATE), "-f", str(seconds)], d, "bcc")
    stacks = folded.parse(read(out))
    lost = re.search(r"WARNING: (\d+) stack traces", read(err))
    return [Result("BCC profile -f", c, stacks.total, int(lost[1]) if lost else 0,
                   stacks.named()[0])]


def libbpf_tools(seconds, d):
    """Debian 12's libbpf-tools does not ship it; a later one does, under either name."""
    tool = next((t for t in map(shutil.which, ("profile-libbpf", "libbpf-profile", "profile"))
                 if t and not os.path.samefile(t, SMOLDER)), None)
    if not tool:
        return "no profile in this distribution's libbpf-tools"
    c, out, _ = run([tool, "-F", str(RATE), "-f", str(seconds)], d, "libbpf-tools")
    stacks = folded.parse(read(out))
    return [Result("libbpf-tools profile -f", c, stacks.total, None, stacks.named()[0])]


def row(r):
    c = r.cost
    return (f"{r.name:28} {c.cpu:7.3f} {c.user:7.3f} {c.system:7.3f} {c.bpf:7.3f} "
            f"{c.memory / 1e6:7.1f} {c.peak / 1e6:7.1f} {c.maps / 1e6:7.1f} "
            + (f"{r.samples:7}" if r.samples is not None else " " * 7)
            + (f" {r.lost:5}" if r.lost is not None else " " * 6)
            + (f" {100 * r.named:6.2f}%" if r.named is not None else " " * 8)
            + (f"  {r.note}" if r.note else ""))


def main():
    ap = argparse.ArgumentParser(description="what a recording costs, beside its peers")
    ap.add_argument("--seconds", type=int, default=BAR_SECONDS)
    ap.add_argument("--only", help="a profiler by part of its name")
    a = ap.parse_args()
    if os.geteuid() != 0:
        sys.exit("bench/record.py: needs root")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # what is started is ended
    tools = [t for t in (smolder, perf, bpftrace, bcc, libbpf_tools)
             if not a.only or a.only in t.__name__]
    results, skipped = [], []
    with cost.bpf_statistics(), workloads.busy_machine(), tempfile.TemporaryDirectory() as d:
        before = kernel_counts()
        began = os.times().elapsed
        for tool in tools:
            try:
                got = tool(a.seconds, d)
            except Failed as e:
                if tool is smolder:
                    raise
                got = str(e)
            if isinstance(got, str):
                skipped.append(f"{tool.__name__}: {got}")
            else:
                results += got
        forks, idle, ticks = (y - x for x, y in zip(before, kernel_counts()))
        elapsed = os.times().elapsed - began
    print(f"the whole machine at {RATE} Hz for {a.seconds} s, {os.cpu_count()} cores "
          f"{100 * (1 - idle / ticks):.0f} % busy, {forks / elapsed:.0f} forks/s")
    print(f"{'':28} {'CPU s':>7} {'user':>7} {'system':>7} {'BPF':>7} {'MB':>7} {'peak':>7} "
          f"{'maps':>7} {'samples':>7} {'lost':>5} {'named':>7}")
    for r in results:
        print(row(r))
    for why in skipped:
        print(f"SKIPPED {why}")
    return judge(next((r for r in results if r.name.startswith("smolder")), None), a.seconds)


def judge(ours, seconds):
    """The bars are for 30 s; start and end cost the same however short the run."""
    if not ours:
        return 0
    bad = []
    if ours.cost.cpu >= BAR_CPU * max(1, seconds / BAR_SECONDS):
        bad.append(f"{ours.cost.cpu:.3f} s of CPU, {BAR_CPU:.2f} allowed")
    if ours.cost.memory >= BAR_MEMORY:
        bad.append(f"{ours.cost.memory / 1e6:.1f} MB, {BAR_MEMORY / 1e6:.0f} allowed")
    if ours.lost:
        bad.append(f"{ours.lost} samples lost")
    print("bar: under 0.20 s and 40 MB in all, nothing lost: " + ("met" if not bad else
                                                                "NOT MET: " + "; ".join(bad)))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

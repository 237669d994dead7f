#!/usr/bin/env python3
"""bench/steady.py [--seconds N] [--warm-up N] [--no-idle]: what `smolder run` costs, all in.

Seven kinds of program (tests/workloads.py) keep both cores busy. In a warm-up most of their code is
met for the first time and named; that goes on, ever more seldom, for an hour. Then the CPU time of
all of run's processes and of its BPF programs is counted, by stage as they time themselves; then the
same machine without load. Beside it, `perf record -a -g` in the same run, whose work in the kernel
nothing accounts to it. The timer interrupt, the same for all, stands apart.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import peers
from always import Always, memory, tree
from record import kernel_counts
from workloads import busy_machine

BAR_BUSY, BAR_IDLE, BAR_MEMORY = 0.15, 0.03, 80e6
BUDGET = {  # ms a second: its stages
    "sampling and unwinding": (1.5, ("sampling", "walking", "unwinding")),
    "process tracking": (0.6, ("processes",)),
    "drain and aggregation": (0.4, ("transfer", "aggregation")),
    "symbols": (0.1, ("symbols",)),
    "store": (0.4, ("sending", "store")),
}


def cpu_seconds(pids):
    """To the nanosecond, of all threads."""
    total = 0
    for pid in pids:
        for t in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{t}/schedstat") as f:
                total += int(f.read().split()[0])
    return total / 1e9


def sums(metrics, name):
    """{labels: value} of a metric, without the instance."""
    found = {}
    for k, v in metrics.items():
        m = re.fullmatch(re.escape(name) + r"(?:\{(.*)\})?", k)
        if m:
            key = re.sub(r'instance="\w+",?', "", m[1] or "")
            found[key] = found.get(key, 0) + v
    return found


Figures = collections.namedtuple(
    "Figures", "seconds cpu bpf sampling samples waits busy forks stages timer resident maps")
Figures.memory = property(lambda f: f.resident + f.maps)


def figures(a, seconds):
    """What a running `run` takes from now on: seconds of CPU, by stage, and bytes."""
    pids = tree(a.process.pid)
    names = ("smolder_stage_seconds_total", "smolder_bpf_seconds_total",
             "smolder_timer_seconds_total", "smolder_samples_taken_total",
             "smolder_server_cpu_seconds_total", "smolder_collector_events_taken_total")

    def snapshot():
        """The collector's numbers come with its windows, a second after their end."""
        time.sleep(10 - (time.time() - 3) % 10)
        text = a.metrics()
        return ({n: sums(text, n) for n in names}, cpu_seconds(pids), kernel_counts(),
                time.monotonic())
    m0, c0, k0, t0 = snapshot()
    time.sleep(seconds)
    m1, c1, k1, t1 = snapshot()
    diff = {n: {k: m1[n][k] - m0[n].get(k, 0) for k in m1[n]} for n in names}
    stages = {re.search('"(.*)"', k)[1]: v for k, v in diff[names[0]].items()}
    stages["store"] = sum(diff[names[4]].values())
    bpf, events = diff[names[1]], diff[names[5]]
    waits = events.get('event="offcpu"', 0)
    samples = events.get('event="cpu-clock"') or sum(diff[names[3]].values())  # older ones have one kind
    return Figures(t1 - t0, c1 - c0 + sum(bpf.values()), sum(bpf.values()),
                   bpf.get('program="sample"', sum(bpf.values())), samples, waits,
                   1 - (k1[1] - k0[1]) / max(1, k1[2] - k0[2]), k1[0] - k0[0], stages,
                   sum(diff[names[2]].values()), *memory(pids))


def measure(a, seconds):
    f = figures(a, seconds)
    t = f.seconds
    percent = 100 * f.cpu / t / os.cpu_count()
    print(f"{t:.0f} s, {100 * f.busy:.0f} % busy, {f.forks / t:.0f} forks/s, "
          f"{f.samples / t:.0f} samples/s, {f.waits / t:.0f} waits/s")
    print(f"  {'ms a second':34} {'ours':>7} {'budget':>7}")
    for name, (want, parts) in BUDGET.items():
        took = [1000 * f.stages[p] / t for p in parts]
        print(f"  {name:34} {sum(took):7.3f} {want:7}" + ("   OVER" if sum(took) > want else ""))
        for p, ms in zip(parts, took) if len(parts) > 1 else ():
            print(f"    {p:32} {ms:7.3f}")
    print(f"  {'processes, user + system':34} {1000 * (f.cpu - f.bpf) / t:7.3f}")
    print(f"  {'BPF programs':34} {1000 * f.bpf / t:7.3f}   "
          f"{1e6 * f.sampling / max(1, f.samples):.2f} us a sample"
          + (f", {1e9 * (f.bpf - f.sampling) / f.waits:.0f} ns a wait" if f.waits else ""))
    print(f"  {'all in':34} {1000 * f.cpu / t:7.3f}   {percent:.3f} % of the machine")
    print(f"  {'(the timer interrupt, estimated)':34} {1000 * f.timer / t:7.3f}")
    print(f"  memory: {f.resident / 1e6:.1f} MB resident, {f.maps / 1e6:.1f} MB of BPF maps besides")
    return percent, f.memory


def perf(seconds):
    if not peers.perf():
        print("SKIPPED perf: linux-perf is not installed")
        return
    with tempfile.TemporaryDirectory() as d:
        data = os.path.join(d, "perf.data")
        c = cost.Cost(["perf", "record", "-q", "-F", "99", "-a", "-g", "-o", data, "--", "sleep",
                       str(seconds)]).wait()
        print(f"perf record -a -g: {1000 * c.cpu / seconds:.3f} ms a second, "
              f"{c.memory / 1e6:.0f} MB, {os.path.getsize(data) / 1e6:.1f} MB written")


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--seconds", type=int, default=60)
    ap.add_argument("--warm-up", type=int, default=60, help="seconds before that (60)")
    ap.add_argument("--no-idle", action="store_true", help="only the busy machine")
    o = ap.parse_args()
    met = True
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        a = Always(os.path.join(d, "store"), "-q")
        try:
            while not a.metrics():
                time.sleep(0.2)
            with busy_machine():
                time.sleep(o.warm_up)
                percent, held = measure(a, o.seconds)
                perf(min(o.seconds, 60))
            met &= percent <= BAR_BUSY and held <= BAR_MEMORY
            print(f"bar: at most {BAR_BUSY} % and {BAR_MEMORY / 1e6:.0f} MB: "
                  + ("met" if met else "NOT MET"))
            if not o.no_idle:
                time.sleep(20)
                percent, _ = measure(a, o.seconds)
                met &= percent <= BAR_IDLE
                print(f"bar, idle: at most {BAR_IDLE} %: "
                      + ("met" if percent <= BAR_IDLE else "NOT MET"))
        finally:
            a.stop()
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

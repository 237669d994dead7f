#!/usr/bin/env python3
"""bench/offcpu_run.py [--seconds N] [--warm-up N]: what the time off the CPU costs in `smolder run`.

Two loads: a ping-pong on one CPU, as fast as it goes, and waits of 2 ms in several programs, some
thousand switches a second. For each, with `run --offcpu yes` and with `run`: the time of the program
at the switch, a switch and a second, by the kernel's own clock (which adds some 20 ns to each); and
the CPU time of all of run's processes.
"""
import argparse
import contextlib
import glob
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import workloads
from always import always, tree
from steady import cpu_seconds

BAR_NS, BAR_SHARE = 200, 0.05


def programs(pids):
    """(runs, seconds) of the BPF programs at the switch that these processes have."""
    found = {}
    for path in (p for pid in pids for p in glob.glob(f"/proc/{pid}/fdinfo/*")):
        with contextlib.suppress(OSError), open(path) as f:
            info = dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))
            if info.get("prog_type") == "26" and "run_cnt" in info:  # BPF_PROG_TYPE_TRACING
                found[info["prog_id"]] = (int(info["run_cnt"]), int(info["run_time_ns"]) / 1e9)
    return [sum(x) for x in zip(*found.values())] or [0, 0]


def measure(args, options):
    with always(*args) as a:
        time.sleep(options.warm_up)
        pids = tree(a.process.pid)
        runs, spent = programs(pids)
        cpu, began = cpu_seconds(pids), time.monotonic()
        time.sleep(options.seconds)
        seconds = time.monotonic() - began
        runs, spent = (x - y for x, y in zip(programs(pids), (runs, spent)))
        return runs / seconds, spent / seconds, (cpu_seconds(pids) - cpu) / seconds


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--seconds", type=int, default=20)
    p.add_argument("--warm-up", type=int, default=20)
    options = p.parse_args()
    with cost.bpf_statistics():
        for name, load in (("ping-pong", [(("pingpong",), "ready ")]),
                           ("waits", [(("waits", "pipe", "1000000"), None)] * 5)):
            with contextlib.ExitStack() as stack:
                for w, says in load:
                    stack.enter_context(workloads.start(*w, says=says))
                rate, bpf, user = measure(("--offcpu", "yes"), options)
                _, _, without = measure((), options)
            share = (bpf + user - without) / os.cpu_count() * 100
            print(f"{name}: {rate:.0f} switches a second, {bpf / max(rate, 1) * 1e9:.0f} ns each, "
                  f"{bpf * 1e3:.2f} ms a second; run's own CPU {user * 1e3:.2f} ms a second, without "
                  f"{without * 1e3:.2f}; {share:.3f} % of the machine")


main()

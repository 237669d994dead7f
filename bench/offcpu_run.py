#!/usr/bin/env python3
"""bench/offcpu_run.py [--turns N] [--seconds N] [--warm-up N]: what time off the CPU costs in `run`.

Three loads: a ping-pong on one CPU, as fast as it goes; waits of 2 ms in two programs, about 5,000
switches a second, on CPUs that sleep in between, after which little of what the program at the switch needs
is still in the caches; and the same waits on CPUs that are busy in between, with what gives way at once. For
each, `run --offcpu yes` and `run --offcpu no` beside each other on the same load, and a program at the
switch that does nothing: what that takes by the kernel's clock is what to read this clock takes, and is
part of every such figure. Medians of the turns: the time of the program, a switch and a second, and the
CPU time of all processes of either. What a switch takes longer is in bench/offcpu.py, beside peers.
"""
import argparse
import contextlib
import ctypes
import glob
import os
import re
import statistics
import struct
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import cost
import workloads
from always import always, tree
from steady import cpu_seconds

BAR_SHARE = 0.05
PROG_LOAD, RAW_TRACEPOINT_OPEN, RAW_TRACEPOINT = 5, 17, 17
TRACING = "26"  # BPF_PROG_TYPE_TRACING


def bpf(command, attr):
    fd = cost._libc.syscall(cost.SYS_BPF, command, ctypes.create_string_buffer(attr, 128), 128)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def address(b):
    return ctypes.addressof(b)


@contextlib.contextmanager
def empty_program():
    """One that returns 0 at each switch: its descriptor."""
    code = ctypes.create_string_buffer(struct.pack("<BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0), 16)
    name, licence = ctypes.create_string_buffer(b"sched_switch"), ctypes.create_string_buffer(b"GPL")
    program = bpf(PROG_LOAD, struct.pack("<IIQQ", RAW_TRACEPOINT, 2, address(code), address(licence)))
    link = bpf(RAW_TRACEPOINT_OPEN, struct.pack("<QI", address(name), program))
    try:
        yield program
    finally:
        os.close(link)
        os.close(program)


def runs(paths, kind=None):
    """(runs, seconds) of the BPF programs that these descriptors are, of a type if asked for."""
    found = {}
    for path in paths:
        with contextlib.suppress(OSError), open(path) as f:
            info = dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))
            if "run_cnt" in info and kind in (None, info["prog_type"]):
                found[info["prog_id"]] = (int(info["run_cnt"]), int(info["run_time_ns"]) / 1e9)
    return [sum(x) for x in zip(*found.values())] or [0, 0]


def snapshot(processes, empty):
    """Of `run` with and without: the program's runs and seconds, the empty one's, CPU of both."""
    paths = [p for pid in processes[0] for p in glob.glob(f"/proc/{pid}/fdinfo/*")]
    return [time.monotonic(), *runs(paths, TRACING), *runs([f"/proc/self/fdinfo/{empty}"]),
            *map(cpu_seconds, processes)]


@contextlib.contextmanager
def busy_cpus():
    """No CPU sleeps: one loop for each, of a policy that anything else comes before."""
    loops = [subprocess.Popen(["chrt", "--idle", "0", "sh", "-c", "while :; do :; done"])
             for _ in range(os.cpu_count())]
    try:
        yield
    finally:
        for p in loops:
            p.kill()
            p.wait()


def measure(o):
    """Medians of the turns: switches a second; ns of the program, of the empty one; s a second of CPU."""
    with always("--offcpu", "yes") as a, always("--offcpu", "no") as b, empty_program() as empty:
        time.sleep(o.warm_up)
        processes = [tree(x.process.pid) for x in (a, b)]
        turns, before = [], snapshot(processes, empty)
        for _ in range(o.turns):
            time.sleep(o.seconds)
            now = snapshot(processes, empty)
            t, n, ns, empty_n, empty_ns, user, without = (x - y for x, y in zip(now, before))
            turns.append((n / t, ns / max(n, 1) * 1e9, empty_ns / max(empty_n, 1) * 1e9, user / t,
                          without / t))
            before = now
        return [statistics.median(x) for x in zip(*turns)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--turns", type=int, default=6)
    p.add_argument("--seconds", type=int, default=10)
    p.add_argument("--warm-up", type=int, default=30)
    o = p.parse_args()
    waits = [(("waits", "pipe", "1000000"), None)] * 2
    loads = (("ping-pong", [(("pingpong",), "ready ")], contextlib.nullcontext()),
             ("waits, CPUs sleep", waits, contextlib.nullcontext()),
             ("waits, CPUs busy", waits, busy_cpus()))
    met = True
    with cost.bpf_statistics():
        for name, load, beside in loads:
            with contextlib.ExitStack() as stack:
                stack.enter_context(beside)
                for w, says in load:
                    stack.enter_context(workloads.start(*w, says=says))
                rate, ns, empty, user, without = measure(o)
            more = user - without
            shares = [100 * (x * rate / 1e9 + more) / os.cpu_count() for x in (ns, ns - empty)]
            print(f"{name}: {rate:.0f} switches a second, {ns:.0f} ns each, of which an empty program "
                  f"takes {empty:.0f}: {ns * rate / 1e6:.2f} ms a second; run's own CPU {user * 1e3:.2f} "
                  f"ms a second, without {without * 1e3:.2f}; {shares[0]:.3f} % of the machine, without "
                  f"the empty program's {shares[1]:.3f} %")
            if load is waits:
                is_met = shares[1] <= BAR_SHARE
                met &= is_met
                print(f"bar: {BAR_SHARE} % of the machine, without what the kernel's clock takes:",
                      "met" if is_met else "NOT MET")
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

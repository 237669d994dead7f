#!/usr/bin/env python3
"""bench/offcpu.py: what recording time off the CPU costs, per switch, beside its peers.

Two processes pass a byte back and forth on one CPU, which is all that this CPU does; the recorder's
own process has the others. Each tool records the whole machine, in turn, so that a slow phase of the
host meets all. What a tool costs is how much longer a switch takes than without any; for always-on mode,
than with a `run` that does not keep time off the CPU.
"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "tests")]
import peers  # noqa: E402
import workloads  # noqa: E402
from always import free_port  # noqa: E402
from tap import SMOLDER  # noqa: E402

ALWAYS_ON, WITHOUT = "smolder run", "smolder run --offcpu no"
BAR_ALWAYS_NS = 200

# At this tracepoint the thread that leaves is the current one: its stacks are kept until it is back.
BPFTRACE = """
tracepoint:sched:sched_switch {
    if (args->prev_pid) { @start[args->prev_pid] = nsecs; @k[args->prev_pid] = kstack; @u[args->prev_pid] = ustack; }
    $s = @start[args->next_pid];
    if ($s) {
        @ns[@k[args->next_pid], @u[args->next_pid], args->next_comm] = sum(nsecs - $s);
        delete(@start[args->next_pid]);
    }
}
"""


def run(folder, offcpu, seconds):
    return ["timeout", "-s", "INT", str(seconds), SMOLDER, "run", "-q", "--offcpu", offcpu, "--store",
            os.path.join(folder, "store"), "--listen", f"127.0.0.1:{free_port()}"]


def tools(seconds, folder):
    yield "nothing", None
    yield WITHOUT, run(folder, "no", seconds)
    yield ALWAYS_ON, run(folder, "yes", seconds)
    yield "smolder offcpu", [SMOLDER, "offcpu", "-d", str(seconds), "-f", "folded", "-o", "-"]
    if peers.bpftrace():
        yield "bpftrace", ["timeout", "-s", "INT", str(seconds), "bpftrace", "-e", BPFTRACE]
    bcc, why = peers.bcc("offcputime")
    if bcc:
        yield "BCC offcputime", [*bcc, "-f", str(seconds)]
    else:
        print(f"without BCC: {why}")


def switches(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status") as f:
            total += sum(int(line.split()[1]) for line in f if "ctxt_switches" in line)
    return total


def rate(pids, seconds):
    """Switches a second."""
    began, before = time.monotonic(), switches(pids)
    time.sleep(seconds)
    return (switches(pids) - before) / (time.monotonic() - began)


def measure(pids, argv, warm_up, seconds):
    """(ns a switch, exit code, what it said)"""
    if not argv:
        return 1e9 / rate(pids, seconds), 0, ""
    with tempfile.TemporaryFile("w+") as err:
        p = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=err)
        try:
            time.sleep(warm_up)
            ns = 1e9 / rate(pids, seconds)
            code = p.wait(timeout=120)
        finally:
            p.kill()
        err.seek(0)
        return ns, code, err.read().strip()


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--turns", type=int, default=3)
    ap.add_argument("--warm-up", type=float, default=8)
    ap.add_argument("--seconds", type=float, default=3)
    o = ap.parse_args()
    seen, refused = {}, set()
    with tempfile.TemporaryDirectory() as folder, \
            workloads.Workload(["taskset", "-c", str(os.cpu_count() - 1), workloads.path("pingpong")]) as w:
        os.chmod(folder, 0o755)
        with open(f"/proc/{w.pid}/task/{w.pid}/children") as f:
            pids = [w.pid, *map(int, f.read().split())]
        for _ in range(o.turns):
            for name, argv in tools(int(o.warm_up + o.seconds + 1), folder):
                ns, code, said = measure(pids, argv, o.warm_up, o.seconds)
                if code not in (0, 124):
                    refused.add((name, said.splitlines()[-1] if said else f"exit {code}"))
                    continue
                seen.setdefault(name, []).append(ns)
                if name == "smolder offcpu":
                    print(f"  {said.splitlines()[-1]}", flush=True)
    for name, why in refused:
        print(f"{name} does not run here: {why}")
    base = statistics.median(seen.pop("nothing"))
    print(f"a switch takes {base:.0f} ns without a recorder")
    costs = {name: statistics.median(ns) - base for name, ns in seen.items()}
    for name, ns in costs.items():
        print(f"{name}: {ns:+.0f} ns a switch")
    always = costs.pop(ALWAYS_ON) - costs.pop(WITHOUT)
    ours = costs.pop("smolder offcpu")
    exact_met, always_met = not costs or ours <= min(costs.values()), always <= BAR_ALWAYS_NS
    print("smolder offcpu, bar: no more than any of the others:", "met" if exact_met else "NOT MET")
    print(f"always on: {always:+.0f} ns a switch, bar {BAR_ALWAYS_NS}:", "met" if always_met else "NOT MET")
    return 0 if exact_met and always_met else 1


if __name__ == "__main__":
    sys.exit(main())

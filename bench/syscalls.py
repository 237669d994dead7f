#!/usr/bin/env python3
"""bench/syscalls.py [TOOL ...]: what counting system calls costs each of them: smolder syscalls beside BCC's syscount, strace -c and
perf trace -s, on a tight loop of epoll_wait(…, 0).

Each tool watches the same process, in turn, for a few rounds; of all measurements the least counts: what
the host takes away comes on top (but see SLOW). Ends with 1 when
counting adds more than BCC's counting does, timing more than BCC's -L does, or when the loop keeps less
than 20 times the speed that strace and perf leave it.
"""
import os
import shutil
import signal
import sys

from loop import Loop  # finds what follows
import peers
from tap import SMOLDER, hurry

MS, TURNS, ROUNDS, FASTER = 100, 5, 3, 20
# Measured once, and by all of its turns: noise is nothing beside what they add, and when their buffers
# are full, they do nothing for a while.
SLOW = ("strace -c", "perf trace -s")


def under(loop, name, argv):
    """The loop's nanoseconds with a tool."""
    turns, out = loop.under(argv, TURNS, MS)
    assert "epoll_wait" in out or "polls" in out, f"{argv} saw nothing: {out[-2000:]}"
    return turns.ns / turns.calls if name in SLOW else turns.least


def tools(pid):
    """name -> argv"""
    yield "smolder syscalls -c", [SMOLDER, "syscalls", "-c", "-p", pid]
    yield "smolder syscalls -c, all processes", [SMOLDER, "syscalls", "-c"]
    yield "smolder syscalls -c --by process", [SMOLDER, "syscalls", "-c", "--by", "process", "-p", pid]
    yield "smolder syscalls", [SMOLDER, "syscalls", "-p", pid]
    yield "smolder syscalls, all processes", [SMOLDER, "syscalls"]
    yield "smolder syscalls --by process", [SMOLDER, "syscalls", "--by", "process", "-p", pid]
    bcc, why = peers.bcc("syscount")
    if bcc:
        yield "bcc syscount", [*bcc, "-p", pid]
        yield "bcc syscount, all processes", [*bcc]
        yield "bcc syscount -P", [*bcc, "-P", "-p", pid]
        yield "bcc syscount -L", [*bcc, "-L", "-p", pid]
        yield "bcc syscount -L -P", [*bcc, "-L", "-P", "-p", pid]
    else:
        print(f"bcc syscount: not here: {why}")
    if shutil.which("strace"):
        yield "strace -c", ["strace", "-c", "-f", "-p", pid]
    if peers.perf():
        yield "perf trace -s", [peers.perf(), "trace", "-s", "-p", pid]


def main():
    if os.geteuid() != 0:
        sys.exit("needs root")
    hurry()
    # Where we were started to ignore it (nohup, a job in the background), the tools would too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    loop = Loop()
    plain, least = [loop.turns(TURNS, MS).least], {}
    chosen = {name: argv for name, argv in tools(str(loop.process.pid)) if not sys.argv[1:] or name in sys.argv[1:]}
    for n in range(ROUNDS):
        for name, argv in chosen.items():
            if n and name in SLOW:
                continue
            least[name] = min(least.get(name, 1e9), under(loop, name, argv))
            plain.append(loop.turns(TURNS, MS).least)
    base = min(plain)
    seen = {name: (ns - base, base / ns) for name, ns in least.items()}
    print(f"{'':36} {'ns a call':>10} {'added':>8} {'speed kept':>11}")
    for name, (added, kept) in seen.items():
        print(f"{name:36} {base + added:10.1f} {added:8.1f} {kept:11.4f}")
    print(f"{'without any':36} {base:10.1f}  (from {base:.1f} to {max(plain):.1f} in {len(plain)} turns)")
    loop.end()

    met = True
    for ours, theirs in (("smolder syscalls -c", "bcc syscount"),
                         ("smolder syscalls -c --by process", "bcc syscount -P"),
                         ("smolder syscalls", "bcc syscount -L"),
                         ("smolder syscalls --by process", "bcc syscount -L -P")):
        if ours in seen and theirs in seen:
            met &= seen[ours][0] <= seen[theirs][0]
            print(f"{ours}: {seen[ours][0] / seen[theirs][0]:.2f} of what {theirs} adds (bar: 1)")
    for theirs in ("strace -c", "perf trace -s"):
        if "smolder syscalls" in seen and theirs in seen:
            ratio = seen["smolder syscalls"][1] / seen[theirs][1]
            met &= ratio >= FASTER
            print(f"the loop keeps {ratio:.0f} times the speed that {theirs} leaves it (bar: {FASTER})")
    print("bars met" if met else "bars NOT MET")
    return 0 if met else 1


sys.exit(main())

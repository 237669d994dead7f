#!/usr/bin/env python3
"""bench/trace.py: what tracing system calls leaves of the speed of a tight loop of epoll_wait(…, 0):
smolder trace beside strace -c and perf trace.

Ends with 1 when the loop keeps less than 20 times the speed that strace and perf leave it.
"""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests")]
import peers
from tap import BUILD, SMOLDER, hurry

MS, TURNS, FASTER, TIMEOUT = 200, 3, 20, 60


class Loop:
    def __init__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "bench", "polls")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ns(self):
        """A call's nanoseconds, the least of a few turns."""
        seen = []
        for _ in range(TURNS):
            self.process.stdin.write(f"{MS}\n")
            self.process.stdin.flush()
            calls, ns = map(int, self.process.stdout.readline().split())
            seen.append(ns / calls)
        return min(seen)


def under(loop, argv):
    """The loop's nanoseconds with a tool, and what that said."""
    # Into a file: a tool that waits for the reader of a pipe traces nothing meanwhile.
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        tool = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=said, stdin=subprocess.DEVNULL,
                                start_new_session=True)
        try:
            time.sleep(2)  # until it is attached
            ns = loop.ns()
        finally:
            os.killpg(tool.pid, signal.SIGINT)
            try:
                tool.wait(timeout=TIMEOUT)
            except subprocess.TimeoutExpired:
                tool.kill()
                tool.wait()
        said.seek(max(0, said.seek(0, os.SEEK_END) - 4096))
        return ns, said.read().strip().splitlines()


def tools(pid):
    yield "smolder trace", [SMOLDER, "trace", "-p", pid]
    yield "smolder trace -o FILE", [SMOLDER, "trace", "-o", "/dev/null", "-p", pid]
    yield "smolder trace -c", [SMOLDER, "trace", "-c", "-p", pid]
    yield "smolder trace --failed", [SMOLDER, "trace", "--failed", "-p", pid]
    if shutil.which("strace"):
        yield "strace -c", ["strace", "-c", "-f", "-p", pid]
    if peers.perf():
        yield "perf trace", [peers.perf(), "trace", "-p", pid]


def main():
    if os.geteuid() != 0:
        sys.exit("needs root")
    hurry()
    loop = Loop()
    base, seen = loop.ns(), {}
    for name, argv in tools(str(loop.process.pid)):
        ns, said = under(loop, argv)
        base = min(base, loop.ns())
        seen[name] = ns
        words = [line for line in said if " lost" in line]
        print(f"{name:24} {ns:10.1f} ns a call  {words[-1] if words else ''}", flush=True)
    print(f"{'without any':24} {base:10.1f} ns a call")
    loop.process.stdin.close()
    loop.process.wait()

    met = True
    for ours in ("smolder trace", "smolder trace -c"):
        for theirs in ("strace -c", "perf trace"):
            if theirs not in seen:
                continue
            ratio = seen[theirs] / seen[ours]
            met &= ratio >= FASTER
            print(f"{ours}: the loop keeps {ratio:.0f} times the speed that {theirs} leaves it (bar: {FASTER})")
    print("bars met" if met else "bars NOT MET")
    return 0 if met else 1


sys.exit(main())

#!/usr/bin/env python3
"""Always on: what the collector does when nothing new begins. Nothing else may start processes."""
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, children  # noqa: E402
from recording import live  # noqa: E402
from tap import SOAK, main, skip  # noqa: E402


def forks():
    with open("/proc/stat") as f:
        return int(re.search(r"^processes (\d+)", f.read(), re.M)[1])


@live
def in_steady_state_proc_is_not_read():
    seconds = 60 if SOAK else 15
    crowd = [subprocess.Popen(["sleep", "1000"]) for _ in range(300)]
    try:
        with always() as a, workloads.start("shares"), workloads.start("pingpong"):
            a.wait_stored(100)
            a.wait_stored(100)
            with tempfile.TemporaryDirectory() as d:
                out = os.path.join(d, "trace")
                t = subprocess.Popen(["strace", "-f", "-qq", "-o", out, "-p",
                                      str(a.half("collect"))], stderr=subprocess.DEVNULL)
                time.sleep(8)  # strace itself is new to the collector, and read
                before, skipped = forks(), os.path.getsize(out)
                time.sleep(seconds)
                t.send_signal(signal.SIGINT)
                t.wait(30)
                with open(out) as f:
                    f.seek(skipped)
                    calls = f.read().splitlines()
            names = [re.sub(r"^\d+ +", "", c).split("(")[0] for c in calls]
            assert "getdents64" not in names
            known = {str(p) for p, _ in children(os.getpid())}
            # What is searched for a process's own context is read less and less often: doubled pauses.
            reread = collections.Counter(re.findall(r'"/proc/(\d+)/maps"', "\n".join(calls)))
            assert all(reread[p] <= (2 if SOAK else 1) for p in known), reread
            rate = len(calls) / seconds
            others = (forks() - before) / seconds
            if others > 0.5 and rate >= 30:
                skip(f"other programs start {others:.0f} processes a second: {rate:.0f} calls")
            print(f"# {rate:.1f} system calls a second")
            assert rate < 30, (rate, {n: names.count(n) for n in set(names)})
    finally:
        for p in crowd:
            p.kill()
            p.wait()


main()

"""A process that makes one system call as fast as it can (bench/polls.c), and tools that watch it."""
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "tests")]
from tap import BUILD

TIMEOUT = 300  # BCC compiles, and a busy machine takes its time for that

# Of some turns: all calls, all nanoseconds, and those of a call in the turn in which they were least.
Turns = collections.namedtuple("Turns", "calls ns least")


class Loop:
    def __init__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "bench", "polls")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def turns(self, count, ms):
        seen = []
        for _ in range(count):
            self.process.stdin.write(f"{ms}\n")
            self.process.stdin.flush()
            seen.append(tuple(map(int, self.process.stdout.readline().split())))
        return Turns(sum(c for c, _ in seen), sum(ns for _, ns in seen), min(ns / c for c, ns in seen))

    def under(self, argv, count, ms):
        """The same while a tool watches it, and what that wrote."""
        # Into a file: a tool that waits for the reader of a pipe sees nothing meanwhile.
        with tempfile.TemporaryFile("w+", errors="replace") as said:
            tool = subprocess.Popen(argv, stdout=said, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                    start_new_session=True)
            try:
                self._wait_watched(tool, argv)
                turns = self.turns(count, ms)
            finally:
                os.killpg(tool.pid, signal.SIGINT)
                try:
                    tool.wait(timeout=TIMEOUT)
                except subprocess.TimeoutExpired:
                    tool.kill()
                    tool.wait()
            said.seek(0)
            return turns, said.read()

    def _wait_watched(self, tool, argv):
        """Until the tool has attached all it attaches: as many things as half a second before."""
        before = 0
        for _ in range(2 * TIMEOUT):
            time.sleep(0.5)
            assert tool.poll() is None, f"{argv} has ended"
            now = _attached(tool.pid) + self._is_stopped_by(tool.pid)
            if now and now == before:
                return
            before = now
        raise AssertionError(f"{argv} has attached nothing")

    def _is_stopped_by(self, pid):
        with open(f"/proc/{self.process.pid}/status") as f:
            return int(re.search(r"^TracerPid:\s+(\d+)", f.read(), re.M)[1]) == pid

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def _attached(pid):
    """The BPF programs and perf events that a process has."""
    found = 0
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += "[perf_event]" in os.readlink(f"/proc/{pid}/fd/{fd}")
            with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                found += bool(re.search("^(link_type|prog_type)", f.read(), re.M))
        except OSError:
            pass
    return found

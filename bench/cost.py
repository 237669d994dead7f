"""What a program costs while it runs: CPU, memory, and what it has the kernel do for it.

    c = cost.Cost(argv, out)     starts it
    c.wait()                     .user .system .bpf (seconds), .peak .maps (bytes), .code

CPU and peak memory are what wait4 says of the whole process tree (bench/measure.c). BPF programs
and maps are found among its file descriptors; a descriptor of our own keeps each program alive, so
that its run time is read after the end, complete. Maps count in full, even where they are mapped
and so in the resident size already; of perf's buffers only what is not in it.
"""
import contextlib
import ctypes
import json
import os
import re
import struct
import subprocess
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
MEASURE = os.path.join(BUILD, "bench", "measure")
SYS_BPF, BPF_PROG_GET_FD_BY_ID = 321, 13

_libc = ctypes.CDLL(None, use_errno=True)


def _program_fd(ident):
    attr = ctypes.create_string_buffer(struct.pack("III", ident, 0, 0), 128)
    return _libc.syscall(SYS_BPF, BPF_PROG_GET_FD_BY_ID, attr, 128)


def _fields(path):
    with open(path) as f:
        return dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))


@contextlib.contextmanager
def bpf_statistics():
    """The kernel times every BPF program while this lasts."""
    knob = "/proc/sys/kernel/bpf_stats_enabled"
    with open(knob) as f:
        was = f.read()
    with open(knob, "w") as f:
        f.write("1")
    try:
        yield
    finally:
        with open(knob, "w") as f:
            f.write(was)


class Cost:
    def __init__(self, argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL):
        self._file = tempfile.NamedTemporaryFile()
        self._programs = {}
        self._maps = {}
        self.maps = 0
        self.bpf, self.runs = 0.0, 0
        self._began = time.monotonic()
        self._process = subprocess.Popen([MEASURE, self._file.name, *argv], stdout=stdout,
                                         stderr=stderr, stdin=subprocess.DEVNULL)

    def _tree(self):
        """The measured program and its descendants, not bench/measure itself."""
        todo, found = [self._process.pid], []
        while todo:
            pid = todo.pop()
            try:
                with open(f"/proc/{pid}/task/{pid}/children") as f:
                    kids = [int(k) for k in f.read().split()]
            except OSError:
                continue
            found += kids
            todo += kids
        return found

    def _look(self):
        buffers = 0
        for pid in self._tree():
            try:
                for fd in os.listdir(f"/proc/{pid}/fdinfo"):
                    info = _fields(f"/proc/{pid}/fdinfo/{fd}")
                    if "prog_id" in info and "link_id" not in info:
                        ident = int(info["prog_id"])
                        if ident not in self._programs:
                            self._programs[ident] = _program_fd(ident)
                    if "map_id" in info:
                        self._maps[int(info["map_id"])] = int(info["memlock"])
                with open(f"/proc/{pid}/smaps") as f:
                    text = f.read()
            except OSError:  # it has just ended
                continue
            for kb, rss in re.findall(
                    r"^[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \S+ +anon_inode:\[perf_event\]\n"
                    r"Size: +(\d+) kB\n(?:.*\n){2}Rss: +(\d+) kB", text, re.M):
                buffers += int(kb) - int(rss) << 10
        self.maps = max(self.maps, sum(self._maps.values()) + buffers)

    def wait(self, every=1.0):
        try:
            while True:
                try:
                    self._process.wait(every if self._programs else 0.2)
                    break
                except subprocess.TimeoutExpired:
                    self._look()
        finally:
            if self._process.poll() is None:
                self._process.terminate()  # it passes that on
        self.wall = time.monotonic() - self._began
        with open(self._file.name) as f:
            text = f.read()
        self._file.close()
        assert text, "bench/measure said nothing"
        said = json.loads(text)
        self.code, self.user, self.system = said["code"], said["user"], said["system"]
        self.peak = said["peak_kb"] << 10
        for fd in self._programs.values():
            if fd >= 0:
                info = _fields(f"/proc/self/fdinfo/{fd}")
                self.bpf += int(info.get("run_time_ns", 0)) / 1e9
                self.runs += int(info.get("run_cnt", 0))
                os.close(fd)
        return self

    @property
    def cpu(self):
        return self.user + self.system + self.bpf

    @property
    def memory(self):
        return self.peak + self.maps

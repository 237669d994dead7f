"""Runs smolder in tests of live sampling."""
import contextlib
import ctypes
import fcntl
import functools
import os
import pty
import re
import select
import shutil
import subprocess
import tempfile
import termios
import time

import folded
from tap import SMOLDER, hurry, hurry_along, skip, test

END = re.compile(r"(\d+) samples? in [\d.]+ s, (\d+) lost")
NOBODY = 65534
CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE = 0x20000, 0x1000, 0x4000, 1 << 18
PATIENCE = 300  # seconds until something counts as hanging; nothing waits so long when all is well


def stolen():
    """Ticks that the host has given to others: time in which a thread neither runs nor waits."""
    with open("/proc/stat") as f:
        return int(f.readline().split()[8])


def undisturbed(fn):
    """Once more, if the host took the CPUs away meanwhile."""
    @functools.wraps(fn)
    def again(attempts=6):
        before = stolen()
        try:
            fn()
        except AssertionError:
            if attempts == 1 or stolen() == before:
                raise
            time.sleep(3)
            again(attempts - 1)
    return again


def live(fn):
    """A test that samples, or becomes other users: needs root."""
    @functools.wraps(fn)
    def guarded():
        if os.geteuid() != 0:
            skip("needs root: sudo make test")
        hurry()
        fn()
    return test(guarded)


class Run:
    """What came of one run of smolder."""

    def __init__(self, code, out, err):
        self.code, self.err = code, err
        self.out = out
        m = END.search(err)
        self.samples, self.lost = (int(m[1]), int(m[2])) if m else (None, None)

    def ok(self):
        assert self.code == 0, f"exit {self.code}: {self.err}"
        return self

    def refused(self, *words):
        """It failed, in one sentence on stderr that has each of the words, and with no output."""
        assert self.code not in (0, None) and self.code < 128, f"exit {self.code}: {self.err}"
        assert self.out == b"", self.out[:200]
        for word in words:
            assert word in self.err, f"no {word!r} in: {self.err}"
        assert self.err.startswith("smolder") and self.err.endswith("\n"), self.err
        return self

    @property
    def stacks(self):
        return folded.parse(self.out.decode())


def run(*args, timeout=PATIENCE, stdout=subprocess.PIPE, **popen):
    """smolder with these arguments, to its end."""
    p = subprocess.Popen([SMOLDER, *map(os.fsencode, map(str, args))], stdin=subprocess.DEVNULL,
                         stdout=stdout, stderr=subprocess.PIPE, **popen)
    try:
        out, err = p.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        p.kill()
        out, err = p.communicate()
        raise AssertionError(f"smolder {args} still runs after {timeout} s: "
                             f"{err.decode('utf-8', 'replace')}")
    return Run(p.returncode, out, err.decode("utf-8", "replace"))


def record(*args, **kw):
    """A recording as folded stacks on stdout; the end line and the stacks must agree."""
    options, program = (args[:args.index("--")], args[args.index("--"):]) if "--" in args \
        else (args, ())
    # What a started program prints would mix with the stacks.
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.folded")
        r = run("record", "-f", "folded", "-o", path, *options, *program, **kw)
        r.printed = r.out
        r.out = b""
        if os.path.exists(path):
            with open(path, "rb") as f:
                r.out = f.read()
    if r.samples is not None:
        assert r.stacks.total == r.samples, f"{r.stacks.total} in the file, said: {r.err}"
    return r


def sample(*args, rate=499, least=200):
    """A recording of so many samples at least, as long as that takes: CPUs may be taken away for a while."""
    for seconds in (1, 2, 4, 8, 16, 32):
        r = record("-F", rate, "-d", seconds, *args).ok()
        if r.samples >= least:
            break
    assert r.samples >= least, r.err
    return r


def wait_attached(pid, programs):
    """Until a process has attached so many BPF programs."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        links = 0
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/fdinfo/{fd}") as f:
                links += "link_type" in f.read()
        if links >= programs:
            return
        time.sleep(0.02)
    raise AssertionError("not attached")


class TooFew(AssertionError):
    """Fewer samples, or fewer whole stacks among them, than are good; none of them is wrong."""


def over_time(judged, length, failure=AssertionError):
    """judged(length), and after that failure of a greater one: the first samples, for which there are no
    tables yet, are the more the longer the collector waits for a CPU, but not the more the longer it
    records."""
    for longer in (1, 3):
        try:
            return judged(longer * length)
        except failure as e:
            print(f"# once more, for longer: {str(e).splitlines()[0]}")
    return judged(9 * length)


def caching_in(directory):
    """A preexec_fn: what runs keeps its tables there, as on a machine of its own. (Root's cache is the
    machine's, whatever the environment says.)"""
    libc = ctypes.CDLL(None, use_errno=True)

    def separate():
        if (libc.unshare(CLONE_NEWNS) or libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None)
                or libc.mount(os.fsencode(directory), b"/var/cache", None, MS_BIND, None)):
            raise OSError(ctypes.get_errno(), "mounts of its own")
    return separate


class Terminal:
    """smolder with its stderr (and its terminal) on a pty that the test reads and types on."""

    def __init__(self, *args, stdout=subprocess.PIPE, before=(), **popen):
        self.master, slave = pty.openpty()
        self.text = ""

        def session():
            os.setsid()
            hurry_along()
            fcntl.ioctl(2, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen([*before, SMOLDER, *map(str, args)], stdin=slave,
                                        stderr=slave, stdout=stdout, preexec_fn=session, **popen)
        os.close(slave)

    def read_until(self, pattern, seconds=PATIENCE):
        deadline = time.monotonic() + seconds
        while True:
            m = re.search(pattern, self.text)
            if m:
                return m
            left = deadline - time.monotonic()
            assert left > 0, f"no {pattern!r} in {seconds} s: {self.text!r}"
            if select.select([self.master], [], [], left)[0]:
                try:
                    got = os.read(self.master, 65536)
                except OSError:  # EIO: the other side is closed
                    got = b""
                assert got, f"ended before {pattern!r}: {self.text!r}"
                self.text += got.decode("utf-8", "replace")

    def interrupt(self):
        os.write(self.master, b"\x03")

    def close(self):
        """As when the window of a terminal is closed."""
        os.close(self.master)
        self.master = None

    def end(self, timeout=PATIENCE):
        """Reads all it says; returns its exit code."""
        deadline = time.monotonic() + timeout
        while self.master and select.select([self.master], [], [], max(0, deadline - time.monotonic()))[0]:
            try:
                got = os.read(self.master, 65536)
            except OSError:
                break
            if not got:
                break
            self.text += got.decode("utf-8", "replace")
        return self.process.wait(timeout=max(1, deadline - time.monotonic()))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        if self.process.stdout:
            self.process.stdout.close()
        if self.master:
            self.close()


def public_copy(directory):
    """The binary where any user may run it."""
    os.chmod(directory, 0o755)
    copy = shutil.copy(SMOLDER, os.path.join(directory, "smolder"))
    os.chmod(copy, 0o755)
    return copy


def wait_cpu(workload, seconds, timeout=PATIENCE):
    """Waits until the workload has used so much more CPU time."""
    goal = workload.cpu_seconds() + seconds
    deadline = time.monotonic() + timeout
    while workload.cpu_seconds() < goal:
        assert time.monotonic() < deadline, f"the workload got no {seconds} s of CPU in {timeout} s"
        time.sleep(0.02)


def is_death(code, sig):
    """Ended by that signal, or with the code a shell gives it."""
    return code in (-sig, 128 + sig)

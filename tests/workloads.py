"""The programs of tests/workloads/, built when their sources change, and started under a guard.

    with workloads.start("shares") as w:
        ... w.pid ...
    truth = w.truth          # what it said of itself when it ended

A program that is started has printed its "ready PID" line, so it is in its main loop.
"""
import contextlib
import ctypes
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile

from tap import ROOT, hurry_along, skip

SRC = os.path.join(ROOT, "tests", "workloads")
# Sanitizers say nothing about workloads: every build of smolder is tested on the same ones.
OUT = os.path.join(ROOT, "build", "workloads")

# Every function stays itself and keeps its frame: no tail calls, no folding of equal bodies.
GNU = ["-O2", "-g", "-Wall", "-Wextra", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer",
       "-fno-optimize-sibling-calls", "-fno-ipa-icf", "-pthread"]
NO_FP = ["-fomit-frame-pointer"]
C = ["gcc", "-std=gnu17"] + GNU
CXX = ["g++", "-std=c++17"] + GNU
RUST = ["rustc", "--edition", "2021", "-C", "opt-level=2", "-C", "force-frame-pointers=yes"]

# A thread-local variable that readers outside find: exported, also by a program.
SPANS = ["-D_GNU_SOURCE", "-Wno-unused-function"]
EXPORTED = ["-Wl,--export-dynamic-symbol=otel_thread_ctx_v1"]
SPAN_LIBRARY = ["-DLIBRARY", "-shared", "-fPIC"]

# name -> (source, command before "SOURCE" and "-o OUT" are added)
PROGRAMS = {
    "shares": ("shares.c", C),
    "shares-static": ("shares.c", C + ["-static"]),
    # The same with build ids of their own: a file is known by that, wherever its copies are.
    "shares-linked": ("shares.c", C + ["-Wl,--build-id=0x" + 10 * "deb1"]),
    "shares-apart": ("shares.c", C + ["-static", "-Wl,--build-id=0x" + 10 * "deb2"]),
    "shares-hosted": ("shares.c", C + ["-Wl,--build-id=0x" + 10 * "deb4"]),
    "shares-packed": ("shares.c", C + ["-Wl,--build-id=0x" + 10 * "deb3"]),
    "shares-32": ("shares.c", C + ["-m32"]),
    "threads": ("threads.c", C),
    "bpf_load": ("bpf_load.c", C + ["-D_GNU_SOURCE", "-Wl,--no-as-needed", "-lbpf"]),
    "bpf_load.bpf.o": ("bpf_load.bpf.c", ["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-c",
                                          f"-I/usr/include/{os.uname().machine}-linux-gnu"]),
    "states": ("states.c", C),
    "syscalls": ("syscalls.c", C),
    "calls": ("calls.c", C),
    "every": ("every.c", C + ["-D_GNU_SOURCE", "-Wno-unused-result", "-Wno-nonnull"]),
    "calls-32": ("calls.c", C + ["-m32"]),
    "epolls": ("epolls.c", C),
    "nested_calls": ("nested_calls.c", C + NO_FP),
    "faults": ("faults.c", C),
    "counted": ("counted.c", C),
    "waits": ("waits.c", C + ["-pthread"]),
    "pingpong": ("pingpong.c", C),
    "pace": ("pace.c", C + ["-Wl,--no-as-needed", "-lm"]),
    "whole": ("whole.c", C + ["-pthread"]),
    "idle": ("idle.c", C),
    "forks": ("forks.c", C),
    "troubles": ("troubles.c", C),
    "updates": ("updates.c", C),
    "crowd": ("crowd.c", C),
    "quick": ("quick.c", ["gcc", "-O2", "-static", "-nostdlib", "-fno-stack-protector"]),
    "exec": ("exec.c", C),
    "exec-after": ("exec.c", C + ["-DAFTER"]),
    "exec-thread": ("exec.c", C + ["-DTHREAD"]),
    "comm": ("comm.c", C),
    "said": ("said.c", C + ["-D_GNU_SOURCE"]),
    "spans": ("spans.c", C + SPANS + EXPORTED),
    "spans-static": ("spans.c", C + SPANS + EXPORTED + ["-static-pie"]),
    "spans-fixed": ("spans.c", C + SPANS + ["-static", "-no-pie"]),
    "spans-opens": ("spans.c", C + SPANS + ["-DOPENED"]),
    "spans-opens-musl": ("spans.c", ["musl-gcc"] + C[1:] + SPANS + ["-DOPENED"]),
    "spans-desc.so": ("spans.c", C + SPAN_LIBRARY + ["-mtls-dialect=gnu2"]),
    "spans-gnu.so": ("spans.c", C + SPAN_LIBRARY + ["-mtls-dialect=gnu"]),
    "spans-initial.so": ("spans.c", C + SPAN_LIBRARY + ["-ftls-model=initial-exec"]),
    "spans-musl.so": ("spans.c", ["musl-gcc"] + C[1:] + SPAN_LIBRARY + ["-mtls-dialect=gnu"]),
    "said-static": ("said.c", C + ["-D_GNU_SOURCE", "-static"]),
    "aspid": ("aspid.c", C),
    "jitted": ("jitted.c", C),
    "jitted-static": ("jitted.c", C + ["-static"]),
    "nested": ("nested.c", C + NO_FP),
    "jumps": ("jumps.c", C + NO_FP),
    "trampoline": ("trampoline.c", C + NO_FP),
    "noreturn": ("noreturn.c", C + ["-falign-functions=1", "-fno-toplevel-reorder"]),
    "vdso": ("vdso.c", C),
    "late": ("late.c", C),
    "late.so": ("late.c", C + ["-DLIBRARY", "-shared", "-fPIC"]),
    "glibc": ("glibc.c", C + NO_FP),
    "reuse": ("reuse.c", C),
    "throws": ("throws.cc", CXX + NO_FP),
    "shares-cc": ("shares.cc", CXX),
    "shares-rs": ("shares.rs", RUST + ["-Z", "unstable-options",
                                       "-C", "symbol-mangling-version=legacy"]),
    "shares-rs-v0": ("shares.rs", RUST + ["-C", "symbol-mangling-version=v0"]),
    "inlines-cc": ("inlines.cc", CXX),
    "inlines-cc-4": ("inlines.cc", CXX + ["-gdwarf-4"]),
    "inlines-rs": ("inlines.rs", RUST + ["-g", "-C", "symbol-mangling-version=v0"]),
    "inlines-go": ("inlines.go", ["go", "build"]),
    "shares-go": ("shares.go", ["go", "build"]),
    "shares-go-stripped": ("shares.go", ["go", "build", "-ldflags=-s -w"]),
    "runtime": ("runtime.go", ["go", "build"]),
    "runtime-stripped": ("runtime.go", ["go", "build", "-ldflags=-s -w"]),
    "runtime-pie": ("runtime.go", ["go", "build", "-buildmode=pie", "-ldflags=-s -w"]),
    "cgo": ("cgo.go", ["go", "build"]),
    "idle-go": ("idle.go", ["go", "build"]),
    "deep": ("deep.go", ["go", "build"]),
    "web": ("web.go", ["go", "build"]),
    "exposed": ("exposed.go", ["go", "build"]),
    "garbage": ("garbage.go", ["go", "build"]),
    "cgo-stripped": ("cgo.go", ["go", "build", "-ldflags=-s -w"]),
}
SCRIPTS = {
    "jit": ["node", "--perf-basic-prof", "--no-turbo-inlining", "--no-logfile-per-isolate",
            "--logfile=/dev/null", os.path.join(SRC, "jit.js")],
    "node": ["node", os.path.join(SRC, "jit.js")],
    "python": ["/usr/bin/python3", os.path.join(SRC, "spin.py")],
    "idle-py": ["/usr/bin/python3", os.path.join(SRC, "idle.py")],
    "server-js": ["node", os.path.join(SRC, "server.js")],
    "gil": ["/usr/bin/python3", os.path.join(SRC, "gil.py")],
    "garbage-js": ["node", "--max-semi-space-size=1", "--max-old-space-size=80", os.path.join(SRC, "garbage.js")],
    "exporter": ["/usr/bin/python3", os.path.join(SRC, "exporter.py")],
    "self-watch": ["/usr/bin/python3", os.path.join(SRC, "self_watch.py")],
    "interp-py": ["/usr/bin/python3", os.path.join(SRC, "interp.py")],
    "interp-js": ["node", os.path.join(SRC, "interp.js")],
    "interp-rb": ["ruby", os.path.join(SRC, "interp.rb")],
    "interp-php": ["php", os.path.join(SRC, "interp.php")],
}


def _stale(out, command):
    try:
        with open(out + ".cmd") as f:
            if f.read() != " ".join(command):
                return True
        built = os.stat(out).st_mtime_ns
    except FileNotFoundError:
        return True
    return any(os.stat(os.path.join(SRC, s)).st_mtime_ns > built for s in os.listdir(SRC))


def path(name):
    """The built program; the test is skipped if its compiler is not here."""
    source, command = PROGRAMS[name]
    out = os.path.join(OUT, name)
    source = os.path.join(SRC, source)
    if command[0] == "go":
        command = command + ["-o", out, source]
    else:
        command = command + [source, "-o", out]
    if not shutil.which(command[0]):
        skip(f"{command[0]} is not installed")
    os.makedirs(OUT, exist_ok=True)
    with open(out + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _stale(out, command):
            # The old mangling is still in most binaries; new compilers want to be asked twice.
            env = dict(os.environ, GO111MODULE="off", GOFLAGS="", RUSTC_BOOTSTRAP="1")
            env.setdefault("GOCACHE", os.path.join(OUT, "go-cache"))
            p = subprocess.run(command, capture_output=True, text=True, env=env, cwd=SRC)
            assert p.returncode == 0, f"{' '.join(command)}\n{p.stderr}"
            with open(out + ".cmd", "w") as f:
                f.write(" ".join(command))
    return out


def build_text(out, source, command):
    """Compiles generated C, unless that has been done."""
    if not shutil.which(command[0]):
        skip(f"{command[0]} is not installed")
    os.makedirs(OUT, exist_ok=True)
    command = command + ["-o", out, out + ".c"]
    with open(out + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _stale(out, command) or read(out + ".c") != source:
            with open(out + ".c", "w") as f:
                f.write(source)
            p = subprocess.run(command, capture_output=True, text=True, cwd=SRC)
            assert p.returncode == 0, f"{' '.join(command)}\n{p.stderr}"
            with open(out + ".cmd", "w") as f:
                f.write(" ".join(command))
    return out


def read(path):
    try:
        with open(path) as f:
            return f.read()
    except FileNotFoundError:
        return None


def command(name, *args):
    """The argv that runs a workload."""
    if name in SCRIPTS:
        argv = SCRIPTS[name]
        if not shutil.which(argv[0]):
            skip(f"{argv[0]} is not installed")
        return argv + list(args)
    return [path(name)] + list(args)


_libc = ctypes.CDLL(None)
PR_SET_PDEATHSIG = 1


def _begin():
    """A test that is killed leaves nothing behind that burns CPU."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    hurry_along()


class Workload:
    """A running program of its own process group: ended, and its last words read, on exit.

    One that says nothing when it is ready (`says=None`) is taken as it is.
    """

    def __init__(self, argv, says="ready ", **popen):
        self.lines = []
        self.truth = None
        self._rest = b""
        self.process = subprocess.Popen([os.fsencode(str(a)) for a in argv], stdout=subprocess.PIPE,
                                        stdin=subprocess.DEVNULL, start_new_session=True,
                                        preexec_fn=_begin, **popen)
        try:
            self.pid = self.process.pid
            if says:
                ready = self.wait_line(says)
                self.said_pid = int(ready.split()[1])  # its own idea, in its pid namespace
        except BaseException:
            self._kill()
            raise

    def wait_line(self, prefix, seconds=300):
        """The first line it prints, or has printed, that starts so."""
        fd = self.process.stdout.fileno()
        while True:
            for line in self.lines:
                if line.startswith(prefix):
                    return line
            assert select.select([fd], [], [], seconds)[0], f"no {prefix!r} in {seconds} s"
            got = os.read(fd, 65536)
            assert got, f"ended before it said {prefix!r}: {self.lines}"
            self._take(got)

    def _take(self, got):
        *whole, self._rest = (self._rest + got).split(b"\n")
        self.lines += [w.decode("utf-8", "replace") for w in whole]

    def cpu_seconds(self):
        """What the scheduler says it has used, all threads."""
        total = 0
        for tid in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{tid}/schedstat") as f:
                total += int(f.read().split()[0])
        return total / 1e9

    def _kill(self):
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        self.process.stdout.close()

    def stop(self):
        if self.process.stdout.closed:
            return
        try:
            if self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
            try:
                self._take(self.process.communicate(timeout=60)[0])
            except subprocess.TimeoutExpired:
                pass
        finally:
            self._kill()
        for line in self.lines:
            if line.startswith("{"):
                self.truth = json.loads(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Contained:
    """A program alone in a root and a pid namespace of its own. `stripped`: its symbols are in a file
    under /usr/lib/debug, in that root."""

    def __init__(self, name, *args, stripped=False):
        self.root = tempfile.mkdtemp()
        program = path(name)
        # A tmpfs that only this mount namespace sees: no path leads there from outside.
        script = (f"mount --make-rprivate / && mount -t tmpfs none {self.root} && cd {self.root} && "
                  f"mkdir bin tmp && cp {program} bin/inside && ")
        if stripped:
            notes = subprocess.run(["readelf", "-n", program], capture_output=True, text=True).stdout
            build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
            debug = f"usr/lib/debug/.build-id/{build_id[:2]}"
            script += (f"mkdir -p {debug} && strip bin/inside && "
                       f"objcopy --only-keep-debug {program} {debug}/{build_id[2:]}.debug && ")
        self.workload = Workload(
            ["unshare", "--pid", "--mount", "--fork", "--kill-child", "sh", "-c",
             script + f'exec chroot {self.root} /bin/inside "$@"', "sh", *args])
        outer = self.workload.pid
        with open(f"/proc/{outer}/task/{outer}/children") as f:
            self.pid = int(f.read().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.kill(self.pid, 15)
        self.workload.stop()
        os.rmdir(self.root)


def family(pid):
    """A process and its children."""
    with open(f"/proc/{pid}/task/{pid}/children") as f:
        return [str(pid), *f.read().split()]


def start(name, *args, **popen):
    return Workload(command(name, *args), **popen)


@contextlib.contextmanager
def ended(argv, **popen):
    """A server that is asked to end when it is no longer needed."""
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True, **popen)
    try:
        yield p
    finally:
        p.send_signal(signal.SIGINT)
        try:
            p.wait(timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


@contextlib.contextmanager
def shell(script):
    """A shell that runs a script; it is killed in the end, and all that it started."""
    p = subprocess.Popen(["sh", "-c", script], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL, start_new_session=True, preexec_fn=_begin)
    try:
        yield p
    finally:
        os.killpg(p.pid, signal.SIGKILL)
        p.wait()


def start_replaced(name, other):
    """The program from a file of its own, whose path is now that of another program."""
    with tempfile.TemporaryDirectory() as d:
        at = shutil.copy(path(name), os.path.join(d, "program"))
        w = Workload([at])
        try:
            os.rename(shutil.copy(path(other), os.path.join(d, "new")), at)
            return w, Workload([at])
        except BaseException:
            w.stop()
            raise


def start_deleted(name, *args):
    """The program from a file of its own that is gone while it runs."""
    with tempfile.TemporaryDirectory() as d:
        return Workload([shutil.copy(path(name), d), *args])


FORKS = 38  # each shell starts one program: 76 forks a second


@contextlib.contextmanager
def busy_machine():
    """Seven kinds of program that keep both cores busy."""
    with contextlib.ExitStack() as stack:
        for name in ("shares", "shares-cc", "shares-go", "python", "node", "pingpong"):
            stack.enter_context(start(name))
        stack.enter_context(start("forks", str(FORKS), "/bin/sh", "-c", "/bin/ls /; :"))
        yield


if __name__ == "__main__":  # tests/workloads.py: builds them all
    for program in PROGRAMS:
        print(os.path.relpath(path(program)), file=sys.stderr)

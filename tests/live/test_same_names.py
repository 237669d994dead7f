#!/usr/bin/env python3
"""`run` has the names that `record` has: its collector has fewer capabilities and system calls, and
whatever that costs shows here, for every way there is of naming a frame."""
import contextlib
import lzma
import math
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import always, until  # noqa: E402
from recording import live, record  # noqa: E402
from tap import main, skip  # noqa: E402

SHARES = ("share_fifty", "share_thirty", "main")
RATE = 997
SECONDS, LEAST = 5, 2000  # of a recording of each, and samples: so many that a point is a point


def with_map(stack, w):
    """A workload whose runtime leaves a map of its compiled code behind."""
    def forget():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"/tmp/perf-{w.pid}.map")
    stack.callback(forget)
    return stack.enter_context(w).pid


def jvm(stack):
    for name in ("javac", "java", "jcmd"):
        if not shutil.which(name):
            skip(f"{name} is not installed")
    there = os.path.join(workloads.OUT, "java")
    os.makedirs(there, exist_ok=True)
    subprocess.run(["javac", "-d", there, os.path.join(workloads.SRC, "Nest.java")], check=True)
    w = workloads.Workload(
        ["java", "-Xmx256m", "-XX:+PreserveFramePointer", "-XX:CompileCommand=quiet",
         "-XX:CompileCommand=dontinline,Nest.*", "-cp", there, "Nest"], stderr=subprocess.DEVNULL)
    pid = with_map(stack, w)
    subprocess.run(["jcmd", str(pid), "Compiler.perfmap"], check=True, capture_output=True)
    return pid


def stripped(stack):
    """Its symbols are beside it, by the name in .gnu_debuglink."""
    there = os.path.join(workloads.OUT, "linked")
    shutil.rmtree(there, ignore_errors=True)
    os.makedirs(there)
    program, debug = os.path.join(there, "linked"), os.path.join(there, "linked.debug")
    shutil.copy(workloads.path("shares-linked"), program)
    for argv in (["objcopy", "--only-keep-debug", program, debug], ["strip", program],
                 ["objcopy", "--add-gnu-debuglink=" + debug, program]):
        subprocess.run(argv, check=True)
    return stack.enter_context(workloads.Workload([program])).pid


def packed(stack):
    """Its symbols are in the file, compressed, as Fedora has them: .gnu_debugdata."""
    program = os.path.join(workloads.OUT, "packed")
    shutil.copy(workloads.path("shares-packed"), program)
    debug, section = program + ".debug", program + ".xz"
    subprocess.run(["objcopy", "--only-keep-debug", program, debug], check=True)
    subprocess.run(["strip", "-g", debug], check=True)
    with open(debug, "rb") as f, open(section, "wb") as to:
        to.write(lzma.compress(f.read()))
    subprocess.run(["strip", program], check=True)
    subprocess.run(["objcopy", "--add-section", ".gnu_debugdata=" + section, program], check=True)
    return stack.enter_context(workloads.Workload([program])).pid


def by_build_id(stack):
    """Its symbols are where a debug package of this machine puts them."""
    there = os.path.join(workloads.OUT, "apart")
    shutil.rmtree(there, ignore_errors=True)
    os.makedirs(there)
    source, program = workloads.path("shares-hosted"), os.path.join(there, "hosted")
    notes = subprocess.run(["readelf", "-n", source], capture_output=True, text=True, check=True).stdout
    build_id = re.search(r"Build ID: ([0-9a-f]+)", notes)[1]
    folder = f"/usr/lib/debug/.build-id/{build_id[:2]}"
    made = [d for d in ("/usr/lib/debug", "/usr/lib/debug/.build-id", folder) if not os.path.exists(d)]
    os.makedirs(folder, exist_ok=True)
    for d in made:
        stack.callback(os.rmdir, d)
    debug = os.path.join(folder, build_id[2:] + ".debug")
    stack.callback(lambda: os.path.exists(debug) and os.unlink(debug))
    shutil.copy(source, program)
    for argv in (["objcopy", "--only-keep-debug", program, debug], ["strip", program]):
        subprocess.run(argv, check=True)
    return stack.enter_context(workloads.Workload([program])).pid


def deleted(stack):
    """As after an update: it runs on, and no path leads to its file."""
    program = shutil.copy(workloads.path("shares"), os.path.join(workloads.OUT, "deleted"))
    w = stack.enter_context(workloads.Workload([program]))
    os.unlink(program)
    return w.pid


FROM_MEMORY = """
import os, sys
fd = os.memfd_create("forged", 0)
with open(sys.argv[1], "rb") as f, os.fdopen(os.dup(fd), "wb") as to:
    to.write(f.read())
os.execv(f"/proc/self/fd/{fd}", ["forged"])
"""


def in_memory(stack):
    """A file that has no name anywhere."""
    return stack.enter_context(workloads.Workload(
        [sys.executable, "-c", FROM_MEMORY, workloads.path("shares")])).pid


def started(name):
    return lambda stack: stack.enter_context(workloads.start(name)).pid


def contained(name, *args, **more):
    return lambda stack: stack.enter_context(workloads.Contained(name, *args, **more)).pid


# Each way of naming: how to start it, and names that must be there.
PROGRAMS = {
    "C": (started("shares"), SHARES),
    "C++": (started("shares-cc"), ("kiln::Oven::bake", "kiln::fire")),
    "Go": (started("shares-go"), ("main.smelt", "main.(*furnace).blast", "runtime.main")),
    "Go, stripped": (started("shares-go-stripped"), ("main.smelt", "main.(*furnace).blast", "runtime.main")),
    "Rust": (started("shares-rs"), ("shares::forge::anneal",)),
    "Python": (started("python"), ("_PyEval_EvalFrameDefault",)),
    "node with a perf map": (lambda s: with_map(s, workloads.start("jit")), ("kindle", "stoke")),
    "a JVM with a perf map": (jvm, ("Nest", "work")),
    "a container": (contained("shares-static"), SHARES),
    "a container's perf map": (contained("jitted-static", "contained_jit"), ("contained_jit",)),
    "the kernel": (started("syscalls"), ("do_syscall_64",)),
    "the vdso": (started("vdso"), ("clock_gettime",)),
    "32 bits": (started("shares-32"), SHARES[:2]),  # callers of such code are not found
    "a memfd": (in_memory, SHARES),
    "a file that is deleted": (deleted, SHARES),
    "symbols in .gnu_debugdata": (packed, SHARES),
    "a debug file by link": (stripped, SHARES),
    "a debug file by build id": (by_build_id, SHARES),
    "a debug file by build id, in a container": (contained("shares-apart", stripped=True), SHARES),
}


# Programs that run in code made at run time, whose callers are found by frame pointers: the least share
# of their stacks that goes through it. It is nearly all, but for those of a collector that had to wait for
# a CPU: it was 87 % of run's with a third of the CPU time taken away.
BY_POINTERS = {"node with a perf map": 0.7, "a JVM with a perf map": 0.7, "a container's perf map": 0.7}


def by_pointers(words):
    """The share of stacks that a closing line tells of."""
    m = re.search(r"([\d.]+) % by frame pointers through run-time code", words)
    return float(m[1]) / 100 if m else 0


def unnamed(stacks):
    """(share of frames unnamed, its standard error)"""
    rows = [(n, len(frames) - 1, len([f for f in frames[1:] if folded.is_unnamed(f)]))
            for frames, n in stacks]
    frames = sum(n * all_ for n, all_, _ in rows)
    share = sum(n * bad for n, _, bad in rows) / max(1, frames)
    spread = math.sqrt(sum(n * (bad - share * all_) ** 2 for n, all_, bad in rows))
    return share, spread / max(1, frames)


def held(stack, start):
    """The pid of a program that stands still, and ends with the others: what names it stays in its place."""
    pid = start(stack)
    stack.callback(os.kill, pid, signal.SIGCONT)
    os.kill(pid, signal.SIGSTOP)
    return pid


def recorded_alone(pid):
    """A recording of a program that has the CPUs to itself meanwhile."""
    os.kill(pid, signal.SIGCONT)
    for seconds in (SECONDS, 2 * SECONDS, 4 * SECONDS):
        r = record("-p", pid, "-F", RATE, "-d", seconds).ok()
        if r.samples >= LEAST:
            break
    assert r.samples >= LEAST, r.err
    os.kill(pid, signal.SIGSTOP)
    return r


@live
def run_names_what_record_names():
    with contextlib.ExitStack() as stack:
        pids = {name: held(stack, start) for name, (start, _) in PROGRAMS.items()}
        a = stack.enter_context(always("-F", str(RATE)))
        recordings = {name: recorded_alone(pid) for name, pid in pids.items()}
        recorded = {name: r.stacks for name, r in recordings.items()}
        words = {}

        def stored(pid):
            q = a.query(f'cpu{{pid="{pid}"}}', "--from", "now-20m", "-f", "folded", "--annotations")
            stacks = folded.parse(q.stdout) if q.returncode == 0 else folded.Stacks()
            words[pid] = q.stderr
            return stacks if stacks.total > LEAST / 2 else None

        kept = {name: until(f"samples of {name}", lambda p=pid: stored(p)) for name, pid in pids.items()}
        troubles = a.troubles()
    wrong = []
    for name, (_, functions) in PROGRAMS.items():
        r, k = recorded[name], kept[name]
        (mine, e1), (theirs, e2) = unnamed(k), unnamed(r)
        print(f"# {name}: without a name {100 * mine:.2f} % of run's {k.total} samples' frames, "
              f"{100 * theirs:.2f} % of record's {r.total}")
        if abs(mine - theirs) >= 0.01 + 3 * math.hypot(e1, e2):
            wrong.append((name, mine, theirs, sorted(k.named()[1].items(), key=lambda x: -x[1])[:5]))
        mine, theirs = by_pointers(words[pids[name]]), by_pointers(recordings[name].err)
        print(f"# {name}: by frame pointers {100 * mine:.1f} % of run's stacks, {100 * theirs:.1f} % of record's")
        least = BY_POINTERS.get(name, 0)
        if min(mine, theirs) < least or (not least and max(mine, theirs)):
            wrong.append((name, "by frame pointers", mine, theirs))
        for f in functions:
            if not any(f in frame for frame in k.frames()):
                wrong.append((name, f"no {f}", sorted(k.frames().items(), key=lambda x: -x[1])[:9]))
    assert not wrong, "\n".join(map(str, wrong))
    for what in ("refused_calls", "capabilities", "no_sideband"):
        assert troubles[what] == 0, troubles


main()

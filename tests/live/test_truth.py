#!/usr/bin/env python3
"""What is said of a stack is true, of the programs that are hardest to walk: JITs, emulators, another
libc, 32 bits, assembly, libraries that come and go, recursion beyond the cap.

Every stack that is not marked is whole, and every caller can have called what stands on it: by the
code of the call sites (callsites.py), and where the program's call graph is known by that as well.
How many stacks are whole is printed. test_unwind.py has the bars for that; here they are low, and only
tell that there was something to judge.

With SMOLDER_SOAK=1 there are 100,000 samples of all programs together.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import callsites
import generated
import pprof
import workloads
from recording import live, run, wait_cpu
from tap import SOAK, main, skip

RATE = 997
SAMPLES = 8000 if SOAK else 1000  # of each program
SECONDS = 6 if SOAK else 2        # a recording, and there are as many as it takes
ATTEMPTS = 20


def tool(name):
    if not shutil.which(name):
        skip(f"{name} is not installed")
    return name


def record(pid, seconds):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.pb.gz")
        run("record", "-U", "--no-inlines", "--no-lines", "-F", RATE, "-d", seconds, "-p", pid, "-o",
            path).ok()
        return pprof.read(path)


class Row:
    """What came of one program."""

    def __init__(self, name):
        self.name = name
        self.samples = self.whole = self.no_end = self.impossible = self.strict = self.pairs = 0
        self.said = []

    def add(self, judge):
        self.samples += judge.samples
        self.whole += judge.whole
        self.no_end += judge.exceptions("called complete")
        self.impossible += judge.exceptions() - judge.exceptions("called complete")
        self.strict += judge.strict
        self.pairs += judge.strict + judge.loose
        if judge.bad:
            self.said.append(judge.report())

    def add_graph(self, judge):
        self.impossible += judge.impossible()
        if judge.bad:
            self.said.append(str(judge))

    def __str__(self):
        return (f"{self.name:>22} {self.samples:>8} {100 * self.whole / max(1, self.samples):>7.2f} % "
                f"{self.no_end:>6} {self.impossible:>6} {100 * self.strict / max(1, self.pairs):>6.1f} %")


HEAD = f"{'program':>22} {'samples':>8} {'whole':>9} {'no end':>6} {'no call':>6} {'by target':>8}"


def check(name, workload, least=0.0, graphs=(), more=None, ready=None, before=None, **how):
    """Samples a program until there are enough; none of it may be wrong.

    `graphs`: of callgraph.py. `more(judge, stacks)`: what else is known of it. `before(pid)`: called
    before each time that the process is looked into. `how`: of callsites.Judge.
    """
    row = Row(name)
    with workload as w:
        if ready:
            ready(w)
        for _ in range(ATTEMPTS):
            stacks = record(w.pid, SECONDS)
            if before:
                before(w.pid)
            with callsites.Process(w.pid) as p:
                judge = callsites.Judge(p, **how).stacks(stacks)
                if more:
                    more(judge, stacks)
                row.add(judge)
            if graphs:
                row.add_graph(callgraph.Judge(*graphs).stacks(
                    ([s.labels["comm"], *(f.name for f in reversed(s.frames))], s.count)
                    for s in stacks if s.frames))
            if row.samples >= SAMPLES:
                break
    print(f"# {HEAD}\n# {row}", flush=True)
    assert row.samples >= SAMPLES, f"only {row.samples} samples"
    assert not row.said, "\n".join(row.said)
    assert row.whole >= least * row.samples, f"{row.whole} of {row.samples} are whole"


def used(seconds):
    """It has left its beginnings when it has used so much CPU time."""
    return lambda w: wait_cpu(w, seconds)


def start(*argv, **kw):
    tool(argv[0])
    return workloads.Workload(argv, says=None, stderr=subprocess.DEVNULL, **kw)


def source(name):
    return os.path.join(workloads.SRC, name)


def built(name, *command):
    """A file that a command makes, in a directory that it may fill."""
    tool(command[0])
    out = os.path.join(workloads.OUT, "truth")
    os.makedirs(out, exist_ok=True)
    subprocess.run(command, cwd=out, check=True, capture_output=True)
    return os.path.join(out, name)


# -- emulators and JITs -------------------------------------------------------------------------------

@live
def qemu_translating():
    tool("qemu-system-x86_64")
    built("boot.o", "as", "--32", "-o", "boot.o", source("boot.S"))
    image = built("boot.img", "ld", "-m", "elf_i386", "-Ttext", "0x7c00", "--oformat", "binary", "-o",
                  "boot.img", "boot.o")
    check("qemu (TCG)", start(
        "qemu-system-x86_64", "-accel", "tcg,tb-size=16", "-m", "16", "-display", "none", "-monitor",
        "none", "-serial", "none", "-net", "none", "-drive", f"if=floppy,format=raw,file={image}"),
        ready=used(2), pushed=True)  # by its slow paths of loads and stores


@live
def luajit():
    check("luajit", start("luajit", source("nest.lua")), ready=used(0.5))


@live
def luajit_interpreting():
    check("luajit -joff", start("luajit", "-joff", source("nest.lua")), ready=used(0.5))


@live
def erlang():
    beam = built("nest.beam", "erlc", source("nest.erl"))
    check("erlang", start("erl", "-noshell", "-pa", os.path.dirname(beam), "-s", "nest", "main"),
          ready=used(1.5))


def nest_map(pid):
    subprocess.run(["jcmd", str(pid), "Compiler.perfmap"], check=True, capture_output=True)


NEST = ["main", "run", *(f"f{i}" for i in range(1, 13))]


def nest_order(judge, stacks):
    """The functions of Nest.java are there in the one order that they call each other in."""
    for s in stacks:
        frames = [f for f in reversed(s.frames)]
        names = [judge.process.jit_function(f.addr) if f.file is None and f.addr else None
                 for f in frames]
        own = [m[1] for n in names if n for m in [re.search(r"Nest(?:\.|::)(\w+)", n[2])] if m]
        chain = [f for f in own if f in NEST and f not in ("main", "run")]
        if not own:
            continue
        first = 1 if frames[0].addr else int(chain[0][1:]) if chain else 1
        want = [f"f{i}" for i in range(first, first + len(chain))]
        by = chain[-1] if chain else None
        if chain != want or ("work" in own and frames[0].addr and by not in ("f5", "f12")):
            judge.bad.setdefault("Nest's functions are not in their order", []).append(
                (s.count, ";".join(n[2] if n else f.name for n, f in zip(names, frames))))


def java(name, *options, least=0.0):
    tool("jcmd")
    there = built("", "javac", "-d", ".", source("Nest.java"))
    argv = [tool("java"), "-Xmx256m", *options, "-XX:CompileCommand=quiet",
            "-XX:CompileCommand=dontinline,Nest.*", "-cp", there, "Nest"]
    w = workloads.Workload(argv, stderr=subprocess.DEVNULL)
    try:
        check(name, w, least, more=nest_order, before=nest_map)
    finally:
        if os.path.exists(f"/tmp/perf-{w.pid}.map"):
            os.unlink(f"/tmp/perf-{w.pid}.map")


@live
def java_without_flags():
    java("java")


@live
def java_with_frame_pointers():
    java("java -XX:+Preserve…", "-XX:+PreserveFramePointer", least=0.5)


@live
def node():
    check("node", workloads.start("interp-js"), 0.5)
    check("node, a hot loop", workloads.start("node"), 0.9)


@live
def python():
    check("python3", workloads.start("interp-py"), 0.5)


@live
def valgrind():
    _, path = generated.program("aa", 3)
    # It gives each thread a stack of its own, on which a function that never returns is called by a
    # jump; its tools are stripped, so that no name tells.
    check("valgrind", start("valgrind", "-q", "--tool=memcheck", path, "loop"), ready=used(2),
          no_return=True)


# -- C that has no tables, or other ones ---------------------------------------------------------------

def generated_program(variant, least=0.0):
    g, path = generated.program("aa", 3, variant)
    check(variant, workloads.Workload([path, "loop"]), least, [g])


@live
def musl():
    generated_program("musl", 0.9)


@live
def musl_static():
    generated_program("musl-static", 0.9)


@live
def thirty_two_bits():
    generated_program("gcc-32")


@live
def thirty_two_bits_static():
    generated_program("gcc-32-static")


@live
def glibc():
    generated_program("gcc", 0.5)


@live
def what_is_missing_is_seen():
    """The judge itself: of real stacks with one frame taken out it objects to most."""
    _, path = generated.program("aa", 3)
    with workloads.Workload([path, "loop"]) as w:
        stacks = [s for s in record(w.pid, 1) if len(s.frames) > 4]
        with callsites.Process(w.pid) as p:
            cut = [s._replace(frames=s.frames[:at] + s.frames[at + 1:]) for i, s in enumerate(stacks)
                   for at in [1 + i % (len(s.frames) - 2)]]
            seen = callsites.Judge(p).stacks(cut).exceptions()
            rootless = [s._replace(frames=s.frames[:-2]) for s in stacks]
            ends = callsites.Judge(p).stacks(rootless).exceptions("called complete")
    total = sum(s.count for s in stacks)
    print(f"# {seen} of {total} seen")
    assert seen > 0.4 * total and ends == total, (seen, ends, total)


JUMPS = ["jump", "jump_first", "jump_second", "jump_third"]


def jumps_order(judge, stacks):
    """The functions of jumps.c are there in the one order that they call each other in, also while
    glibc's __longjmp has left some of them already."""
    assert any(s.frames[0].name == "__longjmp" for s in stacks), "no sample in __longjmp"
    for s in stacks:
        names = [f.name for f in reversed(s.frames)]
        own = [n for n in names if n in JUMPS]
        below = [n for n in names if "longjmp" in n.lower() or n == "__pthread_cleanup_upto"]
        whole = all(f.addr for f in s.frames)
        if whole and own != JUMPS[:len(JUMPS) if below else len(own)]:
            judge.bad.setdefault("jumps.c's functions are not in their order", []).append(
                (s.count, ";".join(names)))


@live
def longjmp():
    check("longjmp", workloads.start("jumps"), 0.9, more=jumps_order)


@live
def libraries_that_come_and_go():
    g, path = generated.program("aa", 3)
    graphs, args = [g], []
    for i in range(5):
        lib, so = generated.library(f"l{i}", 20 + i)
        graphs.append(lib)
        args += [so, f"l{i}_entry"]
    check("dlopen, dlclose", workloads.Workload([path, "dlopen", *args]), 0.5, graphs)


@live
def assembly_of_libx264():
    check("ffmpeg, libx264", start(
        "ffmpeg", "-nostdin", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=30", "-t", "36000",
        "-c:v", "libx264", "-preset", "medium", "-f", "null", "-"), ready=used(1))


@live
def go_changing_stacks():
    check("go, its scheduler", workloads.start("runtime"), 0.5)


@live
def go_that_recurses():
    check("go, 2,000 deep", workloads.start("deep", "2000"))
    # Deeper than the cap it loses its middle, not its root; but for the first samples, which come with
    # as much of the stack as is copied: so it is watched for longer. They are the fewer the sooner the
    # collector is given a CPU.
    with workloads.start("deep", "2000") as w:
        own = [s for s in record(w.pid, 6) if any(f.name.startswith("main.") for f in s.frames)]
    total = sum(s.count for s in own)
    kept = sum(s.count for s in own if s.frames[-1].name.startswith("runtime.goexit"))
    print(f"# {kept} of {total} end in runtime.goexit")
    assert total and kept >= 0.95 * total, (kept, total)


main()

#!/usr/bin/env python3
"""Whole stacks, from _start to the leaf, of programs as distributions build them.

A stack is complete when its root is where the program, the thread or the goroutine began. Stacks
that have no user side (a process at its end, or half way into another program) do not count. Rates
are higher than 99 Hz only to have enough samples in little time: each sample is walked alone.
"""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import generated
import peers
import workloads
from folded import Stacks
from recording import live, record
from tap import SOAK, main, skip

RATE = 1999
SECONDS = 20 if SOAK else 4
GO_ROOTS = r"runtime\.(goexit(\.abi0|0)?|rt0_go(\.abi0)?|mstart(0|\.abi0)?|_?rt0_amd64.*)|_rt0_amd64.*"
# Without libc's debug symbols, clone3 has no name.
ROOT = re.compile(r"_start|(__)?clone3?|start_thread|\[libc\.so\.6\+0x[0-9a-f]+\]|" + GO_ROOTS)


def user_frames(frames):
    return [f for f in frames[1:] if not f.endswith(callgraph.NO_CALL)]


class Share:
    """How many of the stacks are complete, and what the others look like."""

    def __init__(self, stacks, comm=None):
        self.whole = self.total = 0
        self.ends = collections.Counter()
        for frames, count in stacks:
            user = user_frames(frames)
            if not user or (comm and frames[0] != comm):
                continue
            self.total += count
            if ROOT.fullmatch(user[0]):
                self.whole += count
            else:
                self.ends[";".join(user[:2])] += count

    @property
    def share(self):
        return self.whole / self.total if self.total else 0.0

    def __str__(self):
        worst = ", ".join(f"{n} {end}" for end, n in self.ends.most_common(8))
        return f"{100 * self.share:.2f} % of {self.total} complete" + (f"; not: {worst}" if worst
                                                                        else "")


def judge(what, stacks, bar, comm=None, least=500, said=""):
    got = Share(stacks, comm)
    print(f"# {what}: {got}")
    assert got.total >= least, f"only {got.total} samples of {what}; {said}"
    assert got.share >= bar, f"{what}: {got}\n{said}"


def watch(what, bar, workload, *options, rate=RATE, **kw):
    with workload as w:
        r = record("-v", "-F", rate, "-d", SECONDS, "--annotations", *(options or ("-p", w.pid)),
                   timeout=120).ok()
    judge(what, r.stacks, bar, said=r.err, **kw)
    return r.stacks


@live
def c_without_frame_pointers():
    for variant in ("gcc", "clang", "gcc-static"):
        _, path = generated.program("aa", 3, variant)
        watch(variant, 0.995, workloads.Workload([path, "loop"]))


@live
def signal_handlers_and_the_vdso():
    _, path = generated.program("aa", 3)
    stacks = watch("signals", 0.99, workloads.Workload([path, "signals"]), rate=4999)
    handled = Stacks(s for s in stacks if "__restore_rt" in s[0] or
                     any(f in callgraph.HANDLERS for f in s[0]))
    judge("in handlers", handled, 0.99, least=50)
    timed = Stacks(s for s in stacks if any("clock" in f and "gettime" in f for f in s[0]))
    judge("in the vdso", timed, 0.99, least=20)


@live
def threads_in_libc():
    watch("threads in libc", 0.995, workloads.start("glibc"))


@live
def cpp_with_exceptions():
    watch("C++", 0.99, workloads.start("throws"))


@live
def python():
    watch("python3", 0.995, workloads.start("interp-py"))


@live
def node():
    watch("node", 0.99, workloads.start("interp-js"))


@live
def ruby():
    watch("ruby", 0.99, workloads.start("interp-rb"))


@live
def php():
    watch("php", 0.99, workloads.start("interp-php"))


@live
def clang_compiling_cpp():
    clang = shutil.which("clang++")
    if not clang:
        skip("clang is not installed")
    text = ("#include <regex>\n#include <map>\n#include <iostream>\n#include <algorithm>\n"
            "bool f(const char *s) { return std::regex_match(s, std::regex(\"a*b+\")); }\n")
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "x.cc"), "w") as f:
            f.write(text)
        r = record("-v", "-F", RATE, "--annotations", "--", clang, "-O2", "-c", "x.cc", "-o", "x.o",
                   cwd=d, timeout=120).ok()
    judge("clang", r.stacks, 0.97, comm="clang-14" if "clang-14" in r.stacks.comms() else None,
          said=r.err)


main()

#!/usr/bin/env python3
"""Whole stacks of Go programs, stripped or not, and through C in both directions."""
import concurrent.futures
import contextlib
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import workloads
from recording import live, record
from tap import main

# Where a stack of Go ends: a goroutine, a thread of the scheduler, what a goroutine left behind.
OUTERMOST = {"runtime.goexit", "runtime.mstart", "runtime.mcall", "runtime.rt0_go", "gogo",
             "runtime.gogo", "runtime.gopreempt_m", "_start", "__clone3", "clone3"}

# Whoever calls these on a goroutine: the runtime's own ways between stacks.
BEFORE = {
    # (newm1: a new thread of a program with C is made by C)
    "runtime.asmcgocall": {"runtime.cgocall", "runtime.newm1", "runtime.asmcgocall"},
    "runtime.cgocallbackg": {"runtime.cgocallback", "runtime.cgocallbackg"},
    "runtime.newstack": {"runtime.morestack", "runtime.newstack"},
    "c_leaf": {"c_middle", "_cgo_Cfunc_c_leaf"},
    "c_less": {"msort_with_tmp.part.0", "c_less"},
    "main.tree": {"main.tree", "main.garbage"},
    "main.deep": {"main.deep", "main.growing.func1"},
    "runtime.gcDrain": {"runtime.gcBgMarkWorker.func2"},
    "runtime.gcBgMarkWorker.func2": {"runtime.systemstack"},
}


def complete(stacks):
    """The share of samples that reach an outermost frame."""
    whole = sum(n for f, n in stacks if len(f) > 1 and f[1] in OUTERMOST)
    assert stacks.total >= 300, f"{stacks.total} samples"
    return whole / stacks.total


def cut(stacks):
    """The stacks that are not complete, the most frequent first, for a message."""
    bad = sorted(((n, f) for f, n in stacks if len(f) < 2 or f[1] not in OUTERMOST), reverse=True)
    return "\n".join(f"{n} {';'.join(f)}"[:300] for n, f in bad[:10])


def plain(frame):
    """Without the hash that cgo puts into names."""
    parts = frame.split("_")
    return "_cgo_" + "_".join(parts[3:]) if frame.startswith("_cgo_") else frame


def check_edges(stacks):
    for frames, _ in stacks:
        frames = [plain(f) for f in frames[1:]]
        for caller, callee in zip(frames, frames[1:]):
            if callee in BEFORE and caller not in ("[incomplete]", "[truncated]"):
                assert caller in BEFORE[callee], f"{caller} calls {callee}: {';'.join(frames)}"


def go_stacks(*names, seconds=10):
    """The stacks of programs that run beside each other, each recorded on its own."""
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor() as pool:
        pids = [stack.enter_context(workloads.start(n)).pid for n in names]
        return list(pool.map(lambda pid: record("-p", pid, "-F", 499, "-d", seconds).ok().stacks, pids))


@live
def every_kind_of_go_code_is_walked_to_its_goroutine():
    names = ("runtime", "runtime-stripped", "runtime-pie")
    for name, stacks in zip(names, go_stacks(*names)):
        share = complete(stacks)
        assert share >= 0.95, f"{name}: {share:.4f} complete; not:\n{cut(stacks)}"
        check_edges(stacks)
        # Nothing that a goroutine does is lost: each kind of work is below its goroutine.
        for work in ("hashing", "garbage", "channels", "mapping", "growing", "clocks"):
            below = sum(n for f, n in stacks if f[1] == "runtime.goexit" and "main." + work in f)
            assert below, f"{name}: nothing of {work}:\n{cut(stacks)}"
        print(f"# {name}: {share:.4f} of {stacks.total} samples complete")


@live
def the_collector_works_for_a_goroutine():
    """What runs on the scheduler's stack for a goroutine shows who asked for it."""
    stacks, = go_stacks("runtime-stripped", seconds=5)
    switched = [(f, n) for f, n in stacks if "runtime.systemstack" in f and f[1] in OUTERMOST]
    assert switched
    for frames, _ in switched:
        at = frames.index("runtime.systemstack")
        assert frames[at - 1] != "runtime.goexit", f"who called systemstack? {';'.join(frames)}"


@live
def c_without_frame_pointers_is_walked_through_cgo_to_its_goroutine():
    for name in ("cgo", "cgo-stripped"):
        # Samples taken before the tables are there brought one of the two stacks along only.
        stacks, = go_stacks(name, seconds=20)
        share = complete(stacks)
        assert share >= 0.95, f"{name}: {share:.4f} complete; not:\n{cut(stacks)}"
        print(f"# {name}: {share:.4f} of {stacks.total} samples complete")
        check_edges(stacks)
        if name == "cgo-stripped":
            continue
        leaf = [f for f, _ in stacks if "c_leaf" in f and f[1] == "runtime.goexit"]
        down = [f for f in leaf if "main.down" in f]
        back = [f for f in leaf if "main.goBack" in f]
        assert down and back, cut(stacks)
        for frames in down:
            assert order(frames, "main.down", "runtime.cgocall", "runtime.asmcgocall", "c_middle",
                         "c_leaf"), frames
        for frames in back:
            assert order(frames, "main.andBack", "runtime.asmcgocall", "c_back", "crosscall2",
                         "runtime.cgocallback", "main.goBack", "runtime.asmcgocall",
                         "c_leaf"), frames


def order(frames, *names):
    """Whether the names come in this order."""
    rest = iter(frames)
    return all(name in rest for name in names)


main()

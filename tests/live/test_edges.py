#!/usr/bin/env python3
"""No stack shows a call that cannot be: programs of known call graphs, under all that confuses
unwinders: signals, stacks of odd shapes, libraries at the addresses of others, programs that become
others, children, reused pids, tables that are thrown out.

A stack may end early; then it is marked so, at its root, and is rare.
"""
import hashlib
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import workloads
from recording import live, record
from tap import SOAK, main, skip

RATE = 4999
SECONDS = 30 if SOAK else 4
GCC = ["gcc", "-std=gnu17", "-O2", "-g", "-w", "-fomit-frame-pointer", *callgraph.EXACT_GCC]
CLANG = ["clang", "-std=gnu17", "-O2", "-g", "-w", "-fomit-frame-pointer", *callgraph.EXACT]
VARIANTS = {
    "gcc": GCC,
    "gcc-static": GCC + ["-static"],
    "gcc-os": GCC + ["-Os", "-fstack-protector-all", "-fcf-protection=full"],
    "gcc-o3": GCC + ["-O3", "-march=native", "-fstack-clash-protection", "-Wl,-z,lazy"],
    "gcc-fp": [a for a in GCC if a != "-fomit-frame-pointer"] + ["-fno-omit-frame-pointer"],
    "clang": CLANG,
}


def build(name, source, command):
    out = os.path.join(workloads.OUT, name)
    workloads.build_text(out, source, command + ["-I", workloads.SRC, "-pthread"])
    return out


def program(tag, seed, variant="gcc"):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}", g.program(), VARIANTS[variant])


def library(tag, seed, variant="gcc"):
    g = callgraph.Graph(tag, seed)
    return g, build(f"edges-{tag}-{variant}.so", g.library(),
                    VARIANTS[variant] + ["-shared", "-fPIC"])


def watch(argv, graphs, *options, own=None, seconds=SECONDS, marked=0.01, least=2000, **env):
    """Records a program while it runs, and judges its stacks."""
    with workloads.Workload(argv, env={**os.environ, **env} if env else None) as w:
        target = options or ("-p", w.pid)
        r = record("-v", "-F", RATE, "-d", seconds, "--annotations", *target, timeout=120).ok()
    judge = callgraph.Judge(*graphs, own=own).stacks(r.stacks)
    assert not judge.bad, f"{judge}\n{r.err}"
    assert judge.total >= least, f"{judge}\n{r.err}"
    assert judge.marked <= marked * judge.total, f"{judge}\n{r.err}"
    print(f"# {judge}")
    return r


def each_compiler(mode, *args, **kw):
    for i, variant in enumerate(VARIANTS):
        g, path = program("aa", 7 + i, variant)
        watch([path, mode, *args], [g], **kw)


@live
def frames_of_every_shape():
    each_compiler("loop")


@live
def signals_on_two_stacks():
    each_compiler("signals")


@live
def threads():
    g, path = program("aa", 3)
    watch([path, "threads", "4"], [g])


main()

#!/usr/bin/env python3
"""No stack shows a call that cannot be: programs of known call graphs, under all that confuses
unwinders: signals, stacks of odd shapes, libraries at the addresses of others, programs that become
others, children, reused pids, tables that are thrown out.

A stack may end early; then it is marked so, at its root, and is rare.
"""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import workloads
from generated import VARIANTS, library, program
from recording import live, record
from tap import SOAK, main, skip

RATE = 4999
SECONDS = 30 if SOAK else 4
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


@live
def libraries_that_land_where_others_were():
    g, path = program("aa", 3)
    graphs, args = [g], []
    for i in range(5):
        lib, so = library(f"l{i}", 20 + i)
        graphs.append(lib)
        args += [so, f"l{i}_entry"]
    watch([path, "dlopen", *args], graphs, marked=0.4)


def storm(variant, ms, marked, **env):
    """Programs that become each other; what runs under a name has only that one's functions."""
    graphs, paths, own = [], [], {}
    for i in range(4):
        g, path = program(f"v{i}", 40 + i, variant)
        graphs.append(g)
        paths.append(path)
        own[os.path.basename(path)[:15]] = {f"v{i}"}
    watch([paths[0], "exec", ms, *paths[1:], paths[0]], graphs, own=own, marked=marked, **env)


@live
def an_exec_storm():
    storm("gcc", "20", 0.1)


@live
def an_exec_storm_at_the_same_addresses():
    storm("gcc-static", "20", 0.1)


@live
def an_exec_storm_of_very_short_programs():
    storm("gcc-static", "2", 0.4)


@live
def children_that_do_not_exec():
    g, path = program("aa", 3)
    watch([path, "fork", "15"], [g], "--comm", os.path.basename(path)[:15], marked=0.1)


@live
def mappings_that_change_all_the_time():
    g, path = program("aa", 3)
    files = [library(f"l{i}", 20 + i)[1] for i in range(3)]
    watch([path, "remap", "2", *files], [g], marked=0.02)


main()

#!/usr/bin/env python3
"""No stack shows a call that cannot be: programs of known call graphs, under all that confuses
unwinders: signals, stacks of odd shapes, libraries at the addresses of others, programs that become
others, children, reused pids, tables that are thrown out.

A stack may end early; then it is marked so, at its root, and is rare.
"""
import math
import os
import re
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import workloads
from folded import Stacks
from generated import VARIANTS, distinct, library, program
from recording import PATIENCE, TooFew, live, over_time, record
from tap import SOAK, main, skip

RATE = 4999
SECONDS = 30 if SOAK else 4


def watch(argv, graphs, *target, options=(), own=None, marked=0.01, least=2000, seconds=SECONDS,
          rate=RATE):
    """Records a program while it runs, and judges its stacks."""
    def judged(seconds):
        with workloads.Workload(argv) as w:
            r = record("-v", "-F", rate, "-d", seconds, "--annotations", *options,
                       *(target or ("-p", w.pid)), timeout=PATIENCE + seconds).ok()
        return check(graphs, r.stacks, r, own, marked, least)
    return over_time(judged, seconds, TooFew)


def said(r, what):
    return int(re.search(rf"(\d+) {what}", r.err)[1])


def check(graphs, stacks, r, own, marked, least):
    judge = callgraph.Judge(*graphs, own=own).stacks(stacks)
    assert not judge.bad, f"{judge}\n{r.err}"
    if judge.total < least or judge.marked > marked * judge.total:
        raise TooFew(f"{judge}\n{r.err}")
    print(f"# {judge}, {r.lost} lost")
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


def open_and_close(rows, *options, libraries=5, **kw):
    g, path = program("aa", 3)
    graphs, args = [g], []
    for i in range(libraries):
        lib, so = library(f"l{i}", 20 + i, rows=rows)
        graphs.append(lib)
        args += [so, f"l{i}_entry"]
    return watch([path, "dlopen", *args], graphs, *options, **kw)


@live
def libraries_that_land_where_others_were():
    # Until a drain has told the BPF side of the first that took another's place, stacks are cut.
    open_and_close(0, marked=0.05)


@live
def tables_that_are_thrown_out():
    # Four fit, and those that were thrown out do not come back at once: most stacks end early then,
    # how many depends on who else has the CPU. None is wrong.
    files = 16 + 8  # the program's own, and a few of the C library and the loader
    began = time.monotonic()
    r = open_and_close(60000, options=("--tables", 3), libraries=files - 8, marked=1)
    took = time.monotonic() - began
    assert said(r, "evicted") >= 10, r.err
    # The pause of a table that was thrown out begins with a second and doubles each time.
    most = files * (2 + math.log2(1 + took))
    assert said(r, "tables made") < most, f"more than {most:.0f} in {took:.1f} s\n{r.err}"


@live
def a_flood_of_programs():
    """Hundreds of programs, each with a table of its own, one after the other."""
    count, rows, ms = (1000, 24000, 20) if SOAK else (300, 24000, 10)
    graphs, paths, own = [], [], {}
    for i in range(4):
        g, path = program(f"v{i}", 40 + i, rows=rows)
        graphs.append(g)
        paths.append(path)
    with tempfile.TemporaryDirectory(dir=workloads.OUT) as d:
        flood = []
        for n in range(count):
            flood.append(os.path.join(d, f"flood{n}"))
            distinct(paths[n % 4], flood[-1], n)
            own[f"flood{n}"] = {f"v{n % 4}"}
        for mb in (24, 3):
            r, seen = watch_most(flood, ms, graphs, own, ("--tables", mb))
            held = float(re.search(r"rows in ([\d.]+) MB", r.err)[1])
            assert held <= mb * 1.0486, r.err
            assert said(r, "tables made") >= 0.9 * seen, f"{seen} seen\n{r.err}"
            assert said(r, "evicted") > (5 if mb == 24 else 0.5 * seen), f"{seen} seen\n{r.err}"


def watch_most(flood, ms, graphs, own, options):
    """Until most have been sampled: they run for so long, but others may have the CPU."""
    seconds = 1.5 * len(flood) * ms / 1000
    while True:
        r = watch([flood[0], "exec", ms, *flood[1:], flood[0]], graphs, own=own, marked=1,
                  options=options, seconds=seconds, rate=999, least=500)
        seen = len(r.stacks.comms())
        if seen >= 0.9 * len(flood):
            return r, seen
        assert seconds < 300, f"only {seen} sampled in {seconds} s\n{r.err}"
        seconds *= 2


def several(variant):
    """Four programs: (graphs, paths, what functions each may have)"""
    graphs, paths, own = [], [], {}
    for i in range(4):
        g, path = program(f"v{i}", 40 + i, variant)
        graphs.append(g)
        paths.append(path)
        own[os.path.basename(path)[:15]] = {f"v{i}"}
    return graphs, paths, own


def storm(variant, ms, marked):
    """Programs that become each other; what runs under a name has only that one's functions."""
    graphs, paths, own = several(variant)
    watch([paths[0], "exec", ms, *paths[1:], paths[0]], graphs, own=own, marked=marked)


@live
def an_exec_storm():
    storm("gcc", "20", 0.1)


@live
def an_exec_storm_at_the_same_addresses():
    storm("gcc-static", "20", 0.1)


@live
def an_exec_storm_of_very_short_programs():
    storm("gcc-static", "2", 0.4)


def reuse(variant, ms, marked):
    """One program after the other with the pid of the one before."""
    graphs, paths, own = several(variant)

    def judged(seconds):
        r = record("-v", "-a", "-F", RATE, "-d", seconds, "--annotations").ok()
        check(graphs, Stacks(s for s in r.stacks if s[0][0] in own), r, own, marked, 500)
    with workloads.start("reuse", 1000000, ms, *paths) as w:
        over_time(judged, SECONDS, TooFew)
    assert w.truth["same"] > 0.9 * w.truth["started"] > 10, w.truth


@live
def a_pid_that_is_used_again():
    reuse("gcc", "30", 0.1)


@live
def a_pid_that_is_used_again_at_the_same_addresses():
    reuse("gcc-static", "10", 0.1)


@live
def children_that_do_not_exec():
    g, path = program("aa", 3)
    watch([path, "fork", "15"], [g], "--comm", os.path.basename(path)[:15], marked=0.1)


@live
def mappings_that_change_all_the_time():
    g, path = program("aa", 3)
    files = [library(f"l{i}", 20 + i)[1] for i in range(3)]
    # So fast that events are lost now and then: what was sampled meanwhile is cut. That is the more the
    # more often the collector waits for a CPU.
    watch([path, "remap", "2", *files], [g], marked=0.25)


main()

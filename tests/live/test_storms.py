#!/usr/bin/env python3
"""Bad days: programs that start by the thousand, more threads than CPUs by far."""
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import callgraph  # noqa: E402
import folded  # noqa: E402
import generated  # noqa: E402
import workloads  # noqa: E402
from always import always, until  # noqa: E402
from container import container  # noqa: E402
from recording import caching_in, live, record, wait_cpu  # noqa: E402
from tap import hurry, main  # noqa: E402


def marked(stacks):
    """The share of samples whose stack is not whole."""
    return sum(n for f, n in stacks if "[incomplete]" in f or "[truncated]" in f) / stacks.total


@live
def run_keeps_up_with_thousands_of_programs_a_second():
    # Side-band records of a quarter of a second are several times what their rings hold.
    with always() as a, workloads.start("shares"):
        with contextlib.ExitStack() as storm:
            for _ in range(2):
                storm.enter_context(workloads.start("forks", "1000000", workloads.path("quick")))

            def enough():
                got = folded.parse(a.query("-f", "folded", '{comm="shares"}').stdout)
                return got if got.total >= 100 else None
            stacks = until("samples of the one that goes on", enough)
            storms = {comm: folded.parse(a.query("-f", "folded", f'{{comm="{comm}"}}').stdout)
                      for comm in ("forks", "quick")}
        lost = sum(a.collectors("smolder_collector_sideband_lost_total"))
    assert marked(stacks) < 0.2, f"{marked(stacks):.3f} are not whole, {lost:.0f} records lost"
    # Those that start programs, and those that are started: `record` has 6 % of them marked. Most of it
    # are children on their way out of clone(), which have no caller yet.
    for comm, got in storms.items():
        print(f"# {comm}: {100 * marked(got):.1f} % of {got.total} are not whole")
        assert got.total >= 30 and marked(got) < 0.2, (comm, marked(got), got)


@live
def a_storm_of_programs_is_few_series():
    # A day of the store has room for 20,000: a series a process would use them up in minutes, and from
    # then on everything new were "(other)".
    with always("--offcpu", "yes") as a, contextlib.ExitStack() as storm:
        for _ in range(3):  # more than there are CPUs: samples come late, and off-CPU time is of the dead
            storm.enter_context(workloads.start("forks", "1000000", workloads.path("quick")))
        a.wait_sampled(200, "cpu")
        time.sleep(12)  # a window's end
        pids = {t: len(a.json(f"/api/v1/labels/pid/values?query={t}%7Bcomm=%22quick%22%7D")["values"])
                for t in ("cpu", "offcpu")}
    print(f"# {pids}")
    # One that is alive as a window ends has its own.
    assert all(n < 30 for n in pids.values()), pids


@live
def the_cost_of_starting_programs_has_a_caller():
    # What the kernel does in clone() is much of it, and glibc's table has a hole there.
    with workloads.start("forks", "1000000", workloads.path("quick")) as w:
        r = record("-p", w.pid, "-F", 997, "-d", 3, "--annotations").ok()
    started = [(f, n) for f, n in r.stacks if any("clone" in frame for frame in f)]
    total = sum(n for _, n in started)
    whole = sum(n for f, n in started if "[incomplete]" not in f)
    print(f"# {whole} of {total} in clone are whole, {1 - marked(r.stacks):.3f} of all")
    assert total > 20 and whole > 0.95 * total, r.stacks
    assert all("main" in f for f, _ in started if "[incomplete]" not in f), started


LARGE = r"""
#include <alloca.h>
#include <string.h>
#define F __attribute__((noinline))
F int spin(volatile char *at) { for (;;) at[0]++; }
F int deep(void) { char *b = alloca(100000); memset(b, 1, 100000); return spin(b) + b[7]; }
int main(void) { return deep(); }
"""


@live
def a_new_program_does_not_wait_behind_a_large_one():
    """Its table is made while that of the other is, whose stacks leave it room to wait in."""
    large = generated.build("large", LARGE + callgraph.Graph.padding(3000000), generated.GCC)
    graph, small = generated.program("aa", 3)
    with tempfile.TemporaryDirectory(dir=workloads.OUT) as d:
        both = [os.path.join(d, os.path.basename(path)) for path in (large, small)]
        for path, to in zip((large, small), both):
            generated.distinct(path, to, time.time_ns())  # no table of it is on disk
        os.truncate(both[0], 16 << 20)
        r = record("-F", 997, "--annotations", "--", "sh", "-c",
                   "$0 & one=$!; sleep 0.05; $1 loop >/dev/null & sleep 0.7; kill $! $one", *both).ok()
    judge = callgraph.Judge(graph).stacks(r.stacks.of(os.path.basename(small)))
    assert not judge.bad, judge
    assert judge.total > 100 and judge.marked < 0.2 * judge.total, f"{judge}: {r.err}"


@live
def a_recording_ends_on_time_among_hundreds_of_threads():
    # What was recorded waits for tables that are not on disk, as on a new machine.
    with tempfile.TemporaryDirectory() as cache, contextlib.ExitStack() as stack:
        stack.enter_context(workloads.start("node"))
        os.setpriority(os.PRIO_PROCESS, 0, 0)  # as all others: what tests get does not count here
        stack.callback(hurry)
        # In this session: the kernel may share out the CPU by sessions.
        crowd = subprocess.Popen([workloads.path("crowd"), "200"], stdout=subprocess.DEVNULL)
        stack.callback(crowd.wait)
        stack.callback(crowd.kill)
        began = time.monotonic()
        r = record("-a", "-d", 2, preexec_fn=caching_in(cache)).ok()
        took = time.monotonic() - began
    assert r.samples > 100, r.err
    assert took < 5, f"2 s took {took:.1f} s: {r.err}"


@live
def ticks_that_the_kernel_skips_are_told():
    with workloads.start("updates"), workloads.start("updates"):
        r = record("-v", "-a", "-F", 499, "-d", 2).ok()
    m = re.search(r"(\d+) of (\d+) ticks did not come", r.err)
    assert m and int(m[1]) > 0.05 * int(m[2]), r.err
    assert re.search(r"^smolder: [\d.]+ % of the timer's ticks were missed: other BPF", r.err,
                     re.M), r.err
    with always() as a, workloads.start("updates"):
        until("ticks to be missed",
              lambda: sum(a.collectors("smolder_collector_ticks_missed_total")) > 5)


@live
def a_container_that_lives_for_a_second_keeps_its_label():
    with always() as a:
        a.wait_stored()  # so a window has just begun, and ends long after the container
        with container() as (name, procs), workloads.start("shares") as w:
            with open(procs, "w") as f:
                f.write(str(w.pid))
            wait_cpu(w, 0.7)

        def found():
            got = a.query("-f", "folded", f'{{container="{name[:12]}"}}')
            return got.returncode == 0 and folded.parse(got.stdout).total
        until("its samples, under its name", found, 40)


main()

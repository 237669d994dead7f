#!/usr/bin/env python3
"""Always on: the time that threads wait, by stack, beside what they say themselves."""
import json
import os
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import WINDOW, account, always, served, until  # noqa: E402
from recording import live, undisturbed  # noqa: E402
from tap import main  # noqa: E402

NS = 1e9


def waits(a, comm="waits"):
    """All that is stored of the workload, up to now."""
    r = a.query(f'offcpu{{comm="{comm}"}}', "--from", "now-1h", "-f", "folded")
    return folded.parse(r.stdout if r.returncode == 0 else "")


def run_waits(*args):
    return subprocess.Popen([workloads.path("waits"), *map(str, args)], stdout=subprocess.PIPE, text=True)


def truths(p):
    """{function: ns} as the workload measured it."""
    out = p.communicate()[0]
    assert p.returncode == 0, p.returncode
    return json.loads(out.splitlines()[-1])


@live
@undisturbed
def waits_are_where_they_are_and_as_long_as_they_are():
    """Two functions that sleep, called in turn from one loop: the same instruction, the same sp."""
    with always("--offcpu", "yes") as a:
        running = [run_waits("sleeps", 2000), run_waits("lock", 4500), run_waits("pipe", 6000)]
        want = {}
        for p in running:
            want.update(truths(p))
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            got = waits(s)
            taken, stored, lost = account(s.metrics())
            assert taken == stored + lost and lost == 0, (taken, stored, lost)
            everything = [s.json(f"/api/v1/query?query={t}&from=now-1h")["samples"]
                          for t in ("cpu", "offcpu", "oncpu")]
            assert sum(everything) == stored, (everything, stored)
    for name in ("short_sleep", "long_sleep", "lock_wait", "pipe_wait"):
        there = got.count(name)
        print(f"# {name}: {there / NS:.3f} s of {want[name] / NS:.3f}")
        assert abs(there - want[name]) < 0.05 * want[name], (name, there, want[name])


@live
@undisturbed
def a_wait_that_goes_on_is_in_each_window_once():
    """It began before we did, and counts from our beginning; and what is not over is asked for."""
    with workloads.start("waits", "forever", "1"), always("--offcpu", "yes") as a:
        began = time.monotonic()
        first = until("the first window", lambda: waits(a).count("stuck_wait"), 40)
        later = until("two more", lambda: (lambda n: n > first + 1.5 * WINDOW * NS and n)(
            waits(a).count("stuck_wait")), 60)
        windows = round((later - first) / NS / WINDOW)
        assert abs(later - first - windows * WINDOW * NS) < 0.03 * windows * WINDOW * NS, (first, later)
        assert later / NS < time.monotonic() - began + 5, (later, began)
        idle = waits(a).count("[idle]")
        assert idle == 0 or idle >= later, (idle, later)


@live
@undisturbed
def threads_that_are_killed_or_become_another_program_lose_nothing():
    """Killed while it waits, after a window has ended; and its own name, then that of what it executes."""
    with always("--offcpu", "yes") as a:
        killed, became = run_waits("killed", 1200 * WINDOW), run_waits("exec", 500)
        want, after = truths(killed), truths(became)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            before, later = waits(s), waits(s, "exe")
    there, stuck = before.count("stuck_wait"), want["stuck_wait"]
    print(f"# stuck_wait: {there / NS:.3f} s of {stuck / NS:.3f}; executed: {later.total / NS:.3f} s")
    assert abs(there - stuck) < 0.05 * stuck, (there, stuck)
    # Who killed it slept as long; 500 times 2 ms before the exec, and what it says itself after it.
    least = 2 * stuck + 500 * 2e-3 * NS + after["short_sleep"] + after["long_sleep"]
    assert before.total + later.total > 0.95 * least, (before.total, later.total, least)
    assert later.total > 0, "nothing by its new name"


@live
def too_many_new_places_are_counted_and_said():
    """Hundreds of threads that wait, all for the first time: no more stacks are walked for a moment."""
    def capped():
        with workloads.start("waits", "many", "600"):
            for _ in range(12):
                time.sleep(1)
                if a.troubles().get("sites_new"):
                    return True

    with always("--offcpu", "yes") as a:
        until("the cap", capped, 100)
        until("words", lambda: "waited at so many new places at once" in a.err)
        assert sum(a.collectors("smolder_collector_offcpu_walks_total")) > 100, a.metrics()


@live
def it_is_kept_only_if_asked_for():
    with always() as a, workloads.start("shares"):
        a.wait_stored(1)
        assert 'event="offcpu"' not in str(a.metrics().keys())


main()

#!/usr/bin/env python3
"""Memory of `smolder run` on a busy machine: what it holds after an hour of windows, and whether it
goes on growing. Someone who looks makes windows of one second, ten times as many: six minutes of
those are an hour's. The soak goes on for four hours' worth more, and judges the later half: before
that, stacks that are rare are still seen for the first time. The short form only begins."""
import os
import sys
import threading
import time
import urllib.error

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, memory, tree  # noqa: E402
from recording import live  # noqa: E402
from tap import SOAK, main  # noqa: E402

HOUR = 360  # windows
FIRST, THEN = (HOUR, 4 * HOUR) if SOAK else (20, 25)
MOST = 80e6
STEEPEST = 1e6  # bytes per hour's worth of windows


def slope(points):
    """Of the line through points that has the least squares."""
    x0, y0 = (sum(v) / len(points) for v in zip(*points))
    return sum((x - x0) * (y - y0) for x, y in points) / sum((x - x0) ** 2 for x, _ in points)


def look(a, until):
    """Someone looks at one process, again and again."""
    while time.monotonic() < until:
        try:
            a.get(f"/debug/pprof/profile?seconds=30&pid={a.process.pid}", timeout=90)
        except urllib.error.HTTPError:
            time.sleep(1)


@live
def memory_is_small_and_does_not_grow():
    os.setpriority(os.PRIO_PROCESS, 0, 0)  # the load shall not starve the rest of the machine
    with always() as a, workloads.busy_machine():
        until = time.monotonic() + FIRST + THEN
        looking = threading.Thread(target=look, args=(a, until))
        looking.start()
        windows = "smolder_store_windows_total"
        before, points = a.metrics()[windows], []
        while time.monotonic() < until:
            resident, maps = memory(tree(a.process.pid))
            count = a.metrics()[windows] - before
            points.append((count / HOUR, resident + maps))
            if SOAK and len(points) % 6 == 1:
                dictionary = a.metrics()["smolder_dictionary_bytes"]
                print(f"# {count:.0f} windows: {resident / 1e6:.1f} MB resident, "
                      f"{maps / 1e6:.1f} MB of maps; dictionary {dictionary / 1e6:.2f} MB",
                      flush=True)
            time.sleep(10 if SOAK else 2)
        looking.join()
        most = max(y for _, y in points)
        print(f"# {points[-1][0] * HOUR:.0f} windows: at most {most / 1e6:.1f} MB")
        for since in (FIRST, FIRST + THEN // 2):
            later = [(x, y) for x, y in points if x >= since / HOUR] or points
            print(f"# since window {since}: {slope(later) / 1e6:+.2f} MB an hour's worth of windows")
        assert points[-1][0] * HOUR > (FIRST + THEN) * 0.5, "there were too few windows"
        assert most < MOST, most
        if SOAK:
            assert slope(later) < STEEPEST, slope(later)


main()

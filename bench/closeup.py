#!/usr/bin/env python3
"""bench/closeup.py [ROUNDS]: what it costs a program that `smolder run` looks at it closely (findings.h).

The program is the dearest there is: a loop that does nothing but epoll_wait(…, 0), so that every nanosecond
of a system call is one of its own. A new one in each round is suspected, looked at, and found. Compared are
the calls that it makes in the second from which it is looked at with those of the seconds before and after,
unless these two differ: then something else slowed it. Ends with 1 when it makes 5 % less.
"""
import os
import statistics
import sys
import tempfile
import threading
import time

from loop import Loop, _attached  # finds what follows
from always import always
from tap import hurry

BAR = 0.05
SLICE_MS, ROUND_S = 10, 18
STEADY = 0.10  # so much may the seconds around it differ


def watch(pid, seconds):
    """When that process had more attached than usual, and for how long: [(since, until)]"""
    seen, spans, since = [], [], None
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seen.append((time.monotonic(), _attached(pid)))
        time.sleep(0.005)
    usual = statistics.median(n for _, n in seen)
    for now, n in seen:
        if n > usual and since is None:
            since = now
        elif n <= usual and since is not None:
            spans.append((since, now))
            since = None
    return spans


def round_of(a):
    """(calls in the second before the closeup, from its beginning, after that; how long it lasted), or None"""
    loop, slices, spans = Loop(), [], []
    watcher = threading.Thread(target=lambda: spans.extend(watch(a.half("collect"), ROUND_S)))
    watcher.start()
    try:
        while watcher.is_alive():
            calls = loop.turns(1, SLICE_MS).calls
            slices.append((time.monotonic(), calls))
    finally:
        watcher.join()
        loop.end()
    # Others are looked at as well, this program for one, which reads /proc all the time; those take a second or two,
    # while the loop makes enough calls in a moment.
    spans = [s for s in spans if s[1] - s[0] < 0.3]
    if not spans:
        return None
    since, until = spans[0]

    def in_second(start):
        return sum(calls for at, calls in slices if start < at <= start + 1)
    return in_second(since - 1), in_second(since), in_second(since + 1), until - since


def main():
    if os.geteuid() != 0:
        sys.exit("needs root")
    hurry()
    rounds, costs = int(sys.argv[1]) if len(sys.argv) > 1 else 5, []
    with tempfile.TemporaryDirectory() as d, always(store=os.path.join(d, "store")) as a:
        for _ in range(3 * rounds):
            seen = round_of(a)
            if not seen:
                print(f"not looked at closely in {ROUND_S} s, left out")
                continue
            before, with_it, after, length = seen
            steady = abs(before - after) <= STEADY * max(before, after)
            cost = 1 - 2 * with_it / (before + after)
            print(f"{before:,.0f} calls in a second, {with_it:,.0f} in that of a closeup of {1000 * length:.0f} ms, "
                  f"{after:,.0f} in the next: " + (f"{100 * cost:+.1f} %" if steady else "not steady, left out"))
            costs += [cost] * steady
            if len(costs) == rounds:
                break
    if not costs:
        print("NOT MET: no round was steady, so nothing was measured")
        return 1
    cost = statistics.median(costs)
    met = cost < BAR
    print(f"a closeup costs its target {100 * cost:.1f} % of its second, the median of {len(costs)}; "
          f"bar {100 * BAR:.0f} %: " + ("met" if met else "NOT MET"))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Is what a recording says true? Judged on programs that know the truth about themselves."""
import gzip
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import peers
import workloads
from recording import live, record, run
from tap import main, skip

LANGUAGES = ["shares", "shares-cc", "shares-rs", "shares-rs-v0", "shares-go", "shares-go-stripped"]


@live
def shares_at_999_hz_are_within_3_points():
    with workloads.start("shares") as w:
        r = record("-p", w.pid, "-F", 999, "-d", 10).ok()
    assert r.lost == 0, r.err
    folded.check_shares(r.stacks, w.truth, points=3)
    assert abs(r.stacks.share("share_twenty") - 0.20) < 0.03


@live
def shares_at_99_hz_are_within_4_standard_errors_of_the_truth_and_of_perf():
    if not peers.perf():
        skip("linux-perf is not installed")
    with workloads.start("shares") as w:
        r, perf_stacks = peers.beside_perf(
            w.pid, 99, lambda: record("-p", w.pid, "-F", 99, "-d", 10).ok())
    assert r.lost == 0, r.err
    folded.check_shares(r.stacks, w.truth)
    folded.check_same(r.stacks, perf_stacks, w.truth)


@live
def samples_add_up_to_the_cpu_time_used():
    """2 s of CPU at 499 Hz are 998 samples, give or take what timers allow."""
    r = record("-F", 499, "--", workloads.path("shares"), 2).ok()
    n = r.stacks.of("shares").total
    assert abs(n - 998) <= 4 * math.sqrt(998), f"{n} samples: {r.err}"


@live
def a_period_is_as_good_as_a_rate():
    r = record("-c", 5000000, "--", workloads.path("shares"), 2).ok()
    n = r.stacks.of("shares").total
    assert abs(n - 400) <= 4 * math.sqrt(400), f"{n} samples: {r.err}"


@live
def every_language_is_named_and_has_its_shares():
    running = {}
    try:
        for name in LANGUAGES + ["syscalls"]:
            running[name] = workloads.start(name)
        pids = ",".join(str(w.pid) for w in running.values())
        r = record("-p", pids, "-F", 499, "-d", 10).ok()
    finally:
        for w in running.values():
            w.stop()
    assert r.lost == 0, r.err
    stacks = r.stacks
    assert stacks.comms() == {name[:15] for name in running}, stacks.comms()
    problems = []
    for name, w in running.items():
        mine = stacks.of(name[:15])
        try:
            folded.check_named(mine)
            if w.truth:
                folded.check_shares(mine, w.truth)
        except AssertionError as e:
            problems.append(f"{name}: {e}")
    assert not problems, "\n".join(problems)
    for function in ("read_zero", "list_directory", "through_pipe"):
        assert stacks.of("syscalls").count(function), f"no {function}"


@live
def kernel_frames_are_named():
    with workloads.start("syscalls") as w:
        r = record("-p", w.pid, "-K", "-F", 999, "-d", 2).ok()
    assert r.samples > 100, r.err
    folded.check_named(r.stacks)
    assert any("sys_read" in f for f in r.stacks.frames()), sorted(r.stacks.frames())


def pprof_top(path, sample, unit):
    p = subprocess.run(["go", "tool", "pprof", "-top", f"-sample_index={sample}", "-nodecount=0",
                        "-nodefraction=0", "-edgefraction=0", "-symbolize=none", f"-unit={unit}",
                        path], capture_output=True, text=True,
                       env=dict(os.environ, PPROF_TMPDIR=os.path.dirname(path)))
    assert p.returncode == 0, p.stderr
    total = int(re.search(r"of (\d+)\S* total", p.stdout)[1])
    rows = {}
    for line in p.stdout.splitlines():
        m = re.match(r"\s*(\d+)\S*\s+\S+%\s+\S+%\s+(\d+)\S*\s+\S+%\s+(.*)", line)
        if m:
            rows[re.sub(r" \((inline|partial-inline)\)$", "", m[3])] = (int(m[1]), int(m[2]))
    return total, rows


@live
def go_tool_pprof_and_the_folded_file_agree_to_the_sample():
    if not shutil.which("go"):
        skip("golang-go is not installed")
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.pb.gz")
        with workloads.start("shares") as w:
            r = run("record", "-p", w.pid, "-F", 499, "-d", 3, "-o", path).ok()
        with open(path, "rb") as f:
            gzip.decompress(f.read())
        total, rows = pprof_top(path, "samples", "count")
        nanoseconds, _ = pprof_top(path, "cpu", "ns")
        stacks, times = (run("flame", path, "--sample-type", t, "-f", "folded", "-o", "-").ok().stacks
                         for t in ("samples", "cpu"))
    assert total == r.samples == stacks.total, (total, r.err, stacks.total)
    assert nanoseconds == times.total, (nanoseconds, times.total)
    # The period is what one sample stands for, to the nanosecond.
    assert abs(nanoseconds - total * 1e9 / 499) <= total, (nanoseconds, total)
    flat, cumulative = {}, {}
    for frames, n in stacks:
        flat[frames[-1]] = flat.get(frames[-1], 0) + n
        for f in set(frames):
            cumulative[f] = cumulative.get(f, 0) + n
    for name, (own, reached) in rows.items():
        assert own == flat.get(name, 0) and reached == cumulative.get(name), \
            f"{name}: pprof {own} {reached}, folded {flat.get(name)} {cumulative.get(name)}"
    assert rows["main"][1] >= 0.95 * total, rows


main()

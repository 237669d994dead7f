#!/usr/bin/env python3
"""Events other than the CPU's clock: what is recorded of them, alone and beside it."""
import os
import signal
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import account, always, served, until  # noqa: E402
from recording import live, run  # noqa: E402
from tap import main  # noqa: E402

MUCH, LITTLE = "touch_much", "touch_little"


def check_shares(stacks, period=100):
    """Three times as many of the one as of the other, by their standard error. Returns all."""
    much = sum(n for s, n in stacks if MUCH in s)
    little = sum(n for s, n in stacks if LITTLE in s)
    n = (much + little) // period
    # A program's first samples may be without a stack, while others keep the machine busy.
    assert n > 300 and n * period >= 0.5 * stacks.total, (n, stacks.total)
    assert abs(much / (much + little) - 0.75) < 5 * (0.75 * 0.25 / n) ** 0.5, (much, little)
    return stacks.total


@live
def page_faults_are_where_they_are():
    with workloads.start("faults") as w:
        r = run("record", "-e", "page-faults", "-p", str(w.pid), "-d", "1", "-f", "folded", "-o", "-").ok()
        assert r.lost == 0, r.err
        check_shares(r.stacks)


def record_rounds(rounds, *args):
    """What is recorded of so many rounds, 256 faults each."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "faults.folded")
        r = run("record", "-e", "page-faults", *args, "-o", out, "--",
                workloads.path("faults"), str(rounds)).ok()
        return folded.parse(workloads.read(out)), r.lost


@live
def all_faults_are_there():
    """Each sample stands for a hundred, and all that the program made are told."""
    stacks, lost = record_rounds(800)
    told = check_shares(stacks)
    assert 0.95 < told / (256 * 800) < 1.05 and lost == 0, (told, lost)
    stacks, lost = record_rounds(20, "-c", "1")
    told = check_shares(stacks, 1)
    assert 256 * 20 <= told + lost < 256 * 21, (told, lost)


@live
def two_kinds_of_events_are_kept_side_by_side():
    with workloads.start("faults") as w, always("--events", "page-faults") as a:
        a.wait_sampled(1500, "cpu", "page_faults")
        q = a.query(f'page_faults{{pid="{w.pid}"}}', "--from", "now-2m", "-f", "folded")
        assert q.returncode == 0, q.stderr
        check_shares(folded.parse(q.stdout))
        q = a.query(f'cpu{{pid="{w.pid}"}}', "--from", "now-2m", "-f", "folded")
        assert q.returncode == 0 and folded.parse(q.stdout).total > 0, q.stderr
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            m = s.metrics()
            taken, stored, lost = account(m)
            assert taken == stored + lost and lost == 0, (taken, stored, lost)


@live
def every_event_is_accounted_for_when_a_collector_dies():
    with workloads.start("faults"), always("--events", "page-faults") as a:
        for _ in range(3):
            a.wait_sampled(300, "cpu", "page_faults")
            os.kill(until("a collector", lambda: a.half("collect")), signal.SIGKILL)
        a.wait_sampled(300, "cpu", "page_faults")
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            m = s.metrics()
            taken, stored, lost = account(m)
            died = m['smolder_samples_lost_total{reason="collector_died"}']
            assert taken == stored + lost and 0 < died <= lost, (taken, stored, lost, died)


@live
def an_event_that_there_is_not_is_said():
    run("run", "--events", "nonsense").refused("nonsense", "page-faults")
    run("run", "--events", "task-clock").refused("task-clock")


main()

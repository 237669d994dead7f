#!/usr/bin/env python3
"""What processes say of themselves: OpenTelemetry's process context, and what becomes of it."""
import contextlib
import os
import signal
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, until  # noqa: E402
from control_groups import group, move  # noqa: E402
from recording import live  # noqa: E402
from tap import main  # noqa: E402

GARBAGE = ("signature", "version", "size", "pointer", "payload", "deep")


def samples(a, since="now-1h", **labels):
    matchers = ",".join(f'{k}="{v}"' for k, v in labels.items())
    query = urllib.parse.quote(f"cpu{{{matchers}}}")
    return a.json(f"/api/v1/query?query={query}&from={since}&max_nodes=1")["samples"]


def wait_samples(a, least=50, **labels):
    return until(f"samples of {labels}", lambda: samples(a, **labels) >= least, 90)


def said(a, pid, label):
    """The values of a label that samples of a process have."""
    query = urllib.parse.quote(f'cpu{{pid="{pid}"}}')
    return set(a.json(f"/api/v1/labels/{label}/values?query={query}")["values"])


def contexts(a, what):
    return sum(v for k, v in a.metrics().items()
               if k.startswith("smolder_collector_contexts_total{") and f'what="{what}"' in k)


@live
def what_a_process_says_comes_first():
    with contextlib.ExitStack() as s:
        before = s.enter_context(workloads.start("said", "before"))
        procs = s.enter_context(group("system.slice/shop.service"))
        unit = s.enter_context(workloads.start("said-static", "shop"))
        move(unit.pid, procs)
        a = s.enter_context(always())
        later = s.enter_context(workloads.start("said", "later", "late"))
        other = s.enter_context(workloads.start("shares"))
        says = {"version": "1.2.3", "environment": "staging"}
        wait_samples(a, comm="said", service="before", pid=before.pid, **says)
        # The unit is still told, by its own label.
        wait_samples(a, comm="said-static", service="shop", unit="shop.service", pid=unit.pid, **says)
        wait_samples(a, comm="said", service="later", pid=later.pid, **says)
        wait_samples(a, comm="shares", service="shares", pid=other.pid)
        assert said(a, other.pid, "environment") <= {""}, said(a, other.pid, "environment")
        # A change is seen from a window on.
        before.process.send_signal(signal.SIGUSR1)
        wait_samples(a, service="before-next", version="2", environment="staging", pid=before.pid)
        assert a.troubles()["process_contexts"] == 0, a.troubles()
        # Nothing but this was read: one change, three contexts, each once.
        assert contexts(a, "read") == 4, a.metrics()


@live
def a_process_that_has_ended_keeps_what_it_said():
    with always() as a:
        with workloads.start("said", "brief"):
            time.sleep(3)
        wait_samples(a, service="brief", version="1.2.3", comm="said")
        assert samples(a, service="said", comm="said") == 0


@live
def a_context_that_changes_all_the_time_is_never_mixed():
    with always() as a, workloads.start("said", "torn", "torn") as w:
        for _ in range(3):
            before = contexts(a, "read")
            until("it to be read", lambda b=before: contexts(a, "read") > b, 60)
        wait_samples(a, pid=w.pid)
        a.wait_stored()
        total = samples(a, pid=w.pid)
        whole = [samples(a, pid=w.pid, service=s, version=v, environment=e)
                 for s, v, e in (("torn-a", "1", "one"), ("torn-b", "2", "two"), ("said", "", ""))]
        assert sum(whole[:2]) > 0
        builds = said(a, w.pid, "version") - {"1", "2"}
        whole[2] = samples(a, pid=w.pid, service="said", version=builds.pop()) if builds else 0
        assert sum(whole) == total, (whole, total)


@live
def garbage_is_counted_and_harmless():
    with contextlib.ExitStack() as s:
        a = s.enter_context(always())
        liars = [s.enter_context(workloads.start("said", f"liar-{kind}", "garbage", kind)) for kind in GARBAGE]
        honest = s.enter_context(workloads.start("said", "honest"))
        wait_samples(a, service="honest", pid=honest.pid)
        # A wrong signature is no context and ends the matter; the others are refused.
        until("garbage to be counted", lambda: a.troubles()["process_contexts"] >= len(GARBAGE), 90)
        for w in liars:
            wait_samples(a, service="said", pid=w.pid)
        names = a.json("/api/v1/labels/service/values?query=cpu")["values"]
        assert not [n for n in names if n.startswith("liar")], names
        until("it to be said", lambda: "process context" in a.err)


@live
def rules_see_what_processes_say():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with always("--keep", '{environment="staging"}') as a, workloads.start("said", "kept") as w, \
                workloads.start("shares") as other:
            wait_samples(a, service="kept", pid=w.pid)
            wait_samples(a, comm="(dropped)")
            assert samples(a, pid=other.pid) == 0


main()

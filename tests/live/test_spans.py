#!/usr/bin/env python3
"""Samples by the span of a trace that their thread says it works on: OpenTelemetry's thread context."""
import contextlib
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import pprof  # noqa: E402
import workloads  # noqa: E402
from always import agent, always, served, until  # noqa: E402
from recording import live  # noqa: E402
from tap import SMOLDER, main  # noqa: E402
from windows import PERIOD  # noqa: E402

TRACE = "0102030405060708090a0b0c0d0e0f10"
SPANS = {"a1a2a3a4a5a6a7a8": "checkout", "b1b2b3b4b5b6b7b8": "payment"}
# Where the variable may be: in a program, however linked, or in a library, by each way to reach it.
PLACES = (("spans",), ("spans-static",), ("spans-fixed",), ("spans-opens", "spans-desc.so"),
          ("spans-opens", "spans-gnu.so"), ("spans-opens", "spans-initial.so"))
FOREIGN = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
MUSL = ("spans-opens-musl", "spans-musl.so")


def start(place):
    name, *library = place
    return workloads.start(name, *map(workloads.path, library))


def functions(folded):
    """{function of the workload: samples} of folded stacks"""
    found = {}
    for line in folded.splitlines():
        stack, count = line.rsplit(" ", 1)
        names = set(stack.split(";")) & {"checkout", "payment", "idle_work"}
        key = names.pop() if names else "other"
        found[key] = found.get(key, 0) + int(count)
    return found


def samples(a, selector, **more):
    params = urllib.parse.urlencode({"query": selector, "from": "now-1h", "max_nodes": 1, **more})
    return a.json(f"/api/v1/query?{params}")["samples"]


def check_spans(ask, what, worth=1):
    """`ask(span)` gives the functions of that span's samples; None: of the whole trace."""
    for span, function in SPANS.items():
        got = ask(span)
        total = sum(got.values())
        assert total >= 20 * worth and got.get(function, 0) >= 0.95 * total, (what, span, got)
    whole = ask(None)
    assert sum(whole.values()) == sum(sum(ask(s).values()) for s in SPANS), (what, whole)
    # The half of the time, and a quarter; what has no span is in neither.
    assert 1.2 < whole["checkout"] / whole["payment"] < 3.4, (what, whole)
    assert whole.get("idle_work", 0) <= 0.05 * sum(whole.values()), (what, whole)


@live
def samples_belong_to_spans():
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        a = s.enter_context(always(store=store))
        running = {}
        for place in PLACES:
            running[" ".join(place)] = s.enter_context(start(place))
        liar = s.enter_context(workloads.start("spans", "garbage"))
        plain = s.enter_context(workloads.start("shares"))

        def of(where, pid):
            def ask(span):
                which = ("--span", span) if span else ("--trace", TRACE)
                q = where(f'cpu{{pid="{pid}"}}', *which, "-f", "folded", "--from", "now-1h")
                assert q.returncode == 0, q
                return functions(q.stdout)
            return ask
        for what, w in running.items():
            selector = f'cpu{{pid="{w.pid}"}}'
            until(f"spans of {what}", lambda sel=selector: all(
                samples(a, sel, span=one) >= 60 for one in SPANS), 180)
        for what, w in running.items():
            check_spans(of(a.query, w.pid), what)
        # Nothing of those that say nothing, or nothing that is true.
        wait = f'cpu{{pid="{liar.pid}"}}'
        until("samples of the liar", lambda: samples(a, wait) >= 50)
        for w in (liar, plain):
            assert samples(a, f'cpu{{pid="{w.pid}",trace_id!=""}}') == 0, w.pid
        # An id is no label: it makes no series; but a selector takes it, in each of its forms.
        assert not {"trace_id", "span_id"} & set(a.json("/api/v1/labels")["labels"])
        by = samples(a, f'cpu{{service="shop",trace_id="{TRACE}",span_id=~"a1.*"}}')
        assert 0 < by < samples(a, f'cpu{{service="shop",trace_id="{TRACE}"}}')
        assert samples(a, "cpu", trace="ff" * 16) == 0
        assert a.query("--trace", "nothing").returncode == 2
        with contextlib.suppress(urllib.error.HTTPError):
            raise AssertionError(samples(a, "cpu", trace="12"))
        # pprof has both ids as labels of samples.
        out = os.path.join(d, "trace.pb.gz")
        q = a.query("--trace", TRACE.upper(), "-o", out, "--from", "now-1h")
        assert q.returncode == 0, q
        labels = {(s.labels["trace_id"], s.labels["span_id"]) for s in pprof.read(out)}
        assert labels == {(TRACE, span) for span in SPANS}, labels
        assert a.stop() == 0, a.err
        with served(store) as b:
            w = running["spans"]
            check_spans(of(b.query, w.pid), "from the store")


@live
def an_agent_sends_spans_on():
    # To smolder with the windows; as OTLP's links; as labels of Pyroscope's samples, of the span alone.
    for how, kind, worth in (("", "cpu", 1), ("otlp+", FOREIGN, PERIOD), ("pyroscope+", FOREIGN, PERIOD)):
        with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
            os.chmod(d, 0o755)
            to = s.enter_context(served(os.path.join(d, "store")))
            s.enter_context(agent(f"{how}http://127.0.0.1:{to.port}"))
            w = s.enter_context(start(PLACES[0]))
            selector = f'{kind}{{pid="{w.pid}"}}'

            def of(what):
                return functions(to.query(f'{kind}{{pid="{w.pid}"{what}}}', "-f", "folded", "--from", "now-1h").stdout)

            def ask(span):
                if span:
                    return of(f',span_id="{span}"')
                return of(',span_id!=""' if "pyroscope" in how else f',trace_id="{TRACE}"')
            # In pushed profiles a stack with its value is one sample: functions() counts what it is worth.
            until("spans", lambda: all(samples(to, selector, span=one) for one in SPANS) and
                  min(sum(ask(one).values()) for one in SPANS) >= 60 * worth, 180)
            check_spans(ask, how, worth)
            # What is in no span is there as well.
            assert of("")["idle_work"] >= 20 * worth and of("")["checkout"] >= ask(None)["checkout"], (how, of(""))


@live
def a_recording_has_spans_as_labels():
    places = PLACES[:1] + ((MUSL,) if os.path.exists("/usr/bin/musl-gcc") else ())
    for place in places:
        with tempfile.TemporaryDirectory() as d, start(place) as w:
            out = os.path.join(d, "out.pb.gz")
            p = subprocess.run([SMOLDER, "record", "-p", str(w.pid), "-d", "8", "-o", out],
                               capture_output=True, text=True)
            assert p.returncode == 0, p
            found = {}
            for s in pprof.read(out):
                names = {f.name for f in s.frames} & {"checkout", "payment", "idle_work"}
                if names:
                    key = (s.labels.get("span_id"), names.pop())
                    found[key] = found.get(key, 0) + s.count
            right = sum(found.get(one, 0) for one in SPANS.items())
            wrong = sum(n for (span, f), n in found.items() if span and SPANS[span] != f)
            assert right >= 40 and wrong <= 0.05 * right, (place, found)


main()

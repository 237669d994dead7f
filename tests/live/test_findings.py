#!/usr/bin/env python3
"""What is wrong is said, unasked; and what only looks like it is not.

The short form has three problems at once, and their calm counterparts. With SMOLDER_SOAK=1 each kind
has its turn, with a program that does it and one that comes close.
"""
import contextlib
import json
import os
import re
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, nothing_refused, until  # noqa: E402
from recording import live  # noqa: E402
from tap import SMOLDER, SOAK, main, skip  # noqa: E402

FOUND_S = 60  # until then; the 30 s are for a machine that has a CPU to spare
LOOKS_S = 5


def findings(a, since="now-1h"):
    return a.json(f"/api/v1/findings?from={since}")["findings"]


def of(a, kind, comm):
    return next((f for f in findings(a) if f["kind"] == kind and f["comm"].startswith(comm)), None)


def trouble(word):
    return workloads.start("troubles", word)


@contextlib.contextmanager
def monitor():
    """A shell that runs ps each second, as people do."""
    p = subprocess.Popen(["sh", "-c", "while sleep 1; do ps aux; done"], stdout=subprocess.DEVNULL,
                         start_new_session=True)
    try:
        yield p
    finally:
        os.killpg(p.pid, 9)
        p.wait()


def wait_for_looks(a, count):
    """So many more looks at all processes, each with a closeup's time after it."""
    time.sleep((count * LOOKS_S) + 3)


@live
def three_problems_are_named_and_calm_ones_are_not():
    with always() as a, trouble("poll") as poll, trouble("fail") as fail, monitor(), trouble("calm-poll"), \
            trouble("calm-fail"), trouble("calm-fork"):
        began = time.time()
        f = until("the busy poll", lambda: of(a, "busy-poll", "tr-poll"), FOUND_S)
        print(f"# found after {time.time() - began:.0f} s: {f['headline']}")
        assert f["pid"] == poll.pid and f["tid"] != poll.pid and f["thread"] == "io-loop", f
        assert "epoll_wait with a timeout of 0" in f["headline"] and "io-loop" in f["headline"], f
        assert f["facts"]["calls_per_second"] > 1000 and f["facts"]["empty_share"] > 0.99, f
        assert f["facts"]["timeout_ms"] == 0 and 0.1 < f["facts"]["cpu_share"] <= 1.1, f
        assert f["stack"].endswith("io_thread;event_loop;wait_for_events;epoll_wait"), f
        assert f["active"] and f["sure"] >= 0.9 and f["began"] <= f["until"], f
        f = until("the calls that fail", lambda: of(a, "failing-calls", "tr-fail"), FOUND_S)
        assert f["pid"] == fail.pid and "ENOENT" in f["headline"] and "/etc/no-such-file.conf" in f["headline"], f
        assert "open_again_and_again" in f["stack"], f
        f = until("the monitor", lambda: of(a, "proc-scan", "ps"), FOUND_S)
        assert f["facts"]["opens_per_second"] > 5, f
        assert not [f for f in findings(a) if f["comm"].startswith("tr-calm")], findings(a)

        # The same, in words; and counted.
        out = subprocess.run([SMOLDER, "findings", "--server", f"http://127.0.0.1:{a.port}"],
                             capture_output=True, text=True)
        assert out.returncode == 0 and "busy-poll: tr-poll" in out.stdout, out
        assert "See: smolder trace -L" in out.stdout and "Since " in out.stdout, out
        # And where people look at a program, or at the machine.
        a.wait_stored()
        for argv, count in ((("explain", "tr-poll"), 1), (("top", "-b", "-n", "1"), None)):
            out = subprocess.run([SMOLDER, *argv, "--server", f"http://127.0.0.1:{a.port}"],
                                 capture_output=True, text=True)
            assert out.returncode == 0, out
            if count:
                assert out.stdout.count("calls epoll_wait with a timeout of 0") == count, out
                assert "tr-fail" not in out.stdout, out
            else:
                assert re.search(r"^\(1 of \d+\) (tr-|ps|sh)\S* .*(calls|lists|fail)", out.stdout.split("\n")[1]), out
        until("the metric", lambda: any(v >= 1 for k, v in a.metrics().items()
                                        if k.startswith("smolder_findings_active{") and "busy-poll" in k), 30)
        local = subprocess.run([SMOLDER, "findings", "--store", a.store, "--from", "1h", "--json"],
                               capture_output=True, text=True)
        kinds = {f["kind"] for f in json.loads(local.stdout)["findings"]}
        assert {"busy-poll", "failing-calls", "proc-scan"} <= kinds, (kinds, local)
        nothing_refused(a.err)


@live
def it_can_be_turned_off():
    with always("--findings", "no") as a, trouble("poll"):
        a.wait_stored()
        assert not [k for k in a.metrics() if "findings" in k or "closeups" in k]
        assert findings(a) == []


def only_in_soaks(fn):
    """Those that take minutes are in `make soak` only."""
    return live(fn) if SOAK else fn


# Not in it: one-thread and kernel-spinning, which need CPUs to themselves; tests/unit/test_finding_rules.c
# has them.
PAIRS = (
    ("busy-poll", "yield", None),
    ("busy-poll", "read", None),
    ("process-storm", "fork", "calm-fork"),
    ("switch-storm", "switch", "calm-switch"),
    ("lock-convoy", "convoy", "calm-convoy"),
    ("page-faults", "fault", "calm-fault"),
    ("allocator", "allocate", "calm-allocate"),
)


@only_in_soaks
def each_kind_is_found_and_what_comes_close_is_not():
    with always() as a:
        for kind, word, calm in PAIRS:
            with trouble(word):
                f = until(f"{kind} of {word}", lambda: of(a, kind, f"tr-{word}"), FOUND_S)  # noqa: B023
                print(f"# {kind}: {f['headline']}")
            if calm:
                with trouble(calm):
                    wait_for_looks(a, 4)
                assert not of(a, kind, f"tr-{calm}"[:15]), findings(a)
        nothing_refused(a.err)


@only_in_soaks
def too_many_threads_for_the_cpus_are_found():
    with always() as a:
        with trouble("calm-queue"):
            wait_for_looks(a, 5)
            f = of(a, "cpu-queue", "")
            # Others may have been running here: then it is true.
            assert not f or f["facts"]["runnable_threads"] > 8 * f["facts"]["cpus"], f
        with trouble("queue"):
            until("the queue", lambda: of(a, "cpu-queue", ""), FOUND_S)


@contextlib.contextmanager
def quota(share):
    """A control group that may use so much of a CPU."""
    first, second = "/sys/fs/cgroup/cpu", "/sys/fs/cgroup"
    is_first = os.path.exists(f"{first}/cpu.cfs_quota_us") or os.path.exists(f"{first}/tasks")
    path = f"{first if is_first else second}/smolder-test-{os.getpid()}"
    try:
        os.mkdir(path)
        with open(f"{path}/cpu.cfs_quota_us" if is_first else f"{path}/cpu.max", "w") as f:
            f.write(str(int(share * 100000)) if is_first else f"{int(share * 100000)} 100000")
    except OSError as e:
        skip(f"no quota can be set: {e}")
    try:
        yield path
    finally:
        os.rmdir(path)


@only_in_soaks
def a_quota_that_holds_back_is_found():
    with always() as a, quota(0.2) as group:
        with trouble("calm-fault") as w:
            with open(f"{group}/cgroup.procs", "w") as f:
                f.write(str(w.pid))
            f = until("throttling", lambda: of(a, "throttled", ""), FOUND_S)
            assert os.path.basename(group) in f["headline"] and f["facts"]["quota_cpus"] == 0.2, f
        until("the group to be empty", lambda: not open(f"{group}/cgroup.procs").read())


main()

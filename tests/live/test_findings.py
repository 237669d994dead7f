#!/usr/bin/env python3
"""What is wrong is said, unasked; and what only looks like it is not.

Each kind has a program that does it, and one that comes close. Six of the kinds, which take a minute each,
and each way to poll have their turn with SMOLDER_SOAK=1. tests/live/test_healthy.py has what healthy programs look like.
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
from always import always, children, nothing_refused, until  # noqa: E402
from recording import live  # noqa: E402
from tap import SMOLDER, SOAK, main, skip  # noqa: E402

FOUND_S = 60  # until then; the 30 s are for a machine that has a CPU to spare
LOOKS_S = 5


CLASSIC_S = 30  # for the busy poll, which the issue asks for


def findings(a, since="now-1h"):
    return a.json(f"/api/v1/findings?from={since}")["findings"]


def of(a, kind, comm):
    return next((f for f in findings(a) if f["kind"] == kind and f["comm"].startswith(comm)), None)


def goes_first(w, nice=-20):
    """Its group of processes gets its CPU before others', so that what it is here to do is done."""
    with contextlib.suppress(OSError):  # a kernel that does not group them
        with open(f"/proc/{w.pid}/autogroup", "w") as f:
            f.write(str(nice))
    for tid in os.listdir(f"/proc/{w.pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(tid), nice)
    return w


def trouble(word):
    return goes_first(workloads.start("troubles", word))


def wait_for_looks(a, count):
    """So many more looks at all processes, each with a closeup's time after it."""
    time.sleep((count * LOOKS_S) + 3)


@live
def three_problems_are_named_and_calm_ones_are_not():
    with always() as a, trouble("poll") as poll, trouble("fail") as fail, \
            workloads.shell("while sleep 1; do ps aux; done") as monitor, trouble("calm-poll"), \
            trouble("calm-fail"), trouble("calm-fork"):
        goes_first(monitor)
        began = time.time()
        f = until("the busy poll", lambda: of(a, "busy-poll", "tr-poll"), CLASSIC_S)
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
        assert out.returncode == 0 and re.search(r"^tr-poll .* calls epoll_wait", out.stdout, re.M), out
        assert re.search(r"^\d+ things look wrong, what takes most first\.$", out.stdout, re.M), out
        assert "[busy-poll]" in out.stdout, out
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


def all_are_found(a, kinds):
    """Programs that do what is wrong, all at once: {word: what was found of it}"""
    found = {}
    with contextlib.ExitStack() as stack:
        for _, word in kinds:
            stack.enter_context(trouble(word))
        began = time.time()
        for kind, word in kinds:
            f = until(f"{kind} of {word}", lambda: of(a, kind, f"tr-{word}"), FOUND_S)  # noqa: B023
            print(f"# {kind} after {time.time() - began:.0f} s: {f['headline']} [{f['stack']}]")
            found[word] = f
    return found


def none_is_found(a, words, least_cpu=0.1):
    """Programs that come close: they ran, for so many looks, and nothing was said of them."""
    with contextlib.ExitStack() as stack:
        started = [stack.enter_context(trouble(w)) for w in words]
        before, began = [w.cpu_seconds() for w in started], time.time()
        wait_for_looks(a, 4)
        seconds = time.time() - began
        for word, w, was in zip(words, started, before):
            share = (w.cpu_seconds() - was) / seconds
            print(f"# {word} took {share:.2f} CPUs")
            assert share >= least_cpu, f"{word} had too little of the CPU to tell: {share}"
        named = [f for f in findings(a) if f["comm"].startswith("tr-calm")]
        assert not named, named


@live
def those_that_switch_wait_and_start_processes_are_found():
    with always() as a:
        found = all_are_found(a, (("process-storm", "fork"), ("switch-storm", "switch"), ("lock-convoy", "convoy")))
        assert "critical_section" in found["convoy"]["stack"], found
        assert found["convoy"]["facts"]["samples_of_its_holder"] >= 5, found
        assert "start_processes" in found["fork"]["stack"], found
        with workloads.shell("while :; do /bin/true; done") as p:
            goes_first(p)
            f = until("the shell", lambda: of(a, "process-storm", "sh"), FOUND_S)
            print(f"# process-storm: {f['headline']}")
            assert f["pid"] == p.pid, f
        none_is_found(a, ("calm-switch", "calm-convoy", "calm-read"))


@live
def a_convoy_names_what_whoever_has_the_lock_does():
    with always() as a:
        # Another thread is busier than those with the lock, so the busiest code is not theirs.
        f = all_are_found(a, [("lock-convoy", "lazy-convoy")])["lazy-convoy"]
        assert "hold_the_lock" in f["stack"] and "busy_elsewhere" not in f["stack"], f
        assert "Whoever has it" in f["headline"] and f["sure"] == 0.9, f


@only_in_soaks
def those_that_ask_for_memory_again_and_again_are_found():
    with always() as a:
        found = all_are_found(a, (("page-faults", "fault"), ("allocator", "allocate"), ("busy-poll", "read")))
        assert "touch" in found["fault"]["stack"] and "allocate" in found["allocate"]["stack"], found
        assert "non-blocking" in found["read"]["headline"], found
        none_is_found(a, ("calm-fault", "calm-allocate"))


@live
def a_thread_that_has_all_the_work_is_found():
    with always() as a:
        with goes_first(workloads.start("gil")) as w:
            f = until("the thread", lambda: of(a, "one-thread", "tr-gil"), FOUND_S)
            print(f"# one-thread: {f['headline']} [{f['stack']}]")
            assert f["tid"] == f["pid"] == w.pid and f["facts"]["waiting_threads"] >= 2, f
        with goes_first(workloads.start("gil", "calm")) as w:
            wait_for_looks(a, 5)
            assert w.cpu_seconds() > 5, w.cpu_seconds()
            assert not of(a, "one-thread", "tr-calm-gil"), findings(a)


@only_in_soaks
def threads_that_spin_in_the_kernel_are_found():
    if os.cpu_count() < 2:
        skip("one CPU: nobody can spin for what another has")
    with always() as a:
        f = all_are_found(a, [("kernel-spinning", "contend")])["contend"]
        assert "read_through" in f["stack"], f
        none_is_found(a, ["calm-contend"])


@only_in_soaks
def a_garbage_collector_is_found():
    with always() as a:
        for name, of_runtime in (("garbage", "runtime."), ("garbage-js", "v8::internal")):
            with goes_first(workloads.start(name)) as w:
                f = until(f"the collector of {name}", lambda: of(a, "garbage-collector", name), FOUND_S)  # noqa: B023
                print(f"# garbage-collector: {f['headline']} [{f['stack'][-200:]}]")
                assert f["pid"] == w.pid and of_runtime in f["stack"], f
        with goes_first(workloads.start("garbage", "calm")) as go, goes_first(workloads.start("garbage-js", "calm")) as js:
            wait_for_looks(a, 4)
            for w in (go, js):
                assert w.cpu_seconds() > 5, w.cpu_seconds()
                assert not [f for f in findings(a) if f["pid"] == w.pid], findings(a)


@live
def monitors_are_found_by_name():
    with always() as a, workloads.start("exporter"), workloads.start("self-watch"), \
            workloads.ended(["top", "-b", "-d", "1"]) as top:
        for who in ("tr-exporter", "top"):
            f = until(f"the monitor {who}", lambda: of(a, "proc-scan", who), FOUND_S)  # noqa: B023
            print(f"# proc-scan: {f['headline']}")
            assert f["facts"]["lists_per_second"] > 0.3, f
        assert of(a, "proc-scan", "top")["pid"] == top.pid
        wait_for_looks(a, 1)
        assert not of(a, "proc-scan", "tr-self-watch"), findings(a)


@live
def a_bpf_program_that_costs_too_much_is_found():
    programs = workloads.path("bpf_load.bpf.o")
    with goes_first(workloads.start("bpf_load", programs, "tr-bpf")) as w, always() as a, \
            workloads.start("bpf_load", programs, "tr-calm-bpf", "at_the_clock"):
        def named(name):
            return next((f for f in findings(a) if f["kind"] == "bpf-program" and name in f["headline"]), None)

        # With interrupts on, where samples see it too, and off, where they do not.
        f = until("at_each_system_call", lambda: named("at_each_system_call"), FOUND_S)
        print(f"# bpf-program: {f['headline']} [{f['stack']}]")
        assert f["pid"] == w.pid and f["comm"] == "tr-bpf" and f["facts"]["cpu_share"] >= 0.01, f
        assert f["next"] == f"smolder bpf {f['facts']['program']:.0f}", f
        out = subprocess.run([SMOLDER, *f["next"].split()[1:], "-d", "1"], capture_output=True, text=True)
        assert out.returncode == 0 and "at_each_system_call" in out.stdout, out
        off = until("at_switches", lambda: named("at_switches"), FOUND_S)
        assert off["pid"] == w.pid and not off["stack"], off
        assert not [f for f in findings(a) if f["comm"] == "tr-calm-bpf"], findings(a)
        w.stop()
        until("it to be over", lambda: not named("at_each_system_call")["active"], 2 * FOUND_S)


@live
def the_process_that_reads_bpf_costs_can_do_nothing_else():
    with always() as a:
        def status(pid):
            with open(f"/proc/{pid}/status") as f:
                return dict(re.findall(r"^(\w+):\s*(.*)$", f.read(), re.M))

        reader = next(pid for pid, name in children(a.half("collect")) if name == "smolder-bpf")
        is_ready = until("it to be ready", lambda: status(reader)["Seccomp"] == "2" and status(reader))
        assert int(is_ready["CapPrm"], 16) == int(is_ready["CapEff"], 16) == 1 << 21, is_ready  # SYS_ADMIN
        assert is_ready["NoNewPrivs"] == "1", is_ready
        assert sorted(map(int, os.listdir(f"/proc/{reader}/fd"))) == [0, 1, 2, 3], reader
        # Nobody misses it much, and it does not outlive its collector.
        os.kill(reader, 9)
        until("that to be said", lambda: "is not looked at any more" in a.err, FOUND_S)
        a.wait_stored()
        collector = a.half("collect")
        os.kill(collector, 9)
        until("another collector", lambda: a.half("collect") not in (None, collector))
        until("another reader", lambda: [n for _, n in children(a.half("collect")) if n == "smolder-bpf"])


@only_in_soaks
def each_way_to_poll_is_found():
    with always() as a:
        for word, call in (("yield", "sched_yield"), ("poll0", "poll"), ("select0", "select"), ("futex", "futex")):
            f = all_are_found(a, [("busy-poll", word)])[word]
            assert call in f["headline"], f


# ---- the machine ------------------------------------------------------------------------------------------


@only_in_soaks
def too_many_threads_for_the_cpus_are_found():
    with always() as a:
        with goes_first(workloads.start("troubles", "calm-queue"), 19):
            wait_for_looks(a, 5)
            f = of(a, "cpu-queue", "")
            # Others may have been running here: then it is true.
            assert not f or f["facts"]["runnable_threads"] > 8 * f["facts"]["cpus"], f
        with goes_first(workloads.start("troubles", "queue"), 19):
            f = until("the queue", lambda: of(a, "cpu-queue", ""), FOUND_S)
            print(f"# cpu-queue: {f['headline']}")


@only_in_soaks
def packets_that_take_the_machine_are_found():
    with always() as a:
        with contextlib.ExitStack() as stack:
            for _ in range(os.cpu_count()):
                stack.enter_context(trouble("calm-packets"))
            wait_for_looks(a, 4)
            assert not of(a, "softirq", ""), findings(a)
        with contextlib.ExitStack() as stack:
            for _ in range(os.cpu_count()):
                stack.enter_context(trouble("packets"))
            f = until("the packets", lambda: of(a, "softirq", ""), FOUND_S)
            print(f"# softirq: {f['headline']} [{f['stack']}]")
            assert "net_rx_action" in f["stack"], f


@contextlib.contextmanager
def control_group(controller, settings):
    """A control group of that controller, with settings for version 1 and for version 2."""
    first, second = f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"
    is_first = os.path.exists(f"{first}/tasks")
    path = f"{first if is_first else second}/smolder-test-{os.getpid()}-{len(settings)}{time.time_ns()}"
    try:
        os.mkdir(path)
        name, value = settings[0 if is_first else 1]
        with open(f"{path}/{name}", "w") as f:
            f.write(value)
    except OSError as e:
        skip(f"no control group with a limit of {controller} can be made: {e}")
    try:
        yield path
    finally:
        until("the group to be empty", lambda: not open(f"{path}/cgroup.procs").read())
        os.rmdir(path)


def inside(group, word):
    """A trouble that is in that group from its beginning."""
    return workloads.Workload(["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh",
                               *workloads.command("troubles", word)])


def quota(share):
    """A control group that may use so much of a CPU."""
    us = int(share * 100000)
    return control_group("cpu", (("cpu.cfs_quota_us", str(us)), ("cpu.max", f"{us} 100000")))


@live
def a_quota_that_holds_back_is_found():
    with always() as a, quota(0.2) as tight, quota(1.5) as wide:
        with inside(tight, "calm-fault"), inside(wide, "calm-allocate"):
            f = until("throttling", lambda: of(a, "throttled", ""), FOUND_S)
            print(f"# throttled: {f['headline']}")
            assert os.path.basename(tight) in f["headline"] and f["facts"]["quota_cpus"] == 0.2, f
            wait_for_looks(a, 2)
            assert not [f for f in findings(a) if os.path.basename(wide) in f["headline"]], findings(a)


@only_in_soaks
def memory_that_is_short_is_found():
    if not os.path.exists("/proc/pressure/memory"):
        skip("this kernel does not tell how long threads wait for memory (CONFIG_PSI)")
    limit = str(32 << 20)
    with always() as a, control_group("memory", (("memory.limit_in_bytes", limit), ("memory.max", limit))) as group:
        with inside(group, "calm-reread"):
            wait_for_looks(a, 3)
            assert not of(a, "memory-pressure", ""), findings(a)
        with inside(group, "reread"):
            f = until("memory pressure", lambda: of(a, "memory-pressure", ""), FOUND_S)
            print(f"# memory-pressure: {f['headline']} [{f['stack']}]")
            assert f["facts"]["stalled_share"] >= 0.1 and "tr-reread" in f["headline"], f


main()

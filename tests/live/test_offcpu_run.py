#!/usr/bin/env python3
"""Always on: the time that threads wait, by stack, beside what they say themselves."""
import collections
import contextlib
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import postgres  # noqa: E402
import workloads  # noqa: E402
from always import WINDOW, account, always, served, until  # noqa: E402
from recording import PATIENCE, live, undisturbed, wait_attached  # noqa: E402
from tap import SMOLDER, SOAK, main  # noqa: E402

NS = 1e9


def waits(a, comm="waits"):
    """All that is stored of the workload, up to now."""
    r = a.query(f'offcpu{{comm="{comm}"}}', "--from", "now-1h", "-f", "folded")
    return folded.parse(r.stdout if r.returncode == 0 else "")


def all_time(a, comms):
    """… and what they ran: all that its threads lived, in ns."""
    r = a.query(f'wall{{comm=~"{comms}"}}', "--from", "now-1h", "-f", "folded")
    return folded.parse(r.stdout if r.returncode == 0 else "").total


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
    """Two functions that sleep, called in turn from one loop: the same instruction, the same sp. And two
    of which one is called seldom, and sleeps long."""
    with always("--offcpu", "yes") as a:
        running = [run_waits("sleeps", 2000), run_waits("rare", 500), run_waits("lock", 4500),
                   run_waits("pipe", 6000)]
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
    for name in ("short_sleep", "long_sleep", "rare_sleep", "lock_wait", "pipe_wait"):
        there = got.count(name)
        print(f"# {name}: {there / NS:.3f} s of {want[name] / NS:.3f}")
        assert abs(there - want[name]) < 0.05 * want[name], (name, there, want[name])


@live
@undisturbed
def a_wait_that_goes_on_is_in_each_window_once():
    """It began before we did, and counts from our beginning; and what is not over is asked for."""
    windows = 10 if SOAK else 2
    with workloads.start("waits", "forever", "1") as w, always("--offcpu", "yes") as a:
        def stuck(begin, end):
            return a.json(f"/api/v1/query?query=offcpu%7Bpid%3D%22{w.pid}%22%7D&from={begin}&to={end}")

        began = time.time()
        first = -(-int(began + 3) // WINDOW) * WINDOW  # the first whole window, of the collector as well
        last = first + windows * WINDOW
        until("the windows", lambda: time.time() > last and stuck(last - WINDOW, last)["total"],
              (windows + 4) * WINDOW)
        for begin in range(first, last, WINDOW):
            there = stuck(begin, begin + WINDOW)
            assert abs(there["total"] - WINDOW * NS) < 0.01 * WINDOW * NS and there["samples"] == 1, \
                (begin - first, there["total"], there["samples"])
        everything = stuck(int(began) - WINDOW, last)["total"] / NS
        assert abs(everything - (last - began)) < 2, (everything, last - began)
        names = a.query(f'offcpu{{pid="{w.pid}"}}', "--from", "now-1h", "-f", "folded").stdout.splitlines()
        assert len(names) == 1 and "stuck_wait" in names[0], names


@live
@undisturbed
def threads_that_are_killed_or_become_another_program_lose_nothing():
    """Killed while it waits, after a window has ended; and its own name, then that of what it executes."""
    with always("--offcpu", "yes") as a:
        asked = [time.monotonic()]
        want = truths(run_waits("killed", 1200 * WINDOW))
        asked.append(time.monotonic())
        after = truths(run_waits("exec", 500))
        asked.append(time.monotonic())
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            before, later, lived = waits(s), waits(s, "exe"), all_time(s, "waits|exe")
    there, stuck = before.count("stuck_wait"), want["stuck_wait"]
    print(f"# stuck_wait: {there / NS:.3f} s of {stuck / NS:.3f}; executed: {later.total / NS:.3f} s")
    assert abs(there - stuck) < 0.05 * stuck, (there, stuck)
    # Who killed it slept as long; 500 times 2 ms before the exec, and what it says itself after it.
    least = 2 * stuck + 500 * 2e-3 * NS + after["short_sleep"] + after["long_sleep"]
    assert before.total + later.total > 0.95 * least, (before.total, later.total, least)
    # All that they lived: two of the first, one of the second, which says how long it was since the exec.
    least = 2 * stuck + 500 * 2e-3 * NS + after["wall"]
    most = (2 * (asked[1] - asked[0]) + asked[2] - asked[1]) * NS
    print(f"# all their time: {lived / NS:.3f} s of at least {least / NS:.3f}, at most {most / NS:.3f}")
    assert 0.98 * least < lived < 1.01 * most, (lived, least, most)
    said = after["short_sleep"] + after["long_sleep"]
    assert 0.95 * said < later.total < 1.05 * after["wall"], (later.total, said, after)


def reasons(a, pids, function=None):
    """{reason, or "idle": seconds} that these processes waited, in that function."""
    seen = collections.Counter()
    for reason in ("disk", "lock", "timer", "network", "pipe", "poll", "page_fault", "child", "cpu", "other"):
        selector = f'offcpu{{pid=~"{"|".join(map(str, pids))}", reason="{reason}"}}'
        for stack, ns in folded.parse(a.query(selector, "--from", "now-1h", "-f", "folded").stdout):
            if reason != "cpu" and (not function or function in stack):
                seen["idle" if "[idle]" in stack else reason] += ns / NS
    return seen


@live
@undisturbed
def real_programs_wait_for_what_is_known():
    """dd for the disk; Python's threads for their interpreter; PostgreSQL's backends for the one row."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(dir="/var/tmp"))
        os.chmod(folder, 0o755)
        a = stack.enter_context(always("--offcpu", "yes"))
        with postgres.hot_row(folder) as server, workloads.start("idle-py") as python, \
                workloads.ended(["dd", "if=/dev/zero", f"of={folder}/file", "bs=4k", "oflag=dsync"]) as dd:
            until("the disk to be busy", lambda: os.path.exists(f"{folder}/file"))
            pids = workloads.family(server.pid)
            time.sleep(1.5 * WINDOW)  # not waited for, but waited in
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            written = reasons(s, [dd.pid])
            # Its threads want the interpreter; the main one waits for nothing.
            contended = reasons(s, [python.pid], "start_thread")
            rows = reasons(s, pids, "ProcSleep")
    print(f"# dd: {dict(written)}, python: {dict(contended)}, postgres: {dict(rows)}")
    for seen, reason, least in ((written, "disk", 1), (contended, "lock", 5), (rows, "lock", 5)):
        assert seen[reason] > least and seen[reason] > 0.9 * seen.total(), (reason, seen)


class Mixed:
    """Programs that wait in many ways, under names that nothing else on the machine has."""

    def __init__(self, folder, stack):
        self.folder, self.stack, self.tag = folder, stack, f"m{os.getpid()}"

    def name(self, program, short):
        """A path whose last part is what the kernel calls the process."""
        path = os.path.join(self.folder, f"{self.tag}-{short}")
        os.symlink(program, path)
        return path

    def start(self, seconds):
        waits, shell = workloads.path("waits"), self.name("/bin/sh", "sh")
        nap = self.name("/bin/sleep", "nap")
        for argv in ([self.name(waits, "many"), "many", "4"],
                     [self.name(workloads.path("pingpong"), "ping"), "10"],
                     [self.name(workloads.path("idle"), "idle")],
                     [self.name("/usr/bin/python3", "py"), os.path.join(workloads.SRC, "idle.py")],
                     [self.name(workloads.path("forks"), "fork"), "20", shell, "-c", f"{nap} 0.02; :"]):
            self.stack.enter_context(workloads.Workload(argv))
        for mode, a_second in (("sleeps", 140), ("lock", 300), ("pipe", 400)):
            argv = [self.name(waits, mode), mode, str(a_second * seconds)]
            yield subprocess.Popen(argv, stdout=subprocess.DEVNULL)

    def of(self, stacks):
        return [(s, n) for s, n in stacks if s[0].startswith(self.tag)]


def scheduler():
    """The names of functions that the kernel leaves out of the stack of a thread that waits."""
    with open("/proc/kallsyms") as f:
        symbols = sorted((int(at, 16), name) for at, _, name, *module in map(str.split, f) if not module)
    names = [name for _, name in symbols]
    return set(names[names.index("__sched_text_start"):names.index("__sched_text_end")])


def by_stack(stacks, scheduler):
    """{stack: ns blocked}, each without its last functions if they are the scheduler's: a wait that
    always-on mode met when it had begun is without them."""
    sums = collections.Counter()
    for stack, ns in stacks:
        while stack[-1] in scheduler:
            stack = stack[:-1]
        if "[runnable]" not in stack:
            sums[stack] += ns
    return sums


def beside_exact(seconds):
    """(stacks of `offcpu`, of `run`) of the same programs, all their lives."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        a = stack.enter_context(always("--offcpu", "yes"))
        out = os.path.join(folder, "exact.folded")
        with open(os.path.join(folder, "err"), "w+") as err:
            exact = subprocess.Popen([SMOLDER, "offcpu", "-a", "-f", "folded", "-o", out], stderr=err)
            wait_attached(exact.pid, 1)
            with contextlib.ExitStack() as programs:
                mixed = Mixed(folder, programs)
                for p in list(mixed.start(seconds)):
                    assert p.wait(PATIENCE) == 0
            exact.send_signal(signal.SIGINT)
            assert exact.wait(PATIENCE) == 0, workloads.read(err.name)
            assert ", 0 lost" in workloads.read(err.name), workloads.read(err.name)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            got = folded.parse(s.query("offcpu", "--from", "now-1h", "-f", "folded").stdout)
        return mixed.of(folded.parse(workloads.read(out))), mixed.of(got)


@live
@undisturbed
def totals_by_stack_are_those_of_exact_mode():
    """… of all stacks that have a hundredth of the time blocked, and of all processes.

    A thread has no stack in its first tenth of a second and in the wait that it begins then, and in exact
    mode the first stacks of a program are cut until its tables are there. That is half a second, of the few
    seconds of the short form some hundredths."""
    seconds = 60 if SOAK else 16
    allowed = 0.05 if SOAK else 0.05 + 0.5 / seconds
    exact, got = beside_exact(seconds)
    for name in {s[0] for s, _ in exact}:
        want, there = (sum(n for s, n in stacks if s[0] == name) for stacks in (exact, got))
        print(f"# {name}: {there / NS:.3f} s of {want / NS:.3f}")
        assert abs(there - want) < 0.02 * want + 0.1 * NS, (name, there, want)
    functions = scheduler()
    exact, got = by_stack(exact, functions), by_stack(got, functions)
    # The stacks of those that live for less than a tenth of a second are not taken.
    great = {s: n for s, n in exact.items()
             if n > 0.01 * sum(exact.values()) and not s[0].endswith(("-sh", "-nap"))}
    assert len(great) > 12, exact
    for stack, ns in great.items():
        print(f"# {got[stack] / NS:.3f} s of {ns / NS:.3f}: {';'.join(stack)}")
    for stack, ns in great.items():
        assert abs(got[stack] - ns) < allowed * ns, (stack, got[stack], ns)


@live
def too_many_new_places_are_counted_and_said():
    """Hundreds of threads that wait, all for the first time: no more stacks are walked for a moment.
    How long they wait is known all the same."""
    threads, least, most = 600, 0, 0

    def capped():
        nonlocal least, most
        asked = time.monotonic()
        with workloads.start("waits", "many", threads):
            began, is_capped = time.monotonic(), False
            while not is_capped and time.monotonic() - began < 12:
                time.sleep(1)
                is_capped = bool(a.troubles().get("sites_new"))
            least += (threads + 1) * (time.monotonic() - began) * NS
        most += (threads + 1) * (time.monotonic() - asked) * NS
        return is_capped

    with always("--offcpu", "yes") as a:
        until("the cap", capped, 100)
        until("words", lambda: "waited at so many new places at once" in a.err)
        assert sum(a.collectors("smolder_collector_offcpu_walks_total")) > 100, a.metrics()
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            there, without = all_time(s, "waits"), waits(s).count("[no stack]")
    print(f"# {there / NS:.1f} s of at least {least / NS:.1f}, at most {most / NS:.1f}, {without / NS:.1f} without a stack")
    assert 0.98 * least < there < 1.01 * most, (there, least, most)
    assert without, "every stack was walked"


@contextlib.contextmanager
def busy_pipe():
    """Two that hand a byte to each other: thousands of switches a second."""
    there, back = os.pipe(), os.pipe()
    pids = []
    try:
        for read, write in ((there[0], back[1]), (back[0], there[1])):
            pid = os.fork()
            if pid == 0:
                while True:
                    os.write(write, os.read(read, 1))
                    time.sleep(0.0002)
            pids.append(pid)
        os.write(there[1], b"x")
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        for fd in there + back:
            os.close(fd)


SYS_BPF = {"x86_64": 321, "aarch64": 280}
BPF_ENABLE_STATS = 32
TRACING = "26"


@contextlib.contextmanager
def bpf_statistics():
    """The kernel times every BPF program while this lasts: while a descriptor is open, however the test ends."""
    attr = ctypes.create_string_buffer(16)  # of run time
    fd = ctypes.CDLL(None, use_errno=True).syscall(SYS_BPF[os.uname().machine], BPF_ENABLE_STATS, attr, 4)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    try:
        yield
    finally:
        os.close(fd)


def switch_program(pid):
    """(runs, seconds) of the program at each switch, as the kernel counts them: no other runs as often."""
    most = (0, 0)
    for path in glob.glob(f"/proc/{pid}/fdinfo/*"):
        with contextlib.suppress(OSError), open(path) as f:
            info = dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))
            if info.get("prog_type") == TRACING:
                most = max(most, (int(info["run_cnt"]), int(info["run_time_ns"]) / NS))
    return most


@live
@undisturbed
def what_it_costs_is_what_the_kernel_counts():
    """The program times only some of its runs. A third more or less is what chance and the clocks' own time make."""
    with bpf_statistics(), always("--offcpu", "yes") as a, busy_pipe():
        def told():
            return sum(v for k, v in a.metrics().items()
                       if k.startswith("smolder_bpf_seconds_total{") and 'program="offcpu"' in k)

        def after_next():
            """Both, just after a window has told."""
            before = told()
            until("a window", lambda: told() != before, 3 * WINDOW)
            return told(), *switch_program(a.half("collect"))

        first = after_next()
        after_next()
        told_s, runs, kernel_s = (y - x for x, y in zip(first, after_next()))
    print(f"# {runs} switches: {told_s / runs * NS:.0f} ns each, {kernel_s / runs * NS:.0f} by the kernel")
    assert runs > 20000, runs
    assert 0.67 * kernel_s < told_s < 1.5 * kernel_s, (told_s, kernel_s, runs)


@live
def it_is_kept_only_if_asked_for():
    with always() as without, always("--offcpu", "yes") as a, workloads.start("waits", "forever", "1") as w:
        for s in (without, a):
            s.wait_sampled(1)
        until("the wait", lambda: "stuck_wait" in a.query(f'offcpu{{pid="{w.pid}"}}', "--from", "now-5m", "-f", "folded").stdout, 3 * WINDOW)
        for kind in ("offcpu", "oncpu"):
            assert a.sampled(kind) > 0 and without.sampled(kind) == 0, kind


main()

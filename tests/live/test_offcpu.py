#!/usr/bin/env python3
"""Time off the CPU, by stack, is what the programs measured themselves."""
import contextlib
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
import peers  # noqa: E402
import postgres  # noqa: E402
import pprof  # noqa: E402
import slow_disk  # noqa: E402
import workloads  # noqa: E402
from control_groups import cgroup, hierarchies  # noqa: E402
from recording import PATIENCE, Terminal, live, run, undisturbed  # noqa: E402
from tap import SMOLDER, main, skip  # noqa: E402

END = re.compile(r"(\d+) waits \((\d+) unfinished\) in ([\d.]+) s, (\d+) lost")
LOST = re.compile(r" lost \(([\d.]+) (ns|us|µs|ms|s)\)")
UNITS = {"ns": 1, "us": 1e3, "µs": 1e3, "ms": 1e6, "s": 1e9}
NOTHING = "nothing was recorded: no thread that was asked for left its CPU"
RUNNABLE = "[runnable]"
KERNEL = "do_syscall_64"  # where the kernel's part of a stack begins


class Waits:
    """What was recorded of a program, and what it says itself."""

    def __init__(self, *args, options=(), command="offcpu", may_lose=False):
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "out.folded")
            r = run(command, *options, "-f", "folded", "-o", out, "--", *args).ok()
            self.stacks = folded.parse(workloads.read(out))
        self.err = r.err
        m = END.search(r.err)
        assert m, r.err
        self.periods, self.open, self.lost = int(m[1]), int(m[2]), int(m[4])
        said = [line for line in r.out.decode().splitlines() if line.startswith("{")]
        self.truth = json.loads(said[-1]) if said else {}
        assert may_lose or self.lost == 0, r.err

    def ns(self, name, where=lambda s: True):
        return sum(n for s, n in self.stacks if name in s and where(s))

    def check(self, name, most=0):
        """What it waited in what that function called is what it measured around the call.

        Where it was interrupted in the function itself, that may or may not be part of it. It measures by
        the clock of its CPU time, which runs from the moment that it is woken on an idle CPU, while that
        still ends its interrupt. Where waits are short that is not little (16 to 80 us each were seen), and
        the time that the call took is the most that it can have waited.
        """
        true, least, all_of_it = self.truth[name], self.ns(name, lambda s: calls(s, name)), self.ns(name)
        seen = min(max(true, least), all_of_it)
        near(seen, max(true, min(seen, most)), what=name)

    def whole(self, name):
        """Each stack of that function's is, from the program's first function to where the kernel stops it."""
        mine = [without_others(s) for s, _ in self.stacks if name in s]
        assert mine, self.stacks
        for s in mine:
            assert is_whole(s) and "main" in s, s
            assert s[1] == RUNNABLE or "schedule" in s, s


def calls(stack, name):
    """Not interrupted in the function itself, nor while it asks for the time."""
    after = stack[stack.index(name) + 1:]
    return after and not after[0].startswith("asm_") and "clock_gettime" not in after[0]


def near(seen, true, share=0.02, what=""):
    assert abs(seen - true) <= share * true, \
        f"{what}: {seen / 1e6:.3f} ms, but it was {true / 1e6:.3f} ms ({seen / true - 1:+.2%})"


def waits(*args, **kw):
    return Waits(workloads.path("waits"), *map(str, args), **kw)


def body(stack):
    """Without the process, and the marks at the root."""
    return stack[2:] if stack[1].startswith("[") else stack[1:]


def is_whole(stack):
    """From the first function of the program to where the kernel stops the thread."""
    return body(stack)[0] == "_start" and stack[-1] == "__schedule"


def without_others(stack):
    """Without who held the lock and who woke it."""
    ends = [i for i, f in enumerate(stack) if f == "[waker]" or f.startswith("[held by ")]
    return stack[:ends[0]] if ends else stack


@live
@undisturbed
def sleeps_have_their_lengths():
    w = waits("sleeps", 100)
    for name in ("short_sleep", "long_sleep"):
        w.check(name)
        w.whole(name)
    for s, _ in w.stacks:
        if "short_sleep" in s:
            assert is_whole(s) and "main" in s and "schedule" in s, s
    blocked = w.ns("long_sleep", lambda s: s[1] != RUNNABLE)
    assert 100 * 5e6 * 0.99 < blocked < 100 * 5e6 * 1.1, blocked  # the rest is waiting for a CPU


@live
@undisturbed
def waits_for_a_lock_have_their_lengths_and_their_holder():
    w = waits("lock", 100, options=["--wakers"])
    w.check("lock_wait")
    w.whole("lock_wait")
    blocked = [(s, n) for s, n in w.stacks if "lock_wait" in s and s[1] != RUNNABLE]
    total = sum(n for _, n in blocked)
    held = sum(n for s, n in blocked if any(re.match(r"\[held by holder \(\d+\)\]", f) for f in s))
    woken = sum(n for s, n in blocked if "[waker]" in s and "hold" in s[s.index("[waker]"):]
                and any(re.match(r"holder \(\d+\)", f) for f in s))
    assert held > 0.95 * total and woken > 0.95 * total, (held, woken, total, blocked)


@live
def a_sleeper_is_woken_by_the_timer():
    w = waits("sleeps", 50, options=["--wakers"])
    blocked = [(s, n) for s, n in w.stacks if "long_sleep" in s and s[1] != RUNNABLE]
    timer = sum(n for s, n in blocked if "[timer]" in s and "hrtimer_interrupt" in s)
    assert timer > 0.95 * sum(n for _, n in blocked), blocked


@live
@undisturbed
def answers_through_a_pipe_take_their_time():
    w = waits("pipe", 100)
    w.check("pipe_wait")
    w.whole("pipe_wait")


@live
@undisturbed
def writes_to_the_disk_take_their_time():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        file = os.path.join(d, "file")
        w = waits("disk", 30, file)
        w.check("disk_write", w.truth["disk_write_took"])
        w.whole("disk_write")
        deep = waits("disk", 30, file, options=["--state", "uninterruptible"])
        other = waits("disk", 30, file, options=["--state", "sleeping"])
        assert not any(s[1] == RUNNABLE for s, _ in deep.stacks), deep.stacks
        assert deep.ns("disk_write") > 10 * other.ns("disk_write"), (deep.stacks, other.stacks)


@live
@undisturbed
def writes_to_a_slow_disk_have_their_lengths():
    # Beside the build: temporary directories may be in memory.
    program = workloads.path("waits")
    with tempfile.TemporaryDirectory(dir=os.path.dirname(program)) as d, slow_disk.made(d) as disk:
        w = Waits(*disk.argv(program, "disk", "4", os.path.join(disk.path, "file")))
    w.check("disk_write")
    w.whole("disk_write")
    assert w.truth["disk_write"] > 0.5e9, w.truth  # it was slow
    waited = w.ns("disk_write", lambda s: s[1] != RUNNABLE)
    disk = w.ns("disk_write", lambda s: s[1] != RUNNABLE and any(f.startswith("io_schedule") for f in s))
    assert disk > 0.9 * waited, (disk, waited, w.stacks)


@live
@undisturbed
def threads_that_migrate_are_counted_once():
    if os.cpu_count() < 2:
        skip("there is one CPU")
    w = waits("migrate", 100)
    w.check("migrate_sleep")
    w.whole("migrate_sleep")


@live
@undisturbed
def a_program_that_becomes_another_goes_on():
    w = waits("exec", 50)
    w.check("long_sleep")
    for name in ("short_sleep", "long_sleep"):  # the first of them on both sides of the exec
        w.whole(name)
    before = w.ns("short_sleep") - w.truth["short_sleep"]  # the truth is the second program's alone
    assert 50 * 2e6 * 0.98 < before < 50 * 2e6 * 2, before


@live
@undisturbed
def a_thread_that_is_killed_while_it_waits_is_there():
    w = waits("killed", 300)
    # Who is killed waits for a CPU to end on: that is no part of it.
    near(w.ns("stuck_wait", lambda s: s[1] != RUNNABLE), w.truth["stuck_wait"], what="stuck_wait")


@live
@undisturbed
def what_is_blocked_all_the_time_is_there():
    """From before the beginning to after the end."""
    with workloads.start("waits", "forever", "0") as w:
        r = run("offcpu", "-p", w.pid, "-d", "1", "-f", "folded", "-o", "-").ok()
        m = END.search(r.err)
        assert m and int(m[2]) == 1 and int(m[4]) == 0, r.err
        near(r.stacks.count("stuck_wait"), float(m[3]) * 1e9, 0.1, "stuck_wait")
        stack = next(s for s, _ in r.stacks if "stuck_wait" in s)
        assert body(stack)[0] == "_start" and "main" in stack and "do_syscall_64" in stack, stack


@live
@undisturbed
def who_holds_the_locks_of_an_old_deadlock_is_told():
    """In a pid namespace of its own as well, where its threads know themselves by other numbers."""
    for before in ([], ["unshare", "--pid", "--fork", "--kill-child"]):
        with workloads.Workload([*before, workloads.path("waits"), "deadlock", "1"]) as w:
            pid = workloads.family(w.pid)[-1]
            tids = {workloads.read(f"/proc/{pid}/task/{t}/comm").strip(): t for t in os.listdir(f"/proc/{pid}/task")}
            r = run("offcpu", "-p", pid, "-d", 0.5, "--wakers", "--threads", "-f", "folded", "-o", "-").ok()
        seconds = float(END.search(r.err)[3])
        for mine, other in (("left", "right"), ("right", "left")):
            stacks = [(s, n) for s, n in r.stacks if "deadlock_wait" in s and f"{mine} ({tids[mine]})" in s[1]]
            near(sum(n for _, n in stacks), seconds * 1e9, 0.2, mine)
            assert all(s[-1] == f"[held by {other} ({tids[other]})]" for s, _ in stacks), r.stacks


@live
@undisturbed
def a_wait_from_before_ends_when_it_ends():
    with workloads.start("waits", "once", "100") as w:
        p = subprocess.Popen([SMOLDER, "offcpu", "-p", str(w.pid), "-f", "folded", "-o", "-"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(1)  # not waited for, but waited in
        os.kill(w.pid, signal.SIGTERM)
        out, err = p.communicate(timeout=PATIENCE)
        stacks = folded.parse(out.decode())
        seconds = float(END.search(err.decode())[3])
        late, sleeps = stacks.count("late_wait"), stacks.count("long_sleep")
        assert late > 0.2e9 and sleeps > 0.49e9, (late, sleeps)
        # All but what it ran, and what it did at its end.
        near(late + sleeps, seconds * 1e9, 0.1, "both")


@live
@undisturbed
def running_runnable_and_blocked_are_all_the_time():
    """The best of a few: what interrupts it between its main() and its clocks is not told apart."""
    for mode, n in (("sleeps", 100), ("spin", 800)):
        seen = []
        for _ in range(4):
            w = waits(mode, n)
            # What is cut is of the first moments, when its tables were not there yet.
            mine = sum(n for s, n in w.stacks if s[0] == "waits" and ("main" in s or "[incomplete]" in s))
            seen.append((mine + w.truth["cpu"]) / w.truth["wall"])
            if abs(seen[-1] - 1) <= 0.01:
                break
        assert abs(seen[-1] - 1) <= 0.01, (mode, seen)


@live
@undisturbed
def a_thread_that_is_preempted_is_runnable():
    """Two that spin on one CPU have half of it each."""
    spin = [workloads.path("waits"), "spin", "600"]
    w = Waits("taskset", "-c", "0", "sh", "-c", " ".join(spin) + " & " + " ".join(spin) + "; wait")
    runnable = w.ns("spin_work", lambda s: s[1] == RUNNABLE)
    assert 0.6e9 * 0.5 < runnable, runnable
    assert w.ns("spin_work", lambda s: s[1] != RUNNABLE) == 0, w.stacks


@live
@undisturbed
def lengths_and_states_are_filters():
    w = waits("sleeps", 40, options=["-m", "3500"])
    w.check("long_sleep")
    # One that waited for a CPU for long enough after it is there.
    assert w.ns("short_sleep") < 0.2 * w.truth["short_sleep"], w.stacks
    short = waits("sleeps", 40, options=["-M", "3500", "--state", "sleeping"])
    assert short.ns("short_sleep") and not short.ns("long_sleep"), short.stacks
    none = run("offcpu", "--state", "sleping", "-d", "1").refused("sleeping")
    assert none.code == 2, none.code
    run("offcpu", "-u", "-k", "-d", "1").refused("-u and -k")


@contextlib.contextmanager
def many(threads, name):
    """`waits many`, under a name that nothing else on the machine has."""
    with tempfile.TemporaryDirectory() as d:
        at = os.path.join(d, name)
        os.symlink(workloads.path("waits"), at)
        with workloads.Workload([at, "many", str(threads)]) as w:
            yield w


@contextlib.contextmanager
def control_group(pid):
    """One with that process alone in it, or None."""
    roots = hierarchies()
    root = roots["v1"] or roots["v2"]
    with cgroup(root, pid) if root else contextlib.nullcontext() as path:
        yield path


def offcpu(*options):
    """(stacks, seconds) of a recording of processes that are there already."""
    r = run("offcpu", *options, "-f", "folded", "-o", "-").ok()
    m = END.search(r.err)
    assert m and m[4] == "0", r.err
    return r.stacks, float(m[3])


@live
@undisturbed
def threads_names_groups_and_frames_are_filters():
    name = f"many{os.getpid()}"
    with many(3, name) as w, many(3, name[::-1]):
        tid = next(t for t in os.listdir(f"/proc/{w.pid}/task") if t != str(w.pid))
        stacks, seconds = offcpu("-t", tid, "-U", "-d", 1)
        near(stacks.total, seconds * 1e9, 0.1, "-t")  # of one thread
        for s, _ in stacks:
            assert s[0] == name and "many_wait" in s and "main" not in s, s
            assert KERNEL not in s and "__schedule" not in s, s

        stacks, seconds = offcpu("--comm", name, "-K", "-u", "-d", 1)
        near(stacks.total, 4 * seconds * 1e9, 0.1, "--comm")  # of all of its four
        for s, _ in stacks:
            assert s[0] == name and "many_wait" not in s and "main" not in s, s
            assert s[1] == RUNNABLE or body(s)[0].startswith(("entry_", KERNEL, "asm_")), s
        assert sum(n for s, n in stacks if KERNEL in s) > 0.9 * stacks.total, stacks

        with control_group(w.pid) as group:
            if group:
                stacks, seconds = offcpu("--cgroup", group, "-M", 400000, "-d", 1)
                # All but the main thread, which waits all the time.
                near(stacks.total, 3 * seconds * 1e9, 0.1, "--cgroup")
                assert stacks.comms() == {name} and not stacks.count("stuck_wait"), stacks

        r = run("offcpu", "-p", w.pid, "-k", "-d", 0.5, "-f", "folded", "-o", "-").ok()
        assert not r.out and NOTHING in r.err, (r.out, r.err)


@live
def kernel_threads_and_user_threads():
    for option, comm in (("-k", False), ("-u", True)):
        r = run("offcpu", option, "-d", "1", "-f", "folded", "-o", "-").ok()
        assert r.stacks.total, r.err
        has_user = any("_start" in s or "__clone3" in s or "clone3" in s for s, _ in r.stacks)
        assert has_user == comm, (option, r.stacks.comms())


@live
def ctrl_c_ends_it_at_once():
    with workloads.start("waits", "forever", "0") as w, \
            Terminal("offcpu", "-p", w.pid, "-f", "folded", "-o", "-") as t:
        t.read_until("recording")
        began = time.monotonic()
        t.interrupt()
        out = t.process.stdout.read()
        assert t.end() == 0, t.text
        assert time.monotonic() - began < 5 and b"stuck_wait" in out, (out, t.text)


@live
def processes_that_end_are_forgotten_once_they_are_told():
    w = Waits("sh", "-c", "for i in $(seq 300); do /bin/true; done", options=["-v"])
    m = re.search(r"(\d+) periods off the CPU.* (\d+) without a stack; .* (\d+) without an end", w.err)
    assert m and int(m[1]) > 300 and m[2] == m[3] == "0", w.err
    assert w.open <= 1, w.err


# ---- faults ---------------------------------------------------------------------------------------


@live
def a_filter_that_matches_nothing_is_said():
    for options in (["--comm", f"no{os.getpid()}"], ["-p", os.getpid(), "-m", 10 ** 12], ["-p", os.getpid(), "-k"]):
        r = run("offcpu", *options, "-d", 0.3, "-f", "folded", "-o", "-").ok()
        assert r.out == b"" and NOTHING in r.err and END.search(r.err)[1] == "0", (options, r.err)
    gone = 2 ** 22 + 1
    run("offcpu", "-p", gone, "-d", 1, "-o", "-").refused("there is no process")
    run("offcpu", "-t", gone, "-d", 1, "-o", "-").refused("there is no thread")
    run("offcpu", "--cgroup", "/nowhere", "-d", 1, "-o", "-").refused("/nowhere")


@live
@undisturbed
def a_process_that_ends_ends_the_recording():
    """One of two does not; what it waited until then is there."""
    with workloads.start("waits", "once", "0") as first, workloads.start("waits", "many", "2") as other, \
            Terminal("offcpu", "-p", f"{first.pid},{other.pid}", "-d", 2 * PATIENCE, "-f", "folded", "-o", "-") as t:
        t.read_until("recording")
        began = time.monotonic()
        time.sleep(0.5)  # not waited for, but waited in
        os.kill(first.pid, signal.SIGKILL)
        lived = time.monotonic() - began
        first.process.wait()
        time.sleep(0.5)
        assert t.process.poll() is None, t.text
        os.kill(other.pid, signal.SIGKILL)
        out, code = t.process.stdout.read(), t.end()
        m = END.search(t.text)
        assert code == 0 and m and m[2] == "0" and m[4] == "0", t.text
    stacks, seconds = folded.parse(out.decode()), float(m[3]) * 1e9
    late = sum(n for s, n in stacks if "late_wait" in s and s[1] != RUNNABLE)
    assert lived * 1e9 < late < seconds - 0.4e9, (late, lived, seconds)
    near(stacks.count("stuck_wait"), seconds, 0.1, "stuck_wait")
    near(stacks.count("many_wait"), 2 * seconds, 0.1, "many_wait")


@live
@undisturbed
def what_a_full_ring_loses_is_counted_and_measured():
    """Each time off the CPU is there or is lost; and so is the time."""
    w = waits("storm", 2000, may_lose=True)
    m = LOST.search(w.err)
    assert w.lost > 1000 and m, w.err
    # Of each of its 65 threads there is one more before it first runs, and the event of its end may be lost.
    assert 0 <= w.periods + w.lost - w.truth["switches"] <= 2 * 65 + 5, (w.periods, w.lost, w.truth)
    lost = float(m[1]) * UNITS[m[2]]
    near(sum(n for s, n in w.stacks if s[0] == "waits") + lost, w.truth["storm"], what="storm")


ODD = '<b>;\x1b[31m\x9b"\\'


@live
def odd_names_of_threads_harm_no_format():
    """As those of the process, of who held the lock, and of who woke it."""
    program = [workloads.path("waits"), "lock", "200", ODD]  # who has ended has no name any more
    with tempfile.TemporaryDirectory() as d:
        for fmt in ("folded", "tree", "text", "top", "svg", "html", "json", "columns", "speedscope", "pprof"):
            out = os.path.join(d, "out." + fmt)
            r = run("offcpu", "--wakers", "--threads", "-f", fmt, "-o", out, "--", *program).ok()
            if fmt == "pprof":  # its numbers are bytes of any kind
                data = str([(s.labels, s.frames) for s in pprof.read(out)])
                assert ODD[:3] in data, data
                for bad in (ODD[4], ODD[9]):
                    assert repr(bad)[1:-1] not in data, data
                continue
            data = workloads.read(out)
            for text in (data, r.err):
                assert ODD[4] not in text and ODD[9] not in text, (fmt, text)
            assert fmt not in ("svg", "html") or "<b>" not in data, fmt
            if fmt == "folded":
                stacks = [s for s, _ in folded.parse(data) if "lock_wait" in s]
        held = [f for s in stacks for f in s if f.startswith("[held by ")]
        assert held and all(re.fullmatch(r"\[held by <b>.*\[31m.* \(\d+\)\]", f) for f in held), held
        woken = [s[s.index("[waker]") + 1:][:2] for s in stacks if "[waker]" in s]
        assert woken and any(all(re.fullmatch(r"<b>.*\[31m.* \(\d+\)", f) for f in w) for w in woken), woken
        assert all(s[0].startswith("<b>") for s in stacks), stacks


# ---- real programs --------------------------------------------------------------------------------


@live
@undisturbed
def dd_waits_for_the_disk():
    with tempfile.TemporaryDirectory(dir="/var/tmp") as d:
        w = Waits("dd", "if=/dev/zero", f"of={d}/file", "bs=64k", "count=200", "oflag=dsync", "status=none",
                  options=["--state", "uninterruptible"])
        mine = [(s, n) for s, n in w.stacks if s[0] == "dd"]
        disk = sum(n for s, n in mine if any(f.startswith("io_schedule") for f in s) and "write" in s)
        assert disk > 0.9 * sum(n for _, n in mine) > 0, mine


GIL = """
import threading, time
def spin():
    end = time.monotonic() + 0.7
    while time.monotonic() < end: pass
threads = [threading.Thread(target=spin) for _ in range(2)]
for t in threads: t.start()
for t in threads: t.join()
"""


@live
@undisturbed
def python_waits_for_its_interpreter_lock():
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.pb.gz")
        run("offcpu", "-o", out, "--", "/usr/bin/python3", "-c", GIL).ok()
        stacks = [s for s in pprof.read(out) if s.labels["state"] != "runnable"]
    waits = []
    for s in stacks:
        names = [f.name for f in s.frames]
        at = next((i for i, n in enumerate(names) if "pthread_cond_timedwait" in n), None)
        # Its caller is the interpreter's lock: by name, or where the interpreter has no symbols.
        if at is not None and ("take_gil" in names or re.fullmatch(r"\[(lib)?python3.*\+0x[0-9a-f]+\]", names[at + 1])):
            waits.append(s)
    # Two want it for 0.7 s, and one has it.
    assert sum(s.value for s in waits) > 0.3e9, stacks
    assert {s.labels["reason"] for s in waits} == {"lock"}, waits


@live
@undisturbed
def postgresql_waits_for_the_hot_row_and_who_holds_it_is_told():
    """Each wait for the row is under it as long as another backend's transaction has not ended."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with postgres.hot_row(d) as server:
            for seconds in (1, 2):  # the second time, the tables of all files are there
                pids = workloads.family(server.pid)
                r = run("offcpu", "-p", ",".join(pids), "-d", seconds, "--wakers", "-f", "folded", "-o", "-").ok()
    rows = [(s, n) for s, n in r.stacks if "ProcSleep" in s and s[1] != RUNNABLE]
    woken = [(s[s.index("[waker]") + 1:], n) for s, n in rows if "[waker]" in s]
    held = sum(n for s, n in woken if re.fullmatch(r"postgres \((%s)\)" % "|".join(pids), s[0])
               and ("LockReleaseAll" in s or "LockRelease" in s))
    total = sum(n for _, n in woken)
    assert total > 0.5 * sum(n for _, n in rows) > 0.2e9, (total, rows)
    assert held > 0.8 * total, (held, total, woken)


# ---- BCC's ----------------------------------------------------------------------------------------

HEADER = re.compile(r"Tracing off-CPU time \(us\) of (.*) by (user|kernel|user \+ kernel) stack"
                    r"(?: for (\d+) secs\.|\.\.\. Hit Ctrl-C to end\.)")


def offcputimes(*args):
    """Ours, and BCC's where it runs here."""
    yield "smolder", run("offcputime", *args).ok().out.decode()
    bcc, _ = peers.bcc("offcputime")
    if bcc:
        p = subprocess.run([*bcc, *map(str, args)], capture_output=True, text=True, timeout=PATIENCE)
        if p.returncode == 0:  # it needs kprobes, which some kernels are without
            yield "bcc", p.stdout


@live
def bcc_folded():
    with workloads.start("waits", "forever", "0") as idle, workloads.start("pingpong") as w:
        for who, text in offcputimes("-df", "-p", w.pid, 1):
            stacks = folded.parse(text)
            assert stacks.total > 1e5, (who, stacks)  # microseconds
            assert any("-" in s for s, _ in stacks), (who, stacks)
        text = run("offcputime", "-f", "-t", idle.pid, 1).ok().stacks
        assert abs(text.count("stuck_wait") / 1e6 - 1) < 0.2, text


@live
@undisturbed
def bcc_filters():
    name = f"many{os.getpid()}"

    def offcputime(*args):
        return run("offcputime", "-f", *args, 1).ok().stacks

    def is_kernels(comm, *names):
        return comm.startswith(names or ("kworker/", "rcu_", "ksoftirqd/", "migration/", "kthreadd"))

    with many(2, name) as w:
        # Threads of programs that sleep, as their frames have it.
        stacks = offcputime("-u", "-U", "--state", 1)
        assert not any(is_kernels(c) for c in stacks.comms()), stacks.comms()
        assert not stacks.count("__schedule") and not stacks.count(KERNEL), stacks
        mine = stacks.of(name)
        near(mine.count("many_wait") * 1e3, 2e9, 0.2, "-u")
        near(mine.count("stuck_wait") * 1e3, 1e9, 0.2, "-u")

        # Times of at most so long, as the kernel's frames have it.
        stacks = offcputime("-p", w.pid, "-M", 400000, "-K")
        near(stacks.total * 1e3, 2e9, 0.2, "-M")
        assert not stacks.count("many_wait") and not stacks.count("main"), stacks
        assert stacks.count(KERNEL) > 0.9 * stacks.total, stacks
        assert offcputime("-p", w.pid, "--state", 2).count("many_wait") == 0

    # Threads of the kernel: those that wait for work in deep sleep, and those that do not.
    deep, light = offcputime("-k", "--state", 2), offcputime("-k", "--state", 1)
    assert any(is_kernels(c, "kworker/", "rcu_") for c in deep.comms()), deep.comms()
    assert any(is_kernels(c, "ksoftirqd/", "migration/", "kthreadd") for c in light.comms()), light.comms()
    assert not any(is_kernels(c, "ksoftirqd/", "migration/", "kthreadd") for c in deep.comms()), deep.comms()
    for stacks in (deep, light):
        assert not stacks.count("_start") and not stacks.count(KERNEL), stacks

    # Two that spin on one CPU wait for nothing but that.
    spin = ["taskset", "-c", "0", workloads.path("shares")]
    with workloads.Workload(spin) as one, workloads.Workload(spin) as two:
        pids = f"{one.pid},{two.pid}"
        near(offcputime("-p", pids, "--state", 0).total * 1e3, 1e9, 0.2, "--state 0")
        assert offcputime("-p", pids, "--state", 3).total < 0.05e6


@live
def bcc_text():
    with workloads.start("pingpong") as w:
        for who, text in offcputimes("-p", w.pid, "-m", 1, 1):
            lines = text.split("\n")
            m = HEADER.fullmatch(lines[0])
            assert m and m[3] == "1" and str(w.pid) in m[1], (who, lines[0])
            assert lines[1] == "", (who, lines[:3])
            assert re.search(r"\n    -                \S.* \(\d+\)\n        \d+\n\n", text), (who, text)


main()

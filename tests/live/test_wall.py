#!/usr/bin/env python3
"""record --wall: all the time of threads is there, once, and in the right part."""
import collections
import contextlib
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import WINDOW, account, always, served, until  # noqa: E402
from container import container  # noqa: E402
from recording import PATIENCE, Run, live, run, undisturbed  # noqa: E402
from tap import SMOLDER, main  # noqa: E402

END = re.compile(r"(\d+) samples, (\d+) waits \((\d+) unfinished\) in ([\d.]+) s, (\d+) lost")
THREAD = re.compile(r"(.*) \((\d+)\)$")


def as_other_parts(stack):
    """Idle time stands before the process and its thread, what else there is after them."""
    return (*stack[1:3], stack[0], *stack[3:]) if stack[0] == "[idle]" else stack


class Wall:
    """Parts by thread: ns by (tid, part)."""

    def __init__(self, stacks):
        self.stacks = [(as_other_parts(s), n) for s, n in stacks]
        self.parts = collections.defaultdict(collections.Counter)
        self.names = {}
        for s, n in self.stacks:
            m = THREAD.match(s[1])
            assert m and s[2].startswith("["), s
            self.names[int(m[2])] = m[1]
            self.parts[int(m[2])][s[2]] += n

    def total(self, tid):
        return sum(self.parts[tid].values())

    def ending(self, tid):
        """What it waited after it had told that it ends."""
        return sum(n for s, n in self.stacks if "do_exit" in s and s[1].endswith(f"({tid})"))

    def running(self, tid):
        return sum(n for part, n in self.parts[tid].items() if part.startswith("[running: "))

    def by_name(self, name):
        return [tid for tid, n in self.names.items() if n == name]


def run_with_pause(*args, pause):
    """… in which it is stopped, from when to when, in seconds: its rings run full."""
    p = subprocess.Popen([SMOLDER, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    begin, end = pause
    time.sleep(begin)
    p.send_signal(signal.SIGSTOP)
    time.sleep(end - begin)
    p.send_signal(signal.SIGCONT)
    out, err = p.communicate(timeout=PATIENCE)
    return Run(p.returncode, out, err.decode("utf-8", "replace"))


def wall(*args, lossless=True, pause=None):
    """A recording, with the stacks of idle time, and what the program said."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        idle = [] if "--no-idle" in args else ["--idle"]
        command = ["record", "--wall", "--threads", *idle, "-f", "folded", "-o", out, *args]
        r = (run_with_pause(*command, pause=pause) if pause else run(*command)).ok()
        w = Wall(folded.parse(workloads.read(out)))
    m = END.search(r.err)
    w.err, w.seconds, w.lost = r.err, float(m[4]), int(m[5])
    assert not (lossless and w.lost), r.err
    w.said = [line for line in r.out.decode().splitlines() if line.startswith("{")]
    return w


def between(seen, least, most, share=0.01):
    return least * (1 - share) <= seen <= most * (1 + share)


@live
@undisturbed
def the_parts_of_each_thread_are_its_life():
    """Also of those that begin and end meanwhile. What it measured itself is a little less than its
    life, and what who started it did is a little more."""
    w = wall("--", workloads.path("whole"), "1500")
    lives = json.loads(w.said[-1])["threads"]
    assert len(lives) > 10, lives
    for life in lives:
        seen = w.total(life["tid"]) - w.ending(life["tid"])
        assert between(seen, life["inner"], life["outer"]), (life, w.parts[life["tid"]], seen)
    everything = sum(w.total(life["tid"]) - w.ending(life["tid"]) for life in lives)
    assert between(everything, sum(life["inner"] for life in lives),
                   sum(life["outer"] for life in lives)), everything


@live
@undisturbed
def running_is_what_the_kernel_counts():
    w = wall("--", workloads.path("whole"), "1500")
    lives = json.loads(w.said[-1])["threads"]
    ran = sum(w.running(life["tid"]) for life in lives)
    cpu = sum(life["cpu"] for life in lives)
    # Their own count is without what it takes to begin and to end.
    assert between(ran, cpu, cpu + 5e6 * len(lives), 0.02), (ran, cpu, w.parts)
    spins = [life for life in lives if life["what"] == "spins"][0]
    # What it takes to begin and to end is some milliseconds at most.
    assert between(w.running(spins["tid"]), spins["cpu"], spins["cpu"] + 1e7, 0.02), \
        (spins, w.parts[spins["tid"]])


@live
def each_part_is_where_it_belongs():
    w = wall("--", workloads.path("whole"), "1500")
    spins, sleeps, works = (w.by_name(name)[0] for name in ("spins", "sleeps", "works"))
    on = w.parts[spins]
    assert on["[running: user]"] + on["[running: kernel]"] + on["[waiting for a CPU]"] \
        > 0.8 * w.total(spins), on  # the kernel's locks, where memory is new, may be another's
    asleep = w.parts[sleeps]
    assert asleep["[blocked: timer]"] + asleep["[waiting for a CPU]"] > 0.8 * w.total(sleeps), asleep
    idle = w.parts[works]
    assert idle["[idle]"] > 0.6 * w.total(works), idle
    assert any("spin_work" in s and s[2] == "[running: user]" for s, _ in w.stacks), w.stacks
    assert any("sleep_work" in s and s[2] == "[blocked: timer]" for s, _ in w.stacks), w.stacks
    assert any("pool_work" in s and s[2] == "[idle]" for s, _ in w.stacks), w.stacks


@live
def processes_that_never_wait_are_there():
    """They end before they have left a CPU even once."""
    w = wall("--", workloads.path("whole"), "1000")
    briefs, mine = len(w.by_name("brief")), len(w.by_name("whole"))
    assert mine > 0.8 * briefs, (briefs, mine, w.names)


@live
@undisturbed
def each_thread_of_a_process_has_the_same_time():
    """Those that run or wait all the time have no beginning, and no end."""
    with workloads.start("whole", "0", "ready") as p:
        w = wall("-p", str(p.pid), "-d", "1")
    tids = [p.pid] + [w.by_name(name)[0] for name in ("spins", "sleeps", "works")]
    totals = [w.total(tid) for tid in tids]
    assert max(totals) < 1.01 * min(totals), totals
    assert between(totals[0], (w.seconds - 0.05) * 1e9, (w.seconds + 0.05) * 1e9), (totals, w.seconds)


@live
def idle_is_one_frame_until_it_is_asked_for():
    """… for all processes, in every format; in a picture it leaves room for the rest, and says so."""
    with workloads.start("whole", "0", "ready") as p, tempfile.TemporaryDirectory() as d:
        target = ["record", "--wall", "-p", str(p.pid), "-d", "0.5"]
        r = run(*target, "-f", "folded", "-o", "-").ok()
        stacks = folded.parse(r.out.decode())
        idle = [n for s, n in stacks if "[idle]" in s]
        assert [s for s, _ in stacks if "[idle]" in s] == [("[idle]",)], stacks
        assert not any("pool_work" in s for s, _ in stacks) and any("spin_work" in s for s, _ in stacks)
        m = re.search(r"lost, ([\d.]+) (m?s) of ([\d.]+) s idle", r.err)
        assert m and abs(float(m[1]) * (1e6 if m[2] == "ms" else 1e9) - idle[0]) < 0.01 * idle[0], (r.err, idle)
        tree = run(*target, "-f", "tree").ok().out.decode()
        assert re.search(r"^wall: .* \([\d.]+ m?s idle\) in ", tree), tree
        assert re.search(r"\d% +[├└]─ \[idle\]$", tree, re.M), tree
        svg = os.path.join(d, "out.svg")
        run("record", "--wall", "-a", "-d", "0.5", "-o", svg).ok()
        picture = workloads.read(svg)
        m = re.search(r'<rect class="w\d" x="[\d.]+" y="[\d.]+" width="([\d.]+)"[^>]*>\n<text[^>]*>\[idle\] [\d.]+', picture)
        assert m and abs(float(m[1]) - (1200 - 24) / 8) < 2, picture[:3000]
        assert "[idle] is drawn narrower" in picture, picture[:3000]
        run(*target, "--idle", "-o", svg).ok()
        picture = workloads.read(svg)
        assert "pool_work" in picture and "[idle] is drawn narrower" not in picture, picture[:3000]


@live
def idle_can_be_left_out():
    with workloads.start("whole", "0", "ready") as p:
        w = wall("-p", str(p.pid), "-d", "0.5", "--no-idle")
        assert not any(s[2] == "[idle]" for s, _ in w.stacks), w.stacks
        w = wall("-p", str(p.pid), "-d", "0.5", "--blocked-in", "pool_work")
        works = w.parts[w.by_name("works")[0]]
        assert works["[blocked: lock]"] > 0.6 * sum(works.values()) and not works["[idle]"], works


@live
@undisturbed
def moments_weigh_less_the_more_threads_run():
    """All that runs is the time in which any thread ran, and no moment weighs less than what as many
    threads as there are CPUs leave of it."""
    w = wall("--latency", "--", workloads.path("whole"), "1500")
    said = json.loads(w.said[-1])
    cpus = len(os.sched_getaffinity(0))
    for life in said["threads"]:
        seen = w.total(life["tid"]) - w.ending(life["tid"])
        assert between(seen, life["inner"] / cpus, life["outer"]), (life, w.parts[life["tid"]], seen)
    mine = {life["tid"] for life in said["threads"]}
    ran = sum(w.running(tid) for tid in mine)
    assert 0 < ran <= 1.01 * said["main"], (ran, said["main"])
    one = wall("--latency", "--", workloads.path("waits"), "spin", "300")
    alone = wall("--", workloads.path("waits"), "spin", "300")
    for parts in (one, alone):  # one thread weighs all of its time
        total = sum(parts.total(tid) for tid in parts.by_name("waits"))
        truth = json.loads(parts.said[-1])["wall"]
        assert total > 0.99 * truth, (total, truth)


@contextlib.contextmanager
def spinning(each):
    """So many programs on each CPU that never wait."""
    started = [subprocess.Popen(["taskset", "-c", str(cpu), workloads.path("waits"), "spin", "30000"],
                                stdout=subprocess.DEVNULL)
               for cpu in sorted(os.sched_getaffinity(0)) for _ in range(each)]
    try:
        yield started
    finally:
        for p in started:
            p.kill()
            p.wait()


def machine(*args):
    """A recording of all threads; once more, if the machine was too busy to tell all."""
    for _ in range(5):
        w = wall("-a", *args, lossless=False)
        if not w.lost:
            break
    assert not w.lost, w.err
    return w


@contextlib.contextmanager
def waiting(threads):
    """A program with so many threads that wait all the time."""
    program = ("import threading, time; threading.stack_size(1 << 18)\n"
               f"for _ in range({threads}): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
               "print('ready', flush=True); time.sleep(60)")
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline() == "ready\n"
            yield p
        finally:
            p.kill()


def living():
    """All threads that there are, but those that have ended already and are not waited for."""
    tids = set()
    for path in glob.glob("/proc/[0-9]*/task/[0-9]*/stat"):
        with contextlib.suppress(OSError), open(path) as f:
            if f.read().rpartition(")")[2].split()[0] not in "XZ":
                tids.add(int(path.split("/")[-2]))
    return tids


def have_all_the_time(w, throughout):
    """Those that lived throughout have it, whatever they did."""
    lives = {tid: w.total(tid) / 1e9 for tid in throughout}
    shortest, longest = min(lives, key=lives.get), max(lives, key=lives.get)
    print(f"# {w.seconds} s, {len(lives)} threads: " + ", ".join(
        f"{w.names[tid]} {lives[tid]:.4f} s" for tid in (shortest, longest)))
    assert lives[longest] < 1.01 * lives[shortest], \
        [(w.names[tid], lives[tid], w.parts[tid]) for tid in (shortest, longest)]
    assert abs(lives[longest] - w.seconds) < 0.06, (lives[longest], w.seconds)


@live
def each_thread_of_a_machine_that_is_overloaded_has_all_the_time():
    """They come and go while they are looked for, which takes longer the more there are."""
    with waiting(1000), spinning(3) as busy:
        before = living()
        w = machine("-d", "0.5")
        throughout = before & living() & set(w.parts)  # a host may have threads that nobody is shown
    assert {p.pid for p in busy} <= throughout and len(throughout) > 1000, (busy, throughout)
    have_all_the_time(w, throughout)


@live
def where_the_last_events_are_lost_all_the_time_is_there():
    """It is stopped until its time is up: what threads did since the rings were full is not known."""
    with spinning(1) as busy, workloads.start("pingpong") as p:
        w = wall("-a", "-d", "1.5", lossless=False, pause=(1, 4))
    assert w.lost > 1000, w.err
    tids = {p.pid} | {p.pid for p in busy}
    have_all_the_time(w, tids)
    # On a CPU whose ring was full: the other's may have had room for all.
    assert any(w.parts[tid]["[lost]"] > 0.01e9 for tid in tids), [w.parts[tid] for tid in tids]


@live
@undisturbed
def a_moment_of_the_machine_weighs_less_the_more_of_its_threads_run():
    """While each CPU has something to run, each moment of every thread is worth the same share. By
    process, those who spin alone in theirs would weigh all of it."""
    cpus = os.sched_getaffinity(0)
    with spinning(1) as busy:
        w = machine("--latency=machine", "-d", "2")  # where events are lost, it is not known how many ran
        alone = wall("--latency=process", "-a", "-d", "2", lossless=False)
    # Where others have the CPUs at the end, the last moments are missing; and seconds are told in tenths.
    whole = w.seconds * 1e9
    lives = [(w.total(p.pid), alone.total(p.pid)) for p in busy]
    ran = sum(w.running(tid) for tid in w.parts)
    print(f"# {w.seconds} s on {len(cpus)} CPUs: all ran {ran / 1e9:.3f} s, those who spin lived " +
          ", ".join(f"{a / 1e9:.3f} s (by process {b / 1e9:.3f})" for a, b in lives))
    for here, by_process in lives:
        assert between(here, 0.9 * whole / len(cpus), whole / len(cpus), 0.05), lives
        assert between(by_process, 0.9 * alone.seconds * 1e9, alone.seconds * 1e9, 0.05), lives
    assert between(ran, 0.9 * whole, whole, 0.05), (ran, whole)


@live
def the_whole_machine_is_there():
    with workloads.start("whole", "0", "ready"):
        w = wall("-a", "-d", "1", lossless=False)  # a machine may be too busy to tell all
    spins = w.total(w.by_name("spins")[0])
    longest = max(w.total(tid) for tid in w.parts)
    assert longest < 1.01 * spins or w.lost, (longest, spins)
    assert any(s[0] == "kthreadd" and s[2] == "[idle]" for s, _ in w.stacks), w.stacks


@live
def what_makes_no_sense_is_refused():
    run("record", "--wall", "-e", "page-faults", "-d", "0.1").refused("--wall", "clock")
    run("record", "--wall", "-I", "-d", "0.1").refused("--wall", "-I")
    run("record", "--no-idle", "-d", "0.1").refused("--no-idle", "--wall")
    run("record", "--latency", "-d", "0.1").refused("--latency", "--wall")
    run("record", "--idle", "-d", "0.1").refused("--idle", "--wall")
    run("record", "--wall", "--idle", "--no-idle", "-d", "0.1").refused("--idle", "--no-idle")
    run("record", "--wall", "--latency=both", "-d", "0.1").refused("--latency", "'both'", "machine")
    run("record", "--wall", "--latency=machine", "-p", "1", "-d", "0.1").refused("--latency=machine", "-p")
    run("record", "--wall", "--latency=machine", "--", "true").refused("--latency=machine", "-a")


@live
@undisturbed
def always_on_the_parts_are_all_the_time_of_the_threads():
    """… of one program, and how long they ran is exact."""
    with always("--offcpu", "yes") as a:
        asked = time.monotonic()
        p = subprocess.run([workloads.path("whole"), "6000"], stdout=subprocess.PIPE, text=True, check=True)
        outer = (time.monotonic() - asked) * 1e9
        said = json.loads(p.stdout)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            got = s.query('wall{comm="whole"}', "--from", "now-1h", "-f", "folded").stdout
            kernel, stacks, awake = (
                folded.parse(s.query(f'wall{{comm=~"k.*"{also}}}', "--from", "now-1h", "-f", "folded", *how).stdout)
                for also, how in (("", ()), ("", ("--idle",)), (',state!="idle"', ())))
            taken, stored, lost = account(s.metrics())
            samples = [s.json(f"/api/v1/query?query={t}&from=now-1h")["samples"]
                       for t in ("cpu", "offcpu", "oncpu")]
    assert taken == stored + lost and lost == 0 and sum(samples) == stored, (taken, stored, lost, samples)
    parts = collections.Counter()
    for stack, n in folded.parse(got):
        parts[stack[0] if stack[0] == "[idle]" else stack[1]] += n
    # Threads of the kernel, most of which wait for work.
    idle = {s: n for s, n in kernel if "[idle]" in s}
    assert list(idle) == [("[idle]",)] and idle[("[idle]",)] > 5e9, kernel
    assert any(s[0] == "[idle]" and s[1][0] == "k" and "kthread" in s and n > 5e9 for s, n in stacks), stacks
    assert stacks.total == kernel.total == idle[("[idle]",)] + awake.total, (stacks.total, kernel.total, awake.total)
    lives = said["threads"]
    seen = sum(parts.values())
    ran = sum(n for part, n in parts.items() if part.startswith("[running: "))
    print(f"# {seen / 1e9:.3f} s of at least {(said['main'] + sum(x['inner'] for x in lives)) / 1e9:.3f}, "
          f"at most {(outer + said['children'] + sum(x['outer'] for x in lives)) / 1e9:.3f}: {dict(parts)}")
    assert between(seen, said["main"] + sum(x["inner"] for x in lives),
                   outer + said["children"] + sum(x["outer"] for x in lives)), parts
    cpu = sum(x["cpu"] for x in lives)
    assert between(ran, cpu, 1.5 * cpu, 0.01), (ran, cpu, parts)  # main's is not in it
    off = sum(n for part, n in parts.items() if part.startswith(("[blocked: ", "[idle]")))
    assert off > 5e9, parts  # one that works for a pool waits all the time


def hidden():
    """Processes that a machine keeps to itself: where root may not look, the kernel tells BPF nothing of them."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            os.readlink(f"/proc/{pid}/ns/pid")
        except PermissionError:
            found.append(pid)
        except OSError:
            pass  # it has ended
    return found


def zombies():
    """How many have ended, and count as threads until their parents ask."""
    count = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/stat") as f:
            count += f.read().rpartition(")")[2].split()[0] == "Z"
    return count


class Threads:
    """How many threads there are, looked at all the time: what they live in all, by their number."""

    def __init__(self):
        self.seen = []  # (when, how many)
        self.hidden = hidden()
        self.over = threading.Event()
        self.looking = threading.Thread(target=self.look)

    def look(self):
        with open("/proc/loadavg") as f:
            while not self.over.wait(0.01):
                f.seek(0)
                n = int(f.read().split()[3].split("/")[1])
                n -= sum(os.stat(f"/proc/{pid}/task").st_nlink - 2 for pid in self.hidden)
                if len(self.seen) % 10 == 0:
                    not_living = zombies()
                self.seen.append((time.time(), n - not_living))

    def __enter__(self):
        self.looking.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.looking.join()

    def lived(self, first, last):
        """In ns, of all of them between two times."""
        sum_ = 0
        for (at, n), (then, _) in zip(self.seen, self.seen[1:]):
            sum_ += n * max(0, min(then, last) - max(at, first))
        return sum_ * 1e9


def parts_of(stacks):
    """{part: ns}; there is nothing that is in none."""
    parts = collections.Counter()
    for stack, n in stacks:
        part = next((f for f in stack[:2] if re.fullmatch(
            r"\[(running: (user|kernel|not sampled)|waiting for a CPU|blocked: \w+|idle)\]", f)), None)
        assert part, stack
        parts[part] += n
    return parts


@live
@undisturbed
def always_on_a_thread_a_container_and_the_machine_have_all_their_time():
    """The parts of each sum to it, within 1 %."""
    with container() as (name, procs), always("--offcpu", "yes", "--threads", "whole") as a, Threads() as all_:
        first = -(-int(time.time()) // WINDOW) * WINDOW  # the first whole window
        last = first + 2 * WINDOW
        asked = time.monotonic()
        p = subprocess.run(["sh", "-c", 'echo $$ > "$0" && exec "$@"', procs, workloads.path("whole"), "13000"],
                           stdout=subprocess.PIPE, text=True, check=True)  # longer than a window: it has its pid
        outer = (time.monotonic() - asked) * 1e9
        said = json.loads(p.stdout)
        until("the windows to be over", lambda: time.time() > last + 1, 3 * WINDOW)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            def all_of(labels, *range_):
                r = s.query(f"wall{labels}", "-f", "folded", "--from", *(range_ or ("now-1h",)))
                assert r.returncode == 0, r.stderr
                return parts_of(folded.parse(r.stdout))

            by_thread = {life["tid"]: all_of(f'{{tid="{life["tid"]}"}}')
                         for life in said["threads"] if life["what"] != "brief"}
            of_container = all_of(f'{{container="{name[:12]}"}}')
            machine = all_of("", str(first), "--to", str(last))
            account_ = account(s.metrics())
    assert account_[2] == 0, account_
    lives = {life["tid"]: life for life in said["threads"]}
    assert len(by_thread) == 3, by_thread
    for tid, parts in by_thread.items():
        life, seen = lives[tid], sum(parts.values())
        print(f"# {life['what']}: {seen / 1e9:.3f} s of {life['inner'] / 1e9:.3f} to {life['outer'] / 1e9:.3f}: {dict(parts)}")
        assert between(seen, life["inner"], life["outer"]), (life, parts)
        ran = sum(n for part, n in parts.items() if part.startswith("[running: "))
        assert life["cpu"] - 0.01 * seen < ran < life["cpu"] + 0.1 * seen, (life, parts)  # with interrupts
    least = said["main"] + sum(life["inner"] for life in lives.values())
    most = outer + said["children"] + sum(life["outer"] for life in lives.values())
    seen = sum(of_container.values())
    print(f"# the container: {seen / 1e9:.3f} s of {least / 1e9:.3f} to {most / 1e9:.3f}")
    assert between(seen, least, most), of_container
    seen, lived = sum(machine.values()), all_.lived(first, last)
    print(f"# the machine: {seen / 1e9:.3f} s of {lived / 1e9:.3f}: {dict(machine)}")
    assert between(seen, lived, lived), machine


main()

#!/usr/bin/env python3
"""record --wall: all the time of threads is there, once, and in the right part."""
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import account, always, served  # noqa: E402
from recording import live, run, undisturbed  # noqa: E402
from tap import main  # noqa: E402

END = re.compile(r"(\d+) samples and (\d+) times off the CPU in ([\d.]+) s \((\d+) still are\), (\d+) lost")
THREAD = re.compile(r"(.*) \((\d+)\)$")


class Wall:
    """Parts by thread: ns by (tid, part)."""

    def __init__(self, stacks):
        self.stacks = stacks
        self.parts = collections.defaultdict(collections.Counter)
        self.names = {}
        for s, n in stacks:
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


def wall(*args, lossless=True):
    """A recording, and what the program said."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        r = run("record", "--wall", "--threads", "-f", "folded", "-o", out, *args).ok()
        w = Wall(folded.parse(workloads.read(out)))
    m = END.search(r.err)
    w.err, w.seconds, w.lost = r.err, float(m[3]), int(m[5])
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
            taken, stored, lost = account(s.metrics())
            samples = [s.json(f"/api/v1/query?query={t}&from=now-1h")["samples"]
                       for t in ("cpu", "offcpu", "oncpu")]
    assert taken == stored + lost and lost == 0 and sum(samples) == stored, (taken, stored, lost, samples)
    parts = collections.Counter()
    for stack, n in folded.parse(got):
        parts[stack[1]] += n
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


main()

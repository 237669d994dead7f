#!/usr/bin/env python3
"""`smolder stat`: it counts what a program says of itself, and writes it as the real perf stat does."""
import glob
import json
import os
import re
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import peers
import workloads
from control_groups import cgroup, hierarchies
from recording import NOBODY, PATIENCE, Terminal, live, public_copy, run, undisturbed
from tap import SMOLDER, main, skip, test

PAGES, SLEEPS, SPIN_MS = 2000, 300, 30
WORK = 3  # threads and processes of `counted` that do as much each
STRAY = 200  # page faults and switches beside that: loading a program, a new thread's stack
SOFTWARE = "task-clock,page-faults,context-switches,cpu-migrations"


def perf():
    if not peers.perf():
        skip("perf is not installed")
    return [peers.perf(), "stat"]


def ours():
    return [SMOLDER, "stat"]


class Stat:
    """One run: .text is what it wrote to its file, .said what the program printed."""

    def __init__(self, tool, *args):
        self.dir = tempfile.TemporaryDirectory()
        self.out = os.path.join(self.dir.name, "out")
        self.process = subprocess.Popen([*tool, "-o", self.out, *map(str, args)], text=True, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self, code=0):
        self.said, err = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == code, (self.process.returncode, err)
        with self.dir, open(self.out) as f:
            lines = f.read().split("\n")
        assert lines[0].startswith("# started on ") and lines[1] == "", lines[:2]
        self.text = "\n".join(lines[2:])
        return self


def stat(tool, *args, code=0):
    run = Stat(tool, *args).end(code)
    return run.text, run.said


def both(*args):
    """What we and perf write, at the same time."""
    runs = [Stat(tool, *args) for tool in (ours(), perf())]
    return [run.end().text for run in runs]


def values(text):
    """event -> value, of -x,"""
    return {f[2]: float(f[0]) for f in (line.split(",") for line in text.splitlines())}


def program(pages=PAGES, sleeps=SLEEPS, ms=SPIN_MS):
    return [workloads.path("counted"), pages, sleeps, ms]


@live
@undisturbed
def counts_of_a_program_are_its_own_and_those_of_perf():
    seen = {}
    for name, tool in (("smolder", ours()), ("perf", perf())):
        text, said = stat(tool, "-x,", "-e", SOFTWARE, *program())
        truth, got = json.loads(said), values(text)
        # From exec on: loading the program is counted, but came before its own beginning.
        assert 0 <= got["page-faults"] - truth["faults"] <= STRAY, (name, got, truth)
        # A thread's last switch, out of its end, is one of getrusage alone.
        assert -WORK <= got["context-switches"] - truth["switches"] <= STRAY, (name, got, truth)
        assert truth["faults"] >= WORK * PAGES and truth["switches"] >= WORK * SLEEPS, truth
        assert 0.9 < got["task-clock"] * 1000 / truth["cpu_us"] < 1.2, (name, got, truth)
        seen[name] = got
    a, b = seen["smolder"]["page-faults"], seen["perf"]["page-faults"]
    assert abs(a - b) <= 20, seen


class Perf:
    """perf stat on a process, counting from `with` until the process ends; then .text()"""

    def __init__(self, directory, *args):
        ctl, ack, self.out = (os.path.join(directory, n) for n in ("ctl", "ack", "perf"))
        os.mkfifo(ctl)
        os.mkfifo(ack)
        self.process = subprocess.Popen([*perf(), "-D", "-1", f"--control=fifo:{ctl},{ack}", "-o", self.out, *args],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        with open(ctl, "w") as control, open(ack) as reply:
            control.write("enable\n")
            control.flush()
            reply.readline()

    def text(self):
        err = self.process.communicate(timeout=PATIENCE)[1]
        assert self.process.returncode == 0, err
        with open(self.out) as f:
            return "".join(f.readlines()[2:])


@live
@undisturbed
def of_the_same_run_they_say_the_same():
    with tempfile.TemporaryDirectory() as d:
        fifo, out = os.path.join(d, "fifo"), os.path.join(d, "ours")
        os.mkfifo(fifo)
        with workloads.start("counted", PAGES, SLEEPS, SPIN_MS, fifo) as w:
            args = ("-x,", "-e", SOFTWARE, "-p", str(w.pid))
            theirs = Perf(d, *args)
            with Terminal("stat", "-o", out, *args) as t:
                t.read_until("counting")
                for _ in range(3):
                    os.kill(w.pid, signal.SIGUSR1)
                    with open(fifo) as f:
                        f.read()
                w.stop()
                assert t.end() == 0, t.text
            with open(out) as f:
                a = values("".join(f.readlines()[2:]))
            b = values(theirs.text())
    assert a["page-faults"] == b["page-faults"] >= 3 * WORK * PAGES, (a, b)
    assert a["context-switches"] == b["context-switches"] >= 3 * WORK * SLEEPS, (a, b)
    assert a["cpu-migrations"] == b["cpu-migrations"], (a, b)
    assert 0.99 < a["task-clock"] / b["task-clock"] < 1.01, (a, b)


@live
def the_kernels_part_and_the_users_add_up():
    text, said = stat(ours(), "-x,", "-e", "page-faults,page-faults:u,page-faults:k,faults:uk", *program())
    got = values(text)
    assert got["page-faults:u"] >= WORK * PAGES, got
    assert got["page-faults"] == got["page-faults:u"] + got["page-faults:k"] == got["faults:uk"], got


@live
def tracepoints_and_groups_are_counted():
    text, _ = stat(ours(), "-x,", "-e", "{page-faults,minor-faults},syscalls:sys_enter_munmap,r1", *program())
    lines = [line.split(",") for line in text.splitlines()]
    assert [f[2] for f in lines] == ["page-faults", "minor-faults", "syscalls:sys_enter_munmap", "r1"], text
    assert float(lines[0][0]) >= float(lines[1][0]) >= WORK * PAGES, text
    assert WORK <= float(lines[2][0]) < STRAY, text


@live
def events_of_a_unit_are_counted_as_by_name():
    text, _ = stat(ours(), "-x;", "-e", "page-faults,software/config=0x2/,{faults:u,software/config=2,config1=0/u}", *program())
    got = [line.split(";") for line in text.splitlines()]
    assert got[0][0] == got[1][0] and got[2][0] == got[3][0] and int(got[3][0]) >= WORK * PAGES, text
    assert [g[2] for g in got[1::2]] == ["software/config=0x2/", "software/config=2,config1=0/u"], text


def shape(line):
    """A line with its numbers, which differ from run to run, as N, with as many decimals: words, units and
    columns are left."""
    line = re.sub(r"\b\d+(\.\d+)?", lambda m: "N" + (f".{len(m[1]) - 1}" if m[1] else ""), line)
    return re.sub(r"\b[KMG]/sec", "/sec", line)


def shapes(text):
    return [shape(line.strip()) for line in text.splitlines() if line.strip()]


FORMS = [
    ((), ["sleep", "0.2"]),
    (("-r", 3), ["sleep", "0.1"]),
    (("-I", 100), ["sleep", "0.25"]),
    (("-a", "-A"), ["sleep", "0.1"]),
    (("-a", "--per-core"), ["sleep", "0.1"]),
    (("-a", "-A", "-I", 100), ["sleep", "0.25"]),
    (("-a", "--per-core", "-I", 100), ["sleep", "0.25"]),
    (("-a",), ["sleep", "0.1"]),
    (("-e", "cs,page-faults"), ["true"]),
    (("-e", "task-clock:u,faults:k,L1-dcache-load-misses"), ["true"]),
]


UNITS = "/sys/bus/event_source/devices"
for unit in ("msr", "power"):  # a clock; energy, with a unit, counted once for all CPUs
    if os.path.isdir(f"{UNITS}/{unit}/events"):
        one = [e for e in os.listdir(f"{UNITS}/{unit}/events") if "." not in e and e != "smi"][0]
        FORMS.append((("-a", "-A", "-e", f"cs,{unit}/{one}/,software/config=2/u"), ["sleep", "0.1"]))
        FORMS.append((("-a", "-e", f"{unit}/{one}/,cpu-clock"), ["sleep", "0.1"]))


def first_interval(lines, options):
    """The rows of the first interval, where there are several: later ones may count nothing."""
    if "-I" not in options:
        return lines
    at = [re.match(r'\s*(?:\{"interval" : )?([\d.]+)', line) for line in lines]
    times = [m[1] for m in at if m]
    return [line for line, m in zip(lines, at) if not m or m[1] == times[0]]


@live
def fields_are_those_of_perf():
    for options, argv in FORMS:
        mine, theirs = (shapes("\n".join(first_interval(text.splitlines(), options)))
                        for text in both("-x,", *options, *argv))
        assert mine == theirs, f"{options}:\n" + "\n".join(mine) + "\nperf:\n" + "\n".join(theirs)


@live
def json_is_that_of_perf():
    for options, argv in FORMS:
        rows = []
        for text in both("-j", *options, *argv):
            parsed = []
            for line in first_interval([t for t in text.splitlines() if t], options):
                one = json.loads(line)
                # perf 6.1 writes "(null)" where there is no ratio.
                parsed.append([(k, re.sub(r"^[KMG]/", "/", v.replace("(null)", ""))
                                if isinstance(v, str) and not re.fullmatch(r"[\d.]+", v) else "N")
                               for k, v in one.items()])
            rows.append(parsed)
        assert rows[0] == rows[1], f"{options}: {rows[0]}\nperf: {rows[1]}"


def columns(text):
    """Where on a line its parts end or begin: the value, its unit, the event, the ratio and its unit."""
    found = []
    for line in text.splitlines():
        m = re.match(r"(.*?[\d>]) (msec *|Joules|    +) (\S+)(?: +(#) +\S+ +(\S.*?))?(  \(.*\))?\s*$", line)
        if m and "elapsed" not in line:
            found.append((m.end(1), m[2], m[3], m.start(4), re.sub(r"^[KMG]/", "/", m[5] or ""), m.start(6)))
        elif "elapsed" in line or line.startswith("#") or "Performance" in line:
            found.append(shape(line.rstrip()))
    return found


@live
def text_has_the_columns_of_perf():
    for options, argv in FORMS:
        if options == ("-r", 3):  # whether a value is off at all is luck
            continue
        mine, theirs = ("\n".join(first_interval(text.splitlines(), options)) for text in both(*options, *argv))
        assert columns(mine) == columns(theirs), f"{options}:\n{mine}\nperf:\n{theirs}"
        assert len(columns(mine)) >= 2, mine


def made_to_leave(pid):
    """How often the threads of a process have left a CPU against their will."""
    total = 0
    for path in glob.glob(f"/proc/{pid}/task/*/status"):
        with open(path) as f:
            total += int(re.search(r"nonvoluntary_ctxt_switches:\s*(\d+)", f.read())[1])
    return total


@live
def what_a_process_and_its_threads_do_is_told_apart():
    with tempfile.TemporaryDirectory() as d:
        fifo = os.path.join(d, "fifo")
        os.mkfifo(fifo)
        with workloads.start("counted", PAGES, SLEEPS, 1, fifo) as w:
            other = int(w.lines[0].split()[2])
            step = ["--", "sh", "-c", f"kill -USR1 {w.pid}; read answer < {fifo}"]
            # The child of the main thread is counted with it.
            for options, parts in ((("-p", w.pid), 3), (("-t", w.pid), 2), (("-t", other), 1),
                                   (("-t", f"{w.pid},{other}"), 3), (("--tid", other), 1)):
                for tool in (ours(), perf()) if parts != 2 else (ours(),):
                    before = made_to_leave(w.pid)
                    text, _ = stat(tool, "-x,", "-e", "page-faults,context-switches", *options, *step)
                    got = values(text)
                    assert 0 <= got["page-faults"] - parts * PAGES <= STRAY, (options, got)
                    # A busy machine has others take turns with it, and with its child.
                    forced = made_to_leave(w.pid) - before
                    most = 2 * (parts * SLEEPS + forced)
                    # A sleep may be over before it began: the host had taken the CPU.
                    assert 0.9 * parts * SLEEPS <= got["context-switches"] <= most, (options, got, forced)
            text, _ = stat(ours(), "-p", w.pid, *step)
            assert f"Performance counter stats for process id '{w.pid}':" in text, text
            assert "seconds user" not in text, text


@live
def a_control_group_is_counted_alone():
    root = hierarchies()["v2"]
    if not root:
        skip("no cgroup2 is mounted")
    with tempfile.TemporaryDirectory() as d:
        fifo = os.path.join(d, "fifo")
        os.mkfifo(fifo)
        with workloads.start("counted", PAGES, SLEEPS, 1, fifo) as w, cgroup(root, w.pid) as path:
            step = ["--", "sh", "-c", f"kill -USR1 {w.pid}; read answer < {fifo}"]
            for name in (path, path[len(root):], os.path.basename(path)):
                text, _ = stat(ours(), "-x,", "-e", "task-clock,page-faults", "-G", name, *step)
                fields = [line.split(",") for line in text.splitlines()]
                assert [f[2:4] for f in fields] == [["task-clock", name], ["page-faults", name]], text
                assert 0 <= float(fields[1][0]) - WORK * PAGES <= STRAY, text
            by_cpu, _ = stat(ours(), "-A", "-x,", "-e", "page-faults", "-G", path, *step)
            counts = [line.split(",")[1] for line in by_cpu.splitlines()]
            assert len(counts) == os.cpu_count(), by_cpu
            sums = sum(float(c) for c in counts if c != "<not counted>")
            assert 0 <= sums - WORK * PAGES <= STRAY, by_cpu
            beside = stat(perf(), "-x,", "-a", "-e", "page-faults", "-G", os.path.basename(path), *step)[0]
            assert len(beside.split(",")) == len(text.splitlines()[1].split(",")), (beside, text)
    run("stat", "-G", "/no/such/group", "0.1").refused("/no/such/group", "there is no such group")
    v1 = hierarchies()["v1"]
    if v1 and v1 != root:
        run("stat", "-G", v1, "0.1").refused("counts no events")


@live
def cpus_are_counted_each_and_together():
    cpus = os.cpu_count()
    text, said = stat(ours(), "-a", "-A", "-x,", "-e", "cpu-clock,page-faults", *program())
    rows = [line.split(",") for line in text.splitlines()]
    assert [(r[0], r[3]) for r in rows] == [(f"CPU{c}", e) for e in ("cpu-clock", "page-faults")
                                            for c in range(cpus)], text
    assert sum(float(r[1]) for r in rows[cpus:]) >= json.loads(said)["faults"], text
    text, _ = stat(ours(), "-j", "-e", "cpu-clock", "-d", "0.5")
    row = json.loads(text)
    assert 0.8 * cpus < row["metric-value"] < 1.2 * cpus, row
    text, _ = stat(ours(), "--per-core", "-x,", "-e", "cpu-clock", "0.1")
    rows = [line.split(",") for line in text.splitlines()]
    assert sum(int(r[1]) for r in rows) == cpus and all(re.fullmatch(r"S\d+-D\d+-C\d+", r[0]) for r in rows), text


@live
def intervals_add_up_to_what_happened():
    text, said = stat(ours(), "-I", 20, "-x,", "-e", "page-faults,task-clock", *program(ms=100))
    rows = [line.split(",") for line in text.splitlines()]
    times = [float(r[0]) for r in rows[::2]]
    assert len(times) > 2 and times == sorted(times) and [float(r[0]) for r in rows[1::2]] == times, text
    assert {r[3] for r in rows[::2]} == {"page-faults"}, text
    total = sum(float(r[1]) for r in rows[::2] if r[1] != "<not counted>")
    assert 0 <= total - json.loads(said)["faults"] <= STRAY, (text, said)


@live
def runs_have_a_mean_and_how_far_off_it_is():
    steps = (1000, 2000, 6000)
    with tempfile.TemporaryDirectory() as d:
        script = (f'n=$(cat {d}/n); echo $((n + 1)) > {d}/n; set -- {" ".join(map(str, steps))}; shift $n; '
                  f'exec {workloads.path("counted")} $1 0 0')
        for form in ((), ("-x,",), ("-j",)):
            with open(f"{d}/n", "w") as f:
                f.write("0")
            text, said = stat(ours(), "-r", 3, "-e", "page-faults", *form, "sh", "-c", script)
            assert len(said.splitlines()) == 3, said
            if form == ("-x,",):
                value, _, _, off = text.split(",")[:4]
                off = off.rstrip("%")
            elif form:
                row = json.loads(text)
                value, off = row["counter-value"], row["variance"]
            else:
                assert "(3 runs):" in text and re.search(r"[\d.]+ \+- [\d.]+ seconds time elapsed +\( \+-", text), text
                value, off = re.search(r"^ +(\d+) +page-faults .*\( \+- *([\d.]+)% \)$", text, re.M).groups()
            mean = sum(steps) / 3 * WORK
            deviation = (sum((s * WORK - mean) ** 2 for s in steps) / 2 / 3) ** 0.5
            assert 0 <= float(value) - mean <= 2 * STRAY, text
            assert abs(float(off) / 100 * float(value) - deviation) < 50, (text, deviation)


@live
def exit_codes_are_the_programs():
    for script, code in (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137)):
        stat(ours(), "-e", "cs", "--", "sh", "-c", script, code=code)
    r = run("stat", "no-such-program-here")
    assert r.code == 127 and "cannot start no-such-program-here" in r.err, r.err
    # What it prints is its own, and what is counted is on standard error.
    r = run("stat", "-x,", "-e", "page-faults", "echo", "-n", "hello")
    assert r.out == b"hello" and re.fullmatch(r"\d+,,page-faults,\d+,100.00,,\n", r.err), (r.out, r.err)
    r = run("stat", "-x", "\\t", "-e", "page-faults", "-o", "-", "true")
    assert re.fullmatch(rb"\d+\t\tpage-faults\t\d+\t100.00\t\t\n", r.out) and r.err == "", (r.out, r.err)


@live
def ctrl_c_ends_the_counting_but_waits_for_the_program():
    with Terminal("stat", "-e", "cpu-clock,cs") as t:
        t.read_until("counting")
        t.interrupt()
        assert t.end() == 0, t.text
        assert re.search(r"stats for 'system wide':.*cpu-clock.*seconds time elapsed", t.text, re.S), t.text
    script = f"trap '{workloads.path('counted')} {PAGES} 0 0; exit 5' INT; echo started >&2; while :; do sleep 0.1; done"
    with Terminal("stat", "-e", "page-faults", "--", "sh", "-c", script) as t:
        t.read_until("started")
        t.interrupt()
        assert t.end() == 5, t.text
        assert int(re.search(r"(\d+) +page-faults", t.text)[1]) >= WORK * PAGES, t.text


@live
def a_process_that_ends_ends_the_counting():
    with workloads.start("counted", 1, 0, 0, "/dev/null") as w, \
            Terminal("stat", "-x,", "-e", "task-clock", "-p", w.pid) as t:
        t.read_until("counting")
        os.kill(w.pid, signal.SIGTERM)
        assert t.end() == 0 and t.text.count(",task-clock,") == 1, t.text


@live
def files_are_added_to_only_when_asked():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out")
        for options, lines in (((), 1), ((), 1), (("--append",), 2)):
            run("stat", "-x,", "-e", "cs", "-o", path, *options, "true").ok()
            with open(path) as f:
                assert f.read().count(",cs,") == lines
    run("stat", "-o", "/no/such/place", "true").refused("/no/such/place")


@test
def wrong_words_are_told_with_the_right_ones():
    for args, words in (
            (["-e", "pagefaults", "true"], ["no event 'pagefaults'", "page-faults?"]),
            (["-e", "L1-dcache-load-miss", "true"], ["L1-dcache-load-misses?"]),
            (["-e", "cycles:x", "true"], ["cycles:u"]),
            (["-e", "cs,,cs", "true"], ["between two commas"]),
            (["-e", "{cs", "true"], ["braces"]),
            (["-e", "r", "true"], ["no event 'r'"]),
            (["-e", 2000 * "x", "true"], ["no name is so long"]),
            (["-e", ",".join(300 * ["cs"]), "true"], ["at most 256"]),
            (["-e", "../..:x", "true"], ["not the name of a tracepoint"]),
            (["-e", "msr/tsc", "true"], ["msr/tsc/"]),
            (["-p", "1", "-t", "1"], ["-p and -t"]),
            (["-A", "true"], ["-a"]), (["-r", "3"], ["-r needs a program"]),
            (["-r", "3", "-I", "10", "true"], ["-r and -I"]), (["-x,", "-j", "true"], ["-x and -j"]),
            (["-I", "0", "true"], ["-I takes"]), (["-p", "nginx"], ["-p takes"]), (["--"], ["no program"]),
            (["--append", "true"], ["-o FILE"]), (["-x", "", "true"], ["-x,"])):
        r = run("stat", *args).refused(*words)
        assert r.code == 2 and r.err.count("\n") == 2, r.err


@live
def what_is_not_there_or_not_allowed_is_said():
    for args, words in ((["-p", "999999999"], ["there is no process 999999999"]),
                        (["-t", "999999999"], ["there is no thread 999999999"]),
                        (["-e", "sched:schd_switch", "true"], ["sched:schd_switch", "sched:sched_switch?"]),
                        (["-e", "shed:sched_switch", "true"], ["'shed'", "sched?"]),
                        (["-e", "softwar/config=2/", "true"], ["no unit 'softwar'", "software?"]),
                        (["-e", "software/faults/", "true"], ["'software' has no event or field 'faults'"])):
        r = run("stat", *args).refused(*words)
        assert r.code == 1 and r.err.count("\n") == 1, r.err
    with open("/proc/sys/kernel/perf_event_paranoid") as f:
        if int(f.read()) < 2:
            skip("kernel.perf_event_paranoid allows everybody")
    with tempfile.TemporaryDirectory() as d:
        copy = public_copy(d)

        def as_nobody(*args):
            return subprocess.run(["setpriv", f"--reuid={NOBODY}", "--clear-groups", copy, "stat", *args],
                                  capture_output=True, text=True)

        # What needs no permission is counted, and says what it is.
        r = as_nobody("-x,", "-e", "page-faults", "true")
        if "perf_event_paranoid" not in r.stderr:  # above 2, all is refused
            assert r.returncode == 0 and re.match(r"\d+,,page-faults:u,", r.stderr), r.stderr
        for args in (("-a", "0.1"), ("-p", "1", "0.1"), ("-e", "page-faults:k", "true")):
            r = as_nobody(*args)
            assert r.returncode == 1 and r.stderr.count("\n") == 1, r.stderr
            for word in ("cannot count", "run 'sudo ", *args):
                assert word in r.stderr, (word, r.stderr)
        r = as_nobody("-e", "sched:sched_switch", "true")
        assert r.returncode == 1 and "tracefs" in r.stderr and "sudo" in r.stderr, r.stderr


main()

#!/usr/bin/env python3
"""`smolder bpf`: what it says of BPF programs is what bpftool says, and what is known of them."""
import contextlib
import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import peers
import workloads
from recording import NOBODY, PATIENCE, live, public_copy, run
from tap import SMOLDER, main, skip

CALLS, SWITCHES, CLOCK = "at_each_system_call", "at_switches", "at_the_clock"
STATISTICS = "/proc/sys/kernel/bpf_stats_enabled"


def load(*args):
    return workloads.start("bpf_load", workloads.path("bpf_load.bpf.o"), *args)


def bpftool(*args):
    tool = shutil.which("bpftool") or shutil.which("/usr/sbin/bpftool") or skip("no bpftool")
    return json.loads(subprocess.check_output([tool, "-j", *map(str, args)], timeout=PATIENCE))


def told(id):
    """What bpftool says of a program."""
    return bpftool("prog", "show", "id", id)


def tables(*args):
    r = run("bpf", "--json", *args).ok()
    return [json.loads(line) for line in r.out.decode().splitlines()]


def programs(*args):
    """name -> row, of one table."""
    return {row["name"]: row for row in tables("-i", 0.2, "-n", 1, *args)[-1]["programs"]}


@contextlib.contextmanager
def watching(*args):
    """smolder bpf --json, whose lines are read one by one."""
    p = subprocess.Popen([SMOLDER, "bpf", "--json", *map(str, args)], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.send_signal(signal.SIGTERM)
        p.stdout.read()
        assert p.wait(timeout=PATIENCE) == 0, p.returncode


@live
def figures_are_those_of_bpftool():
    with load() as w, watching("-i", 0.5, "-p", w.pid) as p:
        ids = {row["name"]: row["id"] for row in json.loads(p.stdout.readline())["programs"]}
        rows = []  # (before, ours, after)
        for _ in range(3):
            before = {i: told(i) for i in ids.values()}
            line = json.loads(p.stdout.readline())
            rows.append((before, {row["id"]: row for row in line["programs"]}, {i: told(i) for i in ids.values()}))
        # What a line says lies between what bpftool said before and after it. (On a busy machine one may
        # have been written before bpftool came to ask; not all of them.)
        for i in (ids[CALLS], ids[SWITCHES]):
            for key in ("run_cnt", "run_time_ns"):
                assert all(ours[i][key] <= after[i][key] for _, ours, after in rows), (key, rows)
                assert any(before[i][key] <= ours[i][key] for before, ours, _ in rows), (key, rows)
        # From the first table to the last, both have counted the same, but for the time that bpftool takes.
        for i in (ids[CALLS], ids[SWITCHES]):
            first, last = rows[0], rows[-1]
            for key, count in (("run_cnt", "runs"), ("run_time_ns", "ns")):
                mine = last[1][i][key] - first[1][i][key]
                summed = sum(ours[i][count] for _, ours, _ in rows[1:])
                assert mine == summed > 0, (key, mine, summed)
                theirs = last[2][i][key] - first[2][i][key]
                assert 0.6 < mine / theirs < 1.6, (key, mine, theirs)
            row = last[1][i]
            assert abs(row["ns_per_run"] - row["ns"] / row["runs"]) < 1e-3 * row["ns_per_run"], row
            assert abs(row["cpu_percent"] / 100 * 1e9 - row["ns_per_run"] * row["runs_per_second"]) \
                < 1e-3 * row["cpu_percent"] / 100 * 1e9, row


@live
def every_program_is_listed_with_what_bpftool_knows_of_it():
    with load() as w:
        for attempt in range(5):  # others may come and go meanwhile
            ours, theirs = {row["id"]: row for row in tables("-i", 0.1, "-n", 1)[0]["programs"]}, bpftool("prog", "show")
            if set(ours) == {p["id"] for p in theirs}:
                break
        assert set(ours) == {p["id"] for p in theirs}, (set(ours), theirs)
        maps = {m["id"]: m for m in bpftool("map", "show")}
        for p in theirs:
            row = ours[p["id"]]
            assert (row["type"], row["tag"], row["uid"]) == (p["type"], p["tag"], p["uid"]), (row, p)
            assert row["name"].startswith(p.get("name", "")), (row, p)
            assert {m["id"] for m in row["maps"]} == set(p.get("map_ids", ())), (row, p)
        mine = {row["name"]: row for row in ours.values() if {"pid": w.pid, "comm": "bpf_load"} in row["owners"]}
        assert set(mine) == {CALLS, SWITCHES, CLOCK}, mine
        row = mine[CALLS]
        assert row["map_bytes"] == sum(maps[m["id"]]["bytes_memlock"] for m in row["maps"]) > 0, (row, maps)
        assert {m["name"] for m in row["maps"]} >= {"looked_up", "seldom_used"}, row


@live
def a_program_has_its_owner_and_its_place():
    with load() as w:
        rows = programs("-p", w.pid)
        assert {name: row["attached"] for name, row in rows.items()} == {
            CALLS: [{"to": "raw_tp:sys_enter", "count": 1}],
            SWITCHES: [{"to": "raw_tp:sched_switch", "count": 1}],
            CLOCK: [{"to": "perf:cpu-clock", "count": 1}] if kernel() >= (6, 6) else [],
        }, rows
    assert programs("-p", w.pid) == {}, "a program outlived its owner"


def kernel():
    return tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))


@live
def places_of_bpftrace_are_told():
    if not peers.bpftrace():
        skip("no bpftrace")
    script = 'BEGIN { printf("ready %d\\n", pid); } tracepoint:sched:sched_process_exec { @[comm] = count(); }'
    with workloads.Workload(["bpftrace", "-B", "none", "-e", script], stderr=subprocess.DEVNULL) as w:
        deadline = time.monotonic() + PATIENCE
        places = []
        while "tracepoint:sched_process_exec" not in places:
            assert time.monotonic() < deadline, places
            rows = tables("-i", 0.2, "-n", 1, "-p", w.pid)[0]["programs"]
            places = [a["to"] for row in rows for a in row["attached"]]


@live
def a_file_that_keeps_a_program_is_its_owner():
    at = "/sys/fs/bpf/of/a_test"
    with load() as w:
        id = programs("-p", w.pid)[SWITCHES]["id"]
        # In mounts of its own: nothing is left of it.
        script = (f"mount -t bpf none /sys/fs/bpf && mkdir {os.path.dirname(at)} && "
                  f"PATH=$PATH:/usr/sbin bpftool prog pin id {id} {at} && exec {SMOLDER} bpf --json -i 0.2 -n 1 --id {id}")
        p = subprocess.run(["unshare", "-m", "sh", "-ec", script], capture_output=True, text=True, timeout=PATIENCE)
        assert p.returncode == 0, p.stderr
        row = json.loads(p.stdout)["programs"][0]
        assert row["owners"] == [{"file": at}, {"pid": w.pid, "comm": "bpf_load"}], row


@live
def filters_and_order():
    with load() as w:
        assert set(programs("--name", "at_the_")) == {CLOCK}
        ids = {name: row["id"] for name, row in programs("-p", w.pid).items()}
        assert set(programs("--id", f"{ids[CALLS]},{ids[CLOCK]}")) == {CALLS, CLOCK}
        assert set(programs("-p", w.pid, "--type", "raw_tracepoint")) == {CALLS, SWITCHES}
        assert programs("-p", w.pid, "--type", "xdp") == {}
        run("bpf", "--type", "xdpp").refused("xdpp", "raw_tracepoint")
        for order, key, rising in (("cpu", "cpu_percent", False), ("runs", "runs_per_second", False),
                                   ("time", "ns_per_run", False), ("id", "id", True), ("name", "name", True),
                                   ("maps", "map_bytes", False), ("avg", "average_cpu_percent", False)):
            rows = tables("-i", 0.2, "-n", 1, "-p", w.pid, "-s", order)[0]["programs"]
            values = [row[key] for row in rows]
            assert len(rows) == 3 and values == sorted(values, reverse=not rising), (order, values)
        text = run("bpf", "-b", "-n", 2, "-i", 0.2, "-p", w.pid).ok().out.decode()
        assert text.count("NS/RUN") == 2 and "\033" not in text, text
        assert re.search(rf"^ +{ids[CALLS]} .* {CALLS} +{w.pid} bpf_load +raw_tp:sys_enter$", text, re.M), text


@live
def statistics_are_on_only_meanwhile():
    before = workloads.read(STATISTICS)
    with load() as w:
        row = programs("--name", CALLS, "-p", w.pid)[CALLS]
        for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            p = subprocess.Popen([SMOLDER, "bpf", "--json", "-i", "0.2", "--id", str(row["id"])], stdout=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL)
            lines = [json.loads(p.stdout.readline())["programs"][0] for _ in range(2)]
            assert lines[1]["run_cnt"] > lines[0]["run_cnt"], lines
            p.send_signal(sig)
            p.stdout.read()
            assert p.wait(timeout=PATIENCE) == (0 if sig != signal.SIGKILL else -sig)
            p.stdout.close()
            assert workloads.read(STATISTICS) == before
            # The program goes on to run, which nobody counts. (Others may: then there is nothing to see.)
            if before.strip() != "0" or others_count():
                skip("someone else has statistics on")
            still = told(row["id"])["run_cnt"]
            cpu = w.cpu_seconds()
            while w.cpu_seconds() < cpu + 0.1:
                time.sleep(0.02)
            assert told(row["id"])["run_cnt"] == still, sig


def others_count():
    for fd in os.listdir("/proc"):
        if fd.isdigit():
            with contextlib.suppress(OSError):
                for name in os.listdir(f"/proc/{fd}/fd"):
                    if os.readlink(f"/proc/{fd}/fd/{name}").startswith("anon_inode:bpf-stats"):
                        return True
    return False


@live
def a_program_in_detail():
    with load() as w:
        for seconds in (2, 6, 18):  # until there are enough samples, on a busy machine
            o = json.loads(run("bpf", CALLS, "-d", seconds, "--json").ok().out)
            if o["samples"]["seen"] >= 100:
                break
        assert "unseen" not in o["samples"] and o["samples"]["seen"] >= 100, o["samples"]
        source = workloads.read(os.path.join(workloads.SRC, "bpf_load.bpf.c")).splitlines()
        hot = next(i for i, line in enumerate(source, 1) if "the hot line" in line)
        lines = {row["line"]: row for row in o["lines"]}
        share = lines[hot]["samples"] / o["samples"]["seen"]
        assert share > 0.5 and "bpf_map_lookup_elem" in lines[hot]["text"], (share, o["lines"])
        assert lines[hot]["file"].endswith("bpf_load.bpf.c") and lines[hot]["function"] == CALLS, lines[hot]
        assert sum(row["samples"] for row in o["calls"]) == o["samples"]["seen"], o["calls"]
        looked = [row for row in o["calls"] if row.get("map") == "looked_up"]
        assert looked and "lookup" in looked[0]["function"], o["calls"]
        assert sum(row["samples"] for row in looked) > 0.5 * o["samples"]["seen"], o["calls"]
        assert not [row for row in o["calls"] if row.get("map") == "seldom_used"], o["calls"]
        times = o["times"]
        assert sum(b["runs"] for b in times["buckets"]) == times["runs"] == o["runs"] > 0, (times, o["runs"])
        ends = min(b["from_ns"] for b in times["buckets"]), max(b["to_ns"] for b in times["buckets"])
        assert ends[0] <= o["ns_per_run"] <= ends[1], (ends, o["ns_per_run"])
        text = run("bpf", o["id"], "-d", 1).ok().out.decode()
        assert f"BPF program {o['id']}: {CALLS}" in text and "raw_tp:sys_enter" in text, text
        assert "map looked_up" in text and f"bpf_load.bpf.c:{hot}" in text, text
        assert run("bpf", o["tag"], "-d", 0.2).ok().out.decode().startswith(f"BPF program {o['id']}:")


@live
def samples_that_see_nothing_say_so():
    with load():
        for seconds in (2, 6, 18):
            o = json.loads(run("bpf", SWITCHES, "-d", seconds, "--json").ok().out)
            if o["samples"]["due"] >= 100:
                break
        assert o["samples"]["due"] >= 100, o["samples"]
        # (Where a hypervisor delays it, the clock may strike as interrupts are on again.)
        assert o["samples"]["seen"] < 0.1 * o["samples"]["due"], o["samples"]
        assert "interrupts off" in o["samples"]["unseen"], o["samples"]
        assert o["cpu_percent"] > 0, o
        text = run("bpf", SWITCHES, "-d", seconds).ok().out.decode()
        assert "runs with interrupts off" in text, text


@live
def each_run_is_timed_where_the_kernel_allows_it():
    with load():
        r = run("bpf", CALLS, "-d", 1, "--json", "--each").ok()
        times = json.loads(r.out)["times"]
        assert sum(b["runs"] for b in times["buckets"]) == times["runs"] > 0, times
        if "cannot be timed" in r.err:
            assert json.loads(r.out)["not_each"] in r.err and ("fentry" in r.err or "attach" in r.err), r.err
            assert times["of"].startswith("means") and times["readings"] >= times["intervals"] > 0, times
            skip("this kernel lets nobody attach to a BPF program")
        assert times["of"] == "runs" and times["lost"] < 0.01 * times["runs"], times
        o = json.loads(run("bpf", CALLS, "-d", 1, "--json").ok().out)
        # The sums of the kernel have reading the clock in them, and are not of the same second.
        mean = sum(b["runs"] * (b["from_ns"] + b["to_ns"]) / 2 for b in times["buckets"]) / times["runs"]
        assert 0.3 < mean / o["ns_per_run"] < 3, (mean, o["ns_per_run"])


class Screen:
    """smolder on a terminal of a size."""

    def __init__(self, *args, columns=100, lines=12):
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.before = termios.tcgetattr(self.slave)
        self.process = subprocess.Popen([SMOLDER, "bpf", *map(str, args)], stdin=self.slave, stdout=self.slave,
                                        stderr=self.slave)
        self.text = ""

    def read_until(self, done):
        deadline = time.monotonic() + PATIENCE
        while not done(self.text):
            assert time.monotonic() < deadline, self.text
            if select.select([self.master], [], [], 1)[0]:
                self.text += os.read(self.master, 65536).decode("utf-8", "replace")

    def end(self):
        code = self.process.wait(timeout=PATIENCE)
        while select.select([self.master], [], [], 0)[0]:
            self.text += os.read(self.master, 65536).decode("utf-8", "replace")
        assert termios.tcgetattr(self.slave) == self.before, "the terminal is not as it was"
        os.close(self.master)
        os.close(self.slave)
        return code


@live
def the_screen_is_drawn_anew_and_put_back():
    with load() as w:
        for end in ("q", signal.SIGTERM, signal.SIGINT):
            s = Screen("-i", 0.2, "-p", w.pid)
            s.read_until(lambda text: text.count("NS/RUN") >= 3 and text.endswith("\033[J"))
            if end == "q":
                os.write(s.master, b"q")
            else:
                s.process.send_signal(end)
            assert s.end() == 0, s.text
            assert s.text.startswith("\033[?1049h") and s.text.endswith("\033[?1049l"), s.text
            frames = s.text.split("\033[H")[1:]
            for frame in frames[:-1]:
                shown = re.sub(r"\033\[[?0-9;]*[A-Za-z]", "", frame).split("\r\n")
                assert len(shown) <= 12 and all(len(line) <= 100 for line in shown), shown
            assert any(CALLS[:16] in frame and str(w.pid) in frame for frame in frames), s.text


@live
def names_cannot_command_the_terminal():
    with load("\033[2Jevil\"") as w:
        text = run("bpf", "-b", "-n", 1, "-i", 0.2, "-p", w.pid).ok().out.decode()
        assert "evil" in text and "\033" not in text, text
        assert all("evil" in row["owners"][0]["comm"] and "\033" not in row["owners"][0]["comm"]
                   for row in programs("-p", w.pid).values())


@live
def what_is_not_there_is_said():
    run("bpf", 4294967295).refused("no BPF program", "4294967295", "smolder bpf -b -n 1")
    run("bpf", "no_such_program").refused("no BPF program", "no_such_program")
    with load() as one, load() as other:
        r = run("bpf", CALLS).refused("2 BPF programs are called", CALLS)
        # (Others of that name may still be on their way out of the kernel: they are not meant.)
        rows = tables("-i", 0.2, "-n", 1, "--name", CALLS, "-p", f"{one.pid},{other.pid}")[0]["programs"]
        ids = sorted(row["id"] for row in rows)
        assert ", ".join(map(str, ids)) in r.err, (ids, r.err)
    for args, word in ((("-s", "cpus"), "did you mean cpu"), (("-n", 0), "-n"), (("-i", 0.01), "-i"),
                       (("a", "b"), "one program at a time"), (("--each",), "name it"),
                       (("a", "-n", 2), "table of all programs")):
        r = run("bpf", *args)
        assert r.code == 2 and word in r.err and r.out == b"", (args, r.code, r.err)


@live
def without_the_capability_it_says_which():
    with tempfile.TemporaryDirectory() as d:
        copy = public_copy(d)
        for args in (("-n", "1"), ("1",), ("--json", "-n", "1")):
            p = subprocess.run([copy, "bpf", *args], user=NOBODY, group=NOBODY, extra_groups=[], capture_output=True,
                               text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE)
            assert p.returncode == 1 and p.stdout == "", p
            assert "CAP_SYS_ADMIN" in p.stderr and "sudo" in p.stderr and p.stderr.count("\n") == 1, p.stderr


main()

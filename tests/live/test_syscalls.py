#!/usr/bin/env python3
"""`smolder syscalls` and `syscount`: what a program says of its own calls is what they count."""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import peers
import workloads
from control_groups import cgroup, hierarchies
from recording import PATIENCE, Terminal, live, run
from tap import SMOLDER, main, skip

COUNTING = "counting system calls"


def counted(*args, program=(), **kw):
    """The rows of one run: (rows, what the program printed, Run)."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.json")
        r = run("syscalls", "-n", 0, "-f", "json", "-o", out, *args, *(("--", *program) if program else ()), **kw)
        assert r.code == 0, r.err
        with open(out) as f:
            lines = [json.loads(line) for line in f]
    rows = [row for line in lines for row in line["rows"]]
    return rows, r.out.decode(), r


def by_name(rows, wide=True):
    """name -> (calls, errors), of 64-bit or 32-bit programs."""
    return {row["call"]: (row["calls"], row["errors"]) for row in rows if row["32-bit"] != wide}


def check_truth(rows, said, wide=True):
    truth = json.loads(said.splitlines()[0])
    if not wide:
        truth["sigreturn"] = truth.pop("rt_sigreturn")
    seen = by_name(rows, wide)
    wrong = {name: (seen.get(name), tuple(n)) for name, n in truth.items() if seen.get(name) != tuple(n)}
    assert not wrong, f"(counted, made): {wrong}"
    return truth


@live
def counts_are_the_programs_own():
    for options in ((), ("-c",), ("--by", "process,call"), ("-c", "--by", "thread,call"), ("--by", "cgroup,call")):
        rows, said, r = counted(*options, program=[workloads.path("calls")])
        sums = {}
        for row in rows:
            key = (row["call"], row["32-bit"])
            one = sums.setdefault(key, {"call": row["call"], "32-bit": row["32-bit"], "calls": 0, "errors": 0})
            one["calls"] += row["calls"]
            one["errors"] += row["errors"]
        check_truth(sums.values(), said)
        total = int(re.search(r"(\d+) calls in", r.err)[1])
        assert total == sum(row["calls"] for row in rows), (total, r.err)


@live
def calls_of_32_bit_programs_have_their_own_names():
    program, again = workloads.path("calls-32"), workloads.path("calls")
    for options in ((), ("-c",)):
        rows, said, _ = counted(*options, program=[program])
        check_truth(rows, said, wide=False)
        assert "getppid" not in by_name(rows), by_name(rows)
        # One becomes the other.
        rows, said, _ = counted(*options, program=[program, again])
        assert by_name(rows)["sched_getscheduler"] == (500, 0), by_name(rows)
        assert by_name(rows, wide=False)["getppid"] == (1000, 0)
        assert "sched_getscheduler" not in by_name(rows, wide=False)
    r = run("syscalls", "-n", 0, "--", program).ok()
    assert re.search(r"^ +1000 .* getppid \(32-bit\)$", r.out.decode(), re.M), r.out


@live
def the_same_as_strace_counts():
    """All calls of a real program, but for those that differ from run to run."""
    program = ["/bin/sh", "-c", "ls / >/dev/null; cat /etc/passwd >/dev/null; ls /nonexistent 2>/dev/null"]
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "strace")
        subprocess.run(["strace", "-f", "-c", "-U", "name,calls,errors", "-o", out, *program],
                       timeout=PATIENCE, stdin=subprocess.DEVNULL)
        lines = [line.split() for line in workloads.read(out).splitlines()[2:-2]]
    theirs = {line[0]: (int(line[1]), int(line[2]) if len(line) > 2 else 0) for line in lines}
    p = counted_of(program)
    differs = {name: (p.get(name), n) for name, n in theirs.items()
               if p.get(name) != n and name not in ("rt_sigreturn", "wait4", "brk")}
    assert not differs, f"(smolder, strace): {differs}"


def counted_of(program):
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.json")
        r = run("syscalls", "-c", "-n", 0, "-f", "json", "-o", out, "--", *program)
        rows = json.loads(workloads.read(out))["rows"]
    assert r.code not in (None, 127), r.err
    return by_name(rows)


@live
def errors_have_their_names():
    program = [workloads.path("calls")]
    rows, _, _ = counted(program=program)
    named = {row["call"]: row.get("by_error") for row in rows}
    assert named["chdir"] == {"ENOENT": 300} and named["dup"] == {"EBADF": 70}, named
    rows, _, _ = counted("--failed", "-e", "chdir,dup,getppid", program=program)
    assert by_name(rows) == {"chdir": (300, 300), "dup": (70, 70)}, rows
    rows, _, _ = counted("--errno", "ebadf", "-e", "chdir,dup,getppid", program=program)
    assert by_name(rows) == {"dup": (70, 70)}, rows
    text = run("syscalls", "--errors", "-e", "chdir,dup", "--", *program).ok().out.decode()
    assert re.search(r"^ +300  ENOENT +chdir\n +70  EBADF +dup$", text, re.M), text


@live
def chosen_calls_only():
    program = [workloads.path("calls")]
    rows, _, _ = counted("-e", "getppid,%process", program=program)
    names = set(by_name(rows))
    assert "getppid" in names and "exit_group" in names and "dup" not in names, names
    rows, _, _ = counted("-e", "!getppid,%desc", program=program)
    names = set(by_name(rows))
    assert not names & {"getppid", "dup", "read", "write"} and "chdir" in names, names


@live
def latencies_are_what_was_slept():
    rows, said, _ = counted("--histogram", program=[workloads.path("calls"), "sleeps", 12, 15])
    truth = json.loads(said)
    row = next(row for row in rows if row["call"] == "clock_nanosleep")
    assert row["calls"] == row["timed"] == truth["sleeps"] == 12, row
    assert row["min_ns"] >= 15_000_000 and row["min_ns"] <= row["p50_ns"] <= row["p99_ns"] <= row["max_ns"], row
    assert 12 * 15_000_000 <= row["total_ns"] <= truth["ns"], (row, truth)
    assert row["total_ns"] > 0.9 * truth["ns"], (row, truth)
    assert sum(b["calls"] for b in row["histogram"]) == 12, row
    # 15 ms are from 2^23 ns on, and not much longer
    assert row["histogram"][0]["from_ns"] == 2 ** 23, row


@live
def a_call_that_goes_on_is_unfinished():
    with tempfile.TemporaryDirectory() as d, \
            workloads.start("calls", "loop") as other, \
            subprocess.Popen([workloads.path("calls"), "wait"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE) as p:
        try:
            p.stdout.readline()
            out = os.path.join(d, "out.json")
            with Terminal("syscalls", "-p", f"{p.pid},{other.pid}", "-f", "json", "-o", out) as t:
                t.read_until(COUNTING)
                p.stdin.write(b"x")
                p.stdin.flush()
                while workloads.read(f"/proc/{p.pid}/wchan") is None or \
                        not workloads.read(f"/proc/{p.pid}/syscall").startswith("34 "):
                    time.sleep(0.01)
                t.interrupt()
                assert t.end() == 0, t.text
            rows = {row["call"]: row for row in json.loads(workloads.read(out))["rows"]}
            assert rows["pause"]["unfinished"] == 1 and rows["pause"]["calls"] == 0, rows
            # It had begun before, so when is not known.
            assert rows["read"]["calls"] == 1 and rows["read"]["timed"] == 0, rows
            assert rows["getppid"]["calls"] > 1000, rows
            assert "1 unfinished" in t.text or "2 unfinished" in t.text, t.text
        finally:
            p.kill()


@live
def filters_let_through_who_was_named():
    with workloads.start("calls", "loop") as one, workloads.start("calls", "loop") as two:
        rows, _, _ = counted("-p", one.pid, "--by", "process", "-d", "0.3")
        assert [row["pid"] for row in rows] == [one.pid] and rows[0]["comm"] == "calls", rows
        rows, _, _ = counted("-L", two.pid, "--by", "thread", "-c", "-d", "0.3")
        assert [row["tid"] for row in rows] == [two.pid], rows
        rows, _, _ = counted("--comm", "calls", "--by", "process,call", "-d", "0.3")
        assert {row["pid"] for row in rows if row["call"] == "getppid"} == {one.pid, two.pid}, rows
        rows, _, _ = counted("-a", "--by", "process", "-d", "0.3")
        assert {one.pid, two.pid} < {row["pid"] for row in rows}, rows
        rows, _, _ = counted("-c", "-d", "0.3", "-e", "getppid", "--by", "cgroup")
        assert rows and all(row["cgroup"].startswith("/") for row in rows), rows


@live
def a_control_group():
    roots = [root for root in hierarchies().values() if root]
    if not roots:
        skip("no hierarchy of control groups here")
    with workloads.start("calls", "loop") as one, workloads.start("calls", "loop") as two:
        for root in roots:
            with cgroup(root, one.pid) as path:
                for options in ((), ("-c",)):
                    rows, _, _ = counted("--cgroup", path, "--by", "process", "-d", "0.3", *options)
                    assert [row["pid"] for row in rows] == [one.pid] and two.pid != one.pid, rows
        run("syscalls", "--cgroup", "/nowhere", "-d", 1).refused("/nowhere")


@live
def as_many_rows_as_were_asked_for_in_the_order_that_was():
    program = [workloads.path("calls")]
    columns = {"total": lambda row: row["total_ns"], "calls": lambda row: row["calls"],
               "errors": lambda row: row["errors"], "max": lambda row: row["max_ns"],
               "avg": lambda row: row["total_ns"] // row["timed"] if row["timed"] else 0}
    for column, key in columns.items():
        rows, _, _ = counted("--sort", column, program=program)
        values = [key(row) for row in rows]
        assert values == sorted(values, reverse=True) and values[0] > values[-1], (column, values)
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        for options, title in (((), "CALLS"), (("--errors",), "ERRORS")):
            run("syscalls", *options, "--sort", "errors", "-n", 2, "-o", out, "--", *program).ok()
            head, first, second, rest = workloads.read(out).splitlines()
            assert title in head and first.endswith("chdir") and second.endswith("dup"), (first, second)
            assert re.fullmatch(r"… and \d+ more; -n 0 shows all", rest), rest
        run("syscalls", "-n", 0, "-o", out, "--", *program).ok()
        assert "more; -n 0" not in workloads.read(out)
        run("syscalls", "-n", 2, "-f", "json", "-o", out, "--", *program).ok()
        line = json.loads(workloads.read(out))
        assert len(line["rows"]) == 2 and line["left_out"] > 5, line
    run("syscalls", "--sort", "totl").refused("did you mean total?")
    run("syscalls", "-c", "--sort", "max").refused("no times")


@live
def more_than_there_is_room_for_is_counted_and_said():
    """30 calls each of so many threads that come and go within a second."""
    threads = 3 * max(16384, 4096 * os.cpu_count()) // 30
    rows, said, r = counted("--by", "thread,call", program=[workloads.path("calls"), "crowd", threads])
    truth = json.loads(said)
    made = [row for row in rows if row["call"].startswith("syscall_0x")]
    assert sum(row["calls"] for row in made) == truth["calls"] == threads * 30, (truth, r.err)
    assert sum(row["errors"] for row in made) == truth["calls"], truth
    others = sum(row["calls"] for row in rows if row.get("others"))
    assert others, "nothing was too much"
    m = re.search(r"(\d+) calls are counted as those of others", r.err)
    assert m and int(m[1]) == others, (others, r.err)
    assert all(row["calls"] or row["unfinished"] for row in rows), "a row of nothing"
    # Errors that find no room are those of a call still, but without a name.
    named = {name for row in made for name in row["by_error"]}
    assert named <= {"ENOSYS", "(others)"} and "ENOSYS" in named, named
    assert all(sum(row["by_error"].values()) == row["errors"] for row in made)
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out")
        run("syscalls", "--by", "thread", "--sort", "calls", "-n", 1, "-o", out, "--", workloads.path("calls"),
            "crowd", threads).ok()
        assert workloads.read(out).splitlines()[1].endswith(" - others"), workloads.read(out)


@live
def hostile_names_are_no_commands_to_a_terminal():
    with workloads.start("comm", "\033]0;own\007\n\x9b1m") as w:
        for command in (["syscalls", "--by", "process"], ["syscalls", "--by", "thread,call", "--errors"],
                        ["syscalls", "--by", "thread,call", "--histogram"],
                        ["syscalls", "-c", "--by", "process", "-f", "json"], ["syscount", "-P"],
                        ["syscount", "-P", "-L"]):
            r = run(*command, "-p", w.pid, "-d", "1").ok()
            text = r.out.decode() + r.err
            assert "own" in text or "--errors" in command, (command, text)
            assert all(c.isprintable() or c == "\n" for c in text), (command, text)


@live
def nothing_that_matches_is_said():
    for options in ((), ("-c",)):
        r = run("syscalls", "--comm", "no-such-name", "-d", "0.2", *options).ok()
        assert "no system call was counted" in r.err and r.out == b"", (r.err, r.out)


@live
def what_cannot_be_is_refused():
    run("syscalls", "-e", "epol_wait").refused("epol_wait: no such system call; did you mean epoll_wait?")
    run("syscalls", "-e", "%netwrok").refused("did you mean %network?")
    run("syscalls", "--errno", "ENOTN").refused("no error 'ENOTN'", "did you mean")
    run("syscalls", "-p", 2 ** 22 + 1).refused("there is no process")
    run("syscalls", "--by", "proces").refused("did you mean process?")
    run("syscalls", "-c", "--histogram").refused("exclude each other")
    run("syscount", "--syscall", "raed").refused("did you mean read?")
    r = run("syscalls", "--", "/nonexistent/program")
    assert r.code == 127 and "cannot start" in r.err, (r.code, r.err)
    assert run("syscalls", "-q", "--", "sh", "-c", "exit 7").code == 7


@live
def a_pid_that_ends_ends_it():
    with workloads.start("calls", "loop") as w, Terminal("syscalls", "-p", w.pid) as t:
        t.read_until(COUNTING)
        w.process.kill()
        w.process.wait()
        out = t.process.stdout.read().decode()
        assert t.end() == 0 and " getppid" in out, (t.text, out)


@live
def ctrl_c_ends_it_at_once():
    took = []
    for _ in range(3):
        with workloads.start("calls", "loop") as w, Terminal("syscalls", "-p", w.pid, "--by", "process,call") as t:
            t.read_until(COUNTING)
            began = time.monotonic()
            t.interrupt()
            out = t.process.stdout.read().decode()
            assert t.end() == 0 and re.search(rf" {w.pid} calls +getppid", out), (t.text, out)
            took.append(time.monotonic() - began)
    assert min(took) < 1, took


@live
def intervals_add_up():
    """No call is lost or counted twice between two tables."""
    times = 30
    with tempfile.TemporaryDirectory() as d:
        for by in ("call", "process,call"):
            out = os.path.join(d, "out.json")
            r = run("syscalls", "-i", "0.02", "--by", by, "-n", 0, "-f", "json", "-o", out, "--", "sh", "-c",
                    f"for i in $(seq {times}); do {workloads.path('calls')} >/dev/null; "
                    "[ $((i % 5)) != 0 ] || sleep 0.1; done").ok()  # whoever counts has its turn
            lines = [json.loads(line) for line in workloads.read(out).splitlines()]
            assert len(lines) > 3, (len(lines), r.err)
            sums = {}
            for row in (row for line in lines for row in line["rows"]):
                sums[row["call"]] = sums.get(row["call"], 0) + row["calls"]
            for name, n in {"getppid": 1000, "chdir": 300, "getpgid": 1000, "getsid": 120,
                            "sched_getscheduler": 500, "rt_sigreturn": 25}.items():
                assert times * n <= sums[name] < times * n + 50, (by, name, sums[name], times * n)


@live
def a_reader_that_goes_is_no_error():
    with workloads.start("calls", "loop") as w:
        p = subprocess.run(f"{SMOLDER} syscalls -i 0.1 -p {w.pid} | head -2", shell=True, timeout=PATIENCE,
                           capture_output=True, text=True)
        assert "getppid" in p.stdout or "CALLS" in p.stdout, p
        assert "annot write" not in p.stderr, p.stderr


def shape(text):
    """BCC's output, its numbers and names left out."""
    lines = []
    for line in text.splitlines():
        line = re.sub(r"^\[\d\d:\d\d:\d\d\]$", "[time]", line)
        line = re.sub(r"^\d{1,7} +\S.{0,14} +(\d+)( +\d+\.\d+)?$", lambda m: f"pid {len(line)}", line)
        line = re.sub(r"^[a-z]\w* +\d+( +\d+\.\d+)?$", lambda m: f"call {len(line)}", line)
        if not lines or lines[-1] != line or not line.startswith(("call", "pid")):
            lines.append(line)
    return lines


@live
def syscount_prints_what_bcc_prints():
    bcc, why = peers.bcc("syscount")
    with workloads.start("calls", "loop") as w:
        for options in ((), ("-P", "-L"), ("-L", "-m")):
            args = [*options, "-p", str(w.pid), "-i", "1", "-d", "2"]
            ours = run("syscount", *args).ok().out.decode()
            name = rf"{w.pid:<6} {'calls':<15}" if "-P" in options else f"{'getppid':<22}"
            assert re.search(rf"^{name} +\d+", ours, re.M), ours
            assert ours.startswith("Tracing syscalls, printing top 10... Ctrl+C to quit.\n"), ours
            assert ours.endswith("\n\nDetaching...\n"), ours
            if bcc:
                p = subprocess.run([*bcc, *args], capture_output=True, text=True, timeout=PATIENCE)
                assert p.returncode == 0, p.stderr
                assert shape(p.stdout) == shape(ours), (shape(p.stdout), shape(ours))
    if not bcc:
        skip(f"BCC is not compared with: {why}")


@live
def syscount_lists_calls_and_counts_failures():
    listed = run("syscount", "-l").ok().out.decode().split()
    assert "epoll_wait" in listed and listed == sorted(listed) and len(listed) > 300, listed
    with tempfile.TemporaryDirectory() as d:
        script = os.path.join(d, "fails.py")
        with open(script, "w") as f:
            f.write("import os\nprint('ready', os.getpid(), flush=True)\n"
                    "while True:\n    try: os.chdir('/nonexistent')\n    except OSError: pass\n"
                    "    os.getppid()\n")
        with workloads.Workload([sys.executable, script]) as w:
            for options in (("-x",), ("-e", "ENOENT"), ("-e", "2"), ("--syscall", "chdir")):
                out = run("syscount", *options, "-p", w.pid, "-d", 1).ok().out.decode()
                assert re.search(r"^chdir +[1-9]\d*$", out, re.M) and "getppid" not in out, (options, out)
            # The first ones only, and one thread only.
            out = run("syscount", "-T", 1, "-p", w.pid, "-d", 1).ok().out.decode()
            assert len(re.findall(r"^(?:chdir|getppid) +\d+$", out, re.M)) == 1, out
            assert out.startswith("Tracing syscalls, printing top 1... "), out
            with workloads.start("calls", "loop") as other:
                out = run("syscount", "-P", "-t", other.pid, "-d", 1).ok().out.decode()
                assert re.search(rf"^{other.pid} +calls +\d+$", out, re.M) and str(w.pid) not in out, out
    run("syscount", "-p", os.getpid(), "-t", os.getpid()).refused("exclude each other")
    run("syscount", "-T", 0).refused("-T")


main()

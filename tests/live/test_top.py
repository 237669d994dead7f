#!/usr/bin/env python3
"""smolder top: on a terminal (tmux), as plain text, live and from a server."""
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, until  # noqa: E402
from recording import NOBODY, live, public_copy, run  # noqa: E402
from tap import SMOLDER, SOAK, main  # noqa: E402
from terminal import Terminal  # noqa: E402

COLUMNS = ["PID", "CPU%", "RUNNABLE%", "BLOCKED%", "SWITCH/s", "THR", "COMMAND", "@CONTAINER"]
THREADS = ["TID", "CPU%", "RUNNABLE%", "BLOCKED%", "SWITCH/s", "THREAD", "(PROCESS)", "@CONTAINER"]
BURN = "burn_here states"
HELP = "q quit / search PRBS sort t thread c container w wall p pause f findings h help"


def number(word):
    return None if word == "-" else float(word)


def table(lines):
    """{name: {column: value}} of the rows on a screen or in plain text; the last word is a name's first."""
    rows, columns = {}, None
    for line in lines:
        words = line.split()
        if "CPU%" in words and "BLOCKED%" in words:
            columns = [w for w in words if w[0] not in "(@"]
        elif columns and (not words or not re.fullmatch(r"-|[\d.]+", words[0])):
            break
        elif columns and len(words) >= len(columns):
            values = {c: number(w) for c, w in zip(columns[:-1], words)}
            rows[words[len(columns) - 1]] = values
    return rows


def below(lines):
    """{function: (self, total)} of the selected row."""
    found, seen = {}, False
    for line in lines:
        words = line.split()
        if words[:3] == ["SELF%", "TOTAL%", "FUNCTION"]:
            seen = True
        elif seen and words[:1] == ["TIME%"]:
            break
        elif seen and len(words) >= 3 and re.fullmatch(r"[\d.]+", words[0]):
            found[" ".join(words[2:])] = (float(words[0]), float(words[1]))
    return found


@contextlib.contextmanager
def top(*args, width=80, height=24, env=None):
    with Terminal([SMOLDER, "top", *map(str, args)], width, height, env) as t:
        yield t


def has_rows(lines, *names):
    rows = table(lines)
    return rows if all(n in rows for n in names) else None


def check_threads(rows):
    """What is known of the three threads, whatever else runs on the machine."""
    burner, sleeper, blocked = rows["st-burner"], rows["st-sleeper"], rows["st-blocked"]
    # It never blocks: what it does not run it waits for a CPU.
    assert burner["BLOCKED%"] < 2 and 97 < burner["CPU%"] + burner["RUNNABLE%"] < 103, burner
    assert blocked["CPU%"] == 0 and blocked["SWITCH/s"] == 0 and 98 < blocked["BLOCKED%"] < 102, blocked
    assert sleeper["CPU%"] < 20 and sleeper["SWITCH/s"] > 10, sleeper
    for r in (burner, sleeper, blocked):
        assert 98 < r["CPU%"] + r["RUNNABLE%"] + r["BLOCKED%"] < 102, r


@live
def threads_are_shown_as_they_are_on_any_size():
    with workloads.start("states") as w:
        for width, height in ((80, 24), (200, 60)):
            with top("-p", w.pid, "--by", "thread", width=width, height=height) as t:
                rows = t.wait("its threads", lambda lines: has_rows(
                    lines, "st-burner", "st-sleeper", "st-blocked"))
                check_threads(rows)
                lines = t.wait("its function", lambda lines: BURN in below(lines) and lines)
                assert lines[0].startswith("smolder top") and "by thread" in lines[0], lines[0]
                assert lines[1] == "", "the line of findings"
                assert re.match(r"CPU [\d.]+% of \d+%, runnable .* switches/s, 4 threads, \d+ samples$",
                                lines[2]), lines[2]
                assert lines[3].split() == THREADS, lines[3]
                assert lines[-1] == HELP, lines[-1]
                assert max(map(len, lines)) <= width
                # All of the burner's time is in one function, and in its stack.
                rows, hot = table(lines), below(lines)
                share, total = hot[BURN]
                cpu = rows["st-burner"]["CPU%"]
                assert share <= total <= cpu + 0.1 and share > 0.8 * cpu, (hot, rows)
                stack = next(line for line in lines if "burn_here < " in line)
                assert stack.split()[1:3] == ["burn_here", "<"], stack
                t.keys("q")
                assert t.ended()[0] == 0


@live
def keys_do_what_the_help_says():
    with workloads.start("states") as w, workloads.start("waits", "forever", "1") as other:
        with top("-p", f"{w.pid},{other.pid}") as t:
            rows = t.wait("both processes", lambda lines: has_rows(lines, "states", "waits"))
            assert rows["states"]["THR"] == 4 and rows["waits"]["PID"] == other.pid, rows
            assert lines_order(t) == ["states", "waits"]
            t.keys("A")
            t.wait("the order by name", lambda _: lines_order(t) == ["states", "waits"])
            t.keys("A")
            t.wait("the other order", lambda _: lines_order(t) == ["waits", "states"])
            t.keys("N")
            t.wait("the order by number", lambda _: lines_order(t) == (
                ["states", "waits"] if w.pid < other.pid else ["waits", "states"]))
            t.keys("P", "Down")
            t.wait("the second one selected", lambda lines: any(
                line.startswith(f"waits ({other.pid}):") for line in lines))
            t.keys("Home")
            t.wait("the first one's functions", lambda lines: BURN in below(lines))

            t.keys("t")
            t.wait("threads", lambda lines: has_rows(lines, "st-burner", "st-blocked", "waits"))
            t.keys("/", "s", "t", "-", "b", "l")
            t.wait("what is searched for", lambda lines: list(table(lines)) == ["st-blocked"]
                   and lines[-1].startswith("search: st-bl"))
            t.keys("Enter")
            t.wait("the search kept", lambda lines: list(table(lines)) == ["st-blocked"]
                   and lines[-1] == HELP and "1 of 5: st-bl" in lines[0])
            t.keys("w")
            rows = t.wait("what it waits for", lambda lines: "[blocked: lock]" in below(lines)
                          and "IDLE%" in lines[3] and table(lines))
            assert rows["st-blocked"]["BLOCKED%"] > 95 and rows["st-blocked"]["IDLE%"] == 0, rows
            t.keys("w", "Escape")
            t.wait("all of it again", lambda lines: "IDLE%" not in lines[3] and
                   has_rows(lines, "st-burner", "st-blocked", "waits"))
            t.keys("c")
            t.wait("containers", lambda lines: "CONTAINER" in lines[3].split() and
                   sum(r["THR"] for r in table(lines).values()) == 5)
            t.keys("c", "h")
            t.wait("help", lambda lines: any("other key goes back" in line for line in lines))
            t.keys("x")
            t.wait("no help", lambda lines: has_rows(lines, "states", "waits"))

            t.keys("Space")
            before = t.wait("the pause", lambda lines: "[paused]" in lines[0] and lines)
            time.sleep(2.5)  # longer than two intervals
            assert t.lines() == before
            t.keys("p")
            t.wait("that it goes on", lambda lines: lines[0] != before[0] and "[paused]" not in lines[0])
            t.keys("q")
            assert t.ended()[0] == 0


@live
def what_looks_wrong_is_on_top():
    """Live from the kernel: named as soon as it is found, in full on a page of its own, and gone once it is over."""
    with workloads.start("troubles", "poll") as w, top() as t:
        # Others may be found beside it, and be surer.
        t.wait("a finding", lambda lines: "epoll_wait with a timeout of 0" in lines[1] or "(1 of" in lines[1])
        t.keys("f")

        def told(lines):
            return any(line.startswith(f"tr-poll (pid {w.pid})") for line in lines)
        t.wait("all of it", lambda lines: told(lines) and any("Since " in line for line in lines)
               and lines[-1].endswith("any other key goes back"))
        # It stays while the source begins anew, as it does to record waits.
        t.keys("x", "w")
        t.wait("its waits", lambda lines: "IDLE%" in lines[3] and lines[-1] == HELP and lines[1])
        t.keys("f")
        t.wait("all of it again", told)
        w.stop()
        t.wait("that it is over", lambda lines: not told(lines))
        t.keys("x", "q")
        assert t.ended()[0] == 0


def lines_order(t):
    return list(table(t.lines()))


@live
def what_has_not_changed_is_not_written_again():
    """A screen on which nothing but the clock changes costs few bytes; a paused one none."""
    with workloads.start("waits", "forever", "1") as w, top("-p", w.pid) as t:
        t.wait("the process", lambda lines: has_rows(lines, "waits"))
        first = t.lines()[0]
        t.record()
        t.wait("two more", lambda lines: lines[0] != first)
        start, at = len(t.recorded()), time.monotonic()
        until("three intervals", lambda: time.monotonic() > at + 3)
        written = len(t.recorded()) - start
        # A full screen has 1,920 characters: not even a sixteenth of that.
        assert 0 < written < 3 * 1920 / 16, written
        t.keys("Space")
        t.wait("the pause", lambda lines: "[paused]" in lines[0])
        until("it to be recorded", lambda: b"[paused]" in t.recorded())
        start = len(t.recorded())
        time.sleep(2.5)
        assert len(t.recorded()) == start, t.recorded()[start:]


@live
def a_new_size_is_followed():
    with workloads.start("states") as w, top("-p", w.pid) as t:
        t.wait("the process", lambda lines: has_rows(lines, "states"))
        for width, height in ((200, 60), (40, 10), (100, 30)):
            t.resize(width, height)
            lines = t.wait(f"{width}x{height}", lambda lines: lines[-1] == HELP[:width].rstrip()
                           and lines[0].startswith("smolder top") and str(w.pid) in "".join(lines) and lines)
            assert sum(line == HELP[:width].rstrip() for line in lines) == 1, lines
            assert max(map(len, lines)) <= width
        for width, height in ((12, 3), (1, 1), (80, 24)):
            t.resize(width, height)
        t.wait("80x24 again", lambda lines: lines[-1] == HELP and has_rows(lines, "states"))


@live
def the_terminal_is_as_it_was_after_any_end():
    with workloads.start("states") as w:
        for how in (signal.SIGTERM, *((signal.SIGINT, signal.SIGHUP, "q", "C-c") if SOAK else ()), "target"):
            with top("-p", w.pid) as t:
                t.record()
                t.wait("the process", lambda lines: has_rows(lines, "states"))
                assert t.ask("alternate_on") == "1" and t.ask("cursor_flag") == "0"
                if how == "target":
                    w.stop()
                elif isinstance(how, str):
                    t.keys(how)
                else:
                    os.kill(t.program(), how)
                code, before, after = t.ended()
                assert code == 0 and before == after, (how, code, before, after)
                assert t.ask("alternate_on") == "0" and t.ask("cursor_flag") == "1", how
                assert t.text().strip() == "", t.text()


@live
def plain_text_is_plain():
    with workloads.start("states") as w:
        r = run("top", "-b", "-n", "2", "-p", w.pid, "--by", "thread").ok()
        text = r.out.decode()
        assert not re.search(r"[^\n\x20-\x7e]", text) and r.err == "", (text, r.err)
        assert text.count("smolder top  ") == 2 and len(text.splitlines()) > 20, text
        for part in text.split("smolder top  ")[1:]:
            rows = table(part.splitlines())
            check_threads(rows)
            share, _ = below(part.splitlines())[BURN]
            assert share > 0.8 * rows["st-burner"]["CPU%"], part
        r = run("top", "-b", "-n", "1", "-p", w.pid, "--search", "no such name").ok()
        assert "nothing matches" in r.out.decode(), r.out
        # As many lines as were asked for, in the order that was.
        r = run("top", "-b", "-n", "1", "-l", "3", "--sort", "pid").ok()
        pids = [row["PID"] for row in table(r.out.decode().splitlines()).values()]
        assert len(pids) == 3 and pids == sorted(pids), r.out.decode()


@live
def the_whole_machine_adds_up():
    """The time of all threads is that of all CPUs: what runs cannot be more than there is."""
    with workloads.start("states"):
        r = run("top", "-b", "-n", "2", "-l", "0").ok()
        last = r.out.decode().split("smolder top  ")[-1]
        ran, there = map(float, re.search(r"^CPU ([\d.]+)% of (\d+)%", last, re.M).groups())
        assert 80 < ran < 1.05 * there, last


@live
def names_cannot_write_to_the_terminal():
    evil = "\x1b]2;EVIL\x07\x1b[2J"
    with workloads.start("states", evil) as w:
        r = run("top", "-b", "-n", "1", "-p", w.pid).ok()
        assert b"\x1b" not in r.out and b"\x07" not in r.out and b"]2;EVIL" in r.out, r.out
        with top("-p", w.pid) as t:
            title = t.ask("pane_title")
            t.wait("its name", lambda lines: any("]2;EVIL" in line for line in lines[4:8]))
            t.keys("w", "t")
            t.wait("its threads", lambda lines: "TID" in lines[3] and "IDLE%" in lines[3]
                   and any("]2;EVIL" in line for line in lines))
            assert t.ask("pane_title") == title
            t.keys("/", "C-[")
            t.keys("q")
            assert t.ended()[0] == 0


@live
def wrong_uses_are_told():
    run("top").refused("terminal", "top -b")
    run("top", "-b", "--sort", "size").refused("--sort", "runnable", "size")
    run("top", "-b", "--by", "user").refused("--by", "container")
    run("top", "-b", "--findings", "perhaps").refused("--findings", "no, yes", "perhaps")
    run("top", "-b", "-n", "0").refused("-n")
    run("top", "-b", "-d", "0.01").refused("-d")
    run("top", "-l", "3").refused("-l", "-b")
    run("top", "nginx").refused("nginx", "--comm")
    run("top", "-b", "--sort", "idle").refused("--wall")
    run("top", "-b", "-p", "999999999").refused("999999999")
    run("top", "--server", "127.0.0.1:1", "-b").refused("127.0.0.1:1", "refused")
    run("top", "--server", "127.0.0.1:1", "-p", "1").refused("--search")
    run("top", "-b", "--token-file", "/dev/null").refused("--server")
    with tempfile.TemporaryDirectory() as d:
        p = subprocess.run([public_copy(d), "top", "-b", "-n", "1"], user=NOBODY, group=NOBODY, extra_groups=[],
                           capture_output=True, text=True)
        assert p.returncode == 1 and "CAP_BPF" in p.stderr and "sudo" in p.stderr, p
    for term, word in (("no-such-terminal", "TERM=no-such-terminal"), ("", "TERM is not set")):
        with Terminal(["env", f"TERM={term}", SMOLDER, "top"], 80, 24) as t:
            code, before, after = t.ended()
            assert code == 1 and before == after, code
            assert word in t.text().replace("\n", " ") and "top -b" in t.text().replace("\n", " "), t.text()


@live
def a_server_is_shown_like_the_kernel():
    with workloads.start("states") as w, always("--offcpu", "yes") as a:
        a.wait_sampled(1500)
        url = f"http://127.0.0.1:{a.port}"
        # A window that is all of the program's life: of each of its four threads all the time, but that a
        # wait may be counted in a window beside its own.
        def look():
            r = run("top", "--server", url, "-b", "-n", "1", "--search", w.pid).ok()
            row = table(r.out.decode().splitlines()).get("states")
            parts = [(row or {}).get(part) or 0 for part in ("CPU%", "RUNNABLE%", "BLOCKED%", "IDLE%")]
            return row if parts[0] and 360 < sum(parts) < 440 else None
        row = until("the program", look)
        assert row["SWITCH/s"] is None and row["THR"] is None and row["PID"] == w.pid, row
        with top("--server", url, "--wall") as t:
            t.wait("the program", lambda lines: has_rows(lines, "states"))
            t.keys("/", "s", "t", "a", "t", "e", "s", "Enter")
            t.wait("its parts", lambda lines: {"[blocked: lock]", "[running: user]"} <= set(below(lines)))
            t.keys("w")
            t.wait("its functions", lambda lines: BURN in below(lines))
            assert a.stop() == 0, a.err
            t.wait("that the server is gone", lambda lines: "cannot ask" in lines[-1])
            t.keys("q")
            assert t.ended()[0] == 0


main()

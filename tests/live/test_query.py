#!/usr/bin/env python3
"""query, diff and labels: by a server, by the store itself, and of files; the same answers."""
import gzip
import html
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import debian  # noqa: E402
from examples import examples  # noqa: E402
from server import Server, smolder  # noqa: E402
from tap import SMOLDER, main, skip, test  # noqa: E402
from windows import KNOWN, LATER, REFUSED, STORED, Collector, Reply, Sums, row  # noqa: E402


def recent(windows=6):
    return int(time.time() * 1000) // 10000 * 10000 - windows * 10000


def fill(server, start):
    sums, c = Sums(), Collector()
    for w in range(4):
        rows = sums.add(start + w * 10000, [
            row(("main@app", "work@app", "[k]read@[kernel]"), 3 + w, comm="nginx", pid="1"),
            row(("main@app", "[app+0x12]@app"), 1, comm="nginx", pid="2"),
            row(("main@api", f"handle{w}@api"), 5, comm="api", unit="api.service")])
        assert server.post(c.message(start + w * 10000, rows)).status == STORED
    return sums


def folded(text):
    return {line.rsplit(" ", 1)[0]: int(line.rsplit(" ", 1)[1]) for line in text.splitlines()}


def ran(*args, **kw):
    p = smolder(*args, **kw)
    assert p.returncode == 0, f"{args}: {p.returncode}, {p.stderr}"
    return p


@test
def a_word_that_is_no_type_is_a_process():
    with Server() as s:
        start = recent()
        fill(s, start)
        span = ("--from", str(start), "--to", str(start + 40000), "-f", "folded")
        for source in (("--server", s.url), ("--store", s.store)):
            want = ran("query", 'cpu{comm="nginx"}', *span, *source)
            p = ran("query", "nginx", *span, *source)
            assert p.stdout == want.stdout and p.stdout
            note = """no profile type is called 'nginx': showing cpu{comm="nginx"}"""
            assert note in p.stderr and note not in want.stderr, p.stderr
            p = ran("diff", "nginx", *span, *source)
            assert p.stderr.count(note) == 1, p.stderr
            p = smolder("query", "redis-server", *span, *source)
            assert p.returncode == 1 and "nothing matches" in p.stderr, p.stderr


def title(svg):
    return html.unescape(re.search("<title>(.*?)</title>", svg)[1])


@test
def a_picture_says_whose_it_is_and_when():
    """By the server and its store alike; and so does what the server draws itself."""
    when = r"\d{4}-\d\d-\d\d \d\d:\d\d.*"
    with Server() as s, tempfile.TemporaryDirectory() as d:
        start, c, path = recent(), Collector(), os.path.join(d, "x.svg")
        for w in range(4):
            assert s.post(c.message(start + w * 10000, [
                row(("main@app",), 3, comm="nginx", host="web-1"),
                row(("main@db",), 2, comm="db", host="web-1" if w < 2 else "db-1")])).status == STORED
        for to, selectors, want in ((20000, ["cpu"], "web-1"), (20000, ["nginx"], "nginx on web-1"),
                                    (40000, [], "2 hosts"),
                                    (40000, ['{comm="db"}'], '{comm="db"} on 2 hosts')):
            span = {"from": str(start), "to": str(start + to)}
            options = [x for k, v in span.items() for x in (f"--{k}", v)]
            for source in (("--server", s.url), ("--store", s.store)):
                ran("query", *selectors, *options, "-o", path, *source)
                got = title(open(path).read())
                assert re.fullmatch(re.escape(want) + ", " + when, got), (source, got)
                ran("diff", *selectors, *options, "-o", path, *source)
                got = title(open(path).read())
                assert re.fullmatch(re.escape(want) + ", " + when, got), (source, got)
            query = {"query": selectors[0]} if selectors else {}
            for format in ("svg", "html"):
                for path_ in ("/api/v1/query", "/api/v1/diff"):
                    got = title(s.get(path_, format=format, **span, **query)[1].decode())
                    assert re.fullmatch(re.escape(want) + ", " + when, got), (path_, format, got)
        # Two selectors are two subjects.
        options = ("--from", str(start), "--to", str(start + 20000))
        want = "nginx against db on web-1, " + when
        ran("diff", "db", "nginx", *options, "-o", path, "--store", s.store)
        assert re.fullmatch(want, title(open(path).read()))
        got = title(s.get("/api/v1/diff", format="svg", query="nginx", base_query="db", **{
            "from": str(start), "to": str(start + 20000)})[1].decode())
        assert re.fullmatch(want, got), got


@test
def a_longer_base_is_scaled_to_the_length():
    with Server() as s:
        start, c = recent(9), Collector()
        for w in range(9):  # the same all the time
            s.post(c.message(start + w * 10000, [row(("main@app",), 30, comm="app")]))
        at = [str(start + n * 10000) for n in range(10)]
        ranges = ("--from", at[6], "--to", at[9], "--base-from", at[0], "--base-to", at[6])
        for source in (("--server", s.url), ("--store", s.store)):
            p = ran("diff", *ranges, "-f", "folded", *source)
            assert folded(p.stdout) == {"app;main 90": 90}, p.stdout
            assert "the base covers 60.0 s and the other 30.0 s, so the base is scaled by 0.5" in p.stderr, p.stderr
            p = ran("diff", *ranges, "--absolute", "-f", "folded", *source)
            assert folded(p.stdout) == {"app;main 180": 90}, p.stdout
            assert "scaled by" not in p.stderr, p.stderr
            p = ran("diff", "--from", at[6], "--to", at[9], "--base-from", at[0], "--base-to", at[3], *source)
            assert "scaled by" not in p.stderr, p.stderr
        # Against nothing there is nothing to scale, and that is said.
        p = ran("diff", "--from", at[0], "--to", at[9], "--base-from", str(start - 7200000), "--base-to",
                str(start - 3600000), "-f", "folded", "--store", s.store)
        assert folded(p.stdout) == {"app;main 0": 270} and "scaled by" not in p.stderr, p.stderr
        p = smolder("diff", "--absolute", "--normalise", "--store", s.store)
        assert p.returncode == 2 and "exclude each other" in p.stderr, (p.returncode, p.stderr)


@test
def a_server_and_its_store_give_the_same():
    with Server() as s:
        start = recent()
        sums = fill(s, start)
        span = ("--from", str(start), "--to", str(start + 40000))
        sources = (("--server", s.url), ("--store", s.store))
        for selector, wanted in (("cpu", lambda v: True),
                                 ('cpu{comm="nginx"}', lambda v: v["comm"] == "nginx"),
                                 ('{unit=~"a.*"}', lambda v: "unit" in v)):
            want = Sums.folded(sums.of(0, 1 << 62, wanted), "comm", "count")
            for source in sources:
                p = ran("query", selector, *span, "-f", "folded", *source)
                assert folded(p.stdout) == want, (source, p.stdout, want)
                samples = sum(r["count"] for r in sums.of(0, 1 << 62, wanted))
                assert f"{samples} samples, 0 lost" in p.stderr, p.stderr
        for args in (("query", "-f", "json"), ("query", "-f", "pprof"), ("query", "-f", "svg"),
                     ("query", "--by", "pid", "-f", "folded"), ("labels",), ("labels", "comm"),
                     ("query", "--callers", "read", "-f", "folded"), ("query", "-f", "speedscope")):
            more = span if args[0] == "query" else ()
            one, two = ([SMOLDER, *args, *more, *source] for source in sources)
            outs = [subprocess.run(a, capture_output=True, timeout=60) for a in (one, two)]
            assert outs[0].returncode == 0 and outs[0].stdout, outs[0].stderr
            assert outs[0].stdout == outs[1].stdout, args
        assert s.stop() == 0
        # And the store without any server.
        p = ran("query", "cpu", *span, "-f", "folded", *sources[1])
        assert folded(p.stdout) == Sums.folded([r for _, r in sums.rows], "comm", "count")


@test
def the_hint_is_the_same_wherever_it_is_read():
    path, build_id = debian.dash()
    want = ("most unnamed frames are in dash; install the package dash-dbgsym for its symbols, or let the "
            "server ask for them: --debuginfod URL")
    with Server() as s:
        start, c = recent(), Collector()
        c.files = {"dash": (path, build_id)}
        s.post(c.message(start, [row(("main@dash", "[dash+0x1234]@dash"), 5, comm="dash")]))
        for source in (("--server", s.url), ("--store", s.store)):
            p = ran("query", "cpu", "--from", str(start), "-f", "columns", "-o", "-", *source)
            assert json.loads(p.stdout)["hint"] == want, p.stdout
            assert p.stderr.endswith(want + "\n"), p.stderr


@test
def the_default_is_a_table_of_the_last_hour():
    with Server() as s:
        fill(s, recent())
        p = ran("query", "--server", s.url)
        assert re.search(r"SELF +% +TOTAL +% +FUNCTION", p.stdout), p.stdout
        first = p.stdout.split("\n")[3].split()
        assert first[-2:] == ["read", "[kernel]"], p.stdout
        assert re.fullmatch(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d to \d\d:\d\d:\d\d: 42 samples, "
                            r"0 lost, \d+\.\d % of user stacks complete, "
                            r"\d+\.\d % of frames unnamed\n"
                            r"most unnamed frames are .*\n", p.stderr), p.stderr
        unnamed = float(re.search(r"([\d.]+) % of frames unnamed", p.stderr)[1])
        frames = 3 * 18 + 2 * 4 + 2 * 20
        assert abs(unnamed - 100 * 4 / frames) < 0.051, (unnamed, 100 * 4 / frames)
        assert ran("query", "-q", "--server", s.url).stderr == ""


@test
def callers_callees_and_groups():
    with Server() as s:
        fill(s, recent())
        source = ("--server", s.url, "-f", "folded")
        work = 18
        assert folded(ran("query", "--callers", "work", *source).stdout) == {"nginx;work;main": work}
        assert folded(ran("query", "--callees", "work", *source).stdout) == {"nginx;work;read": work}
        by_unit = folded(ran("query", "--by", "unit", *source).stdout)
        assert by_unit["api.service;main;handle0"] == 5
        assert by_unit["[no unit];main;work;read"] == work
        p = smolder("query", "--callers", "wor", *source)
        assert p.returncode == 1 and "did you mean 'work'" in p.stderr, p.stderr
        p = smolder("query", "--callers", "zzz", *source)
        assert p.returncode == 1 and "no function is called 'zzz'" in p.stderr
        assert smolder("query", "--callers", "a", "--callees", "b", *source).returncode == 2


@test
def a_difference_of_two_times_and_of_two_selectors():
    with Server() as s:
        start = recent()
        sums = fill(s, start)
        for source in (("--server", s.url), ("--store", s.store)):
            p = ran("diff", "cpu", "--from", str(start + 20000), "--to", str(start + 40000),
                    "-f", "folded", *source)
            got = {k: v for k, v in (line.split(" ", 1) for line in p.stdout.splitlines())}
            now = Sums.folded(sums.of(start + 20000, start + 40000), "comm", "count")
            base = Sums.folded(sums.of(start, start + 20000), "comm", "count")
            assert got == {k: f"{base.get(k, 0)} {now.get(k, 0)}" for k in base.keys() | now.keys()}
            assert "base " in p.stderr and p.stderr.count("samples") == 2, p.stderr
        span = ("--from", str(start), "--to", str(start + 10000))
        p = ran("diff", *span, "--base-from", str(start + 30000), "-f", "json", "--server", s.url)
        t = json.loads(p.stdout)
        assert t["base"]["start_ns"] == (start + 30000) * 1000000
        assert t["base"]["duration_ns"] == 10 * 10**9
        p = ran("diff", 'cpu{pid="2"}', 'cpu{pid="1"}', *span, "-f", "folded", "--server", s.url)
        assert p.stdout.split("\n")[0] == "nginx;main;[app+0x12] 1 0", p.stdout
        p = ran("diff", "--callees", "handle1", "--from", str(start + 10000), "--to",
                str(start + 20000), "-f", "folded", "--server", s.url)
        assert p.stdout == "api;handle1 0 5\n", p.stdout
        assert smolder("diff", "--callees", "no", "--server", s.url).returncode == 1
        p = smolder("diff", *span, "-f", "pprof", "--server", s.url)
        assert p.returncode == 1 and "cannot show a difference" in p.stderr


@test
def files_are_compared_and_shown_without_a_store():
    with tempfile.TemporaryDirectory() as d:
        before, after = os.path.join(d, "before.folded"), os.path.join(d, "after.folded.gz")
        with open(before, "w", encoding="ascii") as f:
            f.write("main;a 10\nmain;b 5\n")
        with gzip.open(after, "wt") as f:
            f.write("main;a 20\nmain;c 1\n")
        p = ran("diff", before, after, "-f", "folded")
        assert p.stdout == "main;a 10 20\nmain;b 5 0\nmain;c 0 1\n", p.stdout
        ran("query", before, "-o", os.path.join(d, "b.pb.gz"))
        p = ran("diff", os.path.join(d, "b.pb.gz"), after, "-f", "folded")
        assert p.stdout == "main;a 10 20\nmain;b 5 0\nmain;c 0 1\n", p.stdout
        assert "a" in ran("query", before, "--callers", "a").stdout
        assert ran("query", before, after, "-f", "folded").stdout == \
            "main;a 30\nmain;b 5\nmain;c 1\n"
        ran("diff", before, after, "-o", os.path.join(d, "d.svg"))
        with open(os.path.join(d, "d.svg"), encoding="utf-8") as f:
            svg = f.read()
        assert '"bases":[15,' in svg and 'class="d0"' in svg and 'class="d8"' in svg
        assert smolder("diff", before).returncode == 2
        assert smolder("query", before, "--from", "now-1h").returncode == 2
        p = smolder("diff", before, os.path.join(d, "nothing"))
        assert p.returncode == 1 and "nothing" in p.stderr, p.stderr


@test
def examples_of_the_manual_run():
    with Server() as s, tempfile.TemporaryDirectory() as d:
        fill(s, recent())
        for name in ("before", "after"):
            ran("query", "--store", s.store, "-o", os.path.join(d, f"{name}.pb.gz"))
        count = 0
        for where, line in examples():
            if not re.search(r"smolder (query|diff|labels)", line):
                continue
            line = line.replace(r"\(dq", '"').replace("--from 14:02 --to 14:05", "--from now-1h")
            if "before.pb.gz" not in line:
                line += f" --store {s.store}"
            p = subprocess.run(["sh", "-ec", line], cwd=d, capture_output=True, text=True, timeout=60,
                               env=dict(os.environ, PATH=f"{os.path.dirname(SMOLDER)}:"
                                        f"{os.environ['PATH']}"))
            assert p.returncode == 0, f"{where}: {line}: {p.stderr}"
            count += 1
        assert count >= 10, count
        assert os.path.getsize(os.path.join(d, "diff.svg")) > 500


@test
def labels_are_listed():
    with Server() as s:
        fill(s, recent())
        assert ran("labels", "--server", s.url).stdout == "comm\npid\nunit\n"
        names = ("--names", "--server", s.url)
        assert ran("labels", "comm", *names).stdout == "api\nnginx\n"
        assert ran("labels", "pid", "--query", 'cpu{comm="nginx"}', *names).stdout == "1\n2\n"
        p = smolder("labels", "none", "--server", s.url)
        assert p.returncode == 1 and "no" in p.stderr and not p.stdout


@test
def labels_tell_what_each_took():
    with Server() as s:
        fill(s, recent())
        for source in (("--server", s.url), ("--store", s.store)):
            p = ran("labels", "comm", *source)
            rows = [line.split() for line in p.stdout.splitlines()]
            assert rows[0] == ["TOTAL", "%", "COMM"], p.stdout
            assert [(r[-1], r[-2]) for r in rows[1:]] == [("nginx", "52.38%"), ("api", "47.62%")], p.stdout
            assert "42 samples" in p.stderr
            p = ran("labels", "pid", *source)
            rows = [line.split("%  ")[1].split() for line in p.stdout.splitlines()[1:]]
            assert ["1", "nginx"] in rows and ["2", "nginx"] in rows and ["(none)", "api"] in rows, p.stdout
        p = smolder("labels", "none", "--server", s.url)
        assert p.returncode == 1 and f"'smolder labels --server {s.url}'" in p.stderr, p.stderr


@test
def times_may_be_so_long_ago():
    with Server() as s:
        fill(s, recent())
        for ago in ("5m", "-5m", "now-5m", "1h", "-1h", "1h30m"):
            p = ran("query", "--from", ago, "--server", s.url)
            assert "42 samples" in p.stderr, (ago, p.stderr)
        p = smolder("query", "--from", "3d", "--to", "2d", "--server", s.url)
        assert p.returncode == 1 and "nothing is stored for" in p.stderr, p.stderr


@test
def the_range_of_an_answer_is_that_of_its_data():
    with Server() as s:
        start = recent()
        fill(s, start)
        clock = [time.strftime("%H:%M:%S", time.localtime(t / 1000)) for t in (start, start + 40000)]
        for source in (("--server", s.url), ("--store", s.store)):
            p = ran("query", "--from", "1h", *source)
            assert re.match(rf"(\S+ )?{clock[0]} to (\S+ )?{clock[1]}: 42", p.stderr), p.stderr
            # And what is not there is told with what is.
            end = clock[1] if "--server" in source else r"\d\d:\d\d:\d\d"  # a reader knows it to five minutes
            for command in (["query"], ["labels"], ["labels", "--names"], ["labels", "comm"],
                            ["labels", "comm", "--names"]):
                p = smolder(*command, "--from", "3d", "--to", "2d", *source)
                assert p.returncode == 1, (command, p)
                assert re.search(rf"the store has data from (\S+ )?\d\d:\d\d:\d\d to (\S+ )?{end}",
                                 p.stderr), (command, p.stderr)
            for command in (["query", 'cpu{comm="none"}'], ["labels", "--query", 'cpu{comm="none"}'],
                            ["labels", "comm", "--names", "--query", 'cpu{comm="none"}']):
                p = smolder(*command, *source)
                assert f"'smolder labels comm {source[0]} {source[1]}' lists all" in p.stderr, (command, p)
            p = smolder("labels", "none", "--names", *source)
            assert p.returncode == 1 and "nothing has a label 'none'" in p.stderr, p.stderr


@test
def a_difference_to_a_time_that_nobody_recorded_says_so():
    with Server() as s:
        start = recent()
        fill(s, start)
        for source in (("--server", s.url), ("--store", s.store)):
            p = smolder("diff", "--from", "1h", *source)
            assert p.returncode == 0 and "(new)" in p.stdout, p
            assert p.stderr.count("smolder: ") == 1 and "nothing is stored for" in p.stderr, p.stderr
            assert "scaled by" not in p.stderr, p.stderr
            # A process that was not there yet is another matter.
            p = ran("diff", 'cpu{comm="none"}', "cpu", "--from", str(start), "--to", str(start + 40000),
                    "-f", "folded", *source)
            assert p.stdout and "nothing is stored" not in p.stderr, p


@test
def a_difference_to_the_time_before_shares_no_window():
    with Server() as s:
        start = recent(8)
        fill(s, start)
        # A range that begins within a window takes it whole; so the base ends before it.
        inside = start + 24000
        for length in (16000, 20000):
            p = ran("diff", "cpu", "--from", str(inside), "--to", str(inside + length), "--absolute",
                    "-f", "json", "--server", s.url)
            t = json.loads(p.stdout)
            got = [int(n) for n in re.findall(r"([\d,]+) samples", p.stderr.replace(",", ""))]
            assert sum(got) <= 42 and got[1] == 11 + 12, (p.stderr, got)
            base_end = t["base"]["start_ns"] + t["base"]["duration_ns"]
            assert base_end <= t["start_ns"], t
        api = s.json("/api/v1/diff", query="cpu", **{"from": inside, "to": inside + 16000})
        assert api["base"]["to"] <= api["from"], (api["base"], api["from"])


def reader(*args, user=None):
    as_user = ["setpriv", "--reuid", str(user), "--clear-groups"] if user else []
    return subprocess.run([*as_user, SMOLDER, *args], capture_output=True, text=True, timeout=60,
                          env=dict(os.environ, HOME="/nonexistent"))


@test
def what_hinders_reading_a_store_is_said():
    if os.geteuid() != 0:
        skip("not root")
    with Server() as s:
        fill(s, recent())
        assert s.stop() == 0
        os.chmod(s.store, 0o755)
        raw = os.path.join(s.store, "raw")
        day, = (os.path.join(raw, f) for f in os.listdir(raw) if f.endswith(".db"))
        query = ("query", "--store", s.store)
        assert "42 samples" in reader(*query).stderr

        def refused(p, *words):
            assert p.returncode == 1 and p.stdout == "", p
            for word in words:
                assert word in p.stderr, (word, p.stderr)
            assert "nothing is stored" not in p.stderr, p.stderr

        # That may not be read: the directory, one in it, a file.
        os.chmod(s.store, 0o700)
        refused(reader(*query, user=65534), s.store, "not readable for this user", "Permission denied", "--server")
        os.chmod(s.store, 0o755)
        os.chmod(raw, 0o700)
        refused(reader(*query, user=65534), s.store, "not readable for this user", "sudo")
        os.chmod(raw, 0o755)
        os.chmod(day, 0o600)
        refused(reader(*query, user=65534), os.path.basename(day), "not readable for this user")
        os.chmod(day, 0o644)
        assert "42 samples" in reader(*query, user=65534).stderr

        # Of a newer version.
        def set_format(n):
            subprocess.run(["sqlite3", day, f"UPDATE meta SET value = {n} WHERE key = 'format'"], check=True)
        set_format(2)
        refused(reader(*query), os.path.basename(day), "newer version of smolder")
        # A writer leaves it as it is, and says why nothing comes to it; what is sent may come later.
        s.start()
        reply = s.post(Collector().message(recent(1), [row(("main@app",), 1, comm="app")]))
        assert reply.status == LATER, (reply.status, reply.words)
        problem = s.json("/api/v1/status")["collector"]["problem"]
        assert s.stop() == 0
        for words in (reply.words, problem):
            assert os.path.basename(day) in words and "newer version of smolder" in words, words
        assert [f for f in os.listdir(raw) if "damaged" in f] == []
        set_format(1)
        assert "42 samples" in reader(*query).stderr

        # Damaged: said by a reader, set aside and logged by the next writer.
        with open(day, "r+b") as f:
            f.write(b"x" * 4096)
        refused(reader(*query), os.path.basename(day), "damaged")
        s.start()
        said = s.first
        assert "damaged" in said and "set aside" in said and os.path.basename(day) in said, said
        assert any(f.startswith(os.path.basename(day) + ".damaged-") for f in os.listdir(raw))

    # No store at all.
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        refused(reader("query", "--store", d), d, "not a store of smolder")
        with open(os.path.join(d, "file"), "w", encoding="ascii"):
            pass
        refused(reader("query", "--store", os.path.join(d, "file")), "is a file")
        refused(reader("query", "--store", os.path.join(d, "none")), "there is no store in")


@test
def what_is_wrong_is_said_in_one_sentence():
    with Server() as s, tempfile.TemporaryDirectory() as d:
        fill(s, recent())
        source = ("--server", s.url)
        for args, code, words in (
                (("query", "cpu{comm=nginx}", *source), 2, "a value in quotes is expected"),
                (("query", 'cpu{comm="none"}', *source), 1, "nothing matches"),
                (("query", "--from", "now-3d", "--to", "now-2d", *source), 1, "nothing is stored"),
                (("query", "--from", "soon", *source), 2, "'soon' is not a time"),
                (("query", "--from", "now", "--to", "now-1h", *source), 2, "the range is empty"),
                (("query", "-f", "gif", *source), 2, "unknown format 'gif'"),
                (("query", "cpu", "more", *source), 2, "only one selector"),
                (("query", "--server", "ftp://x"), 2, "--server takes a URL"),
                (("query", "--server", "http://127.0.0.1:1"), 1, "Connection refused"),
                (("query", "--server", s.url, "--store", d), 2, "exclude each other"),
                (("query", "--store", d + "/none"), 1, "there is no store in"),
                (("query", "--timeout", "x", *source), 2, "--timeout takes a time"),
                (("labels", "a", "b", *source), 2, "labels takes at most one NAME"),
                (("serve", "--max-size", "1K"), 2, "1 MiB at least"),
                (("serve", "--listen", "nonsense:x", "--store", d), 2, "ADDRESS:PORT"),
                (("serve", "--listen", f"127.0.0.1:{s.port}", "--store", d), 1, "in use"),
                (("serve", "--listen", "127.0.0.1:0", "--store", s.store), 1, str(s.process.pid))):
            p = smolder(*args)
            said = [line for line in p.stderr.splitlines() if line.startswith("smolder: ")]
            assert p.returncode == code and len(said) == 1 and words in said[0], (args, p)
            assert p.stdout == "", args


@test
def no_server_and_no_store_is_told():
    with tempfile.TemporaryDirectory() as d, socket.socket() as busy:
        try:
            busy.bind(("127.0.0.1", 7117))  # something that is not a smolder
        except OSError:
            skip("something listens on 7117")
        busy.listen()

        def deaf():
            while True:
                try:
                    c, _ = busy.accept()
                except OSError:
                    return
                c.sendall(b"HTTP/1.0 200 OK\r\n\r\nhello")
                c.close()

        threading.Thread(target=deaf, daemon=True).start()
        os.chmod(d, 0o755)
        env = {"XDG_STATE_HOME": d, "HOME": d}
        p = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", SMOLDER, "query"]
                           if os.geteuid() == 0 else [SMOLDER, "query"], capture_output=True,
                           text=True, timeout=30, env=dict(os.environ, **env))
        assert p.returncode == 1 and f"there is no store in {d}/smolder" in p.stderr, p.stderr
        busy.shutdown(socket.SHUT_RDWR)


def slow_server():
    """Takes questions and never answers."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    return listener, f"http://127.0.0.1:{listener.getsockname()[1]}"


@test
def a_timeout_ends_waiting():
    listener, url = slow_server()
    with listener:
        began = time.monotonic()
        p = smolder("query", "--server", url, "--timeout", "300ms")
        assert p.returncode == 1 and "timed out" in p.stderr, p.stderr
        assert time.monotonic() - began < 20


def answer_of(body, *args, status=200):
    """What a command makes of a server that answers this, whatever it is asked."""
    listener, url = slow_server()
    listener.settimeout(30)

    def answer():
        c, _ = listener.accept()
        with c:
            c.recv(65536)
            c.sendall(b"HTTP/1.0 %d X\r\nContent-Length: %d\r\n\r\n" % (status, len(body)) + body)

    with listener:
        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        p = smolder(*args, "--server", url)
        thread.join()
    return p


@test
def an_answer_is_read_as_json_whoever_wrote_it():
    names = ("labels", "comm", "--names")
    p = answer_of(b'{ "cut" : false,\n "values" : [ "a\\u00e9\\n[b]", "\\u001b[31m\\\\" ] }', *names)
    assert p.stdout == "a\u00e9\ufffd[b]\n\ufffd[31m\\\n", p.stdout
    for body in (b"", b"[]", b'{"values":["a"', b'{"values":1}', b"{" * 100000, b'{"values":["\xff"]}'):
        p = answer_of(body, *names)
        assert p.returncode == 1 and "cannot read the answer of" in p.stderr and not p.stdout, (body, p)
    p = answer_of(b'{ "error" : "no\\u001b[2J" }', *names, status=503)
    assert "no\ufffd[2J (HTTP status 503)" in p.stderr, p.stderr


@test
def a_terminal_shows_progress_and_ctrl_c_ends_it():
    listener, url = slow_server()
    with listener:
        pid, fd = pty.fork()
        if pid == 0:
            os.execv(SMOLDER, [SMOLDER, "query", "--server", url])
        seen, until = b"", time.monotonic() + 20
        while b"waiting for the server" not in seen and time.monotonic() < until:
            if select.select([fd], [], [], 0.5)[0]:
                seen += os.read(fd, 1000)
        assert b"waiting for the server" in seen, seen
        os.kill(pid, signal.SIGINT)
        _, status = os.waitpid(pid, 0)
        os.close(fd)
        assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT, status


@test
def tls_is_there_when_asked_for():
    with tempfile.TemporaryDirectory() as d:
        cert, key = os.path.join(d, "cert.pem"), os.path.join(d, "key.pem")
        try:
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                            "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                            "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                            "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        except FileNotFoundError:
            skip("no openssl")
        with Server("--tls-cert", cert, "--tls-key", key) as s:
            assert s.url.startswith("https://")
            with open(f"/proc/{s.process.pid}/maps", encoding="ascii") as f:
                assert "libgnutls" in f.read()
            env = {"SSL_CERT_FILE": cert, "CURL_CA_BUNDLE": cert}
            p = smolder("query", "--server", s.url, env=env)
            if "libcurl" in p.stderr:
                skip(p.stderr.strip())
            # libcurl does not read the environment for its roots: an unknown one is refused.
            assert p.returncode == 1 and "certificate" in p.stderr.lower(), p.stderr
            out = subprocess.run(["curl", "-s", "--cacert", cert, f"{s.url}/healthz"],
                                 capture_output=True, text=True, timeout=30).stdout
            assert json.loads(out) == {"healthy": True}, out
        assert smolder("serve", "--tls-cert", cert, "--store", d).returncode == 2
        p = smolder("serve", "--tls-cert", key, "--tls-key", key, "--store", d, "--listen",
                    "127.0.0.1:0")
        assert p.returncode == 1 and "certificate" in p.stderr, p.stderr
    with Server() as s, open(f"/proc/{s.process.pid}/maps", encoding="ascii") as f:
        assert "gnutls" not in f.read()


@test
def windows_come_over_a_socket_as_well():
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs, Server("--windows-fd", str(theirs.fileno()),
                              **{"pass_fds": (theirs.fileno(),)}) as s:
        c, start = Collector(), recent()
        ours.settimeout(20)
        message = c.message(start, [row(("a",), 3, comm="x")])
        for body, status in ((message, STORED), (message, KNOWN), (b"x", REFUSED),
                             (c.message(start + 10000, [row(("a", "b"), 2, comm="x")]), STORED)):
            ours.send(body)
            assert Reply(ours.recv(1000)).status == status
        assert s.json("/api/v1/query")["samples"] == 5
        theirs.close()
        ours.close()
        assert s.json("/api/v1/query")["samples"] == 5  # the other end is gone, and it goes on
        assert s.stop() == 0


main()

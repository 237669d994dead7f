#!/usr/bin/env python3
"""Any process answers `go tool pprof` as a Go program does: by the real one (Debian's golang-go)."""
import concurrent.futures
import contextlib
import gzip
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import agent, always, served, until  # noqa: E402
from recording import live, undisturbed  # noqa: E402
from server import Server  # noqa: E402
from tap import SMOLDER, main, skip, test  # noqa: E402
from windows import STORED, Collector, Reply, row  # noqa: E402

SHARES = {"share_fifty": 50, "share_thirty": 30, "share_twenty": 20, "share_fifteen": 15,
          "share_five": 5}
LATE = 3  # seconds that an answer may come after the time it is of


def pprof(*args, code=0):
    """go tool pprof, and how long it took."""
    if not shutil.which("go"):
        skip("go is not installed")
    with tempfile.TemporaryDirectory() as d:
        began = time.monotonic()
        p = subprocess.run(["go", "tool", "pprof", *args], capture_output=True, text=True,
                           timeout=120, cwd=d, stdin=subprocess.DEVNULL,
                           env={**os.environ, "PPROF_TMPDIR": d, "HOME": d})
        took = time.monotonic() - began
        saved = [os.path.join(d, f) for f in os.listdir(d)]
        p.saved = []
        for path in saved:
            with open(path, "rb") as f:
                p.saved.append(f.read())
    assert p.returncode == code, (args, p.stdout, p.stderr)
    return p, took


def url(a, what="profile", **params):
    query = "&".join(f"{k}={v}" for k, v in params.items())
    return f"http://127.0.0.1:{a.port}/debug/pprof/{what}" + ("?" + query if query else "")


SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1, "mins": 60, "": 1}


def amount(text):
    m = re.fullmatch(r"([\d.]+)(ns|us|ms|s|mins|)", text)
    return float(m[1]) * SECONDS[m[2]]


def table(text):
    """Of -top: {function: cumulative seconds}"""
    rows = text[text.index("flat%"):].splitlines()[1:]
    return {r.split(None, 5)[5]: amount(r.split()[3]) for r in rows}


def head(text):
    """(duration, seconds of samples) that it tells"""
    m = re.search(r"Duration: ([\d.]+\w+), Total samples = ([\d.]+\w*)", text)
    return amount(m[1]), amount(m[2])


def check_shares(cumulative, total, tolerance=7):
    for name, want in SHARES.items():
        got = 100 * cumulative.get(name, 0) / total
        assert abs(got - want) < tolerance, (name, got, want, cumulative)


def get(a, path):
    """(status, body, headers), whatever the status"""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{a.port}{path}", timeout=60) as r:
            return r.status, r.read(), r.headers
    except urllib.error.HTTPError as e:
        return e.code, e.read(), e.headers


@live
def one_process_and_the_whole_machine_have_the_right_shares():
    with always() as a, workloads.start("shares") as w:
        used = w.cpu_seconds()
        p, took = pprof("-top", url(a, seconds=5, pid=w.pid))
        used = w.cpu_seconds() - used
        assert took < 5 + LATE, took
        duration, total = head(p.stdout)
        assert duration == 5, p.stdout
        assert re.search(r"^File: shares$", p.stdout, re.M) and "Type: cpu" in p.stdout, p.stdout
        check_shares(table(p.stdout), total)
        # All of it: what the scheduler says that the program used meanwhile, of the same seconds.
        assert 0.9 * used * 5 / took < total < 1.05 * used + 0.1, (total, used, took)
        # The file that it fetched is a profile like any other.
        assert len(p.saved) == 1 and p.saved[0][:2] == b"\x1f\x8b"

        # "pid=123" would be a range of numbers.
        p, took = pprof("-top", "-tagfocus", f"pid=^{w.pid}$", url(a, seconds=4))
        assert took < 4 + LATE, took
        of_shares = sum(table(p.stdout)[n] for n in ("share_fifty", "share_thirty", "share_twenty"))
        check_shares(table(p.stdout), of_shares)
        p, took = pprof("-top", url(a, seconds=3))
        assert {"share_fifty", "share_thirty"} <= set(table(p.stdout)), p.stdout
        assert head(p.stdout)[1] > table(p.stdout)["share_fifty"] * 1.8, p.stdout

        for how in ({"comm": "shares"}, {"query": "cpu%7Bcomm%3D%22shares%22%7D"},
                    {"comm": "shares", "pid": w.pid}):
            p, _ = pprof("-top", url(a, seconds=2, **how))
            check_shares(table(p.stdout), head(p.stdout)[1], 12)
        p, _ = pprof("-raw", url(a, seconds=1, comm="shares", pid=1))
        assert "share_fifty" not in p.stdout


@live
def every_way_of_asking_works():
    with always() as a, workloads.start("shares") as w:
        with tempfile.TemporaryDirectory() as d:
            out = os.path.join(d, "out.pb.gz")
            pprof("-proto", "-output", out, url(a, seconds=2, pid=w.pid))
            p, _ = pprof("-top", out)
            assert "share_fifty" in table(p.stdout), p.stdout
            q = subprocess.run([SMOLDER, "flame", out, "-f", "folded"], capture_output=True, text=True)
            assert "main;workload_run;share_fifty " in q.stdout, q
        # -seconds is its own way to say it; the other renderers ask for symbols and sources.
        p, took = pprof("-seconds", "2", "-traces", url(a, pid=w.pid))
        assert "share_thirty" in p.stdout and took < 2 + LATE, (p.stdout, took)
        p, _ = pprof("-symbolize=remote", "-top", url(a, seconds=1, pid=w.pid))
        assert "share_fifty" in p.stdout, p.stdout
        p, _ = pprof("-symbolize=force", "-top", url(a, seconds=1, pid=w.pid))
        assert "share_fifty" in p.stdout, p.stdout
        # Two at once, of different lengths, each of its own time.
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = [pool.submit(pprof, "-top", url(a, seconds=n, pid=w.pid)) for n in (1, 4, 2, 3)]
            for n, one in zip((1, 4, 2, 3), asked):
                p, took = one.result()
                duration, total = head(p.stdout)
                assert duration == n and 0 < total < n * 1.1 and took < n + LATE, (n, p.stdout, took)


@live
def the_plain_url_is_half_a_minute_of_everything():
    with always() as a, workloads.start("shares"):
        p, took = pprof("-top", url(a))
        assert 30 <= took < 30 + LATE, took
        assert head(p.stdout)[0] == 30 and "share_fifty" in p.stdout, p.stdout


@live
def the_answer_is_of_that_time_alone():
    """A program that runs only before and after is not in it; each sample is in one of two halves."""
    with always() as a:
        with workloads.start("shares") as w:
            time.sleep(1)
            os.kill(w.pid, signal.SIGSTOP)
            status, body, headers = get(a, f"/debug/pprof/profile?seconds=2&pid={w.pid}")
            os.kill(w.pid, signal.SIGCONT)
            assert status == 200 and headers["X-Smolder-Samples"] == "0", headers.items()
            base = f"/debug/pprof/profile?pid={w.pid}&seconds="
            status, body, headers = get(a, base + "3")
            first, last = int(headers["X-Smolder-From"]), int(headers["X-Smolder-To"])
            assert last - first == 3000 and first % 20 == 0, (first, last)
            samples = int(headers["X-Smolder-Samples"])
            assert headers["X-Smolder-Missing"] == "0"
            assert headers["Content-Disposition"] == 'attachment; filename="profile.pb.gz"'
            assert gzip.decompress(body)
            # What was answered at once is what the store has of the same 20 ms steps for good.
            until("the windows to be over", lambda: time.time() * 1000 > last + 12000)
            _, _, later = get(a, f"/api/v1/query?query=cpu%7Bpid%3D%22{w.pid}%22%7D&format=pprof"
                                 f"&slots=1&from={first}&to={last}")
            kept = int(later["X-Smolder-Samples"])
            assert samples == kept > 50, (samples, kept)
        assert a.stop() == 0


@live
def mistakes_are_said_in_the_way_it_shows():
    with always() as a:
        unused = 4194303  # one more than there can be
        for path, status, words in (
                (f"profile?seconds=9&pid={unused}", 404, f"there is no process {unused}"),
                ("profile?seconds=0", 400, "seconds must be a whole number from 1 to 300"),
                ("profile?seconds=301", 400, "seconds must be a whole number"),
                ("profile?seconds=1.5", 400, "seconds must be a whole number"),
                ("profile?seconds=-1", 400, "seconds must be a whole number"),
                ("profile?pid=me", 400, "pid must be a process id"),
                ("profile?pid=0", 400, "pid must be a process id"),
                ("profile?query=cpu%7B", 400, ""),
                ("heap", 404, "no such path")):
            began = time.monotonic()
            got, body, headers = get(a, f"/debug/pprof/{path}")
            assert got == status and words in body.decode(), (path, got, body)
            assert headers["X-Go-Pprof"] == "1" and headers["Content-Type"].startswith("text/plain")
            assert time.monotonic() - began < 5, path
        p, took = pprof("-top", url(a, seconds=9, pid=unused), code=1)
        assert f"404 Not Found - there is no process {unused} on this machine" in p.stderr, p.stderr
        assert took < 8, took
        # A thread is told from its process; a process that sleeps has an empty profile.
        with workloads.start("threads") as w:
            tid = next(t for t in os.listdir(f"/proc/{w.pid}/task") if int(t) != w.pid)
            got, body, _ = get(a, f"/debug/pprof/profile?seconds=1&pid={tid}")
            assert got == 404 and f"is a thread of process {w.pid}" in body.decode(), body
        sleeper = subprocess.Popen(["sleep", "60"])
        try:
            p, _ = pprof("-top", url(a, seconds=1, pid=sleeper.pid))
            assert "Type: cpu" in p.stdout and "of 0 total" in p.stdout, p.stdout
        finally:
            sleeper.kill()
            sleeper.wait()


@live
def processes_are_listed_with_links_that_work():
    with always() as a, workloads.start("shares") as w:
        def listed():
            status, body, headers = get(a, "/debug/pprof/")
            assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8"
            assert b"<script" not in body
            return re.search(rf'<tr><td>shares<td class="n">{w.pid}<td class="n">([\d.]+)<td>'
                             rf'<a href="(profile\?[^"]*pid={w.pid})">', body.decode())
        m = until("the program to be listed", listed, 60)
        assert float(m[1]) > 0.05, m[0]
        link = m[2].replace("&amp;", "&").replace("seconds=30", "seconds=3")
        used = w.cpu_seconds()
        status, body, headers = get(a, "/debug/pprof/" + link)
        used = w.cpu_seconds() - used  # in 3 s and until the answer came: it may share its CPU
        samples = int(headers["X-Smolder-Samples"])
        assert status == 200 and samples > 99 * used / 10, (used, headers.items())
        assert get(a, "/debug/pprof/symbol")[1] == b"num_symbols: 0\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{a.port}/debug/pprof/symbol",
                                    data=b"0x1+0x2", timeout=30) as r:
            assert r.read() == b"num_symbols: 0\n"
        assert get(a, "/debug/pprof/cmdline")[1].decode().split("\0") == a.argv


@live
def a_collector_that_is_killed_meanwhile_is_replaced():
    with always() as a, workloads.start("shares") as w:
        a.wait_stored(1)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            used = w.cpu_seconds()
            asked = pool.submit(pprof, "-top", url(a, seconds=12, pid=w.pid))
            time.sleep(1)
            os.kill(a.half("collect"), signal.SIGKILL)
            p, took = asked.result()
            used = w.cpu_seconds() - used
        # The new one is told as well: with windows of 10 s most would not be here in time.
        assert took < 12 + LATE, took
        assert head(p.stdout)[1] > 0.5 * used, (p.stdout, used)
        with concurrent.futures.ThreadPoolExecutor() as pool:
            asked = pool.submit(get, a, "/debug/pprof/profile?seconds=100")
            time.sleep(1)
            assert a.stop() == 0  # and does not wait for it
            assert asked.result()[0] == 503


@live
def after_a_profile_windows_are_long_again():
    with always() as a, workloads.start("shares"):
        a.wait_stored(1)
        get(a, "/debug/pprof/profile?seconds=2")
        time.sleep(3)

        def messages():
            return a.metrics()["smolder_store_windows_total"]
        before = messages()
        time.sleep(20)
        assert 1 <= messages() - before <= 6, messages() - before


@live
def an_agent_over_http_is_waited_for():
    with tempfile.TemporaryDirectory() as d, served(os.path.join(d, "store")) as s, \
            workloads.start("shares") as w:
        got, body, _ = get(s, "/debug/pprof/profile?seconds=1")
        assert got == 503 and b"no collector" in body, body
        with agent(f"http://127.0.0.1:{s.port}", "-q"):
            until("windows", lambda: s.stored() > 50, 60)
            began = time.monotonic()
            p, took = pprof("-top", url(s, seconds=12, pid=w.pid))
            assert took < 1.5 * 12 + 5, took
            check_shares(table(p.stdout), head(p.stdout)[1])
            assert head(p.stdout)[1] > 3, (p.stdout, time.monotonic() - began)


# ---- what it waits for ------------------------------------------------------------------------------

@contextlib.contextmanager
def running(*argv):
    p = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    try:
        yield p
    finally:
        p.kill()
        p.wait()


@live
@undisturbed
def block_profiles_are_what_a_process_waits_for():
    """By pid, by name and of the machine; as long as it was, of that time alone, and without what is idle."""
    with always("--offcpu", "yes") as a, running("sleep", "300") as sleeper, \
            running(workloads.path("waits"), "lock", "1000000") as locks, workloads.start("waits", "forever", "1") as idle:
        until("what they wait for", lambda: all(a.json(
            f"/api/v1/query?query=offcpu%7Bpid%3D%22{pid}%22%7D")["total"] for pid in (sleeper.pid, locks.pid, idle.pid)), 60)
        p, took = pprof("-top", url(a, "block", seconds=4, pid=sleeper.pid))
        assert took < 4 + 1 + LATE, took  # it begins with a second
        duration, total = head(p.stdout)
        print(f"# sleep waited {total:.3f} s of {duration:.3f}")
        assert duration == 4 and "Type: offcpu" in p.stdout, p.stdout
        assert abs(total - 4) < 0.5 and abs(table(p.stdout)["hrtimer_nanosleep"] - total) < 0.1, p.stdout

        p, _ = pprof("-top", url(a, "block", seconds=3, pid=locks.pid))
        waited = table(p.stdout)["lock_wait"]
        print(f"# lock_wait: {waited:.3f} s of 3")
        assert 2 < waited < 3.5, p.stdout
        # Whoever is idle is not in it, unless that is asked for.
        p, _ = pprof("-top", url(a, "block", seconds=2, pid=idle.pid))
        assert "stuck_wait" not in p.stdout and "of 0 total" in p.stdout, p.stdout
        p, _ = pprof("-top", url(a, "block", seconds=2, query=f"offcpu%7Bpid%3D%22{idle.pid}%22%7D"))
        assert abs(table(p.stdout).get("stuck_wait", 0) - 2) < 0.5, p.stdout
        for how in ({"comm": "waits"}, {}):
            p, _ = pprof("-top", "-nodecount=100000", url(a, "block", seconds=2, **how))
            assert 1 < table(p.stdout)["lock_wait"] < 2.5 and "stuck_wait" not in p.stdout, p.stdout
        # All of its time, in one profile.
        p, _ = pprof("-top", url(a, seconds=3, query=f"wall%7Bpid%3D%22{sleeper.pid}%22%7D"))
        assert abs(head(p.stdout)[1] - 3) < 0.5 and "[blocked: timer]" in p.stdout, p.stdout
        # The list leads there, by process and for all.
        text = get(a, "/debug/pprof/")[1].decode()
        assert '<a href="block?seconds=30">' in text, text
        with workloads.start("shares") as w:
            link = until("the program to be listed", lambda: re.search(
                rf'href="(block\?[^"]*pid={w.pid})">what it waits for<', get(a, "/debug/pprof/")[1].decode()), 60)
            status, body, headers = get(a, "/debug/pprof/" + link[1].replace("&amp;", "&").replace("=30", "=1"))
            assert status == 200 and gzip.decompress(body) and headers["X-Smolder-Missing"] == "0", headers.items()


@live
def where_waits_are_not_recorded_that_is_said():
    """… and how to: not an empty profile."""
    with always() as a, running("sleep", "300") as sleeper:
        a.wait_stored(1)
        began = time.monotonic()
        for path in ("block", f"block?seconds=20&pid={sleeper.pid}", "block?comm=sleep"):
            status, body, headers = get(a, f"/debug/pprof/{path}")
            assert status == 404 and b"--offcpu yes" in body and headers["X-Go-Pprof"] == "1", (path, status, body)
        assert time.monotonic() - began < 5, "before it waits for them"
        p, _ = pprof("-top", url(a, "block", seconds=9), code=1)
        assert "404 Not Found - what threads wait for is not recorded" in p.stderr, p.stderr
        status, body, _ = get(a, "/debug/pprof/profile?seconds=1&query=wall%7Bcomm%3D%22none%22%7D")
        assert status == 404 and b"--offcpu yes" in body, (status, body)
        text = get(a, "/debug/pprof/")[1].decode()
        assert "what it waits for</a>" in text and "<th>waits" not in text, text
        # A process that the samples do not know is not there, whatever is recorded.
        assert get(a, "/debug/pprof/block?pid=4194303")[0] == 404


# ---- with a collector of our own ---------------------------------------------------------------

@contextlib.contextmanager
def socket_server():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, Server("--windows-fd", str(b.fileno()), pass_fds=[b.fileno()]) as s:
        b.close()
        a.settimeout(30)
        yield s, a


def ask(s, path):
    c = socket.create_connection((s.host, s.port), timeout=60)
    c.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    return c


@test
def controls_come_unasked_and_the_answer_is_exact():
    with socket_server() as (s, a):
        collector = Collector()
        began = time.time() * 1000
        with ask(s, "/debug/pprof/profile?seconds=2&pid=" + str(os.getpid())) as c:
            live_ = Reply(a.recv(4096))
            assert live_.sequence == 0 and not live_.flush, vars(live_)
            assert began + 2000 < live_.live_until < began + 10000, (began, live_.live_until)
            assert time.time() * 1000 - began < 1000
            while not (control := Reply(a.recv(4096))).flush:
                assert control.sequence == 0
            flushed = time.time() * 1000
            assert began + 2000 < flushed < began + 4000, flushed - began
            # Windows that begin before and end after it: times decide, to 20 ms.
            start = int(began) // 1000 * 1000 - 1000
            every = list(range(0, 5000 // 20))
            rows = [row(("main", "work"), len(every), times=every, comm="x", pid=str(os.getpid())),
                    row(("main", "other"), len(every), times=every, comm="y", pid="1")]
            a.send(collector.message(start, rows, length_ms=5000, metrics=[("up", 1.0)]))
            assert Reply(a.recv(4096)).status == STORED
            got = b""
            while chunk := c.recv(65536):
                got += chunk
        took = time.time() * 1000 - began
        head_, _, body = got.partition(b"\r\n\r\n")
        assert head_.startswith(b"HTTP/1.1 200"), got[:300]
        headers = dict(l.split(": ", 1) for l in head_.decode().split("\r\n")[1:])
        assert headers["X-Smolder-Samples"] == "100", headers  # 2 s of 20 ms steps
        assert int(headers["X-Smolder-From"]) >= began and took < 2000 + LATE * 1000, (headers, took)
        assert b"work" in gzip.decompress(body) and b"other" not in gzip.decompress(body)


@test
def waits_are_of_windows_that_begin_in_those_seconds():
    with socket_server() as (s, a):
        waits, cpu = Collector(), Collector()
        until("the first half of a second", lambda: time.time() % 1 < 0.5)
        second = int(time.time()) * 1000

        def send(start, name, length_ms=1000):
            a.send(waits.message(start, [row(("main", name), 1, 10**9, comm="x", pid="1", state="sleeping")],
                                 kind="offcpu", period=0, length_ms=length_ms))
            assert receive().status == STORED

        def receive():
            while not (reply := Reply(a.recv(4096))).sequence:  # controls come whenever they come
                pass
            return reply

        with ask(s, "/debug/pprof/block?seconds=2") as c:
            while not Reply(a.recv(4096)).flush:
                pass
            for i, name in enumerate(("before", "now", "now", "after")):
                send(second + i * 1000, name)
            a.send(cpu.message(second, [row(("main", "ran"), 1, comm="x", times=[1])], length_ms=10000,
                               metrics=[("up", 1.0)]))
            assert receive().status == STORED
            got = b""
            while chunk := c.recv(65536):
                got += chunk
        head_, _, body = got.partition(b"\r\n\r\n")
        assert head_.startswith(b"HTTP/1.1 200"), got[:300]
        headers = dict(line.split(": ", 1) for line in head_.decode().split("\r\n")[1:])
        assert (headers["X-Smolder-From"], headers["X-Smolder-To"]) == (str(second + 1000), str(second + 3000)), headers
        assert headers["X-Smolder-Samples"] == "2", headers
        assert b"now" in (body := gzip.decompress(body)) and b"before" not in body and b"after" not in body


@test
def a_collector_that_says_nothing_is_not_waited_for_long():
    with socket_server() as (s, a):
        began = time.monotonic()
        with ask(s, "/debug/pprof/profile?seconds=1") as c:
            assert c.recv(1000).startswith(b"HTTP/1.1 200")
        assert 1 < time.monotonic() - began < 1 + LATE
        # A client that hangs up leaves nothing behind, and many are told to come again.
        asked = [ask(s, "/debug/pprof/profile?seconds=300") for _ in range(32)]
        until("all of them", lambda: ask(s, "/debug/pprof/profile?seconds=300")
              .recv(1000).startswith(b"HTTP/1.1 503"))
        for c in asked:
            c.close()

        def answered():
            with ask(s, "/debug/pprof/profile?seconds=1") as c:
                return c.recv(1000).startswith(b"HTTP/1.1 200")
        until("room", answered)
        assert s.stop() == 0


main()

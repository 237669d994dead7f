#!/usr/bin/env python3
"""Always on: sampling, keeping, answering. See test_run_deaths.py and test_steady.py as well."""
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import callgraph  # noqa: E402
import folded  # noqa: E402
import generated  # noqa: E402
import workloads  # noqa: E402
from always import account, agent, always, served, until  # noqa: E402
from recording import live  # noqa: E402
from server import check_metrics  # noqa: E402
from tap import SMOLDER, main, skip, test  # noqa: E402

COLLECTOR_CAPS = {"cap_bpf": 39, "cap_perfmon": 38, "cap_sys_ptrace": 19,
                  "cap_dac_read_search": 2, "cap_checkpoint_restore": 40, "cap_syslog": 34}
SYS_ADMIN = 21
WINDOW_S = 10


def stacks_since(a, workload, since):
    q = a.query(f'cpu{{pid="{workload.pid}"}}', "--from", since, "-f", "folded", "--annotations")
    assert q.returncode == 0, q.stderr
    return folded.parse(q.stdout)


def status(pid):
    with open(f"/proc/{pid}/status") as f:
        return dict(line.split(":\t", 1) for line in f.read().splitlines() if ":\t" in line)


def paranoid():
    with open("/proc/sys/kernel/perf_event_paranoid") as f:
        return int(f.read())


@live
def functions_are_named_as_in_the_call_graph():
    """Names are kept by blocks of code here, not by address: no call is seen that cannot be."""
    graph, path = generated.program("aa", 3)
    with always("-F", "997") as a, workloads.Workload([path, "loop"]) as w:
        # Its own: what is stored of the machine may be of others, for all that this test knows of them.
        until("samples of it", lambda: a.json(f"/api/v1/query?{only(w)}")["samples"] > 0, 120)
        # Stacks are cut until its table is made, which takes its time while others have the CPUs.
        settled = (int(time.time()) // WINDOW_S + 1) * WINDOW_S * 1000
        after = f"{only(w)}&from={settled}&to={settled + 3600000}"
        until("samples with its table", lambda: a.json(f"/api/v1/query?{after}")["samples"] > 5000, 120)
        judge, whole = (callgraph.Judge(graph).stacks(stacks_since(a, w, since))
                        for since in ("now-5m", str(settled)))
        print(f"# {judge}; with its table {whole}")
        assert not judge.bad, judge
        assert whole.total > 3000 and whole.marked <= 0.02 * whole.total, (judge, whole)


@live
def what_ran_is_there_and_every_sample_is_accounted_for():
    with always() as a, workloads.start("shares"):
        a.wait_sampled(500)
        a.wait_sampled(500)
        # The command that it suggests asks this server, not the one on the usual port.
        words = re.search(r"or try: (.*)$", a.err, re.M)[1].split()
        assert words[0] == SMOLDER and words[-2:] == ["--server", f"http://127.0.0.1:{a.port}"], words
        q = subprocess.run(words, capture_output=True, text=True)
        assert q.returncode == 0 and "shares" in q.stdout, q
        q = a.query('cpu{comm="shares"}', "--from", "now-2m", "-f", "folded")
        assert q.returncode == 0, q.stderr
        stacks = folded.parse(q.stdout)
        assert stacks.total > 200, q.stdout
        named = {f for s, _ in stacks for f in s}
        assert {"share_fifty", "share_thirty", "main"} <= named, named
        # The same range by the same words gives the same number everywhere.
        now = int(time.time() * 1000)
        span = f"from={now - 600000}&to={now - now % 10000 - 10000}"
        tree = a.json(f"/api/v1/query?query=cpu&{span}")
        line = a.json(f"/api/v1/series?query=cpu&by=comm&{span}")
        total = sum(x["total"] for x in line["lines"]) + line["rest"]["total"]
        assert tree["total"] == total > 0, (tree["total"], total)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            taken, stored, lost = account(s.metrics())
            assert taken == stored + lost and taken > 1000, (taken, stored, lost)
            assert lost == 0, s.metrics()


@live
def each_half_has_only_what_it_needs():
    with always() as a:
        collector, server = status(a.half("collect")), status(a.half("serve"))
        want = sum(1 << n for n in COLLECTOR_CAPS.values())
        if paranoid() > 2:
            want |= 1 << SYS_ADMIN
        for field in ("CapPrm", "CapEff"):
            assert int(collector[field], 16) & ~want == 0, collector[field]
            assert int(server[field], 16) == 0, server[field]
        assert collector["Seccomp"] == "2" and collector["NoNewPrivs"] == "1"
        assert server["Uid"].split()[0] != "0" and server["Gid"].split()[0] != "0", server["Uid"]
        sockets = subprocess.run(["ss", "-lntup"], capture_output=True, text=True).stdout
        assert f"pid={a.half('collect')}," not in sockets, sockets


@live
def prometheus_has_nothing_to_say_of_its_metrics():
    with always() as a:
        text = until("the collector's metrics", lambda: "smolder_collector_messages_total{" in (
            t := a.get("/metrics").decode()) and t, 60)
        check_metrics(text)
        # One without a line in src/pipeline/metrics.c.
        unknown = re.findall(r"# HELP (\S+) Told by a collector of another version", text)
        assert not unknown, unknown


@live
def a_second_run_on_the_same_store_names_the_first():
    with always() as a:
        p = subprocess.run([SMOLDER, "run", "--store", a.store, "--listen", "127.0.0.1:0"],
                           capture_output=True, text=True, timeout=60)
        assert p.returncode == 1, p
        pids = [a.process.pid, a.half("serve")]
        assert any(str(pid) in p.stderr for pid in pids), (pids, p.stderr)
        assert a.process.poll() is None and a.half("collect")


def only(workload):
    """The parameter of a request that is about its samples alone."""
    return f"query=cpu%7Bpid%3D%22{workload.pid}%22%7D"


def tids(a, workload):
    """The threads of it that are series of their own."""
    return a.json(f"/api/v1/labels/tid/values?{only(workload)}")["values"]


@live
def the_configuration_is_read_and_read_again():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "smolder.yaml")
        with open(path, "w") as f:
            f.write("frequency: 49\nretention: 2d\nlines: [shares]\nthreads: [threads]\n")
        with always("--config", path, "--retention", "3d") as a, workloads.start("shares") as w, \
                workloads.start("threads") as threads:
            assert "49 Hz" in a.err and "3d" in a.err, a.err
            a.wait_sampled(100)
            until("a series of each thread", lambda: len(tids(a, threads)) > 1, 60)
            assert set(tids(a, threads)) <= set(os.listdir(f"/proc/{threads.pid}/task"))
            until("samples of the other", lambda: a.json(f"/api/v1/query?{only(w)}")["samples"] > 5, 60)
            assert tids(a, w) == []
            assert 49 in a.collectors("smolder_collector_sampling_hertz"), a.metrics()
            with open(path, "w") as f:
                f.write("frequency: 199\n")
            collector = a.half("collect")
            a.process.send_signal(signal.SIGHUP)
            until("another collector", lambda: a.half("collect") not in (None, collector))
            until("the new rate", lambda: 199 in a.collectors("smolder_collector_sampling_hertz"))
            assert "starting it again" not in a.err, a.err  # nothing failed: it was asked for
            with open(path, "w") as f:
                f.write("frequency: often\n")
            a.process.send_signal(signal.SIGHUP)
            until("a complaint", lambda: "frequency takes a number" in a.err)
            assert a.process.poll() is None and a.half("collect")


def line_after(path, text, wanted):
    """The first line with `wanted` after the one with `text`, which is no declaration."""
    with open(os.path.join(workloads.SRC, path)) as f:
        lines = f.read().splitlines()
    at = next(n for n, line in enumerate(lines)
              if text in line and not line.endswith(";"))
    return next(n + 1 for n, line in enumerate(lines) if n > at and wanted in line)


def check_lines(tree, cut=os.path.basename):
    """What the tree says of shares: each function has the line in which it spins or calls. Another
    of that name may run on this machine, so only a tree of the one pid has whole paths."""
    f = tree["functions"]
    at = {name: (cut(tree["sources"][f["source"][i]]), f["line"][i])
          for i, name in enumerate(f["name"])}
    shares = cut(os.path.join(workloads.SRC, "shares.c"))
    for name in ("share_fifty", "share_thirty", "share_fifteen", "share_five"):
        want = line_after("shares.c", f"uint64_t {name}(uint64_t until)", "return ")
        assert at[name] == (shares, want), (name, at[name], want)
    want = line_after("shares.c", "uint64_t share_twenty(", "return work(")
    assert at["share_twenty"] == (shares, want), (at["share_twenty"], want)
    # The loop itself is inlined, and of another file.
    spin = [line_after("workload.h", "workload_spin(uint64_t until)", text)
            for text in ("do {", "while (now")]
    source, line = at["workload_spin"]
    assert source == cut(os.path.join(workloads.SRC, "workload.h")), at["workload_spin"]
    assert spin[0] <= line <= spin[1], (at["workload_spin"], spin)


@live
def lines_and_threads_are_kept_of_those_asked_for():
    with always("--lines", "shares", "--threads", "threads") as a, workloads.start("shares") as w, \
            workloads.start("threads") as threads:
        these, others = only(w), only(threads)
        until("samples of both", lambda: all(
            a.json(f"/api/v1/query?{query}")["samples"] > least
            for query, least in ((these, 150), (others, 20))), 120)
        # Each thread of the one is a series, by its own name; of the other none is.
        tasks = os.listdir(f"/proc/{threads.pid}/task")
        seen = tids(a, threads)
        assert len(seen) > 1 and set(seen) <= set(tasks), (seen, tasks)
        names = {open(f"/proc/{threads.pid}/task/{tid}/comm").read().strip() for tid in seen}
        assert names <= set(a.json(f"/api/v1/labels/thread/values?{others}")["values"]), names
        assert tids(a, w) == []
        to = int(time.time() * 1000) // 10000 * 10000
        span = f"from={to - 600000}&to={to}"
        check_lines(a.json(f"/api/v1/query?{these}&{span}"), str)
        # Beside others, and cut to a few nodes.
        tree = a.json(f"/api/v1/query?query=cpu&{span}&by=comm")
        check_lines(tree)
        check_lines(a.json(f"/api/v1/query?query=cpu&{span}&max_nodes=3"))
        check_lines(a.json(f"/api/v1/diff?query=cpu&{span}"))
        known = {m for m, s in zip(tree["functions"]["module"], tree["functions"]["source"]) if s}
        assert "shares" in {tree["modules"][m] for m in known}, known
        assert not {"threads", "[kernel]"} & {tree["modules"][m] for m in known}, known
        # Of those not asked for there is nothing, nor room for it.
        other = a.json(f"/api/v1/query?{others}&{span}")
        assert "sources" not in other and "line" not in other["functions"], other["functions"].keys()

        with tempfile.TemporaryDirectory() as d:
            ours, theirs = os.path.join(d, "query.pb.gz"), os.path.join(d, "api.pb.gz")
            q = a.query(f'cpu{{pid="{w.pid}"}}', "--from", str(to - 600000), "--to", str(to),
                        "-f", "pprof", "-o", ours)
            assert q.returncode == 0, q.stderr
            with open(theirs, "wb") as f:
                f.write(a.get(f"/api/v1/query?{these}&{span}&format=pprof"))
            if not shutil.which("go"):
                skip("go is not installed")
            line = line_after("shares.c", "uint64_t share_fifty(uint64_t until)", "return ")
            tree = a.json(f"/api/v1/query?{these}&{span}")
            fifty = tree["functions"]["total"][tree["functions"]["name"].index("share_fifty")]
            for path in (ours, theirs):
                p = subprocess.run(["go", "tool", "pprof", "-sample_index=samples", "-top", "-cum",
                                    "-lines", "-nodefraction=0", path], capture_output=True,
                                   text=True, env=dict(os.environ, PPROF_TMPDIR=d, HOME=d))
                rows = dict(reversed(r) for r in re.findall(
                    r"^\s*\d+\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s+(.*)$", p.stdout, re.M))
                at = int(rows[f"share_fifty {workloads.SRC}/shares.c:{line}"]) * tree["period"]
                assert 0.9 * fifty < at <= fifty, (at, fifty, p.stdout)


@live
def it_tells_systemd():
    import socket
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "notify")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
            s.bind(path)
            s.settimeout(60)
            with always(env={"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "1000000"}) as a:
                seen = b""
                while b"READY=1" not in seen or b"WATCHDOG=1" not in seen:
                    seen += s.recv(4096) + b"\n"
                a.process.terminate()
                while b"STOPPING=1" not in seen:
                    seen += s.recv(4096) + b"\n"


@live
def an_agent_sends_to_a_server_elsewhere():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with served(os.path.join(d, "store")) as s, workloads.start("shares"):
            with agent(f"http://127.0.0.1:{s.port}", "--host", "elsewhere"):
                until("windows", lambda: s.stored() > 100, 60)
                assert s.json("/api/v1/labels/host/values")["values"] == ["elsewhere"]
            taken, stored, lost = account(s.metrics())
            assert taken == stored + lost and lost == 0, (taken, stored, lost)


@live
def a_question_in_the_first_window_is_told_when_to_ask_again():
    until("the beginning of a window", lambda: 1 < time.time() % 10 < 4)
    with always() as a:
        def ask(*source):
            p = subprocess.run([SMOLDER, "query", *source], capture_output=True, text=True)
            return p, time.time(), re.fullmatch(
                r"smolder: nothing is stored yet: smolder was started at \d\d:\d\d:\d\d, and stores "
                r"every 10 s; ask again in (\d+) s\n", p.stderr)

        asked, told = 0, None
        while not a.stored():
            state = a.json("/api/v1/status")["collector"]["state"]
            answers = [ask("--server", f"http://127.0.0.1:{a.port}"), ask("--store", a.store)]
            if a.stored():
                break
            if state == "recording":  # the first window is on its way into the store
                until("it to be stored", a.stored)
                break
            assert state == "starting", state
            for p, now, m in answers:
                assert p.returncode == 1 and m, p
                told, asked = now + int(m[1]), asked + 1
            time.sleep(0.3)
        assert asked, "it was stored before anybody could ask"
        until("that time", lambda: time.time() >= told)
        assert a.query().returncode == 0, a.query().stderr
        assert a.json("/api/v1/status")["collector"]["state"] == "recording"
    # Whoever stopped will store nothing any more.
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with served(d + "/s"):
            pass
        p = subprocess.run([SMOLDER, "query", "--store", d + "/s"], capture_output=True, text=True)
        assert p.returncode == 1 and "or for any other time" in p.stderr, p


@test
def mistakes_are_said_in_one_sentence():
    def say(*args):
        p = subprocess.run([SMOLDER, *args], capture_output=True, text=True, timeout=60)
        assert p.returncode in (1, 2), p
        return p.stderr
    assert "retention takes a time" in say("run", "--retention", "soon")
    assert "max-size takes a size" in say("run", "--max-size", "much")
    assert "there is no user 'nosuch'" in say("run", "--user", "nosuch", "--store", "/tmp/x")
    assert "agent needs --to URL" in say("agent")
    assert "--to takes a URL" in say("agent", "--to", "elsewhere")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("retention: 3d\nspeed: 9\n")
        f.flush()
        err = say("run", "--config", f.name)
        assert "line 2: 'speed' is no setting" in err, err
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write("a: [b\n")
        f.flush()
        assert f.name in say("run", "--config", f.name)
    assert "cannot read the configuration" in say("run", "--config", "/nonexistent.yaml")


main()

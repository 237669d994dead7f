#!/usr/bin/env python3
"""What `smolder agent` sends on: the same as a store has of the same windows, whatever it speaks; nothing
lost within the bound whatever the far side does, and what is lost beyond it counted: taken = sent + lost."""
import collections
import contextlib
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import account, agent, children, free_port, until  # noqa: E402
from messages import decode  # noqa: E402
from sending import Far, Sender  # noqa: E402
from server import Server, check_metrics  # noqa: E402
from tap import SMOLDER, SOAK, main, skip, test  # noqa: E402
from windows import PERIOD, STORED, Collector, row  # noqa: E402

WIDE = {"from": "now-2h", "to": "now+1h"}
HOW = ("", "otlp+", "pyroscope+")


def recent(windows_ago=6):
    return int(time.time() * 1000) // 10000 * 10000 - windows_ago * 10000


def stacks_of(server, query):
    """{((function, file, line), ...) leaf first: value} as the server's pprof has them"""
    status, body, _ = server.get("/api/v1/query", query=query, format="pprof", lines="yes", **WIDE)
    assert status == 200, (status, body[:300])
    p = decode("google", "Profile", gzip.decompress(body))
    names = [s if isinstance(s, str) else s.decode() for s in p["string_table"]]
    function = {f["id"][0]: (names[f["name"][0]], names[f.get("filename", [0])[0]]) for f in p.get("function", [])}
    lines = {l["id"][0]: [(*function[x["function_id"][0]], x.get("line", [0])[0]) for x in l["line"]]
             for l in p.get("location", [])}
    out = collections.Counter()
    for s in p.get("sample", []):
        out[tuple(f for i in s.get("location_id", []) for f in lines[i])] += s["value"][-1]
    return dict(out)


RICH = [row(("main@app /src/main.c:10", "[i]inlined@app /src/in.h:3", "[k]do_syscall@[kernel]"), 7,
            times=[1, 1, 2, 30, 31, 400, 499], comm="app", service="shop", host="h1", container="web", container_id="0123456789ab",
            namespace="prod", pod="web-1", version="2.4"),
        row(("main@app /src/main.c:10", "work@libwork.so /src/work.c:77"), 3, times=[0, 5, 6], comm="app",
            service="shop", host="h1", container="web", container_id="0123456789ab", namespace="prod", pod="web-1",
            version="2.4"),
        row(("main@app /src/main.c:11", "work@libwork.so /src/work.c:78"), 2, times=[9, 9], comm="app", thread="w#",
            host="h1"),
        row(("[g]runtime.main@gone", "[j]Lcom/x;::run", "naïve «ü»"), 1, times=[77], comm="go;pher=\"x\"", host="h1"),
        row((), 4, times=[0, 1, 2, 3], comm="(other)")]
WAITS = [row(("main@app", "pause@libc.so.6"), 5, value=123456789012, comm="app", state="idle", reason="timer"),
         row(("main@app", "lock@libc.so.6"), 1, value=1, comm="app", state="blocked", reason="lock")]
KINDS = (("cpu", "nanoseconds", PERIOD, RICH, "process_cpu:cpu:nanoseconds:cpu:nanoseconds"),
         ("offcpu", "nanoseconds", 0, WAITS, "off_cpu:off_cpu:nanoseconds:off_cpu:nanoseconds"),
         ("lock_wait", "nanoseconds", 0, WAITS, "lock_wait:lock_wait:nanoseconds:lock_wait:nanoseconds"),
         ("page_faults", "faults", 100,
          [row(("main@app", "memset@libc.so.6"), 9, value=900, comm="app", host="h1")],
          "page_faults:page_faults:faults:page_faults:faults"))


@test
def what_is_sent_is_what_the_store_has_of_the_same_windows():
    windows = (recent(9), recent(9) + 10000)
    with Server() as here:
        direct = Collector(b"0123456789abcdef")
        for kind, unit, period, rows, _ in KINDS:
            for start in windows:
                assert here.post(direct.message(start, rows, kind=kind, unit=unit, period=period)).status == STORED
        for how in HOW:
            with Server() as there, Sender(how + there.url) as s:
                for kind, unit, period, rows, _ in KINDS:
                    for start in windows:
                        s.feed(start, rows, kind=kind, unit=unit, period=period)
                s.drained()
                for kind, _, _, rows, foreign in KINDS:
                    theirs = foreign if how else kind
                    assert theirs in there.json("/api/v1/types", **WIDE)["types"], there.json("/api/v1/types", **WIDE)
                    ours = stacks_of(here, kind)
                    assert ours and stacks_of(there, theirs) == ours, (how, kind, stacks_of(there, theirs), ours)
                    assert sum(ours.values()) == 2 * sum(r["value"] for r in rows)
                    # Each series by all its labels, and no others.
                    for r in rows:
                        labels = dict(r["labels"])
                        which = "{" + ",".join(f'{k}={quoted(v)}' for k, v in labels.items()) + "}"
                        assert stacks_of(there, theirs + which) == stacks_of(here, kind + which), (how, which)
                    for label in here.json("/api/v1/labels", query=kind, **WIDE)["labels"]:
                        path = f"/api/v1/labels/{label}/values"
                        got = there.json(path, query=theirs, **WIDE)["values"]
                        want = here.json(path, query=kind, **WIDE)["values"]
                        # Who gets profiles pushed names a service of those that have none.
                        assert set(want) <= set(got) <= set(want) | ({"unknown_service", "app", "(other)", "go;pher=\"x\""}
                                                                     if label == "service" else set()), (how, label, got, want)
                # In the same window of time.
                for kind, _, _, _, foreign in KINDS:
                    ranges = {"from": windows[1] / 1000, "to": windows[1] / 1000 + 10, "step": "10s"}
                    a = here.json("/api/v1/series", query=kind, **ranges)["lines"]
                    b = there.json("/api/v1/series", query=foreign if how else kind, **ranges)["lines"]
                    assert [x["values"] for x in a] == [x["values"] for x in b], (how, kind, a, b)


def quoted(s):
    return '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'


@test
def a_message_of_otlp_says_what_its_definition_wants():
    with tempfile.NamedTemporaryFile("w") as password, Far() as far:
        password.write("7:secret\n")
        password.flush()
        with Sender(f"otlp+http://127.0.0.1:{far.port}/otlp/", "--header", "X-Scope-OrgID: team a",
                    "--header", "X-Two: 2", "--basic-auth", password.name) as s:
            for kind, unit, period, rows, _ in KINDS:
                s.feed(recent(), rows, kind=kind, unit=unit, period=period)
            s.drained()
    assert [r.path for r in far.taken] == ["/otlp/v1development/profiles"] * 4
    for r in far.taken:
        assert (r.headers["Content-Type"], r.headers["Content-Encoding"], r.headers["X-Scope-OrgID"],
                r.headers["X-Two"], r.headers["Authorization"]) == (
            "application/x-protobuf", "gzip", "team a", "2", "Basic NzpzZWNyZXQ="), r.headers
    seen = [decode("otlp", "ExportProfilesServiceRequest", r.body) for r in far.taken]
    for m, (kind, unit, period, rows, _) in zip(seen, KINDS):
        d = m["dictionary"][0]
        assert d["string_table"][0] == "" and len(m["dictionary"]) == 1
        for table in ("mapping", "location", "function", "link", "attribute", "stack"):
            assert d[f"{table}_table"][0] == {}, (table, d[f"{table}_table"][0])
        text = d["string_table"]
        assert len(set(map(str, text))) == len(text)
        assert len(m["resource_profiles"]) == len({r["labels"] for r in rows})
        count = value = 0
        for resource in m["resource_profiles"]:
            scope = resource["scope_profiles"][0]
            assert scope["scope"][0]["name"] == ["smolder"]
            p = scope["profiles"][0]
            type_ = tuple(text[p["sample_type"][0][k][0]] for k in ("type_strindex", "unit_strindex"))
            assert p["time_unix_nano"][0] % 10**10 == 0 and p["duration_nano"] == [10**10]
            if kind == "cpu":
                assert type_ == ("samples", "count") and p["period"] == [PERIOD]
                assert tuple(text[p["period_type"][0][k][0]] for k in ("type_strindex", "unit_strindex")) == (
                    "cpu", "nanoseconds")
            elif kind == "offcpu":
                assert type_ == ("off_cpu", "nanoseconds") and "period" not in p
            else:
                assert type_ == (kind, unit) and p["period"] == [period or 1]
            for sample in p["samples"]:
                times = sample.get("timestamps_unix_nano", [])
                assert not (times and sample.get("values")), "each value would need a time"
                start = p["time_unix_nano"][0]
                assert all(start <= t < start + 10**10 and (t - start) % 20_000_000 == 0 for t in times), times
                count += len(times) or sample["values"][0]
                value += sum(sample.get("values", []))
        if kind == "cpu":
            assert count == sum(r["count"] for r in rows)
        else:
            assert value == sum(r["value"] for r in rows)
    keys = {kv["key"][0]: kv["value"][0]["string_value"][0] for kv in seen[0]["resource_profiles"][0]["resource"][0]["attributes"]}
    first = [keys] + [{kv["key"][0]: kv["value"][0]["string_value"][0] for kv in r["resource"][0]["attributes"]}
                      for r in seen[0]["resource_profiles"]]
    assert {"service.name": "shop", "process.executable.name": "app", "host.name": "h1", "container.name": "web",
            "container.id": "0123456789ab", "k8s.namespace.name": "prod", "k8s.pod.name": "web-1",
            "service.version": "2.4"} in first, first


@test
def whatever_the_far_side_does_all_arrives_once_it_is_well():
    """Down, broken, limited, cut off, slow: then each window once, in order, and Retry-After is respected."""
    script = [500, (429, {"Retry-After": "3"}, b"too many"), "close", 503, 404, 2.0, 200]
    answers = list(script)
    with Far(lambda r: answers.pop(0) if answers else 200) as far:
        port = free_port()
        with Sender(f"otlp+http://127.0.0.1:{port}") as s:
            for n in range(5):
                s.feed(recent(9 - n), RICH)
            until("it to say so", lambda: "windows are kept in" in s.said())
            assert s.waiting() == 5
            assert s.stop() == 0 and "on disk, for the next start" in s.said()
            s.to = f"otlp+http://127.0.0.1:{far.port}"
            s.start()
            s.drained(90)
            at = [r.at for r in far.requests]
            assert at[2] - at[1] >= 3, at
            ids = [decode("otlp", "ExportProfilesServiceRequest", r.body)["resource_profiles"][0]["scope_profiles"][0]
                   ["profiles"][0] for r in far.taken]
            starts = [p["time_unix_nano"][0] for p in ids]
            assert starts == sorted(starts) and len(set(map(str, (p["profile_id"] for p in ids)))) == 5
            until("the account", lambda: s.account() == (s.fed, s.fed, {
                "far_side_away": 0, "refused": 0, "damaged": 0}, 0))
            with open(os.path.join(s.spool, "agent.prom")) as f:
                check_metrics(f.read())


@test
def what_will_never_be_taken_is_dropped_and_counted():
    first = recent(9)
    bad = str((first + 10000) * 1000000)

    def start_of(r):
        m = decode("otlp", "ExportProfilesServiceRequest", r.body)
        return str(m["resource_profiles"][0]["scope_profiles"][0]["profiles"][0]["time_unix_nano"][0])

    for how in ("refused", "at this alone", "rejected"):
        def answer(r):
            if start_of(r) != bad:
                return 200
            if how == "rejected":  # partial_success { rejected_profiles: 9, error_message: "no" }
                return 200, {}, b"\x0a\x06\x08\x09\x12\x02no"
            return (400, {}, b"not like this") if how == "refused" else 500
        with Far(answer) as far, Sender(f"otlp+http://127.0.0.1:{far.port}") as s:
            for n in range(4):
                s.feed(first + n * 10000, RICH)
            s.drained(90)
            one = sum(r["count"] for r in RICH)
            until("the account", lambda: s.account() == (4 * one, 3 * one, {
                "far_side_away": 0, "refused": one, "damaged": 0}, 0))
            assert "refused a window" in s.said() or "rejected 9 profiles: no" in s.said(), s.said()


@test
def what_is_too_large_goes_in_pieces():
    most = 7
    series = [row(("main", f"f{n}"), 1 + n % 3, comm=f"c{n}", service=f"s{n}") for n in range(230)]
    for how, path in (("otlp+", "ExportProfilesServiceRequest"), ("pyroscope+", "PushRequest")):
        def count(r):
            m = decode(how[:-1], path, r.body)
            return len(m.get("resource_profiles") or m["series"])
        with Far(lambda r: 413 if count(r) > most else 200) as far, Sender(f"{how}http://127.0.0.1:{far.port}") as s:
            s.feed(recent(), series)
            s.drained()
            assert sum(map(count, far.taken)) == 230 and max(map(count, far.taken)) <= most
            until("the account", lambda: s.account()[:2] == (s.fed, s.fed))


@test
def beyond_the_bound_the_oldest_go_and_are_counted():
    port = free_port()
    rng = random.Random(7)
    with tempfile.TemporaryDirectory() as store, Sender(f"http://127.0.0.1:{port}", "--spool-max", "1MiB") as s:
        for n in range(60):  # names that do not compress
            rows = [row(("main", f"{rng.getrandbits(1600):x}"), 1 + rng.randrange(5), comm=f"c{n}") for _ in range(120)]
            s.feed(recent(70 - n), rows)
        taken, sent, lost, waiting = until("the account", lambda: s.account() if s.account()[0] == s.fed else None)
        assert sent == 0 and lost["far_side_away"] > 0 and taken == lost["far_side_away"] + waiting
        size = sum(os.stat(os.path.join(s.spool, f)).st_blocks * 512 for f in os.listdir(s.spool) if f.endswith(".window"))
        assert 512 << 10 < size <= 1 << 20, size
        assert "oldest windows are dropped" in s.said()
        with Server("--listen", f"127.0.0.1:{port}", store=store) as there:
            s.drained()
            m = metrics(there)
            assert account(m) == (s.fed, s.fed - lost["far_side_away"], lost["far_side_away"]), account(m)
            assert m['smolder_samples_lost_total{reason="server_away"}'] == lost["far_side_away"]
            # The newest are there.
            assert "c59" in there.json("/api/v1/labels/comm/values", query="cpu", **WIDE)["values"]


def metrics(server):
    text = server.get("/metrics")[1].decode()
    return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+) (\S+)$", text, re.M)}


@test
def kills_of_either_side_lose_and_double_nothing():
    """To smolder's own server each window is stored once; others get what a kill cut off again, under the
    same id."""
    rounds = 60 if SOAK else 12
    rng = random.Random(11)
    port = free_port()
    with tempfile.TemporaryDirectory() as store, Sender(f"http://127.0.0.1:{port}") as s:
        there = Server("--listen", f"127.0.0.1:{port}", store=store)
        for n in range(rounds * 4):
            if n % 4 == 0:
                s.kill()
                s.start()
            if n % 8 == 2:
                there.stop(9)
            if n % 8 == 5 or (n % 8 == 2 and rng.random() < .5):
                there = there if there.process.poll() is None else Server("--listen", f"127.0.0.1:{port}", store=store)
            s.feed(recent(rounds * 4 + 9 - n), [row(("main", f"f{n % 9}"), 1 + rng.randrange(9), comm=f"c{i}")
                                                for i in range(rng.randrange(1, 40))])
        if there.process.poll() is not None:
            there = Server("--listen", f"127.0.0.1:{port}", store=store)
        s.drained(120)
        assert account(metrics(there)) == (s.fed, s.fed, 0), (account(metrics(there)), s.fed)
        there.stop()
    with Far() as far, Sender(f"otlp+http://127.0.0.1:{far.port}") as s:
        for n in range(rounds * 3):
            if n % 3 == 1:
                s.kill()
                s.start()
            s.feed(recent(rounds * 3 + 9 - n), [row(("main",), 1 + n % 5, comm="c")])
        s.drained(120)
        by_id = {}
        for r in far.taken:
            for resource in decode("otlp", "ExportProfilesServiceRequest", r.body)["resource_profiles"]:
                p = resource["scope_profiles"][0]["profiles"][0]
                sample = p["samples"][0]
                by_id[str(p["profile_id"][0])] = len(sample.get("timestamps_unix_nano", [])) or sample["values"][0]
        assert sum(by_id.values()) == s.fed, (sum(by_id.values()), s.fed)
        taken, sent, lost, waiting = until("the account", lambda: s.account() if s.account()[3] == 0 else None)
        assert (taken, sent, sum(lost.values())) == (s.fed, s.fed, 0)


@test
def on_a_full_disk_the_oldest_go_and_the_collector_waits():
    if os.geteuid() != 0:
        skip("needs root, for a small file system")
    with tempfile.TemporaryDirectory() as d:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", d]).returncode:
            skip("no tmpfs can be mounted here")
        try:
            with Far(lambda r: 503) as far, Sender(f"otlp+http://127.0.0.1:{far.port}", spool=d) as s:
                rng = random.Random(3)
                for n in range(40):
                    s.feed(recent(60 - n), [row(("main", f"{rng.getrandbits(1600):x}"), 2, comm="c") for _ in range(60)])
                taken, sent, lost, waiting = s.account()
                until("the account", lambda: s.account()[0] == s.fed)
                taken, sent, lost, waiting = s.account()
                assert lost["far_side_away"] > 0 and waiting > 0 and taken == lost["far_side_away"] + waiting
                # Others fill it altogether.
                for f in os.listdir(d):
                    if f.endswith(".window"):
                        open(os.path.join(d, f + ".other"), "wb").close()
                far.answer = lambda r: 200
                s.drained(90)
                with open(os.path.join(d, "filler"), "wb") as f:
                    try:
                        f.write(bytes(1 << 20))
                    except OSError:
                        pass
                far.answer = lambda r: 503
                before = s.fed
                s.feed(recent(2), [row(("main", "in memory"), 3, comm="c")])
                until("a failure", lambda: far.requests and far.requests[-1].at > time.monotonic() - 2)
                far.answer = lambda r: 200
                until("it to be sent", lambda: any(b"in memory" in r.body for r in far.taken), 90)
                assert s.fed == before + 3
        finally:
            subprocess.run(["umount", "-l", d])


def live(fn):
    """Only where sampling is possible, which needs root."""
    def run():
        if os.geteuid() != 0:
            skip("needs root")
        fn()
    run.__name__ = fn.__name__
    return test(run)


def half(agent, name):
    return next((pid for pid, comm in children(agent.pid) if comm.startswith(f"smolder-{name}")), None)


@live
def an_agent_sends_what_it_samples_as_an_ordinary_user_whichever_half_is_killed():
    with tempfile.TemporaryDirectory() as d, Server("--token-file", token_in(d)) as there, workloads.start("shares"):
        token = os.path.join(d, "token")
        ask = {"Authorization": "Bearer " + open(token).read().strip()}
        for how in ("otlp+", "pyroscope+"):
            spool = os.path.join(d, how)
            with agent(how + there.url, "--token-file", token, "--host", how, "--spool", spool) as a:
                def comms():
                    cpu = urllib.parse.quote(KINDS[0][4] + f'{{host="{how}"}}')
                    status, body, _ = there.request("GET", f"/api/v1/labels/comm/values?query={cpu}&from=now-1h",
                                                    headers=ask)
                    assert status == 200, body
                    return json.loads(body)["values"]
                sender = until("the sender", lambda: half(a, "send"))
                until("samples of the program", lambda: "shares" in comms(), 60)
                with open(f"/proc/{sender}/status") as f:
                    status = f.read()
                assert re.search(r"^CapEff:\t0+$", status, re.M) and re.search(r"^CapPrm:\t0+$", status, re.M)
                assert not re.search(r"^Uid:\t0\t", status, re.M), status
                assert os.stat(spool).st_mode & 0o777 == 0o700
                collector = half(a, "collect")
                assert not [1 for fd in os.listdir(f"/proc/{collector}/fd")
                            if is_network(f"/proc/{collector}/fd/{fd}")], "the collector has a socket of the network"
                for name in ("send", "collect"):
                    pid = half(a, name)
                    os.kill(pid, 9)
                    until("it to be there again", lambda: half(a, name) not in (None, pid))
                before = told(spool)["samples_sent_total"]
                until("more", lambda: told(spool).get("samples_sent_total", 0) > before, 60)
            # All is sent at its end, and accounted for.
            m = told(spool)
            assert m["samples_waiting"] == 0 and m["samples_taken_total"] == m["samples_sent_total"] > 100, m
            p = subprocess.run(["unshare", "-m", "sh", "-c",
                                'mkdir -p /var/spool/smolder && mount -t tmpfs none /var/spool/smolder && '
                                'mkdir /var/spool/smolder/one && cp "$1" /var/spool/smolder/one && exec "$2" doctor',
                                "sh", os.path.join(spool, "agent.prom"), SMOLDER], capture_output=True, text=True)
            line = " ".join(p.stdout.split())
            assert f"agent one: {m['samples_sent_total']:.0f} samples sent, 0 lost; 0 windows wait" in line, p.stdout


def token_in(d):
    path = os.path.join(d, "token")
    with open(path, "w") as f:
        f.write("0123456789abcdef0123456789abcdef\n")
    os.chmod(path, 0o600)
    return path


def is_network(link):
    """A socket that is neither the one to the other half nor one that asks the kernel."""
    try:
        inode = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(link))
    except OSError:
        return False
    tables = ""
    for name in ("tcp", "tcp6", "udp", "udp6"):
        with contextlib.suppress(OSError), open(f"/proc/net/{name}") as f:
            tables += f.read()
    return bool(inode) and f" {inode[1]} " in tables


def told(spool):
    try:
        with open(os.path.join(spool, "agent.prom")) as f:
            return {m[1]: float(m[2]) for m in re.finditer(r"^smolder_agent_(\w+) (\S+)$", f.read(), re.M)}
    except FileNotFoundError:
        return {}


@test
def what_makes_no_sense_is_said_at_the_start():
    def says(*args):
        p = subprocess.run([SMOLDER, "agent", *args, "--windows-fd", "9"], capture_output=True, text=True, timeout=20)
        assert p.returncode in (1, 2), p
        return p.stderr
    assert "--to takes a URL such as" in says("--to", "otlp+ftp://x")
    assert "without a name or password" in says("--to", "https://me:secret@x")
    assert "--header takes NAME: VALUE" in says("--to", "http://x", "--header", "Authorization: Bearer x")
    assert "--header takes" in says("--to", "http://x", "--header", "a: b\r\nc: d")
    with tempfile.NamedTemporaryFile("w") as f, tempfile.TemporaryDirectory() as d:
        f.write("nothing\n")
        f.flush()
        assert "is not USER:PASSWORD" in says("--to", "http://x", "--basic-auth", f.name)
        assert "give one" in says("--to", "http://x", "--basic-auth", f.name, "--token-file", f.name)
        open(os.path.join(d, "mine"), "w").close()
        os.chown(d, 65534, -1) if os.geteuid() == 0 else None
        if os.geteuid() == 0:
            os.chown(d, 0, -1)
            assert "files that are not a spool's" in says("--to", "http://example.com", "--spool", d)
    with Far() as far, Sender(f"otlp+http://127.0.0.1:{far.port}") as s:
        until("the spool", lambda: os.path.exists(os.path.join(s.spool, "agent.prom")))
        assert "another agent uses it" in says("--to", "otlp+http://127.0.0.1:1", "--spool", s.spool)


main()

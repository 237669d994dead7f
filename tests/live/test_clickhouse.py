#!/usr/bin/env python3
"""The store in ClickHouse: the same windows go into a directory, into Debian's server and into today's, and every
question gets the same answer from all three, byte for byte."""
import contextlib
import gzip
import json
import os
import random
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import clickhouse  # noqa: E402
from always import until  # noqa: E402
from server import Server, smolder  # noqa: E402
from tap import main, test  # noqa: E402
from windows import KNOWN, LATER, PERIOD, REFUSED, STORED, Collector, finding, row  # noqa: E402

HOUR = 3600_000
DAY = 24 * HOUR
NOW = int(time.time() * 1000)
WINDOW = 10_000
SEED = int(os.environ.get("SMOLDER_SEED", "18"))
QUERIES = 240


def at(ms, step=WINDOW):
    return ms // step * step


# A directory tells ranges of sums to the hour: so that it has nothing to round, the first and the last window
# are at the beginning and the end of one.
RECENT = at(NOW, HOUR) - 10 * 60_000  # 10 minutes with sample times
MIDNIGHT = at(NOW - 2 * DAY, DAY)     # windows on both sides of it
LONG_AGO = at(NOW - 5 * DAY, HOUR)
HEAP = "memory:inuse_space:bytes:space:bytes"
# A mean over up to 30 windows has no remainder, which would go to one function or another.
WHOLE = 2329089562800
TRACES = [bytes([n]) * 16 for n in (1, 2)] + [bytes(16)]
SPANS = [bytes([n]) * 8 for n in (3, 4, 5)]


def functions(r, host):
    """Stacks of different depth, with functions that many have."""
    stack = ["main@app"] + [f"f{r.randrange(12)}@app" for _ in range(r.randrange(6))]
    if r.random() < 0.3:
        stack.append("[k]read@[kernel]")
    if r.random() < 0.1:
        stack.insert(0, "[m][truncated]")
    if r.random() < 0.1:
        stack.append(f"only_{host}@lib.so /src/a'b\\c.c:{r.randrange(1, 9)}")
    return tuple(stack)


def labels(r, host):
    comms = ["nginx", "db", "we'ird\\", "äpi", "java"]
    comm = r.choice(comms)
    out = {"host": host, "comm": comm, "pid": str(100 + comms.index(comm))}
    if r.random() < 0.6:
        out["service"] = r.choice(["shop", "search"])
    if r.random() < 0.3:
        out["thread"] = r.choice(["worker", "gc"])
    if r.random() < 0.3:
        out["version"] = r.choice(["v1.2", "v1.3", "v2"])
    return out


def rows(r, host, timed, count=12):
    out = []
    for _ in range(count):
        n = r.randrange(1, 6)
        out.append(row(functions(r, host), n, times=sorted(r.randrange(500) for _ in range(n)) if timed else None,
                       **labels(r, host)))
    return out


class Counting(Collector):
    """Counts the samples of each type by itself. `before`: the collector that it succeeds, which took `more`
    that it did not send."""

    def __init__(self, instance, before=None, more=0):
        super().__init__(instance)
        self.counts, self.bases = {}, {k: c.taken + more for k, c in before.counts.items()} if before else {}

    def message(self, start_ms, rows, kind="cpu", lose=None, **more):
        """`lose`: for which reason one sample more was taken and lost."""
        counts = self.counts.setdefault(kind, Collector(self.instance))
        if not counts.taken:
            counts.base = counts.taken = self.bases.get(kind, 0)
        if lose is not None:
            counts.lost[lose] += 1
            counts.taken += 1
        self.base, self.taken, self.lost = counts.base, counts.taken, counts.lost
        out = super().message(start_ms, rows, kind=kind, **more)
        counts.taken = self.taken
        return out


class Corpus:
    """Messages in the order in which they are sent, and what each is answered."""

    def __init__(self):
        self.messages = []
        r = random.Random(SEED)
        kin = [bytes([n]) * 8 for n in range(1, 4)]
        collectors = [(Counting(k + bytes(8)), f"host{n}") for n, k in enumerate(kin)]
        for start, count, timed in ((LONG_AGO, 40, False), (MIDNIGHT - 2 * 60_000, 25, False),
                                    (RECENT, 60, True)):
            for w in range(count):
                for n, (c, host) in enumerate(collectors):
                    if r.random() < 0.05 and w not in (0, count - 1):
                        continue  # a gap
                    self.window(r, c, host, start + w * WINDOW, timed, w in (0, count - 1))
            # Of each machine another collector goes on; what the one before had not sent is lost.
            collectors = [(Counting(kin[n] + r.randbytes(8), c, n), host) for n, (c, host) in enumerate(collectors)]
        self.add(collectors[0][0].message(NOW + 3 * HOUR, rows(r, "host0", False)), REFUSED)
        self.add(collectors[0][0].message(NOW - 40 * DAY, rows(r, "host0", False)), REFUSED)
        self.findings(collectors[0][0])

    def add(self, message, status=STORED):
        self.messages.append((message, status))

    def window(self, r, c, host, start, timed, whole):
        got = rows(r, host, timed)
        message = c.message(start, got, lose=r.randrange(4) if r.random() < 0.05 else None)
        self.add(message)
        if r.random() < 0.1:
            self.add(message, KNOWN)
        if r.random() < 0.1:  # what came late
            self.add(c.message(start, rows(r, host, timed, 2), part=1))
        if whole or r.random() < 0.2:
            self.add(c.message(start, [row(functions(r, host), 3, value=r.randrange(10**6), **labels(r, host))
                                       for _ in range(3)], kind="alloc", unit="bytes", period=0))
        if whole or r.random() < 0.5:
            self.add(c.message(start, [row(functions(r, host), 1, value=WHOLE * r.randrange(1000), **labels(r, host))
                                       for _ in range(3)], kind=HEAP, unit="bytes", period=0))
        if r.random() < 0.3:
            some = [(r.choice(TRACES), r.choice(SPANS), one) for one in r.sample(got, 3)]
            self.add(c.message(start, [], taken=0, spans=some))

    def findings(self, c):
        for start in (LONG_AGO, RECENT):
            told = [finding(n, f"one {n}", start + n * 1000, start + 60_000, pid=n) for n in range(4)]
            self.add(c.message(start, [], findings=told))
            told = [finding(2, "two goes on", start + 2000, start + 120_000)]
            self.add(c.message(start + 60_000, [], findings=told))


def send(server, corpus):
    for n, (message, status) in enumerate(corpus.messages):
        reply = server.post(message)
        assert reply.status == status, f"message {n}: {reply.status} {reply.words}, not {status}"


def canonical_pprof(body):
    """A profile's lines, whatever the order of its tables: names, modules, labels and values."""
    import pprof
    import tempfile
    with tempfile.NamedTemporaryFile(suffix=".pb.gz") as f:
        f.write(body if body[:2] == b"\x1f\x8b" else gzip.compress(body))
        f.flush()
        return sorted(repr((s.count, s.value, sorted(s.labels.items()), s.frames)) for s in pprof.read(f.name))


SELECTORS = [
    "cpu", "cpu", 'cpu{service="shop"}', 'cpu{service!="shop"}', 'cpu{comm="we\'ird\\\\"}', 'cpu{comm=~"n.*|d."}',
    'cpu{comm!~"n.*"}', 'cpu{host="host1",service="search"}', 'cpu{thread="nginx"}', 'cpu{thread=~"w.+"}',
    'cpu{version=""}', 'cpu{version=~"v1\\\\..",host!="host0"}', 'cpu{service="none"}', 'cpu{comm=~"(?i)NGINX"}',
    'cpu{comm=~"(n)ginx(?<=x)"}', "alloc", 'alloc{host="host2"}', HEAP, HEAP + '{service="shop"}', "nothing",
    'cpu{comm="äpi"}']
LABELS = ["comm", "host", "service", "thread", "version", "pid", "none"]


def range_of(r):
    start = r.choice([LONG_AGO, MIDNIGHT - 2 * 60_000, RECENT])
    what = r.random()
    if what < 0.2:
        return LONG_AGO - HOUR, NOW
    if what < 0.6:
        return start, start + 300_000 * r.randrange(1, 4)
    first = start + r.randrange(-60_000, 200_000)
    return first, first + r.randrange(1, 400_000)


def questions():
    r = random.Random(SEED + 1)
    for n in range(QUERIES):
        first, last = range_of(r)
        asked = {"query": r.choice(SELECTORS), "from": first, "to": last}
        kind = r.choice(["query"] * 6 + ["diff", "series", "series", "series", "values", "labels", "types", "heatmap",
                                         "findings", "spans", "slots", "changes"])
        path = f"/api/v1/{kind}"
        if kind in ("query", "diff", "spans", "slots"):
            path = "/api/v1/diff" if kind == "diff" else "/api/v1/query"
            asked["format"] = r.choice(["json", "folded", "pprof", "columns", "top", "text", "tree"] if kind != "diff"
                                       else ["json", "folded", "columns"])
            if r.random() < 0.4:
                asked["by"] = r.choice(LABELS)
            if r.random() < 0.3:
                asked["keep"] = ",".join(r.sample(LABELS, 2))
        if kind == "spans":
            asked["from"], asked["to"] = r.choice([(RECENT, RECENT + 300_000), (RECENT + 61_000, RECENT + 72_345)])
            asked["query"] = r.choice(["cpu", 'cpu{service="shop"}', 'cpu{comm=~"n.*"}'])
            if r.random() < 0.5:
                asked["trace"] = r.choice(TRACES[:2]).hex()
            else:
                asked["span"] = r.choice(SPANS).hex()
        elif HEAP in asked["query"] and kind in ("query", "diff", "series"):
            asked["from"] = r.choice([LONG_AGO, RECENT]) + r.randrange(100_000)
            asked["to"] = asked["from"] + r.randrange(280_000)
        if kind == "slots":
            asked["from"] = RECENT + r.randrange(300_000)
            asked["to"] = asked["from"] + r.randrange(1, 20_000)
            asked["slots"] = r.choice(["1", "1", "0-24"])
        if kind == "series":
            if r.random() < 0.7:
                asked["by"] = r.choice(LABELS)
            asked["step"] = r.choice(["10s", "30s", "5m", "1h"])
        if kind in ("values", "labels", "types"):
            # A directory tells names to five minutes.
            asked["from"], asked["to"] = at(first, 300_000), at(last, 300_000) + 300_000
        if kind == "values":
            path = f"/api/v1/labels/{r.choice(LABELS)}/values"
        if kind == "changes":
            asked["query"] = r.choice(["cpu", 'cpu{service="shop"}', 'cpu{host=~"host[01]"}'])
            asked["from"] = RECENT + 300_000
            asked["to"] = asked["from"] + 300_000
        if kind == "heatmap":
            asked["from"] = RECENT + r.randrange(300_000)
            asked["to"] = asked["from"] + r.randrange(1, 60_000)
        yield path, asked


TOLD = ("X-Smolder-From", "X-Smolder-To", "X-Smolder-Samples", "X-Smolder-Lost", "X-Smolder-Damaged")


def answer(server, path, asked):
    status, body, headers = server.get(path, **asked)
    if asked.get("format") == "pprof" and status == 200:
        body = canonical_pprof(body)
    return status, {h: headers[h] for h in TOLD if headers[h]}, body


def around(want, got):
    """Where two answers differ."""
    a, b = str(want), str(got)
    first = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), 0)
    return [f"  …{text[max(first - 150, 0):first + 250]}…\n" for text in (a, b)]


def compare(servers):
    """Every question to every server; returns how many got an answer with something in it."""
    differ, full, answered = [], 0, set()
    names = list(servers)
    for path, asked in questions():
        answers = {n: answer(s, path, asked) for n, s in servers.items()}
        want = answers[names[0]]
        if want[0] == 200:
            answered.add(path.split("/")[3])
        full += want[0] == 200 and want[1].get("X-Smolder-Samples") not in (None, "0")
        for n in names[1:]:
            if answers[n] != want:
                differ.append(f"{n}: {path} {asked}\n" + "".join(around(want, answers[n])))
    assert not differ, f"{len(differ)} of {QUERIES} differ:\n" + "\n".join(differ[::2][:12])
    assert answered == {"query", "diff", "series", "labels", "types", "heatmap", "findings", "changes"}, answered
    return full


def counts(server):
    s = server.json("/api/v1/status")
    return s["samples"], {k: s["store"][k] for k in ("windows", "first", "last") if k in s["store"]}


@contextlib.contextmanager
def serving(database, *args):
    """`smolder serve` on a ClickHouse."""
    env = dict(os.environ, SMOLDER_CLICKHOUSE_PASSWORD=clickhouse.PASSWORD)
    with Server("--migrate", "yes", *args, store=database.store, env=env) as server:
        yield server


@test
def every_question_gets_the_same_answer():
    corpus = Corpus()
    with contextlib.ExitStack() as s:
        servers = {"a directory": s.enter_context(Server())}
        servers["18.16"] = s.enter_context(serving(s.enter_context(clickhouse.debians())))
        servers["today's"] = s.enter_context(serving(s.enter_context(clickhouse.todays())))
        for server in servers.values():
            send(server, corpus)
        full = compare(servers)
        assert full > QUERIES // 5, f"only {full} answers have samples"
        told = {n: counts(one) for n, one in servers.items()}
        assert len({json.dumps(t) for t in told.values()}) == 1, told
        samples = told["a directory"][0]
        assert samples["taken"] == samples["stored"] + sum(samples["lost"].values()), samples
        assert samples["lost"]["collector_died"] > 0, samples


def total(server, **asked):
    """How many samples there are, and how many of each comm."""
    status, _, headers = server.get("/api/v1/query", query="cpu", format="folded", **asked)
    assert status == 200
    return int(headers["X-Smolder-Samples"])


def both(check):
    """The same with either version, each with a database of its own."""
    for version in (clickhouse.debians, clickhouse.todays):
        with version() as database:
            check(database)


@test
def what_two_servers_stored_counts_once():
    def check(database):
        r = random.Random(SEED + 2)
        c, start = Counting(bytes(16)), RECENT
        with serving(database) as one, serving(database) as two:
            first = c.message(start, rows(r, "a", True))
            assert two.post(first).status == STORED
            assert one.post(first).status == KNOWN
            messages = [(start + n * WINDOW, rows(r, "a", True)) for n in range(1, 6)]
            for when, got in messages:
                m = c.message(when, got)
                # Each stored the one before, so none asks whether the other has it.
                assert one.post(m).status == STORED and two.post(m).status == STORED
            late = c.message(start, [], spans=[(TRACES[0], SPANS[0], row(("main", "work"), 2, comm="x"))], taken=0)
            assert one.post(late).status == STORED and two.post(late).status == STORED
            assert int(database.ask("SELECT count() - uniqExact(sequence) FROM windows WHERE head = 1")) == 5
            want = c.counts["cpu"].taken
            for server in (one, two):
                assert total(server, **{"from": start, "to": start + 100_000}) == want
                assert total(server, **{"from": start, "to": start + 100_000, "by": "comm"}) == want
                assert total(server, **{"from": start, "to": start + 100_000, "slots": "1"}) == want
                assert total(server, **{"from": start, "to": start + 100_000, "span": SPANS[0].hex()}) == 2
                t = server.json("/api/v1/series", query="cpu", step="10s", **{"from": start, "to": start + 100_000})
                assert sum(line["total"] for line in t["lines"]) == want * PERIOD
                until("the counts", lambda s=server: all(  # which are read every two seconds
                    s.json("/api/v1/status")["samples"][k] == want for k in ("taken", "stored")), 20)
    both(check)


@test
def days_end_and_times_of_samples_sooner():
    def check(database):
        r = random.Random(SEED + 3)
        c = Counting(bytes(16))
        days = [at(NOW - n * DAY, DAY) + 12 * HOUR for n in (10, 3)] + [RECENT]
        with serving(database, "--times", "20d") as server:
            for start in days:
                assert server.post(c.message(start, rows(r, "a", True))).status == STORED
            exact = {"from": days[1], "to": days[1] + 5000, "slots": "1"}
            assert total(server, **exact)
        with serving(database, "--retention", "5d", "--times", "36h") as server:
            # It looks for them after what is stored.
            c.reset()
            assert server.post(c.message(days[2] + WINDOW, rows(r, "a", True))).status == STORED
            until("the times to go", lambda: server.get("/api/v1/query", query="cpu", **exact)[0] == 404, 30)
            until("the day to go", lambda: not total(server, **{"from": days[0], "to": days[0] + WINDOW}), 30)
            assert total(server, **{"from": days[1], "to": days[1] + WINDOW})
            assert total(server, **{"from": days[2], "to": days[2] + 5000, "slots": "1"})
            for table in ("stacks", "frames", "series", "windows"):
                assert database.ask(f"SELECT min(day) FROM {table}") == day_of(days[1]), table
            # What was taken and stored of days that are gone is still known.
            told = until("the accounts", lambda: (lambda s: s["stored"] == c.counts["cpu"].taken and s)(
                server.json("/api/v1/status")["samples"]), 20)
            assert told["taken"] == told["stored"], told
            t = server.json("/api/v1/series", query="cpu", step="1h", **{"from": days[1], "to": NOW})
            assert not any(t["restarted"]), t["restarted"]
    both(check)


def day_of(ms):
    return time.strftime("%Y-%m-%d", time.gmtime(ms / 1000))


@test
def what_is_wrong_is_said():
    c = Counting(bytes(16))
    with clickhouse.debians() as database:
        env = dict(os.environ, SMOLDER_CLICKHOUSE_PASSWORD="wrong")
        p = smolder("serve", "--store", database.store, env=env)
        assert p.returncode == 1 and "refuses the user or the password" in p.stderr, p.stderr
        env["SMOLDER_CLICKHOUSE_PASSWORD"] = clickhouse.PASSWORD
        p = smolder("serve", "--store", database.store, env=env)
        assert p.returncode == 1 and "--migrate" in p.stderr, p.stderr
        p = smolder("serve", "--store", database.store.replace("smolder@", "smolder:x@"))
        assert p.returncode == 1 and "password" in p.stderr and ":x@" not in p.stderr, p.stderr
        with serving(database) as server:
            assert server.post(c.message(RECENT, rows(random.Random(1), "a", True))).status == STORED
            database.process.terminate()
            database.process.wait()
            reply = server.post(c.message(RECENT + WINDOW, rows(random.Random(2), "a", True)))
            assert reply.status == LATER and "does not answer" in reply.words, reply.words
            status, body, _ = server.get("/api/v1/query", query="cpu")
            assert status == 500 and b"does not answer" in body, body


if __name__ == "__main__":
    main()

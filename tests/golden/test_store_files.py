#!/usr/bin/env python3
"""The store's files are what docs/store.md says: read by the sqlite3 shell and zstd alone.

build/tests/unit/test_store writes a store and prints what it put in, as "start comm pid stack count
value"; everything below is from the page, not from our sources.
"""
import collections
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import BUILD, ROOT, main, skip, test  # noqa: E402

WRITER = os.path.join(BUILD, "tests", "unit", "test_store")


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def packed(self):
        v = shift = 0
        while True:
            b = self.data[self.at]
            self.at += 1
            v |= (b & 0x7f) << shift
            shift += 7
            if b < 0x80:
                return v

    def zigzag(self):
        v = self.packed()
        return v >> 1 ^ -(v & 1)

    def raw(self, n):
        self.at += n
        assert self.at <= len(self.data), "past the end"
        return self.data[self.at - n:self.at]

    def columns(self, n):
        sizes = [self.packed() for _ in range(n)]
        return [Bytes(self.raw(s)) for s in sizes]

    @property
    def more(self):
        return self.at < len(self.data)


def sql(path, query):
    out = subprocess.run(["sqlite3", "-readonly", "-separator", "|", path, query], check=True,
                         capture_output=True, text=True).stdout
    return [line.split("|") for line in out.splitlines()]


def unzstd(hexed):
    return subprocess.run(["zstd", "-dcq"], input=bytes.fromhex(hexed), check=True,
                          capture_output=True).stdout


class Dictionary:
    def __init__(self, path):
        self.strings, self.modules, self.frames = [""], [None], [None]
        self.stacks, self.series = [None], [{}]
        for (blob,) in sql(path, "SELECT hex(entries) FROM dictionary ORDER BY id"):
            b = Bytes(unzstd(blob))
            while b.more:
                self.batch(b)

    def batch(self, b):
        assert b.packed() == 1
        for _ in self.section(b, self.strings):
            self.strings.append(b.raw(b.packed()).decode())
        for _ in self.section(b, self.modules):
            self.modules.append(self.strings[[b.packed() for _ in range(6)][0]])
        for _ in self.section(b, self.frames):
            name, module, *_ = [b.packed() for _ in range(6)]
            self.frames.append(f"{self.strings[name]}@{self.modules[module] or ''}")
        for _ in self.section(b, self.stacks):
            parent = len(self.stacks) - b.packed()
            self.stacks.append((parent, b.packed()))
        for _ in self.section(b, self.series):
            labels = [(b.packed(), b.packed()) for _ in range(b.packed())]
            self.series.append({self.strings[k]: self.strings[v] for k, v in labels})

    @staticmethod
    def section(b, into):
        assert b.packed() == len(into), "a batch that does not follow"
        return range(b.packed())

    def stack(self, i):
        path = []
        while i:
            i, frame = self.stacks[i]
            path.append(self.frames[frame])
        return ";".join(reversed(path))


def rows(blob, period, dictionary):
    """(start of the window, comm, pid, stack) -> (count, value); the windows; rows in order"""
    b = Bytes(unzstd(blob))
    assert b.packed() == 1
    flags = b.packed()
    windows, start = [], 0
    for _ in range(b.packed()):
        start += b.zigzag()
        windows.append((start, *[b.packed() for _ in range(4)]))
    series, stacks, stack, where, count, value = b.columns(6)
    found, order, s = {}, [], 0
    while series.more:
        s += series.packed()
        k = 0
        for _ in range(stacks.packed()):
            k += stack.packed()
            w = 0
            for _ in range(where.packed() if len(windows) > 1 else 1):
                w += where.packed() if len(windows) > 1 else 0
                n = count.packed()
                v = n * period + (value.zigzag() if flags & 1 else 0)
                labels = dictionary.series[s]
                key = windows[w][0], labels["comm"], labels["pid"], dictionary.stack(k)
                found[key] = n, v
                order.append((key, n))
    assert not any(c.more for c in (stacks, stack, where, count, value))
    return found, windows, order


def times(blob, order):
    """(start, comm, pid, stack) -> steps of 20 ms"""
    b = Bytes(unzstd(blob))
    assert b.packed() == 1
    assert b.packed() == len(order)
    b.packed()
    known, low, high = b.columns(3)
    found = {}
    for key, count in order:
        at, steps = 0, []
        for _ in range(known.packed() if known.data else count):
            at += low.raw(1)[0] | high.raw(1)[0] << 8
            steps.append(at)
        found[key] = steps
    return found


def add(total, found, by=lambda key: key):
    for key, (n, v) in found.items():
        was = total.get(by(key), (0, 0))
        total[by(key)] = was[0] + n, was[1] + v


@test
def a_reader_of_the_page_finds_every_sample():
    if not shutil.which("sqlite3") or not shutil.which("zstd"):
        skip("needs sqlite3 and zstd")
    with tempfile.TemporaryDirectory() as tmp:
        store = os.path.join(tmp, "store")
        said = subprocess.run([WRITER, "make", store], check=True, capture_output=True,
                              text=True).stdout
        want, when = {}, collections.defaultdict(list)
        for line in said.splitlines():
            start, comm, pid, stack, count, value, steps = line.split(" ")
            key = int(start), comm, pid, stack
            add(want, {key: (int(count), int(value))})
            when[key] += [int(s) for s in steps.split(",")]
        assert len(want) > 1000

        raw, kept, waiting = {}, {}, 0
        for day in sorted(glob.glob(os.path.join(store, "raw", "*.db"))):
            d = Dictionary(day)
            ((ident,),) = sql(day, "SELECT value FROM meta WHERE key = 'id'")
            assert sql(day, "SELECT value FROM meta WHERE key = 'format'") == [["1"]]
            for slot, through, period, blob in sql(
                    day, "SELECT p.slot, s.through, t.period, hex(p.rows) FROM packs p"
                    " JOIN types t ON t.id = p.type JOIN slots s ON s.slot = p.slot"):
                found, windows, order = rows(blob, int(period), d)
                assert all(int(slot) <= w[0] / 1000 < int(slot) + 300 for w in windows)
                add(raw, found)
                hour = sql(day, f"SELECT strftime('%Y-%m-%dT%H', {slot}, 'unixepoch')")[0][0]
                ((blob,),) = sql(os.path.join(store, "times", hour + ".db"),
                                 f"SELECT hex(times) FROM times WHERE slot = {slot} AND"
                                 f" raw = {ident} AND through = {through}")
                kept.update(times(blob, order))
            for period, blob, steps in sql(day, "SELECT t.period, hex(w.rows), hex(w.times)"
                                           " FROM windows w JOIN types t ON t.id = w.type"):
                found, windows, order = rows(blob, int(period), d)
                assert len(windows) == 1
                add(raw, found)
                kept.update(times(steps, order))
                waiting += 1
        assert raw == want
        assert waiting, "nothing was left unpacked"
        assert kept == {k: sorted(v) for k, v in when.items()}

        # The sums of five minutes are those of the windows in them, and so are those of an hour.
        for span in (300, 3600):
            sums, slots = {}, set()
            for month in glob.glob(os.path.join(store, "roll", "*.db")):
                d = Dictionary(month)
                for slot, period, blob in sql(
                        month, "SELECT r.slot, t.period, hex(r.rows) FROM rolls r JOIN types t"
                        f" ON t.id = r.type WHERE span = {span}"):
                    found, windows, _ = rows(blob, int(period), d)
                    assert [w[:2] for w in windows] == [(int(slot) * 1000, span * 1000)]
                    add(sums, found)
                    slots.add(int(slot))
            assert slots, f"no sums of {span} s"
            from_windows = {}
            add(from_windows, {k: v for k, v in want.items()
                               if k[0] // 1000 // span * span in slots},
                by=lambda k: (k[0] // 1000 // span * span * 1000, *k[1:]))
            assert sums == from_windows, f"sums of {span} s differ"


@test
def the_commands_of_the_page_work():
    if not shutil.which("sqlite3") or not shutil.which("zstd"):
        skip("needs sqlite3 and zstd")
    with open(os.path.join(ROOT, "docs", "store.md"), encoding="utf-8") as f:
        commands = [line[4:] for line in f.read().split("## By hand")[1].splitlines()
                    if line.startswith("    ") and not line.startswith("    #")]
    assert len(commands) >= 5, commands
    with tempfile.TemporaryDirectory() as tmp:
        subprocess.run([WRITER, "make", os.path.join(tmp, "store")], check=True,
                       stdout=subprocess.DEVNULL)
        store = os.path.join(tmp, "store")
        day = os.path.basename(sorted(glob.glob(os.path.join(store, "raw", "*.db")))[0])
        for c in commands:
            c = re.sub(r"2026-11-15\.db", day, c)
            p = subprocess.run(["bash", "-o", "pipefail", "-c", c], cwd=store, capture_output=True,
                               text=True)
            assert p.returncode in (0, 141) and p.stdout.strip(), f"{c}: {p.stderr or 'no output'}"


main()

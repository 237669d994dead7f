"""Window messages, written from the format's description in src/profile/window.h and entries.h, apart
from the program's own code: what a server stores of them is held against a sum made here.

    c = Collector()
    message = c.message(start_ms, [row(("main", "work"), 3, comm="nginx"), ...])
    reply = Reply(answer_bytes)
"""
import os
import struct

USER, KERNEL, INLINED, INTERPRETED, JIT, GO, BPF, MARK = range(8)
STORED, KNOWN, RESET, LATER, REFUSED = range(5)
PERIOD = 10101010
WINDOW_MS = 10000
STEP_MS = 20


def u64(n):
    out = bytearray()
    while n >= 0x80:
        out.append(n & 0x7f | 0x80)
        n >>= 7
    out.append(n)
    return bytes(out)


def i64(n):
    return u64(n << 1 if n >= 0 else (-n << 1) - 1)


def text(s):
    b = s if isinstance(s, bytes) else s.encode()
    return u64(len(b)) + b


def frame(spec):
    """ "name", "name@module", "[k]name": as tests/unit/sample.h writes them; a source file and line
    may stand behind: "name@module /src/file.c:12"."""
    kinds = {"[k]": KERNEL, "[i]": INLINED, "[j]": JIT, "[m]": MARK, "[g]": GO, "[b]": BPF}
    kind = kinds.get(spec[:3], USER)
    spec, _, place = (spec[3:] if spec[:3] in kinds else spec).partition(" /")
    name, _, module = spec.partition("@")
    if place:
        source, _, line = place.rpartition(":")
        return name, module, kind, "/" + source, int(line)
    return name, module, kind


def row(stack, count, value=None, times=None, **labels):
    """A stack is a tuple of frames, root first."""
    return {"stack": tuple(frame(f) for f in stack), "labels": tuple(sorted(labels.items())),
            "count": count, "value": count * PERIOD if value is None else value, "times": times}


def finding(id, headline, began_ms, until_ms, kind="busy-poll", pid=0, tid=0, sure=0.95, host="", comm="",
            thread="", container="", means="", next="", stack="", facts=()):
    """As in src/profile/finding.h."""
    out = b"".join(map(u64, (id, began_ms, until_ms, pid, tid))) + struct.pack("<d", sure)
    out += b"".join(map(text, (kind, host, comm, thread, container, headline, means, next, stack)))
    out += u64(len(facts))
    for name, value in facts:
        out += text(name) + struct.pack("<d", value)
    return out


class Table:
    """Distinct things and their ids, from 1 on."""

    def __init__(self):
        self.ids, self.sent = {}, 1

    def put(self, thing):
        return self.ids.setdefault(thing, len(self.ids) + 1)

    def pending(self):
        new = [t for t, i in self.ids.items() if i >= self.sent]
        first, self.sent = self.sent, len(self.ids) + 1
        return first, new


class Collector:
    def __init__(self, instance=None):
        self.instance = instance or os.urandom(16)
        self.sequence, self.epoch = 0, 1
        self.taken = self.base = 0
        self.lost = [0, 0, 0, 0, 0]
        self.files = {}  # by a module's name: its path and build id
        self.reset()

    def reset(self):
        """Begins a new dictionary."""
        self.epoch += 1
        self.strings, self.modules, self.frames = Table(), Table(), Table()
        self.stacks, self.series = Table(), Table()

    def string(self, s):
        return self.strings.put(s) if s else 0

    def stack(self, frames):
        parent = 0
        for name, module, kind, *place in frames:
            m = self.modules.put((self.string(module), *map(self.string, self.files.get(
                module, ("", ""))))) if module else 0
            source, line = (self.string(place[0]), place[1]) if place else (0, 0)
            parent = self.stacks.put((parent, self.frames.put(
                (self.string(name), m, kind, 0, source, line))))
        return parent

    def entries(self):
        out = u64(1)
        for table, write in (
                (self.strings, lambda i, s: text(s)),
                (self.modules, lambda i, m: b"".join(map(u64, m)) + bytes(3)),
                (self.frames, lambda i, f: b"".join(map(u64, f))),
                (self.stacks, lambda i, s: u64(i - s[0]) + u64(s[1])),
                (self.series, lambda i, s: u64(len(s)) + b"".join(u64(k) + u64(v) for k, v in s))):
            first, new = table.pending()
            out += u64(first) + u64(len(new))
            out += b"".join(write(first + n, thing) for n, thing in enumerate(new))
        return out

    def chain(self, start_ms, depth, part_len=60000):
        """Messages that bring one stack of so many frames, all the same, its id being `depth`: the
        entries in parts, then a window of one sample. For a collector that has sent nothing yet."""
        self.string("f")
        self.frames.put((1, 0, USER, 0, 0, 0))
        for first in range(1, depth + 1, part_len):
            count = min(part_len, depth + 1 - first)
            head = self.entries()[:-4] if first == 1 else u64(1) + bytes([2, 0, 1, 0, 2, 0])
            entries = head + u64(first) + u64(count) + bytes([1, 1]) * count + bytes([1, 0])
            self.entries = lambda: entries
            yield self.message(start_ms, [], part=0xffffffff)
            del self.entries
        self.entries = lambda: u64(1) + bytes([2, 0, 1, 0, 2, 0]) + u64(depth + 1) + bytes([0, 1, 0])
        self.stack = lambda frames: depth
        yield self.message(start_ms, [row(("f",), 1)])

    def message(self, start_ms, rows, length_ms=WINDOW_MS, kind="cpu", unit="nanoseconds",
                period=PERIOD, metrics=(), part=0, taken=None, findings=(), spans=()):
        """`spans`: (trace, span, row) each; such a message has no rows, nor do its samples count."""
        if part == 0:
            self.sequence += 1
        self.taken += sum(r["count"] for r in rows) if taken is None else taken
        placed = {}
        for r in rows:
            series = self.series.put(tuple(sorted(
                (self.string(k), self.string(v)) for k, v in r["labels"]))) if r["labels"] else 0
            at = placed.setdefault((series, self.stack(r["stack"])), [0, 0, []])
            at[0] += r["count"]
            at[1] += r["value"]
            at[2] += r["times"] or []
        span_rows = []
        for at, (_, _, r) in enumerate(spans):
            series = self.series.put(tuple(sorted(
                (self.string(k), self.string(v)) for k, v in r["labels"]))) if r["labels"] else 0
            span_rows.append((series, self.stack(r["stack"]), at, r["count"], r["value"]))
        out = b"SMW\x01" + self.instance + u64(self.sequence) + u64(part) + u64(self.epoch)
        out += u64(start_ms) + u64(length_ms) + text(kind) + text(unit) + u64(period)
        out += u64(self.base) + u64(self.taken) + b"".join(map(u64, self.lost))
        entries = self.entries()
        out += u64(len(entries)) + entries + u64(len(placed))
        last_series = last_stack = 0
        ordered = sorted(placed.items())
        for (series, stack), (count, value, _) in ordered:
            out += u64(series - last_series) + i64(stack - last_stack) + u64(count)
            out += i64(value - count * period)
            last_series, last_stack = series, stack
        has_times = bool(rows) and all(r["times"] is not None for r in rows)
        out += u64(1 if has_times else 0)
        for _, (_, _, times) in ordered if has_times else ():
            at = 0
            for t in sorted(times):
                out += u64(t - at)
                at = t
        out += u64(len(metrics))
        for name, value in metrics:
            out += text(name) + struct.pack("<d", value)
        if findings or spans:
            out += u64(len(findings)) + b"".join(findings)
        if spans:
            out += u64(len(spans)) + b"".join(trace + span for trace, span, _ in spans)
            out += u64(len(span_rows))
            last_series = last_stack = 0
            for series, stack, at, count, value in sorted(span_rows):
                out += u64(series - last_series) + i64(stack - last_stack) + u64(at) + u64(count)
                out += i64(value - count * period)
                last_series, last_stack = series, stack
        return out


class Reply:
    def __init__(self, data):
        assert data[:4] == b"SMR\x01", data[:20]
        self.instance, self.at, self.data = data[4:20], 20, data
        self.sequence, self.part, self.status, self.live_until, self.flush, _ = (
            self.number() for _ in range(6))
        length = self.number()
        self.words = data[self.at:self.at + length].decode()
        assert self.at + length == len(data), data

    def number(self):
        n = shift = 0
        while True:
            b = self.data[self.at]
            self.at += 1
            n |= (b & 0x7f) << shift
            shift += 7
            if b < 0x80:
                return n


class Sums:
    """What a store of these rows must answer."""

    def __init__(self):
        self.rows = []  # (start_ms, row)

    def add(self, start_ms, rows):
        self.rows += [(start_ms, r) for r in rows]
        return rows

    def of(self, start_ms, end_ms, wanted=lambda labels: True):
        return [r for t, r in self.rows if start_ms <= t < end_ms and wanted(dict(r["labels"]))]

    @staticmethod
    def folded(rows, by=None, what="value"):
        out = {}
        for r in rows:
            stack = [name for name, _, _ in r["stack"]]
            if by:
                stack.insert(0, dict(r["labels"]).get(by) or f"[no {by}]")
            key = ";".join(stack)
            out[key] = out.get(key, 0) + r[what]
        return out

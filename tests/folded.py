"""Folded stacks, as numbers that can be judged.

A profile is a list of (frames, count), frames[0] the root: for smolder and BCC the process.
"""
import math
import re

LINE = re.compile(r"(?P<stack>.*[^ ]) (?P<count>[0-9]+)\Z")
UNNAMED = re.compile(r"\[unknown\]|\[?0x[0-9a-f]+\]?|\[.*\+0x[0-9a-f]+\]|\[(anon|heap|stack|vsyscall)\]|\[missed.*\]", re.I)
MARK = re.compile(r"_\[[kji]\]\Z")


class Stacks(list):
    @property
    def total(self):
        return sum(n for _, n in self)

    def count(self, name):
        """Samples with a frame that is `name`, or contains it if it is a qualified name."""
        return sum(n for frames, n in self if any(is_function(f, name) for f in frames))

    def share(self, name):
        return self.count(name) / self.total if self else 0.0

    def of(self, comm):
        return Stacks((f, n) for f, n in self if f[0] == comm)

    def comms(self):
        return {f[0] for f, _ in self}

    def frames(self):
        """frame -> times seen, the process left out."""
        seen = {}
        for frames, n in self:
            for f in frames[1:]:
                seen[f] = seen.get(f, 0) + n
        return seen

    def named(self):
        """(share of frames with a name, the frames without one)."""
        seen = self.frames()
        bad = {f: n for f, n in seen.items() if is_unnamed(f)}
        return 1 - sum(bad.values()) / max(1, sum(seen.values())), bad


def is_unnamed(frame):
    return UNNAMED.fullmatch(MARK.sub("", frame))


def is_function(frame, name):
    frame = MARK.sub("", frame)
    return frame == name or (not name.isidentifier() and name in frame)


def parse(text):
    """Every line must be `frame;frame;… count`."""
    stacks = Stacks()
    for i, line in enumerate(text.split("\n")[:-1] if text else [], 1):
        m = LINE.match(line)
        assert m, f"line {i} is not a folded stack: {line!r}"
        frames = tuple(m["stack"].split(";"))
        assert all(frames), f"line {i} has an empty frame: {line!r}"
        stacks.append((frames, int(m["count"])))
    assert not text or text.endswith("\n"), "the last line is cut"
    return stacks


def standard_error(share, samples):
    return math.sqrt(share * (1 - share) / samples)


def check_shares(stacks, truth, points=None, errors=4):
    """Each share of `truth` (name -> share) is within so many points, or standard errors."""
    n = stacks.total
    assert n, "no samples"
    for name, true in truth.items():
        if name == "cpu_ns":
            continue
        seen = stacks.share(name)
        room = points / 100 if points else errors * standard_error(true, n)
        assert abs(seen - true) <= room, \
            f"{name}: {seen:.4f} of {n} samples, truth {true:.4f}, allowed {room:.4f}"


def check_same(a, b, names, errors=4):
    """Two profiles of the same run agree on the shares, within standard errors of both."""
    for name in names:
        if name == "cpu_ns":
            continue
        p, q = a.share(name), b.share(name)
        mean = (a.count(name) + b.count(name)) / (a.total + b.total)
        room = errors * math.sqrt(mean * (1 - mean) * (1 / a.total + 1 / b.total))
        assert abs(p - q) <= room, \
            f"{name}: {p:.4f} of {a.total} against {q:.4f} of {b.total}, allowed {room:.4f}"


def check_named(stacks, share=0.99):
    got, bad = stacks.named()
    worst = sorted(bad.items(), key=lambda kv: -kv[1])[:8]
    assert got >= share, f"{got:.4f} of the frames have a name; without: {worst}"

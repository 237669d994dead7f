#!/usr/bin/env python3
"""`smolder profile` prints what BCC's profile prints, so that what reads one reads the other.

The shapes are written down here; where BCC is installed its own output must fit them too.
"""
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import peers
import workloads
from recording import PATIENCE, Run, live, run
from tap import SMOLDER, main

HEADER = re.compile(
    r"Sampling at (\d+) Hertz(?: of .*?)? by (user|kernel|user \+ kernel) stack"
    r"(?: for (\d+) secs|\.\.\. Hit Ctrl-C to end)\.")
FRAME = re.compile(r"    \S.*")
PROCESS = re.compile(r"    -                (?P<comm>.*) \((?P<pid>\d+)\)")
COUNT = re.compile(r"        (?P<count>\d+)")


def parse_text(text):
    """BCC's multi-line output: (header, [(frames leaf first, comm, pid, count)])"""
    lines = text.split("\n")
    assert HEADER.match(lines[0]), lines[0]
    stacks, frames = [], []
    i = 1
    while i < len(lines):
        line = lines[i]
        m = PROCESS.fullmatch(line)
        if m:
            count = COUNT.fullmatch(lines[i + 1])
            assert count, f"no count below {line!r}: {lines[i + 1]!r}"
            assert lines[i + 2] == "", lines[i + 2]
            stacks.append((frames, m["comm"], int(m["pid"]), int(count["count"])))
            frames = []
            i += 3
            continue
        if line:
            assert FRAME.fullmatch(line), f"line {i + 1}: {line!r}"
            frames.append(line.strip())
        i += 1
    assert not frames, frames
    return HEADER.match(lines[0]), stacks


def outputs(*args):
    """Ours, and BCC's where it runs here."""
    r = run("profile", *args)
    assert r.code == 0, r.err
    yield "smolder", r.out.decode()
    bcc, _ = peers.bcc()
    if bcc:
        p = subprocess.run([*bcc, *map(str, args)], capture_output=True, text=True, timeout=PATIENCE)
        assert p.returncode == 0, p.stderr
        yield "bcc", p.stdout


@live
def folded_and_delimited():
    with workloads.start("syscalls") as w:
        seen = dict(outputs("-df", "-p", w.pid, "-F", 499, 2))
    for who, text in seen.items():
        stacks = folded.parse(text)
        assert stacks.total > 20 and stacks.comms() == {"syscalls"}, (who, stacks.comms())
        entered = 0
        for frames, n in stacks:
            if "-" in frames:
                cut = frames.index("-")
                assert "main" in frames[:cut], (who, frames)
                assert len(frames) > cut + 1, (who, frames)
                entered += n * any("entry_SYSCALL" in f for f in frames[cut:])
        assert entered > stacks.total / 2, (who, entered, stacks.total)
        folded.check_named(folded.Stacks((tuple(x for x in f if x != "-"), n)
                                         for f, n in stacks), 0.95)


@live
def annotated():
    with workloads.start("syscalls") as w:
        seen = dict(outputs("-af", "-p", w.pid, "-F", 499, 1))
    for who, text in seen.items():
        frames = folded.parse(text).frames()
        assert any(f.startswith("entry_SYSCALL") and f.endswith("_[k]") for f in frames), \
            (who, sorted(frames))
        assert "main" in frames, (who, sorted(frames))


@live
def text_for_people():
    with workloads.start("shares") as w:
        seen = dict(outputs("-p", w.pid, "-F", 499, 2))
    for who, text in seen.items():
        header, stacks = parse_text(text)
        assert header[1] == "499" and header[3] == "2", (who, header[0])
        assert sum(s[3] for s in stacks) > 20, (who, stacks)
        outside = 0  # of the loop: in main itself
        for frames, comm, pid, count in stacks:
            assert comm == "shares" and pid == w.pid and "main" in frames, (who, frames, comm, pid)
            if "workload_run" not in frames:
                outside += count
                continue
            assert frames.index("main") > frames.index("workload_run"), (who, frames)
        assert outside <= 0.02 * sum(s[3] for s in stacks), (who, stacks)


@live
def user_stacks_only():
    with workloads.start("syscalls") as w:
        frames = run("profile", "-Uf", "-p", w.pid, "-F", 499, 1).ok().stacks.frames()
    assert "main" in frames and not any("entry_SYSCALL" in f for f in frames), sorted(frames)


@live
def kernel_stacks_only():
    with workloads.start("syscalls") as w:
        frames = run("profile", "-Kf", "-p", w.pid, "-F", 499, 1).ok().stacks.frames()
    assert "main" not in frames and any("SYSCALL" in f for f in frames), sorted(frames)


@live
def a_link_by_that_name_does_the_same():
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        link = os.path.join(d, "profile")
        os.symlink(SMOLDER, link)
        p = subprocess.run([link, "-df", "-p", str(w.pid), "-F", "499", "1"], capture_output=True,
                           timeout=PATIENCE)
    r = Run(p.returncode, p.stdout, p.stderr.decode())
    assert r.code == 0, r.err
    assert r.stacks.comms() == {"shares"} and r.stacks.count("share_fifty"), r.stacks


@live
def its_output_is_read_by_flame():
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        path = os.path.join(d, "out.profile")
        r = run("profile", "-df", "-p", w.pid, "-F", 199, 1)
        with open(path, "wb") as f:
            f.write(r.out)
        again = run("flame", path, "-f", "folded", "-o", "-").ok()
    assert again.stacks.total == r.stacks.total


main()

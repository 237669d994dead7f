#!/usr/bin/env python3
"""Inlined calls and source lines in recordings of programs whose nests are known."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import workloads
from recording import live, record, run
from tap import main, skip

INLINED = "_[i]"
SWING = "forge::Hammer::swing(unsigned long) const_[i]"
STRIKE = "forge::strike(unsigned long)_[i]"
SPIN, CLOCK = "workload_spin_[i]", "workload_cpu_ns_[i]"
# Who may stand below each inlined frame of inlines.cc; workload_run and main inline some, too.
CALLERS = {SWING: {"anvil"}, STRIKE: {SWING, "quench"}, SPIN: {STRIKE},
           CLOCK: {SPIN, "workload_run"}}


def inlined(stacks):
    return {f for f in stacks.frames() if f.endswith(INLINED)}


def check_nest(stacks):
    """Inlined frames stand where the source puts them, and hold the time that it gives them."""
    for frames, _ in stacks:
        for below, frame in zip(frames, frames[1:]):
            if frame in CALLERS:
                assert below in CALLERS[frame], frames
            if below in ("anvil", "quench", SWING, STRIKE):
                assert frame.endswith((INLINED, "_[k]")), frames
    assert stacks.share("anvil") > 0.5 and stacks.share("quench") > 0.1, stacks
    assert stacks.count(SWING[:-4]) > 0.9 * stacks.count("anvil"), stacks
    assert stacks.count(SPIN[:-4]) > 0.9 * stacks.total, stacks


def record_of(name, *options):
    with workloads.start(name) as w:
        r = record("-p", w.pid, "-F", 499, "-d", 2, "--annotations", *options).ok()
    assert r.lost == 0, r.err
    return r, w


@live
def inlined_calls_are_frames_of_their_own():
    for name in ("inlines-cc", "inlines-cc-4"):
        r, w = record_of(name)
        check_nest(r.stacks)
        folded.check_shares(r.stacks, w.truth)


@live
def they_are_left_out_when_not_wanted():
    r, w = record_of("inlines-cc", "--no-inlines", "--no-lines")
    assert not inlined(r.stacks), inlined(r.stacks)
    folded.check_shares(r.stacks, w.truth)
    r, _ = record_of("inlines-cc", "--no-inlines")
    assert not inlined(r.stacks), inlined(r.stacks)


@live
def a_program_to_start_and_a_thread_have_them():
    r = record("-F", 499, "--annotations", "--", workloads.path("inlines-cc"), 1).ok()
    check_nest(r.stacks.of("inlines-cc"))
    with workloads.start("inlines-cc") as w:
        r = record("-L", w.pid, "-F", 499, "-d", 1, "--annotations").ok()
    check_nest(r.stacks)


@live
def the_whole_machine_has_them_when_asked_for():
    with workloads.start("inlines-cc"):
        r = record("-a", "-F", 499, "-d", 1, "--annotations").ok()
        assert r.stacks.of("inlines-cc").total and not inlined(r.stacks), inlined(r.stacks)
        r = record("-a", "-F", 499, "-d", 1, "--annotations", "--inlines").ok()
    check_nest(r.stacks.of("inlines-cc"))


@contextlib.contextmanager
def stripped(name):
    """The program without debug info, and beside it the file that has it."""
    with tempfile.TemporaryDirectory() as d:
        exe = os.path.join(d, name)
        subprocess.run(["objcopy", "--only-keep-debug", workloads.path(name), exe + ".debug"],
                       check=True)
        subprocess.run(["strip", "-o", exe, workloads.path(name)], check=True)
        subprocess.run(["objcopy", f"--add-gnu-debuglink={exe}.debug", exe], check=True)
        with workloads.Workload([exe]) as w:
            yield w


@live
def a_separate_debug_file_has_them():
    with stripped("inlines-cc") as w:
        r = record("-p", w.pid, "-F", 499, "-d", 1, "--annotations").ok()
    check_nest(r.stacks)


@live
def a_replaced_binary_does_not_lend_its_lines():
    a, b = workloads.start_replaced("shares-cc", "inlines-cc")
    with a, b:
        r = record("-p", a.pid, "-F", 499, "-d", 1, "--annotations").ok()
    assert r.samples and not {SWING, STRIKE} & set(r.stacks.frames()), r.stacks.frames()


@live
def rust_and_go_have_them():
    for name, chain in (("inlines-rs", ["inlines::grind", "<inlines::Mill>::turn_[i]",
                                        "inlines::mix_[i]"]),
                        ("inlines-go", ["main.grind", "main.fold_[i]", "main.mix_[i]"])):
        r, _ = record_of(name)
        whole = sum(n for frames, n in r.stacks if any(
            list(frames[i:i + 3]) == chain for i in range(len(frames))))
        assert whole > 0.5 * r.stacks.total, (chain, r.stacks[:5])
        assert r.stacks.share(chain[0]) > 0.9, r.stacks[:5]


def pprof(path, *options):
    if not shutil.which("go"):
        skip("go is not installed")
    with tempfile.TemporaryDirectory() as tmp:
        p = subprocess.run(["go", "tool", "pprof", "-sample_index=samples", "-nodefraction=0",
                            "-edgefraction=0", *options, path], capture_output=True, text=True,
                           env=dict(os.environ, PPROF_TMPDIR=tmp, HOME=tmp))
    assert p.returncode == 0, p.stderr
    return p.stdout


def flat(text):
    """The rows of -top: (flat, cum, name)."""
    return [(int(m[1]), int(m[2]), m[3]) for m in
            re.finditer(r"^\s+(\d+)\s+\S+%\s+\S+%\s+(\d+)\s+\S+%\s+(.*)$", text, re.M)]


def source_line(path, text):
    with open(os.path.join(workloads.SRC, path)) as f:
        return next(n for n, line in enumerate(f, 1) if text in line)


@live
def pprof_shows_inlined_calls_and_lines():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.pb.gz")
        with workloads.start("inlines-cc") as w:
            r = run("record", "-p", w.pid, "-F", 499, "-d", 2, "-o", path).ok()
        top = pprof(path, "-top")
        assert re.search(rf"Total samples = {r.samples}\b", top), (r.err, top[:400])
        rows = flat(top)
        assert sum(n for n, _, _ in rows) == r.samples, (r.samples, rows)
        cum = {name: n for _, n, name in rows}
        assert cum["anvil"] >= cum["forge::Hammer::swing const (inline)"] > 0.4 * r.samples, rows
        # Folded stacks of the same file say the same.
        out = run("flame", path, "-f", "folded", "--annotations",
                  "--sample-type", "samples", "-o", "-").ok()
        stacks = out.stacks
        assert stacks.total == r.samples
        assert stacks.count("anvil") == cum["anvil"]
        assert stacks.count(SWING[:-4]) == cum["forge::Hammer::swing const (inline)"]

        line = source_line("inlines.cc", "a line that is looked for")
        rows = flat(pprof(path, "-top", "-lines"))
        assert sum(n for n, _, _ in rows) == r.samples, rows
        at = [n for _, n, name in rows if name.startswith("anvil ")
              and name.endswith(f"/inlines.cc:{line}")]
        assert at and at[0] > 0.9 * cum["anvil"], rows
        listed = pprof(path, "-list", "^anvil$")
        assert re.search(rf"^\s+\.\s+\d+\s+{line}:.*a line that is looked for", listed, re.M), listed


@live
def every_format_marks_them():
    with workloads.start("inlines-cc") as w, tempfile.TemporaryDirectory() as d:
        def written(fmt, *options):
            out = os.path.join(d, "out." + fmt)
            run("record", "-p", w.pid, "-F", 499, "-d", 1, "-f", fmt, "-o", out, *options).ok()
            with open(out, encoding="utf-8") as f:
                return f.read()
        assert STRIKE + "\n" in written("text", "--annotations")
        assert "forge::strike(unsigned long) (inlined)" in written("top")
        kinds = {f["name"]: f["kind"] for f in json.loads(written("json"))["functions"]}
        assert kinds[SPIN[:-4]] == "inlined" and kinds["anvil"] == "user", kinds
        names = {f["name"] for f in json.loads(written("speedscope"))["shared"]["frames"]}
        assert "workload_spin (inlined)" in names, names
        for fmt in ("svg", "html"):
            assert ">inlined</text>" in written(fmt), fmt


main()

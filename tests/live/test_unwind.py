#!/usr/bin/env python3
"""Whole stacks, from _start to the leaf, of programs as distributions build them.

A stack is complete when its root is where the program, the thread or the goroutine began. Stacks
that have no user side (a process at its end, or half way into another program) do not count. Rates
are higher than 99 Hz only to have enough samples in little time: each sample is walked alone.
"""
import collections
import contextlib
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import callgraph
import debian
import generated
import peers
import workloads
from folded import Stacks, check_named
from recording import caching_in, live, over_time, record
from tap import SOAK, main, skip

RATE = 1999
SECONDS = 20 if SOAK else 4
GO_ROOTS = r"runtime\.(goexit(\.abi0|0)?|rt0_go(\.abi0)?|mstart(0|\.abi0)?|_?rt0_amd64.*)|_rt0_amd64.*"
# Without libc's debug symbols, clone3 has no name.
ROOT = re.compile(r"_start|_dl_start_user|(__)?clone3?|start_thread|\[libc\.so\.6\+0x[0-9a-f]+\]|" + GO_ROOTS)


def user_frames(frames):
    return [f for f in frames[1:] if not f.endswith(callgraph.NO_CALL)]


class Share:
    """How many of the stacks are complete, and what the others look like."""

    def __init__(self, stacks, comm=None):
        self.whole = self.total = 0
        self.ends = collections.Counter()
        for frames, count in stacks:
            user = user_frames(frames)
            if not user or (comm and frames[0] != comm):
                continue
            self.total += count
            if ROOT.fullmatch(user[0]):
                self.whole += count
            else:
                self.ends[";".join(user[:2])] += count

    @property
    def share(self):
        return self.whole / self.total if self.total else 0.0

    def __str__(self):
        worst = ", ".join(f"{n} {end}" for end, n in self.ends.most_common(8))
        return f"{100 * self.share:.2f} % of {self.total} complete" + (f"; not: {worst}" if worst
                                                                        else "")


def judge(what, stacks, bar, comm=None, least=500, said=""):
    got = Share(stacks, comm)
    print(f"# {what}: {got}")
    assert got.total >= least, f"only {got.total} samples of {what}; {said}"
    assert got.share >= bar, f"{what}: {got}\n{said}"


def watch(what, bar, workload, *options, rate=RATE, seconds=SECONDS, more=None, **kw):
    """Records a program and judges its stacks. `more(stacks)`: what else is expected of them."""
    def judged(seconds):
        r = record("-v", "-F", rate, "-d", seconds, "--annotations", *(options or ("-p", w.pid))).ok()
        judge(what, r.stacks, bar, said=r.err, **kw)
        if more:
            more(r.stacks)
        return r.stacks
    with workload as w:
        return over_time(judged, seconds)


@live
def c_without_frame_pointers():
    for variant in ("gcc", "clang", "gcc-static"):
        _, path = generated.program("aa", 3, variant)
        watch(variant, 0.995, workloads.Workload([path, "loop"]))


@live
def signal_handlers_and_the_vdso():
    _, path = generated.program("aa", 3)

    def parts(stacks):
        handled = Stacks(s for s in stacks if "__restore_rt" in s[0] or
                         any(f in callgraph.HANDLERS for f in s[0]))
        judge("in handlers", handled, 0.99, least=50)
        timed = Stacks(s for s in stacks if any("clock" in f and "gettime" in f for f in s[0]))
        judge("in the vdso", timed, 0.99, least=20)
    # One sample in 120 is in a handler: long enough that two are no hundredth of them.
    watch("signals", 0.99, workloads.Workload([path, "signals"]), rate=4999, seconds=4 * SECONDS, more=parts)


@live
def threads_in_libc():
    watch("threads in libc", 0.995, workloads.start("glibc"))


@live
def cpp_with_exceptions():
    watch("C++", 0.99, workloads.start("throws"))


@live
def python():
    watch("python3", 0.995, workloads.start("interp-py"))


@live
def node():
    watch("node", 0.99, workloads.start("interp-js"))
    # One hot loop: what an earlier call left in its frame is there in every sample.
    watch("node, a hot loop", 0.99, workloads.start("node"))


@live
def ruby():
    watch("ruby", 0.99, workloads.start("interp-rb"))


@live
def php():
    watch("php", 0.99, workloads.start("interp-php"))


@live
def programs_that_only_start():
    """Nearly all of it is the dynamic linker, whose entry is in no table."""
    def judged(times):
        r = record("-v", "-F", RATE, "--annotations", "--", "sh", "-c",
                   f"i=0; while [ $i -lt {times} ]; do /bin/true; i=$((i + 1)); done").ok()
        judge("programs that only start", r.stacks, 0.9, comm="true", least=200, said=r.err)
    over_time(judged, SECONDS * 100)


@live
def trampolines_as_of_python():
    for form in ("plain", "marked", "framed"):
        stacks = watch(f"trampolines, {form}", 0.99, workloads.start("trampoline", form))
        deep = Stacks(s for s in stacks if s[0].count("through") == 6)
        assert deep.total > 0.9 * stacks.total, (form, stacks)


def newer_python():
    """A root with Debian 13's Python and what it needs, of build/."""
    home = os.path.join(os.path.dirname(workloads.OUT), "python3.13")
    root = os.path.join(home, "root")
    if os.path.exists(os.path.join(home, "done")):
        return root
    shutil.rmtree(home, ignore_errors=True)
    os.makedirs(os.path.join(root, "tmp"))
    release = debian.Release("trixie", home)
    for deb in release.fetch("python3.13-minimal", "libpython3.13-minimal", "libpython3.13-stdlib",
                             "libc6", "libexpat1", "libssl3t64", "zlib1g"):
        subprocess.run(["dpkg-deb", "-x", deb, root], check=True)
        os.unlink(deb)
    for name in ("lib", "lib64"):
        os.symlink(f"usr/{name}", os.path.join(root, name))
    for used_up in ("lists", "archives"):
        shutil.rmtree(os.path.join(home, used_up))
    open(os.path.join(home, "done"), "w").close()
    return root


@live
def python_with_x_perf():
    """Each of its own functions is called through a trampoline, and is named."""
    root = newer_python()
    _, script = workloads.SCRIPTS["interp-py"]
    shutil.copy(script, root)
    w = workloads.Workload(["chroot", root, "/usr/bin/python3.13", "-X", "perf",
                            "/" + os.path.basename(script)])
    stacks = watch("python3.13 -X perf", 0.995, w)
    for name in os.listdir(os.path.join(root, "tmp")):
        os.unlink(os.path.join(root, "tmp", name))  # its perf map
    own = Stacks(s for s in stacks if "py::<module>:/interp.py_[j]" in s[0])
    assert own.total > 0.99 * stacks.total, stacks
    deep = Stacks(s for s in stacks if s[0].count("py::recurse:/interp.py_[j]") > 5)
    assert deep.total > 0.01 * stacks.total, stacks


@live
def programs_of_musl():
    """Its libc describes no function by tables."""
    if not shutil.which("musl-gcc"):
        skip("musl-tools is not installed")
    for variant in ("musl", "musl-static"):
        _, path = generated.program("aa", 3, variant)
        watch(variant, 0.99, workloads.Workload([path, "loop"]))


@live
def deep_stacks_keep_their_root():
    """Of 2,000 frames the middle goes; 900 are all there."""
    path = workloads.path("nested")
    for depth, bar in ((900, 900), (2000, 1000)):
        def judged(seconds):
            r = record("-v", "-F", RATE, "-d", seconds, "-p", w.pid).ok()
            judge(f"{depth} deep", r.stacks, 0.97, said=r.err)
            kept = sum(n for f, n in r.stacks if f.count("nested") > bar * 0.98)
            assert kept > 0.9 * r.stacks.total, (depth, kept, r.err)
            gaps = sum(n for f, n in r.stacks if "[truncated]" in f[2:])
            assert (gaps > 0.9 * r.stacks.total) == (depth > 1024), (depth, gaps, r.err)
        with workloads.Workload([path, str(depth)]) as w:
            over_time(judged, 2)


def record_clang(rate, times, **kw):
    """A recording of clang, which compiles the same file some times, and whose stacks are its own."""
    clang = shutil.which("clang++")
    if not clang:
        skip("clang is not installed")
    text = ("#include <algorithm>\n#include <iostream>\n#include <map>\n#include <string>\n"
            "#include <unordered_map>\n#include <vector>\n")
    text += "".join(f"""
int f{i}(std::vector<std::string> v, std::map<int, std::string> m)
{{
	std::unordered_map<std::string, int> u;
	std::sort(v.begin(), v.end(), [](auto &a, auto &b) {{ return a.size() < b.size() + {i}; }});
	for (auto &[k, s] : m)
		std::cout << (u[s] += k) << v.at({i});
	return int(u.size());
}}
""" for i in range(12))
    with tempfile.TemporaryDirectory() as d:
        with open(os.path.join(d, "x.cc"), "w") as f:
            f.write(text)
        compile_ = f"{clang} -std=c++17 -O2 -c x.cc -o x.o"
        r = record("-v", "-F", rate, "--annotations", "--", "sh", "-c", ";".join([compile_] * times),
                   cwd=d, **kw).ok()
    return r, "clang-14" if "clang-14" in r.stacks.comms() else None


@live
def clang_compiling_cpp():
    def judged(times):
        r, comm = record_clang(99, times)
        judge("clang", r.stacks, 0.97, comm, least=300, said=r.err)
    over_time(judged, 3)


@live
def clang_compiling_cpp_at_a_high_rate():
    """On a machine that has no tables yet the first stacks wait for that of libLLVM; then it is on disk,
    and some are lost to the time that it takes to put two million rows in place."""
    def judged(times):
        with tempfile.TemporaryDirectory() as cache:
            for what, bar in (("clang, tables to be made", 0.92), ("clang, tables on disk", 0.85)):
                r, comm = record_clang(997, times, preexec_fn=caching_in(cache))
                judge(what, r.stacks, bar, comm, said=r.err)
    over_time(judged, 1)


def of_programs(r, paths):
    """The stacks of programs that were started, by the names they run under."""
    comms = {os.path.basename(p)[:15] for p in paths}
    return Stacks(s for s in r.stacks if s[0][0] in comms)


@live
def processes_of_tens_of_milliseconds():
    paths = [generated.program(f"v{i}", 40 + i, v)[1]
             for i, v in enumerate(("gcc", "clang", "gcc-static", "gcc-os"))]

    def judged(seconds):
        r = record("-v", "-a", "-F", RATE, "-d", seconds, "--annotations").ok()
        stacks = of_programs(r, paths)
        judge("short-lived", stacks, 0.95, said=r.err)
        check_named(Stacks((tuple(f[:1] + tuple(user_frames(f))), n) for f, n in stacks), 0.95)

    with contextlib.ExitStack() as stack:
        for i, p in enumerate(paths):
            stack.enter_context(workloads.start("forks", 4, p, "for", 30 + 5 * i,
                                                env=dict(os.environ, DRIVE_READY="1")))
        record("-a", "-F", 99, "-d", 2).ok()  # tables are made once a machine
        over_time(judged, 2 * SECONDS)


@live
def a_program_in_a_container():
    """In a root and mount namespace of its own, with libraries that only it can see."""
    _, path = generated.program("aa", 3)
    libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], check=True, text=True,
                                                          stdout=subprocess.PIPE).stdout)
    with tempfile.TemporaryDirectory() as d:
        script = (f"mount -t tmpfs none {d} && for f in {' '.join(libraries)}; do "
                  f'mkdir -p "{d}/${{f%/*}}" && cp -L "$f" "{d}/$f"; done && cp {path} {d}/inside && '
                  f"exec chroot {d} /inside loop")
        watch("in a container", 0.995,
              workloads.Workload(["unshare", "--mount", "sh", "-c", script]))


@live
def a_build():
    """make -j2 of a C project, the whole machine recorded: what the compiler did."""
    if not shutil.which("make"):
        skip("make is not installed")
    with tempfile.TemporaryDirectory() as d:
        names = [f"m{i}" for i in range(12)]
        for i, n in enumerate(names):
            g = callgraph.Graph(n, 100 + i)
            with open(os.path.join(d, n + ".c"), "w") as f:
                f.write(g.library())
        with open(os.path.join(d, "Makefile"), "w") as f:
            f.write("all: " + " ".join(n + ".o" for n in names) + "\n%.o: %.c\n\tgcc -w -O2 -c $<\n")
        r = record("-v", "-a", "-F", 199, "--annotations", "--", "make", "-s", "-j2", "-C", d,
                   timeout=300).ok()
    judge("cc1", r.stacks, 0.95, comm="cc1", least=200, said=r.err)
    deep = sum(n for f, n in r.stacks if f[0] == "cc1" and len(user_frames(f)) > 8)
    assert deep > 0.5 * r.stacks.of("cc1").total, "cc1's stacks are shallow"


def difference_error(share, samples, others):
    """The standard error of the difference between two measurements of a small share."""
    return math.sqrt(share * (1 / samples + 1 / others))


@live
def as_complete_as_perf_and_the_same_stacks():
    if not peers.perf():
        skip("linux-perf is not installed")
    _, path = generated.program("aa", 3)
    with workloads.Workload([path, "loop"]) as w:
        # It writes so much of each stack that it loses samples at higher rates.
        r, perf_stacks = peers.beside_perf(w.pid, 499, lambda: record(
            "-v", "-F", 499, "-d", 2 * SECONDS, "--annotations", "--no-inlines", "-p", w.pid).ok(),
            ["--call-graph", "dwarf,32768"])
    theirs = collections.Counter()
    for frames, n in perf_stacks:
        theirs[tuple(f for f in frames[1:] if in_program(f))] += n
    ours = collections.Counter()
    for frames, n in r.stacks:
        ours[tuple(f for f in user_frames(frames) if in_program(f))] += n
    mine, other = Share(r.stacks), Share(perf_stacks)
    print(f"# smolder: {mine}\n# perf: {other}")
    # In the last two instructions of libc's longjmp the stack is already the one that it goes to, and
    # perf shows what it goes to as its caller: ours are marked.
    known = mine.ends["[incomplete];__longjmp"]
    assert known <= 0.001 * mine.total, mine
    ends = 1 + mine.total - mine.whole - known + other.total - other.whole
    room = 4 * difference_error(ends / (mine.total + other.total), mine.total, other.total)
    assert (mine.whole + known) / mine.total >= other.share - room, f"smolder: {mine}, perf: {other}"
    # Both sampled the same seconds: the shares of stacks that are not rare agree.
    total, total_theirs = sum(ours.values()), sum(theirs.values())
    assert total > 300 and total_theirs > 300, (total, total_theirs)
    far = [(s, ours[s] / total, theirs[s] / total_theirs) for s in set(ours) | set(theirs)
           if abs(ours[s] / total - theirs[s] / total_theirs) >
           5 * difference_error((ours[s] + theirs[s] + 1) / (total + total_theirs), total, total_theirs)]
    assert not far, far[:5]


def in_program(frame):
    """A function of the test program, and not libc's, which debug symbols name differently."""
    return frame.startswith(("aa_", "drive_", "main"))


main()

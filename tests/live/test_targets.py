#!/usr/bin/env python3
"""Processes in all the shapes they come in: started by us, gone, replaced, contained, compiled."""
import contextlib
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import workloads
from always import until
from recording import NOBODY, Terminal, live, record, run, sample, wait_cpu
from tap import SMOLDER, main, skip


def parse_file(path):
    with open(path) as f:
        return folded.parse(f.read())


@live
def a_started_program_is_profiled_and_its_exit_code_passed_on():
    r = record("-F", 499, "--", workloads.path("shares"), 0.5, 7)
    assert r.code == 7, (r.code, r.err)
    assert b"ready" in r.printed and r.lost == 0, r.printed
    # Until its exec the child is still called smolder.
    assert r.stacks.comms() <= {"shares", "smolder"}, r.stacks.comms()
    assert r.stacks.of("shares").share("share_fifty") > 0.3, r.stacks


@live
def a_started_program_that_dies_by_a_signal_is_128_and_the_signal():
    r = record("-F", 499, "--", workloads.path("shares"), 0.3, -9)
    assert r.code == 128 + 9, (r.code, r.err)
    assert r.stacks.count("share_fifty")


@live
def a_program_that_cannot_be_started_is_said():
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.svg")
        r = run("record", "-o", out, "--", "/nowhere/at-all")
        assert r.code == 127 and "/nowhere/at-all" in r.err, (r.code, r.err)
        assert not os.path.exists(out)
        plain = os.path.join(d, "plain")
        open(plain, "w").close()
        r = run("record", "-o", out, "--", plain)
        assert r.code == 126 and plain in r.err, (r.code, r.err)


@live
def a_started_program_has_its_children_profiled_too():
    r = record("-F", 499, "--", "/bin/sh", "-c", f"{workloads.path('shares')} 0.5; exit 3")
    assert r.code == 3, r.err
    assert r.stacks.of("shares").count("share_fifty"), r.stacks.comms()


@live
def a_started_program_runs_as_the_invoking_user():
    with tempfile.TemporaryDirectory() as d:
        env = dict(os.environ, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY), SUDO_USER="nobody")
        r = run("record", "-o", os.path.join(d, "out.svg"), "--", "/bin/sh", "-c",
                "id -u; id -g; id -G; grep -E 'Cap(Prm|Eff|Amb)' /proc/self/status", env=env)
    words = r.out.decode().split()
    assert r.code == 0 and words[:2] == [str(NOBODY)] * 2, (r.code, r.out, r.err)
    assert "0" not in words[:words.index("CapPrm:")], f"keeps root's group: {words}"
    assert all(int(w, 16) == 0 for w in words if re.fullmatch("[0-9a-f]{16}", w)), words


@live
def stdout_of_the_program_is_its_own():
    with tempfile.TemporaryDirectory() as d:
        r = run("record", "-o", os.path.join(d, "out.svg"), "--", "echo", "hello").ok()
    assert r.out == b"hello\n", r.out


@contextlib.contextmanager
def opener(script):
    """(environment with an xdg-open of ours and a display, where it writes)"""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o777)
        path, log = os.path.join(d, "xdg-open"), os.path.join(d, "log")
        with open(path, "w") as f:
            f.write(f"#!/bin/sh\n{script.replace('LOG', log)}\n")
        os.chmod(path, 0o755)
        yield dict(os.environ, PATH=f"{d}:{os.environ['PATH']}", DISPLAY=":99"), log


def written(log):
    return until("the browser", lambda: os.path.exists(log) and open(log).read())


def record_open(d, env, name="out.svg"):
    """How it went, and which file was made."""
    out = os.path.join(d, name)
    r = run("record", "--open", "-o", out, "--", "true", env=env).ok()
    assert r.samples is not None and os.path.getsize(out), r.err
    return r, out


@live
def what_was_recorded_is_opened_in_the_browser():
    with tempfile.TemporaryDirectory() as d, opener('echo "$# $1 $(id -u)" >>LOG') as (env, log):
        os.chmod(d, 0o755)
        r, out = record_open(d, env)
        assert written(log) == f"1 {out} {os.getuid()}\n" and "cannot open" not in r.err, r.err
        # Under sudo it is the browser of who called that.
        os.unlink(log)
        as_nobody = dict(env, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY))
        r, out = record_open(d, as_nobody, "other.html")
        assert written(log) == f"1 {out} {NOBODY}\n", r.err
        # Without -o it is a file too, though in a pipe, and is told by its whole path.
        os.unlink(log)
        r = run("record", "--open", "-d", "0.1", env=env, cwd=d).ok()
        made = set(os.listdir(d)) - {"out.svg", "other.html"}
        assert len(made) == 1 and r.out == b"", (made, r.err)
        assert written(log).split()[1] == os.path.join(d, *made), made
    # A browser that stays does not keep us, nor does it have our terminal or pipe.
    with tempfile.TemporaryDirectory() as d, opener("echo $$ >LOG; exec sleep 1000") as (env, log):
        r, _ = record_open(d, env)
        pid = int(written(log))
        assert "cannot open" not in r.err and os.getsid(pid) == pid, r.err
        os.kill(pid, 9)


@live
def what_cannot_be_opened_is_said_and_kept():
    with tempfile.TemporaryDirectory() as d, opener("exit 3") as (env, _):
        r, out = record_open(d, env)
        assert f"cannot open {out} in a browser: xdg-open found no program for it (exit code 3)" in r.err, r.err
        bare = {k: v for k, v in env.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")}
        r, out = record_open(d, bare)
        assert f"cannot open {out} in a browser: there is no display here" in r.err, r.err
        r = run("record", "--open", "-o", out, "--", "/bin/true", env=dict(env, PATH="/nowhere")).ok()
        assert f"cannot open {out} in a browser: xdg-open is not installed" in r.err, r.err
        # Who called sudo must be able to read it.
        os.chmod(d, 0o700)
        r, out = record_open(d, dict(env, SUDO_UID=str(NOBODY), SUDO_GID=str(NOBODY)))
        assert f"cannot open {out} in a browser: Permission denied" in r.err, r.err
    for more in (("-f", "folded"), ("-o", "-"), ("-o", "x.pb.gz")):
        r = run("record", "--open", "-d", "0.1", *more).refused("--open needs a file in the format svg or html")
        assert r.code == 2, r.code


@live
def a_process_that_exits_half_way_is_still_named():
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        out = os.path.join(d, "out.folded")
        # It would take an hour if the end of the process were not noticed.
        with Terminal("record", "-p", w.pid, "-F", 499, "-d", 3600, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            wait_cpu(w, 0.5)
            w.stop()
            assert t.end() == 0, t.text
        stacks = parse_file(out)
    assert stacks.total > 200 and stacks.count("share_fifty"), t.text
    folded.check_named(stacks)


@live
def a_process_that_does_not_exist_is_refused():
    with open("/proc/sys/kernel/pid_max") as f:
        pid = int(f.read()) - 1
    assert not os.path.exists(f"/proc/{pid}")
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.svg")
        run("record", "-p", pid, "-d", 1, "-o", out).refused(str(pid))
        run("record", "-L", pid, "-d", 1, "-o", out).refused(str(pid))
        assert not os.listdir(d)
    for bad in ("0", "-1", "12x", "", "99999999999999999999", ","):
        run("record", "-p", bad, "-d", 1, "-o", "-").refused()


@live
def short_lived_processes_are_named():
    """Each lives for some 20 ms: most are gone before anyone looks at their mappings."""
    r = record("-F", 999, "--", "/bin/sh", "-c",
               f"for i in $(seq 50); do {workloads.path('shares')} 0.02 >/dev/null; done").ok()
    shares = r.stacks.of("shares")
    assert shares.total > 500, r.err
    folded.check_named(shares)
    assert shares.share("share_fifty") > 0.3, shares


@live
def a_program_that_becomes_another_has_the_functions_of_both():
    r = record("-F", 999, "--", workloads.path("exec"), 0.5, workloads.path("exec-after"), 0.5).ok()
    before, after = r.stacks.of("exec"), r.stacks.of("exec-after")
    assert before.share("before_exec") > 0.9 and not before.count("after_exec"), before
    assert after.share("after_exec") > 0.9 and not after.count("before_exec"), after


@live
def a_program_is_followed_when_another_thread_than_the_first_becomes_another():
    r = record("-F", 999, "--", workloads.path("exec-thread"), 0.3, workloads.path("exec-after"),
               0.3).ok()
    before, after = r.stacks.of("exec-thread"), r.stacks.of("exec-after")
    assert before.share("before_exec") > 0.8 and not before.count("after_exec"), before
    assert after.share("after_exec") > 0.8 and not after.count("before_exec"), after


@live
def a_program_may_be_started_while_the_whole_machine_is_recorded():
    with workloads.start("comm", "bystander"):
        r = record("-a", "-F", 499, "--", workloads.path("shares"), 0.5).ok()
    assert {"bystander", "shares"} <= r.stacks.comms(), r.stacks.comms()


@live
def a_reused_pid_is_another_process():
    aspid, first, second = (workloads.path(n) for n in ("aspid", "exec", "exec-after"))
    with open("/proc/sys/kernel/pid_max") as f:
        pid = int(f.read()) - 7
    assert not os.path.exists(f"/proc/{pid}")
    r = record("-F", 999, "--", "/bin/sh", "-c",
               f"{aspid} {pid} {first} 0.5; {aspid} {pid} {second} 0.5").ok()
    before, after = r.stacks.of("exec"), r.stacks.of("exec-after")
    assert before.share("before_exec") > 0.9 and not before.count("after_exec"), before
    assert after.share("after_exec") > 0.9 and not after.count("before_exec"), after


@live
def a_deleted_binary_is_named():
    with workloads.start_deleted("shares") as w:
        assert os.readlink(f"/proc/{w.pid}/exe").endswith(" (deleted)")
        r = sample("-p", w.pid)
    assert r.stacks.share("share_fifty") > 0.3
    folded.check_named(r.stacks)


def sample_both(*running, least=200):
    """The stacks of each of these processes, from recordings of all. How the CPUs are shared among them
    depends on whatever else runs, so that judges nothing."""
    pids = ",".join(str(w.pid) for w in running)
    stacks = [folded.Stacks() for _ in running]

    def enough():
        r = record("-p", pids, "-F", 499, "-d", 2, "--threads").ok()
        for w, mine in zip(running, stacks):
            mine += [(f, n) for f, n in r.stacks if str(w.pid) in f[1]]
        return min(mine.total for mine in stacks) >= least
    until(f"{least} samples of each", enough)
    return stacks


@live
def a_replaced_binary_is_not_taken_for_the_old_one():
    old, new = workloads.start_replaced("exec", "exec-after")
    with old, new:
        old_stacks, new_stacks = sample_both(old, new)
    assert old_stacks.share("before_exec") > 0.9, old_stacks
    assert new_stacks.share("after_exec") > 0.9, new_stacks
    for stacks in (old_stacks, new_stacks):
        folded.check_named(stacks)


@live
def a_library_that_is_loaded_later_is_named():
    with tempfile.TemporaryDirectory() as d, workloads.start("late", workloads.path("late.so")) as w:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-p", w.pid, "-F", 499, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            os.kill(w.pid, signal.SIGUSR1)
            w.wait_line("loaded")
            wait_cpu(w, 1)
            t.interrupt()
            assert t.end() == 0, t.text
        stacks = parse_file(out)
    assert stacks.count("before_library") and stacks.count("late_function") > 200, stacks
    folded.check_named(stacks)


@live
def a_call_that_never_returns_belongs_to_its_caller():
    with workloads.start("noreturn") as w:
        r = sample("-p", w.pid)
    assert r.stacks.share("calls_last") > 0.95, r.stacks
    assert not r.stacks.count("comes_next"), r.stacks


@live
def the_kernels_code_in_user_space_is_named():
    with workloads.start("vdso") as w:
        r = sample("-p", w.pid)
    leaves = sum(n for f, n in r.stacks if "clock_gettime" in f[-1])
    assert leaves > 0.8 * r.samples, r.stacks  # the rest, some 5 %, is in main
    folded.check_named(r.stacks)


@live
def a_storm_of_forks_loses_nothing():
    """75 processes a second, each for 5 ms: named, though gone before anyone looks at them."""
    with workloads.start("forks", "75", workloads.path("shares"), "0.005") as w:
        for seconds in (5, 10, 20, 40):  # how many are started depends on who else has the CPU
            r = record("-a", "-F", 999, "-d", seconds).ok()
            assert r.lost == 0, r.err
            shares = r.stacks.of("shares")
            if shares.total > 200:
                break
    assert shares.total > 200, shares.total
    folded.check_named(shares)
    assert shares.share("share_fifty") > 0.2, shares
    assert w.truth["started"] > 20, w.truth


@live
def a_program_in_a_container_is_named():
    with workloads.Contained("shares-static") as c:
        assert c.workload.said_pid == 1
        r = sample("-p", c.pid)
    assert r.stacks.comms() == {"inside"}, r.stacks.comms()
    assert r.stacks.share("share_fifty") > 0.3, r.stacks
    folded.check_named(r.stacks)


def inside(script, *options):
    """Runs a script in a pid namespace with a /proc of its own; $1 is smolder, $2 the workload."""
    p = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", *options, "sh", "-c", script,
                        "sh", SMOLDER, workloads.path("shares")], capture_output=True, text=True)
    assert p.returncode == 0, p
    return p.stdout


def sample_inside(start, what, comms=("shares",)):
    """The stacks of a recording in such a namespace, as long as it takes to have 200 of each of these.
    `start` leaves in $P a process that is or becomes the workload; `what` to record may name it."""
    for seconds in (1, 2, 4, 8, 16, 32):
        stacks = folded.parse(inside(
            f"{start}; until grep -qsx shares /proc/$P/comm; do sleep 0.01; done; "
            f"$1 record {what} -F 499 -d {seconds} -f folded -o -; kill $P", "--mount-proc"))
        if all(stacks.of(c).total >= 200 for c in comms):
            return stacks
    raise AssertionError(stacks)


@live
def a_pid_of_our_own_namespace_is_that_process():
    """In there it is some small number, which is another process to the kernel."""
    child = "$2 >/dev/null & P=$!"
    deeper = f"unshare --pid --fork --kill-child {child}; until P=$(pgrep -P $!); do sleep 0.01; done"
    for start, what in (child, "-p $P"), (child, "-L $P"), (deeper, "-p $P"):
        stacks = sample_inside(start, what)
        assert stacks.comms() == {"shares"} and stacks.share("share_fifty") > 0.3, stacks
        folded.check_named(stacks)


@live
def a_program_started_in_a_pid_namespace_is_the_one_that_is_recorded():
    out = inside('$1 record -F 499 -f folded -o - -- timeout 300 sh -c "exec $2 1 >/dev/null"',
                 "--mount-proc")
    stacks = folded.parse(out)
    # Until its exec the child is still called smolder.
    assert {"shares"} <= stacks.comms() <= {"shares", "timeout", "sh", "smolder"}, stacks.comms()
    assert stacks.of("shares").share("share_fifty") > 0.3, out


@live
def what_runs_beyond_our_pid_namespace_has_no_pid_and_no_user_stack():
    with workloads.start("glibc"):
        stacks = sample_inside("$2 >/dev/null & P=$!", "", ("shares", "glibc"))
    assert stacks.of("shares").share("share_fifty") > 0.3, stacks
    assert not stacks.of("glibc").count("main"), stacks


@live
def a_proc_of_another_pid_namespace_is_refused():
    """What a number means there it does not mean here."""
    p = subprocess.run(["unshare", "--pid", "--fork", SMOLDER, "record", "-d", "1", "-f", "folded",
                        "-o", "-"], capture_output=True, text=True)
    assert p.returncode == 1 and "/proc belongs to another pid namespace" in p.stderr, p


@live
def compiled_code_in_a_container_is_named():
    """Its perf map is /tmp/perf-1.map, inside."""
    with workloads.Contained("jitted-static", "contained_jit") as c:
        r = sample("-p", c.pid)
    assert r.stacks.share("contained_jit") > 0.9, r.stacks


SHARES = re.compile(r"([\d.]+) % of user stacks complete(?:, [\d.]+ % by frame pointers[^,]*)?, "
                    r"([\d.]+) % of frames unnamed")


@live
def what_has_no_name_is_told_with_what_would_name_it():
    dash = os.path.realpath(shutil.which("dash") or "")
    if not os.path.isfile(dash) or not os.path.isdir("/var/lib/dpkg/info"):
        skip("no dash of dpkg's")
    loop = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done"
    r = record("-F", 499, "--", dash, "-c", loop).ok()
    if not re.search(r"\[dash\+0x", r.out.decode()):
        skip("dash has its symbols")
    assert float(SHARES.search(r.err)[2]) > 10, r.err
    assert r.err.endswith("most unnamed frames are in dash; install the package dash-dbgsym for its symbols\n"), r.err
    if not shutil.which("node"):
        skip("no node")
    script = "let t=Date.now();function f(n){return n<2?1:f(n-1)+f(n-2)};while(Date.now()-t<900)f(20)"
    r = record("-F", 499, "--", "node", "-e", script).ok()
    assert float(SHARES.search(r.err)[2]) > 1, r.err
    # Debian's own node has most of its code in a library without symbols.
    assert re.search(r"code generated by node: start it with --perf-basic-prof\n$|"
                     r"in libnode\S+; install the package libnode\d+-dbgsym for its symbols\n$", r.err), r.err


NARROW = """
__attribute__((noipa)) int spin(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * 7 ^ s; return s; }
__attribute__((noipa)) int outer(int n) { return spin(n) + 1; }
int main(void) { volatile int s = 0; for (int i = 0; i < 600; i++) s += outer(1000000); return 0; }
"""


@live
def a_32_bit_program_is_named():
    with tempfile.TemporaryDirectory() as d:
        write(os.path.join(d, "narrow.c"), NARROW)
        exe = os.path.join(d, "narrow")
        if subprocess.run(["gcc", "-m32", "-O1", "-o", exe, exe + ".c"], check=False).returncode:
            skip("no 32-bit compiler")
        r = record("-F", 499, "--", exe).ok()
    mine = r.stacks.of("narrow")
    assert mine.share("spin") > 0.9, f"{r.err}{mine}"
    # Nothing of the 64-bit vdso, which is elsewhere.
    assert not any(re.match("__vdso_|getrandom", f) for f in mine.frames()), mine


@live
def compiled_javascript_is_named():
    with workloads.start("jit") as w:
        try:
            r = sample("-p", w.pid)
        finally:
            os.unlink(f"/tmp/perf-{w.pid}.map")
    frames = r.stacks.frames()
    assert any("kindle" in f for f in frames) and any("stoke" in f for f in frames), frames
    # Not what is in files: Debian's node has no names of V8's own functions.
    made = sum(n * f.count("[anon]") for f, n in r.stacks)
    assert made <= 0.05 * sum(n * len(f) for f, n in r.stacks), r.stacks


def record_jitted(make_map):
    """Records a program whose perf map make_map(path, line) has made; returns the frames."""
    with workloads.start("jitted") as w:
        code, size = w.wait_line("code").split()[1:]
        path = f"/tmp/perf-{w.pid}.map"
        try:
            make_map(path, f"{code} {size} a_jitted_function\n")
            r = sample("-p", w.pid)
        finally:
            if os.path.lexists(path):
                os.unlink(path)
    return r.stacks


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


@live
def a_perf_map_names_compiled_code():
    assert record_jitted(write).share("a_jitted_function") > 0.9


@live
def compiled_code_in_a_memfd_is_named():
    """As .NET and Erlang have theirs."""
    with workloads.start("jitted", "in_a_memfd", "memfd") as w:
        try:
            r = sample("-p", w.pid)
        finally:
            os.unlink(f"/tmp/perf-{w.pid}.map")
    assert r.stacks.share("in_a_memfd") > 0.9, r.stacks


@live
def code_at_the_same_address_is_named_by_its_own_process():
    """The same program twice, not moved about in memory, its code under two names."""
    names = ["one_jitted_function", "other_jitted_function"]
    with contextlib.ExitStack() as stack:
        running = []
        for name in names:
            w = workloads.Workload(["setarch", "-R", workloads.path("jitted"), name])
            stack.enter_context(w)
            stack.callback(os.unlink, f"/tmp/perf-{w.pid}.map")
            running.append(w)
        assert len({w.wait_line("code") for w in running}) == 1, "they should lie at one address"
        both = sample_both(*running)
    for name, stacks in zip(names, both):
        assert stacks.share(name) > 0.9, stacks


@live
def a_perf_map_that_is_a_fifo_is_passed_over():
    stacks = record_jitted(lambda path, line: os.mkfifo(path))
    assert stacks.share("main") > 0.9 and not stacks.count("a_jitted_function")


@live
def a_perf_map_that_is_a_link_is_passed_over():
    with tempfile.TemporaryDirectory() as d:
        def make_map(path, line):
            write(os.path.join(d, "map"), line)
            os.symlink(os.path.join(d, "map"), path)
        stacks = record_jitted(make_map)
    assert stacks.share("main") > 0.9 and not stacks.count("a_jitted_function")


@live
def a_perf_map_of_another_user_is_passed_over():
    def make_map(path, line):
        write(path, line)
        os.chown(path, NOBODY, NOBODY)
    stacks = record_jitted(make_map)
    assert stacks.share("main") > 0.9 and not stacks.count("a_jitted_function")


@live
def a_huge_perf_map_does_not_fill_memory():
    def make_map(path, line):
        with open(path, "w") as f:
            f.write(line)
            f.truncate(1 << 40)
    with tempfile.TemporaryDirectory():
        record_jitted(make_map)


@live
def a_perf_map_of_garbage_is_survived():
    def make_map(path, line):
        with open(path, "wb") as f:
            f.write(os.urandom(100000) + b"\nffffffffffffffff ffffffffffffffff x\n\n 1\n0 0 \n" +
                    b"1 1 " + b"n" * 1000000 + b"\n" + line.encode())
    assert record_jitted(make_map).share("main") > 0.9


@live
def odd_process_names_harm_no_format():
    comm = '<img>;\n"&\x1b[31'
    with workloads.start("comm", comm) as w, tempfile.TemporaryDirectory() as d:
        r = sample("-p", w.pid)
        for frames, _ in r.stacks:  # one process, whatever its name became
            assert "<img>" in frames[0] and "\x1b" not in frames[0], frames
        assert len(r.stacks.comms()) == 1 and r.stacks.share("odd_name") > 0.9, r.stacks
        for fmt in ("svg", "html", "text", "top", "json", "speedscope", "pprof"):
            out = os.path.join(d, "out." + fmt)
            run("record", "-p", w.pid, "-F", 499, "-d", 0.3, "-f", fmt, "-o", out).ok()
            with open(out, "rb") as f:
                data = f.read()
            assert b"\x1b[31" not in data, fmt
            if fmt == "svg":
                xml.etree.ElementTree.fromstring(data)
            if fmt in ("svg", "html"):
                assert b"<img" not in data, fmt


@live
def the_default_name_tells_the_process_and_the_time():
    with tempfile.TemporaryDirectory() as d:
        with workloads.start("shares") as w:
            # On a terminal; in a pipe it is all of the output.
            master, slave = pty.openpty()
            r = run("record", "-p", w.pid, "-d", 1, cwd=d, stdout=slave).ok()
            names = os.listdir(d)
            assert run("record", "-p", w.pid, "-d", 0.1, cwd=d).ok().out.startswith(b"<?xml")
            assert os.listdir(d) == names
    assert len(names) == 1 and re.fullmatch(r"smolder-shares-\d{8}T\d{6}Z\.svg", names[0]), names
    assert names[0] in r.err, r.err
    with tempfile.TemporaryDirectory() as d:
        with workloads.start("comm", "../a b/c") as w:
            run("record", "-p", w.pid, "-d", 1, cwd=d, stdout=slave).ok()
        names = os.listdir(d)
    os.close(master)
    os.close(slave)
    assert len(names) == 1 and re.fullmatch(r"smolder-[\w.-]+-\d{8}T\d{6}Z\.svg", names[0]), names


def online(cpu, value):
    with open(f"/sys/devices/system/cpu/cpu{cpu}/online", "w") as f:
        f.write(str(value))


@live
def a_cpu_that_comes_online_later_is_sampled():
    switch = "/sys/devices/system/cpu/cpu1/online"
    if not os.access(switch, os.W_OK):
        skip(f"{switch} cannot be written here")
    try:
        online(1, 0)
    except OSError as e:
        skip(f"CPU 1 cannot be taken offline: {e.strerror}")
    try:
        with tempfile.TemporaryDirectory() as d, \
             workloads.start("shares") as other:
            out = os.path.join(d, "out.folded")
            with Terminal("record", "-a", "-F", 499, "-o", out) as t:
                t.read_until(r"[1-9]\d* samples")  # it has begun, on one CPU
                online(1, 1)
                with workloads.Workload(["taskset", "-c", "1", workloads.path("comm"),
                                         "late-cpu"]) as w:
                    wait_cpu(w, 3)
                    # Once more, under its feet.
                    online(1, 0)
                    online(1, 1)
                with workloads.Workload(["taskset", "-c", "1", workloads.path("comm"),
                                         "later-cpu"]) as w:
                    wait_cpu(w, 3)
                t.interrupt()
                assert t.end() == 0, t.text
            with open(out) as f:
                stacks = folded.parse(f.read())
        assert other.truth
    finally:
        online(1, 1)
    # Three seconds of CPU time each, less what it may take to notice on a machine that is slow: if it
    # were not noticed there would be none.
    for comm in ("late-cpu", "later-cpu"):
        assert stacks.of(comm).total > 0.5 * 499, (comm, stacks.of(comm).total)


main()

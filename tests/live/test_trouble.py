#!/usr/bin/env python3
"""Bad luck: no permission, hidden addresses, a full disk, Ctrl-C, a ring that overflows."""
import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import folded
import workloads
from always import always
from recording import END, NOBODY, PATIENCE, Terminal, is_death, live, public_copy, record, run, \
    sample, stolen, wait_cpu
from tap import SMOLDER, main, skip


@live
def without_permission_the_capability_and_the_command_are_named():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        smolder = public_copy(d)
        p = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                            smolder, "record", "-p", str(w.pid), "-d", "1", "-o", "-"],
                           capture_output=True, text=True, timeout=PATIENCE)
    assert p.returncode == 1, (p.returncode, p.stderr)
    assert "CAP_" in p.stderr or "cap_" in p.stderr, p.stderr
    assert "sudo" in p.stderr and f"-p {w.pid}" in p.stderr, p.stderr
    assert p.stdout == "", p.stdout


@live
def without_one_capability_that_one_is_named():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        smolder = public_copy(d)
        caps = "-all,+bpf,+sys_ptrace,+dac_read_search,+checkpoint_restore,+syslog"
        p = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                            f"--inh-caps={caps}", f"--ambient-caps={caps}",
                            smolder, "record", "-p", str(w.pid), "-d", "1", "-o", "-"],
                           capture_output=True, text=True, timeout=PATIENCE)
    assert p.returncode == 1, (p.returncode, p.stderr)
    assert "PERFMON" in p.stderr.upper(), p.stderr
    assert "CAP_BPF" not in p.stderr.split("sudo")[0].upper(), p.stderr


@live
def the_needed_capabilities_are_enough():
    with open("/proc/sys/kernel/perf_event_paranoid") as f:
        if int(f.read()) > 2:
            skip("perf_event_paranoid is above 2: PERFMON is not enough on this kernel")
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        smolder = public_copy(d)
        caps = "-all,+bpf,+perfmon,+sys_ptrace,+dac_read_search,+checkpoint_restore,+syslog"
        p = subprocess.run(["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
                            f"--inh-caps={caps}", f"--ambient-caps={caps}",
                            smolder, "record", "-p", str(w.pid), "-F", "499", "-d", "1",
                            "-f", "folded", "-o", "-"],
                           capture_output=True, text=True, timeout=PATIENCE)
    assert p.returncode == 0, p.stderr
    stacks = folded.parse(p.stdout)
    assert stacks.share("share_fifty") > 0.3
    folded.check_named(stacks)


@live
def hidden_kernel_addresses_are_named_all_the_same_or_that_is_said():
    knob = "/proc/sys/kernel/kptr_restrict"
    with open(knob) as f:
        was = f.read()
    try:
        with open(knob, "w") as f:
            f.write("2")
        with workloads.start("syscalls") as w:
            r = sample("-p", w.pid)
    finally:
        with open(knob, "w") as f:
            f.write(was)
    assert r.stacks.named()[0] >= 0.99 or "kptr_restrict" in r.err, r.err
    assert r.stacks.share("main") > 0.9, r.stacks


@live
def what_a_recording_goes_without_is_said_once():
    """A map that is a link, a debug file of another build, and a priority that may not be had."""
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as stack:
        program, debug = os.path.join(d, "program"), os.path.join(d, "program.debug")
        shutil.copy(workloads.path("shares-linked"), program)
        subprocess.run(["strip", program], check=True)
        subprocess.run(["objcopy", "--only-keep-debug", workloads.path("shares-packed"), debug], check=True)
        subprocess.run(["objcopy", "--add-gnu-debuglink=" + debug, program], check=True)
        stripped = stack.enter_context(workloads.Workload([program])).pid
        jitted = stack.enter_context(workloads.start("jitted")).pid
        perf_map = f"/tmp/perf-{jitted}.map"
        os.symlink(os.path.join(d, "elsewhere"), perf_map)
        stack.callback(os.unlink, perf_map)
        options = ("-p", f"{stripped},{jitted}", "-F", 499, "-d", 2, "-f", "folded", "-o", os.path.join(d, "out"))
        r = subprocess.run(["setpriv", "--bounding-set=-sys_nice", "--inh-caps=-sys_nice", SMOLDER, "record",
                            *map(str, options)], capture_output=True, text=True, timeout=PATIENCE)
        quiet = run("record", "-q", *options)
    for words in (f"separate debug files are there but cannot be read, or are those of another build: their "
                  f"programs' static functions have no names (the first: that of {program})",
                  f"(the first: that of process {jitted})",
                  "the collector runs at normal priority ("):
        assert r.stderr.count(words) == 1, (words, r.stderr)
    assert r.stderr.count("/tmp/perf-PID.map") == 1, r.stderr
    assert quiet.ok().err == "", quiet.err


@live
def a_full_disk_leaves_the_old_file():
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16k", "none", d], check=True)
        try:
            out = os.path.join(d, "out.svg")
            with open(out, "w") as f:
                f.write("a good old file")
            r = run("record", "-p", w.pid, "-F", 999, "-d", 1, "-o", out)
            with open(out) as f:
                kept = f.read()
            left = os.listdir(d)
        finally:
            subprocess.run(["umount", d], check=True)
    assert r.code == 1 and "No space left" in r.err, (r.code, r.err)
    assert kept == "a good old file" and left == ["out.svg"], (kept[:80], left)


@live
def a_place_that_cannot_be_written_is_said_before_recording():
    with workloads.start("shares") as w:
        # An hour, if it were found out only at the end.
        r = run("record", "-p", w.pid, "-d", 3600, "-o", "/nowhere/out.svg")
    r.refused("/nowhere")


@live
def a_reader_that_has_gone_is_no_failure():
    with workloads.start("shares") as w:
        r, wr = os.pipe()
        os.close(r)
        p = subprocess.run([SMOLDER, "record", "-p", str(w.pid), "-d", "1", "-f", "folded",
                            "-o", "-"], stdout=wr, stderr=subprocess.PIPE, timeout=PATIENCE)
        os.close(wr)
    assert p.returncode == 0 and b"Broken pipe" not in p.stderr, p  # as with `| head`


@live
def ctrl_c_writes_the_file_and_is_no_failure():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-p", w.pid, "-F", 499, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            t.interrupt()
            assert t.end() == 0, t.text
        assert END.findall(t.text)[-1][1] == "0", t.text
        with open(out) as f:
            stacks = folded.parse(f.read())
        assert stacks.count("share_fifty") and os.listdir(d) == ["out.folded"]


@live
def a_terminated_recording_is_written_too():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-p", w.pid, "-F", 499, "-d", 3600, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            t.process.send_signal(signal.SIGTERM)
            assert t.end() == 0, t.text
        with open(out) as f:
            assert folded.parse(f.read()).count("share_fifty")


@live
def a_second_ctrl_c_quits():
    """The first one leaves it writing into a pipe that nobody reads."""
    r, wr = os.pipe()
    os.set_blocking(wr, False)
    try:
        while os.write(wr, b"x" * 65536):
            pass
    except BlockingIOError:
        pass
    os.set_blocking(wr, True)
    with workloads.start("shares") as w:
        with Terminal("record", "-p", w.pid, "-F", 499, "-f", "folded", "-o", "-", stdout=wr) as t:
            os.close(wr)
            t.read_until(r"[1-9]\d* samples")
            t.interrupt()
            wait_cpu(w, 0.5)
            assert t.process.poll() is None, "the first one was not meant to end it"
            t.interrupt()
            code = t.end()
    os.close(r)
    assert is_death(code, signal.SIGINT), (code, t.text)


@live
def ctrl_c_reaches_the_started_program_and_the_file_is_written():
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-F", 499, "-o", out, "--", workloads.path("shares")) as t:
            t.read_until(r"[1-9]\d* samples")
            t.interrupt()
            code = t.end()
        assert code == 0, (code, t.text)  # the workload ends in order at SIGINT
        with open(out) as f:
            assert folded.parse(f.read()).count("share_fifty")


@live
def a_terminal_shows_progress():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        with Terminal("record", "-p", w.pid, "-F", 499, "-d", 3, "-o",
                      os.path.join(d, "out.svg")) as t:
            t.read_until(r"\r")
            line = t.read_until(r"[^\r\n]*\b[1-9]\d* samples[^\r\n]*")[0]
            assert re.search(r"\b[123](\.\d)? ?s", line) and "0 lost" in line, line
            assert t.end() == 0
        quiet = Terminal("record", "-q", "-p", w.pid, "-F", 499, "-d", 1, "-o",
                         os.path.join(d, "out.svg"))
        with quiet as t:
            assert t.end() == 0 and t.text == "", t.text


@live
def no_terminal_shows_no_progress():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        r = run("record", "-p", w.pid, "-d", 2, "-o", os.path.join(d, "out.svg")).ok()
    assert "\r" not in r.err and r.samples and r.lost == 0, r.err


@live
def what_does_not_fit_is_counted():
    """The drain sleeps while samples keep coming: what the ring cannot hold is lost, and said."""
    rate = 9999
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-p", w.pid, "-F", rate, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            t.process.send_signal(signal.SIGSTOP)
            wait_cpu(w, 6)
            t.process.send_signal(signal.SIGCONT)
            t.interrupt()
            before = w.cpu_seconds()
            assert t.end() == 0, t.text
            used = w.cpu_seconds()
        m = END.findall(t.text)[-1]
        with open(out) as f:
            stacks = folded.parse(f.read())
    stored, lost = map(int, m)
    assert stored == stacks.total, (stored, stacks.total)
    assert lost > 0, t.text
    # All that was produced is accounted for: what the CPU time says, within a tenth.
    assert stored + lost >= 0.9 * 6 * rate, (stored, lost)
    assert used >= before


def idle_seconds():
    """Of all CPUs together."""
    with open("/proc/stat") as f:
        words = f.readline().split()
    return (int(words[4]) + int(words[5])) / os.sysconf("SC_CLK_TCK")


@live
def no_tick_is_missed_whether_the_machine_idles_or_not():
    """tests/vm has one that surely idles."""
    seconds, cpus = 3, len(os.sched_getaffinity(0))
    before, taken = idle_seconds(), stolen()
    r = record("-v", "-F", 997, "-d", seconds).ok()
    idle = (idle_seconds() - before) / (seconds * cpus)
    taken = (stolen() - taken + 2 * cpus) / os.sysconf("SC_CLK_TCK")  # it is counted in whole ticks
    missed, due = map(int, re.search(r"(\d+) of (\d+) ticks did not come", r.err).groups())
    print(f"# {100 * idle:.0f} % idle: {missed} of {due} ticks missed, the host took {taken:.2f} s")
    assert due > 0.9 * 997 * seconds * cpus, r.err
    # A host takes some; of those that an idle kernel skips there would be far more.
    assert missed < 0.03 * due + 997 * taken, r.err


def last_cpu():
    """The file that turns it off and on; the test is skipped where there is none."""
    path = f"/sys/devices/system/cpu/cpu{os.cpu_count() - 1}/online"
    if not os.access(path, os.W_OK):
        skip("no CPU of this machine can be turned off")
    return path


@live
def a_cpu_that_comes_online_is_sampled_by_run():
    """tests/vm does the same to record. All samples of a program that may run nowhere else are of it."""
    cpu, path = os.cpu_count() - 1, last_cpu()

    def turn(on):
        with open(path, "w") as f:
            f.write(on)

    try:
        try:
            turn("0")
        except OSError as why:
            skip(f"this machine keeps its CPUs on: {why}")
        with always("-F", "499") as a:
            a.get("/debug/pprof/profile?seconds=1")  # it samples the others by now
            turn("1")
            with workloads.Workload(["taskset", "-c", cpu, workloads.path("shares")]) as w:
                wait_cpu(w, 1)
                a.get("/debug/pprof/profile?seconds=1")
                q = a.query(f'cpu{{pid="{w.pid}"}}', "-f", "folded")
                used = w.cpu_seconds()
            troubles = a.troubles()
        assert q.returncode == 0, q.stderr
        stacks = folded.parse(q.stdout)
        assert stacks.total > 0.5 * 499 * used and stacks.count("share_fifty"), (used, q.stdout)
        assert troubles["cpus_failed"] == troubles["no_hotplug"] == 0, troubles
    finally:
        turn("1")


@live
def an_unknown_format_lists_the_known_ones():
    known = ("folded", "svg", "html", "pprof", "speedscope", "text", "top", "json")
    run("record", "-d", 1, "-f", "gif", "-o", "-").refused("gif", *known)
    with tempfile.TemporaryDirectory() as d:
        run("record", "-d", 1, "-o", os.path.join(d, "out.gif")).refused("gif", *known)
        assert not os.listdir(d)


@live
def numbers_out_of_range_are_refused():
    for option, value in (("-F", "0"), ("-F", "x"), ("-F", "1e9"), ("-c", "0"), ("-c", "-5"),
                          ("-d", "-1"), ("-d", "x"), ("-L", "x")):
        r = run("record", option, value, "-o", "-", *([] if option == "-d" else ["-d", "1"]))
        r.refused(value)
    run("record", "-F", "99", "-c", "1000", "-d", "1", "-o", "-").refused("-F", "-c")
    run("record", "-a", "-p", "1", "-d", "1", "-o", "-").refused("-a", "-p")


@live
def the_file_is_made_with_ordinary_permissions():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.svg")
        old = os.umask(0o027)
        try:
            run("record", "-p", w.pid, "-d", 1, "-o", out).ok()
        finally:
            os.umask(old)
        assert stat.S_IMODE(os.stat(out).st_mode) == 0o640, oct(os.stat(out).st_mode)


main()

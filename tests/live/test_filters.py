#!/usr/bin/env python3
"""What is sampled is what was asked for."""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import workloads
from control_groups import cgroup, hierarchies
from recording import live, record, run
from tap import main, skip

KERNEL = "_[k]"


def is_kernel(frame):
    return frame.endswith(KERNEL)


@live
def one_process():
    with workloads.start("shares") as w, workloads.start("threads"):
        r = record("-p", w.pid, "-F", 499, "-d", 1).ok()
    assert r.samples and r.stacks.comms() == {"shares"}, r.stacks.comms()


@live
def several_processes():
    with workloads.start("shares") as a, workloads.start("exec") as b, workloads.start("threads"):
        r = record("-p", f"{a.pid},{b.pid}", "-F", 499, "-d", 1).ok()
    assert r.stacks.comms() == {"shares", "exec"}, r.stacks.comms()


@live
def all_threads_of_a_process():
    with workloads.start("threads") as w:
        r = record("-p", w.pid, "-F", 499, "-d", 1).ok()
    assert r.stacks.comms() == {"threads"}, r.stacks.comms()
    assert r.stacks.count("thread_one") and r.stacks.count("thread_two")


@live
def one_thread():
    with workloads.start("threads") as w:
        one, two = w.wait_line("tids").split()[1:]
        r = record("-L", one, "-F", 499, "-d", 1).ok()
        both = record("-L", f"{one},{two}", "-F", 499, "-d", 1).ok()
    assert r.stacks.count("thread_one") and not r.stacks.count("thread_two")
    assert both.stacks.count("thread_one") and both.stacks.count("thread_two")


@live
def threads_are_shown_when_asked_for():
    with workloads.start("threads") as w:
        r = record("-p", w.pid, "-F", 499, "-d", 1, "--threads").ok()
    for frames, _ in r.stacks:
        assert frames[0] == "threads", frames
        if "thread_one" in frames:
            assert "thread-one" in frames[1], frames
        if "thread_two" in frames:
            assert "thread-two" in frames[1], frames
    assert any("thread-one" in f[1] for f, _ in r.stacks)


@live
def user_frames_only():
    with workloads.start("shares") as w:
        r = record("-p", w.pid, "-U", "-F", 499, "-d", 1, "--annotations").ok()
    assert r.samples and not any(map(is_kernel, r.stacks.frames())), r.stacks.frames()
    assert r.stacks.share("main") > 0.95


@live
def kernel_frames_only():
    with workloads.start("syscalls") as w:
        r = record("-p", w.pid, "-K", "-F", 499, "-d", 1, "--annotations").ok()
    assert r.samples and all(map(is_kernel, r.stacks.frames())), r.stacks.frames()


@live
def kernel_frames_are_above_user_frames_with_a_mark_between():
    with workloads.start("syscalls") as w:
        r = record("-p", w.pid, "-F", 499, "-d", 1, "--annotations", "--delimited").ok()
    mixed = 0
    for frames, n in r.stacks:
        kinds = [is_kernel(f) for f in frames[1:] if f != "-"]
        assert kinds == sorted(kinds), frames
        if any(kinds) and not all(kinds):
            assert frames.count("-") == 1 and is_kernel(frames[frames.index("-") + 1]), frames
            mixed += n
    assert mixed > r.samples / 2, r.stacks


def idle_ticks():
    with open("/proc/stat") as f:
        return int(f.readline().split()[4])


@live
def idle_is_left_out_unless_asked_for():
    with workloads.start("shares"):
        r = record("-a", "-F", 199, "-d", 1).ok()
    assert not any(c.startswith("swapper") for c in r.stacks.comms()), r.stacks.comms()
    assert "shares" in r.stacks.comms()
    for _ in range(5):
        before = idle_ticks()
        r = record("-a", "-I", "-F", 199, "-d", 1).ok()
        if idle_ticks() - before >= 20:
            assert any(c.startswith("swapper") for c in r.stacks.comms()), r.stacks.comms()
            return
    skip("this machine is too busy to be idle for a fifth of a second in five")


@live
def no_target_is_the_whole_machine():
    with workloads.start("shares"), workloads.start("exec"):
        r = record("-F", 499, "-d", 1).ok()
    assert {"shares", "exec"} <= r.stacks.comms(), r.stacks.comms()


@live
def processes_of_a_name():
    with workloads.start("shares"), workloads.start("exec"):
        r = record("-a", "--comm", "exec", "-F", 499, "-d", 1).ok()
    assert r.stacks.comms() == {"exec"}, r.stacks.comms()


def check_cgroup(version):
    root = hierarchies()[version]
    if not root:
        skip(f"no cgroup {version} hierarchy here")
    with workloads.start("shares") as w, workloads.start("exec"):
        with cgroup(root, w.pid) as path:
            r = record("-a", "--cgroup", path, "-F", 499, "-d", 1).ok()
    assert r.samples and r.stacks.comms() == {"shares"}, r.stacks.comms()


@live
def a_cgroup_of_version_2():
    check_cgroup("v2")


@live
def a_cgroup_of_version_1():
    check_cgroup("v1")


@live
def processes_below_a_cgroup_belong_to_it():
    root = hierarchies()["v2"]
    if not root:
        skip("no cgroup v2 hierarchy here")
    parent = os.path.join(root, f"smolder-test-parent-{os.getpid()}")
    os.mkdir(parent)
    try:
        with workloads.start("shares") as w, workloads.start("exec"):
            with cgroup(parent, w.pid):
                r = record("-a", "--cgroup", parent, "-F", 499, "-d", 1).ok()
            with open(os.path.join(root, "cgroup.procs"), "w") as f:
                f.write(str(w.pid))
    finally:
        os.rmdir(parent)
    assert r.samples and r.stacks.comms() == {"shares"}, r.stacks.comms()


@live
def processes_far_below_a_cgroup_belong_to_it():
    root = hierarchies()["v2"]
    if not root:
        skip("no cgroup v2 hierarchy here")
    top = os.path.join(root, f"smolder-test-deep-{os.getpid()}")
    made = [top]
    try:
        os.mkdir(top)
        for i in range(60):
            made.append(os.path.join(made[-1], str(i)))
            os.mkdir(made[-1])
        with workloads.start("shares") as w, workloads.start("exec"):
            with cgroup(made[-1], w.pid):
                r = record("-a", "--cgroup", top, "-F", 499, "-d", 1).ok()
            with open(os.path.join(root, "cgroup.procs"), "w") as f:
                f.write(str(w.pid))
    finally:
        for path in reversed(made):
            os.rmdir(path)
    assert r.samples and r.stacks.comms() == {"shares"}, r.stacks.comms()


@live
def a_cgroup_that_is_not_one_is_refused():
    run("record", "--cgroup", "/nowhere", "-d", 1, "-o", "-").refused("/nowhere")
    run("record", "--cgroup", "/tmp", "-d", 1, "-o", "-").refused("/tmp")


@live
def an_event_that_is_not_one_is_refused():
    run("record", "-e", "flying-pigs", "-d", 1, "-o", "-").refused("flying-pigs")


@live
def the_event_may_be_named():
    r = record("-e", "cpu-clock", "-F", 499, "--", workloads.path("shares"), 0.5).ok()
    assert r.stacks.count("share_fifty")


@live
def json_says_what_was_recorded():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out.json")
        with workloads.start("shares") as w:
            r = run("record", "-p", w.pid, "-F", 499, "-d", 1, "-o", path).ok()
        with open(path) as f:
            text = f.read()
    assert "share_fifty" in text and json.loads(text)
    assert r.samples


main()

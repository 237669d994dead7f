#!/usr/bin/env python3
"""The screens of `smolder top`, whole, at 80x24 and 200x60: of windows made here, so nothing in them moves.

With WRITE=1 the files that they are compared with, in tests/golden/top/, are written instead: look at the
difference before it is committed.
"""
import os
import re
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, ".."))
from server import Server  # noqa: E402
from tap import SMOLDER, main, test  # noqa: E402
from terminal import Terminal  # noqa: E402
from windows import PERIOD, STORED, WINDOW_MS, Collector, finding, row  # noqa: E402

SIZES = ((80, 24), (200, 60))
MS = 10 ** 6


def windows(c, at):
    """Three processes, one of them in a container, and a name that is wider than it has bytes."""
    def of(stack, samples, comm, pid, thread, tid, **more):
        return row(stack, samples, comm=comm, pid=str(pid), thread=thread, tid=str(tid), **more)
    def waits(stack, ms, comm, pid, thread, tid, state, **more):
        return row(stack, 1, ms * MS, comm=comm, pid=str(pid), thread=thread, tid=str(tid), state=state, **more)
    web = dict(container="docker:0123456789ab")
    parse, write = ("_start@web", "main@web", "serve@web", "parse_header@web"), ("_start@web", "main@web", "write@libc.so.6")
    ran = [of(parse, 500, "web", 4711, "web", 4711, **web), of(write, 200, "web", 4711, "web", 4711, **web),
           of((*parse, "[k]page_fault"), 50, "web", 4711, "worker-1", 4712, **web),
           of(("start_thread@libc.so.6", *(f"deep_{i}@db" for i in range(12))), 120, "db", 900, "db", 900),
           of(("main@日本", "仕事@日本"), 9, "日本語", 33, "日本語", 33)]
    on = [row((), 1, r["value"], **dict(r["labels"])) for r in ran]
    off = [waits((*write, "[k]vfs_write"), 1500, "web", 4711, "web", 4711, "blocked", reason="disk", **web),
           waits(("_start@web", "main@web", "epoll_wait@libc.so.6"), 9400, "web", 4711, "worker-1", 4712, "idle",
                 reason="poll", **web),
           waits(parse, 800, "web", 4711, "web", 4711, "runnable", reason="cpu", **web),
           waits(("main@db", "fsync@libc.so.6"), 8500, "db", 900, "db", 900, "blocked", reason="disk")]
    for kind, rows, period in (("cpu", ran, PERIOD), ("offcpu", off, 0), ("oncpu", on, 0)):
        yield c.message(at, rows, kind=kind, period=period)
    began, until = at - 120000, at + 3 * WINDOW_MS
    yield c.message(at, [], kind="findings", unit="findings", period=0, findings=[
        finding(1, "web (pid 4711) calls epoll_wait with a timeout of 0, 61,000 times a second, in thread worker-1: "
                "99 % of these calls return nothing; it takes 50 % of a CPU.", began, until, pid=4711, tid=4712,
                comm="web", thread="worker-1", container="docker:0123456789ab", stack="_start;main;serve;poll_once",
                means="A loop asks again and again instead of waiting.", next="smolder trace -L 4712 -e epoll_wait"),
        finding(2, "db (pid 900) spends 60 % of its time in page faults, 12 % of a CPU.", began, until,
                kind="page-faults", sure=0.8, pid=900, comm="db",
                means="It touches memory for the first time again and again.", next="smolder record -e page-faults -p 900")])


def without_moment(text, url):
    """A screen without what is of this moment."""
    text = text.replace(url, "http://127.0.0.1:12345")
    return re.sub(r"(\d{4}-\d\d-\d\d )?\b\d\d:\d\d:\d\d\b", "12:34:56", text)


def check(name, got):
    path = os.path.join(HERE, "top", name + ".txt")
    if os.environ.get("WRITE"):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(got)
    with open(path) as f:
        expected = f.read()
    assert got == expected, f"{name} is not as it was:\n{got}\n---- but was:\n{expected}"


@test
def screens_are_as_they_were():
    with Server() as s:
        c = Collector()
        now = int(time.time() * 1000) // WINDOW_MS * WINDOW_MS
        # Whichever of them has just ended when it is asked for, it is the same.
        for at in range(now - WINDOW_MS, now + WINDOW_MS, WINDOW_MS):
            for message in windows(c, at):
                assert s.post(message).status == STORED
        for width, height in SIZES:
            with Terminal([SMOLDER, "top", "--server", s.url], width, height) as t:
                def shown(what, keys, is_there, t=t, size=f"{width}x{height}"):
                    if keys:
                        t.keys(*keys)
                    t.wait(what, is_there)
                    lines = [line.rstrip() for line in t.lines()]
                    check(f"{size}-{what}", without_moment("\n".join(lines), s.url) + "\n")

                def has(word):
                    return lambda lines: any(word in line for line in lines)

                shown("processes", (), has("parse_header"))
                shown("threads", ("t", "Down"), has("where its CPU time went, 120"))
                shown("searched", ("/", *"db", "Enter"), has("1 of 4: db"))
                shown("containers", ("Escape", "c"), has(" CONTAINER"))
                shown("findings", ("f",), has("See: "))
                shown("help", ("x", "h"), has("RUNNABLE%  time"))
                t.keys("q", "q")
                assert t.ended()[0] == 0


main()

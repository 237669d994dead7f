#!/usr/bin/env python3
"""How things end: Ctrl-C and a closed terminal reach every process of it, systemd's SIGTERM every
process of a service. Whatever comes, each sample that was taken is stored."""
import contextlib
import os
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import folded  # noqa: E402
import workloads  # noqa: E402
from always import account, children, free_port, nothing_refused, served, tree, until  # noqa: E402
from recording import Terminal, live  # noqa: E402
from tap import main, skip  # noqa: E402

LIMIT = 4  # seconds; what waits for an answer that never comes waits for five
AT_ONCE = 1  # what a machine that does nothing else needs at most, and a busy one in the best of
ATTEMPTS = 3


@contextlib.contextmanager
def running(*more, before=()):
    """`run` on a terminal that has samples to send; (terminal, its store)"""
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        with Terminal("run", "--store", store, "--listen", f"127.0.0.1:{free_port()}", *more,
                      before=before) as t:
            t.read_until("open http")
            for pid in tree(t.process.pid):  # sudo's terminal is a session of its own
                with contextlib.suppress(OSError), open(f"/proc/{pid}/autogroup", "w") as f:
                    f.write("-15")
            at = w.cpu_seconds()
            until("samples", lambda: w.cpu_seconds() > at + 0.5)
            yield t, store


def ends(t):
    began = time.monotonic()
    code = t.end()
    took = time.monotonic() - began
    print(f"# ended after {took:.2f} s")
    assert code == 0, (code, t.text)
    assert took < LIMIT, (took, t.text)
    nothing_refused(t.text)
    assert "killed" not in t.text, t.text
    return took


def all_stored(store):
    """But for what a machine that is too busy lost before: a ring that was full is not the end's."""
    with served(store) as s:
        metrics = s.metrics()
    taken, stored, lost = account(metrics)
    full = metrics['smolder_samples_lost_total{reason="ring_full"}']
    assert taken == stored + lost and lost == full and stored > 30, (taken, stored, lost, full)


@live
def ctrl_c_ends_it_at_once_and_keeps_every_sample():
    took = []
    while len(took) < ATTEMPTS and not (took and min(took) < AT_ONCE):
        with running() as (t, store):
            t.interrupt()
            took.append(ends(t))
            all_stored(store)
    assert min(took) < AT_ONCE, took


@live
def ctrl_c_pressed_twice_in_a_hurry_keeps_every_sample_too():
    with running() as (t, store):
        t.interrupt()
        t.interrupt()
        ends(t)
        all_stored(store)


@live
def ctrl_c_under_sudo_keeps_every_sample():
    if not shutil.which("sudo"):
        skip("sudo is not installed")
    with running(before=["sudo", "-n"]) as (t, store):
        t.interrupt()
        ends(t)
        all_stored(store)


@live
def a_closed_terminal_ends_it_and_keeps_every_sample():
    with running() as (t, store):
        t.close()
        ends(t)
        all_stored(store)


@live
def one_that_was_told_to_ignore_hangups_as_by_nohup_outlives_its_terminal():
    with running(before=["env", "--ignore-signal=HUP"]) as (t, store):
        collector = next(pid for pid, name in children(t.process.pid) if "collect" in name)
        t.close()
        time.sleep(1)  # it is told of the end, and reads its configuration again
        assert t.process.poll() is None, "it ended with its terminal"
        assert os.path.exists(f"/proc/{collector}") or len(children(t.process.pid)) == 2
        t.process.terminate()
        ends(t)
        all_stored(store)


@live
def sigterm_to_all_its_processes_keeps_every_sample():
    """As systemd sends it."""
    with running() as (t, store):
        os.killpg(t.process.pid, signal.SIGTERM)
        ends(t)
        all_stored(store)


@live
def a_second_ctrl_c_ends_what_hangs():
    with running() as (t, _):
        server = next(pid for pid, name in children(t.process.pid) if "serve" in name)
        os.kill(server, signal.SIGSTOP)
        t.interrupt()
        time.sleep(0.7)
        assert t.process.poll() is None, t.text
        t.interrupt()
        assert t.end() == 0, t.text
        assert not os.path.exists(f"/proc/{server}")


@live
def an_agent_and_its_server_end_by_ctrl_c_and_keep_every_sample():
    with tempfile.TemporaryDirectory() as d, workloads.start("shares") as w:
        store, port = os.path.join(d, "store"), free_port()
        with Terminal("serve", "--store", store, "--listen", f"127.0.0.1:{port}") as server:
            server.read_until("listening on")
            for end in (Terminal.interrupt, Terminal.close):
                with Terminal("agent", "--to", f"http://127.0.0.1:{port}", "--spool", os.path.join(d, "spool")) as t:
                    t.read_until("sampling every process")
                    began = w.cpu_seconds()
                    until("samples", lambda: w.cpu_seconds() > began + 1)
                    end(t)
                    ends(t)
            server.interrupt()
            ends(server)
        all_stored(store)


@live
def a_closed_terminal_ends_a_recording_which_is_written():
    with workloads.start("shares") as w, tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "out.folded")
        with Terminal("record", "-p", w.pid, "-F", 499, "-o", out) as t:
            t.read_until(r"[1-9]\d* samples")
            t.close()
            assert t.end() == 0
        with open(out) as f:
            assert folded.parse(f.read()).count("share_fifty")


main()

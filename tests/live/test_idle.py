#!/usr/bin/env python3
"""Idle is not blocked: real servers whose workers wait for work, beside locks, disks and pipes that
somebody waits for. One recording of all of them; each test judges a part of it."""
import contextlib
import functools
import http.client
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import postgres  # noqa: E402
import pprof  # noqa: E402
import slow_disk  # noqa: E402
import workloads  # noqa: E402
from always import free_port, until  # noqa: E402
from recording import live, run  # noqa: E402
from tap import Skip, main, skip  # noqa: E402

SECONDS = 3


def tool(name, *places):
    found = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], "/usr/sbin", *places]))
    return found or skip(f"{name} is not installed")


def answers(port):
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


class Requests:
    """A request to each of these ports every few milliseconds, until it is closed."""

    def __init__(self):
        self.ports, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.send, daemon=True)

    def send(self):
        while not self.over.wait(0.005):
            for port, ask in self.ports:
                with contextlib.suppress(OSError, http.client.HTTPException):
                    ask(port)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def ask_http(port):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    c.request("GET", "/")
    c.getresponse().read()
    c.close()


def ask_redis(port):
    with socket.create_connection(("127.0.0.1", port), 5) as s:
        s.sendall(b"PING\r\n")
        s.recv(64)


@contextlib.contextmanager
def nginx(folder, port):
    conf = os.path.join(folder, "nginx.conf")
    with open(conf, "w") as f:
        f.write(f"""daemon off; pid {folder}/nginx.pid; worker_processes 2; error_log /dev/null;
events {{ worker_connections 64; }}
http {{ access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p;
fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
server {{ listen 127.0.0.1:{port}; location / {{ return 200 "ok"; }} }} }}
""")
    with workloads.ended([tool("nginx"), "-p", folder, "-c", conf]) as p:
        until("nginx", lambda: answers(port))
        yield p


@contextlib.contextmanager
def redis(folder, port):
    with workloads.ended([tool("redis-server"), "--port", str(port), "--bind", "127.0.0.1", "--save", "",
                "--dir", folder]) as p:
        until("redis", lambda: answers(port))
        yield p


@functools.lru_cache
def recorded():
    """All of them run; what was recorded, or why something is not there, by part."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o755)
        asked = Requests()
        missing, started = {}, {}

        def begin(part, start):
            try:
                began = stack.enter_context(start())
                started[part] = began.pid
                return began
            except Exception as why:  # said by the test of this part
                missing[part] = why
                return None


        def sub(name):
            path = os.path.join(folder, name)
            os.mkdir(path)
            return path

        port = free_port()
        if begin("nginx", lambda: nginx(sub("nginx"), port)):
            asked.ports.append((port, ask_http))
        redis_port = free_port()
        if begin("redis", lambda: redis(sub("redis"), redis_port)):
            asked.ports.append((redis_port, ask_redis))
        begin("postgres", lambda: postgres.hot_row(sub("postgres")))
        go = begin("go", lambda: workloads.start("idle-go"))
        if go:
            asked.ports.append((int(go.wait_line("port ").split()[1]), ask_http))
        begin("java", lambda: java(sub("java")))
        begin("python", lambda: workloads.start("idle-py"))
        # Beside the build: temporary directories may be in memory.
        on_disk = stack.enter_context(tempfile.TemporaryDirectory(dir=os.path.dirname(workloads.path("idle"))))
        begin("c", lambda: workloads.start("idle", os.path.join(on_disk, "file")))
        try:
            disk = stack.enter_context(slow_disk.made(on_disk))
        except Skip as why:
            missing["writer"] = missing["reader"] = why
        else:
            there = os.path.join(disk.path, "there")
            with open(there, "wb") as f:
                f.write(bytes(16 << 20))
            begin("writer", lambda: workloads.ended(disk.argv("dd", "if=/dev/zero", f"of={disk.path}/new", "bs=4k",
                                                    "oflag=dsync")))
            begin("reader", lambda: workloads.ended(disk.argv("dd", f"if={there}", "of=/dev/null", "bs=4k",
                                                    "iflag=direct")))
        stack.enter_context(asked)
        out = os.path.join(folder, "waits.pb.gz")
        for seconds in (1, SECONDS):  # the second time, the tables of all files are there
            pids = {part: workloads.family(pid) for part, pid in started.items()}
            run("offcpu", "-p", ",".join(sum(pids.values(), [])), "-d", seconds, "-o", out).ok()
        return pprof.read(out), missing, pids


def java(folder):
    subprocess.run([tool("javac"), "-d", folder, os.path.join(workloads.SRC, "Idle.java")], check=True)
    return workloads.Workload([tool("java"), "-Xmx64m", "-cp", folder, "Idle"])


class Waits:
    """Time blocked, of what was selected."""

    def __init__(self, stacks):
        self.stacks = list(stacks)

    def where(self, *functions, **labels):
        return Waits(s for s in self.stacks
                     if all(s.labels.get(k) == v for k, v in labels.items())
                     and all(any(f.name == name for f in s.frames) for name in functions))

    def without(self, name):
        return Waits(s for s in self.stacks if not any(f.name == name for f in s.frames))

    @property
    def seconds(self):
        return sum(s.value for s in self.stacks) / 1e9

    @property
    def idle(self):
        for s in self.stacks:
            marked = bool(s.frames) and s.frames[-1].name == "[idle]"
            assert marked == (s.labels["state"] == "idle"), (s.labels, s.frames)
        return self.where(state="idle")

    def say(self):
        worst = sorted(self.stacks, key=lambda s: -s.value)[:6]
        return "\n".join(f"{s.value / 1e9:.2f} s {s.labels.get('thread')} {s.labels.get('state')} "
                         f"{s.labels.get('reason')}: {';'.join(f.name for f in reversed(s.frames))}"
                         for s in worst)

    def is_idle(self, least, share=0.8):
        """At least that many seconds of it, and most of them idle."""
        blocked = self.without_running()
        assert blocked.seconds >= least, f"only {blocked.seconds} s\n{blocked.say()}"
        assert blocked.idle.seconds >= share * blocked.seconds, \
            f"{blocked.idle.seconds:.2f} of {blocked.seconds:.2f} s are idle\n" \
            f"{Waits(s for s in blocked.stacks if s.labels['state'] != 'idle').say()}"

    def is_blocked(self, least, reason, share=0.8):
        """At least that many seconds of it, most of them for this reason, and none of those idle."""
        blocked = self.without_running()
        why = blocked.where(reason=reason)
        assert why.seconds >= least and why.seconds >= share * blocked.seconds, \
            f"{why.seconds:.2f} of {blocked.seconds:.2f} s are for {reason}\n{blocked.say()}"
        assert why.idle.seconds == 0, why.idle.say()

    def without_running(self):
        return Waits(s for s in self.stacks if s.labels["state"] != "runnable")


def part(name):
    stacks, missing, pids = recorded()
    if name in missing:
        raise missing[name]
    return Waits(s for s in stacks if s.labels["pid"] in pids[name])


@live
def workers_of_nginx_are_idle():
    part("nginx").is_idle(SECONDS)


@live
def redis_is_idle_between_commands():
    part("redis").is_idle(2 * SECONDS)


@live
def postgresql_waits_for_the_hot_row_or_for_its_client():
    w = part("postgres")
    backends = w.where("PostgresMain")
    backends.where("ProcSleep").is_blocked(0.5, "lock")
    assert backends.where("secure_read").idle.seconds > 0.2, backends.say()
    assert backends.where("secure_read").without_running().seconds == backends.where(
        "secure_read").idle.seconds, backends.where("secure_read").say()
    for process in ("WalWriterMain", "BackgroundWriterMain", "CheckpointerMain"):
        w.where(process).is_idle(0.5 * SECONDS)


@live
def threads_of_go_are_idle():
    part("go").is_idle(SECONDS)


@live
def java_tells_pools_from_monitors():
    w = part("java")
    w.where(thread="pool-1-thread-1").is_idle(0.5 * SECONDS)
    convoy = w.where(thread="convoy")
    convoy.where(reason="lock").is_blocked(0.5 * SECONDS, "lock")
    others = Waits(s for s in w.stacks if s.labels["thread"] not in ("convoy", "java"))
    others.is_idle(5 * SECONDS)


@live
def pythons_interpreter_lock_is_a_lock():
    w = part("python")
    burning = Waits(s for s in w.stacks if s.labels["tid"] != s.labels["pid"])
    burning.is_blocked(0.3 * SECONDS, "lock")


@live
def each_wait_of_a_program_in_c_is_what_it_is():
    w = part("c")
    convoy = w.where(thread="convoy")
    convoy.where("pthread_mutex_lock").is_blocked(0.5 * SECONDS, "lock")
    w.where(thread="pool").is_idle(SECONDS)
    w.where(thread="result").is_blocked(0.5 * SECONDS, "lock")
    w.where(thread="stuck").is_blocked(0.5 * SECONDS, "pipe")
    w.where(thread="sleeper").is_blocked(0.5 * SECONDS, "timer")
    w.where(thread="acceptor").is_idle(0.5 * SECONDS)
    disk = w.where(thread="disk")
    if disk.without_running().seconds < 0.05:
        skip("writes to the disk wait for nothing here")
    disk.is_blocked(0.05, "disk", share=0.8)


@live
def who_writes_to_a_slow_disk_is_blocked():
    part("writer").is_blocked(0.5 * SECONDS, "disk", share=0.95)


@live
def who_reads_from_a_slow_disk_is_blocked():
    part("reader").is_blocked(0.5 * SECONDS, "disk", share=0.95)


@live
def who_asks_decides():
    """By function, and idle time can be left out; but not that an idle thread waits for a CPU."""
    with workloads.start("idle") as w:
        r = run("offcpu", "-p", w.pid, "-d", 1, "--no-idle", "--idle-in", "fetch_*", "--blocked-in", "pool",
                "-f", "folded", "-o", "-").ok()
    shown = [frames for frames, _ in r.stacks if "[runnable]" not in frames]
    assert any("pool" in frames for frames in shown), shown
    for gone in ("[idle]", "fetch_result", "acceptor"):
        assert not any(gone in frames for frames in shown), [f for f in shown if gone in f]


@live
def threads_of_the_kernel_are_idle():
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "waits.pb.gz")
        run("offcpu", "-k", "-d", "1", "-o", out).ok()
        w = Waits(pprof.read(out))
    w.where(thread="kthreadd").is_idle(0.9)
    workers = Waits(s for s in w.stacks if s.labels["thread"].startswith("kworker"))
    workers.is_idle(0.9)


main()

"""Starts `smolder run` on a store of its own, and asks it things."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time
import urllib.request

from recording import PATIENCE
from tap import SMOLDER

WINDOW = 10


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, condition, patience=PATIENCE):
    """Waits for a condition, and returns what it gave."""
    end = time.monotonic() + patience
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < end, f"waited {patience} s for {what}"
        time.sleep(0.1)


def children(pid):
    found = []
    for line in subprocess.run(["ps", "-o", "pid=,comm=", "--ppid", str(pid)],
                               capture_output=True, text=True).stdout.splitlines():
        n, name = line.split(None, 1)
        found.append((int(n), name))
    return found


def tree(pid):
    """It and all its children."""
    return [pid] + [p for child, _ in children(pid) for p in tree(child)]


def memory(pids):
    """(resident of all processes, BPF maps: in full, though what is mapped of them is in the former)"""
    resident, maps = 0, {}
    for pid in pids:
        with open(f"/proc/{pid}/smaps_rollup") as f:
            resident += int(re.search(r"^Rss: +(\d+)", f.read(), re.M)[1]) << 10
        for fd in os.listdir(f"/proc/{pid}/fdinfo"):
            with contextlib.suppress(OSError):
                with open(f"/proc/{pid}/fdinfo/{fd}") as f:
                    info = dict(re.findall(r"^(\w+):\s*(\S+)$", f.read(), re.M))
                if "map_id" in info:
                    maps[int(info["map_id"])] = int(info["memlock"])
    return resident, sum(maps.values())


# What a collector says whose filter of system calls lacks one that it makes.
REFUSED_CALL = re.compile("may not make the system call|seccomp filter refused the system call")


def nothing_refused(words):
    """The filter of system calls let the collector do all that it does."""
    assert not REFUSED_CALL.search(words), words


class Always:
    """A running `smolder run`."""

    def __init__(self, store, *args, port=None, env=None, binary=SMOLDER, before=()):
        self.store, self.port = store, port or free_port()
        self.err_path = tempfile.mktemp(prefix="smolder-run-")
        self.argv = [*before, binary, "run", "--store", store,
                     "--listen", f"127.0.0.1:{self.port}", *args]
        with open(self.err_path, "w") as err:
            self.process = subprocess.Popen(self.argv, stdout=err, stderr=err,
                                            env={**os.environ, **(env or {})})

    @property
    def err(self):
        with open(self.err_path) as f:
            return f.read()

    def ready(self):
        def look():
            assert self.process.poll() is None, f"run ended: {self.err}"
            return "open http://" in self.err
        until("run to be ready", look)
        return self

    def get(self, path, timeout=30):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=timeout) as r:
            return r.read()

    def json(self, path):
        return json.loads(self.get(path))

    def metrics(self):
        """{name with labels: value}; {} while nobody answers"""
        try:
            text = self.get("/metrics").decode()
        except OSError:
            return {}
        return {m[1]: float(m[2]) for m in re.finditer(r"^(\S+) (\S+)$", text, re.M)}

    def collectors(self, name):
        """What each collector says of itself under this name."""
        return [v for k, v in self.metrics().items() if k.startswith(name + "{instance=")]

    def troubles(self):
        """What its collector had to do without: {kind: how often}"""
        found = {k: v for k, v in self.metrics().items() if "_trouble_total{" in k}
        return {re.search('what="(.*?)"', k)[1]: v for k, v in found.items()}

    def half(self, name):
        """The pid of a half: "collect" or "serve"; None while there is none"""
        for pid, comm in children(self.process.pid):
            if comm.startswith(f"smolder-{name}"):
                return pid
        return None

    def stored(self):
        return self.metrics().get("smolder_samples_stored_total", 0)

    def wait_stored(self, more=1):
        before = self.stored()
        until("a window to be stored", lambda: self.stored() >= before + more, 60)

    def sampled(self, *types):
        """How many samples of these profiles are stored; `cpu` unless it is said."""
        try:
            return sum(self.json(f"/api/v1/query?query={t}&from=now-1d&max_nodes=1")["samples"] for t in types or ("cpu",))
        except OSError:
            return 0

    def wait_sampled(self, more, *types):
        before = self.sampled(*types)
        until("samples to be stored", lambda: self.sampled(*types) >= before + more, 60)

    def query(self, *args):
        return subprocess.run([SMOLDER, "query", *args, "--server",
                               f"http://127.0.0.1:{self.port}"], capture_output=True, text=True)

    def stop(self, signo=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(signo)
        code = self.process.wait(PATIENCE)
        return code


@contextlib.contextmanager
def always(*args, store=None, **more):
    with contextlib.ExitStack() as stack:
        if store is None:
            store = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "store")
        os.chmod(os.path.dirname(store), 0o755)
        a = Always(store, *args, **more)
        try:
            yield a.ready()
        finally:
            a.stop()
            words = a.words = a.err
            with contextlib.suppress(FileNotFoundError):
                os.unlink(a.err_path)
        nothing_refused(words)


@contextlib.contextmanager
def agent(url, *args):
    """A running `smolder agent`; whoever looks at it in the end sees all that it sent."""
    with tempfile.NamedTemporaryFile("w+") as err, tempfile.TemporaryDirectory() as spool:
        own = [] if "--spool" in args else ["--spool", os.path.join(spool, "spool")]
        p = subprocess.Popen([SMOLDER, "agent", "--to", url, *own, *args], stderr=err)
        try:
            yield p
        finally:
            p.terminate()
            code = p.wait(PATIENCE)
        err.seek(0)
        words = err.read()
        assert code == 0, (code, words)
        nothing_refused(words)


def account(metrics):
    """(taken, stored, lost) of a store that nobody writes to any more."""
    lost = sum(v for k, v in metrics.items() if k.startswith("smolder_samples_lost_total{"))
    return metrics["smolder_samples_taken_total"], metrics["smolder_samples_stored_total"], lost


@contextlib.contextmanager
def served(store, *args):
    """The store, served alone."""
    port = free_port()
    p = subprocess.Popen([SMOLDER, "serve", "--store", store, "--listen", f"127.0.0.1:{port}", "-q",
                          *args])
    a = Always.__new__(Always)
    a.process, a.port, a.store = p, port, store
    try:
        until("serve to answer", a.metrics)
        yield a
    finally:
        p.terminate()
        p.wait(PATIENCE)

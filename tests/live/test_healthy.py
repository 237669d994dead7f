#!/usr/bin/env python3
"""On a busy machine on which nothing is wrong, nothing is found.

A minute of a compiler, pgbench, redis-benchmark, nginx under load, and servers of node and Go that are
loaded to 70 %; ten minutes with SMOLDER_SOAK=1.
"""
import contextlib
import glob
import os
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import postgres  # noqa: E402
import workloads  # noqa: E402
from always import always, free_port, nothing_refused, until  # noqa: E402
from recording import live  # noqa: E402
from tap import ROOT, SOAK, main, skip  # noqa: E402

TURN_S = 200 if SOAK else 22  # of each pair of programs
RATE = 350  # requests a second of 2 ms each: 70 % of a CPU


@contextlib.contextmanager
def compiler(_):
    """Two processes that compile this program again and again."""
    sources = " ".join(sorted(glob.glob(f"{ROOT}/src/base/*.c") + glob.glob(f"{ROOT}/src/query/*.c")))
    one = f"gcc -std=gnu17 -O2 -D_GNU_SOURCE -I{ROOT}/src -I{ROOT}/build/gen -c -o /dev/null"
    with workloads.shell(f"while :; do echo {sources} | xargs -n 1 -P 2 {one}; done"):
        yield


@contextlib.contextmanager
def pgbench(folder):
    with workloads.ended(postgres.make(folder), cwd=folder):
        until("postgres", lambda: postgres.answers(folder))
        postgres.run(folder, postgres.client(folder, "pgbench", "-i", "-q", "-s", "2"))
        with workloads.ended(postgres.client(folder, "pgbench", "-n", "-c", "8", "-j", "2", "-T", "3600"), cwd=folder):
            yield


@contextlib.contextmanager
def redis(folder):
    port = str(free_port())
    with workloads.ended(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder]):
        until("redis", lambda: subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).stdout == b"PONG\n")
        with workloads.ended(["redis-benchmark", "-p", port, "-q", "-l", "-c", "20", "-t", "set,get,lpush"]):
            yield


@contextlib.contextmanager
def nginx(folder):
    port = free_port()
    with open(f"{folder}/index.html", "w") as f:
        f.write("<p>nothing is wrong</p>\n" * 100)
    with open(f"{folder}/nginx.conf", "w") as f:
        f.write(f"worker_processes 2; pid {folder}/pid; error_log {folder}/error.log; daemon off;\n"
                f"events {{}} http {{ access_log off; server {{ listen 127.0.0.1:{port}; root {folder}; }} }}\n")
    os.chmod(f"{folder}/index.html", 0o644)  # for nginx's workers, whatever the umask
    with workloads.ended(["nginx", "-c", f"{folder}/nginx.conf", "-p", folder]):
        until("nginx", lambda: os.path.exists(f"{folder}/pid"))
        with workloads.start("web", "load", f"http://127.0.0.1:{port}/", str(10 * RATE)):
            yield


def served_by(name, *args):
    @contextlib.contextmanager
    def server(_):
        with workloads.start(name, *args) as s:
            port = s.lines[0].split()[2]
            with workloads.start("web", "load", f"http://127.0.0.1:{port}/", str(RATE)):
                yield
    return server


def running():
    """Threads that run or want to, on the whole machine: the most in a second."""
    most = 0
    for _ in range(20):
        with open("/proc/loadavg") as f:
            most = max(most, int(f.read().split()[3].split("/")[0]))
        time.sleep(0.05)
    return most


PAIRS = ((pgbench, served_by("server-js")), (redis, served_by("web", "serve")), (nginx, compiler))


@live
def nothing_is_found_on_a_healthy_busy_machine():
    for program in ("redis-server", "redis-benchmark", "nginx"):
        if not any(os.path.exists(f"{d}/{program}") for d in ("/usr/bin", "/usr/sbin")):
            skip(f"{program} is not installed")
    others = 0  # that somebody else runs here
    with always() as a:
        for pair in PAIRS:
            others = max(others, running())
            with contextlib.ExitStack() as stack:
                for program in pair:
                    folder = stack.enter_context(tempfile.TemporaryDirectory())
                    os.chmod(folder, 0o755)
                    stack.enter_context(program(folder))
                time.sleep(TURN_S)
        found = a.json("/api/v1/findings?from=now-1h")["findings"]
        for f in found:
            print(f"# {f['kind']}: {f['headline']} {f['facts']}")
        # Only the queue for the CPUs is of others as well: it is none of ours if it is not one without them.
        ours = [f for f in found if f["kind"] != "cpu-queue"
                or f["facts"]["runnable_threads"] - others >= 8 * f["facts"]["cpus"]]
        assert not ours, [f["headline"] for f in ours]
        nothing_refused(a.err)
        assert any(v >= 10 for k, v in a.metrics().items() if k.startswith("smolder_samples_stored_total"))


main()

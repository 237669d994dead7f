#!/usr/bin/env python3
"""`smolder trace` shows what programs do as strace shows it, call by call, and counts what it lost."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import postgres
import strace
import workloads
from control_groups import cgroup, hierarchies
from recording import PATIENCE, Terminal, live, run, wait_attached
from tap import SMOLDER, main, skip

END = re.compile(r"(\d+) calls? in [\d.]+ s, (\d+) lost")

STRING = r'"(?:[^"\\]|\\.)*"(?:\.\.\.)?'

# How our lines may differ from strace's, by kind: (kind, which calls, what of their line differs from
# what of ours). Nothing else may.
ALLOWED = (
    # A thread that is killed while it waits: the kernel means to restart the call, and never does.
    ("killed in the call", r"\w+\(", r" = \?$", r" = \? ERESTART\w+ .*$"),
    # A page of PostgreSQL's shared memory, which another process may change between two looks at it.
    ("shared memory", r"p(read|write)(64|v)\(", STRING, STRING),
    # What a time is by the calendar.
    ("date", r"utimensat\(", r" /\* \d{4}-\S+ \*/", r"$"),
)
RARE = 0.01  # of all calls


def kind_of(theirs, ours):
    for kind, calls, a, b in ALLOWED:
        if re.match(calls, theirs) and re.search(a, theirs) and re.search(b, ours) \
                and re.sub(a, "", theirs) == re.sub(b, "", ours):
            return kind
    return None


@contextlib.contextmanager
def both_trace(*command, flags=(), only=(), **popen):
    """smolder traces strace, which traces the command: both see the same calls, with the same
    addresses, numbers and times in them. Yields what they have written when all has ended."""
    with tempfile.TemporaryDirectory() as d:
        theirs, ours = os.path.join(d, "theirs"), os.path.join(d, "ours")
        p = subprocess.Popen([SMOLDER, "trace", "--buffer", "64", *flags, *only, "-o", ours, "--", "strace", "-f", *flags,
                              "-o", theirs, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             stdin=subprocess.DEVNULL, **popen)
        traced = {}
        try:
            yield traced
            said = p.communicate(timeout=PATIENCE)[1].decode("utf-8", "replace")
        finally:
            p.kill()
            p.wait()
        m = END.search(said)
        assert m and m[2] == "0", (p.returncode, said)
        traced.update(code=p.returncode,
                      theirs=strace.by_thread(strace.read(theirs)), ours=strace.by_thread(strace.read(ours)),
                      their_stacks=strace.stacks(theirs), our_stacks=strace.stacks(ours))


def check_same(traced, least, threads=1):
    """Call by call, thread by thread; strace's own calls, and its child's before it is the program,
    are left out."""
    seen, wrong, calls = {}, [], 0
    for n, (tid, theirs) in enumerate(traced["theirs"].items()):
        ours = traced["ours"].get(tid, [])
        if n == 0:
            ours = ours[[c.name for c in ours].index("execve"):]
        calls += len(theirs)
        for pair in strace.differences(theirs, ours):
            kind = kind_of(*pair)
            seen[kind] = seen.get(kind, 0) + 1
            if not kind:
                wrong.append(pair)
    print(f"# {calls} calls of {len(traced['theirs'])} threads; differences: {seen or 'none'}")
    assert calls >= least and len(traced["theirs"]) >= threads, (calls, len(traced["theirs"]))
    assert not wrong, "\n".join(f"strace:  {x}\nsmolder: {y}" for x, y in wrong[:20])
    assert sum(seen.values()) <= max(20, RARE * calls), seen


def check_program(*command, least, **popen):
    with both_trace(*command, **popen) as traced:
        pass
    assert traced["code"] == 0, traced["code"]
    check_same(traced, least)


@live
def ls_as_strace_shows_it():
    check_program("ls", "-l", "/usr", least=50)


@live
def git_as_strace_shows_it():
    with tempfile.TemporaryDirectory() as d:
        env = {**os.environ, "HOME": d, "GIT_CONFIG_NOSYSTEM": "1"}
        for words in (["init", "-q"], ["-c", "user.name=x", "-c", "user.email=x@example.com", "commit",
                                       "-q", "--allow-empty", "-m", "first"]):
            subprocess.run(["git", *words], cwd=d, env=env, check=True)
        check_program("git", "log", cwd=d, env=env, least=50)


@live
def python_as_strace_shows_it():
    program = "import socket, subprocess, select\n" \
        "a, b = socket.socketpair()\na.send(b'x' * 100)\nselect.select([b], [], [], 1)\nb.recv(10)\n" \
        "p = select.poll()\np.register(b, select.POLLIN)\np.poll(100)\n" \
        "e = select.epoll()\ne.register(b.fileno(), select.EPOLLIN)\ne.poll(1)\n" \
        "s = socket.socket()\ns.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n" \
        "s.bind(('127.0.0.1', 0))\ns.listen(5)\n" \
        "u = socket.socket(socket.AF_UNIX)\n" \
        "try: u.connect('/nowhere/at/all')\nexcept OSError: pass\n" \
        "subprocess.run(['true'])\n"
    check_program("python3", "-I", "-S", "-c", program, least=200)


@live
def each_kind_of_argument_as_strace_shows_it():
    with tempfile.TemporaryDirectory() as d:
        check_program(workloads.path("every"), d, least=400)


@contextlib.contextmanager
def web_server():
    """One page, always the same."""
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", 0))
    s.listen(5)

    def serve():
        with contextlib.suppress(OSError):
            while True:
                c, _ = s.accept()
                with c:
                    c.recv(65536)
                    c.sendall(b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello")

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield s.getsockname()[1]
    finally:
        s.close()


@live
def curl_as_strace_shows_it():
    with web_server() as port:
        check_program("curl", "-s", f"http://127.0.0.1:{port}/", least=100)


@live
def node_as_strace_shows_it():
    check_program("node", "-e", "require('fs').readFileSync('/etc/passwd'); setTimeout(() => {}, 20)", least=300)


@live
def postgresql_under_pgbench_as_strace_shows_it():
    """The server with all its processes, from its start to its end."""
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        server = postgres.make(d)
        with both_trace(*server, cwd=d) as traced:
            deadline = time.monotonic() + PATIENCE
            while not postgres.answers(d) and time.monotonic() < deadline:
                time.sleep(0.1)
            postgres.run(d, postgres.client(d, "pgbench", "-i", "-q"))
            postgres.run(d, postgres.client(d, "pgbench", "-c", "2", "-t", "10", "-n"))
            with open(f"{d}/data/postmaster.pid") as f:
                os.kill(int(f.readline()), signal.SIGINT)
        check_same(traced, least=2000, threads=8)


@live
def stacks_as_strace_shows_them():
    """Of each call the same frames: in the same files and, where all names are known, functions."""
    program = workloads.path("nested_calls")
    with both_trace(program, flags=("-k",), only=("--comm", os.path.basename(program))) as traced:
        pass
    check_same(traced, least=20)
    theirs, ours = traced["their_stacks"], traced["our_stacks"]

    def frames(stack):
        return [(path, name if path == program else "") for path, name in stack]

    # strace walks when the call begins: execve's old stack is gone when it ends, and some calls do not
    # end. A program's first calls may come before its mappings are known.
    compared = [c for c in theirs if c[1] not in ("execve", "exit_group") and ("", "[incomplete]") not in ours[c]]
    print(f"# {len(compared)} of {len(theirs)} calls")
    assert len(compared) >= 15, [ours[c] for c in ours]
    wrong = [(c, theirs[c], ours[c]) for c in compared if frames(theirs[c]) != frames(ours[c])]
    assert not wrong, wrong[:3]
    known = [[name for path, name in s if path == program] for (_, name, _), s in ours.items() if name == "getppid"]
    assert known == [["inner", "outer", "main", "_start"], ["inner", "main", "_start"]], known


@live
def stacks_in_json_and_of_many_calls():
    r, lines = lines_of("-k", "--json", "-e", "getppid", "--", workloads.path("nested_calls"), 2000)
    calls = [c for c in map(json.loads, lines) if c.get("call") == "getppid"]
    assert len(calls) == 4000 and END.search(r.err), (len(calls), r.err)
    lost = re.search(r"(\d+) stacks were lost", r.err)
    empty = sum(not c["stack"] for c in calls)
    assert empty == (int(lost[1]) if lost else 0), (empty, r.err)
    whole = 0
    for i, c in enumerate(calls):
        names = [f["function"] for f in c["stack"] if f["module"].endswith("nested_calls")]
        truth = ["inner", "outer", "main", "_start"] if i % 2 == 0 else ["inner", "main", "_start"]
        # Where there was no room to copy a stack before the program's tables were there, its end is missing.
        cut = not c["stack"] or c["stack"][-1]["function"] == "[incomplete]"
        assert names == truth[:len(names)] if cut else names == truth, (i, c["stack"])
        whole += not cut
    assert whole >= 10, whole


def lines_of(*args, **kw):
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out")
        words = list(map(str, args))
        r = run("trace", "-o", path, *words, **kw)
        with open(path, encoding="latin-1") as f:
            return r, f.read().splitlines()


@live
def every_call_is_there_or_lost():
    n = 200000
    r, lines = lines_of("-e", "epoll_wait", "--", workloads.path("epolls"), n)
    assert r.code == 3, (r.code, r.err)
    m = END.search(r.err)
    calls = sum("epoll_wait(" in line for line in lines)
    assert m and calls == int(m[1]) and calls + int(m[2]) == n, (calls, r.err)
    assert calls > 100, r.err
    # The same with hardly any room: what is lost is counted.
    r, lines = lines_of("-e", "epoll_wait", "--buffer", 1, "--", workloads.path("epolls"), n)
    m = END.search(r.err)
    calls = sum("epoll_wait(" in line for line in lines)
    assert calls + int(m[2]) == n, (calls, r.err)


@live
def the_summary_counts_every_call():
    r, lines = lines_of("-c", "--", workloads.path("epolls"), 54321)
    assert r.code == 3, r.err
    text = "\n".join(lines)
    assert re.search(r"^% time +seconds +usecs/call +calls +errors syscall$", text, re.M), text
    assert re.search(r"^ *[\d.]+ +[\d.]+ +\d+ +54321 +epoll_wait$", text, re.M), text
    assert re.search(r"^100\.00 .* total$", text, re.M), text
    r, lines = lines_of("--histogram", "-e", "epoll_wait", "--", workloads.path("epolls"), 1000)
    assert any("|**" in line for line in lines), lines


@live
def a_summary_each_interval():
    """Each has a time and a table of its own, unless there was no call; together they have every call."""
    program = f"for i in 1 2 3; do {workloads.path('calls')} >/dev/null; sleep 0.4; done"
    r, lines = lines_of("-c", "-i", "0.1", "-e", "getpgid,chdir", "--", "sh", "-c", program)
    assert r.code == 0, r.err
    parts = re.split(r"^(\d\d:\d\d:\d\d)(?:$|(: no calls)$)", "\n".join(lines), flags=re.M)
    assert parts[0] == "" and len(parts) > 3 * 4, lines
    sums, empty = {"getpgid": 0, "chdir": 0}, 0
    for none, table in zip(parts[2::3], parts[3::3]):
        rows = table.strip("\n").splitlines()
        if none:
            assert rows == [], lines
            empty += 1
            continue
        assert rows[0].startswith("% time ") and rows[1] == rows[-2] and set(rows[1]) == {"-", " "}, rows
        assert rows[-1].startswith("100.00 ") and rows[-1].endswith(" total"), rows
        for row in rows[2:-2]:
            assert row.split()[-1] in sums and 0 <= float(row.split()[0]) <= 100, rows
            sums[row.split()[-1]] += int(row.split()[3])
    assert empty and sums == {"getpgid": 3000, "chdir": 900}, (empty, sums)
    r = run("trace", "-c", "-i", "0.2", "--histogram", "-a", "--comm", "no such program", "-d", "0.5").ok()
    assert re.fullmatch(rb"(\d\d:\d\d:\d\d: no calls\n\n?)+", r.out), r.out


def names_of(lines):
    return {re.search(r"(?:^|[ .\d])([a-z_]\w*)\(", line)[1] for line in lines if "(" in line and "---" not in line}


@live
def classes_and_how_lines_begin():
    """Each class of calls once, and each way to show the time with one of them."""
    clock = r"\d+ +(\d\d:\d\d:\d\d)"
    cases = (
        ("%network", "-t", {"socket", "bind", "connect", "setsockopt"}, {"openat", "read", "mmap", "futex"},
         clock + r" \S"),
        ("%process", "-tt", {"execve", "exit_group"}, {"openat", "socket", "mmap"}, clock + r"\.\d{6} \S"),
        ("%memory", "-ttt", {"mmap", "munmap", "mprotect", "brk"}, {"openat", "socket", "execve"},
         r"\d+ +(\d{10}\.\d{6}) \S"),
        ("%desc", "-r", {"read", "write", "openat", "poll", "epoll_ctl"}, {"execve", "futex", "munmap", "socket"},
         r"\d+ +(\d+\.\d{6}) \S"),
        ("!futex,%desc", "-T", {"execve", "munmap", "socket"}, {"futex", "read", "write", "poll"}, r"(\d+) +\S"),
    )
    for calls, stamp, there, not_there, begin in cases:
        with tempfile.TemporaryDirectory() as d:
            began = time.time()
            r, lines = lines_of(stamp, "-s", 5, "-e", calls, "--", workloads.path("every"), d)
            ended = time.time()
        assert r.code == 0, r.err
        names = names_of(lines)
        assert there <= names and not names & not_there, (calls, names)
        stamps = [re.match(begin, line) for line in lines]
        assert all(stamps), (stamp, [line for line, m in zip(lines, stamps) if not m][:3])
        if stamp in ("-t", "-tt"):
            day = [time.strftime("%H:%M:%S", time.localtime(t)) for t in range(int(began), int(ended) + 1)]
            assert {m[1] for m in stamps} <= set(day), (stamps[0], day)
        elif stamp == "-ttt":
            assert all(began - 0.01 <= float(m[1]) <= ended + 0.01 for m in stamps), (began, stamps[0], ended)
        elif stamp == "-r":
            assert sum(float(m[1]) for m in stamps) <= ended - began, lines
            assert any(line.endswith('"exact"..., 32) = 32') for line in map(squeezed, lines)), lines  # -s
        else:
            assert all(re.search(r"<\d+\.\d{6}>$", line) for line in lines if " = " in line and "= ?" not in line)


def squeezed(line):
    return re.sub(" +", " ", line)


@live
def a_control_group():
    roots = [root for root in hierarchies().values() if root]
    if not roots:
        skip("no hierarchy of control groups here")
    with Marks() as one, Marks() as two:
        for root in roots:
            with cgroup(root, one.process.pid) as path:
                _, lines = lines_of("--json", "--cgroup", path, "-d", "0.5")
            pids = {c["pid"] for c in map(json.loads, lines) if "pid" in c}
            assert pids == {one.process.pid}, (pids, two.process.pid)
        run("trace", "--cgroup", "/nowhere", "-d", 1).refused("/nowhere")


@live
def what_a_path_cannot_be_in_is_not_sent():
    """A process that makes far more calls than the ring carries, none of which has a path."""
    with workloads.start("calls", "loop") as w:
        r, lines = lines_of("-P", "/nowhere", "--buffer", 1, "-p", w.pid, "-d", 1)
    m = END.search(r.err)
    assert m and m[1] == m[2] == "0" and not lines, r.err


@live
def calls_on_a_path_that_do_not_return():
    """Of a pipe that nobody opens, or nobody writes to: told by its name, and by its descriptor."""
    with tempfile.TemporaryDirectory() as d:
        path, out = os.path.join(d, "fifo"), os.path.join(d, "out")
        os.mkfifo(path)
        for number, line in ((OPENAT, r'openat\(AT_FDCWD, "{}", O_RDONLY <unfinished ...>'),
                             (READ, r"read\(3<{}>, 0x[0-9a-f]+, \d+ <unfinished ...>")):
            other = os.open(path, os.O_RDWR) if number == READ else None
            log = open(os.path.join(d, "said"), "w+")
            p = subprocess.Popen([SMOLDER, "trace", "-P", path, *(["-y"] if number == READ else []), "-o", out, "--",
                                  "cat", path], stderr=log)
            child = wait_in_call(p.pid, number)
            try:
                p.send_signal(signal.SIGINT)
                p.wait(timeout=PATIENCE)
            finally:
                os.kill(child, signal.SIGKILL)
                p.kill()
                if other is not None:
                    os.close(other)
            text, said = workloads.read(out), workloads.read(log.name)
            log.close()
            assert re.search(r"^\d+ +" + line.format(re.escape(path)) + "$", text, re.M), (text, said)
            assert "clock_nanosleep" not in text and "no system call" not in said, (text, said)


@live
def long_arguments_of_a_program_are_no_nonsense():
    """More than is kept from a call's beginning to its end."""
    words = [c * 3000 for c in "abcd"]
    r, lines = lines_of("-s", 4000, "-e", "execve", "--", "true", *words)
    line = next(line for line in lines if "execve(" in line)
    assert r.code == 0 and words[0] in line and "no sense" not in r.err, r.err


@live
def only_what_was_asked_for():
    with tempfile.TemporaryDirectory() as d:
        here, gone = os.path.join(d, "here"), os.path.join(d, "gone")
        open(here, "w").close()
        program = workloads.path("epolls")
        _, lines = lines_of("-e", "%file", "--", program, 10, here, gone)
        assert any(here in line for line in lines) and not any(" epoll_" in line for line in lines), lines
        _, lines = lines_of("-e", "!epoll_wait", "--", program, 10, here, gone)
        assert any("epoll_create1" in line for line in lines), lines
        assert not any("epoll_wait" in line for line in lines), lines
        _, lines = lines_of("--failed", "--", program, 10, here, gone)
        assert any(gone in line for line in lines) and all("= -1 E" in line or "= ? E" in line for line in lines), lines
        _, lines = lines_of("--errno", "ENOENT", "-e", "openat", "--", program, 10, here, gone)
        assert any(gone in line for line in lines) and all("ENOENT" in line for line in lines), lines
        _, lines = lines_of("--min-latency", "10ms", "-T", "--", program, 10, here, gone)
        assert any("clock_nanosleep" in line for line in lines), lines
        assert all(float(re.search(r"<([\d.]+)>$", line)[1]) >= 0.01 for line in lines), lines
        _, lines = lines_of("-P", here, "--", program, 10, here, gone)
        assert len(lines) == 2 and "openat(" in lines[0] and "close(" in lines[1], lines
        _, lines = lines_of("-y", "-e", "close,openat", "--", program, 10, here)
        assert any(f"= 4<{here}>" in line for line in lines), lines
        assert any(f"close(4<{here}>)" in line for line in lines), lines


@live
def paths_are_as_the_process_has_them():
    with tempfile.TemporaryDirectory() as d:
        program = workloads.path("epolls")
        libraries = re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True).stdout)
        for path in (program, *libraries):
            os.makedirs(d + os.path.dirname(path), exist_ok=True)
            shutil.copy(path, d + path)
        open(os.path.join(d, "here"), "w").close()
        _, lines = lines_of("-y", "-P", "/here", "--", "chroot", d, program, 10, "/here")
        assert len(lines) == 2 and "= 4</here>" in lines[0] and "close(4</here>)" in lines[1], lines


@live
def hostile_names_are_no_commands_to_a_terminal():
    with tempfile.TemporaryDirectory() as d:
        name = os.path.join(d, "\033]0;owned\007\n\x9b31m" + "x" * 100)
        for more in ([], ["--json"], ["-y"]):
            r, lines = lines_of("-e", "openat", *more, "--", workloads.path("epolls"), 1, name)
            text = "\n".join(lines)
            assert "owned" in text and text.replace("\n", "").isprintable() and text.isascii(), text
    with workloads.start("comm", "\033]0;own\007\n\x9b1m") as w:
        for more in ([], ["--json"]):
            r = run("trace", *more, "-p", w.pid, "-d", "0.1").ok()
            text = r.out.decode() + r.err
            assert "clock_gettime" in text and ("own" in text or not more), text[:2000]
            # JSON has what replaces a byte that is no character.
            assert not re.search(r"[^ -~\n\ufffd]", text), text[:2000]


@live
def json_lines():
    r, lines = lines_of("--json", "--", workloads.path("epolls"), 3, "/no/such/file")
    calls = [json.loads(line) for line in lines]
    failed = [c for c in calls if c.get("error") == "ENOENT" and c["call"] == "openat"]
    assert failed and failed[-1]["args"][1] == '"/no/such/file"' and failed[-1]["result"] == -1, calls
    assert sum(c.get("call") == "epoll_wait" for c in calls) == 3, calls
    assert calls[-1]["end"] == "+++ exited with 3 +++", calls[-1]
    assert all(c["latency"] >= 0 for c in calls if "latency" in c), calls
    # What a timeout means is told, however it was given.
    assert all(c["timeout"] == 0 for c in calls if c.get("call") == "epoll_wait"), calls
    program = "import select, os\nr, w = os.pipe()\nos.write(w, b'x')\np = select.poll()\np.register(r, 1)\n" \
        "p.poll(0), p.poll(250), p.poll()\nselect.select([r], [], []), select.select([r], [], [], 1.5)\n"
    r, lines = lines_of("--json", "-e", "poll,select,pselect6,read", "--", "python3", "-I", "-S", "-c", program)
    calls = [c for c in map(json.loads, lines) if "call" in c]
    waits = [c.get("timeout") for c in calls if c["call"] != "read"]
    assert waits == [0, 0.25, "infinite", "infinite", 1.5], calls
    assert not any("timeout" in c for c in calls if c["call"] == "read"), calls


@live
def children_and_ends():
    r, lines = lines_of("-e", "execve,exit_group,wait4", "--", "sh", "-c", "/bin/true; /bin/false; exit 7")
    assert r.code == 7, r.err
    assert [re.search(r'execve\("([^"]*)"', x)[1] for x in lines if "execve(" in x][1:] == ["/bin/true", "/bin/false"], lines
    assert sum("exit_group(" in x and x.endswith("= ?") for x in lines) == 3, lines
    assert sum("+++ exited with" in x for x in lines) == 3, lines
    r, lines = lines_of("--", "sh", "-c", "kill -9 $$")
    assert r.code == 137 and lines[-1].endswith("+++ killed by SIGKILL +++"), (r.code, lines[-3:])


@live
def a_process_that_ends_ends_the_trace():
    with workloads.start("syscalls") as w:
        p = subprocess.Popen([SMOLDER, "trace", "-p", str(w.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        first = p.stdout.readline()
        w.stop()
        out, err = p.communicate(timeout=PATIENCE)
    assert p.returncode == 0 and b"(" in first, (p.returncode, err)
    m = END.search(err.decode())
    assert m and int(m[1]) > 0, err


@live
def a_thread_that_ends_ends_the_trace():
    program = "import threading, sys, os\n" \
        "def work():\n" \
        "    print(threading.get_native_id(), flush=True)\n" \
        "    os.read(0, 1)\n" \
        "    os.stat('/')\n" \
        "t = threading.Thread(target=work)\nt.start()\nt.join()\nos.read(0, 1)\n"
    with subprocess.Popen(["python3", "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as w:
        tid = w.stdout.readline().decode().strip()
        p = subprocess.Popen([SMOLDER, "trace", "-L", tid], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        wait_attached(p.pid, 4)  # there are no children to be followed
        w.stdin.write(b"x")
        w.stdin.flush()
        out, err = p.communicate(timeout=PATIENCE)
        assert w.poll() is None  # the process goes on
        w.stdin.close()
    assert p.returncode == 0 and b'"/"' in out and b"+++ exited with 0 +++" in out, (p.returncode, out, err)


@live
def by_name_with_a_program():
    r, lines = lines_of("--comm", "true", "--", "sh", "-c", "/bin/true; exit 3")
    assert r.code == 3, r.err
    assert 'execve("/bin/true"' in lines[0] and lines[-1].endswith("+++ exited with 0 +++"), lines
    assert len({line.split()[0] for line in lines}) == 1, lines  # one process of the two
    r, lines = lines_of("--comm", "true", "--", "true")
    assert "execve(" in lines[0] and "exit_group(0)" in lines[-2], lines
    r, lines = lines_of("--comm", "nobody", "--", "true")
    assert r.code == 0 and not lines, lines


@live
def ctrl_c_on_a_terminal():
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        with Terminal("trace", "-p", sleeper.pid) as t:
            wait_attached(t.process.pid, 5)
            began = time.monotonic()
            t.interrupt()
            code = t.end()
            took = time.monotonic() - began
            out = t.process.stdout.read().decode()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert code == 0 and took < 10, (code, took)
    assert END.search(t.text), t.text
    assert out == "", out  # it was asleep before


def in_call(pid):
    """The number of the call that it is in, and its arguments."""
    with open(f"/proc/{pid}/syscall") as f:
        return f.read()


READ, CLOCK_NANOSLEEP, OPENAT = 0, 230, 257


def wait_in_call(tracer, number):
    """Until the only child of a tracer that has attached is in that call; the child."""
    wait_attached(tracer, 4)
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        children = workloads.read(f"/proc/{tracer}/task/{tracer}/children").split()
        with contextlib.suppress(OSError):
            if children and workloads.read(f"/proc/{children[0]}/comm") == "cat\n" \
                    and in_call(children[0]).startswith(f"{number} "):
                return int(children[0])
        time.sleep(0.02)
    raise AssertionError(f"not in call {number}")


@live
def calls_that_do_not_return():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "out")
        p = subprocess.Popen([SMOLDER, "trace", "-q", "-o", path, "-e", "clock_nanosleep", "--", "sleep", "1000"])
        wait_attached(p.pid, 5)
        child = int(subprocess.check_output(["pgrep", "-P", str(p.pid)]))
        deadline = time.monotonic() + PATIENCE
        while not in_call(child).startswith(f"{CLOCK_NANOSLEEP} ") and time.monotonic() < deadline:
            time.sleep(0.02)
        p.send_signal(signal.SIGINT)
        try:
            p.wait(timeout=PATIENCE)
        finally:
            os.kill(child, signal.SIGKILL)
        with open(path) as f:
            text = f.read()
    assert re.search(r"^\d+ +clock_nanosleep\(.* <unfinished \.\.\.>$", text, re.M), text


@live
def a_flight_recorder():
    with tempfile.TemporaryDirectory() as d:
        program = [workloads.path("epolls"), 100, os.path.join(d, "none")]
        r, lines = lines_of("--last", "60s", "--until", "openat=EISDIR,clock_nanosleep>10ms", "--", *program)
        assert any("epoll_wait(" in x for x in lines) and any("clock_nanosleep" in x for x in lines), lines[-3:]
        r, lines = lines_of("--last", "60s", "--until", "end", "-e", "openat", "--", *program)
        assert any("none" in x for x in lines) and "+++ exited" in lines[-1], lines[-3:]
        # Of everybody, and for longer than the machine has been up.
        r, lines = lines_of("-a", "--last", "1000000s", "--until", "end", "--", *program)
        assert any("epoll_wait(" in x for x in lines) or any("+++ exited" in x for x in lines), lines[-3:]


class Marks:
    """A process that looks for /mark-1, /mark-2, ... all the time and, when it is told to, does something
    else once."""

    PROGRAM = "import os, select, sys, time\n" \
        "n = 0\n" \
        "while True:\n" \
        "    n += 1\n" \
        "    began = time.monotonic()\n" \
        "    try: os.stat(f'/mark-{n}')\n" \
        "    except OSError: pass\n" \
        "    print(n, began, flush=True)\n" \
        "    if not select.select([0], [], [], 0.02)[0]: continue\n" \
        "    word = os.read(0, 1)\n" \
        "    if word == b'e':\n" \
        "        try: os.stat('/etc/passwd/x')\n" \
        "        except OSError: pass\n" \
        "    elif word == b's': time.sleep(0.6)\n" \
        "    elif word == b'c': os.getpriority(os.PRIO_PROCESS, 0)\n" \
        "    else: break\n"
    CALLS = "newfstatat,stat,statx,clock_nanosleep,nanosleep,getpriority"

    def __enter__(self):
        self.process = subprocess.Popen(["python3", "-I", "-S", "-c", self.PROGRAM], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def after(self, count):
        """Until it has made so many more marks from now on; the last one."""
        now = time.monotonic()
        while count:
            last, began = self.process.stdout.readline().split()
            count -= float(began) > now
        return int(last)

    def tell(self, letter):
        self.process.stdin.write(letter)
        self.process.stdin.flush()


@contextlib.contextmanager
def recorder(marks, path, *args):
    p = subprocess.Popen([SMOLDER, "trace", "--json", "-o", path, "-p", str(marks.process.pid), "-e", marks.CALLS, *args],
                         stderr=subprocess.PIPE, text=True)
    try:
        wait_attached(p.pid, 5)
        yield p
    finally:
        p.kill()
        p.communicate()


def marks_in(calls):
    return [int(m[1]) for c in calls for m in [re.search(r"/mark-(\d+)", str(c.get("args")))] if m]


@live
def a_flight_recorder_keeps_the_last_seconds_until_ctrl_c():
    with tempfile.TemporaryDirectory() as d, Marks() as marks:
        path = os.path.join(d, "out")
        with recorder(marks, path, "--last", "1s") as p:
            began, first = time.monotonic(), marks.after(1)
            while time.monotonic() - began < 3:  # three times what is kept
                marks.after(1)
            assert os.path.getsize(path) == 0
            last, at = marks.after(1), time.time()
            p.send_signal(signal.SIGINT)
            said = p.communicate(timeout=PATIENCE)[1]
        calls = [json.loads(line) for line in workloads.read(path).splitlines()]
    assert p.returncode == 0 and END.search(said)[2] == "0", said
    kept = marks_in(calls)
    assert kept == list(range(kept[0], kept[-1] + 1)), kept
    assert kept[0] > first and last <= kept[-1], (first, last, kept)
    # All of the last second, and nothing else; what the clock is told in has some microseconds.
    assert min(c["time"] + c["latency"] for c in calls) >= at - 1.001, (at, calls[0])
    assert "did not fit" not in said and "only the last" not in said, said


@live
def a_flight_recorder_writes_when_something_happens():
    with tempfile.TemporaryDirectory() as d, Marks() as marks:
        path = os.path.join(d, "out")
        for condition, letter, proof in (
                ("=ENOTDIR", b"e", lambda c: c.get("error") == "ENOTDIR"),
                (">500ms", b"s", lambda c: c.get("latency", 0) >= 0.5),
                ("getpriority", b"c", lambda c: c["call"] == "getpriority"),
                ("stat>500ms,statx=EIO,%process,clock_nanosleep>500ms", b"s", lambda c: c.get("latency", 0) >= 0.5)):
            with recorder(marks, path, "--last", "10s", "--until", condition) as p:
                before = marks.after(5)
                assert p.poll() is None, condition
                marks.tell(letter)
                said = p.communicate(timeout=PATIENCE)[1]  # by itself
            calls = [json.loads(line) for line in workloads.read(path).splitlines()]
            assert p.returncode == 0, (condition, said)
            assert sum(map(proof, calls)) == 1, (condition, calls)
            kept = marks_in(calls[:[proof(c) for c in calls].index(True)])
            assert before in kept and kept == list(range(kept[0], kept[-1] + 1)), (condition, before, kept)
            assert marks.process.poll() is None


@live
def a_flight_recorder_has_a_limit():
    """More calls within the time than there is memory for: the last of them are there, and it is said."""
    n = 2000000
    r, lines = lines_of("--last", "600s", "--buffer", 64, "-e", "epoll_wait", "--", workloads.path("epolls"), n)
    assert r.code == 3, r.err
    said = re.search(r"only the last ([\d.]+) s fit into 64 MB; earlier calls are not shown", r.err)
    assert said and 0 < float(said[1]) < 600, r.err
    room = (64 << 20) // 112  # of a record without anything that it points to
    assert room // 2 <= len(lines) <= room, len(lines)
    assert lines[-1].endswith("+++ exited with 3 +++"), lines[-1]
    # A window that fits says nothing, though all that was before it is gone.
    r, lines = lines_of("--last", "0.01s", "-e", "epoll_wait", "--", workloads.path("epolls"), 200000)
    assert r.code == 3 and "fit into" not in r.err, r.err


@live
def head_is_no_error():
    p = subprocess.run(["sh", "-c", f"{SMOLDER} trace -a -o - -d 30 | head -3"], capture_output=True, timeout=PATIENCE)
    assert p.returncode == 0 and len(p.stdout.splitlines()) == 3, p
    assert b"cannot" not in p.stderr, p.stderr


@live
def a_filter_that_matches_nothing_is_said():
    for only in (["-a", "--comm", "no such program"], ["-p", os.getpid(), "-e", "reboot"],
                 ["-a", "-c", "--comm", "no such program"]):
        r = run("trace", *only, "-d", "0.3").ok()
        assert "no system call was traced" in r.err, (only, r.err)
    assert "no system call" not in run("trace", "--", "true").ok().err


@live
def what_makes_no_sense_is_said():
    run("trace", "-e", "opemat", "--", "true").refused("opemat", "openat")
    run("trace", "-e", "%flie", "--", "true").refused("%file")
    run("trace").refused("-p PID")
    run("trace", "-p", 2 ** 22 - 1).refused("no process")
    run("trace", "--errno", "ENOENTT", "--", "true").refused("ENOENT")
    run("trace", "--until", "end", "--", "true").refused("--last")
    run("trace", "--last", "5s", "--until", "nonsense", "--", "true").refused("nonsense")
    run("trace", "--min-latency", "soon", "--", "true").refused("10ms")
    run("trace", "-c", "-P", "/x", "--", "true").refused("-P")
    run("trace", "-i", "1", "--", "true").refused("-c")
    run("trace", "ls").refused("--")
    r = run("trace", "--", "/no/such/program")
    assert r.code == 127, r.err


main()

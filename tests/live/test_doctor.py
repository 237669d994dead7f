#!/usr/bin/env python3
"""smolder doctor as root, as nobody, and with parts of root's power."""
import http.server
import json
import os
import pty
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import always, served, until  # noqa: E402
from recording import live  # noqa: E402
from tap import SMOLDER, main, skip, test  # noqa: E402

NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
STATES = {"ok", "info", "warn", "fail"}


def doctor(*args, wrap=(), env=None):
    """Runs a copy where any user can reach it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        exe = shutil.copy(SMOLDER, os.path.join(folder, "smolder"))
        os.chmod(exe, 0o755)
        return subprocess.run([*wrap, exe, "doctor", *args], capture_output=True, text=True, env=env)


def report(*wrap):
    p = doctor("--json", wrap=wrap)
    assert p.stderr == "", p.stderr
    answer = json.loads(p.stdout)
    assert p.returncode == (0 if answer["can_record"] else 1), (p.returncode, answer)
    assert all(i["state"] in STATES for i in answer["items"]), answer
    return answer, {i["name"]: i for i in answer["items"]}


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


@test
def root_can_record():
    need_root()
    answer, items = report()
    assert answer["can_record"], [i for i in items.values() if i["state"] == "fail"]
    for name in ("capabilities", "perf events", "BPF maps", "BPF sampler"):
        assert items[name]["state"] == "ok", items[name]


@test
def nobody_is_told_what_is_missing_and_what_to_run():
    need_root()
    answer, items = report(*NOBODY)
    assert not answer["can_record"]
    caps = items["capabilities"]
    assert caps["state"] == "fail"
    for name in ("CAP_BPF", "CAP_PERFMON", "CAP_SYS_PTRACE", "CAP_SYSLOG"):
        assert name in caps["text"], caps
    assert "sudo " in caps["fix"] and " record" in caps["fix"], caps
    assert "setcap cap_bpf,cap_perfmon," in caps["fix"], caps
    assert items["BPF maps"]["text"].startswith("refused: needs CAP_BPF"), items["BPF maps"]
    assert items["perf events"]["state"] == "fail", items["perf events"]


@test
def the_capabilities_it_names_are_enough():
    need_root()
    paranoid = int(open("/proc/sys/kernel/perf_event_paranoid").read())
    if paranoid >= 3:
        skip(f"perf_event_paranoid is {paranoid}")
    fix = report(*NOBODY)[1]["capabilities"]["fix"]
    names = fix.split("setcap ")[1].split("+ep")[0].split(",")
    bare = [n.removeprefix("cap_") for n in names]
    plus = ",".join("+" + n for n in bare)
    answer, items = report("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                           f"--inh-caps={plus}", f"--ambient-caps={plus}")
    assert answer["can_record"], items
    assert items["capabilities"]["state"] == "ok", items["capabilities"]
    assert items["kernel symbols"]["state"] == "ok", items["kernel symbols"]
    assert items["map_files"]["state"] == "ok", items["map_files"]


@test
def one_missing_capability_is_named_alone():
    need_root()
    _, items = report("setpriv", "--bounding-set=-sys_ptrace")
    caps = items["capabilities"]
    assert caps["state"] == "warn", caps
    assert "CAP_SYS_PTRACE" in caps["text"] and "CAP_BPF" not in caps["text"], caps
    answer, items = report("setpriv", "--bounding-set=-perfmon,-sys_admin")
    assert not answer["can_record"]
    assert "CAP_PERFMON" in items["capabilities"]["text"], items["capabilities"]
    assert "sudo" not in items["capabilities"]["fix"], items["capabilities"]


@test
def root_of_a_user_namespace_is_not_root():
    need_root()
    if subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode:
        skip("no user namespaces here")
    answer, items = report("unshare", "-U", "-r")
    assert not answer["can_record"]
    assert "user namespace" in items["capabilities"]["text"], items["capabilities"]


@test
def a_pid_namespace_is_noticed():
    need_root()
    _, items = report("unshare", "--pid", "--fork", "--mount-proc")
    assert items["pid namespace"]["state"] == "warn", items["pid namespace"]
    assert "--pid=host" in items["pid namespace"]["fix"]


@test
def the_table_ends_in_a_verdict():
    p = doctor()
    last = p.stdout.rstrip().splitlines()[-1]
    works = p.returncode == 0
    assert last.startswith("Recording works" if works else "Recording cannot work"), last
    assert all(len(line) <= 100 for line in p.stdout.splitlines()[:-1] if "setcap" not in line)
    assert "\033" not in p.stdout
    if os.geteuid() == 0:
        p = doctor(wrap=NOBODY)
        assert p.returncode == 1
        assert "FAIL  capabilities" in p.stdout, p.stdout
        assert "Recording cannot work here" in p.stdout.splitlines()[-1]


@test
def colour_only_on_a_terminal_that_wants_it():
    def on_terminal(**more):
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
        control, terminal = pty.openpty()
        p = subprocess.Popen([SMOLDER, "doctor"], stdout=terminal, env=dict(env, **more))
        os.close(terminal)
        seen = b""
        try:
            while chunk := os.read(control, 4096):
                seen += chunk
        except OSError:
            pass
        os.close(control)
        p.wait()
        return seen

    assert b"\033[32mok" in on_terminal()
    assert b"\033" not in on_terminal(NO_COLOR="1")


@test
def it_leaves_nothing_behind():
    need_root()
    bpftool = shutil.which("bpftool") or "/usr/sbin/bpftool"
    doctor()
    deadline = time.monotonic() + 30  # the kernel frees after a grace period; others may run too
    for kind in ("prog", "map", "link"):
        while "smolder_probe" in subprocess.check_output([bpftool, kind, "show"], text=True):
            assert time.monotonic() < deadline, f"a {kind} stays"
            time.sleep(0.05)


@test
def wrong_usage_exits_with_2():
    for args in (["--nonsense"], ["what"]):
        p = doctor(*args)
        assert p.returncode == 2, p
        assert "smolder doctor --help" in p.stderr, p.stderr
    assert doctor("--help").stdout.startswith("Usage: smolder doctor")


@test
def a_full_disk_is_a_failure():
    with open("/dev/full", "w") as full:
        p = subprocess.run([SMOLDER, "doctor"], stdout=full, stderr=subprocess.PIPE, text=True)
    assert p.returncode == 1 and "No space left" in p.stderr, p


# ---- of a server that runs ---------------------------------------------------------------------

def ask(a):
    p = doctor("--server", f"http://127.0.0.1:{a.port}/", "--json")
    assert p.returncode == 0 and p.stderr == "", p
    return {i["name"]: i for i in json.loads(p.stdout)["items"]}


@live
def what_a_collector_goes_without_is_said_once_counted_and_explained():
    with workloads.start("jitted") as w, tempfile.TemporaryDirectory() as d:
        path, pid = f"/tmp/perf-{w.pid}.map", w.pid
        os.symlink(os.path.join(d, "elsewhere"), path)
        try:
            with always(before=["setpriv", "--bounding-set=-checkpoint_restore",
                                "--inh-caps=-checkpoint_restore"]) as a:
                until("the trouble to be counted", lambda: a.troubles().get("perf_maps_refused"))
                troubles, items = a.troubles(), ask(a)
                text = doctor("--server", f"http://127.0.0.1:{a.port}").stdout
        finally:
            os.unlink(path)
    assert troubles["capabilities"] == 1 and troubles["refused_calls"] == 0, troubles
    assert "collector was started without CAP_CHECKPOINT_RESTORE" in a.words, a.words
    assert items["capabilities"]["state"] == "warn" and items["capabilities"]["fix"], items
    assert items["perf_maps_refused"]["state"] == "warn", items
    assert a.words.count("/tmp/perf-PID.map") == 1, a.words
    assert f"(the first: that of process {pid})" in a.words, a.words
    assert "refused_calls" not in items, items
    assert "warn  perf_maps_refused" in text and "fix: remove what stands in their place" in text, text


@test
def a_server_without_a_collector_lacks_nothing_of_its_own():
    with tempfile.TemporaryDirectory() as d, served(os.path.join(d, "store")) as s:
        items = ask(s)
    assert list(items) == ["collectors"] and items["collectors"]["state"] == "info", items


# Of the server's own counters those that grow when all is well; any other is told by doctor.
GROW = {"server_cpu_seconds_total", "samples_taken_total", "samples_stored_total", "store_windows_total",
        "store_duplicates_total", "store_packs_total", "store_rolls_total", "store_expired_files_total",
        "store_removed_bytes_total", "windows_received_total", "windows_received_bytes_total",
        "http_requests_total", "http_answers_total", 'queries_total{end="done"}',
        'queries_total{end="gone"}', "frames_named_total", "frames_not_found_total",
        "pushes_stored_total", "pushed_profiles_total", "pushed_samples_total", "pushed_types_accumulated_total",
        "debuginfod_requests_total", "debuginfod_bytes_total",
        'debuginfod_answers_total{answer="found"}', 'debuginfod_answers_total{answer="absent"}'}


class Counting(http.server.BaseHTTPRequestHandler):
    """Answers with the metrics that its server was given."""

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.server.text.encode())

    def log_message(self, *_):
        pass


@test
def every_counter_that_should_be_0_is_told():
    with tempfile.TemporaryDirectory() as d, served(os.path.join(d, "store")) as s:
        text = s.get("/metrics").decode()
    counters = set(re.findall(r"^# TYPE smolder_(\S+) counter$", text, re.M))
    lines = [m for m in re.finditer(r"^smolder_((\w+)(?:\{\S+\})?) \S+$", text, re.M)
             if m[2] in counters]
    assert len(lines) > 30, text
    # Counters with labels come with the first of their kind.
    lines.append(re.match(r"((pushes_refused_total)\{reason=\"labels\"\})", 'pushes_refused_total{reason="labels"}'))
    with http.server.HTTPServer(("127.0.0.1", 0), Counting) as fake:
        threading.Thread(target=fake.serve_forever, daemon=True).start()
        try:
            for m in lines:
                fake.text = f'smolder_build_info{{version="0"}} 1\nsmolder_{m[1]} 4711\n'
                p = subprocess.run([SMOLDER, "doctor", "--json", "--server",
                                    f"http://127.0.0.1:{fake.server_port}"], capture_output=True, text=True)
                assert p.returncode == 0, p
                told = [i for i in json.loads(p.stdout)["items"] if i["text"].startswith("4711 ")]
                assert len(told) == (0 if m[1] in GROW or m[2] in GROW else 1), (m[1], told)
        finally:
            fake.shutdown()


@test
def what_is_no_server_is_said():
    p = doctor("--server", "http://127.0.0.1:1")
    assert p.returncode == 1 and p.stderr.startswith("smolder: cannot ask http://127.0.0.1:1"), p
    p = doctor("--token-file", "x")
    assert p.returncode == 2 and "--token-file needs --server" in p.stderr, p
    p = doctor("--ca-file", "x")
    assert p.returncode == 2 and "--ca-file needs --server" in p.stderr, p


main()

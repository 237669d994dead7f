"""The packages, where nobody has built anything: stages of tests/fresh.

systemd boots in a container (systemd-nspawn) with a network of its own and the capabilities of a host, so
that the service is started, restricted and watched as on a machine. The container's processes have a pid
namespace of their own, which is all that such a machine's smolder sees.
"""
import contextlib
import glob
import hashlib
import os
import re
import shutil
import signal
import subprocess
import time
import urllib.request

from always import REFUSED_CALL, free_port, until
from fresh_root import HOME, LOG, Root, run, say
from tap import ROOT

# What the unit says of each capability: all that any of the processes has.
CAPABILITIES = {"bpf", "perfmon", "sys_admin", "sys_ptrace", "dac_read_search", "syslog", "checkpoint_restore",
                "setuid", "setgid", "chown", "kill", "sys_nice"}
# What installing and removing any package changes.
NOT_OURS = re.compile(r"/(proc|sys|dev|run|tmp|var/(log|tmp)|var/cache/(apt|debconf|ldconfig)|var/lib/(dpkg|apt)"
                      r"|var/lib/systemd/(timers|random-seed)|etc/ld\.so\.cache"
                      r"|etc/(passwd|group|shadow|gshadow|subuid|subgid)-)(/|$)")
SOMEONE = os.path.join("/home", "someone")
ACCOUNTS = ("passwd", "group", "shadow", "gshadow")


class Machine:
    """A root that systemd has booted."""

    def __init__(self, root):
        filtered = "bpf perf_event_open open_by_handle_at process_vm_readv"
        with open(LOG, "a") as log:
            # Without a host's systemd there is nobody to register with.
            self.container = subprocess.Popen(
                ["systemd-nspawn", "-q", "-D", root.path, "--boot", "--register=no", "--keep-unit",
                 "--private-network", "--capability=all", f"--system-call-filter={filtered}", "--console=pipe"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=dict(os.environ, SYSTEMD_NSPAWN_API_VFS_WRITABLE="yes"))

    def boot(self):
        until("the machine to boot", self._booted, 60)

    def _booted(self):
        assert self.container.poll() is None, f"the container ended; see {LOG}"
        # Others come before the one that becomes systemd.
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{self.container.pid}/task/{self.container.pid}/children") as f:
                self.leader = f.read().split()[0]
            return self.ask("systemctl", "is-system-running").stdout.strip() in ("running", "degraded")
        return False

    def ask(self, *argv):
        return subprocess.run(["nsenter", "-t", self.leader, "-a", *argv], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL)

    def do(self, *argv):
        done = self.ask(*argv)
        with open(LOG, "a") as log:
            log.write(f"$ {' '.join(argv)}\n{done.stdout}{done.stderr}")
        assert done.returncode == 0, f"{argv} ended with {done.returncode}: {done.stderr[-500:]}"
        return done.stdout

    def property(self, name):
        return self.do("systemctl", "show", "-p", name, "--value", "smolder").strip()

    def journal(self):
        return self.do("journalctl", "-u", "smolder", "-o", "cat", "--no-pager")

    def end(self):
        self.container.send_signal(signal.SIGTERM)  # an orderly poweroff
        try:
            self.container.wait(30)
        except subprocess.TimeoutExpired:
            self.container.kill()
            self.container.wait()


def everything(root):
    """All names in a root, and what its accounts are."""
    found = set()
    for folder, folders, files in os.walk(root.path):
        inside = folder[len(root.path):]
        folders[:] = [d for d in folders if not NOT_OURS.match(f"{inside}/{d}")]
        found |= {f"{inside}/{name}" for name in folders + files if not NOT_OURS.match(f"{inside}/{name}")}
    for name in ACCOUNTS:
        with open(f"{root.path}/etc/{name}", "rb") as f:
            found.add(f"{name} {hashlib.sha256(f.read()).hexdigest()}")
    return found


def capabilities(status):
    """The names of a line such as CapBnd: of /proc/PID/status"""
    mask = re.search(r"^CapBnd:\s*(\w+)", status, re.M)[1]
    decoded = subprocess.run(["capsh", f"--decode={mask}"], capture_output=True, text=True, check=True).stdout
    return {name.removeprefix("cap_") for name in decoded.strip().split("=")[1].split(",")}


def it_profiles(machine):
    """Programs from where a restriction could hide them, the kernel, names, the page; nothing amiss."""
    programs = [f"{SOMEONE}/homely", "/tmp/passing"]
    for path in programs:
        machine.do("install", "-D", "/usr/bin/gzip", path)
    machine.do("systemd-run", "--unit=busy", "--property=RuntimeMaxSec=300", "sh", "-c",
               " ".join(f"{path} -9 < /dev/zero > /dev/null &" for path in programs) +
               "while :; do head -c 50M /dev/zero > /dev/null; done")

    def seen():
        q = machine.ask("smolder", "query", "cpu", "--from", "now-5m", "-f", "folded", "-o", "-")
        return all(re.search(pattern, q.stdout, re.M) for pattern in (
            r"^homely;_start;__libc_start_main;.* \d+$", r"^passing;_start;__libc_start_main;.* \d+$",
            r"^head;.*;entry_SYSCALL_64_after_hwframe;do_syscall_64;.* \d+$")) and q.stdout
    stacks = until("stacks of programs and of the kernel", seen, 60)
    machine.do("systemctl", "stop", "busy")
    page = machine.do("perl", "-MIO::Socket::INET", "-e",
                      '$s = IO::Socket::INET->new("127.0.0.1:7117") or die; '
                      'print $s "GET / HTTP/1.0\\r\\nHost: 127.0.0.1:7117\\r\\n\\r\\n"; print <$s>')
    assert "200 OK" in page and "<html" in page.lower(), page[:300]
    doctor = machine.do("smolder", "doctor", "--server", "http://127.0.0.1:7117")
    assert not re.search(r"^ *(warn|fail) ", doctor, re.M), doctor
    said = machine.journal()
    assert not REFUSED_CALL.search(said) and "cannot" not in said, said
    return len(stacks.splitlines())


def it_may_no_more(machine):
    """The restrictions of the unit are in force."""
    main = machine.property("MainPID")
    status = machine.do("cat", f"/proc/{main}/status")
    assert capabilities(status) == CAPABILITIES, capabilities(status) ^ CAPABILITIES
    assert re.search(r"^NoNewPrivs:\s*1$", status, re.M) and re.search(r"^Seccomp:\s*2$", status, re.M), status
    inside = ["nsenter", "-t", main, "-m", "sh", "-c"]
    for folder in ("/etc", "/usr", "/opt", "/tmp", "/root", "/home", "/sys/fs/cgroup/systemd"):
        refused = machine.ask(*inside, f": > {folder}/x")
        assert "Read-only file system" in refused.stderr, (folder, refused)
    refused = machine.ask(*inside, ": > /proc/sys/kernel/hostname")
    assert "Read-only file system" in refused.stderr, refused
    machine.do(*inside, ": > /var/tmp/x && : > /var/lib/smolder/x && : > /var/cache/smolder/x && "
                        "rm /var/tmp/x /var/lib/smolder/x /var/cache/smolder/x")
    devices = set(machine.do(*inside, "ls /dev").split())
    assert not devices & {"kmsg", "mem", "kvm", "loop-control"} and "null" in devices, devices


def what_the_unit_leaves_out(machine):
    """Restrictions that the unit says would take something away do so."""
    def under(restriction, command):
        return machine.ask("systemd-run", "-q", "--pipe", "--wait", "-p", restriction, "sh", "-c", command)

    # What is hidden is an empty file to root.
    first = "head -c 1 /proc/kallsyms"
    plain, hidden = under("ProtectHome=read-only", first), under("ProtectKernelTunables=yes", first)
    assert plain.stdout and not hidden.stdout, (plain, hidden)
    bound = "grep CapBnd /proc/self/status"
    assert "syslog" in capabilities(under("ProtectHome=read-only", bound).stdout)
    assert "syslog" not in capabilities(under("ProtectKernelLogs=yes", bound).stdout)
    # struct open_how of zeroes: to read
    openat2 = ("perl -e 'my ($path, $how) = (\"/\", \"\\0\" x 24); "
               "syscall(437, -100, $path, $how, 24) >= 0 or die \"$!\"'")
    assert under("ProtectHome=read-only", openat2).returncode == 0
    assert "not implemented" in under("RestrictSUIDSGID=yes", openat2).stderr


def it_is_watched(machine):
    """Reload, restart and the watchdog, by systemd's own account."""
    machine.do("systemctl", "reload", "smolder")
    main = machine.property("MainPID")
    until("both halves to have begun anew",
          lambda: "configuration reloaded" in machine.journal() and
          machine.ask("smolder", "query", "cpu", "--from", "now-5m").returncode == 0, 60)
    assert machine.property("MainPID") == main
    machine.do("sh", "-c", "mkdir -p /run/systemd/system/smolder.service.d && "
                           "printf '[Service]\\nWatchdogSec=4\\n' > /run/systemd/system/smolder.service.d/short.conf")
    machine.do("systemctl", "daemon-reload")
    machine.do("systemctl", "restart", "smolder")
    main = machine.property("MainPID")
    time.sleep(6)
    assert machine.property("MainPID") == main, "the watchdog was not fed"
    machine.do("sh", "-c", f"kill -STOP {main}")
    until("the watchdog to bite", lambda: machine.property("NRestarts") == "1", 60)
    until("the service to run again", lambda: machine.property("ActiveState") == "active", 60)
    assert machine.property("MainPID") != main
    machine.do("rm", "-r", "/run/systemd/system/smolder.service.d")


def built(target, name):
    """What `make` has made in build/."""
    run("make", "-C", ROOT, target)
    path, = glob.glob(os.path.join(ROOT, "build", name))
    return path


def stage_deb(_):
    package = built("deb", "smolder_*_amd64.deb")
    with Root("deb") as root:
        root.install("systemd-sysv", "dbus", "libcurl4", "libgnutls30")
        root.unmount()  # a machine mounts its own
        run("cp", package, root.path + "/smolder.deb")
        machine = Machine(root)
        try:
            machine.boot()
            before = everything(root)
            machine.do("apt-get", "install", "-y", "/smolder.deb")
            assert machine.property("ActiveState") == "active", machine.journal()
            assert machine.do("systemctl", "is-enabled", "smolder").strip() == "enabled"
            stacks = it_profiles(machine)
            it_may_no_more(machine)
            what_the_unit_leaves_out(machine)
            it_is_watched(machine)
            machine.do("apt-get", "remove", "-y", "smolder")
            assert os.listdir(root.path + "/var/lib/smolder/raw"), "the store goes only when it is purged"
            machine.do("apt-get", "purge", "-y", "smolder")
            machine.do("rm", "-r", SOMEONE)
            left = everything(root) ^ before
            assert not left, f"left after apt purge, or gone: {sorted(left)}"
            until("no process of it", lambda: not machine.do("sh", "-c",
                  "cat /proc/[0-9]*/comm 2>/dev/null | grep smolder || true").strip(), 10)
        finally:
            machine.end()
    say(f"deb: installed, {stacks} stacks stored by the service, purged without a trace")


def unpack(tarball, path):
    os.makedirs(path + "/usr/local", exist_ok=True)
    run("tar", "-xzf", tarball, "--strip-components=1", "-C", path + "/usr/local")


def it_runs_in(path, says_of_https):
    """It records, stores, serves and answers there, and finds users, groups and hosts."""
    smolder = ["chroot", path, "/usr/local/bin/smolder"]
    port = free_port()
    url = f"http://localhost:{port}"
    with open(LOG, "a") as log:
        server = subprocess.Popen([*smolder, "run", "--store", "/var/lib/smolder", "--listen", f"127.0.0.1:{port}",
                                   "--allow-user", "someone", "--allow-group", "some"], stdout=log, stderr=log)
    busy = subprocess.Popen(["chroot", path, "/bin/sh", "-c", "while :; do :; done"])
    try:
        def stored():
            assert server.poll() is None, f"run ended; see {LOG}"
            q = subprocess.run([*smolder, "query", "cpu", "--from", "now-5m", "-f", "folded", "--server", url,
                                "-o", "-"], capture_output=True, text=True)
            return [line for line in q.stdout.splitlines() if line.startswith(("sh;", "busybox;", "dash;"))]
        stacks = until("stacks of a shell", stored, 60)
        with urllib.request.urlopen(url, timeout=30) as page:
            assert b"<html" in page.read().lower()
    finally:
        busy.kill()
        server.terminate()
        busy.wait()
        assert server.wait(30) == 0, f"run ended with {server.returncode}; see {LOG}"
    https = subprocess.run([*smolder, "labels", "comm", "--server", f"https://localhost:{port}"],
                           capture_output=True, text=True)
    assert https.returncode == 1 and says_of_https in https.stderr, https
    return len(stacks)


def someone(path):
    """A user and a group, which lookups beyond files must not be needed for."""
    for name, line in (("passwd", "someone:x:4321:4321::/:/bin/sh"), ("group", "some:x:4322:someone")):
        with open(f"{path}/etc/{name}", "a") as f:
            f.write(line + "\n")


def musl_root():
    """What Alpine is to a program: busybox, musl and nothing of glibc."""
    path = os.path.join(HOME, "musl")
    shutil.rmtree(path, ignore_errors=True)
    for folder in ("bin", "lib", "etc", "proc", "sys", "dev", "run", "tmp", "var/lib", "var/cache/apt/archives"):
        os.makedirs(f"{path}/{folder}")
    shutil.copy(shutil.which("busybox"), path + "/bin/busybox")
    os.symlink("busybox", path + "/bin/sh")
    shutil.copy("/lib/ld-musl-x86_64.so.1", path + "/lib/")
    for name, text in (("passwd", "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n"),
                       ("group", "root:x:0:\nnobody:x:65534:\n"), ("hosts", "127.0.0.1 localhost\n"),
                       ("nsswitch.conf", "passwd: files sss\ngroup: files sss\nhosts: files resolve dns\n")):
        with open(f"{path}/etc/{name}", "w") as f:
            f.write(text)
    return path


def stage_tarball(_):
    static = built("tarball", "smolder-*-static.tar.gz")
    shared = static.replace("-static", "")
    lacks, refuses = "needs libcurl (Debian: libcurl4): libcurl", "a static smolder cannot load libcurl.so.4"
    for suite, tarball, says in (("bullseye", static, refuses), ("jammy", static, refuses),
                                 ("jammy", shared, lacks)):
        with Root(suite, suite) as root:
            someone(root.path)
            unpack(tarball, root.path)
            stacks = it_runs_in(root.path, says)
        say(f"tarball: {os.path.basename(tarball)} runs in {suite}, {stacks} stacks of a shell")
    path = musl_root()
    someone(path)
    unpack(static, path)
    try:
        for there in ("proc", "sys", "dev"):
            run("mount", "--rbind", f"/{there}", f"{path}/{there}")
        stacks = it_runs_in(path, refuses)
    finally:
        for there in ("proc", "sys", "dev"):
            subprocess.run(["umount", "-R", "-l", f"{path}/{there}"])
    say(f"tarball: {os.path.basename(static)} runs beside musl, {stacks} stacks of a shell")

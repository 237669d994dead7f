"""The tools that smolder is measured against: perf, BCC's profile and syscount."""
import glob
import os
import re
import shutil
import subprocess
import tempfile

from folded import Stacks

FRAME = re.compile(r"\s+([0-9a-f]+) (.*?)(?:\+0x[0-9a-f]+)? \((.*?)\)\Z")


def perf():
    """Debian's perf, or None."""
    return shutil.which("perf")


def bpftrace():
    """bpftrace, with tracefs mounted, which it does not do itself; or None."""
    if not os.path.exists("/sys/kernel/tracing/events"):
        subprocess.run(["mount", "-t", "tracefs", "tracefs", "/sys/kernel/tracing"], check=True)
    return shutil.which("bpftrace")


class Unreadable(Exception):
    """perf cannot read what it wrote: it loses chunks on a machine that is too busy for it, and then does
    not know the BPF programs that later ones tell of."""


def perf_stacks(data):
    """What perf recorded, by `perf script`, as stacks with the process first."""
    p = subprocess.run([perf(), "script", "-i", data, "-F", "comm,ip,sym,dso"], capture_output=True)
    if p.returncode:
        raise Unreadable(p.stderr.decode("utf-8", "replace"))
    return parse_script(p.stdout.decode("utf-8", "replace"))


def parse_script(text):
    stacks = {}
    for block in text.split("\n\n"):
        lines = block.strip("\n").split("\n")
        if not lines[0].strip():
            continue
        frames = []
        for line in lines[1:]:
            m = FRAME.match(line)
            if m:
                frames.append(m[2])
        key = (lines[0].strip(), *reversed(frames))
        stacks[key] = stacks.get(key, 0) + 1
    return Stacks(stacks.items())


class PerfRecord:
    """perf record on a process, sampling from `with` to its end; then .stacks"""

    def __init__(self, pid, rate, options=("-g",)):
        self.dir = tempfile.TemporaryDirectory()
        self.data = os.path.join(self.dir.name, "perf.data")
        ctl, ack = (os.path.join(self.dir.name, n) for n in ("ctl", "ack"))
        os.mkfifo(ctl)
        os.mkfifo(ack)
        self.process = subprocess.Popen(
            [perf(), "record", "-q", "-e", "cpu-clock", "-F", str(rate), *options, "-p", str(pid),
             "-D", "-1", f"--control=fifo:{ctl},{ack}", "-o", self.data],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.control = open(ctl, "w")
        self.reply = open(ack)

    def _say(self, word):
        self.control.write(word + "\n")
        self.control.flush()
        self.reply.readline()

    def __enter__(self):
        self._say("enable")
        return self

    def __exit__(self, *error):
        self._say("stop")
        err = self.process.communicate(timeout=60)[1]
        self.control.close()
        self.reply.close()
        if error[0] is None:
            assert self.process.returncode == 0, err.decode()
            self.stacks = perf_stacks(self.data)
        self.dir.cleanup()


def beside_perf(pid, rate, record, options=("-g",)):
    """(what record() returned, the stacks that perf recorded meanwhile)"""
    for attempt in range(4):
        try:
            with PerfRecord(pid, rate, options) as perf:
                ours = record()
            return ours, perf.stacks
        except Unreadable:
            if attempt == 3:
                raise


def bcc(tool="profile"):
    """The argv that a tool of BCC's takes its own options after, or (None, why not).

    BCC compiles against kernel headers, which Debian has for its own kernels only: those of
    another version serve, since these tools read no kernel struct, but BCC looks for them under the
    running kernel's name. So it gets a private /lib/modules that says so.
    """
    tool = shutil.which(tool + "-bpfcc") or shutil.which(f"/usr/sbin/{tool}-bpfcc")
    if not tool:
        return None, "bpfcc-tools is not installed"
    if os.path.isdir(f"/lib/modules/{os.uname().release}/build"):
        return [tool], None
    built = sorted(glob.glob("/usr/src/linux-headers-*-amd64"))
    if not built:
        return None, "linux-headers-amd64 is not installed"
    common = re.sub("-amd64$", "-common", built[-1])
    script = ('{ [ -d /sys/kernel/debug/tracing/events ] || mount -t debugfs none /sys/kernel/debug; } && '
              'mount -t tmpfs none /lib/modules && d="/lib/modules/$(uname -r)" && mkdir "$d" && '
              f'ln -s {built[-1]} "$d/build" && ln -s {common} "$d/source" && exec "$@"')
    return ["unshare", "-m", "sh", "-c", script, "sh", tool], None

"""A virtual machine that runs tests/vm/init with smolder and chain in it, and what came out of it.

Emulated (no KVM is needed), two CPUs, nothing on a disk: the root is an initramfs of a few files.
"""
import contextlib
import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import time

import kernels
import workloads
from tap import ROOT, SMOLDER, SOAK, skip

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.join(ROOT, "build", "vm")
# Every function keeps its own frame, and no frame a frame pointer.
CHAIN = ["gcc", "-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-fomit-frame-pointer",
         "-fno-optimize-sibling-calls", "-fno-ipa-icf"]
SILENT = 300 # seconds without a word: it hangs. QEMU's emulation does so once in a while where the kernel patches
# its code on one CPU while the other runs it, as it does when a program is attached to sched_switch.
SECONDS = 900 # a machine that boots at all is done in a sixth of that, where nothing else runs
CONSOLE, RESULTS, MONITOR = "console", "results", "monitor"
WANTS_CPU = "@@ wants cpu"
SMP = "2,maxcpus=128"
# Newer kernels (6.9, and others since) take the CPUs that firmware lists and that are not there yet for
# ones to be added only in a virtual machine, and do not know QEMU's emulation for one. VMware's they know
# by a serial number and an I/O port, which QEMU has too.
KNOWN = ["-cpu", "max,-cx16,-hypervisor", "-machine", "pc,vmport=on", "-smbios", "type=1,serial=VMware-tests"]


class Report(dict):
    """name -> output of each `run NAME` in init; words and code of it by .err() and .code()."""

    def __init__(self, text, console, seconds):
        parts = re.findall(r"^@@ (\S+) (\S+)\n(.*?)(?=^@@ )", text.replace("\r", ""), re.S | re.M)
        super().__init__((name, body) for name, kind, body in parts if kind == "out")
        self._rest = {(name, kind): body for name, kind, body in parts}
        self.console, self.seconds = console, seconds

    def err(self, name):
        return self._rest[name, "err"]

    def words(self):
        """All that was said."""
        return "".join(body for (_, kind), body in self._rest.items() if kind == "err")

    def code(self, name):
        return int(self._rest[name, "code"])


def boot(kernel, home):
    """Boots a kernel and waits for its end; console and results stay in `home` to be read."""
    qemu = shutil.which("qemu-system-x86_64")
    if not qemu:
        skip("qemu-system-x86_64 is not on this machine (Debian: qemu-system-x86)")
    os.makedirs(home, exist_ok=True)
    for name in (CONSOLE, RESULTS):
        with open(os.path.join(home, name), "w"):
            pass

    command = [qemu, "-accel", "tcg", *KNOWN, "-smp", SMP, "-m", "1024",
               "-nodefaults", "-display", "none", "-no-reboot",
               "-kernel", kernel, "-initrd", _image(home, kernels.modules(kernel)), "-append", "console=ttyS0 panic=-1" + " soak" * SOAK,
               "-qmp", f"unix:{os.path.join(home, MONITOR)},server=on,wait=off",
               "-serial", f"file:{os.path.join(home, CONSOLE)}",
               "-serial", f"file:{os.path.join(home, RESULTS)}"]
    with open(os.path.join(CACHE, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX) # one machine at a time: they are a load
        began = time.monotonic()
        try:
            said = _run(command, home)
        except subprocess.TimeoutExpired as e:
            said = f"killed after {e.timeout} s" + " without a word" * (e.timeout == SILENT)
        seconds = time.monotonic() - began

    results, console = (_read(os.path.join(home, name)) for name in (RESULTS, CONSOLE))
    assert "@@ end" in results, \
        f"the machine did not finish: {said}\n{results[-2000:]}\n{console[-4000:]}"
    return Report(results, console, seconds)


def _run(command, home):
    """Until it ends; each time that init writes WANTS_CPU, the machine gets one more."""
    end, given = time.monotonic() + SECONDS, 0
    said, silent = 0, time.monotonic() + SILENT
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True) as p:
        try:
            while p.poll() is None:
                results = _read(os.path.join(home, RESULTS))
                if results.count(WANTS_CPU) > given:
                    _add_cpu(os.path.join(home, MONITOR))
                    given += 1
                if len(results) > said:
                    said, silent = len(results), time.monotonic() + SILENT
                if time.monotonic() > silent:
                    raise subprocess.TimeoutExpired(command, SILENT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    p.wait(0.2)
                if time.monotonic() > end:
                    raise subprocess.TimeoutExpired(command, SECONDS)
        finally:
            p.kill()
        return p.stdout.read()


def _add_cpu(monitor):
    """Hardware that was not there at boot."""
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(monitor)
        with s.makefile("rw") as f:
            def ask(what, **arguments):
                f.write(json.dumps({"execute": what, "arguments": arguments}) + "\n")
                f.flush()
                for line in f:
                    answer = json.loads(line)
                    if "return" in answer or "error" in answer:
                        assert "return" in answer, answer
                        return answer["return"]

            f.readline() # who it is
            ask("qmp_capabilities")
            free = [c for c in ask("query-hotpluggable-cpus") if "qom-path" not in c]
            ask("device_add", driver=free[-1]["type"], **free[-1]["props"])


def _read(path):
    with open(path, errors="replace") as f:
        return f.read()


def _image(home, modules):
    """An initramfs of init, busybox, smolder, chain, the libraries they load, and modules of the kernel."""
    busybox = shutil.which("busybox")
    if not busybox:
        skip("busybox is not on this machine (Debian: busybox-static)")
    root, image = os.path.join(home, "root"), os.path.join(home, "initramfs")
    shutil.rmtree(root, ignore_errors=True)
    for part in ("bin", "proc", "sys", "dev", "tmp"):
        os.makedirs(os.path.join(root, part))

    chain = os.path.join(root, "bin", "chain")
    subprocess.run(CHAIN + [os.path.join(HERE, "chain.c"), "-o", chain], check=True)
    shutil.copy(workloads.path("spans-static"), os.path.join(root, "bin", "spans"))
    shutil.copy(os.path.join(HERE, "init"), os.path.join(root, "init"))
    shutil.copy(busybox, os.path.join(root, "bin", "busybox"))
    shutil.copy(SMOLDER, os.path.join(root, "bin", "smolder"))
    for module in modules:
        shutil.copy(module, root)
    for library in _libraries(busybox) | _libraries(SMOLDER) | _libraries(chain):
        os.makedirs(root + os.path.dirname(library), exist_ok=True)
        shutil.copy(library, root + library)

    names = "\n".join(os.path.relpath(os.path.join(at, name), root)
                      for at, parts, files in os.walk(root) for name in parts + files)
    with open(image, "wb") as out:
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet", "-R", "0:0"], cwd=root,
                       input=names.encode(), stdout=out, check=True)
    return image


def _libraries(program):
    listed = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                            text=True).stdout
    return set(re.findall(r"(?:=> |^\s*)(/\S+) \(0x", listed, re.M))

"""Roots of Linux distributions, made anew with debootstrap: machines that have never seen smolder.

A base of each suite and the packages that were fetched for it are kept in build/fresh; what is done in a
root happens to a copy. Mounts are in a namespace of their own (`alone`), so nothing stays behind.
"""
import ctypes
import glob
import os
import platform
import re
import shutil
import subprocess
import sys
import time

from tap import ROOT

HOME = os.path.join(ROOT, "build", "fresh")
LOG = os.path.join(HOME, "log")
SUITE = "bookworm"
UBUNTU = ("jammy",)
CLONE_NEWNS = 0x20000


def say(text):
    line = f"[{time.strftime('%H:%M:%S')}] {text}"
    print(line, flush=True)
    with open(LOG, "a") as log:
        log.write(line + "\n")


def run(*argv, **more):
    with open(LOG, "a") as log:
        subprocess.run(argv, check=True, stdout=log, stderr=log, stdin=subprocess.DEVNULL, **more)


def alone():
    """Begins the log, and a mount namespace of this process's own; ends it where that cannot be."""
    if os.geteuid() != 0:
        sys.exit("tests/fresh: needs root, for debootstrap and mounts: sudo make test-fresh")
    if not shutil.which("debootstrap"):
        sys.exit("tests/fresh: needs debootstrap: apt-get install debootstrap")
    os.makedirs(HOME, exist_ok=True)
    with open(LOG, "w"):
        pass
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        sys.exit("tests/fresh: may not have a mount namespace of its own")
    run("mount", "--make-rprivate", "/")


def own_sources():
    """This machine's own lines for Debian: (mirror, suite)"""
    listed = subprocess.run(["apt-get", "indextargets", "--no-release-info", "--format",
                             "$(REPO_URI) $(RELEASE) $(COMPONENT)", "Created-By: Packages"],
                            stdout=subprocess.PIPE, text=True, check=True).stdout
    own = platform.freedesktop_os_release().get("VERSION_CODENAME")
    found = [line.split() for line in listed.splitlines()]
    return list(dict.fromkeys((uri, suite) for uri, suite, component in found
                              if suite.startswith(own or SUITE) and component == "main"))


def ubuntu_mirror(suite):
    """Where debootstrap has it. (Debian has no keys to check it with; nothing but tests runs there.)"""
    with open(f"/usr/share/debootstrap/scripts/{suite}") as script:
        return re.search(r"http://archive\S+ubuntu\b", script.read())[0]


class Root:
    """One of them, at `path`: of Debian from this machine's own mirror, of Ubuntu from where debootstrap has it."""

    def __init__(self, name, suite=SUITE, include="ca-certificates"):
        self.path = os.path.join(HOME, name)
        self.base = os.path.join(HOME, f"base-{name}.tar")
        self.suite, self.include = suite, include

    def _make_base(self):
        lines = own_sources()
        assert lines, "apt on this machine has no Debian mirror"
        mirror = ubuntu_mirror(self.suite) if self.suite in UBUNTU else lines[0][0]
        say(f"making the base of {self.suite} with debootstrap")
        run("debootstrap", "--variant=minbase", f"--include={self.include}", self.suite, self.path, mirror)
        if self.suite == SUITE:
            with open(os.path.join(self.path, "etc/apt/sources.list"), "w") as f:
                f.writelines(f"deb {uri} {suite} main\n" for uri, suite in lines)
        run("tar", "-C", self.path, "-cf", self.base + ".new", ".")
        os.rename(self.base + ".new", self.base)

    def make(self):
        """A fresh copy of the base, without mounts."""
        shutil.rmtree(self.path, ignore_errors=True)
        if not os.path.exists(self.base):
            self._make_base()
            shutil.rmtree(self.path)
        say(f"making the root of {self.suite}")
        os.makedirs(self.path)
        run("mount", "--bind", self.path, self.path)  # a root is where something is mounted
        run("mount", "--make-rprivate", self.path)
        run("tar", "-C", self.path, "-xf", self.base)

    def mount(self):
        """With /proc, /sys, /dev and /run, and a cache of packages that outlives it."""
        archives = os.path.join(HOME, "archives")
        os.makedirs(archives + "/partial", exist_ok=True)
        run("mount", "-t", "proc", "proc", self.path + "/proc")
        for there in ("/sys", "/dev"):
            run("mount", "--rbind", there, self.path + there)
        run("mount", "-t", "tmpfs", "-o", "mode=0755", "run", self.path + "/run")
        run("mount", "--bind", archives, self.path + "/var/cache/apt/archives")
        # Kept for the next time, whatever is installed.
        with open(self.path + "/etc/apt/apt.conf.d/00keep", "w") as f:
            f.write('Binary::apt::APT::Keep-Downloaded-Packages "true";\nAPT::Sandbox::User "root";\n')
        self._copy_machine()

    def _copy_machine(self):
        """What lets a machine reach the net from here: names, certificates, apt's settings for that."""
        for path in ["/etc/resolv.conf", "/etc/hosts", *glob.glob("/etc/apt/apt.conf.d/*proxy*"),
                     *glob.glob("/etc/apt/apt.conf.d/*registry*"),
                     *glob.glob("/usr/local/share/ca-certificates/*.crt")]:
            if os.path.exists(path):
                os.makedirs(self.path + os.path.dirname(path), exist_ok=True)
                shutil.copy(path, self.path + path)
        run("chroot", self.path, "update-ca-certificates")

    def install(self, *packages):
        """Packages of its own suite."""
        run("chroot", self.path, "apt-get", "update", "-qq")
        run("chroot", self.path, "apt-get", "install", "-y", "-qq", "--no-install-recommends", *packages,
            env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))

    def unmount(self):
        """Mounts go before what they are on: what is removed must not be the machine's."""
        subprocess.run(["umount", "-R", "-l", self.path + "/sys", self.path + "/dev"],
                       stderr=subprocess.DEVNULL)
        for at in ("/proc", "/run", "/var/cache/apt/archives"):
            subprocess.run(["umount", "-l", self.path + at], stderr=subprocess.DEVNULL)

    def __enter__(self):
        self.make()
        self.mount()
        return self

    def __exit__(self, *_):
        self.unmount()
        subprocess.run(["umount", "-l", self.path], stderr=subprocess.DEVNULL)

"""Packages of Debian's releases, fetched with apt into a private place under build/, once.

The mirror is the one this machine's apt is set up for; nothing is installed and nothing outside
build/ is written.
"""
import glob
import os
import platform
import re
import shutil
import subprocess

from tap import skip

KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
SECONDS = 300


def dash():
    """The path and the build id of a program that dpkg has installed on this machine."""
    path = os.path.realpath(shutil.which("dash") or "")
    if not os.path.isfile(path) or not os.path.exists("/var/lib/dpkg/info/dash.list"):
        skip("no dash of dpkg's")
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return path, re.search(r"Build ID: ([0-9a-f]+)", notes)[1]


class Release:
    """One of them, in `home`; the test is skipped, with the reason, if it cannot be had."""

    def __init__(self, suite, home):
        mirrors = _mirrors()
        if not mirrors:
            skip("apt on this machine has no Debian mirror to fetch packages from")
        self.suite, self.home = suite, home
        self._apt = _private_apt(home, [f"{m} {suite} main" for m in mirrors])
        self._update = self._apt("apt-get", "update")

    def show(self, package):
        """What the list of packages says of one."""
        shown = self._apt("apt-cache", "show", "--no-all-versions", package).stdout
        if not shown:
            skip(f"no {package} of {self.suite} on this machine's mirror: {_why(self._update)}")
        return shown

    def fetch(self, *packages):
        """Their files, in `home`."""
        download = self._apt("apt-get", "download", *packages)
        debs = glob.glob(os.path.join(self.home, "*.deb"))
        if len(debs) != len(packages):
            skip(f"cannot fetch {', '.join(packages)} of {self.suite}: {_why(download)}")
        return debs


def _mirrors():
    """Where this machine's own release comes from; its other releases are beside it."""
    own = {platform.freedesktop_os_release().get("VERSION_CODENAME"), "stable", "oldstable"}
    try:
        listed = subprocess.run(["apt-get", "indextargets", "--no-release-info", "--format",
                                 "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
                                stdout=subprocess.PIPE, text=True, timeout=SECONDS).stdout
    except OSError:
        skip("packages are fetched with apt, which is not on this machine")
    lines = [line.split(" ", 2) for line in listed.splitlines()]
    return list(dict.fromkeys(uri for release, component, uri in lines
                              if release in own and component == "main"))


def _private_apt(home, sources):
    """A function that runs apt on lists, state and cache of its own, with this machine's proxies."""
    for part in ("lists/partial", "archives/partial"):
        os.makedirs(os.path.join(home, part), exist_ok=True)
    trust = f"signed-by={KEYS} " if os.path.exists(KEYS) else ""
    files = {
        "sources.list": "".join(f"deb [{trust}arch=amd64] {s}\n" for s in sources),
        "status": "",
        "apt.conf": f"""
            Dir::State "{home}"; Dir::State::lists "{home}/lists"; Dir::State::status "{home}/status";
            Dir::Cache "{home}"; Dir::Etc::SourceList "{home}/sources.list";
            Dir::Etc::SourceParts "/dev/null"; APT::Architecture "amd64"; APT::Sandbox::User "root";
            Acquire::Languages "none"; Acquire::Retries "2"; Acquire::http::Timeout "20";
            """,
    }
    for name, text in files.items():
        with open(os.path.join(home, name), "w") as f:
            f.write(text)
    env = dict(os.environ, APT_CONFIG=os.path.join(home, "apt.conf"), LC_ALL="C")

    def apt(*argv):
        try:
            return subprocess.run(argv, cwd=home, env=env, text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            skip(f"{' '.join(argv)} took longer than {SECONDS} s")
    return apt


def _why(result):
    errors = re.findall(r"^(?:Err|E|W): *(.+)", result.stderr, re.M)
    return errors[0] if errors else f"apt ended with {result.returncode} and no words"

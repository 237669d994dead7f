"""Kernels to boot: Debian's, fetched with apt into a private root under build/vm, once.

The mirror is the one this machine's apt is set up for; nothing is installed and nothing outside
build/vm is written. The cloud flavour is the same source and, for BPF, perf and unwinding, the same
configuration as the plain one at a third of the size.
"""
import glob
import os
import platform
import re
import shutil
import subprocess

from tap import ROOT, skip

CACHE = os.path.join(ROOT, "build", "vm")
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
PACKAGE = "linux-image-cloud-amd64" # depends on the one that has the kernel in it
SECONDS = 300


def debian(suite):
    """The path of a suite's kernel; the test is skipped, with the reason, if it cannot be had."""
    home = os.path.join(CACHE, suite)
    have = sorted(glob.glob(os.path.join(home, "vmlinuz-*")))
    return have[-1] if have else _fetch(suite, home)


def _fetch(suite, home):
    mirrors = _mirrors()
    if not mirrors:
        skip("apt on this machine has no Debian mirror to fetch kernels from")
    apt = _private_apt(home, [f"{m} {suite} main" for m in mirrors])

    update = apt("apt-get", "update")
    shown = apt("apt-cache", "show", "--no-all-versions", PACKAGE).stdout
    name = re.search(r"^Depends:.*?\b(linux-image-\d[^ ,]*)", shown, re.M)
    if not name:
        skip(f"no {PACKAGE} of {suite} on this machine's mirror: {_why(update)}")
    download = apt("apt-get", "download", name[1])
    debs = glob.glob(os.path.join(home, "*.deb"))
    if not debs:
        skip(f"cannot fetch {name[1]}: {_why(download)}")
    return _extract(debs[0], home)


def _mirrors():
    """Where this machine's own release comes from; its other releases are beside it."""
    own = {platform.freedesktop_os_release().get("VERSION_CODENAME"), "stable", "oldstable"}
    try:
        listed = subprocess.run(["apt-get", "indextargets", "--no-release-info", "--format",
                                 "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"],
                                stdout=subprocess.PIPE, text=True, timeout=SECONDS).stdout
    except OSError:
        skip("kernels are fetched with apt, which is not on this machine")
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


def _extract(deb, home):
    files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", home, "--strip-components=2", "--wildcards",
                    "./boot/vmlinuz-*"], stdin=files.stdout, check=True)
    files.stdout.close()
    assert files.wait() == 0, f"{deb} is damaged"
    os.unlink(deb)
    for used_up in ("lists", "archives"):
        shutil.rmtree(os.path.join(home, used_up))
    return sorted(glob.glob(os.path.join(home, "vmlinuz-*")))[-1]

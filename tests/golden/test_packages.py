#!/usr/bin/env python3
"""What is installed: by `make install`, as a package of Debian's, or as a program that runs on other systems."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from tap import BUILD, ROOT, SMOLDER, main, skip, test  # noqa: E402

# Ubuntu 22.04 has 2.35, RHEL 9 and Fedora 35 have this.
GLIBC = (2, 34)
COMMON = {"config", "quiet", "verbose", "help"}


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as f:
        return f.read()


def make(*words):
    p = subprocess.run(["make", "-s", *words], cwd=ROOT, capture_output=True, text=True,
                       env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
    assert p.returncode == 0, p.stderr[-2000:]


def help_of_settings():
    """{key: help} of all that a configuration may have"""
    found = {}
    for command in ("run", "agent", "serve"):
        said = subprocess.run([SMOLDER, command, "--help"], capture_output=True, text=True, check=True).stdout
        found |= dict(re.findall(r"^ +(?:-\w, )?--([\w-]+)(.*)", said, re.M))
    for name in re.findall(r'^\s*\[SET_\w+\] =\s*\{"([\w-]+)"', read(ROOT, "src/cli/settings.c"), re.M):
        found.setdefault(name, "")
    assert len(found) > 20, found
    return {k: v for k, v in found.items() if k not in COMMON}


def commented(text):
    """{key: value} of lines such as '# key: value', and what follows them further in"""
    return dict(re.findall(r"^# ([a-z][\w-]*):(?: (.*)|)$", text, re.M))


def configuration_refused(text):
    """What a server says of a configuration that it cannot read; '' if it can."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        f.write(text)
        f.flush()
        # It ends in any case, since no store can be there.
        p = subprocess.run([SMOLDER, "serve", "--config", f.name, "--store", "/proc/none", "--listen", "127.0.0.1:1"],
                           capture_output=True, text=True, timeout=60)
    assert p.returncode != 0, p
    return p.stderr if "cannot read the configuration" in p.stderr else ""


@test
def every_setting_is_in_the_configuration():
    text = read(ROOT, "contrib/smolder.yaml")
    there, wanted = commented(text), help_of_settings()
    assert not wanted.keys() - there.keys(), f"not in contrib/smolder.yaml: {wanted.keys() - there.keys()}"
    assert not configuration_refused(text), "as it is"
    assert all(line.startswith("#") or not line for line in text.splitlines()), "nothing is set by default"
    for key, says in wanted.items():
        default = re.search(r" \(([^\s()]+)\)$", says)
        assert not default or there[key] == default[1], (key, there[key], default[1])


@test
def every_example_of_the_configuration_is_taken():
    lines = read(ROOT, "contrib/smolder.yaml").splitlines()
    inside = False
    for n, line in enumerate(lines):
        inside = bool(re.match(r"# [a-z][\w-]*:( |$)", line) or inside and line.startswith("#   "))
        lines[n] = line[2:] if inside else line
    refused = configuration_refused("\n".join(lines))
    assert not refused, refused
    assert "no setting" in configuration_refused("\n".join([*lines, "unheard-of: 1"]))


@test
def an_installation_is_whole():
    with tempfile.TemporaryDirectory() as d:
        def install():
            p = subprocess.run(["make", "-s", "-o", SMOLDER, "-o", os.path.relpath(SMOLDER, ROOT), "install",
                                f"DESTDIR={d}", "PREFIX=/usr"], cwd=ROOT, capture_output=True, text=True,
                               env={k: v for k, v in os.environ.items() if not k.startswith("MAKE")})
            assert p.returncode == 0, p.stderr

        install()
        for path in ("usr/bin/smolder", "usr/lib/systemd/system/smolder.service", "etc/smolder.yaml",
                     "usr/lib/sysusers.d/smolder.conf",
                     "usr/share/man/man1/smolder-record.1", "usr/share/zsh/site-functions/_smolder",
                     "usr/share/bash-completion/completions/smolder",
                     "usr/share/fish/vendor_completions.d/smolder.fish"):
            assert os.path.getsize(os.path.join(d, path)) > 0, path
        assert "ExecStart=/usr/bin/smolder run\n" in read(d, "usr/lib/systemd/system/smolder.service")
        # A configuration that somebody has edited stays.
        with open(os.path.join(d, "etc/smolder.yaml"), "w") as f:
            f.write("frequency: 49\n")
        install()
        assert read(d, "etc/smolder.yaml") == "frequency: 49\n"


@test
def the_package_is_as_debian_wants_it():
    for tool, package in (("dh", "debhelper"), ("lintian", "lintian"), ("systemd-analyze", "systemd")):
        if not shutil.which(tool):
            skip(f"no {package}")
    if os.path.relpath(BUILD, ROOT) != "build":
        skip("packages are of the plain build")
    make("deb")
    deb, = glob.glob(os.path.join(BUILD, "smolder_*.deb"))
    p = subprocess.run(["lintian", "--allow-root", "--fail-on", "error,warning", deb], capture_output=True, text=True)
    assert p.returncode == 0 and not p.stdout, p.stdout + p.stderr
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["dpkg-deb", "-R", deb, d], check=True)
        assert read(d, "DEBIAN/conffiles") == "/etc/smolder.yaml\n"
        unit = os.path.join(d, "lib/systemd/system/smolder.service")
        with open(unit, "r+") as f:
            here = f.read().replace("ExecStart=/usr/bin/smolder ", f"ExecStart={SMOLDER} ")
            f.seek(0)
            f.write(here)
        p = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
        assert p.returncode == 0 and "smolder" not in p.stderr, p.stderr
        p = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--threshold=46", unit],
                           capture_output=True, text=True)
        assert p.returncode == 0, p.stdout[-500:]


@test
def versions_and_privileges_are_the_same_everywhere():
    version = re.search(r"^VERSION := (\S+)$", read(ROOT, "Makefile"), re.M)[1]
    assert read(ROOT, "contrib/debian/changelog").startswith(f"smolder ({version}) ")
    for _, written in re.findall(r"smolder([-_])(\d+\.\d+\.\d+)", read(ROOT, "docs/install.md")):
        assert written == version, written
    pod = re.findall(r"^ +- ([A-Z_]+) #", read(ROOT, "contrib/daemonset.yaml"), re.M)
    image = re.findall(r"--cap-add=([A-Z_]+)", read(ROOT, "contrib/Dockerfile"))
    unit = re.search(r"^CapabilityBoundingSet=(.*CAP_BPF.*)$", read(ROOT, "contrib/smolder.service"), re.M)[1]
    assert sorted(pod) == sorted(image) and len(pod) == 7, (pod, image)
    assert {f"CAP_{c}" for c in pod} - {"CAP_SYS_NICE"} == set(unit.split()) - {"CAP_SYS_ADMIN"}, unit


@test
def the_program_needs_no_newer_libc():
    said = subprocess.run(["objdump", "-p", "-T", SMOLDER], capture_output=True, text=True, check=True).stdout
    needed = set(re.findall(r"^ +NEEDED +(\S+)", said, re.M))
    if any("asan" in name for name in needed):
        skip("a build with sanitizers")
    assert needed <= {"libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"}, needed
    versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", said)}
    assert versions and max(versions) <= GLIBC, max(versions)


@test
def the_static_program_loads_nothing():
    if os.path.relpath(BUILD, ROOT) != "build":
        skip("packages are of the plain build")
    static = os.path.join(BUILD, "smolder-static")
    make(os.path.relpath(static, ROOT))
    headers = subprocess.run(["readelf", "-lW", static], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "DYN (Position-Independent" in headers, headers
    p = subprocess.run([static, "labels", "comm", "--server", "https://localhost:1"], capture_output=True, text=True)
    assert "a static smolder cannot load libcurl.so.4; take one that is not" in p.stderr, p.stderr
    # With whatever the host's nsswitch.conf says: users and hosts from files alone.
    p = subprocess.run(["strace", "-f", "-e", "trace=openat", static, "serve", "--store", "/proc/none",
                        "--listen", "127.0.0.1:1", "--allow-user", "daemon", "--allow-user", "no-such-user"],
                       capture_output=True, text=True)
    assert "/etc/passwd" in p.stderr and "no-such-user" in p.stderr, p.stderr
    assert not re.search(r'"[^"]*\.so[.\d]*", .* = \d', p.stderr), p.stderr


main()

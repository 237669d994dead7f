"""Kernels to boot: Debian's, fetched into build/vm, once (see debian.py).

The cloud flavour is the same source and, for BPF, perf and unwinding, the same
configuration as the plain one at a third of the size.
"""
import glob
import os
import re
import shutil
import subprocess

import debian
from tap import ROOT

CACHE = os.path.join(ROOT, "build", "vm")
PACKAGE = "linux-image-cloud-amd64" # depends on the one that has the kernel in it


def kernel(suite):
    """The path of a suite's kernel; the test is skipped, with the reason, if it cannot be had."""
    home = os.path.join(CACHE, suite)
    have = sorted(glob.glob(os.path.join(home, "vmlinuz-*")))
    return have[-1] if have else _fetch(suite, home)


def _fetch(suite, home):
    release = debian.Release(suite, home)
    name = re.search(r"^Depends:.*?\b(linux-image-\d[^ ,]*)", release.show(PACKAGE), re.M)
    return _extract(release.fetch(name[1])[0], home)


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

"""Kernels to boot, and modules to load there: Debian's, fetched into build/vm, once (see debian.py).

The cloud flavour is the same source and, for BPF, perf and unwinding, the same
configuration as the plain one at a third of the size.
"""
import glob
import lzma
import os
import re
import shutil
import subprocess
import tarfile

import debian
from tap import ROOT

CACHE = os.path.join(ROOT, "build", "vm")
PACKAGE = "linux-image-cloud-amd64" # depends on the one that has the kernel in it
MODULES = "raid6_pq", "tcrypt" # that compute when they are loaded, and need no other


def kernel(suite):
    """The path of a suite's kernel; the test is skipped, with the reason, if it cannot be had."""
    home = os.path.join(CACHE, "debian-" + suite)
    have = sorted(glob.glob(os.path.join(home, "vmlinuz-*")))
    return have[-1] if have else _fetch(suite, home)


def modules(kernel_path):
    """Those of it that are there; none of a kernel that somebody else built."""
    home = os.path.dirname(kernel_path)
    return [p for p in (os.path.join(home, m + ".ko") for m in MODULES) if os.path.exists(p)]


def _fetch(suite, home):
    release = debian.Release(suite, home)
    name = re.search(r"^Depends:.*?\b(linux-image-\d[^ ,]*)", release.show(PACKAGE), re.M)
    return _extract(release.fetch(name[1])[0], home)


def _extract(deb, home):
    files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE)
    with tarfile.open(fileobj=files.stdout, mode="r|") as members:
        for m in members:
            name = os.path.basename(m.name)
            if m.isfile() and (name.startswith("vmlinuz-") or name.split(".ko")[0] in MODULES):
                content = members.extractfile(m).read()
                with open(os.path.join(home, name.removesuffix(".xz")), "wb") as f:
                    f.write(lzma.decompress(content) if name.endswith(".xz") else content)
    files.stdout.close()
    assert files.wait() == 0, f"{deb} is damaged"
    os.unlink(deb)
    for used_up in ("lists", "archives"):
        shutil.rmtree(os.path.join(home, used_up))
    return sorted(glob.glob(os.path.join(home, "vmlinuz-*")))[-1]

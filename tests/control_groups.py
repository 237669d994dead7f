"""Control groups that a test makes and puts processes into."""
import contextlib
import os

from always import until
from container import gone, hierarchy


def hierarchies():
    """Where cgroups can be made here: v2, and a v1 hierarchy on hosts that have one."""
    with open("/proc/self/mounts") as f:
        mounts = [line.split()[:4] for line in f]
    v2 = [m[1] for m in mounts if m[2] == "cgroup2"]
    v1 = [m[1] for m in mounts if m[2] == "cgroup" and "cpuacct" in m[3].split(",")]
    return {"v2": v2[0] if v2 else None, "v1": v1[0] if v1 else None}


@contextlib.contextmanager
def cgroup(root, pid):
    path = os.path.join(root, f"smolder-test-{os.getpid()}")
    os.mkdir(path)
    try:
        with open(os.path.join(path, "cgroup.procs"), "w") as f:
            f.write(str(pid))
        yield path
    finally:
        with open(os.path.join(root, "cgroup.procs"), "w") as f:
            f.write(str(pid))
        os.rmdir(path)


@contextlib.contextmanager
def group(path, root=None):
    """A group of that path, and the parents that it needs, where the collector looks for containers, or
    below `root`; gives the file to write pids to. What runs in it must end before it does."""
    made, at = [], root or hierarchy()
    for name in path.split("/"):
        at = os.path.join(at, name)
        if not os.path.exists(at):
            os.mkdir(at)
            made.append(at)
    try:
        yield os.path.join(at, "cgroup.procs")
    finally:
        for one in reversed(made):
            until(f"{one} to be empty", lambda one=one: gone(one))


def move(pid, procs):
    with open(procs, "w") as f:
        f.write(str(pid))

"""Control groups that look like those of containers."""
import contextlib
import os

from always import until
from tap import skip


def hierarchy():
    """The control groups that tell of containers, as the collector finds them."""
    with open("/proc/self/mounts") as f:
        mounts = {m[1]: m[2] for m in (line.split() for line in f)}
    if mounts.get("/sys/fs/cgroup") == "cgroup2":
        return "/sys/fs/cgroup"
    for name in ("memory", "pids", "cpu", "devices"):
        if mounts.get(f"/sys/fs/cgroup/{name}") == "cgroup":
            return f"/sys/fs/cgroup/{name}"
    skip("no hierarchy of control groups here")


def gone(group):
    try:
        os.rmdir(group)
    except OSError:
        return False
    return True


@contextlib.contextmanager
def container():
    """(id, file to write pids to); afterwards, when nothing runs in it any more, it goes away."""
    name = os.urandom(32).hex()
    group = os.path.join(hierarchy(), f"docker-{name}.scope")
    os.mkdir(group)
    try:
        yield name, os.path.join(group, "cgroup.procs")
    finally:
        until("the container to be gone", lambda: not os.path.exists(group) or gone(group))

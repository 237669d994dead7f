"""A slow disk: a file system of its own on a loop device, with which a control group may do only a few
operations a second.

    with slow_disk.made(folder) as disk:
        disk.argv("dd", ..., f"of={disk.path}/file")   # the command, run where the disk is slow
"""
import contextlib
import os
import subprocess

from tap import skip

SIZE = 64 << 20
PER_SECOND = 20


def _run(*argv):
    try:
        p = subprocess.run(argv, capture_output=True, text=True)
    except FileNotFoundError:
        skip(f"no slow disk: {argv[0]} is not installed")
    if p.returncode:
        skip(f"no slow disk: {' '.join(argv)}: {p.stderr.strip()}")
    return p.stdout.strip()


@contextlib.contextmanager
def _mounted(what, at, *options):
    os.mkdir(at)
    _run("mount", *options, what, at)
    try:
        yield at
    finally:
        subprocess.run(["umount", at], check=True)


def _write(path, text):
    try:
        with open(path, "w") as f:
            f.write(text)
    except OSError as e:
        skip(f"no slow disk: {path}: {e.strerror}")


@contextlib.contextmanager
def _throttled(folder, device):
    """A control group for which the device is slow: of version 2 where that has the controller."""
    with contextlib.ExitStack() as stack:
        root = stack.enter_context(_mounted("none", os.path.join(folder, "cgroup2"), "-t", "cgroup2"))
        with open(os.path.join(root, "cgroup.controllers")) as f:
            second = "io" in f.read().split()
        if second:
            _write(os.path.join(root, "cgroup.subtree_control"), "+io")
        else:
            root = stack.enter_context(_mounted("none", os.path.join(folder, "blkio"), "-t", "cgroup",
                                                "-o", "blkio"))
        group = os.path.join(root, f"smolder-test-{os.getpid()}")
        os.mkdir(group)
        stack.callback(os.rmdir, group)
        if second:
            _write(os.path.join(group, "io.max"), f"{device} riops={PER_SECOND} wiops={PER_SECOND}")
        else:
            for what in ("read", "write"):
                _write(os.path.join(group, f"blkio.throttle.{what}_iops_device"), f"{device} {PER_SECOND}")
        yield group


class SlowDisk:
    def __init__(self, path, group):
        self.path, self.group = path, group

    def argv(self, *command):
        """The command that runs this one in the control group."""
        return ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs && exec "$@"', "sh", *command]


@contextlib.contextmanager
def made(folder):
    """In a folder that is on a disk itself; the test is skipped, with the reason, where that cannot be.

    What runs in the group must have ended before this does.
    """
    image = os.path.join(folder, "image")
    with open(image, "wb") as f:
        f.truncate(SIZE)
    _run("mkfs.ext4", "-q", image)
    device = _run("losetup", "--find", "--show", image)
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
        path = stack.enter_context(_mounted(device, os.path.join(folder, "disk")))
        number = os.stat(device).st_rdev
        group = stack.enter_context(_throttled(folder, f"{os.major(number)}:{os.minor(number)}"))
        yield SlowDisk(path, group)

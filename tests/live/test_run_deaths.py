#!/usr/bin/env python3
"""Always on: what becomes of what was sampled when halves are killed, the disk is full, the store gone."""
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import account, always, served, until  # noqa: E402
from recording import live  # noqa: E402
from tap import SOAK, main, skip  # noqa: E402


@live
def halves_that_are_killed_lose_nothing_that_was_stored():
    rng = random.Random(7)
    rounds = 200 if SOAK else 20
    with always("--offcpu", "yes") as a, workloads.start("shares"):
        a.wait_stored(1)
        slowest, before = 0, 0
        for i in range(rounds):
            time.sleep(rng.uniform(0, 3.0 if i % 4 else 13.0))
            m = a.metrics()
            stored = m.get("smolder_samples_stored_total", 0)
            assert stored >= before or not m, (before, stored)
            before = max(before, stored)
            which = rng.choice(("collect", "serve"))
            pid = until(f"the {which} half", lambda: a.half(which))
            began = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            until("another one", lambda: a.half(which) not in (None, pid))
            if i % 4 == 3:  # or else the next kill comes at any moment
                until("windows again", lambda: a.stored() > before)
                slowest = max(slowest, time.monotonic() - began)
        assert a.stop() == 0, a.err
        with served(a.store) as s:
            m = s.metrics()
            taken, stored, lost = account(m)
            assert stored >= before, (stored, before)
            assert taken == stored + lost, (taken, stored, lost, m)
            died = m['smolder_samples_lost_total{reason="collector_died"}']
            assert lost == died > 0, (lost, died)
            # What the store holds is what it counted.
            trees = [s.json(f"/api/v1/query?query={t}&from=now-1d") for t in ("cpu", "offcpu", "oncpu")]
            assert sum(t["samples"] for t in trees) == stored, ([t["samples"] for t in trees], stored)
        print(f"# {rounds} kills: {int(taken)} taken, {int(stored)} stored, {int(lost)} lost with "
              f"collectors that died; windows again after {slowest:.1f} s at most")
        assert slowest < 15, slowest


@live
def a_parent_that_is_killed_takes_its_halves_along():
    with always() as a:
        pids = [a.half("collect"), a.half("serve")]
        a.process.kill()
        until("the halves to end", lambda: not any(os.path.exists(f"/proc/{p}") for p in pids), 30)


@live
def a_full_disk_is_waited_out():
    with tempfile.TemporaryDirectory() as d:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=755", "none", d], check=True)
        try:
            store = os.path.join(d, "store")
            with always(store=store) as a, workloads.start("shares"):
                a.wait_stored(1)
                fill = os.path.join(d, "fill")
                with open(fill, "wb", buffering=0) as f:
                    try:
                        while True:
                            f.write(b"x" * 4096)
                    except OSError:
                        pass
                until("a window that cannot be stored",
                      lambda: a.metrics().get("smolder_store_failed_total", 0) > 0, 60)
                assert a.get("/healthz")
                os.unlink(fill)
                before = a.stored()
                until("windows again", lambda: a.stored() > before, 90)
                assert a.stop() == 0
                with served(store) as s:
                    taken, stored, lost = account(s.metrics())
                    assert taken == stored + lost and lost == 0, (taken, stored, lost)
        finally:
            subprocess.run(["umount", "-l", d], check=False)


@live
def a_disk_that_turns_read_only_is_told_and_still_answers():
    """An ext4 whose errors make it read-only, as most are mounted, has an error."""
    with tempfile.TemporaryDirectory() as d:
        image, disk = os.path.join(d, "image"), os.path.join(d, "disk")
        os.chmod(d, 0o755)
        os.mkdir(disk)
        subprocess.run(["truncate", "-s", "64M", image], check=True)
        subprocess.run(["mkfs.ext4", "-q", image], check=True)
        mount = ["mount", "-o", "loop,errors=remount-ro", image, disk]
        if subprocess.run(mount, capture_output=True).returncode:
            skip("no loop device can be mounted")
        try:
            device = subprocess.run(["findmnt", "-no", "SOURCE", disk], capture_output=True,
                                    text=True, check=True).stdout.strip()
            store = os.path.join(disk, "store")
            with always(store=store) as a, workloads.start("shares"):
                a.wait_sampled(100)
                stored = a.stored()
                os.sync()  # what the kernel has not written yet is lost with the disk
                with open(f"/sys/fs/ext4/{os.path.basename(device)}/trigger_fs_error", "w") as f:
                    f.write("1")
                until("the disk to be told", lambda: "Read-only file system" in a.err, 60)
                q = a.query('cpu{comm="shares"}', "--from", "now-5m", "-f", "folded")
                assert "share_fifty" in q.stdout, q
                assert a.stop() == 0
            subprocess.run(["umount", disk], check=True)
            assert subprocess.run(["fsck.ext4", "-fy", image], capture_output=True).returncode < 2
            subprocess.run(mount, check=True)
            with served(store) as s:
                assert s.stored() >= stored, (s.stored(), stored)
        finally:
            subprocess.run(["umount", "-l", disk], check=False)


@live
def a_store_that_is_deleted_is_begun_anew():
    with always() as a, workloads.start("shares"):
        a.wait_stored(1)
        subprocess.run(["sh", "-c", f"rm -rf '{a.store}'/*"], check=True)
        begun = time.time()
        until("windows in a new store", lambda: a.query(
            "cpu", "--from", str(int(begun)), "-f", "folded").stdout.strip(), 90)
        assert a.process.poll() is None


main()

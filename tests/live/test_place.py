#!/usr/bin/env python3
"""Where the store is: what a first start makes, who must be able to get there, and whose it is."""
import contextlib
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from always import Always, account, always, free_port, nothing_refused, served, until  # noqa: E402
from recording import PATIENCE, live  # noqa: E402
from tap import ROOT, SMOLDER, main  # noqa: E402

NOBODY = pwd.getpwnam("nobody").pw_uid
SOMEBODY = pwd.getpwnam("daemon")


def picture(root):
    """Each path below, with who owns it and who may do what."""
    found = {}
    for at, dirs, files in os.walk(root):
        for path in [at] + [os.path.join(at, f) for f in dirs + files]:
            st = os.lstat(path)
            found[path] = (st.st_mode, st.st_uid, st.st_gid)
    return found


def owners(store):
    return {uid for _, uid, _ in picture(store).values()}


def refused(*args, **more):
    """`run` ended at once; what it said"""
    p = subprocess.run([SMOLDER, "run", "--listen", f"127.0.0.1:{free_port()}", *args],
                       capture_output=True, text=True, timeout=PATIENCE, **more)
    assert p.returncode == 1 and p.stderr.count("\n") == 1, p
    return p.stderr


def sample(store, *args):
    with always(*args, store=store) as a:
        a.json("/api/v1/status")
        until = time.thread_time() + 0.2  # something to sample, however idle the machine is
        while time.thread_time() < until:
            pass
    with served(store, *[a for a in args if a == "-q"]) as s:
        taken, stored, lost = account(s.metrics())
        assert taken == stored and not lost, (taken, stored, lost)
        return stored


@contextlib.contextmanager
def own_var_lib(*argv, **more):
    """A program that sees a /var/lib of its own: (process, what it says so far, that /var/lib)"""
    with tempfile.TemporaryFile("w+") as err:
        p = subprocess.Popen(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o mode=0755 none /var/lib"
                              ' && exec "$@"', "sh", *argv], stdout=err, stderr=err, **more)

        def words():
            err.seek(0)
            return err.read()

        try:
            yield p, words, f"/proc/{p.pid}/root/var/lib"
        finally:
            if p.poll() is None:
                p.send_signal(signal.SIGINT)
            code = p.wait(PATIENCE)
        assert code == 0, (code, words())
        nothing_refused(words())


@live
def root_with_a_private_home_and_umask_starts_at_once():
    """As `make run` does: the store is the system's, the server gets there."""
    with tempfile.TemporaryDirectory() as home:  # 0700
        env = {k: v for k, v in os.environ.items() if not k.startswith(("SUDO_", "XDG_"))}
        with own_var_lib(os.path.join(ROOT, "tools", "run"), SMOLDER,
                         "--listen", f"127.0.0.1:{free_port()}", umask=0o077,
                         env={**env, "HOME": home}) as (p, words, lib):
            until("run to answer", lambda: p.poll() is not None or "open http" in words())
            assert p.poll() is None, words()
            assert "/var/lib/smolder" in words(), words()
            st = os.stat(lib + "/smolder")
            assert st.st_uid == NOBODY and st.st_mode & 0o777 == 0o750, st
        assert not os.listdir(home), os.listdir(home)


@live
def a_place_that_the_server_cannot_enter_is_said_and_left_alone():
    with tempfile.TemporaryDirectory() as d:  # 0700, root's
        before = picture(d)
        words = refused("--store", os.path.join(d, "some", "store"))
        assert f"nobody, who may not enter {d} (mode 0700" in words, words
        assert "--store" in words and "--user" in words, words
        assert picture(d) == before
        os.mkdir(os.path.join(d, "store"))
        before = picture(d)
        assert f"may not enter {d}" in refused("--store", os.path.join(d, "store"))
        assert picture(d) == before, "something was changed"


@live
def what_is_made_can_be_entered_whatever_the_umask():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        store = os.path.join(d, "a", "b", "store")
        old = os.umask(0o077)
        a = Always(store)
        try:
            a.ready()
        finally:
            os.umask(old)
            a.stop()
            words = a.err
            os.unlink(a.err_path)
        nothing_refused(words)
        assert os.stat(os.path.join(d, "a")).st_mode & 0o777 == 0o755
        assert owners(store) == {NOBODY}


@live
def a_directory_of_other_things_is_not_taken():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        with open(os.path.join(d, "passwords"), "w"):
            pass
        os.mkdir(os.path.join(d, "raw"))
        before = picture(d)
        words = refused("--store", d)
        assert f"{d}/passwords is not part of a store" in words, words
        assert picture(d) == before
        os.unlink(os.path.join(d, "passwords"))
        os.symlink("/etc/passwd", os.path.join(d, "raw", "x.db"))
        before = picture(d)
        refused("--store", d)
        assert picture(d) == before
        os.unlink(os.path.join(d, "raw", "x.db"))
        with open(os.path.join(d, "mine"), "w"):
            pass
        os.link(os.path.join(d, "mine"), os.path.join(d, "raw", "x.db"))
        os.rename(os.path.join(d, "mine"), os.path.join(d, "accounts.db"))
        before = picture(d)
        refused("--store", d)
        assert picture(d) == before


@live
def a_store_that_roots_serve_made_is_used_by_run_and_the_other_way_round():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        with served(store):
            pass
        os.makedirs(os.path.join(store, "raw"), exist_ok=True)
        for i in range(1100):  # more than may be open at once unless asked for
            with open(os.path.join(store, "raw", f"1999-{i}.db.damaged-1"), "w"):
                pass
        assert owners(store) == {0}
        first = sample(store)  # run, then root's serve
        assert owners(store) == {NOBODY}, owners(store)
        assert sample(store) > first
        assert owners(store) == {NOBODY}, owners(store)


@live
def a_store_keeps_its_owner():
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        store = os.path.join(d, "store")
        sample(store, "--user", SOMEBODY.pw_name)
        assert owners(store) == {SOMEBODY.pw_uid}
        with always(store=store) as a:  # without --user, whose it is
            with open(f"/proc/{a.half('serve')}/status") as f:
                assert re.search(rf"^Uid:\t{SOMEBODY.pw_uid}\t", f.read(), re.M)
        before = picture(store)
        words = refused("--store", store, "--user", "nobody")
        assert f"belongs to uid {SOMEBODY.pw_uid}" in words, words
        assert picture(store) == before


main()

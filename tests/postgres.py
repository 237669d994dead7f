"""A PostgreSQL of a test's own, in a folder: its data, and the socket through which it is reached."""
import contextlib
import os
import pwd
import subprocess

import workloads
from always import until
from tap import skip

USER = "postgres"


def binary(name):
    """The path of one of its programs; the test is skipped if there is none."""
    versions = sorted(os.listdir("/usr/lib/postgresql")) if os.path.isdir("/usr/lib/postgresql") else []
    if not versions:
        skip("postgresql is not installed")
    return f"/usr/lib/postgresql/{versions[-1]}/bin/{name}"


def argv(name, *args):
    """The command that runs one of its programs as the user that may."""
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", binary(name), *args]


def client(folder, name, *args):
    """The same of a program that talks to the server of this folder."""
    return argv(name, "-h", folder, *args)


def run(folder, command):
    p = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    assert p.returncode == 0, f"{command}: {p.stderr}"


def make(folder):
    """Its data; returns the command of its server."""
    binary("initdb")
    user = pwd.getpwnam(USER)
    os.chown(folder, user.pw_uid, user.pw_gid)
    data = os.path.join(folder, "data")
    run(folder, argv("initdb", "-D", data, "-N", "-A", "trust", "--no-instructions"))
    return argv("postgres", "-D", data, "-k", folder, "-c", "listen_addresses=", "-c", "autovacuum=off")


def answers(folder):
    """Whether the server is up."""
    return os.path.exists(f"{folder}/.s.PGSQL.5432") and subprocess.run(
        client(folder, "psql", "-c", "select 1"), capture_output=True, cwd=folder).returncode == 0


@contextlib.contextmanager
def hot_row(folder):
    """A cluster with a table of one row, which four clients of pgbench update all the time."""
    with workloads.ended(make(folder), cwd=folder) as server:
        until("postgres", lambda: answers(folder))
        run(folder, client(folder, "psql", "-q", "-c",
                           "create table hot (n bigint); insert into hot values (0)"))
        script = os.path.join(folder, "hot.sql")
        with open(script, "w") as f:
            f.write("\\sleep 2 ms\nbegin;\nupdate hot set n = n + 1;\n\\sleep 2 ms\nend;\n")
        os.chmod(script, 0o644)  # it is another user who reads it
        with workloads.ended(client(folder, "pgbench", "-n", "-c", "4", "-j", "2", "-T", "600", "-f", script),
                              cwd=folder):
            until("clients", lambda: len(workloads.family(server.pid)) >= 1 + 4 + 4)
            yield server

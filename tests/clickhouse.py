"""ClickHouse servers of a test's own, in a folder that goes away: Debian's, and today's, which is chdb, a
library, behind tests/clickhouse/front.mjs. They run as an ordinary user, on free ports of loopback."""
import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import urllib.request

from always import free_port, until
from tap import ROOT, skip

PASSWORD = "a secret of tests"
USER = "nobody"

CONFIG = """<yandex>
<logger><level>warning</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
<http_port>{port}</http_port><tcp_port>{other[0]}</tcp_port><interserver_http_port>{other[1]}</interserver_http_port>
<listen_host>127.0.0.1</listen_host>
<path>{folder}/data/</path><tmp_path>{folder}/tmp/</tmp_path>
<users_config>{folder}/users.xml</users_config>
<default_profile>default</default_profile><default_database>default</default_database>
<mark_cache_size>16777216</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
</yandex>
"""
USERS = """<yandex>
<profiles><default><max_threads>2</max_threads></default></profiles>
<users><smolder><password>{password}</password><networks><ip>127.0.0.1</ip></networks>
<profile>default</profile><quota>default</quota></smolder></users>
<quotas><default></default></quotas>
</yandex>
"""


def run_as(user):
    """The beginning of a command that runs as that user, for root."""
    return ["setpriv", f"--reuid={user}", f"--regid={pwd.getpwnam(user).pw_gid}",
            "--clear-groups"] if os.geteuid() == 0 else []


class ClickHouse:
    """A server that is up; `store` is where smolder's is in it."""

    def __init__(self, folder, port, process):
        self.folder, self.port, self.process = folder, port, process
        self.store = f"clickhouse://smolder@127.0.0.1:{port}/smolder"

    def answers(self):
        assert self.process.poll() is None, f"it ended with {self.process.returncode}"
        with contextlib.suppress(OSError):
            return self.ask("SELECT version()", database=None)
        return None

    def ask(self, sql, database="smolder"):
        """The answer as text."""
        where = f"&database={database}" if database else ""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/?wait_end_of_query=1{where}", sql.encode(),
            {"X-ClickHouse-User": "smolder", "X-ClickHouse-Key": PASSWORD})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode().strip()


@contextlib.contextmanager
def started(make):
    """`make` gets a folder and a port, and returns a command and its environment."""
    folder, port = tempfile.mkdtemp(prefix="smolder-clickhouse-"), free_port()
    process = None
    try:
        argv, env = make(folder, port)
        if os.geteuid() == 0:
            for path, _, files in os.walk(folder):
                for name in [path] + [os.path.join(path, f) for f in files]:
                    shutil.chown(name, USER)
        process = subprocess.Popen(run_as(USER) + argv, env=dict(os.environ, **env), cwd=folder,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        server = ClickHouse(folder, port, process)
        until("ClickHouse", server.answers)
        yield server
    finally:
        if process:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(timeout=20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def debians():
    """Version 18.16, of the package clickhouse-server."""
    if not shutil.which("clickhouse-server"):
        skip("clickhouse-server is not installed")

    def make(folder, port):
        for name in ("data", "tmp"):
            os.mkdir(os.path.join(folder, name))
        with open(os.path.join(folder, "config.xml"), "w") as f:
            f.write(CONFIG.format(folder=folder, port=port, other=(free_port(), free_port())))
        with open(os.path.join(folder, "users.xml"), "w") as f:
            f.write(USERS.format(password=PASSWORD))
        return ["clickhouse-server", f"--config-file={folder}/config.xml"], {}
    return started(make)


def todays():
    """The one that the npm package chdb has."""
    front = os.path.join(ROOT, "tests", "clickhouse")
    if not os.path.isdir(os.path.join(front, "node_modules", "chdb")):
        skip("chdb is not installed: tools/deps test does it")
    return started(lambda folder, port: (
        ["node", os.path.join(front, "front.mjs"), os.path.join(folder, "data"), str(port)],
        {"FRONT_PASSWORD": PASSWORD}))

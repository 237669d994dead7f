#!/usr/bin/env python3
"""Who may ask, and what clients that mean harm, or are merely slow, can do: by real sockets."""
import contextlib
import http.client
import json
import os
import pwd
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from always import agent, always, until  # noqa: E402
from recording import live  # noqa: E402
from server import Server, smolder  # noqa: E402
from tap import BUILD, SMOLDER, main, skip, test  # noqa: E402
from windows import STORED, Collector, Reply, row  # noqa: E402

TOKEN = "a-token-of-twenty-letters"
GUARDED = ("/api/v1/query", "/api/v1/diff", "/api/v1/types", "/api/v1/labels",
           "/api/v1/labels/comm/values", "/api/v1/series", "/api/v1/heatmap", "/api/v1/status",
           "/metrics", "/debug/pprof/", "/debug/pprof/profile?seconds=1", "/debug/pprof/cmdline",
           "/debug/pprof/symbol")
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@contextlib.contextmanager
def token_file(text=TOKEN + "\n"):
    with tempfile.NamedTemporaryFile("w", prefix="smolder-token-") as f:
        f.write(text)
        f.flush()
        yield f.name


# Users that are neither root nor anybody who started something: one with a name, one without.
NOBODY, NAMELESS = pwd.getpwnam("nobody").pw_uid, 64321


@contextlib.contextmanager
def guarded(*args):
    """A server that everybody must bring the token to, root as well: it is not on loopback alone."""
    with token_file() as path, Server("--listen", "0.0.0.0:0", "--token-file", path, *args) as s:
        s.token_path = path
        yield s


def recent():
    now = int(time.time() * 1000)
    return now - now % 10000 - 60000


def connect(s):
    return socket.create_connection((s.host, s.port), timeout=30)


def answer(c):
    """The whole of an answer to a request with Connection: close."""
    data = b""
    with contextlib.suppress(ConnectionError):
        while chunk := c.recv(1 << 16):
            data += chunk
    return data


def is_closed(c, patience):
    """Whether the other side ends the connection in that time."""
    c.settimeout(patience)
    try:
        return answer(c) is not None
    except TimeoutError:
        return False


def resident(pid):
    with open(f"/proc/{pid}/statm", encoding="ascii") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


# ---- the token ---------------------------------------------------------------------------------

@test
def without_the_token_nothing_is_told():
    with guarded() as s:
        for path in GUARDED:
            status, body, headers = s.request("GET", path)
            assert status == 401, (path, status)
            assert headers["WWW-Authenticate"] == 'Bearer realm="smolder"', path
            if path.startswith("/debug/pprof"):
                assert headers["X-Go-Pprof"] == "1" and b"token" in body, (path, body)
            else:
                assert "token" in json.loads(body)["error"], (path, body)
        for wrong in ("", "Bearer", "Bearer ", f"Basic {TOKEN}", f"Bearer {TOKEN}x",
                      f"Bearer {TOKEN[:-1]}", TOKEN, f"Bearer {TOKEN.upper()}", "Bearer " + "x" * 9000):
            assert s.request("GET", "/metrics", headers={"Authorization": wrong})[0] == 401, wrong
        message = Collector().message(recent(), [row(("a",), 3, comm="x")])
        assert s.request("POST", "/api/v1/windows", message)[0] == 401
        assert s.request("GET", "/api/v1/query", headers=BEARER)[0] == 200
        metrics = s.request("GET", "/metrics", headers=BEARER)[1].decode()
        assert "smolder_samples_stored_total 0\n" in metrics
        away = int(re.search(r"^smolder_http_turned_away_total (\d+)$", metrics, re.M)[1])
        assert away == len(GUARDED) + 9 + 1, away


@test
def with_the_token_everything_works():
    with guarded() as s:
        message = Collector().message(recent(), [row(("a",), 3, comm="x")])
        status, body, _ = s.request("POST", "/api/v1/windows", message, BEARER)
        assert status == 200 and Reply(body).status == STORED
        for path in GUARDED:
            status, body, _ = s.request("GET", path, headers=BEARER)
            want = 400 if "heatmap" in path else 200  # a heatmap is of ten minutes, not an hour
            assert status == want, (path, status, body)
        for path in ("/healthz", "/readyz", "/login", "/plain.css"):
            assert s.request("GET", path)[0] == 200, path
        assert s.request("GET", "/nothing")[0] == 404


@test
def commands_bring_it():
    with guarded() as s:
        s.request("POST", "/api/v1/windows",
                  Collector().message(recent(), [row(("main", "work"), 3, comm="x")]), BEARER)
        p = smolder("query", "cpu", "--server", s.url, "-f", "folded")
        assert p.returncode == 1 and "token" in p.stderr and "(HTTP status 401)" in p.stderr, p
        for command in (["query", "cpu", "-f", "folded"], ["labels", "comm", "--names"]):
            p = smolder(*command, "--server", s.url, "--token-file", s.token_path)
            assert p.returncode == 0 and p.stdout in ("x;main;work 3\n", "x\n"), p
        with token_file("another-token-altogether\n") as other:
            p = smolder("query", "cpu", "--server", s.url, "--token-file", other)
            assert p.returncode == 1 and "(HTTP status 401)" in p.stderr, p
        p = smolder("query", "cpu", "--server", s.url, "--token-file", "/nonexistent")
        assert p.returncode == 1 and "cannot read the token in /nonexistent" in p.stderr, p


@test
def a_browser_logs_in_and_goes_where_it_wanted():
    with guarded() as s:
        page = {"Accept": "text/html,application/xhtml+xml"}
        status, _, headers = s.request("GET", "/debug/pprof/?a=b%26c&d=%C3%A9+f", headers=page)
        assert status == 303, status
        login = headers["Location"]
        where = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(login).query))["next"]
        assert login.startswith("/login?next=") and where == "/debug/pprof/?a=b%26c&d=%C3%A9%20f", where

        status, body, headers = s.request("GET", login, headers=page)
        assert status == 200 and b'<form method="post">' in body and b"<script" not in body
        assert "default-src 'none'" in headers["Content-Security-Policy"]
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": s.url,
                "Host": f"{s.host}:{s.port}"}
        for wrong in ("token=no", "", "token=", "tokem=" + TOKEN, f"token={TOKEN}%20", "token=%"):
            status, body, headers = s.request("POST", login, wrong, form)
            assert status == 401 and b"not the token" in body and not headers["Set-Cookie"], wrong
        evil = {**form, "Origin": "http://evil.example"}
        assert s.request("POST", login, "token=" + TOKEN, evil)[0] == 403

        status, _, headers = s.request("POST", login, "x=y&token=" + TOKEN.replace("-", "%2D"), form)
        assert status == 303 and headers["Location"] == where, (status, headers["Location"])
        cookie, *attributes = headers["Set-Cookie"].split("; ")
        assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= set(attributes), attributes
        assert "Secure" not in attributes and TOKEN not in cookie
        assert cookie.startswith(f"smolder-{s.port}=")
        assert s.request("GET", "/metrics", headers={"Cookie": f"a=b; {cookie}"})[0] == 200
        assert s.request("GET", login, headers={"Cookie": cookie})[0] == 303
        forged = cookie[:-1] + ("0" if cookie[-1] != "0" else "1")
        longer = re.sub(r"=\d+", lambda m: f"={int(m[0][1:]) + 1000}", cookie)
        for wrong in (forged, longer, cookie.split(".")[0], f"smolder-{s.port}={TOKEN}"):
            assert s.request("GET", "/metrics", headers={"Cookie": wrong})[0] == 401, wrong

        # It is good for the next server of the same token, and for no other.
        port = s.port
        s.stop()
        s.args = (*s.args, "--listen", f"0.0.0.0:{port}")
        s.start()
        assert s.request("GET", "/metrics", headers={"Cookie": cookie})[0] == 200


@test
def a_login_leads_to_this_server_alone():
    with guarded() as s:
        for where in ("//evil.example", "https://evil.example", "/\\evil.example", "evil", "",
                      "/a\r\nSet-Cookie: x=y", "/" + "a" * 3000, "/\u00e9", "/ a", "javascript:x"):
            query = urllib.parse.urlencode({"next": where})
            status, _, headers = s.request("POST", f"/login?{query}", f"token={TOKEN}")
            assert status == 303 and headers["Location"] == "/", (where, headers["Location"])
            assert headers["Set-Cookie"].startswith("smolder-"), where


def certificate(folder):
    """One that signed itself, and its key."""
    cert, key = os.path.join(folder, "cert"), os.path.join(folder, "key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                    "-subj", "/CN=localhost", "-keyout", key, "-out", cert], check=True,
                   capture_output=True)
    return cert, key


@test
def over_tls_the_cookie_is_secure():
    with tempfile.TemporaryDirectory() as d:
        cert, key = certificate(d)
        with guarded("--tls-cert", cert, "--tls-key", key) as s:
            context = ssl.create_default_context(cafile=cert)
            context.check_hostname = False
            with context.wrap_socket(connect(s)) as c:
                c.sendall(b"POST /login HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                          b"Content-Length: %d\r\n\r\ntoken=%s" % (6 + len(TOKEN), TOKEN.encode()))
                got = answer(c).decode()
            assert got.startswith("HTTP/1.1 303") and "; Secure\r\n" in got, got

            # Commands trust what they are told to, and nobody who merely signed itself.
            ask = ("labels", "--server", f"https://localhost:{s.port}", "--token-file", s.token_path)
            p = smolder(*ask)
            assert p.returncode == 1 and "certificate" in p.stderr, p
            p = smolder(*ask, "--ca-file", cert)
            assert p.returncode == 1 and "nothing is stored" in p.stderr, p
            p = smolder(*ask, "--ca-file", "/nonexistent")
            assert p.returncode == 1 and "/nonexistent" in p.stderr, p
            p = smolder("doctor", *ask[1:])
            assert p.returncode == 1 and "certificate" in p.stderr, p
            p = smolder("doctor", *ask[1:], "--ca-file", cert)
            assert p.returncode == 0 and not p.stderr, p


@test
def beyond_this_machine_it_needs_a_token():
    with tempfile.TemporaryDirectory() as d:
        for listen in ("0.0.0.0:0", ":0", "[::]:0"):
            p = smolder("serve", "--store", d, "--listen", listen)
            assert p.returncode == 1 and p.stdout == "", p
            assert "other machines could read" in p.stderr and "--token-file FILE" in p.stderr, p.stderr
            assert len(p.stderr.splitlines()) == 1, p.stderr
        for listen in ("127.0.0.1:0", "127.9.9.9:0", "localhost:0", "0"):
            p = subprocess.Popen([SMOLDER, "serve", "--store", d, "--listen", listen],
                                 stderr=subprocess.PIPE, text=True)
            line = p.stderr.readline()
            p.terminate()
            rest = p.communicate()[1]
            assert "listening on http://127." in line, (listen, line, rest)
        with token_file() as path:
            p = subprocess.Popen([SMOLDER, "serve", "--store", d, "--listen", "0.0.0.0:0",
                                  "--token-file", path], stderr=subprocess.PIPE, text=True)
            said = p.stderr.readline() + p.stderr.readline()
            p.terminate()
            p.communicate()
            assert "without TLS" in said and "listening on http://0.0.0.0:" in said, said


@test
def a_weak_token_is_refused():
    with tempfile.TemporaryDirectory() as d:
        for text in ("", "\n", "short\n", "a token with spaces in it\n", "x" * 600, "\x01" * 20):
            with token_file(text) as path:
                p = smolder("serve", "--store", d, "--listen", "127.0.0.1:0", "--token-file", path)
                assert p.returncode == 1 and "is not a token" in p.stderr, (text, p)
        with token_file() as path:
            os.chmod(path, 0o644)
            with Server("--token-file", path, store=d) as s:
                assert "every user of this machine can read" in s.first, s.first


@live
def run_reads_a_token_that_only_root_can():
    with token_file() as path:
        os.chmod(path, 0o600)
        with always("--token-file", path) as a:
            with contextlib.closing(socket.create_connection(("127.0.0.1", a.port), 30)) as c:
                os.fchown(c.fileno(), NOBODY, -1)
                c.sendall(b"GET /api/v1/status HTTP/1.0\r\nHost: localhost\r\n\r\n")
                assert answer(c).split()[1] == b"401"
            p = a.query("cpu", "--from", "now-1m", "--token-file", path)
            assert "401" not in p.stderr, p.stderr
            until("something that is stored", lambda: subprocess.run(
                [SMOLDER, "labels", "--server", f"http://127.0.0.1:{a.port}", "--token-file", path],
                capture_output=True, text=True).returncode == 0, 60)
            with open(f"/proc/{a.half('serve')}/status") as f:
                assert not re.search(r"^Uid:\t0\t", f.read(), re.M)


@live
def an_agent_brings_its_token():
    with guarded() as s:
        with agent(s.url, "--token-file", s.token_path):
            until("windows", lambda: b"smolder_collectors 1\n" in
                  s.request("GET", "/metrics", headers=BEARER)[1], 60)


@live
def an_agent_delivers_over_tls():
    """Its filter of system calls lets all of curl and its TLS work: agent() asks for that."""
    with tempfile.TemporaryDirectory() as d:
        cert, key = certificate(d)
        with guarded("--tls-cert", cert, "--tls-key", key) as s:
            ask = ("--token-file", s.token_path, "--ca-file", cert)
            url = f"https://localhost:{s.port}"
            with agent(url, *ask):
                until("windows", lambda: smolder("labels", "--server", url, *ask).returncode == 0, 60)


# ---- users of this machine ---------------------------------------------------------------------

def curl(s, path, uid, *args):
    """(status, body) of what another user gets."""
    p = subprocess.run(["curl", "-sS", "-m", "30", "-w", "\n%{http_code}", *args, f"{s.url}{path}"],
                       capture_output=True, text=True, errors="replace", user=uid, group=uid,
                       extra_groups=[])
    assert p.returncode == 0, p
    body, _, status = p.stdout.rpartition("\n")
    return int(status), body


def window():
    return Collector().message(recent(), [row(("a",), 3, comm="x")])


def sending(s, uid, *args):
    with tempfile.NamedTemporaryFile() as f:
        f.write(window())
        f.flush()
        os.chmod(f.name, 0o644)
        return curl(s, "/api/v1/windows", uid, "--data-binary", f"@{f.name}", *args)[0]


LOOKED_AT = ("/", "/metrics", "/api/v1/query", "/api/v1/status", "/api/v1/labels/comm/values",
             "/debug/pprof/", "/debug/pprof/cmdline")


@live
def other_users_may_neither_look_nor_send():
    with Server() as s:
        assert "access is granted to root; --allow-user NAME" in s.process.stderr.readline()
        for uid, name in ((NOBODY, "nobody"), (NAMELESS, str(NAMELESS))):
            for path in LOOKED_AT:
                status, body = curl(s, path, uid)
                assert status == 403 and f"user {name} has no access to this server" in body, (path, status, body)
                if not path.startswith("/debug"):
                    assert f"--allow-user {name} " in json.loads(body)["error"], body
            status, body = curl(s, "/", uid, "-H", "Accept: text/html")
            assert status == 403 and "<html" in body and f"user {name} has no access" in body, body
            assert sending(s, uid) == 403
            status, body = curl(s, "/login", uid, "-d", "token=x")
            assert status == 403 and "has no access" in body, body
            for path in ("/healthz", "/readyz", "/plain.css"):
                assert curl(s, path, uid)[0] == 200, path
        for path in LOOKED_AT:
            assert curl(s, path, 0)[0] == 200, path
        assert b"smolder_samples_stored_total 0\n" in s.get("/metrics")[1]
        assert sending(s, 0) == 200
        assert s.stop() == 0


@live
def who_is_allowed_may_look_but_not_send():
    with tempfile.NamedTemporaryFile("w") as config:
        config.write(f"allow-user: [{NAMELESS}, nobody]\n")
        config.flush()
        for args in (("--allow-user", "daemon", "--allow-user", "nobody"),
                     ("--allow-user", str(NOBODY)), ("--allow-group", "nogroup"),
                     ("--allow-group", str(pwd.getpwnam("nobody").pw_gid)), ("--config", config.name)):
            with Server(*args) as s:
                for path in LOOKED_AT:
                    assert curl(s, path, NOBODY)[0] == 200, (args, path)
                assert sending(s, NOBODY) == 403, args
                assert curl(s, "/metrics", 2)[0] == 403, args  # bin
                assert curl(s, "/metrics", NAMELESS)[0] == (200 if "config" in args[0] else 403), args
    with tempfile.TemporaryDirectory() as d:
        for kind in ("user", "group"):
            p = smolder("serve", "--store", d, f"--allow-{kind}", "no-such-name")
            assert p.returncode == 1 and f"there is no {kind} 'no-such-name'" in p.stderr, p


@live
def who_called_sudo_may_look():
    with Server(env=dict(os.environ, SUDO_UID=str(NOBODY))) as s:
        assert "access is granted to root and nobody;" in s.process.stderr.readline()
        assert curl(s, "/metrics", NOBODY)[0] == 200
        assert sending(s, NOBODY) == 200  # there is no collector but those that send
        assert curl(s, "/metrics", 2)[0] == 403


@live
def the_token_lets_others_in_on_loopback():
    with token_file() as path, Server("--token-file", path) as s:
        bearer = ("-H", f"Authorization: Bearer {TOKEN}")
        assert curl(s, "/metrics", 0)[0] == 200
        assert curl(s, "/metrics", NOBODY, *bearer)[0] == 200
        assert sending(s, NOBODY, *bearer) == 200
        status, body = curl(s, "/metrics", NOBODY)
        assert status == 401 and "token" in json.loads(body)["error"], body
        assert sending(s, NOBODY) == 401
        status, _ = curl(s, "/", NOBODY, "-H", "Accept: text/html")
        assert status == 303
        # A proxy that asks for others is not let in for whom it runs as.
        for header in ("X-Forwarded-For: 192.0.2.1", "Forwarded: for=192.0.2.1", "Via: 1.1 x"):
            assert curl(s, "/metrics", 0, "-H", header)[0] == 401, header
            assert curl(s, "/metrics", 0, "-H", header, *bearer)[0] == 200, header


@live
def owners_are_known_in_every_form_of_address():
    request = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for listen, family, host in (("127.0.0.1:0", socket.AF_INET, "127.0.0.1"),
                                 ("127.0.0.1:0", socket.AF_INET, "127.0.0.1 from 127.0.0.9"),
                                 ("127.0.0.1:0", socket.AF_INET6, "::ffff:127.0.0.1"),
                                 ("[::1]:0", socket.AF_INET6, "::1"),
                                 ("[::ffff:127.0.0.1]:0", socket.AF_INET, "127.0.0.1"),
                                 ("[::ffff:127.0.0.1]:0", socket.AF_INET6, "::ffff:127.0.0.1")):
        with Server("--listen", listen) as s:
            for uid, want in ((0, b"200"), (NOBODY, b"403")):
                with socket.socket(family) as c:
                    os.fchown(c.fileno(), uid, -1)
                    host, _, source = host.partition(" from ")
                    if source:
                        c.bind((source, 0))
                    c.connect((host, s.port))
                    c.sendall(request * 3)  # of which the first ends it
                    assert answer(c).split()[1] == want, (listen, host, uid)


@test
def the_kernel_is_asked_once_for_a_connection():
    if not shutil.which("strace"):
        skip("strace is not installed")
    with Server() as s, tempfile.NamedTemporaryFile("r") as trace:
        strace = subprocess.Popen(["strace", "-f", "-o", trace.name, "-e", "trace=sendto", "-p", str(s.process.pid)],
                                  stderr=subprocess.PIPE, text=True)
        assert "attached" in strace.stderr.readline()
        for requests in (1, 8, 3, 2):
            c = http.client.HTTPConnection(s.host, s.port, timeout=30)
            for _ in range(requests):
                c.request("GET", "/api/v1/status")
                r = c.getresponse()
                assert r.status == 200 and r.read() and not r.will_close
            c.close()
        strace.send_signal(signal.SIGINT)
        strace.communicate(timeout=30)
        # Its questions are numbered from 1 on: one that was asked while strace was attaching is counted, too.
        asked = [int(re.search(r"nlmsg_seq=(\d+)", line)[1]) for line in trace if "SOCK_DIAG_BY_FAMILY" in line]
        assert asked and asked[-1] == 4, asked


@live
def who_has_gone_is_a_stranger():
    """Of a socket that was closed the kernel tells user 0: that is not root."""
    with Server() as s:
        message = window()
        s.process.send_signal(signal.SIGSTOP)
        until("it to stand still", lambda: open(f"/proc/{s.process.pid}/stat").read().split()[2] == "T")
        for linger in (False, True):
            with socket.socket() as c:
                os.fchown(c.fileno(), NOBODY, -1)
                c.connect((s.host, s.port))
                c.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                          b"Content-Length: %d\r\n\r\n" % len(message) + message)
                if linger:
                    c.shutdown(socket.SHUT_WR)
        s.process.send_signal(signal.SIGCONT)

        def metrics():
            return s.get("/metrics")[1].decode()
        until("both to be refused", lambda: "\nsmolder_http_turned_away_total 2\n" in metrics())
        assert "\nsmolder_samples_stored_total 0\n" in metrics()
        assert "\nsmolder_http_unowned_total 2\n" in metrics()
    # Counted always, said once.
    assert s.words.count("the user of a connection on loopback could not be determined") == 1, s.words


@live
def run_says_who_may_look():
    with always("--allow-user", "bin", env={"SUDO_UID": str(NOBODY)}) as a:
        assert "access is granted to root, nobody and bin; --allow-user NAME adds others" \
            in a.err.splitlines()[0], a.err
        a.url = f"http://127.0.0.1:{a.port}"
        for uid, want in ((0, 200), (NOBODY, 200), (2, 200), (NAMELESS, 403)):
            assert curl(a, "/metrics", uid)[0] == want, uid
        # Its own collector sends; of others only root may.
        a.wait_stored()
        assert [sending(a, uid) for uid in (0, NOBODY, 2, NAMELESS)] == [200, 403, 403, 403]
        with open(f"/proc/{a.half('serve')}/status") as f:
            assert re.search(r"^CapEff:\t0+$", f.read(), re.M), "it needs no capability for that"


@live
def doctor_says_who_may_look():
    p = smolder("doctor", env={"SUDO_UID": str(NOBODY)})
    assert re.search(r"info +access +root and nobody have ", p.stdout), p.stdout


@live
def a_name_server_that_is_silent_keeps_nobody():
    """In a network of its own, whose name server takes questions and answers none."""
    inside = """
import fcntl, os, signal, socket, struct, subprocess, sys, time
smolder, resolv, spool = sys.argv[1:]
s = socket.socket()
fcntl.ioctl(s, 0x8914, struct.pack("16sh22x", b"lo", 1 | 64))  # SIOCSIFFLAGS: up
subprocess.run(["mount", "--bind", resolv, "/etc/resolv.conf"], check=True)
dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
dns.bind(("127.0.0.1", 53))
dns.settimeout(60)
for argv, signo in ((["agent", "--spool", spool + "/a", "--to", "http://collector.example:7117"], signal.SIGTERM),
                    (["agent", "--spool", spool + "/b", "--to", "https://collector.example:7117"], signal.SIGTERM),
                    (["query", "cpu", "--server", "http://collector.example:7117"], signal.SIGINT)):
    p = subprocess.Popen([smolder, *argv], stdout=subprocess.DEVNULL)
    dns.recvfrom(1000)
    began = time.monotonic()
    p.send_signal(signo)
    p.wait(60)
    print(f"{argv[0]} {argv[-1]} {time.monotonic() - began:.2f} {p.returncode}", flush=True)
    dns.setblocking(False)
    try:
        while dns.recvfrom(1000):
            pass
    except BlockingIOError:
        dns.settimeout(60)
"""
    with tempfile.NamedTemporaryFile("w") as resolv, tempfile.TemporaryDirectory() as spool:
        resolv.write("nameserver 127.0.0.1\noptions timeout:10 attempts:3\n")
        resolv.flush()
        p = subprocess.run(["unshare", "-nm", sys.executable, "-c", inside, SMOLDER, resolv.name, spool],
                           capture_output=True, text=True)
    ends = [line.split() for line in p.stdout.splitlines()]
    assert p.returncode == 0 and len(ends) == 3, p
    assert all(float(took) < 3 for *_, took, _ in ends), ends


# ---- slow, many, large -------------------------------------------------------------------------

@test
def a_thousand_idle_connections_leave_room_for_others():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with Server() as s, contextlib.ExitStack() as open_:
        before = resident(s.process.pid)
        idle = []
        for i in range(1000):
            idle.append(open_.enter_context(connect(s)))
            if i % 3 == 1:  # some stop within a request's head, some within its body
                idle[-1].sendall(b"GET /healthz HTTP/1.1\r\nHost: loc")
            elif i % 3 == 2:
                idle[-1].sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                                 b"Content-Length: 100\r\n\r\nx")
            if i % 100 == 0:
                began = time.monotonic()
                assert s.json("/healthz")
                assert time.monotonic() - began < 5
        for _ in range(50):
            assert s.json("/healthz")
        assert s.post(Collector().message(recent(), [row(("a",), 3, comm="x")])).status == STORED
        assert s.json("/api/v1/query")["samples"] == 3
        text = s.get("/metrics")[1].decode()
        count = int(re.search(r"^smolder_http_connections (\d+)$", text, re.M)[1])
        dropped = int(re.search(r"^smolder_http_dropped_total (\d+)$", text, re.M)[1])
        assert count <= 256 and dropped >= 1000 - 256, (count, dropped)
        # The oldest went, the newest are there.
        assert all(is_closed(c, 5) for c in idle[:500])
        assert not any(is_closed(c, 0.01) for c in idle[-100::10])
        assert resident(s.process.pid) < before + (32 << 20)
        assert s.stop() == 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@test
def a_question_that_waits_is_not_dropped_for_others():
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with a, Server("--windows-fd", str(b.fileno()), pass_fds=[b.fileno()]) as s:
        b.close()
        waiting = connect(s)
        waiting.sendall(b"GET /debug/pprof/profile?seconds=5 HTTP/1.1\r\nHost: localhost\r\n"
                        b"Connection: close\r\n\r\n")
        until("the server to ask for windows", lambda: a.recv(1024)[:3] == b"SMR")
        with contextlib.ExitStack() as open_:
            for _ in range(400):
                open_.enter_context(connect(s))
            assert s.json("/healthz")
            waiting.settimeout(30)
            assert answer(waiting).startswith(b"HTTP/1.1 200")
        waiting.close()


@test
def who_takes_an_answer_slowly_holds_up_nobody():
    with Server() as s, contextlib.ExitStack() as open_:
        c = Collector()
        for i in range(6):
            rows = [row(("main", f"function_of_a_long_name_{j}", f"g{i}"), 1, comm=f"c{j}")
                    for j in range(1000)]
            assert s.post(c.message(recent() - i * 10000, rows)).status == STORED
        request = (b"GET /api/v1/query?from=now-1h&by=comm&format=json HTTP/1.1\r\n"
                   b"Host: localhost\r\n\r\n")
        for _ in range(16):
            slow = open_.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect((s.host, s.port))
            slow.sendall(request)  # and never reads
        for _ in range(20):
            began = time.monotonic()
            assert s.json("/healthz")
            assert time.monotonic() - began < 5
        until("a question's turn", lambda: s.get("/api/v1/query", **{"from": "now-1h"})[0] == 200, 30)
        if not BUILD.endswith("san"):  # which keeps what was freed
            assert resident(s.process.pid) < 128 << 20


@test
def a_byte_now_and_then_keeps_nobody_for_ever():
    with Server() as s, connect(s) as head, connect(s) as body:
        began = time.monotonic()
        head.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
        body.sendall(b"POST /api/v1/windows HTTP/1.1\r\nHost: localhost\r\n"
                     b"Content-Length: 1000\r\n\r\n")
        ended = {}
        while len(ended) < 2 and time.monotonic() < began + 100:
            time.sleep(1)
            for name, c in (("head", head), ("body", body)):
                if name in ended:
                    continue
                try:
                    c.sendall(b"x")
                    c.setblocking(False)
                    if c.recv(1000) == b"":
                        ended[name] = time.monotonic() - began
                except BlockingIOError:
                    pass
                except OSError:
                    ended[name] = time.monotonic() - began
                c.setblocking(True)
        assert set(ended) == {"head", "body"}, ended
        assert all(50 < t < 90 for t in ended.values()), ended


def status_of(s, request):
    """(status, answer) of some bytes; None when there is no answer."""
    got = b""
    with connect(s) as c:
        c.settimeout(5)
        with contextlib.suppress(ConnectionError):
            c.sendall(request)
        with contextlib.suppress(ConnectionError, TimeoutError):
            while b"\r\n\r\n" not in got and (chunk := c.recv(1 << 16)):
                got += chunk
    return int(got.split()[1]) if got.startswith(b"HTTP/") else None, got


@test
def what_is_oversized_is_answered_so():
    with guarded() as s:
        for request, want in (
                (b"GET /" + b"x" * 40000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n", {413, 414, 431}),
                (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 40000 + b"\r\n\r\n",
                 {413, 431}),
                (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"A: b\r\n" * 8000 + b"\r\n",
                 {413, 431}),
                (b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n\r\n",
                 {413}),
                (b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n", {400, 413}),
                (b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5x\r\n\r\n", {400, 413}),
                (b"POST /login HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
                 b"ffffffffffffffffff\r\n", {400, 413}),
                (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n"
                 b"Connection: close\r\n\r\n", {200, 400, 403}),
                (b"GET /healthz HTTP/1.1\r\n\r\n", {400, 403}),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 200 + b"\r\n\r\n", {400, None}),
                (b"GET\r\n\r\n", {400, 403, None}),
                (b"\r\n" * 1000 + b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
                 b"Connection: close\r\n\r\n", {200, 400, None})):
            # It closes with the rest unread, and a reset may overtake the answer: not every time.
            for _ in range(10):
                status, got = status_of(s, request)
                if status:
                    break
            assert status in want, (request[:80], got[:200])
            assert s.request("GET", "/healthz")[0] == 200, request[:80]


@test
def no_path_leads_out():
    with Server() as s:
        for path in ("/..", "/../../etc/passwd", "/assets/../../etc/passwd", "/assets/..",
                     "/assets/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/assets/....//etc/passwd",
                     "/%2e%2e/%2e%2e/etc/passwd", "/..%5c..%5cetc", "/assets//etc/passwd",
                     "/debug/pprof/../../etc/passwd", "/debug/pprof/cmdline/../../x",
                     "/api/v1/labels/../../../etc/values", "/etc/passwd%00.html", "//etc/passwd",
                     "/%00", "/login/../metrics/x", "/plain.css/..", "/debug/pprof/profile/.."):
            with connect(s) as c:  # http.client would mend some of them
                c.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                          .encode())
                got = answer(c)
            assert got.startswith(b"HTTP/1.1 404") or got.startswith(b"HTTP/1.1 400"), (path, got[:300])
            assert b"root:" not in got, path
        # With the path of a route and a token, encoding it otherwise opens no door.
    with guarded() as s:
        for path in ("/%6detrics", "/healthz%00/../metrics", "/metrics%00/healthz", "/metrics?x=/healthz", "/metrics#/login", "/metrics;/healthz",
                     "/healthz/../metrics", "//metrics", "/login/../metrics", "/metrics/"):
            with connect(s) as c:
                c.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
                          .encode())
                got = answer(c)
            assert got.split()[1] in (b"400", b"401", b"404"), (path, got[:200])


@test
def names_are_text_on_the_list_of_processes():
    with Server() as s:
        start = int(time.time() * 1000) // 10000 * 10000 - 20000
        names = ("<img src=x onerror=alert(1)>", "\"'><script>alert(1)</script>", "a\u202eb", "x" * 900,
                 "a&pid=1")
        rows = [row(("a",), 3, comm=n, pid=str(i + 1)) for i, n in enumerate(names)]
        rows.append(row(("a",), 1, comm=names[0]))
        assert s.post(Collector().message(start, rows)).status == STORED
        status, body, headers = s.get("/debug/pprof/")
        assert status == 200 and headers["Content-Type"].startswith("text/html")
        text = body.decode()
        assert "<img" not in text and "<script" not in text and "\u202e" not in text, text
        assert "&lt;img src=x onerror=alert(1)&gt;" in text and "a&amp;pid=1" in text
        assert 'href="profile?seconds=30&amp;pid=5"' in text
        assert 'comm=%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E"' in text
        assert "script-src" not in headers["Content-Security-Policy"]
        assert "default-src 'none'" in headers["Content-Security-Policy"]


main()

#!/usr/bin/env python3
"""Labels of series: what control groups, container runtimes and rules make of them."""
import contextlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import workloads  # noqa: E402
from always import account, agent, always, served, until  # noqa: E402
from control_groups import group, hierarchies, move  # noqa: E402
from kubelet import kubelet  # noqa: E402
from recording import live  # noqa: E402
from tap import main, skip  # noqa: E402

POD = "kubepods/burstable/pod{}/{}"
BUNDLE = "run/containerd/io.containerd.runtime.v2.task/k8s.io/{}/config.json"


def new_id():
    return os.urandom(32).hex()


def new_uid():
    return re.sub(r"(.{8})(.{4})(.{4})(.{4})(.{12})", r"\1-\2-\3-\4-\5", os.urandom(16).hex())


def put(root, path, content):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w") as f:
        f.write(content if isinstance(content, str) else json.dumps(content))


def docker_state(root, name, ident, image="shop/web:2.4.1"):
    put(root, f"var/lib/docker/containers/{ident}/config.v2.json",
        {"ID": ident, "Name": f"/{name}", "Config": {"Image": image}, "State": {"Running": True}})


def pod_state(root, pod, ident, image):
    put(root, BUNDLE.format(ident), {"ociVersion": "1.1.0", "annotations": {
        "io.kubernetes.cri.container-name": "app", "io.kubernetes.cri.image-name": image,
        "io.kubernetes.cri.sandbox-name": pod, "io.kubernetes.cri.sandbox-namespace": "shop"}})


def samples(a, selector, since="now-1h", until_="now"):
    """How many there are of series with these labels: {name: value}"""
    matchers = ",".join(f'{k}="{v}"' for k, v in selector.items())
    query = "".join(f"%{ord(c):02X}" for c in f"cpu{{{matchers}}}")
    return a.json(f"/api/v1/query?query={query}&from={since}&to={until_}&max_nodes=1")["samples"]


def wait_samples(a, selector, least=20):
    return until(f"samples of {selector}", lambda: samples(a, selector) >= least, 90)


@live
def control_groups_become_labels():
    ids = [new_id() for _ in range(5)]
    uid = new_uid()
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as s:
        os.chmod(root, 0o755)
        put(root, "etc/passwd", "root:x:0:0::/:/bin/sh\nann:x:4711:100::/:/bin/sh\n")
        docker_state(root, "shop-web-1", ids[0])
        pod_state(root, "api-7d9f8b6c54-x2x4z", ids[1], "docker.io/shop/api:7")
        shapes = [
            (f"docker-{ids[0]}.scope", {"container": "shop-web-1", "container_id": ids[0][:12],
                                        "runtime": "docker", "service": "shop-web-1",
                                        "version": "2.4.1"}),
            (POD.format(uid, ids[1]), {"container": "app", "pod": "api-7d9f8b6c54-x2x4z",
                                       "pod_uid": uid, "namespace": "shop", "qos": "burstable",
                                       "runtime": "containerd", "service": "api", "version": "7"}),
            (f"machine.slice/libpod-{ids[2]}.scope/container", {
                "container": ids[2][:12], "runtime": "podman", "slice": "machine.slice",
                "service": "shares"}),
            ("lxc.payload.box/system.slice/db.service", {
                "container": "box", "runtime": "lxc", "unit": "db.service", "service": "box"}),
            ("system.slice/web.service", {"unit": "web.service", "slice": "system.slice",
                                          "service": "web"}),
            ("user.slice/user-4711.slice/session-1.scope", {
                "user": "ann", "unit": "session-1.scope", "service": "shares"}),
        ]
        a = s.enter_context(always("--host-root", root))
        for path, _ in shapes:
            procs = s.enter_context(group(path))
            w = s.enter_context(workloads.start("shares"))
            move(w.pid, procs)
        for path, labels in shapes:
            wait_samples(a, {"comm": "shares", **labels})
        # The build of a program that is in no image.
        assert re.fullmatch("[0-9a-f]{12}", a.json(
            "/api/v1/labels/version/values?query=cpu%7Bservice%3D%22web%22%7D")["values"][0])
        # A container is found by its name, by its id, and by as much of that as `docker ps` shows.
        def profile(container):
            return len(a.get(f"/debug/pprof/profile?seconds=2&container={container}", 60))
        nothing = profile("nobody")
        for container in ("shop-web-1", ids[0], ids[0][:12]):
            until(f"a profile of {container}", lambda c=container: profile(c) > nothing)


@live
def a_host_with_cgroup_v2_alone_has_the_same_labels():
    """Where this one is hybrid: what a collector sees that has only the v2 hierarchy mounted."""
    root = hierarchies()["v2"]
    if not root:
        skip("no cgroup2 is mounted")
    ident, uid = new_id(), new_uid()
    pod = ("kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" + uid.replace("-", "_") +
           f".slice/cri-containerd-{ident}.scope")
    alone = ("unshare", "-m", "sh", "-c", 'mount --bind "$0" /sys/fs/cgroup && exec "$@"', root)
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
        os.chmod(d, 0o755)
        pod_state(d, "api-7d9f8b6c54-x2x4z", ident, "docker.io/shop/api:7")
        a = s.enter_context(always("--host-root", d, before=() if root == "/sys/fs/cgroup" else alone))
        for path, labels in ((pod, {"pod": "api-7d9f8b6c54-x2x4z", "pod_uid": uid, "container": "app", "qos": "burstable",
                                    "runtime": "containerd", "version": "7"}),
                             ("user.slice/user-4711.slice/session-1.scope", {"user": "4711", "unit": "session-1.scope"})):
            procs = s.enter_context(group(path, root))
            w = s.enter_context(workloads.start("shares"))
            move(w.pid, procs)
            wait_samples(a, {"comm": "shares", **labels})


@live
def a_process_that_moves_is_where_it_was():
    first, second = new_id(), new_id()
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as s:
        os.chmod(root, 0o755)
        docker_state(root, "before", first)
        docker_state(root, "after", second)
        a = s.enter_context(always("--host-root", root))
        from_ = s.enter_context(group(f"docker-{first}.scope"))
        to = s.enter_context(group(f"docker-{second}.scope"))
        w = s.enter_context(workloads.start("shares"))
        move(w.pid, from_)
        wait_samples(a, {"container": "before", "pid": w.pid})
        move(w.pid, to)
        moved = int(time.time() * 1000)
        wait_samples(a, {"container": "after", "pid": w.pid})
        later = (moved // 10000 + 1) * 10000
        until("a window later", lambda: samples(a, {"pid": w.pid}, later) > 100, 90)
        assert samples(a, {"container": "before"}, later, later + 3600000) == 0
        assert samples(a, {"container": "after"}, "now-1h", moved // 10000 * 10000) == 0
        assert samples(a, {"container": "before"}) > 20


@live
def a_container_that_is_gone_keeps_its_name():
    ident = new_id()
    with tempfile.TemporaryDirectory() as root, contextlib.ExitStack() as s:
        os.chmod(root, 0o755)
        docker_state(root, "brief", ident, "shop/brief:0.1")
        a = s.enter_context(always("--host-root", root))
        with group(f"docker-{ident}.scope") as procs:
            with workloads.start("shares") as w:
                move(w.pid, procs)
                time.sleep(2)
        # As `docker rm` does: neither its group nor its file is there when the window ends.
        shutil.rmtree(os.path.join(root, "var"))
        wait_samples(a, {"container": "brief", "container_id": ident[:12], "version": "0.1"})
        assert samples(a, {"container": ident[:12]}) == 0


@live
def a_pod_that_comes_back_is_another_one():
    ids, uids = [new_id(), new_id()], [new_uid(), new_uid()]
    with tempfile.TemporaryDirectory() as root, always("--host-root", root) as a:
        os.chmod(root, 0o755)
        for ident, uid, version in zip(ids, uids, ("1", "2")):
            pod_state(root, "db-0", ident, f"shop/db:{version}")
            with group(POD.format(uid, ident)) as procs, workloads.start("shares") as w:
                move(w.pid, procs)
                wait_samples(a, {"pod": "db-0", "pod_uid": uid})
            shutil.rmtree(os.path.join(root, "run"))
        for ident, uid, version in zip(ids, uids, ("1", "2")):
            both = {"pod": "db-0", "service": "db", "container": "app"}
            one = samples(a, {**both, "pod_uid": uid, "container_id": ident[:12], "version": version})
            assert 0 < one < samples(a, both), (one, samples(a, both))
            assert one == samples(a, {**both, "pod_uid": uid})


@live
def rules_change_and_drop_series():
    config = """
label: [env=test, "__team=a"]
drop: ['{comm="threads"}', 'page_faults{comm="shares"}']
relabel_configs:
- source_labels: [__team, comm]
  regex: 'a;(sha)(.*)'
  target_label: group
  replacement: '${1}-$2'
- regex: thread|exe
  action: labeldrop
"""
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "smolder.yaml")
        with open(path, "w") as f:
            f.write(config)
        store = os.path.join(d, "store")
        os.chmod(d, 0o755)
        with always("--config", path, store=store) as a, workloads.start("shares") as w, \
                workloads.start("threads"):
            wait_samples(a, {"comm": "shares", "group": "sha-res", "env": "test", "pid": w.pid}, 50)
            wait_samples(a, {"comm": "(dropped)"}, 50)
            assert samples(a, {"comm": "threads"}) == 0
            names = a.json("/api/v1/labels")["labels"]
            assert "group" in names and not {"exe", "thread", "__team"} & set(names), names
            until("what is dropped to be told", lambda: sum(
                a.collectors("smolder_collector_dropped_samples_total")) > 50)
            # Neither a name nor a stack of it is kept.
            q = a.query('cpu{comm="(dropped)"}', "--from", "now-5m", "-f", "folded")
            assert q.returncode == 0 and "threads" not in q.stdout and ";" not in q.stdout.replace("(dropped);", ""), q
            assert a.stop() == 0, a.err
        with served(store) as s:
            taken, stored, lost = account(s.metrics())
            assert taken == stored + lost and lost == 0, (taken, stored, lost)


@live
def only_what_is_to_be_kept_is_kept():
    with always("--keep", '{comm="shares",pid!=""}') as a, workloads.start("shares") as w, \
            workloads.start("threads"):
        wait_samples(a, {"comm": "shares", "pid": w.pid}, 50)
        kept = set(a.json("/api/v1/labels/comm/values?query=cpu")["values"])
        assert kept == {"shares", "(dropped)"}, kept


@live
def a_kubelet_names_its_pods():
    ids, uids = [new_id() for _ in range(3)], [new_uid() for _ in range(3)]
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
        os.chmod(d, 0o755)
        k, url = s.enter_context(kubelet(d))
        k.add(uids[0], "api-7d9f8b6c54-x2x4z", ids[0], labels={"app.kubernetes.io/name": "shop-api", "x": "y"})
        a = s.enter_context(always("--host-root", d, "--kubelet", url, "--kubelet-token", k.token_file,
                                   "--kubelet-ca", k.ca_file, "--pod-label", "app.kubernetes.io/name",
                                   "--drop", '{namespace="shop",pod="dropped-0"}'))
        until("the first list", lambda: a.metrics().get("smolder_kubelet_pods") == 1)
        want = {"pod": "api-7d9f8b6c54-x2x4z", "namespace": "shop", "container": "app", "version": "7",
                "service": "api", "pod_label_app_kubernetes_io_name": "shop-api", "pod_uid": uids[0]}
        procs = s.enter_context(group(POD.format(uids[0], ids[0])))
        w = s.enter_context(workloads.start("shares"))
        move(w.pid, procs)
        wait_samples(a, want)
        # One that begins later is asked for when it is met: its first window has its name already.
        k.add(uids[1], "db-0", ids[1], "db", "shop/db:15")
        k.add(uids[2], "dropped-0", ids[2])
        for i in (1, 2):
            procs = s.enter_context(group(POD.format(uids[i], ids[i])))
            w = s.enter_context(workloads.start("shares"))
            move(w.pid, procs)
        late = {"container_id": ids[1][:12]}
        wait_samples(a, {**late, "pod": "db-0", "container": "db", "service": "db", "version": "15"})
        assert samples(a, late) == samples(a, {**late, "pod": "db-0"})
        wait_samples(a, {"comm": "(dropped)"})
        assert samples(a, {"pod_uid": uids[2]}) == 0
        assert k.refused == 0 and k.asked >= 2, (k.refused, k.asked)


@live
def an_agent_asks_the_kubelet_itself():
    ids, uids = [new_id(), new_id()], [new_uid(), new_uid()]
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
        os.chmod(d, 0o755)
        k, url = s.enter_context(kubelet(d))
        k.add(uids[0], "api-7d9f8b6c54-x2x4z", ids[0], labels={"team": "a"})
        to = s.enter_context(served(os.path.join(d, "store")))
        s.enter_context(agent(f"http://127.0.0.1:{to.port}", "--host-root", d, "--kubelet", url, "--pod-label",
                              "team", "--kubelet-token", k.token_file, "--kubelet-ca", k.ca_file))
        until("the first list", lambda: k.asked)
        k.add(uids[1], "db-0", ids[1], "db", "shop/db:15")
        for i in range(2):
            procs = s.enter_context(group(POD.format(uids[i], ids[i])))
            w = s.enter_context(workloads.start("shares"))
            move(w.pid, procs)
        wait_samples(to, {"pod": "api-7d9f8b6c54-x2x4z", "namespace": "shop", "pod_label_team": "a"})
        wait_samples(to, {"pod": "db-0", "service": "db", "version": "15", "pod_uid": uids[1]})
        assert k.refused == 0, k.refused
        failures = lambda: sum(v for k, v in to.metrics().items() if "agent_kubelet_failures_total{" in k)
        assert failures() == 0, to.metrics()
        k.answer = b"{}"
        procs = s.enter_context(group(POD.format(new_uid(), new_id())))
        move(s.enter_context(workloads.start("shares")).pid, procs)
        until("failures to be told", failures, 90)


@live
def a_kubelet_that_lies_harms_nobody():
    with tempfile.TemporaryDirectory() as d, contextlib.ExitStack() as s:
        os.chmod(d, 0o755)
        k, url = s.enter_context(kubelet(d))
        ident, uid = new_id(), new_uid()
        k.answer = b"[" * 1000000
        a = s.enter_context(always("--host-root", d, "--kubelet", url, "--kubelet-token", k.token_file,
                                   "--kubelet-ca", k.ca_file))

        def failures():
            return a.metrics().get("smolder_kubelet_failures_total", 0)
        until("a failure", lambda: failures() == 1)
        assert "the kubelet at https://127.0.0.1" in a.err and "no list of pods" in a.err, a.err
        procs = s.enter_context(group(POD.format(uid, ident)))
        w = s.enter_context(workloads.start("shares"))
        k.answer = b'{"items":[' + b" " * (17 << 20) + b"]}"
        move(w.pid, procs)
        until("a second", lambda: failures() >= 2, 90)
        k.answer = None
        with open(k.token_file, "w") as f:
            f.write("stolen\n")
        # Without names there are still ids; and it is not asked more than it should be.
        wait_samples(a, {"pod": uid, "pod_uid": uid, "container": ident[:12]})
        assert a.err.count("the kubelet at") == 1, a.err


def podman(root, *args):
    """Podman with all of its state below `root`."""
    return ["podman", "--root", f"{root}/var/lib/containers/storage", "--runroot",
            f"{root}/run/podman", "--storage-driver", "vfs", "--cgroup-manager", "cgroupfs",
            "--runtime", "runc", *args]


def limits():
    """No container may want more than we have."""
    for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
        most = resource.getrlimit(which)[1]
        most = 4096 if most == resource.RLIM_INFINITY else min(most, 4096)
        yield from ("--ulimit", f"{name}={most}:{most}")


@live
def a_container_of_podman_has_its_name():
    for tool in ("podman", "runc", "busybox"):
        if not shutil.which(tool):
            skip(f"{tool} is not installed")
    with contextlib.ExitStack() as stack:
        root = tempfile.mkdtemp()
        # What podman leaves running behind a container writes its state a moment longer.
        stack.callback(until, "an empty storage", lambda: not shutil.rmtree(root, ignore_errors=True)
                       and not os.path.exists(root))
        os.chmod(root, 0o755)
        os.makedirs(f"{root}/image/bin")
        shutil.copy(shutil.which("busybox"), f"{root}/image/bin/busybox")
        subprocess.run(["tar", "-C", f"{root}/image", "-cf", f"{root}/image.tar", "."], check=True)
        made = subprocess.run(podman(root, "import", f"{root}/image.tar", "shop/box:3.1"),
                              capture_output=True, text=True, timeout=120)
        assert made.returncode == 0, made
        with always("--host-root", root) as a:
            run = subprocess.run(podman(root, "run", "-d", "--name", "burner", "--network", "none",
                                        "--log-driver", "none", "--cgroupns", "host", *limits(),
                                        "shop/box:3.1", "/bin/busybox", "sh", "-c", "while :; do :; done"),
                                 capture_output=True, text=True, timeout=120)
            try:
                if run.returncode:
                    skip(f"podman cannot run a container here: {run.stderr.strip()}")
                ident = run.stdout.strip()
                wait_samples(a, {"container": "burner", "container_id": ident[:12], "version": "3.1",
                                 "runtime": "podman", "service": "burner", "comm": "busybox"})
            finally:
                subprocess.run(podman(root, "rm", "-f", "-t", "0", "-a"), capture_output=True, timeout=120)
                subprocess.run(["umount", "-R", f"{root}/var/lib/containers/storage/vfs"],
                               capture_output=True)


main()

"""The agent and the server in containers, with the privileges of contrib/daemonset.yaml: a stage of tests/fresh.

Podman stands in for the kubelet. Its filter of system calls is that of containerd 1.7 and Docker 23 once `bpf` and
`perf_event_open` are allowed to CAP_BPF and CAP_PERFMON (podman's own wants CAP_SYS_ADMIN for both).
"""
import contextlib
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile

import yaml
from always import REFUSED_CALL, free_port, until
from fresh_packages import built
from fresh_root import LOG, Root, run, say
from tap import ROOT

PODMANS_FILTER = "/usr/share/containers/seccomp.json"
GATED = {"bpf": "CAP_BPF", "perf_event_open": "CAP_PERFMON"}
TOKEN = "0123456789abcdef0123456789abcdef"


def write_filter(path):
    with open(PODMANS_FILTER) as f:
        rules = json.load(f)
    for rule in rules["syscalls"]:
        rule["names"] = [name for name in rule["names"] if name not in GATED]
    rules["syscalls"] += [{"names": [call], "action": "SCMP_ACT_ALLOW", "args": [], "includes": {"caps": [cap]}}
                          for call, cap in GATED.items()]
    with open(path, "w") as f:
        json.dump(rules, f)


class Host:
    """What the pods of a node have around them."""

    def __init__(self, root, state):
        self.root, self.state = root, state
        self.filter = os.path.join(state, "filter.json")
        write_filter(self.filter)
        os.mkdir(os.path.join(state, "token"))
        with open(os.path.join(state, "token", "token"), "w") as f:
            f.write(TOKEN + "\n")

    def podman(self, *words):
        return ["podman", "--root", f"{self.state}/host/var/lib/containers/storage", "--runroot", f"{self.state}/run", "--storage-driver",
                "vfs", "--cgroup-manager", "cgroupfs", "--runtime", "runc", *words]

    def limits(self):
        # No container may want more than we have.
        limits = []
        for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC)):
            most = resource.getrlimit(which)[1]
            most = 4096 if most == resource.RLIM_INFINITY else min(most, 4096)
            limits.append(f"--ulimit={name}={most}:{most}")
        return limits

    def container(self, *options):
        return self.podman("run", "--rm", "--network=host", "--log-driver=none", *self.limits(), *options, "--rootfs",
                           self.root.path)

    def named(self, name, *command):
        """A container of an image, whose name podman keeps in its storage."""
        image = os.path.join(self.state, "image")
        os.makedirs(image + "/bin")
        shutil.copy(shutil.which("busybox"), image + "/bin/busybox")
        run("tar", "-C", image, "-cf", image + ".tar", ".")
        run(*self.podman("import", image + ".tar", "shop/box:3.1"))
        return self.podman("run", "--rm", "--network=none", "--log-driver=none", "--pid=private", *self.limits(),
                           f"--name={name}", "shop/box:3.1", "/bin/busybox", *command)

    def pod(self, spec, without=None, **values):
        """A command for the only container of a pod; `values` stand for the names and addresses of a cluster."""
        container, = spec["containers"]
        security = {**spec.get("securityContext", {}), **container["securityContext"]}
        assert not security.get("privileged") and security["allowPrivilegeEscalation"] is False
        assert security["seccompProfile"]["type"] == "RuntimeDefault"
        options = ["--security-opt=no-new-privileges", f"--security-opt=seccomp={self.filter}",
                   f"--user={security['runAsUser']}:{security.get('runAsGroup', 0)}",
                   *[f"--cap-drop={c}" for c in security["capabilities"]["drop"]],
                   *[f"--cap-add={c}" for c in security["capabilities"].get("add", []) if c != without]]
        if security.get("readOnlyRootFilesystem"):
            options += ["--read-only", "--read-only-tmpfs=false"]
        if spec.get("hostPID"):
            options.append("--pid=host")
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for mounted in container["volumeMounts"]:
            at, volume = mounted["mountPath"], volumes[mounted["name"]]
            if "hostPath" in volume:
                options.append(f"-v={volume['hostPath']['path']}:{at}:ro")
            elif "secret" in volume:
                options.append(f"-v={self.state}/token:{at}:ro")
            else:
                options.append(f"--tmpfs={at}:mode=0777")
        words = container["args"]
        for name, value in values.items():
            words = [word.replace(name, value) for word in words]
        return self.container(*options) + ["/usr/bin/smolder"], words


@contextlib.contextmanager
def running(argv):
    with open(LOG, "a") as log:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def complaints(host, spec, without=None):
    """What `smolder doctor` finds missing in the agent's place."""
    command, _ = host.pod(spec, without)
    said = subprocess.run([*command, "doctor"], capture_output=True, text=True, timeout=60)
    assert "kernel symbols" in said.stdout, said
    return re.findall(r"^  (?:warn|FAIL)  .*", said.stdout, re.M)


def the_agent_sends(host, pods):
    port = free_port()
    command, words = host.pod(pods["smolder"], **{"0.0.0.0:7117": f"0.0.0.0:{port}"})
    url = f"http://127.0.0.1:{port}"
    token = ["--server", url, "--token-file", f"{host.state}/token/token"]

    def ask(*words):
        return subprocess.run(["chroot", host.root.path, "smolder", *words], capture_output=True, text=True)

    run("install", "-D", f"{host.state}/token/token", host.root.path + f"{host.state}/token/token")
    os.chown(f"{host.state}/token/token", 0, pods["smolder"]["securityContext"]["fsGroup"])
    os.chmod(f"{host.state}/token/token", 0o440)
    with open(LOG) as log, running([*command, *words]):
        begin = log.seek(0, os.SEEK_END)
        until("the server", lambda: "401" in ask("labels", "comm", "--server", url).stderr, 60)
        command, words = host.pod(pods["smolder-agent"], **{"http://smolder:7117": url, "$(NODE_NAME)": "node-1"})
        # What is below the host's root there is below it here: the state of our podman alone. We stand in for the
        # host's init, since that of a virtual machine may be closed even to root.
        words = [word.replace("/proc/1/root", f"/proc/{os.getpid()}/root{host.state}/host") for word in words]
        busy = host.named("burner", "sh", "-c", "trap exit TERM; while :; do :; done")
        with running(busy), running([*command, *words]):
            query = 'cpu{host="node-1",container="burner",version="3.1"}'
            stacks = until("stacks of another container", lambda: [
                line for line in ask("query", query, "--from", "now-5m", "-f", "folded", "-o", "-",
                                     *token).stdout.splitlines() if line.startswith("busybox;")], 90)
        log.seek(begin)
        said = log.read()
    assert not REFUSED_CALL.search(said) and not re.search("was started without|normal priority", said), said
    return len(stacks)


def stage_container(_):
    with open(os.path.join(ROOT, "contrib", "daemonset.yaml")) as f:
        pods = {d["metadata"]["name"]: d["spec"]["template"]["spec"] for d in yaml.safe_load_all(f)
                if "template" in d["spec"]}
    with Root("deb") as root, tempfile.TemporaryDirectory() as state:
        root.install("systemd-standalone-sysusers")
        run("cp", built("deb", "smolder_*_amd64.deb"), root.path + "/smolder.deb")
        root.install("/smolder.deb")
        root.unmount()  # a container mounts its own
        os.chmod(state, 0o755)
        host = Host(root, state)
        agent = pods["smolder-agent"]
        assert complaints(host, agent) == []
        for capability in agent["containers"][0]["securityContext"]["capabilities"]["add"]:
            # Doctor measures nothing: that nothing is said of the priority is seen below.
            missed = capability == "SYS_NICE" or complaints(host, agent, without=capability)
            assert missed, f"doctor does not miss {capability}"
        try:
            stacks = the_agent_sends(host, pods)
        finally:
            run(*host.podman("rm", "--all", "--force"))
    say(f"container: the agent sent {stacks} stacks of another container; it can spare no capability")

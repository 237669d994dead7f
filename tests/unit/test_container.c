#include "unit/unit.h"

#include <stdbool.h>

#include "process/container.h"

#define ID   "3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
#define ID2  "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"
#define CUT  "3f4b1c2d5e6f"
#define UID  "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"
#define UID_ "0a1b2c3d_4e5f_6071_8293_a4b5c6d7e8f9"
#define HASH "5f2b7c1d9e0a4b3c8d6e5f4a3b2c1d0e" /* the uid of a static pod */

#define BURSTABLE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice"
#define SESSION   "/user.slice/user-1000.slice/user@1000.service"

static const struct {
	const char *what, *path;
	const char *container, *id, *runtime, *pod, *qos, *unit, *slice, *uid;
} paths[] = {
	{"docker, cgroupfs", "/docker/" ID, CUT, ID, "docker", "", "", "", "", ""},
	{"docker, systemd", "/system.slice/docker-" ID ".scope", CUT, ID, "docker", "", "", "",
	 "system.slice", ""},
	{"docker, rootless", SESSION "/user.slice/docker-" ID ".scope", CUT, ID, "docker", "", "",
	 "user@1000.service", "user.slice", "1000"},
	{"docker, a parent that was asked for", "/builds.slice/docker-" ID ".scope", CUT, ID,
	 "docker", "", "", "", "builds.slice", ""},
	{"docker in docker", "/docker/" ID2 "/docker/" ID, CUT, ID, "docker", "", "", "", "", ""},
	{"docker, systemd inside", "/docker/" ID "/system.slice/nginx.service", CUT, ID, "docker",
	 "", "", "nginx.service", "", ""},
	{"docker, v2 with init inside", "/system.slice/docker-" ID ".scope/init.scope", CUT, ID,
	 "docker", "", "", "init.scope", "system.slice", ""},
	{"dockershim, cgroupfs", "/kubepods/burstable/pod" UID "/" ID, CUT, ID, "", UID,
	 "burstable", "", "", ""},
	{"cri-dockerd, systemd", BURSTABLE "/docker-" ID ".scope", CUT, ID, "docker", UID,
	 "burstable", "", "kubepods-burstable.slice", ""},
	{"ecs", "/ecs/9f8e7d6c-1234-5678-9abc-def012345678/" ID, CUT, ID, "", "", "", "", "", ""},
	{"containerd, ctr", "/default/" ID, CUT, ID, "containerd", "", "", "", "", ""},
	{"nerdctl, systemd", "/system.slice/nerdctl-" ID ".scope", CUT, ID, "containerd", "", "",
	 "", "system.slice", ""},
	{"kubelet and containerd, cgroupfs, guaranteed", "/kubepods/pod" UID "/" ID, CUT, ID, "",
	 UID, "guaranteed", "", "", ""},
	{"kubelet, cgroupfs, best effort", "/kubepods/besteffort/pod" UID "/" ID, CUT, ID, "", UID,
	 "besteffort", "", "", ""},
	{"kubelet, systemd, burstable", BURSTABLE "/cri-containerd-" ID ".scope", CUT, ID,
	 "containerd", UID, "burstable", "", "kubepods-burstable.slice", ""},
	{"kubelet, systemd, best effort",
	 "/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
	 CUT, ID, "containerd", UID, "besteffort", "", "kubepods-besteffort.slice", ""},
	{"kubelet, systemd, guaranteed",
	 "/kubepods.slice/kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope", CUT, ID,
	 "containerd", UID, "guaranteed", "", "kubepods.slice", ""},
	{"kubelet, systemd, a static pod",
	 "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" HASH
	 ".slice/cri-containerd-" ID ".scope",
	 CUT, ID, "containerd", HASH, "burstable", "", "kubepods-burstable.slice", ""},
	{"drivers that differ: systemd's name under cgroupfs",
	 "/system.slice/containerd.service/kubepods-besteffort-pod" UID ".slice:cri-containerd:" ID,
	 CUT, ID, "containerd", UID, "besteffort", "containerd.service", "system.slice", ""},
	{"kind, v2",
	 "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-burstable.slice/"
	 "kubelet-kubepods-burstable-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	 CUT, ID, "containerd", UID, "burstable", "", "kubelet-kubepods-burstable.slice", ""},
	{"kind, v1", "/docker/" ID2 "/kubelet/kubepods/besteffort/pod" UID "/" ID, CUT, ID, "", UID,
	 "besteffort", "", "", ""},
	{"the pod itself, without a container", BURSTABLE, "", "", "", UID, "burstable", "",
	 "kubepods-burstable.slice", ""},
	{"cri-o, systemd", BURSTABLE "/crio-" ID ".scope", CUT, ID, "cri-o", UID, "burstable", "",
	 "kubepods-burstable.slice", ""},
	{"cri-o with crun", BURSTABLE "/crio-" ID ".scope/container", CUT, ID, "cri-o", UID,
	 "burstable", "", "kubepods-burstable.slice", ""},
	{"cri-o, cgroupfs", "/kubepods/besteffort/pod" UID "/crio-" ID, CUT, ID, "cri-o", UID,
	 "besteffort", "", "", ""},
	{"cri-o's monitor is in no container", BURSTABLE "/crio-conmon-" ID ".scope", "", "", "",
	 UID, "burstable", "", "kubepods-burstable.slice", ""},
	{"podman, systemd", "/machine.slice/libpod-" ID ".scope", CUT, ID, "podman", "", "", "",
	 "machine.slice", ""},
	{"podman with crun", "/machine.slice/libpod-" ID ".scope/container", CUT, ID, "podman", "",
	 "", "", "machine.slice", ""},
	{"podman, cgroupfs", "/libpod_parent/libpod-" ID, CUT, ID, "podman", "", "", "", "", ""},
	{"podman, rootless", SESSION "/user.slice/libpod-" ID ".scope/container", CUT, ID, "podman",
	 "", "", "user@1000.service", "user.slice", "1000"},
	{"podman, a pod", "/machine.slice/machine-libpod_pod_" ID2 ".slice/libpod-" ID ".scope",
	 CUT, ID, "podman", "aaaabbbbcccc", "", "", "machine.slice", ""},
	{"podman, a unit of its own", "/system.slice/web.service/libpod-payload-" ID, CUT, ID,
	 "podman", "", "", "web.service", "system.slice", ""},
	{"podman's monitor is in no container", "/machine.slice/libpod-conmon-" ID ".scope", "", "",
	 "", "", "", "", "machine.slice", ""},
	{"lxc, before 4", "/lxc/web-1", "web-1", "", "lxc", "", "", "", "", ""},
	{"lxc 4", "/lxc.payload/web-1", "web-1", "", "lxc", "", "", "", "", ""},
	{"lxc 4.0.2", "/lxc.payload.web-1", "web-1", "", "lxc", "", "", "", "", ""},
	{"lxd, systemd inside", "/lxc.payload.web-1/system.slice/nginx.service", "web-1", "", "lxc",
	 "", "", "nginx.service", "", ""},
	{"proxmox", "/lxc/101/ns/system.slice/cron.service", "101", "", "lxc", "", "",
	 "cron.service", "", ""},
	{"lxc's monitor is in no container", "/lxc.monitor.web-1", "", "", "", "", "", "", "", ""},
	{"docker in lxc", "/lxc/101/ns/system.slice/docker-" ID ".scope", CUT, ID, "docker", "", "",
	 "", "", ""},
	{"a service", "/system.slice/ssh.service", "", "", "", "", "", "ssh.service",
	 "system.slice", ""},
	{"an instance", "/system.slice/system-getty.slice/getty@tty1.service", "", "", "", "", "",
	 "getty@tty1.service", "system-getty.slice", ""},
	{"a session", "/user.slice/user-1000.slice/session-3.scope", "", "", "", "", "",
	 "session-3.scope", "user-1000.slice", "1000"},
	{"a user's service", SESSION "/app.slice/app-x.scope", "", "", "", "", "", "app-x.scope",
	 "app.slice", "1000"},
	{"systemd itself", "/init.scope", "", "", "", "", "", "init.scope", "", ""},
	{"a delegated part of a service", "/system.slice/db.service/workers/3", "", "", "", "", "",
	 "db.service", "system.slice", ""},
	{"nspawn", "/machine.slice/systemd-nspawn@web.service/payload", "", "", "", "", "",
	 "systemd-nspawn@web.service", "machine.slice", ""},
	{"the root", "/", "", "", "", "", "", "", "", ""},
	{"nothing", "", "", "", "", "", "", "", "", ""},
	{"32 digits are no container", "/process_api/3bde6d26a31289c430d2d8148b426d1d", "", "", "",
	 "", "", "", "", ""},
	{"65 digits neither", "/docker/" ID "0", "", "", "", "", "", "", "", ""},
	{"slashes", "////", "", "", "", "", "", "", "", ""},
	{"no uid", "/kubepods/pod", "", "", "", "", "", "", "", ""},
	{"no uid in a slice", "/kubepods/pod.slice", "", "", "", "", "", "", "pod.slice", ""},
	{"no user", "/user.slice/user-.slice/session-c1.scope", "", "", "", "", "",
	 "session-c1.scope", "user-.slice", ""},
};

static void same(const char *what, const char *field, const char *is, const char *should)
{
	if (strcmp(is, should) != 0)
		fail_msg("%s: %s is '%s', not '%s'", what, field, is, should);
}

static void reads_the_paths_of_runtimes(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct container c;
		container_of_cgroup(paths[i].path, &c);
		same(paths[i].what, "container", c.container, paths[i].container);
		same(paths[i].what, "id", c.id, paths[i].id);
		same(paths[i].what, "runtime", c.runtime, paths[i].runtime);
		same(paths[i].what, "pod", c.pod, paths[i].pod);
		same(paths[i].what, "qos", c.qos, paths[i].qos);
		same(paths[i].what, "unit", c.unit, paths[i].unit);
		same(paths[i].what, "slice", c.slice, paths[i].slice);
		same(paths[i].what, "uid", c.uid, paths[i].uid);
	}
}

static void survives_anything(void **state)
{
	(void)state;
	char path[5000];
	struct container c;

	memset(path, 'a', sizeof(path));
	path[sizeof(path) - 1] = 0;
	container_of_cgroup(path, &c);
	assert_string_equal(c.container, "");
	memcpy(path + sizeof(path) - 9, ".service", 8);
	container_of_cgroup(path, &c);
	assert_int_equal(strlen(c.unit), CONTAINER_NAME - 1);
	memcpy(path, "/lxc/", 5);
	container_of_cgroup(path, &c);
	assert_int_equal(strlen(c.container), CONTAINER_NAME - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_paths_of_runtimes),
		cmocka_unit_test(survives_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

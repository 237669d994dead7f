#include "unit/unit.h"

#include "process/container.h"

#define ID  "3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
#define UID "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

static void check(const char *path, const char *container, const char *pod, const char *unit)
{
	struct container c;

	container_of_cgroup(path, &c);
	assert_string_equal(c.container, container);
	assert_string_equal(c.pod, pod);
	assert_string_equal(c.unit, unit);
}

static void reads_the_paths_of_runtimes(void **state)
{
	(void)state;
	check("/docker/" ID, "3f4b1c2d5e6f", "", "");
	check("/system.slice/docker-" ID ".scope", "3f4b1c2d5e6f", "", "");
	check("/machine.slice/libpod-" ID ".scope/container", "3f4b1c2d5e6f", "", "");
	check("/kubepods/burstable/pod" UID "/" ID, "3f4b1c2d5e6f", UID, "");
	check("/kubepods.slice/kubepods-burstable.slice/"
	      "kubepods-burstable-pod0a1b2c3d_4e5f_6071_8293_"
	      "a4b5c6d7e8f9.slice/cri-containerd-" ID ".scope",
	      "3f4b1c2d5e6f", UID, "");
	check("/system.slice/containerd.service/kubepods-besteffort-pod" UID
	      ".slice:cri-containerd:" ID,
	      "3f4b1c2d5e6f", "", "containerd.service");
}

static void reads_units(void **state)
{
	(void)state;
	check("/system.slice/ssh.service", "", "", "ssh.service");
	check("/user.slice/user-1000.slice/user@1000.service/app.slice/app-x.scope", "", "",
	      "app-x.scope");
	check("/", "", "", "");
	check("", "", "", "");
	check("/process_api/3bde6d26a31289c430d2d8148b426d1d", "", "", "");
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
	check("/kubepods/pod", "", "", "");
	check("/kubepods/pod.slice", "", "", "");
	check("////", "", "", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_paths_of_runtimes),
		cmocka_unit_test(reads_units),
		cmocka_unit_test(survives_anything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

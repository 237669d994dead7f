#include "unit/unit.h"

#include <stdbool.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "process/container_names.h"
#include "process/places.h"

#define ID  "3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
#define ID2 "aaaabbbbccccddddeeeeffff0000111122223333444455556666777788889999"

/* What these runtimes write, less what is not read. */
#define DOCKER                                                                                     \
	"{\"StreamConfig\":{},\"State\":{\"Running\":true,\"Pid\":4211},\"ID\":\"" ID "\","        \
	"\"Created\":\"2026-11-18T09:12:44.5Z\",\"Path\":\"nginx\",\"Args\":[\"-g\"],"             \
	"\"Config\":{\"Hostname\":\"3f4b1c2d5e6f\",\"Image\":\"registry:5000/shop/web:2.4.1\","    \
	"\"Labels\":{\"com.docker.compose.service\":\"web\"}},"                                    \
	"\"Image\":\"sha256:0123\",\"Name\":\"/shop-web-1\",\"Driver\":\"overlay2\"}"
#define CONTAINERD                                                                                 \
	"{\"ociVersion\":\"1.1.0\",\"process\":{\"args\":[\"/app\"]},\"annotations\":{"            \
	"\"io.kubernetes.cri.container-name\":\"app\","                                            \
	"\"io.kubernetes.cri.container-type\":\"container\","                                      \
	"\"io.kubernetes.cri.image-name\":\"docker.io/shop/api@sha256:fedcba9876543210\","         \
	"\"io.kubernetes.cri.sandbox-id\":\"" ID2 "\","                                            \
	"\"io.kubernetes.cri.sandbox-name\":\"api-7d9f8b6c54-x2x4z\","                             \
	"\"io.kubernetes.cri.sandbox-namespace\":\"shop\"}}"
#define CRIO                                                                                       \
	"{\"annotations\":{\"io.kubernetes.container.name\":\"db\","                               \
	"\"io.kubernetes.pod.name\":\"db-0\",\"io.kubernetes.pod.namespace\":\"shop\","            \
	"\"io.kubernetes.cri-o.ImageName\":\"quay.io/shop/db:15\"}}"
#define PODMAN                                                                                     \
	"[{\"id\":\"" ID2 "\",\"names\":[\"other\"]},"                                             \
	"{\"id\":\"" ID "\",\"names\":[\"cache\"],\"image\":\"45ab\",\"layer\":\"77\","            \
	"\"metadata\":\"{\\\"image-name\\\":\\\"docker.io/library/redis:7\\\","                    \
	"\\\"name\\\":\\\"cache\\\"}\",\"created\":\"2026-11-18T09:12:44Z\"}]"

static char root[] = "/tmp/smolder-places-XXXXXX";

static void put_file(const char *path, const char *bytes, size_t len)
{
	CLEANUP(freep) char *full = mem_printf("%s%s", root, path);

	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	FILE *f = fopen(full, "w");
	assert_non_null(f);
	assert_int_equal(fwrite(bytes, 1, len, f), len);
	fclose(f);
}

static void remove_files(void)
{
	CLEANUP(freep) char *command = mem_printf("rm -rf %s/*", root);

	assert_int_equal(system(command), 0);
}

static void check(const char *path, const char *text, const char *runtime,
		  const struct container_names *want)
{
	struct container_names n;

	put_file(path, text, strlen(text));
	/* As the path of the group tells, and where it does not. */
	for (const char *told = runtime;; told = "") {
		assert_int_equal(container_names_read(root, ID, told, &n), 0);
		assert_string_equal(n.runtime, runtime);
		assert_string_equal(n.container, want->container);
		assert_string_equal(n.pod, want->pod);
		assert_string_equal(n.namespace, want->namespace);
		assert_string_equal(n.image, want->image);
		if (!*told)
			break;
	}
	assert_int_equal(container_names_read(root, ID, "lxc", &n), -ENOENT);
	remove_files();
	assert_int_equal(container_names_read(root, ID, "", &n), -ENOENT);
	assert_string_equal(n.container, "");
}

static void reads_the_files_of_runtimes(void **state)
{
	(void)state;
	check("/var/lib/docker/containers/" ID "/config.v2.json", DOCKER, "docker",
	      &(struct container_names){.container = "shop-web-1",
					.image = "registry:5000/shop/web:2.4.1"});
	const struct container_names api = {.container = "app",
					    .pod = "api-7d9f8b6c54-x2x4z",
					    .namespace = "shop",
					    .image = "docker.io/shop/api@sha256:fedcba9876543210"};
	check("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json", CONTAINERD,
	      "containerd", &api);
	check("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/" ID "/config.json",
	      CONTAINERD, "containerd", &api);
	check("/run/containerd/io.containerd.runtime.v2.task/default/" ID "/config.json",
	      "{\"annotations\":{\"nerdctl/name\":\"web\"}}", "containerd",
	      &(struct container_names){.container = "web"});
	check("/run/containers/storage/overlay-containers/" ID "/userdata/config.json", CRIO,
	      "cri-o",
	      &(struct container_names){.container = "db",
					.pod = "db-0",
					.namespace = "shop",
					.image = "quay.io/shop/db:15"});
	const struct container_names cache = {.container = "cache",
					      .image = "docker.io/library/redis:7"};
	check("/var/lib/containers/storage/overlay-containers/containers.json", PODMAN, "podman",
	      &cache);
	check("/var/lib/containers/storage/vfs-containers/containers.json", PODMAN, "podman",
	      &cache);
}

static void refuses_what_is_not_such_a_file(void **state)
{
	static const char path[] = "/var/lib/docker/containers/" ID "/config.v2.json";
	CLEANUP(freep) char *large = mem_alloc(CONTAINER_STATE_MAX + 2);
	struct container_names n;

	(void)state;
	put_file(path, "{\"Name\":", 8);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -EBADMSG);
	put_file(path, "[1]", 3);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -ENOENT);
	put_file(path, "{\"Name\":7,\"Config\":[]}", 22);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -ENOENT);
	memset(large, ' ', CONTAINER_STATE_MAX + 1);
	put_file(path, large, CONTAINER_STATE_MAX + 1);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -EFBIG);
	remove_files();
	put_file("/var/lib/docker/containers/" ID "/config.v2.json/directory", "", 0);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -EINVAL);
	remove_files();

	/* A link leads nowhere but into the root. */
	CLEANUP(freep) char *outside = mem_printf("%s.outside", root);
	CLEANUP(freep) char *dir = mem_printf("%s/var", root), *link = mem_printf("%s/lib", dir);
	mkdir(dir, 0755);
	assert_int_equal(symlink(outside, link), 0);
	assert_int_equal(container_names_read(root, ID, "docker", &n), -ENOENT);
	remove_files();

	/* A name that is too long is cut. */
	char text[2000];
	snprintf(text, sizeof(text), "{\"Name\":\"/%01500d\"}", 7);
	put_file(path, text, strlen(text));
	assert_int_equal(container_names_read(root, ID, "docker", &n), 0);
	assert_int_equal(strlen(n.container), CONTAINER_NAMED);
	remove_files();
}

static void names_workloads(void **state)
{
	static const struct {
		const char *pod, *workload;
	} pods[] = {
		{"web-7d9f8b6c54-x2x4z", "web"}, /* a Deployment */
		{"shop-web-5c7588df-2b4cd", "shop-web"},
		{"node-exporter-x2x4z", "node-exporter"}, /* a DaemonSet */
		{"db-0", "db"},                           /* a StatefulSet */
		{"db-17", "db"},
		{"backup-28874400-q7wtb", "backup-28874400"}, /* a CronJob's job, by its time */
		{"my-nginx", "my-nginx"},                     /* vowels are never generated */
		{"kube-apiserver-node1", "kube-apiserver-node1"},
		{"x2x4z", "x2x4z"},
		{"-x2x4z", "-x2x4z"},
		{"-0", "-0"},
		{"42", "42"},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(pods); i++) {
		size_t len = places_workload(pods[i].pod);
		if (len != strlen(pods[i].workload) ||
		    memcmp(pods[i].pod, pods[i].workload, len) != 0)
			fail_msg("%s: '%.*s'", pods[i].pod, (int)len, pods[i].pod);
	}
}

static void versions_are_tags(void **state)
{
	static const struct {
		const char *image, *version;
	} images[] = {
		{"nginx:1.25", "1.25"},
		{"registry:5000/nginx", ""},
		{"registry:5000/nginx:1.25", "1.25"},
		{"registry:5000/nginx:1.25@sha256:fedcba9876543210", "1.25"},
		{"registry:5000/nginx@sha256:fedcba9876543210", "fedcba987654"},
		{"nginx@sha256:fe", "fe"},
		{"nginx", ""},
		{":", ""},
		{"", ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(images); i++) {
		const char *tag;
		size_t len = places_tag(images[i].image, &tag);
		if (len != strlen(images[i].version) || memcmp(tag, images[i].version, len) != 0)
			fail_msg("%s: '%.*s'", images[i].image, (int)len, tag);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_files_of_runtimes),
		cmocka_unit_test(refuses_what_is_not_such_a_file),
		cmocka_unit_test(names_workloads),
		cmocka_unit_test(versions_are_tags),
	};

	if (!mkdtemp(root))
		return 1;
	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(root);
	return failed;
}

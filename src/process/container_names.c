#include "process/container_names.h"

#include <errno.h>
#include <stdio.h>

#include "base/file.h"
#include "base/json_fields.h"
#include "base/mem.h"
#include "base/root.h"

static void put(char to[static CONTAINER_NAMED + 1], const char *text)
{
	if (!*to)
		snprintf(to, CONTAINER_NAMED + 1, "%s", text);
}

static bool is_told(const struct container_names *n)
{
	return *n->container || *n->pod || *n->namespace || *n->image;
}

static bool read_docker(const json_t *file, const char *id, struct container_names *ret)
{
	const char *name = json_text(file, "Name");

	(void)id;
	put(ret->container, name + (*name == '/'));
	put(ret->image, json_text(json_object_get(file, "Config"), "Image"));
	return is_told(ret);
}

/* An OCI bundle: what the kubelet calls it is in the annotations, for each runtime in its own
 * words. */
static bool read_bundle(const json_t *file, const char *id, struct container_names *ret)
{
	static const struct {
		const char *key;
		size_t to;
	} known[] = {
		{"io.kubernetes.cri.container-name", offsetof(struct container_names, container)},
		{"io.kubernetes.cri.sandbox-name", offsetof(struct container_names, pod)},
		{"io.kubernetes.cri.sandbox-namespace",
		 offsetof(struct container_names, namespace)},
		{"io.kubernetes.cri.image-name", offsetof(struct container_names, image)},
		{"io.kubernetes.container.name", offsetof(struct container_names, container)},
		{"io.kubernetes.pod.name", offsetof(struct container_names, pod)},
		{"io.kubernetes.pod.namespace", offsetof(struct container_names, namespace)},
		{"io.kubernetes.cri-o.ImageName", offsetof(struct container_names, image)},
		{"nerdctl/name", offsetof(struct container_names, container)},
	};
	const json_t *notes = json_object_get(file, "annotations");

	(void)id;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		put((char *)ret + known[i].to, json_text(notes, known[i].key));
	return is_told(ret);
}

/* A list of all containers; a part of each is JSON as a string. */
static bool read_podman(const json_t *file, const char *id, struct container_names *ret)
{
	size_t i;
	json_t *one;

	json_array_foreach(file, i, one)
	{
		if (strcmp(json_text(one, "id"), id) != 0)
			continue;
		json_t *more = json_loads(json_text(one, "metadata"), 0, NULL);
		put(ret->container, json_text(more, "name"));
		put(ret->image, json_text(more, "image-name"));
		json_decref(more);
		const char *first =
			json_string_value(json_array_get(json_object_get(one, "names"), 0));
		put(ret->container, first ? first : "");
		return is_told(ret);
	}
	return false;
}

#define BUNDLES(dir)         dir "/io.containerd.runtime.v2.task/"
#define STORAGE(dir, driver) dir "/containers/storage/" driver "-containers/"
#define PODMAN(driver, file)                                                                       \
	{                                                                                          \
		"podman", STORAGE("/var/lib", driver) file, NULL, read_podman                      \
	}

/* Where each is; the id stands between the two parts of a path, if there is a second one. */
static const struct state_file {
	const char *runtime, *before, *after;
	bool (*read)(const json_t *file, const char *id, struct container_names *ret);
} files[] = {
	{"docker", "/var/lib/docker/containers/", "/config.v2.json", read_docker},
	{"containerd", BUNDLES("/run/containerd") "k8s.io/", "/config.json", read_bundle},
	{"containerd", BUNDLES("/run/k3s/containerd") "k8s.io/", "/config.json", read_bundle},
	{"containerd", BUNDLES("/run/containerd") "default/", "/config.json", read_bundle},
	{"cri-o", STORAGE("/run", "overlay"), "/userdata/config.json", read_bundle},
	PODMAN("overlay", "containers.json"),
	PODMAN("overlay", "volatile-containers.json"),
	PODMAN("vfs", "containers.json"),
};

/* 0; -ENOENT: it does not know the container; -EBADMSG: not JSON. */
static int parse(const struct state_file *f, const char *bytes, size_t len, const char *id,
		 struct container_names *ret)
{
	json_t *json = json_loadb(bytes, len, 0, NULL);

	if (!json)
		return -EBADMSG;
	*ret = (struct container_names){.runtime = ""};
	bool found = f->read(json, id, ret);
	json_decref(json);
	if (found)
		ret->runtime = f->runtime;
	return found ? 0 : -ENOENT;
}

bool container_names_parse(unsigned kind, const char *bytes, size_t len, const char *id,
			   struct container_names *ret)
{
	if (kind >= ARRAY_SIZE(files))
		return false;
	parse(&files[kind], bytes, len, id, ret);
	return true;
}

static int read_file(const struct state_file *f, const char *root, const char *id,
		     struct container_names *ret)
{
	CLEANUP(freep)
	char *path = mem_printf("%s%s%s", f->before, f->after ? id : "", f->after ? f->after : "");
	struct stat st;
	CLEANUP(fd_closep) int fd = root_open(root, path, 0, &st);
	if (fd < 0)
		return fd == -ENOTDIR ? -ENOENT : fd;
	if (st.st_size > CONTAINER_STATE_MAX)
		return -EFBIG;
	size_t len = (size_t)st.st_size;
	CLEANUP(freep) char *bytes = mem_alloc(len + 1);
	int r = file_pread(fd, bytes, len, 0);
	return r ? r : parse(f, bytes, len, id, ret);
}

int container_names_read(const char *root, const char *id, const char *runtime,
			 struct container_names *ret)
{
	int worst = -ENOENT;

	for (size_t i = 0; i < ARRAY_SIZE(files); i++) {
		if (*runtime && strcmp(files[i].runtime, runtime) != 0)
			continue;
		int r = read_file(&files[i], root, id, ret);
		if (!r)
			return 0;
		if (r != -ENOENT)
			worst = r;
	}
	*ret = (struct container_names){.runtime = ""};
	return worst;
}

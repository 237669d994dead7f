#include "process/container.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define ID_DIGITS 64
#define SHOWN     12
#define UID_LEAST 32 /* digits of a pod's uid; with hyphens it is longer */

struct piece { /* of a path, between slashes; borrowed */
	const char *name;
	size_t len;
};

static bool is_piece(struct piece p, const char *name)
{
	return p.len == strlen(name) && memcmp(p.name, name, p.len) == 0;
}

static bool begins_with(struct piece p, const char *start)
{
	size_t len = strlen(start);

	return p.len > len && memcmp(p.name, start, len) == 0;
}

static bool ends_with(struct piece p, const char *end)
{
	size_t len = strlen(end);

	return p.len > len && memcmp(p.name + p.len - len, end, len) == 0;
}

static bool has(struct piece p, const char *text)
{
	return memmem(p.name, p.len, text, strlen(text));
}

static void copy(char ret[static CONTAINER_NAME], const char *name, size_t len)
{
	snprintf(ret, CONTAINER_NAME, "%.*s", (int)MIN(len, (size_t)CONTAINER_NAME), name);
}

/* "docker-HEX.scope", "…:cri-containerd:HEX", "HEX": where the 64 digits begin. */
static const char *find_id(struct piece p)
{
	for (size_t i = 0; i + ID_DIGITS <= p.len; i++) {
		size_t digits = strspn(p.name + i, "0123456789abcdef");
		if (digits == ID_DIGITS &&
		    (i == 0 || p.name[i - 1] == '-' || p.name[i - 1] == ':') &&
		    (i + digits == p.len || p.name[i + digits] == '.'))
			return p.name + i;
		if (digits)
			i += digits - 1;
	}
	return NULL;
}

/* By what stands before the id, or by the parent's name. */
static const char *runtime_of(struct piece before, struct piece parent)
{
	static const struct {
		const char *mark, *runtime;
	} marks[] =
		{
			{"docker-", "docker"},      {"cri-containerd", "containerd"},
			{"nerdctl-", "containerd"}, {"crio-", "cri-o"},
			{"libpod-", "podman"},
		},
	  parents[] = {
		  {"docker", "docker"},
		  {"default", "containerd"},
		  {"k8s.io", "containerd"},
		  {"nerdctl", "containerd"},
	  };

	for (size_t i = 0; i < ARRAY_SIZE(marks); i++)
		if (has(before, marks[i].mark))
			return marks[i].runtime;
	for (size_t i = 0; i < ARRAY_SIZE(parents) && !before.len; i++)
		if (is_piece(parent, parents[i].mark))
			return parents[i].runtime;
	return "";
}

/* "pod0a1b…", "kubepods-burstable-pod0a1b_….slice", "…-pod0a1b….slice:cri-containerd:HEX": the uid,
 * with - for systemd's _. */
static bool find_pod(struct piece p, char ret[static CONTAINER_NAME])
{
	const char *start = NULL;

	for (size_t i = 0; i + 3 < p.len; i++)
		if (memcmp(p.name + i, "pod", 3) == 0 && (i == 0 || p.name[i - 1] == '-'))
			start = p.name + i + 3;
	size_t left = start ? (size_t)(p.name + p.len - start) : 0;
	size_t uid = start ? MIN(strspn(start, "0123456789abcdef-_"), left) : 0;
	if (uid < UID_LEAST || uid >= CONTAINER_NAME ||
	    (uid < left && strncmp(start + uid, ".slice", 6) != 0))
		return false;
	for (size_t i = 0; i < uid; i++)
		ret[i] = start[i] == '_' ? '-' : start[i];
	ret[uid] = '\0';
	return true;
}

/* Podman's own pods have an id: "machine-libpod_pod_HEX.slice". */
static bool find_podman_pod(struct piece p, char ret[static CONTAINER_NAME])
{
	static const char mark[] = "libpod_pod_";
	const char *at = memmem(p.name, p.len, mark, strlen(mark));

	if (!at || strspn(at + strlen(mark), "0123456789abcdef") != ID_DIGITS)
		return false;
	copy(ret, at + strlen(mark), SHOWN);
	return true;
}

/* The monitor of a container runs beside it, not in it. */
static bool is_monitor(struct piece p)
{
	return has(p, "-conmon-") || begins_with(p, "lxc.monitor");
}

static bool find_container(struct piece p, struct piece parent, struct container *ret)
{
	const char *id = find_id(p);

	if (id) {
		copy(ret->container, id, SHOWN);
		snprintf(ret->id, sizeof(ret->id), "%.*s", ID_DIGITS, id);
		ret->runtime = runtime_of((struct piece){p.name, (size_t)(id - p.name)}, parent);
		return true;
	}
	struct piece name = p;
	if (begins_with(p, "lxc.payload.")) {
		name.name += strlen("lxc.payload.");
		name.len -= strlen("lxc.payload.");
	} else if (!is_piece(parent, "lxc") && !is_piece(parent, "lxc.payload")) {
		return false;
	}
	copy(ret->container, name.name, name.len);
	ret->id[0] = '\0';
	ret->runtime = "lxc";
	return true;
}

/* Of the host: what is inside a container has slices of its own. */
static void find_slice(struct piece p, struct container *ret)
{
	static const char user[] = "user-";
	size_t digits;

	copy(ret->slice, p.name, p.len);
	if (!begins_with(p, user))
		return;
	digits = strspn(p.name + strlen(user), "0123456789");
	if (digits && digits < sizeof(ret->uid) &&
	    strlen(user) + digits + strlen(".slice") == p.len)
		snprintf(ret->uid, sizeof(ret->uid), "%.*s", (int)digits, p.name + strlen(user));
}

static void find_qos(struct piece p, struct container *ret)
{
	if (has(p, "burstable"))
		ret->qos = "burstable";
	else if (has(p, "besteffort"))
		ret->qos = "besteffort";
	else if (!*ret->qos && *ret->pod)
		ret->qos = "guaranteed";
}

void container_of_cgroup(const char *path, struct container *ret)
{
	bool in_kubernetes = strstr(path, "kubepods") != NULL;
	struct piece parent = {"", 0};

	*ret = (struct container){.runtime = "", .qos = ""};
	for (const char *at = path; *at;) {
		struct piece p = {at, strcspn(at, "/")};
		bool is_pod = in_kubernetes ? find_pod(p, ret->pod) : find_podman_pod(p, ret->pod);
		if (in_kubernetes)
			find_qos(p, ret);
		if (is_monitor(p) || find_container(p, parent, ret) || is_pod)
			;
		else if (ends_with(p, ".service") || ends_with(p, ".scope"))
			copy(ret->unit, p.name, p.len);
		else if (ends_with(p, ".slice") && !*ret->container)
			find_slice(p, ret);
		parent = p;
		at += p.len + (at[p.len] == '/');
	}
}

#include "process/container.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define ID_DIGITS 64

/* "docker-HEX.scope", "cri-containerd-HEX.scope", "HEX", "HEX/…": where the 64 digits begin. */
static const char *find_id(const char *name, size_t len)
{
	for (size_t i = 0; i + ID_DIGITS <= len; i++) {
		size_t digits = strspn(name + i, "0123456789abcdef");
		if (digits == ID_DIGITS && (i == 0 || name[i - 1] == '-' || name[i - 1] == ':'))
			return name + i;
		if (digits)
			i += digits - 1;
	}
	return NULL;
}

/* "pod0a1b…", "kubepods-burstable-pod0a1b_….slice": the uid, with - for systemd's _. */
static bool find_pod(const char *name, size_t len, char ret[static CONTAINER_NAME])
{
	static const char suffix[] = ".slice";
	size_t cut = sizeof(suffix) - 1, at = 0;

	if (len > cut && memcmp(name + len - cut, suffix, cut) == 0)
		len -= cut;
	for (size_t i = 0; i + 3 < len; i++)
		if (memcmp(name + i, "pod", 3) == 0 && (i == 0 || name[i - 1] == '-'))
			at = i + 3;
	size_t uid = at ? strspn(name + at, "0123456789abcdef-_") : 0;
	if (uid < 32 || at + uid != len || uid >= CONTAINER_NAME)
		return false;
	for (size_t i = 0; i < uid; i++)
		ret[i] = name[at + i] == '_' ? '-' : name[at + i];
	ret[uid] = '\0';
	return true;
}

static bool ends_with(const char *s, size_t len, const char *suffix)
{
	size_t cut = strlen(suffix);

	return len > cut && memcmp(s + len - cut, suffix, cut) == 0;
}

void container_of_cgroup(const char *path, struct container *ret)
{
	bool in_kubernetes = strstr(path, "kubepods") != NULL;

	*ret = (struct container){};
	for (const char *name = path; *name;) {
		size_t len = strcspn(name, "/");
		const char *id = find_id(name, len);
		if (id)
			snprintf(ret->container, sizeof(ret->container), "%.12s", id);
		else if (in_kubernetes && find_pod(name, len, ret->pod))
			;
		else if (ends_with(name, len, ".service") || ends_with(name, len, ".scope"))
			snprintf(ret->unit, sizeof(ret->unit), "%.*s", (int)len, name);
		name += len + (name[len] == '/');
	}
}

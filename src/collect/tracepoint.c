#include "collect/tracepoint.h"

#include <errno.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"

/* Where it is mounted: NULL if nowhere, or not for us. */
static const char *tracefs(void)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		snprintf(path, sizeof(path), "%s/events", places[i]);
		if (access(path, F_OK) == 0)
			return places[i];
	}
	return NULL;
}

/* What was meant, by the names that there are. */
static void say_unknown(const char *dir, const char *system, const char *name, char *why,
			size_t size)
{
	CLEANUP(freep) char *systems = mem_printf("%s/events", dir);
	CLEANUP(freep) char *in = mem_printf("%s/%s", systems, system);
	bool is_system = access(in, F_OK) == 0;
	CLEANUP(freep)
	char *meant = is_system ? nearest_file(name, in) : nearest_file(system, systems);
	int n = is_system
			? snprintf(why, size, "this kernel has no tracepoint '%s:%s'", system, name)
			: snprintf(why, size, "this kernel has no tracepoints of '%s'", system);

	if (meant && n > 0 && (size_t)n < size)
		snprintf(why + n, size - (size_t)n, "; did you mean %s%s%s?",
			 is_system ? system : "", is_system ? ":" : "", meant);
}

int tracepoint_find(const char *system, const char *name, uint64_t *ret, char *why, size_t size)
{
	const char *dir = tracefs();
	CLEANUP(freep) char *text = NULL;

	if (strchr(system, '/') || strchr(name, '/') || strchr("./", *system) ||
	    strchr("./", *name)) {
		snprintf(why, size, "'%s:%s' is not the name of a tracepoint", system, name);
		return -EINVAL;
	}
	CLEANUP(freep) char *path = mem_printf("%s/events/%s/%s/id", dir ? dir : "", system, name);
	int err = dir ? file_read(path, 64, &text, NULL) : -ENODEV;
	if (err == -ENODEV && geteuid() == 0)
		snprintf(why, size,
			 "cannot find the tracepoint '%s:%s': tracefs is not mounted; 'mount -t "
			 "tracefs tracefs /sys/kernel/tracing'",
			 system, name);
	else if (err == -ENODEV || err == -EACCES || err == -EPERM)
		snprintf(why, size,
			 "cannot find the tracepoint '%s:%s': tracefs is only for root, or not "
			 "mounted; run it with sudo",
			 system, name);
	else if (err)
		say_unknown(dir, system, name, why, size);
	else
		*ret = strtoull(text, NULL, 10);
	return err;
}

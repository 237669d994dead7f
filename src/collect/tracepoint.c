#include "collect/tracepoint.h"

#include <errno.h>
#include <linux/mount.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/nearest.h"

/* A mount that nobody else sees, and that is gone with its descriptor. -1: not for us. */
static int mount_unseen(const char *type)
{
	CLEANUP(fd_closep) int fs = (int)syscall(SYS_fsopen, type, FSOPEN_CLOEXEC);

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) != 0)
		return -1;
	return (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, 0);
}

/* Where it is, for as long as *ret_mount is open: NULL if nowhere, or not for us. */
static char *tracefs(int *ret_mount)
{
	static const char *const places[] = {"/sys/kernel/tracing", "/sys/kernel/debug/tracing"};

	*ret_mount = -1;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		CLEANUP(freep) char *events = mem_printf("%s/events", places[i]);
		if (access(events, F_OK) == 0)
			return mem_printf("%s", places[i]);
	}
	*ret_mount = mount_unseen("tracefs");
	return *ret_mount < 0 ? NULL : mem_printf("/proc/self/fd/%d", *ret_mount);
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
	CLEANUP(fd_closep) int mount = -1;
	CLEANUP(freep) char *dir = tracefs(&mount);
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
			 "cannot find the tracepoint '%s:%s': tracefs is not mounted, and cannot "
			 "be; 'mount -t tracefs tracefs /sys/kernel/tracing'",
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

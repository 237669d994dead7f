#include "collect/cpus.h"

#include <errno.h>
#include <linux/netlink.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/mem.h"

#define STAT_MAX (16u << 20)
#define STAT_HZ  100  /* of its numbers, whatever the kernel's */
#define CPUS_MAX 8192 /* as many as the kernel can be built for */

int cpus_parse(const char *text, cpus_fn *fn, void *ctx)
{
	for (const char *at = text; *at && *at != '\n';) {
		char *end;
		unsigned long first = strtoul(at, &end, 10), last = first;
		if (end == at)
			return -EINVAL;
		if (*end == '-') {
			at = end + 1;
			last = strtoul(at, &end, 10);
			if (end == at)
				return -EINVAL;
		}
		if (last >= CPUS_MAX || first > last || (*end && *end != ',' && *end != '\n'))
			return -EINVAL;
		for (unsigned long cpu = first; cpu <= last; cpu++)
			fn(ctx, (unsigned)cpu, true);
		at = *end == ',' ? end + 1 : end;
	}
	return 0;
}

void cpus_idle(uint64_t *ret_ns, unsigned count)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	unsigned cpu;
	unsigned long long idle, waiting;

	memset(ret_ns, 0, count * sizeof(*ret_ns));
	if (file_read("/proc/stat", STAT_MAX, &text, &len) < 0)
		return;
	for (const char *line = text; line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (sscanf(line, "cpu%u %*u %*u %*u %llu %llu", &cpu, &idle, &waiting) == 3 &&
		    cpu < count)
			ret_ns[cpu] = (idle + waiting) * (1000000000ull / STAT_HZ);
	}
}

static void note_highest(void *ctx, unsigned cpu, bool online)
{
	int *count = ctx;

	(void)online;
	*count = MAX(*count, (int)cpu + 1);
}

int cpus_present(void)
{
	CLEANUP(freep) char *text = NULL;
	int count = 0;
	int r = file_read("/sys/devices/system/cpu/present", 1 << 16, &text, NULL);

	r = r ? r : cpus_parse(text, note_highest, &count);
	return r ? r : count;
}

int cpus_each_online(cpus_fn *fn, void *ctx)
{
	CLEANUP(freep) char *text = NULL;
	int r = file_read("/sys/devices/system/cpu/online", 1 << 16, &text, NULL);

	return r ? r : cpus_parse(text, fn, ctx);
}

int cpus_watch(void)
{
	struct sockaddr_nl address = {.nl_family = AF_NETLINK, .nl_groups = 1};
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			NETLINK_KOBJECT_UEVENT);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
		int r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

void cpus_event(const char *text, cpus_fn *fn, void *ctx)
{
	unsigned cpu;

	if (sscanf(text, "online@/devices/system/cpu/cpu%u", &cpu) == 1 && cpu < CPUS_MAX)
		fn(ctx, cpu, true);
	else if (sscanf(text, "offline@/devices/system/cpu/cpu%u", &cpu) == 1 && cpu < CPUS_MAX)
		fn(ctx, cpu, false);
}

void cpus_changes(int fd, cpus_fn *fn, void *ctx)
{
	char text[4096];
	ssize_t n;

	while ((n = recv(fd, text, sizeof(text) - 1, 0)) > 0) {
		text[n] = '\0';
		cpus_event(text, fn, ctx);
	}
}

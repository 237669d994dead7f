#include "pipeline/machine.h"

#include <inttypes.h>
#include <mntent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

#define TEXT_BYTES  8192
#define GROUP_SHARE 0.03 /* of a CPU that a process takes whose group is looked at */
#define ASKED_MAX   8    /* processes whose groups are looked at */
#define REST_LOOKS  12   /* between two times that a quota is looked for */

static bool has_option(const char *options, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = options; at; at = strchr(at, ','), at += !!at)
		if (strncmp(at, word, len) == 0 && (at[len] == ',' || !at[len]))
			return true;
	return false;
}

/* That of version 1 if the controller is there, else that of version 2. */
static void find_mount(struct machine *m)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	const struct mntent *e;

	while (mounts && (e = getmntent(mounts))) {
		bool is_first =
			strcmp(e->mnt_type, "cgroup") == 0 && has_option(e->mnt_opts, "cpu");
		if (is_first || (strcmp(e->mnt_type, "cgroup2") == 0 && !m->mount[0]))
			snprintf(m->mount, sizeof(m->mount), "%s", e->mnt_dir);
		if (is_first)
			break;
	}
	if (mounts)
		endmntent(mounts);
}

static uint64_t number_after(const char *text, const char *word)
{
	const char *at = text ? strstr(text, word) : NULL;

	return at ? strtoull(at + strlen(word), NULL, 10) : 0;
}

static uint64_t memory_us(void)
{
	CLEANUP(freep) char *text = NULL;

	if (file_read("/proc/pressure/memory", TEXT_BYTES, &text, NULL) != 0)
		return 0;
	return number_after(text, "total=");
}

void machine_begin(struct machine *m)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	m->cpus = cpus > 0 ? (unsigned)cpus : 1;
	m->memory_us = memory_us();
	find_mount(m);
}

/* ---- groups ---------------------------------------------------------------------------------- */

/* The group of a process in the hierarchy of the cpu controller: "/system.slice/…". */
static bool group_of(uint32_t pid, char *ret, size_t size)
{
	char path[48], best[256] = "";
	CLEANUP(freep) char *text = NULL;
	char *save = NULL;

	snprintf(path, sizeof(path), "/proc/%u/cgroup", pid);
	if (file_read(path, TEXT_BYTES, &text, NULL) != 0)
		return false;
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		char *names = strchr(line, ':'), *where = names ? strchr(names + 1, ':') : NULL;
		if (!where)
			continue;
		*where++ = '\0';
		if (has_option(names + 1, "cpu") || (!names[1] && !best[0]))
			snprintf(best, sizeof(best), "%s", where);
	}
	snprintf(ret, size, "%s", best);
	return best[0] == '/' && !strstr(best, "/..");
}

static bool read_stat(struct machine_group *g, const char *dir)
{
	CLEANUP(freep) char *path = mem_printf("%s/cpu.stat", dir), *text = NULL;

	if (file_read(path, TEXT_BYTES, &text, NULL) != 0)
		return false;
	g->periods = number_after(text, "nr_periods ");
	g->throttled = number_after(text, "nr_throttled ");
	g->throttled_ns = strstr(text, "throttled_usec ")
				  ? number_after(text, "throttled_usec ") * 1000
				  : number_after(text, "throttled_time ");
	return g->periods > 0; /* only a quota has periods */
}

static void read_quota(struct machine_group *g)
{
	CLEANUP(freep) char *second = mem_printf("%s/cpu.max", g->path), *text = NULL;
	CLEANUP(freep) char *first = mem_printf("%s/cpu.cfs_quota_us", g->path), *us = NULL;
	CLEANUP(freep) char *period = mem_printf("%s/cpu.cfs_period_us", g->path), *of = NULL;

	g->quota = 0;
	if (file_read(second, TEXT_BYTES, &text, NULL) == 0) {
		const char *space = strchr(text, ' ');
		double length = space ? strtod(space, NULL) : 0;
		g->quota = length > 0 ? strtod(text, NULL) / length : 0;
	} else if (file_read(first, TEXT_BYTES, &us, NULL) == 0 &&
		   file_read(period, TEXT_BYTES, &of, NULL) == 0) {
		g->quota = strtod(of, NULL) > 0 ? strtod(us, NULL) / strtod(of, NULL) : 0;
	}
}

/* It, or one above it: a quota holds for all below. */
static void find_quota(const struct machine *m, struct machine_group *g, uint32_t pid)
{
	char name[256];

	g->path[0] = '\0';
	g->rest = REST_LOOKS;
	if (!m->mount[0] || !group_of(pid, name, sizeof(name)))
		return;
	for (char *end = name + strlen(name); end > name + 1; end = strrchr(name, '/')) {
		*end = '\0';
		CLEANUP(freep) char *dir = mem_printf("%s%s", m->mount, name);
		if (strlen(dir) < sizeof(g->path) && read_stat(g, dir)) {
			snprintf(g->path, sizeof(g->path), "%s", dir);
			read_quota(g);
			return;
		}
	}
}

static struct machine_group *get_group(struct machine *m, const struct look_process *p)
{
	struct machine_group *oldest = &m->groups[0];

	for (unsigned i = 0; i < m->group_count; i++) {
		if (m->groups[i].pid == p->pid && m->groups[i].start == p->start)
			return &m->groups[i];
		if (m->groups[i].used < oldest->used)
			oldest = &m->groups[i];
	}
	struct machine_group *g =
		m->group_count < MACHINE_GROUPS ? &m->groups[m->group_count++] : oldest;
	*g = (struct machine_group){.start = p->start, .pid = p->pid};
	return g;
}

static void look_at_group(struct machine *m, const struct look_process *p)
{
	struct machine_group *g = get_group(m, p);
	struct machine_group before = *g;

	g->used = m->looks;
	g->held_back = g->seconds = 0;
	if (g->path[0] && read_stat(g, g->path)) {
		if (before.used + 1 != m->looks || g->periods <= before.periods)
			return;
		g->held_back = (double)(g->throttled - before.throttled) /
			       (double)(g->periods - before.periods);
		g->seconds = (double)(g->throttled_ns - before.throttled_ns) / 1e9;
	} else if (!g->rest || g->path[0]) {
		find_quota(m, g, p->pid);
	} else {
		g->rest--;
	}
}

const struct machine_group *machine_group(const struct machine *m, const struct look_process *p)
{
	for (unsigned i = 0; i < m->group_count; i++) {
		const struct machine_group *g = &m->groups[i];
		if (g->pid == p->pid && g->start == p->start && g->used == m->looks)
			return g;
	}
	return NULL;
}

void machine_look(struct machine *m, const struct look *l)
{
	CLEANUP(freep) char *load = NULL;
	uint64_t us = memory_us(), elapsed_us = (l->ended_ns - l->began_ns) / 1000;
	unsigned asked = 0;

	m->looks++;
	m->running = 0;
	if (file_read("/proc/loadavg", TEXT_BYTES, &load, NULL) == 0)
		sscanf(load, "%*f %*f %*f %lf", &m->running);
	m->memory_stalls = elapsed_us && us > m->memory_us
				   ? (double)(us - m->memory_us) / (double)elapsed_us
				   : 0;
	m->memory_us = us;
	for (uint32_t i = 1; i < l->process_count && asked < ASKED_MAX; i++) {
		const struct look_process *p = &l->processes[i];
		if (p->pid && look_share(l, p->part.ns) >= GROUP_SHARE) {
			look_at_group(m, p);
			asked++;
		}
	}
}

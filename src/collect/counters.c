#include "collect/counters.h"

#include <dirent.h>
#include <errno.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "collect/cpus.h"

/* Where a counter is opened: a thread, or a CPU. */
struct slot {
	pid_t pid; /* or the control group's fd; -1: any */
	int cpu;   /* -1: any */
	size_t place;
};

struct counters {
	const struct counters_options *options;
	struct slot *slots;
	size_t slot_count, slot_cap;
	struct counters_place *places;
	size_t place_count, place_cap;
	int *fds; /* of each event and slot; -1: none */
	bool *supported;
	bool raised; /* the limit of open files */
};

static int *fd_of(const struct counters *c, size_t event, size_t slot)
{
	return &c->fds[event * c->slot_count + slot];
}

static int topology(unsigned cpu, const char *what)
{
	CLEANUP(freep) char *text = NULL;
	CLEANUP(freep)
	char *path = mem_printf("/sys/devices/system/cpu/cpu%u/topology/%s", cpu, what);

	/* -1 is the kernel's word for not known, and perf's is 0. */
	return file_read(path, 64, &text, NULL) == 0 ? MAX(atoi(text), 0) : 0;
}

static bool is_place(const struct counters_place *a, const struct counters_place *b,
		     enum counters_by by)
{
	switch (by) {
	case COUNTERS_BY_CPU:
		return a->cpu == b->cpu;
	case COUNTERS_BY_CORE:
		return a->socket == b->socket && a->die == b->die && a->core == b->core;
	default:
		return true;
	}
}

static size_t find_place(struct counters *c, unsigned cpu)
{
	struct counters_place p = {.cpu = cpu, .cpus = 1};

	if (c->options->by != COUNTERS_TOGETHER) {
		p.socket = topology(cpu, "physical_package_id");
		p.die = topology(cpu, "die_id");
		p.core = topology(cpu, "core_id");
	}
	for (size_t i = 0; i < c->place_count; i++) {
		if (is_place(&c->places[i], &p, c->options->by)) {
			c->places[i].cpus++;
			return i;
		}
	}
	MEM_GROW(c->places, c->place_count, c->place_cap);
	c->places[c->place_count] = p;
	return c->place_count++;
}

static void add_cpu(void *ctx, unsigned cpu, bool online)
{
	struct counters *c = ctx;

	(void)online;
	MEM_GROW(c->slots, c->slot_count, c->slot_cap);
	c->slots[c->slot_count++] =
		(struct slot){c->options->cgroup_fd, (int)cpu, find_place(c, cpu)};
}

static int find_slots(struct counters *c)
{
	const struct counters_options *o = c->options;

	for (size_t i = 0; i < o->thread_count; i++) {
		MEM_GROW(c->slots, c->slot_count, c->slot_cap);
		c->slots[c->slot_count++] = (struct slot){(pid_t)o->threads[i], -1, 0};
	}
	if (!o->thread_count)
		return cpus_each_online(add_cpu, c);
	find_place(c, 0);
	return 0;
}

/* Many threads, or CPUs, times many events. */
static bool raise_limit(struct counters *c)
{
	struct rlimit files;

	if (c->raised || getrlimit(RLIMIT_NOFILE, &files) != 0)
		return false;
	c->raised = true;
	files.rlim_cur = files.rlim_max;
	return setrlimit(RLIMIT_NOFILE, &files) == 0;
}

static int open_slot(struct counters *c, size_t event, size_t slot)
{
	const struct counters_options *o = c->options;
	const struct counter_event *e = &o->events->list[event];
	const struct slot *s = &c->slots[slot];
	struct perf_event_attr attr = e->attr;
	unsigned long flags = PERF_FLAG_FD_CLOEXEC;

	attr.disabled = 1;
	attr.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
	attr.inherit = o->thread_count != 0;
	attr.enable_on_exec = o->from_exec && o->thread_count;
	if (o->cgroup_fd >= 0)
		flags |= PERF_FLAG_PID_CGROUP;
	int leader = e->leader == event ? -1 : *fd_of(c, e->leader, slot);
	int fd = (int)syscall(SYS_perf_event_open, &attr, s->pid, s->cpu, leader, flags);
	if (fd < 0 && errno == EMFILE && raise_limit(c))
		fd = (int)syscall(SYS_perf_event_open, &attr, s->pid, s->cpu, leader, flags);
	if (fd < 0)
		return -errno;
	*fd_of(c, event, slot) = fd;
	return 0;
}

struct wanted_cpu {
	int cpu;
	bool found;
};

static void look_for_cpu(void *ctx, unsigned cpu, bool online)
{
	struct wanted_cpu *w = ctx;

	(void)online;
	w->found |= (int)cpu == w->cpu;
}

/* Whether a unit is counted by that CPU; some are by one for each socket. */
static bool counts_there(const struct counter_event *e, int cpu)
{
	struct wanted_cpu w = {.cpu = cpu};

	return !*e->pmu || cpu < 0 || pmu_cpus(e->pmu, look_for_cpu, &w) != 0 || w.found;
}

static void close_event(struct counters *c, size_t event)
{
	for (size_t i = 0; i < c->slot_count; i++) {
		fd_closep(fd_of(c, event, i));
		*fd_of(c, event, i) = -1;
	}
}

/* What the kernel says of events that the processor, or the kernel itself, does not have. */
static bool is_not_supported(int err)
{
	return err == -ENOENT || err == -EOPNOTSUPP || err == -ENXIO || err == -EINVAL ||
	       err == -ENOSYS;
}

/* On every slot. A thread that ended, or a CPU that went, is left out unless it is the last. */
static int open_event(struct counters *c, size_t event, size_t *ret_slot)
{
	size_t opened = 0;
	int gone = 0;

	for (size_t i = 0; i < c->slot_count; i++) {
		if (!counts_there(&c->options->events->list[event], c->slots[i].cpu))
			continue;
		int err = open_slot(c, event, i);
		if (err == -ESRCH || err == -ENODEV) {
			gone = err;
			continue;
		}
		if (err) {
			*ret_slot = i;
			return err;
		}
		opened++;
	}
	*ret_slot = 0;
	return opened ? 0 : gone == -ESRCH ? gone : -ENOENT;
}

static int open_all(struct counters *c, struct counters_error *ret_why)
{
	struct counter_events *events = c->options->events;

	for (size_t i = 0; i < events->count; i++) {
		struct counter_event *e = &events->list[i], asked = *e;
		size_t slot;
		int err = open_event(c, i, &slot);
		if ((err == -EACCES || err == -EPERM) && counter_event_only_user(e)) {
			close_event(c, i);
			err = open_event(c, i, &slot);
			if (err == -EACCES || err == -EPERM)
				*e = asked;
		}
		c->supported[i] = err == 0;
		if (err)
			close_event(c, i);
		if (err && !is_not_supported(err)) {
			const struct slot *s = &c->slots[slot];
			*ret_why = (struct counters_error){e, s->cpu < 0 ? (uint32_t)s->pid : 0,
							   (unsigned)MAX(s->cpu, 0)};
			return err;
		}
	}
	return 0;
}

int counters_new(const struct counters_options *o, struct counters **ret,
		 struct counters_error *ret_why)
{
	struct counters *c = mem_alloc(sizeof(*c));

	*ret_why = (struct counters_error){};
	c->options = o;
	int err = find_slots(c);
	size_t fds = o->events->count * c->slot_count;
	c->fds = mem_alloc_array(fds + 1, sizeof(*c->fds));
	c->supported = mem_alloc_array(o->events->count + 1, sizeof(*c->supported));
	for (size_t i = 0; i < fds; i++)
		c->fds[i] = -1;
	err = err ? err : open_all(c, ret_why);
	if (err)
		counters_free(TAKE_PTR(c));
	else
		*ret = c;
	return err;
}

void counters_free(struct counters *c)
{
	if (!c)
		return;
	for (size_t i = 0; c->fds && i < c->options->events->count; i++)
		close_event(c, i);
	free(c->fds);
	free(c->supported);
	free(c->slots);
	free(c->places);
	free(c);
}

static void tell_all(struct counters *c, unsigned long what)
{
	size_t fds = c->options->events->count * c->slot_count;

	for (size_t i = 0; i < fds; i++)
		if (c->fds[i] >= 0)
			ioctl(c->fds[i], what, 0);
}

void counters_start(struct counters *c)
{
	if (!c->options->from_exec || !c->options->thread_count)
		tell_all(c, PERF_EVENT_IOC_ENABLE);
}

void counters_stop(struct counters *c)
{
	tell_all(c, PERF_EVENT_IOC_DISABLE);
}

size_t counters_places(const struct counters *c, const struct counters_place **ret)
{
	*ret = c->places;
	return c->place_count;
}

static int add_slot(const struct counters *c, size_t event, size_t slot, struct counter_value *v)
{
	struct {
		uint64_t value, enabled, running;
	} now = {};
	int fd = *fd_of(c, event, slot);

	if (fd < 0)
		return 0;
	v->is_elsewhere = false;
	if (read(fd, &now, sizeof(now)) != sizeof(now))
		return errno ? -errno : -EIO;
	v->value += now.value;
	v->enabled += now.enabled;
	v->running += now.running;
	return 0;
}

int counters_read(const struct counters *c, struct counter_value *ret)
{
	for (size_t i = 0; i < c->options->events->count; i++) {
		struct counter_value *of_event = &ret[i * c->place_count];
		for (size_t p = 0; p < c->place_count; p++)
			of_event[p] = (struct counter_value){
				.is_supported = c->supported[i],
				.is_elsewhere = c->supported[i] && *c->options->events->list[i].pmu,
			};
		for (size_t s = 0; s < c->slot_count; s++) {
			errno = 0;
			int err = add_slot(c, i, s, &of_event[c->slots[s].place]);
			if (err)
				return err;
		}
	}
	return 0;
}

double counter_value_scaled(const struct counter_value *v)
{
	if (!v->running)
		return 0;
	if (v->running >= v->enabled)
		return (double)v->value;
	return (double)v->value * ((double)v->enabled / (double)v->running);
}

int counters_threads(uint32_t pid, uint32_t **list, size_t *count, size_t *cap)
{
	char path[64];
	size_t before = *count;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	DIR *dir = opendir(path);
	if (!dir)
		return errno == ENOENT ? -ESRCH : -errno;
	for (struct dirent *d; (d = readdir(dir));) {
		if (d->d_name[0] == '.')
			continue;
		MEM_GROW(*list, *count, *cap);
		(*list)[(*count)++] = (uint32_t)strtoul(d->d_name, NULL, 10);
	}
	closedir(dir);
	return *count > before ? 0 : -ESRCH;
}

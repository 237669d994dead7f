/* A source whose events are those of a perf event, one opened on each CPU. */
#include "collect/source.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/cpus.h"
#include "collect/sampler.h"
#include "collect/ticks.h"

struct cpu_event {
	struct bpf_link *link; /* NULL: none */
	int fd;                /* the link's: the event itself */
	struct ticks ticks;
};

struct perf {
	struct perf_event_attr attr;
	bool is_clock;          /* … of the CPU, with a period in nanoseconds */
	struct cpu_event *cpus; /* by CPU number */
	uint64_t due, missed;   /* ticks, when they were last added up */
};

static void add_ticks(struct source *s, unsigned cpu, uint64_t idle_ns)
{
	struct perf *p = s->driver_data;
	struct cpu_event *e = &p->cpus[cpu];
	struct ticks_now now = {.idle_ns = idle_ns};

	if (!p->is_clock || !e->link ||
	    read(e->fd, &now.clock_ns, sizeof(now.clock_ns)) != sizeof(now.clock_ns))
		return;
	now.came = source_counter(s, cpu, WIRE_RUNS);
	ticks_add(&e->ticks, p->attr.sample_period, &now, &p->due, &p->missed);
}

static void add_all_ticks(struct source *s)
{
	CLEANUP(freep) uint64_t *idle = mem_alloc_array(s->cpu_count, sizeof(*idle));

	cpus_idle(idle, s->cpu_count);
	for (unsigned cpu = 0; cpu < s->rings.count; cpu++)
		add_ticks(s, cpu, idle[cpu]);
}

static void close_cpu(struct source *s, unsigned cpu)
{
	struct perf *p = s->driver_data;
	struct cpu_event *e = &p->cpus[cpu];

	if (!e->link)
		return;
	bpf_link__destroy(e->link); /* closes the perf event's fd as well */
	e->link = NULL;
	s->cpus--;
}

static int open_cpu(struct source *s, unsigned cpu)
{
	struct perf *p = s->driver_data;
	struct cpu_event *e = &p->cpus[cpu];
	if (cpu >= s->rings.count) {
		s->beyond_cpus++;
		return -ENOSPC;
	}
	int fd =
		(int)syscall(SYS_perf_event_open, &p->attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;

	e->fd = fd;
	ticks_begin(&e->ticks, source_counter(s, cpu, WIRE_RUNS));
	e->link = bpf_program__attach_perf_event(s->program, fd);
	if (!e->link) {
		int r = -errno;
		close(fd);
		return r;
	}
	s->cpus++;
	return 0;
}

/* Opens a CPU's event unless it is open or not asked for. */
static void want_cpu(struct source *s, unsigned cpu)
{
	const struct perf *p = s->driver_data;

	if (s->only_cpu >= 0 && cpu != (unsigned)s->only_cpu)
		return;
	if (!p->cpus[cpu].link && open_cpu(s, cpu) != 0)
		s->failed_cpus++;
}

static void on_online(void *ctx, unsigned cpu, bool online)
{
	struct source *s = ctx;

	(void)online;
	if (cpu < s->cpu_count)
		want_cpu(s, cpu);
}

static void set_rate(const struct source *s, struct perf_event_attr *attr)
{
	if (s->kind->is_clock && s->frequency) {
		attr->sample_period = 1000000000 / s->frequency;
	} else if (s->frequency) {
		attr->freq = 1;
		attr->sample_freq = s->frequency;
	} else {
		attr->sample_period = s->period;
	}
}

static int start(struct source *s, const char **ret_doing)
{
	const struct source_kind *k = s->kind;
	struct perf *p = mem_alloc(sizeof(*p));

	s->driver_data = p;
	p->cpus = mem_alloc_array(s->cpu_count, sizeof(*p->cpus));
	p->attr = (struct perf_event_attr){
		.size = sizeof(p->attr), .type = k->perf_type, .config = k->perf_config};
	p->is_clock = k->is_clock && k->perf_config == PERF_COUNT_SW_CPU_CLOCK;
	set_rate(s, &p->attr);

	/* The first CPU's failure is everyone's: say why. Later ones may be going offline. */
	int r = -ENODEV;
	*ret_doing = "find the CPU";
	if (s->only_cpu >= (int)s->rings.count)
		return -ENODEV;
	*ret_doing = SAMPLER_OPENING_EVENT;
	if (s->only_cpu >= 0)
		r = open_cpu(s, (unsigned)s->only_cpu);
	for (unsigned cpu = 0; s->only_cpu < 0 && cpu < s->cpu_count && r == -ENODEV; cpu++)
		r = open_cpu(s, cpu);
	if (r)
		return r;
	*ret_doing = "read the list of CPUs";
	r = cpus_each_online(on_online, s);
	add_all_ticks(s); /* how long CPUs had idled before */
	return r;
}

static void stop(struct source *s)
{
	if (!s->driver_data)
		return;
	add_all_ticks(s);
	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++)
		close_cpu(s, cpu);
}

static void follow_cpu(struct source *s, unsigned cpu, bool online)
{
	add_all_ticks(s);
	close_cpu(s, cpu); /* an event does not survive its CPU, nor come back with it */
	if (online)
		want_cpu(s, cpu);
}

static void ticks(struct source *s, uint64_t *ret_due, uint64_t *ret_missed)
{
	const struct perf *p = s->driver_data;

	add_all_ticks(s);
	*ret_due = p->due;
	*ret_missed = p->missed;
}

static void perf_free(struct source *s)
{
	struct perf *p = s->driver_data;

	if (p)
		free(p->cpus);
	free(p);
}

const struct source_driver perf_source = {start, stop, follow_cpu, ticks, perf_free};

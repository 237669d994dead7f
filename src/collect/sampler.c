#include "collect/sampler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/cpus.h"
#include "collect/orc.h"
#include "collect/pidns.h"
#include "collect/ticks.h"
#include "sample.skel.h"

#define RING_BYTES      (256u << 10) /* of a CPU */
#define RING_BYTES_MAX  (2u << 20)   /* kernels before 6.0 take no element of 4 MB */
#define RINGS_BYTES     (2u << 20)   /* of all of them, at least */
#define CPUS_MANY       64
#define RATE_OF_A_FLOOD 250

struct cpu_event {
	struct bpf_link *link; /* NULL: not sampled */
	int fd;                /* the link's: the event itself */
	struct ticks ticks;
	uint64_t read;   /* how far, in its ring */
	bool has_stacks; /* … up to there, since the last release */
};

struct sampler {
	struct sample *skel;
	uint8_t *memory;  /* of all CPUs: struct wire_ring first, the ring itself at ring_at */
	size_t cpu_bytes; /* of one */
	size_t ring_at;
	uint64_t ring_bytes;
	struct cpu_event *cpus; /* by CPU number */
	unsigned cpu_count;     /* possible CPUs */
	unsigned ring_count;    /* those that have a ring */
	int only_cpu;           /* -1: all */
	struct perf_event_attr attr;
	bool is_clock; /* … with a period in nanoseconds */
	uint64_t malformed;
	uint64_t failed_cpus;
	uint64_t beyond_cpus; /* of them, those that were not there at the start */
	uint64_t due, missed; /* ticks, when they were last added up */
	uint64_t fill;        /* of the fullest ring, at the last drain */
};

static const struct sampler_event events[] = {
	{"cpu-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, true},
	{"task-clock", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, true},
	{"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, false},
	{"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, false},
	{"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, false},
	{"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, false},
	{"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, false},
	{"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, false},
	{"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, false},
	{"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, false},
	{"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, false},
	{"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, false},
	{"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, false},
};

int sampler_event(const char *name, struct sampler_event *ret)
{
	for (size_t i = 0; i < ARRAY_SIZE(events); i++) {
		if (strcmp(events[i].name, name) == 0) {
			*ret = events[i];
			return 0;
		}
	}
	return -ENOENT;
}

const char *sampler_event_names(void)
{
	return "cpu-clock, task-clock, page-faults, minor-faults, major-faults, context-switches, "
	       "cpu-migrations, cycles, instructions, cache-references, cache-misses, branches, "
	       "branch-misses";
}

/*
 * libbpf says why through a callback without a context. What is kept of it here is the verifier's
 * complaint, if there is one: of its log, the line before the statistics; else the last line.
 */
static _Thread_local char libbpf_words[sizeof(((struct sampler_error *)0)->detail)];
static _Thread_local bool libbpf_complained;

static void keep_complaint(char *log)
{
	char *end = strstr(log, "\nprocessed ");
	if (!end)
		return;
	*end = '\0';
	char *line = strrchr(log, '\n');
	snprintf(libbpf_words, sizeof(libbpf_words), "the verifier: %s", line ? line + 1 : log);
	libbpf_complained = true;
}

static int keep_words(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	CLEANUP(freep) char *text = NULL;

	if (level != LIBBPF_WARN || libbpf_complained || vasprintf(&text, fmt, ap) < 0)
		return 0;
	snprintf(libbpf_words, sizeof(libbpf_words), "%s", text);
	keep_complaint(text);
	return 0;
}

static int fail(struct sampler_error *e, const char *doing, int r)
{
	e->doing = doing;
	snprintf(e->detail, sizeof(e->detail), "%s", libbpf_words);
	e->detail[strcspn(e->detail, "\n")] = '\0';
	return r;
}

static uint64_t ticks_of(const struct sampler *s, uint32_t cpu)
{
	struct wire_counts c = {};

	bpf_map_lookup_elem(bpf_map__fd(s->skel->maps.counters), &cpu, &c);
	return c.n[WIRE_TICKS];
}

static void add_ticks(struct sampler *s, unsigned cpu, uint64_t idle_ns)
{
	struct cpu_event *e = &s->cpus[cpu];
	struct ticks_now now = {.idle_ns = idle_ns};

	if (!s->is_clock || !e->link ||
	    read(e->fd, &now.clock_ns, sizeof(now.clock_ns)) != sizeof(now.clock_ns))
		return;
	now.came = ticks_of(s, cpu);
	ticks_add(&e->ticks, s->attr.sample_period, &now, &s->due, &s->missed);
}

static void add_all_ticks(struct sampler *s)
{
	CLEANUP(freep) uint64_t *idle = mem_alloc_array(s->cpu_count, sizeof(*idle));

	cpus_idle(idle, s->cpu_count);
	for (unsigned cpu = 0; cpu < s->ring_count; cpu++)
		add_ticks(s, cpu, idle[cpu]);
}

static void cpu_close(struct sampler *s, unsigned cpu)
{
	bpf_link__destroy(s->cpus[cpu].link); /* closes the perf event's fd as well */
	s->cpus[cpu].link = NULL;
}

static int cpu_open(struct sampler *s, unsigned cpu)
{
	struct cpu_event *e = &s->cpus[cpu];
	if (cpu >= s->ring_count) {
		s->beyond_cpus++;
		return -ENOSPC;
	}
	int fd =
		(int)syscall(SYS_perf_event_open, &s->attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;

	e->fd = fd;
	ticks_begin(&e->ticks, ticks_of(s, cpu));
	e->link = bpf_program__attach_perf_event(s->skel->progs.sample, fd);
	if (!e->link) {
		int r = -errno;
		close(fd);
		return r;
	}
	return 0;
}

/* Opens a CPU's event unless it is open or not asked for. */
static void cpu_want(struct sampler *s, unsigned cpu)
{
	if (s->only_cpu >= 0 && cpu != (unsigned)s->only_cpu)
		return;
	if (!s->cpus[cpu].link && cpu_open(s, cpu) != 0)
		s->failed_cpus++;
}

void sampler_cpu(struct sampler *s, unsigned cpu, bool online)
{
	if (cpu >= s->cpu_count)
		return;
	add_all_ticks(s);
	cpu_close(s, cpu); /* an event does not survive its CPU, nor come back with it */
	if (online)
		cpu_want(s, cpu);
}

static void on_online(void *ctx, unsigned cpu, bool online)
{
	struct sampler *s = ctx;

	(void)online;
	if (cpu < s->cpu_count)
		cpu_want(s, cpu);
}

/*
 * Few CPUs have larger rings: what a burst needs does not depend on how many there are. Many have
 * smaller ones.
 */
static size_t ring_bytes(const struct sampler_options *o, unsigned cpus)
{
	bool is_flood = !o->frequency || o->frequency > RATE_OF_A_FLOOD;
	size_t bytes = cpus > CPUS_MANY ? RING_BYTES / 2 : RING_BYTES;

	if (o->ring_bytes)
		return o->ring_bytes;
	while (bytes < RING_BYTES_MAX && bytes * cpus < RINGS_BYTES << is_flood)
		bytes *= 2;
	return bytes;
}

static void size_rings(struct sampler *s, const struct sampler_options *o)
{
	struct bpf_map *map = s->skel->maps.scratch;
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	s->ring_at = bpf_map__value_size(map);
	s->ring_bytes = ring_bytes(o, s->ring_count);
	s->cpu_bytes = (s->ring_at + s->ring_bytes + WIRE_SAMPLE_MAX + page - 1) & ~(page - 1);
	memcpy((void *)&s->skel->rodata->ring_bytes, &s->ring_bytes, sizeof(s->ring_bytes));
	bpf_map__set_max_entries(map, s->ring_count);
	bpf_map__set_value_size(map, (uint32_t)s->cpu_bytes);
}

static int map_rings(struct sampler *s)
{
	void *p = mmap(NULL, s->ring_count * s->cpu_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(s->skel->maps.scratch), 0);

	if (p == MAP_FAILED)
		return -errno;
	s->memory = p;
	return 0;
}

/* Without it each search is a long one; nothing else depends on it. */
static void index_orc(struct sampler *s)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	uint32_t runs = s->skel->rodata->orc.count / 1024 + 1; /* each does more than so many */

	for (opts.retval = 1; opts.retval && runs; runs--)
		if (bpf_prog_test_run_opts(bpf_program__fd(s->skel->progs.orc_index), &opts) != 0)
			break;
}

static int load(struct sampler *s, const struct sampler_options *o, struct sampler_error *e)
{
	s->skel = sample__open();
	if (!s->skel)
		return fail(e, "open the BPF program", -errno);

	struct wire_filter filter = o->filter;
	int found = pidns_find(&filter.pid_namespace);
	if (found)
		return fail(e, SAMPLER_TELLING_PROCESSES, found);
	memcpy((void *)&s->skel->rodata->filter, &filter, sizeof(filter));
	struct wire_orc *orc = (struct wire_orc *)&s->skel->rodata->orc;
	if (!o->filter.no_kernel && orc_find(orc) == 0)
		bpf_map__set_max_entries(s->skel->maps.orc_blocks,
					 (uint32_t)(orc->text_bytes >> WIRE_ORC_BLOCK_BITS) + 2);
	bpf_program__set_autoload(s->skel->progs.orc_index, orc->count != 0);
	size_rings(s, o);
	bpf_map__set_max_entries(s->skel->maps.counters, s->cpu_count);
	if (!o->filter.by_pid && !o->filter.by_tid)
		bpf_map__set_max_entries(s->skel->maps.targets, 1);
	if (o->counters_fd > 0) {
		int used = bpf_map__reuse_fd(s->skel->maps.counters, o->counters_fd);
		if (used)
			return fail(e, "use the counters", used);
	}
	bpf_program__set_autoload(s->skel->progs.follow_fork, o->filter.follow);
	bpf_program__set_autoload(s->skel->progs.follow_exit, o->filter.follow);

	int r = sample__load(s->skel);
	if (r)
		return fail(e, "load the BPF program", r);
	index_orc(s);
	r = map_rings(s);
	if (r)
		return fail(e, "map the rings", r);
	for (size_t i = 0; i < o->target_count; i++) {
		r = sampler_add_target(s, o->targets[i]);
		if (r)
			return fail(e, "set the targets", r);
	}
	if (o->filter.follow) {
		r = sample__attach(s->skel);
		if (r)
			return fail(e, "follow the children of the program", r);
	}
	return 0;
}

static int attach(struct sampler *s, const struct sampler_options *o, struct sampler_error *e)
{
	s->attr = (struct perf_event_attr){
		.size = sizeof(s->attr),
		.type = o->event.type,
		.config = o->event.config,
	};
	s->is_clock =
		o->event.type == PERF_TYPE_SOFTWARE && o->event.config == PERF_COUNT_SW_CPU_CLOCK;
	if (o->event.is_clock && o->frequency) {
		s->attr.sample_period = 1000000000 / o->frequency;
	} else if (o->frequency) {
		s->attr.freq = 1;
		s->attr.sample_freq = o->frequency;
	} else {
		s->attr.sample_period = o->period;
	}

	/* The first CPU's failure is everyone's: say why. Later ones may be going offline. */
	int r = -ENODEV;
	if (s->only_cpu >= (int)s->ring_count)
		return fail(e, "find the CPU", -ENODEV);
	if (s->only_cpu >= 0)
		r = cpu_open(s, (unsigned)s->only_cpu);
	for (unsigned cpu = 0; s->only_cpu < 0 && cpu < s->cpu_count && r == -ENODEV; cpu++)
		r = cpu_open(s, cpu);
	if (r)
		return fail(e, SAMPLER_OPENING_EVENT, r);
	r = cpus_each_online(on_online, s);
	if (r)
		return fail(e, "read the list of CPUs", r);
	return 0;
}

int sampler_new(const struct sampler_options *o, struct sampler **ret,
		struct sampler_error *ret_err)
{
	*ret_err = (struct sampler_error){};
	libbpf_words[0] = '\0';
	libbpf_complained = false;
	libbpf_set_print(keep_words);
	int cpus = libbpf_num_possible_cpus();
	if (cpus < 0)
		return fail(ret_err, "count the CPUs", cpus);

	struct sampler *s = mem_alloc(sizeof(*s));
	int present = cpus_present();
	s->cpu_count = (unsigned)cpus;
	s->ring_count = present > 0 ? MIN((unsigned)present, s->cpu_count) : s->cpu_count;
	s->only_cpu = o->cpu;
	s->cpus = mem_alloc_array(s->cpu_count, sizeof(*s->cpus));

	int r = load(s, o, ret_err);
	if (r == 0)
		r = attach(s, o, ret_err);
	add_all_ticks(s); /* how long CPUs had idled before */
	if (r) {
		sampler_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void sampler_maps(const struct sampler *s, struct sampler_maps *ret)
{
	*ret = (struct sampler_maps){
		.processes = bpf_map__fd(s->skel->maps.processes),
		.mappings = bpf_map__fd(s->skel->maps.mappings),
		.files = bpf_map__fd(s->skel->maps.files),
		.pages = bpf_map__fd(s->skel->maps.pages),
		.rules = bpf_map__fd(s->skel->maps.rules),
		.shards = bpf_map__fd(s->skel->maps.shards),
	};
}

int sampler_add_target(struct sampler *s, uint32_t pid)
{
	uint8_t one = 1;

	return bpf_map_update_elem(bpf_map__fd(s->skel->maps.targets), &pid, &one, 0);
}

static struct wire_ring *ring_of(const struct sampler *s, unsigned cpu)
{
	return (struct wire_ring *)(s->memory + cpu * s->cpu_bytes);
}

static struct wire_sample *sample_at(const struct sampler *s, unsigned cpu, uint64_t at)
{
	return (void *)((uint8_t *)ring_of(s, cpu) + s->ring_at + (at & (s->ring_bytes - 1)));
}

static bool is_sound(const struct wire_sample *h, uint64_t left)
{
	return left >= sizeof(*h) && h->kernel_frames <= WIRE_FRAMES &&
	       h->user_frames <= WIRE_USER_FRAMES && left >= wire_sample_size(h);
}

static void drain_cpu(struct sampler *s, unsigned cpu, uint64_t until, sampler_fn *fn, void *ctx)
{
	const struct wire_ring *ring = ring_of(s, cpu);
	struct cpu_event *c = &s->cpus[cpu];
	uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
	uint64_t base = __atomic_load_n(&ring->base, __ATOMIC_RELAXED);

	c->read = MAX(c->read, base);
	/* A ring that was begun anew just now has its base behind the head that was read. */
	s->fill = MAX(s->fill, head > c->read ? head - c->read : 0);
	while (c->read < head) {
		const struct wire_sample *h = sample_at(s, cpu, c->read);
		if (!is_sound(h, head - c->read)) {
			s->malformed++;
			c->read = head;
			break;
		}
		if (h->time > until)
			break;
		fn(ctx, h);
		c->has_stacks |= h->stack_bytes != 0;
		c->read += wire_sample_size(h);
	}
}

/* A ring is begun anew time and again: what is far behind may stay for hours. */
static void wipe_stacks(struct sampler *s, unsigned cpu)
{
	const struct wire_ring *ring = ring_of(s, cpu);
	uint64_t base = __atomic_load_n(&ring->base, __ATOMIC_RELAXED);
	uint64_t at = MAX(ring->tail, base), left;

	for (; (left = s->cpus[cpu].read - at) > 0; at += wire_sample_size(sample_at(s, cpu, at))) {
		struct wire_sample *h = sample_at(s, cpu, at);
		if (!is_sound(h, left))
			break;
		size_t frames = (size_t)h->kernel_frames + h->user_frames;
		memset((uint64_t *)(h + 1) + frames, 0, h->stack_bytes);
	}
	s->cpus[cpu].has_stacks = false;
}

void sampler_drain(struct sampler *s, uint64_t until, sampler_fn *fn, void *ctx)
{
	s->fill = 0;
	for (unsigned cpu = 0; cpu < s->ring_count; cpu++)
		drain_cpu(s, cpu, until, fn, ctx);
}

uint64_t sampler_fill(const struct sampler *s, uint64_t *ret_room)
{
	*ret_room = s->ring_bytes;
	return s->fill;
}

void sampler_release(struct sampler *s)
{
	for (unsigned cpu = 0; cpu < s->ring_count; cpu++) {
		struct wire_ring *ring = ring_of(s, cpu);
		if (s->cpus[cpu].has_stacks)
			wipe_stacks(s, cpu);
		if (ring->tail != s->cpus[cpu].read)
			__atomic_store_n(&ring->tail, s->cpus[cpu].read, __ATOMIC_RELEASE);
	}
}

void sampler_stop(struct sampler *s)
{
	add_all_ticks(s);
	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++)
		if (s->cpus[cpu].link)
			cpu_close(s, cpu);
}

int sampler_counters(void)
{
	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "counters", sizeof(uint32_t),
			      sizeof(struct wire_counts), (uint32_t)libbpf_num_possible_cpus(),
			      NULL);
}

static void add_up(int fd, uint64_t sums[static WIRE_COUNTERS])
{
	struct wire_counts c;

	for (uint32_t cpu = 0; bpf_map_lookup_elem(fd, &cpu, &c) == 0; cpu++)
		for (size_t i = 0; i < WIRE_COUNTERS; i++)
			sums[i] += c.n[i];
}

void sampler_counters_read(int fd, struct sampler_counts *ret)
{
	uint64_t sums[WIRE_COUNTERS] = {};

	add_up(fd, sums);
	*ret = (struct sampler_counts){
		.taken = sums[WIRE_TAKEN],
		.lost = sums[WIRE_RING_FULL],
		.not_copied = sums[WIRE_NOT_COPIED],
		.run_ns = sums[WIRE_RUN_NS],
		.walk_ns = sums[WIRE_WALK_NS],
		.kernel_walked = sums[WIRE_KERNEL_WALKED],
		.kernel_asked = sums[WIRE_KERNEL_ASKED],
		.kernel_compared = sums[WIRE_KERNEL_COMPARED],
		.kernel_different = sums[WIRE_KERNEL_DIFFERENT],
	};
}

void sampler_counts(const struct sampler *s, struct sampler_counts *ret)
{
	sampler_counters_read(bpf_map__fd(s->skel->maps.counters), ret);
	ret->malformed = s->malformed;
	ret->failed_cpus = s->failed_cpus;
	ret->beyond_cpus = s->beyond_cpus;
	for (unsigned cpu = 0; cpu < s->cpu_count; cpu++)
		ret->cpus += s->cpus[cpu].link != NULL;
}

void sampler_ticks(struct sampler *s, uint64_t *ret_due, uint64_t *ret_missed)
{
	add_all_ticks(s);
	*ret_due = s->due;
	*ret_missed = s->missed;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	sampler_stop(s);
	if (s->memory)
		munmap(s->memory, s->ring_count * s->cpu_bytes);
	sample__destroy(s->skel);
	free(s->cpus);
	free(s);
}

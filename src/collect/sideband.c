#include "collect/sideband.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/sysmacros.h>
#include <time.h>

#include "base/mem.h"
#include "collect/perf_ring.h"

#include <bpf/libbpf.h>

#define RING_PAGES  64
#define CPUS_FEW    8    /* have twice as much each: 512 KB is what any user may map */
#define WAKE_SHARE  4    /* of a ring: so much more in it wakes whoever waits */
#define RECORD_ROOM 4400 /* bytes: a path, and what goes with it */

struct sideband {
	struct perf_ring *rings; /* by CPU */
	unsigned count;
	size_t pages; /* of a ring */
	uint64_t lost;
	struct perf_event_attr attr;
	struct perf_ring_room record;
};

/* The records that are read; each is followed by struct sample_id, as attr.sample_type says. */
struct task_record {
	struct perf_event_header header;
	uint32_t pid, ppid, tid, ptid;
	uint64_t time;
};

struct comm_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	char comm[];
};

struct mmap2_record {
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	uint32_t major, minor;
	uint64_t inode, generation;
	uint32_t prot, flags;
	char path[];
};

struct ksymbol_record {
	struct perf_event_header header;
	uint64_t addr;
	uint32_t len;
	uint16_t type, flags;
};

struct lost_record {
	struct perf_event_header header;
	uint64_t id, lost;
};

struct sample_id { /* PERF_SAMPLE_TID | PERF_SAMPLE_TIME */
	uint32_t pid, tid;
	uint64_t time;
};

int sideband_new(struct sideband **ret)
{
	int cpus = libbpf_num_possible_cpus();
	if (cpus < 0)
		return cpus;

	struct sideband *s = mem_alloc(sizeof(*s));
	s->count = (unsigned)cpus;
	s->pages = s->count <= CPUS_FEW ? 2 * RING_PAGES : RING_PAGES;
	s->rings = mem_alloc_array(s->count, sizeof(*s->rings));
	for (unsigned i = 0; i < s->count; i++)
		s->rings[i].fd = -1;
	s->attr = (struct perf_event_attr){
		.size = sizeof(s->attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.sample_type = PERF_SAMPLE_TID | PERF_SAMPLE_TIME,
		.sample_id_all = 1,
		.mmap = 1,
		.mmap2 = 1,
		.comm = 1,
		.comm_exec = 1,
		.task = 1,
		.ksymbol = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.watermark = 1,
		.wakeup_watermark =
			(uint32_t)(s->pages * (size_t)sysconf(_SC_PAGESIZE) / WAKE_SHARE),
	};

	int opened = 0, r = 0;
	for (unsigned cpu = 0; cpu < s->count; cpu++) {
		r = perf_ring_open(&s->rings[cpu], &s->attr, cpu, s->pages);
		if (r == 0)
			opened++;
		else if (r != -ENODEV) /* ENODEV: offline */
			break;
	}
	if (!opened || (r && r != -ENODEV)) {
		sideband_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

void sideband_free(struct sideband *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++)
		perf_ring_close(&s->rings[i]);
	free(s->rings);
	free(s);
}

void sideband_cpu(struct sideband *s, unsigned cpu, bool online)
{
	if (cpu >= s->count || !online)
		return; /* the ring of a CPU that went is still drained */
	perf_ring_close(&s->rings[cpu]);
	perf_ring_open(&s->rings[cpu], &s->attr, cpu, s->pages);
	s->lost++; /* what has happened on that CPU was not told: mappings are read instead */
}

int sideband_fd(const struct sideband *s, unsigned cpu)
{
	return cpu < s->count ? s->rings[cpu].fd : -EINVAL;
}

uint64_t sideband_lost(const struct sideband *s)
{
	return s->lost;
}

/* A string inside a record ends at its NUL or where the sample id begins. */
static const char *record_string(const char *str, char *end)
{
	if (str >= end)
		return "";
	end[-1] = '\0';
	return str;
}

static void on_map(struct sideband_record *e, struct mmap2_record *m, char *end)
{
	e->type = SIDEBAND_MAP;
	e->pid = m->pid;
	e->start = m->addr;
	e->end = m->addr + m->len;
	e->offset = m->pgoff;
	e->name = record_string(m->path, end);
	/* With another's mark on it (see sideband.h) the record is still as was asked for. */
	e->device = makedev(m->major, m->minor);
	e->inode = m->inode;
	e->generation = m->generation;
}

/*
 * Where several listen, each finds the record longer than the one before, by what follows the id
 * that is really there (up to Linux 6.18 at least): it is right behind the name.
 */
static const struct sample_id *ksymbol_id(const struct ksymbol_record *r)
{
	const char *name = (const char *)(r + 1);
	const char *last = (const char *)r + r->header.size - sizeof(struct sample_id);
	const char *at = name + ((strnlen(name, (size_t)(last - name)) + 8) & ~(size_t)7);

	return (const void *)(at < last ? at : last);
}

/* Turns a record into an event; false for those nobody needs (threads, renames). */
static bool parse(struct sideband *s, struct perf_event_header *h, struct sideband_record *e)
{
	struct sample_id *id = (void *)((char *)h + h->size - sizeof(*id));
	struct task_record *task = (void *)h;
	struct comm_record *comm = (void *)h;
	struct ksymbol_record *code = (void *)h;

	*e = (struct sideband_record){.time = id->time};
	switch (h->type) {
	case PERF_RECORD_FORK:
		if (h->size < sizeof(*task) + sizeof(*id) || task->pid == task->ppid ||
		    task->pid != task->tid)
			return false;
		e->type = SIDEBAND_FORK;
		e->pid = task->pid;
		e->parent = task->ppid;
		return true;
	case PERF_RECORD_EXIT:
		if (h->size < sizeof(*task) + sizeof(*id) || task->pid != task->tid)
			return false;
		e->type = SIDEBAND_EXIT;
		e->pid = task->pid;
		return true;
	case PERF_RECORD_COMM:
		if (h->size < sizeof(*comm) + sizeof(*id) ||
		    !(h->misc & PERF_RECORD_MISC_COMM_EXEC))
			return false;
		e->type = SIDEBAND_EXEC;
		e->pid = comm->pid;
		e->name = record_string(comm->comm, (char *)id);
		return true;
	case PERF_RECORD_MMAP2:
		if (h->size < sizeof(struct mmap2_record) + sizeof(*id))
			return false;
		on_map(e, (void *)h, (char *)id);
		return true;
	case PERF_RECORD_KSYMBOL:
		if (h->size < sizeof(*code) + sizeof(*id))
			return false;
		e->type = SIDEBAND_CODE;
		e->time = ksymbol_id(code)->time;
		e->start = code->addr;
		e->end = code->addr + code->len;
		return true;
	case PERF_RECORD_LOST:
		if (h->size >= sizeof(struct lost_record))
			s->lost += ((struct lost_record *)h)->lost;
		return false;
	default:
		return false;
	}
}

struct draining {
	struct sideband *sideband;
	sideband_fn *fn;
	void *ctx;
};

static void on_record(void *ctx, struct perf_event_header *h)
{
	const struct draining *d = ctx;
	struct sideband_record e;

	if (parse(d->sideband, h, &e))
		d->fn(d->ctx, &e);
}

static void drain_ring(struct sideband *s, struct perf_ring *r, sideband_fn *fn, void *ctx)
{
	struct draining d = {s, fn, ctx};
	uint64_t used;

	if (perf_ring_drain(r, &s->record, on_record, &d, &used) != 0)
		s->lost++;
	if (used + RECORD_ROOM > r->bytes)
		s->lost++; /* the kernel tells of what did not fit only with the next that does */
}

void sideband_drain(struct sideband *s, sideband_fn *fn, void *ctx)
{
	for (unsigned i = 0; i < s->count; i++)
		if (s->rings[i].fd >= 0)
			drain_ring(s, &s->rings[i], fn, ctx);
}

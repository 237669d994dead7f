#include "collect/sites_source.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "arch/arch.h"
#include "base/file.h"
#include "base/mem.h"
#include "collect/found_event.h"
#include "sites.skel.h"

#define BATCH       256
#define READS_MAX   16 /* of a thread that changes just then */
#define FIRST_SHIFT 8

struct site_maps { /* what the source has while it runs */
	struct bpf_link *switches;
	struct site_thread *threads; /* SITES_THREADS of them, mapped */
	struct site_control *control;
	const struct site_cpu *by_cpu; /* cpu_count of them, mapped */
	int sites_fd, claims_fd;
	struct on_cpu {
		uint32_t place;
		uint64_t since;
	} * running; /* of them, threads that are known; in the order of places */
	unsigned running_count;
};

static void *map_memory(struct source *s, const char *name, size_t bytes, int flags)
{
	int fd = bpf_object__find_map_fd_by_name(s->object, name);
	void *at = mmap(NULL, bytes, flags, MAP_SHARED, fd, 0);

	return at == MAP_FAILED ? NULL : at;
}

/* Where the kernel trusts the counter of the scheduler's clock for the time of day, it is the same
 * on all CPUs. */
static bool scheduler_has_one_clock(void)
{
	CLEANUP(freep) char *name = NULL;
	size_t len;

	if (file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64, &name,
		      &len) != 0)
		return false;
	return strcmp(name, ARCH_CLOCKSOURCE "\n") == 0;
}

static int start(struct source *s, const char **ret_doing)
{
	struct site_maps *m = mem_alloc(sizeof(*m));

	s->driver_data = m;
	*ret_doing = "map the threads off their CPU";
	m->threads = map_memory(s, "site_threads", SITES_THREADS * sizeof(*m->threads),
				PROT_READ | PROT_WRITE);
	m->control = map_memory(s, "site_control", sizeof(*m->control), PROT_READ | PROT_WRITE);
	m->by_cpu = map_memory(s, "by_cpu", s->cpu_count * sizeof(*m->by_cpu), PROT_READ);
	if (!m->threads || !m->control || !m->by_cpu)
		return -errno;
	m->sites_fd = bpf_object__find_map_fd_by_name(s->object, "sites");
	m->claims_fd = bpf_object__find_map_fd_by_name(s->object, "site_claims");
	m->running = mem_alloc_array(s->cpu_count, sizeof(*m->running));
	m->control->by_scheduler = scheduler_has_one_clock();
	sites_source_set_shift(s, FIRST_SHIFT);
	*ret_doing = "attach to the scheduler's tracepoint";
	m->switches = bpf_program__attach(s->program);
	s->cpus = s->rings.count;
	return m->switches ? 0 : -errno;
}

static void stop(struct source *s)
{
	struct site_maps *m = s->driver_data;

	if (m)
		bpf_link__destroy(TAKE_PTR(m->switches));
}

static void sites_free(struct source *s)
{
	struct site_maps *m = s->driver_data;

	if (!m)
		return;
	if (m->threads)
		munmap(m->threads, SITES_THREADS * sizeof(*m->threads));
	if (m->control)
		munmap(m->control, sizeof(*m->control));
	if (m->by_cpu)
		munmap((void *)m->by_cpu, s->cpu_count * sizeof(*m->by_cpu));
	free(m->running);
	free(m);
}

static const struct source_driver driver = {.start = start, .stop = stop, .free = sites_free};
static const char *const programs[] = {"sites_found", NULL};

const struct source_kind sites_source = {
	.name = "offcpu",
	.type = "offcpu",
	.unit = "nanoseconds",
	.object = sites__elf_bytes,
	.program = "sites_switch",
	.driver = &driver,
	.also = programs,
};

void sites_source_set_shift(struct source *s, unsigned shift)
{
	struct site_maps *m = s->driver_data;

	__atomic_store_n(&m->control->shift, MIN(shift, (unsigned)SITES_WALK_SHIFTS),
			 __ATOMIC_RELAXED);
}

void sites_source_hold(struct source *s, bool hold)
{
	struct site_maps *m = s->driver_data;

	__atomic_store_n(&m->control->full, hold, __ATOMIC_RELAXED);
}

bool sites_source_is_full(struct source *s)
{
	struct site_maps *m = s->driver_data;

	return __atomic_load_n(&m->control->full, __ATOMIC_RELAXED);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct batch {
	struct site_key keys[BATCH];
	struct site_value sites[BATCH];
};

static int read_sites(const struct site_maps *m, const struct sites_reader *r)
{
	CLEANUP(freep) struct batch *b = mem_alloc(sizeof(*b));
	uint64_t at[2] = {}; /* where it goes on: the kernel's business */
	bool begun = false;

	for (uint32_t n = BATCH;; n = BATCH) {
		int err = bpf_map_lookup_batch(m->sites_fd, begun ? at : NULL, at, b->keys,
					       b->sites, &n, NULL);
		begun = true;
		if (err && errno != ENOENT)
			return -errno;
		for (uint32_t i = 0; i < n; i++)
			r->site(r->ctx, &b->keys[i], &b->sites[i]);
		if (err)
			return 0;
	}
}

/* As it is between two changes; after some attempts, as it was found. */
static void read_thread(const struct site_thread *from, struct site_thread *ret)
{
	for (int i = 0; i < READS_MAX; i++) {
		uint32_t before = __atomic_load_n(&from->changes, __ATOMIC_ACQUIRE);
		memcpy(ret, from, sizeof(*ret));
		__atomic_thread_fence(__ATOMIC_ACQUIRE);
		if (__atomic_load_n(&from->changes, __ATOMIC_RELAXED) == before && before % 2 == 0)
			return;
	}
}

static int compare_places(const void *a, const void *b)
{
	uint32_t x = ((const struct on_cpu *)a)->place, y = ((const struct on_cpu *)b)->place;

	return x < y ? -1 : x > y;
}

/*
 * Before the threads: what leaves its CPU between the two has left it later than it came, and what
 * comes to one was off it until now. A CPU that switches while it is read may be read with the
 * thread before and the time at which the next one came: that is when it left, so it is harmless.
 */
static void read_cpus(struct source *s, struct site_maps *m)
{
	m->running_count = 0;
	for (unsigned i = 0; i < s->cpu_count; i++) {
		uint32_t tid = __atomic_load_n(&m->by_cpu[i].tid, __ATOMIC_ACQUIRE);
		uint64_t since = __atomic_load_n(&m->by_cpu[i].since, __ATOMIC_RELAXED);
		for (uint32_t probe = 0; tid && probe < SITES_PROBES; probe++) {
			uint32_t place = (tid + probe) & (SITES_THREADS - 1);
			if (__atomic_load_n(&m->threads[place].tid, __ATOMIC_RELAXED) != tid)
				continue;
			m->running[m->running_count++] = (struct on_cpu){place, since};
			break;
		}
	}
	qsort(m->running, m->running_count, sizeof(*m->running), compare_places);
}

/* When the thread at a place came to the CPU that it is on; *at: which of them is next. */
static uint64_t running_since(const struct site_maps *m, uint32_t place, unsigned *at)
{
	uint64_t since = 0;

	for (; *at < m->running_count && m->running[*at].place <= place; ++*at)
		if (m->running[*at].place == place)
			since = MAX(since, m->running[*at].since);
	return since;
}

int sites_source_read(struct source *s, const struct sites_reader *r)
{
	struct site_maps *m = s->driver_data;
	int err = read_sites(m, r);
	unsigned at = 0;

	read_cpus(s, m);
	for (uint32_t i = 0; !err && i < SITES_THREADS; i++) {
		struct site_thread t;
		if (!__atomic_load_n(&m->threads[i].tid, __ATOMIC_ACQUIRE))
			continue;
		uint64_t back = running_since(m, i, &at);
		read_thread(&m->threads[i], &t);
		if (t.tid)
			r->thread(r->ctx, i, &t, back >= t.left ? back : 0);
	}
	return err;
}

uint64_t sites_source_taken(struct source *s)
{
	const struct site_maps *m = s->driver_data;
	uint64_t sum = 0;

	for (unsigned i = 0; i < s->cpu_count; i++)
		sum += __atomic_load_n(&m->by_cpu[i].taken, __ATOMIC_RELAXED);
	return sum;
}

bool sites_source_waits_unknown(struct source *s, uint64_t since_ns)
{
	struct site_maps *m = s->driver_data;
	unsigned at = 0;

	read_cpus(s, m);
	for (uint32_t i = 0; i < SITES_THREADS; i++) {
		const volatile struct site_thread *t = &m->threads[i];
		uint64_t left = t->left;
		if (t->tid && left && left < since_ns && !t->slot_index &&
		    t->found_period_began != left && running_since(m, i, &at) < left)
			return true;
	}
	return false;
}

void sites_source_remove_site(struct source *s, const struct site_key *key)
{
	struct site_maps *m = s->driver_data;

	bpf_map_delete_elem(m->sites_fd, key);
	__atomic_store_n(&m->control->full, 0, __ATOMIC_RELAXED);
}

/* First the place itself, then that it may be taken. */
void sites_source_remove_thread(struct source *s, uint32_t place)
{
	struct site_maps *m = s->driver_data;

	__atomic_store_n(&m->threads[place].tid, 0, __ATOMIC_SEQ_CST);
	bpf_map_delete_elem(m->claims_fd, &place);
}

/* ---- what is off its CPU already --------------------------------------------------------------
 */

struct finding {
	event_fn *fn;
	void *ctx;
};

static void hand_over(void *ctx, const void *record, struct found_event *room)
{
	const struct finding *to = ctx;
	const struct site_found *f = record;
	struct site_details d = {.of = f->of.details, .walk = f->walk, .tid = f->tid};

	to->fn(to->ctx, found_event_make(room, &f->of, &d, SITES_DETAILS));
}

int sites_source_found(struct source *s, event_fn *fn, void *ctx)
{
	struct finding to = {fn, ctx};

	return found_event_each(bpf_object__find_program_by_name(s->object, programs[0]),
				sizeof(struct site_found), hand_over, &to);
}

#include "collect/sampler.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/bpf_object.h"
#include "collect/cpus.h"
#include "collect/orc.h"
#include "collect/pidns.h"

#define RING_BYTES      (256u << 10) /* of a CPU */
#define RING_BYTES_MAX  (2u << 20)   /* kernels before 6.0 take no element of 4 MB */
#define RINGS_BYTES     (2u << 20)   /* of all of them, at least */
#define RINGS_BYTES_MAX (64u << 20)  /* of all of them, where a CPU has more than RING_BYTES_MAX */
#define CPUS_MANY       64
#define RATE_OF_A_FLOOD 250

struct sampler {
	struct source sources[SOURCES_MAX];
	unsigned count; /* of them */
	struct bpf_link *follow[2];
	unsigned cpu_count;  /* possible CPUs */
	unsigned ring_count; /* those that have a ring */
};

/* What all sources read and user space writes: the first one's, used by the others. */
static const char *const shared_maps[] = {"processes", "mappings", "files",      "pages",   "rules",
					  "shards",    "contexts", "orc_blocks", "targets", NULL};

int sampler_failed(struct sampler_error *e, const char *doing, int r)
{
	e->doing = doing;
	snprintf(e->detail, sizeof(e->detail), "%s", bpf_object_words());
	return r;
}

static bool kernel_takes(size_t element_bytes)
{
	LIBBPF_OPTS(bpf_map_create_opts, opts, .map_flags = BPF_F_MMAPABLE);
	CLEANUP(fd_closep)
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "ring_size", sizeof(uint32_t),
				(uint32_t)element_bytes, 1, &opts);

	return fd >= 0;
}

/*
 * Few CPUs have larger rings: what a burst needs does not depend on how many there are. Many have
 * smaller ones.
 */
static size_t ring_bytes(const struct sampler_options *o, const struct source *src, unsigned cpus)
{
	bool is_flood = !src->frequency || src->frequency > RATE_OF_A_FLOOD;
	size_t bytes = cpus > CPUS_MANY ? RING_BYTES / 2 : RING_BYTES;

	if (o->ring_bytes) {
		bytes = o->ring_bytes;
		while (bytes > RING_BYTES_MAX &&
		       (bytes * cpus > RINGS_BYTES_MAX || !kernel_takes(2 * bytes)))
			bytes /= 2;
		return bytes;
	}
	while (bytes < RING_BYTES_MAX && bytes * cpus < RINGS_BYTES << is_flood)
		bytes *= 2;
	return bytes;
}

static int map_fd(const struct sampler *s, const char *name)
{
	return bpf_object__find_map_fd_by_name(s->sources[0].object, name);
}

static void set_entries(struct bpf_object *o, const char *map, uint32_t count)
{
	bpf_map__set_max_entries(bpf_object__find_map_by_name(o, map), count);
}

/* The first source makes what is shared, and loads the programs that serve all sources. */
static void size_shared(struct bpf_object *o, const struct wire_filter *f,
			const struct wire_orc *orc)
{
	if (orc->count)
		set_entries(o, "orc_blocks",
			    (uint32_t)(orc->text_bytes >> WIRE_ORC_BLOCK_BITS) + 2);
	if (!f->by_pid && !f->by_tid)
		set_entries(o, "targets", 1);
}

static bool loads_also(const struct source_kind *k, const char *program)
{
	for (const char *const *name = k->also; name && *name; name++)
		if (strcmp(*name, program) == 0)
			return true;
	return false;
}

static void choose_programs(struct source *src, bool first, const struct wire_filter *f,
			    const struct wire_orc *orc)
{
	struct bpf_program *p;

	bpf_object__for_each_program(p, src->object)
	{
		const char *name = bpf_program__name(p);
		bool load = p == src->program || loads_also(src->kind, name);
		if (first && strcmp(name, "orc_index") == 0)
			load = orc->count != 0;
		else if (first && strncmp(name, "follow_", 7) == 0)
			load = f->follow;
		bpf_program__set_autoload(p, load);
	}
}

static int set_constants(struct sampler *s, struct source *src, const struct wire_filter *f,
			 const struct wire_orc *orc)
{
	uint16_t number = (uint16_t)(src - s->sources);
	int r = bpf_object_set(src->object, "filter", f, sizeof(*f));

	r = r ? r : bpf_object_set(src->object, "orc", orc, sizeof(*orc));
	return r ? r : bpf_object_set(src->object, "source", &number, sizeof(number));
}

/* Whether a program may look at memory of the kernel's as something of a type that it says. */
static bool kernel_lets_cast(void)
{
	struct btf *kernel = btf__load_vmlinux_btf();
	bool there = kernel && btf__find_by_name_kind(kernel, "bpf_rdonly_cast", BTF_KIND_FUNC) > 0;

	btf__free(kernel);
	return there;
}

/*
 * Of the variants that there are: the plain one of two, where that will do (see EVENT_PROGRAM() in
 * bpf/event.bpf.h), and the one that casts, where the kernel can.
 */
static struct bpf_program *find_program(const struct source *src, const struct wire_filter *f)
{
	const char *base = src->kind->program;
	CLEANUP(freep) char *cast = mem_printf("%s_cast", base);

	if (bpf_object__find_program_by_name(src->object, cast) && kernel_lets_cast())
		base = cast;
	CLEANUP(freep) char *plain = mem_printf("%s_plain", base);
	struct bpf_program *p = NULL;
	if (!f->pid_namespace && !f->cgroups && !f->by_cgroup)
		p = bpf_object__find_program_by_name(src->object, plain);
	return p ? p : bpf_object__find_program_by_name(src->object, base);
}

static int prepare(struct sampler *s, struct source *src, const struct sampler_options *o,
		   const struct wire_filter *f, const struct wire_orc *orc)
{
	struct bpf_map *counters = bpf_object__find_map_by_name(src->object, "counters");
	struct bpf_map *own = bpf_object__find_map_by_name(src->object, "by_cpu"); /* or NULL */
	bool first = src == s->sources;
	int given = o->sources[src - s->sources].counters_fd;

	src->program = find_program(src, f);
	if (!src->program || !counters)
		return -ENOENT;
	int r = set_constants(s, src, f, orc);
	if (own)
		r = r ? r : bpf_map__set_max_entries(own, s->cpu_count);
	r = r ? r
	      : rings_size(&src->rings, src->object, s->ring_count,
			   ring_bytes(o, src, s->ring_count));
	if (r)
		return r;
	choose_programs(src, first, f, orc);
	if (first)
		size_shared(src->object, f, orc);
	else if ((r = bpf_object_share(src->object, s->sources[0].object, shared_maps)))
		return r;
	return given > 0 ? bpf_map__reuse_fd(counters, given)
			 : bpf_map__set_max_entries(counters, s->cpu_count + 1);
}

static int load_source(struct sampler *s, unsigned i, const struct sampler_options *o,
		       const struct wire_filter *f, const struct wire_orc *orc,
		       struct sampler_error *e)
{
	struct source *src = &s->sources[i];
	const struct source_kind *k = o->sources[i].kind;
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = k->program);
	size_t bytes;
	const void *object = k->object(&bytes);

	*src = (struct source){
		.kind = k,
		.frequency = o->sources[i].frequency,
		.period = o->sources[i].period,
		.cpu_count = s->cpu_count,
		.only_cpu = o->cpu,
	};
	s->count++;
	src->object = bpf_object__open_mem(object, bytes, &opts);
	if (!src->object)
		return sampler_failed(e, "open the BPF program", -errno);
	int r = prepare(s, src, o, f, orc);
	if (r)
		return sampler_failed(e, "prepare the BPF program", r);
	r = bpf_object__load(src->object);
	if (r)
		return sampler_failed(e, "load the BPF program", r);
	src->counters_fd = bpf_object__find_map_fd_by_name(src->object, "counters");
	r = rings_map(&src->rings, src->object);
	return r ? sampler_failed(e, "map the rings", r) : 0;
}

/* Without it each search is a long one; nothing else depends on it. */
static void index_orc(struct sampler *s, const struct wire_orc *orc)
{
	LIBBPF_OPTS(bpf_test_run_opts, opts);
	struct bpf_program *p = bpf_object__find_program_by_name(s->sources[0].object, "orc_index");
	uint32_t runs = orc->count / 1024 + 1; /* each does more than so many */

	for (opts.retval = 1; p && orc->count && opts.retval && runs; runs--)
		if (bpf_prog_test_run_opts(bpf_program__fd(p), &opts) != 0)
			break;
}

static int follow_children(struct sampler *s)
{
	static const char *const names[] = {"follow_fork", "follow_exit"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		s->follow[i] = bpf_program__attach(
			bpf_object__find_program_by_name(s->sources[0].object, names[i]));
		if (!s->follow[i])
			return -errno;
	}
	return 0;
}

static int load(struct sampler *s, const struct sampler_options *o, struct sampler_error *e)
{
	struct wire_filter filter = o->filter;
	struct wire_orc orc = {};
	int r = pidns_find(&filter.pid_namespace);

	if (r)
		return sampler_failed(e, SAMPLER_TELLING_PROCESSES, r);
	if (!filter.no_kernel)
		orc_locate(&orc);
	for (unsigned i = 0; i < o->source_count; i++) {
		r = load_source(s, i, o, &filter, &orc, e);
		if (r)
			return r;
	}
	index_orc(s, &orc);
	for (size_t i = 0; i < o->target_count; i++) {
		r = sampler_add_target(s, o->targets[i]);
		if (r)
			return sampler_failed(e, "set the targets", r);
	}
	r = filter.follow ? follow_children(s) : 0;
	return r ? sampler_failed(e, "follow the children of the program", r) : 0;
}

static int start(struct sampler *s, struct sampler_error *e)
{
	for (unsigned i = 0; i < s->count; i++) {
		const char *doing;
		int r = s->sources[i].kind->driver->start(&s->sources[i], &doing);
		e->event = s->sources[i].kind->name;
		if (r)
			return sampler_failed(e, doing, r);
	}
	return 0;
}

int sampler_new(const struct sampler_options *o, struct sampler **ret,
		struct sampler_error *ret_err)
{
	*ret_err = (struct sampler_error){};
	bpf_object_listen();
	int cpus = libbpf_num_possible_cpus();
	if (cpus < 0)
		return sampler_failed(ret_err, "count the CPUs", cpus);
	if (!o->source_count || o->source_count > SOURCES_MAX)
		return sampler_failed(ret_err, "choose what to record", -EINVAL);

	struct sampler *s = mem_alloc(sizeof(*s));
	int present = cpus_present();
	s->cpu_count = (unsigned)cpus;
	s->ring_count = present > 0 ? MIN((unsigned)present, s->cpu_count) : s->cpu_count;

	int r = load(s, o, ret_err);
	if (r == 0)
		r = start(s, ret_err);
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
		.processes = map_fd(s, "processes"),
		.mappings = map_fd(s, "mappings"),
		.files = map_fd(s, "files"),
		.pages = map_fd(s, "pages"),
		.rules = map_fd(s, "rules"),
		.shards = map_fd(s, "shards"),
		.contexts = map_fd(s, "contexts"),
	};
}

int sampler_add_target(struct sampler *s, uint32_t pid)
{
	uint8_t one = 1;

	return bpf_map_update_elem(map_fd(s, "targets"), &pid, &one, 0);
}

void sampler_drain(struct sampler *s, uint64_t until, event_fn *fn, void *ctx)
{
	for (unsigned i = 0; i < s->count; i++)
		rings_drain(&s->sources[i].rings, until, fn, ctx);
}

void sampler_release(struct sampler *s)
{
	for (unsigned i = 0; i < s->count; i++)
		rings_release(&s->sources[i].rings);
}

uint64_t sampler_fill(const struct sampler *s, uint64_t *ret_room)
{
	const struct rings *fullest = &s->sources[0].rings;

	for (unsigned i = 1; i < s->count; i++) {
		const struct rings *r = &s->sources[i].rings;
		if (r->fill * fullest->ring_bytes > fullest->fill * r->ring_bytes)
			fullest = r;
	}
	*ret_room = fullest->ring_bytes;
	return fullest->fill;
}

void sampler_cpu(struct sampler *s, unsigned cpu, bool online)
{
	for (unsigned i = 0; i < s->count && cpu < s->cpu_count; i++)
		if (s->sources[i].kind->driver->cpu)
			s->sources[i].kind->driver->cpu(&s->sources[i], cpu, online);
}

void sampler_stop(struct sampler *s)
{
	for (unsigned i = 0; i < s->count; i++)
		s->sources[i].kind->driver->stop(&s->sources[i]);
}

int sampler_counters_create(void)
{
	return bpf_map_create(BPF_MAP_TYPE_ARRAY, "counters", sizeof(uint32_t),
			      sizeof(struct wire_counts), (uint32_t)libbpf_num_possible_cpus() + 1,
			      NULL);
}

/* The last ones are user space's own: those of a CPU its program may be writing just now. */
void sampler_add_taken(struct sampler *s, unsigned source, uint64_t more)
{
	struct wire_counts c = {};
	int fd = s->sources[source].counters_fd;
	uint32_t last = s->cpu_count;

	if (!more || bpf_map_lookup_elem(fd, &last, &c) != 0)
		return;
	c.n[WIRE_TAKEN] += more;
	bpf_map_update_elem(fd, &last, &c, BPF_ANY);
}

static void add_counters(int fd, struct sampler_stats *to)
{
	struct wire_counts c;

	for (uint32_t cpu = 0; bpf_map_lookup_elem(fd, &cpu, &c) == 0; cpu++) {
		to->taken += c.n[WIRE_TAKEN];
		to->lost += c.n[WIRE_RING_FULL];
		to->lost_value += c.n[WIRE_LOST_VALUE];
		to->no_room += c.n[WIRE_NO_ROOM];
		to->unseen += c.n[WIRE_UNSEEN];
		to->nested += c.n[WIRE_NESTED];
		to->not_copied += c.n[WIRE_NOT_COPIED];
		to->run_ns += c.n[WIRE_RUN_NS];
		to->walk_ns += c.n[WIRE_WALK_NS];
		to->kernel_walked += c.n[WIRE_KERNEL_WALKED];
		to->kernel_asked += c.n[WIRE_KERNEL_ASKED];
		to->kernel_compared += c.n[WIRE_KERNEL_COMPARED];
		to->kernel_different += c.n[WIRE_KERNEL_DIFFERENT];
	}
}

void sampler_counters_sum(int fd, struct sampler_stats *ret)
{
	*ret = (struct sampler_stats){};
	add_counters(fd, ret);
}

static void add_source(const struct source *src, struct sampler_stats *to)
{
	add_counters(src->counters_fd, to);
	to->malformed += src->rings.malformed;
	to->failed_cpus += src->failed_cpus;
	to->beyond_cpus += src->beyond_cpus;
	to->cpus = MAX(to->cpus, src->cpus);
}

const struct source_kind *sampler_kind(const struct sampler *s, unsigned source)
{
	return source < s->count ? s->sources[source].kind : NULL;
}

struct source *sampler_source(struct sampler *s, unsigned source)
{
	return &s->sources[source];
}

void sampler_stats(const struct sampler *s, unsigned source, struct sampler_stats *ret)
{
	*ret = (struct sampler_stats){};
	add_source(&s->sources[source], ret);
}

void sampler_stats_sum(const struct sampler *s, struct sampler_stats *ret)
{
	*ret = (struct sampler_stats){};
	for (unsigned i = 0; i < s->count; i++)
		add_source(&s->sources[i], ret);
}

void sampler_ticks(struct sampler *s, uint64_t *ret_due, uint64_t *ret_missed)
{
	*ret_due = *ret_missed = 0;
	for (unsigned i = 0; i < s->count; i++) {
		struct source *src = &s->sources[i];
		uint64_t due = 0, missed = 0;
		if (src->kind->driver->ticks)
			src->kind->driver->ticks(src, &due, &missed);
		*ret_due += due;
		*ret_missed += missed;
	}
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	sampler_stop(s);
	for (size_t i = 0; i < ARRAY_SIZE(s->follow); i++)
		bpf_link__destroy(s->follow[i]);
	for (unsigned i = s->count; i-- > 0;) {
		struct source *src = &s->sources[i];
		src->kind->driver->free(src);
		rings_done(&src->rings);
		bpf_object__close(src->object);
	}
	free(s);
}

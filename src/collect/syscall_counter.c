#include "collect/syscall_counter.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/mem.h"
#include "collect/bpf_object.h"
#include "collect/cpus.h"
#include "collect/pidns.h"
#include "syscall_count.skel.h"

#define OWNED_MIN     16384u /* 5 MB */
#define OWNED_MAX     262144u
#define OWNED_PER_CPU 4096u
#define THREADS       65536
#define SETTLE_US     50000 /* far longer than a program runs */

struct syscall_counter {
	struct syscall_count *bpf;
	struct bpf_link *links[9];
	unsigned link_count, cpu_count;
	uint8_t kinds[SYSCALL_CALLS];
	bool by_owner;
	struct syscall_slot *slots; /* the map of that name, mapped */
	size_t slots_bytes;
	void *keys; /* to be taken; grows */
	size_t key_cap;
};

/* Only what this way of counting needs is loaded. */
static void choose_programs(struct syscall_count *b, const struct syscall_counter_options *o)
{
	bool timed = o->choice.timed, follow = o->filter.follow;

	bpf_program__set_autoload(b->progs.count_exit, !timed);
	bpf_program__set_autoload(b->progs.count_end, !timed);
	bpf_program__set_autoload(b->progs.time_enter, timed);
	bpf_program__set_autoload(b->progs.time_exit, timed);
	bpf_program__set_autoload(b->progs.time_end, timed);
	bpf_program__set_autoload(b->progs.time_exec, timed);
	bpf_program__set_autoload(b->progs.program_begins, o->from_exec);
	bpf_program__set_autoload(b->progs.follow_fork, follow);
	bpf_program__set_autoload(b->progs.follow_exit, follow);
}

static uint32_t owned_for(const struct syscall_counter_options *o, unsigned cpus)
{
	return o->slots ? o->slots : MIN(MAX(cpus * OWNED_PER_CPU, OWNED_MIN), OWNED_MAX);
}

static int prepare(struct syscall_counter *c, const struct syscall_counter_options *o)
{
	struct syscall_count *b = c->bpf;
	struct wire_filter *filter = &b->rodata->filter;

	*filter = o->filter;
	int r = pidns_find(&filter->pid_namespace);
	if (r)
		return r;
	b->rodata->choice = o->choice;
	b->rodata->choice.self = (uint32_t)getpid();
	b->rodata->choice.target = o->target_count == 1 && !filter->follow ? o->targets[0] : 0;
	b->rodata->choice.program = o->from_exec ? o->targets[0] : 0;
	memcpy((void *)b->rodata->kinds, o->kinds, sizeof(o->kinds));
	choose_programs(b, o);
	b->rodata->choice.cpus = c->cpu_count;
	bpf_map__set_max_entries(b->maps.slots, syscall_slot_at(c->cpu_count + 1, 0, 0));
	bpf_map__set_max_entries(b->maps.owned, owned_for(o, c->cpu_count));
	bpf_map__set_max_entries(b->maps.threads, o->choice.timed ? THREADS : 1);
	if (!filter->by_pid && !filter->by_tid)
		bpf_map__set_max_entries(b->maps.targets, 1);
	return 0;
}

static int map_slots(struct syscall_counter *c)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes = syscall_slot_at(c->cpu_count + 1, 0, 0) * sizeof(struct syscall_slot);

	c->slots_bytes = (bytes + page - 1) / page * page;
	void *at = mmap(NULL, c->slots_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			bpf_map__fd(c->bpf->maps.slots), 0);
	if (at == MAP_FAILED)
		return -errno;
	c->slots = at;
	return 0;
}

/*
 * Ends before beginnings: else a call that began in between would be open for ever. What counts the
 * end of a thread before what forgets that it was a target.
 */
static int attach_all(struct syscall_counter *c)
{
	struct bpf_program *order[] = {
		c->bpf->progs.count_end,      c->bpf->progs.time_end,    c->bpf->progs.time_exec,
		c->bpf->progs.program_begins, c->bpf->progs.follow_fork, c->bpf->progs.follow_exit,
		c->bpf->progs.count_exit,     c->bpf->progs.time_exit,   c->bpf->progs.time_enter,
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(order); i++)
		r = r ? r : bpf_object_attach(order[i], c->links, &c->link_count);
	return r;
}

static int start(struct syscall_counter *c, const struct syscall_counter_options *o,
		 struct sampler_error *e)
{
	uint8_t one = 1;

	c->bpf = syscall_count__open();
	if (!c->bpf)
		return sampler_failed(e, "open the BPF program", -errno);
	int r = prepare(c, o);
	if (r)
		return sampler_failed(e, SAMPLER_TELLING_PROCESSES, r);
	r = syscall_count__load(c->bpf);
	if (r)
		return sampler_failed(e, "load the BPF program", r);
	r = map_slots(c);
	if (r)
		return sampler_failed(e, "map the counters", r);
	for (size_t i = 0; i < o->target_count && !o->from_exec && !r; i++)
		r = bpf_map_update_elem(bpf_map__fd(c->bpf->maps.targets), &o->targets[i], &one, 0);
	if (r)
		return sampler_failed(e, "set the targets", r);
	r = attach_all(c);
	return r ? sampler_failed(e, "attach to the tracepoints of system calls", r) : 0;
}

int syscall_counter_new(const struct syscall_counter_options *o, struct syscall_counter **ret,
			struct sampler_error *ret_err)
{
	*ret_err = (struct sampler_error){};
	bpf_object_listen();
	int cpus = cpus_present();
	if (cpus <= 0)
		return sampler_failed(ret_err, "count the CPUs", cpus ? cpus : -ENOENT);

	struct syscall_counter *c = mem_alloc(sizeof(*c));
	c->cpu_count = (unsigned)cpus;
	c->by_owner = o->choice.by != SYSCALL_BY_NOBODY;
	memcpy(c->kinds, o->kinds, sizeof(c->kinds));
	int r = start(c, o, ret_err);
	if (r) {
		syscall_counter_free(c);
		return r;
	}
	*ret = c;
	return 0;
}

void syscall_counter_stop(struct syscall_counter *c)
{
	bpf_object_detach(c->links, &c->link_count);
}

void syscall_counter_free(struct syscall_counter *c)
{
	if (!c)
		return;
	syscall_counter_stop(c);
	syscall_count__destroy(c->bpf);
	if (c->slots)
		munmap(c->slots, c->slots_bytes);
	free(c->keys);
	free(c);
}

/* Programs write the other generation from here on, and none writes this one any more. */
static uint32_t change_generation(struct syscall_counter *c)
{
	uint32_t taken = c->bpf->bss->generation & 1;

	__atomic_store_n(&c->bpf->bss->generation, !taken, __ATOMIC_SEQ_CST);
	/* Waits for a grace period of RCU, which a BPF program does not outlast. */
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0)
		usleep(SETTLE_US);
	return taken;
}

static void take_slots(struct syscall_counter *c, uint32_t taken, const struct syscall_sink *sink)
{
	uint64_t id = c->by_owner ? SYSCALL_COUNTER_OTHERS : 0;

	for (uint32_t cpu = 0; cpu <= c->cpu_count; cpu++) {
		for (uint32_t call = 0; call < SYSCALL_CALLS; call++) {
			struct syscall_slot *s = &c->slots[syscall_slot_at(cpu, taken, call)];
			if (!s->calls && !s->unfinished)
				continue;
			sink->slot(sink->ctx, id, call, s, "");
			memset(s, 0, sizeof(*s));
		}
	}
}

/* The keys of a hash map, in c->keys: how many. Nothing is removed meanwhile, so each comes once.
 */
static size_t list_keys(struct syscall_counter *c, int fd, size_t key_bytes)
{
	size_t count = 0;
	const void *last = NULL;

	for (;;) {
		if ((count + 1) * key_bytes > c->key_cap) {
			c->key_cap = MAX(2 * c->key_cap, 4096u);
			c->keys = mem_resize_array(c->keys, c->key_cap, 1);
		}
		char *next = (char *)c->keys + count * key_bytes;
		last = count ? next - key_bytes : NULL;
		if (bpf_map_get_next_key(fd, last, next) != 0)
			return count;
		count++;
	}
}

static int take_owned(struct syscall_counter *c, uint32_t taken, const struct syscall_sink *sink)
{
	int fd = bpf_map__fd(c->bpf->maps.owned);
	size_t count = list_keys(c, fd, sizeof(struct syscall_slot_key));
	const struct syscall_slot_key *keys = c->keys;
	struct syscall_owned_slot value;

	for (size_t i = 0; i < count; i++) {
		if (keys[i].generation != taken)
			continue;
		int r = bpf_map_lookup_elem(fd, &keys[i], &value);
		r = r ? r : bpf_map_delete_elem(fd, &keys[i]);
		if (r)
			return r;
		sink->slot(sink->ctx, keys[i].id, keys[i].call, &value.slot, value.comm);
	}
	return 0;
}

static int take_errors(struct syscall_counter *c, uint32_t taken, const struct syscall_sink *sink)
{
	int fd = bpf_map__fd(c->bpf->maps.errors);
	size_t count = list_keys(c, fd, sizeof(struct syscall_error_key));
	const struct syscall_error_key *keys = c->keys;
	uint64_t errors;

	for (size_t i = 0; i < count; i++) {
		if (keys[i].generation != taken)
			continue;
		int r = bpf_map_lookup_elem(fd, &keys[i], &errors);
		r = r ? r : bpf_map_delete_elem(fd, &keys[i]);
		if (r)
			return r;
		sink->error(sink->ctx, keys[i].id, keys[i].call, keys[i].error, errors);
	}
	return 0;
}

int syscall_counter_take(struct syscall_counter *c, const struct syscall_sink *sink)
{
	uint32_t taken = change_generation(c);

	take_slots(c, taken, sink);
	int r = take_owned(c, taken, sink);
	return r ? r : take_errors(c, taken, sink);
}

void syscall_counter_pending(struct syscall_counter *c, syscall_pending_fn *fn, void *ctx)
{
	int fd = bpf_map__fd(c->bpf->maps.threads);
	size_t count = list_keys(c, fd, sizeof(uint32_t));
	const uint32_t *tids = c->keys;
	struct syscall_thread t;

	for (size_t i = 0; i < count; i++)
		if (bpf_map_lookup_elem(fd, &tids[i], &t) == 0 && t.start_ns &&
		    c->kinds[t.call & (SYSCALL_CALLS - 1)] & SYSCALL_WANTED)
			fn(ctx, t.id, t.call & (SYSCALL_CALLS - 1), t.start_ns);
}

uint64_t syscall_counter_untimed(const struct syscall_counter *c)
{
	return __atomic_load_n(&c->bpf->bss->no_room, __ATOMIC_RELAXED);
}

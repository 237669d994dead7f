#include "collect/tracer.h"

#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/mem.h"
#include "collect/bpf_object.h"
#include "collect/pidns.h"
#include "trace.skel.h"

#define LINKS_MAX   8
#define CLOCK_EVERY 64 /* records between two looks at the clock */

struct tracer {
	struct trace *bpf;
	struct ring_buffer *ring;
	struct bpf_link *links[LINKS_MAX];
	unsigned link_count;
	unsigned cpu_count;
	/* While it is drained. */
	tracer_fn *fn;
	void *ctx;
	uint64_t until_ns;
	unsigned handed;
};

static int prepare(struct tracer *t, const struct tracer_options *o)
{
	struct trace *b = t->bpf;
	static const char *const shared[] = {"pending", NULL};
	struct wire_filter *filter = &b->rodata->filter;

	*filter = o->filter;
	int r = pidns_find(&filter->pid_namespace);
	if (!r && o->stacks)
		r = bpf_object_share(b->obj, o->stacks->object, shared);
	if (r)
		return r;
	b->rodata->choice = o->choice;
	b->rodata->choice.self = (uint32_t)getpid();
	b->rodata->choice.awaited = o->from_exec ? o->targets[0] : 0;
	b->rodata->choice.stacks = o->stacks != NULL;
	bpf_map__set_max_entries(b->maps.records,
				 (uint32_t)(o->ring_bytes ? o->ring_bytes : TRACER_RING_BYTES));
	if (!filter->by_pid && !filter->by_tid)
		bpf_map__set_max_entries(b->maps.targets, 1);
	bpf_program__set_autoload(b->progs.follow_fork, filter->follow);
	bpf_program__set_autoload(b->progs.follow_exit, filter->follow);
	bpf_program__set_autoload(b->progs.trace_signal, !o->choice.calls_only);
	return 0;
}

static int write_maps(struct tracer *t, const struct tracer_options *o)
{
	uint8_t one = 1;
	int r = 0;

	for (uint32_t call = 0; call < SYSCALL_CALLS && !r; call++)
		if (o->plans[call].traced || o->plans[call].starts)
			r = bpf_map_update_elem(bpf_map__fd(t->bpf->maps.plans), &call,
						&o->plans[call], 0);
	for (size_t i = 0; i < o->target_count && !r; i++)
		r = bpf_map_update_elem(bpf_map__fd(t->bpf->maps.targets), &o->targets[i], &one, 0);
	return r;
}

/*
 * What writes a thread's end before what forgets that it was a target; stacks after the records
 * that they are of; beginnings at last.
 */
static int attach(struct tracer *t, const struct source *stacks)
{
	struct bpf_program *order[] = {
		t->bpf->progs.trace_end,   t->bpf->progs.follow_fork,
		t->bpf->progs.follow_exit, t->bpf->progs.trace_signal,
		t->bpf->progs.trace_exit,  stacks ? stacks->program : NULL,
		t->bpf->progs.trace_enter,
	};
	int r = 0;

	for (size_t i = 0; i < ARRAY_SIZE(order) && !r; i++)
		if (order[i])
			r = bpf_object_attach(order[i], t->links, &t->link_count);
	return r;
}

/* A negative result ends the drain. */
static int on_record(void *ctx, void *data, size_t bytes)
{
	struct tracer *t = ctx;

	t->fn(t->ctx, data, bytes);
	return ++t->handed % CLOCK_EVERY == 0 && clock_ns(CLOCK_MONOTONIC) >= t->until_ns ? -EAGAIN
											  : 0;
}

static int start(struct tracer *t, const struct tracer_options *o, struct sampler_error *e)
{
	t->bpf = trace__open();
	if (!t->bpf)
		return sampler_failed(e, "open the BPF program", -errno);
	int r = prepare(t, o);
	if (r)
		return sampler_failed(e, SAMPLER_TELLING_PROCESSES, r);
	r = trace__load(t->bpf);
	if (r)
		return sampler_failed(e, "load the BPF program", r);
	r = write_maps(t, o);
	if (r)
		return sampler_failed(e, "say what to trace", r);
	t->ring = ring_buffer__new(bpf_map__fd(t->bpf->maps.records), on_record, t, NULL);
	if (!t->ring)
		return sampler_failed(e, "map the ring", -errno);
	r = attach(t, o->stacks);
	return r ? sampler_failed(e, "attach to the tracepoints of system calls", r) : 0;
}

int tracer_new(const struct tracer_options *o, struct tracer **ret, struct sampler_error *ret_err)
{
	*ret_err = (struct sampler_error){};
	bpf_object_listen();
	int cpus = libbpf_num_possible_cpus();
	if (cpus < 0)
		return sampler_failed(ret_err, "count the CPUs", cpus);

	struct tracer *t = mem_alloc(sizeof(*t));
	t->cpu_count = (unsigned)cpus;
	int r = start(t, o, ret_err);
	if (r) {
		tracer_free(t);
		return r;
	}
	*ret = t;
	return 0;
}

void tracer_stop(struct tracer *t)
{
	/* Beginnings first, so that no call is begun that nobody ends. */
	bpf_object_detach(t->links, &t->link_count);
}

void tracer_free(struct tracer *t)
{
	if (!t)
		return;
	tracer_stop(t);
	ring_buffer__free(t->ring);
	trace__destroy(t->bpf);
	free(t);
}

bool tracer_drain(struct tracer *t, uint64_t max_ms, tracer_fn *fn, void *ctx)
{
	t->fn = fn;
	t->ctx = ctx;
	t->until_ns = clock_ns(CLOCK_MONOTONIC) + max_ms * 1000000;
	return ring_buffer__consume(t->ring) == -EAGAIN;
}

void tracer_pending(struct tracer *t, tracer_fn *fn, void *ctx)
{
	int fd = bpf_map__fd(t->bpf->maps.pending), entries = bpf_map__fd(t->bpf->maps.entries);
	CLEANUP(freep) struct {
		struct trace_record head;
		uint8_t entry[TRACE_ENTRY];
	} *r = mem_alloc(sizeof(*r));
	struct trace_pending p;
	uint32_t key, *last = NULL;

	while (bpf_map_get_next_key(fd, last, &key) == 0) {
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &p) != 0 || p.call == TRACE_NO_CALL)
			continue;
		r->head = (struct trace_record){
			.start = p.start,
			.kind = TRACE_NO_RETURN,
			.bytes = sizeof(r->head),
			.pid = p.pid,
			.tid = p.tid,
			.call = p.call,
		};
		memcpy(r->head.args, p.args, sizeof(p.args));
		memcpy(r->head.comm, p.comm, sizeof(p.comm));
		if (p.entry_bytes && p.entry_bytes <= TRACE_ENTRY &&
		    bpf_map_lookup_elem(entries, &key, r->entry) == 0)
			r->head.bytes += p.entry_bytes;
		fn(ctx, &r->head, r->head.bytes);
	}
}

void tracer_counts(const struct tracer *t, struct tracer_counts *ret)
{
	CLEANUP(freep) struct trace_counts *all = mem_alloc_array(t->cpu_count, sizeof(*all));
	uint32_t zero = 0;

	*ret = (struct tracer_counts){};
	if (bpf_map_lookup_elem(bpf_map__fd(t->bpf->maps.counters), &zero, all) != 0)
		return;
	for (unsigned cpu = 0; cpu < t->cpu_count; cpu++) {
		ret->taken += all[cpu].n[TRACE_TAKEN];
		ret->lost += all[cpu].n[TRACE_LOST];
		ret->lost_notes += all[cpu].n[TRACE_LOST_NOTES];
		ret->no_thread += all[cpu].n[TRACE_NO_THREAD];
		ret->no_entry += all[cpu].n[TRACE_NO_ENTRY];
		ret->nested += all[cpu].n[TRACE_NESTED];
	}
}

#include "collect/closeup.h"

#include <errno.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/mem.h"
#include "bpf/syscall_wire.h"
#include "closeup_calls.skel.h"
#include "collect/bpf_object.h"
#include "collect/pidns.h"

#define LINKS_MAX 2

struct closeup {
	struct closeup_calls *bpf;
	struct bpf_link *links[LINKS_MAX];
	unsigned link_count;
	uint64_t began_ns;
	struct closeup_row *rows;
	size_t row_count, row_cap;
	struct closeup_hold *holds;
	size_t hold_count, hold_cap;
};

static int start(struct closeup *c, const struct closeup_plan *plans, struct sampler_error *e)
{
	c->bpf = closeup_calls__open();
	if (!c->bpf)
		return sampler_failed(e, "open the BPF program", -errno);
	int r = pidns_find(&c->bpf->rodata->filter.pid_namespace);
	if (r)
		return sampler_failed(e, SAMPLER_TELLING_PROCESSES, r);
	memcpy((void *)c->bpf->rodata->plans, plans, SYSCALL_COMPAT * sizeof(*plans));
	bpf_map__set_max_entries(c->bpf->maps.targets, 1);
	bpf_program__set_autoload(c->bpf->progs.follow_fork, false);
	bpf_program__set_autoload(c->bpf->progs.follow_exit, false);
	r = closeup_calls__load(c->bpf);
	return r ? sampler_failed(e, "load the BPF program", r) : 0;
}

int closeup_new(const struct closeup_plan *plans, struct closeup **ret,
		struct sampler_error *ret_err)
{
	struct closeup *c = mem_alloc(sizeof(*c));

	*ret_err = (struct sampler_error){};
	bpf_object_listen();
	int r = start(c, plans, ret_err);
	if (r)
		closeup_free(c);
	else
		*ret = c;
	return r;
}

void closeup_free(struct closeup *c)
{
	if (!c)
		return;
	bpf_object_detach(c->links, &c->link_count);
	closeup_calls__destroy(c->bpf);
	free(c->rows);
	free(c->holds);
	free(c);
}

static void forget_all(const struct bpf_map *map, void *key)
{
	int fd = bpf_map__fd(map);

	while (bpf_map_get_next_key(fd, NULL, key) == 0)
		if (bpf_map_delete_elem(fd, key) != 0)
			break;
}

static void take_holds(struct closeup *c)
{
	int fd = bpf_map__fd(c->bpf->maps.holds);
	struct closeup_hold hold;

	c->hold_count = 0;
	while (bpf_map_lookup_and_delete_elem(fd, NULL, &hold) == 0) {
		MEM_GROW(c->holds, c->hold_count, c->hold_cap);
		c->holds[c->hold_count++] = hold;
	}
}

int closeup_begin(struct closeup *c, uint32_t pid, const char *comm)
{
	struct closeup_target t = {.pid = pid, .self = (uint32_t)getpid()};
	struct closeup_key key;
	uint32_t tid;

	take_holds(c);
	snprintf(t.comm, sizeof(t.comm), "%.15s", comm);
	forget_all(c->bpf->maps.threads, &tid);
	forget_all(c->bpf->maps.sums, &key);
	forget_all(c->bpf->maps.owners, &tid);
	memcpy((void *)&c->bpf->bss->target, &t, sizeof(t));
	c->bpf->bss->counts = (struct closeup_counts){};
	/* Ends first, so that every call whose beginning is seen is seen to its end. */
	int r = bpf_object_attach(c->bpf->progs.closeup_exit, c->links, &c->link_count);
	r = r ? r : bpf_object_attach(c->bpf->progs.closeup_enter, c->links, &c->link_count);
	if (r)
		bpf_object_detach(c->links, &c->link_count);
	c->began_ns = clock_ns(CLOCK_MONOTONIC);
	return r;
}

uint64_t closeup_calls(const struct closeup *c)
{
	return c->bpf->bss->counts.calls;
}

void closeup_end(struct closeup *c, struct closeup_view *ret)
{
	int fd = bpf_map__fd(c->bpf->maps.sums);
	struct closeup_key key, *last = NULL;

	*ret = (struct closeup_view){.ns = clock_ns(CLOCK_MONOTONIC) - c->began_ns};
	bpf_object_detach(c->links, &c->link_count);
	c->row_count = 0;
	while (c->row_count < CLOSEUP_SUMS && bpf_map_get_next_key(fd, last, &key) == 0) {
		MEM_GROW(c->rows, c->row_count, c->row_cap);
		struct closeup_row *r = &c->rows[c->row_count];
		r->key = key;
		last = &key;
		if (bpf_map_lookup_elem(fd, &key, &r->sum) == 0)
			c->row_count++;
	}
	take_holds(c);
	ret->holds = c->holds;
	ret->hold_count = c->hold_count;
	ret->rows = c->rows;
	ret->count = c->row_count;
	ret->counts = c->bpf->bss->counts;
	ret->counts.failed[sizeof(ret->counts.failed) - 1] = '\0';
}

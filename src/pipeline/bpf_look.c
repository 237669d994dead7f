#include "pipeline/bpf_look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

#define FIRST_NS (10 * 1000000000ull) /* what has just started is still loading its own */

void bpf_look_begin(struct bpf_look *b, struct bpf_costs *costs, uint64_t now_ns)
{
	*b = (struct bpf_look){.costs = costs, .next_ns = now_ns + FIRST_NS};
}

void bpf_look_done(struct bpf_look *b)
{
	bpf_uses_done(&b->uses);
	*b = (struct bpf_look){};
}

static void give_up(struct bpf_look *b, int err)
{
	log_warn("what BPF programs cost is not looked at any more: the process that reads it %s",
		 err == -ECONNRESET || err == -EPIPE ? "has ended" : strerror(-err));
	b->costs = NULL;
	b->count = 0;
}

void bpf_look_ask(struct bpf_look *b, uint64_t now_ns)
{
	int err = bpf_costs_ask(b->costs);

	b->is_asked = err == 0;
	b->asked_ns = now_ns;
	if (err)
		give_up(b, err);
}

bool bpf_look_answered(struct bpf_look *b)
{
	struct bpf_cost was[BPF_COSTS_MAX];
	struct look_process owners[BPF_COSTS_MAX];
	unsigned before = b->count;

	memcpy(was, b->programs, sizeof(was));
	memcpy(owners, b->owners, sizeof(owners));
	int err = bpf_costs_answer(b->costs, b->programs, &b->count);
	if (err == -EAGAIN)
		return false;
	b->is_asked = false;
	b->has_uses = false;
	if (err == -EBUSY)
		return false;
	if (err)
		give_up(b, err);
	for (unsigned i = 0; i < b->count; i++) {
		b->owners[i] = (struct look_process){};
		for (unsigned k = 0; k < before; k++)
			if (was[k].id == b->programs[i].id)
				b->owners[i] = owners[k];
	}
	return true;
}

void bpf_look_find_owner(struct bpf_look *b, unsigned i)
{
	struct look_process *to = &b->owners[i];
	size_t count;

	if (to->comm[0])
		return;
	if (!b->has_uses)
		bpf_uses_read_owners(&b->uses);
	b->has_uses = true;
	const struct bpf_owner *o = bpf_uses_owners(&b->uses, b->programs[i].id, &count);
	for (size_t k = 0; k < count; k++) {
		if (to->pid || !o[k].pid)
			continue; /* a file that keeps it says little */
		to->pid = o[k].pid;
		snprintf(to->comm, sizeof(to->comm), "%.16s", o[k].name);
	}
}

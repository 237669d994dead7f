/*
 * sites_clock: the time of a switch, for sites.bpf.c; and what user space sets while it runs.
 */
#pragma once

#include "bpf/event.bpf.h"
#include "bpf/sites_wire.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct site_control);
} site_control SEC(".maps");

static __always_inline struct site_control *get_control(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&site_control, &zero);
}

#define COMPARE_NS (1ull << 26)
#define STEP_NS    20000
#define JUMP_NS    100000000

/*
 * The scheduler has read its clock just before the switch, or, if it knew that one would come, some
 * microseconds ago: then the difference is too large. So we keep the smallest difference, and
 * let it grow only by STEP_NS at a time, which is faster than adjusted clocks drift apart.
 */
static __always_inline void compare_clocks(struct site_control *c, __u64 clock)
{
	__u64 offset = bpf_ktime_get_ns() - clock;
	__s64 more = (__s64)(offset - c->offset);

	if (!c->offset || more < 0 || more > JUMP_NS)
		c->offset = offset;
	else if (more > STEP_NS)
		c->offset += STEP_NS;
}

/* What all CPUs share is copied now and then: a switch reads it where it writes anyway. */
static __noinline void look_at_control(struct site_cpu *cpu, __u64 clock, __u32 has_clock)
{
	struct site_control *c = get_control();

	if (!c)
		return; /* cannot be: there is one */
	if (c->by_scheduler && has_clock)
		compare_clocks(c, clock);
	cpu->compared = clock;
	cpu->offset = c->offset;
	cpu->shift = c->shift;
}

static __always_inline bool has_scheduler_clock(struct task_struct *task)
{
	return bpf_core_field_exists(task->se.cfs_rq) && bpf_core_field_exists(task->se.cfs_rq->rq);
}

/* CLOCK_MONOTONIC; most often without reading that, which takes as long as all the rest. */
static __always_inline __u64 read_clock(struct site_cpu *cpu, struct task_struct *prev)
{
	bool has_clock = has_scheduler_clock(prev);
	__u64 clock = has_clock ? prev->se.cfs_rq->rq->clock : bpf_ktime_get_ns();

	if (clock - cpu->compared > COMPARE_NS)
		look_at_control(cpu, clock, has_clock);
	if (!has_clock)
		return clock;
	return cpu->offset ? clock + cpu->offset : bpf_ktime_get_ns();
}

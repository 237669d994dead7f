/*
 * sites_clock: the time of a switch, for sites.bpf.c; and what user space sets while it runs.
 *
 * That is the scheduler's own, which user space turns into CLOCK_MONOTONIC (site_control.offset);
 * or CLOCK_MONOTONIC itself, where the scheduler's differs between CPUs: then the offset is 0.
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

/* Set before it is loaded: the scheduler's clock is the same on all CPUs. */
const volatile __u32 by_scheduler;

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

static __always_inline bool has_scheduler_clock(struct task_struct *task)
{
	return by_scheduler && bpf_core_field_exists(task->se.cfs_rq) &&
	       bpf_core_field_exists(task->se.cfs_rq->rq);
}

/* Now and then: what all CPUs share, and a switch needs. */
static __always_inline void look_at_control(struct site_cpu *cpu, struct task_struct *prev,
					    __u64 clock)
{
	struct site_control *c = get_control();

	if (clock - cpu->compared <= COMPARE_NS || !c)
		return;
	if (has_scheduler_clock(prev))
		compare_clocks(c, clock);
	cpu->compared = clock;
	cpu->shift = c->shift;
}

/* When this switch is: most often as the scheduler knows it, as to read a clock takes as long as
 * all the rest. */
static __always_inline __u64 switch_clock(struct task_struct *prev)
{
	return has_scheduler_clock(prev) ? prev->se.cfs_rq->rq->clock : bpf_ktime_get_ns();
}

/* The same, where there is no switch. */
static __always_inline __u64 present_clock(struct task_struct *task)
{
	struct site_control *c = get_control();

	return bpf_ktime_get_ns() - (c && has_scheduler_clock(task) ? c->offset : 0);
}

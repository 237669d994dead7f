// SPDX-License-Identifier: GPL-2.0
/*
 * trace_stack: an event is a call whose record trace.bpf.c has just written, at the same
 * tracepoint: its value is when the call returned, which with the thread tells whose stack it is.
 */
#include "bpf/event.bpf.h"
#include "bpf/trace_pending.bpf.h"

SEC("raw_tp/sys_exit")
int trace_stack(struct bpf_raw_tracepoint_args *ctx)
{
	__u32 thread = (__u32)bpf_get_current_pid_tgid();
	struct trace_pending *p = bpf_map_lookup_elem(&pending, &thread);

	if (!p || !p->written)
		return 0;
	/* The filters let it pass already. */
	struct event_args e = {.time = bpf_ktime_get_ns(),
			       .value = p->written,
			       .with_cgroup_and_pidns = true,
			       .anyone = true};
	p->written = 0;
	event_emit_args(ctx, NULL, &e);
	return 0;
}

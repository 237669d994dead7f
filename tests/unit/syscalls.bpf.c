// SPDX-License-Identifier: GPL-2.0
/*
 * A source for the test of sources: an event at each system call, worth its number. Calls by a
 * number that is a multiple of 16 are taken as if the program had been at another one already.
 */
#include "bpf/event.bpf.h"

SEC("raw_tp/sys_enter")
int syscall(struct bpf_raw_tracepoint_args *ctx)
{
	struct scratch *s = get_scratch();
	__u64 number = ctx->args[1];

	if (!s)
		return 0;
	if (number % 16 == 0)
		s->ring.writing = 1;
	event_emit(ctx, NULL, number);
	if (number % 16 == 0)
		s->ring.writing = 0;
	return 0;
}

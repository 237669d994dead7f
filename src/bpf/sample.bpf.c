// SPDX-License-Identifier: GPL-2.0
/*
 * sample: an event is what ran on a CPU when a perf event had counted as far as it should: 99 times
 * a second for the CPU's clock, or once in so many cycles.
 */
#include "bpf/event.bpf.h"

SEC("perf_event")
int sample(struct bpf_perf_event_data *ctx)
{
	return event_take(ctx, &ctx->regs, ctx->sample_period);
}

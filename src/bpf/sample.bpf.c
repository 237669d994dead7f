// SPDX-License-Identifier: GPL-2.0
/*
 * sample: an event is what ran on a CPU when a perf event had counted as far as it should: 99 times
 * a second for the CPU's clock, or once in so many cycles.
 */
#include "bpf/event.bpf.h"

EVENT_PROGRAM("perf_event", sample, struct bpf_perf_event_data, &ctx->regs, ctx->sample_period)

// SPDX-License-Identifier: GPL-2.0
/*
 * page_fault: an event is a program that touched memory that was not there, one in as many as the
 * perf event says.
 */
#include "bpf/event.bpf.h"

EVENT_PROGRAM("perf_event", page_fault, struct bpf_perf_event_data, &ctx->regs, ctx->sample_period)

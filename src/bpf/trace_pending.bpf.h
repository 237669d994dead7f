/*
 * trace_pending: what is known of a thread's call between its beginning and its end; shared by
 * trace.bpf.c, which writes it, and trace_stack.bpf.c.
 */
#pragma once

#include "bpf/trace_wire.h"

#define THREADS_MAX 16384

struct { /* by thread; until that ends */
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, THREADS_MAX);
	__type(key, __u32);
	__type(value, struct trace_pending);
} pending SEC(".maps");

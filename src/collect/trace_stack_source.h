/*
 * trace_stack_source: the source of bpf/trace_stack.bpf.c: the stack of each call that a tracer
 * (tracer.h) has written a record of. The tracer attaches it, behind itself.
 */
#pragma once

#include "collect/source.h"

extern const struct source_kind trace_stack_source;

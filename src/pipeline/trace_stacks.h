/*
 * trace_stacks: the stacks of traced calls, `smolder trace -k`.
 *
 * The BPF side walks the user's stack of each call that is shown, as it does for samples; here
 * they become functions, and wait for their record. A stack that was seen before costs a lookup.
 * They come somewhat later than the records, those of a program that has just started when its
 * unwind tables are made.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/loop.h"
#include "bpf/trace_wire.h"
#include "collect/sampler.h"
#include "profile/profile.h"

struct trace_stacks;

/* `cache_dir`: of unwind tables; NULL: none. 0, or -errno with *ret_err filled in. */
int trace_stacks_new(const char *cache_dir, struct trace_stacks **ret,
		     struct sampler_error *ret_err);
void trace_stacks_free(struct trace_stacks *s); /* NULL is fine */

struct source *trace_stacks_source(struct trace_stacks *s);               /* for the tracer */
const struct profile *trace_stacks_profile(const struct trace_stacks *s); /* what the ids are of */

int trace_stacks_watch(struct trace_stacks *s, struct loop *l); /* 0 or -errno */
void trace_stacks_drain(struct trace_stacks *s);

/* The tracer has stopped: nothing is on its way any longer. */
void trace_stacks_finish(struct trace_stacks *s);

/*
 * The stack of a record's call; false: it is not there yet, or was lost. Records are asked for in
 * order of their ends: what is earlier than this one is forgotten.
 */
bool trace_stacks_find(struct trace_stacks *s, const struct trace_record *r, uint32_t *ret_stack);

/* Forgets those of calls that ended before `from`. */
void trace_stacks_forget(struct trace_stacks *s, uint64_t from);

uint64_t trace_stacks_lost(const struct trace_stacks *s); /* the ring was full */

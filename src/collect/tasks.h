/*
 * tasks: reads the kernel's own accounts of every thread there is (bpf/task_iter.h), by an
 * iterator: a thousand threads take about a millisecond, and no file of /proc is opened.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "bpf/task_iter.h"
#include "collect/sampler.h"

struct tasks;

struct tasks_options {
	struct wire_filter filter;
	const uint32_t *targets; /* pids, or tids when filter.by_tid */
	size_t target_count;
};

/* 0, or -errno with *ret_err filled in. */
int tasks_new(const struct tasks_options *o, struct tasks **ret, struct sampler_error *ret_err);
void tasks_free(struct tasks *t);

/* Each thread that the filter lets pass, as of now; borrowed for the call. 0 or -errno. */
typedef void task_fn(void *ctx, const struct task_account *a);
int tasks_read(struct tasks *t, task_fn *fn, void *ctx);

/*
 * rules: what functions cost, as counters: a selector and a function make one.
 *
 * A rule counts the time of every sample of the series that its selector selects in whose stack its
 * function stands, at the leaf or as a caller: what the function costs with all that it calls, as
 * it is stored. Each window is counted once, when it was stored.
 *
 * A dictionary is looked at once: for each collector there is a view of it, in which every stack
 * has the rules whose function it holds.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/window.h"

#define RULES_MAX      32
#define RULES_NAME_MAX 64

struct rules;

struct rules_error {
	char text[256]; /* one sentence */
};

struct rules *rules_new(void);
void rules_free(struct rules *r); /* NULL is fine */

/*
 * `name` is its label: letters, digits and _. `query` is a selector (selector.h); `function` a name
 * or a pattern (pipeline/name_pattern.h). 0; -EINVAL with *ret_err.
 */
int rules_add(struct rules *r, const char *name, const char *query, const char *function,
	      struct rules_error *ret_err);

struct rules_view {                         /* embedded; zero-initialised is empty */
	uint32_t *frames, *stacks, *series; /* by id: the rules that it is of, one bit each */
	uint32_t frame_count, stack_count, series_count;
};

void rules_view_done(struct rules_view *v);
size_t rules_view_bytes(const struct rules_view *v);

/* Adds up a window that was stored. `v` is the view of `dict`, always the same one. */
void rules_window(struct rules *r, struct rules_view *v, const struct profile *dict,
		  const struct window *w);

size_t rules_count(const struct rules *r);
const char *rules_name(const struct rules *r, size_t rule);
double rules_seconds(const struct rules *r, size_t rule);

/*
 * querier_internal: what the files of Grafana's queries share.
 *
 *	querier.c           the calls, and those that list things and make lines
 *	querier_profiles.c  those that sum up profiles
 *	pyroscope_render.c  GET /pyroscope/render and its like
 */
#pragma once

#include "render/flamebearer.h"
#include "serve/catalog.h"
#include "serve/connect.h"
#include "serve/querier.pb-c.h"

#define QUERIER_NODES_DEFAULT 8192
#define QUERIER_NODES_MAX     100000
#define QUERIER_STEPS_MAX     11000

/* A range in ms since 1970; 0 is the last hour, or now. An empty one is as short as can be. */
void querier_range(int64_t start, int64_t end, uint64_t *ret_from_ms, uint64_t *ret_to_ms);

/*
 * Lines with exactly this step, each at the values of the labels `by`: a window that is in two
 * steps is divided between them. NaN: nothing was recorded. Largest total first. False after
 * setting the error.
 */
struct querier_line {
	char *key; /* catalog_lines */
	double total;
	double *values;
};

struct querier_lines { /* embedded */
	struct querier_line *all;
	uint32_t count;
	uint64_t start_ms, step_ms;
	uint32_t steps;
};

bool querier_lines(struct query_job *job, struct store *s, const struct catalog_selection *c,
		   const char *const *by, size_t by_count, double step_s,
		   struct querier_lines *ret);
void querier_lines_done(struct querier_lines *l);

/* The flame tree of a profile, compared with `base` (or NULL); 0 nodes: the default. */
struct tree *querier_tree(const struct profile *p, const struct profile *base, int64_t max_nodes);

void querier_stacktraces(struct connect_call *c, struct store *s);
void querier_span_profile(struct connect_call *c, struct store *s);
void querier_merge_profile(struct connect_call *c, struct store *s);
void querier_diff(struct connect_call *c, struct store *s);

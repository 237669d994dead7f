/*
 * hot_lines: the source line each function was seen at most often.
 *
 * The samples of one function are spread over many lines of its source. The one shown beside its
 * name has most of the function's samples, those of what it called from that line included; among
 * equals, the first line.
 */
#pragma once

#include <stdint.h>

#include "base/index.h"

struct hot_line {
	uint32_t source; /* string; 0: not known */
	uint32_t line;   /* 0: not known */
};

struct hot_lines {              /* zero-initialised is empty */
	struct seen_line *seen; /* private; entry 0 is none */
	uint32_t count, cap;
	struct index index;
};

void hot_lines_add(struct hot_lines *s, uint32_t function, struct hot_line at, uint64_t weight);
void hot_lines_done(struct hot_lines *s);

/* By function, for ids less than `functions`; NULL when nothing was added. Caller frees. */
struct hot_line *hot_lines_most(const struct hot_lines *s, uint32_t functions);

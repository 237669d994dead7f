/*
 * rules: the distinct rules of all files, each with a small number that rows carry.
 *
 * Compilers write few: 300 to 1,500 on a whole machine. Rule 0 is UNWIND_UNKNOWN, rule 1
 * UNWIND_OTHER. Numbers are never taken back, since rows of any file, also in the kernel, may carry
 * them; so a full table, or a file that brings more than its share, gets rule 1 for what is new,
 * and that is counted. Embedded; not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "base/index.h"
#include "bpf/unwind.h"

#define RULES_UNKNOWN  0
#define RULES_OTHER    1
#define RULES_PER_FILE 2048 /* new ones; more is an attempt to use up the table */

struct rules {
	struct unwind_rule *all; /* borrowed; moves when it grows */
	uint32_t count;
	uint64_t refused; /* times that rule 1 stood in for another */

	uint32_t cap;
	uint32_t file_end; /* no new ones past this count */
	struct index index;
};

void rules_init(struct rules *r);
void rules_done(struct rules *r);

/* What follows belongs to one file. */
void rules_begin_file(struct rules *r);
uint16_t rules_put(struct rules *r, struct unwind_rule rule);

/*
 * rules: the distinct unwind rules of all files, each with a small number that rows refer to.
 *
 * Compilers produce few: 300 to 1,500 on a whole machine. Rule 0 is UNWIND_UNKNOWN, rule 1
 * UNWIND_UNSUPPORTED. A number is never reused, since rows of any file, also in the kernel, may
 * refer to it. When the table is full, or a file adds more than RULES_PER_FILE, its new rules
 * become rule 1, which is counted. Embedded; not thread-safe.
 */
#pragma once

#include <stdint.h>

#include "base/index.h"
#include "bpf/unwind.h"

#define RULES_UNKNOWN     0
#define RULES_UNSUPPORTED 1
#define RULES_PER_FILE    2048 /* new rules; more would be an attempt to fill the table */

struct rules {
	struct unwind_rule *all; /* read-only for others; moves when it grows */
	uint32_t count;
	uint64_t refused; /* how often rule 1 replaced another */

	uint32_t cap;
	uint32_t file_end; /* limit of `count` for the current file */
	struct index index;
};

void rules_init(struct rules *r);
void rules_done(struct rules *r);

/* The following rules are those of one file. */
void rules_begin_file(struct rules *r);
uint16_t rules_put(struct rules *r, struct unwind_rule rule);

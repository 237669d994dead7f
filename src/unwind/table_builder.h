/*
 * builder: makes unwind tables of files on a thread of its own, so that parsing a library of a
 * million rows never delays a drain; at a priority somewhat below that.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind_table.h"

struct table_builder;

#define TABLE_BUILDER_SEGMENTS_MAX 8

struct table_builder_segment { /* an executable part of a file */
	uint64_t offset, size; /* in the file */
	uint64_t vaddr;
};

struct table_builder_result {
	uint32_t file; /* as asked for */
	int error;     /* 0, or why there is no table to be had: see unwind_table_build() */
	struct unwind_table *table;
	struct table_builder_segment segments[TABLE_BUILDER_SEGMENTS_MAX];
	uint32_t segment_count;
	bool is_v8; /* the JavaScript engine is in it */
	/* The rules that the table added to those of earlier results. */
	struct unwind_rule *rules;
	uint32_t first_rule, rule_count;
};

void table_builder_result_done(struct table_builder_result *r);

/* `cache_dir` keeps tables across runs; NULL: none. */
struct table_builder *table_builder_new(const char *cache_dir);
int table_builder_cache_error(const struct table_builder *b); /* 0, or why tables are not kept */
void table_builder_free(struct table_builder *b); /* waits for the table that is being made */

/* Takes fd. `file` comes back with the result. -1 asks for our own vdso. */
void table_builder_want(struct table_builder *b, uint32_t file, int fd);

/* The next table that is done, if any. */
bool table_builder_next(struct table_builder *b, struct table_builder_result *ret);

/* Waits until nothing is being made, at most so long. */
void table_builder_wait(struct table_builder *b, unsigned ms);

/*
 * table_builder: builds the unwind tables of files on two threads of its own, with a somewhat lower
 * priority, so that parsing a library with a million rows never delays draining the rings. One of
 * them builds only small tables: a program that has just started does not wait for a browser's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/unwind_table.h"

struct table_builder;

#define TABLE_BUILDER_SEGMENTS_MAX 8

struct table_builder_segment { /* an executable segment of a file */
	uint64_t offset, size; /* in the file */
	uint64_t vaddr;
};

struct table_builder_result {
	uint32_t file; /* as requested */
	int error;     /* 0, or why there is no table: see unwind_table_build() */
	struct unwind_table *table;
	struct table_builder_segment segments[TABLE_BUILDER_SEGMENTS_MAX];
	uint32_t segment_count;
	bool is_v8; /* it contains V8, the JavaScript engine */
	/* The rules that are new since the previous result. */
	struct unwind_rule *rules;
	uint32_t first_rule, rule_count;
};

void table_builder_result_done(struct table_builder_result *r);

/* `cache_dir`: where tables are kept between runs (unwind_table_cache.h); NULL: nowhere. */
struct table_builder *table_builder_new(const char *cache_dir);
int table_builder_cache_error(const struct table_builder *b); /* 0, or why tables are not kept */
void table_builder_free(struct table_builder *b); /* waits for the tables that are being made */

/* Requests a table. Takes fd (-1: our own vdso); `file` comes back with the result. */
void table_builder_want(struct table_builder *b, uint32_t file, int fd);

/* The next finished table; false if there is none. */
bool table_builder_next(struct table_builder *b, struct table_builder_result *ret);

/* Waits until all requested tables are built, for at most `ms`. */
void table_builder_wait(struct table_builder *b, unsigned ms);

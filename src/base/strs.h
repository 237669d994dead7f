/*
 * strs: a pool that keeps each distinct string once and names it by a dense id.
 *
 * Ids start at 1; 0 is the empty string. Strings may hold any bytes but NUL ends them for readers.
 * Bounded only by what callers put in. Not thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/index.h"
#include "base/mem.h"

struct str {
	const char *bytes;
	uint32_t len;
};

struct strs { /* embedded; zero-initialised is empty */
	struct index index;
	struct arena bytes;
	struct str *by_id;
	uint32_t count; /* ids handed out, 0 included once anything was put */
	uint32_t cap;
};

uint32_t strs_put(struct strs *s, const char *str, size_t len);
uint32_t strs_find(const struct strs *s, const char *str, size_t len); /* 0 if it is not there */
const char *strs_get(const struct strs *s, uint32_t id); /* borrowed, NUL-terminated */
size_t strs_len(const struct strs *s, uint32_t id);
size_t strs_bytes(const struct strs *s);
void strs_done(struct strs *s);

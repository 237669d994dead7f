/*
 * string_pool: stores each distinct string once and gives it a dense id.
 *
 * Ids start at 1; 0 is the empty string. Strings may contain any bytes, but string_pool_get() ends
 * at a NUL. Has no cap of its own. Not thread-safe.
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

struct string_pool { /* embedded; zero-initialised is empty */
	struct index index;
	struct arena bytes;
	struct str *by_id;
	uint32_t count; /* ids in use, including 0 once there is any */
	uint32_t cap;
};

uint32_t string_pool_put(struct string_pool *s, const char *str, size_t len);
uint32_t string_pool_find(const struct string_pool *s, const char *str,
			  size_t len); /* 0: not there */
const char *string_pool_get(const struct string_pool *s,
			    uint32_t id); /* borrowed, NUL-terminated */
size_t string_pool_len(const struct string_pool *s, uint32_t id);
size_t string_pool_bytes(const struct string_pool *s);
void string_pool_done(struct string_pool *s);

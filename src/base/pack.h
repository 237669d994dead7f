/*
 * pack: encodes integers and strings as bytes, for files and messages, and decodes them.
 *
 * Integers are LEB128 (7 bits per byte), a string is its length and its bytes. Decoding never reads
 * past the end: if something does not fit, `bad` is set, and every further read returns 0 or "".
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack { /* embedded; zero-initialised is empty */
	uint8_t *bytes;
	size_t len, cap;
};

void pack_done(struct pack *p);
void pack_raw(struct pack *p, const void *bytes, size_t len);
void pack_u64(struct pack *p, uint64_t v);
void pack_i64(struct pack *p, int64_t v); /* zigzag: small negative numbers are short, too */
void pack_str(struct pack *p, const char *s, size_t len);

struct unpack {
	const uint8_t *at, *end;
	bool bad;
};

uint64_t unpack_long(struct unpack *u); /* for unpack_u64(): more than one byte, or bad */

static inline uint64_t unpack_u64(struct unpack *u)
{
	return u->at < u->end && *u->at < 0x80 && !u->bad ? *u->at++ : unpack_long(u);
}

/* More than `max` is bad. */
static inline uint64_t unpack_max(struct unpack *u, uint64_t max)
{
	uint64_t v = unpack_u64(u);

	if (v <= max)
		return v;
	u->bad = true;
	return 0;
}

int64_t unpack_i64(struct unpack *u);
const void *unpack_raw(struct unpack *u, size_t len); /* borrowed; NULL when bad */
/* Borrowed, not NUL-terminated. Longer than `max` is bad. */
const char *unpack_str(struct unpack *u, size_t max, size_t *ret_len);

/*
 * rowbinary: the integers of ClickHouse's format RowBinary, beside what base/pack.h writes and
 * reads: its lengths and texts are the same.
 */
#pragma once

#include <string.h>

#include "base/pack.h"

#define ROWBINARY_HASH 16 /* bytes of a FixedString(16) */

static inline void rowbinary_put(struct pack *p, uint64_t v, size_t bytes)
{
	uint8_t out[8];

	for (size_t i = 0; i < bytes; i++)
		out[i] = (uint8_t)(v >> (8 * i));
	pack_raw(p, out, bytes);
}

static inline uint64_t rowbinary_get(struct unpack *in, size_t bytes)
{
	const uint8_t *at = unpack_raw(in, bytes);
	uint64_t v = 0;

	for (size_t i = 0; at && i < bytes; i++)
		v |= (uint64_t)at[i] << (8 * i);
	return v;
}

/* Zeros when the rows are bad. */
static inline void rowbinary_get_bytes(struct unpack *in, void *ret, size_t len)
{
	const void *at = unpack_raw(in, len);

	if (at)
		memcpy(ret, at, len);
	else
		memset(ret, 0, len);
}

/* Whether there is another row; what is malformed ends them, and is `bad`. */
static inline bool rowbinary_more(const struct unpack *in)
{
	return !in->bad && in->at < in->end;
}

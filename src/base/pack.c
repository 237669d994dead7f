#include "base/pack.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void pack_done(struct pack *p)
{
	free(p->bytes);
	*p = (struct pack){};
}

static uint8_t *room(struct pack *p, size_t len)
{
	if (p->cap - p->len < len) {
		p->cap = MAX(p->cap * 2, p->len + len + 64);
		p->bytes = mem_resize_array(p->bytes, p->cap, 1);
	}
	return p->bytes + p->len;
}

void pack_raw(struct pack *p, const void *bytes, size_t len)
{
	if (!len)
		return;
	memcpy(room(p, len), bytes, len);
	p->len += len;
}

void pack_u64(struct pack *p, uint64_t v)
{
	uint8_t *at = room(p, 10);
	size_t n = 0;

	while (v >= 0x80) {
		at[n++] = (uint8_t)v | 0x80;
		v >>= 7;
	}
	at[n++] = (uint8_t)v;
	p->len += n;
}

void pack_i64(struct pack *p, int64_t v)
{
	pack_u64(p, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

void pack_str(struct pack *p, const char *s, size_t len)
{
	pack_u64(p, len);
	pack_raw(p, s, len);
}

uint64_t unpack_long(struct unpack *u)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && u->at < u->end && !u->bad; shift += 7) {
		uint8_t byte = *u->at++;
		if (shift == 63 && byte > 1)
			break;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80)
			return v;
	}
	u->bad = true;
	return 0;
}

int64_t unpack_i64(struct unpack *u)
{
	uint64_t v = unpack_u64(u);

	return (int64_t)(v >> 1 ^ -(v & 1));
}

const void *unpack_raw(struct unpack *u, size_t len)
{
	const uint8_t *at = u->at;

	if (u->bad || len > (size_t)(u->end - u->at)) {
		u->bad = true;
		return NULL;
	}
	u->at += len;
	return at;
}

const char *unpack_str(struct unpack *u, size_t max, size_t *ret_len)
{
	size_t len = unpack_max(u, max);
	const char *s = unpack_raw(u, len);

	*ret_len = s ? len : 0;
	return s ? s : "";
}

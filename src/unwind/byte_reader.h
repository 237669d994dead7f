/*
 * byte_reader: reads numbers from untrusted bytes, for the tables of DWARF.
 *
 * A read past the end, or of an invalid number, sets `bad`, moves to the end and returns 0, so it
 * is enough to check `bad` once after several reads. Embedded.
 */
#pragma once

#include <dwarf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct byte_reader {
	const uint8_t *at, *end; /* borrowed */
	bool bad;
};

static inline size_t byte_reader_left(const struct byte_reader *b)
{
	return (size_t)(b->end - b->at);
}

static inline uint64_t byte_reader_fail(struct byte_reader *b)
{
	b->bad = true;
	b->at = b->end;
	return 0;
}

static inline const uint8_t *byte_reader_skip(struct byte_reader *b, uint64_t len)
{
	const uint8_t *at = b->at;

	if (len > byte_reader_left(b)) {
		byte_reader_fail(b);
		return b->end;
	}
	b->at += len;
	return at;
}

/* `size` bytes of at most 8, little-endian. */
static inline uint64_t byte_reader_uint(struct byte_reader *b, unsigned size)
{
	uint64_t v = 0;

	if (size > byte_reader_left(b))
		return byte_reader_fail(b);
	memcpy(&v, b->at, size);
	b->at += size;
	return v;
}

static inline int64_t byte_reader_int(struct byte_reader *b, unsigned size)
{
	unsigned unused = 64 - 8 * size;

	return (int64_t)(byte_reader_uint(b, size) << unused) >> unused;
}

/* A LEB128 number of at most ten bytes (64 bits), and how many bits it was written with. */
static inline uint64_t byte_reader_leb(struct byte_reader *b, unsigned *ret_bits)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 70 && b->at < b->end; shift += 7) {
		uint8_t byte = *b->at++;
		v |= (uint64_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80)) {
			*ret_bits = shift + 7;
			return v;
		}
	}
	*ret_bits = 64;
	return byte_reader_fail(b);
}

static inline uint64_t byte_reader_uleb(struct byte_reader *b)
{
	unsigned bits;

	return byte_reader_leb(b, &bits);
}

static inline int64_t byte_reader_sleb(struct byte_reader *b)
{
	unsigned bits;
	uint64_t v = byte_reader_leb(b, &bits);

	return bits < 64 && v >> (bits - 1) & 1 ? (int64_t)(v | ~0ull << bits) : (int64_t)v;
}

/*
 * A pointer in one of the encodings DW_EH_PE_…; `here` is the address of the bytes at b->at, `data`
 * what DW_EH_PE_datarel is relative to. Encodings that compilers do not use in these tables
 * (indirect, aligned, relative to the text or the function) are bad.
 */
static inline uint64_t byte_reader_pointer(struct byte_reader *b, uint8_t encoding, uint64_t here,
					   uint64_t data)
{
	uint64_t v, base;

	switch (encoding & 0xf0) {
	case DW_EH_PE_absptr:
		base = 0;
		break;
	case DW_EH_PE_pcrel:
		base = here;
		break;
	case DW_EH_PE_datarel:
		base = data;
		break;
	default:
		return byte_reader_fail(b);
	}
	switch (encoding & 0x0f) {
	case DW_EH_PE_uleb128:
		v = byte_reader_uleb(b);
		break;
	case DW_EH_PE_udata2:
		v = byte_reader_uint(b, 2);
		break;
	case DW_EH_PE_udata4:
		v = byte_reader_uint(b, 4);
		break;
	case DW_EH_PE_sleb128:
		v = (uint64_t)byte_reader_sleb(b);
		break;
	case DW_EH_PE_sdata2:
		v = (uint64_t)byte_reader_int(b, 2);
		break;
	case DW_EH_PE_sdata4:
		v = (uint64_t)byte_reader_int(b, 4);
		break;
	case DW_EH_PE_absptr:
	case DW_EH_PE_udata8:
	case DW_EH_PE_sdata8:
		v = byte_reader_uint(b, 8);
		break;
	default:
		return byte_reader_fail(b);
	}
	return b->bad ? 0 : base + v;
}

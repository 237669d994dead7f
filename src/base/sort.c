#include "base/sort.h"

#include <stdint.h>

#include "base/mem.h"

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)
#define FEW_BYTES  16384 /* fewer bytes than the counters of one digit */

/* Inlined, so that sizes are constants in the loops. */
#define INLINE static inline __attribute__((always_inline))

INLINE uint64_t key_of(const uint8_t *rec, size_t key_size)
{
	uint64_t key = 0;

	memcpy(&key, rec, key_size);
	return key;
}

/* The end of the sorted run that starts at `at`. */
INLINE const uint8_t *run_end(const uint8_t *at, const uint8_t *end, size_t size, size_t key_size)
{
	if (at == end)
		return end;
	for (at += size; at < end; at += size)
		if (key_of(at, key_size) < key_of(at - size, key_size))
			break;
	return at;
}

/* Merges adjacent runs in pairs until there is only one. */
INLINE void merge(uint8_t *recs, size_t count, size_t size, size_t key_size)
{
	uint8_t room[FEW_BYTES], *from = recs, *to = room;

	for (size_t runs = 2; runs > 1;) {
		const uint8_t *end = from + count * size, *next = from;
		uint8_t *put = to;
		for (runs = 0; next < end; runs++) {
			const uint8_t *a = next, *a_end = run_end(a, end, size, key_size);
			const uint8_t *b = a_end, *b_end = run_end(b, end, size, key_size);
			next = b_end;
			while (a < a_end && b < b_end) {
				bool second = key_of(b, key_size) < key_of(a, key_size);
				memcpy(put, second ? b : a, size);
				put += size;
				a += second ? 0 : size;
				b += second ? size : 0;
			}
			memcpy(put, a, (size_t)(a_end - a));
			put += a_end - a;
			memcpy(put, b, (size_t)(b_end - b));
			put += b_end - b;
		}
		uint8_t *t = from;
		from = to;
		to = t;
	}
	if (from != recs)
		memcpy(recs, from, count * size);
}

/* Least significant digit first. */
INLINE void radix(uint8_t *recs, size_t count, size_t size, size_t key_size)
{
	uint64_t last = 0, key, varies = 0, first = 0;
	bool in_order = true;

	for (size_t i = 0; i < count; i++) {
		key = key_of(recs + i * size, key_size);
		if (i == 0)
			first = key;
		in_order &= key >= last;
		varies |= key ^ first;
		last = key;
	}
	if (in_order)
		return;
	if (count * size <= FEW_BYTES) {
		merge(recs, count, size, key_size);
		return;
	}

	CLEANUP(freep) uint8_t *room = mem_resize_array(NULL, count, size);
	uint8_t *from = recs, *to = room;
	for (unsigned shift = 0; shift < key_size * 8; shift += DIGIT_BITS) {
		if (!(varies >> shift & (DIGITS - 1)))
			continue;
		size_t at[DIGITS] = {};
		for (size_t i = 0; i < count; i++) {
			key = key_of(from + i * size, key_size);
			at[key >> shift & (DIGITS - 1)]++;
		}
		for (size_t i = 0, sum = 0; i < DIGITS; i++) {
			size_t n = at[i];
			at[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++) {
			key = key_of(from + i * size, key_size);
			memcpy(to + at[key >> shift & (DIGITS - 1)]++ * size, from + i * size,
			       size);
		}
		uint8_t *t = from;
		from = to;
		to = t;
	}
	if (from != recs)
		memcpy(recs, from, count * size);
}

void sort_by_u32(void *records, size_t count, size_t record_size)
{
	if (record_size == 8)
		radix(records, count, 8, 4);
	else if (record_size == 12)
		radix(records, count, 12, 4);
	else
		radix(records, count, record_size, 4);
}

void sort_by_u64(void *records, size_t count, size_t record_size)
{
	if (record_size == 16)
		radix(records, count, 16, 8);
	else
		radix(records, count, record_size, 8);
}

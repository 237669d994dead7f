#include "base/sort.h"

#include <stdint.h>

#include "base/mem.h"

#define DIGIT_BITS 11
#define DIGITS     (1u << DIGIT_BITS)

/* Least significant digit first. Inlined, so that sizes are constants in the loops below. */
static inline __attribute__((always_inline)) void radix(uint8_t *recs, size_t count, size_t size,
							size_t key_size)
{
	uint64_t last = 0, key, varies = 0, first = 0;
	bool in_order = true;

	for (size_t i = 0; i < count; i++) {
		key = 0;
		memcpy(&key, recs + i * size, key_size);
		if (i == 0)
			first = key;
		in_order &= key >= last;
		varies |= key ^ first;
		last = key;
	}
	if (in_order)
		return;

	CLEANUP(freep) uint8_t *room = mem_resize_array(NULL, count, size);
	uint8_t *from = recs, *to = room;
	for (unsigned shift = 0; shift < key_size * 8; shift += DIGIT_BITS) {
		if (!(varies >> shift & (DIGITS - 1)))
			continue;
		size_t at[DIGITS] = {};
		for (size_t i = 0; i < count; i++) {
			key = 0;
			memcpy(&key, from + i * size, key_size);
			at[key >> shift & (DIGITS - 1)]++;
		}
		for (size_t i = 0, sum = 0; i < DIGITS; i++) {
			size_t n = at[i];
			at[i] = sum;
			sum += n;
		}
		for (size_t i = 0; i < count; i++) {
			key = 0;
			memcpy(&key, from + i * size, key_size);
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

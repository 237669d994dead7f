/*
 * Any bytes as what lies in the store's files under zstd: the first says whether they are rows,
 * sample times or entries of a dictionary.
 */
#include <stdint.h>
#include <stdlib.h>

#include "store/columns.h"
#include "store/dict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void rows(const struct pack *blob)
{
	struct columns_reader r = {};
	struct columns_row row;
	struct columns all = {};
	struct pack out = {};
	uint64_t count = 0;
	uint32_t series;

	if (columns_open(&r, blob->bytes, blob->len, 10101010) == 0) {
		for (uint32_t i = 0; i < r.window_count; i++) {
			MEM_GROW(all.windows, all.window_count, all.window_cap);
			all.windows[all.window_count++] = r.windows[i];
		}
		while (columns_next(&r, &row)) {
			if (COLUMNS_WINDOW(row.key) >= r.window_count)
				abort();
			columns_add(&all, COLUMNS_SERIES(row.key), COLUMNS_STACK(row.key),
				    COLUMNS_WINDOW(row.key), row.count, row.value, NULL, 0);
		}
		/* What is sorted is written and read as it is. */
		columns_sort_merge(&all);
		columns_write(&all, 10101010, 1, &r.compressor, &out);
		if (columns_open(&r, out.bytes, out.len, 10101010) < 0)
			abort();
		for (; columns_next(&r, &row); count++)
			if (row.key != all.rows[count].key || row.count != all.rows[count].count ||
			    row.value != all.rows[count].value)
				abort();
		if (r.bad || count != all.row_count)
			abort();
	}
	if (columns_open(&r, blob->bytes, blob->len, 0) == 0)
		while (columns_next_series(&r, &series))
			;
	columns_done(&all);
	pack_done(&out);
	columns_reader_done(&r);
}

static void times(const struct pack *blob)
{
	struct columns_times t = {};
	uint16_t *steps = NULL;
	size_t cap = 0;
	uint32_t known;

	if (columns_times_open(&t, blob->bytes, blob->len) == 0)
		for (uint64_t i = 0; i < t.rows && i < 10000; i++)
			if (!columns_times_next(&t, 1 + i % 7, &steps, &cap, &known))
				break;
	free(steps);
	columns_times_done(&t);
}

static void entries(const struct pack *blob)
{
	struct dict_view v = {};

	if (dict_view_add(&v, blob->bytes, blob->len) == 0) {
		for (uint32_t i = 1; i < v.stack_count; i++)
			if (v.stacks[i].parent >= i || v.stacks[i].frame >= v.frame_count)
				abort();
		for (uint32_t i = 1; i < v.frame_count; i++)
			if (v.frames[i].name >= v.string_count ||
			    v.frames[i].module >= v.module_count)
				abort();
		for (uint32_t i = 0; i < v.label_count; i++)
			if (v.labels[i].key >= v.string_count ||
			    v.labels[i].value >= v.string_count)
				abort();
		dict_view_add(&v, blob->bytes, blob->len);
	}
	dict_view_done(&v);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct compressor z = {};
	struct pack blob = {};

	if (!size)
		return 0;
	compressor_pack(&z, data + 1, size - 1, 1, &blob);
	if (data[0] % 4 == 0)
		rows(&blob);
	else if (data[0] % 4 == 1)
		times(&blob);
	else if (data[0] % 4 == 2)
		entries(&blob);
	else if (compressor_unpack(&z, data + 1, size - 1, 1 << 20, &(size_t){0}) == 0)
		compressor_pack(&z, z.bytes, 0, 1, &blob);
	pack_done(&blob);
	compressor_done(&z);
	return 0;
}

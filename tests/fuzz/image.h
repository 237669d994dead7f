/* What must hold of every image, whatever it was made from. */
#pragma once

#include "unwind/image.h"

static inline void check_image(const struct image *im, const struct rules *rules)
{
	uint32_t next = 0;

	if (im->page_count == 0 || im->page_count > IMAGE_PAGES_MAX)
		__builtin_trap();
	for (uint32_t p = 0; p < im->page_count; p++) {
		const struct unwind_row *rows = im->rows + im->pages[p].first;
		uint32_t count = im->pages[p].count;
		if (im->pages[p].first != next || count == 0 || count > im->row_count - next ||
		    rows[0].low != 0)
			__builtin_trap();
		for (uint32_t i = 0; i < count; i++)
			if (rows[i].rule >= rules->count || (i && rows[i].low <= rows[i - 1].low))
				__builtin_trap();
		next += count;
	}
	if (next != im->row_count)
		__builtin_trap();
}

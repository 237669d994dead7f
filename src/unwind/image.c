#include "unwind/image.h"

#include <errno.h>

#include "base/mem.h"
#include "unwind/flow.h"

#define PAGE_BYTES (1u << UNWIND_PAGE_BITS)

struct builder {
	struct image *im;
	struct rules *rules;
	uint32_t page_cap, row_cap;
	uint16_t rule; /* that holds at the end of what is built */
};

static void put(struct builder *b, uint16_t low, uint16_t rule)
{
	struct image *im = b->im;

	MEM_GROW(im->rows, im->row_count, b->row_cap);
	im->rows[im->row_count++] = (struct unwind_row){.low = low, .rule = rule};
	im->pages[im->page_count - 1].count++;
}

/* Opens pages up to that of an address; each begins with what holds at its start. */
static int open_pages(struct builder *b, uint64_t vaddr)
{
	struct image *im = b->im;
	uint64_t page = vaddr >> UNWIND_PAGE_BITS;

	if (im->page_count == 0)
		im->base_page = page;
	if (page - im->base_page >= IMAGE_PAGES_MAX)
		return -ERANGE;
	while (im->page_count <= page - im->base_page) {
		MEM_GROW(im->pages, im->page_count, b->page_cap);
		im->pages[im->page_count++] = (struct image_page){.first = im->row_count};
		put(b, 0, b->rule);
	}
	return 0;
}

static int add_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct builder *b = arg;
	uint16_t low = (uint16_t)(start & (PAGE_BYTES - 1));
	uint16_t id = rules_put(b->rules, rule);

	/* Two rules that were refused are one. */
	if (id == b->rule)
		return 0;
	/* The end of the last function needs no page of its own. */
	if (id == RULES_UNKNOWN && low == 0) {
		int r = open_pages(b, start - 1);
		b->rule = id;
		return r;
	}
	int r = open_pages(b, start);
	if (r < 0)
		return r;
	if (low == 0)
		b->im->rows[b->im->row_count - 1].rule = id;
	else
		put(b, low, id);
	b->rule = id;
	return 0;
}

int image_build(const struct elf_file *e, struct rules *rules, struct image **ret,
		struct cfi_stats *stats)
{
	CLEANUP(image_freep) struct image *im = mem_alloc(sizeof(*im));
	struct builder b = {.im = im, .rules = rules};

	rules_begin_file(rules);
	int r = flow_each(e, add_row, &b, &im->stats);
	if (stats)
		*stats = im->stats;
	if (r < 0)
		return r;
	if (im->page_count == 0)
		return -ENOENT;
	im->pages = mem_resize_array(im->pages, im->page_count, sizeof(*im->pages));
	im->rows = mem_resize_array(im->rows, im->row_count, sizeof(*im->rows));
	*ret = TAKE_PTR(im);
	return 0;
}

void image_free(struct image *im)
{
	if (!im)
		return;
	free(im->pages);
	free(im->rows);
	free(im);
}

size_t image_bytes(const struct image *im)
{
	return sizeof(*im) + im->page_count * sizeof(*im->pages) +
	       im->row_count * sizeof(*im->rows);
}

uint16_t image_find(const struct image *im, uint64_t vaddr)
{
	uint64_t page = (vaddr >> UNWIND_PAGE_BITS) - im->base_page;
	uint16_t low = (uint16_t)(vaddr & (PAGE_BYTES - 1));

	if (page >= im->page_count)
		return RULES_UNKNOWN;
	const struct unwind_row *row = im->rows + im->pages[page].first;
	for (uint32_t n = im->pages[page].count; n > 1;) {
		uint32_t half = n / 2;
		if (row[half].low <= low)
			row += half;
		n -= half;
	}
	return row->rule;
}

#include "unwind/unwind_table.h"

#include <errno.h>

#include "base/mem.h"
#include "unwind/flow.h"

#define PAGE_BYTES (1u << UNWIND_PAGE_BITS)

struct builder {
	struct unwind_table *table;
	struct rules *rules;
	uint32_t page_cap, row_cap;
	uint16_t rule; /* that applies at the end so far */
};

static void put(struct builder *b, uint16_t low, uint16_t rule)
{
	struct unwind_table *table = b->table;

	MEM_GROW(table->rows, table->row_count, b->row_cap);
	table->rows[table->row_count++] = (struct unwind_row){.low = low, .rule = rule};
	table->pages[table->page_count - 1].count++;
}

/* Adds pages up to that of an address; each begins with a row for its start. */
static int open_pages(struct builder *b, uint64_t vaddr)
{
	struct unwind_table *table = b->table;
	uint64_t page = vaddr >> UNWIND_PAGE_BITS;

	if (table->page_count == 0)
		table->base_page = page;
	if (page - table->base_page >= UNWIND_TABLE_PAGES_MAX)
		return -ERANGE;
	while (table->page_count <= page - table->base_page) {
		MEM_GROW(table->pages, table->page_count, b->page_cap);
		table->pages[table->page_count++] =
			(struct unwind_table_page){.first = table->row_count};
		put(b, 0, b->rule);
	}
	return 0;
}

static int add_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct builder *b = arg;
	uint16_t low = (uint16_t)(start & (PAGE_BYTES - 1));
	uint16_t id = rules_put(b->rules, rule);

	/* Two different rules may both have become RULES_UNSUPPORTED. */
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
		b->table->rows[b->table->row_count - 1].rule = id;
	else
		put(b, low, id);
	b->rule = id;
	return 0;
}

int unwind_table_build(const struct elf_file *e, struct rules *rules, struct unwind_table **ret,
		       struct cfi_stats *stats)
{
	CLEANUP(unwind_table_freep) struct unwind_table *table = mem_alloc(sizeof(*table));
	struct builder b = {.table = table, .rules = rules};

	rules_begin_file(rules);
	int r = flow_each(e, add_row, &b, &table->stats);
	if (stats)
		*stats = table->stats;
	if (r < 0)
		return r;
	if (table->page_count == 0)
		return -ENOENT;
	table->pages = mem_resize_array(table->pages, table->page_count, sizeof(*table->pages));
	table->rows = mem_resize_array(table->rows, table->row_count, sizeof(*table->rows));
	*ret = TAKE_PTR(table);
	return 0;
}

void unwind_table_free(struct unwind_table *table)
{
	if (!table)
		return;
	free(table->pages);
	free(table->rows);
	free(table);
}

size_t unwind_table_bytes(const struct unwind_table *table)
{
	return sizeof(*table) + table->page_count * sizeof(*table->pages) +
	       table->row_count * sizeof(*table->rows);
}

uint16_t unwind_table_find(const struct unwind_table *table, uint64_t vaddr)
{
	uint64_t page = (vaddr >> UNWIND_PAGE_BITS) - table->base_page;
	uint16_t low = (uint16_t)(vaddr & (PAGE_BYTES - 1));

	if (page >= table->page_count)
		return RULES_UNKNOWN;
	const struct unwind_row *row = table->rows + table->pages[page].first;
	for (uint32_t n = table->pages[page].count; n > 1;) {
		uint32_t half = n / 2;
		if (row[half].low <= low)
			row += half;
		n -= half;
	}
	return row->rule;
}

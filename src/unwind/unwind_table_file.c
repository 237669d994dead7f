#include "unwind/unwind_table_file.h"

#include <errno.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

static const char magic[8] = "smolder\x01";

struct file_layout {
	struct unwind_rule *rules;
	uint32_t *counts;
	struct unwind_row *rows;
};

static size_t size_of(const struct unwind_table_file_head *h)
{
	return sizeof(*h) + h->rule_count * sizeof(struct unwind_rule) +
	       h->page_count * sizeof(uint32_t) + h->row_count * sizeof(struct unwind_row);
}

static struct file_layout layout_of(const struct unwind_table_file_head *h, void *data)
{
	struct file_layout p = {.rules = (void *)((char *)data + sizeof(*h))};

	p.counts = (void *)(p.rules + h->rule_count);
	p.rows = (void *)(p.counts + h->page_count);
	return p;
}

uint64_t unwind_table_file_checksum(const void *data, size_t len)
{
	size_t skip = offsetof(struct unwind_table_file_head, version);

	return XXH3_64bits((const char *)data + skip, len - skip);
}

void *unwind_table_file_encode(const struct unwind_table *table, const struct rules *rules,
			       const struct unwind_table_file_origin *origin, size_t *ret_len)
{
	struct unwind_table_file_head h = {
		.version = UNWIND_TABLE_FILE_VERSION,
		.rule_count = 1,
		.page_count = table->page_count,
		.row_count = table->row_count,
		.base_page = table->base_page,
		.origin = *origin,
		.functions = table->stats.functions,
		.rows = table->stats.rows,
		.other = table->stats.other,
		.broken = table->stats.broken,
	};
	uint16_t to[UNWIND_RULES_MAX] = {}, from[UNWIND_RULES_MAX] = {};

	for (uint32_t i = 0; i < table->row_count; i++) {
		uint16_t rule = table->rows[i].rule;
		if (rule == RULES_UNKNOWN || to[rule])
			continue;
		from[h.rule_count] = rule;
		to[rule] = (uint16_t)h.rule_count++;
	}

	size_t len = size_of(&h);
	void *data = mem_resize_array(NULL, len, 1);
	struct file_layout p = layout_of(&h, data);
	for (uint32_t i = 0; i < h.rule_count; i++)
		p.rules[i] = rules->all[from[i]];
	for (uint32_t i = 0; i < table->page_count; i++)
		p.counts[i] = table->pages[i].count;
	for (uint32_t i = 0; i < table->row_count; i++)
		p.rows[i] = (struct unwind_row){table->rows[i].low, to[table->rows[i].rule]};
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(data, &h, sizeof(h));
	h.checksum = unwind_table_file_checksum(data, len);
	memcpy(data, &h, sizeof(h));
	*ret_len = len;
	return data;
}

static bool head_is_good(const struct unwind_table_file_head *h, const void *data, size_t len)
{
	return memcmp(h->magic, magic, sizeof(magic)) == 0 &&
	       h->version == UNWIND_TABLE_FILE_VERSION && h->rule_count >= 1 &&
	       h->rule_count <= UNWIND_RULES_MAX && h->page_count >= 1 &&
	       h->page_count <= UNWIND_TABLE_PAGES_MAX && h->row_count >= h->page_count &&
	       h->row_count <= CFI_ROWS_MAX + UNWIND_TABLE_PAGES_MAX &&
	       h->base_page <= (UINT64_MAX >> UNWIND_PAGE_BITS) - h->page_count &&
	       size_of(h) == len && h->checksum == unwind_table_file_checksum(data, len);
}

static bool rules_are_good(const struct unwind_rule *rules, uint32_t count)
{
	static const struct unwind_rule unknown;

	for (uint32_t i = 0; i < count; i++)
		if (rules[i].cfa > UNWIND_CFA_LAST || rules[i].fp > UNWIND_FP_LOST)
			return false;
	return memcmp(&rules[0], &unknown, sizeof(unknown)) == 0;
}

/*
 * Fills in pages and rows; false: pages are not made of all rows, in order, or a row has no rule.
 * Goes through the rows once, and without a way out, since there are millions of them.
 */
static bool take_rows(const struct unwind_table_file_head *h, const struct file_layout *p,
		      const uint16_t *to, struct unwind_table *ret)
{
	uint32_t next = 0;
	bool is_bad = false;

	for (uint32_t i = 0; i < h->page_count; i++) {
		uint32_t count = p->counts[i];
		int32_t before = -1;
		if (count == 0 || count > h->row_count - next || p->rows[next].low != 0)
			return false;
		for (uint32_t j = next; j < next + count; j++) {
			struct unwind_row row = p->rows[j];
			is_bad |= row.low <= before || row.rule >= h->rule_count;
			before = row.low;
			ret->rows[j] = (struct unwind_row){row.low, to[row.rule]};
		}
		ret->pages[i] = (struct unwind_table_page){.first = next, .count = count};
		next += count;
	}
	return !is_bad && next == h->row_count;
}

int unwind_table_file_decode(const void *data, size_t len, struct rules *rules,
			     struct unwind_table **ret)
{
	struct unwind_table_file_head h;
	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (!head_is_good(&h, data, len))
		return -EBADMSG;
	const struct file_layout p = layout_of(&h, (void *)data);
	if (!rules_are_good(p.rules, h.rule_count))
		return -EBADMSG;

	CLEANUP(unwind_table_freep) struct unwind_table *table = mem_alloc(sizeof(*table));
	uint16_t to[UINT16_MAX + 1]; /* of any number, also one that the file has no rule for */
	rules_begin_file(rules);
	for (uint32_t i = 0; i < h.rule_count; i++)
		to[i] = rules_put(rules, p.rules[i]);
	table->base_page = h.base_page;
	table->page_count = h.page_count;
	table->row_count = h.row_count;
	table->pages = mem_resize_array(NULL, h.page_count, sizeof(*table->pages));
	table->rows = mem_resize_array(NULL, h.row_count, sizeof(*table->rows));
	memset(to + h.rule_count, 0, sizeof(to) - h.rule_count * sizeof(*to));
	if (!take_rows(&h, &p, to, table))
		return -EBADMSG;
	table->stats = (struct cfi_stats){
		.functions = h.functions, .rows = h.rows, .other = h.other, .broken = h.broken};
	*ret = TAKE_PTR(table);
	return 0;
}

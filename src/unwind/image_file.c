#include "unwind/image_file.h"

#include <errno.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

static const char magic[8] = "smolder\x01";

struct parts {
	struct unwind_rule *rules;
	uint32_t *counts;
	struct unwind_row *rows;
};

static size_t size_of(const struct image_file_head *h)
{
	return sizeof(*h) + h->rule_count * sizeof(struct unwind_rule) +
	       h->page_count * sizeof(uint32_t) + h->row_count * sizeof(struct unwind_row);
}

static struct parts parts_of(const struct image_file_head *h, void *data)
{
	struct parts p = {.rules = (void *)((char *)data + sizeof(*h))};

	p.counts = (void *)(p.rules + h->rule_count);
	p.rows = (void *)(p.counts + h->page_count);
	return p;
}

uint64_t image_file_checksum(const void *data, size_t len)
{
	size_t skip = offsetof(struct image_file_head, version);

	return XXH3_64bits((const char *)data + skip, len - skip);
}

void *image_file_encode(const struct image *im, const struct rules *rules,
			const struct image_file_origin *origin, size_t *ret_len)
{
	struct image_file_head h = {
		.version = IMAGE_FILE_VERSION,
		.rule_count = 1,
		.page_count = im->page_count,
		.row_count = im->row_count,
		.base_page = im->base_page,
		.origin = *origin,
		.functions = im->stats.functions,
		.rows = im->stats.rows,
		.other = im->stats.other,
		.broken = im->stats.broken,
	};
	uint16_t to[UNWIND_RULES_MAX] = {}, from[UNWIND_RULES_MAX] = {};

	for (uint32_t i = 0; i < im->row_count; i++) {
		uint16_t rule = im->rows[i].rule;
		if (rule == RULES_UNKNOWN || to[rule])
			continue;
		from[h.rule_count] = rule;
		to[rule] = (uint16_t)h.rule_count++;
	}

	size_t len = size_of(&h);
	void *data = mem_resize_array(NULL, len, 1);
	struct parts p = parts_of(&h, data);
	for (uint32_t i = 0; i < h.rule_count; i++)
		p.rules[i] = rules->all[from[i]];
	for (uint32_t i = 0; i < im->page_count; i++)
		p.counts[i] = im->pages[i].count;
	for (uint32_t i = 0; i < im->row_count; i++)
		p.rows[i] = (struct unwind_row){im->rows[i].low, to[im->rows[i].rule]};
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(data, &h, sizeof(h));
	h.checksum = image_file_checksum(data, len);
	memcpy(data, &h, sizeof(h));
	*ret_len = len;
	return data;
}

static bool head_is_good(const struct image_file_head *h, const void *data, size_t len)
{
	return memcmp(h->magic, magic, sizeof(magic)) == 0 && h->version == IMAGE_FILE_VERSION &&
	       h->rule_count >= 1 && h->rule_count <= UNWIND_RULES_MAX && h->page_count >= 1 &&
	       h->page_count <= IMAGE_PAGES_MAX && h->row_count >= h->page_count &&
	       h->row_count <= CFI_ROWS_MAX + IMAGE_PAGES_MAX &&
	       h->base_page <= (UINT64_MAX >> UNWIND_PAGE_BITS) - h->page_count &&
	       size_of(h) == len && h->checksum == image_file_checksum(data, len);
}

static bool rules_are_good(const struct unwind_rule *rules, uint32_t count)
{
	static const struct unwind_rule unknown;

	for (uint32_t i = 0; i < count; i++)
		if (rules[i].cfa > UNWIND_CFA_LAST || rules[i].fp > UNWIND_FP_LOST)
			return false;
	return memcmp(&rules[0], &unknown, sizeof(unknown)) == 0;
}

/* Fills in the pages; false: they are not made of all rows, in order. */
static bool pages_are_good(const struct image_file_head *h, const struct parts *p,
			   struct image_page *pages)
{
	uint32_t next = 0;

	for (uint32_t i = 0; i < h->page_count; i++) {
		uint32_t count = p->counts[i];
		if (count == 0 || count > h->row_count - next || p->rows[next].low != 0)
			return false;
		for (uint32_t j = next + 1; j < next + count; j++)
			if (p->rows[j].low <= p->rows[j - 1].low)
				return false;
		pages[i] = (struct image_page){.first = next, .count = count};
		next += count;
	}
	return next == h->row_count;
}

int image_file_decode(const void *data, size_t len, struct rules *rules, struct image **ret)
{
	struct image_file_head h;
	if (len < sizeof(h))
		return -EBADMSG;
	memcpy(&h, data, sizeof(h));
	if (!head_is_good(&h, data, len))
		return -EBADMSG;
	const struct parts p = parts_of(&h, (void *)data);
	CLEANUP(image_freep) struct image *im = mem_alloc(sizeof(*im));
	im->pages = mem_resize_array(NULL, h.page_count, sizeof(*im->pages));
	if (!rules_are_good(p.rules, h.rule_count) || !pages_are_good(&h, &p, im->pages))
		return -EBADMSG;
	for (uint32_t i = 0; i < h.row_count; i++)
		if (p.rows[i].rule >= h.rule_count)
			return -EBADMSG;

	uint16_t to[UNWIND_RULES_MAX];
	rules_begin_file(rules);
	for (uint32_t i = 0; i < h.rule_count; i++)
		to[i] = rules_put(rules, p.rules[i]);
	im->base_page = h.base_page;
	im->page_count = h.page_count;
	im->row_count = h.row_count;
	im->rows = mem_resize_array(NULL, h.row_count, sizeof(*im->rows));
	for (uint32_t i = 0; i < h.row_count; i++)
		im->rows[i] = (struct unwind_row){p.rows[i].low, to[p.rows[i].rule]};
	im->stats = (struct cfi_stats){
		.functions = h.functions, .rows = h.rows, .other = h.other, .broken = h.broken};
	*ret = TAKE_PTR(im);
	return 0;
}

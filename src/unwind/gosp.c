#include "unwind/gosp.h"

#include <errno.h>

#include "base/mem.h"

/* Flags of a function, as Go's runtime/symtab.go has them. */
enum { TOP_FRAME = 1, SP_WRITE = 2, ASSEMBLY = 4 };

int gosp_init(struct gosp *g, const struct elf_file *e, uint64_t max)
{
	*g = (struct gosp){};
	int r = gopclntab_init(&g->table, e);
	if (r < 0)
		return r;
	const struct gopclntab *t = &g->table;
	if (t->flag_field == 0)
		return -ENOENT;
	uint64_t size = t->offset + t->size - t->values;
	if (t->records < t->values)
		return -EINVAL;
	if (size > max)
		return -EFBIG;
	CLEANUP(freep) uint8_t *data = mem_resize_array(NULL, size + 1, 1);
	r = elf_file_read(e, data, size, t->values);
	if (r < 0)
		return r;
	g->records = t->records - t->values;
	g->size = size;
	g->data = TAKE_PTR(data);
	return 0;
}

void gosp_done(struct gosp *g)
{
	free(g->data);
	*g = (struct gosp){};
}

static struct unwind_rule rule_of(int64_t moved, unsigned flags)
{
	if (moved < 0 || moved > INT32_MAX - 8)
		return (struct unwind_rule){.cfa = UNWIND_OTHER};
	struct unwind_rule rule = {.cfa = UNWIND_RSP, .cfa_offset = (int32_t)moved + 8};
	if (moved > 0 && (flags & ASSEMBLY)) {
		rule.rbp = UNWIND_RBP_LOST;
	} else if (moved > 0) {
		rule.rbp = UNWIND_RBP_AT_CFA;
		rule.rbp_offset = -16;
	}
	return rule;
}

static int nonsense(uint64_t at, cfa_row_fn *row, void *arg)
{
	int r = row(arg, at, (struct unwind_rule){.cfa = UNWIND_OTHER});

	return r ? r : -EBADMSG;
}

/*
 * A table of values is pairs of LEB128 numbers: by how much the value changes (zigzag), and for how
 * many bytes of code it then holds; a change of 0 ends it, but for the first. Values begin at -1.
 */
static int run_values(struct bytes b, unsigned flags, uint64_t at, uint64_t end, uint64_t *budget,
		      cfa_row_fn *row, void *arg)
{
	int64_t moved = -1;

	for (bool first = true; at < end; first = false) {
		if (*budget == 0)
			return -E2BIG;
		--*budget;
		uint32_t change = (uint32_t)bytes_uleb(&b);
		if (change == 0 && !first && !b.bad)
			break;
		uint64_t len = bytes_uleb(&b);
		if (b.bad || len == 0)
			return nonsense(at, row, arg);
		moved += (int32_t)(change >> 1 ^ -(change & 1));
		int r = row(arg, at, rule_of(moved, flags));
		if (r != 0)
			return r;
		at = len < end - at ? at + len : end;
	}
	return at < end ? row(arg, at, (struct unwind_rule){.cfa = UNWIND_UNKNOWN}) : 0;
}

int gosp_run(const struct gosp *g, uint64_t record, uint64_t start, uint64_t end, uint64_t *budget,
	     cfa_row_fn *row, void *arg)
{
	struct bytes b = {.at = g->data + g->records, .end = g->data + g->size};
	uint32_t values = 0;
	unsigned flags = 0;

	bytes_skip(&b, record);
	const uint8_t *fields = bytes_skip(&b, g->table.flag_field + 1);
	if (!b.bad) {
		memcpy(&values, fields + GOPCLNTAB_PCSP_FIELD, sizeof(values));
		flags = fields[g->table.flag_field];
	}
	if (b.bad || values >= g->size)
		return nonsense(start, row, arg);
	if (flags & TOP_FRAME)
		return row(arg, start, (struct unwind_rule){.cfa = UNWIND_END});
	if (values == 0 || (flags & SP_WRITE))
		return row(arg, start, (struct unwind_rule){.cfa = UNWIND_UNKNOWN});
	b = (struct bytes){.at = g->data + values, .end = g->data + g->size};
	return run_values(b, flags, start, end, budget, row, arg);
}

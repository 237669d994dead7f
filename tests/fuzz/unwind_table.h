/* What must hold of every table, and of the rows that it is made from, whatever the file. */
#pragma once

#include "unwind/unwind_table.h"

static inline void check_table(const struct unwind_table *table, const struct rules *rules)
{
	uint32_t next = 0;

	if (table->page_count == 0 || table->page_count > UNWIND_TABLE_PAGES_MAX)
		__builtin_trap();
	for (uint32_t p = 0; p < table->page_count; p++) {
		const struct unwind_row *rows = table->rows + table->pages[p].first;
		uint32_t count = table->pages[p].count;
		if (table->pages[p].first != next || count == 0 ||
		    count > table->row_count - next || rows[0].low != 0)
			__builtin_trap();
		for (uint32_t i = 0; i < count; i++)
			if (rows[i].rule >= rules->count || (i && rows[i].low <= rows[i - 1].low))
				__builtin_trap();
		next += count;
	}
	if (next != table->row_count)
		__builtin_trap();
}

/* Of cfi_each() and gorows_each(). */
typedef int each_row_fn(const struct elf_file *e, cfa_row_fn *row, void *arg,
			struct cfi_stats *stats);

struct walk {
	const struct unwind_table *table;
	const struct rules *rules;
	uint64_t count, last;
	struct unwind_rule rule;
	bool merged; /* no row says what the one before it says */
};

static inline int check_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct walk *w = arg;

	if ((w->count++ && start <= w->last) || rule.cfa > UNWIND_CFA_LAST ||
	    rule.fp > UNWIND_FP_LOST)
		__builtin_trap();
	if (w->merged && memcmp(&rule, &w->rule, sizeof(rule)) == 0)
		__builtin_trap();
	w->last = start;
	w->rule = rule;
	uint16_t found = w->table ? unwind_table_find(w->table, start) : RULES_UNSUPPORTED;
	if (found != RULES_UNSUPPORTED && memcmp(&w->rules->all[found], &rule, sizeof(rule)) != 0)
		__builtin_trap();
	return 0;
}

/* Rows are in order and end with an unknown one, and the table says what they say. Frees the file.
 */
static inline void check_file(void *elf, size_t len, each_row_fn *each, bool merged)
{
	struct elf_file e;
	struct rules rules;
	struct unwind_table *table = NULL;
	struct cfi_stats stats;

	if (elf_file_init_mem(&e, elf, len) < 0)
		__builtin_trap();
	rules_init(&rules);
	if (unwind_table_build(&e, &rules, &table, &stats) == 0)
		check_table(table, &rules);
	struct walk w = {.table = table, .rules = &rules, .merged = merged};
	if (each(&e, check_row, &w, &stats) == 0 && w.rule.cfa != UNWIND_UNKNOWN)
		__builtin_trap();
	unwind_table_free(table);
	rules_done(&rules);
	elf_file_done(&e);
	free(elf);
}

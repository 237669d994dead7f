/* Any bytes, with the sum that they ought to have, as a file of the cache. */
#include "unwind_table.h"

#include "unwind/unwind_table_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_table_file_head *h = mem_dup(data, size);
	struct rules rules;
	struct unwind_table *table;

	rules_init(&rules);
	if (size >= sizeof(*h))
		h->checksum = unwind_table_file_checksum(h, size);
	if (unwind_table_file_decode(h, size, &rules, &table) == 0) {
		check_table(table, &rules);
		unwind_table_free(table);
	}
	rules_done(&rules);
	free(h);
	return 0;
}

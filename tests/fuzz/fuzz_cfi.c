/*
 * Any bytes as .eh_frame or .debug_frame, or some of both: rows are in order, and the image says at
 * every row's start what the row says. The first byte tells where one table ends.
 */
#include "image.h"
#include "../unit/eh_elf.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct walk {
	const struct image *im;
	const struct rules *rules;
	uint64_t count, last;
	struct unwind_rule rule;
};

static int check_row(void *arg, uint64_t start, struct unwind_rule rule)
{
	struct walk *w = arg;

	if (w->count++ && start <= w->last)
		__builtin_trap();
	if (memcmp(&rule, &w->rule, sizeof(rule)) == 0 || rule.cfa > UNWIND_CFA_LAST ||
	    rule.rbp > UNWIND_RBP_LOST)
		__builtin_trap();
	w->last = start;
	w->rule = rule;
	uint16_t found = w->im ? image_find(w->im, start) : RULES_OTHER;
	if (found != RULES_OTHER && memcmp(&w->rules->all[found], &rule, sizeof(rule)) != 0)
		__builtin_trap();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size == 0)
		return 0;
	size_t len, eh = (size - 1) * data[0] / 255;
	struct eh_elf *elf = eh_elf_new(eh ? data + 1 : NULL, eh,
					eh < size - 1 ? data + 1 + eh : NULL, size - 1 - eh, &len);
	struct elf_file e;
	struct rules rules;
	struct image *im = NULL;
	struct cfi_stats stats;

	if (elf_file_init_mem(&e, elf, len) < 0)
		__builtin_trap();
	rules_init(&rules);
	if (image_build(&e, &rules, &im, &stats) == 0)
		check_image(im, &rules);
	struct walk w = {.im = im, .rules = &rules};
	if (cfi_each(&e, check_row, &w, &stats) == 0 && w.rule.cfa != UNWIND_UNKNOWN)
		__builtin_trap();
	image_free(im);
	rules_done(&rules);
	elf_file_done(&e);
	free(elf);
	return 0;
}

/*
 * Any bytes as a table of Go's functions, with any code: rows are in order, and the image says at
 * every row's start what the row says. The first two bytes tell how much is code.
 */
#include "image.h"
#include "unwind/gorows.h"
#include "../unit/go_elf.h"

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

	if ((w->count++ && start <= w->last) || rule.cfa > UNWIND_CFA_LAST ||
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
	if (size < 2)
		return 0;
	size_t len, code = (size_t)(data[0] | data[1] << 8);
	code = code < size - 2 ? code : size - 2;
	struct go_elf *elf = go_elf_new(data + 2 + code, size - 2 - code, data + 2, code, &len);
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
	if (gorows_each(&e, check_row, &w, &stats) == 0 && w.rule.cfa != UNWIND_UNKNOWN)
		__builtin_trap();
	image_free(im);
	rules_done(&rules);
	elf_file_done(&e);
	free(elf);
	return 0;
}

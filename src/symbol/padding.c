#include "symbol/padding.h"

#include <errno.h>

#include "base/mem.h"

#define ALIGN 16u
#define PIECE 4096u /* bytes per read; most functions are shorter */
#define BACK  32u   /* bytes before a boundary: padding, and the last instruction */
#define NEAR  4096  /* a forward jump shorter than this stays in its function */

/* The length of the nop at p, in the forms that assemblers write, or 0. */
static size_t nop_length(const uint8_t *p, size_t len)
{
	size_t at = 0;

	while (at < len && (p[at] == 0x66 || p[at] == 0x2e))
		at++;
	if (at < len && (p[at] == 0x90 || p[at] == 0xcc))
		return at + 1;
	if (len - at < 3 || p[at] != 0x0f || p[at + 1] != 0x1f)
		return 0;
	uint8_t mod = p[at + 2] >> 6, rm = p[at + 2] & 7;
	size_t tail = (rm == 4) + (mod == 1 ? 1 : mod == 2 ? 4 : 0); /* SIB, displacement */
	return mod < 3 && len - at - 3 >= tail ? at + 3 + tail : 0;
}

static bool is_padding(const uint8_t *p, size_t len)
{
	for (size_t at = 0, n; at < len; at += n)
		if (!(n = nop_length(p + at, len - at)))
			return false;
	return true;
}

/* Whether the instruction before `end` never continues at `end`. */
static bool ends_function(const uint8_t *end)
{
	if (end[-1] == 0xc3 || end[-1] == 0xf4) /* ret; hlt */
		return true;
	if (end[-2] == 0x0f && end[-1] == 0x0b) /* ud2 */
		return true;
	if (end[-2] == 0xff && end[-1] >= 0xe0 && end[-1] <= 0xe7) /* jmp *%reg */
		return true;
	if (end[-2] == 0xeb && end[-1] >= 0x80) /* jmp, back */
		return true;
	int32_t distance;
	memcpy(&distance, end - 4, sizeof(distance));
	return end[-5] == 0xe9 && (distance < 0 || distance >= NEAR);
}

/* `at` is aligned, with BACK bytes before it. */
static bool is_boundary(const uint8_t *at)
{
	uint8_t last = at[-1];

	if (last != 0xc3 && last != 0x90 && last != 0xcc &&
	    last != 0) /* a return, or the last byte of a nop */
		return false;
	for (size_t padding = 0; padding < ALIGN; padding++)
		if (is_padding(at - padding, padding) && ends_function(at - padding) &&
		    (padding || at[-1] == 0xc3))
			return true;
	return false;
}

/* Reads the code from BACK bytes before `from` up to `to`; zeros before the segment. */
static int read_code(const struct elf_file *e, uint64_t from, uint64_t to,
		     uint8_t ret[static BACK + PIECE])
{
	uint64_t offset, back = MIN(from, (uint64_t)BACK);

	memset(ret, 0, BACK);
	while (back && !elf_file_offset(e, from - back, &offset))
		back--;
	if (!elf_file_offset(e, from - back, &offset))
		return -ENOENT;
	return elf_file_read(e, ret + BACK - back, back + (to - from), offset);
}

uint64_t padding_end(const struct elf_file *e, uint64_t vaddr, uint64_t high)
{
	uint8_t code[BACK + PIECE];
	uint64_t from = vaddr / ALIGN * ALIGN;

	if (e->machine != EM_X86_64 && e->machine != EM_386)
		return high;
	high = MIN(high, vaddr + PADDING_REACH);
	for (uint64_t to; from < high; from = to) {
		to = MIN(high, from + PIECE);
		if (read_code(e, from, to, code) < 0)
			return high;
		for (uint64_t at = from + ALIGN; at <= to; at += ALIGN)
			if (is_boundary(code + BACK + (at - from)))
				return at;
	}
	return high;
}

int padding_find(const struct elf_file *e, uint64_t vaddr, uint64_t low, uint64_t high,
		 uint64_t *ret_start, uint64_t *ret_end)
{
	uint8_t code[BACK + PIECE];
	uint64_t reach = vaddr - MIN(vaddr, (uint64_t)PADDING_REACH);
	uint64_t to = vaddr / ALIGN * ALIGN;
	uint64_t last = MAX(low, reach) / ALIGN * ALIGN;

	if (e->machine != EM_X86_64 && e->machine != EM_386)
		return -ENOENT;
	*ret_start = low;
	for (uint64_t from; to > last; to = from) { /* `last` itself is no boundary, or is `low` */
		from = to - MIN(to - last, (uint64_t)PIECE);
		if (read_code(e, from, to, code) < 0)
			return -ENOENT;
		for (uint64_t at = to; at > from && at > low; at -= ALIGN)
			if (is_boundary(code + BACK + (at - from))) {
				*ret_start = at;
				*ret_end = padding_end(e, vaddr, high);
				return 0;
			}
	}
	*ret_end = padding_end(e, vaddr, high);
	return low >= reach ? 0 : -ENOENT;
}

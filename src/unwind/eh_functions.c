#include "unwind/eh_functions.h"

#include <errno.h>

#include "base/mem.h"
#include "unwind/bytes.h"

/* An entry of the table: both halves count from the start of the header. */
struct entry {
	int32_t start, fde;
};

struct header {
	uint64_t vaddr;   /* what entries count from */
	uint64_t entries; /* offset in the file */
	uint64_t count;
};

static int read_header(const struct elf_file *e, struct header *h)
{
	const Elf64_Phdr *p = NULL;
	uint8_t bytes[24];

	for (uint32_t i = 0; i < e->segment_count; i++)
		if (e->segments[i].p_type == PT_GNU_EH_FRAME)
			p = &e->segments[i];
	if (!p || p->p_filesz < 4)
		return -ENOENT;
	size_t len = (size_t)MIN(p->p_filesz, sizeof(bytes));
	int r = elf_file_read(e, bytes, len, p->p_offset);
	if (r < 0)
		return r;
	struct bytes b = {.at = bytes + 4, .end = bytes + len};
	bytes_pointer(&b, bytes[1] & 0x0f, 0, 0); /* to .eh_frame: not needed */
	h->count = bytes_pointer(&b, bytes[2], 0, 0);
	/* The one form that linkers write, and that can be searched. */
	if (b.bad || bytes[0] != 1 || bytes[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4))
		return -ENOENT;
	h->vaddr = p->p_vaddr;
	h->entries = p->p_offset + (uint64_t)(b.at - bytes);
	h->count = MIN(h->count, (p->p_filesz - (uint64_t)(b.at - bytes)) / sizeof(struct entry));
	return 0;
}

static int read_entry(const struct elf_file *e, const struct header *h, uint64_t i,
		      struct entry *ret)
{
	return elf_file_read(e, ret, sizeof(*ret), h->entries + i * sizeof(*ret));
}

static uint64_t start_of(const struct header *h, const struct entry *at)
{
	return h->vaddr + (uint64_t)(int64_t)at->start;
}

/*
 * How long the function is: its FDE has the length after the start. Both are written with four
 * bytes in every file that has a table of the form above.
 */
static int read_size(const struct elf_file *e, const struct header *h, const struct entry *at,
		     uint32_t *ret)
{
	uint64_t offset;

	if (!elf_file_offset(e, h->vaddr + (uint64_t)(int64_t)at->fde, &offset))
		return -ENOENT;
	return elf_file_read(e, ret, sizeof(*ret), offset + 4 + 4 + 4);
}

int eh_functions_find(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_start,
		      uint64_t *ret_end)
{
	struct header h;
	struct entry found, at;
	uint32_t size;
	int r = read_header(e, &h);
	if (r < 0)
		return r;

	/* The last entry that starts at or before the address. */
	uint64_t low = 0, high = h.count;
	while (low < high) {
		uint64_t mid = low + (high - low) / 2;
		r = read_entry(e, &h, mid, &at);
		if (r < 0)
			return r;
		if (start_of(&h, &at) <= vaddr) {
			low = mid + 1;
			found = at;
		} else {
			high = mid;
		}
	}
	if (low == 0)
		return -ENOENT;
	r = read_size(e, &h, &found, &size);
	if (r < 0)
		return r;
	if (vaddr - start_of(&h, &found) >= size)
		return -ENOENT;
	*ret_start = start_of(&h, &found);
	if (ret_end)
		*ret_end = *ret_start + size;
	return 0;
}

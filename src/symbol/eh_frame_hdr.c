#include "symbol/eh_frame_hdr.h"

#include <dwarf.h>
#include <errno.h>

#include "base/mem.h"

/* As binutils, lld and mold write it. The format allows other encodings, but nobody uses them. */
struct header {
	uint8_t version;
	uint8_t pointer_encoding, count_encoding, table_encoding;
	uint32_t pointer; /* to .eh_frame */
	uint32_t count;
};

struct eh_frame_hdr_entry { /* both relative to the header */
	int32_t start;
	union {
		int32_t fde;
		uint32_t size; /* once it is checked */
	};
};

struct fde {
	uint32_t len, cie;
	int32_t start; /* relative to itself */
	uint32_t size;
};

_Static_assert(sizeof(struct header) == 12 && sizeof(struct fde) == 16, "as in the file");

static const Elf64_Phdr *find_table(const struct elf_file *e, uint32_t *ret_count)
{
	struct header h;

	for (uint32_t i = 0; i < e->segment_count; i++) {
		const Elf64_Phdr *p = &e->segments[i];
		if (p->p_type != PT_GNU_EH_FRAME)
			continue;
		if (p->p_filesz < sizeof(h) || elf_file_read(e, &h, sizeof(h), p->p_offset) < 0 ||
		    h.version != 1 || (h.pointer_encoding & 0x0f) != DW_EH_PE_sdata4 ||
		    h.count_encoding != DW_EH_PE_udata4 ||
		    h.table_encoding != (DW_EH_PE_datarel | DW_EH_PE_sdata4) ||
		    h.count > (p->p_filesz - sizeof(h)) / sizeof(struct eh_frame_hdr_entry))
			return NULL;
		*ret_count = h.count;
		return p;
	}
	return NULL;
}

static void read_table(struct eh_frame_hdr *f, const struct elf_file *e)
{
	uint32_t count;
	const Elf64_Phdr *p = find_table(e, &count);

	f->read = true;
	if (!p || count == 0 || count > EH_FRAME_HDR_MAX)
		return;
	struct eh_frame_hdr_entry *list = mem_alloc_array(count, sizeof(*list));
	if (elf_file_read(e, list, count * sizeof(*list), p->p_offset + sizeof(struct header)) <
	    0) {
		free(list);
		return;
	}
	f->list = list;
	f->checked = mem_alloc((count + 7) / 8);
	f->count = count;
	f->vaddr = p->p_vaddr;
}

/* The last entry that starts at or before `at` (if the table is sorted), or NULL. */
static struct eh_frame_hdr_entry *search(const struct eh_frame_hdr *f, int64_t at)
{
	uint32_t first = 0, count = f->count;

	while (count > 1) {
		uint32_t half = count / 2;
		bool right = f->list[first + half].start <= at;
		first += right ? half : 0;
		count = right ? count - half : half;
	}
	return f->count && f->list[first].start <= at ? &f->list[first] : NULL;
}

/* Reads the size from the entry's FDE, which must agree on the start of the function. */
static bool check(struct eh_frame_hdr *f, const struct elf_file *e, struct eh_frame_hdr_entry *at)
{
	uint64_t start = f->vaddr + (uint64_t)(int64_t)at->start;
	uint64_t record = f->vaddr + (uint64_t)(int64_t)at->fde;
	uint64_t offset;
	struct fde fde;

	if (!elf_file_offset(e, record, &offset) ||
	    elf_file_read(e, &fde, sizeof(fde), offset) < 0 || fde.len < 12 || fde.cie == 0 ||
	    record + offsetof(struct fde, start) + (uint64_t)(int64_t)fde.start != start)
		return false;
	at->size = fde.size;
	f->checked[(at - f->list) / 8] |= (uint8_t)(1u << (at - f->list) % 8);
	return true;
}

static uint64_t start_of(const struct eh_frame_hdr *f, const struct eh_frame_hdr_entry *at)
{
	return f->vaddr + (uint64_t)(int64_t)at->start;
}

/* The last function that starts at or before vaddr, with its size, or NULL. */
static const struct eh_frame_hdr_entry *find_before(struct eh_frame_hdr *f,
						    const struct elf_file *e, uint64_t vaddr)
{
	if (!f->read)
		read_table(f, e);
	struct eh_frame_hdr_entry *at = search(f, (int64_t)(vaddr - f->vaddr));
	if (!at || !elf_file_is_text(e, vaddr))
		return NULL;
	bool checked = f->checked[(at - f->list) / 8] >> (at - f->list) % 8 & 1;
	return checked || check(f, e, at) ? at : NULL;
}

int eh_frame_hdr_find(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
		      uint64_t *ret_start, uint64_t *ret_end)
{
	const struct eh_frame_hdr_entry *at = find_before(f, e, vaddr);

	if (!at || vaddr - start_of(f, at) >= at->size)
		return -ENOENT;
	*ret_start = start_of(f, at);
	*ret_end = *ret_start + at->size;
	if (at + 1 < f->list + f->count) /* where two overlap, the later one counts */
		*ret_end = MIN(*ret_end, start_of(f, at + 1));
	return 0;
}

void eh_frame_hdr_between(struct eh_frame_hdr *f, const struct elf_file *e, uint64_t vaddr,
			  uint64_t *ret_low, uint64_t *ret_high)
{
	const struct eh_frame_hdr_entry *at = find_before(f, e, vaddr);
	const struct eh_frame_hdr_entry *next = at ? at + 1 : f->list;

	*ret_low = at ? MIN(vaddr, start_of(f, at) + at->size) : 0;
	*ret_high = f->count && next < f->list + f->count && start_of(f, next) > vaddr
			    ? start_of(f, next)
			    : UINT64_MAX;
}

size_t eh_frame_hdr_bytes(const struct eh_frame_hdr *f)
{
	return f->count * sizeof(*f->list) + (f->count + 7) / 8;
}

void eh_frame_hdr_done(struct eh_frame_hdr *f)
{
	free(f->list);
	free(f->checked);
	*f = (struct eh_frame_hdr){};
}

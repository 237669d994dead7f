#include "symbol/fdes.h"

#include <dwarf.h>
#include <errno.h>

#include "base/mem.h"

#define CHUNK 256u /* entries read at once when so few are left: 2 KB */

/* As binutils, lld and mold write it; other encodings are allowed, but nobody's. */
struct header {
	uint8_t version;
	uint8_t pointer_encoding, count_encoding, table_encoding;
	uint32_t pointer; /* to .eh_frame */
	uint32_t count;
};

struct entry { /* both relative to the header */
	int32_t start, fde;
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
		    h.count > (p->p_filesz - sizeof(h)) / sizeof(struct entry))
			return NULL;
		*ret_count = h.count;
		return p;
	}
	return NULL;
}

/* The last entry that starts at or before `at`; false: there is none. */
static bool search(const struct elf_file *e, uint64_t table, uint32_t count, int64_t at,
		   struct entry *ret)
{
	struct entry chunk[CHUNK];
	uint32_t first = 0;

	while (count > CHUNK) {
		uint32_t half = count / 2;
		struct entry mid;
		if (elf_file_read(e, &mid, sizeof(mid), table + (first + half) * sizeof(mid)) < 0)
			return false;
		first += mid.start <= at ? half : 0;
		count = mid.start <= at ? count - half : half;
	}
	if (elf_file_read(e, chunk, count * sizeof(*chunk), table + first * sizeof(*chunk)) < 0)
		return false;
	while (count && chunk[count - 1].start > at)
		count--;
	if (count)
		*ret = chunk[count - 1];
	return count > 0;
}

int fdes_find(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_start)
{
	uint32_t count;
	struct entry found;
	struct fde fde;
	uint64_t offset;

	const Elf64_Phdr *table = find_table(e, &count);
	if (!table || !elf_file_is_text(e, vaddr) ||
	    !search(e, table->p_offset + sizeof(struct header), count,
		    (int64_t)(vaddr - table->p_vaddr), &found))
		return -ENOENT;

	/* Its record says how long it is, and must agree on the start: then it is read as meant. */
	uint64_t start = table->p_vaddr + (uint64_t)(int64_t)found.start;
	uint64_t record = table->p_vaddr + (uint64_t)(int64_t)found.fde;
	if (!elf_file_offset(e, record, &offset) ||
	    elf_file_read(e, &fde, sizeof(fde), offset) < 0 || fde.len < 12 || fde.cie == 0 ||
	    record + offsetof(struct fde, start) + (uint64_t)(int64_t)fde.start != start ||
	    vaddr - start >= fde.size)
		return -ENOENT;
	*ret_start = start;
	return 0;
}

#include "process/reloc.h"

#include <errno.h>

#include "base/mem.h"

#define CHUNK     8192u      /* relocations a read */
#define RELOC_MAX (4u << 20) /* looked at in one section: 96 MB */

static int load(const struct elf_file *e, const Elf64_Shdr *s, uint64_t index, struct reloc *ret,
		uint64_t *ret_slot)
{
	Elf64_Rela r;
	int err = elf_file_read(e, &r, sizeof(r), s->sh_offset + index * sizeof(r));
	if (err < 0)
		return err;
	*ret = (struct reloc){(uint32_t)ELF64_R_TYPE(r.r_info), (uint32_t)ELF64_R_SYM(r.r_info),
			      (uint64_t)r.r_addend};
	*ret_slot = r.r_offset;
	return 0;
}

int reloc_find(const struct elf_file *e, const char *name, uint64_t slot, struct reloc *ret)
{
	const Elf64_Shdr *s = elf_file_section(e, name);
	uint64_t count = s ? MIN(s->sh_size / sizeof(Elf64_Rela), (uint64_t)RELOC_MAX) : 0;
	uint64_t first, found;
	if (count == 0 || load(e, s, 0, ret, &first) < 0)
		return -ENOENT;

	/* The slots of .rela.plt are contiguous, which gives a first guess. */
	uint64_t guess = (slot - first) / 8;
	if (guess < count && load(e, s, guess, ret, &found) == 0 && found == slot)
		return 0;

	CLEANUP(freep) Elf64_Rela *chunk = mem_resize_array(NULL, CHUNK, sizeof(*chunk));
	for (uint64_t end = count; end > 0;) { /* backwards: relocations with symbols come last */
		size_t n = (size_t)MIN(end, (uint64_t)CHUNK);
		end -= n;
		if (elf_file_read(e, chunk, n * sizeof(*chunk),
				  s->sh_offset + end * sizeof(*chunk)) < 0)
			return -ENOENT;
		for (size_t i = 0; i < n; i++)
			if (chunk[i].r_offset == slot)
				return load(e, s, end + i, ret, &found) < 0 ? -ENOENT : 0;
	}
	return -ENOENT;
}

/*
 * The relocation of a stub that begins, after endbr64 and bnd if there, in one of two ways:
 *
 *	ff 25 disp32	jmp *slot
 *	68 imm32	push $n, the n-th of .rela.plt (the lazy half where endbr64 is used)
 */
static int decode_stub(const struct elf_file *e, const uint8_t *p, size_t len, uint64_t vaddr,
		       struct reloc *ret)
{
	static const uint8_t endbr64[] = {0xf3, 0x0f, 0x1e, 0xfa};
	size_t at = 0;
	int32_t operand;
	uint64_t slot;

	if (len >= sizeof(endbr64) && memcmp(p, endbr64, sizeof(endbr64)) == 0)
		at += sizeof(endbr64);
	if (at < len && p[at] == 0xf2)
		at++;
	if (len - at >= 6 && p[at] == 0xff && p[at + 1] == 0x25) {
		memcpy(&operand, p + at + 2, sizeof(operand));
		slot = vaddr + at + 6 + (uint64_t)(int64_t)operand;
		return reloc_find(e, ".rela.plt", slot, ret) == 0 ||
				       reloc_find(e, ".rela.dyn", slot, ret) == 0
			       ? 0
			       : -ENOENT;
	}

	const Elf64_Shdr *s = elf_file_section(e, ".rela.plt");
	if (!s || len - at < 5 || p[at] != 0x68)
		return -ENOENT;
	memcpy(&operand, p + at + 1, sizeof(operand));
	if ((uint32_t)operand >= s->sh_size / sizeof(Elf64_Rela))
		return -ENOENT;
	return load(e, s, (uint32_t)operand, ret, &slot);
}

static bool is_plt(const struct elf_file *e, const Elf64_Shdr *s)
{
	const char *name = s->sh_name < e->names_len ? e->names + s->sh_name : "";

	return strcmp(name, ".plt") == 0 || strcmp(name, ".plt.sec") == 0 ||
	       strcmp(name, ".plt.got") == 0;
}

/* The offset in the file of the name of symbol `index` of .dynsym, or 0. */
static uint64_t dynamic_name(const struct elf_file *e, uint32_t index)
{
	const Elf64_Shdr *s = elf_file_section_of_type(e, SHT_DYNSYM);
	const Elf64_Shdr *names = s ? elf_file_section_at(e, s->sh_link) : NULL;
	Elf64_Sym sym;

	if (!names || index == 0 || index >= s->sh_size / sizeof(sym) ||
	    elf_file_read(e, &sym, sizeof(sym), s->sh_offset + index * sizeof(sym)) < 0 ||
	    sym.st_name == 0 || sym.st_name >= names->sh_size)
		return 0;
	return names->sh_offset + sym.st_name;
}

int plt_find(const struct elf_file *e, uint64_t vaddr, struct plt_stub *ret)
{
	const Elf64_Shdr *s = elf_file_section_covering(e, vaddr);
	if (!s || e->machine != EM_X86_64 || e->is_32_bit || !is_plt(e, s))
		return -ENOENT;

	/* lld leaves sh_entsize 0; all its stubs have 16 bytes. */
	uint64_t step = s->sh_entsize == 8 ? 8 : 16;
	uint64_t start = vaddr - (vaddr - s->sh_addr) % step;
	uint64_t len = MIN(step, s->sh_addr + s->sh_size - start);
	uint8_t stub[16];
	struct reloc reloc;
	if (elf_file_read(e, stub, len, s->sh_offset + (start - s->sh_addr)) < 0 ||
	    decode_stub(e, stub, len, start, &reloc) < 0)
		return -ENOENT;
	*ret = (struct plt_stub){.start = start, .name = dynamic_name(e, reloc.symbol)};
	if (reloc.type == R_X86_64_IRELATIVE)
		ret->target = reloc.addend;
	return ret->name || ret->target ? 0 : -ENOENT;
}

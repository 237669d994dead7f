/* The smallest program that has given sections, in memory. */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TINY_SECTIONS = 2 };

struct tiny_section {
	const char *name;
	uint64_t address;
	const void *data; /* NULL: none in the file */
	size_t len;
};

struct tiny_text { /* mapped, with the first `len` bytes from the file */
	uint64_t address, size;
	const void *code;
	size_t len;
};

struct tiny_elf {
	Elf64_Ehdr head;
	Elf64_Phdr load;
	Elf64_Shdr sections[2 + TINY_SECTIONS]; /* none, their names, and what was given */
	char names[64];
	uint8_t data[];
};

/* Caller frees. The type is ET_EXEC or ET_DYN; `count` is at most TINY_SECTIONS. */
static inline struct tiny_elf *tiny_elf_new(uint16_t type, const struct tiny_text *text,
					    const struct tiny_section *sections, size_t count,
					    size_t *ret_len)
{
	size_t len = sizeof(struct tiny_elf) + text->len, at = sizeof(struct tiny_elf);
	size_t name = sizeof("\0.names");

	for (size_t i = 0; i < count; i++)
		len += sections[i].len;
	struct tiny_elf *e = calloc(1, len);
	if (!e)
		abort();

	memcpy(e->head.e_ident, ELFMAG, SELFMAG);
	e->head.e_ident[EI_CLASS] = ELFCLASS64;
	e->head.e_ident[EI_DATA] = ELFDATA2LSB;
	e->head.e_type = type;
	e->head.e_machine = EM_X86_64;
	e->head.e_phoff = offsetof(struct tiny_elf, load);
	e->head.e_phentsize = sizeof(Elf64_Phdr);
	e->head.e_phnum = 1;
	e->head.e_shoff = offsetof(struct tiny_elf, sections);
	e->head.e_shentsize = sizeof(Elf64_Shdr);
	e->head.e_shnum = (uint16_t)(2 + count);
	e->head.e_shstrndx = 1;
	memcpy(e->names, "\0.names", name);
	e->sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
				      .sh_name = 1,
				      .sh_offset = offsetof(struct tiny_elf, names),
				      .sh_size = sizeof(e->names)};
	for (size_t i = 0; i < count; i++) {
		const struct tiny_section *s = &sections[i];
		e->sections[2 + i] = (Elf64_Shdr){.sh_type = s->data ? SHT_PROGBITS : SHT_NOBITS,
						  .sh_name = (uint32_t)name,
						  .sh_addr = s->address,
						  .sh_offset = at,
						  .sh_size = s->len};
		strcpy(e->names + name, s->name);
		name += strlen(s->name) + 1;
		if (s->len)
			memcpy((char *)e + at, s->data, s->len);
		at += s->len;
	}
	e->load = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = at,
			       .p_filesz = text->len,
			       .p_vaddr = text->address,
			       .p_memsz = text->size};
	if (text->len)
		memcpy((char *)e + at, text->code, text->len);
	*ret_len = len;
	return e;
}

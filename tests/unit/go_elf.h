/*
 * The smallest program that has a given table of Go's functions and given code, in memory. The code
 * is at GO_TEXT.
 */
#pragma once

#include <elf.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define GO_TEXT      0x10000ull
#define GO_TEXT_SIZE 0x1000000ull

struct go_elf {
	Elf64_Ehdr head;
	Elf64_Phdr load;
	Elf64_Shdr sections[3]; /* none, names, .gopclntab */
	char names[24];
	uint8_t data[];
};

/* Caller frees. */
static inline struct go_elf *go_elf_new(const void *table, size_t table_len, const void *code,
					size_t code_len, size_t *ret_len)
{
	size_t len = sizeof(struct go_elf) + table_len + code_len;
	struct go_elf *e = calloc(1, len);
	if (!e)
		abort();

	memcpy(e->head.e_ident, ELFMAG, SELFMAG);
	e->head.e_ident[EI_CLASS] = ELFCLASS64;
	e->head.e_ident[EI_DATA] = ELFDATA2LSB;
	e->head.e_type = ET_EXEC;
	e->head.e_machine = EM_X86_64;
	e->head.e_phoff = offsetof(struct go_elf, load);
	e->head.e_phentsize = sizeof(Elf64_Phdr);
	e->head.e_phnum = 1;
	e->head.e_shoff = offsetof(struct go_elf, sections);
	e->head.e_shentsize = sizeof(Elf64_Shdr);
	e->head.e_shnum = 3;
	e->head.e_shstrndx = 1;
	e->load = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_offset = sizeof(struct go_elf) + table_len,
			       .p_filesz = code_len,
			       .p_vaddr = GO_TEXT,
			       .p_memsz = GO_TEXT_SIZE};
	memcpy(e->names, "\0.names\0.gopclntab", 19);
	e->sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
				      .sh_name = 1,
				      .sh_offset = offsetof(struct go_elf, names),
				      .sh_size = sizeof(e->names)};
	e->sections[2] = (Elf64_Shdr){.sh_type = SHT_PROGBITS,
				      .sh_name = 8,
				      .sh_offset = sizeof(struct go_elf),
				      .sh_size = table_len};
	if (table_len)
		memcpy(e->data, table, table_len);
	if (code_len)
		memcpy(e->data + table_len, code, code_len);
	*ret_len = len;
	return e;
}

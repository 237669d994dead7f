/*
 * The smallest program that has a given table of call frame information, in memory.
 *
 * Its code is EH_TEXT to EH_TEXT + EH_TEXT_SIZE, its table is mapped at EH_TABLE.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EH_TEXT      0x10000ull
#define EH_TEXT_SIZE 0x10000000ull
#define EH_TABLE     0x20000000ull

struct eh_elf {
	Elf64_Ehdr head;
	Elf64_Phdr load;
	Elf64_Shdr sections[4]; /* none, names, .eh_frame, .debug_frame */
	char names[32];
	uint8_t tables[];
};

/* Caller frees. */
static inline struct eh_elf *eh_elf_new(const void *eh, size_t eh_len, const void *debug,
					size_t debug_len, size_t *ret_len)
{
	size_t len = sizeof(struct eh_elf) + eh_len + debug_len;
	struct eh_elf *e = calloc(1, len);
	if (!e)
		abort();

	memcpy(e->head.e_ident, ELFMAG, SELFMAG);
	e->head.e_ident[EI_CLASS] = ELFCLASS64;
	e->head.e_ident[EI_DATA] = ELFDATA2LSB;
	e->head.e_type = ET_DYN;
	e->head.e_machine = EM_X86_64;
	e->head.e_phoff = offsetof(struct eh_elf, load);
	e->head.e_phentsize = sizeof(Elf64_Phdr);
	e->head.e_phnum = 1;
	e->head.e_shoff = offsetof(struct eh_elf, sections);
	e->head.e_shentsize = sizeof(Elf64_Shdr);
	e->head.e_shnum = 4;
	e->head.e_shstrndx = 1;
	e->load = (Elf64_Phdr){.p_type = PT_LOAD,
			       .p_flags = PF_R | PF_X,
			       .p_vaddr = EH_TEXT,
			       .p_memsz = EH_TEXT_SIZE};
	memcpy(e->names, "\0.names\0.eh_frame\0.debug_frame", 31);
	e->sections[1] = (Elf64_Shdr){.sh_type = SHT_STRTAB,
				      .sh_name = 1,
				      .sh_offset = offsetof(struct eh_elf, names),
				      .sh_size = sizeof(e->names)};
	e->sections[2] = (Elf64_Shdr){.sh_type = eh ? SHT_PROGBITS : SHT_NOBITS,
				      .sh_name = 8,
				      .sh_addr = EH_TABLE,
				      .sh_offset = sizeof(struct eh_elf),
				      .sh_size = eh_len};
	e->sections[3] = (Elf64_Shdr){.sh_type = debug ? SHT_PROGBITS : SHT_NOBITS,
				      .sh_name = 18,
				      .sh_offset = sizeof(struct eh_elf) + eh_len,
				      .sh_size = debug_len};
	if (eh_len)
		memcpy(e->tables, eh, eh_len);
	if (debug_len)
		memcpy(e->tables + eh_len, debug, debug_len);
	*ret_len = len;
	return e;
}

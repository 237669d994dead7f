/*
 * elf_file: the headers of an ELF file that may be hostile, and bounded reads of the rest.
 *
 * Little-endian only; 32-bit structures are converted to 64-bit ones as they are read. Everything
 * is read with pread and never mapped, so that a file that is truncated meanwhile gives -EIO and
 * not SIGBUS; every offset is checked against the size that the file had when it was opened. Tables
 * are parsed by other modules (symtab, reloc, gopclntab). libelf is not used: it maps or copies
 * whole sections and returns symbols one call at a time.
 *
 * Embedded; not thread-safe.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ELF_BUILD_ID_MAX 20

struct elf_file {
	int fd;             /* borrowed; -1: `mem` */
	const uint8_t *mem; /* borrowed; NULL: `fd` */
	uint64_t size;
	uint16_t machine;
	bool is_32_bit; /* ELF32: addresses in the file have four bytes */
	uint64_t entry;
	Elf64_Phdr *segments;
	Elf64_Shdr *sections;
	char *names; /* of sections; NUL-terminated */
	uint32_t segment_count, section_count, names_len;
};

/*
 * Reads the headers. 0; -EINVAL: not a regular file, or not a program or library; -ENOTSUP: another
 * kind of ELF (big-endian); -EIO: truncated. Malformed section headers are treated as absent:
 * segments are enough to run a program, so they are enough here.
 */
int elf_file_init(struct elf_file *e, int fd);
int elf_file_init_debug(struct elf_file *e, int fd); /* accepts relocatable files, too (dwz's) */
int elf_file_init_mem(struct elf_file *e, const void *mem, size_t size);
void elf_file_done(struct elf_file *e); /* leaves fd and mem alone */

/* Our own vdso, which is that of every 64-bit process, for elf_file_init_mem(); NULL: none. */
const void *elf_file_vdso(size_t *ret_size);

size_t elf_file_bytes(const struct elf_file *e);

/* Reads exactly `len` bytes at `offset`: 0, or -EIO if the file is shorter. */
int elf_file_read(const struct elf_file *e, void *buf, size_t len, uint64_t offset);

/* Reads `count` symbols of a table, starting at index `first`: 0 or -EIO. */
int elf_file_symbols(const struct elf_file *e, const Elf64_Shdr *table, uint64_t first,
		     size_t count, Elf64_Sym *ret);
size_t elf_file_symbol_size(const struct elf_file *e); /* of one, in the file */

/* A section, by name, type, index or address; NULL if there is none, or (but for _covering) if its
 * contents are not in the file. Borrowed. */
const Elf64_Shdr *elf_file_section(const struct elf_file *e, const char *name);
const Elf64_Shdr *elf_file_section_of_type(const struct elf_file *e, uint32_t type);
const Elf64_Shdr *elf_file_section_at(const struct elf_file *e, uint32_t index);
const Elf64_Shdr *elf_file_section_covering(const struct elf_file *e, uint64_t vaddr);

/* The GNU build id, cut at ELF_BUILD_ID_MAX bytes: its length, 0 if there is none. */
size_t elf_file_build_id(const struct elf_file *e, uint8_t ret[static ELF_BUILD_ID_MAX]);
bool elf_file_is_go(const struct elf_file *e);
bool elf_file_is_program(const struct elf_file *e); /* and not a library, which has a DT_SONAME */

/* .gnu_debuglink: the name of the debug file (no slashes; caller frees) and its CRC. 0 or -ENOENT.
 */
int elf_file_debuglink(const struct elf_file *e, char **ret_name, uint32_t *ret_crc);

/* Convert file offsets to virtual addresses (executable segments first) and back. */
bool elf_file_vaddr(const struct elf_file *e, uint64_t offset, uint64_t *ret_vaddr);
bool elf_file_offset(const struct elf_file *e, uint64_t vaddr, uint64_t *ret_offset);
const Elf64_Phdr *elf_file_text(const struct elf_file *e); /* first executable PT_LOAD, or NULL */
bool elf_file_is_text(const struct elf_file *e, uint64_t vaddr);

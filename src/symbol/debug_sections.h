/*
 * debug_sections: the debug sections of a file, copied into a small ELF file in memory for libdw.
 *
 * Reading the copy instead of the file makes hostile files harmless: one that shrinks meanwhile
 * gives an error and not SIGBUS, libelf sees only headers that we wrote, there are no references to
 * other files to follow (.gnu_debugaltlink), and sizes are known before anything is read. Only the
 * sections that inlined calls and lines need are copied, decompressed if need be. Each is followed
 * by zeros, which terminate an unterminated string or number.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

struct debug_sections { /* embedded */
	uint8_t *data;
	size_t size;
	uint64_t line, line_size; /* offset and size of .debug_line in `data` */
};

/* The size of the copy; 0: there is no .debug_info. Only headers are read. */
uint64_t debug_sections_size(const struct elf_file *e);

/* 0; -ENOENT no .debug_info; -EFBIG over `max`; -EIO truncated; -EBADMSG damaged. */
int debug_sections_init(struct debug_sections *d, const struct elf_file *e, size_t max);
void debug_sections_done(struct debug_sections *d);

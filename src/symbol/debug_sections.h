/*
 * debug_sections: the debug sections of a file, copied into a small ELF file in memory.
 *
 * libdw reads that copy instead of the file. So a file that shrinks while it is read gives an error
 * and not SIGBUS, libelf sees only headers that we wrote, what a section may say about other files
 * (.gnu_debugaltlink) is not there to be followed, and sizes are known before anything is read.
 * Only what inlined calls and lines need is copied, unpacked if it was compressed; behind each
 * section stand zeros, which end a string or a number that does not.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

struct debug_sections { /* embedded */
	uint8_t *data;
	size_t size;
	uint64_t line, line_size; /* where .debug_line lies in it */
};

/* What the copy would take, unpacked; 0: there is no .debug_info. Nothing is read but headers. */
uint64_t debug_sections_size(const struct elf_file *e);

/* 0; -ENOENT no .debug_info; -EFBIG past `max`; -EIO truncated; -EBADMSG not to be unpacked. */
int debug_sections_init(struct debug_sections *d, const struct elf_file *e, size_t max);
void debug_sections_done(struct debug_sections *d);

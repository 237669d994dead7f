/*
 * cfi_sections: the two tables of call frame information of a file, in memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/elf_file.h"

struct cfi_section {
	uint8_t *data;
	uint64_t size;
	uint64_t vaddr;     /* where the program has it; pointers are relative to it */
	uint64_t offset;    /* in the file, for messages */
	bool debug;         /* .debug_frame */
	bool to_terminator; /* its size is not known, only that it ends with a record of length 0 */
};

/*
 * Reads .eh_frame (by its section, or by PT_GNU_EH_FRAME in files without sections) into ret[0] and
 * .debug_frame (which may be compressed) into ret[1]; what is not there has no size, and what is
 * there but cannot be read is said in *ret_why. 0 when one was read; else -ENOENT there is none;
 * -EFBIG past `max`; -EBADMSG or -ENOTSUP cannot be unpacked; -EIO; and nothing to take down.
 */
int cfi_sections_read(const struct elf_file *e, uint64_t max, struct cfi_section ret[static 2],
		      const char **ret_why);
void cfi_sections_done(struct cfi_section s[static 2]);

/*
 * cfi_sections: reads the two sections with call frame information of a file into memory.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "process/elf_file.h"

struct cfi_section {
	uint8_t *data;
	uint64_t size;
	uint64_t vaddr;     /* its address; pointers are relative to it */
	uint64_t offset;    /* in the file, for messages */
	bool debug;         /* .debug_frame */
	bool to_terminator; /* size unknown: it ends at a record of length 0 */
};

/*
 * Reads .eh_frame (found by section, or by PT_GNU_EH_FRAME in files without sections) into ret[0]
 * and .debug_frame (which may be compressed) into ret[1]. A missing one has size 0; if one is there
 * but cannot be read, *ret_why says why. 0 when at least one was read; otherwise -ENOENT none;
 * -EFBIG over `max`; -EBADMSG or -ENOTSUP cannot be decompressed; -EIO; and nothing is to be freed.
 */
int cfi_sections_read(const struct elf_file *e, uint64_t max, struct cfi_section ret[static 2],
		      const char **ret_why);
void cfi_sections_done(struct cfi_section s[static 2]);

/*
 * gosp: how Go's functions find their callers, as Go's own table of them tells.
 *
 * Every Go program since 1.18 carries, stripped or not, how far each function has moved rsp at each
 * of its instructions. Its .debug_frame is made from the same numbers but leaves out what matters
 * here: which functions change to another stack (there frame pointers lead on, and nothing else
 * does: UNWIND_UNKNOWN), and that those with a frame save rbp just below the return address.
 * Assembly may do without that: there rbp is lost until a compiled caller brings it back.
 *
 * Embedded; it does not change after gosp_init().
 */
#pragma once

#include "process/elf_file.h"
#include "process/gopclntab.h"
#include "unwind/cfa.h"

struct gosp {
	struct gopclntab table;
	uint8_t *data;    /* from table.values on */
	uint64_t size;    /* 0: not of Go, or of an old one */
	uint64_t records; /* where table.records is in data */
};

/* 0; -ENOENT not of Go, or older than 1.18; -EFBIG past `max` bytes; -EINVAL, -EIO. */
int gosp_init(struct gosp *g, const struct elf_file *e, uint64_t max);
void gosp_done(struct gosp *g);

/* As cfa_run(), for the function whose record gopclntab_each() gave. */
int gosp_run(const struct gosp *g, uint64_t record, uint64_t start, uint64_t end, uint64_t *budget,
	     cfa_row_fn *row, void *arg);

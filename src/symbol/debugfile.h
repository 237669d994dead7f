/*
 * debugfile: the symbols of a stripped program that lie elsewhere.
 *
 * In a file of their own, found by build id or by the name in .gnu_debuglink, in the target's root
 * and then in ours; or compressed in the program itself (.gnu_debugdata). A debug file's own link
 * is never followed, so there are no loops.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

/*
 * Opens the debug file of `e`, which was mapped as `path` (may be NULL) in `root` (NULL: ours).
 * It has a .symtab and belongs to `e`: the build ids are equal or, when either has none, the CRC
 * is. The descriptor; -ENOENT: there is none; -ESTALE: there is one of another build; or why one
 * that is there cannot be read.
 */
int debugfile_open(const struct elf_file *e, const char *root, const char *path);

/*
 * Opens the file that `e`, which may be a debug file, shares parts of its debug info with
 * (.gnu_debugaltlink, as dwz writes it): by its absolute path or by build id, which must be equal.
 * The descriptor, or -ENOENT.
 */
int debugfile_open_alt(const struct elf_file *e, const char *root);

/* Unpacks .gnu_debugdata. 0, -ENOENT none, -EFBIG past 32 MB, -EINVAL damaged. Caller frees. */
int debugfile_unpack(const struct elf_file *e, uint8_t **ret, size_t *ret_len);

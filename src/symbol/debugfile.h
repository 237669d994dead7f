/*
 * debugfile: finds the separate debug symbols of a stripped program.
 *
 * They are in a debug file, found by build id or by the name in .gnu_debuglink, in the target's
 * root and then in ours; or compressed in the program itself (.gnu_debugdata). The link of a debug
 * file is never followed, so there are no loops.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/elf_file.h"

/*
 * Opens the debug file of `e`, which was mapped as `path` (may be NULL) in `root` (NULL: ours).
 * It must have a .symtab and the same build id or, if either file has none, the CRC of the link.
 * Returns the descriptor; -ENOENT: there is none; -ESTALE: there is one, but of another build; or
 * -errno: there is one, but it cannot be read.
 */
int debugfile_open(const struct elf_file *e, const char *root, const char *path);

/*
 * Opens the file with the debug info that `e` (which may be a debug file) shares with others
 * (.gnu_debugaltlink, written by dwz): by its absolute path or by build id, which must be equal.
 * Returns the descriptor, or -ENOENT.
 */
int debugfile_open_alt(const struct elf_file *e, const char *root);

/* Unpacks .gnu_debugdata; caller frees. 0; -ENOENT none; -EFBIG over 32 MB; -EINVAL damaged. */
int debugfile_unpack(const struct elf_file *e, uint8_t **ret, size_t *ret_len);

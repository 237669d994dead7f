/*
 * pidns: which pid namespace we are in. In any but the initial one the kernel has other numbers for
 * processes than /proc, side-band events and the user; the BPF side is told whose to use.
 */
#pragma once

#include <stdint.h>

/*
 * 0, with its inode, or with 0 for the initial one. -ENOENT: /proc is not mounted. -EXDEV: /proc is
 * another namespace's, so a number means one process there and another one to us.
 */
int pidns_find(uint32_t *ret);

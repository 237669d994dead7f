/*
 * orc: where the kernel keeps the tables that it walks its own stacks by, for the BPF side to walk
 * by them as well (see bpf/orc.bpf.h).
 */
#pragma once

#include "bpf/wire.h"

/*
 * 0; else -errno, with *ret as it was: the kernel hides its addresses, has no such tables, or is
 * older than their form of today (6.4). Nothing is lost then: bpf_get_stack() walks.
 */
int orc_locate(struct wire_orc *ret);

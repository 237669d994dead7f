/*
 * bpf_run_times: how long each run of one BPF program takes, by attaching to its beginning and its
 * end (fentry and fexit): exact, for some 100 ns that each run takes longer meanwhile.
 *
 * Needs a program that came with types (BTF) and is compiled, and a kernel that allows it: not all
 * kinds of programs can be attached to, and not everywhere.
 */
#pragma once

#include <stdint.h>

#include "bpf/run_times.h"

struct bpf_run_times;

/* 0; -ENODATA: the program came without types; or -errno as the kernel has it. */
int bpf_run_times_new(uint32_t id, struct bpf_run_times **ret);
void bpf_run_times_free(struct bpf_run_times *t);

/* Of all CPUs, since it began. 0 or -errno. */
int bpf_run_times_read(const struct bpf_run_times *t, struct run_times *ret);

/*
 * bpf_where: where the time of one BPF program goes: source lines, helpers and maps, by samples of
 * what CPUs do in the kernel.
 *
 * A sample is the program's if one of its addresses is in the stack. It counts for the line that
 * runs, or that called what runs; and for the function of the kernel that the program has called.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "collect/bpf_programs.h"

struct bpf_where;

/* 0, or -errno as bpf_code_new() has it. */
int bpf_where_new(uint32_t id, struct bpf_where **ret);
void bpf_where_free(struct bpf_where *w);

/* A kernel_samples_fn; ctx is the bpf_where. */
void bpf_where_sample(void *ctx, const uint64_t *frames, size_t count);

uint64_t bpf_where_seen(const struct bpf_where *w); /* samples that were the program's */

/* The tables, names and all. `p` names the maps. */
void bpf_where_text(struct bpf_where *w, const struct bpf_programs *p, unsigned columns, FILE *out);

/* Sets "lines" and "calls". */
void bpf_where_json(struct bpf_where *w, const struct bpf_programs *p, json_t *o);

/*
 * resolve: an address of a process, or of the kernel, becomes a frame of a profile.
 *
 * Each (file, offset) and each kernel address is looked up once; symbol tables are shared by all
 * processes and stay under a cap of bytes.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "process/process.h"
#include "profile/profile.h"

struct resolver;

/* Both are borrowed and outlive the resolver. */
struct resolver *resolver_new(struct profile *p, struct processes *ps, size_t symbol_bytes);
void resolver_free(struct resolver *r);

uint32_t resolve_kernel(struct resolver *r, uint64_t ip, uint64_t time);

/* `maps`: what the process had mapped at the time. 0: nothing there. */
uint32_t resolve_user(struct resolver *r, struct process *p, const struct maps *maps,
		      uint64_t addr);

struct resolver_stats {
	uint64_t user_frames, user_unnamed; /* frames of all samples, and those without a name */
	uint64_t kernel_frames, kernel_unnamed;
	int kernel_error;      /* 0, or why the kernel's names could not be read: -EPERM, … */
	uint64_t symbol_bytes; /* held by symbol tables now */
};

void resolver_stats(const struct resolver *r, struct resolver_stats *ret);

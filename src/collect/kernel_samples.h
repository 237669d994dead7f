/*
 * kernel_samples: what each CPU does in the kernel, at a rate: stacks of addresses, by perf's own
 * cpu-clock event, without a BPF program, so that BPF programs can be looked at.
 *
 * The clock is an interrupt: what runs with interrupts off is not seen, and its time is found where
 * they are on again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct kernel_samples;

int kernel_samples_new(uint64_t frequency, struct kernel_samples **ret); /* 0 or -errno */
void kernel_samples_free(struct kernel_samples *s);

/* Hands over what waits: frames[0] is where the CPU was, those behind it are return addresses. */
typedef void kernel_samples_fn(void *ctx, const uint64_t *frames, size_t count);
void kernel_samples_drain(struct kernel_samples *s, kernel_samples_fn *fn, void *ctx);

uint64_t kernel_samples_lost(const struct kernel_samples *s);

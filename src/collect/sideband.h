/*
 * sideband: what processes do to their memory maps, as the kernel tells it (perf's side-band
 * records): fork, exec, exit, and each executable mapping, with the inode that it maps; and where
 * the kernel's own code came or went (BPF programs; of modules there is no record: see
 * module_watch.h). System-wide, in small per-CPU rings that are drained on a timer, or sooner: each
 * quarter of a ring that is written makes its fd readable. Thousands of programs started a second
 * fill one in less time than lies between two ticks.
 *
 * Build ids are not asked for, though kernels from 5.12 on have them: where one listener asks, the
 * kernel marks the records of all others as if they had one (up to 6.18 at least), and a
 * `perf record` that runs at the same time dies of it.
 *
 * Complete even for processes that live for milliseconds; munmap is not told.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sideband_type {
	SIDEBAND_FORK, /* a new process (not a thread): pid from parent */
	SIDEBAND_EXEC, /* pid replaced its program: all mappings are gone, its name is `name` */
	SIDEBAND_EXIT, /* the process's first thread ended */
	SIDEBAND_MAP,  /* an executable mapping appeared */
	SIDEBAND_CODE, /* code of the kernel's came to, or went from, start to end */
};

struct sideband_record {
	enum sideband_type type;
	uint32_t pid;
	uint32_t parent;                    /* FORK */
	uint64_t time;                      /* CLOCK_MONOTONIC */
	uint64_t start, end, offset;        /* MAP, CODE */
	const char *name;                   /* MAP: path; EXEC: comm. Borrowed for the call */
	uint64_t device, inode, generation; /* MAP: which file it is */
};

struct sideband;

int sideband_new(struct sideband **ret); /* 0 or -errno */
void sideband_free(struct sideband *s);

/* Hands over everything that is waiting, in order of time for each CPU, not between CPUs. */
typedef void sideband_fn(void *ctx, const struct sideband_record *e);
void sideband_drain(struct sideband *s, sideband_fn *fn, void *ctx);

/* Of a CPU's ring, to wait for; -1: it has none, -EINVAL: there is no such CPU. */
int sideband_fd(const struct sideband *s, unsigned cpu);

/* Records the kernel could not store. When it grows, what is known of mappings may be stale. */
uint64_t sideband_lost(const struct sideband *s);

/* A CPU came online or went (see cpus.h). */
void sideband_cpu(struct sideband *s, unsigned cpu, bool online);

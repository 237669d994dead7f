/*
 * process: which processes exist, and what each had mapped at the time of a sample.
 *
 * A process is (pid, start time). The mappings of one that was running before us are read from
 * /proc/PID/maps when it is first sampled; from then on, and for every process that starts later,
 * side-band events keep them up to date. /proc is read again only for an address in no known
 * mapping (an event was lost); while the address stays unknown, after longer and longer pauses.
 * /proc is never listed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/sideband.h"
#include "process/mapped_files.h"
#include "process/maps.h"

/* Data that a later stage attaches to a process; freed when the process calls exec or ends. */
enum process_stage { PROCESS_JIT, PROCESS_SPACE, PROCESS_CONTEXT, PROCESS_HOOKS };

struct process_hook {
	void *data; /* NULL: none */
	void (*free)(void *data);
};

struct process {
	uint32_t pid;
	uint32_t parent;   /* 0: not known */
	uint64_t start;    /* CLOCK_BOOTTIME ns; 0: not sampled yet */
	struct maps *maps; /* NULL: not known yet */
	/*
	 * Mappings are read from /proc some time after the sample that needs them was taken. For
	 * samples from before `read_ns`, only those mappings are right that did not change in
	 * between, and that is known only once the events up to `read_ns` have been processed.
	 * `early` is the mappings less those that such events have changed so far; samples wait
	 * with it. NULL once events have passed `read_ns`. Changed in place, and never shared
	 * between processes.
	 */
	struct maps *early;
	uint64_t read_ns;        /* CLOCK_MONOTONIC */
	uint64_t events_from_ns; /* older events are ignored: /proc was read after them */
	bool stale;              /* events were lost: read /proc again at the next sample */
	bool distrusted;         /* … and what was mapped before that is unknown */
	bool exited;
	unsigned idle_sweeps;
	uint64_t replaced_ns;  /* when a file was last mapped over another; 0: never */
	uint64_t changed_ns;   /* the latest event that changed anything */
	uint64_t cgroup;       /* of its last sample; set by pipeline/assemble.c */
	uint64_t next_read_ns; /* /proc is not read before this */
	uint64_t read_pause_ns;
	uint64_t context_due_ns, context_pause_ns; /* of context.h */
	uint64_t context_maps; /* the version of mappings in which its threads' was looked for */
	struct process_hook hooks[PROCESS_HOOKS];
	unsigned holds;       /* process_hold() calls not yet released */
	bool dropped;         /* no longer in the table: freed by the last release */
	struct process *next; /* in the table */
};

struct processes;

struct processes_stats {
	uint64_t known;            /* now */
	uint64_t maps_read;        /* reads of /proc/PID/maps */
	uint64_t maps_failed;      /* … that failed for a process without known mappings */
	uint64_t capped;           /* processes dropped because there were too many */
	uint64_t mappings_dropped; /* of a process with more than MAPS_MAX */
};

struct processes *processes_new(void);
void processes_free(struct processes *ps);

/* Fork, exec, exit, mapping. Records, and the samples of processes_get(), come in order of time. */
void processes_record(struct processes *ps, const struct sideband_record *e);

/* Side-band events were lost: the mappings of every process are read again before use. */
void processes_distrust(struct processes *ps);

/* The process of a sample taken at `time`. Never NULL; borrowed until the next sweep. */
struct process *processes_get(struct processes *ps, uint32_t pid, uint64_t start, uint64_t time);

/* The same, but nothing is looked up or read: NULL if it is not known any more. Borrowed likewise.
 */
const struct process *processes_peek(const struct processes *ps, uint32_t pid, uint64_t start);

/* Whether the process is running, as far as events have told. */
bool processes_is_alive(const struct processes *ps, uint32_t pid, uint64_t start);

/* Keeps a process in memory, even after it has ended, until it is released as often as held. */
struct process *process_hold(struct process *p);
void process_release(struct process *p);

/* The mapping of addr, or NULL. /proc is read again for an unknown address (see above). */
struct mapping *process_find(struct processes *ps, struct process *p, uint64_t addr, uint64_t time);

/* The file of a mapping (mapped_files.h; 0: no file), and its path as mapped. */
uint32_t process_file(struct processes *ps, const struct process *p, struct mapping *m);
const char *process_path(const struct processes *ps, const struct mapping *m);
/* Whether it is the 64-bit vdso. */
bool process_is_vdso(const struct processes *ps, const struct mapping *m);
struct mapped_files *processes_mapped_files(struct processes *ps);

/* Frees the processes that have ended; call it after each drain of the rings. */
void processes_sweep(struct processes *ps);

void processes_stats(const struct processes *ps, struct processes_stats *ret);

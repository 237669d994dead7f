/*
 * process: which processes there are, and what each has mapped where, at the time of a sample.
 *
 * A process is (pid, start time). One that was there before us is read from /proc/PID/maps when it
 * is first sampled; from then on, and for all that start later, side-band events keep it true, and
 * /proc is not read again but for an address that nothing known covers (a lost event) and, with
 * longer and longer pauses, for one that stays unknown. Nothing ever lists /proc.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/sideband.h"
#include "process/mapped_files.h"
#include "process/maps.h"

/* What a later stage keeps with a program: freed when it runs another program, or ends. */
enum process_stage { PROCESS_JIT, PROCESS_SPACE, PROCESS_HOOKS };

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
	 * Mappings are read some time after the sample that asks for them. For samples from before
	 * `read_ns` they hold but for what changed in between, which is not known until events have
	 * come this far: `early` is what is left by then; NULL when time has passed that point. It
	 * is changed in place, for the samples that wait with it, and no other process has it.
	 */
	struct maps *early;
	uint64_t read_ns; /* CLOCK_MONOTONIC */
	uint64_t sure_ns; /* events from before this are in what was read */
	bool stale;       /* maps may have missed something: read again when asked */
	bool distrusted;  /* … and nothing is known of before that */
	bool exited;
	unsigned idle_sweeps;
	uint64_t replaced_ns;  /* when a file was last mapped where another was; 0: never */
	uint64_t changed_ns;   /* the latest event that changed anything */
	uint64_t cgroup;       /* of its last sample: whoever names groups may note it here */
	uint64_t next_read_ns; /* no reading of /proc before */
	uint64_t read_pause_ns;
	struct process_hook hooks[PROCESS_HOOKS];
	unsigned holds;       /* by those who keep it past a sweep */
	bool dropped;         /* no longer in the table: goes with the last hold */
	struct process *next; /* in the table */
};

struct processes;

struct processes_stats {
	uint64_t known;       /* now */
	uint64_t maps_read;   /* reads of /proc/PID/maps */
	uint64_t maps_failed; /* … of a process that was gone, and nothing known of it */
	uint64_t capped;      /* processes let go because there were too many */
};

struct processes *processes_new(void);
void processes_free(struct processes *ps);

/* Fork, exec, exit, mapping; in order of time with processes_get. */
void processes_record(struct processes *ps, const struct sideband_record *e);

/* Side-band events were lost: trust no mapping until it is read again. */
void processes_distrust(struct processes *ps);

/* The process of a sample. `time` is the sample's. Never NULL; borrowed until the next sweep. */
struct process *processes_get(struct processes *ps, uint32_t pid, uint64_t start, uint64_t time);

/* Whether it still runs, as far as events tell. */
bool processes_is_alive(const struct processes *ps, uint32_t pid, uint64_t start);

/* Keeps a process, whatever becomes of it, until it is released as often. */
struct process *process_hold(struct process *p);
void process_release(struct process *p);

/* Who maps addr: NULL if nobody. `sure`: the address is real, so when it is unknown look again. */
struct mapping *process_find(struct processes *ps, struct process *p, uint64_t addr, bool sure,
			     uint64_t time);

/* The file of a mapping (see mapped_files.h), 0 for memory without one; and its path as mapped. */
uint32_t process_file(struct processes *ps, struct process *p, struct mapping *m);
const char *process_path(const struct processes *ps, const struct mapping *m);
bool process_is_vdso(const struct processes *ps,
		     const struct mapping *m); /* ours, not a 32-bit one */
struct mapped_files *processes_mapped_files(struct processes *ps);

/* Forgets the processes that ended; call it after each drain. */
void processes_sweep(struct processes *ps);

void processes_stats(const struct processes *ps, struct processes_stats *ret);

/*
 * look: what the CPU's samples of some seconds say of each process and thread: how much of a CPU it
 * took, and in which kinds of code. What findings are suspected from.
 *
 * Bounded: beyond LOOK_THREADS threads or LOOK_ROWS pairs of thread and stack, samples are counted
 * and left out.
 */
#pragma once

#include <stdint.h>

#include "base/index.h"
#include "bpf/wire.h"
#include "pipeline/assemble.h"
#include "pipeline/code_class.h"

#define LOOK_THREADS 4096
#define LOOK_ROWS    8192

struct look_part { /* of a process or a thread */
	uint64_t ns;
	uint64_t of[CODE_CLASSES]; /* … in code of each class */
	uint32_t samples;
};

struct look_process {
	uint64_t start, cgroup;
	uint32_t pid;
	uint32_t parent; /* 0: not known, or not the same of all by its name */
	char comm[WIRE_COMM + 1];
	struct look_part part;
	uint32_t threads; /* that were sampled */
	uint32_t hottest; /* of them */
	uint32_t forks;   /* processes that it started */
};

struct look_thread {
	uint32_t process, tid;
	char name[WIRE_COMM + 1];
	struct look_part part;
};

struct look_row {
	uint32_t thread, stack;
	uint32_t samples;
	uint64_t ns;
	struct code code;
};

struct look_forks {
	uint32_t parent, count;
};

#define LOOK_PARENTS 256

struct look { /* zero-initialised is empty; entry 0 of each array is not used */
	struct look_process *processes;
	uint32_t process_count, process_cap;
	struct look_process *names; /* all processes by one name; pid is 0 if there are several */
	uint32_t name_count, name_cap;
	struct look_thread *threads;
	uint32_t thread_count, thread_cap;
	struct look_row *rows;
	uint32_t row_count, row_cap;
	struct look_process all;               /* of the machine, as if it were one */
	struct look_forks forks[LOOK_PARENTS]; /* those of a parent too many are left out */
	uint32_t fork_count;
	struct index by_pid, by_tid, by_row, by_name;
	uint64_t began_ns, ended_ns; /* CLOCK_MONOTONIC */
	uint64_t ns;                 /* of all samples */
	uint64_t left_out;
};

void look_begin(struct look *l, uint64_t now_ns); /* forgets what there is */
void look_add(struct look *l, const struct assembled *a);
void look_fork(struct look *l, uint32_t parent); /* a process was started by it */
void look_end(struct look *l, uint64_t now_ns, struct code_classes *classes,
	      const struct profile *dict); /* sets what is known of code */
void look_done(struct look *l);

/* The share of its time that was in code of that class. */
double look_part_of(const struct look_part *p, enum code_class class);

/* How many CPUs it took, all the time: 0.87. */
double look_share(const struct look *l, uint64_t ns);

/*
 * A row of the stack by which a process (0: any; a thread of it, unless tid is 0) is in code of
 * that class (CODE_CLASSES: any) most of the time; NULL: there is none.
 */
const struct look_row *look_top(const struct look *l, uint32_t process, uint32_t tid,
				enum code_class class);

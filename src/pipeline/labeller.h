/*
 * labeller: finds the process or thread that a sample is of, and the labels of its series in `run`
 * and `agent`. (Those of recordings are made in thread_series.h.) A new label is made here, from
 * what process/ knows: places.h has what is known of a control group.
 *
 * Labels: host, comm, thread (where it is not comm; digits in it are replaced by a single #), exe,
 * those of the control group that a process was in when the sample was taken, service, version, and
 * pid for processes that lived across a window's boundary: the short-lived ones of one program are
 * counted together, since each would be a series of its own. Of processes that are named in
 * `threads`, each thread is a series: its name as it is, and tid. Threads off their CPU have
 * `state` and `reason` as well, which whoever adds them sets. docs/labels.md describes all.
 *
 * Beyond `threads_max` threads in a day (UTC), further threads get no series of their own; their
 * samples are counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pipeline/assemble.h"
#include "process/places.h"
#include "profile/series_rules.h"
#include "process/process.h"

struct labeller;

struct labeller_options {
	const char *host;
	struct places *places;      /* borrowed; NULL: none */
	const char *const *threads; /* names of processes, ends with NULL; borrowed; NULL: none */
	struct series_rules *rules; /* borrowed; NULL: none */
	const char *type;           /* of the profile, for the rules; borrowed */
	bool expects_pods;          /* a kubelet tells of pods */
	bool every_thread;          /* as if all names were in `threads` */
	uint32_t threads_max;       /* 0: 4,096 */
};

/* Whose samples they are. Two are the same if their first OWNER_KEY bytes are. */
struct owner {
	uint64_t start, cgroup;
	uint32_t pid;
	uint32_t tid; /* where its process' threads are asked for, else 0 */
	char comm[WIRE_COMM], thread[WIRE_COMM];
	uint32_t state, reason; /* of a thread off its CPU: strings of the dictionary; 0: none */
	/* What follows from that. */
	uint32_t place; /* a series of the dictionary that has the labels of the control group */
	uint32_t exe, version; /* strings of the dictionary; 0: none */
	uint64_t context;      /* which revision of what it says of itself; 0: nothing */
	uint32_t says;         /* a series of the dictionary that has the labels of that */
	bool is_kernel;
	bool lacks_pod;  /* a kubelet may tell of it yet */
	bool is_dropped; /* whatever of its labels is not known yet */
};

#define OWNER_KEY offsetof(struct owner, place)

/* The dictionary is borrowed and outlives it. */
struct labeller *labeller_new(struct profile *dict, const struct labeller_options *o);
void labeller_free(struct labeller *l);

/* For each sample: the key alone. `wall_ms`: the time now. */
void labeller_owner(struct labeller *l, const struct wire_event *s, uint64_t wall_ms,
		    struct owner *ret);

/* For the first sample of an owner in a window: the rest, while its process is still there. */
void labeller_complete(struct labeller *l, struct processes *ps, const struct assembled *a,
		       struct owner *o);

/* For each sample of an owner: what its process says of itself (process/context.h) may have changed
 * since the first. */
void labeller_sample(struct labeller *l, const struct assembled *a, struct owner *o);

/* At the end of a window. `is_old`: its process is older than the window. */
uint32_t labeller_series(struct labeller *l, const struct processes *ps, const struct owner *o,
			 bool is_old);
uint32_t labeller_other(struct labeller *l); /* of samples beyond a cap */
/* … and of those that the rules drop: {comm="(dropped)"}. Their sum is kept, so that nothing is
 * lost uncounted; that is one row of a window. 0: there are no rules. */
uint32_t labeller_dropped(struct labeller *l);

/* Samples of threads that should be a series of their own, but for threads_max. */
uint64_t labeller_folded(const struct labeller *l);

/*
 * top_view: what `smolder top` shows of an interval of a second or so: a table of processes,
 * threads or containers, and of the one that is selected its hottest functions and stacks. Whoever
 * draws it reads it and computes nothing.
 *
 * It is made from a struct top_interval: accounts, which say how much of their time threads ran,
 * waited for a CPU and were blocked; and samples, which say where. So the same interval can be
 * shown in many ways (sorted, searched, by thread) while no new one comes.
 *
 * Times are shown in percent, and 100 % is one thread all the time: the CPU time of a process with
 * four threads that run is 400 %, and its threads' shares add up to 100 % for each of them. What is
 * not known is negative (TOP_UNKNOWN).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/mem.h"
#include "profile/finding.h"
#include "profile/profile.h"

#define TOP_UNKNOWN   (-1.0)
#define TOP_SEARCH    64  /* bytes of what is searched for */
#define TOP_FUNCTIONS 256 /* most that are listed of the selected row; as many stacks */

/* ---- an interval ----------------------------------------------------------------------------- */

struct top_account {       /* of a thread, or of some that nobody told apart */
	uint32_t pid, tid; /* 0: not known; short-lived processes have none */
	uint32_t threads;  /* how many it is of; 0: not known */
	/* Clean; of the interval's arena; "" if there is none. */
	const char *comm, *thread, *container, *host;
	double ran, runnable, blocked, idle; /* ns; blocked without idle, where that is known */
	double switches;
};

struct top_interval { /* zero-initialised is empty */
	struct arena names;
	struct top_account *accounts;
	uint32_t account_count, account_cap;
	/* Where what ran did so; or, is_wall, where all time was spent: labels comm, pid, … */
	const struct profile *of; /* borrowed; NULL: no samples */
	struct sample *samples;
	uint32_t sample_count;
	bool is_wall;
	bool has_idle;      /* idle time is told from blocked */
	bool only_accounts; /* samples of others make no rows */
	double seconds;
	uint64_t end_ns; /* since 1970 */
	uint64_t sampled, lost;
	unsigned cpus;            /* 0: not known */
	struct finding *findings; /* what looks wrong just then, what takes most first */
	uint32_t finding_count;
};

void top_interval_done(struct top_interval *i);

/* Adds an account: its strings are cleaned and copied. */
void top_interval_add(struct top_interval *i, const struct top_account *a);

/* Copies those of the findings that still hold when it ends. */
void top_interval_find(struct top_interval *i, const struct finding *list, uint32_t count);

/* ---- how it is shown ------------------------------------------------------------------------- */

enum top_by { TOP_BY_PROCESS, TOP_BY_THREAD, TOP_BY_CONTAINER, TOP_BYS };

/* In the order of the columns. */
enum top_sort {
	TOP_SORT_ID,
	TOP_SORT_CPU,
	TOP_SORT_RUNNABLE,
	TOP_SORT_BLOCKED,
	TOP_SORT_IDLE,
	TOP_SORT_SWITCHES,
	TOP_SORT_THREADS,
	TOP_SORT_NAME,
	TOP_SORTS,
};

extern const char *const top_sort_names[TOP_SORTS]; /* as on the command line: "cpu" */
extern const char *const top_by_names[TOP_BYS];     /* "process" */

struct top_key {       /* which row, from interval to interval */
	uint32_t id;   /* pid or tid; 0: by name alone */
	char name[80]; /* where there is an id, that of its machine */
};

struct top_options {
	enum top_by by;
	enum top_sort sort;
	bool reversed;
	char search[TOP_SEARCH]; /* rows whose name, container or number has this; "": all */
	bool has_selected;       /* else the first row is */
	struct top_key selected;
};

/* ---- what is shown --------------------------------------------------------------------------- */

struct top_row {
	struct top_key key;
	uint32_t pid, tid, threads; /* 0: not known, or many */
	const char *name, *comm, *container,
		*host;                       /* borrowed from interval or profile; never NULL */
	double cpu, runnable, blocked, idle; /* % */
	double switches;                     /* a second */
};

struct top_function {
	const char *name, *module; /* borrowed from the profile */
	double self, total;        /* %, as in the row */
};

struct top_stack {
	double share;
	uint32_t stack; /* of the profile */
};

struct top_view {             /* zero-initialised is empty */
	struct top_row *rows; /* sorted; those that were searched for */
	uint32_t row_count, row_cap, all_count;
	uint32_t selected; /* row; meaningless without rows */
	struct top_function *functions;
	uint32_t function_count;
	struct top_stack *stacks;
	uint32_t stack_count;
	uint64_t selected_samples;
	bool many_hosts;
	struct top_row sum;                  /* of all rows, also those that the search left out */
	const struct top_interval *interval; /* borrowed */
	struct top_options options;
};

/* Makes the view of an interval, which is borrowed; what it held before is freed. */
void top_view_make(struct top_view *v, const struct top_interval *i, const struct top_options *o);
void top_view_done(struct top_view *v);

/* "spin < work < main": the frames of a stack, leaf first, as much as fits into `size` bytes. */
void top_view_stack(const struct profile *p, uint32_t stack, char *ret, size_t size);

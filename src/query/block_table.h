/*
 * block_table: two profiles by blocks of time, as numbers by process, function and block.
 *
 * A side is a profile whose series have the labels `comm` and STORE_BLOCK (store/store.h). Each
 * function of a process has two numbers in each block: its own (self), and that with everything it
 * called (total; where it calls itself, counted once). Functions are the same on both sides if
 * name, module and kind are, whatever the build; those of a file that have no names count as one,
 * since what stands for a name is an address, which another build of the file changes. Marks such
 * as [truncated] are no functions.
 *
 * Functions with few samples, fewer than BLOCK_TABLE_LEAST on both sides together, are left out: no
 * test could tell anything of them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/index.h"
#include "base/string_pool.h"
#include "profile/profile.h"

#define BLOCK_TABLE_LEAST 20

enum { BLOCK_BASE, BLOCK_NOW, BLOCK_SIDES };

struct block_side {              /* borrowed */
	const struct profile *p; /* of values in nanoseconds */
	uint32_t blocks;
	const double *recorded; /* by block: nanoseconds in which there was a recording */
};

struct block_row { /* a function of a process */
	uint32_t process, function;
	uint64_t samples;           /* with it in their stack */
	double *self[BLOCK_SIDES];  /* by block; NULL: too few samples */
	double *total[BLOCK_SIDES]; /* by block */
};

struct block_process {
	uint32_t name; /* of `names` */
	uint64_t samples;
	double *blocks[BLOCK_SIDES];
	double sums[BLOCK_SIDES];
};

struct block_function {
	uint32_t name, module; /* of `names` */
	enum frame_kind kind;
	bool is_unnamed; /* all functions of the module that have no name */
};

struct block_table {
	struct block_side sides[BLOCK_SIDES];
	struct string_pool names;
	struct block_process *processes; /* [0] is not used, here and below */
	struct block_function *functions;
	struct block_row *rows;
	uint32_t process_count, function_count, row_count;
	double *machine[BLOCK_SIDES]; /* all processes */
	/* Private. */
	uint32_t process_cap, function_cap, row_cap;
	struct index by_process, by_function, by_row;
	uint32_t *function_of[BLOCK_SIDES]; /* by frame; 0: a mark */
	uint32_t *process_of[BLOCK_SIDES];  /* by series */
	uint32_t *block_of[BLOCK_SIDES];    /* by series */
	uint32_t *seen;                     /* by function: in which sample last */
	uint32_t seen_at;
	struct arena numbers;
};

/* The profiles must outlive it. */
struct block_table *block_table_new(const struct block_side *base, const struct block_side *now);
void block_table_free(struct block_table *t);
DEFINE_CLEANUP(struct block_table *, block_table_free)

/*
 * The functions in a sample's stack, each once, the innermost first, as rows; 0 for one without.
 * Returns how many there are. `ret` has room for PROFILE_DEPTH_MAX.
 */
uint32_t block_table_stack(struct block_table *t, int side, const struct sample *s, uint32_t *ret);

/* The row of the function that a sample's stack ends in; 0: none, or under a mark. */
uint32_t block_table_leaf(const struct block_table *t, int side, const struct sample *s);

/* The function that this is; 0: none of the table's. */
uint32_t block_table_function(const struct block_table *t, const char *name, const char *module,
			      enum frame_kind kind);

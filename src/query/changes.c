#include "query/changes.h"

#include <errno.h>
#include <math.h>

#include "base/mem.h"
#include "query/block_test.h"
#include "query/tree.h"

#define DAY_SECONDS 86400.0
#define PROCESS_LEAST                                                                              \
	100              /* samples of a process on each side, for its functions to be compared    \
			  */
#define RATIO_LEAST  100 /* samples of a function on each side, to be a measure of work … */
#define RATIOS_LEAST 5   /* … if there are so many of them */
#define RATIO_FARTHEST                                                                             \
	4.0            /* what most functions of a process did is not taken for more than that */
#define TOTALS_MAX 10  /* functions listed with what they called */
#define ALIKE      0.9 /* a total of which so much is its own is tested as its own alone */
#define EXPLAINED  0.5

struct candidate {
	enum change_kind kind;
	uint32_t of;      /* row, or process */
	uint32_t process; /* that it is of */
	struct block_share shares[BLOCK_SIDES];
	double before, now, delta, change, seconds, probability;
	bool is_certain, is_listed;
};

struct search {
	struct block_table *t;
	struct changes *out;
	double grain[BLOCK_SIDES];
	double recorded[BLOCK_SIDES]; /* nanoseconds */
	double *usual;                /* by process: what most of its functions did */
	bool *comparable;             /* by process: there is enough of it */
	struct candidate *list;
	uint32_t count, cap;
	double *explained;          /* by row: of its delta */
	bool *is_told[BLOCK_SIDES]; /* by sample: a listed function has it */
	uint32_t *stack;
};

static double sum(const double *list, uint32_t count)
{
	double all = 0;

	for (uint32_t i = 0; i < count; i++)
		all += list[i];
	return all;
}

/* ---- tests --------------------------------------------------------------------------------- */

/* Adds parts of wholes to what is compared, if there is enough of it. */
static void add_candidate(struct search *s, struct candidate c, double *const parts[],
			  double *const wholes[])
{
	double usual = c.kind == CHANGE_PROCESS ? 1 : s->usual[c.process], a_day = 0;

	for (int i = 0; i < BLOCK_SIDES; i++) {
		struct block_range r = {parts[i], wholes[i], s->t->sides[i].blocks, s->grain[i],
					c.kind != CHANGE_PROCESS};
		if (!block_test_share(&r, &c.shares[i]))
			return;
		a_day += sum(parts[i], r.count) / s->recorded[i] * DAY_SECONDS / BLOCK_SIDES;
	}
	if (a_day < CHANGES_SECONDS / 2) /* no difference could be large enough */
		return;
	c.before = c.shares[BLOCK_BASE].share;
	c.now = c.shares[BLOCK_NOW].share;
	double expected = c.before * usual;
	c.delta = c.now - expected;
	c.change = expected > 0 ? c.now / expected - 1 : INFINITY;
	c.seconds = c.delta * DAY_SECONDS;
	if (c.kind != CHANGE_PROCESS)
		c.seconds *= s->t->processes[c.process].sums[BLOCK_NOW] / s->recorded[BLOCK_NOW];
	MEM_GROW(s->list, s->count, s->cap);
	s->list[s->count++] = c;
}

static void add_process(struct search *s, uint32_t id)
{
	struct block_process *of = &s->t->processes[id];
	double *recorded[BLOCK_SIDES] = {(double *)s->t->sides[BLOCK_BASE].recorded,
					 (double *)s->t->sides[BLOCK_NOW].recorded};
	struct candidate c = {.kind = CHANGE_PROCESS, .of = id, .process = id};

	s->comparable[id] = true;
	for (int i = 0; i < BLOCK_SIDES; i++)
		s->comparable[id] &= of->sums[i] >= PROCESS_LEAST * s->grain[i];
	if (of->samples >= BLOCK_TABLE_LEAST)
		add_candidate(s, c, of->blocks, recorded);
}

static int ascending(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* The median of the ratios, of each process' functions: rows are sorted by process. */
static void find_usual(struct search *s, const uint32_t *rows, uint32_t count)
{
	CLEANUP(freep) double *ratios = mem_alloc_array((size_t)count + 1, sizeof(*ratios));

	for (uint32_t i = 0; i < s->t->process_count; i++)
		s->usual[i] = 1;
	for (uint32_t i = 0, n = 0; i < count; i++) {
		const struct block_row *row = &s->t->rows[rows[i]];
		const struct block_process *of = &s->t->processes[row->process];
		double shares[BLOCK_SIDES];
		bool counts = s->comparable[row->process];
		for (int k = 0; k < BLOCK_SIDES; k++) {
			double own = sum(row->self[k], s->t->sides[k].blocks);
			counts &= own >= RATIO_LEAST * s->grain[k];
			shares[k] = own / of->sums[k];
		}
		if (counts)
			ratios[n++] = shares[BLOCK_NOW] / shares[BLOCK_BASE];
		if (i + 1 < count && s->t->rows[rows[i + 1]].process == row->process)
			continue;
		if (n >= RATIOS_LEAST) {
			qsort(ratios, n, sizeof(*ratios), ascending);
			double median =
				n % 2 ? ratios[n / 2] : (ratios[n / 2 - 1] + ratios[n / 2]) / 2;
			s->usual[row->process] =
				fmin(fmax(median, 1 / RATIO_FARTHEST), RATIO_FARTHEST);
		}
		n = 0;
	}
}

static void add_row(struct search *s, uint32_t id)
{
	const struct block_row *row = &s->t->rows[id];
	const struct block_process *of = &s->t->processes[row->process];
	struct candidate c = {.kind = CHANGE_SELF, .of = id, .process = row->process};
	double own = 0, all = 0;

	for (int i = 0; i < BLOCK_SIDES; i++) {
		own += sum(row->self[i], s->t->sides[i].blocks);
		all += sum(row->total[i], s->t->sides[i].blocks);
	}
	if (own >= BLOCK_TABLE_LEAST * s->grain[BLOCK_NOW])
		add_candidate(s, c, row->self, of->blocks);
	c.kind = CHANGE_TOTAL;
	if (own < ALIKE * all)
		add_candidate(s, c, row->total, of->blocks);
}

static int by_process(const void *a, const void *b, void *rows)
{
	const struct block_row *x = &((struct block_row *)rows)[*(const uint32_t *)a];
	const struct block_row *y = &((struct block_row *)rows)[*(const uint32_t *)b];

	return x->process != y->process ? (x->process > y->process) - (x->process < y->process)
					: (x > y) - (x < y);
}

/* Functions of a process lean on each other, both sides of all of them: they are next to each
 * other. */
static void lean(struct search *s, uint32_t from, uint32_t to)
{
	CLEANUP(freep)
	struct block_share **shares =
		mem_alloc_array((size_t)(to - from) * BLOCK_SIDES + 1, sizeof(*shares));
	uint32_t n = 0;

	for (uint32_t i = from; i < to; i++)
		for (int side = 0; side < BLOCK_SIDES; side++)
			shares[n++] = &s->list[i].shares[side];
	block_test_lean(shares, n);
}

static void test(struct search *s, struct candidate *c)
{
	const struct block_share *base = &c->shares[BLOCK_BASE], *now = &c->shares[BLOCK_NOW];
	double usual = c->kind == CHANGE_PROCESS ? 1 : s->usual[c->process];

	c->probability = block_test(base, 1, now);
	if (usual != 1) {
		c->probability = fmax(c->probability, block_test(base, usual, now));
		if ((c->now - c->before) * c->delta < 0) /* it is a change of the others */
			c->probability = 1;
	}
}

static void test_all(struct search *s)
{
	struct block_table *t = s->t;
	CLEANUP(freep) uint32_t *rows = mem_alloc_array((size_t)t->row_count + 1, sizeof(*rows));
	uint32_t count = 0;

	for (uint32_t i = 1; i < t->process_count; i++)
		add_process(s, i);
	for (uint32_t i = 1; i < t->row_count; i++)
		if (t->rows[i].self[BLOCK_BASE])
			rows[count++] = i;
	qsort_r(rows, count, sizeof(*rows), by_process, t->rows);
	find_usual(s, rows, count);
	for (uint32_t i = 0, first = s->count; i < count; i++) {
		uint32_t process = t->rows[rows[i]].process;
		if (s->comparable[process])
			add_row(s, rows[i]);
		if (i + 1 == count || t->rows[rows[i + 1]].process != process) {
			lean(s, first, s->count);
			first = s->count;
		}
	}
	for (uint32_t i = 0; i < s->count; i++)
		test(s, &s->list[i]);
}

/* ---- which of them are told ---------------------------------------------------------------- */

static bool is_large(const struct candidate *c)
{
	double expected = c->now - c->delta;

	return fabs(c->delta) >= CHANGES_LEAST * fmax(c->now, expected) &&
	       fabs(c->seconds) >= CHANGES_SECONDS;
}

/* What a sample adds to the difference of each function in its stack: it is explained. */
static void tell_sample(struct search *s, int side, uint32_t i)
{
	const struct sample *one = &s->t->sides[side].p->samples[i];
	uint32_t n = block_table_stack(s->t, side, one, s->stack);

	s->is_told[side][i] = true;
	for (uint32_t k = 0; k < n; k++) {
		uint32_t process = s->t->rows[s->stack[k]].process;
		double share = (double)one->value / s->t->processes[process].sums[side];
		s->explained[s->stack[k]] += side == BLOCK_NOW ? share : -share * s->usual[process];
	}
}

static void tell_selves(struct search *s)
{
	CLEANUP(freep) bool *listed = mem_alloc_array((size_t)s->t->row_count + 1, sizeof(*listed));

	for (uint32_t i = 0; i < s->count; i++)
		if (s->list[i].is_listed && s->list[i].kind == CHANGE_SELF)
			listed[s->list[i].of] = true;
	for (int side = 0; side < BLOCK_SIDES; side++)
		for (uint32_t i = 0; i < s->t->sides[side].p->sample_count; i++)
			if (listed[block_table_leaf(s->t, side, &s->t->sides[side].p->samples[i])])
				tell_sample(s, side, i);
}

static bool has_row(struct search *s, int side, uint32_t i, uint32_t row)
{
	uint32_t n = block_table_stack(s->t, side, &s->t->sides[side].p->samples[i], s->stack);

	for (uint32_t k = 0; k < n; k++)
		if (s->stack[k] == row)
			return true;
	return false;
}

static void tell_total(struct search *s, uint32_t row)
{
	for (int side = 0; side < BLOCK_SIDES; side++)
		for (uint32_t i = 0; i < s->t->sides[side].p->sample_count; i++)
			if (!s->is_told[side][i] && has_row(s, side, i, row))
				tell_sample(s, side, i);
}

/* The smallest first: whoever is called tells more than who calls. */
static int by_size(const void *a, const void *b)
{
	const struct candidate *x = a, *y = b;
	double p = fmax(x->now, x->before), q = fmax(y->now, y->before);

	return p != q ? (p > q) - (p < q) : (x->of > y->of) - (x->of < y->of);
}

/*
 * Where there are more samples a change is more probable to be seen, and worth more: of the false
 * alarms that are allowed, it gets more. How many there are on both sides together tells nothing of
 * a difference between them.
 */
static double find_level(const struct search *s, double *ret_weights)
{
	CLEANUP(freep) double *all = mem_alloc_array((size_t)s->count + 1, sizeof(*all));
	double mean = 0;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct block_share *of = s->list[i].shares;
		ret_weights[i] = sqrt(of[BLOCK_BASE].samples + of[BLOCK_NOW].samples);
		mean += ret_weights[i] / s->count;
	}
	for (uint32_t i = 0; i < s->count; i++) {
		ret_weights[i] /= mean;
		all[i] = s->list[i].probability / ret_weights[i];
	}
	return block_test_level(all, s->count, CHANGES_LEVEL);
}

static void choose(struct search *s)
{
	CLEANUP(freep) double *weights = mem_alloc_array((size_t)s->count + 1, sizeof(*weights));
	uint32_t totals = 0;
	double level = find_level(s, weights);

	for (uint32_t i = 0; i < s->count; i++)
		s->list[i].is_certain = s->list[i].probability / weights[i] <= level;
	s->out->tested = s->count;
	if (s->count)
		qsort(s->list, s->count, sizeof(*s->list), by_size);
	for (uint32_t i = 0; i < s->count; i++)
		s->list[i].is_listed = s->list[i].kind != CHANGE_TOTAL && s->list[i].is_certain &&
				       is_large(&s->list[i]);
	tell_selves(s);
	for (uint32_t i = 0; i < s->count && totals < TOTALS_MAX; i++) {
		struct candidate *c = &s->list[i];
		if (c->kind != CHANGE_TOTAL || !c->is_certain || !is_large(c) ||
		    fabs(c->delta - s->explained[c->of]) < EXPLAINED * fabs(c->delta))
			continue;
		c->is_listed = true;
		totals++;
		tell_total(s, c->of);
	}
}

/* ---- the list ------------------------------------------------------------------------------ */

static const char *keep(struct changes *out, const char *s)
{
	return arena_strndup(&out->arena, s, strlen(s));
}

static int by_seconds(const void *a, const void *b)
{
	const struct change *x = a, *y = b;
	bool p = x->kind == CHANGE_PROCESS, q = y->kind == CHANGE_PROCESS;
	double m = fabs(x->seconds_a_day), n = fabs(y->seconds_a_day);

	if (p != q)
		return p ? 1 : -1;
	if (m != n)
		return m < n ? 1 : -1;
	int r = strcmp(x->process, y->process);
	return r ? r : strcmp(x->function, y->function);
}

static void list(struct search *s)
{
	struct changes *out = s->out;
	struct block_table *t = s->t;

	for (uint32_t i = 0; i < s->count; i++) {
		const struct candidate *c = &s->list[i];
		if (!c->is_listed)
			continue;
		bool is_process = c->kind == CHANGE_PROCESS;
		const struct block_row *row = is_process ? &t->rows[0] : &t->rows[c->of];
		const struct block_function *f = &t->functions[row->function];
		uint32_t process = is_process ? c->of : row->process;
		struct change one = {
			.kind = c->kind,
			.process =
				keep(out, string_pool_get(&t->names, t->processes[process].name)),
			.function = keep(out, string_pool_get(&t->names, f->name)),
			.module = keep(out, string_pool_get(&t->names, f->module)),
			.frame = f->kind,
			.before = c->before,
			.now = c->now,
			.change = c->change,
			.seconds_a_day = c->seconds,
			.probability = c->probability,
			.path_len = c->of, /* the row, until there is a path */
		};
		MEM_GROW(out->list, out->count, out->cap);
		out->list[out->count++] = one;
	}
	if (out->count)
		qsort(out->list, out->count, sizeof(*out->list), by_seconds);
	if (out->count > CHANGES_MAX) {
		out->unlisted = out->count - CHANGES_MAX;
		out->count = CHANGES_MAX;
	}
	while (out->functions < out->count && out->list[out->functions].kind != CHANGE_PROCESS)
		out->functions++;
}

/* ---- where it is called from --------------------------------------------------------------- */

/* Of a node of the tree of both: how much of a change is there. */
static double share_of_node(const struct search *s, const struct change *c,
			    const struct block_row *row, const struct tree_node *n)
{
	const struct block_process *of = &s->t->processes[row->process];
	bool self = c->kind == CHANGE_SELF;
	double now = (double)(self ? n->self : n->total) / of->sums[BLOCK_NOW];
	double base = (double)(self ? n->base_self : n->base_total) / of->sums[BLOCK_BASE];

	return (now - base * s->usual[row->process]) * (c->seconds_a_day < 0 ? -1 : 1);
}

static void find_path(const struct search *s, const struct tree *t, const uint32_t *functions,
		      const uint32_t *processes, struct change *c)
{
	const struct block_row *row = &s->t->rows[c->path_len];
	uint32_t best = 0, process = 0;
	double most = -INFINITY;

	c->path_len = 0;
	for (uint32_t i = 1; i < t->count; i++) {
		if (t->nodes[i].depth == 1)
			process = processes[t->nodes[i].function];
		if (process != s->t->processes[row->process].name ||
		    functions[t->nodes[i].function] != row->function)
			continue;
		double share = share_of_node(s, c, row, &t->nodes[i]);
		if (share > most) {
			most = share;
			best = i;
		}
	}
	if (!best)
		return;
	uint32_t len = t->nodes[best].depth - 1, at = best; /* not the process */
	c->path = arena_alloc(&s->out->arena, len * sizeof(*c->path));
	c->path_len = len;
	for (; len; at = t->nodes[at].parent)
		c->path[--len] = keep(s->out, t->functions[t->nodes[at].function].name);
}

static void find_paths(const struct search *s)
{
	struct tree_options o = {
		.column = TREE_VALUE, .by_comm = true, .base = s->t->sides[BLOCK_BASE].p};

	if (!s->out->functions)
		return;
	CLEANUP(tree_freep) struct tree *t = tree_new(s->t->sides[BLOCK_NOW].p, &o);
	CLEANUP(freep) uint32_t *functions = mem_alloc_array(t->function_count, sizeof(uint32_t));
	CLEANUP(freep) uint32_t *processes = mem_alloc_array(t->function_count, sizeof(uint32_t));
	for (uint32_t i = 1; i < t->function_count; i++) {
		const struct tree_function *f = &t->functions[i];
		functions[i] = block_table_function(s->t, f->name, f->module, f->kind);
		processes[i] = string_pool_find(&s->t->names, f->name, f->name_len);
	}
	for (uint32_t i = 0; i < s->out->functions; i++)
		find_path(s, t, functions, processes, &s->out->list[i]);
}

/* ---- all of it ----------------------------------------------------------------------------- */

/* What one sample is worth on a side, whatever a profile says of its period. */
static double grain_of(const struct profile *p)
{
	double value = 0, count = 0;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		value += (double)p->samples[i].value;
		count += (double)p->samples[i].count;
	}
	return count > 0 ? value / count : (double)p->info.period;
}

int changes_find(const struct block_side *base, const struct block_side *now, struct changes *ret)
{
	const struct block_side *sides[BLOCK_SIDES] = {base, now};
	struct search s = {.out = ret};

	*ret = (struct changes){};
	for (int i = 0; i < BLOCK_SIDES; i++) {
		for (uint32_t k = 0; k < sides[i]->blocks; k++)
			ret->blocks[i] += sides[i]->recorded[k] > 0;
		s.recorded[i] = sum(sides[i]->recorded, sides[i]->blocks);
		s.grain[i] = grain_of(sides[i]->p);
	}
	if (MIN(ret->blocks[BLOCK_BASE], ret->blocks[BLOCK_NOW]) < BLOCK_TEST_LEAST)
		return -ENODATA;
	CLEANUP(block_table_freep) struct block_table *t = block_table_new(base, now);
	s.t = t;
	s.usual = mem_alloc_array(t->process_count, sizeof(*s.usual));
	s.comparable = mem_alloc_array(t->process_count, sizeof(*s.comparable));
	s.explained = mem_alloc_array(t->row_count, sizeof(*s.explained));
	s.stack = mem_alloc_array(PROFILE_DEPTH_MAX + 1, sizeof(*s.stack));
	for (int i = 0; i < BLOCK_SIDES; i++) {
		s.is_told[i] = mem_alloc_array((size_t)sides[i]->p->sample_count + 1, sizeof(bool));
		ret->cpus[i] = sum(t->machine[i], sides[i]->blocks) / s.recorded[i];
	}
	test_all(&s);
	choose(&s);
	list(&s);
	find_paths(&s);
	free(s.usual);
	free(s.comparable);
	free(s.explained);
	free(s.stack);
	free(s.list);
	for (int i = 0; i < BLOCK_SIDES; i++)
		free(s.is_told[i]);
	return 0;
}

void changes_done(struct changes *c)
{
	free(c->list);
	arena_done(&c->arena);
	*c = (struct changes){};
}

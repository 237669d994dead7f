#include "query/tree.h"

#include <math.h>

#include "query/fold.h"
#include "query/sums.h"

static uint64_t amount_of(const struct sample *s, enum tree_column column)
{
	return column == TREE_VALUE ? s->value : s->count;
}

static bool is_base(const struct sample *s, const struct tree_options *o)
{
	return o->base && s->series == FOLD_BASE;
}

/* The frame of nodes that stand for what was left out: the "none" of the profile's frames. */
#define MERGED 0

/* A stack that is kept. Entry 0 is the root; parents come before their children. */
struct kept {
	uint32_t parent; /* index of kept */
	uint32_t function;
	uint64_t total;
	uint64_t self;
	uint64_t base_total;
	uint64_t base_self;
};

/*
 * A histogram of totals for the cap of nodes: each power of two is cut into SLICES, so that a
 * bucket's least number is at most a SLICES-th below any other number in it; small ones are exact.
 */
enum { SLICES = 16, SLICE_BITS = 4, BUCKETS = (64 - SLICE_BITS + 1) * SLICES };

static uint32_t bucket_of(uint64_t n)
{
	if (n < SLICES)
		return (uint32_t)n;
	uint32_t shift = 63 - (uint32_t)__builtin_clzll(n) - SLICE_BITS;
	return (shift + 1) * SLICES + (uint32_t)((n >> shift) - SLICES);
}

static uint64_t bucket_least(uint32_t bucket)
{
	if (bucket < SLICES)
		return bucket;
	return (uint64_t)(SLICES + bucket % SLICES) << (bucket / SLICES - 1);
}

/* What each stack has itself, in either of the two profiles. */
static uint64_t *sum_selves(const struct profile *p, const struct tree_options *o, bool of_base)
{
	uint64_t *selves = mem_alloc_array(p->stack_count, sizeof(*selves));

	for (uint32_t i = 0; i < p->sample_count; i++)
		if (is_base(&p->samples[i], o) == of_base)
			selves[p->samples[i].stack] = sums_add(
				selves[p->samples[i].stack], amount_of(&p->samples[i], o->column));
	return selves;
}

/* Makes totals of selves. Parents have lesser ids, so one sweep backwards is enough. */
static uint64_t *into_totals(const struct profile *p, uint64_t *selves)
{
	for (uint32_t id = p->stack_count - 1; id > 0; id--)
		selves[p->stacks[id].parent] = sums_add(selves[p->stacks[id].parent], selves[id]);
	return selves;
}

/* Scales what each stack of the base has itself, so that they add up to `to`, nearly. */
static void normalise(uint64_t *selves, uint32_t count, uint64_t to)
{
	unsigned __int128 sum = 0;

	for (uint32_t id = 0; id < count; id++)
		sum += selves[id];
	for (uint32_t id = 0; sum && id < count; id++)
		selves[id] = (uint64_t)(((unsigned __int128)selves[id] * to + sum / 2) / sum);
}

static void scale(uint64_t *selves, uint32_t count, double by)
{
	for (uint32_t id = 0; id < count; id++) {
		double scaled = round((double)selves[id] * by);
		selves[id] = scaled < 0x1p64 ? (uint64_t)scaled : UINT64_MAX;
	}
}

/* The least total of which there are not more than `max`. */
static uint64_t least_for_max(const uint32_t buckets[static BUCKETS], uint32_t max)
{
	uint64_t kept = 0;
	uint32_t b = BUCKETS;

	while (b > 1 && kept + buckets[b - 1] <= max)
		kept += buckets[--b];
	return b < BUCKETS ? bucket_least(b) : UINT64_MAX;
}

/* Of two profiles the larger one, without what is idle. */
static uint64_t counted_total(const uint64_t *totals, const uint64_t *bases, uint32_t idle)
{
	uint64_t total = totals[0] - (idle ? totals[idle] : 0);

	return bases ? MAX(total, bases[0] - (idle ? bases[idle] : 0)) : total;
}

static uint64_t least_kept(const struct tree_options *o, uint64_t total,
			   const uint32_t buckets[static BUCKETS])
{
	double fraction = ceil((double)total * o->min_fraction);
	uint64_t least = fraction < 0x1p64 ? (uint64_t)MAX(fraction, 1.0) : UINT64_MAX;

	return o->max_nodes ? MAX(least, least_for_max(buckets, o->max_nodes)) : least;
}

/* The sums of functions, while the totals of all stacks are at hand. */
static void sum_functions(const struct profile *p, const struct tree_options *o,
			  const uint64_t *totals, const uint64_t *base_selves,
			  const uint64_t *bases, uint64_t least, struct sums *s)
{
	sums_init(s, p);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		uint64_t *self = &s->rows[p->stacks[p->samples[i].stack].frame].self;
		if (!is_base(&p->samples[i], o))
			*self = sums_add(*self, amount_of(&p->samples[i], o->column));
	}
	for (uint32_t id = 0; bases && id < p->stack_count; id++) {
		uint64_t *self = &s->rows[p->stacks[id].frame].base_self;
		*self = sums_add(*self, base_selves[id]);
	}
	sums_totals(s, p, totals, bases);
	for (uint32_t id = 1; id < p->stack_count; id++)
		if (totals[id] >= least || (bases && bases[id] >= least))
			s->listed[p->stacks[id].frame] = true;
	sums_list(s, p, o->max_functions, totals, bases);
}

/*
 * Picks the stacks of at least `least`. Totals and positions share one array, since millions of
 * stacks may stand in it: a parent's total is done with once its children look for its position.
 */
static struct kept *keep(const struct profile *p, const struct tree_options *o, uint32_t idle,
			 struct sums *sums, uint64_t *ret_least, uint32_t *ret_count)
{
	uint32_t buckets[BUCKETS] = {}, count = 0, cap = 0;
	CLEANUP(freep) uint64_t *totals = into_totals(p, sum_selves(p, o, false));
	CLEANUP(freep) uint64_t *base_selves = o->base ? sum_selves(p, o, true) : NULL;
	CLEANUP(freep) uint64_t *bases = NULL;
	uint64_t *positions = totals, all = totals[0];

	if (o->base) {
		if (o->normalised)
			normalise(base_selves, p->stack_count, all);
		else if (o->base_scale > 0)
			scale(base_selves, p->stack_count, o->base_scale);
		bases = into_totals(p, mem_dup(base_selves, p->stack_count * sizeof(*bases)));
	}
	for (uint32_t id = 1; id < p->stack_count; id++)
		buckets[bucket_of(bases ? MAX(totals[id], bases[id]) : totals[id])]++;

	uint64_t least = least_kept(o, counted_total(totals, bases, idle), buckets);
	struct kept *kept = NULL;
	if (o->sums)
		sum_functions(p, o, totals, base_selves, bases, least, sums);
	for (uint32_t id = 0; id < p->stack_count; id++) {
		uint64_t base = bases ? bases[id] : 0;
		if (id && totals[id] < least && base < least) {
			positions[id] = UINT64_MAX;
			continue;
		}
		MEM_GROW(kept, count, cap);
		kept[count] = (struct kept){
			.parent = id ? (uint32_t)positions[p->stacks[id].parent] : 0,
			.function = p->stacks[id].frame,
			.total = totals[id],
			.base_total = base,
			.base_self = bases ? base_selves[id] : 0,
		};
		positions[id] = count++;
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		uint64_t position = positions[p->samples[i].stack];
		if (position == UINT64_MAX || is_base(&p->samples[i], o))
			continue;
		uint64_t *self = &kept[position].self, more = amount_of(&p->samples[i], o->column);
		*self = sums_add(*self, more); /* NOLINT: the root is kept */
	}
	*ret_least = least;
	*ret_count = count;
	return kept;
}

/* Gives each node that lost children one in their place, of function MERGED. */
static struct kept *merge_pruned(struct kept *kept, uint32_t *count)
{
	struct accounted { /* self, and the totals of the children that are left */
		uint64_t total, base_total;
	};
	CLEANUP(freep) struct accounted *accounted = mem_alloc_array(*count, sizeof(*accounted));
	uint32_t merged = 0, at = *count;

	for (uint32_t i = *count; i-- > 0;) {
		accounted[i].total = sums_add(accounted[i].total, kept[i].self);
		accounted[i].base_total = sums_add(accounted[i].base_total, kept[i].base_self);
		merged += accounted[i].total < kept[i].total ||
			  accounted[i].base_total < kept[i].base_total;
		if (i) {
			struct accounted *above = &accounted[kept[i].parent];
			above->total = sums_add(above->total, kept[i].total);
			above->base_total = sums_add(above->base_total, kept[i].base_total);
		}
	}
	kept = mem_resize_array(kept, (size_t)*count + merged, sizeof(*kept));
	for (uint32_t i = 0; i < *count; i++) {
		uint64_t rest = kept[i].total - MIN(accounted[i].total, kept[i].total);
		uint64_t base =
			kept[i].base_total - MIN(accounted[i].base_total, kept[i].base_total);
		if (rest || base)
			kept[at++] = (struct kept){i, MERGED, rest, rest, base, base};
	}
	*count = at;
	return kept;
}

static int function_order(const void *a, const void *b)
{
	const struct tree_function *x = a, *y = b;
	int c = strcmp(x->name, y->name);

	if (c == 0)
		c = strcmp(x->module, y->module);
	return c ? c : (int)x->kind - (int)y->kind;
}

struct named {
	struct tree_function function; /* first: sorted by function_order */
	uint32_t frame;
};

static struct tree_function describe(const struct profile *p, uint32_t id,
				     const struct hot_line *lines)
{
	const struct frame *f = &p->frames[id];

	return (struct tree_function){
		.source = lines ? profile_str(p, lines[id].source) : "",
		.line = lines ? lines[id].line : 0,
		.name = profile_str(p, f->name),
		.module = profile_str(p, p->modules[f->module].name),
		.name_len = (uint32_t)profile_str_len(p, f->name),
		.kind = f->kind,
	};
}

/* Brings the sums of frames into the order of functions. */
static void set_sums(struct tree *t, const struct profile *p, const struct sums *sums,
		     const uint32_t *ranks)
{
	t->sums = mem_alloc_array(t->function_count, sizeof(*t->sums));
	t->unlisted = sums->unlisted;
	t->sums[t->merged] = sums->rest;
	t->sums[0] = sums->rows[0];
	for (uint32_t id = 1; id < p->frame_count; id++)
		if (ranks[id])
			t->sums[ranks[id]] = sums->rows[id];
}

/*
 * Lists the functions, sorted, and changes kept[].function from frame to index. They are those of
 * the nodes, or those that `sums` lists; `lines` may be NULL.
 */
static void name_functions(struct tree *t, const struct profile *p, const struct hot_line *lines,
			   const struct sums *sums, struct kept *kept, uint32_t count)
{
	CLEANUP(freep) uint32_t *ranks = mem_alloc_array(p->frame_count, sizeof(*ranks));
	CLEANUP(freep) struct named *named = NULL;
	uint32_t n = 0;

	for (uint32_t i = 1; i < count; i++)
		ranks[kept[i].function] = 1;
	for (uint32_t id = 1; sums->rows && id < p->frame_count; id++)
		ranks[id] |= sums->listed[id];
	for (uint32_t id = 1; id < p->frame_count; id++)
		n += ranks[id];
	named = mem_alloc_array(n, sizeof(*named));
	n = 0;
	for (uint32_t id = 1; id < p->frame_count; id++)
		if (ranks[id])
			named[n++] = (struct named){describe(p, id, lines), id};
	qsort(named, n, sizeof(*named), function_order);

	t->functions = mem_alloc_array((size_t)n + 2, sizeof(*t->functions));
	t->functions[t->function_count++] =
		(struct tree_function){.name = "", .module = "", .source = "", .kind = FRAME_MARK};
	for (uint32_t i = 0; i < n; i++) {
		ranks[named[i].frame] = t->function_count;
		t->functions[t->function_count++] = named[i].function;
	}
	if (ranks[MERGED] || sums->unlisted) {
		ranks[MERGED] = t->merged = t->function_count;
		t->functions[t->function_count++] = (struct tree_function){
			.name = TREE_MERGED,
			.module = "",
			.source = "",
			.name_len = strlen(TREE_MERGED),
			.kind = FRAME_MARK,
		};
	}
	for (uint32_t i = 1; i < count; i++)
		kept[i].function = ranks[kept[i].function];
	if (sums->rows)
		set_sums(t, p, sums, ranks);
}

/*
 * Lists the children of every node in order of function: those of node i are ret[first[i]] to
 * ret[first[i + 1] - 1]. Two counting sorts: by function, then by parent.
 */
static uint32_t *order_children(const struct kept *kept, uint32_t count, uint32_t function_count,
				uint32_t *first)
{
	uint32_t *children = mem_alloc_array(count, sizeof(*children));
	CLEANUP(freep) uint32_t *sorted = mem_alloc_array(count, sizeof(*sorted));
	CLEANUP(freep) uint32_t *ends = mem_alloc_array(function_count, sizeof(*ends));

	for (uint32_t i = 1; i < count; i++) {
		ends[kept[i].function]++;
		first[kept[i].parent]++;
	}
	for (uint32_t f = 1; f < function_count; f++)
		ends[f] += ends[f - 1];
	for (uint32_t i = 1; i <= count; i++)
		first[i] += first[i - 1];

	/* Filled from the back, an end moves down to its start. */
	for (uint32_t i = count - 1; i > 0; i--)
		sorted[--ends[kept[i].function]] = i;
	for (uint32_t i = count - 1; i > 0; i--)
		children[--first[kept[sorted[i - 1]].parent]] = sorted[i - 1];
	return children;
}

/* Writes the nodes depth first. No recursion: an outsider decides how deep a stack is. */
static void lay_out(struct tree *t, const struct kept *kept, uint32_t count)
{
	CLEANUP(freep) uint32_t *first = mem_alloc_array((size_t)count + 1, sizeof(*first));
	CLEANUP(freep) uint32_t *children = order_children(kept, count, t->function_count, first);
	CLEANUP(freep) uint32_t *sizes = mem_alloc_array(count, sizeof(*sizes)); /* of subtrees */
	CLEANUP(freep) uint32_t *positions = mem_alloc_array(count, sizeof(*positions));

	for (uint32_t i = count; i-- > 0;) {
		sizes[i]++;
		if (i)
			sizes[kept[i].parent] += sizes[i];
	}

	t->nodes = mem_alloc_array(count, sizeof(*t->nodes));
	t->count = count;
	t->nodes[0].next = count;
	for (uint32_t i = 0; i < count; i++) {
		struct tree_node *n = &t->nodes[positions[i]];
		uint32_t position = positions[i] + 1;

		n->function = kept[i].function;
		n->total = kept[i].total;
		n->self = kept[i].self;
		n->base_total = kept[i].base_total;
		n->base_self = kept[i].base_self;
		t->depth = MAX(t->depth, n->depth);
		for (uint32_t c = first[i]; c < first[i + 1]; c++) {
			positions[children[c]] = position;
			t->nodes[position].parent = positions[i];
			t->nodes[position].depth = n->depth + 1;
			t->nodes[position].next = position + sizes[children[c]];
			position = t->nodes[position].next;
		}
	}
}

/* The node of what is idle; it may have been left out. */
static uint32_t find_idle(const struct tree *t)
{
	for (uint32_t i = 1; i < t->count; i = t->nodes[i].next)
		if (strcmp(t->functions[t->nodes[i].function].name, FRAME_IDLE) == 0)
			return i;
	return 0;
}

struct tree *tree_new(const struct profile *p, const struct tree_options *o)
{
	struct tree *t = mem_alloc(sizeof(*t));
	CLEANUP(freep) struct hot_line *lines = NULL;
	struct sums sums = {};
	uint32_t count, idle = 0;

	t->unit = o->column == TREE_VALUE ? p->info.unit : "samples";
	t->base = o->base;
	t->base_scale = o->base && !o->normalised ? o->base_scale : 0;
	if (fold_is_needed(p, o))
		p = t->folded = fold(p, o, &lines, &idle);

	CLEANUP(freep) struct kept *kept = keep(p, o, idle, &sums, &t->least, &count);
	t->pruned = p->stack_count - count;
	kept = merge_pruned(kept, &count);
	name_functions(t, p, lines, &sums, kept, count);
	sums_done(&sums);
	lay_out(t, kept, count);
	t->idle = idle ? find_idle(t) : 0;
	return t;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	profile_free(t->folded);
	free(t->nodes);
	free(t->functions);
	free(t->sums);
	free(t);
}

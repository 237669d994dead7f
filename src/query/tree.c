#include "query/tree.h"

#include <math.h>

#define DELIMITER "-"

static uint64_t add(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t shown(const struct sample *s, enum tree_column column)
{
	return column == TREE_VALUE ? s->value : s->count;
}

/* ---- fold: a second profile whose frames are functions and whose stacks have the asked shape ---
 */

struct fold {
	const struct profile *in;
	const struct tree_options *options;
	struct profile *out;
	uint32_t *functions; /* frame of in -> frame of out; 0: not yet made */
	uint32_t *modules;   /* the same of modules */
	uint32_t *path;      /* scratch: the frames of one stack of in, in the order shown */
	uint32_t path_cap;
	uint32_t delimiter; /* frame of out */
};

static uint32_t mark(struct profile *p, const char *name)
{
	struct frame f = {.name = profile_string(p, name, strlen(name)), .kind = FRAME_MARK};

	return profile_frame(p, &f);
}

static uint32_t function_of(struct fold *f, uint32_t id)
{
	if (f->functions[id])
		return f->functions[id];

	const struct frame *frame = &f->in->frames[id];
	const struct module *m = &f->in->modules[frame->module];
	struct frame function = {
		.name = profile_string(f->out, profile_str(f->in, frame->name),
				       profile_str_len(f->in, frame->name)),
		.kind = frame->kind,
	};

	if (frame->module && !f->modules[frame->module]) {
		struct module copy = {
			.name = profile_string(f->out, profile_str(f->in, m->name),
					       profile_str_len(f->in, m->name)),
			.build_id = profile_string(f->out, profile_str(f->in, m->build_id),
						   profile_str_len(f->in, m->build_id)),
		};
		f->modules[frame->module] = profile_module(f->out, &copy);
	}
	function.module = f->modules[frame->module];
	return f->functions[id] = profile_frame(f->out, &function);
}

/* Adds the root frame "NAME" or "NAME (ID)" of two labels, if the series has the first. */
static uint32_t fold_label(struct fold *f, uint32_t stack, uint32_t series, const char *name_key,
			   const char *id_key)
{
	const char *name = profile_label(f->in, series, name_key);
	const char *id = id_key ? profile_label(f->in, series, id_key) : NULL;

	if (!name)
		return stack;
	CLEANUP(freep) char *both = id ? mem_printf("%s (%s)", name, id) : NULL;
	return profile_stack(f->out, stack, mark(f->out, both ? both : name));
}

static uint32_t fold_roots(struct fold *f, uint32_t series)
{
	const struct tree_options *o = f->options;
	uint32_t stack = 0;

	if (o->by_process)
		stack = fold_label(f, stack, series, "comm", "pid");
	else if (o->by_comm)
		stack = fold_label(f, stack, series, "comm", NULL);
	if (o->by_thread)
		stack = fold_label(f, stack, series, "thread", "tid");
	return stack;
}

/* Lists the frames of a stack in the order they will be shown; returns how many. */
static uint32_t fold_path(struct fold *f, uint32_t stack)
{
	uint32_t depth = 0;

	for (; stack; stack = f->in->stacks[stack].parent) {
		MEM_GROW(f->path, depth, f->path_cap);
		f->path[depth++] = f->in->stacks[stack].frame;
	}
	for (uint32_t i = 0; !f->options->reversed && i < depth / 2; i++) {
		uint32_t swap = f->path[i];
		f->path[i] = f->path[depth - 1 - i];
		f->path[depth - 1 - i] = swap;
	}
	return depth;
}

static bool is_border(const struct frame *a, const struct frame *b)
{
	return a->kind != FRAME_MARK && b->kind != FRAME_MARK &&
	       (a->kind == FRAME_KERNEL) != (b->kind == FRAME_KERNEL);
}

static void fold_sample(struct fold *f, const struct sample *s)
{
	const struct frame *frames = f->in->frames;
	uint32_t stack = fold_roots(f, s->series);
	uint32_t depth = fold_path(f, s->stack);

	for (uint32_t i = 0; i < depth; i++) {
		if (f->options->delimited && i &&
		    is_border(&frames[f->path[i - 1]], &frames[f->path[i]]))
			stack = profile_stack(f->out, stack, f->delimiter);
		stack = profile_stack(f->out, stack, function_of(f, f->path[i]));
	}
	profile_add(f->out, 0, stack, s->count, s->value);
}

static struct profile *fold(const struct profile *p, const struct tree_options *o)
{
	struct fold f = {
		.in = p,
		.options = o,
		.out = profile_new(),
		.functions = mem_alloc_array(p->frame_count, sizeof(*f.functions)),
		.modules = mem_alloc_array(p->module_count, sizeof(*f.modules)),
	};

	f.delimiter = mark(f.out, DELIMITER);
	for (uint32_t i = 0; i < p->sample_count; i++)
		fold_sample(&f, &p->samples[i]);
	free(f.functions);
	free(f.modules);
	free(f.path);
	return f.out;
}

/* ---- build: the stacks that are kept, then their order -----------------------------------------
 */

/* A stack that is kept. Entry 0 is the root; parents come before their children. */
struct kept {
	uint32_t parent; /* index of kept */
	uint32_t function;
	uint64_t total;
	uint64_t self;
};

/* Each stack's total. Parents have lesser ids, so one sweep backwards is enough. */
static uint64_t *sum_totals(const struct profile *p, enum tree_column column)
{
	uint64_t *totals = mem_alloc_array(p->stack_count, sizeof(*totals));

	for (uint32_t i = 0; i < p->sample_count; i++)
		totals[p->samples[i].stack] =
			add(totals[p->samples[i].stack], shown(&p->samples[i], column));
	for (uint32_t id = p->stack_count - 1; id > 0; id--)
		totals[p->stacks[id].parent] = add(totals[p->stacks[id].parent], totals[id]);
	return totals;
}

/*
 * Picks the stacks of at least `least`. Totals and places share one array, since millions of
 * stacks may stand in it: a parent's total is done with once its children look for its place.
 */
static struct kept *keep(const struct profile *p, enum tree_column column, double min_fraction,
			 uint32_t *ret_count)
{
	CLEANUP(freep) uint64_t *totals = sum_totals(p, column);
	uint64_t *places = totals;
	double least = ceil((double)totals[0] * min_fraction);
	uint32_t count = 1;

	for (uint32_t id = 1; id < p->stack_count; id++)
		count += totals[id] && (double)totals[id] >= least;

	struct kept *kept = mem_alloc_array(count, sizeof(*kept));
	count = 0;
	for (uint32_t id = 0; id < p->stack_count; id++) {
		if (id && (!totals[id] || (double)totals[id] < least)) {
			places[id] = UINT64_MAX;
			continue;
		}
		kept[count] = (struct kept){
			.parent = id ? (uint32_t)places[p->stacks[id].parent] : 0,
			.function = p->stacks[id].frame,
			.total = totals[id],
		};
		places[id] = count++;
	}
	for (uint32_t i = 0; i < p->sample_count; i++) {
		uint64_t place = places[p->samples[i].stack];
		if (place != UINT64_MAX)
			kept[place].self = add(kept[place].self, shown(&p->samples[i], column));
	}
	*ret_count = count;
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

/* Lists the functions of the nodes, sorted, and changes kept[].function from frame to index. */
static void name_functions(struct tree *t, const struct profile *p, struct kept *kept,
			   uint32_t count)
{
	CLEANUP(freep) uint32_t *ranks = mem_alloc_array(p->frame_count, sizeof(*ranks));
	CLEANUP(freep) struct named *named = NULL;
	uint32_t n = 0;

	for (uint32_t i = 1; i < count; i++)
		n += ranks[kept[i].function]++ == 0;
	named = mem_alloc_array(n, sizeof(*named));
	n = 0;
	for (uint32_t id = 1; id < p->frame_count; id++) {
		const struct frame *f = &p->frames[id];
		if (!ranks[id])
			continue;
		named[n++] = (struct named){
			.function =
				{
					.name = profile_str(p, f->name),
					.module = profile_str(p, p->modules[f->module].name),
					.name_len = (uint32_t)profile_str_len(p, f->name),
					.kind = f->kind,
				},
			.frame = id,
		};
	}
	qsort(named, n, sizeof(*named), function_order);

	t->functions = mem_alloc_array(n + 1, sizeof(*t->functions));
	t->functions[0] = (struct tree_function){.name = "", .module = "", .kind = FRAME_MARK};
	t->function_count = n + 1;
	for (uint32_t i = 0; i < n; i++) {
		t->functions[i + 1] = named[i].function;
		ranks[named[i].frame] = i + 1;
	}
	for (uint32_t i = 1; i < count; i++)
		kept[i].function = ranks[kept[i].function];
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
	CLEANUP(freep) uint32_t *places = mem_alloc_array(count, sizeof(*places));

	for (uint32_t i = count; i-- > 0;) {
		sizes[i]++;
		if (i)
			sizes[kept[i].parent] += sizes[i];
	}

	t->nodes = mem_alloc_array(count, sizeof(*t->nodes));
	t->count = count;
	t->nodes[0].next = count;
	for (uint32_t i = 0; i < count; i++) {
		struct tree_node *n = &t->nodes[places[i]];
		uint32_t place = places[i] + 1;

		n->function = kept[i].function;
		n->total = kept[i].total;
		n->self = kept[i].self;
		t->depth = MAX(t->depth, n->depth);
		for (uint32_t c = first[i]; c < first[i + 1]; c++) {
			places[children[c]] = place;
			t->nodes[place].parent = places[i];
			t->nodes[place].depth = n->depth + 1;
			t->nodes[place].next = place + sizes[children[c]];
			place = t->nodes[place].next;
		}
	}
}

/* Whether the profile's own stacks are the nodes of the tree. */
static bool has_shape(const struct profile *p, const struct tree_options *o)
{
	bool by_label = (o->by_comm || o->by_process || o->by_thread) && p->series_count > 1;

	return !p->has_detail && !by_label && !o->delimited && !o->reversed;
}

struct tree *tree_new(const struct profile *p, const struct tree_options *o)
{
	struct tree *t = mem_alloc(sizeof(*t));
	uint32_t count;

	t->unit = o->column == TREE_VALUE ? p->info.unit : "samples";
	if (!has_shape(p, o))
		p = t->folded = fold(p, o);

	CLEANUP(freep) struct kept *kept = keep(p, o->column, o->min_fraction, &count);
	t->pruned = p->stack_count - count;
	name_functions(t, p, kept, count);
	lay_out(t, kept, count);
	return t;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	profile_free(t->folded);
	free(t->nodes);
	free(t->functions);
	free(t);
}

#include "query/fold.h"

#include "base/mem.h"
#include "profile/remap.h"
#include "query/idle.h"

#define DELIMITER "-"

struct folding {
	const struct profile *in;
	const struct tree_options *options;
	struct profile *out;
	uint32_t *functions; /* frame of in -> frame of out; 0: not yet made */
	struct remap_from from;
	struct remap map;  /* of in -> of out: modules alone */
	uint64_t *weights; /* frame of in -> what was seen in it or what it called */
	uint32_t *path;    /* scratch: the frames of one stack of in, in the order shown */
	uint32_t path_cap;
	uint32_t delimiter; /* frame of out */
	bool *is_idle;      /* stack of in -> whether it stands apart; NULL: none does */
	uint32_t idle;      /* stack of out: what those stand on, or are */
};

static uint32_t mark(struct profile *p, const char *name)
{
	struct frame f = {.name = profile_string(p, name, strlen(name)), .kind = FRAME_MARK};

	return profile_frame(p, &f);
}

static uint32_t function_of(struct folding *f, uint32_t id)
{
	if (f->functions[id])
		return f->functions[id];

	const struct frame *frame = &f->in->frames[id];
	struct frame function = {.name = remap_string(&f->from, frame->name, f->out),
				 .module = remap_module(&f->map, &f->from, frame->module, f->out),
				 .kind = frame->kind};
	return f->functions[id] = profile_frame(f->out, &function);
}

/* Adds the root frame "NAME" or "NAME (ID)" of two labels, if the series has the first. */
static uint32_t fold_label(struct folding *f, uint32_t stack, uint32_t series, const char *name_key,
			   const char *id_key)
{
	const char *name = profile_label(f->in, series, name_key);
	const char *id = id_key ? profile_label(f->in, series, id_key) : NULL;

	if (!name)
		return stack;
	CLEANUP(freep) char *both = id ? mem_printf("%s (%s)", name, id) : NULL;
	return profile_stack(f->out, stack, mark(f->out, both ? both : name));
}

/*
 * The root frame of a label's value. A pid alone says nothing: it is "NAME (PID)", and those too
 * short-lived to have one (pipeline/labeller.h) are one frame a name.
 */
static uint32_t fold_by(struct folding *f, uint32_t stack, uint32_t series)
{
	const char *by = f->options->by, *value = profile_label(f->in, series, by);
	const char *comm = strcmp(by, "pid") == 0 ? profile_label(f->in, series, "comm") : NULL;
	CLEANUP(freep) char *text = NULL;

	if (comm && *comm)
		text = mem_printf("%s (%s)", comm, value && *value ? value : "short-lived");
	else if (!value || !*value)
		text = mem_printf("[no %s]", by);
	return profile_stack(f->out, stack, mark(f->out, text ? text : value ? value : ""));
}

/* Adds the frames that labels are, on top of a stack. */
static uint32_t fold_roots(struct folding *f, uint32_t stack, uint32_t series)
{
	const struct tree_options *o = f->options;

	if (o->by)
		return fold_by(f, stack, series);
	if (o->by_process)
		stack = fold_label(f, stack, series, "comm", "pid");
	else if (o->by_comm)
		stack = fold_label(f, stack, series, "comm", NULL);
	if (o->by_thread)
		stack = fold_label(f, stack, series, "thread", "tid");
	return stack;
}

/* Lists the frames of a stack in the order they will be shown, without its root if that is the mark
 * of what stands apart; returns how many. */
static uint32_t fold_path(struct folding *f, uint32_t stack, bool is_apart)
{
	uint32_t depth = 0;

	for (; stack && !(is_apart && !f->in->stacks[stack].parent);
	     stack = f->in->stacks[stack].parent) {
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
	       frame_is_kernel(a->kind) != frame_is_kernel(b->kind);
}

static void fold_sample(struct folding *f, const struct sample *s, uint32_t series)
{
	const struct frame *frames = f->in->frames;
	bool is_apart = f->is_idle && f->is_idle[s->stack];
	bool is_folded = is_apart && !f->options->idle;
	uint32_t stack = is_folded ? f->idle : fold_roots(f, is_apart ? f->idle : 0, s->series);
	uint32_t depth = is_folded ? 0 : fold_path(f, s->stack, is_apart);
	uint64_t weight = f->options->column == TREE_VALUE ? s->value : s->count;

	for (uint32_t i = 0; i < depth; i++) {
		if (f->options->delimited && i &&
		    is_border(&frames[f->path[i - 1]], &frames[f->path[i]]))
			stack = profile_stack(f->out, stack, f->delimiter);
		stack = profile_stack(f->out, stack, function_of(f, f->path[i]));
		f->weights[f->path[i]] += weight;
	}
	profile_add(f->out, series, stack, s->count, s->value);
}

/* Says where in the sources the functions were. */
static void fold_lines(const struct folding *f, struct hot_lines *lines)
{
	for (uint32_t id = 1; id < f->in->frame_count; id++) {
		const struct frame *frame = &f->in->frames[id];
		if (!frame->source || !f->functions[id])
			continue;
		struct hot_line at = {
			.source = remap_string(&f->from, frame->source, f->out),
			.line = frame->line,
		};
		hot_lines_add(lines, f->functions[id], at, f->weights[id]);
	}
}

/* Adds the samples of a profile to out, as those of `series`; returns the stack of idle time that
 * stands apart, 0 if there is none. */
static uint32_t fold_into(struct profile *out, const struct profile *p,
			  const struct tree_options *o, bool idle_apart, uint32_t series,
			  struct hot_lines *lines)
{
	struct folding f = {
		.in = p,
		.options = o,
		.out = out,
		.functions = mem_alloc_array(p->frame_count, sizeof(*f.functions)),
		.from = remap_from_profile(p),
		.weights = mem_alloc_array(p->frame_count, sizeof(*f.weights)),
		.is_idle = idle_apart ? idle_stacks(p) : NULL,
	};

	f.delimiter = mark(f.out, DELIMITER);
	f.idle = f.is_idle ? profile_stack(out, 0, mark(out, FRAME_IDLE)) : 0;
	for (uint32_t i = 0; i < p->sample_count; i++)
		fold_sample(&f, &p->samples[i], series);
	fold_lines(&f, lines);
	free(f.functions);
	remap_done(&f.map);
	free(f.weights);
	free(f.path);
	free(f.is_idle);
	return f.idle;
}

struct profile *fold(const struct profile *p, const struct tree_options *o,
		     struct hot_line **ret_lines, uint32_t *ret_idle)
{
	struct profile *out = profile_new();
	struct hot_lines lines = {};
	bool apart = idle_is_apart(p);

	uint32_t idle = fold_into(out, p, o, apart, 0, &lines);
	if (o->base) {
		struct label base = {profile_string(out, "base", 4), profile_string(out, "1", 1)};
		uint32_t of_base =
			fold_into(out, o->base, o, apart, profile_series(out, &base, 1), &lines);
		idle = idle ? idle : of_base;
	}
	*ret_idle = o->idle ? 0 : idle;
	*ret_lines = hot_lines_most(&lines, out->frame_count);
	hot_lines_done(&lines);
	return out;
}

bool fold_is_needed(const struct profile *p, const struct tree_options *o)
{
	bool by_label = (o->by_comm || o->by_process || o->by_thread) && p->series_count > 1;

	return p->has_detail || by_label || o->by || o->delimited || o->reversed || o->base ||
	       idle_is_apart(p);
}

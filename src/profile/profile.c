#include "profile/profile.h"

#include "base/index.h"
#include "base/mem.h"
#include "base/string_pool.h"
#include "base/text.h"

#define STACKS_MAX (1u << 27)

_Static_assert(PROFILE_DEPTH_MAX <= UINT16_MAX, "depths are 16 bits");

/*
 * The growing arrays behind the public pointers, and the indexes that make entries unique. view()
 * updates the pointers after an array may have moved.
 */
struct profile_tables {
	struct string_pool strings;
	struct arena labels;
	struct module *modules;
	struct frame *frames;
	struct stack *stacks;
	uint16_t *depths; /* of stacks */
	struct series *series;
	struct sample *samples;
	uint32_t module_cap, frame_cap, stack_cap, depth_cap, series_cap, sample_cap;
	struct index by_module, by_frame, by_stack, by_series, by_sample;
	uint32_t stacks_max;
};

static void view(struct profile *p)
{
	const struct profile_tables *t = p->tables;

	p->modules = t->modules;
	p->frames = t->frames;
	p->stacks = t->stacks;
	p->series = t->series;
	p->samples = t->samples;
}

struct profile *profile_new(void)
{
	struct profile *p = mem_alloc(sizeof(*p));
	struct profile_tables *t = mem_alloc(sizeof(*t));

	p->tables = t;
	p->info.type = p->info.unit = "samples";
	t->stacks_max = STACKS_MAX;

	/* Entry 0 of each is its "none". */
	t->modules = mem_alloc_array(t->module_cap = 8, sizeof(*t->modules));
	t->frames = mem_alloc_array(t->frame_cap = 64, sizeof(*t->frames));
	t->stacks = mem_alloc_array(t->stack_cap = 64, sizeof(*t->stacks));
	t->depths = mem_alloc_array(t->depth_cap = 64, sizeof(*t->depths));
	t->series = mem_alloc_array(t->series_cap = 8, sizeof(*t->series));
	p->module_count = p->frame_count = p->stack_count = p->series_count = 1;
	view(p);
	return p;
}

void profile_free(struct profile *p)
{
	if (!p)
		return;

	struct profile_tables *t = p->tables;
	string_pool_done(&t->strings);
	arena_done(&t->labels);
	free(t->modules);
	free(t->frames);
	free(t->stacks);
	free(t->depths);
	free(t->series);
	free(t->samples);
	index_done(&t->by_module);
	index_done(&t->by_frame);
	index_done(&t->by_stack);
	index_done(&t->by_series);
	index_done(&t->by_sample);
	free(t);
	free(p);
}

/* A function of its own, so that the usual case needs no stack space for the copy. */
static __attribute__((noinline)) uint32_t put_clean(struct profile *p, const char *s, size_t len)
{
	char clean[TEXT_MAX + 1];

	return string_pool_put(&p->tables->strings, clean, text_clean(s, len, clean));
}

uint32_t profile_string(struct profile *p, const char *s, size_t len)
{
	/* Most strings are in the pool already, which holds clean ones only. */
	uint32_t id = string_pool_find(&p->tables->strings, s, len);
	if (id)
		return id;
	return text_is_plain(s, len) ? string_pool_put(&p->tables->strings, s, len)
				     : put_clean(p, s, len);
}

const char *profile_str(const struct profile *p, uint32_t id)
{
	return string_pool_get(&p->tables->strings, id);
}

size_t profile_str_len(const struct profile *p, uint32_t id)
{
	return string_pool_len(&p->tables->strings, id);
}

uint32_t profile_string_count(const struct profile *p)
{
	return p->tables->strings.count;
}

const char *profile_keep(struct profile *p, const char *s)
{
	return profile_str(p, profile_string(p, s, strlen(s)));
}

uint32_t profile_module(struct profile *p, const struct module *m)
{
	struct profile_tables *t = p->tables;
	uint32_t hash = index_hash2(m->name, m->build_id);
	uint32_t id;

	INDEX_EACH(&t->by_module, hash, id)
		if (t->modules[id].name == m->name && t->modules[id].build_id == m->build_id)
			return id;

	MEM_GROW(t->modules, p->module_count, t->module_cap);
	view(p);
	id = p->module_count++;
	t->modules[id] = *m;
	index_put(&t->by_module, hash, id);
	return id;
}

static bool frame_same(const struct frame *a, const struct frame *b)
{
	return a->name == b->name && a->module == b->module && a->addr == b->addr &&
	       a->source == b->source && a->line == b->line && a->start == b->start &&
	       a->kind == b->kind;
}

uint32_t profile_frame(struct profile *p, const struct frame *f)
{
	struct profile_tables *t = p->tables;
	uint32_t hash = index_hash2((uint64_t)f->name << 32 | f->module,
				    f->addr ^ (uint64_t)f->line << 32 ^ (uint64_t)f->kind << 60);
	uint32_t id;

	INDEX_EACH(&t->by_frame, hash, id)
		if (frame_same(&t->frames[id], f))
			return id;

	MEM_GROW(t->frames, p->frame_count, t->frame_cap);
	view(p);
	id = p->frame_count++;
	t->frames[id] = *f;
	index_put(&t->by_frame, hash, id);
	p->has_detail |= f->addr || f->source || f->line;
	return id;
}

void profile_set_stacks_max(struct profile *p, uint32_t max)
{
	p->tables->stacks_max = max;
}

uint32_t profile_stack(struct profile *p, uint32_t parent, uint32_t frame)
{
	struct profile_tables *t = p->tables;
	uint32_t id = parent + 1, hash = 0;

	/*
	 * A child that was added right after its parent has the next id, so it needs no index
	 * entry; and the stack added last has no child yet. So a new path is added without any
	 * lookup.
	 */
	if (id < p->stack_count) {
		if (t->stacks[id].parent == parent && t->stacks[id].frame == frame)
			return id;
		hash = index_hash2(parent, frame);
		INDEX_EACH(&t->by_stack, hash, id)
			if (t->stacks[id].parent == parent && t->stacks[id].frame == frame)
				return id;
	}

	if (p->stack_count > t->stacks_max || t->depths[parent] == PROFILE_DEPTH_MAX) {
		p->info.capped++;
		return parent;
	}
	MEM_GROW(t->stacks, p->stack_count, t->stack_cap);
	MEM_GROW(t->depths, p->stack_count, t->depth_cap);
	view(p);
	id = p->stack_count++;
	t->stacks[id] = (struct stack){parent, frame};
	t->depths[id] = (uint16_t)(t->depths[parent] + 1);
	if (id != parent + 1)
		index_put(&t->by_stack, hash, id);
	return id;
}

static int label_order(const void *a, const void *b)
{
	const struct label *x = a, *y = b;

	return x->key != y->key ? (x->key > y->key) - (x->key < y->key)
				: (x->value > y->value) - (x->value < y->value);
}

static uint32_t series_hash(const struct label *sorted, size_t count)
{
	uint32_t hash = 0;

	for (size_t i = 0; i < count; i++)
		hash = index_hash2(hash, (uint64_t)sorted[i].key << 32 | sorted[i].value);
	return hash;
}

static uint32_t series_find(const struct profile_tables *t, uint32_t hash,
			    const struct label *sorted, size_t count)
{
	uint32_t id;

	INDEX_EACH(&t->by_series, hash, id)
		if (t->series[id].count == count &&
		    memcmp(t->series[id].labels, sorted, count * sizeof(*sorted)) == 0)
			return id;
	return 0;
}

uint32_t profile_series(struct profile *p, const struct label *labels, size_t count)
{
	if (count == 0)
		return 0;

	struct profile_tables *t = p->tables;
	struct label *sorted = arena_dup(&t->labels, labels, count * sizeof(*labels));
	qsort(sorted, count, sizeof(*sorted), label_order);

	uint32_t hash = series_hash(sorted, count);
	uint32_t id = series_find(t, hash, sorted, count);
	if (id) {
		arena_undo(&t->labels, sorted);
		return id;
	}

	MEM_GROW(t->series, p->series_count, t->series_cap);
	view(p);
	id = p->series_count++;
	t->series[id] = (struct series){sorted, (uint32_t)count};
	index_put(&t->by_series, hash, id);
	return id;
}

uint32_t profile_series_find(const struct profile *p, const struct label *labels, size_t count)
{
	CLEANUP(freep) struct label *sorted = mem_dup(labels, count * sizeof(*labels));

	qsort(sorted, count, sizeof(*sorted), label_order);
	return series_find(p->tables, series_hash(sorted, count), sorted, count);
}

void profile_add(struct profile *p, uint32_t series, uint32_t stack, uint64_t count, uint64_t value)
{
	struct profile_tables *t = p->tables;
	uint32_t hash = index_hash2((uint64_t)series << 32 | stack, 0);
	uint32_t id;

	INDEX_EACH(&t->by_sample, hash, id) {
		struct sample *s = &t->samples[id - 1];
		if (s->series == series && s->stack == stack) {
			s->count += count;
			s->value += value;
			return;
		}
	}

	MEM_GROW(t->samples, p->sample_count, t->sample_cap);
	view(p);
	t->samples[p->sample_count++] = (struct sample){series, stack, count, value};
	index_put(&t->by_sample, hash, p->sample_count);
}

void profile_divide(struct profile *p, uint64_t by)
{
	uint64_t carry = by / 2;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		/* The view is read-only; the memory is the profile's own. */
		uint64_t *value = (uint64_t *)(uintptr_t)&p->samples[i].value;
		uint64_t rest = *value % by + carry;
		*value = *value / by + rest / by;
		carry = rest % by;
	}
}

const char *profile_label(const struct profile *p, uint32_t series, const char *key)
{
	const struct series *s = &p->series[series];

	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(profile_str(p, s->labels[i].key), key) == 0)
			return profile_str(p, s->labels[i].value);
	return NULL;
}

size_t profile_bytes(const struct profile *p)
{
	const struct profile_tables *t = p->tables;

	return sizeof(*p) + sizeof(*t) + string_pool_bytes(&t->strings) + t->labels.bytes +
	       t->module_cap * sizeof(*t->modules) + t->frame_cap * sizeof(*t->frames) +
	       t->stack_cap * sizeof(*t->stacks) + t->depth_cap * sizeof(*t->depths) +
	       t->series_cap * sizeof(*t->series) + t->sample_cap * sizeof(*t->samples) +
	       index_bytes(&t->by_module) + index_bytes(&t->by_frame) + index_bytes(&t->by_stack) +
	       index_bytes(&t->by_series) + index_bytes(&t->by_sample);
}

#include "ingest/growth.h"

#include <stdlib.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"

struct worth {
	uint64_t hash, count, value;
};

struct grown_type {
	char type[WINDOW_TYPE_MAX];
	struct worth *all; /* sorted by hash, each once */
	uint32_t count;
	uint64_t sum;
};

struct growth {
	struct grown_type types[GROWTH_TYPES_MAX];
	uint32_t count;
};

struct growth *growth_new(void)
{
	return mem_alloc(sizeof(struct growth));
}

void growth_free(struct growth *g)
{
	if (!g)
		return;
	for (uint32_t i = 0; i < g->count; i++)
		free(g->types[i].all);
	free(g);
}

size_t growth_bytes(const struct growth *g)
{
	size_t sum = sizeof(*g);

	for (uint32_t i = 0; i < g->count; i++)
		sum += g->types[i].count * sizeof(struct worth);
	return sum;
}

bool growth_is_sum(const char *sample_type)
{
	static const char *const sums[] = {"alloc_space", "alloc_objects", "contentions", "delay"};

	for (size_t i = 0; i < ARRAY_SIZE(sums); i++)
		if (strcmp(sums[i], sample_type) == 0)
			return true;
	return false;
}

/* ---- hashes -------------------------------------------------------------------------------- */

static uint64_t hash_string(const struct profile *p, uint32_t id, uint64_t seed)
{
	return XXH3_64bits_withSeed(profile_str(p, id), profile_str_len(p, id), seed);
}

static uint64_t hash_frame(const struct profile *p, const struct frame *f, uint64_t seed)
{
	const struct module *m = &p->modules[f->module];
	const uint64_t words[] = {hash_string(p, f->name, 1),
				  hash_string(p, f->source, 2),
				  hash_string(p, m->name, 3),
				  hash_string(p, m->build_id, 4),
				  f->addr,
				  f->line,
				  f->kind};

	return XXH3_64bits_withSeed(words, sizeof(words), seed);
}

/* By stack. From malloc. */
static uint64_t *hash_stacks(const struct profile *p)
{
	uint64_t *frames = mem_alloc_array(p->frame_count, sizeof(*frames));
	uint64_t *stacks = mem_alloc_array(p->stack_count, sizeof(*stacks));

	for (uint32_t i = 1; i < p->frame_count; i++)
		frames[i] = hash_frame(p, &p->frames[i], 0);
	for (uint32_t i = 1; i < p->stack_count; i++) {
		const uint64_t both[] = {stacks[p->stacks[i].parent], frames[p->stacks[i].frame]};
		stacks[i] = XXH3_64bits(both, sizeof(both));
	}
	free(frames);
	return stacks;
}

/* In whatever order the labels have. */
static uint64_t hash_series(const struct profile *p, uint32_t id)
{
	const struct series *s = &p->series[id];
	uint64_t sum = 0;

	for (uint32_t i = 0; i < s->count; i++)
		sum += hash_string(p, s->labels[i].value, hash_string(p, s->labels[i].key, 5));
	return sum;
}

/* Of each sample, in their order. From malloc. */
static uint64_t *hash_samples(const struct profile *p)
{
	CLEANUP(freep) uint64_t *stacks = hash_stacks(p);
	uint64_t *hashes = mem_alloc_array((size_t)p->sample_count + 1, sizeof(*hashes));

	for (uint32_t i = 0; i < p->sample_count; i++)
		hashes[i] = stacks[p->samples[i].stack] + hash_series(p, p->samples[i].series);
	return hashes;
}

/* ---- comparing ----------------------------------------------------------------------------- */

static int by_hash(const void *a, const void *b)
{
	const struct worth *x = a, *y = b;

	return (x->hash > y->hash) - (x->hash < y->hash);
}

static const struct grown_type *find_type(const struct growth *g, const char *type)
{
	for (uint32_t i = 0; g && i < g->count; i++)
		if (strcmp(g->types[i].type, type) == 0)
			return &g->types[i];
	return NULL;
}

static void remember(struct growth *g, const char *type, const struct profile *p,
		     const uint64_t *hashes)
{
	struct grown_type *t = &g->types[g->count++];
	uint32_t n = 0;

	snprintf(t->type, sizeof(t->type), "%s", type);
	t->all = mem_alloc_array((size_t)p->sample_count + 1, sizeof(*t->all));
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		t->all[i] = (struct worth){hashes[i], s->count, s->value};
		t->sum += s->value;
	}
	qsort(t->all, p->sample_count, sizeof(*t->all), by_hash);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		if (n && t->all[n - 1].hash == t->all[i].hash) {
			t->all[n - 1].count += t->all[i].count;
			t->all[n - 1].value += t->all[i].value;
		} else {
			t->all[n++] = t->all[i];
		}
	}
	t->count = n;
}

/* Whether this is the same program as before, and not one that was started since. */
static bool goes_on(const struct grown_type *was, const struct grown_type *is)
{
	uint32_t sunk = 0;

	for (uint32_t i = 0, k = 0; i < was->count; i++) {
		while (k < is->count && is->all[k].hash < was->all[i].hash)
			k++;
		bool there = k < is->count && is->all[k].hash == was->all[i].hash;
		sunk += !there || is->all[k].value < was->all[i].value;
	}
	return is->sum >= was->sum && sunk <= was->count / 2;
}

static struct pushed_before *before(const struct grown_type *was, const struct profile *p,
				    const uint64_t *hashes)
{
	struct pushed_before *b = mem_alloc_array((size_t)p->sample_count + 1, sizeof(*b));

	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct worth key = {.hash = hashes[i]};
		const struct worth *w =
			bsearch(&key, was->all, was->count, sizeof(*was->all), by_hash);
		if (w)
			b[i] = (struct pushed_before){w->count, w->value};
	}
	return b;
}

/* False: it is to be left out, as nothing was known of it. */
static bool compare(const struct growth *g, struct pushed_profile *of, struct growth *next,
		    bool *restarted)
{
	const struct grown_type *was = find_type(g, of->type);
	CLEANUP(freep) uint64_t *hashes = hash_samples(of->p);

	remember(next, of->type, of->p, hashes);
	if (!was)
		return false;
	if (goes_on(was, &next->types[next->count - 1]))
		of->before = before(was, of->p, hashes);
	else
		*restarted = true;
	return true;
}

bool growth_since(const struct growth *g, struct pushed *p, struct growth **ret,
		  bool *ret_restarted)
{
	struct growth *next = growth_new();
	bool restarted = false;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < p->count; i++) {
		struct pushed_profile *of = p->all[i];
		bool is_sum = growth_is_sum(of->parts.sample_type);
		if (is_sum &&
		    (of->p->sample_count > GROWTH_SAMPLES_MAX || next->count == GROWTH_TYPES_MAX)) {
			pushed_refuse(p, 413, "too_large",
				      "the profile has more than %u stacks: too many to be "
				      "compared with those of the time before",
				      GROWTH_SAMPLES_MAX);
			break;
		}
		if (!is_sum || compare(g, of, next, &restarted)) {
			p->all[i] = p->all[kept];
			p->all[kept++] = of;
		}
	}
	if (p->status) {
		growth_free(next);
		return false;
	}
	while (p->count > kept)
		pushed_drop_last(p);
	*ret = next;
	*ret_restarted = restarted;
	return true;
}

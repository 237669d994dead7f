#include "query/versions.h"

#include <stdlib.h>

#include "base/index.h"
#include "store/store.h"

/* One build of a program, or one value of its label `version`. */
struct seen {
	uint32_t process, exe; /* strings of the profile */
	uint32_t what;         /* string: build id, or the label */
	bool is_label, says_nothing;
	uint32_t first, last; /* blocks */
	uint64_t samples;
};

struct looking {
	const struct profile *p;
	struct seen *list;
	uint32_t count, cap;
	struct index index;
};

static uint32_t label_id(const struct profile *p, uint32_t series, const char *key)
{
	const struct series *s = &p->series[series];

	for (uint32_t i = 0; i < s->count; i++)
		if (strcmp(profile_str(p, s->labels[i].key), key) == 0)
			return s->labels[i].value;
	return 0;
}

static void see(struct looking *l, const struct seen *one, uint32_t block)
{
	uint32_t hash = index_hash2((uint64_t)one->process << 32 | one->exe,
				    (uint64_t)one->what << 1 | one->is_label);
	uint32_t id;

	if (!one->what)
		return;
	MEM_GROW(l->list, l->count, l->cap);
	INDEX_EACH(&l->index, hash, id) {
		struct seen *s = &l->list[id - 1];
		if (s->process != one->process || s->exe != one->exe || s->what != one->what ||
		    s->is_label != one->is_label)
			continue;
		s->first = MIN(s->first, block);
		s->last = MAX(s->last, block);
		s->samples += one->samples;
		return;
	}
	l->list[l->count] = *one;
	l->list[l->count].first = l->list[l->count].last = block;
	index_put(&l->index, hash, ++l->count);
}

/* The build id of the program's own file, if a frame of the stack lies in it. */
static uint32_t build_of(const struct profile *p, uint32_t stack, uint32_t exe)
{
	for (; stack && exe; stack = p->stacks[stack].parent) {
		uint32_t module = p->frames[p->stacks[stack].frame].module;
		if (module && p->modules[module].path == exe && p->modules[module].build_id)
			return p->modules[module].build_id;
	}
	return 0;
}

static void look(struct looking *l)
{
	const struct profile *p = l->p;

	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		const char *block = profile_label(p, s->series, STORE_BLOCK);
		uint32_t at = block ? (uint32_t)strtoul(block, NULL, 10) : 0;
		struct seen one = {.process = label_id(p, s->series, "comm"),
				   .exe = label_id(p, s->series, "exe"),
				   .samples = s->count};
		one.what = build_of(p, s->stack, one.exe);
		see(l, &one, at);
		one.what = label_id(p, s->series, "version");
		one.is_label = true;
		see(l, &one, at);
	}
}

/* By program, then builds before labels, each in order of time. */
static int order(const void *a, const void *b)
{
	const struct seen *x = a, *y = b;

	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->exe != y->exe)
		return x->exe < y->exe ? -1 : 1;
	if (x->is_label != y->is_label)
		return x->is_label ? 1 : -1;
	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->what > y->what) - (x->what < y->what);
}

static bool is_same_program(const struct seen *a, const struct seen *b)
{
	return a->process == b->process && a->exe == b->exe;
}

/* Whether a label is only the beginning of the build id of one of the program's builds. */
static bool says_nothing(const struct looking *l, const struct seen *label)
{
	const char *text = profile_str(l->p, label->what);

	for (const struct seen *s = label; label->is_label && s-- > l->list;) {
		if (!is_same_program(s, label))
			break;
		if (!s->is_label && strncmp(profile_str(l->p, s->what), text, strlen(text)) == 0)
			return true;
	}
	return false;
}

static const char *keep(struct versions *v, const struct profile *p, uint32_t string)
{
	return arena_strndup(&v->arena, profile_str(p, string), profile_str_len(p, string));
}

/* A new build with a new label is one event. */
static struct version *find_event(struct versions *v, const char *process, const char *exe,
				  uint32_t block)
{
	for (uint32_t i = 0; i < v->count; i++)
		if (v->list[i].block + 1 >= block && v->list[i].block <= block + 1 &&
		    strcmp(v->list[i].process, process) == 0 && strcmp(v->list[i].exe, exe) == 0)
			return &v->list[i];
	return NULL;
}

static void note(struct versions *v, const struct profile *p, const struct seen *before,
		 const struct seen *now)
{
	const char *process = keep(v, p, now->process), *exe = keep(v, p, now->exe);
	struct version *e = find_event(v, process, exe, now->first);

	if (!e) {
		v->list = mem_resize_array(v->list, v->count + 1, sizeof(*v->list));
		e = &v->list[v->count++];
		*e = (struct version){.process = process,
				      .exe = exe,
				      .before = "",
				      .now = "",
				      .label_before = "",
				      .label_now = "",
				      .samples_before = before->samples,
				      .samples_now = now->samples,
				      .block = now->first};
	}
	if (now->is_label) {
		e->label_before = keep(v, p, before->what);
		e->label_now = keep(v, p, now->what);
	} else {
		e->before = keep(v, p, before->what);
		e->now = keep(v, p, now->what);
	}
}

static int by_time(const void *a, const void *b)
{
	const struct version *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return strcmp(x->process, y->process);
}

void versions_find(const struct profile *p, struct versions *ret)
{
	struct looking l = {.p = p};

	*ret = (struct versions){};
	look(&l);
	if (l.count)
		qsort(l.list, l.count, sizeof(*l.list), order);
	for (uint32_t i = 0; i < l.count; i++)
		l.list[i].says_nothing = says_nothing(&l, &l.list[i]);
	for (uint32_t i = 0; i < l.count; i++) {
		const struct seen *now = &l.list[i], *before = NULL;
		bool alone = now->samples >= VERSIONS_LEAST && !now->says_nothing;
		/* All of its kind that came before: gone by the time that it ran, and not there in
		 * the last block that it ran in, which may be minutes. */
		for (uint32_t k = i; k-- > 0 && is_same_program(&l.list[k], now);) {
			if (l.list[k].is_label != now->is_label || l.list[k].says_nothing)
				continue;
			alone &= l.list[k].last <= now->first && l.list[k].first < now->first &&
				 l.list[k].last < now->last;
			if (!before && l.list[k].samples >= VERSIONS_LEAST)
				before = &l.list[k];
		}
		if (alone && before)
			note(ret, p, before, now);
	}
	if (ret->count)
		qsort(ret->list, ret->count, sizeof(*ret->list), by_time);
	if (ret->count > VERSIONS_MAX) {
		memmove(ret->list, ret->list + ret->count - VERSIONS_MAX,
			VERSIONS_MAX * sizeof(*ret->list));
		ret->count = VERSIONS_MAX;
	}
	free(l.list);
	index_done(&l.index);
}

void versions_done(struct versions *v)
{
	free(v->list);
	arena_done(&v->arena);
	*v = (struct versions){};
}

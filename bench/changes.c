/*
 * changes STORE SELECTOR FROM TO PAIRS [MINUTES]: false alarms and power of `smolder changes`, on
 * windows that were recorded.
 *
 * From the windows of a stretch in which nothing changed (FROM to TO, ms since 1970) it draws pairs
 * of ranges that are as long (or of MINUTES), in runs of five minutes as they were recorded (a
 * block bootstrap): so each range has the load, the bursts and the likeness of neighbours of a real
 * one, and the two of a pair differ by nothing else. Anything that is listed of a pair is a false
 * alarm. Then, in the second of each pair, one function is made 20 % slower: each of its samples is
 * there once more with a probability of a fifth. That is done with each of the largest functions in
 * turn.
 *
 * Prints a line of JSON: {"pairs":…,"alarms":…,"windows":…,"slower":[{"process":…,"function":…,
 * "share":…,"samples":…,"first":…,"pairs":…}]}
 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "profile/remap.h"
#include "query/changes.h"
#include "query/selector.h"
#include "render/escape.h"
#include "store/store.h"

#define RUN_WINDOWS   30
#define BLOCK_WINDOWS 6
#define SLOWER        0.2
#define FUNCTIONS_MAX 8

static const struct remap_caps no_caps = {UINT32_MAX, UINT32_MAX};
static uint64_t seed = 88172645463325252;

static double uniform(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return ((double)(seed >> 11) + 0.5) / 9007199254740992.0;
}

struct recorded {
	struct profile *p;       /* series have the labels comm and STORE_BLOCK: the window */
	uint32_t windows, drawn; /* that there are; of a range that is drawn */
	uint32_t *first, *next;  /* by window, by sample: lists of samples */
};

struct function { /* of a program: what is made slower */
	uint32_t comm, name;
	uint64_t samples;
};

static int read_windows(const char *where, const char *selector, uint64_t from, uint64_t to,
			struct recorded *ret)
{
	static const char *const by[] = {"comm"};
	CLEANUP(selector_freep) struct selector *s = NULL;
	struct store_options o = {.read_only = true};
	struct store_error err = {};
	struct selector_error wrong = {};
	struct store_answer answer;
	struct store *store;
	struct store_query q = {};

	if (selector_parse(selector, &s, &wrong) != 0 || store_open(where, &o, &store, &err) != 0) {
		fprintf(stderr, "changes: %s%s\n", wrong.text, err.text);
		return -1;
	}
	selector_query(s, &q);
	q.from_ms = from;
	q.to_ms = to;
	q.block_ms = WINDOW_MS;
	q.by = by;
	q.by_count = 1;
	ret->p = profile_new();
	int r = store_sum(store, &q, ret->p, &answer, &err);
	store_close(store);
	if (r)
		fprintf(stderr, "changes: %s\n", err.text);
	return r;
}

static uint32_t window_of(const struct profile *p, uint32_t sample)
{
	return (uint32_t)strtoul(profile_label(p, p->samples[sample].series, STORE_BLOCK), NULL,
				 10);
}

static void list_by_window(struct recorded *r)
{
	for (uint32_t i = 0; i < r->p->sample_count; i++)
		r->windows = MAX(r->windows, window_of(r->p, i) + 1);
	r->first = mem_alloc_array((size_t)r->windows + 1, sizeof(*r->first));
	r->next = mem_alloc_array((size_t)r->p->sample_count + 1, sizeof(*r->next));
	for (uint32_t i = 0; i < r->p->sample_count; i++) {
		uint32_t w = window_of(r->p, i);
		r->next[i] = r->first[w];
		r->first[w] = i + 1;
	}
}

static uint32_t comm_of(const struct profile *p, uint32_t series)
{
	for (uint32_t i = 0; i < p->series[series].count; i++)
		if (strcmp(profile_str(p, p->series[series].labels[i].key), "comm") == 0)
			return p->series[series].labels[i].value;
	return 0;
}

static uint32_t leaf_of(const struct profile *p, const struct sample *s)
{
	return s->stack ? p->frames[p->stacks[s->stack].frame].name : 0;
}

static uint64_t with_more(uint64_t count)
{
	uint64_t more = 0;

	for (uint64_t i = 0; i < count; i++)
		more += uniform() < SLOWER;
	return count + more;
}

/* A range of as many windows, drawn in runs; what is `slower` takes a fifth more (NULL: nothing).
 */
static struct profile *draw(const struct recorded *r, const struct function *slower)
{
	struct profile *to = profile_new();
	struct remap m = {};
	uint32_t key = profile_string(to, "comm", 4), block = profile_string(to, STORE_BLOCK, 5);

	for (uint32_t w = 0, at = 0; w < r->drawn; w++, at++) {
		char number[16];
		if (w % RUN_WINDOWS == 0)
			at = (uint32_t)(uniform() * r->windows);
		snprintf(number, sizeof(number), "%u", w / BLOCK_WINDOWS);
		uint32_t in = profile_string(to, number, strlen(number));
		for (uint32_t i = r->first[at % r->windows]; i; i = r->next[i - 1]) {
			const struct sample *s = &r->p->samples[i - 1];
			uint32_t comm = comm_of(r->p, s->series);
			bool is_it =
				slower && comm == slower->comm && leaf_of(r->p, s) == slower->name;
			const char *name = profile_str(r->p, comm);
			struct label l[] = {{key, profile_string(to, name, strlen(name))},
					    {block, in}};
			uint64_t count = is_it ? with_more(s->count) : s->count;
			profile_add(to, profile_series(to, l, 2),
				    remap_stack(&m, r->p, s->stack, to, &no_caps), count,
				    s->value / s->count * count);
		}
	}
	remap_done(&m);
	return to;
}

static void compare(const struct recorded *r, const struct function *slower, struct changes *ret)
{
	CLEANUP(profile_freep) struct profile *base = draw(r, NULL), *now = draw(r, slower);
	uint32_t blocks = (r->drawn + BLOCK_WINDOWS - 1) / BLOCK_WINDOWS;
	CLEANUP(freep) double *recorded = mem_alloc_array(blocks, sizeof(*recorded));

	for (uint32_t w = 0; w < r->drawn; w++)
		recorded[w / BLOCK_WINDOWS] += WINDOW_MS * 1e6;
	struct block_side sides[] = {{base, blocks, recorded}, {now, blocks, recorded}};
	if (changes_find(&sides[BLOCK_BASE], &sides[BLOCK_NOW], ret) != 0)
		fprintf(stderr, "changes: the stretch is too short\n");
}

static int most(const void *a, const void *b)
{
	const struct function *x = a, *y = b;

	return (x->samples < y->samples) - (x->samples > y->samples);
}

static uint32_t largest(const struct recorded *r, struct function **ret)
{
	struct function *all = mem_alloc_array((size_t)r->p->sample_count + 1, sizeof(*all));
	uint32_t count = 0;

	for (uint32_t i = 0; i < r->p->sample_count; i++) {
		const struct sample *s = &r->p->samples[i];
		struct function f = {comm_of(r->p, s->series), leaf_of(r->p, s), s->count};
		uint32_t k = 0;
		while (k < count && (all[k].comm != f.comm || all[k].name != f.name))
			k++;
		if (k == count)
			all[count++] = f;
		else
			all[k].samples += f.samples;
	}
	qsort(all, count, sizeof(*all), most);
	*ret = all;
	return MIN(count, FUNCTIONS_MAX);
}

static void measure_alarms(const struct recorded *r, unsigned pairs)
{
	unsigned alarms = 0;

	for (unsigned i = 0; i < pairs; i++) {
		struct changes c;
		compare(r, NULL, &c);
		alarms += c.count > 0;
		changes_done(&c);
	}
	printf("{\"pairs\":%u,\"alarms\":%u,\"windows\":%u,\"slower\":[", pairs, alarms,
	       r->windows);
}

static void measure_power(const struct recorded *r, const struct function *f, unsigned pairs)
{
	const char *comm = profile_str(r->p, f->comm), *name = profile_str(r->p, f->name);
	uint64_t all = 0;
	unsigned first = 0;

	for (uint32_t i = 0; i < r->p->sample_count; i++)
		if (comm_of(r->p, r->p->samples[i].series) == f->comm)
			all += r->p->samples[i].count;
	for (unsigned i = 0; i < pairs; i++) {
		struct changes c;
		compare(r, f, &c);
		first += c.functions && strcmp(c.list[0].process, comm) == 0 &&
			 strcmp(c.list[0].function, name) == 0;
		changes_done(&c);
	}
	fputs("{\"process\":", stdout);
	escape_json(stdout, comm, strlen(comm));
	fputs(",\"function\":", stdout);
	escape_json(stdout, name, strlen(name));
	printf(",\"share\":%.4f,\"samples\":%" PRIu64 ",\"first\":%u,\"pairs\":%u}",
	       (double)f->samples / (double)all, f->samples, first, pairs);
}

int main(int argc, char **argv)
{
	struct recorded r = {};
	CLEANUP(freep) struct function *functions = NULL;

	if (argc != 6 && argc != 7) {
		fputs("usage: changes STORE SELECTOR FROM TO PAIRS [MINUTES]\n", stderr);
		return 2;
	}
	if (read_windows(argv[1], argv[2], strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10),
			 &r) != 0)
		return 1;
	unsigned pairs = (unsigned)strtoul(argv[5], NULL, 10);
	list_by_window(&r);
	r.drawn = argc > 6 ? (uint32_t)strtoul(argv[6], NULL, 10) * BLOCK_WINDOWS : r.windows;
	measure_alarms(&r, pairs);
	uint32_t count = largest(&r, &functions);
	for (uint32_t i = 0; i < count; i++) {
		fputs(i ? "," : "", stdout);
		measure_power(&r, &functions[i], (pairs + 9) / 10);
	}
	puts("]}");
	profile_free(r.p);
	free(r.first);
	free(r.next);
	return 0;
}

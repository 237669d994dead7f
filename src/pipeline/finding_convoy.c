/* The finding that many threads wait for one lock, and what whoever has it does. */
#include "pipeline/finding_rules.h"

#include <stdio.h>

#include "base/mem.h"
#include "pipeline/finding_text.h"

/* Thresholds, in the order of docs/findings.md. */
#define CONVOY_LEAST   0.05 /* of a CPU that all of its threads take … */
#define CONVOY_CPU     1.30 /* … and at most: they run one after the other */
#define CONVOY_THREADS 4
#define CONVOY_WAITING 0.50 /* of the time that each of them waits for one lock … */
#define CONVOY_WAITS   20   /* … so often a second, at least */
#define HOLDER_SAMPLES 5    /* of threads that have the lock, to say what they do … */
#define HOLDER_COMMON  0.70 /* … which so many of them have in common */

/* A lock, and those who wait for it. */
struct convoy {
	uint32_t lock; /* 0: none */
	unsigned threads;
	double waits;   /* a second */
	double waiting; /* threads, at any moment */
};

static struct convoy convoy_of(const struct finding_case *c, uint32_t lock)
{
	const struct closeup_view *v = c->closeup;
	struct convoy is = {.lock = lock};

	for (size_t i = 0; i < v->count; i++) {
		const struct closeup_row *r = &v->rows[i];
		if (r->key.lock != lock || r->key.result != CLOSEUP_DONE)
			continue;
		double part = (double)r->sum.ns / (double)v->ns;
		is.threads += part >= CONVOY_WAITING &&
			      (double)r->sum.count >= CONVOY_WAITS * finding_seconds(c);
		is.waits += (double)r->sum.count / finding_seconds(c);
		is.waiting += part;
	}
	return is;
}

static bool has_lock(const struct closeup_view *v, uint32_t lock, const struct finding_sample *s)
{
	for (size_t i = 0; i < v->hold_count; i++) {
		const struct closeup_hold *h = &v->holds[i];
		if (h->lock == lock && h->tid == s->tid && h->from <= s->time &&
		    s->time <= h->until)
			return true;
	}
	return false;
}

/* Of the stacks, how many end in or pass through that one. */
static size_t count_in(const struct profile *dict, const uint32_t *stacks, size_t count,
		       uint32_t through)
{
	size_t in = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t at = stacks[i];
		while (at > through) /* a parent's id is always less */
			at = dict->stacks[at].parent;
		in += at == through;
	}
	return in;
}

/*
 * The code that whoever has the lock is in, by samples of those moments: the deepest that most of
 * them have in common. 0: there are too few.
 */
static uint32_t stack_of_holder(const struct finding_case *c, uint32_t lock, unsigned *ret_samples)
{
	enum { TRIED = 16 };
	uint32_t stacks[256], common = 0;
	size_t count = 0;

	for (size_t i = 0; i < c->sample_count && count < ARRAY_SIZE(stacks); i++)
		if (c->samples[i].stack && has_lock(c->closeup, lock, &c->samples[i]))
			stacks[count++] = c->samples[i].stack;
	*ret_samples = (unsigned)count;
	if (count < HOLDER_SAMPLES)
		return 0;
	for (size_t i = 0; i < MIN(count, (size_t)TRIED); i++) {
		uint32_t at = stacks[i];
		while (at > common &&
		       (double)count_in(c->dict, stacks, count, at) < HOLDER_COMMON * (double)count)
			at = c->dict->stacks[at].parent;
		common = MAX(common, at);
	}
	return common;
}

/* Threads that run one after the other take one CPU together, at most. */
double suspects_convoy(const struct finding_case *c)
{
	double share = look_share(c->look, c->of->part.ns);

	return c->of->threads >= CONVOY_THREADS && share >= CONVOY_LEAST && share <= CONVOY_CPU
		       ? share
		       : 0;
}

bool holds_convoy(const struct finding_case *c, struct finding *ret)
{
	const struct closeup_view *v = c->closeup;
	char who[64], rate[FINDING_NUMBER], holder[160] = "";
	struct convoy most = {};
	unsigned samples;

	for (size_t i = 0; i < v->count; i++) {
		if (!v->rows[i].key.lock)
			continue;
		struct convoy is = convoy_of(c, v->rows[i].key.lock);
		if (is.threads > most.threads)
			most = is;
	}
	if (most.threads < CONVOY_THREADS)
		return false;
	uint32_t stack = stack_of_holder(c, most.lock, &samples);
	if (stack)
		snprintf(holder, sizeof(holder), " Whoever has it is mostly in %.100s.",
			 profile_str(c->dict, c->dict->frames[c->dict->stacks[stack].frame].name));
	finding_headline(
		ret,
		"%s: %u threads spend most of their time waiting for the same lock, %.1f of "
		"them at any moment; it changes hands %s times a second.%s",
		finding_who(c, who, sizeof(who)), most.threads, most.waiting,
		finding_number(most.waits, rate), holder);
	finding_means(
		ret,
		"So they run one after the other, however many CPUs there are, and each "
		"handing over costs a switch. %s",
		stack ? "The stack is what was done while the lock was held: perhaps some of "
			"that needs no lock, or the lock guards too much."
		      : "Nobody was seen at work while holding it, so whoever has it probably "
			"sleeps; the stack is only where the process runs most.");
	finding_next(ret, "smolder offcpu -p %u --wakers 5", c->of->pid);
	ret->sure = stack ? 0.9 : 0.7;
	finding_fact(ret, "waiting_threads", most.threads);
	finding_fact(ret, "waits_per_second", most.waits);
	finding_fact(ret, "threads_waiting_on_average", most.waiting);
	finding_fact(ret, "cpu_share", look_share(c->look, c->of->part.ns));
	finding_fact(ret, "samples_of_its_holder", samples);
	/* Where nobody was seen to have it: the code that the process is in most. */
	const struct look_row *top =
		look_top(c->look, c->look->threads[c->of->hottest].process, 0, CODE_CLASSES);
	if (stack || top)
		finding_stack(c->dict, stack ? stack : top->code.caller, NULL, ret);
	return true;
}

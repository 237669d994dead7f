#include "query/version_cost.h"

#include <math.h>
#include <time.h>

#include "base/index.h"
#include "base/mem.h"
#include "pipeline/finding_text.h"
#include "query/comparison.h"
#include "query/selector.h"

#define DAY_MS        86400000ull
#define START_MS      60000 /* of a new version are its start */
#define ID_COLUMNS    12
#define LABEL_COLUMNS 40
#define NAMES_SHOWN   2

struct looking {
	struct store *s;
	uint64_t clock_ms;
	struct store_error *err;
};

/* What is there of a program in a range: from the first to the last window in which it ran. */
static int narrow(const struct looking *l, const char *comm, struct timerange *range)
{
	struct matcher is_it;
	struct store_query q = {.type = "cpu",
				.from_ms = range->from_ms,
				.to_ms = range->to_ms,
				.step_ms = WINDOW_MS,
				.matchers = &is_it,
				.matcher_count = 1};
	struct store_timeline t = {};

	matcher_init(&is_it, "comm", MATCHER_EQUAL, comm, NULL); /* no pattern, so it cannot fail */
	int err = store_timeline(l->s, &q, &t, l->err);
	matcher_done(&is_it);
	if (err)
		return err;
	uint32_t first = t.steps, last = 0;
	for (uint32_t i = 0; i < t.steps && t.line_count; i++) {
		if (!t.lines[0].values[i])
			continue;
		first = MIN(first, i);
		last = i + 1;
	}
	if (first < last) {
		range->to_ms = MIN(range->to_ms, t.start_ms + last * t.step_ms);
		range->from_ms = MAX(range->from_ms, t.start_ms + first * t.step_ms);
	} else {
		range->to_ms = range->from_ms;
	}
	store_timeline_done(&t);
	return 0;
}

/* Compares the CPU time of one program. *ret_step: NULL if it takes no more than then. */
static int compare(const struct looking *l, const char *comm, struct timerange now,
		   struct timerange base, struct comparisons *ret, const struct change **ret_step)
{
	CLEANUP(freep) char *selector = comparison_selector(comm);
	struct comparison_ask ask = {.selector = selector,
				     .now = now,
				     .base = base,
				     .clock_ms = l->clock_ms,
				     .alone = true};

	*ret_step = NULL;
	int err = comparisons_make(l->s, &ask, ret, l->err);
	if (err || !ret->count || !ret->list[0].is_compared)
		return err;
	const struct changes *c = &ret->list[0].changes;
	for (uint32_t i = c->functions; i < c->count; i++)
		if (strcmp(c->list[i].process, comm) == 0 && isfinite(c->list[i].change) &&
		    c->list[i].change >= VERSION_COST_LEAST)
			*ret_step = &c->list[i];
	return 0;
}

/* ---- in words ------------------------------------------------------------------------------ */

/* "; parse and format take more for the same work": the functions that explain it, and how far. */
static double name_functions(const struct changes *c, double step_seconds, char *ret, size_t size)
{
	double explained = 0;
	size_t n = 0;
	int names = 0;

	*ret = '\0';
	for (uint32_t i = 0; i < c->functions; i++) {
		if (c->list[i].seconds_a_day <= 0)
			continue;
		explained += c->list[i].seconds_a_day / step_seconds;
		if (names == NAMES_SHOWN || n >= size)
			continue;
		n += (size_t)snprintf(ret + n, size - n, "%s%.80s", names ? " and " : "; ",
				      c->list[i].function);
		names++;
	}
	if (names && n < size)
		snprintf(ret + n, size - n,
			 names > 1 ? " take more for the same work"
				   : " takes more for the same work");
	return explained;
}

static void put_path(const struct changes *c, struct finding *f)
{
	char text[sizeof(f->stack)] = "";

	if (!c->functions || c->list[0].seconds_a_day <= 0)
		return;
	for (uint32_t i = 0, n = 0; i < c->list[0].path_len && n < sizeof(text); i++)
		n += (uint32_t)snprintf(text + n, sizeof(text) - n, "%s%s", i ? ";" : "",
					c->list[0].path[i]);
	FINDING_SET(f->stack, text);
}

static void put_command(uint64_t at_ms, const char *comm, struct finding *f)
{
	CLEANUP(freep) char *selector = comparison_selector(comm);
	time_t t = (time_t)(at_ms / 1000);
	struct tm tm;
	char at[32];

	gmtime_r(&t, &tm);
	strftime(at, sizeof(at), "%Y-%m-%dT%H:%M:%SZ", &tm);
	finding_next(f, "smolder changes '%s' --at %s", selector, at);
}

static void describe(const struct noticed *n, const struct comparison *c, const struct change *step,
		     bool knows_yesterday, struct finding *f)
{
	const struct version *v = &n->version;
	char names[200];
	bool is_build = !*v->label_now;
	int columns = is_build ? ID_COLUMNS : LABEL_COLUMNS;
	double explained = name_functions(&c->changes, step->seconds_a_day, names, sizeof(names));

	FINDING_SET(f->kind, VERSION_COST_KIND);
	FINDING_SET(f->comm, v->process);
	finding_headline(f,
			 "%s takes %.0f %% more CPU since its new version: %.2f CPUs instead of "
			 "%.2f (%s %.*s instead of %.*s)%s.",
			 v->process, 100 * step->change, step->now, step->before,
			 is_build ? "build" : "version", columns, is_build ? v->now : v->label_now,
			 columns, is_build ? v->before : v->label_before, names);
	FINDING_SET(
		f->means,
		explained >= 0.5
			? "The new version needs more for the same work, in the functions named."
			: "The new version needs more for the same work all over, or it has more "
			  "to do than before.");
	f->sure = explained >= 0.5 ? 0.95 : knows_yesterday ? 0.8 : 0.6;
	put_command(n->at_ms, v->process, f);
	put_path(&c->changes, f);
	finding_fact(f, "cpus_before", step->before);
	finding_fact(f, "cpus", step->now);
	finding_fact(f, "explained_by_functions", explained);
}

/* ---- one version --------------------------------------------------------------------------- */

static uint64_t id_of(const struct version *v)
{
	uint32_t program = index_hash_bytes(v->process, strlen(v->process));
	uint32_t build = index_hash_bytes(v->now, strlen(v->now));
	uint32_t label = index_hash_bytes(v->label_now, strlen(v->label_now));

	return (uint64_t)program << 32 | index_hash2(build, label);
}

/* 1: it costs more; 0: it does not, or that cannot be told yet. */
static int look(const struct looking *l, const struct noticed *n, struct finding *ret)
{
	const char *comm = n->version.process;
	struct timerange base = {n->at_ms - MIN(n->at_ms, COMPARISON_SPAN_MS), n->at_ms};
	struct timerange now = {n->at_ms + START_MS,
				MIN(n->at_ms + START_MS + COMPARISON_SPAN_MS, l->clock_ms)};
	struct comparisons versions = {}, yesterday = {};
	const struct change *step = NULL, *since = NULL;

	if (now.to_ms < now.from_ms + VERSION_COST_AFTER_MS)
		return 0;
	int err = narrow(l, comm, &base);
	if (err || base.to_ms <= base.from_ms)
		return err;
	err = compare(l, comm, now, base, &versions, &step);
	if (!err && step) {
		base = (struct timerange){now.from_ms - DAY_MS, now.to_ms - DAY_MS};
		err = compare(l, comm, now, base, &yesterday, &since);
	}
	bool knows = yesterday.count && yesterday.list[0].is_compared &&
		     yesterday.list[0].changes.cpus[BLOCK_BASE] > 0;
	bool is_one = !err && step && (since || !knows);
	if (is_one) {
		*ret = (struct finding){
			.id = id_of(&n->version), .began_ms = n->at_ms, .until_ms = l->clock_ms};
		describe(n, &versions.list[0], step, knows, ret);
	}
	comparisons_done(&versions);
	comparisons_done(&yesterday);
	return err ? err : is_one;
}

int version_cost_find(struct store *s, uint64_t clock_ms, struct finding ret[VERSION_COSTS_MAX],
		      uint32_t *ret_count, struct store_error *ret_err)
{
	struct looking l = {s, clock_ms, ret_err};
	struct comparisons all;
	struct timerange range = {clock_ms - MIN(clock_ms, VERSION_COST_BACK_MS), clock_ms};

	*ret_count = 0;
	int err = comparisons_notice(s, range, &all, ret_err);
	for (uint32_t i = 0, looks = 0; i < all.noticed_count && err >= 0; i++) {
		struct noticed *n = &all.noticed[i];
		const struct version *v = &n->version;
		if (MIN(v->samples_before, v->samples_now) < VERSION_COST_SAMPLES ||
		    looks == VERSION_COSTS_MAX)
			continue;
		looks++;
		err = comparison_refine(s, n, ret_err);
		err = err ? err : look(&l, n, &ret[*ret_count]);
		*ret_count += err > 0;
	}
	comparisons_done(&all);
	return MIN(err, 0);
}

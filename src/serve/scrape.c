#include "serve/scrape.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "serve/fetcher.h"
#include "serve/jobs.h"
#include "serve/scrape_access.h"
#include "serve/scrape_sources.h"

#define TICK_MS     200u
#define CONNECT_MS  10000u
#define WAITING     256u /* answers that are not read yet; their bytes have a limit, too */
#define DEADLINE_MS 60000u
#define FIRST_MS    3600000u /* for so long at most, sums are counted backwards */

struct scraper {
	struct loop *loop;
	const struct scrape_config *config;
	struct inbox *inbox;
	struct fetcher *fetcher;
	struct jobs *jobs;
	struct scrape_sources *sources;
	struct scrape_target **targets;
	size_t count, cap;
	size_t next;            /* whose turn it is first, so that all have theirs */
	unsigned running, slow; /* under way; of those, such that took all of their time before */
	bool is_ending;
	struct scraper_stats stats;
};

struct scrape { /* one that is under way */
	struct job job;
	struct scraper *scraper;
	struct scrape_target *target;
	struct scrape_secrets secrets;
	struct download_end end;
	bool is_slow;
	uint64_t began_ms, ended_ms; /* since 1970 */
	uint64_t ran_ms;             /* CLOCK_MONOTONIC, when it began */
	struct pushed pushed;
	struct growth *next;
	bool restarted;
};

/* ---- the end of a scrape ------------------------------------------------------------------- */

static void note(struct scrape_target *t, const struct scrape *x)
{
	const struct pushed *p = &x->pushed;

	t->times++;
	t->failures += p->status != 0;
	t->health = p->status ? SCRAPE_DOWN : SCRAPE_UP;
	t->reason = p->status ? p->reason : NULL;
	t->is_slow = p->status && strcmp(p->reason, "timeout") == 0;
	snprintf(t->error, sizeof(t->error), "%s", p->status ? p->why : "");
	t->began_ms = x->began_ms;
	t->took_ms = clock_ms(CLOCK_MONOTONIC) - x->ran_ms;
	t->bytes += x->end.bytes;
}

/* What it has now is what the next one is compared with, if there is room to know it. */
static void keep_growth(struct scraper *s, struct scrape_target *t, struct growth *next,
			uint64_t now_ms)
{
	size_t had = t->growth ? growth_bytes(t->growth) : 0, more = growth_bytes(next);

	growth_free(t->growth);
	t->growth = NULL;
	s->stats.growth_bytes -= had;
	if (s->stats.growth_bytes + more > SCRAPE_GROWTH_MAX) {
		s->stats.unknown++;
		growth_free(next);
	} else {
		s->stats.growth_bytes += more;
		t->growth = next;
	}
	t->read_ms = now_ms;
}

static void forget(struct scraper *s, struct scrape_target *t)
{
	if (t->growth)
		s->stats.growth_bytes -= growth_bytes(t->growth);
	scrape_target_free(t);
}

static void finish(struct scrape *x)
{
	struct scraper *s = x->scraper;
	struct scrape_target *t = x->target;
	struct pushed *p = &x->pushed;

	fetcher_release(s->fetcher, &x->end);
	scrape_secrets_done(&x->secrets);
	t->is_running = false;
	s->running--;
	s->slow -= x->is_slow;
	if (!s->is_ending && !t->is_gone) {
		if (inbox_take(s->inbox, p, x->ended_ms)) {
			s->stats.restarts += x->restarted;
			t->restarts += x->restarted;
			keep_growth(s, t, TAKE_PTR(x->next), x->ended_ms);
		}
		if (p->status && !t->failures)
			log_info("cannot scrape %s: %s; further failures are only counted", t->url,
				 p->why);
		note(t, x);
	}
	if (t->is_gone)
		forget(s, t);
	growth_free(x->next);
	pushed_done(p);
	free(x);
}

/* ---- reading what came, on a thread -------------------------------------------------------- */

static void read_profile(struct job *job)
{
	struct scrape *x = (struct scrape *)job;
	const struct scrape_target *t = x->target;
	uint64_t since = t->read_ms, now = x->ended_ms;
	bool is_delta = t->profile->delta;
	struct pushed_about about = {
		.labels = &t->labels,
		.to_ms = now / 1000 * 1000,
		.now_ms = now,
		.keep = t->profile->keep,
		.no_states = is_delta,
	};

	snprintf(about.type.name, sizeof(about.type.name), "%s", t->name);
	/* A difference is of the time that it took; what is compared is since the time before. */
	about.from_ms = is_delta ? x->began_ms
			: since  ? MAX(since, now - MIN(now, FIRST_MS))
				 : now - t->job->interval_ms;
	about.from_ms = about.from_ms / 1000 * 1000;
	if (since && now - since < 2 * t->job->interval_ms)
		about.holds_since_ms = since / 1000 * 1000;
	else if (since)
		about.holds_since_ms = (now - t->job->interval_ms) / 1000 * 1000;
	if (!pushed_pprof(&x->pushed, x->end.body, x->end.bytes, &about))
		return;
	if (is_delta)
		x->next = growth_new();
	else
		growth_since(t->growth, &x->pushed, &x->next, &x->restarted);
}

static void on_read(struct job *job)
{
	struct scrape *x = (struct scrape *)job;

	if (job->end != JOB_DONE)
		pushed_refuse(&x->pushed, 503, "busy",
			      "the server was too busy to read the profile");
	finish(x);
}

/* ---- the download -------------------------------------------------------------------------- */

static void on_end(struct download_end *end)
{
	struct scrape *x = end->ctx;
	struct pushed *p = &x->pushed;

	x->end = *end;
	x->ended_ms = clock_ms(CLOCK_REALTIME);
	if (end->error == -ETIMEDOUT)
		pushed_refuse(p, 504, "timeout", "it did not answer completely within %.1f s: %s",
			      (double)x->target->job->timeout_ms / 1000, end->why);
	else if (end->error == -EFBIG)
		pushed_refuse(p, 413, "too_large", "its answer is larger than %u MB",
			      SCRAPE_BYTES_MAX >> 20);
	else if (end->error == -ENOBUFS)
		pushed_refuse(p, 413, "no_room",
			      "its answer was the largest when those of all targets together were "
			      "larger than %u MB",
			      SCRAPE_MEMORY_MAX >> 20);
	else if (end->error)
		pushed_refuse(p, 502, "no_answer", "%s", end->why);
	else if (end->status != 200)
		pushed_refuse(p, 502, "status", "it answers with status %u", end->status);
	x->job = (struct job){.run = read_profile,
			      .done = on_read,
			      .fd = -1,
			      .deadline_ms = clock_ms(CLOCK_MONOTONIC) + DEADLINE_MS};
	if (!p->status && jobs_add(x->scraper->jobs, &x->job) == 0)
		return;
	if (!p->status)
		pushed_refuse(p, 503, "busy", "too many profiles came at once");
	finish(x);
}

static void begin(struct scraper *s, struct scrape_target *t)
{
	struct scrape *x = mem_alloc(sizeof(*x));
	struct found_error why;

	t->is_running = true;
	x->scraper = s;
	x->target = t;
	x->is_slow = t->is_slow;
	x->began_ms = x->ended_ms = clock_ms(CLOCK_REALTIME);
	x->ran_ms = clock_ms(CLOCK_MONOTONIC);
	s->running++;
	s->slow += x->is_slow;
	struct download_request r = {
		.url = t->url,
		.connect_to = t->connect_to,
		.fd = -1,
		.max = SCRAPE_BYTES_MAX,
		.connect_ms = MIN(CONNECT_MS, t->job->timeout_ms),
		.total_ms = t->job->timeout_ms,
		.ctx = x,
	};
	if (scrape_access_read(&t->job->access, &r.access, &x->secrets, &why)) {
		fetcher_add(s->fetcher, &r, on_end);
	} else {
		pushed_refuse(&x->pushed, 401, "access", "%s", why.text);
		finish(x);
	}
}

/* ---- whose turn it is ---------------------------------------------------------------------- */

/* Times that have passed while it was asked are left out. */
static void plan(struct scraper *s, struct scrape_target *t, uint64_t now)
{
	uint64_t every = t->job->interval_ms;

	t->due_ms += every;
	if (t->due_ms + every <= now) {
		uint64_t missed = (now - t->due_ms) / every;
		t->late += missed;
		s->stats.late += missed;
		t->due_ms += missed * every;
	}
}

static void turn(struct scraper *s, struct scrape_target *t, uint64_t now)
{
	bool full = s->running >= SCRAPE_AT_ONCE || (t->is_slow && s->slow >= SCRAPE_AT_ONCE / 2);

	if (t->is_running || full || now < t->due_ms)
		return;
	plan(s, t, now);
	begin(s, t);
}

static void on_tick(void *ctx, int what)
{
	struct scraper *s = ctx;
	uint64_t now = clock_ms(CLOCK_MONOTONIC);

	(void)what;
	scrape_sources_tick(s->sources, now);
	for (size_t i = 0; i < s->count; i++)
		turn(s, s->targets[(s->next + i) % s->count], now);
	s->next = s->count ? (s->next + 1) % s->count : 0;
}

/* ---- which targets there are --------------------------------------------------------------- */

struct gathering {
	struct scraper *scraper;
	struct scrape_target **all;
	size_t count, cap;
};

static bool is_in(const struct gathering *g, uint64_t key)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->all[i]->key == key)
			return true;
	return false;
}

/* The same as one that is there already is that one, with all that is known of it. */
static struct scrape_target *already(struct scraper *s, const struct scrape_target *t)
{
	for (size_t i = 0; i < s->count; i++) {
		struct scrape_target *old = s->targets[i];
		if (old && old->key == t->key && old->job == t->job && old->profile == t->profile) {
			s->targets[i] = NULL;
			return old;
		}
	}
	return NULL;
}

static void say_wrong(const struct scrape_job *j, const struct found_error *why, uint64_t before)
{
	if (!before)
		log_warn("a target of the job %s is left out: %s; further ones are only counted",
			 j->name, why->text);
}

static void gather(struct gathering *g, const struct scrape_job *j, const struct scrape_profile *p,
		   const struct found_target *found)
{
	struct scraper *s = g->scraper;
	struct scrape_target *t = NULL;
	struct found_error why;

	int r = scrape_target_new(j, p, found, &t, &why);
	s->stats.dropped += r == -ENOENT;
	if (r == -EINVAL)
		say_wrong(j, &why, s->stats.left_out++);
	if (r)
		return;
	if (is_in(g, t->key) || g->count == SCRAPE_TARGETS_MAX) {
		s->stats.left_out += g->count == SCRAPE_TARGETS_MAX;
		scrape_target_free(t);
		return;
	}
	struct scrape_target *old = already(s, t);
	if (old)
		scrape_target_free(t);
	else /* not all at once */
		t->due_ms = clock_ms(CLOCK_MONOTONIC) + t->key % MIN(j->interval_ms, 10000u);
	MEM_GROW(g->all, g->count, g->cap);
	g->all[g->count++] = old ? old : t;
}

static void on_changed(void *ctx)
{
	struct scraper *s = ctx;
	struct gathering g = {.scraper = s};

	s->stats.dropped = s->stats.left_out = 0;
	for (size_t i = 0; i < scrape_sources_count(s->sources); i++) {
		const struct scrape_known *k = scrape_sources_at(s->sources, i);
		s->stats.left_out += k->targets->left_out;
		for (size_t t = 0; t < k->targets->count; t++)
			for (size_t p = 0; p < k->job->profile_count; p++)
				if (!k->job->profiles[p].off)
					gather(&g, k->job, &k->job->profiles[p],
					       &k->targets->list[t]);
	}
	for (size_t i = 0; i < s->count; i++) {
		struct scrape_target *t = s->targets[i];
		if (t && t->is_running)
			t->is_gone = true;
		else if (t)
			forget(s, t);
	}
	free(s->targets);
	s->targets = g.all;
	s->count = g.count;
	s->cap = g.cap;
	s->next = 0;
}

/* ---- life ---------------------------------------------------------------------------------- */

struct scraper *scraper_new(struct loop *l, struct store *store, const struct scrape_config *config)
{
	struct scraper *s = mem_alloc(sizeof(*s));
	const char *why;

	s->loop = l;
	s->config = config;
	int r = fetcher_new(l, SCRAPE_MEMORY_MAX, &s->fetcher, &why);
	if (!r)
		r = loop_timer(l, TICK_MS, on_tick, s);
	if (r) {
		log_warn("nothing is scraped: %s%s",
			 why ? "that needs libcurl (Debian: libcurl4): " : "",
			 why ? why : strerror(-r));
		fetcher_free(s->fetcher);
		free(s);
		return NULL;
	}
	s->inbox = inbox_new(store);
	s->jobs = jobs_new(l, 1, WAITING);
	s->sources = scrape_sources_new(config, s->fetcher, s->jobs, on_changed, s);
	on_changed(s);
	return s;
}

void scraper_free(struct scraper *s)
{
	if (!s)
		return;
	s->is_ending = true;
	fetcher_stop(s->fetcher);
	jobs_free(s->jobs);
	scrape_sources_free(s->sources);
	for (size_t i = 0; i < s->count; i++)
		scrape_target_free(s->targets[i]);
	free(s->targets);
	fetcher_free(s->fetcher);
	inbox_free(s->inbox);
	free(s);
}

void scraper_stats(const struct scraper *s, struct scraper_stats *ret)
{
	*ret = s->stats;
	inbox_stats(s->inbox, &ret->inbox);
	ret->sources_failed = scrape_sources_failed(s->sources);
	ret->targets = (uint32_t)s->count;
	for (size_t i = 0; i < s->count; i++) {
		ret->up += s->targets[i]->health == SCRAPE_UP;
		ret->down += s->targets[i]->health == SCRAPE_DOWN;
	}
}

const struct scrape_target *scraper_target(const struct scraper *s, size_t i)
{
	return i < s->count ? s->targets[i] : NULL;
}

bool scraper_source(const struct scraper *s, size_t i, struct scraper_source *ret)
{
	if (i >= scrape_sources_count(s->sources))
		return false;
	const struct scrape_known *k = scrape_sources_at(s->sources, i);
	*ret = (struct scraper_source){.job = k->job,
				       .source = k->source,
				       .targets = k->targets->count,
				       .error = k->error};
	return true;
}

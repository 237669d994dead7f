#include "cli/top_server.h"

#include <string.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/log.h"
#include "profile/window.h"

#define TIMEOUT_MS 10000 /* nothing else happens while we wait for an answer */
#define FOUND_MS   60000 /* before an interval's end: findings that may still hold then */
#define LATE_MS    4000  /* a window that has ended arrives within so long */

static const char *const labels[] = {"comm", "pid",       "thread", "tid",
				     "host", "container", "unit",   "state"};

struct top_server {
	struct query_client_options options;
	struct query_client *client;
	bool wall;
	uint64_t end_ms; /* of the interval at hand; 0: none yet */
	struct top_interval interval;
	struct profile *of; /* that it is of */
};

/* A profile of the window that ends then; with a matcher, as a single word may be a process. */
static int ask(struct top_server *s, const char *selector, uint64_t end_ms, struct profile *into,
	       struct store_answer *ret)
{
	struct query_request q = {
		.selector = selector,
		.range = {.from_ms = end_ms - WINDOW_MS, .to_ms = end_ms},
		.keep = labels,
		.keep_count = ARRAY_SIZE(labels),
	};

	return query_client_profile(s->client, &q, into, ret);
}

/* ---- accounts -------------------------------------------------------------------------------- */

struct accounts {
	struct top_interval *interval;
	struct index by_owner;
};

static const char *text(const struct profile *p, uint32_t series, const char *key)
{
	const char *value = profile_label(p, series, key);

	return value ? value : "";
}

static bool same_owner(const struct top_account *a, const struct top_account *b)
{
	return a->pid == b->pid && a->tid == b->tid && strcmp(a->comm, b->comm) == 0 &&
	       strcmp(a->thread, b->thread) == 0 && strcmp(a->container, b->container) == 0 &&
	       strcmp(a->host, b->host) == 0;
}

static struct top_account *account_of(struct accounts *all, const struct profile *p,
				      uint32_t series)
{
	struct top_interval *i = all->interval;
	struct top_account a = {
		.pid = (uint32_t)strtoul(text(p, series, "pid"), NULL, 10),
		.tid = (uint32_t)strtoul(text(p, series, "tid"), NULL, 10),
		.comm = text(p, series, "comm"),
		.thread = text(p, series, "thread"),
		.container = text(p, series, "container"),
		.host = text(p, series, "host"),
		.ran = TOP_UNKNOWN,
		.runnable = TOP_UNKNOWN,
		.blocked = TOP_UNKNOWN,
		.idle = TOP_UNKNOWN,
		.switches = TOP_UNKNOWN,
	};
	if (!*a.container)
		a.container = text(p, series, "unit");
	uint32_t hash = index_hash2(index_hash_bytes(a.comm, strlen(a.comm)),
				    (uint64_t)a.pid << 32 | a.tid),
		 id;

	INDEX_EACH(&all->by_owner, hash, id)
		if (same_owner(&i->accounts[id - 1], &a))
			return &i->accounts[id - 1];
	top_interval_add(i, &a);
	index_put(&all->by_owner, hash, i->account_count);
	return &i->accounts[i->account_count - 1];
}

static void add(double *to, uint64_t ns)
{
	*to = (*to < 0 ? 0 : *to) + (double)ns;
}

/* By the state of each series: samples without one ran. */
static void add_profile(struct accounts *all, const struct profile *p)
{
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const struct sample *s = &p->samples[i];
		const char *state = text(p, s->series, "state");
		struct top_account *a = account_of(all, p, s->series);
		add(!*state                          ? &a->ran
		    : strcmp(state, "runnable") == 0 ? &a->runnable
		    : strcmp(state, "idle") == 0     ? &a->idle
						     : &a->blocked,
		    s->value);
	}
}

/* Where the server has waits, one who has none of a kind has waited for none. */
static void know_all(struct top_interval *i)
{
	for (uint32_t n = 0; n < i->account_count; n++) {
		struct top_account *a = &i->accounts[n];
		a->ran = MAX(a->ran, 0);
		a->runnable = MAX(a->runnable, 0);
		a->blocked = MAX(a->blocked, 0);
		a->idle = MAX(a->idle, 0);
	}
	i->has_idle = true;
}

/* ---- intervals ------------------------------------------------------------------------------- */

/* What ran by the exact counts, where there are any; and what was waited for. */
static int fill(struct top_server *s, struct top_interval *i, uint64_t end_ms)
{
	CLEANUP(profile_freep) struct profile *on = profile_new();
	CLEANUP(profile_freep) struct profile *off = profile_new();
	struct store_answer answer;
	struct accounts all = {.interval = i};
	int code = ask(s, "oncpu{comm!=\"\"}", end_ms, on, &answer);

	code = code ? code : ask(s, "offcpu{comm!=\"\"}", end_ms, off, &answer);
	if (code)
		return code;
	add_profile(&all, on->sample_count ? on : s->of);
	add_profile(&all, off);
	if (off->sample_count)
		know_all(i);
	index_done(&all.by_owner);
	i->is_wall = s->wall && off->sample_count;
	if (!i->is_wall)
		return 0;
	profile_free(s->of);
	s->of = profile_new();
	return ask(s, "wall{comm!=\"\"}", end_ms, s->of, &answer);
}

static void find_findings(struct top_server *s, struct top_interval *i, uint64_t end_ms)
{
	struct timerange range = {end_ms - FOUND_MS, end_ms};
	struct store_findings found = {};

	if (query_client_findings(s->client, &range, &found) != 0)
		return;
	top_interval_find(i, found.findings, found.count);
	store_findings_done(&found);
}

static enum top_take take_window(struct top_server *s, uint64_t end_ms,
				 const struct top_interval **ret)
{
	CLEANUP(profile_freep) struct profile *cpu = profile_new();
	struct store_answer answer;
	int code = ask(s, "cpu", end_ms, cpu, &answer);

	if (code)
		return TOP_FAILED;
	if (!answer.samples)
		return TOP_SAME;
	top_interval_done(&s->interval);
	profile_free(TAKE_PTR(s->of));
	struct top_interval *i = &s->interval;
	i->seconds = (double)WINDOW_MS / 1e3;
	i->end_ns = end_ms * 1000000;
	i->sampled = answer.samples;
	i->lost = answer.lost;
	s->of = TAKE_PTR(cpu);
	code = fill(s, i, end_ms);
	i->of = s->of;
	i->sample_count = s->of->sample_count;
	i->samples = mem_dup(s->of->samples, i->sample_count * sizeof(*i->samples));
	s->end_ms = end_ms;
	if (!code)
		find_findings(s, i, end_ms);
	*ret = i;
	return code ? TOP_FAILED : TOP_TAKEN;
}

/* The last window that has ended, or the one before until that has arrived. */
static enum top_take server_take(void *self, const struct top_interval **ret)
{
	struct top_server *s = self;
	uint64_t now = clock_ms(CLOCK_REALTIME), end = now - now % WINDOW_MS;

	if (!ret || end == s->end_ms)
		return TOP_SAME;
	enum top_take taken = take_window(s, end, ret);
	if (taken == TOP_SAME && s->end_ms != end - WINDOW_MS && now - end < LATE_MS)
		taken = take_window(s, end - WINDOW_MS, ret);
	return taken;
}

static int server_start(void *self, bool wall)
{
	struct top_server *s = self;

	s->wall = wall;
	s->end_ms = 0;
	return 0;
}

static int server_watch(void *self, struct loop *l)
{
	(void)self, (void)l;
	return 0;
}

static void server_stop(void *self)
{
	(void)self;
}

static void server_free(void *self)
{
	struct top_server *s = self;

	top_interval_done(&s->interval);
	profile_free(s->of);
	query_client_close(s->client);
	free(s);
}

int top_server_new(const struct query_client_options *o, struct top_source *ret)
{
	struct top_server *s = mem_alloc(sizeof(*s));

	s->options = *o;
	if (!s->options.timeout_ms)
		s->options.timeout_ms = TIMEOUT_MS;
	s->client = query_client_open(&s->options);
	if (!s->client) {
		free(s);
		return 1;
	}
	*ret = (struct top_source){
		.start = server_start,
		.watch = server_watch,
		.take = server_take,
		.stop = server_stop,
		.free = server_free,
		.self = s,
		.is_stored = true,
		.name = mem_strdup(o->server ? o->server : o->store),
	};
	return 0;
}

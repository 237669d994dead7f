#include "serve/debuginfod.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/download.h"
#include "base/log.h"
#include "base/loop.h"

#define AT_ONCE       4u
#define WISHES_MAX    1024u
#define FAILURES_MAX  3u
#define REST_MS       300000u
#define DOUBLINGS_MAX 6u /* of the rest of a build id: up to five hours */
#define WAIT_MS       10000u
#define CONNECT_MS    10000u
#define SILENT_S      90u
#define TOTAL_MS      900000u

struct wish { /* a build id that somebody wants */
	char id[DEBUG_CACHE_ID];
	enum { WAITING, ASKING, RESTING } state;
	unsigned failures; /* so often a server did not say whether it has the file */
	uint64_t again_ms; /* RESTING: until then. CLOCK_MONOTONIC */
};

struct mirror { /* one server */
	char *url;
	unsigned failures; /* in a row */
	uint64_t rests_ms; /* until then */
	bool said_failed, said_wrong;
};

struct asked { /* a request under way, or between two servers */
	char id[DEBUG_CACHE_ID];
	size_t at;                    /* of the servers */
	bool failed;                  /* one of them did not say whether it has the file … */
	bool skipped;                 /* … or was not asked, since it rests */
	struct debug_cache_part part; /* fd -1: none */
};

struct debuginfod {
	struct debug_cache *cache;
	const char *ca_file;
	struct mirror mirrors[DEBUGINFOD_SERVERS];
	size_t mirror_count;
	struct downloads *downloads;
	uint64_t silent_ms;
	struct asked asked[AT_ONCE]; /* of the thread alone; id "": free */
	bool said_unwritten;
	pthread_t thread;
	bool running;

	pthread_mutex_t lock; /* of what follows */
	bool stopping;
	struct wish wishes[WISHES_MAX];
	uint32_t wish_count;
	struct debuginfod_stats stats;
};

/* ---- wishes ---------------------------------------------------------------------------------- */

static struct wish *find_wish(struct debuginfod *d, const char *id)
{
	for (uint32_t i = 0; i < d->wish_count; i++)
		if (strcmp(d->wishes[i].id, id) == 0)
			return &d->wishes[i];
	return NULL;
}

void debuginfod_want(void *ctx, const char *build_id)
{
	struct debuginfod *d = ctx;

	if (!d->running || !debug_cache_is_id(build_id))
		return;
	pthread_mutex_lock(&d->lock);
	bool known = find_wish(d, build_id), full = d->wish_count == WISHES_MAX;
	if (!known && !full) {
		struct wish *w = &d->wishes[d->wish_count++];
		*w = (struct wish){.state = WAITING};
		snprintf(w->id, sizeof(w->id), "%s", build_id);
	}
	d->stats.dropped += !known && full;
	pthread_mutex_unlock(&d->lock);
	if (!known && !full)
		downloads_wake(d->downloads);
}

/* The next one to be asked for: false if there is none now. */
static bool next_wish(struct debuginfod *d, char ret[static DEBUG_CACHE_ID])
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);
	bool found = false;

	pthread_mutex_lock(&d->lock);
	for (uint32_t i = 0; i < d->wish_count && !found; i++) {
		struct wish *w = &d->wishes[i];
		found = w->state == WAITING || (w->state == RESTING && now >= w->again_ms);
		if (!found)
			continue;
		w->state = ASKING;
		memcpy(ret, w->id, sizeof(w->id));
	}
	pthread_mutex_unlock(&d->lock);
	return found;
}

/* Not all could say whether they have such a file: asked again later. */
static void put_off(struct debuginfod *d, const struct asked *a)
{
	pthread_mutex_lock(&d->lock);
	struct wish *w = find_wish(d, a->id);
	w->state = RESTING;
	w->again_ms =
		clock_ms(CLOCK_MONOTONIC) + ((uint64_t)REST_MS << MIN(w->failures, DOUBLINGS_MAX));
	w->failures += a->failed;
	pthread_mutex_unlock(&d->lock);
}

static void grant(struct debuginfod *d, const char *id)
{
	pthread_mutex_lock(&d->lock);
	struct wish *w = find_wish(d, id);
	*w = d->wishes[--d->wish_count];
	pthread_mutex_unlock(&d->lock);
}

static void add(struct debuginfod *d, uint64_t *sum, uint64_t n)
{
	pthread_mutex_lock(&d->lock);
	*sum += n;
	pthread_mutex_unlock(&d->lock);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool rests(const struct mirror *m)
{
	return m->rests_ms > clock_ms(CLOCK_MONOTONIC);
}

/* This build id is done with: it was found, or nobody has it, or nobody could say so. */
static void finish(struct debuginfod *d, struct asked *a, bool found)
{
	if (!found && (a->failed || a->skipped)) {
		put_off(d, a);
	} else {
		if (!found)
			debug_cache_set_missing(d->cache, a->id);
		grant(d, a->id);
	}
	a->id[0] = '\0';
}

static void say_unwritten(struct debuginfod *d, int error)
{
	add(d, &d->stats.unwritten, 1);
	if (!d->said_unwritten)
		log_warn("a debug file cannot be kept in the store's directory " DEBUG_CACHE_DIR
			 ": %s%s",
			 strerror(-error),
			 error == -ENOSPC ? " (or --symbols-max is too small)" : "");
	d->said_unwritten = true;
}

/* Asks the next server that does not rest; if there is none, that is the end of it. */
static void ask_next(struct debuginfod *d, struct asked *a)
{
	while (a->at < d->mirror_count && rests(&d->mirrors[a->at])) {
		a->skipped = true;
		a->at++;
	}
	if (a->at == d->mirror_count) {
		finish(d, a, false);
		return;
	}
	int r = debug_cache_part(d->cache, &a->part);
	if (r) {
		say_unwritten(d, r);
		a->failed = true;
		finish(d, a, false);
		return;
	}
	CLEANUP(freep)
	char *url = mem_printf("%s/buildid/%s/debuginfo", d->mirrors[a->at].url, a->id);
	struct download_request request = {.url = url,
					   .access = {.ca_file = d->ca_file},
					   .fd = a->part.fd,
					   .max = debug_cache_file_max(d->cache),
					   .connect_ms = CONNECT_MS,
					   .silent_ms = d->silent_ms,
					   .total_ms = TOTAL_MS,
					   .ctx = a};
	add(d, &d->stats.requests, 1);
	if (downloads_add(d->downloads, &request) != 0) {
		debug_cache_drop(d->cache, &a->part);
		a->failed = true;
		finish(d, a, false);
	}
}

/* ---- answers --------------------------------------------------------------------------------- */

static void answered(struct mirror *m)
{
	if (m->said_failed)
		log_info("the debuginfod server %s answers again", m->url);
	m->failures = 0;
	m->said_failed = false;
}

static void failed(struct debuginfod *d, struct mirror *m, const struct download_end *end)
{
	char status[32];

	add(d, &d->stats.failed, 1);
	if (++m->failures < FAILURES_MAX)
		return;
	m->failures = 0;
	__atomic_store_n(&m->rests_ms, clock_ms(CLOCK_MONOTONIC) + REST_MS, __ATOMIC_RELAXED);
	snprintf(status, sizeof(status), "it answers with status %u", end->status);
	if (!m->said_failed)
		log_warn("the debuginfod server %s gives no debug files: %s; it is asked again "
			 "every %u minutes",
			 m->url, end->error ? end->why : status, REST_MS / 60000);
	m->said_failed = true;
}

/* It sent something that is of no use: said of each server once. */
static void wrong(struct debuginfod *d, struct mirror *m, const struct asked *a, uint64_t *sum,
		  const char *what)
{
	add(d, sum, 1);
	if (!m->said_wrong)
		log_warn(
			"the debuginfod server %s sent %s for the build id %s: it is not used, and "
			"further ones are only counted",
			m->url, what, a->id);
	m->said_wrong = true;
}

/* Whether the file is in the cache now. */
static bool take(struct debuginfod *d, struct asked *a)
{
	struct mirror *m = &d->mirrors[a->at];
	char id[DEBUG_CACHE_ID];

	int r = debug_cache_take(d->cache, &a->part, a->id, DEBUG_CACHE_DOWNLOADED, id);
	if (r == -EBADMSG)
		wrong(d, m, a, &d->stats.wrong, "something that is no debug file");
	else if (r == -ESTALE)
		wrong(d, m, a, &d->stats.wrong, "the file of another build id");
	else if (r)
		say_unwritten(d, r);
	else
		add(d, &d->stats.found, 1);
	return !r;
}

static void on_end(struct debuginfod *d, const struct download_end *end)
{
	struct asked *a = end->ctx;
	struct mirror *m = &d->mirrors[a->at];
	bool found = false;

	add(d, &d->stats.bytes, end->bytes);
	if (!end->error && end->status == 200) {
		answered(m);
		found = take(d, a);
	} else {
		debug_cache_drop(d->cache, &a->part);
		if (end->error == -EFBIG) {
			wrong(d, m, a, &d->stats.too_large,
			      "a file that is larger than a quarter of --symbols-max");
		} else if (end->error == -EIO) {
			say_unwritten(d, end->error);
			a->failed = true;
		} else if (!end->error && end->status == 404) {
			answered(m);
			add(d, &d->stats.absent, 1);
		} else {
			failed(d, m, end);
			a->failed = true;
		}
	}
	a->at++;
	if (found)
		finish(d, a, true);
	else
		ask_next(d, a);
}

/* ---- the thread ------------------------------------------------------------------------------ */

static bool is_stopping(struct debuginfod *d)
{
	pthread_mutex_lock(&d->lock);
	bool stopping = d->stopping;
	pthread_mutex_unlock(&d->lock);
	return stopping;
}

static void *work(void *ctx)
{
	struct debuginfod *d = ctx;
	struct download_end end;

	while (!is_stopping(d)) {
		for (size_t i = 0; i < AT_ONCE; i++) {
			struct asked *a = &d->asked[i];
			char id[DEBUG_CACHE_ID];
			if (a->id[0] || !next_wish(d, id))
				continue;
			*a = (struct asked){.part.fd = -1};
			memcpy(a->id, id, sizeof(id));
			ask_next(d, a);
		}
		downloads_wait(d->downloads, WAIT_MS);
		while (downloads_next(d->downloads, &end))
			on_end(d, &end);
	}
	return NULL;
}

static uint64_t silent_ms(void)
{
	const char *text = getenv("DEBUGINFOD_TIMEOUT");
	unsigned long s = text ? strtoul(text, NULL, 10) : 0;

	return 1000 * (s > 0 && s <= 3600 ? s : SILENT_S);
}

struct debuginfod *debuginfod_new(const struct debuginfod_options *o)
{
	struct debuginfod *d = mem_alloc(sizeof(*d));

	d->cache = o->cache;
	d->ca_file = o->ca_file;
	d->silent_ms = silent_ms();
	for (; d->mirror_count < MIN(o->count, (size_t)DEBUGINFOD_SERVERS); d->mirror_count++) {
		const char *url = o->urls[d->mirror_count];
		size_t len = strlen(url);
		while (len && url[len - 1] == '/')
			len--;
		d->mirrors[d->mirror_count].url = mem_strndup(url, len);
	}
	pthread_mutex_init(&d->lock, NULL);
	const char *why = NULL;
	int r = downloads_new(0, &d->downloads, &why);
	if (!r)
		r = loop_thread(&d->thread, work, d);
	d->running = !r;
	if (r)
		log_warn("debuginfod cannot be asked: %s%s",
			 why ? "that needs libcurl (Debian: libcurl4): " : "",
			 why ? why : strerror(-r));
	return d;
}

void debuginfod_free(struct debuginfod *d)
{
	if (!d)
		return;
	pthread_mutex_lock(&d->lock);
	d->stopping = true;
	pthread_mutex_unlock(&d->lock);
	if (d->running) {
		downloads_wake(d->downloads);
		pthread_join(d->thread, NULL);
	}
	downloads_free(d->downloads);
	for (size_t i = 0; i < AT_ONCE; i++)
		if (d->asked[i].id[0] && d->asked[i].part.fd >= 0)
			debug_cache_drop(d->cache, &d->asked[i].part);
	for (size_t i = 0; i < d->mirror_count; i++)
		free(d->mirrors[i].url);
	pthread_mutex_destroy(&d->lock);
	free(d);
}

void debuginfod_stats(struct debuginfod *d, struct debuginfod_stats *ret)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);

	pthread_mutex_lock(&d->lock);
	*ret = d->stats;
	ret->waiting = d->wish_count;
	ret->servers = (uint32_t)d->mirror_count;
	pthread_mutex_unlock(&d->lock);
	for (size_t i = 0; i < ret->servers; i++)
		ret->resting += __atomic_load_n(&d->mirrors[i].rests_ms, __ATOMIC_RELAXED) > now;
}

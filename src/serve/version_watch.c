#include "serve/version_watch.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "query/version_cost.h"
#include "serve/server_internal.h"

#define LOOK_EVERY_MS  1800000
#define KEPT_MS        3600000 /* since the version began */
#define PATIENCE_MS    20000   /* of a look */
#define INSTANCE_BYTES 16

/* There is one writer of a store, so what its server finds has one name for ever. */
static const uint8_t own_instance[INSTANCE_BYTES + 1] = "smolder-versions";

struct look {
	struct job job; /* first */
	struct version_watch *watch;
	struct finding found[VERSION_COSTS_MAX];
	uint32_t count;
	struct store_error error;
	int failed;
};

struct version_watch {
	struct server *server;
	struct finding kept[VERSION_COSTS_MAX];
	uint32_t kept_count;
	uint64_t look_next_ms; /* CLOCK_MONOTONIC */
	bool is_looking;
};

struct version_watch *version_watch_new(struct server *s)
{
	struct version_watch *w = mem_alloc(sizeof(*w));

	w->server = s;
	return w;
}

void version_watch_free(struct version_watch *w)
{
	free(w);
}

/* ---- a look, on a thread ------------------------------------------------------------------- */

static bool on_progress(void *ctx, double done)
{
	(void)done;
	return job_goes_on(ctx);
}

static void run(struct job *j)
{
	struct look *l = (struct look *)j;
	struct store_options o = l->watch->server->store_options;
	struct store *s;

	o.read_only = true;
	o.progress = on_progress;
	o.progress_ctx = j;
	l->failed = store_open(l->watch->server->store_place, &o, &s, &l->error);
	if (l->failed)
		return;
	l->failed = version_cost_find(s, clock_ms(CLOCK_REALTIME), l->found, &l->count, &l->error);
	store_close(s);
}

/* ---- what was found ------------------------------------------------------------------------ */

static void keep(struct version_watch *w, const struct finding *f)
{
	uint32_t at = 0, oldest = 0;

	for (; at < w->kept_count && w->kept[at].id != f->id; at++)
		if (w->kept[at].began_ms < w->kept[oldest].began_ms)
			oldest = at;
	if (at == VERSION_COSTS_MAX)
		at = oldest;
	else if (at == w->kept_count)
		w->kept_count++;
	w->kept[at] = *f;
	memcpy(w->kept[at].instance, own_instance, INSTANCE_BYTES);
}

static void done(struct job *j)
{
	struct look *l = (struct look *)j;

	l->watch->is_looking = false;
	if (l->failed && j->end == JOB_DONE)
		log_warn("cannot look whether new versions of programs cost more: %s",
			 *l->error.text ? l->error.text : strerror(-l->failed));
	for (uint32_t i = 0; i < l->count && j->end == JOB_DONE; i++)
		keep(l->watch, &l->found[i]);
	free(l);
}

static void start(struct version_watch *w, uint64_t now_ms)
{
	struct look *l = mem_alloc(sizeof(*l));

	l->watch = w;
	l->job = (struct job){
		.run = run, .done = done, .fd = -1, .deadline_ms = now_ms + PATIENCE_MS};
	if (jobs_add(w->server->jobs, &l->job) != 0) {
		free(l); /* the next tick tries again */
		return;
	}
	w->is_looking = true;
	w->look_next_ms = now_ms + LOOK_EVERY_MS;
}

/* They last as long as they are made longer (profile/finding.h). */
static void tell(struct version_watch *w, uint64_t now_ms)
{
	struct window told = {.start_ms = now_ms, .findings = w->kept};
	struct store_error error = {};

	memcpy(told.instance, own_instance, INSTANCE_BYTES);
	for (uint32_t i = 0; i < w->kept_count;) {
		w->kept[i].until_ms = now_ms;
		if (now_ms > w->kept[i].began_ms + KEPT_MS)
			w->kept[i] = w->kept[--w->kept_count];
		else
			i++;
	}
	told.finding_count = w->kept_count;
	if (w->kept_count) /* one that cannot be stored now is stored by the next tick */
		store_append(w->server->store, NULL, &told, now_ms, &error);
}

void version_watch_tick(struct version_watch *w)
{
	uint64_t now_ms = clock_ms(CLOCK_MONOTONIC);

	tell(w, clock_ms(CLOCK_REALTIME));
	if (!w->is_looking && now_ms >= w->look_next_ms)
		start(w, now_ms);
}

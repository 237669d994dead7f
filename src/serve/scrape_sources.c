#include "serve/scrape_sources.h"

#include <errno.h>
#include <glob.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "serve/scrape_access.h"

#define FILES_MS    5000u /* how often they are looked at */
#define FILES_MAX   256u  /* that a pattern may stand for */
#define TIMEOUT_MS  10000u
#define DEADLINE_MS 30000u

struct source {
	struct scrape_known known;
	struct found_targets found; /* of files and URLs */
	uint64_t due_ms;
	bool asking, said;
};

struct scrape_sources {
	struct fetcher *fetcher;
	struct jobs *jobs;
	scrape_sources_fn *fn;
	void *ctx;
	struct source *all;
	size_t count;
	uint64_t failed;
};

struct asked { /* a source that is being read */
	struct job job;
	struct scrape_sources *sources;
	struct source *source;
	struct scrape_secrets secrets;
	struct download_end end;
	struct found_targets found;
	struct found_error err; /* "": it went well */
};

/* ---- reading, on a thread ------------------------------------------------------------------ */

static bool ends_with(const char *text, const char *end)
{
	size_t len = strlen(text), n = strlen(end);

	return len >= n && strcmp(text + len - n, end) == 0;
}

static bool read_file(struct asked *a, const char *path)
{
	const struct relabel_label where = {"__meta_filepath", path};
	CLEANUP(freep) char *text = NULL;
	struct found_error why;
	size_t len;
	int r = scrape_read_file(path, FOUND_BYTES_MAX, &text, &len);

	if (r) {
		snprintf(a->err.text, sizeof(a->err.text), "%.100s: %s", path, strerror(-r));
		return false;
	}
	if (ends_with(path, ".json") ? found_targets_json(&a->found, text, len, &where, &why)
				     : found_targets_yaml(&a->found, text, len, &where, &why))
		return true;
	snprintf(a->err.text, sizeof(a->err.text), "%.90s: %.90s", path, why.text);
	return false;
}

/* A pattern without a file is a source without targets. */
static bool read_pattern(struct asked *a, const char *pattern)
{
	bool good = true;
	glob_t g = {};

	if (glob(pattern, 0, NULL, &g) == 0)
		for (size_t i = 0; good && i < MIN(g.gl_pathc, FILES_MAX); i++)
			good = read_file(a, g.gl_pathv[i]);
	globfree(&g);
	return good;
}

static void run(struct job *job)
{
	struct asked *a = (struct asked *)job;
	const struct scrape_source *of = a->source->known.source;
	const struct relabel_label where = {"__meta_url", of->url};

	if (of->kind == SCRAPE_HTTP)
		found_targets_json(&a->found, a->end.body, a->end.bytes, &where, &a->err);
	for (size_t i = 0; of->kind == SCRAPE_FILE && of->files[i]; i++)
		if (!read_pattern(a, of->files[i]))
			return;
}

/* ---- in the loop --------------------------------------------------------------------------- */

static bool same(const struct found_targets *a, const struct found_targets *b)
{
	if (a->count != b->count || a->left_out != b->left_out)
		return false;
	for (size_t i = 0; i < a->count; i++) {
		const struct found_target *x = &a->list[i], *y = &b->list[i];
		if (x->count != y->count)
			return false;
		for (size_t k = 0; k < x->count; k++)
			if (strcmp(x->labels[k].name, y->labels[k].name) != 0 ||
			    strcmp(x->labels[k].value, y->labels[k].value) != 0)
				return false;
	}
	return true;
}

static const char *where(const struct scrape_source *s)
{
	return s->kind == SCRAPE_HTTP ? s->url : s->files[0];
}

static void failed(struct scrape_sources *s, struct source *of, const char *why)
{
	s->failed++;
	snprintf(of->known.error, sizeof(of->known.error), "%s", why);
	if (!of->said)
		log_warn("%s does not tell the targets of the job %s: %s; those that were known "
			 "stay",
			 where(of->known.source), of->known.job->name, why);
	of->said = true;
}

static void finish(struct asked *a)
{
	struct scrape_sources *s = a->sources;
	struct source *of = a->source;
	bool changed = false;

	of->asking = false;
	if (a->end.error == -ECANCELED || a->job.end == JOB_STOPPED) {
		; /* it is the end of all */
	} else if (*a->err.text) {
		failed(s, of, a->err.text);
	} else {
		of->known.error[0] = '\0';
		of->said = false;
		changed = !same(&of->found, &a->found);
		struct found_targets before = of->found;
		of->found = a->found;
		a->found = before;
	}
	found_targets_done(&a->found);
	scrape_secrets_done(&a->secrets);
	fetcher_release(s->fetcher, &a->end);
	free(a);
	if (changed)
		s->fn(s->ctx);
}

static void done(struct job *job)
{
	struct asked *a = (struct asked *)job;

	if (job->end != JOB_DONE)
		snprintf(a->err.text, sizeof(a->err.text), "the server was too busy to read it");
	finish(a);
}

static void start_job(struct asked *a)
{
	a->job = (struct job){.run = run,
			      .done = done,
			      .fd = -1,
			      .deadline_ms = clock_ms(CLOCK_MONOTONIC) + DEADLINE_MS};
	if (jobs_add(a->sources->jobs, &a->job) == 0)
		return;
	snprintf(a->err.text, sizeof(a->err.text), "the server was too busy to read it");
	finish(a);
}

static void answered(struct download_end *end)
{
	struct asked *a = end->ctx;

	a->end = *end;
	if (end->error)
		snprintf(a->err.text, sizeof(a->err.text), "%.180s", end->why);
	else if (end->status != 200)
		snprintf(a->err.text, sizeof(a->err.text), "it answers with status %u",
			 end->status);
	else if (!end->body)
		snprintf(a->err.text, sizeof(a->err.text), "its answer is empty");
	if (*a->err.text)
		finish(a);
	else
		start_job(a);
}

static void ask_url(struct asked *a, const struct scrape_source *of)
{
	struct download_request r = {.url = of->url,
				     .fd = -1,
				     .max = FOUND_BYTES_MAX,
				     .connect_ms = TIMEOUT_MS,
				     .total_ms = TIMEOUT_MS,
				     .ctx = a};

	if (scrape_access_read(&of->access, &r.access, &a->secrets, &a->err))
		fetcher_add(a->sources->fetcher, &r, answered);
	else
		finish(a);
}

static void ask(struct scrape_sources *s, struct source *of)
{
	struct asked *a = mem_alloc(sizeof(*a));

	a->sources = s;
	a->source = of;
	of->asking = true;
	if (of->known.source->kind == SCRAPE_HTTP)
		ask_url(a, of->known.source);
	else
		start_job(a);
}

void scrape_sources_tick(struct scrape_sources *s, uint64_t now_ms)
{
	for (size_t i = 0; i < s->count; i++) {
		struct source *of = &s->all[i];
		const struct scrape_source *from = of->known.source;
		if (from->kind == SCRAPE_STATIC || of->asking || now_ms < of->due_ms)
			continue;
		of->due_ms = now_ms + (from->kind == SCRAPE_FILE ? MIN(from->refresh_ms, FILES_MS)
								 : from->refresh_ms);
		ask(s, of);
	}
}

struct scrape_sources *scrape_sources_new(const struct scrape_config *c, struct fetcher *f,
					  struct jobs *jobs, scrape_sources_fn *fn, void *ctx)
{
	struct scrape_sources *s = mem_alloc(sizeof(*s));
	size_t n = 0;

	s->fetcher = f;
	s->jobs = jobs;
	s->fn = fn;
	s->ctx = ctx;
	for (size_t i = 0; i < c->job_count; i++)
		s->count += c->jobs[i].source_count;
	s->all = mem_alloc_array(s->count + 1, sizeof(*s->all));
	for (size_t i = 0; i < c->job_count; i++) {
		for (size_t k = 0; k < c->jobs[i].source_count; k++, n++) {
			struct source *of = &s->all[n];
			const struct scrape_source *from = &c->jobs[i].sources[k];
			of->known = (struct scrape_known){
				.job = &c->jobs[i],
				.source = from,
				.targets =
					from->kind == SCRAPE_STATIC ? &from->targets : &of->found,
			};
		}
	}
	return s;
}

void scrape_sources_free(struct scrape_sources *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		found_targets_done(&s->all[i].found);
	free(s->all);
	free(s);
}

size_t scrape_sources_count(const struct scrape_sources *s)
{
	return s->count;
}

const struct scrape_known *scrape_sources_at(const struct scrape_sources *s, size_t i)
{
	return &s->all[i].known;
}

uint64_t scrape_sources_failed(const struct scrape_sources *s)
{
	return s->failed;
}

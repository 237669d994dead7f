#include "serve/query_job.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include "base/clock.h"
#include "base/mem.h"
#include "serve/gzip.h"

void query_job_done(struct query_job *q)
{
	free(q->body);
}

const char *query_job_given(const struct query_job *q, const char *name)
{
	const char *value = http_param(q->request, name);

	return value && *value ? value : NULL;
}

bool query_job_wrong(struct query_job *q, unsigned status, const char *fmt, ...)
{
	va_list args;

	q->status = status;
	va_start(args, fmt);
	vsnprintf(q->error, sizeof(q->error), fmt, args);
	va_end(args);
	return false;
}

bool query_job_number(struct query_job *q, const char *name, uint64_t least, uint64_t most,
		      uint64_t fallback, uint64_t *ret)
{
	const char *text = query_job_given(q, name);
	char *end;

	*ret = fallback;
	if (!text)
		return true;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9' || n < least || n > most)
		return query_job_wrong(q, 400,
				       "%s must be a whole number from %" PRIu64 " to %" PRIu64,
				       name, least, most);
	*ret = n;
	return true;
}

bool query_job_went_well(struct query_job *q, int err)
{
	if (!err)
		return true;
	return query_job_wrong(q,
			       err == -EINVAL    ? 400
			       : err == -ENODATA ? 404
						 : 500,
			       "%s", q->store_error.text);
}

/* ---- as a job ------------------------------------------------------------------------------ */

static bool on_progress(void *ctx, double done)
{
	(void)done;
	return job_goes_on(ctx);
}

static void run(struct job *j)
{
	struct query_job *q = (struct query_job *)j;
	struct store_options o = q->server->store_options;
	struct store *s;

	o.read_only = true;
	o.progress = on_progress;
	o.progress_ctx = j;
	if (store_open(q->server->store_place, &o, &s, &q->store_error) != 0) {
		query_job_wrong(q, 500, "%s", q->store_error.text);
		return;
	}
	FILE *out = open_memstream(&q->body, &q->len);
	q->read(q, s, out);
	fclose(out);
	store_close(s);
	if (!q->status && q->finish)
		q->finish(q);
}

static void done(struct job *j)
{
	struct query_job *q = (struct query_job *)j;

	if (j->end == JOB_LATE)
		http_fail(q->request, 504,
			  "the query took longer than %" PRIu64
			  " s (--deadline); ask for a shorter time range",
			  q->server->deadline_ms / 1000);
	else if (j->end != JOB_DONE)
		http_fail(q->request, 503, "the server is shutting down");
	else if (q->status)
		http_fail(q->request, q->status, "%s", q->error);
	else
		q->answer(q);
	q->free(q);
}

int query_job_start(struct query_job *q)
{
	q->job = (struct job){.run = run,
			      .done = done,
			      .fd = http_fd(q->request),
			      .deadline_ms = clock_ms(CLOCK_MONOTONIC) + q->server->deadline_ms};
	q->status = 0; /* it may be tried again */
	int r = jobs_add(q->server->jobs, &q->job);
	if (r)
		query_job_wrong(q, 503, "too many queries at once; try again");
	return r;
}

void query_job_begin(struct query_job *q, bool ok)
{
	q->packs = gzip_accepted(http_header(q->request, "Accept-Encoding"));
	if (!ok || query_job_start(q) != 0)
		query_job_refuse(q);
	else
		http_hold(q->request); /* its end comes through the loop, so not before this */
}

void query_job_pack(struct query_job *q)
{
	q->is_packed = q->packs && q->len >= GZIP_LEAST && gzip_pack(&q->body, &q->len) == 0;
}

void query_job_send(struct query_job *q, const char *type)
{
	http_answer(q->request,
		    &(struct http_answer){
			    .status = 200,
			    .type = type,
			    .body = TAKE_PTR(q->body),
			    .len = q->len,
			    .headers = {{"Content-Encoding", q->is_packed ? "gzip" : NULL},
					{"Vary", "Accept-Encoding"}},
		    });
}

void query_job_refuse(struct query_job *q)
{
	http_fail(q->request, q->status, "%s", q->error);
	q->free(q);
}

void query_job_headers(struct query_job *q, const struct store_answer *a, const char *more,
		       uint64_t number, struct http_answer *ret)
{
	const char *const names[QUERY_JOB_HEADERS] = {"X-Smolder-From", "X-Smolder-To",
						      "X-Smolder-Samples", "X-Smolder-Lost", more};
	const uint64_t numbers[] = {a->from_ms, a->to_ms, a->samples, a->lost, number};

	for (size_t i = 0; i < QUERY_JOB_HEADERS; i++) {
		snprintf(q->numbers[i], sizeof(q->numbers[i]), "%" PRIu64, numbers[i]);
		ret->headers[i].name = names[i];
		ret->headers[i].value = q->numbers[i];
	}
}

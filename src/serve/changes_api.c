/* changes_api: what changed, asked over HTTP. The work is a job, as for other queries. */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "query/comparison.h"
#include "query/selector.h"
#include "render/changes_json.h"
#include "serve/query_job.h"

struct changes_job {
	struct query_job q; /* first */
	struct comparison_ask ask;
	bool is_process;
};

static bool wrong(struct changes_job *c, const char *text)
{
	return query_job_wrong(&c->q, 400, "%s", text);
}

/* A range, if one of its ends is given. */
static bool parse_range(struct changes_job *c, const char *from, const char *to,
			struct timerange *ret)
{
	const char *first = query_job_given(&c->q, from), *last = query_job_given(&c->q, to);
	struct timerange_error err;

	if (!first && !last)
		return true;
	return timerange_parse(first, last, c->ask.clock_ms, ret, &err) == 0 || wrong(c, err.text);
}

static bool parse(struct changes_job *c)
{
	const char *at = query_job_given(&c->q, "at"), *alone = query_job_given(&c->q, "alone");
	struct selector *selector = NULL;
	struct selector_error selector_err;
	struct timerange_error err;

	c->ask.clock_ms = clock_ms(CLOCK_REALTIME);
	c->ask.selector = query_job_given(&c->q, "query");
	c->ask.alone = alone && strcmp(alone, "0") != 0;
	if (c->ask.selector && selector_parse(c->ask.selector, &selector, &selector_err) != 0)
		return wrong(c, selector_err.text);
	selector_free(selector);
	if (!parse_range(c, "from", "to", &c->ask.now) ||
	    !parse_range(c, "base_from", "base_to", &c->ask.base))
		return false;
	if (c->ask.base.to_ms && !c->ask.now.to_ms)
		return wrong(c, "base_from and base_to need from or to");
	if (!at)
		return true;
	if (c->ask.now.to_ms || c->ask.base.to_ms)
		return wrong(c, "at excludes from, to, base_from and base_to");
	if (timerange_moment(at, c->ask.clock_ms, &c->ask.at_ms, &err) != 0)
		return wrong(c, err.text);
	return c->ask.at_ms < c->ask.clock_ms || wrong(c, "at must be in the past");
}

static void read_store(struct query_job *q, struct store *s, FILE *out)
{
	struct changes_job *c = (struct changes_job *)q;
	struct comparisons all;

	int err = comparisons_make(s, &c->ask, &all, &q->store_error);
	if (query_job_went_well(q, err)) {
		c->is_process = all.is_process;
		changes_json(&all, out);
	}
	comparisons_done(&all);
}

static void send_answer(struct query_job *q)
{
	struct changes_job *c = (struct changes_job *)q;
	struct http_answer answer = {.status = 200,
				     .type = "application/json",
				     .body = TAKE_PTR(q->body),
				     .len = q->len};

	answer.headers[0].name = "X-Smolder-Process";
	answer.headers[0].value = c->is_process ? "1" : NULL;
	http_answer(q->request, &answer);
}

static void free_job(struct query_job *q)
{
	query_job_done(q);
	free(q);
}

void changes_api(void *ctx, struct http_request *r)
{
	struct changes_job *c = mem_alloc(sizeof(*c));

	c->q = (struct query_job){.server = ctx,
				  .request = r,
				  .read = read_store,
				  .answer = send_answer,
				  .free = free_job};
	if (!parse(c) || query_job_start(&c->q) != 0)
		query_job_refuse(&c->q);
	else
		http_hold(r); /* its end comes through the loop, so not before this */
}

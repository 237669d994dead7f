/*
 * push: takes the profiles that programs push.
 *
 * A job reads a request into profiles (ingest/pushed.h), on a thread of its own, so that queries
 * wait for no push nor pushes for a query. Then, in the loop, they are stored (inbox.h).
 */
#include <errno.h>

#include "base/clock.h"
#include "base/mem.h"
#include "ingest/otlp.h"
#include "ingest/pyroscope.h"
#include "query/timerange.h"
#include "serve/gzip.h"
#include "serve/server_internal.h"

#define THREADS     1
#define WAITING     32
#define DEADLINE_MS 30000

struct pushes {
	struct server *server;
	struct jobs *jobs;
	struct inbox *inbox;
};

struct push {
	struct job job;
	struct server *server;
	struct http_request *request;
	bool (*read)(struct push *p, const void *body, size_t len);
	struct pushed pushed;
	struct pushed_about about; /* of pprof alone; its labels are these */
	struct pushed_labels labels;
	struct pyroscope_ingest pyroscope;
	bool is_json, is_packed;
	uint64_t now_ms;
};

struct pushes *pushes_new(struct server *s)
{
	struct pushes *p = mem_alloc(sizeof(*p));

	p->server = s;
	p->jobs = jobs_new(s->loop, THREADS, WAITING);
	p->inbox = inbox_new(s->store);
	return p;
}

void pushes_free(struct pushes *p)
{
	if (!p)
		return;
	jobs_free(p->jobs);
	inbox_free(p->inbox);
	free(p);
}

void push_stats(const struct pushes *p, struct inbox_stats *ret)
{
	inbox_stats(p->inbox, ret);
}

/* ---- as a job ------------------------------------------------------------------------------ */

/* An empty message, as Connect and OTLP have it; who pushed in another way reads the status. */
static void answer(struct push *j)
{
	static const char json[] = "{}\n";
	bool is_proto = !j->is_json;

	http_answer(j->request, &(struct http_answer){
					.status = 200,
					.type = is_proto ? http_header(j->request, "Content-Type")
							 : "application/json",
					.body = is_proto ? NULL : mem_dup(json, sizeof(json) - 1),
					.len = is_proto ? 0 : sizeof(json) - 1,
				});
}

static void done(struct job *job)
{
	struct push *j = (struct push *)job;
	struct pushed *p = &j->pushed;

	if (job->end != JOB_DONE)
		pushed_refuse(p, 503, "busy", "the server is shutting down, or was too busy");
	if (inbox_take(j->server->pushes->inbox, p, j->now_ms))
		answer(j);
	else
		http_fail(j->request, p->status, "%s", p->why);
	pushed_done(p);
	pushed_labels_done(&j->labels);
	free(j);
}

static void run(struct job *job)
{
	struct push *j = (struct push *)job;
	CLEANUP(freep) char *plain = NULL;
	size_t len;
	const void *body = http_body(j->request, &len);

	if (!job_goes_on(job))
		return;
	if (j->is_packed) {
		int r = gzip_unpack(body, len, PUSHED_BYTES_MAX, &plain, &len);
		if (r) {
			pushed_refuse(&j->pushed, r == -EFBIG ? 413 : 400,
				      r == -EFBIG ? "too_large" : "malformed",
				      r == -EFBIG ? "the body is larger than %u MB unpacked"
						  : "the body is not gzip, as its "
						    "Content-Encoding says, or was cut off",
				      PUSHED_BYTES_MAX >> 20);
			return;
		}
		body = plain;
	}
	if (!len)
		pushed_refuse(&j->pushed, 400, "malformed", "the body is empty");
	else
		j->read(j, body, len);
}

static struct push *new_push(void *ctx, struct http_request *r)
{
	const char *type = http_header(r, "Content-Type");
	struct push *j = mem_alloc(sizeof(*j));

	j->server = ctx;
	j->request = r;
	j->now_ms = clock_ms(CLOCK_REALTIME);
	j->is_json = type && strncmp(type, "application/json", strlen("application/json")) == 0;
	return j;
}

/* Hands it over, unless what it says of itself is wrong already. */
static void start(struct push *j)
{
	const char *packed = http_header(j->request, "Content-Encoding");
	struct pushed *p = &j->pushed;

	j->is_packed = packed && strcmp(packed, "gzip") == 0;
	if (!p->status && packed && *packed && !j->is_packed && strcmp(packed, "identity") != 0)
		pushed_refuse(p, 415, "malformed",
			      "the Content-Encoding %.40s is not taken; gzip is", packed);
	j->job = (struct job){.run = run,
			      .done = done,
			      .fd = -1,
			      .deadline_ms = clock_ms(CLOCK_MONOTONIC) + DEADLINE_MS};
	/* What is handed over is the thread's: not even its status is looked at. */
	if (!p->status && jobs_add(j->server->pushes->jobs, &j->job) == 0) {
		http_hold(j->request); /* its end comes through the loop, so not before this */
		return;
	}
	if (!p->status)
		pushed_refuse(p, 503, "busy", "too many profiles at once; send it again");
	done(&j->job);
}

/* ---- POST /api/v1/ingest: one pprof, whose labels are the parameters ----------------------- */

static bool read_pprof(struct push *j, const void *body, size_t len)
{
	return pushed_pprof(&j->pushed, body, len, &j->about);
}

static void take_moment(struct push *j, const char *name, const char *value, uint64_t *ret_ms)
{
	struct timerange_error err;

	if (timerange_moment(value, j->now_ms, ret_ms, &err) != 0)
		pushed_refuse(&j->pushed, 400, "malformed", "%s: %s", name, err.text);
}

static void take_param(void *ctx, const char *name, const char *value)
{
	struct push *j = ctx;
	struct pushed_about *about = &j->about;

	if (j->pushed.status)
		return;
	if (strcmp(name, "from") == 0)
		take_moment(j, name, value, &about->from_ms);
	else if (strcmp(name, "to") == 0)
		take_moment(j, name, value, &about->to_ms);
	else if (strcmp(name, "__name__") == 0)
		snprintf(about->type.name, sizeof(about->type.name), "%s", value);
	else
		pushed_label(&j->pushed, &j->labels, name, strlen(name), value, strlen(value));
}

void push_pprof(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_pprof;
	j->is_json = true; /* the answer */
	j->about = (struct pushed_about){.labels = &j->labels, .now_ms = j->now_ms};
	http_each_param(r, take_param, j);
	start(j);
}

/* ---- Pyroscope's and OpenTelemetry's clients ----------------------------------------------- */

static bool read_pyroscope(struct push *j, const void *body, size_t len)
{
	return pyroscope_ingest(&j->pushed, &j->pyroscope, body, len, j->now_ms);
}

void push_pyroscope(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_pyroscope;
	j->is_json = true; /* the answer */
	j->pyroscope = (struct pyroscope_ingest){
		.name = http_param(r, "name"),
		.from = http_param(r, "from"),
		.until = http_param(r, "until"),
		.sample_rate = http_param(r, "sampleRate"),
		.units = http_param(r, "units"),
		.aggregation = http_param(r, "aggregationType"),
		.format = http_param(r, "format"),
		.content_type = http_header(r, "Content-Type"),
	};
	start(j);
}

static bool read_connect(struct push *j, const void *body, size_t len)
{
	return pyroscope_push(&j->pushed, body, len, j->is_json, j->now_ms);
}

static bool read_otlp(struct push *j, const void *body, size_t len)
{
	return otlp_read(&j->pushed, body, len, j->is_json, j->now_ms);
}

/* Of protobuf or JSON, whatever `proto` is called there. */
static void start_typed(struct push *j, const char *proto)
{
	const char *type = http_header(j->request, "Content-Type");

	if (!j->is_json && (!type || strncmp(type, proto, strlen(proto)) != 0))
		pushed_refuse(&j->pushed, 415, "malformed",
			      "the Content-Type is not %s or application/json", proto);
	start(j);
}

void push_connect(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_connect;
	start_typed(j, "application/proto");
}

void push_otlp(void *ctx, struct http_request *r)
{
	struct push *j = new_push(ctx, r);

	j->read = read_otlp;
	start_typed(j, "application/x-protobuf");
}

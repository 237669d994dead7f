/*
 * status: what the server knows of itself, for Prometheus and for the corner of the page.
 */
#include <inttypes.h>
#include <math.h>

#include "base/mem.h"
#include "query/timerange.h"
#include "render/escape.h"
#include "serve/parts.h"

/* ---- metrics ------------------------------------------------------------------------------- */

static void metric(FILE *out, const char *name, const char *type, const char *help, double value)
{
	fprintf(out, "# HELP smolder_%s %s\n# TYPE smolder_%s %s\nsmolder_%s %.17g\n", name, help,
		name, type, name, value);
}

static void counter(FILE *out, const char *name, const char *help, uint64_t value)
{
	metric(out, name, "counter", help, (double)value);
}

static void gauge(FILE *out, const char *name, const char *help, uint64_t value)
{
	metric(out, name, "gauge", help, (double)value);
}

static void head(FILE *out, const char *name, const char *type, const char *help)
{
	fprintf(out, "# HELP smolder_%s %s\n# TYPE smolder_%s %s\n", name, help, name, type);
}

static void store_metrics(FILE *out, const struct store_stats *s)
{
	counter(out, "samples_taken_total", "Samples that collectors took.", s->taken);
	counter(out, "samples_stored_total", "Samples of them that are stored.", s->stored);
	head(out, "samples_lost_total", "counter", "Samples of them that were lost, by reason.");
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		fprintf(out, "smolder_samples_lost_total{reason=\"%s\"} %" PRIu64 "\n",
			window_lost_names[i], s->lost[i]);
	counter(out, "samples_other_total", "Samples stored as (other), for a cap.",
		s->other_samples);
	counter(out, "samples_rolled_other_total",
		"Samples rolled up as (other), for a month's cap.", s->rolled_other);
	counter(out, "store_windows_total", "Window messages stored by this process.", s->windows);
	counter(out, "store_known_total", "Window messages that were stored before.", s->known);
	counter(out, "store_refused_total", "Window messages out of range.", s->refused);
	counter(out, "store_failed_total", "Appends that could not be written.", s->failed);
	counter(out, "store_damaged_files_total", "Files set aside.", s->damaged_files);
	counter(out, "store_packs_total", "Packs made.", s->packs);
	counter(out, "store_rolls_total", "Roll-ups made.", s->rolls);
	counter(out, "store_expired_files_total", "Files removed for age or size.",
		s->expired_files);
	counter(out, "store_removed_bytes_total", "Bytes given back for age or size.",
		s->removed_bytes);
	head(out, "store_bytes", "gauge", "Bytes on disk.");
	fprintf(out,
		"smolder_store_bytes{part=\"raw\"} %" PRIu64 "\n"
		"smolder_store_bytes{part=\"roll\"} %" PRIu64 "\n"
		"smolder_store_bytes{part=\"times\"} %" PRIu64 "\n",
		s->raw_bytes, s->roll_bytes, s->times_bytes);
	gauge(out, "store_first_seconds", "Start of what is stored, since 1970.",
	      s->first_ms / 1000);
	gauge(out, "store_last_seconds", "End of what is stored, since 1970.", s->last_ms / 1000);
}

static void receiver_part(FILE *out, const struct receiver_stats *r)
{
	static const char *const names[] = {"stored", "known", "reset", "later", "refused"};

	head(out, "windows_received_total", "counter", "Window messages, by answer.");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		fprintf(out, "smolder_windows_received_total{answer=\"%s\"} %" PRIu64 "\n",
			names[i], r->by_status[i]);
	counter(out, "windows_received_bytes_total", "Bytes of them.", r->bytes);
	counter(out, "windows_malformed_total", "Messages that could not be read.", r->malformed);
	counter(out, "collectors_forgotten_total", "Dictionaries dropped for a cap.", r->forgotten);
	gauge(out, "collectors", "Collectors whose dictionary is held.", r->instances);
	gauge(out, "dictionary_bytes", "Bytes of those dictionaries.", r->dictionary_bytes);
}

static void http_part(FILE *out, const struct http_stats *h, const struct jobs_stats *j)
{
	counter(out, "http_requests_total", "HTTP requests.", h->requests);
	counter(out, "http_refused_total", "Of them refused before a route.", h->refused);
	counter(out, "http_turned_away_total", "Of them from those who may not look.",
		h->turned_away);
	counter(out, "http_unowned_total", "Connections on loopback whose user could not be told.",
		h->unowned);
	counter(out, "http_dropped_total", "Connections closed for room, or as too slow.",
		h->dropped);
	head(out, "http_answers_total", "counter", "Answers, by class of status.");
	for (int i = 2; i <= 5; i++)
		fprintf(out, "smolder_http_answers_total{class=\"%dxx\"} %" PRIu64 "\n", i,
			h->by_class[i]);
	gauge(out, "http_connections", "Connections that are open.", h->connections);
	head(out, "questions_total", "counter", "Questions to the store, by how they ended.");
	fprintf(out,
		"smolder_questions_total{end=\"done\"} %" PRIu64 "\n"
		"smolder_questions_total{end=\"late\"} %" PRIu64 "\n"
		"smolder_questions_total{end=\"gone\"} %" PRIu64 "\n"
		"smolder_questions_total{end=\"refused\"} %" PRIu64 "\n",
		j->done, j->late, j->gone, j->refused);
	gauge(out, "questions_running", "Questions being answered.", j->running + j->waiting);
}

/* [a-zA-Z_:][a-zA-Z0-9_:]*, and labels in braces that hold no line end. */
static bool is_metric_name(const char *s)
{
	size_t name = strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_:");
	size_t len = strlen(s);

	if (!name || (*s >= '0' && *s <= '9'))
		return false;
	if (s[name] == '\0')
		return true;
	if (s[name] != '{' || s[len - 1] != '}' || len < name + 2)
		return false;
	bool quoted = false;
	for (const char *c = s + name + 1; c < s + len - 1; c++) {
		if ((unsigned char)*c < ' ' || (!quoted && (*c == '{' || *c == '}')))
			return false;
		if (quoted && *c == '\\' && c[1])
			c++;
		else if (*c == '"')
			quoted = !quoted;
	}
	return !quoted;
}

/* What a collector says of itself, with its instance as a label. */
static void collector_metric(void *ctx, const uint8_t instance[16], const char *name, double value)
{
	FILE *out = ctx;
	size_t len = strcspn(name, "{");

	if (!is_metric_name(name))
		return;
	fprintf(out, "%s%.*s{instance=\"", strncmp(name, "smolder_", 8) == 0 ? "" : "smolder_",
		(int)len, name);
	for (int i = 0; i < 4; i++)
		fprintf(out, "%02x", instance[i]);
	fputs("\"", out);
	if (name[len] && name[len + 1] != '}')
		fprintf(out, ",%s", name + len + 1);
	else
		fputs("}", out);
	if (isnan(value))
		fputs(" NaN\n", out);
	else if (isinf(value))
		fputs(value > 0 ? " +Inf\n" : " -Inf\n", out);
	else
		fprintf(out, " %.17g\n", value);
}

void status_metrics(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);
	struct store_stats store;
	struct receiver_stats received;
	struct http_stats http;
	struct jobs_stats jobs;

	store_stats(s->store, &store);
	receiver_stats(s->receiver, &received);
	http_stats(s->http, &http);
	jobs_stats(s->jobs, &jobs);
	head(out, "build_info", "gauge", "The version.");
	fprintf(out, "smolder_build_info{version=\"%s\"} 1\n", SMOLDER_VERSION);
	metric(out, "server_cpu_seconds_total", "counter", "CPU time of this process.",
	       cost_cpu_seconds());
	gauge(out, "server_resident_bytes", "Resident memory of this process.",
	      cost_resident_bytes());
	gauge(out, "server_start_seconds", "When it was started, since 1970.",
	      s->started_ms / 1000);
	store_metrics(out, &store);
	receiver_part(out, &received);
	http_part(out, &http, &jobs);
	receiver_metrics(s->receiver, collector_metric, out);
	fclose(out);
	http_answer(r, &(struct http_answer){.status = 200,
					     .type = "text/plain; version=0.0.4; charset=utf-8",
					     .body = body,
					     .len = len});
}

/* ---- the page's corner, and health --------------------------------------------------------- */

#define FRESH_MS 60000 /* a collector that was silent for longer is not there */

/* Metrics as they came, for what is not shown yet. */
struct listing {
	FILE *out;
	bool any;
};

static void collector_json(void *ctx, const uint8_t instance[16], const char *name, double value)
{
	struct listing *l = ctx;

	if (!isfinite(value))
		return;
	fprintf(l->out, "%s{\"instance\":\"", l->any ? ",\n" : "\n");
	for (int i = 0; i < 4; i++)
		fprintf(l->out, "%02x", instance[i]);
	fputs("\",\"name\":", l->out);
	escape_json(l->out, name, strlen(name));
	fprintf(l->out, ",\"value\":%.17g}", value);
	l->any = true;
}

static void answer_json(struct http_request *r, unsigned status, FILE *out, char *const *body,
			const size_t *len)
{
	fclose(out);
	http_answer(r, &(struct http_answer){.status = status,
					     .type = "application/json",
					     .body = *body,
					     .len = *len});
}

static void write_store(FILE *out, const struct server *s, const struct store_stats *store)
{
	const struct store_options *o = &s->store_options;

	fputs("\"store\":{\"dir\":", out);
	escape_json(out, s->store_dir, strlen(s->store_dir));
	fprintf(out,
		",\"bytes\":%" PRIu64 ",\"first\":%" PRIu64 ",\"last\":%" PRIu64
		",\"retention_ms\":%" PRIu64 ",\"max_bytes\":%" PRIu64 ",\"times_ms\":%" PRIu64
		",\"damaged_files\":%" PRIu64 "}",
		store->bytes, store->first_ms, store->last_ms, o->retention_ms, o->max_bytes,
		o->times_ms, store->damaged_files);
}

static void write_collector(FILE *out, const struct receiver_stats *r, uint64_t now)
{
	bool fresh = r->last_ms && now - MIN(now, r->last_ms) < FRESH_MS;

	fprintf(out,
		"\"collector\":{\"state\":\"%s\",\"last\":%" PRIu64 ",\"count\":%u,\"problem\":",
		r->last_error ? "failed"
		: fresh       ? "recording"
			      : "absent",
		r->last_ms, r->instances);
	const char *words = r->last_error ? r->last_words : "";
	escape_json(out, words, strlen(words));
	fputs("}", out);
}

void status_json(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	char *body = NULL, host[256] = "";
	size_t len;
	FILE *out = open_memstream(&body, &len);
	uint64_t now = timerange_now_ms();
	struct store_stats store;
	struct receiver_stats received;

	store_stats(s->store, &store);
	receiver_stats(s->receiver, &received);
	gethostname(host, sizeof(host) - 1);
	fprintf(out, "{\"program\":\"smolder\",\"version\":\"%s\",\"host\":", SMOLDER_VERSION);
	escape_json(out, host, strlen(host));
	fprintf(out, ",\"cpus\":%ld,\"pid\":%d,\"now\":%" PRIu64 ",\"started\":%" PRIu64 ",\n",
		sysconf(_SC_NPROCESSORS_ONLN), getpid(), now, s->started_ms);
	write_collector(out, &received, now);
	fputs(",\n", out);
	write_store(out, s, &store);
	fprintf(out, ",\n\"samples\":{\"taken\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"lost\":{",
		store.taken, store.stored);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", window_lost_names[i],
			store.lost[i]);
	fputs("}},\n", out);
	cost_write(s->cost, &store, out);
	fputs(",\n\"metrics\":[", out);
	struct listing listing = {.out = out};
	receiver_metrics(s->receiver, collector_json, &listing);
	fputs("]}\n", out);
	answer_json(r, 200, out, &body, &len);
}

void status_healthz(void *ctx, struct http_request *r)
{
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);

	(void)ctx;
	fputs("{\"healthy\":true}\n", out);
	answer_json(r, 200, out, &body, &len);
}

/* Ready: what came last could be stored. */
void status_readyz(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	struct receiver_stats received;
	char *body = NULL;
	size_t len;

	receiver_stats(s->receiver, &received);
	if (received.last_error) {
		http_fail(r, 503, "windows cannot be stored: %s", received.last_words);
		return;
	}
	FILE *out = open_memstream(&body, &len);
	fputs("{\"ready\":true}\n", out);
	answer_json(r, 200, out, &body, &len);
}

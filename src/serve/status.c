/*
 * status: what the server knows of itself, for Prometheus and for the corner of the page.
 */
#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "base/usage.h"
#include "render/escape.h"
#include "serve/exposition.h"
#include "serve/server_internal.h"

/* ---- metrics ------------------------------------------------------------------------------- */

static void store_metrics(struct exposition *e, const struct store_stats *s)
{
	exposition_counter(e, "samples_taken", "Samples taken by collectors.", (double)s->taken);
	exposition_counter(e, "samples_stored", "Samples stored.", (double)s->stored);
	exposition_counters(e, "samples_lost", "Samples lost, by reason.");
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		exposition_value(e, "reason", window_lost_names[i], (double)s->lost[i]);
	exposition_counter(e, "samples_other",
			   "Samples stored as (other), or without a stack: a day had too many "
			   "series or stacks.",
			   (double)s->other_samples);
	exposition_counter(e, "samples_rolled_other",
			   "Samples rolled up as (other), or without a stack: a month had too many "
			   "series or stacks.",
			   (double)s->rolled_other);
	exposition_counter(e, "store_windows", "Window messages stored by this process.",
			   (double)s->windows);
	exposition_counter(e, "store_duplicates", "Window messages that had been stored before.",
			   (double)s->known);
	exposition_counter(e, "store_refused",
			   "Window messages refused because their time was out of range.",
			   (double)s->refused);
	exposition_counter(e, "store_failed", "Appends that could not be written.",
			   (double)s->failed);
	exposition_counter(e, "store_damaged_files", "Damaged files set aside.",
			   (double)s->damaged_files);
	exposition_counter(e, "store_untimed_packs",
			   "Packs without sample times, because there were too many.",
			   (double)s->untimed_packs);
	exposition_counter(e, "store_packs", "Packs made.", (double)s->packs);
	exposition_counter(e, "store_rolls", "Roll-ups made.", (double)s->rolls);
	exposition_counter(e, "store_expired_files", "Files removed for age or size.",
			   (double)s->expired_files);
	exposition_counter(e, "store_removed_bytes", "Bytes removed for age or size.",
			   (double)s->removed_bytes);
	exposition_gauges(e, "store_bytes", "Bytes on disk.");
	exposition_value(e, "part", "raw", (double)s->raw_bytes);
	exposition_value(e, "part", "roll", (double)s->roll_bytes);
	exposition_value(e, "part", "times", (double)s->times_bytes);
	exposition_gauge(e, "store_first_seconds", "Start of the stored data, as a Unix time.",
			 (double)s->first_ms / 1000);
	exposition_gauge(e, "store_last_seconds", "End of the stored data, as a Unix time.",
			 (double)s->last_ms / 1000);
}

static void kubelet_part(struct exposition *e, struct kubelet *k)
{
	struct kubelet_stats s;

	kubelet_stats(k, &s);
	exposition_counter(e, "kubelet_requests", "Times that the kubelet was asked for its pods.",
			   (double)s.requests);
	exposition_counter(e, "kubelet_failures", "Of those, without an answer that can be used.",
			   (double)s.failures);
	exposition_gauge(e, "kubelet_pods", "Pods in its latest answer.", (double)s.pods);
	exposition_gauge(e, "kubelet_pods_left_out", "More that were not taken.",
			 (double)s.left_out);
}

static void receiver_part(struct exposition *e, const struct receiver_stats *r)
{
	static const char *const names[] = {"stored", "duplicate", "reset", "later", "refused"};

	exposition_counters(e, "windows_received", "Window messages received, by answer.");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		exposition_value(e, "answer", names[i], (double)r->by_status[i]);
	exposition_counter(e, "windows_received_bytes", "Bytes of window messages received.",
			   (double)r->bytes);
	exposition_counter(e, "windows_malformed", "Window messages that could not be parsed.",
			   (double)r->malformed);
	exposition_counter(e, "collectors_forgotten",
			   "Dictionaries of collectors dropped to limit memory.",
			   (double)r->forgotten);
	exposition_gauge(e, "collectors", "Collectors whose dictionary is in memory.",
			 (double)r->instances);
	exposition_gauge(e, "dictionary_bytes", "Bytes of those dictionaries.",
			 (double)r->dictionary_bytes);
}

static void http_part(struct exposition *e, const struct http_stats *h, const struct jobs_stats *j)
{
	static const char *const classes[] = {"", "1xx", "2xx", "3xx", "4xx", "5xx"};

	exposition_counter(e, "http_requests", "HTTP requests.", (double)h->requests);
	exposition_counter(e, "http_refused", "HTTP requests refused before they were routed.",
			   (double)h->refused);
	exposition_counter(e, "http_turned_away",
			   "HTTP requests refused because the client has no access.",
			   (double)h->turned_away);
	exposition_counter(e, "http_unowned",
			   "Loopback connections whose user could not be determined.",
			   (double)h->unowned);
	exposition_counter(e, "http_crowded_out",
			   "HTTP requests refused because large bodies filled their memory.",
			   (double)h->crowded_out);
	exposition_counter(e, "http_dropped",
			   "Connections closed because there were too many, or they were too slow.",
			   (double)h->dropped);
	exposition_counters(e, "http_answers", "HTTP answers, by class of status.");
	for (int i = 2; i <= 5; i++)
		exposition_value(e, "class", classes[i], (double)h->by_class[i]);
	exposition_gauge(e, "http_connections", "Open connections.", (double)h->connections);
	exposition_counters(e, "queries", "Queries of the store, by how they ended.");
	exposition_value(e, "end", "done", (double)j->done);
	exposition_value(e, "end", "late", (double)j->late);
	exposition_value(e, "end", "gone", (double)j->gone);
	exposition_value(e, "end", "refused", (double)j->refused);
	exposition_gauge(e, "queries_running", "Queries running or waiting.",
			 (double)(j->running + j->waiting));
}

/* What is known of debug files, and of those who are asked for them. */
static void names_part(struct exposition *e, struct server *s)
{
	struct debug_cache_stats kept;
	struct stored_names_stats names;
	struct debuginfod_stats asked = {};

	debug_cache_stats(s->debug_files, &kept);
	stored_names_stats(s->names, &names);
	if (s->debuginfod)
		debuginfod_stats(s->debuginfod, &asked);
	exposition_gauge(e, "debug_files", "Debug files that are kept.", (double)kept.files);
	exposition_gauge(e, "debug_files_bytes", "Bytes of those files.", (double)kept.bytes);
	exposition_gauge(e, "debug_files_missing", "Build ids that nobody had a debug file of.",
			 (double)kept.missing);
	exposition_counter(e, "debug_files_removed", "Debug files removed to make room for others.",
			   (double)kept.made_room);
	exposition_gauge(e, "debug_files_unlisted",
			 "Debug files that are not used, because there are too many.",
			 (double)kept.unlisted);
	exposition_counter(e, "debug_files_unreadable", "Debug files that could not be read.",
			   (double)names.unreadable);
	exposition_counter(e, "frames_named", "Frames that were named when they were shown.",
			   (double)names.named);
	exposition_counter(e, "frames_not_found",
			   "Frames whose debug file has no function at their address.",
			   (double)names.not_there);
	exposition_gauge(e, "debuginfod_servers", "Debuginfod servers that are asked.",
			 (double)asked.servers);
	exposition_gauge(e, "debuginfod_resting",
			 "Of those, the ones that failed and are left alone for a while.",
			 (double)asked.resting);
	exposition_gauge(e, "debuginfod_waiting", "Build ids that are to be asked for.",
			 (double)asked.waiting);
	exposition_counter(e, "debuginfod_requests", "Requests to debuginfod servers.",
			   (double)asked.requests);
	exposition_counters(e, "debuginfod_answers", "How those ended.");
	exposition_value(e, "answer", "found", (double)asked.found);
	exposition_value(e, "answer", "absent", (double)asked.absent);
	exposition_value(e, "answer", "failed", (double)asked.failed);
	exposition_value(e, "answer", "wrong", (double)asked.wrong);
	exposition_value(e, "answer", "too_large", (double)asked.too_large);
	exposition_value(e, "answer", "not_kept", (double)asked.unwritten);
	exposition_counter(e, "debuginfod_bytes", "Bytes received from debuginfod servers.",
			   (double)asked.bytes);
	exposition_counter(e, "debuginfod_dropped",
			   "Times that a build id was not asked for, since too many were waiting.",
			   (double)asked.dropped);
}

static void rules_part(struct exposition *e, const struct rules *r)
{
	if (!r)
		return;
	exposition_counters(e, "rule_seconds",
			    "Time of functions that the configuration has rules for, by rule.");
	for (size_t i = 0; i < rules_count(r); i++)
		exposition_value(e, "rule", rules_name(r, i), rules_seconds(r, i));
}

void status_metrics(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);
	struct exposition *e = exposition_new(out);
	struct store_stats store;
	struct receiver_stats received;
	struct http_stats http;
	struct jobs_stats jobs;
	struct inbox_stats pushed;

	store_stats(s->store, &store);
	push_stats(s->pushes, &pushed);
	receiver_stats(s->receiver, &received);
	http_stats(s->http, &http);
	jobs_stats(s->jobs, &jobs);
	exposition_gauges(e, "build_info", "The version.");
	exposition_value(e, "version", SMOLDER_VERSION, 1);
	exposition_counter(e, "server_cpu_seconds", "CPU time of this process.",
			   usage_cpu_seconds());
	exposition_gauge(e, "server_resident_bytes", "Resident memory of this process.",
			 (double)usage_resident_bytes());
	exposition_gauge(e, "server_start_seconds", "Start of the server, as a Unix time.",
			 (double)s->started_ms / 1000);
	store_metrics(e, &store);
	receiver_part(e, &received);
	if (s->kubelet)
		kubelet_part(e, s->kubelet);
	inbox_metrics(&pushed, &(struct inbox_words){"pushes", "pushes_refused", "pushed"}, e);
	if (s->scraper)
		targets_metrics(e, s->scraper);
	http_part(e, &http, &jobs);
	names_part(e, s);
	rules_part(e, s->rules);
	receiver_metrics(s->receiver, exposition_collector_metric, e);
	exposition_free(e);
	fclose(out);
	http_answer(r, &(struct http_answer){.status = 200,
					     .type = "text/plain; version=0.0.4; charset=utf-8",
					     .body = body,
					     .len = len});
}

/* ---- the page's corner, and health --------------------------------------------------------- */

#define STARTING_MS                                                                                \
	30000          /* a collector of `run` that was not heard of for longer has not started */
#define FRESH_MS 60000 /* a collector that was silent for longer is not there */

/* Metrics as they came, for what is not shown yet. */
struct listing {
	FILE *out;
	bool any;
};

static void collector_json(void *ctx, const uint8_t instance[16], const char *name, double value)
{
	struct listing *l = ctx;
	char hex[9];

	if (!isfinite(value))
		return;
	fprintf(l->out, "%s{\"instance\":\"%s\",\"name\":", l->any ? ",\n" : "\n",
		text_hex_bytes(instance, 4, hex));
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
	escape_json(out, s->store_place, strlen(s->store_place));
	fprintf(out,
		",\"bytes\":%" PRIu64 ",\"first\":%" PRIu64 ",\"last\":%" PRIu64
		",\"retention_ms\":%" PRIu64 ",\"max_bytes\":%" PRIu64 ",\"times_ms\":%" PRIu64
		",\"damaged_files\":%" PRIu64 "}",
		store->bytes, store->first_ms, store->last_ms, o->retention_ms, o->max_bytes,
		o->times_ms, store->damaged_files);
}

static void write_collector(FILE *out, const struct server *s, const struct receiver_stats *r,
			    uint64_t now)
{
	bool fresh = r->last_ms && now - MIN(now, r->last_ms) < FRESH_MS;
	bool starting =
		!r->last_ms && s->windows_fd >= 0 && now - MIN(now, s->started_ms) < STARTING_MS;

	fprintf(out,
		"\"collector\":{\"state\":\"%s\",\"last\":%" PRIu64 ",\"count\":%u,\"problem\":",
		r->last_error ? "failed"
		: fresh       ? "recording"
		: starting    ? "starting"
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
	uint64_t now = clock_ms(CLOCK_REALTIME);
	struct store_stats store;
	struct receiver_stats received;

	store_stats(s->store, &store);
	receiver_stats(s->receiver, &received);
	gethostname(host, sizeof(host) - 1);
	fprintf(out, "{\"program\":\"smolder\",\"version\":\"%s\",\"host\":", SMOLDER_VERSION);
	escape_json(out, host, strlen(host));
	fprintf(out, ",\"cpus\":%ld,\"pid\":%d,\"now\":%" PRIu64 ",\"started\":%" PRIu64 ",\n",
		sysconf(_SC_NPROCESSORS_ONLN), getpid(), now, s->started_ms);
	write_collector(out, s, &received, now);
	fputs(",\n", out);
	write_store(out, s, &store);
	fprintf(out, ",\n\"samples\":{\"taken\":%" PRIu64 ",\"stored\":%" PRIu64 ",\"lost\":{",
		store.taken, store.stored);
	for (int i = 0; i < WINDOW_LOST_REASONS; i++)
		fprintf(out, "%s\"%s\":%" PRIu64, i ? "," : "", window_lost_names[i],
			store.lost[i]);
	fputs("}},\n", out);
	if (s->scraper) {
		struct scraper_stats scraped;
		scraper_stats(s->scraper, &scraped);
		fprintf(out, "\"targets\":{\"up\":%u,\"down\":%u},\n", scraped.up, scraped.down);
	}
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

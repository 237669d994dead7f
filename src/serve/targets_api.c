/*
 * targets_api: what is scraped, and how it goes: for the page, for programs, and for Prometheus.
 *
 * Text of targets may be anything that a network sent: JSON gets it as valid UTF-8.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/string_pool.h"
#include "base/text.h"
#include "render/escape.h"
#include "serve/server_internal.h"

static const char *const healths[] = {
	[SCRAPE_UNKNOWN] = "unknown", [SCRAPE_UP] = "up", [SCRAPE_DOWN] = "down"};

/* ---- JSON ---------------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *text)
{
	char clean[TEXT_MAX + 1];

	escape_json(out, clean, text_clean(text, strlen(text), clean));
}

static void put(FILE *out, const char *name, const char *text)
{
	fprintf(out, "\"%s\":", name);
	put_text(out, text);
}

static void put_labels(FILE *out, const struct pushed_labels *l)
{
	fputs("\"labels\":{", out);
	for (uint32_t i = 0; i < l->count; i++) {
		if (i)
			fputc(',', out);
		put_text(out, l->all[i].name);
		fputc(':', out);
		put_text(out, l->all[i].value);
	}
	fputs("}", out);
}

static void put_target(FILE *out, const struct scrape_target *t)
{
	fputc('{', out);
	put(out, "job", scrape_target_label(t, "job"));
	fputc(',', out);
	put(out, "instance", scrape_target_label(t, "instance"));
	fputc(',', out);
	put(out, "profile", t->name);
	fputc(',', out);
	put(out, "url", t->url);
	fputc(',', out);
	put_labels(out, &t->labels);
	fprintf(out, ",\"health\":\"%s\",", healths[t->health]);
	put(out, "reason", t->reason ? t->reason : "");
	fputc(',', out);
	put(out, "error", t->error);
	fprintf(out,
		",\"last\":%" PRIu64 ",\"took_ms\":%" PRIu64
		",\"running\":%s,\"interval_ms\":%" PRIu64 ",\"timeout_ms\":%" PRIu64
		",\"scrapes\":%" PRIu64 ",\"failures\":%" PRIu64 ",\"late\":%" PRIu64
		",\"restarts\":%" PRIu64 ",\"bytes\":%" PRIu64 "}",
		t->began_ms, t->took_ms, t->is_running ? "true" : "false", t->job->interval_ms,
		t->job->timeout_ms, t->times, t->failures, t->late, t->restarts, t->bytes);
}

static void put_source(FILE *out, const struct scraper_source *s)
{
	static const char *const kinds[] = {
		[SCRAPE_STATIC] = "static", [SCRAPE_FILE] = "file", [SCRAPE_HTTP] = "http"};
	const struct scrape_source *from = s->source;

	fputc('{', out);
	put(out, "job", s->job->name);
	fprintf(out, ",\"kind\":\"%s\",", kinds[from->kind]);
	put(out, "where",
	    from->kind == SCRAPE_HTTP   ? from->url
	    : from->kind == SCRAPE_FILE ? from->files[0]
					: "");
	fprintf(out, ",\"targets\":%zu,", s->targets);
	put(out, "error", s->error);
	fputc('}', out);
}

void targets_json(void *ctx, struct http_request *r)
{
	struct server *s = ctx;
	const struct scrape_target *t;
	struct scraper_stats stats = {};
	struct scraper_source source;
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);

	if (s->scraper)
		scraper_stats(s->scraper, &stats);
	fprintf(out,
		"{\"now\":%" PRIu64 ",\"dropped\":%" PRIu64 ",\"left_out\":%" PRIu64
		",\n\"sources\":[",
		clock_ms(CLOCK_REALTIME), stats.dropped, stats.left_out);
	for (size_t i = 0; s->scraper && scraper_source(s->scraper, i, &source); i++) {
		fputs(i ? ",\n" : "\n", out);
		put_source(out, &source);
	}
	fputs("],\n\"targets\":[", out);
	for (size_t i = 0; s->scraper && (t = scraper_target(s->scraper, i)); i++) {
		fputs(i ? ",\n" : "\n", out);
		put_target(out, t);
	}
	fputs("]}\n", out);
	fclose(out);
	http_answer(r,
		    &(struct http_answer){
			    .status = 200, .type = "application/json", .body = body, .len = len});
}

/* ---- metrics ------------------------------------------------------------------------------- */

typedef double measure_fn(const struct scrape_target *t);

static double is_up(const struct scrape_target *t)
{
	return t->health == SCRAPE_UP;
}

static double seconds(const struct scrape_target *t)
{
	return (double)t->took_ms / 1000;
}

static double failures(const struct scrape_target *t)
{
	return (double)t->failures;
}

static double one(const struct scrape_target *t)
{
	(void)t;
	return 1;
}

/*
 * Of each target; with `reason`, of those that are down alone. Two may differ in other labels, or
 * in what is cleaned away: Prometheus would refuse them all, so only the first is told.
 */
static void each(struct exposition *e, const struct scraper *s, measure_fn *fn, bool reason)
{
	struct string_pool told = {};
	const struct scrape_target *t;

	for (size_t i = 0; (t = scraper_target(s, i)); i++) {
		const char *all[] = {scrape_target_label(t, "job"),
				     scrape_target_label(t, "instance"), t->name};
		char clean[ARRAY_SIZE(all)][TEXT_MAX + 1];
		if (t->health == SCRAPE_UNKNOWN || (reason && !t->reason))
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(all); k++)
			text_clean(all[k], strlen(all[k]), clean[k]);
		CLEANUP(freep) char *key = mem_printf("%s\n%s\n%s", clean[0], clean[1], clean[2]);
		if (string_pool_find(&told, key, strlen(key)))
			continue;
		string_pool_put(&told, key, strlen(key));
		const char *labels[] = {"job",
					clean[0],
					"instance",
					clean[1],
					"profile",
					clean[2],
					reason ? "reason" : NULL,
					t->reason,
					NULL};
		exposition_labelled(e, labels, fn(t));
	}
	string_pool_done(&told);
}

void targets_metrics(struct exposition *e, const struct scraper *s)
{
	struct scraper_stats stats;

	scraper_stats(s, &stats);
	inbox_metrics(&stats.inbox, &(struct inbox_words){"scrapes", "scrapes_failed", "scraped"},
		      e);
	exposition_gauges(e, "scrape_targets", "Profiles of targets that are scraped, by health.");
	exposition_value(e, "health", "up", (double)stats.up);
	exposition_value(e, "health", "down", (double)stats.down);
	exposition_value(e, "health", "unknown", (double)(stats.targets - stats.up - stats.down));
	exposition_gauge(e, "scrape_targets_dropped", "Those that relabel_configs drop.",
			 (double)stats.dropped);
	exposition_gauge(e, "scrape_targets_left_out",
			 "Those that there is no room for, or that are no targets.",
			 (double)stats.left_out);
	exposition_counter(e, "scrape_late",
			   "Times that a target was not scraped, as it had not answered before.",
			   (double)stats.late);
	exposition_counter(e, "scrape_restarts", "Times that the sums of a program had begun anew.",
			   (double)stats.restarts);
	exposition_counter(e, "scrape_uncompared",
			   "Times that there was no room to know the sums of a program.",
			   (double)stats.unknown);
	exposition_gauge(e, "scrape_known_bytes", "Memory for what is known of sums.",
			 (double)stats.growth_bytes);
	exposition_counter(e, "scrape_sources_failed",
			   "Times that a file or URL did not tell its targets.",
			   (double)stats.sources_failed);
	exposition_gauges(e, "scrape_up", "Whether the last scrape went well.");
	each(e, s, is_up, false);
	exposition_gauges(e, "scrape_duration_seconds", "How long the last scrape took.");
	each(e, s, seconds, false);
	exposition_counters(e, "scrape_failures", "Scrapes that failed.");
	each(e, s, failures, false);
	exposition_gauges(e, "scrape_down", "Targets whose last scrape failed, by why.");
	each(e, s, one, true);
}

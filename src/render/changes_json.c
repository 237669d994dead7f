#include "render/changes_json.h"

#include <inttypes.h>
#include <math.h>

#include "query/selector.h"
#include "render/describe.h"
#include "render/escape.h"

static void text(FILE *out, const char *key, const char *value)
{
	fprintf(out, ",\"%s\":", key);
	escape_json(out, value, strlen(value));
}

static void number(FILE *out, const char *key, double value)
{
	if (isfinite(value))
		fprintf(out, ",\"%s\":%.6g", key, value);
	else
		fprintf(out, ",\"%s\":null", key);
}

/* The type of a selector, with its braces' contents: cpu{host="a"} is `cpu` and `host="a"`. */
static char *selector_of(const struct comparison *c, const char *process)
{
	char *made = NULL;
	size_t len, type = strcspn(c->selector, "{ ");
	const char *open = strchr(c->selector, '{'), *close = strrchr(c->selector, '}');
	FILE *f = open_memstream(&made, &len);

	/* A word alone may be a process: then that is the one. */
	bool is_type =
		open || strcmp(c->selector, "cpu") == 0 || strcmp(c->selector, "offcpu") == 0;
	fprintf(f, "%.*s{comm=", is_type ? (int)type : 3, is_type ? c->selector : "cpu");
	selector_write_value(f, process);
	if (open && close > open + 1 && !strstr(open, "comm="))
		fprintf(f, ",%.*s", (int)(close - open - 1), open + 1);
	fputs("}", f);
	fclose(f);
	return made;
}

/* The page of the compared flame graph, from the server's root on. */
static void link_to(FILE *out, const struct comparison *c, const char *selector,
		    const char *function)
{
	char *url = NULL;
	size_t len;
	FILE *f = open_memstream(&url, &len);

	fputs("/#v=1&q=", f);
	escape_url(f, selector);
	fprintf(f, "&t=%" PRIu64 "-%" PRIu64 "&base=%" PRIu64 "-%" PRIu64, c->now.from_ms,
		c->now.to_ms, c->base.from_ms, c->base.to_ms);
	if (*function) {
		fputs("&s=", f);
		escape_url(f, function);
	}
	fclose(f);
	text(out, "link", url);
	free(url);
}

static void write_change(FILE *out, const struct comparison *c, const struct change *one)
{
	CLEANUP(freep) char *selector = selector_of(c, one->process);
	bool is_process = one->kind == CHANGE_PROCESS;

	fputs("{\"process\":", out);
	escape_json(out, one->process, strlen(one->process));
	if (!is_process) {
		text(out, "function", one->function);
		text(out, "module", one->module);
		text(out, "kind", describe_kind(one->frame));
		text(out, "of", one->kind == CHANGE_SELF ? "self" : "total");
	}
	number(out, is_process ? "base_cpus" : "base_share", one->before);
	number(out, is_process ? "cpus" : "share", one->now);
	number(out, "change", one->change);
	number(out, "cpu_seconds_a_day", one->seconds_a_day);
	number(out, "p", one->probability);
	if (!is_process) {
		fputs(",\"path\":[", out);
		for (uint32_t i = 0; i < one->path_len; i++) {
			fputs(i ? "," : "", out);
			escape_json(out, one->path[i], strlen(one->path[i]));
		}
		fputs("]", out);
	}
	text(out, "query", selector);
	link_to(out, c, selector, one->function);
	fputs("}", out);
}

static void write_list(FILE *out, const struct comparison *c, const char *key, uint32_t from,
		       uint32_t to)
{
	fprintf(out, ",\n\"%s\":[", key);
	for (uint32_t i = from; i < to; i++) {
		fputs(i > from ? ",\n" : "\n", out);
		write_change(out, c, &c->changes.list[i]);
	}
	fputs("]", out);
}

static void write_comparison(FILE *out, const struct comparison *c)
{
	fputs("{\"against\":", out);
	escape_json(out, c->against, strlen(c->against));
	text(out, "query", c->selector);
	fprintf(out,
		",\"from\":%" PRIu64 ",\"to\":%" PRIu64 ",\"base_from\":%" PRIu64
		",\"base_to\":%" PRIu64 ",\"block\":%" PRIu64 ",\"blocks\":%u,\"base_blocks\":%u",
		c->now.from_ms, c->now.to_ms, c->base.from_ms, c->base.to_ms, c->block_ms,
		c->changes.blocks[BLOCK_NOW], c->changes.blocks[BLOCK_BASE]);
	fprintf(out,
		",\"samples\":%" PRIu64 ",\"base_samples\":%" PRIu64 ",\"lost\":%" PRIu64
		",\"base_lost\":%" PRIu64 ",\"compared\":%s,\"tested\":%u",
		c->samples[BLOCK_NOW], c->samples[BLOCK_BASE], c->lost[BLOCK_NOW],
		c->lost[BLOCK_BASE], c->is_compared ? "true" : "false", c->changes.tested);
	number(out, "cpus", c->changes.cpus[BLOCK_NOW]);
	number(out, "base_cpus", c->changes.cpus[BLOCK_BASE]);
	link_to(out, c, c->selector, "");
	write_list(out, c, "functions", 0, c->changes.functions);
	write_list(out, c, "processes", c->changes.functions, c->changes.count);
	fprintf(out, ",\n\"unlisted\":%u}", c->changes.unlisted);
}

static void write_noticed(FILE *out, const struct noticed *n)
{
	fprintf(out, "{\"at\":%" PRIu64 ",\"sure\":%" PRIu64, n->at_ms, n->sure_ms);
	text(out, "process", n->version.process);
	text(out, "exe", n->version.exe);
	text(out, "build_id", n->version.now);
	text(out, "base_build_id", n->version.before);
	text(out, "version", n->version.label_now);
	text(out, "base_version", n->version.label_before);
	fputs("}", out);
}

void changes_json(const struct comparisons *c, FILE *out)
{
	fprintf(out, "{\"rate\":%g,\"least\":%g,\"least_seconds\":%g,\"comparisons\":[",
		CHANGES_RATE, CHANGES_LEAST, CHANGES_SECONDS);
	for (uint32_t i = 0; i < c->count; i++) {
		fputs(i ? ",\n" : "\n", out);
		write_comparison(out, &c->list[i]);
	}
	fputs("],\n\"versions\":[", out);
	for (uint32_t i = 0; i < c->noticed_count; i++) {
		fputs(i ? ",\n" : "\n", out);
		write_noticed(out, &c->noticed[i]);
	}
	fputs("]}\n", out);
}

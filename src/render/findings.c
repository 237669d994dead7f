#include "render/findings.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "render/describe.h"
#include "render/escape.h"

#define COLUMNS      80
#define COLUMNS_MAX  100 /* longer lines are hard to read */
#define FRAMES_SHOWN 6   /* of a stack: its callers at the leaf */

/* ---- for people ------------------------------------------------------------------------------ */

const char *render_findings_sureness(double sure)
{
	return sure >= 0.9 ? "almost certain" : sure >= 0.7 ? "likely" : "maybe";
}

static void put_clock(FILE *out, uint64_t ms, uint64_t now_ms)
{
	time_t t = (time_t)(ms / 1000), now = (time_t)(now_ms / 1000);
	struct tm tm, today;
	char text[40];

	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	bool is_today = tm.tm_yday == today.tm_yday && tm.tm_year == today.tm_year;
	strftime(text, sizeof(text), is_today ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
	fputs(text, out);
}

static void put_length(FILE *out, uint64_t ms)
{
	uint64_t s = ms / 1000;

	if (s < 120)
		fprintf(out, "%" PRIu64 " s", s);
	else if (s < 7200)
		fprintf(out, "%" PRIu64 " min", s / 60);
	else
		fprintf(out, "%" PRIu64 " h", s / 3600);
}

static void put_when(FILE *out, const struct finding *f, uint64_t now_ms, unsigned columns)
{
	bool is_active = finding_is_active(f, now_ms);
	CLEANUP(freep) char *text = NULL;
	size_t len;
	FILE *line = open_memstream(&text, &len);

	fputs(is_active ? "Since " : "From ", line);
	put_clock(line, f->began_ms, now_ms);
	if (!is_active) {
		fputs(" to ", line);
		put_clock(line, f->until_ms, now_ms);
	}
	fputs(is_active ? " (so far " : " (", line);
	put_length(line, f->until_ms - f->began_ms);
	fputs(")", line);
	if (*f->container)
		fprintf(line, ", in %s", f->container);
	fprintf(line, "; %s. [%s]", render_findings_sureness(f->sure), f->kind);
	fclose(line);
	fputs("  ", out);
	describe_wrap(out, text, 2, 4, columns);
}

/* The end of the stack, which tells more than its root: main and what is below it is known. */
static void put_stack(FILE *out, const char *stack, unsigned columns)
{
	const char *from = stack + strlen(stack);
	unsigned frames = 0;
	CLEANUP(freep) char *text = NULL;
	size_t len;

	while (from > stack && frames < FRAMES_SHOWN) {
		from--;
		frames += *from == ';';
	}
	FILE *f = open_memstream(&text, &len);
	fputs(from > stack ? "Called from … " : "Called from ", f);
	for (const char *at = from + (*from == ';'); *at; at++)
		fputs(*at == ';' ? " > " : (char[]){*at, '\0'}, f);
	fclose(f);
	fputs("  ", out);
	describe_wrap(out, text, 2, 4, columns);
}

static void put_finding(FILE *out, const struct finding *f, const struct render_findings_options *o,
			unsigned columns, bool several_hosts)
{
	CLEANUP(freep)
	char *line = mem_printf("%s%s%s", several_hosts ? f->host : "", several_hosts ? ": " : "",
				f->headline);

	describe_wrap(out, line, 0, 2, columns);
	put_when(out, f, o->now_ms, columns);
	fputs("  ", out);
	describe_wrap(out, f->means, 2, 2, columns);
	if (*f->stack)
		put_stack(out, f->stack, columns);
	if (*f->next)
		fprintf(out, "  See: %s\n", f->next);
}

void render_findings_text(const struct store_findings *f, const struct render_findings_options *o,
			  FILE *out)
{
	unsigned columns = MIN(o->columns ? o->columns : COLUMNS, (unsigned)COLUMNS_MAX);
	bool several = false;

	if (!f->count) {
		fprintf(out, "Nothing %s wrong%s.\n", o->is_range ? "looked" : "looks",
			o->is_range ? " in that time" : " now");
		return;
	}
	struct finding *list = mem_alloc_array(f->count, sizeof(*list));
	memcpy(list, f->findings, f->count * sizeof(*list));
	if (!o->is_range)
		qsort(list, f->count, sizeof(*list), finding_order);
	if (f->count > 1)
		fprintf(out, "%u things %s wrong%s.\n\n", f->count, o->is_range ? "looked" : "look",
			o->is_range ? ", the latest first" : ", what takes most first");
	for (uint32_t i = 1; i < f->count; i++)
		several |= strcmp(f->findings[i].host, f->findings[0].host) != 0;
	for (uint32_t i = 0; i < f->count; i++) {
		if (i)
			fputc('\n', out);
		put_finding(out, &list[i], o, columns, several);
	}
	free(list);
	if (f->cut)
		fprintf(out, "\nThere were more: these are the last %u.\n", f->count);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static void put_text(FILE *out, const char *key, const char *text)
{
	fprintf(out, ",\"%s\":", key);
	escape_json(out, text, strlen(text));
}

static void put_json(FILE *out, const struct finding *f, uint64_t now_ms)
{
	fputs("{\"kind\":", out);
	escape_json(out, f->kind, strlen(f->kind));
	fprintf(out,
		",\"began\":%" PRIu64 ",\"until\":%" PRIu64 ",\"active\":%s,\"sure\":%.3g,"
		"\"pid\":%u,\"tid\":%u",
		f->began_ms, f->until_ms, finding_is_active(f, now_ms) ? "true" : "false", f->sure,
		f->pid, f->tid);
	put_text(out, "comm", f->comm);
	put_text(out, "thread", f->thread);
	put_text(out, "container", f->container);
	put_text(out, "host", f->host);
	put_text(out, "headline", f->headline);
	put_text(out, "means", f->means);
	put_text(out, "next", f->next);
	put_text(out, "stack", f->stack);
	fputs(",\"facts\":{", out);
	for (uint32_t i = 0; i < f->fact_count; i++) {
		fputs(i ? "," : "", out);
		escape_json(out, f->facts[i].name, strlen(f->facts[i].name));
		fprintf(out, ":%.6g", f->facts[i].value);
	}
	fputs("}}", out);
}

void render_findings_json(const struct store_findings *f, uint64_t now_ms, FILE *out)
{
	fputs("{\"findings\":[", out);
	for (uint32_t i = 0; i < f->count; i++) {
		fputs(i ? ",\n" : "", out);
		put_json(out, &f->findings[i], now_ms);
	}
	fprintf(out, "],\"cut\":%s}\n", f->cut ? "true" : "false");
}

#include "cli/changes_ask.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "render/changes_json.h"
#include "render/escape.h"

#define PATH_FRAMES 6 /* callers that are printed */
#define ROOM        512

/* ---- asking -------------------------------------------------------------------------------- */

static char *request_path(const struct comparison_ask *ask)
{
	const struct {
		const char *key;
		uint64_t ms;
	} times[] = {{"from", ask->now.from_ms},
		     {"to", ask->now.to_ms},
		     {"base_from", ask->base.from_ms},
		     {"base_to", ask->base.to_ms},
		     {"at", ask->at_ms}};
	char *path = NULL;
	size_t len;
	FILE *f = open_memstream(&path, &len);

	fprintf(f, "/api/v1/changes?alone=%d", ask->alone);
	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (times[i].ms)
			fprintf(f, "&%s=%" PRIu64, times[i].key, times[i].ms);
	if (ask->selector) {
		fputs("&query=", f);
		escape_url(f, ask->selector);
	}
	fclose(f);
	return path;
}

static int ask_store(struct store *s, const struct comparison_ask *ask, json_t **ret)
{
	struct comparisons all;
	struct store_error err = {};
	CLEANUP(freep) char *text = NULL;
	size_t len;

	int r = comparisons_make(s, ask, &all, &err);
	log_progress_done();
	if (r) {
		log_error("%s", *err.text ? err.text : strerror(-r));
	} else {
		FILE *f = open_memstream(&text, &len);
		changes_json(&all, f);
		fclose(f);
		*ret = json_loadb(text, len, 0, NULL);
	}
	comparisons_done(&all);
	return r ? 1 : 0;
}

int changes_ask(struct query_client *c, const struct comparison_ask *ask, json_t **ret)
{
	CLEANUP(freep) char *path = request_path(ask);
	int code = query_client_server(c) ? query_client_json(c, path, ret)
					  : ask_store(query_client_store(c), ask, ret);

	if (!code && !json_is_array(json_object_get(*ret, "comparisons"))) {
		log_error("the answer of %s is not about changes; is it of another version?",
			  query_client_server(c) ? query_client_server(c) : "the store");
		json_decref(*ret);
		*ret = NULL;
		return 1;
	}
	return code;
}

/* ---- printing ------------------------------------------------------------------------------ */

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static uint64_t ms_of(const json_t *o, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(o, key));

	return n > 0 ? (uint64_t)n : 0;
}

/* "+20 %", "new", "gone" */
static const char *in_percent(const json_t *change, char ret[static 32])
{
	double by = json_number_value(change);

	if (!json_is_number(change))
		return "new";
	if (by <= -1)
		return "gone";
	snprintf(ret, 32, by < 10 ? "%+.0f %%" : "×%.0f", by < 10 ? 100 * by : by + 1);
	return ret;
}

/* "+1,728": with a sign and marks between thousands. */
static const char *with_sign(double n, char ret[static 32])
{
	char digits[24];
	size_t out = 0;
	int len = snprintf(digits, sizeof(digits), "%.0f", fabs(n));

	ret[out++] = n < 0 ? '-' : '+';
	for (int i = 0; i < len && out < 30; i++) {
		if (i && (len - i) % 3 == 0)
			ret[out++] = ',';
		ret[out++] = digits[i];
	}
	ret[out] = '\0';
	return ret;
}

static void moment(FILE *out, uint64_t ms)
{
	time_t t = (time_t)(ms / 1000);
	struct tm tm;
	char text[32];

	gmtime_r(&t, &tm);
	strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fputs(text, out);
}

/* How the compared flame graph is had: an address of the server's page, or a command. */
static void print_how(struct query_client *c, const json_t *comparison, const json_t *change,
		      const char *indent, FILE *out)
{
	static const char *const times[][2] = {
		{"from", "from"}, {"to", "to"}, {"base-from", "base_from"}, {"base-to", "base_to"}};

	if (query_client_server(c)) {
		fprintf(out, "%s%s%s\n", indent, query_client_server(c), text_of(change, "link"));
		return;
	}
	fprintf(out, "%ssmolder diff '%s'%s", indent, text_of(change, "query"),
		query_client_hint(c));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		fprintf(out, " --%s ", times[i][0]);
		moment(out, ms_of(comparison, times[i][1]));
	}
	fputs(" -o diff.svg\n", out);
}

static void print_path(const json_t *path, const char *indent, FILE *out)
{
	size_t count = json_array_size(path), from = count > PATH_FRAMES ? count - PATH_FRAMES : 0;

	if (count < 2)
		return;
	fprintf(out, "%s%s", indent, from ? "… > " : "");
	for (size_t i = from; i < count; i++)
		fprintf(out, "%s%s", i > from ? " > " : "",
			json_string_value(json_array_get(path, i)));
	fputs("\n", out);
}

static const char *words_for_unnamed(const json_t *f, char ret[static ROOM])
{
	if (strcmp(text_of(f, "function"), "[unnamed]") == 0)
		snprintf(ret, ROOM, "functions without a name");
	else
		snprintf(ret, ROOM, "%s", text_of(f, "function"));
	return ret;
}

static void print_function(struct query_client *c, const json_t *comparison, const json_t *f,
			   const char *indent, FILE *out)
{
	CLEANUP(freep) char *under = mem_printf("%s%12s", indent, "");
	char change[32], seconds[32], name[ROOM];
	const char *module = text_of(f, "module");

	fprintf(out, "%s%10s  %6s  %5.1f → %.1f %%  %s%s  (%s%s%s)\n", indent,
		with_sign(number_of(f, "cpu_seconds_a_day"), seconds),
		in_percent(json_object_get(f, "change"), change), 100 * number_of(f, "base_share"),
		100 * number_of(f, "share"), words_for_unnamed(f, name),
		strcmp(text_of(f, "of"), "total") == 0 ? ", with what it calls" : "",
		text_of(f, "process"), *module ? ", " : "", module);
	print_path(json_object_get(f, "path"), under, out);
	print_how(c, comparison, f, under, out);
}

static void print_process(struct query_client *c, const json_t *comparison, const json_t *p,
			  const char *indent, FILE *out)
{
	CLEANUP(freep) char *under = mem_printf("%s%12s", indent, "");
	char change[32], seconds[32];

	fprintf(out, "%s%10s  %6s  %5.2f → %.2f CPUs  %s\n", indent,
		with_sign(number_of(p, "cpu_seconds_a_day"), seconds),
		in_percent(json_object_get(p, "change"), change), number_of(p, "base_cpus"),
		number_of(p, "cpus"), text_of(p, "process"));
	print_how(c, comparison, p, under, out);
}

static void print_list(struct query_client *c, const json_t *comparison, const char *key,
		       const char *title, const char *indent, size_t max,
		       void (*print)(struct query_client *, const json_t *, const json_t *,
				     const char *, FILE *),
		       FILE *out)
{
	const json_t *list = json_object_get(comparison, key);
	size_t count = json_array_size(list);

	if (!count)
		return;
	fprintf(out, "\n%s%s\n", indent, title);
	for (size_t i = 0; i < count && i < max; i++)
		print(c, comparison, json_array_get(list, i), indent, out);
	if (count > max)
		fprintf(out, "%s%10s  and %zu more (--json has all)\n", indent, "", count - max);
}

/* "60 blocks of 1m" */
static void print_method(const json_t *comparison, const char *indent, FILE *out)
{
	uint64_t block = ms_of(comparison, "block") / 1000;

	fprintf(out,
		"\n%s%" PRIu64 " functions and processes were compared, in blocks of %" PRIu64
		"%s (%" PRIu64 " now, %" PRIu64
		" then). Where nothing\n%schanged, a comparison lists something at most once in "
		"a hundred times; less than 5 %%, or\n%s60 CPU seconds a day, is not listed.\n",
		indent, ms_of(comparison, "tested"), block % 60 ? block : block / 60,
		block % 60 ? " s" : " min", ms_of(comparison, "blocks"),
		ms_of(comparison, "base_blocks"), indent, indent);
}

void changes_print(struct query_client *c, const json_t *comparison, const char *indent, size_t max,
		   FILE *out)
{
	char from[32], to[32], base_from[32], base_to[32];
	double now = number_of(comparison, "cpus"), base = number_of(comparison, "base_cpus");
	size_t count = json_array_size(json_object_get(comparison, "functions")) +
		       json_array_size(json_object_get(comparison, "processes"));

	report_time(ms_of(comparison, "from"), from);
	report_time(ms_of(comparison, "to"), to);
	report_time(ms_of(comparison, "base_from"), base_from);
	report_time(ms_of(comparison, "base_to"), base_to);
	fprintf(out, "%s%s: %s to %s, against %s: %s to %s\n", indent, text_of(comparison, "query"),
		from, to, text_of(comparison, "against"), base_from, base_to);
	if (!json_is_true(json_object_get(comparison, "compared"))) {
		fprintf(out,
			"%sToo little is recorded to tell what varies ordinarily: at least 4 "
			"blocks "
			"on each side are\n%sneeded, and there are %" PRIu64 " now, and %" PRIu64
			" then, of %" PRIu64 " s.\n",
			indent, indent, ms_of(comparison, "blocks"),
			ms_of(comparison, "base_blocks"), ms_of(comparison, "block") / 1000);
		return;
	}
	fprintf(out, "%sIn all it took %.2f CPUs, and %.2f then.\n", indent, now, base);
	if (!count)
		fprintf(out,
			"%sNothing changed by more than chance and ordinary variation explain.\n",
			indent);
	print_list(c, comparison, "functions",
		   "CPU s/day  change  share of its process  function, for the same work", indent,
		   max, print_function, out);
	print_list(c, comparison, "processes", "CPU s/day  change  CPUs  process", indent, max,
		   print_process, out);
	print_method(comparison, indent, out);
}

static void print_other(const char *what, const char *before, const char *now, int digits,
			FILE *out)
{
	if (*now)
		fprintf(out, ", %s %.*s instead of %.*s", what, digits, now, digits, before);
}

void changes_print_versions(struct query_client *c, const json_t *answer, const char *indent,
			    FILE *out)
{
	const json_t *list = json_object_get(answer, "versions");
	size_t count = json_array_size(list);

	if (!count)
		return;
	fprintf(out, "%sNew versions of programs:\n", indent);
	for (size_t i = 0; i < count; i++) {
		const json_t *v = json_array_get(list, i);
		char at[32];
		report_time(ms_of(v, "at"), at);
		fprintf(out, "%s  %s  %s (%s)", indent, at, text_of(v, "process"),
			text_of(v, "exe"));
		print_other("build", text_of(v, "base_build_id"), text_of(v, "build_id"), 12, out);
		print_other("container", text_of(v, "base_container"), text_of(v, "container"), 12,
			    out);
		fprintf(out, "\n%s            smolder changes 'cpu{comm=\"%s\"}'%s --at ", indent,
			text_of(v, "process"), query_client_hint(c));
		moment(out, ms_of(v, "at"));
		fputs("\n", out);
	}
}

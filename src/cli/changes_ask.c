#include "cli/changes_ask.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "base/json_fields.h"
#include "cli/report.h"
#include "render/changes_json.h"
#include "render/describe.h"
#include "render/escape.h"

#define PATH_FRAMES   6 /* callers that are printed */
#define ROOM          512
#define ID_COLUMNS    12 /* of a build id: as other tools show them */
#define LABEL_COLUMNS 40

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
		fprintf(out, "%s%s%s\n", indent, query_client_server(c), json_text(change, "link"));
		return;
	}
	fprintf(out, "%ssmolder diff '%s'%s", indent, json_text(change, "query"),
		query_client_hint(c));
	for (size_t i = 0; i < ARRAY_SIZE(times); i++) {
		fprintf(out, " --%s ", times[i][0]);
		moment(out, json_whole(comparison, times[i][1]));
	}
	fputs(" -o diff.svg\n", out);
}

void changes_print_path(const json_t *path, size_t max, FILE *out)
{
	size_t count = json_array_size(path), from = count > max ? count - max : 0;

	fputs(from ? "… > " : "", out);
	for (size_t i = from; i < count; i++)
		fprintf(out, "%s%s", i > from ? " > " : "",
			json_string_value(json_array_get(path, i)));
	fputs("\n", out);
}

static const char *words_for_unnamed(const json_t *f, char ret[static ROOM])
{
	if (strcmp(json_text(f, "function"), "[unnamed]") == 0)
		snprintf(ret, ROOM, "functions without a name");
	else
		snprintf(ret, ROOM, "%s", json_text(f, "function"));
	return ret;
}

static void print_function(struct query_client *c, const json_t *comparison, const json_t *f,
			   const char *indent, FILE *out)
{
	CLEANUP(freep) char *under = mem_printf("%s%12s", indent, "");
	char change[32], seconds[32], name[ROOM];
	const char *module = json_text(f, "module");

	fprintf(out, "%s%10s  %6s  %5.1f → %.1f %%  %s%s  (%s%s%s)\n", indent,
		with_sign(json_real_of(f, "cpu_seconds_a_day"), seconds),
		in_percent(json_object_get(f, "change"), change),
		100 * json_real_of(f, "base_share"), 100 * json_real_of(f, "share"),
		words_for_unnamed(f, name),
		strcmp(json_text(f, "of"), "total") == 0 ? ", with what it calls" : "",
		json_text(f, "process"), *module ? ", " : "", module);
	if (json_array_size(json_object_get(f, "path")) > 1) {
		fputs(under, out);
		changes_print_path(json_object_get(f, "path"), PATH_FRAMES, out);
	}
	print_how(c, comparison, f, under, out);
}

static void print_process(struct query_client *c, const json_t *comparison, const json_t *p,
			  const char *indent, FILE *out)
{
	CLEANUP(freep) char *under = mem_printf("%s%12s", indent, "");
	char change[32], seconds[32];

	fprintf(out, "%s%10s  %6s  %5.2f → %.2f CPUs  %s\n", indent,
		with_sign(json_real_of(p, "cpu_seconds_a_day"), seconds),
		in_percent(json_object_get(p, "change"), change), json_real_of(p, "base_cpus"),
		json_real_of(p, "cpus"), json_text(p, "process"));
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
	uint64_t block = json_whole(comparison, "block") / 1000;

	fprintf(out,
		"\n%s%" PRIu64 " functions and processes were compared, in blocks of %" PRIu64
		"%s (%" PRIu64 " now, %" PRIu64
		" then). Where nothing\n%schanged, a comparison lists something at most once in "
		"a hundred times; less than 5 %%, or\n%s60 CPU seconds a day, is not listed.\n",
		indent, json_whole(comparison, "tested"), block % 60 ? block : block / 60,
		block % 60 ? " s" : " min", json_whole(comparison, "blocks"),
		json_whole(comparison, "base_blocks"), indent, indent);
}

void changes_print(struct query_client *c, const json_t *comparison, const char *indent, size_t max,
		   FILE *out)
{
	char from[32], to[32], base_from[32], base_to[32];
	double now = json_real_of(comparison, "cpus"), base = json_real_of(comparison, "base_cpus");
	size_t count = json_array_size(json_object_get(comparison, "functions")) +
		       json_array_size(json_object_get(comparison, "processes"));

	report_time(json_whole(comparison, "from"), from);
	report_time(json_whole(comparison, "to"), to);
	report_time(json_whole(comparison, "base_from"), base_from);
	report_time(json_whole(comparison, "base_to"), base_to);
	fprintf(out, "%s%s: %s to %s, against %s: %s to %s\n", indent,
		json_text(comparison, "query"), from, to, json_text(comparison, "against"),
		base_from, base_to);
	if (!json_is_true(json_object_get(comparison, "compared"))) {
		fprintf(out,
			"%sToo little is recorded to tell what varies ordinarily: at least 4 "
			"blocks "
			"on each side are\n%sneeded, and there are %" PRIu64 " now, and %" PRIu64
			" then, of %" PRIu64 " s.\n",
			indent, indent, json_whole(comparison, "blocks"),
			json_whole(comparison, "base_blocks"),
			json_whole(comparison, "block") / 1000);
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

static void print_other(const char *what, const char *before, const char *now, size_t columns,
			FILE *out)
{
	size_t used;

	if (*now)
		fprintf(out, ", %s %.*s instead of %.*s", what,
			(int)describe_fit(now, strlen(now), columns, &used), now,
			(int)describe_fit(before, strlen(before), columns, &used), before);
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
		report_time(json_whole(v, "at"), at);
		fprintf(out, "%s  %s  %s (%s)", indent, at, json_text(v, "process"),
			json_text(v, "exe"));
		print_other("version", json_text(v, "base_version"), json_text(v, "version"),
			    LABEL_COLUMNS, out);
		print_other("build", json_text(v, "base_build_id"), json_text(v, "build_id"),
			    ID_COLUMNS, out);
		fprintf(out, "\n%s            smolder changes 'cpu{comm=\"%s\"}'%s --at ", indent,
			json_text(v, "process"), query_client_hint(c));
		moment(out, json_whole(v, "at"));
		fputs("\n", out);
	}
}

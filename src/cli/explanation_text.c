/* The page of an explanation. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/changes_ask.h"
#include "cli/explanation.h"
#include "base/json_fields.h"
#include "cli/report.h"
#include "pipeline/finding_text.h"
#include "render/describe.h"
#include "render/findings.h"

#define INDENT      "  "
#define PATH_FRAMES 6
#define CHANGED     5
#define COLUMNS     96     /* longer lines are hard to read, on a terminal and elsewhere */
#define LEAST       0.0005 /* what would be shown as 0.0 % is left out */

static void title(FILE *out, const char *text)
{
	fprintf(out, "\n%s\n", text);
}

/* Sentences that fill lines; those after the first are indented as far. */
static void print_words(FILE *out, const char *before, const char *text)
{
	unsigned at = (unsigned)strlen(before);

	fputs(before, out);
	describe_wrap(out, text, at, at, COLUMNS);
}

/* "What follows is of all of them together": nobody should take a sum for one process. */
static void print_sum(struct query_client *c, const json_t *e, FILE *out)
{
	const json_t *first = json_array_get(json_object_get(e, "processes"), 0);

	if (json_whole(e, "process_count") > 1)
		fprintf(out,
			"\nThese are %" PRIu64
			" processes, and all that is said here is of all of them together. Of the "
			"first\nalone: smolder explain %s%s\n",
			json_whole(e, "process_count"),
			*json_text(first, "pid") ? json_text(first, "pid") : "PID",
			query_client_hint(c));
}

static bool several_hosts(const json_t *list)
{
	size_t i;
	json_t *p;

	json_array_foreach(list, i, p)
	{
		if (strcmp(json_text(p, "host"), json_text(json_array_get(list, 0), "host")) != 0)
			return true;
	}
	return false;
}

static void print_who(const json_t *e, FILE *out)
{
	static const char *const more[] = {"exe", "container", "unit", "host"};
	const json_t *list = json_object_get(e, "processes");
	size_t shown = ARRAY_SIZE(more) - !several_hosts(list), i;
	uint64_t count = json_whole(e, "process_count");
	char cpu[FINDING_NUMBER];
	json_t *p;

	title(out, "Processes");
	json_array_foreach(list, i, p)
	{
		const char *pid = json_text(p, "pid");
		fprintf(out, INDENT "%s %s, %s", json_text(p, "comm"),
			*pid ? pid : "(short-lived ones)",
			finding_cpu(json_real_of(p, "cpus"), cpu));
		for (size_t k = 0; k < shown; k++)
			if (*json_text(p, more[k]))
				fprintf(out, ", %s %s", more[k], json_text(p, more[k]));
		fputs("\n", out);
		count -= *pid && count;
	}
	if (count)
		fprintf(out, INDENT "and %" PRIu64 " more that took less\n", count);
}

/* Whose path it is, where there are several processes. */
static void print_owner(const json_t *path, FILE *out)
{
	uint64_t count = json_whole(path, "process_count");

	if (count == 1)
		fprintf(out, INDENT "%9sin %s\n", "", json_text(path, "process"));
	else if (count)
		fprintf(out, INDENT "%9sin %" PRIu64 " processes, %.0f %% of it in %s\n", "", count,
			100 * json_real_of(path, "process_share"), json_text(path, "process"));
}

static void print_paths(const json_t *list, FILE *out)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		const char *part = json_text(one, "part");
		fprintf(out, INDENT "%5.1f %%  %s%s", 100 * json_real_of(one, "share"), part,
			*part ? " " : "");
		changes_print_path(json_object_get(one, "path"), PATH_FRAMES, out);
		print_owner(one, out);
	}
}

static void print_wall(const json_t *e, FILE *out)
{
	const json_t *wall = json_object_get(e, "wall");
	size_t i;
	json_t *one;

	title(out, "Its wall clock, all threads together");
	if (!json_is_object(wall)) {
		fputs(INDENT "Not known: what threads wait for is not recorded ('smolder run "
			     "--offcpu yes' records it).\n",
		      out);
		return;
	}
	json_array_foreach(json_object_get(wall, "parts"), i, one)
	{
		if (json_real_of(one, "share") >= LEAST)
			fprintf(out, INDENT "%5.1f %%  %8.1f s  %s\n",
				100 * json_real_of(one, "share"), json_real_of(one, "seconds"),
				json_text(one, "part"));
	}
	if (json_array_size(json_object_get(wall, "waits"))) {
		title(out, "Where it waits most, by share of all its time");
		print_paths(json_object_get(wall, "waits"), out);
	}
}

static void print_call(const json_t *call, FILE *out)
{
	char rate[FINDING_NUMBER];
	double failed = json_real_of(call, "failed_share"), mean = json_real_of(call, "mean_us");

	fprintf(out, INDENT "%10s a second  %s",
		finding_number(json_real_of(call, "per_second"), rate), json_text(call, "call"));
	if (mean >= 1000)
		fprintf(out, ", %.1f ms each", mean / 1000);
	else if (mean > 0)
		fprintf(out, ", %.1f us each", mean);
	if (failed > 0)
		fprintf(out, "; %.0f %% fail%s%s", 100 * failed,
			*json_text(call, "error") ? ", mostly with " : "",
			json_text(call, "error"));
	fputs("\n", out);
}

static void print_calls(const json_t *e, FILE *out)
{
	const json_t *calls = json_object_get(e, "system_calls");
	char rate[FINDING_NUMBER];
	size_t i;
	json_t *one;

	if (!json_is_object(calls))
		return;
	title(out, "System calls, counted just now for a second");
	if (json_whole(calls, "processes") < json_whole(e, "process_count"))
		fprintf(out,
			INDENT "Of %" PRIu64 " of these %" PRIu64
			       " processes: the others have ended, or are too many.\n",
			json_whole(calls, "processes"), json_whole(e, "process_count"));
	if (!json_array_size(json_object_get(calls, "calls"))) {
		fputs(INDENT "None in that second.\n", out);
		return;
	}
	double failed = json_real_of(calls, "failed_share");
	char fail[32] = "none of them fails";
	if (failed > 0)
		snprintf(fail, sizeof(fail), "%.*f %% of them fail", failed < 0.01, 100 * failed);
	fprintf(out, INDENT "%s a second in all; %s%s\n",
		finding_number(json_real_of(calls, "per_second"), rate), fail,
		json_is_true(json_object_get(calls, "timed"))
			? ""
			: "; so many that timing them would have cost too much");
	json_array_foreach(json_object_get(calls, "calls"), i, one)
	{
		print_call(one, out);
	}
}

static void print_functions(const json_t *e, FILE *out)
{
	size_t i;
	json_t *f;

	title(out, "Functions that take its CPU time: by themselves, and with what they call");
	json_array_foreach(json_object_get(e, "functions"), i, f)
	{
		const char *module = json_text(f, "module");
		fprintf(out, INDENT "%5.1f %%  %5.1f %%  %s%s%s%s\n", 100 * json_real_of(f, "self"),
			100 * json_real_of(f, "total"), json_text(f, "function"),
			*module ? " (" : "", module, *module ? ")" : "");
	}
	title(out, "Paths that take most of it, each the callers of its last function");
	print_paths(json_object_get(e, "paths"), out);
}

static void print_when(const json_t *found, uint64_t end_ms, FILE *out)
{
	uint64_t until_ms = json_whole(found, "until");
	double sure = json_real_of(found, "sure");
	char from[32], to[32];

	report_time(json_whole(found, "began"), from);
	report_time(until_ms, to);
	if (until_ms + FINDING_OVER_MS > end_ms)
		fprintf(out, INDENT INDENT "Since %s; ", from);
	else
		fprintf(out, INDENT INDENT "From %s to %s; ", from, to);
	fprintf(out, "%s.\n", render_findings_sureness(sure));
}

static void print_findings(const json_t *e, FILE *out)
{
	const json_t *list = json_object_get(e, "findings");
	size_t i;
	json_t *one;

	title(out, "What looks wrong");
	if (json_is_null(list))
		fputs(INDENT "Not known.\n", out);
	else if (!json_array_size(list))
		fputs(INDENT "Nothing was found.\n", out);
	json_array_foreach(list, i, one)
	{
		print_words(out, INDENT, json_text(one, "text"));
		print_when(one, json_whole(e, "to"), out);
		print_words(out, INDENT INDENT, json_text(one, "means"));
		fprintf(out, INDENT INDENT "See: %s\n", json_text(one, "next"));
	}
}

static void print_changes(struct query_client *c, const json_t *e, FILE *out)
{
	const json_t *answer = json_object_get(e, "changes");

	title(out, "What changed");
	if (json_array_size(json_object_get(answer, "comparisons")))
		changes_print(c, json_array_get(json_object_get(answer, "comparisons"), 0), INDENT,
			      CHANGED, out);
	else
		fputs(INDENT "Not known.\n", out);
	changes_print_versions(c, answer, INDENT, out);
}

/* "nginx 1234", or what was asked for if that is several. */
static void print_name(const json_t *e, FILE *out)
{
	const json_t *first = json_array_get(json_object_get(e, "processes"), 0);

	if (json_whole(e, "process_count") == 1 && *json_text(first, "pid"))
		fprintf(out, "%s %s", json_text(first, "comm"), json_text(first, "pid"));
	else
		fputs(json_text(e, "query"), out);
}

void explanation_print(struct query_client *c, const json_t *e, FILE *out)
{
	char from[32], to[32];
	size_t i;
	json_t *one;

	report_time(json_whole(e, "from"), from);
	report_time(json_whole(e, "to"), to);
	print_name(e, out);
	fprintf(out, ", %s to %s\n\n", from, to);
	fprintf(out,
		"It took %.2f CPUs (%.1f s of CPU time), which is %.1f %% of what the machine's "
		"processes took\n(%.2f CPUs). %.0f %% of it was in the kernel. This is known from "
		"%" PRIu64 " samples.\n",
		json_real_of(e, "cpus"), json_real_of(e, "cpu_seconds"),
		100 * json_real_of(e, "share_of_machine"), json_real_of(e, "machine_cpus"),
		100 * json_real_of(e, "kernel_share"), json_whole(e, "samples"));
	if (*json_text(e, "summary")) {
		fputs("\n", out);
		print_words(out, "", json_text(e, "summary"));
	}
	print_sum(c, e, out);
	print_who(e, out);
	print_findings(e, out);
	print_wall(e, out);
	print_functions(e, out);
	print_calls(e, out);
	print_changes(c, e, out);
	title(out, "What is not known");
	json_array_foreach(json_object_get(e, "unknown"), i, one)
	{
		print_words(out, INDENT "- ", json_string_value(one));
	}
}

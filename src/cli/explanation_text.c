/* The page of an explanation. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/changes_ask.h"
#include "cli/explanation.h"
#include "base/json_fields.h"
#include "cli/report.h"

#define INDENT      "  "
#define PATH_FRAMES 10
#define CHANGED     5

static void title(FILE *out, const char *text)
{
	fprintf(out, "\n%s\n", text);
}

static void print_who(const json_t *e, FILE *out)
{
	static const char *const more[] = {"exe", "container", "unit", "host"};
	const json_t *list = json_object_get(e, "processes");
	size_t i;
	json_t *p;

	title(out, "Processes");
	json_array_foreach(list, i, p)
	{
		const char *pid = json_text(p, "pid");
		fprintf(out, INDENT "%s%s%s, %.2f CPUs", json_text(p, "comm"), *pid ? " " : "", pid,
			json_real_of(p, "cpus"));
		for (size_t k = 0; k < ARRAY_SIZE(more); k++)
			if (*json_text(p, more[k]))
				fprintf(out, ", %s %s", more[k], json_text(p, more[k]));
		fputs("\n", out);
	}
}

static void print_paths(const json_t *list, FILE *out)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		fprintf(out, INDENT "%5.1f %%  ", 100 * json_real_of(one, "share"));
		changes_print_path(json_object_get(one, "path"), PATH_FRAMES, out);
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
		fprintf(out, INDENT "%5.1f %%  %8.1f s  %s\n", 100 * json_real_of(one, "share"),
			json_real_of(one, "seconds"), json_text(one, "part"));
	}
	if (json_array_size(json_object_get(wall, "waits"))) {
		title(out, "Where it waits most, by share of all its time");
		print_paths(json_object_get(wall, "waits"), out);
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

static void print_findings(const json_t *e, FILE *out)
{
	const json_t *list = json_object_get(e, "findings");
	size_t i;
	json_t *one;

	title(out, "Findings");
	if (json_is_null(list))
		fputs(INDENT "Not known.\n", out);
	else if (!json_array_size(list))
		fputs(INDENT "None.\n", out);
	json_array_foreach(list, i, one)
	{
		fprintf(out, INDENT "%s\n" INDENT "  %s\n" INDENT "  More: %s\n",
			json_text(one, "text"), json_text(one, "means"), json_text(one, "next"));
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

void explanation_print(struct query_client *c, const json_t *e, FILE *out)
{
	char from[32], to[32];
	size_t i;
	json_t *one;

	report_time(json_whole(e, "from"), from);
	report_time(json_whole(e, "to"), to);
	fprintf(out, "%s, %s to %s\n\n", json_text(e, "query"), from, to);
	fprintf(out,
		"It took %.2f CPUs (%.1f s of CPU time), which is %.1f %% of what the machine's "
		"processes took\n(%.2f CPUs). %.0f %% of it was in the kernel. This is known from "
		"%" PRIu64 " samples.\n",
		json_real_of(e, "cpus"), json_real_of(e, "cpu_seconds"),
		100 * json_real_of(e, "share_of_machine"), json_real_of(e, "machine_cpus"),
		100 * json_real_of(e, "kernel_share"), json_whole(e, "samples"));
	print_who(e, out);
	print_wall(e, out);
	print_functions(e, out);
	print_findings(e, out);
	print_changes(c, e, out);
	title(out, "What is not known");
	json_array_foreach(json_object_get(e, "unknown"), i, one)
	{
		fprintf(out, INDENT "- %s\n", json_string_value(one));
	}
}

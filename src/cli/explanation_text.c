/* The page of an explanation. */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "cli/changes_ask.h"
#include "cli/explanation.h"
#include "cli/report.h"

#define INDENT      "  "
#define PATH_FRAMES 10
#define CHANGED     5

static double number_of(const json_t *o, const char *key)
{
	return json_number_value(json_object_get(o, key));
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

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
		const char *pid = text_of(p, "pid");
		fprintf(out, INDENT "%s%s%s, %.2f CPUs", text_of(p, "comm"), *pid ? " " : "", pid,
			number_of(p, "cpus"));
		for (size_t k = 0; k < ARRAY_SIZE(more); k++)
			if (*text_of(p, more[k]))
				fprintf(out, ", %s %s", more[k], text_of(p, more[k]));
		fputs("\n", out);
	}
}

static void print_path(const json_t *path, FILE *out)
{
	size_t count = json_array_size(path), from = count > PATH_FRAMES ? count - PATH_FRAMES : 0;

	fputs(from ? "… > " : "", out);
	for (size_t i = from; i < count; i++)
		fprintf(out, "%s%s", i > from ? " > " : "",
			json_string_value(json_array_get(path, i)));
	fputs("\n", out);
}

static void print_paths(const json_t *list, FILE *out)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		fprintf(out, INDENT "%5.1f %%  ", 100 * number_of(one, "share"));
		print_path(json_object_get(one, "path"), out);
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
		fprintf(out, INDENT "%5.1f %%  %8.1f s  %s\n", 100 * number_of(one, "share"),
			number_of(one, "seconds"), text_of(one, "part"));
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
		const char *module = text_of(f, "module");
		fprintf(out, INDENT "%5.1f %%  %5.1f %%  %s%s%s%s\n", 100 * number_of(f, "self"),
			100 * number_of(f, "total"), text_of(f, "function"), *module ? " (" : "",
			module, *module ? ")" : "");
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
		fprintf(out, INDENT "%s\n", text_of(one, "text"));
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

	report_time((uint64_t)json_integer_value(json_object_get(e, "from")), from);
	report_time((uint64_t)json_integer_value(json_object_get(e, "to")), to);
	fprintf(out, "%s, %s to %s\n\n", text_of(e, "query"), from, to);
	fprintf(out,
		"It took %.2f CPUs (%.1f s of CPU time), which is %.1f %% of what the machine's "
		"processes took\n(%.2f CPUs). %.0f %% of it was in the kernel. This is known from "
		"%" PRIu64 " samples.\n",
		number_of(e, "cpus"), number_of(e, "cpu_seconds"),
		100 * number_of(e, "share_of_machine"), number_of(e, "machine_cpus"),
		100 * number_of(e, "kernel_share"),
		(uint64_t)json_integer_value(json_object_get(e, "samples")));
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

/* The first lines of an explanation: what a colleague would say before showing any numbers. */
#include "cli/explanation_summary.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_fields.h"
#include "base/mem.h"
#include "profile/profile.h"

#define MOSTLY 0.50 /* of its time, that is in one part of it */
#define SECOND 0.10 /* … that the next part has, to be worth a word */
#define HOT    0.15 /* of its CPU time, that one function takes by itself */

#define BLOCKED "[blocked: "

/* "[blocked: lock]" → "wait for a lock", and so on: what its threads do. */
static const char *part_words(const char *part, char ret[static 96])
{
	static const struct {
		const char *part, *words;
	} known[] = {
		{"[running: user]", "run code of their own"},
		{"[running: kernel]", "run in the kernel"},
		{"[running: not sampled]", "run"},
		{"[waiting for a CPU]", "wait for a CPU"},
		{FRAME_IDLE, "wait for work"},
		{"[blocked: lock]", "wait for a lock"},
		{"[blocked: disk]", "wait for a disk"},
		{"[blocked: network]", "wait for the network"},
		{"[blocked: timer]", "sleep"},
		{"[blocked: pipe]", "wait for a pipe"},
		{"[blocked: page_fault]", "wait for page faults"},
		{"[blocked: poll]", "wait for one of several things"},
		{"[blocked: child]", "wait for others to end"},
		{"[blocked: other]", "wait for something else"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(part, known[i].part) == 0)
			return known[i].words;
	if (strncmp(part, BLOCKED, strlen(BLOCKED)) == 0)
		snprintf(ret, 96, "are blocked (%.*s)", (int)strcspn(part + strlen(BLOCKED), "]"),
			 part + strlen(BLOCKED));
	else
		snprintf(ret, 96, "are in %s", part);
	return ret;
}

static void say_time(const json_t *e, FILE *out)
{
	const json_t *parts = json_object_get(json_object_get(e, "wall"), "parts");
	const json_t *first = json_array_get(parts, 0), *next = json_array_get(parts, 1);
	double most = json_real_of(first, "share");
	char words[96];

	if (!first)
		return;
	fprintf(out, "%s its threads %s (%.0f %% of their time)",
		most >= MOSTLY ? "Mostly" : "First", part_words(json_text(first, "part"), words),
		100 * most);
	if (json_real_of(next, "share") >= SECOND)
		fprintf(out, ", then they %s (%.0f %%)", part_words(json_text(next, "part"), words),
			100 * json_real_of(next, "share"));
	fputs(". ", out);
}

static void say_functions(const json_t *e, FILE *out)
{
	const json_t *first = json_array_get(json_object_get(e, "functions"), 0);
	double self = json_real_of(first, "self");

	if (!first)
		return;
	if (self >= HOT)
		fprintf(out, "Of its CPU time %.0f %% is in %s. ", 100 * self,
			json_text(first, "function"));
	else
		fprintf(out, "Its CPU time is spread: no function has more than %.0f %% of it. ",
			100 * self + 0.5);
}

static void say_findings(const json_t *e, FILE *out)
{
	const json_t *list = json_object_get(e, "findings");
	size_t count = json_array_size(list);

	if (!json_is_array(list))
		return;
	if (!count)
		fputs("Nothing about it was found to look wrong. ", out);
	else if (count == 1)
		fputs("One thing looks wrong with it. ", out);
	else
		fprintf(out, "%zu things look wrong with it. ", count);
}

static void say_changes(const json_t *e, FILE *out)
{
	const json_t *c =
		json_array_get(json_object_get(json_object_get(e, "changes"), "comparisons"), 0);
	size_t functions = json_array_size(json_object_get(c, "functions"));
	double now = json_real_of(c, "cpus"), base = json_real_of(c, "base_cpus");

	if (!json_is_true(json_object_get(c, "compared")))
		return;
	if (!functions && !json_array_size(json_object_get(c, "processes")))
		fputs("Against the hour before nothing changed beyond chance.", out);
	else if (functions)
		fprintf(out, "Against the hour before, %s%s.",
			json_text(json_array_get(json_object_get(c, "functions"), 0), "function"),
			functions > 1 ? " and other functions changed" : " changed");
	else
		fprintf(out, "It takes %s CPU time than in the hour before.",
			now > base ? "more" : "less");
}

char *explanation_summary(const json_t *e)
{
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	say_time(e, out);
	say_functions(e, out);
	say_findings(e, out);
	say_changes(e, out);
	fclose(out);
	while (len && text[len - 1] == ' ')
		text[--len] = '\0';
	return text;
}

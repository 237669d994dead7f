#include "cli/explanation.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "cli/changes_ask.h"
#include "cli/query_options.h"
#include "profile/profile.h"
#include "query/comparison.h"
#include "query/computed.h"
#include "query/quality.h"
#include "query/top.h"
#include "query/tree.h"

#define HOUR_MS    3600000ull
#define PROCESSES  8
#define FUNCTIONS  12
#define PATHS      5
#define WAITS      5
#define PATH_LEAST 0.002 /* of all the time: what takes less is not worth a line */

static const char *const labels[] = {"comm", "pid", "exe", "container", "unit", "host"};

/* ---- pieces of JSON ------------------------------------------------------------------------ */

static void put(json_t *o, const char *key, json_t *value)
{
	json_object_set_new(o, key, value);
}

static void put_text(json_t *o, const char *key, const char *text)
{
	if (text && *text)
		put(o, key, json_string(text));
}

static double total_of(const struct profile *p)
{
	double all = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		all += (double)p->samples[i].value;
	return all;
}

/* The selector of another type that selects the same: cpu{pid="1"} of wall is wall{pid="1"}. */
static char *of_type(const char *selector, const char *type)
{
	const char *braces = selector ? strchr(selector, '{') : NULL;

	if (!selector || strcmp(selector, "cpu") == 0)
		return mem_strdup(type);
	return braces ? mem_printf("%s%s", type, braces)
		      : mem_printf("%s{comm=\"%.15s\"}", type, selector);
}

static int fetch(struct query_client *c, const char *selector, struct timerange range,
		 bool by_process, struct profile *into, struct store_answer *ret)
{
	struct query_request ask = {.selector = selector, .range = range};

	if (by_process) {
		ask.keep = labels;
		ask.keep_count = ARRAY_SIZE(labels);
	}
	return query_client_profile(c, &ask, into, ret);
}

/* ---- who it is ----------------------------------------------------------------------------- */

struct owner {
	uint32_t series;
	double value;
};

static int by_value(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;

	return x->value != y->value ? (x->value < y->value ? 1 : -1)
				    : (x->series > y->series) - (x->series < y->series);
}

static json_t *list_processes(const struct profile *p, double seconds)
{
	CLEANUP(freep)
	struct owner *owners = mem_alloc_array((size_t)p->series_count + 1, sizeof(*owners));
	json_t *list = json_array();

	for (uint32_t i = 0; i < p->series_count; i++)
		owners[i].series = i;
	for (uint32_t i = 0; i < p->sample_count; i++)
		owners[p->samples[i].series].value += (double)p->samples[i].value;
	qsort(owners, p->series_count, sizeof(*owners), by_value);
	for (uint32_t i = 0; i < p->series_count && i < PROCESSES && owners[i].value > 0; i++) {
		json_t *one = json_object();
		for (size_t k = 0; k < ARRAY_SIZE(labels); k++)
			put_text(one, labels[k], profile_label(p, owners[i].series, labels[k]));
		put(one, "cpus", json_real(owners[i].value / 1e9 / seconds));
		json_array_append_new(list, one);
	}
	return list;
}

/* ---- what it ran --------------------------------------------------------------------------- */

static json_t *path_of(const struct tree *t, uint32_t node)
{
	json_t *path = json_array();

	for (; node; node = t->nodes[node].parent)
		json_array_insert_new(path, 0,
				      json_string(t->functions[t->nodes[node].function].name));
	return path;
}

/* The paths whose last functions took most, themselves; only of nodes that `of` has, if not NULL.
 */
static json_t *list_paths(const struct tree *t, const bool *of, size_t max)
{
	double all = (double)t->nodes[0].total;
	json_t *list = json_array();
	uint64_t below = UINT64_MAX;
	uint32_t after = 0;

	while (json_array_size(list) < max && all > 0) {
		uint32_t best = 0;
		for (uint32_t i = 1; i < t->count; i++) {
			uint64_t self = t->nodes[i].self;
			bool is_left = self < below || (self == below && i > after);
			if ((double)self > PATH_LEAST * all && is_left && (!of || of[i]) &&
			    (!best || self > t->nodes[best].self))
				best = i;
		}
		if (!best)
			break;
		below = t->nodes[best].self;
		after = best;
		json_t *one = json_object();
		put(one, "share", json_real((double)below / all));
		put(one, "path", path_of(t, best));
		json_array_append_new(list, one);
	}
	return list;
}

static json_t *list_functions(const struct tree *t)
{
	double all = (double)t->nodes[0].total;
	json_t *list = json_array();
	uint32_t count;
	CLEANUP(freep) struct top_row *rows = top_new(t, &count);

	for (uint32_t i = 0; i < count && i < FUNCTIONS && all > 0; i++) {
		const struct tree_function *f = &t->functions[rows[i].function];
		json_t *one = json_object();
		put_text(one, "function", f->name);
		put_text(one, "module", f->module);
		put(one, "self", json_real((double)rows[i].self / all));
		put(one, "total", json_real((double)rows[i].total / all));
		json_array_append_new(list, one);
	}
	return list;
}

static double kernel_share(const struct profile *p)
{
	double kernel = 0, all = total_of(p);

	for (uint32_t i = 0; i < p->sample_count; i++) {
		uint32_t stack = p->samples[i].stack;
		if (stack && frame_is_kernel(p->frames[p->stacks[stack].frame].kind))
			kernel += (double)p->samples[i].value;
	}
	return all > 0 ? kernel / all : 0;
}

/* ---- what it waited for -------------------------------------------------------------------- */

static bool is_running(const char *part)
{
	return strncmp(part, "[running", 8) == 0;
}

/* Its wall clock by parts, and where it waited most; null if waiting is not recorded. */
static json_t *wall_of(struct query_client *c, const char *selector, struct timerange range)
{
	CLEANUP(freep) char *text = of_type(selector, COMPUTED_WALL);
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct tree_options o = {.column = TREE_VALUE, .idle = true};
	struct store_answer answer;
	bool waits = false;

	if (fetch(c, text, range, false, p, &answer) != 0 || !answer.samples)
		return json_null();
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &o);
	CLEANUP(freep) bool *is_wait = mem_alloc_array((size_t)t->count + 1, sizeof(*is_wait));
	json_t *wall = json_object(), *parts = json_array();
	double all = (double)t->nodes[0].total;
	for (uint32_t i = 1; i < t->count; i = t->nodes[i].next) {
		const char *part = t->functions[t->nodes[i].function].name;
		json_t *one = json_object();
		put_text(one, "part", part);
		put(one, "seconds", json_real((double)t->nodes[i].total / 1e9));
		put(one, "share", json_real(all > 0 ? (double)t->nodes[i].total / all : 0));
		json_array_append_new(parts, one);
		waits |= !is_running(part);
		if (!is_running(part) && strcmp(part, FRAME_IDLE) != 0)
			for (uint32_t k = i; k < t->nodes[i].next; k++)
				is_wait[k] = true;
	}
	put(wall, "parts", parts);
	put(wall, "waits", list_paths(t, is_wait, WAITS));
	if (!waits) {
		json_decref(wall);
		return json_null();
	}
	return wall;
}

/* ---- what others found --------------------------------------------------------------------- */

/* Whether a finding is about one of the processes of the profile. */
static bool is_about(const struct finding *f, const struct profile *p)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", f->pid);
	for (uint32_t i = 0; i < p->series_count; i++) {
		const char *comm = profile_label(p, i, "comm"), *of = profile_label(p, i, "pid");
		if (comm && strcmp(comm, f->comm) == 0 && (!of || strcmp(of, pid) == 0))
			return true;
	}
	return false;
}

/* What was found of it, as [{"kind", "text", "next"}]; null: not known. */
static json_t *findings_of(struct query_client *c, const struct profile *p, struct timerange range)
{
	struct store_findings found = {};

	if (query_client_findings(c, &range, &found) != 0)
		return json_null();
	json_t *list = json_array();
	for (uint32_t i = 0; i < found.count; i++) {
		const struct finding *f = &found.findings[i];
		if (!is_about(f, p))
			continue;
		json_t *one = json_object();
		put_text(one, "kind", f->kind);
		put_text(one, "text", f->headline);
		put_text(one, "means", f->means);
		put_text(one, "next", f->next);
		json_array_append_new(list, one);
	}
	store_findings_done(&found);
	return list;
}

/* What changed against the hour before; null: could not be told. */
static json_t *changes_of(struct query_client *c, const char *selector, struct timerange range)
{
	uint64_t from = range.from_ms / WINDOW_MS * WINDOW_MS;
	struct comparison_ask ask = {
		.selector = selector,
		.now = range,
		.base = {from - MIN(from, HOUR_MS), from},
		.clock_ms = clock_ms(CLOCK_REALTIME),
	};
	json_t *answer = NULL;

	return changes_ask(c, &ask, &answer) == 0 ? answer : json_null();
}

/* ---- what is not known --------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void say(json_t *list, const char *fmt, ...)
{
	va_list args;
	char *text = NULL;

	va_start(args, fmt);
	if (vasprintf(&text, fmt, args) >= 0)
		json_array_append_new(list, json_string(text));
	va_end(args);
	free(text);
}

static double percent(uint64_t part, uint64_t whole)
{
	return whole ? 100.0 * (double)part / (double)whole : 0;
}

static json_t *list_unknown(const struct profile *p, const struct store_answer *a, bool has_wall,
			    bool has_findings)
{
	json_t *list = json_array();
	struct quality q;
	char hint[QUALITY_HINT];

	quality_of(p, &q);
	if (q.unnamed)
		say(list, "%.1f %% of frames have no name: only a file and an address are known",
		    percent(q.unnamed, q.frames));
	if (*quality_hint(&q, (struct quality_help){.debuginfod = !a->debuginfod}, hint))
		say(list, "%s", hint);
	if (q.incomplete + q.truncated)
		say(list, "%.1f %% of user stacks do not reach the program's start",
		    percent(q.incomplete + q.truncated, q.stacks));
	if (a->lost)
		say(list, "%" PRIu64 " samples were taken but lost, of the whole machine", a->lost);
	if (a->damaged)
		say(list, "%" PRIu64 " files of the store could not be read", a->damaged);
	if (a->samples < 1000)
		say(list,
		    "only %" PRIu64 " samples were taken of it, so a share of 1 %% may as well be "
		    "0 or 2 %%",
		    a->samples);
	if (!has_wall)
		say(list,
		    "what it waited for is not recorded: 'smolder run --offcpu yes' records it, "
		    "and 'smolder offcpu -p PID' shows it now");
	if (!has_findings)
		say(list, "findings are not known");
	say(list, "system calls are not recorded: 'smolder syscalls -p PID' counts them, 'smolder "
		  "trace -p PID' shows each");
	say(list, "memory, files and network traffic are not recorded, nor how much work it did");
	return list;
}

/* ---- all of it ----------------------------------------------------------------------------- */

static int gather_cpu(struct query_client *c, const char *selector, struct timerange range,
		      struct profile *p, struct store_answer *a, json_t *e)
{
	CLEANUP(profile_freep) struct profile *machine = profile_new();
	struct tree_options o = {.column = TREE_VALUE};
	struct store_answer of_all;
	int code = fetch(c, selector, range, true, p, a);

	if (!code && !a->samples) {
		struct query_request ask = {.selector = selector, .range = range};
		return query_options_explain_empty(c, &ask, a);
	}
	code = code ? code : fetch(c, NULL, range, false, machine, &of_all);
	if (code)
		return code;
	/* What was recorded of the time asked for; a program may have run for less of it. */
	double seconds = (double)(of_all.to_ms - of_all.from_ms) / 1000, own = total_of(p);
	double all = total_of(machine);
	seconds = seconds > 0 ? seconds : 1;
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &o);
	put_text(e, "query", selector ? selector : "cpu");
	put(e, "from", json_integer((json_int_t)of_all.from_ms));
	put(e, "to", json_integer((json_int_t)of_all.to_ms));
	put(e, "samples", json_integer((json_int_t)a->samples));
	put(e, "cpu_seconds", json_real(own / 1e9));
	put(e, "cpus", json_real(own / 1e9 / seconds));
	put(e, "machine_cpus", json_real(all / 1e9 / seconds));
	put(e, "share_of_machine", json_real(all > 0 ? own / all : 0));
	put(e, "kernel_share", json_real(kernel_share(p)));
	put(e, "processes", list_processes(p, seconds));
	put(e, "functions", list_functions(t));
	put(e, "paths", list_paths(t, NULL, PATHS));
	return 0;
}

int explanation_gather(struct query_client *c, const char *selector, struct timerange range,
		       json_t **ret)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	json_t *e = json_object();
	struct store_answer answer;

	int code = gather_cpu(c, selector, range, p, &answer, e);
	if (code) {
		json_decref(e);
		return code;
	}
	put(e, "wall", wall_of(c, selector, range));
	put(e, "findings", findings_of(c, p, range));
	put(e, "changes", changes_of(c, selector, range));
	put(e, "unknown",
	    list_unknown(p, &answer, json_is_object(json_object_get(e, "wall")),
			 !json_is_null(json_object_get(e, "findings"))));
	*ret = e;
	return 0;
}

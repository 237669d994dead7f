#include "cli/explanation.h"

#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "cli/changes_ask.h"
#include "cli/explanation_calls.h"
#include "cli/explanation_paths.h"
#include "cli/explanation_summary.h"
#include "cli/query_options.h"
#include "profile/profile.h"
#include "query/comparison.h"
#include "query/computed.h"
#include "query/quality.h"
#include "query/top.h"
#include "query/tree.h"

#define HOUR_MS   3600000ull
#define PROCESSES 8
#define FUNCTIONS 12
#define PATHS     5
#define WAITS     5

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

struct ranked {
	uint32_t id; /* a series, or a node */
	double value;
};

static int by_value(const void *a, const void *b)
{
	const struct ranked *x = a, *y = b;

	return x->value != y->value ? (x->value < y->value ? 1 : -1)
				    : (x->id > y->id) - (x->id < y->id);
}

static json_t *list_processes(const struct profile *p, double seconds)
{
	CLEANUP(freep)
	struct ranked *owners = mem_alloc_array((size_t)p->series_count + 1, sizeof(*owners));
	json_t *list = json_array();

	for (uint32_t i = 0; i < p->series_count; i++)
		owners[i].id = i;
	for (uint32_t i = 0; i < p->sample_count; i++)
		owners[p->samples[i].series].value += (double)p->samples[i].value;
	qsort(owners, p->series_count, sizeof(*owners), by_value);
	for (uint32_t i = 0; i < p->series_count && i < PROCESSES && owners[i].value > 0; i++) {
		json_t *one = json_object();
		for (size_t k = 0; k < ARRAY_SIZE(labels); k++)
			put_text(one, labels[k], profile_label(p, owners[i].id, labels[k]));
		put(one, "cpus", json_real(owners[i].value / 1e9 / seconds));
		json_array_append_new(list, one);
	}
	return list;
}

static bool is_same_process(const struct profile *p, uint32_t a, uint32_t b)
{
	static const char *const keys[] = {"pid", "host"};

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		const char *x = profile_label(p, a, keys[i]), *y = profile_label(p, b, keys[i]);
		if (strcmp(x ? x : "", y ? y : "") != 0)
			return false;
	}
	return true;
}

/* Short-lived ones have no number, and are not counted. One that has become another program is in
 * several series. */
static json_int_t count_processes(const struct profile *p)
{
	struct index seen = {};
	json_int_t count = 0;

	for (uint32_t i = 0; i < p->series_count; i++) {
		const char *pid = profile_label(p, i, "pid"), *host = profile_label(p, i, "host");
		CLEANUP(freep) char *key = mem_printf("%s %s", pid ? pid : "", host ? host : "");
		uint32_t hash = index_hash_bytes(key, strlen(key)), id;
		bool is_new = pid != NULL;
		INDEX_EACH(&seen, hash, id)
			is_new = is_new && !is_same_process(p, i, id - 1);
		if (is_new)
			index_put(&seen, hash, i + 1);
		count += is_new;
	}
	index_done(&seen);
	return count;
}

/* ---- what it ran --------------------------------------------------------------------------- */

/* NULL: there are no two processes to tell apart. */
static struct tree *by_process_of(const struct profile *p, const struct tree_options *o)
{
	struct tree_options own = *o;

	own.by_process = true;
	struct tree *t = tree_new(p, &own);
	if (t->count > 1 && t->nodes[1].next < t->count)
		return t;
	tree_free(t);
	return NULL;
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

/* The most first. */
static json_t *list_parts(const struct tree *t)
{
	struct ranked *parts CLEANUP(freep) = mem_alloc_array((size_t)t->count + 1, sizeof(*parts));
	double all = (double)t->nodes[0].total;
	json_t *list = json_array();
	size_t count = 0;

	for (uint32_t i = 1; i < t->count; i = t->nodes[i].next)
		parts[count++] = (struct ranked){i, (double)t->nodes[i].total};
	qsort(parts, count, sizeof(*parts), by_value);
	for (size_t i = 0; i < count; i++) {
		json_t *one = json_object();
		put_text(one, "part", t->functions[t->nodes[parts[i].id].function].name);
		put(one, "seconds", json_real(parts[i].value / 1e9));
		put(one, "share", json_real(all > 0 ? parts[i].value / all : 0));
		json_array_append_new(list, one);
	}
	return list;
}

/* Marks where it waited, but not idle time, which is no answer to why something takes long. Whether
 * it waited at all. */
static bool mark_waits(const struct tree *t, bool *ret)
{
	bool any = false;

	for (uint32_t i = 1; i < t->count; i = t->nodes[i].next) {
		const char *part = t->functions[t->nodes[i].function].name;
		any |= !is_running(part);
		if (!is_running(part) && strcmp(part, FRAME_IDLE) != 0)
			for (uint32_t k = i; k < t->nodes[i].next; k++)
				ret[k] = true;
	}
	return any;
}

/* Its wall clock by parts, and where it waited most; null if waiting is not recorded. */
static json_t *wall_of(struct query_client *c, const char *selector, struct timerange range)
{
	CLEANUP(freep) char *text = of_type(selector, COMPUTED_WALL);
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct tree_options o = {.column = TREE_VALUE, .idle = true};
	struct store_answer answer;

	if (fetch(c, text, range, true, p, &answer) != 0 || !answer.samples)
		return json_null();
	CLEANUP(tree_freep) struct tree *t = tree_new(p, &o);
	CLEANUP(tree_freep) struct tree *by_process = by_process_of(p, &o);
	CLEANUP(freep) bool *is_wait = mem_alloc_array((size_t)t->count + 1, sizeof(*is_wait));
	if (!mark_waits(t, is_wait))
		return json_null();
	const struct explanation_paths_options waits = {.tree = t,
							.by_process = by_process,
							.of = is_wait,
							.has_parts = true,
							.ends_in_own = true,
							.max = WAITS};
	json_t *wall = json_object();
	put(wall, "parts", list_parts(t));
	put(wall, "waits", explanation_paths(&waits));
	return wall;
}

/* ---- what others found --------------------------------------------------------------------- */

/* Whether a finding is about one of the processes of the profile, or about all by its name. */
static bool is_about(const struct finding *f, const struct profile *p)
{
	char pid[16];

	snprintf(pid, sizeof(pid), "%u", f->pid);
	for (uint32_t i = 0; i < p->series_count; i++) {
		const char *comm = profile_label(p, i, "comm"), *of = profile_label(p, i, "pid");
		if (comm && strcmp(comm, f->comm) == 0 && (!of || !f->pid || strcmp(of, pid) == 0))
			return true;
	}
	return false;
}

/* What was found of it, as [{"kind", "text", "means", "next", …}]; null: not known. */
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
		put_text(one, "stack", f->stack);
		put(one, "sure", json_real(f->sure));
		put(one, "began", json_integer((json_int_t)f->began_ms));
		put(one, "until", json_integer((json_int_t)f->until_ms));
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

static json_t *list_unknown(const struct profile *p, const struct store_answer *a, const json_t *e,
			    const char *no_calls)
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
	if (json_is_null(json_object_get(e, "wall")))
		say(list,
		    "what it waited for is not recorded: 'smolder run --offcpu yes' records it, "
		    "and 'smolder offcpu -p PID' shows it now");
	if (json_is_null(json_object_get(e, "findings")))
		say(list, "findings are not known");
	if (no_calls)
		say(list, "its system calls: %s", no_calls);
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
	CLEANUP(tree_freep) struct tree *by_process = by_process_of(p, &o);
	const struct explanation_paths_options paths = {
		.tree = t, .by_process = by_process, .max = PATHS};
	put_text(e, "query", selector ? selector : "cpu");
	put(e, "from", json_integer((json_int_t)of_all.from_ms));
	put(e, "to", json_integer((json_int_t)of_all.to_ms));
	put(e, "samples", json_integer((json_int_t)a->samples));
	put(e, "cpu_seconds", json_real(own / 1e9));
	put(e, "cpus", json_real(own / 1e9 / seconds));
	put(e, "machine_cpus", json_real(all / 1e9 / seconds));
	put(e, "share_of_machine", json_real(all > 0 ? own / all : 0));
	put(e, "kernel_share", json_real(kernel_share(p)));
	put(e, "process_count", json_integer(count_processes(p)));
	put(e, "processes", list_processes(p, seconds));
	put(e, "functions", list_functions(t));
	put(e, "paths", explanation_paths(&paths));
	return 0;
}

int explanation_gather(struct query_client *c, const struct explanation_ask *ask, json_t **ret)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	json_t *e = json_object();
	struct store_answer answer;
	char why[256];

	int code = gather_cpu(c, ask->selector, ask->range, p, &answer, e);
	if (code) {
		json_decref(e);
		return code;
	}
	put(e, "findings", findings_of(c, p, ask->range));
	put(e, "wall", wall_of(c, ask->selector, ask->range));
	const char *no_calls = ask->no_calls;
	json_t *calls = no_calls ? NULL : explanation_calls(p, why);
	if (!no_calls && !calls)
		no_calls = why;
	put(e, "system_calls", calls ? calls : json_null());
	put(e, "changes", changes_of(c, ask->selector, ask->range));
	put(e, "unknown", list_unknown(p, &answer, e, no_calls));
	CLEANUP(freep) char *summary = explanation_summary(e);
	put_text(e, "summary", summary);
	*ret = e;
	return 0;
}

#include "cli/syscall_table.h"

#include <string.h>
#include <time.h>

#include <jansson.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "collect/syscall_counter.h"
#include "render/describe.h"
#include "syscall/errors.h"

#define DURATION_MAX 24
#define LABEL_MAX    (TEXT_MAX + 64)
#define LABEL_ROOM   46 /* columns of numbers give way to a label until it has so many */
#define BAR          40

enum column { CALLS, ERRORS, UNFINISHED, TOTAL, AVERAGE, MINIMUM, P50, P99, MAXIMUM, COLUMNS };

static const struct {
	const char *title;
	int width;
} columns[COLUMNS] = {
	[CALLS] = {"CALLS", 10}, [ERRORS] = {"ERRORS", 9}, [UNFINISHED] = {"UNFINISHED", 11},
	[TOTAL] = {"TOTAL", 10}, [AVERAGE] = {"AVG", 10},  [MINIMUM] = {"MIN", 10},
	[P50] = {"P50", 10},     [P99] = {"P99", 10},      [MAXIMUM] = {"MAX", 10},
};

/* "310 ns", "10.2 us", "1.23 s": three digits. */
static const char *duration(uint64_t ns, char ret[static DURATION_MAX])
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	double value = (double)ns;
	size_t unit = 0;

	if (ns < 1000) {
		snprintf(ret, DURATION_MAX, "%u ns", (unsigned)ns);
		return ret;
	}
	while (value >= 999.5 && unit + 1 < ARRAY_SIZE(units)) {
		value /= 1000;
		unit++;
	}
	snprintf(ret, DURATION_MAX, "%.*f %s",
		 value < 9.995   ? 2
		 : value < 99.95 ? 1
				 : 0,
		 value, units[unit]);
	return ret;
}

/* The name of a process or thread that made no call that returned, so that none came with one. */
static const char *comm_of(const struct syscall_row *r, char ret[static TEXT_MAX + 1])
{
	CLEANUP(freep) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%llu/comm", (unsigned long long)r->id);
	if (r->comm[0])
		text_clean(r->comm, strnlen(r->comm, sizeof(r->comm)), ret);
	else if (r->id && file_read(path, 4096, &text, NULL) == 0)
		text_clean(text, strcspn(text, "\n"), ret);
	else
		snprintf(ret, TEXT_MAX, "?");
	return ret;
}

static const char *cgroup_of(const struct syscall_view *v, uint64_t id,
			     char ret[static TEXT_MAX + 1])
{
	const char *path = v->cgroups ? cgroups_path(v->cgroups, id) : "";

	if (path[0])
		text_clean(path, strlen(path), ret);
	else
		snprintf(ret, TEXT_MAX, "cgroup %llu", (unsigned long long)id);
	return ret;
}

/* What can be long stands last: there it may be cut. */
static void print_titles(const struct syscall_view *v, FILE *out)
{
	static const char *const owners[] = {
		[SYSCALL_BY_NOBODY] = "",
		[SYSCALL_BY_PROCESS] = "    PID PROCESS",
		[SYSCALL_BY_THREAD] = "    TID THREAD",
		[SYSCALL_BY_CGROUP] = "CONTROL GROUP",
	};

	if (!v->by_call)
		fprintf(out, "  %s\n", owners[v->by]);
	else if (v->by == SYSCALL_BY_NOBODY)
		fputs("  CALL\n", out);
	else if (v->by == SYSCALL_BY_CGROUP)
		fprintf(out, "  %-22s %s\n", "CALL", owners[v->by]);
	else
		fprintf(out, "  %-23s CALL\n", owners[v->by]);
}

/* "openat", "openat (32-bit)" */
static void label_call(const struct syscall_view *v, uint32_t call, char *ret, size_t size)
{
	bool compat;
	const char *name = syscall_calls_name(v->calls, call, &compat);

	snprintf(ret, size, "%s%s", name, compat ? " (32-bit)" : "");
}

/* What stands behind the numbers: whose row it is, and of which call. */
static const char *label(const struct syscall_view *v, const struct syscall_row *r,
			 char ret[static LABEL_MAX])
{
	char name[TEXT_MAX + 1], call[64] = "";

	if (v->by_call)
		label_call(v, r->call, call, sizeof(call));
	if (v->by == SYSCALL_BY_NOBODY)
		snprintf(ret, LABEL_MAX, "%s", call);
	else if (v->by == SYSCALL_BY_CGROUP)
		snprintf(ret, LABEL_MAX, v->by_call ? "%-22s %s" : "%s%s", call,
			 r->id == SYSCALL_COUNTER_OTHERS ? "others" : cgroup_of(v, r->id, name));
	else if (r->id == SYSCALL_COUNTER_OTHERS)
		snprintf(ret, LABEL_MAX, v->by_call ? "%-23s %s" : "%s%s", "      - others", call);
	else
		snprintf(ret, LABEL_MAX, v->by_call ? "%7llu %-15s %s" : "%7llu %s%s",
			 (unsigned long long)r->id, comm_of(r, name), call);
	return ret;
}

/* Which columns are shown: those that say something, and as many as fit. */
static void choose_columns(const struct syscall_view *v, const struct syscall_row *sum,
			   size_t longest, bool ret[static COLUMNS])
{
	static const enum column first_to_go[] = {MINIMUM, P50, AVERAGE, MAXIMUM, P99};
	size_t width = MIN(longest, LABEL_ROOM) + 2;

	for (int c = 0; c < COLUMNS; c++) {
		ret[c] = c <= ERRORS || (c == UNFINISHED ? sum->unfinished != 0 : v->timed);
		width += ret[c] ? (size_t)columns[c].width : 0;
	}
	for (size_t i = 0; i < ARRAY_SIZE(first_to_go) && v->columns && width > v->columns; i++) {
		if (!ret[first_to_go[i]])
			continue;
		ret[first_to_go[i]] = false;
		width -= (size_t)columns[first_to_go[i]].width;
	}
}

static void print_label(const struct syscall_view *v, size_t used, const char *text, FILE *out)
{
	size_t bytes = strlen(text), taken;

	if (v->columns > used + 2)
		bytes = describe_fit(text, bytes, v->columns - used - 2, &taken);
	fprintf(out, "  %.*s\n", (int)bytes, text);
}

static void print_cell(const struct syscall_row *r, enum column c, FILE *out)
{
	const uint64_t values[COLUMNS] = {
		[CALLS] = r->calls,
		[ERRORS] = r->errors,
		[UNFINISHED] = r->unfinished,
		[TOTAL] = r->total_ns,
		[AVERAGE] = r->timed ? r->total_ns / r->timed : 0,
		[MINIMUM] = r->min_ns,
		[P50] = syscall_row_percentile(r, 0.50),
		[P99] = syscall_row_percentile(r, 0.99),
		[MAXIMUM] = r->max_ns,
	};
	uint64_t value = values[c];
	int width = columns[c].width;
	char text[DURATION_MAX];

	if (c < TOTAL)
		fprintf(out, "%*llu", width, (unsigned long long)value);
	else
		fprintf(out, "%*s", width, r->timed ? duration(value, text) : "-");
}

static void print_histogram(const struct syscall_row *r, FILE *out)
{
	char from[DURATION_MAX], to[DURATION_MAX];
	int first = SYSCALL_BUCKETS, last = -1;
	uint64_t most = 1;

	for (int i = 0; i < SYSCALL_BUCKETS; i++) {
		if (!r->buckets[i])
			continue;
		first = MIN(first, i);
		last = i;
		most = MAX(most, r->buckets[i]);
	}
	for (int i = first; i <= last; i++) {
		int bar = (int)((r->buckets[i] * BAR + most - 1) / most);
		fprintf(out, "%10s .. %-8s %10llu |%.*s%*s|\n", duration(i ? 1ull << i : 0, from),
			duration(2ull << i, to), (unsigned long long)r->buckets[i], bar,
			"****************************************", BAR - bar, "");
	}
}

static size_t rows_to_show(const struct syscall_view *v, size_t count)
{
	return v->top && v->top < count ? (size_t)v->top : count;
}

static void say_rest(size_t shown, size_t count, FILE *out)
{
	if (shown < count)
		fprintf(out, "… and %zu more; -n 0 shows all\n", count - shown);
}

static void print_rows(const struct syscall_view *v, struct syscall_totals *t, FILE *out)
{
	const struct syscall_row *sum = syscall_totals_sum(t);
	size_t count, longest = strlen("CALL");
	const struct syscall_row *rows = syscall_totals_rows(t, v->order, &count);
	size_t shown = rows_to_show(v, count), used = 0;
	bool is_shown[COLUMNS];
	char text[LABEL_MAX];

	for (size_t i = 0; i < shown; i++)
		longest = MAX(longest, strlen(label(v, &rows[i], text)));
	choose_columns(v, sum, longest, is_shown);
	for (int c = 0; c < COLUMNS; c++) {
		if (!is_shown[c])
			continue;
		fprintf(out, "%*s", columns[c].width, columns[c].title);
		used += (size_t)columns[c].width;
	}
	print_titles(v, out);
	for (size_t i = 0; i < shown; i++) {
		for (int c = 0; c < COLUMNS; c++)
			if (is_shown[c])
				print_cell(&rows[i], c, out);
		print_label(v, used, label(v, &rows[i], text), out);
	}
	say_rest(shown, count, out);
	for (size_t i = 0; v->histogram && i < shown; i++) {
		if (!rows[i].timed)
			continue;
		fprintf(out, "\n%s\n", label(v, &rows[i], text));
		print_histogram(&rows[i], out);
	}
}

struct error_line {
	const struct syscall_row *row;
	int error; /* 0: for those there was no room to tell apart */
	uint64_t count;
};

static int compare_lines(const void *a, const void *b)
{
	const struct error_line *x = a, *y = b;

	return x->count < y->count ? 1 : x->count > y->count ? -1 : 0;
}

/* One line for each kind of error of each row. Caller frees. */
static struct error_line *list_errors(const struct syscall_row *rows, size_t count,
				      size_t *ret_count)
{
	struct error_line *lines = NULL;
	size_t n = 0, cap = 0;

	for (size_t i = 0; i < count; i++) {
		uint64_t rest = rows[i].errors;
		for (size_t e = 0; e <= rows[i].error_count; e++) {
			bool is_rest = e == rows[i].error_count;
			uint64_t errors = is_rest ? rest : rows[i].by_error[e].count;
			if (!errors)
				continue;
			MEM_GROW(lines, n, cap);
			lines[n++] = (struct error_line){
				&rows[i], is_rest ? 0 : rows[i].by_error[e].error, errors};
			rest -= MIN(rest, errors);
		}
	}
	if (n)
		qsort(lines, n, sizeof(*lines), compare_lines);
	*ret_count = n;
	return lines;
}

static const char *name_error(int error, char ret[static DURATION_MAX])
{
	const char *name = syscall_error_name(error);

	if (error && !name)
		snprintf(ret, DURATION_MAX, "%d", error);
	return name ? name : error ? ret : "(others)";
}

static void print_errors(const struct syscall_view *v, struct syscall_totals *t, FILE *out)
{
	size_t count;
	const struct syscall_row *rows = syscall_totals_rows(t, SYSCALL_ORDER_ERRORS, &count);
	CLEANUP(freep) struct error_line *lines = list_errors(rows, count, &count);
	size_t shown = rows_to_show(v, count);
	char text[LABEL_MAX], name[DURATION_MAX];

	fprintf(out, "%10s  %-15s", "ERRORS", "ERROR");
	print_titles(v, out);
	for (size_t i = 0; i < shown; i++) {
		fprintf(out, "%10llu  %-15s", (unsigned long long)lines[i].count,
			name_error(lines[i].error, name));
		print_label(v, 27, label(v, lines[i].row, text), out);
	}
	say_rest(shown, count, out);
}

void syscall_table_text(const struct syscall_view *v, struct syscall_totals *t, FILE *out)
{
	if (v->errors)
		print_errors(v, t, out);
	else
		print_rows(v, t, out);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void set_count(json_t *o, const char *key, uint64_t value)
{
	json_object_set_new(o, key, json_integer((json_int_t)MIN(value, (uint64_t)INT64_MAX)));
}

static void describe_owner(const struct syscall_view *v, const struct syscall_row *r, json_t *o)
{
	char name[TEXT_MAX + 1];

	if (v->by == SYSCALL_BY_NOBODY)
		return;
	if (r->id == SYSCALL_COUNTER_OTHERS) {
		json_object_set_new(o, "others", json_true());
		return;
	}
	if (v->by == SYSCALL_BY_CGROUP) {
		set_count(o, "cgroup_id", r->id);
		json_object_set_new(o, "cgroup", json_string(cgroup_of(v, r->id, name)));
		return;
	}
	set_count(o, v->by == SYSCALL_BY_PROCESS ? "pid" : "tid", r->id);
	json_object_set_new(o, "comm", json_string(comm_of(r, name)));
}

static json_t *json_errors(const struct syscall_row *r)
{
	json_t *errors = json_object();
	char name[DURATION_MAX];
	uint64_t rest = r->errors;

	for (size_t e = 0; e < r->error_count; e++) {
		set_count(errors, name_error(r->by_error[e].error, name), r->by_error[e].count);
		rest -= MIN(rest, r->by_error[e].count);
	}
	if (rest)
		set_count(errors, name_error(0, name), rest);
	return errors;
}

static void describe_times(const struct syscall_view *v, const struct syscall_row *r, json_t *o)
{
	set_count(o, "timed", r->timed);
	set_count(o, "total_ns", r->total_ns);
	set_count(o, "min_ns", r->min_ns);
	set_count(o, "p50_ns", syscall_row_percentile(r, 0.50));
	set_count(o, "p99_ns", syscall_row_percentile(r, 0.99));
	set_count(o, "max_ns", r->max_ns);
	if (!v->histogram)
		return;
	json_t *buckets = json_array();
	for (int i = 0; i < SYSCALL_BUCKETS; i++) {
		if (!r->buckets[i])
			continue;
		json_t *b = json_object();
		set_count(b, "from_ns", i ? 1ull << i : 0);
		set_count(b, "calls", r->buckets[i]);
		json_array_append_new(buckets, b);
	}
	json_object_set_new(o, "histogram", buckets);
}

static json_t *json_row(const struct syscall_view *v, const struct syscall_row *r)
{
	json_t *o = json_object();
	bool compat;

	describe_owner(v, r, o);
	if (v->by_call) {
		json_object_set_new(o, "call",
				    json_string(syscall_calls_name(v->calls, r->call, &compat)));
		json_object_set_new(o, "32-bit", json_boolean(compat));
	}
	set_count(o, "calls", r->calls);
	set_count(o, "errors", r->errors);
	if (r->errors)
		json_object_set_new(o, "by_error", json_errors(r));
	if (v->timed) {
		set_count(o, "unfinished", r->unfinished);
		describe_times(v, r, o);
	}
	return o;
}

void syscall_table_json(const struct syscall_view *v, struct syscall_totals *t, double seconds,
			FILE *out)
{
	size_t count;
	const struct syscall_row *rows = syscall_totals_rows(t, v->order, &count);
	size_t shown = rows_to_show(v, count);
	json_t *line = json_object(), *list = json_array();

	json_object_set_new(line, "time", json_real((double)clock_ms(CLOCK_REALTIME) / 1000));
	json_object_set_new(line, "seconds", json_real(seconds));
	for (size_t i = 0; i < shown; i++)
		json_array_append_new(list, json_row(v, &rows[i]));
	set_count(line, "left_out", count - shown);
	json_object_set_new(line, "rows", list);
	json_dumpf(line, out, JSON_COMPACT | JSON_REAL_PRECISION(15));
	fputc('\n', out);
	json_decref(line);
}

#include "cli/top_lines.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

const char top_lines_functions[] = "   SELF%  TOTAL%  FUNCTION";
const char top_lines_stacks[] = "   TIME%  STACK, innermost function first";

/* The columns, in order: those of numbers are right-aligned, and the last one takes what is left.
 */
static const struct column {
	const char *head;
	unsigned width;
	enum top_sort sort;
} columns[] = {
	{"PID", 7, TOP_SORT_ID},
	{"CPU%", 7, TOP_SORT_CPU},
	{"RUNNABLE%", 11, TOP_SORT_RUNNABLE},
	{"BLOCKED%", 10, TOP_SORT_BLOCKED},
	{"IDLE%", 9, TOP_SORT_IDLE},
	{"SWITCH/s", 10, TOP_SORT_SWITCHES},
	{"THR", 5, TOP_SORT_THREADS},
	{"COMMAND", 0, TOP_SORT_NAME},
};

static bool is_shown(const struct top_view *v, const struct column *c)
{
	if (c->sort == TOP_SORT_ID)
		return v->options.by != TOP_BY_CONTAINER;
	if (c->sort == TOP_SORT_THREADS)
		return v->options.by != TOP_BY_THREAD;
	return c->sort != TOP_SORT_IDLE || v->interval->has_idle;
}

static const char *head(const struct top_view *v, const struct column *c)
{
	if (c->sort == TOP_SORT_ID && v->options.by == TOP_BY_THREAD)
		return "TID";
	if (c->sort == TOP_SORT_NAME)
		return v->options.by == TOP_BY_THREAD      ? "THREAD"
		       : v->options.by == TOP_BY_CONTAINER ? "CONTAINER"
							   : "COMMAND";
	return c->head;
}

/* Before the first interval is over. */
static bool is_empty(const struct top_interval *i)
{
	return !i->end_ns;
}

/* Appends; what does not fit is cut. */
__attribute__((format(printf, 3, 4))) static void put(char *line, size_t *n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int len = vsnprintf(line + *n, TOP_LINE - *n, fmt, ap);
	va_end(ap);
	if (len > 0)
		*n = MIN(*n + (size_t)len, TOP_LINE - 1u);
}

static void put_number(char *line, size_t *n, unsigned width, double value, int digits)
{
	if (value < 0)
		put(line, n, "%*s", (int)width, "-");
	else
		put(line, n, "%*.*f", (int)width, digits, value);
}

void top_lines_title(const struct top_view *v, const struct top_header *h,
		     char ret[static TOP_LINE])
{
	time_t at = (time_t)(v->interval->end_ns / 1000000000);
	struct tm tm;
	char clock[16] = "";
	size_t n = 0;

	if (at && localtime_r(&at, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S ", &tm);
	put(ret, &n, "smolder top  %s%s, by %s, %s", clock, h->source, top_by_names[v->options.by],
	    h->wall ? "all time (wall)" : "CPU time");
	if (!is_empty(v->interval) &&
	    (v->interval->seconds > 1.5 * h->every || v->interval->seconds < 0.5 * h->every))
		put(ret, &n, ", %.1f s", v->interval->seconds);
	if (v->options.search[0])
		put(ret, &n, ", %u of %u: %s", v->row_count, v->all_count, v->options.search);
	if (h->is_paused)
		put(ret, &n, "  [paused]");
}

void top_lines_finding(const struct top_view *v, char ret[static TOP_LINE])
{
	const struct top_interval *i = v->interval;
	size_t n = 0;

	ret[0] = '\0';
	if (i->finding_count > 1)
		put(ret, &n, "(1 of %u) ", i->finding_count);
	if (i->finding_count)
		put(ret, &n, "%s", i->findings[0].headline);
}

void top_lines_sum(const struct top_view *v, char ret[static TOP_LINE])
{
	const struct top_interval *i = v->interval;
	const struct top_row *s = &v->sum;
	size_t n = 0;

	ret[0] = '\0';
	if (is_empty(i))
		return;
	put(ret, &n, "CPU %.1f%%", MAX(s->cpu, 0));
	if (i->cpus)
		put(ret, &n, " of %u%%", 100 * i->cpus);
	if (s->runnable >= 0)
		put(ret, &n, ", runnable %.1f%%", s->runnable);
	if (s->switches >= 0)
		put(ret, &n, ", %.0f switches/s", s->switches);
	if (s->threads)
		put(ret, &n, ", %u threads", s->threads);
	put(ret, &n, ", %llu samples", (unsigned long long)i->sampled);
	if (i->lost)
		put(ret, &n, ", %llu LOST", (unsigned long long)i->lost);
}

void top_lines_columns(const struct top_view *v, char ret[static TOP_LINE],
		       struct top_span *ret_sorted)
{
	size_t n = 0;

	*ret_sorted = (struct top_span){};
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *c = &columns[i];
		const char *text = head(v, c);
		if (!is_shown(v, c))
			continue;
		if (c->width)
			put(ret, &n, "%*s", (int)c->width, text);
		else
			put(ret, &n, "  %s", text);
		if (c->sort == v->options.sort)
			*ret_sorted = (struct top_span){n - strlen(text), n};
	}
	if (v->options.by == TOP_BY_THREAD)
		put(ret, &n, " (PROCESS)");
	if (v->options.by != TOP_BY_CONTAINER)
		put(ret, &n, " @CONTAINER");
}

static void put_name(const struct top_view *v, const struct top_row *r, char *line, size_t *n)
{
	put(line, n, "  %s", *r->name ? r->name : "?");
	if (v->options.by == TOP_BY_CONTAINER)
		return;
	if (v->options.by == TOP_BY_THREAD && r->pid)
		put(line, n, " (%s %u)", r->comm, r->pid);
	if (!r->pid)
		put(line, n, " (short-lived)");
	if (v->many_hosts)
		put(line, n, " on %s", r->host);
	if (r->container[0] != '(')
		put(line, n, " @%s", r->container);
}

static void put_id(const struct top_view *v, const struct top_row *r, char *line, size_t *n,
		   unsigned width)
{
	uint32_t id = v->options.by == TOP_BY_THREAD ? r->tid : r->pid;

	if (id)
		put(line, n, "%*u", (int)width, id);
	else
		put(line, n, "%*s", (int)width, "-");
}

void top_lines_row(const struct top_view *v, const struct top_row *r, char ret[static TOP_LINE])
{
	size_t n = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(columns); i++) {
		const struct column *c = &columns[i];
		if (!is_shown(v, c))
			continue;
		switch (c->sort) {
		case TOP_SORT_ID:
			put_id(v, r, ret, &n, c->width);
			break;
		case TOP_SORT_CPU:
			put_number(ret, &n, c->width, r->cpu, 1);
			break;
		case TOP_SORT_RUNNABLE:
			put_number(ret, &n, c->width, r->runnable, 1);
			break;
		case TOP_SORT_BLOCKED:
			put_number(ret, &n, c->width, r->blocked, 1);
			break;
		case TOP_SORT_IDLE:
			put_number(ret, &n, c->width, r->idle, 1);
			break;
		case TOP_SORT_SWITCHES:
			put_number(ret, &n, c->width, r->switches, 0);
			break;
		case TOP_SORT_THREADS:
			put_number(ret, &n, c->width, r->threads ? r->threads : TOP_UNKNOWN, 0);
			break;
		default:
			put_name(v, r, ret, &n);
		}
	}
}

void top_lines_selected(const struct top_view *v, char ret[static TOP_LINE])
{
	size_t n = 0;

	ret[0] = '\0';
	if (!v->row_count)
		return;
	const struct top_row *r = &v->rows[v->selected];
	put(ret, &n, "%s", r->name);
	if (v->options.by == TOP_BY_THREAD && r->tid)
		put(ret, &n, " (thread %u of %s)", r->tid, r->comm);
	else if (r->pid)
		put(ret, &n, " (%u)", r->pid);
	put(ret, &n, ": %s",
	    v->interval->is_wall ? "where its time went" : "where its CPU time went");
	if (!v->interval->is_wall)
		put(ret, &n, ", %llu samples", (unsigned long long)v->selected_samples);
}

void top_lines_function(const struct top_function *f, char ret[static TOP_LINE])
{
	size_t n = 0;

	put(ret, &n, "%8.1f%8.1f  %s", f->self, f->total, f->name);
	if (*f->module)
		put(ret, &n, "  %s", f->module);
}

void top_lines_stack(const struct top_view *v, const struct top_stack *s, char ret[static TOP_LINE])
{
	size_t n = 0;
	char text[2048];

	top_view_stack(v->interval->of, s->stack, text, sizeof(text));
	put(ret, &n, "%8.1f  %s", s->share, *text ? text : "(no stack)");
}

const char *top_lines_no_functions(const struct top_view *v)
{
	if (is_empty(v->interval))
		return "  the first figures are on their way";
	if (!v->row_count)
		return v->options.search[0] ? "  nothing matches the search"
					    : "  there is no such process";
	return v->interval->is_wall ? "  nothing is known of its time yet"
				    : "  no sample: it did not run, or too briefly; w shows what "
				      "it waits for";
}

void top_lines_print(const struct top_view *v, const struct top_header *h, unsigned rows, FILE *out)
{
	char line[TOP_LINE];
	struct top_span sorted;
	unsigned most = rows ? rows : UINT32_MAX;

	top_lines_title(v, h, line);
	fprintf(out, "%s\n", line);
	top_lines_finding(v, line);
	if (*line)
		fprintf(out, "%s\n", line);
	top_lines_sum(v, line);
	fprintf(out, "%s\n\n", line);
	top_lines_columns(v, line, &sorted);
	fprintf(out, "%s\n", line);
	for (uint32_t i = 0; i < MIN(v->row_count, most); i++) {
		top_lines_row(v, &v->rows[i], line);
		fprintf(out, "%s\n", line);
	}
	top_lines_selected(v, line);
	fprintf(out, "\n%s\n%s\n", line,
		v->function_count ? top_lines_functions : top_lines_no_functions(v));
	for (uint32_t i = 0; i < MIN(v->function_count, most); i++) {
		top_lines_function(&v->functions[i], line);
		fprintf(out, "%s\n", line);
	}
	if (v->stack_count)
		fprintf(out, "%s\n", top_lines_stacks);
	for (uint32_t i = 0; i < MIN(v->stack_count, most); i++) {
		top_lines_stack(v, &v->stacks[i], line);
		fprintf(out, "%s\n", line);
	}
}

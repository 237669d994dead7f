#include "cli/stat_print.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"

#define VALUE_COLUMNS  18
#define METRIC_COLUMNS 35

struct row {
	const struct stat_view *view;
	const struct stat_table *table;
	size_t event, place;
	const struct stat_cell *cell;
	const struct counter_event *of; /* what is counted */
	double at;
};

/* A line that is put together before it is printed. */
struct line {
	char text[2048];
	size_t len;
};

static __attribute__((format(printf, 2, 3))) void put(struct line *l, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	int n = vsnprintf(l->text + l->len, sizeof(l->text) - l->len, fmt, ap);
	va_end(ap);
	if (n > 0)
		l->len = MIN(l->len + (size_t)n, sizeof(l->text) - 1);
}

/* Without the blanks at its end. */
static void put_out(struct line *l, FILE *out)
{
	while (l->len && l->text[l->len - 1] == ' ')
		l->text[--l->len] = '\0';
	fprintf(out, "%s\n", l->text);
}

/* "1234567.89" with a separator between groups of three digits. */
static void group_digits(const char *number, const char *separator, char *ret, size_t size)
{
	size_t whole = strspn(number, "0123456789"), used = 0;

	for (const char *at = number; *at && used + 1 < size; at++) {
		size_t left = whole > (size_t)(at - number) ? whole - (size_t)(at - number) : 0;
		if (at != number && left && left % 3 == 0)
			used += (size_t)snprintf(ret + used, size - used, "%s", separator);
		if (used + 1 < size)
			ret[used++] = *at;
	}
	ret[MIN(used, size - 1)] = '\0';
}

/* Columns that it takes on a terminal. */
static int columns(const char *s)
{
	int count = 0;

	for (; *s; s++)
		count += (*s & 0xc0) != 0x80;
	return count;
}

static double shown_value(const struct row *r)
{
	return r->cell->value.mean * r->of->scale;
}

static int decimals(const struct row *r)
{
	return r->of->scale == 1 ? 0 : 2;
}

/* So wide that any event's unit has room. */
static int unit_columns(const struct stat_table *t)
{
	int most = 4;

	for (size_t i = 0; i < t->events->count; i++)
		most = MAX(most, columns(t->events->list[i].unit));
	return most;
}

static const char *missing(const struct row *r)
{
	return r->cell->is_supported ? "<not counted>" : "<not supported>";
}

/* How much of the time it was counted, in percent. */
static double share_run(const struct row *r)
{
	const struct stat_cell *c = r->cell;

	return stat_cell_is_counted(c) && c->enabled.mean > 0
		       ? 100 * c->running.mean / c->enabled.mean
		       : 100;
}

/* "S0-D0-C3" */
static void core_name(const struct counters_place *p, char *ret, size_t size)
{
	snprintf(ret, size, "S%d-D%d-C%d", p->socket, p->die, p->core);
}

static void put_place(struct line *l, const struct row *r)
{
	const struct counters_place *p = &r->table->places[r->place];
	char name[64];

	core_name(p, name, sizeof(name));
	if (r->view->by == COUNTERS_BY_CPU)
		put(l, "CPU%-8u", p->cpu);
	else if (r->view->by == COUNTERS_BY_CORE)
		put(l, "%-15s %4u ", name, p->cpus);
}

static void put_value(struct line *l, const struct row *r)
{
	char number[64], grouped[128];

	if (stat_cell_is_counted(r->cell)) {
		snprintf(number, sizeof(number), "%.*f", decimals(r), shown_value(r));
		group_digits(number, r->view->thousands, grouped, sizeof(grouped));
	} else {
		snprintf(grouped, sizeof(grouped), "%s", missing(r));
	}
	put(l, "%*s%s %-*s ", MAX(VALUE_COLUMNS - columns(grouped), 0), "", grouped,
	    unit_columns(r->table), r->of->unit);
}

static void put_metric(struct line *l, const struct stat_metric *m)
{
	size_t before = l->len;

	/* Digits stand below digits, whether or not something follows them. */
	int wide = m->decimals == 2 ? 7 : 8;
	put(l, " # %*.*f%-*s %s", wide, m->decimals, m->value, 8 - wide, m->after, m->unit);
	put(l, "%*s", MAX(METRIC_COLUMNS - (int)(l->len - before), 0), "");
}

static void put_metrics(struct line *l, const struct row *r)
{
	struct stat_metric metrics[STAT_METRICS_MAX];
	size_t count = stat_table_metrics(r->table, r->event, r->place, metrics);

	if (count)
		put_metric(l, &metrics[0]);
	else
		put(l, "%*s", METRIC_COLUMNS, "");
	double off = stat_mean_percent(&r->cell->value);
	if (r->view->has_runs && off != 0)
		put(l, "  ( +-%6.2f%% )", off);
	if (share_run(r) < 99.995)
		put(l, "  (%.2f%%)", share_run(r));
	put_out(l, r->view->out);
	if (count > 1) {
		struct line more = {};
		put(&more, "%*s", VALUE_COLUMNS + 2 + unit_columns(r->table) + 32, "");
		put_metric(&more, &metrics[1]);
		put_out(&more, r->view->out);
	}
}

static void print_text(const struct row *r)
{
	const char *cgroup = r->view->cgroup;
	struct line l = {};

	if (r->view->at_intervals)
		put(&l, "%16.9f ", r->at);
	put_place(&l, r);
	put_value(&l, r);
	put(&l, "%-32s", r->of->name);
	if (cgroup)
		put(&l, " %s", cgroup);
	put_metrics(&l, r);
}

static void put_separated_place(struct line *l, const struct row *r)
{
	const struct counters_place *p = &r->table->places[r->place];
	const char *sep = r->view->separator;
	char name[64];

	if (r->view->at_intervals)
		put(l, "%16.9f%s", r->at, sep);
	core_name(p, name, sizeof(name));
	if (r->view->by == COUNTERS_BY_CPU)
		put(l, "CPU%u%s", p->cpu, sep);
	else if (r->view->by == COUNTERS_BY_CORE)
		put(l, "%s%s%u%s", name, sep, p->cpus, sep);
}

static void print_separated(const struct row *r)
{
	struct stat_metric metrics[STAT_METRICS_MAX];
	size_t count = stat_table_metrics(r->table, r->event, r->place, metrics);
	const char *sep = r->view->separator, *cgroup = r->view->cgroup;
	struct line l = {};

	put_separated_place(&l, r);
	if (stat_cell_is_counted(r->cell))
		put(&l, "%.*f", decimals(r), shown_value(r));
	else
		put(&l, "%s", missing(r));
	put(&l, "%s%s%s%s", sep, r->of->unit, sep, r->of->name);
	if (cgroup)
		put(&l, "%s%s", sep, cgroup);
	if (r->view->has_runs)
		put(&l, "%s%.2f%%", sep, stat_mean_percent(&r->cell->value));
	put(&l, "%s%.0f%s%.2f", sep, r->cell->running.mean, sep, share_run(r));
	if (count == 0)
		put(&l, "%s%s", sep, sep);
	for (size_t i = 0; i < count; i++) {
		if (i > 0) { /* a row of its own, in the same columns */
			put(&l, "\n");
			put_separated_place(&l, r);
			for (int n = 0; n < 4 + (cgroup != NULL) + r->view->has_runs; n++)
				put(&l, "%s", sep);
		}
		put(&l, "%s%.*f%s%s", sep, metrics[i].decimals, metrics[i].value, sep,
		    metrics[i].unit);
	}
	fprintf(r->view->out, "%s\n", l.text);
}

static void json_text(FILE *out, const char *key, const char *value)
{
	fprintf(out, "\"%s\" : ", key);
	escape_json(out, value, strlen(value));
	fputs(", ", out);
}

static void json_place(const struct row *r)
{
	const struct counters_place *p = &r->table->places[r->place];
	FILE *out = r->view->out;
	char name[64];

	if (r->view->at_intervals)
		fprintf(out, "\"interval\" : %.9f, ", r->at);
	core_name(p, name, sizeof(name));
	if (r->view->by == COUNTERS_BY_CPU)
		fprintf(out, "\"cpu\" : \"%u\", ", p->cpu);
	else if (r->view->by == COUNTERS_BY_CORE)
		fprintf(out, "\"core\" : \"%s\", \"aggregate-number\" : %u, ", name, p->cpus);
}

static void json_metric(FILE *out, const struct stat_metric *m)
{
	fprintf(out, "\"metric-value\" : %f, \"metric-unit\" : \"%s\"}\n", m ? m->value : 0,
		m ? m->unit : "");
}

/* In perf's form, blanks and all, for those who compare lines. */
static void print_json(const struct row *r)
{
	struct stat_metric metrics[STAT_METRICS_MAX];
	size_t count = stat_table_metrics(r->table, r->event, r->place, metrics);
	FILE *out = r->view->out;

	fputc('{', out);
	json_place(r);
	/* Numbers as strings, since perf does it so: there may be a word instead. */
	if (stat_cell_is_counted(r->cell))
		fprintf(out, "\"counter-value\" : \"%f\", ", shown_value(r));
	else
		fprintf(out, "\"counter-value\" : \"%s\", ", missing(r));
	json_text(out, "unit", r->of->unit);
	json_text(out, "event", r->of->name);
	if (r->view->cgroup)
		json_text(out, "cgroup", r->view->cgroup);
	if (r->view->has_runs)
		fprintf(out, "\"variance\" : %.2f, ", stat_mean_percent(&r->cell->value));
	fprintf(out, "\"event-runtime\" : %.0f, \"pcnt-running\" : %.2f, ", r->cell->running.mean,
		share_run(r));
	json_metric(out, count ? &metrics[0] : NULL);
	if (count > 1) {
		fputc('{', out);
		json_place(r);
		json_metric(out, &metrics[1]);
	}
}

static void print_row(const struct stat_view *v, const struct stat_table *t, size_t event,
		      size_t place, double at)
{
	static void (*const print[])(const struct row *) = {print_text, print_separated,
							    print_json};
	struct row r = {.view = v, .table = t, .event = event, .place = place, .at = at};

	r.cell = &t->cells[event * t->place_count + place];
	r.of = &t->events->list[event];
	if (!r.cell->is_elsewhere)
		print[v->format](&r);
}

void stat_print_rows(const struct stat_view *v, const struct stat_table *t, double at)
{
	size_t events = t->events->count, places = t->place_count;

	/* perf has the CPUs of an event together, but the events of a core. */
	for (size_t i = 0; i < events * places; i++) {
		if (v->by == COUNTERS_BY_CORE)
			print_row(v, t, i % events, i / events, at);
		else
			print_row(v, t, i / places, i % places, at);
	}
}

void stat_print_title(const struct stat_view *v, const char *of, unsigned runs)
{
	if (v->format != STAT_TEXT || v->at_intervals)
		return;
	fprintf(v->out, "\n Performance counter stats for %s", of);
	if (v->has_runs)
		fprintf(v->out, " (%u run%s)", runs, runs == 1 ? "" : "s");
	fputs(":\n\n", v->out);
}

void stat_print_columns(const struct stat_view *v)
{
	static const char *const places[] = {"            ", " CPU                   ",
					     " core            cpus            "};

	if (v->format == STAT_TEXT && v->at_intervals)
		fprintf(v->out, "#           time%s counts unit events\n", places[v->by]);
}

void stat_print_end(const struct stat_view *v, const struct stat_table *t, double user,
		    double kernel)
{
	double error = stat_mean_error(&t->seconds);

	if (v->format != STAT_TEXT || v->at_intervals)
		return;
	if (error > 0) {
		/* As many digits as mean something, and two more. */
		int digits = MAX(MIN((int)ceil(-log10(error)) + 2, 9), 0);
		fprintf(v->out, "\n%18.*f +- %.*f seconds time elapsed  ( +-%6.2f%% )\n\n", digits,
			t->seconds.mean, digits, error, stat_mean_percent(&t->seconds));
		return;
	}
	fprintf(v->out, "\n%18.9f seconds time elapsed\n\n", t->seconds.mean);
	if (user >= 0)
		fprintf(v->out, "%18.9f seconds user\n%18.9f seconds sys\n\n\n", user, kernel);
}

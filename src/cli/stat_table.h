/*
 * stat_table: what `stat` counted, of one run or interval or as the mean of several runs, and the
 * ratios that are made of it, as perf stat has them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/counters.h"

struct stat_mean { /* of several runs; zero-initialised is none */
	double runs, mean, squares;
};

void stat_mean_add(struct stat_mean *m, double value);

/* How far the mean may be off, by its standard error: as such, or in percent of the mean. */
double stat_mean_error(const struct stat_mean *m);
double stat_mean_percent(const struct stat_mean *m);

struct stat_cell {
	bool is_supported, is_elsewhere;          /* as of struct counter_value */
	struct stat_mean value, enabled, running; /* nanoseconds for clocks and the latter two */
};

/* Whether there is a value. */
bool stat_cell_is_counted(const struct stat_cell *c);

struct stat_table {
	const struct counter_events *events;
	struct counters_place *places;
	size_t place_count;
	struct stat_cell *cells;  /* [event * place_count + place] */
	struct stat_mean seconds; /* how long was counted */
};

/* For those events, which are borrowed, and places. */
void stat_table_init(struct stat_table *t, const struct counter_events *events,
		     const struct counters_place *places, size_t place_count);
void stat_table_done(struct stat_table *t);

/* Adds a run: one value for each cell. */
void stat_table_add(struct stat_table *t, const struct counter_value *values, double seconds);

/* A ratio as perf writes it. */
struct stat_metric {
	double value;
	int decimals;
	const char *after; /* "%", or nothing */
	char unit[40];     /* "insn per cycle", "K/sec", "of all branches" */
};

#define STAT_METRICS_MAX 2 /* of an event */

/* What can be said of a cell beside its value; how many ratios. */
size_t stat_table_metrics(const struct stat_table *t, size_t event, size_t place,
			  struct stat_metric ret[static STAT_METRICS_MAX]);

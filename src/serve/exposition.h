/*
 * exposition: metrics as Prometheus reads them, in such a way that they are right.
 *
 * Names are given without the prefix smolder_, those of counters without _total: both are added
 * here, and each family has its HELP and TYPE. What collectors send of themselves comes from
 * outside: names and labels that are none are left out, each family is written once for all
 * collectors, and none that is the server's own, so that nobody can spoil the whole.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct exposition;

struct exposition *exposition_new(FILE *out); /* borrowed */
void exposition_free(struct exposition *e);   /* writes what collectors said, first */

void exposition_counter(struct exposition *e, const char *name, const char *help, double value);
void exposition_gauge(struct exposition *e, const char *name, const char *help, double value);

/* A family with one label: its head, and then each value. */
void exposition_counters(struct exposition *e, const char *name, const char *help);
void exposition_gauges(struct exposition *e, const char *name, const char *help);
void exposition_value(struct exposition *e, const char *label, const char *is, double value);

/* A receiver_metric_fn (serve/receiver.h) whose context is the exposition. */
void exposition_collector_metric(void *ctx, const uint8_t instance[16], const char *name,
				 double value);

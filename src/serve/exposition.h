/*
 * exposition: metrics in the text format of Prometheus, always well-formed.
 *
 * Names are given without the prefix smolder_, and those of counters without _total: both are added
 * here, and each family gets its HELP and TYPE. The metrics that collectors send are untrusted:
 * invalid names and labels are dropped, each family is written once for all collectors, and none
 * may use the name of one of the server's own, so that no collector can break the whole page.
 */
#pragma once

#include <stdint.h>
#include <stdio.h>

struct exposition;

struct exposition *exposition_new(FILE *out); /* borrowed */
void exposition_free(struct exposition *e);   /* writes the collectors' metrics first */

void exposition_counter(struct exposition *e, const char *name, const char *help, double value);
void exposition_gauge(struct exposition *e, const char *name, const char *help, double value);

/* A family with one label: first its head, then each value. */
void exposition_counters(struct exposition *e, const char *name, const char *help);
void exposition_gauges(struct exposition *e, const char *name, const char *help);
void exposition_value(struct exposition *e, const char *label, const char *is, double value);
/* With several labels: name, value, name, value, …, NULL. Values may be anything. */
void exposition_labelled(struct exposition *e, const char *const *labels, double value);

/* A receiver_metric_fn (serve/receiver.h) whose context is the exposition. */
void exposition_collector_metric(void *ctx, const uint8_t instance[16], const char *name,
				 double value);

/*
 * metrics: what a collector tells of itself, by name, and what each of them means.
 *
 * A name is a Prometheus one without the prefix smolder_. Counters end in _total, which makes them
 * counters; all others are gauges. Units are base ones and stand in the name: seconds, bytes,
 * hertz. A metric that is added gets its line here, or tests/live/test_run.py finds it without
 * words.
 */
#pragma once

#include <stddef.h>

/* What it means, one sentence; NULL: this version knows no such metric. */
const char *metrics_help(const char *name, size_t len);

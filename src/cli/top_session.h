/*
 * top_session: `smolder top` while it runs: takes an interval every so often, and shows it, on a
 * screen that obeys keys or as plain text.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/top_source.h"
#include "query/top_view.h"

struct top_session_options {
	struct top_options view; /* as it begins */
	bool wall;
	bool batch;        /* plain text on standard output */
	uint64_t count;    /* of intervals, then it ends; 0: no end */
	uint64_t every_ms; /* between two intervals */
	unsigned rows;     /* in plain text, of each list; 0: all */
};

/* The exit code, after reporting what went wrong. The source is borrowed. */
int top_session_run(const struct top_session_options *o, struct top_source *source);

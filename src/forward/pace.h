/*
 * pace: when to send next, so that neither a far side that is away is asked all the time, nor one
 * that comes back is run down by all that have waited for it.
 *
 * After a failure: a pause that doubles each time, and is drawn by lot from its second half, so
 * that senders do not come at the same moment; a longer one if the far side names it. After that
 * what has waited is sent with gaps, which are halved each time that it goes well.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define PACE_LEAST_MS 1000
#define PACE_MOST_MS  60000
#define PACE_ASKED_MS 600000 /* most that a far side can ask for */

struct pace {              /* embedded; zero-initialised: all is well */
	unsigned failures; /* in a row */
	uint64_t gap_ms;
	uint64_t not_before_ms; /* CLOCK_MONOTONIC */
};

void pace_failed(struct pace *p, uint64_t now_ms, uint64_t asked_ms);
void pace_went_well(struct pace *p, uint64_t now_ms);

/* How long to wait yet. */
uint64_t pace_wait_ms(const struct pace *p, uint64_t now_ms);

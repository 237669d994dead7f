/*
 * report: what a user is told, on stderr, about the profile that a command shows.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "profile/profile.h"
#include "query/quality.h"
#include "store/store.h"

/* "14:02:05", with the date if that is not today. */
void report_time(uint64_t ms, char ret[static 32]);

/* Says how to get names for the largest group of unnamed frames; nothing if there are few. */
void report_missing_names(const struct quality *q, bool debuginfod);

/* Warns about files of the store that are missing from an answer, and why; false: none are. */
bool report_unreadable(const struct store_answer *a);

/*
 * "14:02:00 to 14:05:00: 1,234 samples, 0 lost, 99.2 % of user stacks complete, 1.2 % of frames
 * without a name", then what is missing and what would help. `prefix` is printed before it.
 */
void report_answer(const struct profile *p, const struct store_answer *a, const char *prefix);

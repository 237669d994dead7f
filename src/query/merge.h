/*
 * merge: adds the samples of one profile to another, all of them or those of a call site.
 */
#pragma once

#include <stddef.h>

#include "profile/profile.h"

/*
 * Only the samples whose stack begins, at the root, with these functions (by name; none: all of
 * them). Labels are kept. `into` takes over type, unit, period and time if it is empty.
 */
void merge_samples(struct profile *into, const struct profile *from, const char *const *site,
		   size_t site_len);

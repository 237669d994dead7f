/*
 * divide: makes means of sums.
 */
#pragma once

#include "profile/profile.h"

/* Divides all values; fractions are carried to the next sample, so that sums are right to one. */
void profile_divide(struct profile *p, uint64_t by);

/*
 * thread_series: the series of a thread in a profile, with the labels comm, pid, thread and tid;
 * and more that a source has for itself, such as the state of the thread.
 *
 * They are interned: building the labels costs more than all else that is done with an event.
 */
#pragma once

#include <stdint.h>

#include "bpf/wire.h"
#include "profile/profile.h"

struct thread_series;

#define THREAD_SERIES_MORE 3

/* The profile is borrowed and outlives it. `more`: the keys of the other labels, at most
 * THREAD_SERIES_MORE; ends with NULL. */
struct thread_series *thread_series_new(struct profile *p, const char *const *more);
void thread_series_free(struct thread_series *t);

/* What `more` is of a series: strings of the profile; 0: without that label. */
struct thread_labels {
	uint32_t values[THREAD_SERIES_MORE];
};

/* Of an event's thread. */
uint32_t thread_series_of(struct thread_series *t, const struct wire_event *e,
			  const struct thread_labels *more);

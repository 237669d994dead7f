/*
 * tracepoint: the number that this kernel has for a tracepoint, from tracefs. Where that is not
 * mounted, and we may, it is for the time of a look, without anyone seeing it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* "sched", "sched_switch". 0; or, with the reason in `why` as a sentence without a full stop:
 * -EINVAL: there can be no such name; else -errno of what this machine refused. */
int tracepoint_find(const char *system, const char *name, uint64_t *ret, char *why, size_t size);

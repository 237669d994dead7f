/*
 * snapshot: a complete profile, with samples, as bytes. A server sends it to the command that
 * asked, which renders it.
 *
 *	"SMP", version (1 byte)
 *	type, unit, period, start_ns, duration_ns, lost, truncated, capped
 *	entries (profile/entries.h)
 *	samples, then each: series, stack, count, value
 */
#pragma once

#include "base/pack.h"
#include "profile/profile.h"

#define SNAPSHOT_SAMPLES_MAX (1u << 24)

void snapshot_write(const struct profile *p, struct pack *out);

/* Into an empty profile. 0; -EBADMSG: malformed; -EPROTONOSUPPORT: another version; -EFBIG. */
int snapshot_read(const void *bytes, size_t len, struct profile *p);

#include "forward/pace.h"

#include <sys/random.h>

#include "base/mem.h"

#define GAP_MS       1000
#define GAP_LEAST_MS 10

/* From half of it to all of it. */
static uint64_t by_lot(uint64_t ms)
{
	uint32_t lot = 0;

	if (getrandom(&lot, sizeof(lot), GRND_NONBLOCK) != sizeof(lot))
		lot = UINT32_MAX / 2;
	return ms / 2 + (ms * lot >> 33);
}

void pace_failed(struct pace *p, uint64_t now_ms, uint64_t asked_ms)
{
	uint64_t ms = PACE_LEAST_MS;

	for (unsigned i = 0; i < p->failures && ms < PACE_MOST_MS; i++)
		ms *= 2;
	p->failures++;
	p->gap_ms = by_lot(2 * (uint64_t)GAP_MS);
	p->not_before_ms = now_ms + by_lot(MIN(ms, (uint64_t)PACE_MOST_MS));
	asked_ms = MIN(asked_ms, (uint64_t)PACE_ASKED_MS);
	/* What it asks for is the least: lots are drawn behind it. */
	if (asked_ms)
		p->not_before_ms = MAX(p->not_before_ms, now_ms + asked_ms + by_lot(asked_ms / 5));
}

void pace_went_well(struct pace *p, uint64_t now_ms)
{
	p->failures = 0;
	p->not_before_ms = now_ms + p->gap_ms;
	p->gap_ms = p->gap_ms / 2 > GAP_LEAST_MS ? p->gap_ms / 2 : 0;
}

uint64_t pace_wait_ms(const struct pace *p, uint64_t now_ms)
{
	return p->not_before_ms > now_ms ? p->not_before_ms - now_ms : 0;
}

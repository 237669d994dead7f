#include "collect/ticks.h"

#include "base/mem.h"

void ticks_begin(struct ticks *t, uint64_t came)
{
	t->due = 0;
	/* The first may come before the program is there. */
	t->came = came - 1;
}

void ticks_add(struct ticks *t, uint64_t period_ns, const struct ticks_now *now, uint64_t *due,
	       uint64_t *missed)
{
	uint64_t wanted = now->clock_ns / period_ns - t->due, came = now->came - t->came;
	uint64_t idled = now->idle_ns - MIN(now->idle_ns, t->idle_ns);
	/* How long it idled is known to that, and to one tick, at either end. */
	uint64_t end = (TICKS_IDLE_GRAIN_NS + period_ns - 1) / period_ns;
	uint64_t excused = came + (idled ? idled / period_ns + 2 * end : 0);

	*due += wanted;
	*missed += wanted - MIN(wanted, excused);
	/* One that is on its way counts next time. */
	t->due += wanted;
	t->came += MIN(came, wanted);
	t->idle_ns = now->idle_ns;
}

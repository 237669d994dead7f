/* The order of samples and events, and what comes too late for it: from rings of our own making. */
#include "unit/unit.h"

#include "base/clock.h"
#include "base/mem.h"
#include "pipeline/stream.h"

#define MS 1000000ull

/* ---- in place of the kernel's rings -------------------------------------------------------- */

static struct {
	uint64_t samples[16], events[16]; /* their times; each is handed over once */
	unsigned sample_count, event_count;
	uint64_t until; /* what the last drain asked for */
} rings;

void sampler_drain(struct sampler *s, uint64_t until, event_fn *fn, void *ctx)
{
	static struct wire_event handed[16]; /* as in a ring: there until they are released */
	unsigned kept = 0;

	(void)s;
	rings.until = until;
	for (unsigned i = 0; i < rings.sample_count; i++) {
		handed[i] = (struct wire_event){.time = rings.samples[i]};
		if (rings.samples[i] <= until)
			fn(ctx, &handed[i]);
		else
			rings.samples[kept++] = rings.samples[i];
	}
	rings.sample_count = kept;
}

void sampler_release(struct sampler *s)
{
	(void)s;
}

void sideband_drain(struct sideband *s, sideband_fn *fn, void *ctx)
{
	(void)s;
	for (unsigned i = 0; i < rings.event_count; i++)
		fn(ctx, &(struct sideband_record){.type = SIDEBAND_EXIT, .time = rings.events[i]});
	rings.event_count = 0;
}

uint64_t sideband_lost(const struct sideband *s)
{
	(void)s;
	return 0;
}

static void put_sample(uint64_t time)
{
	rings.samples[rings.sample_count++] = time;
}

static void put_event(uint64_t time)
{
	rings.events[rings.event_count++] = time;
}

/* ---- who takes them ------------------------------------------------------------------------ */

struct taken {
	char kinds[32]; /* 's' or 'e' each */
	uint64_t times[32];
	unsigned count;
};

static void take(struct taken *t, char kind, uint64_t time)
{
	t->kinds[t->count] = kind;
	t->times[t->count++] = time;
}

static void on_sample(void *ctx, const struct wire_event *w)
{
	take(ctx, 's', w->time);
}

static void on_event(void *ctx, const struct sideband_record *e)
{
	take(ctx, 'e', e->time);
}

static struct stream *start(void)
{
	static char sideband; /* only that there is one */

	memset(&rings, 0, sizeof(rings));
	return stream_new(NULL, (struct sideband *)&sideband);
}

/* Returns how long before now the latest was that it wanted: at most, since time passes. */
static uint64_t drain(struct stream *s, struct taken *t, bool last)
{
	*t = (struct taken){};
	struct stream_handler h = {on_sample, on_event, NULL, t};

	stream_drain(s, &h, last);
	return clock_ns(CLOCK_MONOTONIC) - MIN(clock_ns(CLOCK_MONOTONIC), rings.until);
}

static struct stream_stats late_of(const struct stream *s)
{
	struct stream_stats stats;

	stream_stats(s, &stats);
	return stats;
}

/* ---- tests --------------------------------------------------------------------------------- */

static void all_is_in_order_and_the_latest_waits(void **state)
{
	(void)state;
	struct stream *s = start();
	uint64_t now = clock_ns(CLOCK_MONOTONIC), soon = now + 3600000 * MS;
	struct taken t = {};

	put_sample(now - 40 * MS);
	put_sample(now - 20 * MS);
	put_sample(now - 30 * MS); /* another CPU's ring */
	put_event(now - 20 * MS);  /* at the same time: first */
	put_event(now - 50 * MS);
	put_event(soon);
	put_sample(soon + 1);
	drain(s, &t, false);
	assert_string_equal(t.kinds, "esses");
	for (unsigned i = 1; i < t.count; i++)
		assert_true(t.times[i - 1] <= t.times[i]);
	drain(s, &t, false);
	assert_int_equal(t.count, 0);
	put_sample(soon - 1);
	drain(s, &t, true);
	assert_string_equal(t.kinds, "ses");
	assert_int_equal(late_of(s).late_events + late_of(s).late_records, 0);
	stream_free(s);
}

static void what_comes_late_is_counted_and_handed_out(void **state)
{
	(void)state;
	struct stream *s = start();
	struct taken t = {};

	drain(s, &t, false);
	uint64_t passed = rings.until;
	put_sample(passed);          /* should have been in that one */
	put_sample(passed - 5 * MS); /* this too */
	put_event(passed - 3 * MS);
	put_sample(passed + 1); /* was too new for it */
	put_event(passed + 1);
	while (clock_ns(CLOCK_MONOTONIC) < passed + 100 * MS)
		usleep(1000);
	drain(s, &t, false);
	assert_string_equal(t.kinds, "seses");
	assert_int_equal(late_of(s).late_events, 2);
	assert_int_equal(late_of(s).late_records, 1);
	/* At the end, too. */
	put_event(passed);
	drain(s, &t, true);
	assert_string_equal(t.kinds, "e");
	assert_int_equal(late_of(s).late_events, 2);
	assert_int_equal(late_of(s).late_records, 2);
	stream_free(s);
}

static void after_something_late_more_time_is_left_for_it(void **state)
{
	(void)state;
	struct stream *s = start();
	struct taken t = {};

	/* The first is short; how short, a busy machine does not tell, but some of many are. */
	uint64_t least = UINT64_MAX;
	for (int i = 0; i < 20; i++)
		least = MIN(least, drain(s, &t, false));
	assert_in_range(least, 1 * MS, 9 * MS);

	/* Twice what was seen, and the usual. */
	put_sample(rings.until - 10 * MS);
	drain(s, &t, false);
	assert_true(drain(s, &t, false) >= 20 * MS);
	/* Never more than there is a bound for. */
	put_sample(rings.until - 10000 * MS);
	drain(s, &t, false);
	assert_in_range(drain(s, &t, false), STREAM_REORDER_MAX_NS, 10000 * MS);
	/* And for a while only. */
	for (int i = 0; i < 1000; i++)
		least = MIN(least, drain(s, &t, false));
	assert_in_range(least, 1 * MS, 9 * MS);
	stream_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_is_in_order_and_the_latest_waits),
		cmocka_unit_test(what_comes_late_is_counted_and_handed_out),
		cmocka_unit_test(after_something_late_more_time_is_left_for_it),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

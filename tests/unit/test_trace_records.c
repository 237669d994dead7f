#include "unit/unit.h"

#include "base/mem.h"
#include "syscall/trace_records.h"

/* A record of so many bytes in all, that ended then; its number is its pid. */
static void add(struct trace_records *h, uint64_t end, uint32_t number, uint32_t bytes)
{
	CLEANUP(freep) struct trace_record *r = mem_alloc(bytes);

	r->end = end;
	r->pid = number;
	r->bytes = bytes;
	memset(r + 1, (int)(number & 0xff), bytes - sizeof(*r));
	trace_records_add(h, r);
}

struct seen {
	uint32_t numbers[16];
	size_t count;
	uint64_t last; /* end */
	bool disordered, damaged;
};

static void on_record(void *ctx, const struct trace_record *r)
{
	struct seen *s = ctx;
	const uint8_t *bytes = (const uint8_t *)(r + 1);

	if (s->count < ARRAY_SIZE(s->numbers))
		s->numbers[s->count] = r->pid;
	s->count++;
	s->disordered |= r->end < s->last;
	s->last = r->end;
	for (size_t i = 0; i < r->bytes - sizeof(*r); i++)
		s->damaged |= bytes[i] != (r->pid & 0xff);
}

static struct seen take(struct trace_records *h, uint64_t until)
{
	struct seen s = {};

	trace_records_take(h, until, on_record, &s);
	return s;
}

static void in_order_of_their_ends(void **state)
{
	struct trace_records *h = trace_records_new();

	(void)state;
	assert_null(trace_records_first(h));
	add(h, 30, 3, 200);
	add(h, 10, 1, 112);
	add(h, 40, 4, 120);
	add(h, 20, 2, 112);
	add(h, 30, 5, 112); /* at the same time: as it came */
	assert_int_equal(trace_records_first(h)->pid, 1);

	struct seen s = take(h, 30);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.numbers[0], 1);
	assert_int_equal(s.numbers[1], 2);
	assert_int_equal(trace_records_first(h)->pid, 3);
	s = take(h, UINT64_MAX);
	assert_int_equal(s.count, 3);
	assert_int_equal(s.numbers[0], 3);
	assert_int_equal(s.numbers[1], 5);
	assert_int_equal(s.numbers[2], 4);
	assert_false(s.damaged);
	assert_null(trace_records_first(h));
	assert_int_equal(take(h, UINT64_MAX).count, 0);
	trace_records_free(h);
	trace_records_free(NULL);
}

static void older_ones_are_forgotten(void **state)
{
	struct trace_records *h = trace_records_new();

	(void)state;
	for (uint32_t i = 1; i <= 5; i++)
		add(h, i * 10, i, 112);
	trace_records_forget(h, 30);
	assert_int_equal(trace_records_first(h)->pid, 3);
	trace_records_forget(h, 5); /* what is gone does not come back */
	assert_int_equal(take(h, UINT64_MAX).count, 3);
	add(h, 60, 6, 112);
	trace_records_forget(h, 1000);
	assert_null(trace_records_first(h));
	/* It was asked for: nothing was dropped for want of room. */
	assert_int_equal(trace_records_dropped(h), 0);
	assert_int_equal(trace_records_dropped_until(h), 0);
	trace_records_free(h);
}

/* A window that moves on for many times the limit, but is always far smaller. */
static void a_window_that_moves_needs_no_more_room(void **state)
{
	enum { COUNT = 200000, KEPT = 1000, BYTES = 1024 };
	struct trace_records *h = trace_records_new();

	(void)state;
	for (uint32_t i = 1; i <= COUNT; i++) {
		add(h, i, i, BYTES);
		if (i > KEPT)
			trace_records_forget(h, i - KEPT + 1);
	}
	struct seen s = take(h, UINT64_MAX);
	assert_int_equal(s.count, KEPT);
	assert_int_equal(s.numbers[0], COUNT - KEPT + 1);
	assert_false(s.disordered || s.damaged);
	assert_int_equal(trace_records_dropped(h), 0);
	trace_records_free(h);
}

/* More than there is room for: the last ones stay, the others are counted. */
static void at_the_limit_the_oldest_go(void **state)
{
	enum { BYTES = 4096, COUNT = 2 * (TRACE_RECORDS_BYTES / BYTES) + 123 };
	struct trace_records *h = trace_records_new();

	(void)state;
	for (uint32_t i = 1; i <= COUNT; i++)
		add(h, i, i, BYTES);
	uint64_t dropped = trace_records_dropped(h);
	assert_int_equal(trace_records_dropped_until(h), dropped);
	assert_int_equal(trace_records_first(h)->pid, dropped + 1);

	struct seen s = take(h, UINT64_MAX);
	assert_int_equal(s.count + dropped, COUNT);
	assert_int_equal(s.last, COUNT);
	assert_in_range(s.count * BYTES, TRACE_RECORDS_BYTES / 2, TRACE_RECORDS_BYTES);
	assert_false(s.disordered || s.damaged);
	trace_records_free(h);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order_of_their_ends),
		cmocka_unit_test(older_ones_are_forgotten),
		cmocka_unit_test(a_window_that_moves_needs_no_more_room),
		cmocka_unit_test(at_the_limit_the_oldest_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* When threads ran, by events made up here. */
#include "unit/unit.h"

#include <string.h>

#include "base/mem.h"
#include "pipeline/running.h"

#define BEGIN 1000

struct made {
	struct wire_event event;
	struct offcpu_details details;
};

struct seen { /* by kind: the sum, and what came last */
	uint64_t ns[3], from[3], to[3];
	uint32_t tid;
};

static void on_time(void *ctx, const struct wire_event *who, enum running_kind kind, uint64_t from,
		    uint64_t to)
{
	struct seen *s = ctx;

	assert_true(to > from);
	s->ns[kind] += to - from;
	s->from[kind] = from;
	s->to[kind] = to;
	s->tid = who->tid;
}

/* A thread that leaves its CPU; `ran`: what it has run, ever. */
static struct made leaves(uint32_t tid, uint64_t time, uint64_t ran)
{
	return (struct made){
		.event = {.time = time, .tid = tid, .value = ran, .details = OFFCPU_DETAILS},
		.details = {.state = OFFCPU_SLEEPING}};
}

/* … whose last period was that. */
static struct made leaves_after(uint32_t tid, uint64_t time, uint64_t ran, uint64_t began,
				uint64_t ns)
{
	struct made m = leaves(tid, time, ran);

	m.details.previous = (struct offcpu_period){.began = began, .ns = ns};
	return m;
}

static struct running *begun(struct seen *s)
{
	struct running *r = running_new(on_time, s);

	running_begin(r, BEGIN);
	return r;
}

static void what_lies_between_two_waits_it_ran(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made found = leaves(7, 1010, 500), second = leaves_after(7, 1200, 590, 1010, 100);

	found.details.flags = OFFCPU_FOUND;
	running_event(r, &found.event);
	assert_int_equal(s.ns[RUNNING_RAN], 0); /* it was off its CPU all the time */
	running_event(r, &second.event);
	assert_int_equal(s.ns[RUNNING_RAN], 90);
	assert_int_equal(s.from[RUNNING_RAN], 1110);
	assert_int_equal(s.to[RUNNING_RAN], 1200);

	struct offcpu_thread back = {.tid = 7, .left = 1200, .back = 1250};
	struct made listed = leaves(7, 1300, 600);
	running_back(r, &back);
	running_end(r, &listed.event, 1290);
	assert_int_equal(s.ns[RUNNING_RAN], 90 + 40);
	running_free(r);
}

static void one_that_runs_all_the_time_tells_nothing(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made listed = leaves(7, 1010, 500);

	listed.details.state = OFFCPU_NONE;
	running_roster(r, &listed.event);
	running_end(r, &listed.event, 3000);
	assert_int_equal(s.ns[RUNNING_RAN], 2000);
	assert_int_equal(s.tid, 7);
	running_free(r);
}

/* While threads are listed they come and go: all of them have all the time from the beginning on.
 */
static void nothing_counts_before_the_beginning(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = running_new(on_time, &s);
	struct made left = leaves(7, 900, 500), listed = leaves(7, 950, 500);
	struct made back = leaves_after(7, 1500, 800, 900, 300), other = leaves(8, 960, 100);
	struct made ran = leaves(8, 1400, 600);

	running_event(r, &left.event); /* it ran, and left before it was listed */
	running_roster(r, &listed.event);
	running_roster(r, &other.event);
	running_begin(r, BEGIN);
	assert_int_equal(s.ns[RUNNING_RAN], 0);
	running_event(r, &ran.event);
	assert_int_equal(s.ns[RUNNING_RAN], 400);
	running_event(r, &back.event);
	assert_int_equal(s.ns[RUNNING_RAN], 400 + 300);
	running_free(r);
}

/* One is found off its CPU, and leaves it once more before what was found is read. */
static void what_was_found_may_be_read_late(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = running_new(on_time, &s);
	struct made found = leaves(7, 800, 500), left = leaves_after(7, 900, 520, 800, 80);
	struct made next = leaves_after(7, 1500, 800, 900, 300);

	found.details.flags = OFFCPU_FOUND;
	running_event(r, &left.event);
	running_event(r, &found.event);
	running_begin(r, BEGIN);
	running_event(r, &next.event);
	assert_int_equal(s.ns[RUNNING_RAN], 300);
	assert_int_equal(s.ns[RUNNING_LOST], 0);
	running_free(r);
}

static void new_threads_begin_with_their_first_turn(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made first = leaves_after(8, 1300, 80, 1200, 20), end = leaves(8, 1320, 80);
	struct made again = leaves_after(8, 1500, 10, 1480, 10);

	first.details.is_first = 1;
	running_event(r, &first.event);
	assert_int_equal(s.ns[RUNNING_RAN], 80);
	end.event.value = 85;
	end.details.previous = (struct offcpu_period){.began = 1300, .ns = 15};
	end.details.state = OFFCPU_NONE;
	running_event(r, &end.event);
	assert_int_equal(s.ns[RUNNING_RAN], 85);
	/* Its number is given to another. */
	again.details.is_first = 1;
	running_event(r, &again.event);
	assert_int_equal(s.ns[RUNNING_RAN], 95);

	/* One that never left, and one that never ran. */
	struct made running = leaves_after(9, 2000, 0, 1600, 30), waiting = running;
	running.details.is_first = waiting.details.is_first = 1;
	running.details.state = OFFCPU_NONE;
	waiting.event.tid = 10;
	waiting.details.state = OFFCPU_RUNNABLE;
	running_end(r, &running.event, 1900);
	assert_int_equal(s.ns[RUNNING_NOT_YET], 30);
	assert_int_equal(s.ns[RUNNING_RAN], 95 + 270);
	running_end(r, &waiting.event, 1900);
	assert_int_equal(s.ns[RUNNING_NOT_YET], 30 + 300);
	running_free(r);
}

/* What it ran is what the kernel counts, and the rest is lost. */
static void lost_events_leave_what_the_kernel_counts(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made found = leaves(7, 1010, 500), next = leaves_after(7, 2000, 800, 1010, 90);

	found.details.flags = OFFCPU_FOUND;
	next.details.flags = OFFCPU_AFTER_LOSS;
	running_event(r, &found.event);
	running_event(r, &next.event);
	assert_int_equal(s.ns[RUNNING_RAN], 300);
	assert_int_equal(s.ns[RUNNING_LOST], 2000 - 1100 - 300);
	/* So it is if events are out of order. */
	struct made odd = leaves_after(7, 2100, 850, 1500, 10);
	running_event(r, &odd.event);
	assert_int_equal(s.ns[RUNNING_RAN], 350);
	assert_int_equal(s.ns[RUNNING_LOST], 600 + 50);
	running_free(r);
}

/* … also at the end, where no event comes any more: the kernel's map has what was to be told. */
static void the_last_events_may_be_lost(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made left = leaves(7, 1100, 500), listed = leaves(7, 3000, 800);
	struct offcpu_thread lost = {
		.previous = {.began = 1100, .ns = 100},
		.left = 1300,
		.back = 1900,
		.tid = 7,
		.lost = 1,
	};

	running_roster(r, &left.event);
	running_event(r, &left.event);
	assert_int_equal(s.ns[RUNNING_RAN], 100);
	running_back(r, &lost);
	running_end(r, &listed.event, 3000);
	assert_int_equal(s.ns[RUNNING_RAN], 100 + 300);
	assert_int_equal(s.ns[RUNNING_LOST], 3000 - 1200 - 300);
	running_free(r);
}

/* Listed at the beginning, and still without a turn at the end; or with one after a while. */
static void new_threads_may_be_listed_before_their_first_turn(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = running_new(on_time, &s);
	struct made never = leaves_after(8, 990, 0, 980, 0), turn = leaves_after(9, 990, 0, 980, 0);
	struct made first = leaves_after(9, 1500, 100, 980, 420);

	never.details.is_first = turn.details.is_first = first.details.is_first = 1;
	running_roster(r, &never.event);
	running_roster(r, &turn.event);
	running_begin(r, BEGIN);
	running_event(r, &first.event);
	assert_int_equal(s.ns[RUNNING_RAN], 100);
	running_end(r, &never.event, 3000);
	assert_int_equal(s.ns[RUNNING_RAN], 100);
	assert_int_equal(s.ns[RUNNING_NOT_YET], 2000);
	running_free(r);
}

/* A build starts many thousand, and not all of their numbers are used again. */
static void many_threads_come_and_go(void **state)
{
	(void)state;
	struct seen s = {};
	struct running *r = begun(&s);
	struct made lasting = leaves(7, 1010, 0);

	running_roster(r, &lasting.event);
	for (uint32_t i = 0; i < 20000; i++) {
		struct made m = leaves_after(100 + i, 2000 + i, 10, 1900 + i, 90);
		m.details.is_first = 1;
		m.details.state = OFFCPU_NONE;
		running_event(r, &m.event);
	}
	assert_int_equal(s.ns[RUNNING_RAN], 20000 * 10);
	running_end(r, &lasting.event, 50000);
	assert_int_equal(s.ns[RUNNING_RAN], 20000 * 10 + 49000);
	running_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_lies_between_two_waits_it_ran),
		cmocka_unit_test(one_that_runs_all_the_time_tells_nothing),
		cmocka_unit_test(nothing_counts_before_the_beginning),
		cmocka_unit_test(what_was_found_may_be_read_late),
		cmocka_unit_test(new_threads_begin_with_their_first_turn),
		cmocka_unit_test(lost_events_leave_what_the_kernel_counts),
		cmocka_unit_test(the_last_events_may_be_lost),
		cmocka_unit_test(new_threads_may_be_listed_before_their_first_turn),
		cmocka_unit_test(many_threads_come_and_go),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

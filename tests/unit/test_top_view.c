#include "unit/unit.h"

#include "query/top_view.h"
#include "unit/sample.h"

#define SECOND 1e9

/* A second of two processes with two threads each, and samples of three processes. */
struct fixture {
	struct profile *profile;
	struct top_interval interval;
	struct top_view view;
};

static void add(struct top_interval *i, uint32_t pid, uint32_t tid, const char *comm,
		const char *thread, double ran, double runnable, const char *container)
{
	top_interval_add(i, &(struct top_account){
				    .pid = pid,
				    .tid = tid,
				    .threads = 1,
				    .comm = comm,
				    .thread = thread,
				    .container = container,
				    .host = "",
				    .ran = ran * SECOND,
				    .runnable = runnable * SECOND,
				    .blocked = (1 - ran - runnable) * SECOND,
				    .idle = TOP_UNKNOWN,
				    .switches = 10,
			    });
}

static void set_up(struct fixture *f, struct profile *p)
{
	struct top_interval *i = &f->interval;

	*f = (struct fixture){.profile = p};
	add(i, 10, 10, "web", "web", 0.5, 0.25, "box");
	add(i, 10, 11, "web", "worker", 0.75, 0, "box");
	add(i, 20, 20, "db", "db", 0, 0, "");
	add(i, 20, 21, "db", "writer", 0.125, 0.5, "");
	i->of = p;
	i->sample_count = p->sample_count;
	i->samples = mem_dup(p->samples, p->sample_count * sizeof(*p->samples));
	i->seconds = 1;
}

static void tear_down(struct fixture *f)
{
	top_view_done(&f->view);
	top_interval_done(&f->interval);
	profile_free(f->profile);
}

static void make(struct fixture *f, struct top_options o)
{
	top_view_make(&f->view, &f->interval, &o);
}

#define assert_near(a, b) assert_true((a) - (b) < 0.01 && (b) - (a) < 0.01)

/* The value of a sample is its count times ten: ns. */
#define SAMPLES                                                                                    \
	SAMPLE("comm=web,pid=10,tid=10,thread=web|main;serve 1",                                   \
	       "comm=web,pid=10,tid=11,thread=worker|start;work;hash 3",                           \
	       "comm=web,pid=10,tid=11,thread=worker|start;work;work 1",                           \
	       "comm=cc1|parse 25000000")

static void rows_are_processes_threads_or_containers(void **state)
{
	(void)state;
	struct fixture f;

	set_up(&f, SAMPLES);
	make(&f, (struct top_options){.sort = TOP_SORT_CPU});
	assert_int_equal(f.view.row_count, 3);
	assert_string_equal(f.view.rows[0].name, "web");
	assert_int_equal(f.view.rows[0].threads, 2);
	assert_near(f.view.rows[0].cpu, 125);
	assert_near(f.view.rows[0].runnable, 25);
	assert_near(f.view.rows[0].blocked, 50);
	assert_near(f.view.rows[0].switches, 20);
	/* It has ended: samples alone tell of it. */
	assert_string_equal(f.view.rows[1].name, "cc1");
	assert_int_equal(f.view.rows[1].pid, 0);
	assert_near(f.view.rows[1].cpu, 25);
	assert_true(f.view.rows[1].runnable < 0 && f.view.rows[1].switches < 0);
	assert_near(f.view.sum.cpu, 162.5);

	make(&f, (struct top_options){.sort = TOP_SORT_RUNNABLE, .by = TOP_BY_THREAD});
	assert_int_equal(f.view.row_count, 5);
	assert_string_equal(f.view.rows[0].name, "writer");
	assert_string_equal(f.view.rows[0].comm, "db");
	assert_int_equal(f.view.rows[0].tid, 21);

	make(&f, (struct top_options){.sort = TOP_SORT_CPU, .by = TOP_BY_CONTAINER});
	assert_int_equal(f.view.row_count, 2);
	assert_string_equal(f.view.rows[0].name, "box");
	assert_string_equal(f.view.rows[1].name, "(none)");
	assert_near(f.view.rows[1].cpu, 37.5);
	tear_down(&f);
}

static void order_and_search(void **state)
{
	(void)state;
	struct fixture f;

	set_up(&f, SAMPLES);
	make(&f, (struct top_options){.sort = TOP_SORT_ID});
	assert_int_equal(f.view.rows[0].pid, 10);
	assert_int_equal(f.view.rows[1].pid, 20);
	assert_int_equal(f.view.rows[2].pid, 0);
	make(&f, (struct top_options){.sort = TOP_SORT_NAME, .reversed = true});
	assert_string_equal(f.view.rows[0].name, "web");
	assert_string_equal(f.view.rows[2].name, "cc1");
	make(&f, (struct top_options){.sort = TOP_SORT_CPU, .search = "WE"});
	assert_int_equal(f.view.row_count, 1);
	assert_int_equal(f.view.all_count, 3);
	make(&f, (struct top_options){.sort = TOP_SORT_CPU, .search = "20"});
	assert_string_equal(f.view.rows[0].name, "db");
	make(&f, (struct top_options){.search = "nothing"});
	assert_int_equal(f.view.row_count, 0);
	assert_int_equal(f.view.function_count, 0);
	tear_down(&f);
}

static void functions_of_the_selected_add_up_to_its_time(void **state)
{
	(void)state;
	struct fixture f;
	char text[64], tiny[8];

	set_up(&f, SAMPLES);
	make(&f, (struct top_options){
			 .sort = TOP_SORT_CPU,
			 .by = TOP_BY_THREAD,
			 .has_selected = true,
			 .selected = {.id = 11},
		 });
	assert_int_equal(f.view.rows[f.view.selected].tid, 11);
	assert_int_equal(f.view.selected_samples, 4);
	assert_string_equal(f.view.functions[0].name, "hash");
	assert_near(f.view.functions[0].self, 75 * 3 / 4.0);
	assert_string_equal(f.view.functions[1].name, "work");
	assert_near(f.view.functions[1].self, 75 / 4.0);
	assert_near(f.view.functions[1].total, 75); /* once, though it calls itself */
	assert_int_equal(f.view.stack_count, 2);
	assert_near(f.view.stacks[0].share, 75 * 3 / 4.0);
	top_view_stack(f.profile, f.view.stacks[0].stack, text, sizeof(text));
	assert_string_equal(text, "hash < work < start");
	top_view_stack(f.profile, f.view.stacks[0].stack, tiny, sizeof(tiny));
	assert_string_equal(tiny, "hash < ");
	tear_down(&f);
}

static void of_all_time_the_parts_come_first_and_idle_is_one(void **state)
{
	(void)state;
	struct fixture f;

	set_up(&f, SAMPLE("comm=web,pid=10,tid=10|[m][running: user];main;serve 25000000",
			  "comm=web,pid=10,tid=10,state=idle|[m][idle];main;poll 50000000",
			  "comm=web,pid=10,tid=10,state=idle|[m][idle];main;accept 25000000"));
	f.interval.is_wall = true;
	make(&f, (struct top_options){.sort = TOP_SORT_CPU, .search = "web"});
	assert_string_equal(f.view.functions[0].name, "[idle]");
	assert_near(f.view.functions[0].self, 75);
	assert_string_equal(f.view.functions[1].name, "[running: user]");
	assert_near(f.view.functions[1].total, 25);
	assert_int_equal(f.view.stack_count, 2);
	for (uint32_t i = 0; i < f.view.function_count; i++)
		assert_string_not_equal(f.view.functions[i].name, "poll");
	tear_down(&f);
}

/* Names are as the kernel has them: anything. */
static void names_are_clean_and_numbers_of_hosts_are_apart(void **state)
{
	(void)state;
	struct top_interval i = {.seconds = 1};
	struct top_view v = {};
	struct top_account a = {
		.pid = 1, .comm = "\033[2J", .thread = "", .container = "", .host = "a", .ran = 1};

	top_interval_add(&i, &a);
	a.host = "b";
	top_interval_add(&i, &a);
	top_view_make(&v, &i, &(struct top_options){.sort = TOP_SORT_CPU});
	assert_int_equal(v.row_count, 2);
	assert_true(v.many_hosts);
	assert_null(strchr(v.rows[0].name, '\033'));
	top_view_done(&v);
	top_interval_done(&i);
	top_view_make(&v, &i, &(struct top_options){}); /* nothing at all */
	assert_int_equal(v.row_count, 0);
	top_view_done(&v);
}

static struct finding make_finding(uint64_t id, double sure, uint64_t until_ms)
{
	struct finding f = {.id = id, .sure = sure, .began_ms = 1000 + id, .until_ms = until_ms};

	return f;
}

static void findings_that_hold_are_kept_the_surest_first(void **state)
{
	const uint64_t end_ms = 1000000;
	const struct finding list[] = {
		make_finding(1, 0.7, end_ms), make_finding(2, 0.9, end_ms - FINDING_OVER_MS + 1),
		make_finding(3, 0.9, end_ms + 5000),
		make_finding(4, 1.0, end_ms - FINDING_OVER_MS), /* over */
	};
	struct top_interval i = {.end_ns = end_ms * 1000000};

	(void)state;
	top_interval_find(&i, list, 4);
	assert_int_equal(i.finding_count, 3);
	assert_int_equal(i.findings[0].id, 2); /* as sure as the other, and older */
	assert_int_equal(i.findings[1].id, 3);
	assert_int_equal(i.findings[2].id, 1);
	top_interval_find(&i, list, 0);
	assert_int_equal(i.finding_count, 0);
	top_interval_done(&i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_processes_threads_or_containers),
		cmocka_unit_test(order_and_search),
		cmocka_unit_test(functions_of_the_selected_add_up_to_its_time),
		cmocka_unit_test(of_all_time_the_parts_come_first_and_idle_is_one),
		cmocka_unit_test(names_are_clean_and_numbers_of_hosts_are_apart),
		cmocka_unit_test(findings_that_hold_are_kept_the_surest_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

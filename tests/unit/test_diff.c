#include "unit/unit.h"

#include "base/pack.h"
#include "profile/snapshot.h"
#include "query/callers.h"
#include "query/top.h"
#include "query/tree.h"
#include "unit/sample.h"

/* The tree as text: "name total/self base_total/base_self" by two spaces a level. */
static char *draw(const struct profile *p, const struct tree_options *o)
{
	struct tree *t = tree_new(p, o);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (uint32_t i = 0; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		uint64_t sum = n->self, base = n->base_self;

		fprintf(f, "%*s%s %lu/%lu %lu/%lu\n", (int)n->depth * 2, "",
			i ? t->functions[n->function].name : "all", n->total, n->self,
			n->base_total, n->base_self);
		for (uint32_t c = i + 1; c < n->next; c = t->nodes[c].next) {
			sum += t->nodes[c].total;
			base += t->nodes[c].base_total;
		}
		assert_int_equal(sum, n->total);
		assert_int_equal(base, n->base_total);
	}
	fclose(f);
	tree_free(t);
	return text;
}

#define assert_tree(p, want, ...)                                                                  \
	do {                                                                                       \
		CLEANUP(freep) char *got_ = draw((p), &(struct tree_options){__VA_ARGS__});        \
		assert_string_equal(got_, (want));                                                 \
	} while (0)

static void both_are_in_the_tree(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("main;a 10", "main;b 5", "main;gone;x 7");
	struct profile *p = SAMPLE("main;a 20", "main;b 5", "main;new;y 3", "main 1");

	assert_tree(p,
		    "all 29/0 22/0\n"
		    "  main 29/1 22/0\n"
		    "    a 20/20 10/10\n"
		    "    b 5/5 5/5\n"
		    "    gone 0/0 7/0\n"
		    "      x 0/0 7/7\n"
		    "    new 3/0 0/0\n"
		    "      y 3/3 0/0\n",
		    .base = base);
	assert_tree(base, "all 22/0 0/0\n  main 22/0 0/0\n    a 10/10 0/0\n    b 5/5 0/0\n"
			  "    gone 7/0 0/0\n      x 7/7 0/0\n");
	profile_free(base);
	profile_free(p);
}

static void what_is_left_out_is_left_out_of_both(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("main;a 100", "main;b 1", "main;c 50");
	struct profile *p = SAMPLE("main;a 100", "main;b 2", "main;c 1", "main;d 1");

	/* c is small in one of them only, and stays. */
	assert_tree(p,
		    "all 104/0 151/0\n"
		    "  main 104/0 151/0\n"
		    "    a 100/100 100/100\n"
		    "    c 1/1 50/50\n"
		    "    [merged] 3/3 1/1\n",
		    .base = base, .min_fraction = 0.1);
	profile_free(base);
	profile_free(p);
}

static void a_base_is_scaled_to_the_same_sum(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("main;a 100", "main;b 300");
	struct profile *p = SAMPLE("main;a 10", "main;b 30");

	assert_tree(p, "all 40/0 40/0\n  main 40/0 40/0\n    a 10/10 10/10\n    b 30/30 30/30\n",
		    .base = base, .normalised = true);
	profile_free(p);
	/* Against nothing there is nothing to scale by. */
	p = profile_new();
	assert_tree(p, "all 0/0 0/0\n", .base = base, .normalised = true);
	assert_tree(base, "all 400/0 0/0\n  main 400/0 0/0\n    a 100/100 0/0\n    b 300/300 0/0\n",
		    .base = p, .normalised = true);
	profile_free(base);
	profile_free(p);
}

static void a_base_is_scaled_by_a_factor(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("main;a 100", "main;b 301");
	struct profile *p = SAMPLE("main;a 10", "main;b 30");

	assert_tree(p,
		    "all 40/0 201/0\n  main 40/0 201/0\n    a 10/10 50/50\n    b 30/30 151/151\n",
		    .base = base, .base_scale = 0.5);
	profile_free(base);
	profile_free(p);
}

static void a_pid_has_the_name_of_its_process(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=nginx,pid=7|main 4", "comm=sh|main 2", "pid=9|main 1");

	assert_tree(p,
		    "all 7/0 0/0\n"
		    "  9 1/0 0/0\n"
		    "    main 1/1 0/0\n"
		    "  nginx (7) 4/0 0/0\n"
		    "    main 4/4 0/0\n"
		    "  sh (short-lived) 2/0 0/0\n"
		    "    main 2/2 0/0\n",
		    .by = "pid");
	profile_free(p);
}

static void labels_group_both(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("comm=x,pid=1|main 3", "main 1");
	struct profile *p = SAMPLE("comm=x,pid=2|main 4", "comm=y|main 5");

	assert_tree(p,
		    "all 9/0 4/0\n"
		    "  [no comm] 0/0 1/0\n"
		    "    main 0/0 1/1\n"
		    "  x 4/0 3/0\n"
		    "    main 4/4 3/3\n"
		    "  y 5/0 0/0\n"
		    "    main 5/5 0/0\n",
		    .base = base, .by = "comm");
	profile_free(base);
	profile_free(p);
}

static void the_table_begins_with_what_changed_most(void **state)
{
	(void)state;
	struct profile *base = SAMPLE("a 100", "b 10", "c 7");
	struct profile *p = SAMPLE("a 101", "b 2", "d 3");
	struct tree *t = tree_new(p, &(struct tree_options){.base = base});
	uint32_t count;
	struct top_row *rows = top_new(t, &count);
	char order[8] = "";

	for (uint32_t i = 0; i < count; i++)
		strcat(order, t->functions[rows[i].function].name);
	assert_string_equal(order, "bcda");
	assert_int_equal(rows[0].self, 2);
	assert_int_equal(rows[0].base_self, 10);
	free(rows);
	tree_free(t);
	profile_free(base);
	profile_free(p);
}

static void callers_and_callees_have_the_same_sum(void **state)
{
	(void)state;
	struct profile *p =
		SAMPLE("comm=x|main;f;g 3", "comm=x|main;h;f;f;k 2", "comm=y|f 4", "main;g 100");
	struct profile *callers = callers_new(p, "f", CALLERS_ALL);
	struct profile *callees = callers_new(p, "f", CALLERS_CALLEES);

	assert_tree(callers, "all 9/0 0/0\n"
			     "  f 9/4 0/0\n"
			     "    h 2/0 0/0\n"
			     "      main 2/2 0/0\n"
			     "    main 3/3 0/0\n");
	assert_tree(callees, "all 9/0 0/0\n"
			     "  f 9/4 0/0\n"
			     "    f 2/0 0/0\n"
			     "      k 2/2 0/0\n"
			     "    g 3/3 0/0\n");
	assert_string_equal(profile_label(callees, callees->samples[2].series, "comm"), "y");
	profile_free(callers);
	profile_free(callees);

	const char *near[4];
	callers = callers_new(p, "nothing", CALLERS_ALL);
	assert_int_equal(callers->sample_count, 0);
	assert_int_equal(callers_suggest(p, "MAI", near, 4), 1);
	assert_string_equal(near[0], "main");
	profile_free(callers);
	profile_free(p);
}

static void a_profile_survives_the_wire(void **state)
{
	(void)state;
	struct profile *p =
		SAMPLE("comm=x,pid=1|main@app;f;[k]g@[kernel] 3", "comm=y|main@app 2", "f 4");
	struct profile *back = profile_new();
	struct pack bytes = {};

	p->info = (struct profile_info){"cpu", "nanoseconds", 10, 123, 456, 7, 8, 9};
	snapshot_write(p, &bytes);
	assert_int_equal(snapshot_read(bytes.bytes, bytes.len, back), 0);
	assert_string_equal(back->info.type, "cpu");
	assert_string_equal(back->info.unit, "nanoseconds");
	assert_int_equal(back->info.period, 10);
	assert_int_equal(back->info.start_ns, 123);
	assert_int_equal(back->info.duration_ns, 456);
	assert_int_equal(back->info.lost, 7);
	assert_int_equal(back->info.truncated, 8);
	assert_int_equal(back->info.capped, 9);
	assert_int_equal(back->sample_count, 3);
	assert_memory_equal(back->samples, p->samples, 3 * sizeof(*p->samples));
	assert_string_equal(profile_label(back, back->samples[0].series, "pid"), "1");
	CLEANUP(freep) char *before = draw(p, &(struct tree_options){.by_comm = true});
	assert_tree(back, before, .by_comm = true);
	profile_free(back);

	/* Whatever is cut off, or changed, is refused or read, and nothing else. */
	for (size_t len = 0; len < bytes.len; len++) {
		back = profile_new();
		assert_true(snapshot_read(bytes.bytes, len, back) < 0);
		profile_free(back);
	}
	for (size_t i = 0; i < bytes.len; i++) {
		back = profile_new();
		bytes.bytes[i] ^= 0x55;
		int r = snapshot_read(bytes.bytes, bytes.len, back);
		assert_true(r == 0 || r == -EBADMSG || r == -EPROTONOSUPPORT || r == -EFBIG);
		bytes.bytes[i] ^= 0x55;
		profile_free(back);
	}
	pack_done(&bytes);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_are_in_the_tree),
		cmocka_unit_test(what_is_left_out_is_left_out_of_both),
		cmocka_unit_test(a_base_is_scaled_to_the_same_sum),
		cmocka_unit_test(a_base_is_scaled_by_a_factor),
		cmocka_unit_test(a_pid_has_the_name_of_its_process),
		cmocka_unit_test(labels_group_both),
		cmocka_unit_test(the_table_begins_with_what_changed_most),
		cmocka_unit_test(callers_and_callees_have_the_same_sum),
		cmocka_unit_test(a_profile_survives_the_wire),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit/unit.h"

#include "query/tree.h"
#include "unit/sample.h"

/* The tree as text: "name total/self" by two spaces a level. */
static char *draw(const struct profile *p, const struct tree_options *o)
{
	struct tree *t = tree_new(p, o);
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	for (uint32_t i = 0; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		fprintf(f, "%*s%s %lu/%lu\n", (int)n->depth * 2, "",
			i ? t->functions[n->function].name : "all", n->total, n->self);
		assert_true(n->next > i && n->next <= t->count);
		assert_true(i == 0 || (n->parent < i && t->nodes[n->parent].next >= n->next));
	}
	fprintf(f, "pruned %lu\n", t->pruned);
	fclose(f);
	tree_free(t);
	return text;
}

#define assert_tree(p, want, ...)                                                                  \
	do {                                                                                       \
		CLEANUP(freep) char *got_ = draw((p), &(struct tree_options){__VA_ARGS__});        \
		assert_string_equal(got_, (want));                                                 \
	} while (0)

static void sums_and_sorts(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main;b;c 3", "main;a 2", "main;b 1", "main;b;c;d 4", "x 5");

	assert_tree(p, "all 15/0\n"
		       "  main 10/0\n"
		       "    a 2/2\n"
		       "    b 8/1\n"
		       "      c 7/3\n"
		       "        d 4/4\n"
		       "  x 5/5\n"
		       "pruned 0\n");
	assert_tree(p,
		    "all 150/0\n"
		    "  main 100/0\n"
		    "    a 20/20\n"
		    "    b 80/10\n"
		    "      c 70/30\n"
		    "        d 40/40\n"
		    "  x 50/50\n"
		    "pruned 0\n",
		    .column = TREE_VALUE);
	profile_free(p);
}

static void prunes_what_is_small(void **state)
{
	(void)state;
	struct profile *p =
		SAMPLE("main;a 1", "main;b;c 60", "main;b;d 9", "main 10", "z 20", "y 0");

	/* 10 of 100 is kept, 9 is not, and 0 never. */
	assert_tree(p,
		    "all 100/0\n"
		    "  main 80/10\n"
		    "    b 69/0\n"
		    "      c 60/60\n"
		    "      [merged] 9/9\n"
		    "    [merged] 1/1\n"
		    "  z 20/20\n"
		    "pruned 3\n",
		    .min_fraction = 0.1);
	assert_tree(p,
		    "all 100/0\n"
		    "  main 80/10\n"
		    "    b 69/0\n"
		    "      [merged] 69/69\n"
		    "    [merged] 1/1\n"
		    "  [merged] 20/20\n"
		    "pruned 5\n",
		    .max_nodes = 2);
	assert_tree(p,
		    "all 100/0\n"
		    "  [merged] 100/100\n"
		    "pruned 7\n",
		    .min_fraction = 1);
	profile_free(p);
}

static void a_cap_keeps_the_largest(void **state)
{
	(void)state;
	struct profile *p = profile_new();

	for (uint64_t i = 1; i <= 5000; i++) {
		char line[64];
		snprintf(line, sizeof(line), "f%lu %lu", i, i * i * i);
		sample_add(p, line);
	}
	for (uint32_t max = 1; max < 6000; max = max * 3 + 1) {
		struct tree *t = tree_new(p, &(struct tree_options){.max_nodes = max});
		uint32_t kept = t->count - 1 - (t->merged != 0);
		uint64_t sum = 0;
		for (uint32_t i = 1; i < t->count; i++)
			sum += t->nodes[i].self;
		assert_int_equal(sum, t->nodes[0].total);
		assert_int_equal(kept + t->pruned, 5000);
		/* As many as fit, but for those whose totals the cap cannot tell apart. */
		assert_true(kept <= max && kept + 120 >= MIN(max, 5000u));
		tree_free(t);
	}
	profile_free(p);
}

static void merges_by_function(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	uint32_t name = sample_string(p, "work"), leaf = sample_string(p, "leaf");

	for (uint32_t i = 0; i < 10; i++) {
		struct frame work = {.name = name, .addr = 0x1000 + i, .line = i};
		struct frame inner = {.name = leaf, .addr = 0x2000 + i % 2};
		uint32_t stack = profile_stack(p, 0, profile_frame(p, &work));
		profile_add(p, 0, profile_stack(p, stack, profile_frame(p, &inner)), 1, 1);
		profile_add(p, 0, stack, 2, 2);
	}
	assert_true(p->has_detail);
	assert_tree(p, "all 30/0\n"
		       "  work 30/20\n"
		       "    leaf 10/10\n"
		       "pruned 0\n");
	profile_free(p);
}

static void same_name_elsewhere_is_another_function(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("read@libc.so 1", "read@app 2", "[k]read@[kernel] 4");
	struct tree *t = tree_new(p, &(struct tree_options){});

	assert_int_equal(t->count, 4);
	assert_int_equal(t->function_count, 4);
	assert_string_equal(t->functions[1].module, "[kernel]");
	assert_int_equal(t->functions[1].kind, FRAME_KERNEL);
	assert_string_equal(t->functions[2].module, "app");
	assert_int_equal(t->nodes[2].total, 2);
	tree_free(t);
	profile_free(p);
}

static void labels_become_root_frames(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("comm=sh,pid=7,thread=sh,tid=7|main 1",
				   "comm=sh,pid=7,thread=io,tid=8|main 2",
				   "comm=sh,pid=9,thread=sh,tid=9|main 4", "main 8");

	assert_tree(p, "all 15/0\n"
		       "  main 15/15\n"
		       "pruned 0\n");
	assert_tree(p,
		    "all 15/0\n"
		    "  main 8/8\n"
		    "  sh 7/0\n"
		    "    main 7/7\n"
		    "pruned 0\n",
		    .by_comm = true);
	assert_tree(p,
		    "all 15/0\n"
		    "  main 8/8\n"
		    "  sh (7) 3/0\n"
		    "    io (8) 2/0\n"
		    "      main 2/2\n"
		    "    sh (7) 1/0\n"
		    "      main 1/1\n"
		    "  sh (9) 4/0\n"
		    "    sh (9) 4/0\n"
		    "      main 4/4\n"
		    "pruned 0\n",
		    .by_process = true, .by_thread = true);
	profile_free(p);
}

static void delimits_and_reverses(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main;read;[k]entry;[k]vfs 3", "[k]idle 1", "main;work 2");

	assert_tree(p,
		    "all 6/0\n"
		    "  idle 1/1\n"
		    "  main 5/0\n"
		    "    read 3/0\n"
		    "      - 3/0\n"
		    "        entry 3/0\n"
		    "          vfs 3/3\n"
		    "    work 2/2\n"
		    "pruned 0\n",
		    .delimited = true);
	assert_tree(p,
		    "all 6/0\n"
		    "  idle 1/1\n"
		    "  vfs 3/0\n"
		    "    entry 3/0\n"
		    "      read 3/0\n"
		    "        main 3/3\n"
		    "  work 2/0\n"
		    "    main 2/2\n"
		    "pruned 0\n",
		    .reversed = true);
	profile_free(p);
}

static void an_empty_profile_is_a_root(void **state)
{
	(void)state;
	struct profile *p = profile_new();

	assert_tree(p, "all 0/0\npruned 0\n");
	profile_add(p, 0, 0, 3, 3);
	assert_tree(p, "all 3/3\npruned 0\n");
	profile_free(p);
}

static void sums_stop_at_the_largest_number(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("a;b 18446744073709551615", "a;c 5");

	assert_tree(p, "all 18446744073709551615/0\n"
		       "  a 18446744073709551615/0\n"
		       "    b 18446744073709551615/18446744073709551615\n"
		       "    c 5/5\n"
		       "pruned 0\n");
	profile_free(p);
}

/* Against sums made the plain way: every stack's frames, walked one by one. */
static void agrees_with_a_plain_sum(void **state)
{
	(void)state;
	enum { NAMES = 5, DEPTH = 6, SAMPLES = 3000 };
	struct profile *p = profile_new();
	uint64_t by_leaf[NAMES] = {}, all = 0;
	unsigned seed = 1;

	for (int i = 0; i < SAMPLES; i++) {
		uint32_t stack = 0;
		int depth = 1 + rand_r(&seed) % DEPTH, name = 0;
		for (int d = 0; d < depth; d++) {
			char spec[8];
			name = rand_r(&seed) % NAMES;
			snprintf(spec, sizeof(spec), "f%d", name);
			stack = profile_stack(p, stack, sample_frame(p, spec));
		}
		uint64_t n = (uint64_t)rand_r(&seed) % 100;
		profile_add(p, 0, stack, n, n);
		by_leaf[name] += n;
		all += n;
	}

	struct tree *t = tree_new(p, &(struct tree_options){});
	uint64_t selves[NAMES] = {};
	for (uint32_t i = 0; i < t->count; i++) {
		const struct tree_node *n = &t->nodes[i];
		uint64_t sum = n->self;
		for (uint32_t c = i + 1; c < n->next; c = t->nodes[c].next) {
			uint32_t sibling = t->nodes[c].next;
			sum += t->nodes[c].total;
			if (sibling < n->next)
				assert_true(t->nodes[c].function < t->nodes[sibling].function);
		}
		assert_int_equal(sum, n->total);
		if (i)
			selves[t->functions[n->function].name[1] - '0'] += n->self;
	}
	assert_int_equal(t->nodes[0].total, all);
	assert_memory_equal(selves, by_leaf, sizeof(selves));
	tree_free(t);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sums_and_sorts),
		cmocka_unit_test(prunes_what_is_small),
		cmocka_unit_test(a_cap_keeps_the_largest),
		cmocka_unit_test(merges_by_function),
		cmocka_unit_test(same_name_elsewhere_is_another_function),
		cmocka_unit_test(labels_become_root_frames),
		cmocka_unit_test(delimits_and_reverses),
		cmocka_unit_test(an_empty_profile_is_a_root),
		cmocka_unit_test(sums_stop_at_the_largest_number),
		cmocka_unit_test(agrees_with_a_plain_sum),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

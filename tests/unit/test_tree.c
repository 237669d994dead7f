#include "unit/unit.h"

#include "query/top.h"
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

static void idle_time_of_all_is_one_frame(void **state)
{
	(void)state;
	struct profile *p = SAMPLE(
		"comm=api,pid=1|[m][idle];loop;[k]wait 900", "comm=db,pid=2|[m][idle];pool 80",
		"comm=api,pid=1|[m][running: user];main;work 18", "comm=api,pid=1|[m][lost] 2");
	struct profile *later =
		SAMPLE("comm=db,pid=2|[m][idle];pool 7", "comm=db,pid=2|[m][running: user];main 1");

	/* Where it is only marked, it stays. */
	assert_tree(p,
		    "all 1000/0\n"
		    "  api 920/0\n"
		    "    [idle] 900/0\n"
		    "      loop 900/0\n"
		    "        wait 900/900\n"
		    "    [lost] 2/2\n"
		    "    [running: user] 18/0\n"
		    "      main 18/0\n"
		    "        work 18/18\n"
		    "  db 80/0\n"
		    "    [idle] 80/0\n"
		    "      pool 80/80\n"
		    "pruned 0\n",
		    .by_comm = true);
	p->info.type = "wall";
	/* 2 of 20 are a tenth. */
	assert_tree(p,
		    "all 1000/0\n"
		    "  [idle] 980/980\n"
		    "  api 20/0\n"
		    "    [lost] 2/2\n"
		    "    [running: user] 18/0\n"
		    "      main 18/0\n"
		    "        work 18/18\n"
		    "pruned 0\n",
		    .by_comm = true, .min_fraction = 0.1);
	assert_tree(p,
		    "all 1000/0\n"
		    "  [idle] 980/0\n"
		    "    api 900/0\n"
		    "      loop 900/0\n"
		    "        wait 900/900\n"
		    "    db 80/0\n"
		    "      pool 80/80\n"
		    "  api 20/0\n"
		    "    [lost] 2/2\n"
		    "    [running: user] 18/0\n"
		    "      main 18/0\n"
		    "        work 18/18\n"
		    "pruned 0\n",
		    .by_comm = true, .idle = true);
	assert_tree(p,
		    "all 1000/0\n"
		    "  [idle] 980/980\n"
		    "  [lost] 2/2\n"
		    "  work 18/0\n"
		    "    main 18/0\n"
		    "      [running: user] 18/18\n"
		    "pruned 0\n",
		    .reversed = true);

	struct tree *t = tree_new(p, &(struct tree_options){.by_comm = true, .base = later});
	assert_true(t->idle);
	assert_int_equal(t->nodes[t->idle].total, 980);
	assert_int_equal(t->nodes[t->idle].base_total, 7);
	tree_free(t);
	t = tree_new(p, &(struct tree_options){.by_comm = true, .idle = true});
	assert_int_equal(t->idle, 0);
	tree_free(t);
	profile_free(p);
	profile_free(later);
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

/* Random stacks, most of few functions, so that these call themselves, and a few of many. */
static struct profile *random_profile(unsigned seed, int samples)
{
	struct profile *p = profile_new();

	for (int i = 0; i < samples; i++) {
		uint32_t stack = 0;
		int depth = rand_r(&seed) % 9;
		for (int d = 0; d < depth; d++) {
			char spec[16];
			int name = rand_r(&seed) % (rand_r(&seed) % 40 ? 12 : 300);
			snprintf(spec, sizeof(spec), name % 7 ? "f%d" : "[m]f%d", name);
			stack = profile_stack(p, stack, sample_frame(p, spec));
		}
		uint64_t n = (uint64_t)rand_r(&seed) % 50;
		profile_add(p, 0, stack, n, n * 3);
	}
	return p;
}

static const struct tree_sum *sum_of(const struct tree *t, const struct tree_function *f)
{
	for (uint32_t i = 1; i < t->function_count; i++)
		if (strcmp(t->functions[i].name, f->name) == 0 && t->functions[i].kind == f->kind)
			return &t->sums[i];
	return NULL;
}

/* The sums of `cut` are those that the whole tree's nodes add up to; returns how many are there. */
static uint32_t assert_sums(const struct tree *cut, const struct tree *whole)
{
	uint32_t count, found = 0;
	struct top_row *rows = top_new(whole, &count);
	struct tree_sum all = {};

	for (uint32_t i = 0; i < count; i++) {
		const struct tree_sum *s = sum_of(cut, &whole->functions[rows[i].function]);
		if (!s)
			continue;
		assert_int_equal(s->self, rows[i].self);
		assert_int_equal(s->total, rows[i].total);
		assert_int_equal(s->base_self, rows[i].base_self);
		assert_int_equal(s->base_total, rows[i].base_total);
		found++;
	}
	for (uint32_t f = 0; f < cut->function_count; f++) {
		all.self += cut->sums[f].self;
		all.base_self += cut->sums[f].base_self;
	}
	assert_int_equal(all.self, cut->nodes[0].total);
	assert_int_equal(all.base_self, cut->nodes[0].base_total);
	assert_int_equal(cut->sums[0].self, cut->nodes[0].self);
	assert_int_equal(cut->sums[0].total, cut->nodes[0].total);
	assert_int_equal(cut->sums[0].base_total, cut->nodes[0].base_total);
	assert_true(found + cut->unlisted >= count);
	free(rows);
	return found;
}

static void functions_are_summed_before_nodes_are_left_out(void **state)
{
	(void)state;
	struct profile *p = random_profile(1, 4000), *base = random_profile(2, 3000);

	for (int kind = 0; kind < 4; kind++) {
		struct tree_options o = {
			.column = kind ? TREE_VALUE : TREE_COUNT,
			.base = kind > 1 ? base : NULL,
			.normalised = kind > 2,
		};
		struct tree *whole = tree_new(p, &o);
		assert_null(whole->sums);
		o.sums = true;
		for (uint32_t max = 0; max < 3000; max = max * 4 + 5) {
			o.max_nodes = max;
			struct tree *cut = tree_new(p, &o);
			assert_true((cut->merged != 0) == (max && max < whole->count - 1));
			assert_int_equal(cut->unlisted, 0);
			assert_true(assert_sums(cut, whole) > 150);
			/* Functions that are all listed leave nothing for the others. */
			if (cut->merged)
				assert_int_equal(cut->sums[cut->merged].total, 0);
			tree_free(cut);
		}
		tree_free(whole);
	}
	profile_free(p);
	profile_free(base);
}

static void functions_beyond_the_cap_are_one_row(void **state)
{
	(void)state;
	struct profile *p = SAMPLE("main;a;b 10", "main;a;b;a 4", "main;c 3", "main;d;c 2",
				   "main;e;f;e 6", "main;g 5", "main;h 1", "main 100");
	struct tree_options o = {.max_nodes = 1, .sums = true, .max_functions = 3};
	struct tree *t = tree_new(p, &o);

	/* main is a node's; of the others a has the largest total and b the largest self. */
	assert_int_equal(t->count, 3);
	assert_int_equal(t->function_count, 5);
	assert_string_equal(t->functions[1].name, "a");
	assert_string_equal(t->functions[2].name, "b");
	assert_string_equal(t->functions[3].name, "main");
	assert_int_equal(t->merged, 4);
	assert_int_equal(t->unlisted, 6);
	assert_int_equal(t->sums[1].self, 4);
	assert_int_equal(t->sums[1].total, 14);
	assert_int_equal(t->sums[2].self, 10);
	assert_int_equal(t->sums[2].total, 14);
	/* c, d, e, f, g, h: each stack with any of them, once. */
	assert_int_equal(t->sums[4].self, 17);
	assert_int_equal(t->sums[4].total, 17);
	tree_free(t);

	/* A cap less than the functions of nodes leaves those, and no others. */
	o.max_functions = 1;
	t = tree_new(p, &o);
	assert_int_equal(t->function_count, 3);
	assert_int_equal(t->unlisted, 8);
	assert_int_equal(t->sums[t->merged].self, 31);
	assert_int_equal(t->sums[t->merged].total, 31);
	tree_free(t);
	profile_free(p);

	p = random_profile(3, 4000);
	struct profile *base = random_profile(4, 4000);
	o = (struct tree_options){.max_nodes = 20, .sums = true, .max_functions = 90, .base = base};
	t = tree_new(p, &o);
	struct tree *whole = tree_new(p, &(struct tree_options){.base = base});
	assert_true(t->unlisted > 50);
	assert_int_equal(t->function_count, 92); /* the root's and TREE_MERGED */
	assert_sums(t, whole);
	tree_free(whole);
	tree_free(t);
	profile_free(base);
	profile_free(p);
}

static void a_function_shows_the_line_that_had_most(void **state)
{
	(void)state;
	struct profile *p = profile_new(), *base = profile_new();
	static const struct {
		const char *source;
		uint32_t line;
		uint64_t count;
		bool in_base;
	} seen[] = {{"a.c", 7, 3, false},
		    {"a.c", 9, 4, false},
		    {"b.c", 7, 2, false},
		    {"a.c", 8, 4, false},
		    {"a.c", 7, 2, true}};

	for (size_t i = 0; i < ARRAY_SIZE(seen); i++) {
		struct profile *into = seen[i].in_base ? base : p;
		struct frame f = {
			.name = sample_string(into, "work"),
			.source = sample_string(into, seen[i].source),
			.line = seen[i].line,
			.addr = 0x1000 + i,
		};
		uint32_t stack = profile_stack(into, 0, profile_frame(into, &f));
		stack = profile_stack(into, stack, sample_frame(into, "leaf"));
		profile_add(into, 0, stack, seen[i].count, 1);
	}
	struct tree *t = tree_new(p, &(struct tree_options){});
	assert_int_equal(t->function_count, 3);
	assert_string_equal(t->functions[1].name, "leaf");
	assert_string_equal(t->functions[1].source, "");
	assert_string_equal(t->functions[2].source, "a.c");
	assert_int_equal(t->functions[2].line, 8); /* as much as 9, and before it */
	tree_free(t);
	/* Both sides of a comparison count. */
	t = tree_new(p, &(struct tree_options){.base = base});
	assert_string_equal(t->functions[2].source, "a.c");
	assert_int_equal(t->functions[2].line, 7);
	tree_free(t);
	profile_free(base);
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
		cmocka_unit_test(idle_time_of_all_is_one_frame),
		cmocka_unit_test(delimits_and_reverses),
		cmocka_unit_test(an_empty_profile_is_a_root),
		cmocka_unit_test(sums_stop_at_the_largest_number),
		cmocka_unit_test(agrees_with_a_plain_sum),
		cmocka_unit_test(functions_are_summed_before_nodes_are_left_out),
		cmocka_unit_test(functions_beyond_the_cap_are_one_row),
		cmocka_unit_test(a_function_shows_the_line_that_had_most),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

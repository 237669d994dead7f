/* The store: what is appended is what is read, whatever happened in between. */
#include "unit/store.h"

static void what_is_appended_is_read(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct truth t = {};
	uint64_t now = BEGIN + DAY - HOUR; /* over midnight */

	sender_init(&d, 1);
	for (int i = 0; i < 6 * 150; i++, now += WINDOW_MS) {
		make(&d, now, 20);
		append(s, &d, &t, now + WINDOW_MS + 500);
	}
	uint64_t from = BEGIN + DAY - HOUR;
	check(s, &t, from, now);
	check(s, &t, from, from + WINDOW_MS);
	check(s, &t, from + 30 * 60000, from + 90 * 60000);
	check(s, &t, from + 30 * 60000 + 70000, from + 90 * 60000 + 130000);
	check(s, &t, 0, UINT64_MAX);
	/* A reader of its own sees the same. */
	struct store *r = open_with(&(struct store_options){.read_only = true});
	check(r, &t, from, now);
	store_close(r);
	store_close(s);
	s = open_with(NULL);
	settle(s, now + HOUR);
	check(s, &t, from, now);
	check(s, &t, from + 123000, now - 777000);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void a_message_is_stored_once(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct truth t = {};
	struct store_stats st;
	uint64_t now = BEGIN;

	sender_init(&d, 2);
	for (int i = 0; i < 40; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, &t, now);
		assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
	}
	/* The same window's second part is another message. */
	d.w.part = 1;
	append(s, &d, &t, now);
	assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
	/* And after all was packed, and the store opened anew. */
	settle(s, now + HOUR);
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(store_append(s, d.dict, &d.w, now + HOUR, NULL), -EEXIST);
	d.w.part = 0;
	assert_int_equal(store_append(s, d.dict, &d.w, now + HOUR, NULL), -EEXIST);
	check(s, &t, BEGIN, now);
	store_stats(s, &st);
	assert_int_equal(st.known, 2);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void late_parts_end_in_the_sums(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d, late;
	struct truth t = {};
	uint64_t now = BEGIN;

	sender_init(&d, 3);
	sender_init(&late, 4);
	for (int i = 0; i < 6 * 180; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		append(s, &d, &t, now);
		/* Now and then what is five minutes, or two hours, old: after its sums were made.
		 */
		if (i % 50 == 49) {
			make(&late, now - 5 * 60000, 3);
			append(s, &late, &t, now);
		}
		if (i % 200 == 199 && now > BEGIN + 2 * HOUR) {
			make(&late, now - 2 * HOUR, 3);
			append(s, &late, &t, now);
			check(s, &t, BEGIN, now + WINDOW_MS);
		}
	}
	check(s, &t, BEGIN, now);
	settle(s, now + HOUR);
	for (uint64_t k = 0; k < 3; k++)
		check(s, &t, BEGIN + k * HOUR, BEGIN + (k + 1) * HOUR);
	check(s, &t, BEGIN, now);

	/* A day later still, in a store that was opened anew. */
	store_close(s);
	s = open_with(NULL);
	make(&late, BEGIN + HOUR, 5);
	append(s, &late, &t, now + DAY);
	check(s, &t, BEGIN, now);
	settle(s, now + DAY + HOUR);
	check(s, &t, BEGIN, now);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
	sender_done(&late);
}

static void remove_file(const char *fmt, ...)
{
	char name[256], path[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	unlink(path);
}

/* Sums outlive the days that they were made of, and are made again from them. */
static void sums_outlive_days_and_are_made_again(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN, all = 0;
	struct truth t = {};

	sender_init(&d, 5);
	for (int i = 0; i < 6 * 130; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		all = d.w.counts.taken;
		append(s, &d, &t, now);
	}
	settle(s, now + HOUR);
	store_close(s);

	/* Without the month's file all is there, and the file is made again. */
	remove_file("roll/2024-10.db");
	s = open_with(NULL);
	check(s, &t, BEGIN, now);
	settle(s, now + 2 * HOUR);
	check(s, &t, BEGIN, now);
	store_close(s);

	/* Without the day its sums are there, to five minutes. */
	remove_file("raw/2024-10-04.db");
	s = open_with(NULL);
	assert_int_equal(total(s, BEGIN, BEGIN + DAY), all);
	struct store_answer a;
	struct profile *p = profile_new();
	struct store_query q = {
		.type = "cpu", .from_ms = BEGIN + 7 * 60000, .to_ms = BEGIN + 8 * 60000};
	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
	assert_int_equal(a.from_ms, BEGIN + 5 * 60000);
	assert_int_equal(a.to_ms, BEGIN + 10 * 60000);
	assert_true(a.samples > 0);
	profile_free(p);
	/* And a timeline of windows says that it has none. */
	struct store_timeline tl;
	q.step_ms = WINDOW_MS;
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_true(tl.is_coarse);
	store_timeline_done(&tl);
	q.step_ms = 300000;
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_false(tl.is_coarse);
	store_timeline_done(&tl);

	/* What comes late is added to them, though the day is a new file. */
	make(&d, BEGIN + 60000, 8);
	append(s, &d, NULL, now + 3 * HOUR);
	settle(s, now + 5 * HOUR);
	assert_int_equal(total(s, BEGIN, BEGIN + DAY), d.w.counts.taken);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

/* Of each block its samples are what the store says of that range alone, and its labels are kept.
 */
static void check_blocks(struct store *s, uint64_t from, uint64_t to, uint64_t block)
{
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu",
				.from_ms = from,
				.to_ms = to,
				.by = both,
				.by_count = 1,
				.block_ms = block};
	uint64_t found[600] = {}, all = 0;

	assert_true((to - from) / block < ARRAY_SIZE(found));
	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		const char *number = profile_label(p, p->samples[i].series, STORE_BLOCK);
		assert_non_null(number);
		assert_non_null(profile_label(p, p->samples[i].series, "comm"));
		assert_null(profile_label(p, p->samples[i].series, "pid"));
		assert_true(strtoul(number, NULL, 10) < ARRAY_SIZE(found));
		found[strtoul(number, NULL, 10)] += p->samples[i].count;
		all += p->samples[i].count;
	}
	assert_int_equal(all, a.samples);
	assert_true(all > 0);
	for (uint64_t i = 0; from + i * block < to; i++)
		assert_int_equal(found[i],
				 total(s, from + i * block, MIN(from + (i + 1) * block, to)));
	profile_free(p);
}

static void blocks_are_the_sums_of_their_ranges(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t from = BEGIN + DAY - HOUR, now = from; /* over midnight */

	sender_init(&d, 9);
	for (int i = 0; i < 6 * 130; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now + WINDOW_MS + 500);
	}
	for (int settled = 0; settled < 2; settled++) {
		check_blocks(s, from, from + HOUR, WINDOW_MS);
		check_blocks(s, from + 70000, from + 2 * HOUR, 60000);
		check_blocks(s, from, from + 2 * HOUR, 5 * 60000);
		check_blocks(s, from + 20000, now, 30 * 60000);
		settle(s, now + 2 * HOUR);
	}
	/* Of a day that is gone sums over five minutes are left: they are in the block they begin
	 * in. */
	store_close(s);
	remove_file("raw/2024-10-04.db");
	s = open_with(NULL);
	check_blocks(s, from, from + HOUR, 5 * 60000);
	check_blocks(s, from, from + HOUR, 15 * 60000);
	store_close(s);
	sender_done(&d);
}

static void labels_select_and_group(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct store_names n;
	struct store_timeline tl;
	uint64_t now = BEGIN, all = 0;

	sender_init(&d, 6);
	for (int i = 0; i < 6 * 20; i++, now += WINDOW_MS) {
		if (i >= 30 && i < 36)
			continue; /* a minute without a collector */
		make(&d, now, 8);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now, .max = 100};
	assert_int_equal(store_names(s, &q, STORE_LABELS, &n, NULL), 0);
	assert_int_equal(n.count, 2);
	assert_string_equal(n.names[0], "comm");
	assert_string_equal(n.names[1], "pid");
	store_names_done(&n);
	q.by = both;
	q.by_count = 1;
	assert_int_equal(store_names(s, &q, STORE_VALUES, &n, NULL), 0);
	assert_int_equal(n.count, 5);
	assert_string_equal(n.names[4], "prog4");
	assert_false(n.cut);
	store_names_done(&n);
	q.max = 3;
	assert_int_equal(store_names(s, &q, STORE_VALUES, &n, NULL), 0);
	assert_int_equal(n.count, 3);
	assert_true(n.cut);
	store_names_done(&n);
	assert_int_equal(store_names(s, &q, STORE_TYPES, &n, NULL), 0);
	assert_int_equal(n.count, 1);
	assert_string_equal(n.names[0], "cpu");
	store_names_done(&n);

	q.step_ms = 60000;
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_int_equal(tl.steps, 20);
	assert_int_equal(tl.start_ms, BEGIN);
	assert_int_equal(tl.line_count, 5);
	for (uint32_t i = 0; i < 20; i++)
		assert_int_equal(tl.covered[i], i != 5);
	assert_int_equal(tl.restarted[0], 1);
	assert_int_equal(tl.restarted[1], 0);
	for (uint32_t i = 0; i < 5; i++) {
		uint64_t sum = 0;
		for (uint32_t k = 0; k < tl.steps; k++)
			sum += tl.lines[i].values[k];
		assert_int_equal(sum, tl.lines[i].total);
		assert_true(i == 0 || tl.lines[i].total <= tl.lines[i - 1].total);
		all += sum;
	}
	assert_string_equal(tl.unit, "nanoseconds");
	assert_null(tl.lines[0].kernel);
	assert_false(tl.is_coarse);
	store_timeline_done(&tl);
	/* By two labels: the values of both, and all of it again. */
	q.by_count = 2;
	q.kernel = true;
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_int_equal(tl.line_count, 5); /* each program has one pid */
	uint64_t of_both = 0;
	for (uint32_t i = 0; i < tl.line_count; i++) {
		assert_int_equal(strncmp(tl.lines[i].value, "prog", 4), 0);
		assert_non_null(strchr(tl.lines[i].value, '\n'));
		assert_non_null(tl.lines[i].kernel);
		of_both += tl.lines[i].total;
	}
	assert_int_equal(of_both, all);
	store_timeline_done(&tl);
	q.kernel = false;
	/* In steps of five minutes, from the sums, it is the same. */
	q.step_ms = 300000;
	q.by_count = 0;
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_int_equal(tl.steps, 4);
	assert_int_equal(tl.line_count, 1);
	assert_int_equal(tl.lines[0].total, all);
	store_timeline_done(&tl);
	q.type = "offcpu";
	assert_int_equal(store_timeline(s, &q, &tl, NULL), 0);
	assert_int_equal(tl.line_count, 0);
	store_timeline_done(&tl);
	store_close(s);
	sender_done(&d);
}

/* A window that is shorter than others belongs to the range that it begins in, to the ms. */
static void a_range_may_be_of_short_windows(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t counts[4];

	sender_init(&d, 6);
	for (int i = 0; i < 4; i++) {
		uint64_t before = d.w.counts.taken;
		make(&d, BEGIN + i * 1000ull, 8);
		d.w.length_ms = 1000;
		append(s, &d, NULL, BEGIN + 4000);
		counts[i] = d.w.counts.taken - before;
	}
	for (int rounded = 0; rounded < 2; rounded++) {
		struct store_query q = {.type = "cpu",
					.from_ms = BEGIN + 1000,
					.to_ms = BEGIN + 3000,
					.unrounded = !rounded};
		struct store_answer a;
		struct profile *p = profile_new();
		assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
		assert_int_equal(a.samples,
				 counts[1] + counts[2] + (rounded ? counts[0] + counts[3] : 0));
		assert_int_equal(a.from_ms, rounded ? BEGIN : BEGIN + 1000);
		assert_int_equal(a.to_ms, rounded ? BEGIN + 4000 : BEGIN + 3000);
		profile_free(p);
	}
	store_close(s);
	sender_done(&d);
}

static bool never(void *ctx, double done)
{
	*(double *)ctx = done;
	return false;
}

/* A stack that was too deep has a mark where frames were left out: answers say how many samples do.
 */
static void samples_whose_stack_was_cut_are_counted(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	struct store_answer a;
	const char *by[] = {"comm"};

	sender_init(&d, 9);
	make(&d, BEGIN, 8);
	struct frame mark = {.name = str(d.dict, "[truncated]"), .kind = FRAME_MARK};
	struct frame named = {.name = str(d.dict, "[truncated]")}; /* a function may be called so */
	struct frame leaf = {.name = str(d.dict, "leaf")};
	uint32_t cut = profile_stack(d.dict, 0, profile_frame(d.dict, &mark));
	uint32_t function = profile_stack(d.dict, 0, profile_frame(d.dict, &named));
	uint32_t on_it = profile_stack(d.dict, cut, profile_frame(d.dict, &leaf));
	d.w.row_count = 3;
	d.w.rows[0] = (struct window_row){d.w.rows[0].series, cut, 2, 2 * PERIOD};
	d.w.rows[1] = (struct window_row){d.w.rows[0].series, function, 4, 4 * PERIOD};
	d.w.rows[2] = (struct window_row){d.w.rows[0].series, on_it, 3, 3 * PERIOD};
	d.w.counts.taken = 9;
	append(s, &d, NULL, BEGIN);
	for (size_t labels = 0; labels <= 1; labels++) {
		struct store_query q = {.type = "cpu",
					.from_ms = BEGIN,
					.to_ms = BEGIN + WINDOW_MS,
					.by = by,
					.by_count = labels};
		struct profile *p = profile_new();
		assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
		assert_int_equal(a.samples, 9);
		assert_int_equal(p->info.truncated, 5);
		profile_free(p);
	}
	store_close(s);
	sender_done(&d);
}

static void a_selection_is_its_share(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN, want = 0, have = 0;
	struct matcher prog1;

	assert_int_equal(matcher_init(&prog1, "comm", MATCHER_REGEX, ".*g1", NULL), 0);

	sender_init(&d, 7);
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 8);
		for (uint32_t k = 0; k < d.w.row_count; k++)
			if (strcmp(profile_label(d.dict, d.w.rows[k].series, "comm"), "prog1") == 0)
				want += d.w.rows[k].value;
		append(s, &d, NULL, now);
	}
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu",
				.from_ms = BEGIN,
				.to_ms = now,
				.matchers = &prog1,
				.matcher_count = 1,
				.by = both,
				.by_count = 1};
	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		assert_string_equal(profile_label(p, p->samples[i].series, "comm"), "prog1");
		assert_null(profile_label(p, p->samples[i].series, "pid"));
		have += p->samples[i].value;
	}
	assert_int_equal(have, want);
	double done = -1;
	struct store *reader = open_with(&(struct store_options){
		.read_only = true, .progress = never, .progress_ctx = &done});
	assert_int_equal(store_sum(reader, &q, p, &a, NULL), -ECANCELED);
	assert_true(done >= 0 && done <= 1);
	store_close(reader);
	profile_free(p);
	matcher_done(&prog1);
	store_close(s);
	sender_done(&d);
}

/* Whoever asks is told so, and gets no part of an answer. */
static void a_pattern_without_end_is_told(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct profile *p = profile_new();
	struct matcher slow;
	struct sender d;

	assert_int_equal(matcher_init(&slow, "comm", MATCHER_REGEX, "(a|a|aa)+[bc]", NULL), 0);
	sender_init(&d, 9);
	d.name = "aaaaaaaaaaaaaaaaaaaaaaaaa";
	make(&d, BEGIN, 8);
	append(s, &d, NULL, BEGIN);
	struct store_query q = {.type = "cpu",
				.from_ms = BEGIN,
				.to_ms = BEGIN + HOUR,
				.matchers = &slow,
				.matcher_count = 1,
				.step_ms = 60000,
				.max = 10};
	struct store_answer a;
	struct store_timeline t = {};
	struct store_names n = {};
	struct store_heat h = {};
	for (int i = 0; i < 4; i++) {
		struct store_error e = {};
		int r = i == 0   ? store_sum(s, &q, p, &a, &e)
			: i == 1 ? store_timeline(s, &q, &t, &e)
			: i == 2 ? store_names(s, &q, STORE_LABELS, &n, &e)
				 : store_heat(s, &q, &h, &e);
		assert_int_equal(r, -EINVAL);
		assert_non_null(strstr(e.text, "takes too long"));
	}
	assert_null(t.lines);
	assert_null(n.names);
	assert_null(h.counts);
	profile_free(p);
	matcher_done(&slow);
	store_close(s);
	sender_done(&d);
}

/* ---- sample times ------------------------------------------------------------------------------
 */

static void times_are_kept_for_a_day(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;
	enum { WINDOWS = 90, SLOTS = WINDOWS * 500 };
	CLEANUP(freep) uint32_t *want = mem_alloc_array(SLOTS, sizeof(*want));
	struct store_heat h;

	sender_init(&d, 8);
	for (int i = 0; i < WINDOWS; i++, now += WINDOW_MS) {
		make(&d, now, 15);
		make_times(&d);
		for (size_t k = 0; k < d.w.time_count; k++)
			want[i * 500 + d.w.times[k]]++;
		append(s, &d, NULL, now);
		if (i == 60) { /* one more part, late */
			make(&d, BEGIN + WINDOW_MS, 15);
			make_times(&d);
			for (size_t k = 0; k < d.w.time_count; k++)
				want[500 + d.w.times[k]]++;
			append(s, &d, NULL, now);
		}
	}
	for (int settled = 0; settled < 2; settled++) {
		struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
		assert_int_equal(store_heat(s, &q, &h, NULL), 0);
		assert_int_equal(h.slots, SLOTS);
		assert_memory_equal(h.counts, want, SLOTS * sizeof(*want));
		store_heat_done(&h);
		/* Any slots, as a profile. */
		for (uint32_t from = 0; from < 45000; from += 4321) {
			struct profile *p = profile_new();
			struct store_answer a;
			uint64_t sum = 0, have = 0;
			for (uint32_t i = from; i < from + 137; i++)
				sum += want[i];
			q.from_ms = BEGIN + from * 20;
			q.to_ms = BEGIN + (from + 137) * 20;
			q.exact = true;
			assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
			for (uint32_t i = 0; i < p->sample_count; i++)
				have += p->samples[i].count;
			assert_int_equal(have, sum);
			assert_int_equal(a.samples, sum);
			assert_int_equal(a.from_ms, q.from_ms);
			assert_int_equal(a.to_ms, q.to_ms);
			profile_free(p);
		}
		/* Beyond what is stored: of that, what there is. */
		struct profile *p = profile_new();
		struct store_answer a;
		q.from_ms = BEGIN - 5020;
		q.to_ms = BEGIN + 137 * 20;
		assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
		assert_int_equal(a.from_ms, BEGIN);
		assert_int_equal(a.to_ms, q.to_ms);
		assert_int_equal(p->info.start_ns, BEGIN * 1000000);
		assert_int_equal(p->info.duration_ns, 137 * 20 * 1000000ull);
		profile_free(p);
		settle(s, now + HOUR);
	}
	/* After their time they are gone; the samples are not. */
	settle(s, now + DAY + 2 * HOUR);
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
	struct profile *p = profile_new();
	struct store_answer a;
	assert_int_equal(store_heat(s, &q, &h, NULL), -ENODATA);
	q.exact = true;
	assert_int_equal(store_sum(s, &q, p, &a, NULL), -ENODATA);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	profile_free(p);
	store_close(s);
	sender_done(&d);
}

/* For tests/golden/test_store_files.py: a store, and what is in it, on stdout. */
static int make_store(const char *path)
{
	struct sender d;
	uint64_t now = BEGIN + DAY - HOUR - 60000;

	snprintf(dir, sizeof(dir), "%s", path);
	struct store *s = open_with(NULL);
	sender_init(&d, 42);
	for (int i = 0; i < 6 * 150; i++, now += WINDOW_MS) {
		make(&d, i == 700 ? now - HOUR : now, 10);
		make_times(&d);
		append(s, &d, NULL, now);
		const uint16_t *t = d.w.times;
		for (uint32_t k = 0; k < d.w.row_count; k++) {
			const struct window_row *r = &d.w.rows[k];
			char text[4096];
			describe(d.dict, r->series, r->stack, text, sizeof(text));
			for (char *c = text; *c; c++)
				*c = *c == '|' ? ' ' : *c;
			text[strlen(text) - 1] = 0; /* the last ; */
			printf("%lu %s %lu %lu ", d.w.start_ms, text, r->count, r->value);
			for (uint64_t n = 0; n < r->count; n++)
				printf("%s%u", n ? "," : "", *t++);
			printf("\n");
		}
	}
	store_close(s);
	sender_done(&d);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "make") == 0)
		return make_store(argv[2]);
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_appended_is_read, setup, teardown),
		cmocka_unit_test_setup_teardown(a_message_is_stored_once, setup, teardown),
		cmocka_unit_test_setup_teardown(late_parts_end_in_the_sums, setup, teardown),
		cmocka_unit_test_setup_teardown(sums_outlive_days_and_are_made_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(blocks_are_the_sums_of_their_ranges, setup,
						teardown),
		cmocka_unit_test_setup_teardown(labels_select_and_group, setup, teardown),
		cmocka_unit_test_setup_teardown(a_range_may_be_of_short_windows, setup, teardown),
		cmocka_unit_test_setup_teardown(samples_whose_stack_was_cut_are_counted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_selection_is_its_share, setup, teardown),
		cmocka_unit_test_setup_teardown(a_pattern_without_end_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(times_are_kept_for_a_day, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The dictionary as a log, the window message, and the blobs that the store makes of windows. */
#include "unit/unit.h"

#include "base/mem.h"
#include "profile/entries.h"
#include "profile/window.h"
#include "store/columns.h"

static uint32_t str(struct profile *p, const char *s)
{
	return profile_string(p, s, strlen(s));
}

/* Adds a program with some stacks and a series, all new. */
static void grow(struct profile *p, int n)
{
	char name[32];
	uint32_t at = 0;

	snprintf(name, sizeof(name), "prog%d", n);
	struct module m = {.name = str(p, name),
			   .path = str(p, "/usr/bin/prog"),
			   .build_id = str(p, "abcdef"),
			   .start = 0x1000,
			   .end = 0xffffffff00,
			   .offset = 7};
	uint32_t module = profile_module(p, &m);
	for (int i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "f%d_%d", n, i);
		struct frame f = {.name = str(p, name),
				  .module = i % 3 ? module : 0,
				  .kind = i % 2 ? FRAME_KERNEL : FRAME_USER,
				  .addr = (uint64_t)i << 40,
				  .source = i % 4 ? 0 : str(p, "x.c"),
				  .line = (uint32_t)i};
		at = profile_stack(p, i % 5 ? at : 0, profile_frame(p, &f));
	}
	struct label l[] = {{str(p, "comm"), str(p, name)}, {str(p, "pid"), str(p, "17")}};
	profile_series(p, l, 2);
}

static void assert_same(const struct profile *a, const struct profile *b)
{
	assert_int_equal(profile_string_count(a), profile_string_count(b));
	for (uint32_t i = 1; i < profile_string_count(a); i++)
		assert_string_equal(profile_str(a, i), profile_str(b, i));
	assert_int_equal(a->module_count, b->module_count);
	for (uint32_t i = 1; i < a->module_count; i++) {
		const struct module *m = &a->modules[i], *n = &b->modules[i];
		assert_int_equal(m->name, n->name);
		assert_int_equal(m->path, n->path);
		assert_int_equal(m->build_id, n->build_id);
		assert_int_equal(m->start, n->start);
		assert_int_equal(m->end, n->end);
		assert_int_equal(m->offset, n->offset);
	}
	assert_int_equal(a->frame_count, b->frame_count);
	for (uint32_t i = 1; i < a->frame_count; i++) {
		const struct frame *f = &a->frames[i], *g = &b->frames[i];
		assert_int_equal(f->name, g->name);
		assert_int_equal(f->module, g->module);
		assert_int_equal(f->kind, g->kind);
		assert_int_equal(f->addr, g->addr);
		assert_int_equal(f->source, g->source);
		assert_int_equal(f->line, g->line);
	}
	assert_int_equal(a->stack_count, b->stack_count);
	assert_memory_equal(a->stacks, b->stacks, a->stack_count * sizeof(*a->stacks));
	assert_int_equal(a->series_count, b->series_count);
	for (uint32_t i = 1; i < a->series_count; i++) {
		assert_int_equal(a->series[i].count, b->series[i].count);
		assert_memory_equal(a->series[i].labels, b->series[i].labels,
				    a->series[i].count * sizeof(struct label));
	}
}

static int feed(struct profile *p, const struct pack *bytes)
{
	struct unpack in = {bytes->bytes, bytes->bytes + bytes->len, false};
	int r = entries_read(p, &in);

	if (!r)
		assert_ptr_equal(in.at, in.end);
	return r;
}

static void a_dictionary_goes_in_batches(void **state)
{
	(void)state;
	struct profile *p = profile_new(), *copy = profile_new();
	struct entries_mark mark = {};
	struct pack batch = {};
	int batches = 0;

	assert_false(entries_pending(p, &mark));
	for (int i = 0; i < 10; i++) {
		grow(p, i);
		assert_true(entries_pending(p, &mark));
		/* Some bytes at a time, so that sections end anywhere. */
		for (bool all = false; !all; batches++) {
			batch.len = 0;
			all = entries_write(p, &mark, (size_t)(20 + i * 50), &batch);
			assert_int_equal(feed(copy, &batch), 0);
		}
		assert_false(entries_pending(p, &mark));
		assert_same(p, copy);
	}
	assert_true(batches > 20);
	/* Nothing new is a batch as well; an old one is refused and changes nothing. */
	batch.len = 0;
	assert_true(entries_write(p, &mark, 1000, &batch));
	assert_int_equal(feed(copy, &batch), 0);
	batch.len = 0;
	mark = (struct entries_mark){};
	entries_write(p, &mark, SIZE_MAX / 2, &batch);
	assert_int_equal(feed(copy, &batch), -ESTALE);
	assert_same(p, copy);
	pack_done(&batch);
	profile_free(p);
	profile_free(copy);
}

static void half_a_batch_is_refused(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct entries_mark mark = {};
	struct pack batch = {};

	grow(p, 1);
	entries_write(p, &mark, SIZE_MAX / 2, &batch);
	for (size_t len = 0; len < batch.len; len++) {
		struct profile *copy = profile_new();
		struct pack part = {batch.bytes, len, 0};
		assert_true(feed(copy, &part) < 0);
		profile_free(copy);
	}
	/* The same string twice: ids would not be what they seem. */
	static const uint8_t twice[] = {1, 1, 2, 1, 'a', 1, 'a', 1, 0, 1, 0, 1, 0, 1, 0};
	struct profile *copy = profile_new();
	struct pack given = {(uint8_t *)twice, sizeof(twice), 0};
	assert_int_equal(feed(copy, &given), -EBADMSG);
	profile_free(copy);
	pack_done(&batch);
	profile_free(p);
}

/* ---- the message -------------------------------------------------------------------------------
 */

static struct window_row rows[] = {{0, 0, 3, 300}, {1, 2, 1, 100}, {1, 5, 2, 207}, {2, 1, 1, 100}};
static uint16_t times[] = {0, 7, 499, 3, 250, 250, 12};

static struct window a_window(void)
{
	struct window w = {
		.instance = "sixteen bytes..",
		.sequence = 1ull << 40,
		.part = 3,
		.epoch = 9,
		.start_ms = 1700000000000,
		.length_ms = 10000,
		.type = "cpu",
		.unit = "nanoseconds",
		.period = 100,
		.counts = {.base = 5, .taken = 1ull << 50, .lost = {1, 2, 3, 4}},
		.rows = rows,
		.row_count = 4,
		.times = times,
		.time_count = 7,
	};

	return w;
}

static void a_window_arrives_as_it_was_sent(void **state)
{
	(void)state;
	struct profile *p = profile_new(), *copy = profile_new();
	struct entries_mark mark = {};
	struct window w = a_window(), r;
	struct window_metric metric = {"smolder_x{a=\"b\"}", 1.25};
	struct pack out = {};

	grow(p, 1);
	grow(p, 2);
	w.metrics = &metric;
	w.metric_count = 1;
	window_write(&w, p, &mark, SIZE_MAX / 2, &out);
	assert_int_equal(window_peek(out.bytes, out.len, &r), 0);
	assert_int_equal(r.sequence, w.sequence);
	assert_int_equal(window_read(out.bytes, out.len, copy, &r), 0);
	assert_same(p, copy);
	assert_memory_equal(r.instance, w.instance, 16);
	assert_int_equal(r.part, 3);
	assert_int_equal(r.epoch, 9);
	assert_int_equal(r.start_ms, w.start_ms);
	assert_string_equal(r.type, "cpu");
	assert_string_equal(r.unit, "nanoseconds");
	assert_memory_equal(&r.counts, &w.counts, sizeof(w.counts));
	assert_int_equal(r.row_count, 4);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(r.rows[i].series, rows[i].series);
		assert_int_equal(r.rows[i].stack, rows[i].stack);
		assert_int_equal(r.rows[i].count, rows[i].count);
		assert_int_equal(r.rows[i].value, rows[i].value);
	}
	assert_int_equal(r.time_count, 7);
	assert_memory_equal(r.times, times, sizeof(times));
	assert_int_equal(r.metric_count, 1);
	assert_string_equal(r.metrics[0].name, metric.name);
	assert_true(r.metrics[0].value == 1.25);
	window_done(&r);

	/* Cut anywhere, it is refused. */
	for (size_t len = 0; len < out.len; len++) {
		struct profile *other = profile_new();
		assert_true(window_read(out.bytes, len, other, &r) < 0);
		profile_free(other);
	}
	/* Twice: the entries are there already. */
	assert_int_equal(window_read(out.bytes, out.len, copy, &r), -ESTALE);
	/* Another version. */
	out.bytes[3]++;
	assert_int_equal(window_read(out.bytes, out.len, copy, &r), -EPROTONOSUPPORT);
	pack_done(&out);
	profile_free(p);
	profile_free(copy);
}

static void rows_out_of_order_are_refused(void **state)
{
	(void)state;
	struct window_row bad[][2] = {
		{{1, 2, 1, 1}, {1, 2, 1, 1}},     /* twice */
		{{1, 3, 1, 1}, {1, 2, 1, 1}},     /* backwards */
		{{1, 2, 1, 1}, {1, 10000, 1, 1}}, /* no such stack */
		{{1, 2, 1, 1}, {900, 2, 1, 1}},   /* no such series */
		{{1, 2, 1, 1}, {1, 3, 0, 1}},     /* never seen */
	};

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		struct profile *p = profile_new(), *copy = profile_new();
		struct entries_mark mark = {};
		struct window w = a_window(), r;
		struct pack out = {};
		grow(p, 1);
		w.rows = bad[i];
		w.row_count = 2;
		w.times = NULL;
		window_write(&w, p, &mark, SIZE_MAX / 2, &out);
		assert_int_equal(window_read(out.bytes, out.len, copy, &r), -EBADMSG);
		pack_done(&out);
		profile_free(p);
		profile_free(copy);
	}
}

static void a_reply_arrives_as_it_was_sent(void **state)
{
	(void)state;
	struct window_reply w = {.instance = "sixteen bytes..",
				 .sequence = 5,
				 .part = 1,
				 .status = WINDOW_LATER,
				 .live_until_ms = 1ull << 45,
				 .flush = true,
				 .reason = "the disk is full"},
			    r;
	struct pack out = {};

	window_reply_write(&w, &out);
	assert_int_equal(window_reply_read(out.bytes, out.len, &r), 0);
	assert_memory_equal(r.instance, w.instance, 16);
	assert_int_equal(r.sequence, 5);
	assert_int_equal(r.part, 1);
	assert_int_equal(r.status, WINDOW_LATER);
	assert_int_equal(r.live_until_ms, w.live_until_ms);
	assert_true(r.flush);
	assert_string_equal(r.reason, w.reason);
	for (size_t len = 0; len < out.len; len++)
		assert_true(window_reply_read(out.bytes, len, &r) < 0);
	pack_done(&out);
}

/* ---- blobs -------------------------------------------------------------------------------------
 */

static void blobs_hold_what_was_put_in(void **state)
{
	(void)state;
	struct columns c = {};
	struct columns_reader r = {};
	struct columns_times t = {};
	struct columns_row row;
	struct compressor z = {};
	struct pack blob = {}, when = {};
	uint16_t one[] = {5, 400}, two[] = {7}, *steps = NULL;
	size_t cap = 0;
	uint32_t known, n = 0;

	/* Windows and rows out of order, and a row in two parts. */
	uint32_t late = columns_window(&c, 1700000010000, 10000);
	uint32_t early = columns_window(&c, 1700000000000, 10000);
	assert_int_equal(columns_window(&c, 1700000010000, 10000), late);
	columns_add(&c, 7, 9, late, 2, 201, one, 2);
	columns_add(&c, 7, 9, early, 1, 100, two, 1);
	columns_add(&c, 2, 1u << 23, late, 4, 400, NULL, 0);
	columns_add(&c, 7, 9, late, 1, 100, two, 1);
	c.windows[late].restarted = true;
	c.windows[late].lost = 77;
	columns_sort_merge(&c);
	assert_int_equal(c.row_count, 3);
	columns_write(&c, 100, 3, &z, &blob);
	columns_write_times(&c, 3, &z, &when);

	static const struct {
		uint32_t series, stack, window;
		uint64_t count, value;
		uint32_t known;
		uint16_t times[3];
	} want[] = {
		{2, 1u << 23, 1, 4, 400, 0, {}},
		{7, 9, 0, 1, 100, 1, {7}},
		{7, 9, 1, 3, 301, 3, {5, 7, 400}},
	};
	assert_int_equal(columns_open(&r, blob.bytes, blob.len, 100), 0);
	assert_int_equal(columns_times_open(&t, when.bytes, when.len), 0);
	assert_int_equal(r.window_count, 2);
	assert_int_equal(r.windows[0].start_ms, 1700000000000);
	assert_true(r.windows[1].restarted && !r.windows[0].restarted);
	assert_int_equal(r.windows[1].lost, 77);
	for (; columns_next(&r, &row); n++) {
		assert_int_equal(COLUMNS_SERIES(row.key), want[n].series);
		assert_int_equal(COLUMNS_STACK(row.key), want[n].stack);
		assert_int_equal(COLUMNS_WINDOW(row.key), want[n].window);
		assert_int_equal(row.count, want[n].count);
		assert_int_equal(row.value, want[n].value);
		assert_true(columns_times_next(&t, row.count, &steps, &cap, &known));
		assert_int_equal(known, want[n].known);
		for (uint32_t i = 0; i < known; i++)
			assert_int_equal(steps[i], want[n].times[i]);
	}
	assert_int_equal(n, 3);
	assert_false(r.bad);
	/* A bit that changed is found. */
	for (size_t i = 0; i < blob.len; i++) {
		blob.bytes[i] ^= 4;
		int bad = columns_open(&r, blob.bytes, blob.len, 100);
		while (!bad && columns_next(&r, &row))
			;
		assert_true(bad || r.bad ||
			    i < 6); /* the head of a frame has bits without a meaning */
		blob.bytes[i] ^= 4;
	}
	free(steps);
	columns_done(&c);
	columns_reader_done(&r);
	columns_times_done(&t);
	compressor_done(&z);
	pack_done(&blob);
	pack_done(&when);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dictionary_goes_in_batches),
		cmocka_unit_test(half_a_batch_is_refused),
		cmocka_unit_test(a_window_arrives_as_it_was_sent),
		cmocka_unit_test(rows_out_of_order_are_refused),
		cmocka_unit_test(a_reply_arrives_as_it_was_sent),
		cmocka_unit_test(blobs_hold_what_was_put_in),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

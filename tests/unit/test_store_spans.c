/* Spans of traces: in a message, and in the store. */
#include "unit/store.h"

#include "profile/matcher.h"

/* A message of spans: of `count` stacks one sample each, each in a span of its own of a trace. */
static void make_spans(struct sender *s, uint64_t start, uint8_t trace, uint32_t count)
{
	struct window *w = &s->w;

	make(s, start, 0);
	free(w->spans);
	free(w->span_rows);
	w->spans = mem_alloc_array(count, sizeof(*w->spans));
	w->span_rows = mem_alloc_array(count, sizeof(*w->span_rows));
	w->span_count = w->span_row_count = count;
	uint32_t id = series(s, 1);
	for (uint32_t i = 0; i < count; i++) {
		memset(w->spans[i].trace, trace, sizeof(w->spans[i].trace));
		memcpy(w->spans[i].span, &(uint64_t){((uint64_t)trace << 32) + i + 1},
		       sizeof(w->spans[i].span));
		w->spans[i].span[7] = (uint8_t)next(s); /* they do not shrink */
		char name[32];
		snprintf(name, sizeof(name), "f%u", i);
		struct frame f = {.name = str(s->dict, name)};
		w->span_rows[i] = (struct window_span_row){
			id, profile_stack(s->dict, 0, profile_frame(s->dict, &f)), i, 1 + i % 2,
			(1 + i % 2) * PERIOD + i};
	}
}

static void spans_done(struct sender *s)
{
	free(s->w.spans);
	free(s->w.span_rows);
	sender_done(s);
}

static void a_message_carries_spans(void **state)
{
	struct pack message = {};
	struct entries_mark mark = {};
	struct sender s;
	struct window w;
	unsigned read = 0;

	(void)state;
	sender_init(&s, 5);
	make_spans(&s, BEGIN, 0xab, 300);
	window_write(&s.w, s.dict, &mark, SIZE_MAX, &message);
	struct profile *dict = profile_new();
	assert_int_equal(window_read(message.bytes, message.len, dict, &w), 0);
	assert_true(window_is_spans(&w) && !window_is_findings(&w));
	assert_int_equal(w.span_count, 300);
	assert_memory_equal(w.spans, s.w.spans, 300 * sizeof(*w.spans));
	assert_int_equal(w.span_row_count, 300);
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(w.span_rows[i].count, s.w.span_rows[i].count);
		assert_int_equal(w.span_rows[i].value, s.w.span_rows[i].value);
	}
	window_done(&w);
	profile_free(dict);
	/* A part of one is none. */
	for (size_t len = 0; len < message.len; len += 7) {
		uint8_t *exact = mem_dup(message.bytes, len + 1);
		dict = profile_new();
		if (window_read(exact, len, dict, &w) == 0) {
			read += w.span_row_count != 0;
			window_done(&w);
		}
		profile_free(dict);
		free(exact);
	}
	assert_int_equal(read, 0);
	pack_done(&message);
	spans_done(&s);
}

static uint64_t asked(struct store *s, uint64_t from, uint64_t to, const char *label,
		      const char *value, struct profile **ret)
{
	struct profile *p = profile_new();
	struct matcher m;
	struct store_answer a = {};
	struct store_error e;
	struct matcher_error why;

	assert_int_equal(matcher_init(&m, label, MATCHER_EQUAL, value, &why), 0);
	struct store_query q = {
		.type = "cpu", .from_ms = from, .to_ms = to, .matchers = &m, .matcher_count = 1};
	assert_int_equal(store_sum(s, &q, p, &a, &e), 0);
	matcher_done(&m);
	if (ret)
		*ret = p;
	else
		profile_free(p);
	return a.samples;
}

#define TRACE_A "abababababababababababababababab"
#define TRACE_B "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"

static void what_a_trace_ran_is_found(void **state)
{
	struct store *s = open_with(NULL);
	struct store_error e;
	struct profile *p;
	struct sender d;

	(void)state;
	sender_init(&d, 6);
	make(&d, BEGIN, 50);
	append(s, &d, NULL, BEGIN + 10000);
	make_spans(&d, BEGIN, 0xab, 100);
	append(s, &d, NULL, BEGIN + 10000);
	/* Whatever is repeated is stored once. */
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN + 10000, &e), -EEXIST);
	make_spans(&d, BEGIN + 20000, 0xcd, 10);
	append(s, &d, NULL, BEGIN + 30000);
	make_spans(&d, BEGIN + DAY, 0xab, 4); /* the same trace, in another file */
	append(s, &d, NULL, BEGIN + DAY + 10000);
	for (int turn = 0; turn < 2; turn++) {
		assert_int_equal(asked(s, BEGIN, BEGIN + HOUR, "trace_id", TRACE_A, &p), 150);
		assert_string_equal(profile_label(p, p->samples[0].series, "trace_id"), TRACE_A);
		assert_int_equal(p->info.period, PERIOD);
		uint64_t value = 0;
		for (uint32_t i = 0; i < p->sample_count; i++)
			value += p->samples[i].value;
		assert_int_equal(value, 150 * PERIOD + 99 * 100 / 2);
		profile_free(p);
		assert_int_equal(asked(s, BEGIN, BEGIN + 2 * DAY, "trace_id", TRACE_A, NULL), 156);
		assert_int_equal(asked(s, BEGIN, BEGIN + DAY, "trace_id", TRACE_B, NULL), 15);
		assert_int_equal(asked(s, BEGIN, BEGIN + 10000, "trace_id", TRACE_B, NULL), 0);
		assert_int_equal(asked(s, BEGIN, BEGIN + DAY, "trace_id", "", NULL), 0);
		/* Packing and rolling up leave them alone. */
		settle(s, BEGIN + DAY + HOUR);
		store_close(s);
		s = open_with(NULL);
	}
	/* They go when sample times do; what was counted stays. */
	uint64_t all = total(s, BEGIN, BEGIN + DAY);
	settle(s, BEGIN + 3 * DAY);
	assert_int_equal(asked(s, BEGIN, BEGIN + DAY, "trace_id", TRACE_A, NULL), 0);
	assert_int_equal(total(s, BEGIN, BEGIN + DAY), all);
	store_close(s);
	spans_done(&d);
}

static void the_oldest_spans_go_for_room(void **state)
{
	struct store_options o = {.max_bytes = 32 << 20}; /* a MiB for spans of a day */
	struct store *s = open_with(&o);
	struct store_stats st;
	struct sender d;

	(void)state;
	sender_init(&d, 7);
	make_spans(&d, BEGIN, 0xab, 100);
	append(s, &d, NULL, BEGIN + 10000);
	for (unsigned i = 1; i < 400; i++) {
		make_spans(&d, BEGIN + i * 10000, 0xcd, 1500);
		append(s, &d, NULL, BEGIN + i * 10000 + 10000);
	}
	store_stats(s, &st);
	assert_true(st.spans_expired > 0);
	assert_int_equal(asked(s, BEGIN, BEGIN + DAY, "trace_id", TRACE_A, NULL), 0);
	assert_int_equal(asked(s, BEGIN + 399 * 10000, BEGIN + DAY, "trace_id", TRACE_B, NULL),
			 2250);
	store_close(s);
	spans_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_carries_spans),
		cmocka_unit_test_setup_teardown(what_a_trace_ran_is_found, setup, teardown),
		cmocka_unit_test_setup_teardown(the_oldest_spans_go_for_room, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

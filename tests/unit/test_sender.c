/* A sender against a server that forgets, answers late, or not at all: nothing twice, nothing lost.
 */
#include "unit/unit.h"

#include "base/mem.h"
#include "pipeline/sender.h"

#define SEEN_MAX 100000

struct server {
	struct profile *dict;
	uint32_t epoch;
	uint64_t stored;             /* samples */
	struct window_counts counts; /* of the last message that was stored */
	uint64_t seen[SEEN_MAX][2];
	size_t seen_count;
	unsigned resets, known;
};

static uint8_t instance[16] = "an instance";

static bool seen(struct server *s, uint64_t sequence, uint32_t part)
{
	for (size_t i = 0; i < s->seen_count; i++)
		if (s->seen[i][0] == sequence && s->seen[i][1] == part)
			return true;
	return false;
}

static void forget(struct server *s)
{
	profile_free(s->dict);
	s->dict = NULL;
}

static void receive(struct server *s, const struct pack *m, struct window_reply *reply)
{
	struct window w;

	assert_true(m->len <= WINDOW_MESSAGE_MAX);
	assert_int_equal(window_peek(m->bytes, m->len, &w), 0);
	*reply = (struct window_reply){.sequence = w.sequence, .part = w.part};
	memcpy(reply->instance, w.instance, 16);
	if (!s->dict || w.epoch != s->epoch) {
		forget(s);
		s->dict = profile_new();
		s->epoch = w.epoch;
	}
	int r = window_read(m->bytes, m->len, s->dict, &w);
	if (r == -ESTALE) {
		forget(s);
		s->resets++;
		reply->status = WINDOW_RESET;
		return;
	}
	assert_int_equal(r, 0);
	reply->status = WINDOW_STORED;
	s->counts = w.counts;
	if (w.part != WINDOW_NO_PART && seen(s, w.sequence, w.part)) {
		reply->status = WINDOW_DUPLICATE;
		s->known++;
	} else if (w.part != WINDOW_NO_PART) {
		s->seen[s->seen_count][0] = w.sequence;
		s->seen[s->seen_count++][1] = w.part;
		uint64_t times = 0;
		for (uint32_t i = 0; i < w.row_count; i++) {
			/* What the ids mean is what was sent: the frame's name is the stack's
			 * number. */
			char want[32];
			const struct frame *f =
				&s->dict->frames[s->dict->stacks[w.rows[i].stack].frame];
			snprintf(want, sizeof(want), "f%u", w.rows[i].stack);
			assert_string_equal(profile_str(s->dict, f->name), want);
			s->stored += w.rows[i].count;
			times += w.rows[i].count;
		}
		if (w.times)
			assert_int_equal(times, w.time_count);
	}
	window_done(&w);
}

static void grow(struct profile *p, uint32_t stacks)
{
	while (p->stack_count <= stacks) {
		char name[32];
		snprintf(name, sizeof(name), "f%u", p->stack_count);
		uint32_t f = profile_frame(
			p, &(struct frame){.name = profile_string(p, name, strlen(name))});
		profile_stack(p, 0, f);
	}
}

static struct window make(struct profile *p, uint32_t rows, uint64_t count)
{
	struct window w = {.length_ms = 10000,
			   .start_ms = 1000,
			   .type = "cpu",
			   .unit = "nanoseconds",
			   .period = 7};

	grow(p, rows);
	w.rows = mem_alloc_array(rows + 1, sizeof(*w.rows));
	w.times = mem_alloc_array(rows * count + 1, sizeof(*w.times));
	for (uint32_t i = 0; i < rows; i++)
		w.rows[w.row_count++] = (struct window_row){0, i + 1, count, count * 7 + i % 3};
	w.time_count = rows * count;
	return w;
}

static void windows_arrive_whatever_happens(void **state)
{
	(void)state;
	struct server *server = mem_alloc(sizeof(*server));
	struct profile *dict = profile_new();
	struct sender *s = sender_new(dict, instance, 64 << 20);
	struct window_counts counts = {};
	struct window_reply reply = {};
	uint64_t total = 0;
	unsigned seed = 7;

	for (int i = 0; i < 60; i++) {
		uint32_t rows = (uint32_t)(rand_r(&seed) % 9000);
		uint64_t count = 1 + (uint64_t)(rand_r(&seed) % 3);
		struct window w = make(dict, rows, count);
		total += rows * count;
		sender_push(s, 0, &w);
		assert_null(w.rows);

		const struct pack *m;
		for (int step = 0; step < 200 && (m = sender_message(s, &counts)); step++) {
			int luck = rand_r(&seed) % 10;
			if (luck == 0) { /* it never arrived */
				sender_again(s);
				continue;
			}
			receive(server, m, &reply);
			if (luck == 1) { /* stored, but the answer was lost with the server */
				forget(server);
				sender_again(s);
				continue;
			}
			if (luck == 2) /* a server begins anew */
				forget(server);
			struct pack bytes = {};
			struct window_reply got;
			window_reply_write(&reply, &bytes);
			assert_int_equal(sender_reply(s, bytes.bytes, bytes.len, &got), 0);
			assert_int_equal(sender_reply(s, bytes.bytes, bytes.len, &got), -EALREADY);
			pack_done(&bytes);
		}
	}
	struct sender_stats stats;
	sender_stats(s, &stats);
	assert_int_equal(stats.waiting, 0);
	assert_int_equal(stats.waiting_samples, 0);
	assert_int_equal(stats.sent_samples, total);
	assert_int_equal(server->stored, total);
	assert_true(server->resets > 5 && server->known > 5);
	sender_free(s);
	profile_free(dict);
	forget(server);
	free(server);
}

static void the_oldest_go_when_nobody_listens(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct sender *s = sender_new(dict, instance, 1 << 20);
	struct window_counts counts = {.taken = 12345};
	struct sender_stats stats;

	sender_uncounted(s, 0);
	for (int i = 0; i < 1000; i++) {
		struct window w = make(dict, 1000, 2);
		sender_push(s, 0, &w);
		if (i == 3) /* one is on its way: it may be stored already, so it stays */
			assert_non_null(sender_message(s, &counts));
	}
	sender_stats(s, &stats);
	assert_true(stats.waiting > 2 && stats.waiting < 100);
	assert_int_equal(stats.dropped_windows + stats.waiting, 1000);
	assert_int_equal(stats.dropped_samples + stats.waiting_samples, 1000 * 2000);

	struct server *server = mem_alloc(sizeof(*server));
	struct window_reply reply, got;
	const struct pack *m;
	sender_again(s);
	while ((m = sender_message(s, &counts))) {
		receive(server, m, &reply);
		/* At any moment, should we be killed: what was taken is stored or lost. The first
		 * message was made before anything was dropped. */
		uint64_t lost = server->counts.lost[WINDOW_LOST_BUFFER];
		assert_true(lost == 0 || lost == stats.dropped_samples);
		assert_int_equal(server->counts.taken, server->stored + lost);
		struct pack bytes = {};
		window_reply_write(&reply, &bytes);
		assert_int_equal(sender_reply(s, bytes.bytes, bytes.len, &got), 0);
		pack_done(&bytes);
	}
	assert_int_equal(server->stored, stats.waiting_samples);
	forget(server);
	free(server);
	sender_free(s);
	profile_free(dict);
}

static void one_row_of_very_many_samples_goes_without_times(void **state)
{
	(void)state;
	struct server *server = mem_alloc(sizeof(*server));
	struct profile *dict = profile_new();
	struct sender *s = sender_new(dict, instance, 0);
	struct window_counts counts = {};
	struct window_reply reply, got;
	struct window w = make(dict, 3, 200000);
	const struct pack *m;

	sender_push(s, 0, &w);
	while ((m = sender_message(s, &counts))) {
		receive(server, m, &reply);
		struct pack bytes = {};
		window_reply_write(&reply, &bytes);
		assert_int_equal(sender_reply(s, bytes.bytes, bytes.len, &got), 0);
		pack_done(&bytes);
	}
	assert_int_equal(server->stored, 600000);
	assert_int_equal(server->seen_count, 3);
	forget(server);
	free(server);
	sender_free(s);
	profile_free(dict);
}

static void what_makes_no_sense_is_refused(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct sender *s = sender_new(dict, instance, 0);
	struct window_counts counts = {.base = 5, .taken = 9};
	struct window w = make(dict, 20, 2);

	sender_push(s, 0, &w);
	const struct pack *m = sender_message(s, &counts);
	for (size_t len = 0; len < m->len; len++) { /* half a message */
		struct profile *d = profile_new();
		assert_true(window_read(m->bytes, len, d, &w) < 0);
		profile_free(d);
	}
	unsigned seed = 3;
	for (int i = 0; i < 20000; i++) { /* a damaged one: refused, or well-formed by chance */
		struct profile *d = profile_new();
		uint8_t *bytes = mem_dup(m->bytes, m->len);
		bytes[(size_t)rand_r(&seed) % m->len] ^= (uint8_t)(1 << rand_r(&seed) % 8);
		if (window_read(bytes, m->len, d, &w) == 0)
			window_done(&w);
		free(bytes);
		profile_free(d);
	}
	struct window_reply r;
	assert_int_equal(sender_reply(s, "SMR", 3, &r), -EBADMSG);
	sender_free(s);
	profile_free(dict);
}

/* More than a message holds: in several, behind the rows, each with the spans that it refers to. */
static void spans_follow_in_messages_of_their_own(void **state)
{
	struct profile *dict = profile_new(), *there = profile_new();
	struct sender *s = sender_new(dict, instance, 64 << 20);
	struct window_counts counts = {};
	struct window w = make(dict, 100, 1), got;
	uint32_t rows = 0, messages = 0, spans = 5000;
	struct pack reply = {};
	const struct pack *m;

	(void)state;
	w.spans = mem_alloc_array(spans, sizeof(*w.spans));
	w.span_rows = mem_alloc_array(spans, sizeof(*w.span_rows));
	w.span_count = w.span_row_count = spans;
	for (uint32_t i = 0; i < spans; i++) {
		memcpy(w.spans[i].span, &i, sizeof(i));
		w.span_rows[i] = (struct window_span_row){0, 1 + i / 50, spans - 1 - i, 1, 7 + i};
	}
	for (uint32_t i = 0; i < spans; i += 50) /* ascending where the stack is the same */
		for (uint32_t k = 0; k < 50; k++)
			w.span_rows[i + k].span = spans - 50 - i + k;
	sender_push(s, 0, &w);
	for (; (m = sender_message(s, &counts)); messages++) {
		assert_true(m->len <= WINDOW_MESSAGE_MAX);
		assert_int_equal(window_read(m->bytes, m->len, there, &got), 0);
		assert_int_equal(window_is_spans(&got), messages > 0);
		assert_int_equal(got.row_count, messages ? 0 : 100);
		assert_int_equal(got.metric_count, 0);
		for (uint32_t i = 0; i < got.span_row_count; i++, rows++) {
			const struct window_span_row *r = &got.span_rows[i];
			uint32_t id;
			memcpy(&id, got.spans[r->span].span, sizeof(id));
			assert_int_equal(r->stack, 1 + rows / 50);
			assert_int_equal(r->value, 7 + rows);
			assert_int_equal(id, spans - 50 - rows / 50 * 50 + rows % 50);
		}
		struct window_reply answer = {
			.sequence = got.sequence, .part = got.part, .status = WINDOW_STORED};
		memcpy(answer.instance, instance, 16);
		reply.len = 0;
		window_reply_write(&answer, &reply);
		assert_int_equal(sender_reply(s, reply.bytes, reply.len, &answer), 0);
		window_done(&got);
	}
	assert_int_equal(rows, spans);
	assert_int_equal(messages, 4);
	pack_done(&reply);
	sender_free(s);
	profile_free(dict);
	profile_free(there);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(spans_follow_in_messages_of_their_own),
		cmocka_unit_test(windows_arrive_whatever_happens),
		cmocka_unit_test(the_oldest_go_when_nobody_listens),
		cmocka_unit_test(one_row_of_very_many_samples_goes_without_times),
		cmocka_unit_test(what_makes_no_sense_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

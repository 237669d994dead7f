#include "unit/unit.h"

#include <ftw.h>

#include "serve/receiver.h"
#include "unit/sample.h"

#define NOW   1794733200000ull
#define START (NOW - 20000)

struct bench {
	char dir[64];
	struct store *store;
	struct receiver *receiver;
};

static int set_up(void **state)
{
	struct bench *b = mem_alloc(sizeof(*b));
	struct store_options options = {};
	struct store_error err;

	strcpy(b->dir, "/tmp/smolder-receiver-XXXXXX");
	assert_non_null(mkdtemp(b->dir));
	if (store_open(b->dir, &options, &b->store, &err))
		fail_msg("%s", err.text);
	b->receiver = receiver_new(b->store);
	*state = b;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static int tear_down(void **state)
{
	struct bench *b = *state;

	receiver_free(b->receiver);
	store_close(b->store);
	nftw(b->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
	free(b);
	return 0;
}

/* A collector: a dictionary, and how far it was sent. */
struct sender {
	uint8_t id, heir; /* the instance's first and last byte */
	struct profile *dict;
	struct entries_mark mark;
	uint64_t sequence, taken;
	uint32_t epoch;
	const char *type; /* NULL: cpu */
};

static struct sender sender_of(uint8_t id)
{
	return (struct sender){.id = id, .dict = profile_new(), .epoch = 1};
}

/* A message of one row: `line` as sample_add() takes it. */
static struct pack message(struct sender *s, const char *line)
{
	uint32_t before = s->dict->sample_count;
	struct pack out = {};

	sample_add(s->dict, line);
	const struct sample *sample = &s->dict->samples[s->dict->sample_count - 1];
	assert_int_equal(s->dict->sample_count, before + 1);
	struct window_row row = {sample->series, sample->stack, sample->count, sample->count * 10};
	s->taken += sample->count;
	struct window w = {.instance = {s->id},
			   .sequence = ++s->sequence,
			   .epoch = s->epoch,
			   .start_ms = START,
			   .length_ms = WINDOW_MS,
			   .unit = "nanoseconds",
			   .period = 10,
			   .counts = {.taken = s->taken},
			   .rows = &row,
			   .row_count = 1};
	snprintf(w.type, sizeof(w.type), "%s", s->type ? s->type : "cpu");
	window_write(&w, s->dict, &s->mark, SIZE_MAX / 2, &out);
	return out;
}

static struct window_reply send_bytes(struct bench *b, const void *bytes, size_t len)
{
	struct pack reply = {};
	struct window_reply r;

	enum window_status status = receiver_message(b->receiver, bytes, len, NOW, &reply);
	assert_int_equal(window_reply_read(reply.bytes, reply.len, &r), 0);
	assert_int_equal(r.status, status);
	pack_done(&reply);
	return r;
}

static struct window_reply send_one(struct bench *b, struct sender *s, const char *line)
{
	struct pack m = message(s, line);
	struct window_reply r = send_bytes(b, m.bytes, m.len);

	assert_int_equal(r.sequence, s->sequence);
	assert_int_equal(r.instance[0], s->id);
	pack_done(&m);
	return r;
}

static uint64_t stored(struct bench *b)
{
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = START - 60000, .to_ms = NOW};

	assert_int_equal(store_sum(b->store, &q, p, &a, NULL), 0);
	profile_free(p);
	return a.samples;
}

static void messages_build_on_each_other(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);

	assert_int_equal(send_one(b, &s, "comm=x|main;f 3").status, WINDOW_STORED);
	assert_int_equal(send_one(b, &s, "comm=x|main;f;g 4").status, WINDOW_STORED);
	assert_int_equal(stored(b), 7);
	profile_free(s.dict);
}

static void types_that_are_sent_are_known(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);

	assert_false(receiver_has_type(b->receiver, "cpu", 0));
	send_one(b, &s, "comm=x|main;f 3");
	assert_true(receiver_has_type(b->receiver, "cpu", NOW));
	assert_false(receiver_has_type(b->receiver, "cpu", NOW + 1));
	assert_false(receiver_has_type(b->receiver, "offcpu", 0));
	s.type = "offcpu";
	send_one(b, &s, "comm=x|main;g 3");
	assert_true(receiver_has_type(b->receiver, "offcpu", NOW));
	/* However many there are, the latest is among them. */
	for (int i = 0; i < 100; i++) {
		char name[16], line[32];
		snprintf(name, sizeof(name), "t%d", i);
		snprintf(line, sizeof(line), "comm=x|main;h%d 1", i);
		s.type = name;
		assert_int_equal(send_one(b, &s, line).status, WINDOW_STORED);
		assert_true(receiver_has_type(b->receiver, name, NOW));
	}
	assert_false(receiver_has_type(b->receiver, "", 0));
	profile_free(s.dict);
}

static void a_repeated_message_is_known(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);
	struct pack m = message(&s, "comm=x|main;f 3");

	assert_int_equal(send_bytes(b, m.bytes, m.len).status, WINDOW_STORED);
	assert_int_equal(send_bytes(b, m.bytes, m.len).status, WINDOW_DUPLICATE);
	pack_done(&m);
	/* The dictionary is as it was: what comes next follows from it. */
	assert_int_equal(send_one(b, &s, "comm=x|main;g 4").status, WINDOW_STORED);
	assert_int_equal(stored(b), 7);
	profile_free(s.dict);
}

static void a_restarted_server_asks_for_all_of_it(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);

	assert_int_equal(send_one(b, &s, "comm=x|main;f 3").status, WINDOW_STORED);
	receiver_free(b->receiver);
	b->receiver = receiver_new(b->store);
	assert_int_equal(send_one(b, &s, "comm=x|main;g 4").status, WINDOW_RESET);
	/* As it would: a new epoch, all entries, the same message again. */
	s.epoch++;
	s.mark = (struct entries_mark){};
	s.sequence--;
	s.taken -= 4;
	assert_int_equal(send_one(b, &s, "comm=x|main;h 4").status, WINDOW_STORED);
	assert_int_equal(stored(b), 7);
	profile_free(s.dict);
}

static void another_epoch_forgets_the_one_before(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);

	assert_int_equal(send_one(b, &s, "comm=x|main;f 3").status, WINDOW_STORED);
	s.epoch++; /* but not its entries */
	assert_int_equal(send_one(b, &s, "comm=x|main;g 4").status, WINDOW_RESET);
	assert_int_equal(stored(b), 3);
	profile_free(s.dict);
}

static void garbage_is_refused_and_harms_nobody(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1), other = sender_of(2);
	struct receiver_stats stats;

	assert_int_equal(send_one(b, &s, "comm=x|main;f 3").status, WINDOW_STORED);
	assert_int_equal(send_bytes(b, "", 0).status, WINDOW_REFUSED);
	assert_int_equal(send_bytes(b, "SMW\1 half a head", 16).status, WINDOW_REFUSED);
	/* Half of a message: its own dictionary is given up, not that of others. */
	struct pack m = message(&other, "comm=y|main;g 1");
	assert_int_equal(send_bytes(b, m.bytes, m.len - 3).status, WINDOW_REFUSED);
	assert_int_equal(send_bytes(b, m.bytes, m.len).status, WINDOW_STORED);
	/* And any byte of it changed is refused, stored or known, never more. */
	for (size_t i = 4; i < m.len; i++) {
		m.bytes[i] ^= 0xff;
		send_bytes(b, m.bytes, m.len);
		m.bytes[i] ^= 0xff;
	}
	pack_done(&m);
	assert_int_equal(send_one(b, &s, "comm=x|main;h 4").status, WINDOW_STORED);

	char *large = mem_alloc(WINDOW_MESSAGE_MAX + 1);
	assert_int_equal(send_bytes(b, large, WINDOW_MESSAGE_MAX + 1).status, WINDOW_REFUSED);
	free(large);
	receiver_stats(b->receiver, &stats);
	assert_true(stats.malformed >= 4);
	profile_free(s.dict);
	profile_free(other.dict);
}

static void instances_are_bounded(void **state)
{
	struct bench *b = *state;
	struct receiver_stats stats;
	struct sender first = sender_of(0);

	assert_int_equal(send_one(b, &first, "comm=x|main 1").status, WINDOW_STORED);
	for (int i = 1; i <= RECEIVER_INSTANCES; i++) {
		struct sender s = sender_of(0);
		struct pack m = message(&s, "comm=x|main 1");
		m.bytes[4 + 1] = (uint8_t)(i & 0xff);
		m.bytes[4 + 2] = (uint8_t)(i >> 8);
		m.bytes[4 + 3] = 1;
		assert_int_equal(send_bytes(b, m.bytes, m.len).status, WINDOW_STORED);
		pack_done(&m);
		profile_free(s.dict);
	}
	receiver_stats(b->receiver, &stats);
	assert_int_equal(stats.instances, RECEIVER_INSTANCES);
	assert_int_equal(stats.forgotten, 1);
	assert_int_equal(stored(b), RECEIVER_INSTANCES + 1);
	profile_free(first.dict);
}

static void what_is_out_of_range_is_refused_for_good(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);
	struct pack m = message(&s, "comm=x|main;f 3"), reply = {};
	struct window_reply r;

	/* Two hours before it was taken. */
	receiver_message(b->receiver, m.bytes, m.len, NOW - 7200000, &reply);
	assert_int_equal(window_reply_read(reply.bytes, reply.len, &r), 0);
	assert_int_equal(r.status, WINDOW_REFUSED);
	assert_true(strlen(r.reason) > 0);
	pack_done(&reply);
	pack_done(&m);
	assert_int_equal(send_one(b, &s, "comm=x|main;g 4").status, WINDOW_STORED);
	assert_int_equal(stored(b), 4);
	profile_free(s.dict);
}

static void controls_go_with_answers(void **state)
{
	struct bench *b = *state;
	struct sender s = sender_of(1);

	assert_int_equal(send_one(b, &s, "comm=x|main;f 3").live_until_ms, 0);
	receiver_live(b->receiver, NOW + 5000);
	receiver_flush(b->receiver);
	struct window_reply r = send_one(b, &s, "comm=x|main;g 3");
	assert_int_equal(r.live_until_ms, NOW + 5000);
	assert_true(r.flush);
	assert_false(send_one(b, &s, "comm=x|main;h 3").flush);
	profile_free(s.dict);
}

static void controls_travel_alone_as_well(void **state)
{
	struct bench *b = *state;
	struct pack out = {};
	struct window_reply r;

	receiver_live(b->receiver, NOW + 5000);
	receiver_control(b->receiver, true, NOW, &out);
	assert_int_equal(window_reply_read(out.bytes, out.len, &r), 0);
	assert_int_equal(r.sequence, 0);
	assert_int_equal(r.live_until_ms, NOW + 5000);
	assert_true(r.flush);
	out.len = 0;
	receiver_control(b->receiver, false, NOW + 5000, &out);
	assert_int_equal(window_reply_read(out.bytes, out.len, &r), 0);
	assert_int_equal(r.live_until_ms, 0);
	assert_false(r.flush);
	pack_done(&out);
}

/* The last part of a window, which has the metrics, at this time of the server's clock. */
static void send_last_part(struct bench *b, struct sender *s, uint64_t now_ms)
{
	struct window_metric up = {"up", 1 + s->heir};
	struct window w = {.instance = {[0] = s->id, [15] = s->heir},
			   .sequence = ++s->sequence,
			   .epoch = s->epoch,
			   .start_ms = START,
			   .length_ms = WINDOW_MS,
			   .type = "cpu",
			   .unit = "nanoseconds",
			   .counts = {.taken = s->taken},
			   .metrics = &up,
			   .metric_count = 1};
	struct pack m = {}, reply = {};

	window_write(&w, s->dict, &s->mark, SIZE_MAX / 2, &m);
	assert_int_equal(receiver_message(b->receiver, m.bytes, m.len, now_ms, &reply),
			 WINDOW_STORED);
	pack_done(&m);
	pack_done(&reply);
}

static void add_metric(void *ctx, const uint8_t instance[16], const char *name, double value)
{
	(void)instance;
	(void)name;
	*(double *)ctx += value;
}

static void a_collector_that_another_took_over_from_is_silent(void **state)
{
	struct bench *b = *state;
	struct sender old = sender_of(1), new = sender_of(1), other = sender_of(2);
	double sum = 0;

	new.heir = 2;
	other.heir = 10;
	send_last_part(b, &old, NOW);
	send_last_part(b, &new, NOW);
	send_last_part(b, &other, NOW);
	receiver_metrics(b->receiver, add_metric, &sum);
	assert_int_equal((int)sum, 3 + 11);
	profile_free(old.dict);
	profile_free(new.dict);
	profile_free(other.dict);
}

static void how_far_collectors_are_is_known(void **state)
{
	struct bench *b = *state;
	struct sender near = sender_of(1), far = sender_of(2), next = sender_of(3);
	const uint64_t end = START + WINDOW_MS;

	/* Without metrics more parts may follow. */
	send_one(b, &near, "comm=x|main;f 3");
	receiver_is_local(b->receiver);
	send_one(b, &far, "comm=x|main;f 3");
	struct receiver_reach r = receiver_reach(b->receiver, NOW, end);
	assert_int_equal(r.local, 1);
	assert_int_equal(r.local_behind, 1);
	assert_int_equal(r.remote, 1);
	assert_int_equal(r.remote_behind, 1);

	/* One that comes before its end holds what was taken before it came. */
	send_last_part(b, &near, START + 4000);
	receiver_is_local(b->receiver);
	assert_int_equal(receiver_reach(b->receiver, 0, START + 3900).local_behind, 0);
	assert_int_equal(receiver_reach(b->receiver, 0, START + 4000).local_behind, 1);
	send_last_part(b, &near, NOW);
	receiver_is_local(b->receiver);
	assert_int_equal(receiver_reach(b->receiver, NOW, end).local_behind, 0);
	assert_int_equal(receiver_reach(b->receiver, NOW, end + 1).local_behind, 1);
	assert_int_equal(receiver_reach(b->receiver, NOW, end).remote_behind, 1);

	/* A new collector on the same socket takes its place. */
	send_one(b, &next, "comm=x|main;f 3");
	receiver_is_local(b->receiver);
	r = receiver_reach(b->receiver, NOW, end);
	assert_int_equal(r.local, 1);
	assert_int_equal(r.local_behind, 1);
	assert_int_equal(r.remote, 1);

	/* Who was not heard of for long is not counted. */
	r = receiver_reach(b->receiver, NOW + 1, end);
	assert_int_equal(r.local + r.remote, 0);

	/* That of `run` is told by a message of its own. */
	receiver_flush(b->receiver);
	assert_false(send_one(b, &next, "comm=x|main;g 3").flush);
	assert_true(send_one(b, &far, "comm=x|main;g 3").flush);
	profile_free(near.dict);
	profile_free(far.dict);
	profile_free(next.dict);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(messages_build_on_each_other),
		TEST(types_that_are_sent_are_known),
		TEST(a_repeated_message_is_known),
		TEST(a_restarted_server_asks_for_all_of_it),
		TEST(another_epoch_forgets_the_one_before),
		TEST(garbage_is_refused_and_harms_nobody),
		TEST(instances_are_bounded),
		TEST(what_is_out_of_range_is_refused_for_good),
		TEST(controls_go_with_answers),
		TEST(controls_travel_alone_as_well),
		TEST(how_far_collectors_are_is_known),
		TEST(a_collector_that_another_took_over_from_is_silent),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

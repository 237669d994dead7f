/* The spool and its ledger: whatever ends a process, and whatever becomes of its files, each record
 * is counted once. */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "forward/far.h"
#include "forward/pace.h"
#include "forward/spool.h"

static uint8_t instance[16] = "an instance";
static char path[64];

static struct spool *open_spool(uint64_t max_bytes)
{
	struct spool_options o = {.max_bytes = max_bytes, .max_memory = 64 << 10};
	struct spool *s;

	o.dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(o.dir >= 0);
	assert_int_equal(spool_open(&o, &s), 0);
	return s;
}

static int make_dir(void **state)
{
	(void)state;
	snprintf(path, sizeof(path), "/tmp/smolder-spool-XXXXXX");
	return mkdtemp(path) ? 0 : -1;
}

static int remove_dir(void **state)
{
	CLEANUP(freep) char *command = mem_printf("rm -rf '%s'", path);

	(void)state;
	return system(command);
}

static void file_of(uint64_t number, char ret[static 128])
{
	snprintf(ret, 128, "%s/%016llx.window", path, (unsigned long long)number);
}

/* A window of so many rows of three samples each, in two series; the dictionary has others, too. */
static void put_window(struct spool *s, struct profile *dict, uint64_t sequence, uint32_t rows,
		       int want)
{
	struct window w = {.sequence = sequence,
			   .start_ms = 1000 * sequence,
			   .length_ms = 10000,
			   .type = "cpu",
			   .unit = "nanoseconds",
			   .period = 7};
	uint32_t label = profile_string(dict, "comm", 4);

	memcpy(w.instance, instance, sizeof(instance));
	w.rows = mem_alloc_array(rows + 1, sizeof(*w.rows));
	w.times = mem_alloc_array(3 * rows + 1, sizeof(*w.times));
	for (uint32_t i = 0; i < rows; i++) {
		char name[64];
		snprintf(name, sizeof(name), "f%llu.%u", (unsigned long long)sequence, i);
		uint32_t frame = profile_frame(
			dict, &(struct frame){.name = profile_string(dict, name, strlen(name))});
		const char *comm = i < rows / 2 ? "b" : "a";
		struct label l = {label, profile_string(dict, comm, 1)};
		w.rows[w.row_count++] = (struct window_row){profile_series(dict, &l, 1),
							    profile_stack(dict, 0, frame), 3, 21};
		for (int t = 0; t < 3; t++)
			w.times[w.time_count++] = (uint16_t)(i + (unsigned)t);
	}
	assert_int_equal(spool_put(s, dict, &w), want);
	window_done(&w);
}

static struct spool_stats stats_of(const struct spool *s)
{
	struct spool_stats st;
	uint64_t lost = 0;

	spool_stats(s, &st);
	for (int i = 0; i < LEDGER_LOST_REASONS; i++)
		lost += st.lost[i];
	assert_int_equal(st.taken, st.sent + lost + st.samples);
	return st;
}

static void a_record_says_what_was_put_after_any_restart(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct spool *s = open_spool(1 << 20);
	struct spooled r;

	for (uint64_t n = 1; n <= 3; n++)
		put_window(s, dict, n, 10, 0);
	put_window(s, dict, 3, 10, -EEXIST);
	spool_close(s);
	s = open_spool(1 << 20);
	put_window(s, dict, 3, 10, -EEXIST);
	assert_int_equal(stats_of(s).samples, 90);
	for (uint64_t n = 1; n <= 3; n++) {
		assert_true(spool_next(s, 0, &r));
		assert_int_equal(r.window.sequence, n);
		assert_int_equal(r.window.row_count, 10);
		assert_int_equal(r.dict->stack_count, 11); /* and no other window's */
		for (uint32_t i = 0; i < 10; i++) {
			const struct window_row *row = &r.window.rows[i];
			char want[64];
			const char *name = profile_str(
				r.dict, r.dict->frames[r.dict->stacks[row->stack].frame].name);
			unsigned k = (unsigned)atoi(strchr(name, '.') + 1);
			snprintf(want, sizeof(want), "f%llu.%u", (unsigned long long)n, k);
			assert_string_equal(name, want);
			assert_string_equal(profile_label(r.dict, row->series, "comm"),
					    k < 5 ? "b" : "a");
			assert_int_equal(row->count, 3);
			assert_int_equal(row->value, 21);
			for (unsigned t = 0; t < 3; t++)
				assert_int_equal(r.window.times[3 * i + t], k + t);
		}
		spool_settle(s, r.number);
		spooled_done(&r);
	}
	assert_false(spool_next(s, 0, &r));
	put_window(s, dict, 3, 10, -EEXIST); /* though it is gone */
	assert_int_equal(stats_of(s).sent, 90);
	spool_close(s);
	profile_free(dict);
}

/* They have rows of their own, in ids of the same dictionary. */
static void spans_are_in_a_record_as_they_were_put(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct spool *s = open_spool(1 << 20);
	struct spooled r;
	struct window w = {.sequence = 2, .length_ms = 10000, .type = "cpu", .unit = "nanoseconds"};

	put_window(s, dict, 1, 10, 0);
	memcpy(w.instance, instance, sizeof(instance));
	w.spans = mem_alloc_array(2, sizeof(*w.spans));
	w.span_rows = mem_alloc_array(4, sizeof(*w.span_rows));
	for (uint8_t i = 0; i < 2; i++)
		w.spans[w.span_count++] = (struct window_span){.trace = {7}, .span = {i}};
	for (uint32_t i = 0; i < 4; i++) /* of both series, and the last two stacks there are */
		w.span_rows[w.span_row_count++] =
			(struct window_span_row){1 + i / 2, 9 + i / 2, i % 2, 1, 100 + i};
	assert_int_equal(spool_put(s, dict, &w), 0);
	window_done(&w);
	spool_close(s);
	s = open_spool(1 << 20);
	assert_true(spool_next(s, 1, &r));
	assert_int_equal(r.window.span_count, 2);
	assert_int_equal(r.window.span_row_count, 4);
	assert_int_equal(r.dict->stack_count, 3); /* the empty one, and those of the two */
	for (uint32_t i = 0; i < 4; i++) {
		const struct window_span_row *row = &r.window.span_rows[i];
		uint32_t was = (uint32_t)row->value - 100;
		const char *name =
			profile_str(r.dict, r.dict->frames[r.dict->stacks[row->stack].frame].name);
		assert_string_equal(name, was / 2 ? "f1.9" : "f1.8");
		assert_string_equal(profile_label(r.dict, row->series, "comm"),
				    was / 2 ? "a" : "b");
		assert_int_equal(r.window.spans[row->span].span[0], was % 2);
	}
	spooled_done(&r);
	spool_close(s);
	profile_free(dict);
}

static void a_kill_between_two_writes_counts_nothing_twice(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct spool *s = open_spool(1 << 20);
	struct spooled r;
	char file[128], kept[160];

	put_window(s, dict, 1, 10, 0);
	put_window(s, dict, 2, 10, 0);
	assert_true(spool_next(s, 0, &r));
	spool_progress(s, r.number, 1, 15, 0);
	spooled_done(&r);
	spool_close(s);

	/* Half of it was sent: the rest is known. */
	s = open_spool(1 << 20);
	assert_true(spool_next(s, 0, &r));
	assert_int_equal(r.through, 1);
	assert_int_equal(r.samples, 15);
	assert_int_equal(stats_of(s).sent, 15);
	/* It is settled, and its file is still there. */
	file_of(r.number, file);
	snprintf(kept, sizeof(kept), "%s.kept", file);
	assert_int_equal(link(file, kept), 0);
	spool_settle(s, r.number);
	spooled_done(&r);
	spool_close(s);
	assert_int_equal(rename(kept, file), 0);
	s = open_spool(1 << 20);
	struct spool_stats st = stats_of(s);
	assert_int_equal(st.records, 1);
	assert_int_equal(st.sent, 30);
	assert_int_equal(st.taken, 60);
	assert_int_equal(access(file, F_OK), -1);
	spool_close(s);
	profile_free(dict);
}

static void beyond_the_bound_the_oldest_go_but_not_what_is_on_its_way(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	struct spool *s = open_spool(8 * 4096);
	struct spooled first, r;

	put_window(s, dict, 1, 10, 0);
	assert_true(spool_next(s, 0, &first));
	for (uint64_t n = 2; n <= 20; n++)
		put_window(s, dict, n, 10, 0);
	struct spool_stats st = stats_of(s);
	assert_int_equal(st.records, 8);
	assert_int_equal(st.lost[LEDGER_LOST_OLD], 12 * 30);
	/* Later messages of that collector tell it. */
	struct window w = {.type = "cpu"};
	memcpy(w.instance, instance, sizeof(instance));
	spool_losses(s, &w);
	assert_int_equal(w.counts.lost[WINDOW_LOST_BUFFER], 12 * 30);
	spool_settle(s, first.number);
	spooled_done(&first);
	assert_true(spool_next(s, 0, &r));
	assert_int_equal(r.window.sequence, 14);
	spool_refuse(s, r.number);
	spooled_done(&r);
	assert_int_equal(stats_of(s).lost[LEDGER_LOST_REFUSED], 30);
	spool_close(s);

	struct spool_options memory = {.dir = -1, .max_bytes = 1 << 20, .max_memory = 8 << 10};
	assert_int_equal(spool_open(&memory, &s), 0);
	for (uint64_t n = 1; n <= 200; n++)
		put_window(s, dict, n, 10, 0);
	st = stats_of(s);
	assert_true(st.records > 2 && st.records < 100 && st.bytes <= 8 << 10);
	assert_int_equal(st.taken, 200 * 30);
	spool_close(s);
	profile_free(dict);
}

static void damaged_files_are_dropped_and_counted(void **state)
{
	(void)state;
	struct profile *dict = profile_new();
	unsigned seed = 5;
	char file[128];

	for (int round = 0; round < 300; round++) {
		struct spool *s = open_spool(1 << 20);
		struct spooled r;
		put_window(s, dict, (uint64_t)round + 1, 10, 0);
		uint64_t number = 0;
		assert_true(spool_next(s, 0, &r));
		number = r.number;
		spooled_done(&r);
		spool_close(s);
		file_of(number, file);
		int fd = open(round % 3 ? file
					: (snprintf(file, sizeof(file), "%s/ledger", path), file),
			      O_RDWR | O_CLOEXEC);
		struct stat st;
		assert_true(fd >= 0 && fstat(fd, &st) == 0);
		off_t at = (off_t)((unsigned)rand_r(&seed) % (unsigned)st.st_size);
		uint8_t byte = 0;
		assert_int_equal(pread(fd, &byte, 1, at), 1);
		byte ^= (uint8_t)(1 + rand_r(&seed) % 255);
		assert_int_equal(pwrite(fd, &byte, 1, at), 1);
		if (round % 10 == 1)
			assert_int_equal(ftruncate(fd, at), 0);
		close(fd);
		s = open_spool(1 << 20);
		while (spool_next(s, 0, &r)) { /* it was not hit, or it is whole nevertheless */
			assert_int_equal(r.window.row_count, 10);
			spool_settle(s, r.number);
			spooled_done(&r);
		}
		stats_of(s);
		spool_close(s);
	}
	profile_free(dict);
}

static void pauses_grow_and_are_drawn_by_lot(void **state)
{
	(void)state;
	uint64_t seen[8] = {};

	for (int i = 0; i < 200; i++) {
		struct pace p = {};
		uint64_t now = 1000000, least = PACE_LEAST_MS / 2;
		for (int n = 0; n < 8; n++) {
			pace_failed(&p, now, 0);
			uint64_t ms = pace_wait_ms(&p, now);
			assert_true(ms >= MIN(least << n, (uint64_t)PACE_MOST_MS / 2) &&
				    ms <= MIN(2 * least << n, (uint64_t)PACE_MOST_MS));
			seen[n] = i ? MIN(seen[n], ms) : ms;
		}
		pace_failed(&p, now, 90000);
		assert_true(pace_wait_ms(&p, now) >= 90000);
		pace_failed(&p, now, UINT64_MAX / 2);
		assert_true(pace_wait_ms(&p, now) <= 2 * PACE_ASKED_MS);
		/* What has waited is sent slowly at first; then at once. */
		for (int n = 0; n < 8; n++) {
			pace_went_well(&p, now);
			uint64_t ms = pace_wait_ms(&p, now);
			assert_true(ms <= 2000u >> n && (n || ms >= 1000));
			now += ms;
		}
		assert_int_equal(pace_wait_ms(&p, now), 0);
	}
}

static void urls_name_their_protocol(void **state)
{
	(void)state;
	static const struct {
		const char *to;
		const struct far_protocol *protocol;
		const char *url;
	} cases[] = {
		{"http://c:7117", &far_smolder, "http://c:7117/api/v1/windows"},
		{"https://c/", &far_smolder, "https://c/api/v1/windows"},
		{"otlp+http://c:4318", &far_otlp, "http://c:4318/v1development/profiles"},
		{"otlp+https://c/otlp/", &far_otlp, "https://c/otlp/v1development/profiles"},
		{"otlp+http://c/v1development/profiles", &far_otlp,
		 "http://c/v1development/profiles"},
		{"pyroscope+https://[::1]:4040", &far_pyroscope,
		 "https://[::1]:4040/push.v1.PusherService/Push"},
		{"otlp://c:4318", NULL, NULL},
		{"otlp+grpc://c", NULL, NULL},
		{"otlp+otlp+http://c", NULL, NULL},
		{"pyroscope+http://me:secret@c", NULL, NULL},
		{"http://c/?x=1", NULL, NULL},
		{"http://c:70000", NULL, NULL},
		{"", NULL, NULL},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		char *url = NULL;
		assert_ptr_equal(far_find(cases[i].to, &url), cases[i].protocol);
		if (cases[i].protocol)
			assert_string_equal(url, cases[i].url);
		free(url);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_record_says_what_was_put_after_any_restart,
						make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(spans_are_in_a_record_as_they_were_put, make_dir,
						remove_dir),
		cmocka_unit_test_setup_teardown(a_kill_between_two_writes_counts_nothing_twice,
						make_dir, remove_dir),
		cmocka_unit_test_setup_teardown(
			beyond_the_bound_the_oldest_go_but_not_what_is_on_its_way, make_dir,
			remove_dir),
		cmocka_unit_test_setup_teardown(damaged_files_are_dropped_and_counted, make_dir,
						remove_dir),
		cmocka_unit_test(pauses_grow_and_are_drawn_by_lot),
		cmocka_unit_test(urls_name_their_protocol),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

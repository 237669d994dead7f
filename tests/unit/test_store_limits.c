/* The store: what it does not keep, or not for ever, and that all of it is accounted for. */
#include "unit/store.h"

#include <dirent.h>

/* ---- limits ------------------------------------------------------------------------------------
 */

/* Windows of five minutes; those of a large fleet: `rows` in each, of so many samples. */
static uint64_t fill_slot(struct store *s, struct sender *d, uint64_t start, int windows, int rows,
			  uint64_t count, bool times)
{
	uint64_t sum = 0;

	for (int w = 0; w < windows; w++) {
		struct window *win = &d->w;
		make(d, start + (uint64_t)w * 2000, 0);
		free(win->rows);
		win->rows = mem_alloc_array((size_t)rows, sizeof(*win->rows));
		for (int i = 0; i < rows; i++)
			win->rows[i] = (struct window_row){0, (uint32_t)i + 1, count,
							   times ? count * PERIOD : next(d) << 20};
		win->row_count = (uint32_t)rows;
		win->time_count = times ? count * (size_t)rows : 0;
		win->times = times ? mem_alloc_array(win->time_count, sizeof(*win->times)) : NULL;
		win->counts.taken += count * (uint64_t)rows;
		sum += count * (uint64_t)rows;
		struct store_error e;
		if (store_append(s, d->dict, win, start + HOUR / 12, &e))
			fail_msg("store_append: %s", e.text);
	}
	return sum;
}

/* No blob is written that a reader refuses: a late window finds its day as it was. */
static void what_is_too_large_for_a_blob_is_counted_together(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct store_stats st;
	struct sender d;

	sender_init(&d, 40);
	for (int i = 0; i < 40000; i++) {
		char name[16];
		snprintf(name, sizeof(name), "f%d", i);
		struct frame f = {.name = str(d.dict, name)};
		profile_stack(d.dict, 0, profile_frame(d.dict, &f));
	}
	/* Sample times of 70 MB, and in the next five minutes rows of as much. */
	uint64_t sum = fill_slot(s, &d, BEGIN, 60, 5, 120000, true);
	sum += fill_slot(s, &d, BEGIN + HOUR / 12, 150, 40000, 1, false);
	settle(s, BEGIN + 2 * HOUR);
	store_stats(s, &st);
	assert_int_equal(st.untimed_packs, 1);
	assert_true(st.other_samples > 0);
	sum += fill_slot(s, &d, BEGIN, 1, 5, 1, true);
	sum += fill_slot(s, &d, BEGIN + HOUR / 12, 1, 5, 1, false);
	settle(s, BEGIN + 4 * HOUR);
	store_stats(s, &st);
	assert_int_equal(st.damaged_files, 0);
	assert_int_equal(total(s, BEGIN, BEGIN + HOUR), sum);
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(total(s, BEGIN, BEGIN + HOUR), sum);
	store_stats(s, &st);
	assert_int_equal(st.damaged_files, 0);
	store_close(s);
	sender_done(&d);
}

/* Entries that shrink a thousandfold: many small rows of a dictionary are not joined without end.
 */
static void a_dictionary_is_joined_into_rows_that_can_be_read(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct store_stats st;
	struct sender d;
	uint64_t now = BEGIN, sum = 0;

	sender_init(&d, 41);
	struct frame f = {.name = str(d.dict, "f")};
	uint32_t frame = profile_frame(d.dict, &f), at = 0;
	char name[4000];
	memset(name, 'x', sizeof(name) - 1);
	for (int w = 0; w < 900; w++, now += 100) {
		for (int i = 0; i < 30; i++) {
			snprintf(name, sizeof(name), "%d", w * 30 + i);
			name[strlen(name)] = 'x';
			name[sizeof(name) - 1] = '\0';
			struct frame g = {.name = str(d.dict, name)};
			at = profile_stack(d.dict, at % 7 ? at : 0, profile_frame(d.dict, &g));
		}
		make(&d, now, 0);
		free(d.w.rows);
		d.w.rows = mem_alloc_array(1, sizeof(*d.w.rows));
		d.w.rows[0] = (struct window_row){0, profile_stack(d.dict, at, frame), 1, PERIOD};
		d.w.row_count = 1;
		d.w.counts.taken++;
		sum++;
		struct store_error e;
		assert_int_equal(store_append(s, d.dict, &d.w, now, &e), 0);
	}
	settle(s, now + 2 * HOUR);
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(total(s, BEGIN, now + HOUR), sum);
	make(&d, now, 3);
	append(s, &d, NULL, now + 3 * HOUR);
	store_stats(s, &st);
	assert_int_equal(st.damaged_files, 0);
	store_close(s);
	sender_done(&d);
}

static void beyond_the_caps_is_other(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.series_max = 3, .stacks_max = 50});
	struct sender d;
	struct store_stats st;
	uint64_t now = BEGIN, value = 0, have = 0;

	sender_init(&d, 9);
	d.programs = 50;
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 20);
		for (uint32_t k = 0; k < d.w.row_count; k++)
			value += d.w.rows[k].value;
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {
		.type = "cpu", .from_ms = BEGIN, .to_ms = now, .by = both, .by_count = 1};
	uint64_t other = 0;
	bool others_stack = false, stackless = false;
	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
	for (uint32_t i = 0; i < p->sample_count; i++) {
		have += p->samples[i].value;
		bool is_other = !strcmp(profile_label(p, p->samples[i].series, "comm"), "(other)");
		if (is_other || !p->samples[i].stack)
			other += p->samples[i].count;
		others_stack |= is_other && p->samples[i].stack;
		stackless |= !is_other && !p->samples[i].stack;
	}
	assert_true(others_stack && stackless); /* what had room is there */
	assert_int_equal(have, value);
	assert_true(p->stack_count <= 51);
	store_stats(s, &st);
	assert_int_equal(st.other_samples, other);
	assert_true(other > 0);
	assert_int_equal(a.samples, d.w.counts.taken);
	profile_free(p);
	store_close(s);
	sender_done(&d);
}

static void windows_out_of_time_are_refused(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.retention_ms = 2 * DAY});
	struct sender d;
	struct store_error e;
	struct store_stats st;

	sender_init(&d, 10);
	make(&d, BEGIN + 2 * HOUR, 5);
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN, &e), -ERANGE);
	assert_non_null(strstr(e.text, "future"));
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN + 3 * DAY, &e), -ERANGE);
	assert_non_null(strstr(e.text, "older"));
	assert_int_equal(store_append(s, d.dict, &d.w, BEGIN + HOUR, &e), 0);
	store_stats(s, &st);
	assert_int_equal(st.refused, 2);
	assert_int_equal(st.windows, 1);
	store_close(s);
	sender_done(&d);
}

static uint64_t bytes_on_disk;

static int add_bytes(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)path, (void)f;
	if (flag == FTW_F)
		bytes_on_disk += (uint64_t)st->st_size;
	return 0;
}

static uint64_t disk(const char *folder)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	bytes_on_disk = 0;
	nftw(path, add_bytes, 16, FTW_PHYS);
	return bytes_on_disk;
}

static int files(const char *folder)
{
	char path[512];
	int n = 0;

	snprintf(path, sizeof(path), "%s/%s", dir, folder);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		n += strlen(e->d_name) > 3 && strcmp(e->d_name + strlen(e->d_name) - 3, ".db") == 0;
	if (d)
		closedir(d);
	return n;
}

static void the_limit_of_size_takes_raw_first(void **state)
{
	(void)state;
	const uint64_t limit = 3 << 20;
	struct store *s = open_with(&(struct store_options){.max_bytes = limit});
	struct sender d;
	struct store_stats st;
	struct truth t = {};
	uint64_t now = BEGIN;

	sender_init(&d, 11);
	d.functions = 4;
	for (int i = 0; i < 4 * 8640; i += 6, now += 6 * WINDOW_MS) {
		make(&d, now, 60);
		append(s, &d, &t, now);
	}
	settle(s, now + HOUR);
	store_stats(s, &st);
	assert_int_equal(st.bytes, disk(""));
	assert_true(st.bytes <= limit + (1 << 20)); /* and what came since it was last looked at */
	assert_true(files("raw") < 4);
	assert_true(st.expired_files > 0);
	assert_true(st.removed_bytes > 0);
	/* The sums are there from the beginning. */
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	assert_int_equal(st.stored, d.w.counts.taken);
	/* A window of a day that went is not taken: its five minutes would be half there. */
	make(&d, BEGIN + HOUR, 5);
	assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -ERANGE);
	store_close(s);
	truth_done(&t);
	sender_done(&d);
}

static void age_takes_days_and_months(void **state)
{
	(void)state;
	struct store *s = open_with(&(struct store_options){.retention_ms = 3 * DAY});
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 12);
	for (int i = 0; i < 10 * 24; i++, now += HOUR) {
		make(&d, now, 5);
		append(s, &d, NULL, now);
	}
	settle(s, now + 2 * HOUR);
	assert_true(files("raw") <= 5);
	assert_int_equal(files("roll"), 1);
	assert_int_equal(total(s, BEGIN, BEGIN + 5 * DAY), 0);
	assert_true(total(s, now - 2 * DAY, now) > 0);
	settle(s, now + 60 * DAY);
	assert_int_equal(files("raw"), 0);
	assert_int_equal(files("roll"), 0);
	store_close(s);
	sender_done(&d);
}

/* ---- accounts ----------------------------------------------------------------------------------
 */

static void every_sample_is_accounted_for(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN + DAY - 10 * 60000, counter = 1000, lost = 0, died = 0;
	const uint64_t first = counter;

	/* Twenty collectors on one counter of the kernel, over midnight. */
	for (int life = 0; life < 20; life++) {
		sender_init(&d, 100 + (uint64_t)life);
		memcpy(d.w.instance, "lineage!", 8);
		d.w.counts.base = d.w.counts.taken = counter;
		for (int i = 0; i < 7; i++, now += WINDOW_MS) {
			make(&d, now, 6);
			if (i % 3 == 2) {
				d.w.counts.lost[WINDOW_LOST_RING] += 5;
				d.w.counts.taken += 5;
				lost += 5;
			}
			append(s, &d, NULL, now);
		}
		counter = d.w.counts.taken;
		if (life < 19) {
			counter += (uint64_t)life; /* what it took and could not send */
			died += (uint64_t)life;
		}
		if (life % 4 == 1) {
			store_close(s);
			s = open_with(NULL);
		}
		if (life < 19)
			sender_done(&d);
	}
	check_sum(s, counter - first, lost, died);
	settle(s, now + HOUR);
	store_close(s);
	s = open_with(NULL);
	check_sum(s, counter - first, lost, died);
	struct store *reader = open_with(&(struct store_options){.read_only = true});
	struct store_stats st;
	check_sum(reader, counter - first, lost, died);
	store_stats(reader, &st);
	assert_int_equal(st.first_ms, BEGIN + DAY - 10 * 60000);
	assert_true(st.last_ms >= now && st.last_ms <= now + 300000);
	store_close(reader);

	/* What was lost is in the answer as well. */
	struct profile *p = profile_new();
	struct store_answer a;
	struct store_query q = {.type = "cpu", .from_ms = BEGIN, .to_ms = now};
	assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
	assert_int_equal(a.lost, lost + died);
	assert_int_equal(p->info.lost, lost + died);
	assert_int_equal(a.samples + a.lost, counter - first);
	profile_free(p);

	/* Another machine's counter begins an account of its own. */
	struct sender other;
	sender_init(&other, 999);
	make(&other, now, 6);
	append(s, &other, NULL, now);
	check_sum(s, counter - first + other.w.counts.taken, lost, died);
	store_close(s);
	sender_done(&other);
	sender_done(&d);
}

/* One collector samples two things: what it lost of the one is no loss of the other. */
static void losses_are_of_their_type(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender cpu, faults;
	uint64_t now = BEGIN, lost_faults = 0;

	sender_init(&cpu, 1);
	sender_init(&faults, 1);  /* the same instance … */
	faults.w.sequence = 1000; /* … with windows of their own */
	faults.w.counts.base = faults.w.counts.taken = 5000;
	for (int i = 0; i < 5; i++, now += WINDOW_MS) {
		make(&cpu, now, 6);
		append(s, &cpu, NULL, now);
		make(&faults, now, 6);
		snprintf(faults.w.type, sizeof(faults.w.type), "page_faults");
		faults.w.counts.lost[WINDOW_LOST_RING] += 7;
		faults.w.counts.taken += 7;
		lost_faults += 7;
		append(s, &faults, NULL, now);
		if (i == 2) {
			store_close(s);
			s = open_with(NULL);
		}
	}
	uint64_t taken = cpu.w.counts.taken - cpu.w.counts.base + faults.w.counts.taken - 5000;
	check_sum(s, taken, lost_faults, 0);
	for (int i = 0; i < 2; i++) {
		struct profile *p = profile_new();
		struct store_answer a;
		struct store_query q = {
			.type = i ? "page_faults" : "cpu", .from_ms = BEGIN, .to_ms = now};
		assert_int_equal(store_sum(s, &q, p, &a, NULL), 0);
		assert_true(a.samples > 0);
		assert_int_equal(a.lost, i ? lost_faults : 0);
		profile_free(p);
	}
	store_close(s);
	sender_done(&cpu);
	sender_done(&faults);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(beyond_the_caps_is_other, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_too_large_for_a_blob_is_counted_together,
						setup, teardown),
		cmocka_unit_test_setup_teardown(a_dictionary_is_joined_into_rows_that_can_be_read,
						setup, teardown),
		cmocka_unit_test_setup_teardown(windows_out_of_time_are_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(the_limit_of_size_takes_raw_first, setup, teardown),
		cmocka_unit_test_setup_teardown(age_takes_days_and_months, setup, teardown),
		cmocka_unit_test_setup_teardown(every_sample_is_accounted_for, setup, teardown),
		cmocka_unit_test_setup_teardown(losses_are_of_their_type, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

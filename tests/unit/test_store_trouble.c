/* The store: files that are damaged or gone, a full disk, a sudden end, and other processes. */
#include "unit/store.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "store/sql.h"

static void overwrite(const char *name, long at, size_t len)
{
	char path[512], junk[4096];

	memset(junk, 0xa5, sizeof(junk));
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *f = fopen(path, "r+");
	assert_non_null(f);
	fseek(f, at, SEEK_SET);
	for (; len; len -= len < sizeof(junk) ? len : sizeof(junk))
		fwrite(junk, 1, len < sizeof(junk) ? len : sizeof(junk), f);
	fclose(f);
}

static void damaged_files_are_set_aside(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		long at;
		size_t len;
	} hurt[] = {
		{"raw/2024-10-04.db", 0, 100},     {"raw/2024-10-04.db", 0, 200000},
		{"raw/2024-10-04.db", 4096, 4096}, {"roll/2024-10.db", 0, 100},
		{"roll/2024-10.db", 4096, 20000},  {"accounts.db", 0, 8192},
	};

	for (size_t i = 0; i < sizeof(hurt) / sizeof(hurt[0]); i++) {
		struct store *s = open_with(NULL);
		struct store_stats st;
		struct sender d;
		uint64_t now = BEGIN + HOUR;

		sender_init(&d, 20);
		for (int k = 0; k < 6 * 80; k++, now += WINDOW_MS) {
			make(&d, now, 10);
			append(s, &d, NULL, now);
		}
		store_close(s);
		overwrite(hurt[i].name, hurt[i].at, hurt[i].len);
		s = open_with(NULL);
		for (int k = 0; k < 6 * 80; k++, now += WINDOW_MS) {
			make(&d, now, 10);
			append(s, &d, NULL, now);
		}
		settle(s, now + HOUR);
		store_stats(s, &st);
		if (st.damaged_files != 1)
			fail_msg("%s, %zu bytes at %ld: %lu files were set aside", hurt[i].name,
				 hurt[i].len, hurt[i].at, st.damaged_files);
		/* What was appended after it is whole. */
		uint64_t sum = total(s, now - 6 * 80 * WINDOW_MS, now);
		assert_true(sum > 0);
		if (strncmp(hurt[i].name, "raw", 3) != 0)
			assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
		store_close(s);
		sender_done(&d);
		remove_all(dir);
	}
}

/* A kill may leave a file that was not made to its end: there is no damage in that. */
static void a_file_that_was_just_begun_is_none(void **state)
{
	(void)state;
	static const char *const names[] = {"raw/2024-10-04.db", "roll/2024-10.db", "accounts.db"};

	for (size_t i = 0; i < 2 * ARRAY_SIZE(names); i++) {
		char path[512];
		struct sql db;
		struct sender d;
		struct store_stats st;
		snprintf(path, sizeof(path), "%s/raw", dir);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/roll", dir);
		mkdir(path, 0755);
		snprintf(path, sizeof(path), "%s/%s", dir, names[i / 2]);
		if (i % 2) {
			assert_int_equal(sql_open(&db, path, SQL_WRITE, ""),
					 0); /* without tables */
			sql_close(&db);
		} else {
			FILE *f = fopen(path, "w"); /* without a byte */
			assert_non_null(f);
			fclose(f);
		}
		struct store *r = open_with(&(struct store_options){.read_only = true});
		assert_int_equal(total(r, BEGIN, BEGIN + DAY), 0);
		store_close(r);
		struct store *s = open_with(NULL);
		sender_init(&d, 30);
		make(&d, BEGIN, 10);
		append(s, &d, NULL, BEGIN);
		settle(s, BEGIN + HOUR);
		assert_int_equal(total(s, BEGIN, BEGIN + DAY), d.w.counts.taken);
		store_stats(s, &st);
		assert_int_equal(st.damaged_files, 0);
		store_close(s);
		sender_done(&d);
		remove_all(dir);
		mkdir(dir, 0700);
	}
}

static void a_store_that_is_deleted_begins_anew(void **state)
{
	(void)state;
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 21);
	for (int i = 0; i < 60; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
	}
	remove_all(dir);
	uint64_t before = d.w.counts.taken, from = now;
	for (int i = 0; i < 60; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	assert_int_equal(total(s, from, now), d.w.counts.taken - before);
	/* It is locked as before. */
	struct store *again;
	struct store_error e;
	assert_int_equal(store_open(dir, NULL, &again, &e), -EBUSY);
	assert_int_equal(e.pid, getpid());
	store_close(s);
	s = open_with(NULL);
	assert_int_equal(total(s, from, now), d.w.counts.taken - before);
	check_sum(s, d.w.counts.taken, 0, 0);
	store_close(s);
	sender_done(&d);
}

static void there_is_one_writer(void **state)
{
	(void)state;
	struct store *s = open_with(NULL), *other;
	struct store_error e;

	assert_int_equal(store_open(dir, NULL, &other, &e), -EBUSY);
	assert_int_equal(e.pid, getpid());
	assert_non_null(strstr(e.text, dir));
	store_close(s);
	s = open_with(NULL);
	store_close(s);
	assert_int_equal(store_open("/nowhere/at/all", &(struct store_options){.read_only = true},
				    &other, &e),
			 -ENOENT);
}

static int make_readable(const char *path, const struct stat *st, int flag, struct FTW *f)
{
	(void)st, (void)f;
	return chmod(path, flag == FTW_D ? 0755 : 0644);
}

/* In a process of nobody's, which can read and nothing else: the total, or -1. */
static int64_t total_for_nobody(uint64_t from, uint64_t to)
{
	int fds[2];
	int64_t sum = -1;

	nftw(dir, make_readable, 16, FTW_PHYS);
	assert_int_equal(pipe(fds), 0);
	pid_t pid = fork();
	if (pid == 0) {
		struct store *s;
		struct store_error e;
		if (setgid(65534) || setuid(65534))
			_exit(1);
		if (store_open(dir, &(struct store_options){.read_only = true}, &s, &e) < 0)
			_exit(2);
		struct profile *p = profile_new();
		struct store_answer a;
		struct store_query q = {.type = "cpu", .from_ms = from, .to_ms = to};
		if (store_sum(s, &q, p, &a, NULL) < 0 || a.damaged)
			_exit(3);
		sum = (int64_t)a.samples;
		if (write(fds[1], &sum, sizeof(sum)) != sizeof(sum))
			_exit(4);
		_exit(0);
	}
	int status;
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(read(fds[0], &sum, sizeof(sum)), sizeof(sum));
	close(fds[0]);
	close(fds[1]);
	return sum;
}

static int entries(void)
{
	static const char *const folders[] = {"", "raw", "roll", "times"};
	int n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(folders); i++) {
		char path[512];
		snprintf(path, sizeof(path), "%s/%s", dir, folders[i]);
		DIR *d = opendir(path);
		while (d && readdir(d))
			n++;
		if (d)
			closedir(d);
	}
	return n;
}

static void a_reader_needs_no_more_than_to_read(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	struct store *s = open_with(NULL);
	struct sender d;
	uint64_t now = BEGIN;

	sender_init(&d, 23);
	for (int i = 0; i < 6 * 80; i++, now += WINDOW_MS) {
		make(&d, now, 10);
		append(s, &d, NULL, now);
		/* While the writer runs it sees what was committed, at once. */
		if (i % 100 == 99)
			assert_int_equal(total_for_nobody(BEGIN, now + WINDOW_MS),
					 (int64_t)d.w.counts.taken);
	}
	store_close(s);
	int before = entries();
	assert_int_equal(total_for_nobody(BEGIN, now), (int64_t)d.w.counts.taken);
	/* One that could write makes nothing either. */
	s = open_with(&(struct store_options){.read_only = true});
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	store_close(s);
	assert_int_equal(entries(), before);
	sender_done(&d);
}

static void a_full_disk_is_said_and_got_over(void **state)
{
	(void)state;
	if (geteuid() != 0 || mount("tmpfs", dir, "tmpfs", 0, "size=400k") < 0)
		skip();
	struct store *s = open_with(NULL);
	struct sender d;
	struct store_error e;
	struct store_stats st;
	uint64_t now = BEGIN;
	int r = 0, full = 0;

	sender_init(&d, 24);
	for (int i = 0; i < 3000 && full < 20; i++) {
		make(&d, now, 200);
		r = store_append(s, d.dict, &d.w, now, &e);
		if (r) {
			/* It stays as it was, and goes on counting; the message will come again. */
			assert_int_equal(r, -ENOSPC);
			assert_non_null(strstr(e.text, dir));
			for (uint32_t k = 0; k < d.w.row_count; k++)
				d.w.counts.taken -= d.w.rows[k].count;
			full++;
		} else {
			now += WINDOW_MS;
		}
		store_maintain(s, now);
	}
	assert_int_equal(full, 20);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT, "size=40m"), 0);
	for (int i = 0; i < 100; i++, now += WINDOW_MS) {
		make(&d, now, 200);
		append(s, &d, NULL, now);
	}
	settle(s, now + HOUR);
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	check_sum(s, d.w.counts.taken, 0, 0);
	store_stats(s, &st);
	assert_int_equal(st.failed, 20);
	assert_int_equal(st.damaged_files, 0);
	store_close(s);

	/* A disk that cannot be written to at all. */
	assert_int_equal(mount("tmpfs", dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=40m"), 0);
	assert_int_equal(store_open(dir, NULL, &s, &e), -EROFS);
	assert_non_null(strstr(e.text, dir));
	s = open_with(&(struct store_options){.read_only = true});
	assert_int_equal(total(s, BEGIN, now), d.w.counts.taken);
	store_close(s);
	umount(dir);
	sender_done(&d);
}

/* The writer is killed at any moment: every window that it said was stored is there. */
static void a_sudden_end_loses_nothing(void **state)
{
	(void)state;
	int rounds = getenv("SMOLDER_SOAK") ? 200 : 20;
	struct sender d;
	uint64_t now = BEGIN + DAY - HOUR, sum = 0;

	sender_init(&d, 22);
	for (int round = 0; round < rounds; round++) {
		int fds[2];
		assert_int_equal(pipe(fds), 0);
		pid_t pid = fork();
		if (pid == 0) {
			struct store *s;
			struct store_error e;
			if (store_open(dir, NULL, &s, &e) < 0)
				_exit(1);
			for (;; now += WINDOW_MS) {
				make(&d, now, 10);
				int r = store_append(s, d.dict, &d.w, now, &e);
				if (r && r != -EEXIST)
					_exit(2);
				uint64_t said[2] = {now, d.w.counts.taken};
				if (write(fds[1], said, sizeof(said)) != sizeof(said))
					_exit(3);
				store_maintain(s, now);
			}
		}
		close(fds[1]);
		uint64_t said[2], last[2] = {0, 0};
		if (round % 2) /* else it may be killed while it opens the store */
			assert_int_equal(read(fds[0], last, sizeof(last)), sizeof(last));
		usleep((useconds_t)(random() % 60000) + 2000);
		kill(pid, SIGKILL);
		int status;
		waitpid(pid, &status, 0);
		assert_true(WIFSIGNALED(status));
		while (read(fds[0], said, sizeof(said)) == sizeof(said))
			memcpy(last, said, sizeof(last));
		close(fds[0]);
		if (!last[0])
			continue;

		/* The one after the last that was said may be there or not. */
		struct store *s = open_with(NULL);
		while (now <= last[0]) {
			make(&d, now, 10);
			assert_int_equal(store_append(s, d.dict, &d.w, now, NULL), -EEXIST);
			now += WINDOW_MS;
		}
		make(&d, now, 10);
		int r = store_append(s, d.dict, &d.w, now, NULL);
		assert_true(r == 0 || r == -EEXIST);
		now += WINDOW_MS;
		sum = total(s, BEGIN, now);
		assert_int_equal(sum, d.w.counts.taken);
		check_sum(s, d.w.counts.taken, 0, 0);
		struct store_stats st;
		store_stats(s, &st);
		assert_int_equal(st.damaged_files, 0);
		store_close(s);
	}
	assert_true(sum > 0);
	sender_done(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(damaged_files_are_set_aside, setup, teardown),
		cmocka_unit_test_setup_teardown(a_file_that_was_just_begun_is_none, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_store_that_is_deleted_begins_anew, setup,
						teardown),
		cmocka_unit_test_setup_teardown(there_is_one_writer, setup, teardown),
		cmocka_unit_test_setup_teardown(a_reader_needs_no_more_than_to_read, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_is_said_and_got_over, setup, teardown),
		cmocka_unit_test_setup_teardown(a_sudden_end_loses_nothing, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "unit/unit.h"

#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>

#include "base/duration.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/string_pool.h"

static void strings_are_kept_once(void **state)
{
	(void)state;
	struct string_pool s = {};

	assert_int_equal(string_pool_put(&s, "", 0), 0);
	assert_string_equal(string_pool_get(&s, 0), "");
	for (int round = 0; round < 2; round++) {
		for (uint32_t i = 0; i < 10000; i++) {
			char text[16];
			int n = snprintf(text, sizeof(text), "string %u", i);
			uint32_t id = string_pool_put(&s, text, (size_t)n);
			assert_int_equal(id, i + 1);
			assert_string_equal(string_pool_get(&s, id), text);
		}
	}
	assert_string_equal(string_pool_get(&s, 1 << 30), "");
	string_pool_done(&s);
}

static char *temp_dir(void)
{
	static char dir[] = "/tmp/smolder-test-XXXXXX";

	strcpy(dir + strlen(dir) - 6, "XXXXXX");
	return mkdtemp(dir);
}

static unsigned entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	for (struct dirent *e; (e = readdir(d));)
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static void a_file_appears_whole_or_not_at_all(void **state)
{
	(void)state;
	char *dir = temp_dir(), path[64], *text;
	struct file_out o;
	snprintf(path, sizeof(path), "%s/out", dir);

	assert_int_equal(file_out_open(&o, path), 0);
	fputs("one", o.f);
	fflush(o.f);
	assert_int_equal(entries(dir), 0); /* nothing to see while it is written */
	assert_int_equal(file_out_commit(&o), 0);
	assert_int_equal(file_read(path, 100, &text, NULL), 0);
	assert_string_equal(text, "one");
	free(text);

	chmod(path, 0640);
	assert_int_equal(file_out_open(&o, path), 0);
	fputs("half", o.f);
	file_out_abort(&o);
	assert_int_equal(file_read(path, 100, &text, NULL), 0);
	assert_string_equal(text, "one");
	free(text);

	assert_int_equal(file_out_open(&o, path), 0);
	fputs("two", o.f);
	assert_int_equal(file_out_commit(&o), 0);
	assert_int_equal(file_read(path, 100, &text, NULL), 0);
	assert_string_equal(text, "two");
	free(text);
	struct stat st;
	stat(path, &st);
	assert_int_equal(st.st_mode & 0777, 0640);
	assert_int_equal(entries(dir), 1);

	assert_int_equal(file_out_open(&o, dir), -EISDIR);
	assert_int_equal(file_out_open(&o, "/no/such/directory/out"), -ENOENT);
	assert_int_equal(file_out_open(&o, "/dev/full"), 0);
	fputs("x", o.f);
	assert_int_equal(file_out_commit(&o), -ENOSPC);
	unlink(path);
	rmdir(dir);
}

static void reading_is_capped(void **state)
{
	(void)state;
	char *text;

	assert_int_equal(file_read("/dev/zero", 100000, &text, NULL), -EFBIG);
	assert_int_equal(file_read("/no/such/file", 100, &text, NULL), -ENOENT);
}

struct seen {
	struct loop *loop;
	unsigned ticks, signals, reads;
	int pipe[2];
};

static void on_tick(void *ctx, int what)
{
	struct seen *s = ctx;

	(void)what;
	if (++s->ticks == 2)
		raise(SIGUSR1);
}

static void on_signal(void *ctx, int signo)
{
	struct seen *s = ctx;

	assert_int_equal(signo, SIGUSR1);
	s->signals++;
	assert_int_equal(write(s->pipe[1], "x", 1), 1);
}

static void on_readable(void *ctx, int fd)
{
	struct seen *s = ctx;
	char c;

	assert_int_equal(read(fd, &c, 1), 1);
	s->reads++;
	loop_stop(s->loop);
}

static void an_arena_is_used_again(void **state)
{
	(void)state;
	struct arena a = {};

	arena_reset(&a);
	for (int round = 0; round < 3; round++) {
		char *first = arena_strndup(&a, "first", 5);
		for (int i = 0; i < 1000; i++)
			memset(arena_alloc(&a, 1000), i, 1000);
		assert_string_equal(first, "first");
		assert_true(a.bytes > 1000 * 1000);
		arena_reset(&a);
		assert_in_range(a.bytes, 1, 200 * 1000);
	}
	arena_done(&a);
	assert_int_equal(a.bytes, 0);
}

static void the_loop_calls_back(void **state)
{
	(void)state;
	struct seen s = {.loop = loop_new()};

	assert_int_equal(pipe(s.pipe), 0);
	assert_int_equal(loop_timer(s.loop, 1, on_tick, &s), 0);
	assert_int_equal(loop_signal(s.loop, SIGUSR1, on_signal, &s), 0);
	assert_int_equal(loop_fd(s.loop, s.pipe[0], on_readable, &s), 0);
	assert_int_equal(loop_run(s.loop), 0);
	assert_int_equal(s.signals, 1);
	assert_int_equal(s.reads, 1);
	assert_true(s.ticks >= 2);
	loop_free(s.loop);
	close(s.pipe[0]);
	close(s.pipe[1]);
}

static void durations_are_parsed(void **state)
{
	(void)state;
	static const uint64_t hour_ms = 3600000;
	static const struct {
		const char *text;
		uint64_t ns;
	} good[] = {{"0", 0},
		    {"5", 5 * DURATION_S},
		    {"0.5", DURATION_S / 2},
		    {".25s", 250000000},
		    {"5.", 5 * DURATION_S},
		    {"1.5ms", 1500000},
		    {"200us", 200000},
		    {"7ns", 7},
		    {"1m1.5s", 61500000000}};
	static const char *const bad[] = {"",    "s", "-5",  "5x",  "5mi", "1h ",
					  " 1h", ".", "1h5", "1e3", "nan", "40000w"};
	uint64_t ns, ms;

	for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
		assert_int_equal(duration_parse(good[i].text, DURATION_S, &ns), 0);
		assert_int_equal(ns, good[i].ns);
	}
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(duration_parse(bad[i], DURATION_S, &ns), -EINVAL);
	assert_int_equal(duration_parse("30", 0, &ns), -EINVAL);

	assert_int_equal(duration_parse_ms("30d", 0, &ms), 0);
	assert_int_equal(ms, 30 * 24 * hour_ms);
	assert_int_equal(duration_parse_ms("1h30m5s1ms", 0, &ms), 0);
	assert_int_equal(ms, hour_ms + hour_ms / 2 + 5001);
	assert_int_equal(duration_parse_ms("90min1H", 0, &ms), 0);
	assert_int_equal(ms, hour_ms + hour_ms / 2 + hour_ms);
	assert_int_equal(duration_parse_ms("499us", 0, &ms), 0);
	assert_int_equal(ms, 0);

	const char *at = "1h+5m";
	assert_int_equal(duration_take(&at, &ns), 0);
	assert_string_equal(at, "+5m");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strings_are_kept_once),
		cmocka_unit_test(a_file_appears_whole_or_not_at_all),
		cmocka_unit_test(reading_is_capped),
		cmocka_unit_test(an_arena_is_used_again),
		cmocka_unit_test(the_loop_calls_back),
		cmocka_unit_test(durations_are_parsed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

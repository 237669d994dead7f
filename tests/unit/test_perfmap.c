/*
 * JIT maps: of this process, in every state that a program could leave its map in. As
 * `test_perfmap name PID ADDRESS` it prints the name of an address of another process.
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbol/perfmap.h"

static char path[64];

static int remove_map(void **state)
{
	(void)state;
	unlink(path);
	return 0;
}

static void put(const char *text, const char *mode)
{
	FILE *f = fopen(path, mode);

	assert_non_null(f);
	fputs(text, f);
	assert_int_equal(fclose(f), 0);
}

static const char *name_of(struct perfmap *m, uint64_t addr)
{
	struct symbol sym;

	if (perfmap_find(m, addr, &sym) < 0)
		return "";
	assert_int_equal(sym.kind, FRAME_JIT);
	assert_int_equal(sym.addr, addr);
	assert_true(sym.start <= addr);
	return sym.name;
}

/* The file is looked at once a second: asks until it has been, a minute at most. */
static void await(struct perfmap *m, uint64_t addr, const char *name)
{
	for (int i = 0; i < 6000 && strcmp(name_of(m, addr), name) != 0; i++)
		nanosleep(&(struct timespec){.tv_nsec = 10 * 1000 * 1000}, NULL);
	assert_string_equal(name_of(m, addr), name);
}

static void reads_names(void **state)
{
	(void)state;
	struct perfmap_stats st;
	struct perfmap *m = perfmap_new(getpid(), NULL);

	put("1000 100 LazyCompile:~a /x.js:1:2\n"
	    "not a line\n"
	    "0x2000 0x10 hex with 0x\n"
	    "3000 0 empty\n"
	    "3000 10\n"
	    "ffffffffffffffff 10 wraps\n"
	    "111111111111111111 10 long\n"
	    "4000 1000 outer\n"
	    "4100 10 inner\n"
	    "1000 80 again\n",
	    "we");
	assert_string_equal(name_of(m, 0x1000), "again");
	assert_string_equal(name_of(m, 0x107f), "again");
	assert_string_equal(name_of(m, 0x1080), "");
	assert_string_equal(name_of(m, 0x200f), "hex with 0x");
	assert_string_equal(name_of(m, 0x2010), "");
	assert_string_equal(name_of(m, 0x4100), "inner");
	assert_string_equal(name_of(m, 0x4110), "outer");
	assert_string_equal(name_of(m, UINT64_MAX), "");
	perfmap_stats(m, &st);
	assert_int_equal(st.malformed, 5);
	assert_int_equal(st.entries, 4);
	perfmap_free(m);
}

static void newer_code_wins(void **state)
{
	(void)state;
	struct perfmap *m = perfmap_new(getpid(), NULL);

	put("1010 10 new\n1000 100 old\n1008 10 newest\n", "we");
	assert_string_equal(name_of(m, 0x1010), "newest");
	assert_string_equal(name_of(m, 0x1019), "old"); /* written after what it covers */
	perfmap_free(m);
}

static void follows_a_growing_file(void **state)
{
	(void)state;
	struct perfmap *m = perfmap_new(getpid(), NULL);

	assert_string_equal(name_of(m, 0x1000), "");
	assert_false(perfmap_is_there(m));
	uint32_t version[] = {perfmap_version(m), 0, 0, 0};
	put("1000 10 first\n2000 10 hal", "we");
	await(m, 0x1000, "first");
	assert_true(perfmap_is_there(m));
	version[1] = perfmap_version(m);
	assert_int_not_equal(version[1], version[0]);
	assert_string_equal(name_of(m, 0x2000), "");
	put("f\n3000 10 third\n", "ae");
	await(m, 0x3000, "third");
	assert_string_equal(name_of(m, 0x2000), "half");
	version[2] = perfmap_version(m);
	assert_int_not_equal(version[2], version[1]);
	assert_string_equal(name_of(m, 0x3000), "third");
	assert_int_equal(perfmap_version(m), version[2]);

	put("5000 10 anew\n", "we"); /* truncated and written again */
	await(m, 0x5000, "anew");
	assert_string_equal(name_of(m, 0x1000), "");
	version[3] = perfmap_version(m);
	for (int i = 0; i < 3; i++)
		assert_int_not_equal(version[3], version[i]);

	unlink(path); /* replaced */
	put("6000 10 replaced, and longer than what was there before\n", "we");
	await(m, 0x6000, "replaced, and longer than what was there before");
	perfmap_free(m);
}

static void refuses_what_is_not_its_own(void **state)
{
	(void)state;
	struct perfmap_stats st;
	static const char *const kinds[] = {"fifo", "link", "directory", "owner"};

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		struct perfmap *m = perfmap_new(getpid(), NULL);
		if (i == 0) {
			assert_int_equal(mkfifo(path, 0600), 0);
		} else if (i == 1) {
			assert_int_equal(symlink("/etc/passwd", path), 0);
		} else if (i == 2) {
			assert_int_equal(mkdir(path, 0700), 0);
		} else {
			put("1000 10 x\n", "we");
			if (chown(path, 12345, 12345) < 0) { /* only root gives files away */
				perfmap_free(m);
				break;
			}
		}
		assert_string_equal(name_of(m, 0x1000), "");
		perfmap_stats(m, &st);
		assert_int_equal(st.refused, 1);
		assert_int_equal(st.refused_pid, getpid());
		assert_int_equal(remove(path), 0);
		perfmap_free(m);
	}
}

static void survives_odd_files(void **state)
{
	(void)state;
	struct perfmap_stats st;
	struct perfmap *m = perfmap_new(getpid(), NULL);
	FILE *f = fopen(path, "we");

	assert_non_null(f);
	for (int i = 0; i < 300 * 1000; i++) /* a line far longer than any buffer */
		fputc('1', f);
	fputs("\n1000 10 after\n2000 10 ", f);
	for (int i = 0; i < 10000; i++)
		fputc('n', f);
	fputs("\n", f);
	assert_int_equal(fclose(f), 0);
	assert_string_equal(name_of(m, 0x1000), "after");
	assert_in_range(strlen(name_of(m, 0x2000)), 4000, 4096);
	perfmap_stats(m, &st);
	assert_int_equal(st.malformed, 1);
	perfmap_free(m);

	m = perfmap_new(getpid(), NULL);
	assert_int_equal(truncate(path, 1ll << 40), 0); /* a terabyte of nothing */
	assert_string_equal(name_of(m, 0x1000), "after");
	perfmap_stats(m, &st);
	assert_true(st.capped > 1ull << 39);
	perfmap_free(m);

	m = perfmap_new(0x7ffffff0, NULL); /* nobody */
	assert_string_equal(name_of(m, 0x1000), "");
	perfmap_free(m);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(reads_names, remove_map),
		cmocka_unit_test_teardown(newer_code_wins, remove_map),
		cmocka_unit_test_teardown(follows_a_growing_file, remove_map),
		cmocka_unit_test_teardown(refuses_what_is_not_its_own, remove_map),
		cmocka_unit_test_teardown(survives_odd_files, remove_map),
	};

	if (argc == 4 && strcmp(argv[1], "name") == 0) {
		struct perfmap *m = perfmap_new(atoi(argv[2]), NULL);
		puts(name_of(m, strtoull(argv[3], NULL, 16)));
		perfmap_free(m);
		return 0;
	}
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Which package has a file: what was found once is not looked for again. */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "process/elf_file.h"
#include "query/package.h"
#include "query/package_cache.h"

#define STAMP 7

static char dir[] = "/tmp/smolder-package.XXXXXX";
static char file[64];

static int make_dir(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(file, sizeof(file), "%s/" PACKAGE_CACHE_FILE, dir);
	return 0;
}

static int remove_dir(void **state)
{
	(void)state;
	unlink(file);
	rmdir(dir);
	return 0;
}

static void put(const char *text, size_t len)
{
	FILE *f = fopen(file, "we");

	assert_non_null(f);
	fwrite(text, 1, len, f);
	assert_int_equal(fclose(f), 0);
}

/* "?": nobody knows; "": no package has it. */
#define assert_known(path, want)                                                                   \
	do {                                                                                       \
		char *got_ = NULL;                                                                 \
		bool known_ = package_cache_find(dir, STAMP, (path), &got_);                       \
		assert_string_equal(!known_ ? "?" : got_ ? got_ : "", (want));                     \
		free(got_);                                                                        \
	} while (0)

static void answers_are_kept_until_something_is_installed(void **state)
{
	char *package;

	(void)state;
	assert_known("/usr/bin/a", "?");
	assert_int_equal(package_cache_add(dir, STAMP, "/usr/bin/a", "a-tools"), 0);
	assert_int_equal(package_cache_add(dir, STAMP, "/opt/b", NULL), 0);
	assert_known("/usr/bin/a", "a-tools");
	assert_known("/opt/b", "");
	assert_known("/usr/bin", "?");
	assert_int_equal(package_cache_add(dir, STAMP, "/opt/b", "libb1.2+x"), 0);
	assert_known("/opt/b", "libb1.2+x");
	assert_false(package_cache_find(dir, STAMP + 1, "/opt/b", &package));
	assert_int_equal(package_cache_add(dir, STAMP + 1, "/opt/c", NULL), 0);
	assert_known("/usr/bin/a", "?");
}

static void so_many_are_kept_and_no_more(void **state)
{
	char path[32];
	struct stat st;

	(void)state;
	for (int i = 0; i < PACKAGE_CACHE_MAX + 3; i++) {
		snprintf(path, sizeof(path), "/usr/bin/%d", i);
		assert_int_equal(package_cache_add(dir, STAMP, path, "x"), 0);
	}
	assert_known("/usr/bin/2", "?"); /* the oldest go */
	assert_known("/usr/bin/3", "x");
	assert_known(path, "x");
	assert_int_equal(stat(file, &st), 0);
	assert_true(st.st_size < PACKAGE_CACHE_MAX * 20);
}

static void what_is_no_name_is_neither_kept_nor_believed(void **state)
{
	static const char *const bad[] = {"A", "a b", "a\x1b[2J", "-x", "a;reboot", "$(x)", "a/b"};
	static const char hostile[] = "smolder packages 1 7\n"
				      "/a\tfine\n"
				      "/b\tno;name\n"
				      "relative\tx\n"
				      "/no-tab\n"
				      "/c\x1b\tx\n"
				      "\n"
				      "/d\t\x1b[31mred\n"
				      "/e\tlast\n"
				      "/f\tcut";
	CLEANUP(freep) char *long_path = mem_alloc(5000);

	(void)state;
	unlink(file);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		assert_int_equal(package_cache_add(dir, STAMP, "/a", bad[i]), -EINVAL);
	memset(long_path, '/', 4999);
	assert_int_equal(package_cache_add(dir, STAMP, long_path, "x"), -EINVAL);
	assert_int_equal(package_cache_add(dir, STAMP, "/a\n/b", "x"), -EINVAL);
	assert_int_equal(package_cache_add(dir, STAMP, "", "x"), -EINVAL);

	put(hostile, sizeof(hostile) - 1);
	assert_known("/a", "fine");
	assert_known("/e", "last");
	static const char *const unknown[] = {"/b", "relative", "/no-tab", "/c\x1b",
					      "/d", "/f",       ""};
	for (size_t i = 0; i < ARRAY_SIZE(unknown); i++)
		assert_known(unknown[i], "?");
	put("\0\0\0\0", 4);
	assert_known("/a", "?");
	assert_int_equal(package_cache_add(dir, STAMP, "/a", "again"), 0);
	assert_known("/a", "again");
}

/* A link, a file that is too large, a directory that others may write to. */
static void what_others_could_have_made_is_not_used(void **state)
{
	char link[96];

	(void)state;
	assert_int_equal(package_cache_add(dir, STAMP, "/a", "x"), 0);
	assert_int_equal(chmod(dir, 0777), 0);
	assert_known("/a", "?");
	assert_int_equal(package_cache_add(dir, STAMP, "/b", "x"), -EPERM);
	assert_int_equal(chmod(dir, 0700), 0);
	assert_known("/a", "x");
	assert_int_equal(truncate(file, 10 << 20), 0);
	assert_known("/a", "?");
	snprintf(link, sizeof(link), "%s.link", dir);
	assert_int_equal(rename(file, link), 0);
	assert_int_equal(symlink(link, file), 0);
	assert_known("/a", "?");
	unlink(file);
	unlink(link);
}

/* By an answer that no list of dpkg's has: it was not looked for again. */
static void a_second_recording_does_not_look(void **state)
{
	static const char path[] = "/usr/bin/dash";
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t id[ELF_BUILD_ID_MAX];
	char hex[2 * ELF_BUILD_ID_MAX + 1] = "";
	struct elf_file e;
	struct stat st;

	(void)state;
	if (fd < 0 || stat("/var/lib/dpkg/info", &st) != 0 || elf_file_init(&e, fd) != 0)
		skip();
	size_t len = elf_file_build_id(&e, id);
	for (size_t i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	elf_file_done(&e);
	for (int i = 0; i < 2; i++) {
		struct packages *p = packages_new(dir);
		CLEANUP(freep) char *package = packages_find(p, path, hex);
		assert_string_equal(package, i ? "planted-dbgsym" : "dash-dbgsym");
		/* Of another build, nothing is said, whatever is remembered of the path. */
		assert_null(packages_find(p, path, "0123"));
		packages_free(p);
		assert_int_equal(
			package_cache_add(dir, clock_timespec_ns(st.st_mtim), path, "planted"), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_are_kept_until_something_is_installed),
		cmocka_unit_test(so_many_are_kept_and_no_more),
		cmocka_unit_test(what_is_no_name_is_neither_kept_nor_believed),
		cmocka_unit_test(what_others_could_have_made_is_not_used),
		cmocka_unit_test(a_second_recording_does_not_look),
	};

	return cmocka_run_group_tests(tests, make_dir, remove_dir);
}

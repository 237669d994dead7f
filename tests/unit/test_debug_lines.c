/*
 * Inlined calls and lines of this program, and of files made to break things.
 *
 * As `test_debug_lines find FILE [ROOT]` it is what tests/golden asks instead: it reads virtual
 * addresses in hex, one a line, and prints their frames, innermost first, as "NAME\tSOURCE:LINE",
 * then a line with a dot.
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "process/elf_file.h"
#include "symbol/debug_sections.h"
#include "symbol/debug_lines.h"

#define MAX_BYTES (256u << 20)

int outermost(int x);
static volatile int sink;
static int inner_line, middle_line, outer_line;

static inline __attribute__((always_inline)) int inner(int x)
{
	inner_line = __LINE__ + 1;
	__asm__ volatile(".globl lines_mark\nlines_mark: nop\n" : "+r"(x));
	return x * 3;
}

static inline __attribute__((always_inline)) int middle(int x)
{
	middle_line = __LINE__ + 1;
	return inner(x + sink) + 1;
}

__attribute__((noinline, noclone)) int outermost(int x)
{
	outer_line = __LINE__ + 1;
	return middle(x + sink) + 2;
}

extern const char lines_mark[];

/* The virtual address in this program's file of one of its addresses. */
static uint64_t vaddr_of(const void *addr)
{
	extern const char __executable_start[];

	return (uint64_t)((const char *)addr - __executable_start);
}

static uint32_t add(struct debug_lines *l, const char *path)
{
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct debug_lines_file f = {.fd = fd, .path = path};

	return debug_lines_add_file(l, &f);
}

static void finds_inlined_calls(void **state)
{
	(void)state;
	struct debug_lines *l = debug_lines_new(MAX_BYTES);
	struct debug_lines_frame f[DEBUG_LINES_DEPTH];
	struct debug_lines_stats st;
	uint32_t file = add(l, "/proc/self/exe");

	assert_int_equal(outermost(1), 6);
	assert_int_equal(file, 1);
	assert_int_equal(debug_lines_find(l, file, vaddr_of(lines_mark), f), 3);
	assert_string_equal(f[0].name, "inner");
	assert_string_equal(f[1].name, "middle");
	assert_string_equal(f[2].name, "outermost");
	assert_int_equal(f[0].line, inner_line);
	assert_int_equal(f[1].line, middle_line);
	assert_int_equal(f[2].line, outer_line);
	for (int i = 0; i < 3; i++) {
		assert_non_null(strstr(f[i].source, "tests/unit/test_debug_lines.c"));
		assert_int_equal(f[i].start, f[i].line - 3);
	}

	assert_int_equal(debug_lines_find(l, file, 1, f), 0);
	assert_int_equal(debug_lines_find(l, file, UINT64_MAX, f), 0);
	assert_int_equal(debug_lines_find(l, 0, vaddr_of(lines_mark), f), 0);
	assert_int_equal(debug_lines_find(l, 2, vaddr_of(lines_mark), f), 0);
	debug_lines_stats(l, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(st.opens, 1);
	assert_int_equal(st.lookups, 3);
	assert_int_equal(st.found, 1);
	assert_true(st.bytes > 0);
	debug_lines_free(l);
}

static void has_nothing_to_say_of_other_files(void **state)
{
	(void)state;
	struct debug_lines *l = debug_lines_new(MAX_BYTES);
	struct debug_lines_stats st;
	struct debug_lines_file none = {.fd = -1};

	assert_int_equal(debug_lines_add_file(l, &none), 0);
	assert_int_equal(add(l, "/dev/null"), 0);
	assert_int_equal(add(l, "/etc/passwd"), 0);
	debug_lines_stats(l, &st);
	assert_int_equal(st.files, 0);
	debug_lines_free(l);
}

static void stays_under_its_cap(void **state)
{
	(void)state;
	struct debug_lines *l = debug_lines_new(1 << 10);
	struct debug_lines_stats st;

	assert_int_equal(add(l, "/proc/self/exe"), 0);
	debug_lines_stats(l, &st);
	assert_int_equal(st.files, 1);
	assert_int_equal(st.too_large, 1);
	debug_lines_free(l);
}

/* Two files where there is room for one: each is closed for the other until one is given up. */
static void does_not_read_the_same_file_forever(void **state)
{
	(void)state;
	struct elf_file e;
	struct debug_lines_frame f[DEBUG_LINES_DEPTH];
	struct debug_lines_stats st;
	CLEANUP(fd_closep) int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

	assert_int_equal(elf_file_init(&e, fd), 0);
	size_t size = debug_sections_size(&e);
	elf_file_done(&e);
	struct debug_lines *l = debug_lines_new(size + size / 2);
	uint32_t a = add(l, "/proc/self/exe"), b = add(l, "/proc/self/exe");
	for (int i = 0; i < 100; i++) {
		size_t found = debug_lines_find(l, i % 2 ? a : b, vaddr_of(lines_mark), f);
		assert_true(found == 3 || i >= 4);
		debug_lines_stats(l, &st);
		assert_true(st.bytes < 3 * size);
	}
	assert_in_range(st.opens, 4, 10);
	assert_int_equal(st.refused, 1);
	size_t in_a = debug_lines_find(l, a, vaddr_of(lines_mark), f);
	assert_int_equal(in_a + debug_lines_find(l, b, vaddr_of(lines_mark), f), 3);
	debug_lines_free(l);
}

/* A file that shrinks after it was added gives no answer, and no SIGBUS. */
static void survives_truncation(void **state)
{
	(void)state;
	struct debug_lines *l = debug_lines_new(MAX_BYTES);
	struct debug_lines_frame f[DEBUG_LINES_DEPTH];
	struct debug_lines_stats st;
	CLEANUP(fd_closep) int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	CLEANUP(fd_closep) int copy = memfd_create("copy", MFD_CLOEXEC);
	struct debug_lines_file spec = {.fd = copy};
	char buf[65536];
	ssize_t n;

	while ((n = read(from, buf, sizeof(buf))) > 0)
		assert_int_equal(write(copy, buf, (size_t)n), n);
	uint32_t file = debug_lines_add_file(l, &spec);
	assert_int_equal(file, 1);
	assert_int_equal(ftruncate(copy, 70000), 0);
	assert_int_equal(debug_lines_find(l, file, vaddr_of(lines_mark), f), 0);
	assert_int_equal(debug_lines_find(l, file, vaddr_of(lines_mark), f), 0);
	debug_lines_stats(l, &st);
	assert_int_equal(st.refused, 1);
	assert_int_equal(st.lookups, 1);
	debug_lines_free(l);
}

static int answer(const char *path, const char *root)
{
	struct debug_lines *l = debug_lines_new(MAX_BYTES);
	struct debug_lines_frame f[DEBUG_LINES_DEPTH];
	CLEANUP(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct debug_lines_file spec = {.fd = fd, .path = path, .root = root};
	uint32_t file = debug_lines_add_file(l, &spec);
	uint64_t vaddr;

	while (scanf("%" SCNx64, &vaddr) == 1) {
		size_t count = debug_lines_find(l, file, vaddr, f);
		for (size_t i = 0; i < count; i++)
			printf("%s\t%s:%u\n", f[i].name, f[i].source, f[i].line);
		puts(".");
	}
	debug_lines_free(l);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_inlined_calls),
		cmocka_unit_test(has_nothing_to_say_of_other_files),
		cmocka_unit_test(stays_under_its_cap),
		cmocka_unit_test(does_not_read_the_same_file_forever),
		cmocka_unit_test(survives_truncation),
	};

	if (argc >= 3 && strcmp(argv[1], "find") == 0)
		return answer(argv[2], argc > 3 ? argv[3] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Symbols of real files: this program, its libc, the vdso; and of files made to break things.
 *
 * As `test_symbols names FILE [ROOT]` it is what tests/golden asks instead: it reads offsets in the
 * file in hex, one a line, and prints "KIND START NAME" for each.
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "symbol/demangle.h"
#include "process/elf_file.h"
#include "base/sort.h"
#include "symbol/symbols.h"
#include "unit/tiny_elf.h"

int find_me(int x);
static int find_me_too(int x);

__attribute__((noinline)) int find_me(int x)
{
	return find_me_too(x) + 1;
}

__attribute__((noinline)) static int find_me_too(int x)
{
	__asm__ volatile("" : "+r"(x));
	return x * 3;
}

static uint32_t add(struct symbols *s, const char *path)
{
	struct symbols_file f = {.path = path, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};

	return symbols_add_file(s, &f);
}

/* The offset in its file of an address of this process. */
static uint64_t offset_of(const void *addr, char path[static 512])
{
	char line[1024];
	uint64_t start, end, pgoff, found = 0, at = (uint64_t)addr;
	FILE *f = fopen("/proc/self/maps", "re");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx %*s %lx %*s %*s %511s", &start, &end, &pgoff, path) ==
			    4 &&
		    at >= start && at < end) {
			found = at - start + pgoff;
			break;
		}
	fclose(f);
	assert_int_not_equal(found, 0);
	return found;
}

static void names_this_program(void **state)
{
	(void)state;
	char path[512];
	uint64_t at = offset_of((const void *)find_me, path);
	struct symbols *s = symbols_new(20 << 20);
	uint32_t file = add(s, path);
	struct symbol sym;

	assert_int_equal(find_me(1), 4);
	assert_int_equal(symbols_find(s, file, at, &sym), 0);
	assert_string_equal(sym.name, "find_me");
	assert_int_equal(sym.kind, FRAME_USER);
	assert_int_equal(sym.addr, sym.start);
	at = offset_of((const void *)find_me_too, path);
	assert_int_equal(symbols_find(s, file, at + 1, &sym), 0);
	assert_string_equal(sym.name, "find_me_too");
	assert_int_equal(sym.addr, sym.start + 1);

	at = offset_of(dlsym(RTLD_DEFAULT, "qsort"), path);
	uint32_t libc = add(s, path);
	assert_int_equal(libc, file + 1);
	assert_int_equal(symbols_find(s, libc, at + 2, &sym), 0);
	assert_string_equal(sym.name, "qsort");

	struct symbols_module m;
	assert_int_equal(symbols_module(s, libc, &m), 0);
	assert_true(m.build_id_len > 0);
	assert_true(at >= m.offset && at - m.offset < m.end - m.start);
	assert_false(m.go);
	symbols_free(s);
}

static void describes_a_file_without_its_table(void **state)
{
	(void)state;
	struct symbols *s = symbols_new(20 << 20);
	struct symbols_stats st;
	struct symbols_module m;

	assert_int_equal(symbols_module(s, add(s, "/proc/self/exe"), &m), 0);
	assert_true(m.end > m.start);
	assert_int_equal(symbols_module(s, 2, &m), -EINVAL);
	symbols_stats(s, &st);
	assert_int_equal(st.loads, 0);
	assert_int_equal(st.fds, 1);
	symbols_free(s);
}

static void names_the_vdso(void **state)
{
	(void)state;
	struct symbols *s = symbols_new(1 << 20);
	uint32_t file = symbols_add_vdso(s);
	struct symbols_module m;
	struct symbol sym;
	bool seen = false;

	assert_int_equal(symbols_module(s, file, &m), 0);
	for (uint64_t at = m.offset; at < m.offset + (m.end - m.start); at += 16)
		if (symbols_find(s, file, at, &sym) == 0)
			seen |= strstr(sym.name, "clock_gettime") != NULL;
	assert_true(seen);
	assert_int_equal(symbols_find(s, file, 0xfffffff, &sym), -ENOENT);
	assert_string_equal(sym.name, "[vdso+0xfffffff]");
	symbols_free(s);
}

static void reads_each_name_once(void **state)
{
	(void)state;
	char path[512];
	uint64_t at = offset_of((const void *)find_me, path);
	struct symbols *s = symbols_new(20 << 20);
	uint32_t file = add(s, path);
	struct symbols_stats st;
	struct symbol sym;

	for (int i = 0; i < 100; i++)
		symbols_find(s, file, at + (unsigned)i % 2, &sym);
	for (int i = 0; i < 100; i++)
		symbols_find(s, file, 1ull << 40, &sym);
	symbols_stats(s, &st);
	assert_int_equal(st.lookups, 200);
	assert_int_equal(st.names, 1);
	assert_int_equal(st.unnamed, 100);
	assert_int_equal(st.loads, 1);
	symbols_free(s);
}

static void stays_under_its_caps(void **state)
{
	(void)state;
	enum { FILES = 300 };
	const size_t max = 2 << 20;
	char path[512];
	uint64_t me = offset_of((const void *)find_me, path);
	struct symbols *s = symbols_new(max);
	struct symbols_stats st;
	struct symbol sym;

	for (int i = 0; i < FILES; i++)
		add(s, path);
	for (int round = 0; round < 2; round++)
		for (uint32_t file = 1; file <= FILES; file++) {
			assert_int_equal(symbols_find(s, file, me + (unsigned)round, &sym), 0);
			assert_string_equal(sym.name, "find_me");
			for (uint64_t at = 0; at < 200; at++)
				symbols_find(s, file, me + at * 16, &sym);
			symbols_stats(s, &st);
			assert_true(st.bytes <= max);
			assert_true(st.fds <= 256);
		}
	assert_true(st.evictions > FILES / 2);
	assert_true(st.loads > FILES);
	assert_int_equal(st.failures, 0);
	symbols_free(s);
}

/* A library without a symbol table: its functions' bounds are read when they are asked for. */
static void what_is_read_later_is_counted(void **state)
{
	(void)state;
	enum { FILES = 300, STEPS = 2, ROUNDS = 40 };
	const size_t max = 8 << 20;
	char whole[512], path[] = "/tmp/smolder-stripped-XXXXXX", command[1200];
	uint64_t at = offset_of((const void *)find_me, whole);
	struct symbols *s = symbols_new(max);
	struct symbols_stats st;
	struct symbol sym;
	uint64_t unnamed = 0;

	close(mkstemp(path));
	snprintf(command, sizeof(command), "strip -s -o %s '%s'", path, whole);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
	for (int i = 0; i < FILES; i++)
		add(s, path);
	for (int round = 0; round < ROUNDS; round++)
		for (uint32_t file = 1; file <= FILES; file++) {
			for (uint64_t step = 0; step < STEPS; step++)
				unnamed += symbols_find(s, file,
							at + ((unsigned)round * STEPS + step) * 16,
							&sym) != 0;
			symbols_stats(s, &st);
			assert_true(st.bytes <= max);
		}
	unlink(path);
	assert_true(unnamed > 0);
	assert_true(st.evictions > 0);
	symbols_free(s);
}

static void a_closed_file_is_only_itself(void **state)
{
	(void)state;
	char dir[] = "/tmp/symbols.XXXXXX", path[64], self[512];
	uint64_t me = offset_of((const void *)find_me, self);
	struct symbols *s = symbols_new(64 << 20);
	struct symbol sym;

	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/f", dir);
	assert_int_equal(symlink(self, path), 0);
	uint32_t file = add(s, path);
	for (int i = 0; i < 300; i++) /* more than the descriptors that it keeps */
		add(s, self);
	unlink(path);
	assert_int_equal(symlink("/bin/true", path), 0);
	assert_int_equal(symbols_find(s, file, me, &sym), -ENOENT);
	unlink(path);
	rmdir(dir);
	symbols_free(s);
}

static void refuses_what_is_no_program(void **state)
{
	(void)state;
	struct symbols *s = symbols_new(1 << 20);
	struct symbols_stats st;
	struct symbols_module m;
	struct symbol sym;
	char dir[] = "/tmp/symbols.XXXXXX", fifo[64];

	assert_non_null(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/fifo", dir);
	assert_int_equal(mkfifo(fifo, 0600), 0);
	const char *paths[] = {"/tmp",
			       "/dev/null",
			       "/dev/zero",
			       fifo,
			       "/proc/self/status",
			       "/etc/passwd",
			       "/does/not/exist.so (deleted)"};
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		uint32_t file = add(s, paths[i]);
		assert_int_equal(symbols_find(s, file, 0x1234, &sym), -ENOENT);
		assert_true(symbols_module(s, file, &m) < 0);
	}
	assert_string_equal(sym.name, "[exist.so+0x1234]");
	assert_int_equal(sym.kind, FRAME_USER);
	assert_int_equal(sym.start, 0);
	assert_int_equal(symbols_find(s, 0, 1, &sym), -ENOENT);
	assert_int_equal(symbols_find(s, 99, 1, &sym), -ENOENT);
	symbols_stats(s, &st);
	assert_int_equal(st.failures, ARRAY_SIZE(paths));
	assert_string_equal(st.first_failure, "/tmp");
	assert_int_equal(st.fds, 0);
	unlink(fifo);
	rmdir(dir);
	symbols_free(s);
}

static void a_replaced_file_names_nothing(void **state)
{
	(void)state;
	char path[512];
	uint64_t at = offset_of((const void *)find_me, path);
	struct symbols *s = symbols_new(20 << 20);
	struct symbols_file f = {.path = path,
				 .build_id = (const uint8_t *)"other",
				 .build_id_len = 5,
				 .fd = open(path, O_RDONLY | O_CLOEXEC)};
	struct symbols_stats st;
	struct symbol sym;

	assert_int_equal(symbols_find(s, symbols_add_file(s, &f), at, &sym), -ENOENT);
	symbols_stats(s, &st);
	assert_int_equal(st.mismatches, 1);
	assert_int_equal(strncmp(st.first_mismatch, path, sizeof(st.first_mismatch) - 1), 0);
	symbols_free(s);
}

/* What is stored of a frame without a name is an address, or the file's debug file could not name
 * it. */
static void a_file_that_is_gone_still_has_addresses(void **state)
{
	(void)state;
	static const uint8_t code[64];
	const struct tiny_text text = {0x7000000, sizeof(code), code, sizeof(code)};
	size_t len;
	CLEANUP(freep) struct tiny_elf *elf = tiny_elf_new(ET_EXEC, &text, NULL, 0, &len);
	char path[] = "/tmp/smolder-gone-XXXXXX", want[64];
	struct symbols *s = symbols_new(20 << 20);
	struct symbols_module m;
	struct symbol sym;
	int fd = mkstemp(path);

	assert_int_equal(write(fd, elf, len), len);
	close(fd);
	uint32_t file = add(s, path);
	assert_int_equal(symbols_module(s, file, &m), 0);
	assert_int_equal(m.start, text.address);
	assert_int_not_equal(m.offset, m.start);
	for (int i = 0; i < 300; i++)
		add(s, "/proc/self/exe"); /* so that it is closed */
	unlink(path);
	assert_int_equal(symbols_find(s, file, m.offset + 0x10, &sym), -ENOENT);
	snprintf(want, sizeof(want), "[%s+0x7000010]", strrchr(path, '/') + 1);
	assert_string_equal(sym.name, want);
	symbols_free(s);
}

static int copy_of(const char *path)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), to = memfd_create("copy", MFD_CLOEXEC);
	struct stat st;

	assert_int_equal(fstat(from, &st), 0);
	for (off_t at = 0; at < st.st_size;) {
		char buf[65536];
		ssize_t n = pread(from, buf, sizeof(buf), at);
		assert_true(n > 0 && pwrite(to, buf, (size_t)n, at) == n);
		at += n;
	}
	close(from);
	return to;
}

static void survives_truncation(void **state)
{
	(void)state;
	char path[512];
	uint64_t at = offset_of((const void *)find_me, path);
	struct symbol sym;

	int whole = copy_of(path);
	off_t size = lseek(whole, 0, SEEK_END);
	for (off_t len = 0; len < size; len += size / 50 + 1) {
		/* While it is open, before and after its table is built. */
		for (int after = 0; after < 2; after++) {
			struct symbols *s = symbols_new(20 << 20);
			int fd = copy_of(path);
			uint32_t file = symbols_add_file(
				s, &(struct symbols_file){.path = path, .fd = dup(fd)});
			if (after)
				assert_int_equal(symbols_find(s, file, at, &sym), 0);
			assert_int_equal(ftruncate(fd, len), 0);
			for (uint64_t i = 0; i < 64; i++) {
				symbols_find(s, file, at + i * 64, &sym);
				assert_non_null(sym.name);
			}
			close(fd);
			symbols_free(s);
		}
	}
	close(whole);
}

static void demangles(void **state)
{
	(void)state;
	static const char *t[][2] = {
		{"main", "main"},
		{"", ""},
		{"_Z3fooiPKc", "foo(int, char const*)"},
		{"_ZNSt6vectorIiSaIiEE9push_backEOi",
		 "std::vector<int, std::allocator<int> >::push_back(int&&)"},
		{"_Z3fooi.cold", "foo(int) [clone .cold]"},
		{"_ZN4core3fmt9Formatter3pad17h0123456789abcdefE", "core::fmt::Formatter::pad"},
		{"_ZN66_$LT$alloc..vec..Vec$LT$T$GT$$u20$as$u20$core..ops..drop..Drop$GT$4drop"
		 "17h0123456789abcdefE.llvm.123",
		 "<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop"},
		{"_RNvCs1234_7mycrate3foo", "mycrate::foo"},
		{"_RNvMNtC7mycrate1mNtB2_1S1f", "<mycrate::m::S>::f"},
		{"_Znonsense", "_Znonsense"},
		{"_Rnonsense", "_Rnonsense"},
		{"_Z", "_Z"},
		{"_R", "_R"},
	};
	char out[DEMANGLE_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		assert_int_equal(demangle(t[i][0], out), strlen(t[i][1]));
		assert_string_equal(out, t[i][1]);
	}
}

/* "", "0", "1", …: how both manglings write 0, 1, 2, …, each in its own digits. */
static const char *number(unsigned n, unsigned base, char ret[static 8])
{
	static const char digits[2][63] = {
		"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ",
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
	};
	char *at = ret + 7;

	*at = '\0';
	if (n--)
		do
			*--at = digits[base == 62][n % base];
		while (n /= base);
	return at;
}

/* Names whose text doubles every few bytes, 2^60 pairs in all: cut, and at once. */
static void demangling_is_bounded(void **state)
{
	(void)state;
	char out[DEMANGLE_MAX], digits[8];
	char *name = mem_alloc(1 << 20);

	strcpy(name, "_Z1fSt4pairIiiE"); /* f(std::pair<int, int>, pair of that, pair of that, …) */
	for (unsigned i = 1; i < 60; i++) {
		const char *n = number(i, 36, digits);
		sprintf(name + strlen(name), "S_IS%s_S%s_E", n, n);
	}
	assert_true(demangle(name, out) >= DEMANGLE_MAX / 2);
	assert_memory_equal(out, "f(std::pair<int, int>, std::pair<std::pair<int, int>, ", 54);

	strcpy(name, "_RINvC1c1fTllE"); /* c::f::<(i32, i32), …> */
	for (unsigned i = 0, last = 8; i < 60; i++) {
		unsigned at = (unsigned)strlen(name) - 2;
		const char *n = number(last, 62, digits);
		sprintf(name + strlen(name), "TB%s_B%s_E", n, n);
		last = at;
	}
	strcat(name, "E");
	assert_true(demangle(name, out) >= DEMANGLE_MAX / 2);
	assert_memory_equal(out, "c::f::<(i32, i32), ((i32, i32), (i32, i32)), ", 45);

	memset(name, 'P', (1 << 20) - 1);
	memcpy(name, "_Z1f", 4);
	assert_int_equal(demangle(name, out), DEMANGLE_MAX - 1);
	name[DEMANGLE_MAX - 1] = '\0'; /* deeper than libiberty lets itself go */
	assert_int_equal(demangle(name, out), DEMANGLE_MAX - 1);
	free(name);
}

/* `run`: so many at a time are in order. */
static void sort_and_check(size_t count, size_t run)
{
	struct rec {
		uint64_t key, order;
	} *r = mem_alloc_array(count, sizeof(*r));
	uint64_t x = 1;

	for (size_t i = 0; i < count; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		r[i] = (struct rec){i % 3 ? x >> 20 : (x >> 60) << 40, i};
		if (i % run)
			r[i].key = r[i - 1].key + r[i].key % 3;
	}
	sort_by_u64(r, count, sizeof(*r));
	uint64_t orders = 0;
	for (size_t i = 0; i < count; i++) {
		orders += r[i].order;
		assert_true(i == 0 || r[i - 1].key < r[i].key ||
			    (r[i - 1].key == r[i].key && r[i - 1].order < r[i].order));
	}
	assert_int_equal(orders, count * (count - 1) / 2); /* all are there */
	free(r);
}

static void sorts_stably(void **state)
{
	(void)state;
	const size_t counts[] = {2, 3, 100, 1023, 1024, 1025, 5000}, runs[] = {1, 7, 60, 100000};

	for (size_t i = 0; i < ARRAY_SIZE(counts); i++)
		for (size_t k = 0; k < ARRAY_SIZE(runs); k++)
			sort_and_check(counts[i], runs[k]);
}

static int print_names(const char *path, const char *root)
{
	struct symbols *s = symbols_new(20 << 20);
	struct symbols_file f = {
		.path = path, .root = root, .fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
	uint32_t file = symbols_add_file(s, &f);
	struct symbol sym;
	uint64_t at;

	while (scanf("%lx", &at) == 1) {
		symbols_find(s, file, at, &sym);
		printf("%d %lx %s\n", (int)sym.kind, sym.start, sym.name);
	}
	symbols_free(s);
	return 0;
}

/* Goes over bytes of a file one by one: where the answer is said to be the same, it is. */
static void walk_ranges(struct symbols *s, uint32_t file, uint64_t from, uint64_t to)
{
	char last[DEMANGLE_MAX] = "";
	uint64_t with_range = 0;
	uint32_t after = 0;

	for (uint64_t at = from; at < to; at++) {
		struct symbol sym;
		symbols_find(s, file, at, &sym);
		if (at > from && (after > 1 || sym.before > 0))
			assert_string_equal(last, sym.name);
		if (after > 1)
			assert_int_equal(sym.after, after - 1);
		after = sym.after;
		with_range += after > 0;
		snprintf(last, sizeof(last), "%s", sym.name);
	}
	assert_in_range(with_range, (to - from) / 2, to - from);
}

static void tells_how_far_a_name_goes(void **state)
{
	(void)state;
	enum { BYTES = 100 * 1000 };
	char whole[512], libc[512], path[] = "/tmp/smolder-stripped-XXXXXX", command[1200];
	uint64_t at = offset_of((const void *)find_me, whole);
	uint64_t in_libc = offset_of((const void *)qsort, libc);
	struct symbols *s = symbols_new(64 << 20);

	close(mkstemp(path));
	snprintf(command, sizeof(command), "strip -s -o %s '%s'", path, whole);
	assert_int_equal(system(command), 0); /* NOLINT(cert-env33-c) */
	walk_ranges(s, add(s, whole), at - 500, at + BYTES / 4);
	walk_ranges(s, add(s, path), at - 500, at + BYTES / 4);
	walk_ranges(s, add(s, libc), in_libc - BYTES, in_libc + BYTES);
	unlink(path);
	symbols_free(s);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_this_program),
		cmocka_unit_test(describes_a_file_without_its_table),
		cmocka_unit_test(names_the_vdso),
		cmocka_unit_test(reads_each_name_once),
		cmocka_unit_test(stays_under_its_caps),
		cmocka_unit_test(what_is_read_later_is_counted),
		cmocka_unit_test(a_closed_file_is_only_itself),
		cmocka_unit_test(refuses_what_is_no_program),
		cmocka_unit_test(a_replaced_file_names_nothing),
		cmocka_unit_test(a_file_that_is_gone_still_has_addresses),
		cmocka_unit_test(survives_truncation),
		cmocka_unit_test(demangles),
		cmocka_unit_test(demangling_is_bounded),
		cmocka_unit_test(sorts_stably),
		cmocka_unit_test(tells_how_far_a_name_goes),
	};

	if (argc > 2 && strcmp(argv[1], "names") == 0)
		return print_names(argv[2], argc > 3 ? argv[3] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

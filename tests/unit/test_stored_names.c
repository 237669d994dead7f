/* Debug files by build id, and the names that they give to frames that were stored without one. */
#include "unit/unit.h"

#include <fcntl.h>
#include <inttypes.h>
#include <link.h>
#include <sys/stat.h>

#include "base/file.h"
#include "symbol/stored_names.h"

#define MIB (1u << 20)

void a_function_of_the_test(void); /* that is looked for */
__attribute__((noinline)) void a_function_of_the_test(void)
{
	__asm__ volatile("");
}

static char *make_store(void)
{
	char *dir = mem_strdup("/tmp/smolder-names-XXXXXX");

	assert_non_null(mkdtemp(dir));
	return dir;
}

static void remove_store(char *dir)
{
	CLEANUP(freep) char *command = mem_printf("rm -r %s", dir);

	assert_int_equal(system(command), 0);
	free(dir);
}

/* This very program, as a debug file. */
static int add_self(struct debug_cache *c, const char *id, char ret_id[static DEBUG_CACHE_ID])
{
	struct debug_cache_part part;
	CLEANUP(freep) char *bytes = NULL;
	size_t len;

	assert_int_equal(file_read("/proc/self/exe", 64 * MIB, &bytes, &len), 0);
	int r = debug_cache_part(c, &part);
	if (r)
		return r;
	assert_int_equal(write(part.fd, bytes, len), len);
	return debug_cache_take(c, &part, id, DEBUG_CACHE_DOWNLOADED, ret_id);
}

static int on_program(struct dl_phdr_info *info, size_t size, void *ret)
{
	(void)size;
	*(uint64_t *)ret = info->dlpi_addr;
	return 1; /* the program itself is the first */
}

static uint64_t address_here(void)
{
	uint64_t base = 0;

	dl_iterate_phdr(on_program, &base);
	return (uint64_t)(uintptr_t)a_function_of_the_test - base;
}

static uint32_t frame_of(struct profile *p, const char *name, const char *build_id,
			 enum frame_kind kind)
{
	struct module m = {.name = profile_string(p, "app", 3),
			   .build_id = profile_string(p, build_id, strlen(build_id))};
	struct frame f = {.name = profile_string(p, name, strlen(name)),
			  .module = profile_module(p, &m),
			  .kind = kind};

	return profile_frame(p, &f);
}

struct wanted {
	unsigned count;
	char last[DEBUG_CACHE_ID];
};

static void on_wanted(void *ctx, const char *id)
{
	struct wanted *w = ctx;

	w->count++;
	snprintf(w->last, sizeof(w->last), "%s", id);
}

static void a_frame_is_named_by_its_build_id_and_address(void **state)
{
	(void)state;
	char *store = make_store(), id[DEBUG_CACHE_ID], name[64], odd[64];
	struct debug_cache *c = debug_cache_new(store, 0, false);
	struct wanted wanted = {};
	struct stored_names *n = stored_names_new(c, on_wanted, &wanted);
	struct profile *p = profile_new();

	assert_int_equal(add_self(c, NULL, id), 0);
	snprintf(name, sizeof(name), "[app+0x%" PRIx64 "]", address_here());
	snprintf(odd, sizeof(odd), "[a+0x1]b+0x%" PRIx64 "]", address_here());
	const struct {
		const char *name, *build_id;
		enum frame_kind kind;
		bool named;
	} t[] = {
		{name, id, FRAME_USER, true},
		{name, id, FRAME_JIT, false},
		{name, id, FRAME_KERNEL, false},
		{name, "", FRAME_USER, false},
		{name, "../../etc/passwd", FRAME_USER, false},
		{odd, id, FRAME_USER, true}, /* a file may have any name */
		{"[app+0x]", id, FRAME_USER, false},
		{"[app+0x1", id, FRAME_USER, false},
		{"[app+0x1g]", id, FRAME_USER, false},
		{"[app+0xffffffffffffffff]", id, FRAME_USER, false},
		{"[app+0xffffffffffffffffff]", id, FRAME_USER, false},
		{"[+]", id, FRAME_USER, false},
		{"[", id, FRAME_USER, false},
		{"", id, FRAME_USER, false},
		{"f+0x10]", id, FRAME_USER, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		struct frame f = p->frames[frame_of(p, t[i].name, t[i].build_id, t[i].kind)];
		uint32_t before = f.name;
		stored_names_frame(n, p, &f);
		if (t[i].named)
			assert_string_equal(profile_str(p, f.name), "a_function_of_the_test");
		else
			assert_int_equal(f.name, before);
	}
	assert_int_equal(wanted.count, 0); /* what is in the cache need not be asked for */

	uint32_t first = frame_of(p, name, "0123456789abcdef", FRAME_USER);
	stored_names_look(n, p, first);
	assert_int_equal(wanted.count, 1);
	assert_string_equal(wanted.last, "0123456789abcdef");
	debug_cache_set_missing(c, "0123456789abcdef");
	stored_names_look(n, p, first);
	assert_int_equal(wanted.count, 1);

	assert_int_equal(debug_cache_remove(c, id), 0);
	struct frame f = p->frames[frame_of(p, name, id, FRAME_USER)];
	stored_names_frame(n, p, &f);
	assert_string_equal(profile_str(p, f.name), name);
	assert_string_equal(wanted.last, id);
	profile_free(p);
	stored_names_free(n);
	debug_cache_free(c);
	remove_store(store);
}

static unsigned count_files(struct debug_cache *c, enum debug_cache_state state)
{
	size_t count;
	CLEANUP(freep) struct debug_cache_file *files = debug_cache_list(c, &count);
	unsigned n = 0;

	for (size_t i = 0; i < count; i++)
		n += files[i].state == state;
	return n;
}

static void only_the_file_that_was_asked_for_is_taken(void **state)
{
	(void)state;
	char *store = make_store(), id[DEBUG_CACHE_ID];
	struct debug_cache *c = debug_cache_new(store, 0, false);
	struct debug_cache *small = debug_cache_new(store, MIB, false);
	struct debug_cache_part part;

	assert_int_equal(debug_cache_find(c, "0123456789abcdef"), DEBUG_CACHE_UNKNOWN);
	assert_int_equal(debug_cache_open(c, "0123456789abcdef"), -ENOENT);
	assert_int_equal(add_self(c, "0123456789abcdef", id), -ESTALE);
	assert_int_equal(add_self(small, NULL, id), -EFBIG);
	assert_int_equal(debug_cache_part(c, &part), 0);
	assert_int_equal(write(part.fd, "\177ELF", 4), 4);
	assert_int_equal(debug_cache_take(c, &part, NULL, DEBUG_CACHE_ADDED, id), -EBADMSG);
	assert_int_equal(count_files(c, DEBUG_CACHE_DOWNLOADED), 0);
	assert_int_equal(add_self(c, NULL, id), 0);
	assert_int_equal(debug_cache_find(c, id), DEBUG_CACHE_DOWNLOADED);
	int fd = debug_cache_open(c, id);
	assert_true(fd >= 0);
	close(fd);

	struct debug_cache_stats stats;
	debug_cache_stats(c, &stats);
	assert_int_equal(stats.files, 1);
	assert_true(stats.bytes > 0 && !stats.missing);
	debug_cache_free(c);
	debug_cache_free(small);

	/* Who comes later finds what is there, but nothing that leads elsewhere. */
	CLEANUP(freep) char *link = mem_printf("%s/symbols/%s.debug", store, "00112233445566");
	assert_int_equal(symlink("/etc/passwd", link), 0);
	c = debug_cache_new(store, 0, false);
	assert_int_equal(debug_cache_find(c, id), DEBUG_CACHE_DOWNLOADED);
	assert_int_equal(debug_cache_find(c, "00112233445566"), DEBUG_CACHE_UNKNOWN);
	debug_cache_free(c);
	remove_store(store);
}

static void build_ids_are_hex(void **state)
{
	(void)state;
	static const char *const wrong[] = {"",           "0",        "012345",   "0123456",
					    "012345678",  "0123456g", "0123456G", "01234567/",
					    "../../../x", "ABCDEF01"};

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_false(debug_cache_is_id(wrong[i]));
	assert_true(debug_cache_is_id("01234567"));
	assert_true(debug_cache_is_id("0123456789abcdef0123456789abcdef01234567"));
	assert_false(debug_cache_is_id("0123456789abcdef0123456789abcdef0123456789"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_named_by_its_build_id_and_address),
		cmocka_unit_test(only_the_file_that_was_asked_for_is_taken),
		cmocka_unit_test(build_ids_are_hex),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Names of system calls by number and back, misspelt ones, and strace's classes. */
#include "unit/unit.h"

#include "base/mem.h"
#include "syscall/names.h"

static void each_architecture_has_its_own_numbers(void **state)
{
	static const struct {
		enum syscall_abi abi;
		int number;
		const char *name;
	} known[] = {
		{SYSCALL_X86_64, 0, "read"},
		{SYSCALL_X86_64, 232, "epoll_wait"},
		{SYSCALL_X86_64, 336, "uprobe"},
		{SYSCALL_X86_64, 450, "set_mempolicy_home_node"},
		{SYSCALL_X86_64, 462, "mseal"},
		{SYSCALL_X86_64, 469, "file_setattr"},
		{SYSCALL_I386, 3, "read"},
		{SYSCALL_I386, 102, "socketcall"},
		{SYSCALL_I386, 462, "mseal"},
		{SYSCALL_ARM64, 63, "read"},
		{SYSCALL_ARM64, 22, "epoll_pwait"},
		{SYSCALL_ARM64, 469, "file_setattr"},
		{SYSCALL_ARM, 3, "read"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
		struct syscall_names *n = syscall_names_new(known[i].abi);
		assert_string_equal(syscall_names_name(n, (uint32_t)known[i].number),
				    known[i].name);
		assert_int_equal(syscall_names_number(n, known[i].name), known[i].number);
		syscall_names_free(n);
	}
}

static void what_is_no_call_has_no_name(void **state)
{
	(void)state;
	struct syscall_names *n = syscall_names_new(SYSCALL_ARM64);

	assert_null(syscall_names_name(n, 511));
	assert_null(syscall_names_name(n, 512));
	assert_null(syscall_names_name(n, UINT32_MAX));
	assert_int_equal(syscall_names_number(n, "open"), -ENOENT); /* libseccomp: -10166 */
	assert_int_equal(syscall_names_number(n, "uprobe"), -ENOENT);
	assert_int_equal(syscall_names_number(n, ""), -ENOENT);
	syscall_names_free(n);
	syscall_names_free(NULL);
}

static void a_misspelt_name_finds_the_one_that_was_meant(void **state)
{
	(void)state;
	struct syscall_names *n = syscall_names_new(SYSCALL_X86_64);

	assert_string_equal(syscall_names_nearest(n, "epol_wait"), "epoll_wait");
	assert_string_equal(syscall_names_nearest(n, "raed"), "read");
	assert_string_equal(syscall_names_nearest(n, "sched_get_priority_maxx"),
			    "sched_get_priority_max");
	assert_null(syscall_names_nearest(n, "nothing-like-it"));
	assert_null(syscall_names_nearest(n, ""));
	syscall_names_free(n);
}

static void classes_are_those_of_strace(void **state)
{
	(void)state;
	assert_true(syscall_is_of_class("openat", "file"));
	assert_true(syscall_is_of_class("access", "file"));
	assert_true(syscall_is_of_class("utimes", "file"));
	assert_true(syscall_is_of_class("openat", "desc"));
	assert_true(syscall_is_of_class("mmap", "memory"));
	assert_true(syscall_is_of_class("exit_group", "process"));
	assert_false(syscall_is_of_class("pena", "file")); /* inside of openat */
	assert_false(syscall_is_of_class("read", "file"));
	assert_false(syscall_is_of_class("openat", "nosuch"));
	assert_false(syscall_is_of_class("", "file"));

	/* Every class has a call of ours or of 32-bit programs. */
	struct syscall_names *n = syscall_names_new(SYSCALL_X86_64);
	for (const char *const *c = syscall_classes(); *c; c++) {
		unsigned count = 0;
		for (uint32_t i = 0; i < SYSCALL_NUMBERS; i++) {
			const char *name = syscall_names_name(n, i);
			count += name && syscall_is_of_class(name, *c);
		}
		assert_true(count > 0);
	}
	syscall_names_free(n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_architecture_has_its_own_numbers),
		cmocka_unit_test(what_is_no_call_has_no_name),
		cmocka_unit_test(a_misspelt_name_finds_the_one_that_was_meant),
		cmocka_unit_test(classes_are_those_of_strace),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

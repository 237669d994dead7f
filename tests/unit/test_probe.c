#include "unit/unit.h"

#include <errno.h>
#include <linux/version.h>
#include <sys/capability.h>

#include "collect/probe.h"

#define BIT(cap) (1ull << (cap))

/* A user without privileges on an ordinary host. */
static struct probe_facts ordinary(void)
{
	return (struct probe_facts){
		.kernel = KERNEL_VERSION(6, 1, 0),
		.release = "6.1.0-test",
		.bounding = ~0ull,
		.initial_users = true,
		.btf = true,
		.paranoid = 2,
		.command = "smolder record -p 1",
		.exe = "/opt/smolder",
	};
}

static char said[1024];

static int explain(const struct probe_facts *f, int err)
{
	int r = probe_explain_facts(f, err, said, sizeof(said));

	print_message("# %s\n", said);
	assert_null(strchr(said, '\n'));
	assert_true(strlen(said) > 0);
	return r;
}

#define assert_says(word)     assert_non_null(strstr(said, (word)))
#define assert_says_not(word) assert_null(strstr(said, (word)))

static void names_capabilities_and_commands(void **state)
{
	(void)state;
	struct probe_facts f = ordinary();

	assert_int_equal(explain(&f, -EPERM), 0);
	assert_says("CAP_BPF and CAP_PERFMON");
	assert_says("'sudo smolder record -p 1'");
	assert_says("'sudo setcap cap_bpf,cap_perfmon,");
	assert_says("+ep /opt/smolder'");
	assert_says_not("sysctl");

	f.caps = BIT(CAP_BPF);
	assert_int_equal(explain(&f, -EACCES), 0);
	assert_says("needs CAP_PERFMON,");
	assert_says_not("CAP_BPF");
}

static void paranoid_3_asks_for_sys_admin_or_sysctl(void **state)
{
	(void)state;
	struct probe_facts f = ordinary();

	f.paranoid = 3;
	f.caps = BIT(CAP_BPF) | BIT(CAP_PERFMON);
	assert_int_equal(explain(&f, -EACCES), 0);
	assert_says("CAP_SYS_ADMIN");
	assert_says("sudo sysctl kernel.perf_event_paranoid=2");

	/* Capabilities on the file alone would not do. */
	f.caps = 0;
	assert_int_equal(explain(&f, -EACCES), 0);
	assert_says("CAP_PERFMON");
	assert_says("setcap");
	assert_says("sysctl kernel.perf_event_paranoid=2");
}

static void sudo_is_not_advised_where_it_cannot_help(void **state)
{
	(void)state;
	struct probe_facts container = ordinary(), users = ordinary(), sandbox = ordinary();

	container.root = true;
	container.bounding = ~(BIT(CAP_BPF) | BIT(CAP_PERFMON) | BIT(CAP_SYS_ADMIN));
	assert_int_equal(explain(&container, -EPERM), 0);
	assert_says("CAP_BPF");
	assert_says("--cap-add=BPF");
	assert_says_not("sudo");

	users.initial_users = false;
	users.caps = ~0ull;
	assert_int_equal(explain(&users, -EPERM), 0);
	assert_says("user namespace");
	assert_says_not("sudo");

	sandbox.no_new_privs = true;
	assert_int_equal(explain(&sandbox, -EPERM), 0);
	assert_says("no_new_privs");
	assert_says_not("sudo");
}

static void says_what_stops_even_root(void **state)
{
	(void)state;
	struct probe_facts f = ordinary();
	f.caps = ~0ull;
	f.root = true;

	f.locked = true;
	assert_int_equal(explain(&f, -EPERM), 0);
	assert_says("locked down");
	f.locked = false;

	f.seccomp = 2;
	assert_int_equal(explain(&f, -EPERM), 0);
	assert_says("seccomp");
	f.seccomp = 0;

	f.btf = false;
	assert_int_equal(explain(&f, -ESRCH), 0);
	assert_says("BTF");
	f.btf = true;

	f.kernel = KERNEL_VERSION(5, 4, 0);
	assert_int_equal(explain(&f, -EINVAL), 0);
	assert_says("5.10");
	f.kernel = KERNEL_VERSION(6, 1, 0);

	assert_int_equal(explain(&f, -ENOSYS), 0);
	assert_says("CONFIG_BPF_SYSCALL");
}

static void an_unknown_reason_is_the_error_itself(void **state)
{
	(void)state;
	struct probe_facts f = ordinary();

	f.caps = ~0ull;
	assert_int_equal(explain(&f, -EMFILE), -ENOENT);
	assert_string_equal(said, strerror(EMFILE));
	assert_int_equal(explain(&f, -EPERM), -ENOENT);
}

static void fits_any_buffer(void **state)
{
	(void)state;
	struct probe_facts f = ordinary();
	char buf[64];

	for (size_t size = 1; size <= sizeof(buf); size++) {
		memset(buf, 'x', sizeof(buf));
		probe_explain_facts(&f, -EPERM, buf, size);
		assert_int_equal(strlen(buf), size - 1);
	}
	assert_int_equal(probe_explain_facts(&f, -EPERM, NULL, 0), -ENOENT);
}

static void facts_are_of_this_process(void **state)
{
	(void)state;
	struct probe_facts f;

	probe_facts_read(&f);
	assert_true(f.kernel >= KERNEL_VERSION(3, 0, 0));
	assert_non_null(strstr(f.exe, "test_probe"));
	assert_non_null(strstr(f.command, "test_probe"));
	assert_true(f.seccomp >= 0);
}

static void every_item_has_a_name_and_a_text(void **state)
{
	(void)state;
	static struct probe_item items[PROBE_MAX];
	size_t count = probe_all(items, PROBE_MAX);

	assert_true(count > 15);
	for (size_t i = 0; i < count; i++) {
		assert_non_null(items[i].name);
		assert_true(*items[i].text);
		assert_true(strlen(items[i].text) < sizeof(items[i].text) - 1);
		if (items[i].state == PROBE_OK)
			assert_string_equal(items[i].fix, "");
	}
	assert_int_equal(probe_all(items, 3), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_capabilities_and_commands),
		cmocka_unit_test(paranoid_3_asks_for_sys_admin_or_sysctl),
		cmocka_unit_test(sudo_is_not_advised_where_it_cannot_help),
		cmocka_unit_test(says_what_stops_even_root),
		cmocka_unit_test(an_unknown_reason_is_the_error_itself),
		cmocka_unit_test(fits_any_buffer),
		cmocka_unit_test(facts_are_of_this_process),
		cmocka_unit_test(every_item_has_a_name_and_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

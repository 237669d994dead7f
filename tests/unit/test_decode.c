#include "unit/unit.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <math.h>
#include <netinet/in.h>
#include <poll.h>

#include "base/mem.h"
#include "syscall/decode.h"

/* A record that is built chunk by chunk. */
struct made {
	struct trace_record head;
	uint8_t data[4096];
};

static void make(struct made *m, int64_t result, uint64_t a, uint64_t b, uint64_t c, uint64_t d)
{
	*m = (struct made){
		.head = {.result = result, .args = {a, b, c, d}, .bytes = sizeof(m->head)}};
}

static void add_part(struct made *m, uint8_t arg, uint8_t part, bool at_entry, const void *bytes,
		     size_t len)
{
	struct trace_chunk chunk = {
		.bytes = (uint16_t)len, .arg = arg, .part = part, .at_entry = at_entry};
	uint8_t *at = (uint8_t *)m + m->head.bytes;

	memcpy(at, &chunk, sizeof(chunk));
	memcpy(at + sizeof(chunk), bytes, len);
	m->head.bytes += (uint32_t)(sizeof(chunk) + ((len + 7) & ~7ul));
}

static void add(struct made *m, uint8_t arg, const void *bytes, size_t len)
{
	add_part(m, arg, TRACE_MAIN, false, bytes, len);
}

static void check(const struct made *m, const char *name, unsigned string_max, const char *want)
{
	struct decode_options o = {.string_max = string_max, .descriptors = true};
	const struct decode_call *call = decode_find(name);
	struct decode_text t = {};

	assert_true(decode_is_sound(&m->head, m->head.bytes));
	decode_args(call, &m->head, &o, &t);
	CLEANUP(freep) char *args = mem_strndup(t.bytes ? t.bytes : "", t.len);
	t.len = 0;
	decode_result(call, &m->head, &o, &t);
	CLEANUP(freep) char *line = mem_printf("%s(%s) = %s", name, args, t.bytes);
	assert_string_equal(line, want);
	decode_text_done(&t);
}

static void paths_and_flags(void **state)
{
	struct made m;

	(void)state;
	make(&m, 3, (uint64_t)AT_FDCWD, 0x1000, O_RDONLY | O_CLOEXEC, 0);
	add(&m, 1, "/etc/passwd", 12);
	check(&m, "openat", 32, "openat(AT_FDCWD, \"/etc/passwd\", O_RDONLY|O_CLOEXEC) = 3");
	make(&m, -ENOENT, 5, 0x1000, O_WRONLY | O_CREAT | O_EXCL, 0600);
	add(&m, 1, "x", 2);
	check(&m, "openat", 32,
	      "openat(5, \"x\", O_WRONLY|O_CREAT|O_EXCL, 0600) = -1 ENOENT (No such file or "
	      "directory)");
	make(&m, -EFAULT, 0x10, 0, 0, 0);
	check(&m, "chdir", 32, "chdir(0x10) = -1 EFAULT (Bad address)");
	make(&m, -512, 0, 0, 0, 0);
	check(&m, "pause", 32, "pause() = ? ERESTARTSYS (To be restarted if SA_RESTART is set)");
}

/* Nothing that a terminal would act on, whatever a file is called. */
static void strings_are_quoted(void **state)
{
	struct made m;

	(void)state;
	make(&m, 0, 0x1000, 0, 0, 0);
	add(&m, 0, "\033]0;x\007\"\\\n\0011\200", 13);
	check(&m, "chdir", 32, "chdir(\"\\33]0;x\\7\\\"\\\\\\n\\0011\\200\") = 0");
}

static void buffers_are_cut(void **state)
{
	struct made m;

	(void)state;
	make(&m, 10, 3, 0x1000, 10, 0);
	add(&m, 1, "0123456789", 10);
	check(&m, "write", 32, "write(3, \"0123456789\", 10) = 10");
	check(&m, "write", 4, "write(3, \"0123\"..., 10) = 10");
	make(&m, 3, 3, 0x1000, 100, 0);
	add(&m, 1, "abc", 3);
	check(&m, "read", 32, "read(3, \"abc\", 100) = 3");
	make(&m, 0, 3, 0x1000, 100, 0);
	check(&m, "read", 32, "read(3, \"\", 100) = 0");
	make(&m, -EAGAIN, 3, 0x1000, 100, 0);
	check(&m, "read", 32,
	      "read(3, 0x1000, 100) = -1 EAGAIN (Resource temporarily unavailable)");
}

static void addresses_of_sockets(void **state)
{
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(80)};
	struct made m;
	int before = 128, after = 16;

	(void)state;
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	make(&m, 0, 3, 0x1000, sizeof(in), 0);
	add(&m, 1, &in, sizeof(in));
	check(&m, "connect", 32,
	      "connect(3, {sa_family=AF_INET, sin_port=htons(80), "
	      "sin_addr=inet_addr(\"127.0.0.1\")}, "
	      "16) = 0");
	make(&m, 4, 3, 0x1000, 0x2000, 0);
	add_part(&m, 2, TRACE_MAIN, true, &before, 4);
	add(&m, 1, &in, sizeof(in));
	add(&m, 2, &after, 4);
	check(&m, "accept", 32,
	      "accept(3, {sa_family=AF_INET, sin_port=htons(80), "
	      "sin_addr=inet_addr(\"127.0.0.1\")}, "
	      "[128 => 16]) = 4");
	make(&m, 0, 3, 0x1000, 2, 0);
	add(&m, 1, "\1\0", 2);
	check(&m, "connect", 32, "connect(3, {sa_family=AF_UNIX}, 2) = 0");
}

static void what_is_ready(void **state)
{
	struct pollfd p[] = {{3, POLLIN, 0}, {-1, 0, 0}, {4, POLLIN | POLLOUT, POLLOUT}};
	struct made m;

	(void)state;
	make(&m, 1, 0x1000, 3, (uint64_t)-1, 0);
	add(&m, 0, p, sizeof(p));
	check(&m, "poll", 32,
	      "poll([{fd=3, events=POLLIN}, {fd=-1}, {fd=4, events=POLLIN|POLLOUT}], 3, -1) = 1 "
	      "([{fd=4, revents=POLLOUT}])");
	make(&m, 0, 0x1000, 0, 0, 0);
	check(&m, "poll", 32, "poll([], 0, 0) = 0 (Timeout)");
}

static void programs(void **state)
{
	static const uint64_t end;
	uint32_t variables = 1;
	struct made m;

	(void)state;
	make(&m, 0, 0x1000, 0x2000, 0x3000, 0);
	add_part(&m, 0, TRACE_MAIN, true, "/bin/ls", 8);
	add_part(&m, 1, TRACE_ITEMS, true, "ls", 3);
	add_part(&m, 1, TRACE_ITEMS + 1, true, "", 1);
	add_part(&m, 1, TRACE_ITEMS + 2, true, "0123456789", 11);
	add_part(&m, 1, TRACE_ITEMS + 3, true, &end, 8);
	add_part(&m, 2, TRACE_MAIN, true, &variables, 4);
	check(&m, "execve", 8,
	      "execve(\"/bin/ls\", [\"ls\", \"\", \"01234567\"...], 0x3000 /* 1 var */) = 0");
	m.head.kind = TRACE_NO_RETURN;
	check(&m, "pause", 32, "pause() = ?");
}

static void paths_of_descriptors(void **state)
{
	struct trace_file file = {.inode = 5, .magic = 1},
			  pipe = {.inode = 77, .magic = TRACE_PIPES};
	struct trace_file root = {.inode = 2, .magic = 1};
	struct made m;

	(void)state;
	make(&m, 4, 3, 0, 0, 0);
	add_part(&m, 0, TRACE_FILE_HEAD, true, &file, sizeof(file));
	add_part(&m, 0, TRACE_ITEMS, true, "pass\nwd", 8);
	add_part(&m, 0, TRACE_ITEMS + 1, true, "etc", 4);
	add_part(&m, TRACE_RESULT_FD, TRACE_FILE_HEAD, false, &pipe, sizeof(pipe));
	check(&m, "dup", 32, "dup(3</etc/pass\\nwd>) = 4<pipe:[77]>");
	assert_true(decode_touches(decode_find("dup"), &m.head, "/etc/pass\nwd"));
	assert_false(decode_touches(decode_find("dup"), &m.head, "/etc"));
	make(&m, 0, 3, 0, 0, 0);
	add_part(&m, 0, TRACE_FILE_HEAD, true, &root, sizeof(root));
	check(&m, "fchdir", 32, "fchdir(3</>) = 0");
}

static void plans_have_what_is_shown(void **state)
{
	struct decode_options o = {.string_max = 32};
	struct trace_plan p;

	(void)state;
	decode_plan(decode_find("openat"), &o, &p);
	assert_true(p.traced && !p.entry && !p.starts);
	assert_int_equal(p.count, 1);
	assert_int_equal(p.captures[0].kind, TRACE_TEXT);
	assert_int_equal(p.captures[0].arg, 1);
	decode_plan(decode_find("execve"), &o, &p);
	assert_true(p.entry && p.starts);
	decode_plan(decode_find("write"), &o, &p);
	assert_int_equal(p.captures[0].count_arg, 2);
	assert_in_range(p.captures[0].max, 33, 64);
	o.descriptors = true;
	decode_plan(decode_find("openat"), &o, &p);
	assert_int_equal(p.count, 3);
	decode_plan(NULL, &o, &p);
	assert_true(p.traced && !p.count);
}

/* Which calls can touch a path, and which path one touches that has not returned. */
static void files_of_calls(void **state)
{
	static const char *const with[] = {"openat", "read", "execve",
					   "rename", "mmap", "epoll_create1"};
	static const char *const without[] = {"futex", "getppid", "clock_nanosleep", "munmap",
					      "no_such_call"};
	struct decode_options o = {.string_max = 32, .early_paths = true};
	struct trace_plan p;
	struct made m;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(with); i++)
		assert_true(decode_has_file(decode_find(with[i])));
	for (size_t i = 0; i < ARRAY_SIZE(without); i++)
		assert_false(decode_has_file(decode_find(without[i])));

	decode_plan(decode_find("openat"), &o, &p);
	assert_true(p.entry);
	assert_int_equal(p.captures[0].when, TRACE_AT_ENTRY | TRACE_AT_EXIT);
	make(&m, 0, (uint64_t)AT_FDCWD, 0x1000, 0, 0);
	m.head.kind = TRACE_NO_RETURN;
	add_part(&m, 1, TRACE_MAIN, true, "/a", 3);
	assert_true(decode_touches(decode_find("openat"), &m.head, "/a"));
	assert_false(decode_touches(decode_find("openat"), &m.head, "/b"));
	check(&m, "openat", 32, "openat(AT_FDCWD, \"/a\", O_RDONLY) = ?");
	/* What it is at the end goes first. */
	m.head.kind = TRACE_CALL;
	add(&m, 1, "/b", 3);
	assert_false(decode_touches(decode_find("openat"), &m.head, "/a"));
	assert_true(decode_touches(decode_find("openat"), &m.head, "/b"));
	check(&m, "openat", 32, "openat(AT_FDCWD, \"/b\", O_RDONLY) = 0");
}

static double timeout_of(const char *name, const struct made *m)
{
	double seconds;

	return decode_timeout(decode_find(name), &m->head, &seconds) ? seconds : -1;
}

/* However a call is told how long to wait. */
static void timeouts(void **state)
{
	const int64_t time[2] = {1, 500000}, none[2] = {}, wrong[2] = {-1, 0};
	struct made m;

	(void)state;
	make(&m, 0, 3, 0x1000, 1, 0);
	assert_true(timeout_of("epoll_wait", &m) == 0);
	make(&m, 0, 3, 0x1000, 1, (uint32_t)-1);
	assert_true(isinf(timeout_of("epoll_wait", &m)));
	make(&m, 0, 0x1000, 1, 250, 0);
	assert_true(timeout_of("poll", &m) == 0.25);
	m.head.call = SYSCALL_COMPAT + 168;
	assert_true(timeout_of("poll", &m) == 0.25);

	make(&m, 0, 0x1000, 1, 0, 0);
	assert_true(isinf(timeout_of("ppoll", &m)));
	make(&m, 0, 0x1000, 1, 0x2000, 0);
	assert_true(timeout_of("ppoll", &m) == -1); /* it could not be read */
	add_part(&m, 2, TRACE_MAIN, true, time, sizeof(time));
	assert_true(timeout_of("ppoll", &m) == 1.0005);
	m.head.call = SYSCALL_COMPAT + 309;
	assert_true(timeout_of("ppoll", &m) == -1);
	make(&m, 0, 0x1000, 1, 0x2000, 0);
	add_part(&m, 2, TRACE_MAIN, true, wrong, sizeof(wrong));
	assert_true(timeout_of("ppoll", &m) == -1);
	make(&m, 0, 4, 0, 0, 0);
	m.head.args[4] = 0x2000;
	add_part(&m, 4, TRACE_MAIN, true, time, sizeof(time));
	assert_true(timeout_of("select", &m) == 1.5);
	make(&m, 0, 0x1000, 0, 0x2000, 8);
	add_part(&m, 2, TRACE_MAIN, true, none, sizeof(none));
	assert_true(timeout_of("rt_sigtimedwait", &m) == 0);

	make(&m, 0, 0x1000, FUTEX_WAIT_PRIVATE, 2, 0);
	assert_true(isinf(timeout_of("futex", &m)));
	make(&m, 0, 0x1000, FUTEX_WAIT_PRIVATE, 2, 0x2000);
	add_part(&m, 3, TRACE_MAIN, true, time, sizeof(time));
	assert_true(timeout_of("futex", &m) == 1.0005);
	m.head.args[1] = FUTEX_WAIT_BITSET_PRIVATE; /* until when */
	assert_true(timeout_of("futex", &m) == -1);
	make(&m, 0, 0x1000, FUTEX_WAKE_PRIVATE, 1, 0);
	assert_true(timeout_of("futex", &m) == -1);

	make(&m, 0, 0x2000, 0, 0, 0);
	add_part(&m, 0, TRACE_MAIN, true, time, sizeof(time));
	assert_true(timeout_of("nanosleep", &m) == -1);
	assert_true(timeout_of("read", &m) == -1);
	assert_true(timeout_of("no_such_call", &m) == -1);
}

/* Chunks that do not fit into their record, or end beyond it. */
static void unsound_records(void **state)
{
	struct made m;

	(void)state;
	make(&m, 0, 0, 0, 0, 0);
	assert_true(decode_is_sound(&m.head, sizeof(m.head)));
	assert_false(decode_is_sound(&m.head, sizeof(m.head) - 1));
	assert_false(decode_is_sound(&m.head, sizeof(m.head) + 8));
	m.head.bytes += 4;
	assert_false(decode_is_sound(&m.head, m.head.bytes));
	make(&m, 0, 0, 0, 0, 0);
	add(&m, 0, "x", 1);
	((struct trace_chunk *)(&m.head + 1))->bytes = 9;
	assert_false(decode_is_sound(&m.head, m.head.bytes));
}

static void a_line_has_an_end(void **state)
{
	static char long_name[4000];
	struct decode_options o = {.string_max = DECODE_STRING_MAX};
	struct decode_text t = {};
	struct made m;

	(void)state;
	make(&m, 0, 0x1000, 0, 0, 0);
	memset(long_name, 1, sizeof(long_name) - 1);
	add(&m, 0, long_name, sizeof(long_name));
	for (int i = 0; i < 20; i++)
		decode_args(decode_find("chdir"), &m.head, &o, &t);
	assert_true(t.cut && t.len <= DECODE_MAX);
	assert_string_equal(t.bytes + t.len - 3, "...");
	decode_text_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_and_flags),
		cmocka_unit_test(strings_are_quoted),
		cmocka_unit_test(buffers_are_cut),
		cmocka_unit_test(addresses_of_sockets),
		cmocka_unit_test(what_is_ready),
		cmocka_unit_test(programs),
		cmocka_unit_test(paths_of_descriptors),
		cmocka_unit_test(plans_have_what_is_shown),
		cmocka_unit_test(unsound_records),
		cmocka_unit_test(a_line_has_an_end),
		cmocka_unit_test(timeouts),
		cmocka_unit_test(files_of_calls),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The rules of findings, each on what it must find and on what comes close: no kernel is needed. */
#include "unit/unit.h"

#include "base/mem.h"
#include "pipeline/closeup_plans.h"
#include "pipeline/finding_rules.h"

#define SECOND 1000000000ull
#define PERIOD 10000000ull /* 100 Hz */

struct scene {
	struct profile *dict;
	struct look look;
	struct code_classes classes;
	struct syscall_calls *calls;
	struct closeup_plan plans[SYSCALL_COMPAT];
	struct closeup_row rows[32];
	struct closeup_view closeup;
	struct machine machine;
	struct bpf_cost program;
	struct closeup_hold holds[32];
	struct finding_sample samples[32];
	size_t sample_count;
};

static void scene_init(struct scene *s)
{
	*s = (struct scene){.dict = profile_new(), .calls = syscall_calls_new()};
	closeup_plans(s->calls, s->plans);
	look_begin(&s->look, SECOND);
	s->closeup.rows = s->rows;
	s->closeup.ns = SECOND;
	s->machine.cpus = 2;
}

static void scene_done(struct scene *s)
{
	look_done(&s->look);
	code_classes_done(&s->classes);
	syscall_calls_free(s->calls);
	profile_free(s->dict);
}

/* A stack of functions, "main;loop" of the user's and then "|" and the kernel's. */
static uint32_t stack_of(struct scene *s, const char *text)
{
	char copy[256], *save = NULL;
	uint32_t at = 0;

	snprintf(copy, sizeof(copy), "%s", text);
	for (char *f = strtok_r(copy, ";", &save); f; f = strtok_r(NULL, ";", &save)) {
		bool is_kernel = *f == '|';
		f += is_kernel;
		struct frame frame = {.name = profile_string(s->dict, f, strlen(f)),
				      .kind = is_kernel ? FRAME_KERNEL : FRAME_USER};
		at = profile_stack(s->dict, at, profile_frame(s->dict, &frame));
	}
	return at;
}

/* `percent` of a CPU, over five seconds. */
static void ran(struct scene *s, uint32_t pid, uint32_t tid, const char *comm, int percent,
		const char *stack)
{
	struct wire_event e = {
		.pid = pid, .tid = tid, .process_start = pid, .value = PERIOD, .cgroup = 9};
	struct assembled a = {.event = &e, .stack = stack_of(s, stack)};

	snprintf(e.comm, sizeof(e.comm), "%s", comm);
	snprintf(e.thread, sizeof(e.thread), "%s", comm);
	for (int i = 0; i < 5 * percent; i++)
		look_add(&s->look, &a);
}

static void called(struct scene *s, uint32_t tid, const char *call, struct closeup_key how,
		   uint64_t count, uint64_t ns)
{
	how.tid = tid;
	how.call = (uint16_t)syscall_names_number(syscall_calls_own(s->calls), call);
	s->rows[s->closeup.count++] = (struct closeup_row){how, {count, ns}};
}

static const struct finding_rule *rule(const char *kind)
{
	const struct finding_rule *r = finding_rules;

	while (r->kind && strcmp(r->kind, kind) != 0)
		r++;
	assert_non_null(r->kind);
	return r;
}

/* Whether the rule finds it, of the first process there is. */
static bool finds(struct scene *s, const char *kind, struct finding *ret)
{
	const struct finding_rule *r = rule(kind);
	struct finding_case c = {.look = &s->look,
				 .dict = s->dict,
				 .calls = s->calls,
				 .plans = s->plans,
				 .machine = &s->machine,
				 .samples = s->samples,
				 .sample_count = s->sample_count,
				 .program = r->scope == FINDING_BPF ? &s->program : NULL};

	look_end(&s->look, 6 * SECOND, &s->classes, s->dict);
	c.of = r->scope == FINDING_MACHINE ? &s->look.all
	       : r->scope == FINDING_NAME  ? &s->look.names[1]
					   : &s->look.processes[1];
	*ret = (struct finding){};
	if (r->suspects(&c) <= 0)
		return false;
	c.closeup = r->closeup_ms ? &s->closeup : NULL;
	return r->holds(&c, ret) && ret->headline[0] && ret->next[0] && ret->sure > 0;
}

#define POLL_STACK "main;loop;epoll_wait;|do_syscall_64;|__x64_sys_epoll_wait;|do_epoll_wait"

static void a_busy_poll(void **state)
{
	(void)state;
	static const struct closeup_key empty = {.timeout = CLOSEUP_NONE, .result = CLOSEUP_EMPTY};
	static const struct closeup_key full = {.timeout = CLOSEUP_NONE, .result = CLOSEUP_DONE};
	static const struct closeup_key waits = {.timeout = CLOSEUP_SOME, .result = CLOSEUP_EMPTY};
	const struct {
		int percent;
		struct closeup_key how;
		uint64_t empty, full;
		bool found;
	} cases[] = {
		{90, empty, 500000, 0, true},
		{90, empty, 500000, 500000, false}, /* half of them have something */
		{90, empty, 500, 0, false},         /* not so often */
		{90, waits, 50000, 0, false},       /* a timeout that it may wait for */
		{10, empty, 500000, 0, false},      /* hardly any time */
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 8, "poller", cases[i].percent, POLL_STACK);
		called(&s, 8, "epoll_wait", cases[i].how, cases[i].empty, 0);
		if (cases[i].full)
			called(&s, 8, "epoll_wait", full, cases[i].full, 0);
		assert_int_equal(finds(&s, "busy-poll", &f), cases[i].found);
		if (cases[i].found) {
			assert_non_null(
				strstr(f.headline, "epoll_wait with a timeout of 0, 500,000"));
			assert_string_equal(f.stack, "main;loop;epoll_wait");
			assert_int_equal(f.tid, 8);
		}
		scene_done(&s);
	}
}

static void a_scan_of_proc(void **state)
{
	(void)state;
	for (int is_scan = 0; is_scan < 2; is_scan++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		for (uint32_t pid = 1; pid < 6; pid++) /* a process each second */
			ran(&s, pid, pid, "ps", 1, "main;|__x64_sys_read;|do_task_stat");
		s.closeup.ns = 2 * SECOND;
		/* One that reads files of its own process as often lists nothing. */
		s.closeup.counts.proc_lists = is_scan ? 4 : 0;
		s.closeup.counts.proc_opens = 300;
		assert_int_equal(finds(&s, "proc-scan", &f), is_scan);
		scene_done(&s);
	}
}

static void calls_that_fail(void **state)
{
	(void)state;
	static const struct closeup_key done = {.result = CLOSEUP_DONE};
	const struct {
		uint16_t error;
		uint64_t failed, done;
		bool found;
	} cases[] = {
		{2, 20000, 10, true},
		{2, 20000, 20000, false}, /* half of them work: looked for in several places */
		{11, 20000, 10, false},   /* EAGAIN is no failure */
		{25, 20000, 10, false},   /* nor is that a file is no terminal */
		{2, 300, 0, false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct closeup_key failed = {.result = CLOSEUP_FAILED, .error = cases[i].error};
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 7, "opener", 50, "main;open;|__x64_sys_openat;|do_filp_open");
		called(&s, 7, "openat", failed, cases[i].failed, 0);
		if (cases[i].done)
			called(&s, 7, "openat", done, cases[i].done, 0);
		snprintf(s.closeup.counts.failed, CLOSEUP_PATH, "/etc/x\n");
		assert_int_equal(finds(&s, "failing-calls", &f), cases[i].found);
		if (cases[i].found)
			assert_true(strstr(f.headline, "ENOENT") && !strchr(f.headline, '\n'));
		scene_done(&s);
	}
}

static void threads_that_wait(void **state)
{
	(void)state;
	/* How much of the second each of five waits for one lock, or for locks of their own. */
	const struct {
		uint64_t ns;
		bool one_lock, found;
	} cases[] = {{SECOND * 8 / 10, true, true},
		     {SECOND / 10, true, false},
		     {SECOND * 8 / 10, false, false}};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		for (uint32_t t = 0; t < 5; t++) {
			struct closeup_key lock = {.lock = cases[i].one_lock ? 64 : 64 + t,
						   .timeout = CLOSEUP_FOREVER};
			ran(&s, 7, 7 + t, "workers", 20, "work;critical_section");
			ran(&s, 7, 7 + t, "workers", 2, "work;lock;|__x64_sys_futex");
			called(&s, 7 + t, "futex", lock, 500, cases[i].ns);
		}
		assert_int_equal(finds(&s, "lock-convoy", &f), cases[i].found);
		if (cases[i].found)
			assert_string_equal(f.stack, "work;critical_section");
		scene_done(&s);
	}
}

/* The stack is that of samples in which a thread had the lock, not of where the process is most. */
static void whoever_has_the_lock(void **state)
{
	(void)state;
	for (int is_seen = 0; is_seen < 2; is_seen++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 7, "workers", 60, "work;elsewhere");
		for (uint32_t t = 0; t < 5; t++) {
			struct closeup_key lock = {.lock = 64, .timeout = CLOSEUP_FOREVER};
			ran(&s, 7, 7 + t, "workers", 10, "work;critical_section");
			called(&s, 7 + t, "futex", lock, 500, SECOND * 8 / 10);
		}
		s.closeup.holds = s.holds;
		for (uint32_t i = 0; i < 30; i++) {
			uint64_t at = i * SECOND / 40;
			const char *stack = i % 3 == 0   ? "work;elsewhere"
					    : i % 3 == 1 ? "work;critical_section;copy"
							 : "work;critical_section";
			s.samples[s.sample_count++] =
				(struct finding_sample){at + 5, 7 + i % 5, stack_of(&s, stack)};
			if (is_seen && i % 3)
				s.holds[s.closeup.hold_count++] =
					(struct closeup_hold){at, at + 9, 7 + i % 5, 64};
			else /* another lock, another thread, another time */
				s.holds[s.closeup.hold_count++] = (struct closeup_hold){
					at + (i % 2) * 6, at + 9, 7 + (i + i % 2) % 5, 65};
		}
		assert_true(finds(&s, "lock-convoy", &f));
		assert_string_equal(f.stack, is_seen ? "work;critical_section" : "work;elsewhere");
		assert_true(!!strstr(f.headline, "mostly in critical_section") == is_seen);
		scene_done(&s);
	}
}

static void a_bpf_program(void **state)
{
	(void)state;
	for (int is_dear = 0; is_dear < 2; is_dear++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		s.program = (struct bpf_cost){.id = 213,
					      .share = is_dear ? 0.032 : 0.008,
					      .rate = 812345,
					      .run_ns = 39,
					      .tag = "0123456789abcdef",
					      .name = "on_each_call"};
		ran(&s, 7, 7, "server", 50, "main;read;|do_syscall_64");
		ran(&s, 7, 7, "server", 1,
		    "main;write;|__traceiter;|bpf_prog_0123456789abcdef_on_");
		ran(&s, 7, 7, "server", 9, "main;read;|bpf_prog_fedcba9876543210_other");
		assert_int_equal(finds(&s, "bpf-program", &f), is_dear);
		if (is_dear) {
			assert_non_null(strstr(f.headline, "on_each_call"));
			assert_non_null(strstr(f.headline, "812,000 times a second"));
			assert_string_equal(f.next, "smolder bpf 213");
			assert_true(strncmp(f.stack, "main;write;", 11) == 0);
		}
		scene_done(&s);
	}
}

static void one_thread_that_others_wait_for(void **state)
{
	(void)state;
	for (int they_wait = 0; they_wait < 2; they_wait++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 7, "single", 97, "main;work");
		for (uint32_t t = 1; t < 4; t++) {
			struct closeup_key wait = {.timeout = CLOSEUP_FOREVER};
			ran(&s, 7, 7 + t, "single", 2, "start_thread;ask");
			if (they_wait)
				called(&s, 7 + t, "futex", wait, 50, SECOND / 2);
		}
		assert_int_equal(finds(&s, "one-thread", &f), they_wait);
		scene_done(&s);
	}
}

static void switches(void **state)
{
	(void)state;
	for (int is_storm = 0; is_storm < 2; is_storm++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 7, "pingpong", 50, "main;read;|__x64_sys_read;|schedule;|__schedule");
		s.closeup.switches = is_storm ? 150000 : 20000;
		assert_int_equal(finds(&s, "switch-storm", &f), is_storm);
		scene_done(&s);
	}
}

static void processes(void **state)
{
	(void)state;
	for (int is_storm = 0; is_storm < 2; is_storm++) {
		struct scene s;
		struct finding f;
		scene_init(&s);
		ran(&s, 7, 7, "sh", 30, "main;fork;|do_syscall_64;|__do_sys_clone;|kernel_clone");
		for (int i = 0; i < (is_storm ? 2000 : 300); i++)
			look_fork(&s.look, 7);
		assert_int_equal(finds(&s, "process-storm", &f), is_storm);
		if (is_storm) {
			assert_non_null(strstr(f.headline, "400 processes a second"));
			assert_string_equal(f.stack, "main;fork");
		}
		scene_done(&s);
	}
}

/* Those that are about the share of some code: enough of it, and somewhat less. */
static void shares_of_code(void **state)
{
	(void)state;
	static const struct {
		const char *kind, *stack;
		int enough;
	} cases[] = {
		{"page-faults", "main;touch;|asm_exc_page_fault", 40},
		{"allocator", "main;make;malloc;_int_malloc", 45},
		{"garbage-collector", "main;PyObject_New;gc_collect_main", 40},
		{"kernel-spinning", "main;mmap;|__x64_sys_mmap;|osq_lock", 25},
		{"softirq", "main;send;|__x64_sys_sendto;|handle_softirqs;|net_rx_action", 45},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		for (int is_less = 0; is_less < 2; is_less++) {
			struct scene s;
			struct finding f;
			int part = is_less ? cases[i].enough / 2 : cases[i].enough;
			scene_init(&s);
			ran(&s, 7, 7, "busy", part, cases[i].stack);
			ran(&s, 7, 7, "busy", 100 - part, "main;work");
			assert_int_equal(finds(&s, cases[i].kind, &f), !is_less);
			scene_done(&s);
		}
	}
}

static void the_machine(void **state)
{
	(void)state;
	struct scene s;
	struct finding f;

	scene_init(&s);
	ran(&s, 7, 7, "busy", 50, "main;work");
	s.machine.running = 12;
	assert_false(finds(&s, "cpu-queue", &f));
	s.machine.running = 20;
	assert_true(finds(&s, "cpu-queue", &f));
	s.machine.memory_stalls = 0.02;
	assert_false(finds(&s, "memory-pressure", &f));
	s.machine.memory_stalls = 0.3;
	assert_true(finds(&s, "memory-pressure", &f));
	assert_false(finds(&s, "throttled", &f));
	s.machine.groups[0] =
		(struct machine_group){.pid = 7, .start = 7, .held_back = 0.05, .quota = 0.5};
	snprintf(s.machine.groups[0].path, sizeof(s.machine.groups[0].path), "/cgroup/web");
	s.machine.group_count = 1;
	assert_false(finds(&s, "throttled", &f));
	s.machine.groups[0].held_back = 0.5;
	assert_true(finds(&s, "throttled", &f));
	assert_non_null(strstr(f.headline, "web"));
	scene_done(&s);
}

/* Each row of the table is whole, and none is without a test here. */
static void all_kinds_are_described(void **state)
{
	(void)state;
	unsigned count = 0;

	for (const struct finding_rule *r = finding_rules; r->kind; r++, count++) {
		assert_true(strlen(r->means) > 40 &&
			    strlen(r->means) < sizeof(((struct finding *)0)->means));
		assert_true(r->suspects && r->holds && r->looks > 0);
	}
	assert_int_equal(count, 16);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_busy_poll),
		cmocka_unit_test(a_scan_of_proc),
		cmocka_unit_test(calls_that_fail),
		cmocka_unit_test(threads_that_wait),
		cmocka_unit_test(whoever_has_the_lock),
		cmocka_unit_test(a_bpf_program),
		cmocka_unit_test(one_thread_that_others_wait_for),
		cmocka_unit_test(switches),
		cmocka_unit_test(processes),
		cmocka_unit_test(shares_of_code),
		cmocka_unit_test(the_machine),
		cmocka_unit_test(all_kinds_are_described),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Why threads wait, and which are idle: stacks of real programs, as they were recorded. */
#include "unit/unit.h"

#include "pipeline/wait_rules.h"
#include "pipeline/waiting.h"
#include "unit/sample.h"

/* What ends the stacks of system calls that wait, on Linux 6.18 and 5.10. */
#define ENTRY "[k]entry_SYSCALL_64_after_hwframe;[k]do_syscall_64"
#define FUTEX                                                                                      \
	ENTRY ";[k]__x64_sys_futex;[k]do_futex;[k]futex_wait;[k]__futex_wait;[k]futex_do_wait;[k]" \
	      "schedule"
#define FUTEX_5_10                                                                                 \
	ENTRY ";[k]__x64_sys_futex;[k]do_futex;[k]futex_wait;[k]futex_wait_queue_me;[k]schedule"
#define EPOLL ENTRY ";[k]__x64_sys_epoll_wait;[k]do_epoll_wait;[k]schedule_hrtimeout_range"
#define POLL  ENTRY ";[k]__x64_sys_poll;[k]do_sys_poll;[k]poll_schedule_timeout.constprop.0"
#define SELECT                                                                                     \
	ENTRY ";[k]__x64_sys_pselect6;[k]do_pselect.constprop.0;[k]core_sys_select;[k]do_select"
#define READ    ENTRY ";[k]ksys_read;[k]vfs_read"
#define MAIN    "_start@app;__libc_start_main@libc.so.6;main@app"
#define THREAD  "[libc.so.6+0x1070a0]@libc.so.6;[libc.so.6+0x88fd0]@libc.so.6"
#define KTHREAD "[k]ret_from_fork_asm;[k]ret_from_fork;[k]kthread"

static uint32_t stack_of(struct profile *p, const char *text)
{
	CLEANUP(freep) char *copy = mem_strdup(text);
	uint32_t stack = 0;
	char *save;

	for (char *f = strtok_r(copy, ";", &save); f; f = strtok_r(NULL, ";", &save))
		stack = profile_stack(p, stack, sample_frame(p, f));
	return stack;
}

static const char *said(const struct wait_verdict *v)
{
	static char text[200];

	snprintf(text, sizeof(text), "%s%s (%s)", wait_reason_name(v->reason),
		 v->is_idle ? " idle" : "", v->rule);
	return text;
}

struct wait_case {
	const char *stack;
	const char *expected; /* "lock", "lock idle" */
	const char *syscall, *thread;
	uint64_t args[WAIT_ARGS];
};

#define CASE(of, reason, ...)                                                                      \
	{                                                                                          \
		.stack = (of), .expected = (reason), __VA_ARGS__                                   \
	}

static void check(const struct wait_case *cases, size_t count, const struct waiting_options *o)
{
	struct profile *p = profile_new();
	struct waiting *w = waiting_new(p, o);

	for (size_t i = 0; i < count; i++) {
		const struct wait_case *c = &cases[i];
		struct wait_site site = {.stack = stack_of(p, c->stack),
					 .syscall = c->syscall,
					 .has_args = c->syscall,
					 .thread = c->thread};
		memcpy(site.args, c->args, sizeof(site.args));
		struct wait_verdict v = waiting_decide(w, &site);
		const char *is = said(&v);
		size_t len = strlen(c->expected);
		if (strncmp(is, c->expected, len) != 0 || strncmp(is + len, " (", 2) != 0)
			fail_msg("%s: %s, not %s", c->stack, is, c->expected);
	}
	waiting_free(w);
	profile_free(p);
}

#define CHECK(cases) check(cases, ARRAY_SIZE(cases), &(struct waiting_options){})

static void the_kernel_tells_what_is_waited_for(void **state)
{
	(void)state;
	static const struct wait_case cases[] = {
		/* disk */
		CASE(MAIN ";write@libc.so.6;" ENTRY
			  ";[k]ksys_write;[k]vfs_write;[k]ext4_file_write_iter;"
			  "[k]ext4_sync_file;[k]jbd2_log_wait_commit;[k]schedule",
		     "disk"),
		CASE(MAIN ";" READ
			  ";[k]filemap_read;[k]folio_wait_bit_common;[k]io_schedule;[k]schedule",
		     "disk"),
		CASE(MAIN
		     ";" READ
		     ";[k]generic_file_buffered_read;[k]wait_on_page_bit_common;[k]io_schedule",
		     "disk"),
		CASE(MAIN
		     ";fdatasync@libc.so.6;" ENTRY ";[k]__x64_sys_fdatasync;[k]vfs_fsync_range;"
		     "[k]xfs_file_fsync;[k]xfs_log_force_seq;[k]xlog_wait_on_iclog;[k]schedule",
		     "disk"),
		CASE(MAIN ";io_getevents@libaio.so.1;" ENTRY ";[k]do_io_getevents;[k]read_events",
		     "disk"),
		/* a read of a mapped file, a lock of the address space */
		CASE(MAIN
		     ";work@app;[k]asm_exc_page_fault;[k]exc_page_fault;[k]do_user_addr_fault;"
		     "[k]handle_mm_fault;[k]filemap_fault;[k]folio_wait_bit_common;[k]io_schedule",
		     "page_fault"),
		CASE(MAIN ";work@app;[k]asm_exc_page_fault;[k]exc_page_fault;[k]do_user_addr_fault;"
			  "[k]rwsem_down_read_slowpath;[k]schedule",
		     "lock"),
		CASE(MAIN ";" ENTRY
			  ";[k]ksys_write;[k]vfs_write;[k]__mutex_lock.constprop.0;[k]schedule",
		     "lock"),
		/* sockets */
		CASE(MAIN ";recv@libc.so.6;" ENTRY
			  ";[k]tcp_recvmsg;[k]tcp_recvmsg_locked;[k]sk_wait_data",
		     "network"),
		CASE(MAIN ";" READ
			  ";[k]unix_stream_recvmsg;[k]unix_stream_read_generic;[k]schedule_timeout",
		     "network"),
		CASE(MAIN ";accept@libc.so.6;" ENTRY
			  ";[k]__x64_sys_accept;[k]inet_csk_accept;[k]schedule_timeout",
		     "network idle"),
		CASE(MAIN ";accept4@libc.so.6;" ENTRY ";[k]unix_accept;[k]skb_recv_datagram;"
			  "[k]__skb_wait_for_more_packets;[k]schedule_timeout",
		     "network idle"),
		CASE(MAIN ";connect@libc.so.6;" ENTRY
			  ";[k]__inet_stream_connect;[k]inet_wait_for_connect",
		     "network"),
		CASE(MAIN ";recvmsg@libc.so.6;" ENTRY
			  ";[k]sock_recvmsg;[k]netlink_recvmsg;[k]__skb_wait_for_more_packets",
		     "network idle"),
		/* the rest */
		CASE(MAIN ";" READ ";[k]anon_pipe_read;[k]schedule", "pipe"),
		CASE(MAIN ";" READ ";[k]pipe_read;[k]schedule", "pipe"),
		CASE(MAIN ";" ENTRY ";[k]ksys_write;[k]vfs_write;[k]anon_pipe_write;[k]schedule",
		     "pipe"),
		CASE(MAIN ";sleep@libc.so.6;" ENTRY
			  ";[k]common_nsleep;[k]hrtimer_nanosleep;[k]do_nanosleep",
		     "timer"),
		CASE(MAIN ";wait4@libc.so.6;" ENTRY ";[k]kernel_wait4;[k]do_wait;[k]schedule",
		     "child"),
		CASE(MAIN ";" ENTRY ";[k]__x64_sys_rt_sigsuspend;[k]sigsuspend;[k]schedule",
		     "other idle"),
		CASE(MAIN ";" READ ";[k]tty_read;[k]n_tty_read;[k]wait_woken", "other idle"),
		CASE(MAIN ";" READ ";[k]inotify_read;[k]wait_woken", "other idle"),
		CASE(MAIN ";" READ ";[k]eventfd_read;[k]schedule", "other"),
		CASE(MAIN ";" ENTRY ";[k]io_cqring_wait;[k]schedule", "poll"),
		CASE(MAIN ";" ENTRY ";[k]new_function_of_a_later_kernel;[k]schedule", "other"),
		CASE("", "other"),
	};
	CHECK(cases);
}

static void a_kernel_thread_is_idle_in_its_own_loop(void **state)
{
	(void)state;
	static const struct wait_case cases[] = {
		CASE(KTHREAD ";[k]worker_thread;[k]schedule;[k]__schedule", "other idle"),
		CASE(KTHREAD
		     ";[k]rcu_gp_kthread;[k]rcu_gp_fqs_loop;[k]schedule_timeout;[k]schedule",
		     "other idle"),
		CASE(KTHREAD ";[k]kswapd;[k]schedule", "other idle"),
		CASE("[k]ret_from_fork_asm;[k]ret_from_fork;[k]kthreadd;[k]schedule", "other idle"),
		CASE("[k]ret_from_fork;[k]kthread;[k]kjournald2;[k]schedule",
		     "other idle"), /* 5.10 */
		CASE(KTHREAD ";[k]kjournald2;[k]jbd2_journal_commit_transaction;[k]wait_on_buffer;["
			     "k]schedule",
		     "disk"),
		CASE(KTHREAD ";[k]worker_thread;[k]process_one_work;[k]flush_work_of_some_driver;"
			     "[k]wait_for_completion;[k]schedule_timeout",
		     "other"),
		CASE(KTHREAD
		     ";[k]worker_thread;[k]process_one_work;[k]wb_workfn;[k]mutex_lock;[k]schedule",
		     "lock"),
	};
	CHECK(cases);
}

static void a_futex_is_told_by_the_program(void **state)
{
	(void)state;
	static const struct wait_case cases[] = {
		/* C */
		CASE(MAIN
		     ";work@app;pthread_mutex_lock@libc.so.6;[libc.so.6+0x8a000]@libc.so.6;" FUTEX,
		     "lock"),
		CASE(THREAD ";work@app;___pthread_mutex_lock@libc.so.6;" FUTEX_5_10, "lock"),
		CASE(MAIN ";join@app;pthread_join@libc.so.6;" FUTEX, "child"),
		CASE(MAIN ";spin@app;syscall@libc.so.6;" FUTEX, "lock"),
		/* a pool: the worker's own loop is idle, a wait for a result further down is not */
		CASE(THREAD ";worker@app;pthread_cond_wait@libc.so.6;" FUTEX, "lock idle",
		     .syscall = "futex", .args = {0, 0x189}),
		CASE(THREAD
		     ";execute_native_thread_routine@libstdc++.so.6;Pool::run(int)@app;"
		     "std::condition_variable::wait(std::unique_lock<std::mutex>&)@libstdc++.so.6;"
		     "pthread_cond_wait@libc.so.6;" FUTEX,
		     "lock idle"),
		CASE(THREAD ";worker@app;serve@app;handle@app;fetch@app;pthread_cond_wait@libc.so."
			    "6;" FUTEX,
		     "lock"),
		CASE("[m][incomplete];pthread_cond_wait@libc.so.6;" FUTEX, "lock"),
		CASE(MAIN ";pthread_cond_wait@libc.so.6;" FUTEX, "lock"),
		/* woken, and now it waits for the mutex */
		CASE(THREAD ";worker@app;pthread_cond_wait@libc.so.6;" FUTEX, "lock",
		     .syscall = "futex", .args = {0, 0x80}),
		/* Python */
		CASE(MAIN ";_PyEval_EvalFrameDefault@python3.11;take_gil@python3.11;" FUTEX,
		     "lock"),
		CASE(THREAD ";[python3.11+0x26d000]@python3.11;PyEval_RestoreThread@python3.11;"
			    "pthread_cond_timedwait@libc.so.6;" FUTEX,
		     "lock"),
		/* Go */
		CASE("[g]runtime.mcall;[g]runtime.park_m;[g]runtime.schedule;[g]runtime."
		     "findRunnable;"
		     "[g]runtime.stopm;[g]runtime.mPark;[g]runtime.notesleep;[g]runtime.futexsleep;"
		     "[g]runtime.futex;" FUTEX,
		     "lock idle"),
		CASE("[g]runtime.mcall;[g]runtime.park_m;[g]runtime.schedule;[g]runtime."
		     "findRunnable;"
		     "[g]runtime.netpoll;[g]internal/runtime/syscall.EpollWait;" EPOLL,
		     "poll idle"),
		CASE("[g]runtime.mstart;[g]runtime.mstart1;[g]runtime.sysmon;[g]runtime."
		     "usleep;" ENTRY ";[k]hrtimer_nanosleep",
		     "timer idle"),
		CASE("[g]main.main;[g]runtime.newobject;[g]runtime.mallocgc;[g]runtime.lock2;[g]"
		     "runtime.futexsleep;" FUTEX,
		     "lock"),
		/* Java */
		CASE(THREAD ";thread_native_entry(Thread*)@libjvm.so;GangWorker::run()@libjvm.so;"
			    "GangWorker::loop()@libjvm.so;GangWorker::wait_for_task()@libjvm.so;"
			    "PosixSemaphore::wait()@libjvm.so;sem_wait@libc.so.6;" FUTEX,
		     "lock idle"),
		CASE(THREAD
		     ";thread_native_entry(Thread*)@libjvm.so;CompileBroker::compiler_thread_loop()"
		     "@"
		     "libjvm.so;"
		     "CompileQueue::get(CompilerThread*)@libjvm.so;Monitor::wait(long)@libjvm.so;"
		     "pthread_cond_timedwait@libc.so.6;" FUTEX,
		     "lock idle"),
		CASE("[m][incomplete];[j]Interpreter;InterpreterRuntime::monitorenter(JavaThread*, "
		     "BasicObjectLock*)@libjvm.so;"
		     "ObjectMonitor::enter(JavaThread*)@libjvm.so;os::PlatformEvent::park()@libjvm."
		     "so;"
		     "pthread_cond_wait@libc.so.6;" FUTEX,
		     "lock", .thread = "pool-1-thread-1"),
		CASE("[m][incomplete];[j]Interpreter;Unsafe_Park@libjvm.so;Parker::park(bool, "
		     "long)@libjvm.so;"
		     "pthread_cond_wait@libc.so.6;" FUTEX,
		     "lock idle", .thread = "pool-1-thread-1"),
		CASE("[m][incomplete];[j]Interpreter;Unsafe_Park@libjvm.so;Parker::park(bool, "
		     "long)@libjvm.so;"
		     "pthread_cond_wait@libc.so.6;" FUTEX,
		     "lock", .thread = "java"),
		CASE("[j]java.util.concurrent.locks.AbstractQueuedSynchronizer.acquire(int);[j]"
		     "Interpreter;"
		     "Unsafe_Park@libjvm.so;pthread_cond_wait@libc.so.6;" FUTEX,
		     "lock", .thread = "pool-1-thread-1"),
		/* PostgreSQL's light-weight locks */
		CASE(MAIN ";PostgresMain@postgres;XLogFlush@postgres;LWLockAcquireOrWait@postgres;"
			  "PGSemaphoreLock@postgres;sem_wait@libc.so.6;" FUTEX,
		     "lock"),
	};
	CHECK(cases);
}

static void poll_is_told_by_who_calls_it_and_for_what(void **state)
{
	(void)state;
	static const uint64_t ever = (uint32_t)-1;
	const struct wait_case cases[] = {
		/* servers' loops */
		CASE("_start@nginx;main@nginx;ngx_master_process_cycle@nginx;ngx_process_events_"
		     "and_"
		     "timers@nginx;"
		     "epoll_wait@libc.so.6;" EPOLL,
		     "poll idle"),
		CASE("_start@redis-server;main@redis-server;aeMain@redis-server;aeProcessEvents@"
		     "redis-"
		     "server;"
		     "epoll_wait@libc.so.6;" EPOLL,
		     "poll idle"),
		CASE(MAIN
		     ";PostmasterMain@postgres;PostgresMain@postgres;pq_getbyte@postgres;secure_"
		     "read@postgres;"
		     "WaitEventSetWait@postgres;epoll_wait@libc.so.6;" EPOLL,
		     "network idle"),
		CASE(MAIN
		     ";PostmasterMain@postgres;PostgresMain@postgres;heap_update@postgres;"
		     "LockAcquireExtended@postgres;"
		     "ProcSleep@postgres;WaitLatch@postgres;WaitEventSetWait@postgres;epoll_wait@"
		     "libc.so.6;" EPOLL,
		     "lock"),
		CASE(MAIN
		     ";PostmasterMain@postgres;WalWriterMain@postgres;WaitLatch@postgres;epoll_"
		     "wait@libc.so.6;" EPOLL,
		     "poll idle"),
		CASE(MAIN
		     ";PostmasterMain@postgres;PostgresMain@postgres;pg_sleep@postgres;WaitLatch@"
		     "postgres;" EPOLL,
		     "poll"),
		/* a client that waits for an answer */
		CASE(MAIN ";curl_multi_poll@libcurl.so.4;poll@libc.so.6;" POLL, "network",
		     .syscall = "poll", .args = {1, 2, 1000}),
		CASE(MAIN ";PQgetResult@libpq.so.5;poll@libc.so.6;" POLL, "network",
		     .syscall = "poll", .args = {1, 1, ever}),
		/* unknown programs */
		CASE(MAIN ";poll@libc.so.6;" POLL, "timer", .syscall = "poll",
		     .args = {0, 0, 1000}),
		CASE(MAIN ";poll@libc.so.6;" POLL, "poll", .syscall = "poll", .args = {1, 1, ever}),
		CASE(MAIN ";poll@libc.so.6;" POLL, "poll idle", .syscall = "poll",
		     .args = {1, 3, ever}),
		CASE(MAIN ";poll@libc.so.6;" POLL, "poll", .syscall = "poll", .args = {1, 3, 1000}),
		CASE(MAIN ";ppoll@libc.so.6;" POLL, "poll idle", .syscall = "ppoll",
		     .args = {1, 3, 0}),
		CASE(MAIN ";poll@libc.so.6;" POLL, "poll"), /* no arguments are known */
		CASE(MAIN ";select@libc.so.6;" SELECT, "timer", .syscall = "pselect6",
		     .args = {0, 0, 0, 0, 1}),
		CASE(MAIN ";select@libc.so.6;" SELECT, "poll idle", .syscall = "pselect6",
		     .args = {9, 1, 0, 0, 0}),
		CASE(MAIN ";g_main_loop_run@libglib-2.0.so.0;poll@libc.so.6;" POLL, "poll idle",
		     .syscall = "poll", .args = {1, 2, 500}),
	};
	CHECK(cases);
}

static void without_a_kernel_stack_the_system_call_tells(void **state)
{
	(void)state;
	static const struct wait_case cases[] = {
		CASE(MAIN ";work@app;pthread_mutex_lock@libc.so.6", "lock", .syscall = "futex"),
		CASE(THREAD ";worker@app;pthread_cond_wait@libc.so.6", "lock idle",
		     .syscall = "futex", .args = {0, 0x189}),
		CASE(MAIN ";epoll_wait@libc.so.6", "poll idle", .syscall = "epoll_wait"),
		CASE(MAIN ";accept4@libc.so.6", "network idle", .syscall = "accept4"),
		CASE(MAIN ";nanosleep@libc.so.6", "timer", .syscall = "clock_nanosleep"),
		CASE(MAIN ";fsync@libc.so.6", "disk", .syscall = "fsync"),
		CASE(MAIN ";read@libc.so.6", "other", .syscall = "read"),
		CASE(MAIN ";work@app", "other"),
	};
	CHECK(cases);
}

static void a_runnable_thread_waits_for_a_cpu(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct waiting *w = waiting_new(p, &(struct waiting_options){});
	struct wait_verdict v = waiting_decide(
		w, &(struct wait_site){.stack = stack_of(p, MAIN ";" EPOLL), .is_runnable = true});

	assert_string_equal(said(&v), "cpu (runnable)");
	waiting_free(w);
	profile_free(p);
}

static void functions_of_the_configuration_decide_first(void **state)
{
	(void)state;
	static const struct wait_case cases[] = {
		CASE(MAIN ";my_worker_wait@app;pthread_cond_wait@libc.so.6;" FUTEX, "lock idle"),
		CASE(MAIN ";my_worker_wait.constprop.0@app;" POLL, "poll idle"),
		CASE(MAIN ";dispatch_sync@app;epoll_wait@libc.so.6;" EPOLL, "poll"),
		/* the innermost of them */
		CASE(MAIN ";my_worker_wait@app;dispatch_sync@app;epoll_wait@libc.so.6;" EPOLL,
		     "poll"),
		CASE(MAIN ";dispatch_sync@app;my_worker_wait@app;" POLL, "poll idle"),
		/* of both lists, of a class, of the kernel */
		CASE(MAIN ";both@app;" EPOLL, "poll"),
		CASE(MAIN ";Pool::next(int, char*)@app;" POLL, "poll idle"),
		CASE(MAIN ";" READ ";[k]anon_pipe_read;[k]schedule", "pipe idle"),
		CASE(MAIN ";other_worker_wait@app;" POLL, "poll"),
	};
	static const char *const idle[] = {"my_*_wait", "Pool::next", "both", "anon_pipe_read",
					   NULL};
	static const char *const blocked[] = {"dispatch_sync", "both", NULL};

	check(cases, ARRAY_SIZE(cases),
	      &(struct waiting_options){.idle = idle, .blocked = blocked});
}

static void an_idle_stack_stands_on_its_mark(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	uint32_t stack = stack_of(p, "main;work;[k]schedule");
	uint32_t marked = waiting_idle_stack(p, stack);

	assert_int_equal(marked, stack_of(p, "[m]" WAITING_IDLE ";main;work;[k]schedule"));
	assert_int_equal(waiting_idle_stack(p, stack), marked);
	assert_int_equal(waiting_idle_stack(p, 0), stack_of(p, "[m]" WAITING_IDLE));
	profile_free(p);
}

/* Every rule can decide: one whose conditions an earlier rule has all met already is of no use. */
static void every_rule_is_named_once(void **state)
{
	(void)state;

	for (size_t i = 0; i < wait_rules_count; i++) {
		const struct wait_rule *r = &wait_rules[i];
		assert_true(r->kernel || r->user || r->syscall);
		for (size_t k = 0; k < i; k++)
			assert_string_not_equal(r->name, wait_rules[k].name);
	}
}

static void hostile_names_are_only_names(void **state)
{
	(void)state;
	struct profile *p = profile_new();
	struct waiting *w = waiting_new(p, &(struct waiting_options){});
	char name[1200];

	/* More names than a table of kinds could hold, and such as make patterns try for long. */
	for (unsigned i = 0; i < 70000; i++) {
		snprintf(name, sizeof(name), "(((f_%u", i);
		waiting_decide(w, &(struct wait_site){.stack = stack_of(p, name)});
	}
	memset(name, 'a', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	waiting_decide(w, &(struct wait_site){.stack = stack_of(p, name)});
	waiting_decide(w, &(struct wait_site){.stack = stack_of(p, "_;__;(;.;.isra.;()")});
	waiting_free(w);
	profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_kernel_tells_what_is_waited_for),
		cmocka_unit_test(a_kernel_thread_is_idle_in_its_own_loop),
		cmocka_unit_test(a_futex_is_told_by_the_program),
		cmocka_unit_test(poll_is_told_by_who_calls_it_and_for_what),
		cmocka_unit_test(without_a_kernel_stack_the_system_call_tells),
		cmocka_unit_test(a_runnable_thread_waits_for_a_cpu),
		cmocka_unit_test(functions_of_the_configuration_decide_first),
		cmocka_unit_test(an_idle_stack_stands_on_its_mark),
		cmocka_unit_test(every_rule_is_named_once),
		cmocka_unit_test(hostile_names_are_only_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/*
 * Names hold from Linux 5.10 to 6.18: where a function was renamed, or is inlined by some
 * compilers, its former name and its caller's stand beside it (pipe_read became anon_pipe_read;
 * ep_poll is often part of do_epoll_wait).
 *
 * The order: what the kernel does on behalf of anybody (locks of its own, disks); then what the
 * program's functions tell of waits that the kernel cannot tell apart, those on a futex or in poll;
 * then what the kernel's functions tell of the rest.
 */
#include "pipeline/wait_rules.h"

#include "base/mem.h"

/* Where it waits: the kernel's functions, or for stacks without them the system calls. */
#define FUTEX                                                                                      \
	.kernel = "do_futex|futex_wait*|futex_do_wait|futex_lock_pi*",                             \
	.syscall = "futex|futex_time64|futex_wait|futex_waitv"
#define EPOLL .kernel = "ep_poll|do_epoll_*wait*", .syscall = "epoll_*wait*"
#define POLL                                                                                       \
	.kernel = "do_sys_poll|do_poll*|do_select|*core_sys_select",                               \
	.syscall = "poll|ppoll*|select|pselect6*|_newselect"
#define ANY_POLL                                                                                   \
	.kernel = "ep_poll|do_epoll_*wait*|do_sys_poll|do_poll*|do_select|*core_sys_select",       \
	.syscall = "epoll_*wait*|poll|ppoll*|select|pselect6*|_newselect"

/* Functions that wait until another thread says so. */
#define CONDITION                                                                                  \
	"pthread_cond_wait|pthread_cond_timedwait|pthread_cond_clockwait|sem_wait|sem_timedwait|"  \
	"sem_clockwait|new_sem_wait*"

/* clang-format off */
const struct wait_rule wait_rules[] = {
	/* ---- the kernel on behalf of anybody ---- */
	{"lock in the kernel",
	 .kernel = "mutex_lock*|ww_mutex_lock*|rt_mutex_slow*|rwsem_down_*|rwbase_*|percpu_rwsem_wait|"
		   "percpu_down_*|down|down_interruptible|down_killable|down_timeout",
	 .reason = WAIT_LOCK},
	{"page fault",
	 .kernel = "handle_mm_fault|do_user_addr_fault|exc_page_fault|asm_exc_page_fault|do_page_fault",
	 .reason = WAIT_PAGE_FAULT},
	{"network file system",
	 .kernel = "rpc_wait_bit*|nfs_wait_*|nfs4_wait_*|p9_client_rpc|cifs_send_recv|ceph_mdsc_*",
	 .reason = WAIT_NETWORK},
	{"MySQL's threads for asynchronous I/O", .user = "io_handler_thread|fil_aio_wait",
	 .kernel = "read_events|do_io_getevents", .syscall = "io_getevents", .reason = WAIT_DISK,
	 .is_idle = true},
	{"disk",
	 .kernel = "io_schedule*|folio_wait_*|wait_on_page_bit*|wait_on_buffer|blk_mq_get_tag|rq_qos_wait|"
		   "submit_bio_wait|blk_queue_enter|blkdev_issue_*|blk_execute_rq|balance_dirty_pages*|"
		   "vfs_fsync*|sync_inodes_sb|wb_wait_for_completion|jbd2_log_wait_commit|"
		   "jbd2_journal_commit_transaction|wait_transaction_locked|add_transaction_credits|xlog_*|"
		   "xfs_log_force*|xfs_buf_iowait|btrfs_wait_*|btrfs_commit_transaction|wait_current_trans|"
		   "dio_await*|iomap_dio_*|md_write_start|request_wait_answer|read_events|do_io_getevents",
	 .syscall = "fsync|fdatasync|sync|syncfs|sync_file_range|msync|io_getevents|io_pgetevents*",
	 .reason = WAIT_DISK},

	/* ---- locks that programs and runtimes have of their own ---- */
	{"PostgreSQL's locks",
	 .user = "ProcSleep|LWLockAcquire*|LWLockWaitForVar|PGSemaphoreLock|LockBufferForCleanup",
	 .reason = WAIT_LOCK},
	{"Python's interpreter lock", .user = "take_gil", .reason = WAIT_LOCK},
	{"Python's interpreter lock, seen without symbols", FUTEX,
	 .user = "pthread_cond_timedwait|pthread_cond_clockwait|pthread_cond_wait",
	 .module = "python3*|libpython3*", .reason = WAIT_LOCK},
	{"Ruby's interpreter lock", FUTEX, .user = "gvl_acquire*|thread_sched_to_running*",
	 .reason = WAIT_LOCK},
	{"Java's synchronized", FUTEX,
	 .user = "ObjectMonitor::enter*|ObjectMonitor::EnterI|ObjectMonitor::ReenterI|"
		 "ObjectSynchronizer::enter*|InterpreterRuntime::monitorenter|"
		 "SharedRuntime::monitor_enter_helper|Mutex::lock*",
	 .reason = WAIT_LOCK},
	{"Java's locks", FUTEX,
	 .user = "*AbstractQueuedSynchronizer.acquire*|*AbstractQueuedLongSynchronizer.acquire*",
	 .reason = WAIT_LOCK},
	{"lock of Go's runtime", .user = "runtime.lock2|runtime.lock|runtime.lockWithRank",
	 .reason = WAIT_LOCK},
	{"mutex or read-write lock", FUTEX,
	 .user = "pthread_mutex_*lock|pthread_mutex_lock*|pthread_rwlock_*|lll_lock_wait*|"
		 "*futex::Mutex::lock_contended|*RawMutex::lock_slow|absl::*Mutex::Lock*",
	 .reason = WAIT_LOCK},
	{"mutex, taken again after a condition", FUTEX, .user = "pthread_cond_*",
	 .module = "libc.so.6|libc-2.*|libpthread-2.*", .when = WAIT_ON_WORD, .reason = WAIT_LOCK},
	{"end of another thread", FUTEX, .user = "pthread_join|pthread_timedjoin_np|pthread_clockjoin_np",
	 .reason = WAIT_CHILD},
	{"OpenMP: the rest of the team", FUTEX,
	 .user = "gomp_team_barrier_wait*|gomp_barrier_wait*|kmp_join_barrier*", .reason = WAIT_LOCK},

	/* ---- workers of runtimes and programs ---- */
	{"Go: no goroutine to run; network", EPOLL, .user = "runtime.findRunnable|runtime.findrunnable",
	 .reason = WAIT_POLL, .is_idle = true},
	{"Go: no goroutine to run", FUTEX,
	 .user = "runtime.findRunnable|runtime.findrunnable|runtime.stopm|runtime.mPark|runtime.stoplockedm|"
		 "runtime.templateThread|runtime.notetsleepg|runtime.sysmon",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Go: the runtime's monitor", .user = "runtime.sysmon", .reason = WAIT_TIMER, .is_idle = true},
	{"Java: queue of an executor", FUTEX,
	 .user = "*ThreadPoolExecutor.getTask*|*ForkJoinPool.awaitWork*|*BlockingQueue.take*|"
		 "*DelayedWorkQueue.take*|*LinkedTransferQueue.take*|*ReferenceQueue.remove*|"
		 "*TimerThread.mainLoop*",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Java: threads of the virtual machine", FUTEX,
	 .user = "GangWorker::wait_for_task|CompileQueue::get|WatcherThread::*|VMThread::wait_for_operation|"
		 "signal_thread_entry|os::signal_wait|JVM_WaitForReferencePendingList|*::wait_for_task|"
		 "*::wait_for_completed_buffers|*::wait_for_next_cycle|G1ServiceThread::*|"
		 "ServiceThread::service_thread_entry|MonitorDeflationThread::*|NotificationThread::*",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Java: workers of the garbage collector", FUTEX, .user = "PosixSemaphore::wait|Semaphore::wait",
	 .caller = "WorkerThread::run", .reason = WAIT_LOCK, .is_idle = true},
	{"Java: the virtual machine's own thread", FUTEX, .user = "Monitor::wait*", .caller = "VMThread::loop",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Java: a thread named as a pool's", FUTEX, .user = "Unsafe_Park|Parker::park",
	 .thread = "pool-*|ForkJoi*|*-exec-*|*worker*|*Worker*|qtp*|XNIO*|Common-Cleaner|HttpClient-*|Timer-*",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Java: threads that clean up", FUTEX, .user = "JVM_MonitorWait|ObjectMonitor::wait",
	 .thread = "Finalizer|Reference Handl|Common-Cleaner|Cleaner-*|Timer-*", .reason = WAIT_LOCK,
	 .is_idle = true},
	{"Rust: workers of tokio and rayon", FUTEX,
	 .user = "tokio::runtime::*::park*|tokio::runtime::blocking::pool::Inner::run|"
		 "rayon_core::sleep::Sleep::sleep",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"Erlang: schedulers", FUTEX, .user = "scheduler_wait*|erts_schedule", .reason = WAIT_LOCK,
	 .is_idle = true},
	{"OpenMP: between two parallel regions", FUTEX, .user = "gomp_simple_barrier_wait*|kmp_fork_barrier*",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"pools of node, nginx, redis and jemalloc", FUTEX, .user = CONDITION,
	 .caller = "*PlatformWorkerThread*|*BlockingPop*|ngx_thread_pool_cycle|bioProcessBackgroundJobs|"
		   "background_thread_entry",
	 .reason = WAIT_LOCK, .is_idle = true},
	{"condition or semaphore in the outermost loop of a thread", FUTEX, .user = CONDITION,
	 .when = WAIT_OUTERMOST, .reason = WAIT_LOCK, .is_idle = true},
	{"futex", FUTEX, .reason = WAIT_LOCK},

	/* ---- poll, epoll, select ---- */
	{"poll on nothing", POLL, .when = WAIT_FOR_NOTHING, .reason = WAIT_TIMER},
	{"PostgreSQL: next command", ANY_POLL, .user = "secure_read|pq_recvbuf|ReadCommand",
	 .reason = WAIT_NETWORK, .is_idle = true},
	{"PostgreSQL: a client or standby that does not read", ANY_POLL,
	 .user = "secure_write|internal_flush|SyncRepWaitForLSN", .reason = WAIT_NETWORK},
	{"PostgreSQL: background processes", ANY_POLL, .user = "WaitLatch*|WaitEventSetWait*",
	 .caller = "ServerLoop|AutoVacLauncherMain|StartAutoVacLauncher|BackgroundWriterMain|"
		   "CheckpointerMain|WalWriterMain|WalSndLoop|WalReceiverMain|ApplyLauncherMain|"
		   "PgArchiverMain|SysLoggerMain|SysLogger_Start",
	 .reason = WAIT_POLL, .is_idle = true},
	{"PostgreSQL: the postmaster", POLL, .user = "PostmasterMain", .reason = WAIT_POLL, .is_idle = true},
	{"PostgreSQL: any other latch", ANY_POLL, .user = "WaitLatch*|WaitEventSetWait*",
	 .reason = WAIT_POLL},
	{"MySQL: next command", ANY_POLL, .user = "Protocol_classic::get_command|my_net_read*|vio_read*",
	 .caller = "do_command", .reason = WAIT_NETWORK, .is_idle = true},
	{"answer to a client library", ANY_POLL,
	 .user = "curl_*|Curl_*|PQ*|pqSocket*|pqWait*|mysql_*|redisGetReply|res_*|getaddrinfo|"
		 "gethostbyname*",
	 .reason = WAIT_NETWORK},
	{"event loop", ANY_POLL,
	 .user = "g_main_context_iter*|g_main_loop_run|event_base_loop|ev_run|uv_run|aeProcessEvents|"
		 "ngx_process_events_and_timers|sd_event_wait|sd_event_run",
	 .reason = WAIT_POLL, .is_idle = true},
	{"epoll", EPOLL, .reason = WAIT_POLL, .is_idle = true},
	{"poll on one descriptor", POLL, .when = WAIT_FOR_ONE, .reason = WAIT_POLL},
	{"poll on several, without a timeout", POLL, .when = WAIT_FOR_EVER, .reason = WAIT_POLL,
	 .is_idle = true},
	{"poll", POLL, .reason = WAIT_POLL},
	{"io_uring", .kernel = "io_cqring_wait", .syscall = "io_uring_enter", .reason = WAIT_POLL},

	/* ---- what the kernel's functions tell ---- */
	{"next connection",
	 .kernel = "inet_csk_accept|inet_csk_wait_for_connect|unix_accept|vsock_accept|do_accept|"
		   "sys_accept4*",
	 .syscall = "accept|accept4", .reason = WAIT_NETWORK, .is_idle = true},
	{"packets and messages of the kernel", .kernel = "netlink_recvmsg|packet_recvmsg|tun_do_read|tap_do_read",
	 .reason = WAIT_NETWORK, .is_idle = true},
	{"socket",
	 .kernel = "sk_wait_data|tcp_recvmsg*|tcp_sendmsg*|sk_stream_wait_*|inet_stream_connect*|"
		   "inet_wait_for_connect|unix_stream_*|unix_wait_for_peer|unix_dgram_*|"
		   "skb_wait_for_more_packets|skb_recv_datagram|udp_recvmsg|udpv6_recvmsg|"
		   "sock_alloc_send_pskb|sock_recvmsg|sock_sendmsg|vsock_*|tls_sw_*|sctp_*|mptcp_*",
	 .syscall = "recv*|send*|connect", .reason = WAIT_NETWORK},
	{"pipe", .kernel = "pipe_read|pipe_write|anon_pipe_*|fifo_pipe_*|pipe_wait*|wait_for_partner|fifo_open",
	 .syscall = "splice|vmsplice|tee", .reason = WAIT_PIPE},
	{"sleep", .kernel = "hrtimer_nanosleep|common_nsleep*|do_nanosleep|timerfd_read*",
	 .syscall = "nanosleep|clock_nanosleep*", .reason = WAIT_TIMER},
	{"end of a child process", .kernel = "do_wait|kernel_wait4|kernel_waitid|wait_for_vfork_done|kernel_clone",
	 .syscall = "wait4|waitid|waitpid|vfork", .reason = WAIT_CHILD},
	{"file lock or System V semaphore",
	 .kernel = "locks_lock_inode_wait|flock_lock_inode_wait|fcntl_setlk*|do_semtimedop",
	 .syscall = "flock|semop|semtimedop*", .reason = WAIT_LOCK},
	{"signal", .kernel = "do_sigtimedwait|sigsuspend|x64_sys_pause|do_sys_pause|signalfd_read*|signalfd_dequeue",
	 .syscall = "rt_sigtimedwait*|rt_sigsuspend|sigsuspend|pause", .reason = WAIT_OTHER,
	 .is_idle = true},
	{"input: a terminal, a device, changes of files, a request to a file system",
	 .kernel = "n_tty_read|inotify_read|fanotify_read|fuse_dev_do_read|evdev_read|devkmsg_read|do_syslog|"
		   "ring_buffer_wait",
	 .reason = WAIT_OTHER, .is_idle = true},
	{"virtual CPU that is halted", .kernel = "kvm_vcpu_block|kvm_vcpu_halt", .reason = WAIT_OTHER,
	 .is_idle = true},
	{"thread of the kernel, in its outermost loop", .kernel = "ret_from_fork*", .when = WAIT_OUTERMOST,
	 .reason = WAIT_OTHER, .is_idle = true},
};
/* clang-format on */

const size_t wait_rules_count = ARRAY_SIZE(wait_rules);
_Static_assert(ARRAY_SIZE(wait_rules) <= WAIT_RULES_MAX, "more rules than a set of them can hold");

const char wait_plumbing_user[] =
	"clone|clone3|start_thread|thread_start|execute_native_thread_routine|std::*|" CONDITION
	"|futex_*|syscall|uv_cond_wait|uv_cond_timedwait|uv_sem_wait|g_cond_wait*";
const char wait_plumbing_modules[] = "libc.so*|libc-2*|libpthread*|libstdc++*|libc++*|ld-musl-*";
const char wait_plumbing_kernel[] =
	"ret_from_fork*|kthread|schedule*|io_schedule*|wait_woken|msleep*|usleep_range*|"
	"wait_for_completion*|wait_for_common*";

const char wait_start_user[] = "clone|clone3|start_thread|thread_start";
const char wait_start_modules[] = "libc.so*|libc-2*|libpthread*|ld-musl-*";
const char wait_start_kernel[] = "ret_from_fork*";

/* "a|b" as "`a` `b`". */
static void print_patterns(FILE *out, const char *before, const char *patterns)
{
	if (!patterns)
		return;
	fputs(before, out);
	for (const char *s = patterns; *s;) {
		size_t len = strcspn(s, "|");
		fprintf(out, " `%.*s`", (int)len, s);
		s += len + (s[len] == '|');
	}
}

void wait_rules_print(FILE *out)
{
	static const char *const when[] = {
		[WAIT_WHENEVER] = "",
		[WAIT_OUTERMOST] = " in the outermost loop of its thread",
		[WAIT_FOR_NOTHING] = " on no descriptor",
		[WAIT_FOR_ONE] = " on one descriptor",
		[WAIT_FOR_EVER] = " without a timeout",
		[WAIT_ON_WORD] = " by `FUTEX_WAIT`",
	};

	fputs("| rule | in the kernel; or the system call | in the program | reason | idle |\n"
	      "|---|---|---|---|---|\n",
	      out);
	for (size_t i = 0; i < wait_rules_count; i++) {
		const struct wait_rule *r = &wait_rules[i];
		fprintf(out, "| %s |", r->name);
		print_patterns(out, "", r->kernel);
		print_patterns(out, r->kernel ? ";" : "", r->syscall);
		fputs(" |", out);
		print_patterns(out, "", r->user);
		print_patterns(out, " in", r->module);
		print_patterns(out, " under", r->caller);
		print_patterns(out, " in a thread named", r->thread);
		fprintf(out, "%s | %s | %s |\n", when[r->when], wait_reason_name(r->reason),
			r->is_idle ? "idle" : "");
	}
}

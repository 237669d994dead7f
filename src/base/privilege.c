#include "base/privilege.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <linux/bpf.h>
#include <pwd.h>
#include <seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/prctl.h>
#include <ucontext.h>
#include <unistd.h>

#include "arch/arch.h"
#include "base/mem.h"

#ifndef SYS_SECCOMP
#define SYS_SECCOMP 1 /* si_code of SIGSYS; not in glibc's headers */
#endif

static int look_up(const char *name, struct privilege_user *ret)
{
	const struct passwd *p = getpwnam(name);

	if (!p)
		return -ENOENT;
	*ret = (struct privilege_user){.uid = p->pw_uid, .gid = p->pw_gid};
	snprintf(ret->name, sizeof(ret->name), "%s", p->pw_name);
	return 0;
}

void privilege_user_of(uid_t uid, gid_t gid, struct privilege_user *ret)
{
	const struct passwd *p = getpwuid(uid);

	*ret = (struct privilege_user){.uid = uid, .gid = p ? p->pw_gid : gid};
	if (p)
		snprintf(ret->name, sizeof(ret->name), "%s", p->pw_name);
	else
		snprintf(ret->name, sizeof(ret->name), "uid %u", uid);
}

int privilege_find_user(const char *name, struct privilege_user *ret)
{
	const char *caller = getenv("SUDO_USER");

	if (name)
		return look_up(name, ret);
	if (look_up("smolder", ret) == 0)
		return 0;
	if (caller && look_up(caller, ret) == 0 && ret->uid != 0)
		return 0;
	return look_up("nobody", ret);
}

struct missing {
	char *names;
	size_t size;
	unsigned count;
};

static void add_missing(struct missing *m, cap_value_t cap)
{
	char *name = cap_to_name(cap);
	size_t n = strlen(m->names);

	snprintf(m->names + n, m->size - n, "%s%s", n ? ", " : "", name ? name : "?");
	for (char *c = m->names + n; *c; c++)
		*c = (char)toupper((unsigned char)*c);
	m->count++;
	cap_free(name);
}

static int keep(const cap_value_t *caps, int count, struct missing *missing)
{
	cap_t now = cap_get_proc(), want = cap_init();
	int r = now && want ? 0 : -errno;

	for (int i = 0; !r && i < count; i++) {
		cap_flag_value_t has = CAP_CLEAR;
		if (cap_get_flag(now, caps[i], CAP_PERMITTED, &has) != 0 || has != CAP_SET) {
			add_missing(missing,
				    caps[i]); /* in a container, or bounded by a systemd unit */
			continue;
		}
		if (cap_set_flag(want, CAP_PERMITTED, 1, &caps[i], CAP_SET) != 0 ||
		    cap_set_flag(want, CAP_EFFECTIVE, 1, &caps[i], CAP_SET) != 0)
			r = -errno;
	}
	if (!r && cap_set_proc(want) != 0)
		r = -errno;
	cap_free(now);
	cap_free(want);
	if (!r && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
		r = -errno;
	return r;
}

bool privilege_may_become(void)
{
	static const cap_value_t caps[] = {CAP_SETUID, CAP_SETGID, CAP_CHOWN};
	cap_t now = cap_get_proc();
	bool may = now;

	for (size_t i = 0; may && i < ARRAY_SIZE(caps); i++) {
		cap_flag_value_t has = CAP_CLEAR;
		may = cap_get_flag(now, caps[i], CAP_EFFECTIVE, &has) == 0 && has == CAP_SET;
	}
	cap_free(now);
	return may;
}

int privilege_become(const struct privilege_user *u)
{
	if (geteuid() == 0 && u->uid != 0 &&
	    (setgroups(0, NULL) != 0 || setresgid(u->gid, u->gid, u->gid) != 0 ||
	     setresuid(u->uid, u->uid, u->uid) != 0))
		return -errno;
	return keep(NULL, 0, NULL);
}

int privilege_keep_collector(bool admin, char *ret_missing, size_t size, unsigned *ret_count)
{
	static const cap_value_t caps[] = {
		CAP_BPF,
		CAP_PERFMON,
		CAP_SYS_PTRACE,
		CAP_DAC_READ_SEARCH,
		CAP_CHECKPOINT_RESTORE,
		CAP_SYSLOG,
		CAP_SYS_ADMIN, /* last */
	};

	struct missing missing = {.names = ret_missing, .size = size};

	ret_missing[0] = '\0';
	int r = keep(caps, (int)ARRAY_SIZE(caps) - !admin, &missing);
	*ret_count = missing.count;
	return r;
}

#define CALL(name) SCMP_SYS(name)

static const int collector_calls[] = {
	/* memory, threads, time, the end */
	CALL(mmap),
	CALL(munmap),
	CALL(mremap),
	CALL(mprotect),
	CALL(madvise),
	CALL(brk),
	CALL(futex),
	CALL(clone),
	CALL(clone3),
	CALL(set_robust_list),
	CALL(rseq),
	CALL(exit),
	CALL(exit_group),
	CALL(sched_yield),
	CALL(sched_getaffinity),
	CALL(getcpu),
	CALL(setpriority),
	CALL(membarrier),
	CALL(rt_sigaction),
	CALL(rt_sigprocmask),
	CALL(rt_sigreturn),
	CALL(sigaltstack),
	CALL(restart_syscall),
	CALL(getpid),
	CALL(gettid),
	CALL(getppid),
	CALL(kill),
	CALL(tgkill),
	CALL(clock_gettime),
	CALL(clock_getres),
	CALL(clock_nanosleep),
	CALL(nanosleep),
	CALL(gettimeofday),
	CALL(getrandom),
	CALL(getrusage),
	CALL(prctl),
	CALL(prlimit64),
	CALL(uname),
	CALL(sysinfo),
	CALL(getuid),
	CALL(geteuid),
	CALL(getgid),
	CALL(getegid),
	/* code of other processes, where a walk meets code without tables */
	CALL(process_vm_readv),
	/* files: those of other processes to read, the cache of unwind tables to write */
	CALL(read),
	CALL(write),
	CALL(pread64),
	CALL(pwrite64),
	CALL(readv),
	CALL(writev),
	CALL(preadv),
	CALL(preadv2),
	CALL(openat),
	CALL(openat2), /* files in another process's root: debug files, maps of JIT code */
	CALL(open),
	CALL(open_by_handle_at),
	CALL(close),
	CALL(close_range),
	CALL(dup),
	CALL(dup2),
	CALL(dup3),
	CALL(fcntl),
	CALL(fstat),
	CALL(newfstatat),
	CALL(stat),
	CALL(lstat),
	CALL(statx),
	CALL(statfs),
	CALL(fstatfs),
	CALL(lseek),
	CALL(access),
	CALL(faccessat),
	CALL(faccessat2),
	CALL(readlink),
	CALL(readlinkat),
	CALL(getdents64),
	CALL(ftruncate),
	CALL(fallocate),
	CALL(fsync),
	CALL(fdatasync),
	CALL(fchmod),
	CALL(fchown), /* a replaced file keeps its owner */
	CALL(linkat),
	CALL(link),
	CALL(unlink),
	CALL(unlinkat),
	CALL(rename),
	CALL(renameat),
	CALL(renameat2),
	CALL(mkdir),
	CALL(mkdirat),
	CALL(utimensat),
	CALL(flock),
	CALL(umask),
	CALL(fadvise64),
	/* waiting, and the kernel's side of sampling */
	CALL(epoll_create1),
	CALL(epoll_ctl),
	CALL(epoll_wait),
	CALL(epoll_pwait),
	CALL(epoll_pwait2),
	CALL(poll),
	CALL(ppoll),
	CALL(select),
	CALL(pselect6),
	CALL(eventfd2),
	CALL(timerfd_create),
	CALL(timerfd_settime),
	CALL(signalfd4),
	CALL(pipe2),
	CALL(ioctl),
	CALL(bpf),
	CALL(perf_event_open),
	CALL(pidfd_open),
	/* the socket to the server, which we inherit */
	CALL(sendto),
	CALL(sendmsg),
	CALL(recvfrom),
	CALL(recvmsg),
	CALL(shutdown),
};

static int allow(scmp_filter_ctx filter, const int *calls, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int r = calls[i] < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ALLOW, calls[i], 0);
		if (r)
			return r;
	}
	return 0;
}

#ifdef __SANITIZE_ADDRESS__
/* The leak checker traces this process at exit, which the filter does not allow. */
static bool filtered;
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
	return filtered;
}
#endif

/*
 * A refused call raises a signal on the thread that made it; the handler counts it and sets the
 * result of the call. So refusals are noticed, cost nothing as long as there are none, and need no
 * second process, as a supervisor (seccomp notifications) would; an errno set by the filter itself
 * would go unnoticed. The price: no thread may block SIGSYS (see loop_thread()).
 *
 * Global, because a signal handler writes them: in order of the first refusal; the last entry
 * counts all calls that did not fit.
 */
static struct {
	_Atomic int call; /* its number + 1; 0: free */
	_Atomic uint64_t count;
} refused[PRIVILEGE_REFUSED_MAX];

static void on_refused(int signo, siginfo_t *info, void *context)
{
	/* Calls from this number on are so recent that libraries work without them. */
	enum { FIRST_NEW_CALL = 424 };
	ucontext_t *u = context;
	int call = info->si_syscall + 1;
	size_t i = 0;

	(void)signo;
	if (info->si_code != SYS_SECCOMP)
		return;
	for (; i < ARRAY_SIZE(refused) - 1; i++) {
		int there = 0;
		if (atomic_compare_exchange_strong(&refused[i].call, &there, call) || there == call)
			break;
	}
	atomic_store(&refused[i].call, call);
	atomic_fetch_add(&refused[i].count, 1);
	ARCH_SET_RESULT(u, call > FIRST_NEW_CALL ? -ENOSYS : -EPERM);
}

size_t privilege_refused(struct privilege_refused *ret)
{
	size_t n = 0;

	for (; n < ARRAY_SIZE(refused) && atomic_load(&refused[n].call); n++)
		ret[n] = (struct privilege_refused){atomic_load(&refused[n].call) - 1,
						    atomic_load(&refused[n].count)};
	return n;
}

char *privilege_call_name(int call)
{
	char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, call);

	return name ? name : mem_printf("number %d", call);
}

static int catch_refused(void)
{
	struct sigaction a = {.sa_sigaction = on_refused, .sa_flags = SA_SIGINFO | SA_RESTART};
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, SIGSYS);
	if (sigaction(SIGSYS, &a, NULL) != 0 || sigprocmask(SIG_UNBLOCK, &one, NULL) != 0)
		return -errno;
	return 0;
}

int privilege_filter_collector(void)
{
	int r = catch_refused();
	if (r)
		return r;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_TRAP);
	if (!filter)
		return -ENOMEM;

	r = allow(filter, collector_calls, ARRAY_SIZE(collector_calls));
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1); /* the table builder, too */
	if (!r)
		r = seccomp_attr_set(filter, SCMP_FLTATR_CTL_OPTIMIZE, 2);
	if (!r)
		r = seccomp_load(filter);
	seccomp_release(filter);
#ifdef __SANITIZE_ADDRESS__
	filtered = r == 0;
#endif
	return r;
}

int privilege_only_bpf_costs(void)
{
	static const cap_value_t caps[] = {CAP_SYS_ADMIN};
	static const int calls[] = {
		CALL(read),         CALL(write),        CALL(close),           CALL(fcntl),
		CALL(mmap),         CALL(munmap),       CALL(mremap),          CALL(brk),
		CALL(madvise),      CALL(exit_group),   CALL(clock_nanosleep), CALL(clock_gettime),
		CALL(rt_sigreturn), CALL(gettimeofday),
	};
	static const enum bpf_cmd commands[] = {
		BPF_ENABLE_STATS,       BPF_PROG_GET_NEXT_ID, BPF_PROG_GET_FD_BY_ID,
		BPF_OBJ_GET_INFO_BY_FD, BPF_BTF_GET_FD_BY_ID,
	};
	char names[64] = "";
	struct missing missing = {.names = names, .size = sizeof(names)};
	int r = keep(caps, (int)ARRAY_SIZE(caps), &missing);

	if (r || missing.count)
		return r ? r : -EPERM;
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_KILL_PROCESS);
	if (!filter)
		return -ENOMEM;
	r = allow(filter, calls, ARRAY_SIZE(calls));
	for (size_t i = 0; !r && i < ARRAY_SIZE(commands); i++)
		r = seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(bpf), 1,
				     SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, commands[i]));
	r = r ? r : seccomp_load(filter);
	seccomp_release(filter);
	return r;
}

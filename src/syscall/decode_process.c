/* Arguments of calls about processes, threads and limits. */
#include "syscall/decode_internal.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>

#include "arch/arch.h"
#include "base/mem.h"
#include "syscall/decode_table.h"

/* ---- programs ---- */

void print_argv(struct decoding *d, unsigned arg)
{
	unsigned max = MIN(d->o->string_max, TRACE_STRINGS - 1u);

	if (!decoding_part(d, arg, TRACE_ITEMS, true, 1, NULL)) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	for (unsigned i = 0; i <= max; i++) {
		size_t bytes = 0;
		const char *s = decoding_part(d, arg, TRACE_ITEMS + i, true, 1, &bytes);
		if (s && bytes == 8 && !*s)
			break; /* the end */
		if (i == max) {
			text_add(d->out, ", ...");
			break;
		}
		text_add(d->out, i ? ", " : "");
		if (s) {
			size_t len = strnlen(s, bytes);
			text_buffer(d, s, len, len, 0);
		} else {
			text_add(d->out, "???");
		}
	}
	text_add(d->out, "]");
}

void print_envp(struct decoding *d, unsigned arg)
{
	const uint32_t *count = decoding_part(d, arg, TRACE_MAIN, true, sizeof(*count), NULL);

	print_address(d, arg);
	if (count)
		text_addf(d->out, " /* %u var%s */", *count, *count == 1 ? "" : "s");
}

static const struct named clone_flags[] = {
	NAMED(CLONE_VM),
	NAMED(CLONE_FS),
	NAMED(CLONE_FILES),
	NAMED(CLONE_SIGHAND),
	NAMED(CLONE_PIDFD),
	NAMED(CLONE_PTRACE),
	NAMED(CLONE_VFORK),
	NAMED(CLONE_PARENT),
	NAMED(CLONE_THREAD),
	NAMED(CLONE_NEWNS),
	NAMED(CLONE_SYSVSEM),
	NAMED(CLONE_SETTLS),
	NAMED(CLONE_PARENT_SETTID),
	NAMED(CLONE_CHILD_CLEARTID),
	NAMED(CLONE_DETACHED),
	NAMED(CLONE_UNTRACED),
	NAMED(CLONE_CHILD_SETTID),
	NAMED(CLONE_NEWCGROUP),
	NAMED(CLONE_NEWUTS),
	NAMED(CLONE_NEWIPC),
	NAMED(CLONE_NEWUSER),
	NAMED(CLONE_NEWPID),
	NAMED(CLONE_NEWNET),
	NAMED(CLONE_IO),
	{},
};

void print_clone(struct decoding *d, unsigned arg)
{
	uint64_t flags = decoding_value(d, arg), signal = flags & 0xff;
	const int *parent = decoding_chunk(d, 2, sizeof(*parent));

	flags &= ~0xffull;
	text_add(d->out, "child_stack=");
	text_address(d->out, decoding_value(d, 1));
	text_add(d->out, ", flags=");
	if (flags)
		text_flags(d->out, clone_flags, flags, "CLONE_");
	if (signal) {
		text_add(d->out, flags ? "|" : "");
		print_signal_value(d->out, (unsigned)signal);
	} else if (!flags) {
		text_add(d->out, "0");
	}
	if (flags & (CLONE_PARENT_SETTID | CLONE_PIDFD)) {
		text_add(d->out, ", parent_tid=");
		if (parent)
			text_addf(d->out, "[%d]", *parent);
		else
			text_address(d->out, decoding_value(d, 2));
	}
	if (flags & CLONE_SETTLS)
		text_addf(d->out, ", tls=%#llx",
			  (unsigned long long)decoding_value(d, ARCH_CLONE_TLS_ARG));
	if (flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID)) {
		text_add(d->out, ", child_tidptr=");
		text_address(d->out, decoding_value(d, ARCH_CLONE_CHILD_ARG));
	}
}

void print_clone3(struct decoding *d, unsigned arg)
{
	size_t bytes = 0;
	const struct clone_args *a = decoding_part(d, arg, TRACE_MAIN, false, 64, &bytes);

	if (!a) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{flags=");
	text_flags(d->out, clone_flags, a->flags, "CLONE_");
	if (a->flags & CLONE_PIDFD)
		text_addf(d->out, ", pidfd=%#llx", (unsigned long long)a->pidfd);
	if (a->flags & (CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID))
		text_addf(d->out, ", child_tid=%#llx", (unsigned long long)a->child_tid);
	if (a->flags & CLONE_PARENT_SETTID)
		text_addf(d->out, ", parent_tid=%#llx", (unsigned long long)a->parent_tid);
	text_add(d->out, ", exit_signal=");
	if (a->exit_signal)
		print_signal_value(d->out, (unsigned)a->exit_signal);
	else
		text_add(d->out, "0");
	text_add(d->out, ", stack=");
	text_address(d->out, a->stack);
	text_add(d->out, ", stack_size=");
	text_hex(d->out, a->stack_size);
	if (a->flags & CLONE_SETTLS)
		text_addf(d->out, ", tls=%#llx", (unsigned long long)a->tls);
	text_add(d->out, "}");
	/* The kernel writes the new thread's number there: the call's own result. */
	if ((a->flags & CLONE_PARENT_SETTID) && !decode_failure(d->r))
		text_addf(d->out, " => {parent_tid=[%lld]}", (long long)d->r->result);
}

void print_wait_options(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(WNOHANG),         {2, "WSTOPPED"},          NAMED(WEXITED),
		NAMED(WCONTINUED),      NAMED(WNOWAIT),           {0x20000000, "__WNOTHREAD"},
		{0x40000000, "__WALL"}, {0x80000000, "__WCLONE"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "W");
}

void print_wait_status(struct decoding *d, unsigned arg)
{
	const int *s = decoding_chunk(d, arg, sizeof(*s));

	/* Without a child that ended the kernel writes nothing. */
	if (!s || d->r->result == 0) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[{");
	if (WIFEXITED(*s)) {
		text_addf(d->out, "WIFEXITED(s) && WEXITSTATUS(s) == %d", WEXITSTATUS(*s));
	} else if (WIFSTOPPED(*s)) {
		text_add(d->out, "WIFSTOPPED(s) && WSTOPSIG(s) == ");
		print_signal_value(d->out, (unsigned)WSTOPSIG(*s));
	} else if (WIFCONTINUED(*s)) {
		text_add(d->out, "WIFCONTINUED(s)");
	} else {
		text_add(d->out, "WIFSIGNALED(s) && WTERMSIG(s) == ");
		print_signal_value(d->out, (unsigned)WTERMSIG(*s));
		if (WCOREDUMP(*s))
			text_add(d->out, " && WCOREDUMP(s)");
	}
	text_add(d->out, "}]");
}

void print_id_kind(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{0, "P_ALL"}, {1, "P_PID"}, {2, "P_PGID"}, {3, "P_PIDFD"}, {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "P_");
}

/* What waitid says of a child. */
void print_siginfo(struct decoding *d, unsigned arg)
{
	static const struct named codes[] = {NAMED(CLD_EXITED),
					     NAMED(CLD_KILLED),
					     NAMED(CLD_DUMPED),
					     NAMED(CLD_TRAPPED),
					     NAMED(CLD_STOPPED),
					     NAMED(CLD_CONTINUED),
					     {}};
	const int32_t *s = decoding_chunk(d, arg, 48);

	if (!s) {
		print_address(d, arg);
		return;
	}
	if (!s[0]) {
		text_add(d->out, "{}");
		return;
	}
	text_add(d->out, "{si_signo=");
	print_signal_value(d->out, (unsigned)s[0]);
	text_add(d->out, ", si_code=");
	text_name(d->out, codes, (uint32_t)s[2], "CLD_");
	text_addf(d->out, ", si_pid=%d, si_uid=%u, si_status=", s[4], (unsigned)s[5]);
	if (s[2] == CLD_EXITED)
		text_int(d->out, s[6]);
	else
		print_signal_value(d->out, (unsigned)s[6]);
	for (int i = 0; i < 2; i++) {
		int64_t ticks = ((const int64_t *)s)[4 + i];
		text_addf(d->out, ", si_%ctime=%lld", "us"[i], (long long)ticks);
		if (ticks)
			text_addf(d->out, " /* %lld.%02lld s */", (long long)ticks / 100,
				  (long long)(ticks % 100));
	}
	text_add(d->out, "}");
}

void print_rusage(struct decoding *d, unsigned arg)
{
	const struct rusage *u = decoding_chunk(d, arg, sizeof(*u));

	if (!u || (d->r->result == 0 && arg > 1)) {
		print_address(d, arg);
		return;
	}
	text_addf(
		d->out,
		"{ru_utime={tv_sec=%lld, tv_usec=%lld}, ru_stime={tv_sec=%lld, tv_usec=%lld}, ...}",
		(long long)u->ru_utime.tv_sec, (long long)u->ru_utime.tv_usec,
		(long long)u->ru_stime.tv_sec, (long long)u->ru_stime.tv_usec);
}

void print_rusage_who(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {{RUSAGE_SELF, "RUSAGE_SELF"},
					     {(uint32_t)-1, "RUSAGE_CHILDREN"},
					     {1, "RUSAGE_THREAD"},
					     {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "RUSAGE_");
}

/* ---- futex ---- */

static const struct named futex_ops[] = {
	NAMED(FUTEX_WAIT),           NAMED(FUTEX_WAKE),        NAMED(FUTEX_FD),
	NAMED(FUTEX_REQUEUE),        NAMED(FUTEX_CMP_REQUEUE), NAMED(FUTEX_WAKE_OP),
	NAMED(FUTEX_LOCK_PI),        NAMED(FUTEX_UNLOCK_PI),   NAMED(FUTEX_TRYLOCK_PI),
	NAMED(FUTEX_WAIT_BITSET),    NAMED(FUTEX_WAKE_BITSET), NAMED(FUTEX_WAIT_REQUEUE_PI),
	NAMED(FUTEX_CMP_REQUEUE_PI), {13, "FUTEX_LOCK_PI2"},   {},
};

void print_futex_op(struct decoding *d, unsigned arg)
{
	uint64_t v = (uint32_t)decoding_value(d, arg);
	const char *name = named_find(futex_ops, v & FUTEX_CMD_MASK);

	if (name)
		text_add(d->out, name);
	else
		text_addf(d->out, "%#llx /* FUTEX_??? */",
			  (unsigned long long)(v & (uint32_t)FUTEX_CMD_MASK));
	text_add(d->out, v & FUTEX_PRIVATE_FLAG ? "_PRIVATE" : "");
	text_add(d->out, v & FUTEX_CLOCK_REALTIME ? "|FUTEX_CLOCK_REALTIME" : "");
}

static void print_futex_bits(struct decoding *d)
{
	uint32_t bits = (uint32_t)decoding_value(d, 5);

	if (bits == FUTEX_BITSET_MATCH_ANY)
		text_add(d->out, ", FUTEX_BITSET_MATCH_ANY");
	else
		text_addf(d->out, ", %#x", bits);
}

static void print_futex_timeout(struct decoding *d, unsigned arg)
{
	const void *t = decoding_part(d, arg, TRACE_MAIN, true, sizeof(struct timespec), NULL);

	text_add(d->out, ", ");
	if (t)
		print_timespec_value(d->out, t);
	else
		print_address(d, arg);
}

/* Everything from the third argument on: which there are depends on the operation. */
/* What FUTEX_WAKE_OP does to the second word, and compares it with: see FUTEX_OP(). */
static void print_futex_change(struct decode_text *t, uint32_t v)
{
	static const struct named changes[] = {NAMED(FUTEX_OP_SET), NAMED(FUTEX_OP_ADD),
					       NAMED(FUTEX_OP_OR),  NAMED(FUTEX_OP_ANDN),
					       NAMED(FUTEX_OP_XOR), {}};
	static const struct named compares[] = {NAMED(FUTEX_OP_CMP_EQ),
						NAMED(FUTEX_OP_CMP_NE),
						NAMED(FUTEX_OP_CMP_LT),
						NAMED(FUTEX_OP_CMP_LE),
						NAMED(FUTEX_OP_CMP_GT),
						NAMED(FUTEX_OP_CMP_GE),
						{}};

	if (v >> 31)
		text_add(t, "FUTEX_OP_OPARG_SHIFT<<28|");
	text_name(t, changes, v >> 28 & 7, "FUTEX_OP_");
	text_addf(t, "<<28|%s%x<<12|", v >> 12 & 0xfff ? "0x" : "", v >> 12 & 0xfff);
	text_name(t, compares, v >> 24 & 0xf, "FUTEX_OP_CMP_");
	text_add(t, "<<24|");
	text_hex(t, v & 0xfff);
}

void print_futex_rest(struct decoding *d, unsigned arg)
{
	uint32_t op = (uint32_t)decoding_value(d, 1) & (uint32_t)FUTEX_CMD_MASK;
	uint32_t value = (uint32_t)decoding_value(d, 2);

	switch (op) {
	case FUTEX_WAIT:
		text_unsigned(d->out, value);
		print_futex_timeout(d, arg);
		break;
	case FUTEX_WAIT_BITSET:
		text_unsigned(d->out, value);
		print_futex_timeout(d, arg);
		print_futex_bits(d);
		break;
	case FUTEX_WAKE:
		text_unsigned(d->out, value);
		break;
	case FUTEX_WAKE_BITSET:
		text_unsigned(d->out, value);
		print_futex_bits(d);
		break;
	case FUTEX_LOCK_PI:
		print_futex_timeout(d, arg);
		break;
	case FUTEX_UNLOCK_PI:
	case FUTEX_TRYLOCK_PI:
		break;
	case FUTEX_WAKE_OP:
		text_addf(d->out, "%u, %u, %#llx, ", value, (unsigned)decoding_value(d, 3),
			  (unsigned long long)decoding_value(d, 4));
		print_futex_change(d->out, (uint32_t)decoding_value(d, 5));
		break;
	case FUTEX_REQUEUE:
	case FUTEX_CMP_REQUEUE:
		text_addf(d->out, "%u, %u, %#llx", value, (unsigned)decoding_value(d, 3),
			  (unsigned long long)decoding_value(d, 4));
		if (op == FUTEX_CMP_REQUEUE)
			text_addf(d->out, ", %u", (unsigned)decoding_value(d, 5));
		break;
	default:
		text_addf(d->out, "%u, %#llx, %#llx, %#x", value,
			  (unsigned long long)decoding_value(d, 3),
			  (unsigned long long)decoding_value(d, 4), (unsigned)decoding_value(d, 5));
	}
}

/* ---- arch_prctl ---- */

void print_arch_prctl(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{0x1001, "ARCH_SET_GS"},         {0x1002, "ARCH_SET_FS"},
		{0x1003, "ARCH_GET_FS"},         {0x1004, "ARCH_GET_GS"},
		{0x1011, "ARCH_GET_CPUID"},      {0x1012, "ARCH_SET_CPUID"},
		{0x1021, "ARCH_GET_XCOMP_SUPP"}, {0x1022, "ARCH_GET_XCOMP_PERM"},
		{0x1023, "ARCH_REQ_XCOMP_PERM"}, {},
	};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "ARCH_");
}

void print_arch_prctl_arg(struct decoding *d, unsigned arg)
{
	uint32_t what = (uint32_t)decoding_value(d, 0);
	const uint64_t *v = decoding_chunk(d, arg, sizeof(*v));

	if ((what == 0x1003 || what == 0x1004) && v)
		text_addf(d->out, "[%#llx]", (unsigned long long)*v);
	else
		text_hex(d->out, decoding_value(d, arg));
}

/* ---- limits and facts ---- */

void print_rlimit_kind(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(RLIMIT_CPU),
		NAMED(RLIMIT_FSIZE),
		NAMED(RLIMIT_DATA),
		NAMED(RLIMIT_STACK),
		NAMED(RLIMIT_CORE),
		NAMED(RLIMIT_RSS),
		NAMED(RLIMIT_NPROC),
		NAMED(RLIMIT_NOFILE),
		NAMED(RLIMIT_MEMLOCK),
		NAMED(RLIMIT_AS),
		{10, "RLIMIT_LOCKS"},
		NAMED(RLIMIT_SIGPENDING),
		NAMED(RLIMIT_MSGQUEUE),
		NAMED(RLIMIT_NICE),
		NAMED(RLIMIT_RTPRIO),
		NAMED(RLIMIT_RTTIME),
		{},
	};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "RLIMIT_");
}

static void print_limit_value(struct decode_text *t, uint64_t v)
{
	if (v == UINT64_MAX)
		text_add(t, "RLIM64_INFINITY");
	else if (v > 1024 && v % 1024 == 0)
		text_addf(t, "%llu*1024", (unsigned long long)v / 1024);
	else
		text_unsigned(t, v);
}

static void print_rlimit(struct decoding *d, unsigned arg)
{
	const uint64_t *v = decoding_chunk(d, arg, 2 * sizeof(*v));

	if (!v) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{rlim_cur=");
	print_limit_value(d->out, v[0]);
	text_add(d->out, ", rlim_max=");
	print_limit_value(d->out, v[1]);
	text_add(d->out, "}");
}

void print_rlimit_in(struct decoding *d, unsigned arg)
{
	print_rlimit(d, arg);
}

void print_rlimit_out(struct decoding *d, unsigned arg)
{
	print_rlimit(d, arg);
}

void print_uname(struct decoding *d, unsigned arg)
{
	const struct utsname *u = decoding_chunk(d, arg, sizeof(*u));

	if (!u) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{sysname=");
	text_quote(d->out, u->sysname, strnlen(u->sysname, sizeof(u->sysname)), 0);
	text_add(d->out, ", nodename=");
	text_quote(d->out, u->nodename, strnlen(u->nodename, sizeof(u->nodename)), 0);
	text_add(d->out, ", ...}");
}

void print_sysinfo(struct decoding *d, unsigned arg)
{
	const struct sysinfo *s = decoding_chunk(d, arg, sizeof(*s));

	if (!s) {
		print_address(d, arg);
		return;
	}
	text_addf(d->out,
		  "{uptime=%ld, loads=[%lu, %lu, %lu], totalram=%lu, freeram=%lu, sharedram=%lu, "
		  "bufferram=%lu, totalswap=%lu, freeswap=%lu, procs=%u, totalhigh=%lu, "
		  "freehigh=%lu, mem_unit=%u}",
		  s->uptime, s->loads[0], s->loads[1], s->loads[2], s->totalram, s->freeram,
		  s->sharedram, s->bufferram, s->totalswap, s->freeswap, s->procs, s->totalhigh,
		  s->freehigh, s->mem_unit);
}

void print_random_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{1, "GRND_NONBLOCK"}, {2, "GRND_RANDOM"}, {4, "GRND_INSECURE"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "GRND_");
}

void print_affinity(struct decoding *d, unsigned arg)
{
	size_t bytes = 0;
	const uint8_t *set = decoding_part(d, arg, TRACE_MAIN, false, 1, &bytes);
	const char *space = "";

	if (!set) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	for (size_t i = 0; i < bytes * 8; i++) {
		if (!(set[i / 8] >> i % 8 & 1))
			continue;
		text_addf(d->out, "%s%zu", space, i);
		space = " ";
	}
	text_add(d->out, "]");
}

void print_priority_kind(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{0, "PRIO_PROCESS"}, {1, "PRIO_PGRP"}, {2, "PRIO_USER"}, {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "PRIO_");
}

void print_id_out(struct decoding *d, unsigned arg)
{
	const uint32_t *id = decoding_chunk(d, arg, sizeof(*id));

	if (id)
		text_addf(d->out, "[%u]", *id);
	else
		print_address(d, arg);
}

void print_int_out(struct decoding *d, unsigned arg)
{
	const int *v = decoding_chunk(d, arg, sizeof(*v));

	if (v)
		text_addf(d->out, "[%d]", *v);
	else
		print_address(d, arg);
}

void print_scheduler(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {{0, "SCHED_OTHER"},
					     {1, "SCHED_FIFO"},
					     {2, "SCHED_RR"},
					     {3, "SCHED_BATCH"},
					     {5, "SCHED_IDLE"},
					     {6, "SCHED_DEADLINE"},
					     {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SCHED_");
}

/* The kernel's own way to go on with an interrupted call. */
void print_restart(struct decoding *d, unsigned arg)
{
	(void)arg;
	text_add(d->out, "<... resuming interrupted system call ...>");
}

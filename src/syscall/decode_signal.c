/* Signals: their names, sets, handlers, and the records of their delivery. */
#include "syscall/decode_internal.h"

#include <signal.h>

#include "base/mem.h"

#define RTMIN_KERNEL 32
#define SIGNALS      64

struct kernel_sigaction {
	uint64_t handler, flags, restorer, mask;
};

struct kernel_sigstack {
	uint64_t sp;
	int32_t flags, pad;
	uint64_t size;
};

static const char *signal_name(unsigned signal)
{
	const char *name = signal < RTMIN_KERNEL ? sigabbrev_np((int)signal) : NULL;

	return name && strcmp(name, "POLL") == 0 ? "IO" : name;
}

void print_signal_value(struct decode_text *t, unsigned signal)
{
	const char *name = signal_name(signal);

	if (name)
		text_addf(t, "SIG%s", name);
	else if (signal == RTMIN_KERNEL)
		text_add(t, "SIGRTMIN");
	else if (signal > RTMIN_KERNEL && signal <= SIGNALS)
		text_addf(t, "SIGRT_%u", signal - RTMIN_KERNEL);
	else
		text_unsigned(t, signal);
}

void print_signal(struct decoding *d, unsigned arg)
{
	print_signal_value(d->out, (unsigned)decoding_value(d, arg));
}

/* "[INT TERM]", or what is not in it where most are: "~[KILL STOP]". */
void print_sigset_value(struct decode_text *t, uint64_t set)
{
	bool most = __builtin_popcountll(set) >= SIGNALS * 2 / 3;
	const char *space = "";

	text_add(t, most ? "~[" : "[");
	if (most)
		set = ~set;
	for (unsigned signal = 1; signal <= SIGNALS; signal++) {
		if (!(set >> (signal - 1) & 1))
			continue;
		const char *name = signal_name(signal);
		text_add(t, space);
		if (name)
			text_add(t, name);
		else if (signal == RTMIN_KERNEL)
			text_add(t, "RTMIN");
		else
			text_addf(t, "RT_%u", signal - RTMIN_KERNEL);
		space = " ";
	}
	text_add(t, "]");
}

static void print_sigmask(struct decoding *d, unsigned arg)
{
	const uint64_t *set = decoding_chunk(d, arg, sizeof(*set));

	if (set)
		print_sigset_value(d->out, *set);
	else
		print_address(d, arg);
}

void print_sigmask_in(struct decoding *d, unsigned arg)
{
	print_sigmask(d, arg);
}

void print_sigmask_out(struct decoding *d, unsigned arg)
{
	print_sigmask(d, arg);
}

/* One that the call may replace: as it was at its entry. */
void print_sigmask_entry(struct decoding *d, unsigned arg)
{
	const uint64_t *set = decoding_part(d, arg, TRACE_MAIN, true, sizeof(*set), NULL);

	if (set)
		print_sigset_value(d->out, *set);
	else
		print_address(d, arg);
}

/* pselect6's: where the set is, and how long. */
void print_sigmask_pair(struct decoding *d, unsigned arg)
{
	const uint64_t *pair = decoding_chunk(d, arg, 2 * sizeof(*pair));

	if (!pair) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{sigmask=");
	const uint64_t *set = decoding_part(d, arg, TRACE_ITEMS, false, sizeof(*set), NULL);
	if (set)
		print_sigset_value(d->out, *set);
	else
		text_address(d->out, pair[0]);
	text_addf(d->out, ", sigsetsize=%llu}", (unsigned long long)pair[1]);
}

void print_signal_how(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(SIG_BLOCK), NAMED(SIG_UNBLOCK), NAMED(SIG_SETMASK), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SIG_");
}

static void print_sigaction(struct decoding *d, unsigned arg)
{
	static const struct named flags[] = {
		{0x04000000, "SA_RESTORER"}, NAMED(SA_ONSTACK),   NAMED(SA_RESTART),
		NAMED(SA_NODEFER),           NAMED(SA_RESETHAND), NAMED(SA_NOCLDSTOP),
		NAMED(SA_NOCLDWAIT),         NAMED(SA_SIGINFO),   {},
	};
	static const struct named handlers[] = {{0, "SIG_DFL"}, {1, "SIG_IGN"}, {}};
	const struct kernel_sigaction *a = decoding_chunk(d, arg, sizeof(*a));

	if (!a) {
		print_address(d, arg);
		return;
	}
	const char *handler = named_find(handlers, a->handler);
	text_add(d->out, "{sa_handler=");
	if (handler)
		text_add(d->out, handler);
	else
		text_hex(d->out, a->handler);
	text_add(d->out, ", sa_mask=");
	print_sigset_value(d->out, a->mask);
	text_add(d->out, ", sa_flags=");
	text_flags(d->out, flags, a->flags, "SA_");
	if (a->flags & 0x04000000)
		text_addf(d->out, ", sa_restorer=%#llx", (unsigned long long)a->restorer);
	text_add(d->out, "}");
}

void print_sigaction_in(struct decoding *d, unsigned arg)
{
	print_sigaction(d, arg);
}

void print_sigaction_out(struct decoding *d, unsigned arg)
{
	print_sigaction(d, arg);
}

static void print_sigstack(struct decoding *d, unsigned arg)
{
	static const struct named flags[] = {
		NAMED(SS_ONSTACK), NAMED(SS_DISABLE), {1u << 31, "SS_AUTODISARM"}, {}};
	const struct kernel_sigstack *s = decoding_chunk(d, arg, sizeof(*s));

	if (!s) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{ss_sp=");
	text_address(d->out, s->sp);
	text_add(d->out, ", ss_flags=");
	text_flags(d->out, flags, (uint32_t)s->flags, "SS_");
	text_addf(d->out, ", ss_size=%llu}", (unsigned long long)s->size);
}

void print_sigstack_in(struct decoding *d, unsigned arg)
{
	print_sigstack(d, arg);
}

void print_sigstack_out(struct decoding *d, unsigned arg)
{
	print_sigstack(d, arg);
}

/* The mask that the signal's frame on the stack gives back. */
void print_sigreturn(struct decoding *d, unsigned arg)
{
	const uint64_t *mask = decoding_part(d, arg, TRACE_MAIN, true, sizeof(*mask), NULL);

	if (!mask)
		return;
	text_add(d->out, "{mask=");
	print_sigset_value(d->out, *mask);
	text_add(d->out, "}");
}

/* ---- delivery ---- */

static const struct named si_codes[] = {
	{0, "SI_USER"},
	{0x80, "SI_KERNEL"},
	{(uint32_t)-1, "SI_QUEUE"},
	{(uint32_t)-2, "SI_TIMER"},
	{(uint32_t)-6, "SI_TKILL"},
	{(uint32_t)-4, "SI_ASYNCIO"},
	{(uint32_t)-3, "SI_MESGQ"},
	{},
};
static const struct named child_codes[] = {NAMED(CLD_EXITED),
					   NAMED(CLD_KILLED),
					   NAMED(CLD_DUMPED),
					   NAMED(CLD_TRAPPED),
					   NAMED(CLD_STOPPED),
					   NAMED(CLD_CONTINUED),
					   {}};
static const struct named fault_codes[] = {NAMED(SEGV_MAPERR), NAMED(SEGV_ACCERR), {}};

static const char *code_name(unsigned signal, uint32_t code)
{
	const char *name = signal == SIGCHLD   ? named_find(child_codes, code)
			   : signal == SIGSEGV ? named_find(fault_codes, code)
					       : NULL;

	return name ? name : named_find(si_codes, code);
}

/* args: code, pid, uid, status or address */
void decode_signal(const struct trace_record *r, struct decode_text *out)
{
	uint32_t code = (uint32_t)r->args[0];
	const char *name = code_name(r->call, code);

	text_add(out, "--- ");
	print_signal_value(out, r->call);
	text_add(out, " {si_signo=");
	print_signal_value(out, r->call);
	text_add(out, ", si_code=");
	if (name)
		text_add(out, name);
	else
		text_int(out, (int32_t)code);
	if (r->call == SIGSEGV || r->call == SIGBUS || r->call == SIGILL || r->call == SIGFPE) {
		text_add(out, ", si_addr=");
		text_address(out, r->args[3]);
	} else if (code != 0x80) {
		text_addf(out, ", si_pid=%d, si_uid=%u", (int)r->args[1], (unsigned)r->args[2]);
		if (r->call == SIGCHLD)
			text_addf(out, ", si_status=%d", (int)r->args[3]);
	}
	text_add(out, "} ---");
}

void decode_end(const struct trace_record *r, struct decode_text *out)
{
	unsigned status = (unsigned)r->result;

	if (status & 0x7f) {
		text_add(out, "+++ killed by ");
		print_signal_value(out, status & 0x7f);
		text_add(out, status & 0x80 ? " (core dumped) +++" : " +++");
	} else {
		text_addf(out, "+++ exited with %u +++", status >> 8 & 0xff);
	}
}

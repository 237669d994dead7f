/* Arguments of calls that wait: for descriptors, for a time. */
#include "syscall/decode_internal.h"

#include <linux/futex.h>
#include <math.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>

#include "arch/arch.h"
#include "base/mem.h"
#include "syscall/decode_table.h"

#define FUTEX_LOCK_PI2_NUMBER 13 /* newer than some headers */

/* ---- times ---- */

void print_timespec_value(struct decode_text *t, const void *timespec)
{
	const struct timespec *v = timespec;

	text_addf(t, "{tv_sec=%lld, tv_nsec=%lld}", (long long)v->tv_sec, (long long)v->tv_nsec);
}

static void print_timeval_value(struct decode_text *t, const struct timeval *v)
{
	text_addf(t, "{tv_sec=%lld, tv_usec=%lld}", (long long)v->tv_sec, (long long)v->tv_usec);
}

void print_timeout(struct decoding *d, unsigned arg)
{
	print_int(d, arg);
}

void print_timespec_in(struct decoding *d, unsigned arg)
{
	const void *t = decoding_part(d, arg, TRACE_MAIN, true, sizeof(struct timespec), NULL);

	if (t)
		print_timespec_value(d->out, t);
	else
		print_address(d, arg);
}

void print_timeval_in(struct decoding *d, unsigned arg)
{
	const void *t = decoding_part(d, arg, TRACE_MAIN, true, sizeof(struct timeval), NULL);

	if (t)
		print_timeval_value(d->out, t);
	else
		print_address(d, arg);
}

/* Of a pointer: there is no end without one; what it points to must have been captured. */
static bool pointed_timeout(const struct decoding *d, unsigned arg, double unit, double *ret)
{
	const int64_t *t = decoding_part(d, arg, TRACE_MAIN, true, 2 * sizeof(*t), NULL);

	if (decoding_value(d, arg) && (!t || t[0] < 0))
		return false;
	*ret = decoding_value(d, arg) ? (double)t[0] + (double)t[1] / unit : INFINITY;
	return true;
}

/* Of all that wait for a futex, only FUTEX_WAIT is told how long; the others, until when. */
static bool futex_timeout(const struct decoding *d, unsigned arg, double *ret)
{
	uint32_t op = (uint32_t)decoding_value(d, 1) & (uint32_t)FUTEX_CMD_MASK;

	if (op == FUTEX_WAIT)
		return pointed_timeout(d, arg, 1e9, ret);
	*ret = INFINITY;
	return !decoding_value(d, arg) &&
	       (op == FUTEX_WAIT_BITSET || op == FUTEX_LOCK_PI || op == FUTEX_LOCK_PI2_NUMBER ||
		op == FUTEX_WAIT_REQUEUE_PI);
}

bool decode_timeout(const struct decode_call *call, const struct trace_record *r,
		    double *ret_seconds)
{
	struct decoding d = {.r = r, .call = call};

	for (unsigned i = 0; call && i < TRACE_ARGS; i++) {
		int ms = (int)decoding_value(&d, i);
		if (call->kinds[i] == K_timeout) {
			*ret_seconds = ms < 0 ? INFINITY : (double)ms / 1000;
			return true;
		}
		/* A 32-bit program's structures are others; and a sleep is no timeout. */
		if (r->call >= SYSCALL_COMPAT || strstr(call->name, "nanosleep"))
			continue;
		if (call->kinds[i] == K_timespec_in)
			return pointed_timeout(&d, i, 1e9, ret_seconds);
		if (call->kinds[i] == K_timeval_in)
			return pointed_timeout(&d, i, 1e6, ret_seconds);
		if (call->kinds[i] == K_futex_rest)
			return futex_timeout(&d, i, ret_seconds);
	}
	return false;
}

/* What is left of a sleep is only written when it was interrupted. */
void print_timespec_rest(struct decoding *d, unsigned arg)
{
	enum { RESTART_BLOCK = 516, NO_HANDLER = 514 };
	const void *t = decoding_chunk(d, arg, sizeof(struct timespec));
	unsigned failure = decode_failure(d->r);

	if (t && (failure == RESTART_BLOCK || failure == NO_HANDLER))
		print_timespec_value(d->out, t);
	else
		print_address(d, arg);
}

void print_timespec_out(struct decoding *d, unsigned arg)
{
	const void *t = decoding_chunk(d, arg, sizeof(struct timespec));

	if (t)
		print_timespec_value(d->out, t);
	else
		print_address(d, arg);
}

void print_timeval_out(struct decoding *d, unsigned arg)
{
	const void *t = decoding_chunk(d, arg, sizeof(struct timeval));

	if (t)
		print_timeval_value(d->out, t);
	else
		print_address(d, arg);
}

static void print_itimerspec(struct decoding *d, unsigned arg)
{
	const struct timespec *t = decoding_chunk(d, arg, 2 * sizeof(*t));

	if (!t) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{it_interval=");
	print_timespec_value(d->out, &t[0]);
	text_add(d->out, ", it_value=");
	print_timespec_value(d->out, &t[1]);
	text_add(d->out, "}");
}

void print_itimerspec_in(struct decoding *d, unsigned arg)
{
	print_itimerspec(d, arg);
}

void print_itimerspec_out(struct decoding *d, unsigned arg)
{
	print_itimerspec(d, arg);
}

static void print_itimerval(struct decoding *d, unsigned arg)
{
	const struct timeval *t = decoding_chunk(d, arg, 2 * sizeof(*t));

	if (!t) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{it_interval=");
	print_timeval_value(d->out, &t[0]);
	text_add(d->out, ", it_value=");
	print_timeval_value(d->out, &t[1]);
	text_add(d->out, "}");
}

void print_itimerval_in(struct decoding *d, unsigned arg)
{
	print_itimerval(d, arg);
}

void print_itimerval_out(struct decoding *d, unsigned arg)
{
	print_itimerval(d, arg);
}

void print_timer_kind(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(ITIMER_REAL), NAMED(ITIMER_VIRTUAL), NAMED(ITIMER_PROF), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "ITIMER_");
}

void print_clock(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(CLOCK_REALTIME),
		NAMED(CLOCK_MONOTONIC),
		NAMED(CLOCK_PROCESS_CPUTIME_ID),
		NAMED(CLOCK_THREAD_CPUTIME_ID),
		NAMED(CLOCK_MONOTONIC_RAW),
		NAMED(CLOCK_REALTIME_COARSE),
		NAMED(CLOCK_MONOTONIC_COARSE),
		NAMED(CLOCK_BOOTTIME),
		NAMED(CLOCK_REALTIME_ALARM),
		NAMED(CLOCK_BOOTTIME_ALARM),
		{11, "CLOCK_TAI"},
		{},
	};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "CLOCK_");
}

void print_clock_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(TIMER_ABSTIME), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "TIMER_");
}

void print_timerfd_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(TFD_CLOEXEC), NAMED(TFD_NONBLOCK), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "TFD_");
}

void print_timerfd_set(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(TFD_TIMER_ABSTIME), NAMED(TFD_TIMER_CANCEL_ON_SET), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "TFD_TIMER_");
}

void print_eventfd_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{1, "EFD_SEMAPHORE"}, NAMED(EFD_CLOEXEC), NAMED(EFD_NONBLOCK), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "EFD_");
}

void print_signalfd_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		{EFD_CLOEXEC, "SFD_CLOEXEC"}, {EFD_NONBLOCK, "SFD_NONBLOCK"}, {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "SFD_");
}

/* ---- poll ---- */

static const struct named poll_events[] = {
	NAMED(POLLIN),     NAMED(POLLPRI),
	NAMED(POLLOUT),    NAMED(POLLRDNORM),
	NAMED(POLLWRNORM), NAMED(POLLRDBAND),
	NAMED(POLLWRBAND), NAMED(POLLERR),
	NAMED(POLLHUP),    NAMED(POLLNVAL),
	NAMED(POLLMSG),    NAMED(POLLREMOVE),
	NAMED(POLLRDHUP),  {},
};

void print_pollfds(struct decoding *d, unsigned arg)
{
	size_t bytes = 0;
	const struct pollfd *p = decoding_part(d, arg, TRACE_MAIN, false, sizeof(*p), &bytes);
	size_t count = (uint32_t)decoding_value(d, arg + 1), have = bytes / sizeof(*p);
	size_t shown = p ? MIN(MIN(have, count), d->o->string_max) : 0;

	if (!p && (count || !decoding_value(d, arg))) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	for (size_t i = 0; i < shown; i++) {
		text_add(d->out, i ? ", {fd=" : "{fd=");
		print_fd_value(d, p[i].fd);
		if (p[i].fd >= 0) {
			text_add(d->out, ", events=");
			text_flags(d->out, poll_events, (uint16_t)p[i].events, "POLL");
		}
		text_add(d->out, "}");
	}
	text_add(d->out, shown < count ? ", ...]" : "]");
}

static void print_ready_pollfds(struct decoding *d)
{
	size_t bytes = 0, shown = 0;
	const struct pollfd *p = decoding_part(d, 0, TRACE_MAIN, false, sizeof(*p), &bytes);
	size_t count = MIN(bytes / sizeof(*p), (uint32_t)decoding_value(d, 1));

	text_add(d->out, " ([");
	for (size_t i = 0; p && i < count; i++) {
		if (p[i].fd < 0 || !p[i].revents)
			continue;
		if (shown++ == d->o->string_max) {
			text_add(d->out, ", ...");
			break;
		}
		text_add(d->out, shown > 1 ? ", {fd=" : "{fd=");
		print_fd_value(d, p[i].fd);
		text_add(d->out, ", revents=");
		text_flags(d->out, poll_events, (uint16_t)p[i].revents, "POLL");
		text_add(d->out, "}");
	}
	text_add(d->out, "]");
}

/* ---- select ---- */

static void print_fds(struct decoding *d, const uint64_t *set, unsigned limit)
{
	const char *space = "";

	text_add(d->out, "[");
	for (unsigned i = 0; i < MIN(limit, 1024u); i++) {
		if (!(set[i / 64] >> i % 64 & 1))
			continue;
		text_add(d->out, space);
		print_fd_value(d, (int)i);
		space = " ";
	}
	text_add(d->out, "]");
}

void print_fdset(struct decoding *d, unsigned arg)
{
	const uint64_t *set = decoding_part(d, arg, TRACE_MAIN, true, 128, NULL);

	if (set)
		print_fds(d, set, (unsigned)decoding_value(d, 0));
	else
		print_address(d, arg);
}

static const char *print_ready_sets(struct decoding *d)
{
	static const char *const names[] = {"", "in ", "out ", "except "};
	const char *comma = " (";

	for (unsigned arg = 1; arg <= 3; arg++) {
		const uint64_t *set = decoding_chunk(d, arg, 128);
		static const uint64_t none[16];
		unsigned limit = (unsigned)decoding_value(d, 0);
		size_t bytes = MIN((limit + 63) / 64 * 8, sizeof(none));
		if (!set || !memcmp(set, none, bytes))
			continue;
		text_add(d->out, comma);
		text_add(d->out, names[arg]);
		print_fds(d, set, limit);
		comma = ", ";
	}
	return comma;
}

/* What is left of a timeout, where the kernel writes that back. */
static void print_left(struct decoding *d, unsigned arg, bool timeval, const char *comma)
{
	const void *left = decoding_chunk(d, arg, sizeof(struct timespec));

	if (!left || !decoding_part(d, arg, TRACE_MAIN, true, sizeof(struct timespec), NULL))
		return;
	text_addf(d->out, "%sleft ", comma);
	if (timeval)
		print_timeval_value(d->out, left);
	else
		print_timespec_value(d->out, left);
}

void print_ready_result(struct decoding *d)
{
	const char *name = d->call->name;

	text_int(d->out, d->r->result);
	if (d->r->result == 0) {
		text_add(d->out, " (Timeout)");
		return;
	}
	if (strcmp(name, "poll") == 0 || strcmp(name, "ppoll") == 0) {
		print_ready_pollfds(d);
		if (name[1] == 'p')
			print_left(d, 2, false, ", ");
		text_add(d->out, ")");
		return;
	}
	const char *comma = print_ready_sets(d);
	size_t before = d->out->len;
	print_left(d, 4, name[0] == 's', comma);
	if (comma[0] == ',' || d->out->len > before)
		text_add(d->out, ")");
}

/* ---- epoll ---- */

static const struct named epoll_events[] = {
	NAMED(EPOLLIN),     NAMED(EPOLLPRI),     NAMED(EPOLLOUT),       NAMED(EPOLLRDNORM),
	NAMED(EPOLLRDBAND), NAMED(EPOLLWRNORM),  NAMED(EPOLLWRBAND),    NAMED(EPOLLMSG),
	NAMED(EPOLLERR),    NAMED(EPOLLHUP),     NAMED(EPOLLRDHUP),     NAMED(EPOLLEXCLUSIVE),
	NAMED(EPOLLWAKEUP), NAMED(EPOLLONESHOT), {1u << 31, "EPOLLET"}, {},
};

/* It is packed on some processors. */
static void print_epoll_event_value(struct decode_text *t, const uint8_t *at)
{
	uint32_t events;
	uint64_t data;

	memcpy(&events, at, sizeof(events));
	memcpy(&data, at + ARCH_EPOLL_BYTES - sizeof(data), sizeof(data));
	text_add(t, "{events=");
	text_flags(t, epoll_events, events, "EPOLL");
	text_addf(t, ", data={u32=%u, u64=%llu}}", (uint32_t)data, (unsigned long long)data);
}

void print_epoll_event(struct decoding *d, unsigned arg)
{
	const void *event = decoding_chunk(d, arg, ARCH_EPOLL_BYTES);

	if (event && decoding_value(d, 1) != EPOLL_CTL_DEL)
		print_epoll_event_value(d->out, event);
	else
		print_address(d, arg);
}

void print_epoll_events(struct decoding *d, unsigned arg)
{
	size_t bytes = 0;
	const uint8_t *at = decoding_part(d, arg, TRACE_MAIN, false, ARCH_EPOLL_BYTES, &bytes);
	size_t count = decode_failure(d->r) ? 0 : (size_t)d->r->result;
	size_t shown = MIN(MIN(count, bytes / ARCH_EPOLL_BYTES), d->o->string_max);

	if (decode_failure(d->r) || d->r->kind != TRACE_CALL || (count && !at)) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "[");
	for (size_t i = 0; i < shown; i++) {
		text_add(d->out, i ? ", " : "");
		print_epoll_event_value(d->out, at + i * ARCH_EPOLL_BYTES);
	}
	text_add(d->out, shown < count ? ", ...]" : "]");
}

void print_epoll_operation(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(EPOLL_CTL_ADD), NAMED(EPOLL_CTL_DEL), NAMED(EPOLL_CTL_MOD), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "EPOLL_CTL_");
}

void print_epoll_flags(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(EPOLL_CLOEXEC), {}};

	text_flags(d->out, names, (uint32_t)decoding_value(d, arg), "EPOLL_");
}

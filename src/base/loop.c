#include "base/loop.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>

#include "base/clock.h"
#include "base/mem.h"

enum watched_type { WATCHED_FD, WATCHED_SIGNAL };

struct watched {
	enum watched_type type;
	int fd; /* -1: removed */
	loop_fn *fn;
	void *ctx;
	struct watched *next;
};

/* Timers are not fds but the timeout of epoll_wait(), which saves a system call each time. */
struct timer {
	uint64_t due_ms, every_ms; /* CLOCK_MONOTONIC; every 0: once */
	loop_fn *fn;
	void *ctx;
	struct timer *next;
};

struct loop {
	int epoll;
	bool stopped;
	sigset_t signals; /* blocked while the loop lives */
	struct watched *watched;
	struct timer *timers;
};

struct loop *loop_new(void)
{
	struct loop *l = mem_alloc(sizeof(*l));

	sigemptyset(&l->signals);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	return l;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	for (struct watched *s = l->watched, *next; s; s = next) {
		next = s->next;
		if (s->type != WATCHED_FD)
			close(s->fd);
		free(s);
	}
	for (struct timer *t = l->timers, *next; t; t = next) {
		next = t->next;
		free(t);
	}
	sigprocmask(SIG_UNBLOCK, &l->signals, NULL);
	if (l->epoll >= 0)
		close(l->epoll);
	free(l);
}

static int watch(struct loop *l, enum watched_type type, int fd, loop_fn *fn, void *ctx)
{
	struct watched *s = mem_alloc(sizeof(*s));
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

	*s = (struct watched){type, fd, fn, ctx, l->watched};
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
		int r = -errno;
		free(s);
		return r;
	}
	l->watched = s;
	return 0;
}

int loop_fd(struct loop *l, int fd, loop_fn *fn, void *ctx)
{
	return watch(l, WATCHED_FD, fd, fn, ctx);
}

void loop_remove_fd(struct loop *l, int fd)
{
	for (struct watched *s = l->watched; s; s = s->next) {
		if (s->type == WATCHED_FD && s->fd == fd) {
			epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
			s->fd = -1;
		}
	}
}

static int add_timer(struct loop *l, uint64_t ms, bool again, loop_fn *fn, void *ctx)
{
	struct timer *t = mem_alloc(sizeof(*t));

	*t = (struct timer){clock_ms(CLOCK_MONOTONIC) + ms, again ? MAX(ms, 1) : 0, fn, ctx,
			    l->timers};
	l->timers = t;
	return 0;
}

/* How long until the next timer is due: -1 if there is none. */
static int next_due(const struct loop *l)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC), least = UINT64_MAX;

	for (const struct timer *t = l->timers; t; t = t->next)
		least = MIN(least, t->due_ms > now ? t->due_ms - now : 0);
	return least == UINT64_MAX ? -1 : (int)MIN(least, (uint64_t)INT_MAX);
}

/* A timer that is late by several periods (debugger, busy machine) fires only once. */
static void run_due(struct loop *l)
{
	uint64_t now = clock_ms(CLOCK_MONOTONIC);

	for (struct timer *t = l->timers; t && !l->stopped; t = t->next) {
		if (t->due_ms > now)
			continue;
		t->due_ms = t->every_ms ? MAX(t->due_ms + t->every_ms, now + 1) : UINT64_MAX;
		t->fn(t->ctx, 0);
	}
	for (struct timer **at = &l->timers, *t; (t = *at);) {
		if (t->due_ms == UINT64_MAX) {
			*at = t->next;
			free(t);
		} else {
			at = &t->next;
		}
	}
}

int loop_timer(struct loop *l, uint64_t every_ms, loop_fn *fn, void *ctx)
{
	return add_timer(l, every_ms, true, fn, ctx);
}

int loop_after(struct loop *l, uint64_t ms, loop_fn *fn, void *ctx)
{
	return add_timer(l, ms, false, fn, ctx);
}

int loop_signal(struct loop *l, int signo, loop_fn *fn, void *ctx)
{
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, signo);
	sigaddset(&l->signals, signo);
	sigprocmask(SIG_BLOCK, &one, NULL);
	int fd = signalfd(-1, &one, SFD_CLOEXEC | SFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	int r = watch(l, WATCHED_SIGNAL, fd, fn, ctx);
	if (r)
		close(fd);
	return r;
}

static void dispatch(struct watched *s)
{
	struct signalfd_siginfo info = {};
	int what = s->fd;

	if (s->type == WATCHED_SIGNAL) {
		if (read(s->fd, &info, sizeof(info)) != sizeof(info))
			return;
		what = (int)info.ssi_signo;
	}
	s->fn(s->ctx, what);
}

/* A signal that came together with what stopped the loop has had its effect. */
static void take_signals(struct loop *l)
{
	struct signalfd_siginfo info;

	for (const struct watched *s = l->watched; s; s = s->next)
		while (s->type == WATCHED_SIGNAL &&
		       read(s->fd, &info, sizeof(info)) == sizeof(info))
			;
}

int loop_run(struct loop *l)
{
	l->stopped = false;
	while (!l->stopped) {
		struct epoll_event events[16];
		int n = epoll_wait(l->epoll, events, ARRAY_SIZE(events), next_due(l));
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n && !l->stopped; i++) {
			struct watched *s = events[i].data.ptr;
			if (s->fd >= 0)
				dispatch(s);
		}
		run_due(l);
	}
	take_signals(l);
	return 0;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

int loop_thread(pthread_t *ret, void *(*fn)(void *ctx), void *ctx)
{
	static const int own[] = {SIGSYS, SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP};
	sigset_t others, before;

	sigfillset(&others);
	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		sigdelset(&others, own[i]);
	pthread_sigmask(SIG_SETMASK, &others, &before);
	int r = -pthread_create(ret, NULL, fn, ctx);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return r;
}

bool loop_ignores(int signo)
{
	struct sigaction a;

	return sigaction(signo, NULL, &a) == 0 && a.sa_handler == SIG_IGN;
}

int loop_end_signals(struct loop *l, int only, loop_fn *fn, void *ctx)
{
	if (only)
		return loop_signal(l, only, fn, ctx);
	int err = loop_signal(l, SIGTERM, fn, ctx);
	err = err ? err : loop_signal(l, SIGINT, fn, ctx);
	if (!err && !loop_ignores(SIGHUP))
		err = loop_signal(l, SIGHUP, fn, ctx);
	return err;
}

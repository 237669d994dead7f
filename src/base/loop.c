#include "base/loop.h"

#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "base/mem.h"

enum source_type { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNAL };

struct source {
	enum source_type type;
	int fd; /* -1: forgotten */
	loop_fn *fn;
	void *ctx;
	struct source *next;
};

struct loop {
	int epoll;
	bool stopped;
	sigset_t signals; /* blocked while the loop lives */
	struct source *sources;
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
	for (struct source *s = l->sources, *next; s; s = next) {
		next = s->next;
		if (s->type != SOURCE_FD)
			close(s->fd);
		free(s);
	}
	sigprocmask(SIG_UNBLOCK, &l->signals, NULL);
	if (l->epoll >= 0)
		close(l->epoll);
	free(l);
}

static int watch(struct loop *l, enum source_type type, int fd, loop_fn *fn, void *ctx)
{
	struct source *s = mem_alloc(sizeof(*s));
	struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

	*s = (struct source){type, fd, fn, ctx, l->sources};
	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, fd, &e) != 0) {
		int r = -errno;
		free(s);
		return r;
	}
	l->sources = s;
	return 0;
}

int loop_fd(struct loop *l, int fd, loop_fn *fn, void *ctx)
{
	return watch(l, SOURCE_FD, fd, fn, ctx);
}

void loop_forget_fd(struct loop *l, int fd)
{
	for (struct source *s = l->sources; s; s = s->next) {
		if (s->type == SOURCE_FD && s->fd == fd) {
			epoll_ctl(l->epoll, EPOLL_CTL_DEL, fd, NULL);
			s->fd = -1;
		}
	}
}

static int add_timer(struct loop *l, uint64_t ms, bool again, loop_fn *fn, void *ctx)
{
	struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
	struct itimerspec when = {.it_value = t};

	if (ms == 0)
		when.it_value.tv_nsec = 1; /* zero would disarm it */
	if (again)
		when.it_interval = t;
	int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0)
		return -errno;
	timerfd_settime(fd, 0, &when, NULL);
	int r = watch(l, SOURCE_TIMER, fd, fn, ctx);
	if (r)
		close(fd);
	return r;
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
	int r = watch(l, SOURCE_SIGNAL, fd, fn, ctx);
	if (r)
		close(fd);
	return r;
}

static void dispatch(struct source *s)
{
	struct signalfd_siginfo info = {};
	uint64_t ticks;
	int what = s->fd;

	if (s->type == SOURCE_TIMER) {
		if (read(s->fd, &ticks, sizeof(ticks)) != sizeof(ticks))
			return;
		what = 0;
	} else if (s->type == SOURCE_SIGNAL) {
		if (read(s->fd, &info, sizeof(info)) != sizeof(info))
			return;
		what = (int)info.ssi_signo;
	}
	s->fn(s->ctx, what);
}

int loop_run(struct loop *l)
{
	l->stopped = false;
	while (!l->stopped) {
		struct epoll_event events[16];
		int n = epoll_wait(l->epoll, events, ARRAY_SIZE(events), -1);
		if (n < 0 && errno != EINTR)
			return -errno;
		for (int i = 0; i < n && !l->stopped; i++) {
			struct source *s = events[i].data.ptr;
			if (s->fd >= 0)
				dispatch(s);
		}
	}
	return 0;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

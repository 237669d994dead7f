/*
 * loop: an event loop for descriptors, timers and signals, on one thread (epoll).
 *
 *	struct loop *l = loop_new();
 *	loop_timer(l, 100, on_tick, ctx);
 *	loop_signal(l, SIGINT, on_signal, ctx);
 *	loop_run(l);     until a callback calls loop_stop(l)
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
typedef void loop_fn(void *ctx, int what); /* the fd, the signal number, or 0 for a timer */

struct loop *loop_new(void);
void loop_free(struct loop *l); /* unblocks the signals that it watched */

/* 0 or -errno. The caller still owns the fd. */
int loop_fd(struct loop *l, int fd, loop_fn *fn, void *ctx); /* readable */
int loop_timer(struct loop *l, uint64_t every_ms, loop_fn *fn, void *ctx);
int loop_after(struct loop *l, uint64_t ms, loop_fn *fn, void *ctx); /* once */
int loop_signal(struct loop *l, int signo, loop_fn *fn, void *ctx);

/* Whether the signal was ignored when we were started, as nohup does with SIGHUP. */
bool loop_ignores(int signo);

/* Watches the signal `only` or, if that is 0, SIGTERM, SIGINT and (unless ignored) SIGHUP. 0 or
 * -errno. */
int loop_end_signals(struct loop *l, int only, loop_fn *fn, void *ctx);

void loop_remove_fd(struct loop *l, int fd);

/*
 * Until loop_stop(). Signals that have come by then are taken: a Ctrl-C that also ended the program
 * that the caller started is not delivered to the caller afterwards.
 */
int loop_run(struct loop *l);
void loop_stop(struct loop *l);

/*
 * Starts a thread that blocks all signals, which are for the loop, except those that the thread
 * causes itself (a fault, a refused system call). 0 or -errno.
 */
int loop_thread(pthread_t *ret, void *(*fn)(void *ctx), void *ctx);

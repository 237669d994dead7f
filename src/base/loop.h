/*
 * loop: waits for fds, timers and signals, and calls back. One thread, epoll behind it.
 *
 *	struct loop *l = loop_new();
 *	loop_timer(l, 100, on_tick, ctx);
 *	loop_signal(l, SIGINT, on_signal, ctx);
 *	loop_run(l);     returns when something called loop_stop(l)
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct loop;
typedef void loop_fn(void *ctx, int what); /* the fd, the signal number, or 0 for a timer */

struct loop *loop_new(void);
void loop_free(struct loop *l); /* signals that were watched are unblocked again */

/* 0 or -errno. A watched fd stays the caller's. */
int loop_fd(struct loop *l, int fd, loop_fn *fn, void *ctx); /* readable */
int loop_timer(struct loop *l, uint64_t every_ms, loop_fn *fn, void *ctx);
int loop_after(struct loop *l, uint64_t ms, loop_fn *fn, void *ctx); /* once */
int loop_signal(struct loop *l, int signo, loop_fn *fn, void *ctx);

/* Whether whoever started us wants this signal to be ignored, as nohup does with SIGHUP. */
bool loop_ignores(int signo);

/* Calls back on `only`, if it is not 0, else on SIGTERM, SIGINT, and SIGHUP unless ignored. 0 or
 * -errno. */
int loop_end_signals(struct loop *l, int only, loop_fn *fn, void *ctx);

void loop_forget_fd(struct loop *l, int fd);

int loop_run(struct loop *l);
void loop_stop(struct loop *l);

/*
 * Starts a thread that leaves signals to the loop, but for those that tell a thread what it did
 * itself (a fault, a refused system call). 0 or -errno.
 */
int loop_thread(pthread_t *ret, void *(*fn)(void *ctx), void *ctx);

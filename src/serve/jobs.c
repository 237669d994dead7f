#include "serve/jobs.h"

#include <errno.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/loop.h"
#include "base/mem.h"

#define THREADS_MAX 16

struct list {
	struct job *first, **end;
	uint32_t count;
};

struct jobs {
	struct loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t more;
	pthread_t threads[THREADS_MAX];
	unsigned thread_count, thread_max, waiting_max;
	struct list waiting, ended; /* under the lock, as is `stats` */
	struct jobs_stats stats;
	atomic_bool stopped;
	int event; /* something ended */
};

static void list_push(struct list *l, struct job *j)
{
	if (!l->first)
		l->end = &l->first;
	j->next = NULL;
	*l->end = j;
	l->end = &j->next;
	l->count++;
}

static struct job *list_pop(struct list *l)
{
	struct job *j = l->first;

	if (j) {
		l->first = j->next;
		l->count--;
	}
	return j;
}

bool job_goes_on(struct job *j)
{
	struct pollfd p = {.fd = j->fd, .events = POLLRDHUP};

	if (j->end != JOB_DONE)
		return false;
	if (atomic_load_explicit(&j->jobs->stopped, memory_order_relaxed))
		j->end = JOB_STOPPED;
	else if (clock_ms(CLOCK_MONOTONIC) > j->deadline_ms)
		j->end = JOB_LATE;
	else if (j->fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR))
		j->end = JOB_GONE;
	return j->end == JOB_DONE;
}

static void *work(void *ctx)
{
	struct jobs *js = ctx;

	pthread_mutex_lock(&js->lock);
	for (;;) {
		struct job *j = list_pop(&js->waiting);
		if (!j && atomic_load(&js->stopped))
			break;
		if (!j) {
			pthread_cond_wait(&js->more, &js->lock);
			continue;
		}
		js->stats.running++;
		pthread_mutex_unlock(&js->lock);
		/* It may have waited for longer than anybody did for it. */
		if (job_goes_on(j))
			j->run(j);
		pthread_mutex_lock(&js->lock);
		js->stats.running--;
		js->stats.done += j->end == JOB_DONE;
		js->stats.late += j->end == JOB_LATE;
		js->stats.gone += j->end == JOB_GONE;
		list_push(&js->ended, j);
		eventfd_write(js->event, 1);
	}
	pthread_mutex_unlock(&js->lock);
	return NULL;
}

static void on_ended(void *ctx, int what)
{
	struct jobs *js = ctx;
	eventfd_t ignored;

	(void)what;
	eventfd_read(js->event, &ignored);
	for (;;) {
		pthread_mutex_lock(&js->lock);
		struct job *j = list_pop(&js->ended);
		bool idle = !j && !js->stats.running && !js->waiting.count;
		pthread_mutex_unlock(&js->lock);
		if (!j) {
			/* What a large answer needed goes back to the system. */
			if (idle)
				malloc_trim(0);
			return;
		}
		j->done(j);
	}
}

struct jobs *jobs_new(struct loop *l, unsigned threads, unsigned waiting)
{
	struct jobs *js = mem_alloc(sizeof(*js));

	js->loop = l;
	js->thread_max = MIN(threads, (unsigned)THREADS_MAX);
	js->waiting_max = waiting;
	pthread_mutex_init(&js->lock, NULL);
	pthread_cond_init(&js->more, NULL);
	js->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	loop_fd(l, js->event, on_ended, js);
	return js;
}

void jobs_free(struct jobs *js)
{
	if (!js)
		return;
	pthread_mutex_lock(&js->lock);
	atomic_store(&js->stopped, true);
	pthread_cond_broadcast(&js->more);
	pthread_mutex_unlock(&js->lock);
	for (unsigned i = 0; i < js->thread_count; i++)
		pthread_join(js->threads[i], NULL);
	on_ended(js, 0);
	loop_remove_fd(js->loop, js->event);
	close(js->event);
	pthread_cond_destroy(&js->more);
	pthread_mutex_destroy(&js->lock);
	free(js);
}

static int add_thread(struct jobs *js)
{
	int r = loop_thread(&js->threads[js->thread_count], work, js);
	if (!r)
		js->thread_count++;
	return r;
}

int jobs_add(struct jobs *js, struct job *j)
{
	int r = 0;

	pthread_mutex_lock(&js->lock);
	uint32_t busy = js->stats.running + js->waiting.count;
	if (busy >= js->thread_count && js->thread_count < js->thread_max)
		r = add_thread(js);
	if (js->waiting.count >= js->waiting_max || (r && !js->thread_count)) {
		js->stats.refused++;
		r = -EAGAIN;
	} else {
		j->jobs = js;
		j->end = JOB_DONE;
		list_push(&js->waiting, j);
		pthread_cond_signal(&js->more);
		r = 0;
	}
	pthread_mutex_unlock(&js->lock);
	return r;
}

void jobs_stats(struct jobs *js, struct jobs_stats *ret)
{
	pthread_mutex_lock(&js->lock);
	*ret = js->stats;
	ret->waiting = js->waiting.count;
	pthread_mutex_unlock(&js->lock);
}

#include "serve/fetcher.h"

#include <errno.h>
#include <sys/eventfd.h>

#include "base/mem.h"

#define WAIT_MS 60000u

struct wanted { /* a request; or, later, its end */
	struct wanted *next;
	struct download_request request;
	char *url;
	fetcher_end_fn *fn;
	struct download_end end;
};

struct queue {
	struct wanted *first, **last;
};

struct fetcher {
	struct loop *loop;
	struct downloads *downloads;
	int event; /* something has ended */
	pthread_t thread;
	bool running;
	pthread_mutex_t lock; /* of what follows */
	struct queue waiting, ended;
	bool stopping;
};

static void put(struct queue *q, struct wanted *w)
{
	if (!q->first)
		q->last = &q->first;
	w->next = NULL;
	*q->last = w;
	q->last = &w->next;
}

static struct wanted *take(struct queue *q)
{
	struct wanted *w = q->first;

	if (w)
		q->first = w->next;
	return w;
}

static void finish(struct wanted *w)
{
	w->end.ctx = w->request.ctx;
	w->fn(&w->end);
	free(w->url);
	free(w);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static struct wanted *next_wanted(struct fetcher *f, bool *ret_stopping)
{
	pthread_mutex_lock(&f->lock);
	struct wanted *w = take(&f->waiting);
	*ret_stopping = f->stopping;
	pthread_mutex_unlock(&f->lock);
	return w;
}

static void tell(struct fetcher *f, struct wanted *w)
{
	pthread_mutex_lock(&f->lock);
	put(&f->ended, w);
	pthread_mutex_unlock(&f->lock);
	eventfd_write(f->event, 1);
}

static void begin(struct fetcher *f, struct wanted *w)
{
	struct download_request r = w->request;

	r.url = w->url;
	r.ctx = w;
	int err = downloads_add(f->downloads, &r);
	if (err) {
		w->end = (struct download_end){.error = err};
		snprintf(w->end.why, sizeof(w->end.why), "%s", strerror(-err));
		tell(f, w);
	}
}

static void *work(void *ctx)
{
	struct fetcher *f = ctx;
	struct download_end end;
	bool stopping = false;

	while (!stopping) {
		struct wanted *w;
		while ((w = next_wanted(f, &stopping)))
			begin(f, w);
		if (stopping)
			break;
		downloads_wait(f->downloads, WAIT_MS);
		while (downloads_next(f->downloads, &end)) {
			w = end.ctx;
			w->end = end;
			tell(f, w);
		}
	}
	return NULL;
}

/* ---- the loop ------------------------------------------------------------------------------ */

static void on_ended(void *ctx, int fd)
{
	struct fetcher *f = ctx;
	eventfd_t ignored;

	eventfd_read(fd, &ignored);
	for (;;) {
		pthread_mutex_lock(&f->lock);
		struct wanted *w = take(&f->ended);
		pthread_mutex_unlock(&f->lock);
		if (!w)
			return;
		finish(w);
	}
}

void fetcher_add(struct fetcher *f, const struct download_request *r, fetcher_end_fn *fn)
{
	struct wanted *w = mem_alloc(sizeof(*w));

	w->request = *r;
	w->url = mem_strdup(r->url);
	w->fn = fn;
	pthread_mutex_lock(&f->lock);
	put(&f->waiting, w);
	pthread_mutex_unlock(&f->lock);
	downloads_wake(f->downloads);
}

void fetcher_release(struct fetcher *f, struct download_end *end)
{
	downloads_release(f->downloads, TAKE_PTR(end->body), end->body_cap);
}

static void give_up(struct fetcher *f, struct wanted *w)
{
	fetcher_release(f, &w->end);
	w->end = (struct download_end){.error = -ECANCELED, .why = "it was given up"};
	finish(w);
}

void fetcher_stop(struct fetcher *f)
{
	struct wanted *w;

	if (!f || !f->running)
		return;
	pthread_mutex_lock(&f->lock);
	f->stopping = true;
	pthread_mutex_unlock(&f->lock);
	downloads_wake(f->downloads);
	pthread_join(f->thread, NULL);
	f->running = false;
	while ((w = downloads_drop(f->downloads)))
		give_up(f, w);
	while ((w = take(&f->waiting)))
		give_up(f, w);
	while ((w = take(&f->ended)))
		give_up(f, w);
}

void fetcher_free(struct fetcher *f)
{
	if (!f)
		return;
	fetcher_stop(f);
	downloads_free(f->downloads);
	if (f->event >= 0) {
		loop_remove_fd(f->loop, f->event);
		close(f->event);
	}
	pthread_mutex_destroy(&f->lock);
	free(f);
}

DEFINE_CLEANUP(struct fetcher *, fetcher_free)

int fetcher_new(struct loop *l, uint64_t memory_max, struct fetcher **ret, const char **ret_why)
{
	CLEANUP(fetcher_freep) struct fetcher *f = mem_alloc(sizeof(*f));

	*ret_why = NULL;
	f->loop = l;
	pthread_mutex_init(&f->lock, NULL);
	f->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int r = f->event < 0 ? -errno : loop_fd(l, f->event, on_ended, f);
	if (!r)
		r = downloads_new(memory_max, &f->downloads, ret_why);
	if (!r)
		r = loop_thread(&f->thread, work, f);
	if (r)
		return r;
	f->running = true;
	*ret = TAKE_PTR(f);
	return 0;
}

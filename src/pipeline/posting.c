#include "pipeline/posting.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include "base/fetch.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "profile/window.h"

#define TIMEOUT_MS 30000

struct posting {
	char *url;
	char *authorization; /* NULL: none */
	char *ca_file;       /* NULL: the system's */
	struct collecting *collecting;
	int done_fd; /* an eventfd: the thread has an answer, or none */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	bool stop, busy, answered;
	uint8_t *message;
	size_t len;
	struct fetch_answer answer; /* while answered */
	int result;
	struct fetch_error why;
	bool complained; /* the loop's: said once until it works again */
};

static bool goes_on(void *ctx, uint64_t waited_ms, size_t received)
{
	struct posting *p = ctx;

	(void)waited_ms;
	(void)received;
	pthread_mutex_lock(&p->lock);
	bool stop = p->stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

static void *post(void *ctx)
{
	struct posting *p = ctx;

	pthread_setname_np(pthread_self(), "smolder-post");
	pthread_mutex_lock(&p->lock);
	while (!p->stop) {
		if (!p->busy || p->answered) {
			pthread_cond_wait(&p->wake, &p->lock);
			continue;
		}
		struct fetch_request request = {
			.url = p->url,
			.method = "POST",
			.body = p->message,
			.body_len = p->len,
			.content_type = "application/octet-stream",
			.authorization = p->authorization,
			.ca_file = p->ca_file,
			.timeout_ms = TIMEOUT_MS,
			.max = 64 << 10,
			.wait = goes_on,
			.wait_ctx = p,
		};
		struct fetch_answer answer = {};
		struct fetch_error why = {};
		pthread_mutex_unlock(&p->lock);
		int r = fetch(&request, &answer, &why);
		pthread_mutex_lock(&p->lock);
		p->answer = answer;
		p->result = r;
		p->why = why;
		p->answered = true;
		uint64_t one = 1;
		if (write(p->done_fd, &one, sizeof(one)) < 0)
			break;
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

int posting_new(const char *url, const char *authorization, const char *ca_file,
		struct posting **ret)
{
	struct posting *p = mem_alloc(sizeof(*p));
	size_t len = strlen(url);
	while (len && url[len - 1] == '/')
		len--;
	p->url = mem_printf("%.*s/api/v1/windows", (int)len, url);
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	p->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->authorization = authorization ? mem_strdup(authorization) : NULL;
	p->ca_file = ca_file ? mem_strdup(ca_file) : NULL;
	int err = loop_thread(&p->thread, post, p);
	if (err) {
		p->stop = true;
		posting_free(p);
		return err;
	}
	*ret = p;
	return 0;
}

void posting_free(struct posting *p)
{
	if (!p)
		return;
	if (!p->stop) {
		pthread_mutex_lock(&p->lock);
		p->stop = true;
		pthread_cond_signal(&p->wake);
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->thread, NULL);
	}
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	fetch_answer_done(&p->answer);
	fd_closep(&p->done_fd);
	free(p->message);
	free(p->authorization);
	free(p->ca_file);
	free(p->url);
	free(p);
}

static int posting_send(void *ctx, const void *bytes, size_t len)
{
	struct posting *p = ctx;

	pthread_mutex_lock(&p->lock);
	bool busy = p->busy;
	if (!busy) {
		free(p->message);
		p->message = mem_dup(bytes, len);
		p->len = len;
		p->busy = true;
		pthread_cond_signal(&p->wake);
	}
	pthread_mutex_unlock(&p->lock);
	return busy ? -EAGAIN : 0;
}

static void on_answer(void *ctx, int fd)
{
	struct posting *p = ctx;
	uint64_t count;

	if (read(fd, &count, sizeof(count)) != sizeof(count))
		return;
	pthread_mutex_lock(&p->lock);
	struct fetch_answer answer = p->answer;
	struct fetch_error why = p->why;
	int result = p->result;
	p->answer = (struct fetch_answer){};
	p->answered = p->busy = false;
	pthread_mutex_unlock(&p->lock);

	if (result == 0 && answer.len >= 3 && memcmp(answer.body, "SMR", 3) == 0) {
		p->complained = false;
		collecting_reply(p->collecting, answer.body, answer.len);
	} else {
		if (!p->complained && result)
			log_warn("cannot send to %s: %s; windows are kept and sent later", p->url,
				 why.text);
		else if (!p->complained)
			log_warn("%s answered with status %u: %.200s; windows are kept and sent "
				 "later",
				 p->url, answer.status, answer.body ? answer.body : "");
		p->complained = true;
		collecting_lost_server(p->collecting);
	}
	fetch_answer_done(&answer);
}

static int posting_watch(void *ctx, struct loop *l, struct collecting *c)
{
	struct posting *p = ctx;

	p->collecting = c;
	return loop_fd(l, p->done_fd, on_answer, p);
}

struct transport posting_transport(struct posting *p)
{
	return (struct transport){posting_send, posting_watch, p};
}

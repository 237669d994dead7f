#include "serve/kubelet.h"

#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>

#include "base/clock.h"
#include "base/fetch.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/pack.h"
#include "profile/pods.h"

#define ANSWER_MAX  (16u << 20)
#define TOKEN_MAX   (64u << 10)
#define TIMEOUT_MS  10000
#define EVERY_MS    60000
#define LEAST_MS    1000
#define AGAIN_MS    200 /* the collector has not read what it was sent */
#define AGAIN_TIMES 50

struct kubelet {
	struct kubelet_options options;
	struct loop *loop;
	char *url;
	kubelet_sink *sink;
	void *sink_ctx;
	int event;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	/* Under the lock: */
	bool ending, asked;
	struct pack answer; /* messages, not taken yet */
	struct kubelet_stats stats;
	/* Of the loop's thread: */
	struct pack sending;
	size_t sent;
	unsigned tries;
	/* Of the other one: */
	bool said;
};

/* ---- the thread that asks ------------------------------------------------------------------ */

static bool go_on(void *ctx, uint64_t waited_ms, size_t received)
{
	struct kubelet *k = ctx;

	(void)waited_ms, (void)received;
	pthread_mutex_lock(&k->lock);
	bool ending = k->ending;
	pthread_mutex_unlock(&k->lock);
	return !ending;
}

/* NULL: there is none, or *ret_why says why it cannot be read. */
static char *read_token(const struct kubelet *k, struct fetch_error *ret_why)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;

	if (!k->options.token_file)
		return NULL;
	int r = file_read(k->options.token_file, TOKEN_MAX, &text, &len);
	size_t end = r ? 0 : strcspn(text, " \t\r\n");
	if (r || !end)
		snprintf(ret_why->text, sizeof(ret_why->text),
			 "cannot read its token from %.150s: %s", k->options.token_file,
			 r ? strerror(-r) : "it is empty");
	return end ? mem_printf("Bearer %.*s", (int)end, text) : NULL;
}

static int request(struct kubelet *k, struct fetch_answer *ret, struct fetch_error *why)
{
	CLEANUP(freep) char *bearer = read_token(k, why);
	struct fetch_request r = {
		.url = k->url,
		.authorization = bearer,
		.ca_file = k->options.ca_file,
		.timeout_ms = TIMEOUT_MS,
		.max = ANSWER_MAX,
		.wait = go_on,
		.wait_ctx = k,
	};

	if (*why->text)
		return -EACCES;
	int e = fetch(&r, ret, why);
	if (!e && ret->status != 200) {
		snprintf(why->text, sizeof(why->text), "it answers with status %u%s", ret->status,
			 ret->status == 401   ? ": the token is not accepted"
			 : ret->status == 403 ? ": the service account may not get nodes/proxy"
					      : "");
		fetch_answer_done(ret);
		e = -EACCES;
	}
	return e;
}

/* Said once, until it works again. */
static void say(struct kubelet *k, const char *why)
{
	if (!k->said)
		log_warn("the kubelet at %s does not tell which pods there are: %s; pods have the "
			 "names "
			 "that container runtimes know, and it is asked again",
			 k->options.url, why);
	k->said = true;
}

static void ask(struct kubelet *k)
{
	struct fetch_error why = {};
	struct fetch_answer a = {};
	struct pack answer = {};
	uint64_t left_out = 0;
	int count = request(k, &a, &why);

	if (!count) {
		count = pods_from_json(a.body, a.len, k->options.pod_labels, &answer, &left_out);
		fetch_answer_done(&a);
		if (count < 0)
			snprintf(why.text, sizeof(why.text), "its answer is no list of pods");
	}
	if (count == -ECANCELED)
		return;
	if (count < 0)
		say(k, why.text);
	else
		k->said = false;
	pthread_mutex_lock(&k->lock);
	k->stats.requests++;
	k->stats.failures += count < 0;
	if (count >= 0) {
		k->stats.pods = (uint64_t)count;
		k->stats.left_out = left_out;
		pack_done(&k->answer);
		k->answer = answer;
	}
	pthread_mutex_unlock(&k->lock);
	if (count >= 0)
		eventfd_write(k->event, 1);
}

static struct timespec in_ms(uint64_t ms)
{
	uint64_t at = clock_ns(CLOCK_MONOTONIC) + ms * 1000000;

	return (struct timespec){(time_t)(at / 1000000000), (long)(at % 1000000000)};
}

/* Until it is time to ask again; false: the end has come. */
static bool wait_turn(struct kubelet *k)
{
	struct timespec least = in_ms(LEAST_MS), most = in_ms(EVERY_MS);
	int r = 0;

	pthread_mutex_lock(&k->lock);
	while (!k->ending && r == 0)
		r = pthread_cond_timedwait(&k->wake, &k->lock, &least);
	r = 0;
	while (!k->ending && !k->asked && r == 0)
		r = pthread_cond_timedwait(&k->wake, &k->lock, &most);
	k->asked = false;
	bool ending = k->ending;
	pthread_mutex_unlock(&k->lock);
	return !ending;
}

static void *run(void *ctx)
{
	struct kubelet *k = ctx;

	do
		ask(k);
	while (wait_turn(k));
	return NULL;
}

/* ---- the loop's thread --------------------------------------------------------------------- */

static void send_more(void *ctx, int what)
{
	struct kubelet *k = ctx;
	uint32_t len;

	(void)what;
	while (k->sent + sizeof(len) <= k->sending.len) {
		memcpy(&len, k->sending.bytes + k->sent, sizeof(len));
		int r = k->sink(k->sink_ctx, k->sending.bytes + k->sent + sizeof(len), len);
		if (r == -EAGAIN && k->tries++ < AGAIN_TIMES) {
			loop_after(k->loop, AGAIN_MS, send_more, k);
			return;
		}
		k->sent += sizeof(len) + len;
	}
	pack_done(&k->sending);
	k->sending = (struct pack){};
}

static void on_answer(void *ctx, int fd)
{
	struct kubelet *k = ctx;
	eventfd_t ignored;

	eventfd_read(fd, &ignored);
	if (k->sending
		    .len) /* the one before is still on its way: what is new comes with the next */
		return;
	pthread_mutex_lock(&k->lock);
	k->sending = k->answer;
	k->answer = (struct pack){};
	pthread_mutex_unlock(&k->lock);
	k->sent = k->tries = 0;
	send_more(k, 0);
}

void kubelet_ask(struct kubelet *k)
{
	pthread_mutex_lock(&k->lock);
	k->asked = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->lock);
}

void kubelet_stats(struct kubelet *k, struct kubelet_stats *ret)
{
	pthread_mutex_lock(&k->lock);
	*ret = k->stats;
	pthread_mutex_unlock(&k->lock);
}

struct kubelet *kubelet_new(struct loop *l, const struct kubelet_options *o, kubelet_sink *sink,
			    void *ctx)
{
	struct kubelet *k = mem_alloc(sizeof(*k));
	pthread_condattr_t clock;
	size_t len = strlen(o->url);

	k->options = *o;
	k->loop = l;
	k->sink = sink;
	k->sink_ctx = ctx;
	k->url = mem_printf("%.*s/pods", (int)(len - (len && o->url[len - 1] == '/')), o->url);
	k->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&k->lock, NULL);
	pthread_condattr_init(&clock);
	pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
	pthread_cond_init(&k->wake, &clock);
	pthread_condattr_destroy(&clock);
	int err = k->event < 0 ? -errno : loop_fd(l, k->event, on_answer, k);
	if (!err) {
		err = loop_thread(&k->thread, run, k);
		if (err)
			loop_remove_fd(l, k->event);
	}
	if (!err)
		return k;
	log_warn("the kubelet is not asked for its pods: %s", strerror(-err));
	fd_closep(&k->event);
	free(k->url);
	free(k);
	return NULL;
}

void kubelet_free(struct kubelet *k)
{
	if (!k)
		return;
	pthread_mutex_lock(&k->lock);
	k->ending = true;
	pthread_cond_signal(&k->wake);
	pthread_mutex_unlock(&k->lock);
	pthread_join(k->thread, NULL);
	loop_remove_fd(k->loop, k->event);
	close(k->event);
	pack_done(&k->answer);
	pack_done(&k->sending);
	pthread_mutex_destroy(&k->lock);
	pthread_cond_destroy(&k->wake);
	free(k->url);
	free(k);
}

#include "forward/forward.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "forward/far.h"
#include "forward/forward_status.h"
#include "forward/pace.h"
#include "profile/pods.h"
#include "serve/jobs.h"
#include "serve/receiver.h"

#define TIMEOUT_MS       30000
#define ANSWER_MAX       (256u << 10)
#define MEMORY_MAX       (16u << 20)
#define STATUS_MS        5000
#define FINISH_MS        5000
#define FINISH_NOBODY_MS 1000   /* … where nobody has ever answered */
#define FAULTS_MAX       3      /* of one record, before others are tried */
#define SAY_AGAIN_MS     600000 /* what is refused is said no more often */
#define MESSAGES_ONCE    32     /* before others have their turn */
#define SPANS_MS         500    /* that a window may wait for its spans */

struct posting {
	struct job job;
	struct forward *f;
	struct far_request made;
	char *headers;
	uint64_t number; /* of the record */
	unsigned skip;
	int result;
	struct fetch_answer answer;
	struct fetch_error why;
};

struct forward {
	struct loop *loop;
	struct forward_options options;
	char *url;
	const struct far_protocol *protocol;
	void *far;
	struct spool *spool;
	struct receiver *receiver;
	struct jobs *jobs;
	struct kubelet *kubelet; /* NULL: none is asked */
	struct posting *posting; /* on its way; NULL: none */
	struct pace pace;
	uint32_t most;         /* series in a request */
	uint64_t fault_number; /* a record that the far side failed at, */
	unsigned faults;       /* so often, */
	bool others_went;      /* though it took another */
	unsigned skip;
	uint64_t live_until_ms;
	uint64_t put_ms;    /* when the last window came */
	uint64_t finish_ms; /* 0: not yet */
	uint64_t refused_said_ms, rejected_said_ms;
	uint64_t lost_said; /* samples that were lost when it was said */
	bool complained, waiting;
	struct forward_counts counts;
	uint8_t message[WINDOW_MESSAGE_MAX + 1];
};

static void pump(struct forward *f);

static uint64_t now_ms(void)
{
	return clock_ms(CLOCK_MONOTONIC);
}

/* ---- from the collector -------------------------------------------------------------------- */

static bool is_own(const struct forward *f)
{
	return f->protocol == &far_smolder;
}

static int put(void *ctx, const struct profile *dict, const struct window *w, uint64_t now,
	       struct store_error *ret_err)
{
	struct forward *f = ctx;

	(void)now;
	if (!w->row_count && !window_is_spans(w) && !is_own(f))
		return 0; /* findings, and windows without a sample */
	f->put_ms = now_ms();
	int err = spool_put(f->spool, dict, w);
	if (err && err != -EEXIST)
		snprintf(ret_err->text, sizeof(ret_err->text), "there is no room in the spool%s%s",
			 f->options.dir_name ? " " : "",
			 f->options.dir_name ? f->options.dir_name : "");
	return err == -EFBIG ? -EINVAL : err;
}

static void answer(const struct forward *f, struct pack *reply)
{
	/* One that does not read its answers sends the message again. */
	send(f->options.windows_fd, reply->bytes, reply->len, MSG_DONTWAIT | MSG_NOSIGNAL);
	pack_done(reply);
}

static void on_windows(void *ctx, int fd)
{
	struct forward *f = ctx;

	for (int i = 0; i < MESSAGES_ONCE; i++) {
		struct pack reply = {};
		ssize_t n = recv(fd, f->message, sizeof(f->message), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			break;
		if (n <= 0) { /* the other end is gone for good */
			loop_remove_fd(f->loop, fd);
			forward_finish(f);
			return;
		}
		if (pods_is_ask(f->message, (size_t)n)) {
			if (f->kubelet)
				kubelet_ask(f->kubelet);
			continue;
		}
		receiver_message(f->receiver, f->message, (size_t)n, clock_ms(CLOCK_REALTIME),
				 &reply);
		answer(f, &reply);
	}
	pump(f);
}

static int send_pods(void *ctx, const void *bytes, size_t len)
{
	const struct forward *f = ctx;

	return send(f->options.windows_fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? -errno
											: 0;
}

/* What a server of smolder's wants of its collectors: at once, not with the next answer. */
static void pass_on(struct forward *f, const struct far_answer *a)
{
	struct pack control = {};

	if (a->live_until_ms <= f->live_until_ms && !a->flush)
		return;
	f->live_until_ms = MAX(f->live_until_ms, a->live_until_ms);
	receiver_live(f->receiver, f->live_until_ms);
	receiver_control(f->receiver, a->flush, clock_ms(CLOCK_REALTIME), &control);
	answer(f, &control);
}

/* ---- to the far side ----------------------------------------------------------------------- */

static void on_due(void *ctx, int what)
{
	struct forward *f = ctx;

	(void)what;
	f->waiting = false;
	pump(f);
}

static bool goes_on(void *ctx, uint64_t waited, size_t received)
{
	struct posting *p = ctx;

	(void)waited;
	(void)received;
	return job_goes_on(&p->job);
}

static void run(struct job *job)
{
	struct posting *p = (struct posting *)job;
	struct fetch_request request = {
		.url = p->f->url,
		.method = "POST",
		.body = p->made.body.bytes,
		.body_len = p->made.body.len,
		.content_type = p->made.content_type,
		.authorization = p->f->options.authorization,
		.headers = p->headers,
		.ca_pem = p->f->options.ca_pem,
		.timeout_ms = TIMEOUT_MS,
		.max = ANSWER_MAX,
		.wait = goes_on,
		.wait_ctx = p,
	};

	p->result = fetch(&request, &p->answer, &p->why);
}

static void posting_free(struct posting *p)
{
	fetch_answer_done(&p->answer);
	pack_done(&p->made.body);
	free(p->headers);
	free(p);
}

static void say_lost(struct forward *f)
{
	struct spool_stats s;

	spool_stats(f->spool, &s);
	if (s.lost[LEDGER_LOST_OLD] <= f->lost_said)
		return;
	f->lost_said = UINT64_MAX; /* until it is well again */
	log_warn("the spool is full, so the oldest windows are dropped, and counted");
}

static void went_badly(struct forward *f, const char *why, uint64_t asked_ms)
{
	f->counts.failures++;
	pace_failed(&f->pace, now_ms(), asked_ms);
	snprintf(f->counts.why, sizeof(f->counts.why), "%s", why);
	if (!f->complained)
		log_warn("cannot send to %s: %s; windows are kept%s%s and sent later", f->url, why,
			 f->options.dir_name ? " in " : "",
			 f->options.dir_name ? f->options.dir_name : "");
	f->complained = true;
}

static void went_well(struct forward *f)
{
	struct spool_stats s;

	pace_went_well(&f->pace, now_ms());
	f->counts.last_ms = clock_ms(CLOCK_REALTIME);
	f->counts.why[0] = '\0';
	spool_stats(f->spool, &s);
	f->lost_said = s.lost[LEDGER_LOST_OLD];
	if (f->complained)
		log_info("%s answers again; %" PRIu64 " windows wait to be sent", f->url,
			 s.records);
	f->complained = false;
}

/* Once in a while: a far side that refuses one thing often refuses all of it. */
static bool is_to_be_said(uint64_t *said_ms)
{
	uint64_t now = now_ms();

	if (*said_ms && now < *said_ms + SAY_AGAIN_MS)
		return false;
	*said_ms = now;
	return true;
}

/* What was in the request, or all of the record where it has no parts. */
static void refused(struct forward *f, const struct posting *p, const char *why)
{
	if (is_to_be_said(&f->refused_said_ms))
		log_warn("%s refused a window: %s; it is dropped, and counted", f->url, why);
	if (p->made.through == UINT64_MAX)
		spool_refuse(f->spool, p->number);
	else
		spool_progress(f->spool, p->number, p->made.through, 0, p->made.samples);
}

static void sent(struct forward *f, const struct posting *p, const struct far_answer *a)
{
	f->counts.profiles_rejected += a->rejected;
	if (a->rejected && is_to_be_said(&f->rejected_said_ms))
		log_warn("%s rejected %" PRIu64 " profiles: %s", f->url, a->rejected, a->why);
	bool none = a->rejected && a->rejected >= p->made.series;
	if (p->made.through == UINT64_MAX)
		spool_settle(f->spool, p->number);
	else
		spool_progress(f->spool, p->number, p->made.through, none ? 0 : p->made.samples,
			       none ? p->made.samples : 0);
	f->others_went |= p->number != f->fault_number;
}

/* It fails, maybe at this record alone: if it takes another one, this is dropped. */
static void fault(struct forward *f, const struct posting *p, const char *why)
{
	if (p->skip)
		return;
	if (f->fault_number != p->number) {
		f->fault_number = p->number;
		f->faults = 0;
		f->others_went = false;
	}
	if (++f->faults <= FAULTS_MAX)
		return;
	if (f->others_went) {
		refused(f, p, why);
	} else {
		f->skip = 1;
	}
}

/* Half as many series next time; one that is too large by itself is dropped. */
static void too_large(struct forward *f, const struct posting *p, const char *why)
{
	if (p->made.series > 1) {
		f->most = (uint32_t)(p->made.series / 2);
		return;
	}
	refused(f, p, why);
}

static void judge(struct forward *f, struct posting *p)
{
	struct far_answer a = {};
	enum far_verdict v = f->protocol->judge(f->far, &p->answer, &a);

	f->counts.last_status = p->answer.status;
	pass_on(f, &a);
	switch (v) {
	case FAR_SENT:
		went_well(f);
		sent(f, p, &a);
		break;
	case FAR_GO_ON:
		went_well(f);
		break;
	case FAR_REFUSED:
		went_well(f);
		refused(f, p, a.why);
		break;
	case FAR_TOO_LARGE:
		too_large(f, p, a.why);
		break;
	case FAR_FAULT:
		fault(f, p, a.why);
		/* fall through */
	case FAR_LATER:
		went_badly(f, a.why, fetch_retry_after_ms(&p->answer, clock_ms(CLOCK_REALTIME)));
		break;
	}
}

static void done(struct job *job)
{
	struct posting *p = (struct posting *)job;
	struct forward *f = p->f;
	bool is_ending = job->end != JOB_DONE; /* whether it was taken is not known */

	f->posting = NULL;
	f->counts.requests++;
	f->counts.bytes += p->made.body.len;
	if (p->result && !is_ending)
		went_badly(f, p->why.text, 0);
	else if (!is_ending)
		judge(f, p);
	posting_free(p);
	if (!is_ending)
		pump(f);
}

static void post(struct forward *f, const struct spooled *r, unsigned skip,
		 struct far_request *made)
{
	struct posting *p = mem_alloc(sizeof(*p));

	p->f = f;
	p->number = r->number;
	p->skip = skip;
	p->made = *made;
	p->headers = mem_printf("%s%s", made->is_gzip ? "Content-Encoding: gzip\r\n" : "",
				f->options.headers ? f->options.headers : "");
	p->job = (struct job){.run = run, .done = done, .fd = -1, .deadline_ms = UINT64_MAX};
	f->posting = p;
	if (jobs_add(f->jobs, &p->job) != 0) {
		f->posting = NULL;
		posting_free(p);
		went_badly(f, "no thread could be started", 0);
	}
}

static void try_again_in(struct forward *f, uint64_t ms)
{
	if (!f->waiting)
		loop_after(f->loop, ms, on_due, f);
	f->waiting = true;
}

/* Others than our own have spans in the rows. False: there may soon be more of them. */
static bool has_all_spans(struct forward *f, struct spooled *r)
{
	uint64_t now = now_ms(), until = f->put_ms + SPANS_MS;

	if (is_own(f) || !r->window.row_count || spool_add_spans(f->spool, r) || f->finish_ms ||
	    now >= until)
		return true;
	try_again_in(f, until - now);
	return false;
}

static void count_kubelet(struct forward *f)
{
	struct kubelet_stats k;

	if (!f->kubelet)
		return;
	kubelet_stats(f->kubelet, &k);
	f->counts.kubelet_failures = k.failures;
}

/* The next request. False: nothing is to be sent. */
static bool send_next(struct forward *f)
{
	unsigned skip = f->skip;
	struct spooled r;

	f->skip = 0;
	if (!spool_next(f->spool, skip, &r) && (!skip || !spool_next(f->spool, skip = 0, &r)))
		return false;
	if (!has_all_spans(f, &r)) {
		spooled_done(&r);
		return false;
	}
	struct far_request made = {};
	spool_losses(f->spool, &r.window);
	count_kubelet(f);
	if (is_own(f) && r.window.metric_count)
		forward_status_add(f->spool, &f->counts, &r.window);
	int err = f->protocol->make(f->far, &r, f->most, &made);
	if (err) {
		log_warn("a window cannot be sent: %s; it is dropped, and counted", strerror(-err));
		spool_refuse(f->spool, r.number);
	} else if (!made.body.len) { /* all of it was sent */
		spool_settle(f->spool, r.number);
		f->most = MIN(2 * f->most, FAR_SERIES_MAX);
	} else {
		post(f, &r, skip, &made);
	}
	spooled_done(&r);
	return true;
}

static void pump(struct forward *f)
{
	struct spool_stats s;

	say_lost(f);
	while (!f->posting) {
		uint64_t ms = pace_wait_ms(&f->pace, now_ms());
		if (ms) {
			try_again_in(f, ms);
			break;
		}
		if (!send_next(f))
			break;
	}
	if (!f->finish_ms)
		return;
	spool_stats(f->spool, &s);
	bool is_safe = s.memory_bytes == 0 && f->pace.failures;
	if (!s.records || is_safe || now_ms() >= f->finish_ms)
		loop_stop(f->loop);
}

/* ---- as time passes ------------------------------------------------------------------------ */

static void tell(struct forward *f)
{
	count_kubelet(f);
	if (f->options.dir >= 0)
		forward_status_write(f->spool, &f->counts, f->url, f->options.max_bytes,
				     f->options.dir);
}

static void on_status(void *ctx, int what)
{
	(void)what;
	tell(ctx);
}

static void on_finish(void *ctx, int what)
{
	(void)what;
	pump(ctx);
}

void forward_finish(struct forward *f)
{
	if (f->finish_ms)
		return;
	uint64_t ms = f->counts.last_ms ? FINISH_MS : FINISH_NOBODY_MS;
	f->finish_ms = now_ms() + ms;
	loop_after(f->loop, ms + 1, on_finish, f);
	pump(f);
}

static int fail(struct forward *f, int err, struct forward_error *e, const char *what)
{
	snprintf(e->text, sizeof(e->text), "cannot %s%s%s: %s", what,
		 f->options.dir_name ? " " : "", f->options.dir_name ? f->options.dir_name : "",
		 err == -EBUSY ? "another agent uses it" : strerror(-err));
	forward_free(f);
	return err;
}

int forward_new(struct loop *l, const struct forward_options *o, struct forward **ret,
		struct forward_error *ret_err)
{
	struct forward *f = mem_alloc(sizeof(*f));
	struct spool_options spool = {o->dir, o->max_bytes, MEMORY_MAX};
	struct spool_stats s;

	f->loop = l;
	f->options = *o;
	f->most = FAR_SERIES_MAX;
	f->protocol = far_find(o->to, &f->url);
	if (!f->protocol)
		return fail(f, -EINVAL, ret_err, "send to that URL");
	int err = spool_open(&spool, &f->spool);
	if (err)
		return fail(f, err, ret_err, "use the spool");
	f->far = f->protocol->new ? f->protocol->new () : NULL;
	f->receiver = receiver_new_into(put, f);
	f->jobs = jobs_new(l, 1, 1);
	if (o->kubelet.url)
		f->kubelet = kubelet_new(l, &o->kubelet, send_pods, f);
	err = loop_fd(l, o->windows_fd, on_windows, f);
	err = err ? err : loop_timer(l, STATUS_MS, on_status, f);
	if (err)
		return fail(f, err, ret_err, "wait for windows");
	spool_stats(f->spool, &s);
	f->lost_said = s.lost[LEDGER_LOST_OLD];
	if (s.records)
		log_info("%" PRIu64 " windows of before wait to be sent", s.records);
	tell(f);
	pump(f);
	*ret = f;
	return 0;
}

void forward_free(struct forward *f)
{
	struct spool_stats s;

	if (!f)
		return;
	jobs_free(f->jobs);
	kubelet_free(f->kubelet);
	if (f->spool) {
		spool_stats(f->spool, &s);
		if (s.records)
			log_warn("%" PRIu64 " windows are not sent: %s", s.records,
				 s.memory_bytes ? "they waited in memory, and are lost"
						: "they are on disk, for the next start");
		tell(f);
	}
	receiver_free(f->receiver);
	if (f->protocol && f->protocol->free)
		f->protocol->free(f->far);
	spool_close(f->spool);
	free(f->url);
	free(f);
}

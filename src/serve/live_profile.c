/*
 * live_profile: any process of the machine answers `go tool pprof` as a Go program does.
 *
 * A profile of the next N seconds waits here while its request is held, and is read from the store
 * like any other range, exact to 20 ms, or for types that are sums over windows, to whole seconds:
 *
 *	at once      collectors are told to send windows of 1 s (server_live)
 *	N s          the range is over; shortly after they are told to send what they have
 *	then         when all of them have sent what they took in the range, a job reads it
 *
 * The collector of `run` is told over its socket, so that takes a tenth of a second. Collectors
 * that send over HTTP learn it with the answer to their next window: they are waited for as long as
 * go tool pprof has patience, which is 1.5 N + 5 s. What is missing then is told in a header.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "query/computed.h"
#include "query/selector.h"
#include "render/escape.h"
#include "render/render.h"
#include "serve/query_job.h"

#define SECONDS_DEFAULT 30
#define SECONDS_MAX     300
#define WAITING_MAX     32
#define TICK_MS         50
#define LIVE_EVERY_MS   1000 /* repeated for a collector that was started meanwhile */
#define LIVE_AFTER_MS   1500
#define FLUSH_AFTER_MS  100  /* what was taken by then has left the kernel */
#define LOCAL_MS        1500 /* to wait for the collector of `run` after the end */
#define REMOTE_MS       4000 /* … for others, beside half of the time asked for */
#define BUSY_MS         2500 /* to wait for a job's turn after the end */
#define HEARD_MS        30000
#define WINDOW_LIVE_MS  1000 /* what collectors send meanwhile */
#define LIST_MS         300000
#define LIST_MAX        200
#define SHORT_ID        12          /* of a container, as docker shows it */
#define INITIAL_PIDS    0xeffffffcu /* inode of the first pid namespace */

enum want { WANT_PID, WANT_COMM, WANT_CONTAINER, WANT_HOST, WANTS };
static const char *const want_names[WANTS] = {"pid", "comm", "container", "host"};

struct live_request {
	struct query_job q;
	struct live_request *next; /* of those that wait */
	const char *wants[WANTS];  /* borrowed from the request; NULL: any */
	struct selector *selector;
	uint64_t from_ms, to_ms, last_ms; /* last: to wait for collectors by HTTP until then */
	uint64_t late_ms;                 /* CLOCK_MONOTONIC: longer than any of that */
	bool flushed;
	uint32_t missing;
	bool is_list;
	const char *by_default; /* the selector, unless one is given */
	bool is_block;          /* that is of what threads wait for */
	bool has_waits;         /* some collector tells that */
	/* The answer. */
	struct store_answer answer;
};

struct live_profiles {
	struct server *server;
	struct live_request *waiting;
	uint32_t count;
	int timer;
	uint64_t told_ms; /* of live */
};

/* ---- what is asked ------------------------------------------------------------------------- */

static void request_free(struct query_job *q)
{
	struct live_request *a = (struct live_request *)q;

	selector_free(a->selector);
	query_job_done(q);
	free(a);
}

static bool is_container_id(const char *text)
{
	size_t len = strlen(text);

	return len >= SHORT_ID && strspn(text, "0123456789abcdef") == len;
}

/* The label has the first digits alone. */
static void require_container(struct selector *s, const char *id)
{
	CLEANUP(freep) char *digits = mem_strndup(id, SHORT_ID);

	selector_require_prefix(s, "container_id", digits);
}

/* What is asked for by name, as conditions of the selector. */
static void require_wants(struct live_request *a)
{
	for (int i = 0; i < WANTS; i++) {
		const char *want = a->wants[i];
		if (want && i == WANT_COMM)
			selector_require_comm(a->selector, want);
		else if (want && i == WANT_CONTAINER && is_container_id(want))
			require_container(a->selector, want);
		else if (want)
			selector_require(a->selector, want_names[i], want);
	}
}

static bool parse(struct live_request *a)
{
	const char *query = query_job_given(&a->q, "query");
	struct selector_error err = {};
	uint64_t seconds, pid;

	if (!query_job_number(&a->q, "seconds", 1, SECONDS_MAX, SECONDS_DEFAULT, &seconds))
		return false;
	for (int i = 0; i < WANTS; i++)
		a->wants[i] = query_job_given(&a->q, want_names[i]);
	if (!query_job_number(&a->q, "pid", 1, INT32_MAX, 0, &pid))
		return query_job_wrong(&a->q, 400, "pid must be a process id");
	if (selector_parse(query ? query : a->by_default, &a->selector, &err) != 0)
		return query_job_wrong(&a->q, 400, "%s", err.text);
	require_wants(a);
	/* A type that is asked for may be one without times of samples. */
	uint64_t step = a->is_block || query ? WINDOW_LIVE_MS : WINDOW_STEP_MS;
	uint64_t now = clock_ms(CLOCK_REALTIME);
	a->is_block &= !query;
	a->from_ms = (now / step + 1) * step;
	a->to_ms = a->from_ms + seconds * 1000;
	a->last_ms = now + seconds * 1500 + REMOTE_MS;
	a->late_ms = clock_ms(CLOCK_MONOTONIC) + a->last_ms - now + step;
	return true;
}

/* Whether our pids are those of the samples, which are the first namespace's. */
static bool knows_pids(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PIDS;
}

/* 0 if it is none that we can see. */
static uint64_t thread_of(const char *pid)
{
	CLEANUP(freep) char *path = mem_printf("/proc/%s/status", pid);
	CLEANUP(freep) char *text = NULL;

	if (file_read(path, 64 << 10, &text, NULL) != 0)
		return 0;
	const char *line = strstr(text, "\nTgid:");
	uint64_t leader = line ? strtoull(line + strlen("\nTgid:"), NULL, 10) : 0;
	return leader == strtoull(pid, NULL, 10) ? 0 : leader;
}

static bool no_waits(struct live_request *a)
{
	return query_job_wrong(&a->q, 404,
			       "what threads wait for is not recorded; start 'smolder run' (or "
			       "'agent') with --offcpu yes, or put 'offcpu: yes' into its "
			       "configuration");
}

/* Whether some collector has sent windows of that type of late. */
static bool is_sent(const struct server *s, const char *type)
{
	uint64_t now = clock_ms(CLOCK_REALTIME);

	return receiver_has_type(s->receiver, type, now - MIN(now, HEARD_MS));
}

/* What can be known before half a minute is spent on it. */
static bool is_possible(struct live_request *a)
{
	const struct server *s = a->q.server;
	const char *pid = a->wants[WANT_PID];
	struct receiver_reach reach =
		receiver_reach(s->receiver, a->from_ms - MIN(a->from_ms, HEARD_MS), 0);

	if (s->windows_fd < 0 && !reach.remote)
		return query_job_wrong(
			&a->q, 503,
			"no collector sends profiles to this server; start one with 'smolder agent "
			"--to URL', or use 'smolder run', which has its own");
	/* A window of samples comes after the others of its time. */
	if (a->is_block && is_sent(s, "cpu") && !is_sent(s, "offcpu"))
		return no_waits(a);
	if (!pid || s->windows_fd < 0 || reach.remote || !knows_pids())
		return true;
	if (kill((pid_t)strtol(pid, NULL, 10), 0) != 0 && errno == ESRCH)
		return query_job_wrong(&a->q, 404, "there is no process %s on this machine", pid);
	uint64_t leader = thread_of(pid);
	return !leader ||
	       query_job_wrong(&a->q, 404, "%s is a thread of process %" PRIu64 "; use that pid",
			       pid, leader);
}

/* ---- the profile --------------------------------------------------------------------------- */

static void write_profile(struct live_request *a, struct store *s, FILE *out)
{
	static const char *const keep[] = {"comm", "pid", "thread", "container", "host"};
	struct store_query q = {
		.from_ms = a->from_ms, .to_ms = a->to_ms, .by = keep, .by_count = ARRAY_SIZE(keep)};
	struct render_options options = {};
	CLEANUP(profile_freep) struct profile *p = profile_new();

	int r = selector_resolve_by(a->selector, s, a->from_ms, a->to_ms, &a->q.store_error);
	selector_query(a->selector, &q);
	q.exact = computed_has_times(q.type);
	q.unrounded = !q.exact;
	if (!r)
		r = computed_sum(s, &q, p, &a->answer, &a->q.store_error);
	if (r == -ENODATA) { /* some collector tells no times: whole windows then */
		profile_free(p);
		p = profile_new();
		q.exact = false;
		r = computed_sum(s, &q, p, &a->answer, &a->q.store_error);
	}
	if (!query_job_went_well(&a->q, r))
		return;
	if (!a->answer.samples && !computed_has_times(q.type) && !a->has_waits) {
		no_waits(a);
		return;
	}
	if (!a->answer.samples && strcmp(q.type, "cpu") == 0)
		p->info.unit = "nanoseconds"; /* there was no window that could tell */
	r = render_pprof(p, &options, out);
	if (r)
		query_job_wrong(&a->q, 500, "the profile could not be written: %s", strerror(-r));
}

/* ---- the list ------------------------------------------------------------------------------ */

struct process_row {
	const char *comm, *pid, *host; /* of the profile; NULL: none */
	uint64_t value;
};

static int by_value(const void *a, const void *b)
{
	uint64_t x = ((const struct process_row *)a)->value,
		 y = ((const struct process_row *)b)->value;

	return x < y ? 1 : x > y ? -1 : 0;
}

static void write_param(FILE *out, const char *sep, const char *name, const char *value)
{
	fprintf(out, "%s%s=", sep, name);
	escape_url(out, value);
}

static void write_text(FILE *out, const char *text)
{
	escape_xml(out, text, strlen(text));
}

static void write_link(FILE *out, const struct process_row *p, bool hosts, const char *what,
		       const char *words)
{
	fprintf(out, "<a href=\"%s?seconds=%d", what, SECONDS_DEFAULT);
	/* In an attribute & is written as an entity. */
	if (p->pid)
		write_param(out, "&amp;", "pid", p->pid);
	else
		write_param(out, "&amp;", "comm", p->comm ? p->comm : "");
	if (hosts && p->host)
		write_param(out, "&amp;", "host", p->host);
	fprintf(out, "\">%s</a>", words);
}

static void write_row(FILE *out, const struct process_row *p, bool hosts, bool waits)
{
	const char *comm = p->comm ? p->comm : "";

	fputs("<tr><td>", out);
	write_text(out, comm);
	fprintf(out, "<td class=\"n\">%s", p->pid ? p->pid : "");
	if (hosts) {
		fputs("<td>", out);
		write_text(out, p->host ? p->host : "");
	}
	fprintf(out, "<td class=\"n\">%.2f<td>", (double)p->value / 1e9);
	write_link(out, p, hosts, "profile", p->pid ? "this process" : "all of that name");
	if (waits) {
		fputs("<td>", out);
		write_link(out, p, hosts, "block", "what it waits for");
	}
	fputs("\n", out);
}

/* One entry for each series; those of a process that differ in nothing shown are one already. */
static struct process_row *sum_up(const struct profile *p, uint32_t *ret_count, bool *ret_hosts)
{
	struct process_row *list = mem_alloc_array(p->series_count, sizeof(*list));
	uint32_t count = 0;

	*ret_hosts = false;
	for (uint32_t i = 0; i < p->sample_count; i++)
		list[p->samples[i].series].value += p->samples[i].value;
	for (uint32_t i = 0; i < p->series_count; i++) {
		if (!list[i].value)
			continue;
		struct process_row one = {.comm = profile_label(p, i, "comm"),
					  .pid = profile_label(p, i, "pid"),
					  .host = profile_label(p, i, "host"),
					  .value = list[i].value};
		*ret_hosts |= count && strcmp(one.host ? one.host : "",
					      list[0].host ? list[0].host : "") != 0;
		list[count++] = one;
	}
	qsort(list, count, sizeof(*list), by_value);
	*ret_count = count;
	return list;
}

static void write_list(struct live_request *a, struct store *s, FILE *out)
{
	static const char *const keep[] = {"comm", "pid", "host"};
	struct store_query q = {.type = "cpu",
				.from_ms = a->from_ms,
				.to_ms = a->to_ms,
				.by = keep,
				.by_count = ARRAY_SIZE(keep)};
	CLEANUP(profile_freep) struct profile *p = profile_new();
	uint32_t count;
	bool hosts;

	if (!query_job_went_well(&a->q, store_sum(s, &q, p, &a->answer, &a->q.store_error)))
		return;
	CLEANUP(freep) struct process_row *list = sum_up(p, &count, &hosts);
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
	      "<title>smolder: profiles of any process</title>\n"
	      "<link rel=\"stylesheet\" href=\"/plain.css\">\n"
	      "<h1>Profiles of any process</h1>\n"
	      "<p>Each link answers after 30 seconds with what was sampled in them, for\n"
	      "<code>go tool pprof</code>; <code>seconds</code> is up to 300. Beside\n"
	      "<code>pid</code> there are <code>comm</code>, <code>container</code>,\n"
	      "<code>host</code> and <code>query</code>, a selector. <code>block</code> instead "
	      "of\n"
	      "<code>profile</code> is what threads waited for, without idle ones.\n"
	      "<p>The whole machine: <a href=\"profile?seconds=30\">what it runs</a>,\n"
	      "<a href=\"block?seconds=30\">what it waits for</a>\n",
	      out);
	if (!count)
		fputs("<p>Nothing was recorded in the last five minutes. A collector sends every\n"
		      "ten seconds: look again in a moment.\n",
		      out);
	else
		fprintf(out,
			"<table><caption>CPU time of the last five minutes</caption>\n"
			"<thead><tr><th>process<th class=\"n\">pid%s<th class=\"n\">seconds<th>"
			"profile%s\n<tbody>\n",
			hosts ? "<th>host" : "", a->has_waits ? "<th>waits" : "");
	for (uint32_t i = 0; i < MIN(count, (uint32_t)LIST_MAX); i++)
		write_row(out, &list[i], hosts, a->has_waits);
	if (count)
		fputs("</table>\n", out);
	if (count > LIST_MAX)
		fprintf(out, "<p>and %u more\n", count - LIST_MAX);
}

/* ---- as a job ------------------------------------------------------------------------------ */

static void read_store(struct query_job *q, struct store *s, FILE *out)
{
	struct live_request *a = (struct live_request *)q;

	if (a->is_list)
		write_list(a, s, out);
	else
		write_profile(a, s, out);
}

static void send_answer(struct query_job *q)
{
	struct live_request *a = (struct live_request *)q;
	struct http_answer answer = {.status = 200, .len = q->len};

	answer.body = TAKE_PTR(q->body);
	if (a->is_list) {
		answer.type = "text/html; charset=utf-8";
		answer.headers[0].name = "Content-Security-Policy";
		answer.headers[0].value = PLAIN_CSP;
	} else {
		answer.type = "application/octet-stream";
		query_job_headers(q, &a->answer, "X-Smolder-Missing", a->missing, &answer);
		answer.headers[QUERY_JOB_HEADERS].name = "Content-Disposition";
		answer.headers[QUERY_JOB_HEADERS].value = "attachment; filename=\"profile.pb.gz\"";
	}
	http_answer(q->request, &answer);
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void set_timer(struct live_profiles *p, bool on)
{
	struct timespec every = {.tv_nsec = on ? TICK_MS * 1000000 : 0};

	timerfd_settime(p->timer, 0, &(struct itimerspec){every, every}, NULL);
}

static bool has_gone(const struct live_request *a)
{
	struct pollfd p = {.fd = http_fd(a->q.request), .events = POLLRDHUP};

	return p.fd >= 0 && poll(&p, 1, 0) > 0 && p.revents & (POLLRDHUP | POLLHUP | POLLERR);
}

/* Whether what was taken in the range is here, or is waited for no longer. */
static bool is_here(struct live_request *a, uint64_t now)
{
	const struct server *s = a->q.server;

	if (clock_ms(CLOCK_MONOTONIC) > a->late_ms) /* the wall clock was set back */
		return true;
	if (now < a->to_ms + FLUSH_AFTER_MS)
		return false;
	if (!a->flushed)
		server_flush(a->q.server);
	a->flushed = true;
	struct receiver_reach reach =
		receiver_reach(s->receiver, a->from_ms - MIN(a->from_ms, HEARD_MS), a->to_ms);
	bool local = s->windows_fd >= 0 && (reach.local_behind || !reach.local);
	a->missing = reach.remote_behind;
	a->has_waits = is_sent(s, "offcpu");
	return (!local || now > a->to_ms + LOCAL_MS) && (!reach.remote_behind || now > a->last_ms);
}

/* True: it waits no longer. */
static bool step(struct live_request *a, uint64_t now)
{
	if (has_gone(a)) {
		http_fail(a->q.request, 503, "the client has gone");
		request_free(&a->q);
		return true;
	}
	if (!is_here(a, now))
		return false;
	if (query_job_start(&a->q) == 0)
		return true;
	if (now < MAX(a->to_ms + BUSY_MS, a->last_ms))
		return false; /* its turn comes */
	query_job_refuse(&a->q);
	return true;
}

static void on_tick(void *ctx, int fd)
{
	struct live_profiles *p = ctx;
	uint64_t ignored, now = clock_ms(CLOCK_REALTIME), live_until = 0;

	if (read(fd, &ignored, sizeof(ignored)) < 0)
		return;
	for (struct live_request **at = &p->waiting; *at;) {
		struct live_request *a = *at;
		uint64_t to = a->to_ms;
		struct live_request *next = a->next;
		if (step(a, now)) {
			*at = next;
			p->count--;
		} else {
			live_until = MAX(live_until, to + LIVE_AFTER_MS);
			at = &a->next;
		}
	}
	if (live_until > now && now - p->told_ms >= LIVE_EVERY_MS) {
		p->told_ms = now;
		server_live(p->server, live_until);
	}
	if (!p->waiting)
		set_timer(p, false);
}

struct live_profiles *live_profiles_new(struct server *s)
{
	struct live_profiles *p = mem_alloc(sizeof(*p));

	p->server = s;
	p->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	loop_fd(s->loop, p->timer, on_tick, p);
	return p;
}

void live_profiles_free(struct live_profiles *p)
{
	if (!p)
		return;
	for (struct live_request *a = p->waiting, *next; a; a = next) {
		next = a->next;
		http_fail(a->q.request, 503, "the server is shutting down");
		request_free(&a->q);
	}
	loop_remove_fd(p->server->loop, p->timer);
	close(p->timer);
	free(p);
}

/* ---- routes -------------------------------------------------------------------------------- */

static struct live_request *request_new(struct server *s, struct http_request *r)
{
	struct live_request *a = mem_alloc(sizeof(*a));

	a->q = (struct query_job){.server = s,
				  .request = r,
				  .read = read_store,
				  .answer = send_answer,
				  .free = request_free};
	return a;
}

static void take(struct server *s, struct http_request *r, const char *by_default, bool is_block)
{
	struct live_profiles *p = s->live_profiles;
	struct live_request *a = request_new(s, r);

	a->by_default = by_default;
	a->is_block = is_block;
	if (p->count >= WAITING_MAX)
		query_job_wrong(&a->q, 503, "too many profiles are being taken; try again");
	if (a->q.status || !parse(a) || !is_possible(a)) {
		query_job_refuse(&a->q);
		return;
	}
	http_hold(r);
	a->next = p->waiting;
	p->waiting = a;
	p->count++;
	p->told_ms = a->from_ms;
	server_live(s, a->to_ms + LIVE_AFTER_MS);
	set_timer(p, true);
}

void live_profile_take(void *ctx, struct http_request *r)
{
	take(ctx, r, "cpu", false);
}

/* As in Go, what it waits for; but of threads, and only where that is in its way. */
void live_profile_block(void *ctx, struct http_request *r)
{
	take(ctx, r, "offcpu{state!=\"idle\"}", true);
}

void live_profile_index(void *ctx, struct http_request *r)
{
	struct live_request *a = request_new(ctx, r);

	a->is_list = true;
	a->has_waits = is_sent(a->q.server, "offcpu");
	a->to_ms = clock_ms(CLOCK_REALTIME);
	a->from_ms = a->to_ms - MIN(a->to_ms, LIST_MS);
	if (query_job_start(&a->q) != 0)
		query_job_refuse(&a->q);
	else
		http_hold(r);
}

static void answer_text(struct http_request *r, char *body, size_t len)
{
	http_answer(r, &(struct http_answer){.status = 200,
					     .type = "text/plain; charset=utf-8",
					     .body = body,
					     .len = len});
}

/* Our own: the arguments of others may hold what they keep to themselves. */
void live_profile_cmdline(void *ctx, struct http_request *r)
{
	char *text;
	size_t len;

	(void)ctx;
	if (file_read("/proc/self/cmdline", 64 << 10, &text, &len) != 0) {
		http_fail(r, 500, "the command line cannot be read");
		return;
	}
	answer_text(r, text, len ? len - 1 : 0);
}

/* Profiles name their functions themselves; 0 says that there is nothing to ask for. */
void live_profile_symbol(void *ctx, struct http_request *r)
{
	(void)ctx;
	char *body = mem_strdup("num_symbols: 0\n");
	answer_text(r, body, strlen(body));
}

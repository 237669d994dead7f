#include "cli/halves.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/notify.h"
#include "cli/series_options.h"
#include "cli/service.h"
#include "collect/probe.h"
#include "collect/sampler.h"
#include "pipeline/collecting.h"

#define TICK_MS        5000
#define SILENT_NS      60000000000ull /* a half that says nothing for so long hangs */
#define BACKOFF_NS     250000000ull
#define BACKOFF_MAX_NS 30000000000ull
#define KILLED_MAX_NS  2000000000ull  /* one that was killed did not fail by itself */
#define HEALTHY_NS     60000000000ull /* after so long a half's failures are forgotten */
#define IMPATIENT_NS   500000000ull   /* a second Ctrl-C after so long is meant */

/*
 * What ends a half is the parent's word alone. Ctrl-C and a terminal's end go to all processes of a
 * terminal, systemd's SIGTERM to all of a service: a server that ended at once would not be there
 * for the collector's last windows.
 */
#define END_HALF SIGUSR1

enum { OTHER, COLLECTOR, HALVES };

struct half {
	const char *name;
	pid_t pid;    /* -1: not running */
	int alive_fd; /* a byte comes now and then; -1: not running */
	bool ready;
	uint64_t started_ns, heard_ns, restart_ns;
	uint64_t backoff_ns;
	unsigned restarts;
};

struct halves {
	const struct halves_options *options;
	struct loop *loop;
	struct half halves[HALVES];
	int pair[HALVES];                               /* each half's end */
	struct collecting_source counters[SOURCES_MAX]; /* that were ever asked for */
	unsigned counters_count;
	uint8_t lineage[8]; /* names the counters */
	bool said_ready, stopping, reloading;
	uint64_t stopping_ns; /* since when */
	int terminal_fd;      /* that we were started on; -1: none, or nohup */
	uint64_t reload_ns;   /* when it began: halves that started before are the old ones */
	int code;
};

static int confine(struct collecting_options *o)
{
	return service_confine_collector(&o->missing_capabilities);
}

static int find_counters(const struct halves *r, const struct source_kind *kind)
{
	for (unsigned i = 0; i < r->counters_count; i++)
		if (r->counters[i].kind == kind)
			return r->counters[i].counters_fd;
	return 0;
}

static void close_counters(const struct halves *r)
{
	for (unsigned i = 0; i < r->counters_count; i++)
		close(r->counters[i].counters_fd);
}

/* Counters of what is sampled outlive collectors, so that nothing is lost uncounted. 0 or 1. */
static int make_counters(struct halves *r)
{
	struct collecting_options o = {};
	CLEANUP(freep) char *cache = service_collecting_options(r->options->settings, &o);

	for (unsigned i = 0; i < o.source_count; i++) {
		if (find_counters(r, o.sources[i].kind) ||
		    r->counters_count == ARRAY_SIZE(r->counters))
			continue;
		int fd = sampler_counters_create();
		if (fd < 0) {
			struct sampler_error why = {.doing = "make a BPF map"};
			probe_cannot_sample(fd, &why);
			return 1;
		}
		r->counters[r->counters_count++] =
			(struct collecting_source){o.sources[i].kind, fd};
	}
	return 0;
}

static int be_collector(const struct halves *r, int alive_fd)
{
	struct fd_transport t = {.fd = r->pair[COLLECTOR]};
	struct collecting_options o = {.alive_fd = alive_fd,
				       .lineage = r->lineage,
				       .end_signal = END_HALF,
				       .transport = fd_transport(&t),
				       .confine = confine};
	CLEANUP(freep) char *cache = service_collecting_options(r->options->settings, &o);

	for (unsigned i = 0; i < o.source_count; i++)
		o.sources[i].counters_fd = find_counters(r, o.sources[i].kind);
	close(r->pair[OTHER]);
	prctl(PR_SET_NAME, "smolder-collect");
	struct series_options series;
	series_options_init(&series, r->options->settings);
	o.rules = series.rules;
	o.costs = service_bpf_costs(&o);
	int code = collecting_run(&o);
	bpf_costs_free(o.costs);
	series_options_done(&series);
	return code;
}

static int be_other(const struct halves *r, int alive_fd)
{
	const struct halves_place at = {r->pair[OTHER], alive_fd, END_HALF};

	close(r->pair[COLLECTOR]);
	close_counters(r);
	prctl(PR_SET_NAME, r->options->comm);
	return r->options->be_other(r->options->ctx, &at);
}

void halves_part(const struct halves_place *at)
{
	if (at->end_signal)
		prctl(PR_SET_PDEATHSIG, at->end_signal); /* becoming another user has cleared it */
}

static void on_alive(void *ctx, int fd);
static void on_tick(void *ctx, int what);

static void start_later(struct halves *r, struct half *h, uint64_t ns)
{
	h->restart_ns = clock_ns(CLOCK_MONOTONIC) + ns;
	loop_after(r->loop, ns / 1000000 + 1, on_tick, r);
}

static void spawn(struct halves *r, int which)
{
	struct half *h = &r->halves[which];
	int fds[2];

	h->restart_ns = 0;
	if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0) {
		start_later(r, h, BACKOFF_MAX_NS);
		return;
	}
	fflush(NULL);
	pid_t parent = getpid(), pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, END_HALF);
		if (getppid() != parent)
			_exit(1);
		signal(SIGINT, SIG_IGN);
		signal(SIGTERM, SIG_IGN);
		signal(SIGHUP, SIG_IGN);
		loop_free(r->loop); /* with it, the parent's signals are ours no more */
		close(fds[0]);
		for (int i = 0; i < HALVES; i++)
			fd_closep(&r->halves[i].alive_fd);
		int code = which == OTHER ? be_other(r, fds[1]) : be_collector(r, fds[1]);
		fflush(NULL);
		_exit(code);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		start_later(r, h, BACKOFF_MAX_NS);
		return;
	}
	h->pid = pid;
	h->alive_fd = fds[0];
	h->ready = false;
	h->started_ns = h->heard_ns = clock_ns(CLOCK_MONOTONIC);
	loop_fd(r->loop, h->alive_fd, on_alive, r);
}

static void say_ready(struct halves *r)
{
	if (!r->halves[OTHER].ready || !r->halves[COLLECTOR].ready || r->said_ready)
		return;
	r->said_ready = true;
	notify("READY=1\nSTATUS=sampling every process");
	r->options->ready(r->options->ctx);
}

/* Whether a half is there again after a reload. */
static bool is_new(const struct halves *r, int which)
{
	const struct half *h = &r->halves[which];

	return h->ready && h->started_ns >= r->reload_ns;
}

static void on_alive(void *ctx, int fd)
{
	struct halves *r = ctx;
	char bytes[64];
	ssize_t n = read(fd, bytes, sizeof(bytes));

	for (int i = 0; i < HALVES; i++) {
		struct half *h = &r->halves[i];
		if (h->alive_fd != fd)
			continue;
		if (n > 0) {
			h->heard_ns = clock_ns(CLOCK_MONOTONIC);
			h->ready = true;
		} else if (n == 0) {
			loop_remove_fd(r->loop, fd);
		}
	}
	say_ready(r);
	if (r->reloading && is_new(r, OTHER) && is_new(r, COLLECTOR)) {
		r->reloading = false;
		notify("READY=1");
	}
}

static void describe_end(const struct half *h, int status, char *ret, size_t size)
{
	if (WIFSIGNALED(status))
		snprintf(ret, size, "was killed by signal %d (%s)", WTERMSIG(status),
			 strsignal(WTERMSIG(status)));
	else
		snprintf(ret, size, "ended with %d", WEXITSTATUS(status));
	(void)h;
}

static void stop_next(struct halves *r)
{
	/* The collector first: its last windows go to the server. */
	if (r->halves[COLLECTOR].pid > 0)
		kill(r->halves[COLLECTOR].pid, END_HALF);
	else if (r->halves[OTHER].pid > 0)
		kill(r->halves[OTHER].pid, END_HALF);
	else
		loop_stop(r->loop);
}

static void half_ended(struct halves *r, struct half *h, int status)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
	char how[128];

	h->pid = -1;
	if (h->alive_fd >= 0) {
		loop_remove_fd(r->loop, h->alive_fd);
		close(TAKE_FD(h->alive_fd));
	}
	if (r->stopping) {
		stop_next(r);
		return;
	}
	if (!r->said_ready && !h->ready &&
	    code >= 0) { /* it said why; trying again will not help */
		r->code = 1;
		r->stopping = true;
		stop_next(r);
		return;
	}
	h->restarts++;
	if (code == COLLECTING_RENEW || (r->reloading && h->started_ns < r->reload_ns)) {
		start_later(r, h, 0);
		return;
	}
	if (now - h->started_ns > HEALTHY_NS)
		h->backoff_ns = 0;
	describe_end(h, status, how, sizeof(how));
	start_later(r, h, h->backoff_ns);
	log_warn("the %s %s; starting it again%s", h->name, how,
		 h->backoff_ns ? " in a moment" : "");
	bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
	h->backoff_ns = h->backoff_ns
				? MIN(2 * h->backoff_ns, killed ? KILLED_MAX_NS : BACKOFF_MAX_NS)
				: BACKOFF_NS;
}

static void start_due(struct halves *r)
{
	for (int i = 0; i < HALVES; i++) {
		struct half *h = &r->halves[i];
		if (h->pid < 0 && h->restart_ns && clock_ns(CLOCK_MONOTONIC) >= h->restart_ns &&
		    !r->stopping)
			spawn(r, i);
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (h->pid > 0 && now - h->heard_ns > SILENT_NS) {
			log_warn("the %s does not respond; killing it", h->name);
			kill(h->pid, SIGKILL);
			h->heard_ns = now;
		}
	}
}

static void on_child(void *ctx, int signo)
{
	struct halves *r = ctx;
	int status;
	pid_t pid;

	(void)signo;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (int i = 0; i < HALVES; i++)
			if (r->halves[i].pid == pid)
				half_ended(r, &r->halves[i], status);
	start_due(r);
}

static void on_tick(void *ctx, int what)
{
	(void)what;
	start_due(ctx);
}

static void on_watchdog(void *ctx, int what)
{
	const struct halves *r = ctx;

	(void)what;
	if (r->halves[OTHER].pid > 0 && r->halves[COLLECTOR].pid > 0)
		notify("WATCHDOG=1");
}

static void on_stop(void *ctx, int signo)
{
	struct halves *r = ctx;

	(void)signo;
	if (!r->stopping) {
		notify("STOPPING=1");
		r->stopping = true;
		r->stopping_ns = clock_ns(CLOCK_MONOTONIC);
		stop_next(r);
	} else if (clock_ns(CLOCK_MONOTONIC) - r->stopping_ns > IMPATIENT_NS) {
		/* The second time: at once. */
		for (int i = 0; i < HALVES; i++)
			if (r->halves[i].pid > 0)
				kill(r->halves[i].pid, SIGKILL);
	}
}

/* Both halves begin anew with what the configuration says now; what one has taken, it sends. */
static void on_reload(void *ctx, int signo)
{
	struct halves *r = ctx;

	if (r->stopping)
		return;
	if (r->terminal_fd >= 0 && !isatty(r->terminal_fd)) { /* it was closed */
		on_stop(r, signo);
		return;
	}
	if (!r->options->reload(r->options->ctx) || make_counters(r))
		return;
	notify("RELOADING=1");
	log_info("configuration reloaded");
	r->reloading = true;
	r->reload_ns = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < HALVES; i++)
		if (r->halves[i].pid > 0)
			kill(r->halves[i].pid, END_HALF);
}

static int watch(struct halves *r)
{
	uint64_t watchdog = notify_watchdog_ms();

	for (int fd = STDERR_FILENO; fd >= 0 && r->terminal_fd < 0 && !loop_ignores(SIGHUP); fd--)
		r->terminal_fd = isatty(fd) ? fd : -1;
	r->loop = loop_new();
	int err = loop_signal(r->loop, SIGTERM, on_stop, r);
	err = err ? err : loop_signal(r->loop, SIGINT, on_stop, r);
	err = err ? err : loop_signal(r->loop, SIGHUP, on_reload, r);
	err = err ? err : loop_signal(r->loop, SIGCHLD, on_child, r);
	err = err ? err : loop_timer(r->loop, TICK_MS, on_tick, r);
	if (watchdog)
		err = err ? err : loop_timer(r->loop, watchdog, on_watchdog, r);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

static int start(struct halves *r)
{
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, r->pair) != 0) {
		log_error("cannot create a socket: %s", strerror(errno));
		return 1;
	}
	if (getrandom(r->lineage, sizeof(r->lineage), 0) != sizeof(r->lineage)) {
		log_error("cannot get random numbers: %s", strerror(errno));
		return 1;
	}
	return make_counters(r);
}

int halves_run(const struct halves_options *o)
{
	struct halves r = {
		.options = o,
		.halves = {[OTHER] = {.name = o->other, .pid = -1, .alive_fd = -1},
			   [COLLECTOR] = {.name = "collector", .pid = -1, .alive_fd = -1}},
		.pair = {-1, -1},
		.terminal_fd = -1};

	int code = start(&r);
	code = code ? code : watch(&r);
	if (!code) {
		spawn(&r, OTHER);
		spawn(&r, COLLECTOR);
		loop_run(r.loop);
		code = r.code;
	}
	loop_free(r.loop);
	close_counters(&r);
	fd_closep(&r.pair[0]);
	fd_closep(&r.pair[1]);
	return code;
}

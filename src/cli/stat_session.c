#include "cli/stat_session.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/capability.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "collect/cgroup.h"
#include "collect/probe.h"

struct session {
	const struct stat_session_options *options;
	struct stat_session_result *result;
	struct target target;
	struct loop *loop;
	int cgroup_fd;
	uint32_t *threads;
	size_t thread_count, thread_cap;
	struct counters_options counting;
	struct counters *counters;
	size_t value_count;
	struct counter_value *before, *now, *since;
	uint64_t began_ns, until_ns; /* CLOCK_MONOTONIC; until 0: no end */
	double from;                 /* of the interval */
	int error;
};

bool stat_session_counts_cpus(const struct stat_session_options *o)
{
	const struct target_options *t = &o->target;

	return o->cgroup || t->machine || (!t->pid_count && !t->tid_count && !t->program);
}

bool stat_session_counts_program(const struct stat_session_options *o)
{
	const struct target_options *t = &o->target;

	return t->program && !t->pid_count && !t->tid_count && !stat_session_counts_cpus(o);
}

/* Permissions: which are missing, and how to get them. */
static void say_refused(int err, const struct counters_error *why)
{
	const char *name = why->event->name;
	struct probe_facts f;
	char remedy[1024];

	probe_facts_read(&f);
	if (probe_has_cap(&f, CAP_PERFMON) && f.initial_users) {
		probe_explain_facts(&f, err, remedy, sizeof(remedy));
		log_error("cannot count %s: %s", name, remedy);
		return;
	}
	probe_remedy(&f, remedy, sizeof(remedy));
	if (why->event->attr.type == PERF_TYPE_TRACEPOINT)
		log_error("cannot count %s: tracepoints are only for those with CAP_PERFMON: %s",
			  name, remedy);
	else if (!why->thread)
		log_error("cannot count %s of CPU %u: kernel.perf_event_paranoid=%d allows whole "
			  "CPUs only to those with CAP_PERFMON: %s; or 'sudo sysctl "
			  "kernel.perf_event_paranoid=0' lets everybody",
			  name, why->cpu, f.paranoid, remedy);
	else if (f.paranoid > 2)
		log_error("cannot count %s: kernel.perf_event_paranoid=%d allows that only to "
			  "those with CAP_PERFMON: %s",
			  name, f.paranoid, remedy);
	else if (name[why->event->base] && !why->event->attr.exclude_kernel)
		log_error("cannot count %s: kernel.perf_event_paranoid=%d allows what happens in "
			  "the kernel only to those with CAP_PERFMON: %s",
			  name, f.paranoid, remedy);
	else
		log_error("cannot count %s of the thread %u, which belongs to another user: %s",
			  name, why->thread, remedy);
}

static void say_not_opened(const struct session *s, int err, const struct counters_error *why)
{
	if (!why->event)
		log_error("cannot read the list of CPUs: %s", strerror(-err));
	else if (err == -EACCES || err == -EPERM)
		say_refused(err, why);
	else if (err == -ESRCH)
		log_error("cannot count %s: what was to be counted has just ended",
			  why->event->name);
	else if (err == -EMFILE)
		log_error("cannot count %zu events of so many threads or CPUs: that takes more "
			  "open files than 'ulimit -Hn' allows; count fewer events with -e",
			  s->options->events->count);
	else
		log_error("cannot count %s: %s", why->event->name, strerror(-err));
}

static int find_cgroup(struct session *s)
{
	const char *path = s->options->cgroup;
	int err = path ? cgroup_open(path, &s->cgroup_fd) : 0;

	if (err)
		log_error("cannot count the control group %s: %s", path,
			  err == -ENOENT ? "there is no such group"
			  : err == -ENOTSUP
				  ? "its hierarchy counts no events; name a group of cgroup2, or "
				    "of v1's perf_event"
				  : strerror(-err));
	return err ? 1 : 0;
}

/* The threads to count; none for CPUs. */
static int find_threads(struct session *s)
{
	const struct target_options *t = &s->options->target;

	if (stat_session_counts_program(s->options)) {
		MEM_GROW(s->threads, s->thread_count, s->thread_cap);
		s->threads[s->thread_count++] = s->target.program_id;
	}
	for (unsigned i = 0; i < t->tid_count; i++) {
		MEM_GROW(s->threads, s->thread_count, s->thread_cap);
		s->threads[s->thread_count++] = t->tids[i];
	}
	for (unsigned i = 0; i < t->pid_count; i++) {
		int err =
			counters_threads(t->pids[i], &s->threads, &s->thread_count, &s->thread_cap);
		if (err && err != -ESRCH) {
			log_error("cannot list the threads of process %u: %s", t->pids[i],
				  strerror(-err));
			return 1;
		}
	}
	if (s->thread_count || stat_session_counts_cpus(s->options))
		return 0;
	log_error("there is nothing to count: all of the processes have ended");
	return 1;
}

static int open_counters(struct session *s)
{
	const struct stat_session_options *o = s->options;
	const struct counters_place *places;
	struct counters_error why;

	s->counting = (struct counters_options){
		.events = o->events,
		.threads = s->threads,
		.thread_count = s->thread_count,
		.cgroup_fd = s->cgroup_fd,
		.from_exec = stat_session_counts_program(o),
		.by = o->by,
	};
	int err = counters_new(&s->counting, &s->counters, &why);
	if (err) {
		say_not_opened(s, err, &why);
		return 1;
	}
	s->value_count = o->events->count * counters_places(s->counters, &places);
	s->before = mem_alloc_array(s->value_count + 1, sizeof(*s->before));
	s->now = mem_alloc_array(s->value_count + 1, sizeof(*s->now));
	s->since = mem_alloc_array(s->value_count + 1, sizeof(*s->since));
	return 0;
}

static double seconds(const struct session *s)
{
	return (double)(clock_ns(CLOCK_MONOTONIC) - s->began_ns) / 1e9;
}

/* What was counted since the last time. */
static bool report(struct session *s, double to)
{
	s->error = counters_read(s->counters, s->now);
	if (s->error)
		return false;
	for (size_t i = 0; i < s->value_count; i++) {
		s->since[i] = (struct counter_value){
			s->now[i].value - s->before[i].value,
			s->now[i].enabled - s->before[i].enabled,
			s->now[i].running - s->before[i].running,
			s->now[i].is_supported,
			s->now[i].is_elsewhere,
		};
		s->before[i] = s->now[i];
	}
	double from = s->from;
	s->from = to;
	return s->options->report(s->options->ctx, s->counters, s->since, from, to);
}

static void on_interval(void *ctx, int what)
{
	struct session *s = ctx;
	uint64_t half_ns = s->options->interval_ms * 500000;

	(void)what;
	/* The last interval is reported at the end. */
	if ((s->until_ns && clock_ns(CLOCK_MONOTONIC) + half_ns >= s->until_ns) ||
	    !report(s, seconds(s)))
		loop_stop(s->loop);
}

static void on_progress(void *ctx, int what)
{
	const struct session *s = ctx;

	(void)what;
	cli_progress("counting", s->began_ns, s->until_ns);
}

/* Ctrl-C is for the program as well, and what it does then is counted; the second is for us. */
static void on_signal(void *ctx, int signo)
{
	struct session *s = ctx;
	bool waits = s->target.has_program && signo == SIGINT && !s->result->is_interrupted;

	s->result->is_interrupted = true;
	if (!waits)
		loop_stop(s->loop);
}

static void on_time(void *ctx, int what)
{
	struct session *s = ctx;

	(void)what;
	loop_stop(s->loop);
}

static int watch(struct session *s)
{
	const struct stat_session_options *o = s->options;

	s->loop = loop_new();
	int err = loop_end_signals(s->loop, 0, on_signal, s);
	err = err ? err : target_watch(&s->target, s->loop);
	if (o->interval_ms)
		err = err ? err : loop_timer(s->loop, o->interval_ms, on_interval, s);
	else if (!o->target.program)
		err = err ? err : loop_timer(s->loop, 500, on_progress, s);
	if (o->duration_ms)
		err = err ? err : loop_after(s->loop, o->duration_ms, on_time, s);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

/* CPU seconds of children that have ended. */
static void children_ran(double *ret_user, double *ret_kernel)
{
	struct rusage u = {};

	getrusage(RUSAGE_CHILDREN, &u);
	*ret_user = (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec / 1e6;
	*ret_kernel = (double)u.ru_stime.tv_sec + (double)u.ru_stime.tv_usec / 1e6;
}

static int count(struct session *s)
{
	const struct stat_session_options *o = s->options;
	struct stat_session_result *r = s->result;
	double user, kernel;
	int code;

	children_ran(&user, &kernel);
	s->began_ns = clock_ns(CLOCK_MONOTONIC);
	if (o->duration_ms)
		s->until_ns = s->began_ns + o->duration_ms * 1000000;
	counters_start(s->counters);
	if ((code = target_go(&s->target)))
		return code;
	loop_run(s->loop);
	double to = seconds(s);
	counters_stop(s->counters);
	log_progress_done();
	/* Of the program as long as it was counted: all of it, or nothing is known yet. */
	if (stat_session_counts_program(o) && s->target.program.pid < 0) {
		children_ran(&r->user, &r->kernel);
		r->user -= user;
		r->kernel -= kernel;
	}
	if (!s->error)
		report(s, to);
	if (s->error)
		log_error("cannot read the counters: %s", strerror(-s->error));
	return s->error ? 1 : 0;
}

static int run(struct session *s)
{
	const struct stat_session_options *o = s->options;
	struct wire_filter unused = {};
	int code;

	if ((code = find_cgroup(s)) || (code = target_find(&s->target, &o->target, &unused)) ||
	    (code = target_start(&s->target)) || (code = find_threads(s)) ||
	    (code = open_counters(s)) || (code = watch(s)) || (code = count(s)))
		return code;
	/* Time was up before the program: it goes on, and its exit code is still passed on. */
	loop_free(TAKE_PTR(s->loop));
	if (!s->result->is_interrupted)
		target_wait(&s->target);
	s->result->exit_code = target_exit_code(&s->target);
	return 0;
}

int stat_session_run(const struct stat_session_options *o, struct stat_session_result *ret)
{
	CLEANUP(freep) struct session *s = mem_alloc(sizeof(*s));

	*ret = (struct stat_session_result){.user = -1, .kernel = -1};
	s->options = o;
	s->result = ret;
	s->cgroup_fd = -1;
	int code = run(s);
	loop_free(s->loop);
	counters_free(s->counters);
	target_done(&s->target);
	fd_closep(&s->cgroup_fd);
	free(s->threads);
	free(s->before);
	free(s->now);
	free(s->since);
	return code;
}

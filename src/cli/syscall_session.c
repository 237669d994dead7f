#include "cli/syscall_session.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "collect/cgroup.h"
#include "collect/probe.h"
#include "syscall/errors.h"

#define OWNERS_MS 1000  /* often: owners come and go, and there is room for so many of them */
#define CALLS_MS  60000 /* before a counter of 32 bits is full */

struct session {
	struct syscall_session_options *options;
	struct loop *loop;
	struct syscall_counter *counter;
	struct syscall_totals *totals;
	struct target target;
	uint64_t began_ns, period_ns, until_ns; /* CLOCK_MONOTONIC; until 0: no end */
	int error;
};

bool syscall_session_choose(const struct syscall_calls *calls, const char *list,
			    struct syscall_session_options *o)
{
	uint8_t *kinds = o->counter.kinds, named[SYSCALL_CALLS] = {};
	bool but = list && list[0] == '!';
	CLEANUP(freep) char *copy = mem_strdup(!list ? "" : but ? list + 1 : list);
	char *save = NULL;

	syscall_calls_kinds(calls, kinds, &o->counter.choice);
	for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		if (syscall_calls_want(calls, w, named) == 0)
			continue;
		const char *meant = syscall_calls_nearest(calls, w);
		log_error("%s: no such %s%s%s%s%s", w, w[0] == '%' ? "class" : "system call",
			  meant ? "; did you mean " : "", meant && w[0] == '%' ? "%" : "",
			  meant ? meant : "", meant ? "?" : "");
		return false;
	}
	if (!list || but)
		syscall_calls_want(calls, NULL, kinds);
	for (size_t i = 0; i < SYSCALL_CALLS; i++) {
		if (but && named[i])
			kinds[i] &= (uint8_t)~SYSCALL_WANTED;
		else
			kinds[i] |= named[i];
	}
	return true;
}

bool syscall_session_error(const char *option, const char *word, uint32_t *ret)
{
	int error = syscall_error_number(word);

	if (error < 0) {
		const char *meant = syscall_error_nearest(word);
		log_error("%s: there is no error '%s'%s%s%s", option, word,
			  meant ? "; did you mean " : "", meant ? meant : "", meant ? "?" : "");
		return false;
	}
	*ret = (uint32_t)error;
	return true;
}

void syscall_session_say_untimed(const struct syscall_session_result *r)
{
	if (r->untimed)
		log_warn("%llu calls were counted but not timed: there were more threads than "
			 "there is room for",
			 (unsigned long long)r->untimed);
}

static void take(struct session *s)
{
	const struct syscall_sink sink = {s->totals, syscall_totals_slot, syscall_totals_error};
	int err = syscall_counter_take(s->counter, &sink);

	if (err && !s->error) {
		s->error = err;
		loop_stop(s->loop);
	}
}

static bool report(struct session *s, bool is_last)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	double seconds = (double)(now - s->period_ns) / 1e9;

	s->period_ns = now;
	return s->options->report(s->options->ctx, s->totals, seconds, is_last);
}

static void on_drain(void *ctx, int what)
{
	(void)what;
	take(ctx);
}

static void on_interval(void *ctx, int what)
{
	struct session *s = ctx;
	uint64_t half_ns = s->options->interval_ms * 500000;

	(void)what;
	/* The last interval is reported at the end. */
	if (s->until_ns && clock_ns(CLOCK_MONOTONIC) + half_ns >= s->until_ns) {
		loop_stop(s->loop);
		return;
	}
	take(s);
	if (!report(s, false))
		loop_stop(s->loop);
	syscall_totals_clear(s->totals);
}

static void on_end(void *ctx, int what)
{
	struct session *s = ctx;

	(void)what;
	loop_stop(s->loop);
}

static void on_progress(void *ctx, int what)
{
	const struct session *s = ctx;

	(void)what;
	cli_progress("counting system calls", s->began_ns, s->until_ns);
}

static int watch(struct session *s)
{
	const struct syscall_session_options *o = s->options;
	bool by_owner = o->counter.choice.by != SYSCALL_BY_NOBODY;

	s->loop = loop_new();
	int err = loop_end_signals(s->loop, 0, on_end, s);
	err = err ? err : target_watch(&s->target, s->loop);
	err = err ? err : loop_timer(s->loop, by_owner ? OWNERS_MS : CALLS_MS, on_drain, s);
	if (o->interval_ms)
		err = err ? err : loop_timer(s->loop, o->interval_ms, on_interval, s);
	else
		err = err ? err : loop_timer(s->loop, 500, on_progress, s);
	if (o->duration_ms)
		err = err ? err : loop_after(s->loop, o->duration_ms, on_end, s);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

static void on_open_call(void *ctx, uint64_t id, uint32_t call, uint64_t since_ns)
{
	struct session *s = ctx;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	syscall_totals_open(s->totals, id, call, now > since_ns ? now - since_ns : 0);
}

static int finish(struct session *s, struct syscall_session_result *ret)
{
	const struct syscall_choice *c = &s->options->counter.choice;

	syscall_counter_stop(s->counter);
	ret->seconds = (double)(clock_ns(CLOCK_MONOTONIC) - s->began_ns) / 1e9;
	take(s);
	if (s->error) {
		log_error("cannot read the counts from the kernel: %s", strerror(-s->error));
		return 1;
	}
	if (!c->only_failed && !c->only_error)
		syscall_counter_pending(s->counter, on_open_call, s);
	log_progress_done();
	ret->untimed = syscall_counter_untimed(s->counter);
	report(s, true);
	return 0;
}

static int start_counting(struct session *s)
{
	struct syscall_counter_options *c = &s->options->counter;
	struct sampler_error why;

	c->targets = target_list(&s->target, &c->target_count);
	c->from_exec = s->target.has_program && !s->options->target.machine;
	int err = syscall_counter_new(c, &s->counter, &why);
	if (err)
		probe_cannot_sample(err, &why);
	return err ? 1 : 0;
}

/* Owners are told by the hierarchy that containers are in, unless a filter has named another. */
static void choose_hierarchy(struct wire_filter *f)
{
	struct cgroups *cgroups = f->by_cgroup ? NULL : cgroups_new();

	if (cgroups)
		f->cgroup_subsys = cgroups_subsys(cgroups);
	cgroups_free(cgroups);
}

static int run(struct session *s, struct syscall_session_result *ret)
{
	struct syscall_session_options *o = s->options;
	int code;

	if ((code = target_find(&s->target, &o->target, &o->counter.filter)))
		return code;
	if (o->counter.choice.by == SYSCALL_BY_CGROUP)
		choose_hierarchy(&o->counter.filter);
	if ((code = target_start(&s->target)) || (code = start_counting(s)))
		return code;
	s->began_ns = s->period_ns = clock_ns(CLOCK_MONOTONIC);
	if (o->duration_ms)
		s->until_ns = s->began_ns + o->duration_ms * 1000000;
	if ((code = watch(s)) || (code = target_go(&s->target)))
		return code;
	loop_run(s->loop);
	if ((code = finish(s, ret)))
		return code;
	/* Time was up before the program: it goes on, and its exit code is still passed on. */
	loop_free(TAKE_PTR(s->loop));
	if (o->duration_ms)
		target_wait(&s->target);
	ret->exit_code = target_exit_code(&s->target);
	return 0;
}

int syscall_session_run(struct syscall_session_options *o, struct syscall_session_result *ret)
{
	struct session s = {.options = o};

	*ret = (struct syscall_session_result){};
	s.totals = syscall_totals_new(o->counter.choice.by != SYSCALL_BY_NOBODY, o->by_call);
	int code = run(&s, ret);
	loop_free(s.loop);
	syscall_counter_free(s.counter);
	syscall_totals_free(s.totals);
	target_done(&s.target);
	return code;
}

#include "cli/tracing.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "collect/probe.h"
#include "pipeline/trace_stacks.h"
#include "syscall/trace_records.h"

#define DRAIN_MS  20         /* how long a line may wait */
#define BUSY_MS   50         /* how long a drain may take before signals are looked at */
#define SETTLE_NS 2000000    /* in that time every CPU's record of a moment is in the ring */
#define SAY_NS    1000000000 /* between two words about losses */
#define STACK_NS  3000000000 /* how long a line may wait for its stack */
#define NICE      (-10)      /* what is not drained in time is lost */

struct tracing {
	struct tracing_options *o;
	struct target target;
	struct loop *loop;
	struct tracer *tracer;
	struct trace_lines *lines;
	struct trace_records *records;
	struct trace_stacks *stacks; /* NULL: not asked for */
	uint64_t began_ns, ended_ns, said_ns;
	uint64_t kept_from_ns; /* of a flight recorder: what it shows begins there */
	uint64_t lost;         /* as far as it was said */
	uint64_t unfinished;   /* calls, shown at the end */
	uint64_t malformed;    /* records that did not make sense; always 0 */
	uint64_t met_ns;       /* when the condition held; 0: not yet */
	int error;             /* of writing */
};

static void plan(const struct tracing_options *o, struct trace_plan *plans)
{
	struct decode_options decode = o->lines.decode;

	/* Which calls touch a path is told here; those that never do are not sent at all. */
	decode.descriptors |= o->lines.path != NULL;
	decode.early_paths = o->lines.path != NULL;
	for (uint32_t i = 0; i < SYSCALL_CALLS; i++) {
		bool compat;
		const char *name = syscall_calls_name(o->calls, i, &compat);
		const struct decode_call *call = decode_find(name);
		decode_plan(call, &decode, &plans[i]);
		plans[i].traced =
			o->wanted[i] & SYSCALL_WANTED && (!o->lines.path || decode_has_file(call));
	}
}

static void on_stop(void *ctx, int what)
{
	struct tracing *t = ctx;

	(void)what;
	loop_stop(t->loop);
}

static int start(struct tracing *t)
{
	struct tracing_options *o = t->o;
	CLEANUP(freep) struct trace_plan *plans = mem_alloc_array(SYSCALL_CALLS, sizeof(*plans));
	struct tracer_options options = {
		.choice = o->choice,
		.plans = plans,
		.ring_bytes = o->ring_bytes,
	};
	CLEANUP(freep) char *cache = o->stacks ? cli_cache_dir() : NULL;
	struct sampler_error why;
	int code = target_find(&t->target, &o->target, &options.filter);

	code = code ? code : target_start(&t->target);
	if (code)
		return code;
	/* The program does not inherit that. From here on Ctrl-C shows what there is. */
	t->loop = loop_new();
	int err = loop_end_signals(t->loop, 0, on_stop, t);
	if (err) {
		log_error("cannot wait for signals: %s", strerror(-err));
		return 1;
	}
	plan(o, plans);
	options.filter.follow = options.filter.by_pid;
	options.from_exec = t->target.has_program && options.filter.by_pid;
	options.targets = target_list(&t->target, &options.target_count);
	if (!options.filter.by_pid && !options.filter.by_tid)
		options.target_count = 0;
	if (o->stacks)
		err = trace_stacks_new(cache, &t->stacks, &why);
	if (!err && t->stacks)
		options.stacks = trace_stacks_source(t->stacks);
	err = err ? err : tracer_new(&options, &t->tracer, &why);
	if (err)
		probe_cannot_sample(err, &why);
	return err ? 1 : 0;
}

static void on_record(void *ctx, const struct trace_record *r, size_t bytes)
{
	struct tracing *t = ctx;

	if (!decode_is_sound(r, bytes)) {
		t->malformed++;
		return;
	}
	trace_records_add(t->records, r);
	if (!t->met_ns && trace_condition_holds(&t->o->until, r))
		t->met_ns = r->end;
}

static void write_record(void *ctx, const struct trace_record *r)
{
	struct tracing *t = ctx;
	uint32_t stack = 0;

	if (t->error)
		return;
	if (t->stacks && r->kind == TRACE_CALL) {
		trace_stacks_find(t->stacks, r, &stack);
		trace_lines_write_stack(t->lines, r, trace_stacks_profile(t->stacks), stack);
	} else {
		trace_lines_write(t->lines, r);
	}
}

/* Up to that time; but not one whose stack may still come, nor what follows it. */
static void write_until(struct tracing *t, uint64_t until)
{
	const struct trace_record *r;
	uint32_t stack;

	while (t->stacks && (r = trace_records_first(t->records)) && r->end < until) {
		if (r->kind == TRACE_CALL && r->end + STACK_NS > until &&
		    !trace_stacks_find(t->stacks, r, &stack))
			return;
		trace_records_take(t->records, r->end + 1, write_record, t);
	}
	trace_records_take(t->records, until, write_record, t);
}

static void flush(struct tracing *t)
{
	errno = 0;
	if (!t->error && (fflush(t->o->out) != 0 || ferror(t->o->out))) {
		t->error = errno ? errno : EIO;
		loop_stop(t->loop);
	}
}

static void say_losses(struct tracing *t)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct tracer_counts c;

	if (now - t->said_ns < SAY_NS)
		return;
	tracer_counts(t->tracer, &c);
	if (c.lost == t->lost)
		return;
	trace_lines_lost(t->lines, c.lost - t->lost);
	log_warn("%llu calls were lost here: more are made than can be written",
		 (unsigned long long)(c.lost - t->lost));
	t->lost = c.lost;
	t->said_ns = now;
}

/*
 * What the flight recorder keeps at a moment begins that long before it; that may be before the
 * machine's start. Once the condition holds, what was before that stays: it is what was asked for,
 * however long it takes to stop.
 */
static void forget(struct tracing *t, uint64_t now)
{
	if (t->met_ns)
		now = t->met_ns;
	t->kept_from_ns = now - MIN(t->o->last_ns, now);
	trace_records_forget(t->records, t->kept_from_ns);
	if (t->stacks)
		trace_stacks_forget(t->stacks, t->kept_from_ns);
}

/* Everything that has come up to now, but for what something earlier may still come before. */
static bool drain(struct tracing *t)
{
	uint64_t settled = clock_ns(CLOCK_MONOTONIC) - SETTLE_NS;
	bool more = tracer_drain(t->tracer, BUSY_MS, on_record, t);

	if (t->stacks)
		trace_stacks_drain(t->stacks);
	if (t->o->last_ns)
		forget(t, settled);
	else
		write_until(t, settled);
	flush(t);
	say_losses(t);
	return more;
}

static void on_tick(void *ctx, int what)
{
	struct tracing *t = ctx;

	(void)what;
	drain(t);
	if (t->met_ns)
		loop_stop(t->loop);
}

static int watch(struct tracing *t)
{
	int err = loop_timer(t->loop, DRAIN_MS, on_tick, t);
	if (t->o->duration_ms)
		err = err ? err : loop_after(t->loop, t->o->duration_ms, on_stop, t);
	if (t->stacks)
		err = err ? err : trace_stacks_watch(t->stacks, t->loop);
	err = err ? err : target_watch(&t->target, t->loop);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

static void on_unfinished(void *ctx, const struct trace_record *r, size_t bytes)
{
	struct tracing *t = ctx;

	if (decode_is_sound(r, bytes))
		t->unfinished += trace_lines_unfinished(t->lines, r);
	else
		t->malformed++;
}

/* A flight recorder lets old calls go anyway: told is only what it was to show and cannot. */
static void say_dropped(const struct tracing *t)
{
	uint64_t dropped = trace_records_dropped(t->records);
	uint64_t until = trace_records_dropped_until(t->records);

	if (!t->o->last_ns && dropped)
		log_warn("%llu calls did not fit into %u MB and are not shown",
			 (unsigned long long)dropped, TRACE_RECORDS_BYTES >> 20);
	else if (dropped && until >= t->kept_from_ns)
		log_warn("only the last %.1f s fit into %u MB; earlier calls are not shown",
			 until < t->ended_ns ? (double)(t->ended_ns - until) / 1e9 : 0.0,
			 TRACE_RECORDS_BYTES >> 20);
}

static void say_end(struct tracing *t)
{
	struct tracer_counts c;

	tracer_counts(t->tracer, &c);
	uint64_t written = trace_lines_written(t->lines);
	double seconds = (double)(clock_ns(CLOCK_MONOTONIC) - t->began_ns) / 1e9;
	log_info("%llu call%s in %.1f s, %llu lost", (unsigned long long)written,
		 written == 1 ? "" : "s", seconds, (unsigned long long)c.lost);
	if (written || c.lost || t->unfinished)
		say_dropped(t);
	else if (t->o->last_ns && c.taken)
		log_warn("no call returned in the last %.1f s", (double)t->o->last_ns / 1e9);
	else
		log_warn("no system call was traced: in %.1f s nothing that matches made one",
			 seconds);
	if (t->stacks && trace_stacks_lost(t->stacks))
		log_warn("%llu stacks were lost: more calls are made than can be walked",
			 (unsigned long long)trace_stacks_lost(t->stacks));
	if (c.lost_notes)
		log_warn("%llu signals and ends of threads were lost as well",
			 (unsigned long long)c.lost_notes);
	if (c.no_thread)
		log_warn("%llu calls were not seen: more threads than there is room for",
			 (unsigned long long)c.no_thread);
	if (c.no_entry)
		log_warn("%llu calls are shown with addresses only: more of them were in progress "
			 "than there is room for",
			 (unsigned long long)c.no_entry);
	if (c.nested || t->malformed)
		log_warn("%llu records were dropped (interrupted while writing), %llu were "
			 "malformed",
			 (unsigned long long)c.nested, (unsigned long long)t->malformed);
}

static int finish(struct tracing *t)
{
	t->ended_ns = clock_ns(CLOCK_MONOTONIC);
	tracer_stop(t->tracer);
	/* Nothing comes any more: what is there is at most a ring full. */
	while (!t->error && tracer_drain(t->tracer, BUSY_MS, on_record, t))
		;
	if (t->stacks)
		trace_stacks_finish(t->stacks);
	if (t->o->last_ns)
		forget(t, t->ended_ns);
	trace_records_take(t->records, UINT64_MAX, write_record, t);
	if (!t->error && !t->o->choice.failed && !t->o->choice.min_ns && !t->o->choice.by_errno)
		tracer_pending(t->tracer, on_unfinished, t);
	flush(t);
	if (t->error && t->error != EPIPE) {
		log_error("cannot write the trace: %s", strerror(t->error));
		return 1;
	}
	say_end(t);
	return target_exit_code(&t->target);
}

static int run(struct tracing *t)
{
	int code = start(t);

	if (code)
		return code;
	t->lines = trace_lines_new(&t->o->lines, t->o->calls, t->o->out);
	t->records = trace_records_new();
	t->began_ns = clock_ns(CLOCK_MONOTONIC);
	code = watch(t);
	code = code ? code : target_go(&t->target);
	if (code)
		return code;
	/* Not inherited by the program, which runs already. */
	setpriority(PRIO_PROCESS, 0, NICE);
	loop_run(t->loop);
	return finish(t);
}

int tracing_run(struct tracing_options *o)
{
	struct tracing t = {.o = o};

	/* Other processes' memory passes through here: it must not end in a core dump. */
	prctl(PR_SET_DUMPABLE, 0);
	int code = run(&t);
	target_done(&t.target);
	loop_free(t.loop); /* from here on Ctrl-C ends us at once */
	tracer_free(t.tracer);
	trace_stacks_free(t.stacks);
	trace_lines_free(t.lines);
	trace_records_free(t.records);
	return code;
}

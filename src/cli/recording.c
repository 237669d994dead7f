#include "cli/recording.h"

#include <errno.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/report.h"
#include "bpf/offcpu_wire.h"
#include "collect/probe.h"
#include "pipeline/pipeline.h"
#include "pipeline/trouble.h"
#include "pipeline/wall.h"
#include "query/idle.h"
#include "query/recorded_wall.h"
#include "render/describe.h"

/* Often: a new process is soon known to the BPF side. */
#define DRAIN_MS     100
#define DRAIN_MIN_MS 10          /* switches come in bursts */
#define NICE         (-20)       /* somebody waits, maybe on a machine that is overloaded */
#define MISSED_FEW   5           /* ticks: any host takes that many */
#define MISSED_MAX   0.001       /* of all: more is said */
#define UNSEEN_FEW   10          /* threads that came or went while they were looked for */
#define RING_BYTES   (8u << 20)  /* of a CPU: 80 ms of 200,000 switches a second */
#define HELD_BYTES   (32u << 20) /* stacks that wait for a table: 2 s at 997 Hz */
#define TABLES_MS    2000 /* unwind tables are waited for at the end, where someone waits for us */

struct recording {
	struct recording_options *options;
	struct loop *loop;
	struct pipeline *pipeline;
	struct profile *profile;
	struct offcpu *offcpu;   /* NULL: samples are as they come … */
	struct latency *latency; /* NULL: all time weighs the same */
	struct wall *wall;       /* … also with this, of the sources but the last */
	struct target target;
	uint64_t began_ns, until_ns; /* CLOCK_MONOTONIC; until 0: no end */
	uint64_t wall_ns;
};

static void on_tick(void *ctx, int what)
{
	struct recording *r = ctx;

	(void)what;
	pipeline_drain(r->pipeline);
	if (r->until_ns && clock_ns(CLOCK_MONOTONIC) >= r->until_ns)
		loop_stop(r->loop);
}

static void on_progress(void *ctx, int what)
{
	struct recording *r = ctx;
	struct sampler_stats c;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	char left[32] = "Ctrl-C to stop";

	(void)what;
	if (r->until_ns)
		snprintf(left, sizeof(left), "%.0f s left",
			 r->until_ns > now ? (double)(r->until_ns - now) / 1e9 : 0.0);
	sampler_stats_sum(pipeline_sampler(r->pipeline), &c);
	log_progress("recording: %s, %llu samples, %llu lost", left, (unsigned long long)c.taken,
		     (unsigned long long)c.lost);
}

static void on_signal(void *ctx, int signo)
{
	struct recording *r = ctx;

	(void)signo;
	loop_stop(r->loop);
}

static struct offcpu *new_offcpu(struct recording *r)
{
	struct offcpu_options o = *r->options->offcpu;

	if (r->options->latency) {
		r->latency = latency_new(r->profile, r->options->latency_of, 0);
		o.span = latency_waited;
		o.span_ctx = r->latency;
	}
	return offcpu_new(r->profile, &o);
}

static int start_sampling(struct recording *r)
{
	struct sampler_error why;
	CLEANUP(freep) char *cache = cli_cache_dir();
	struct assembler_options options = {
		.cache_dir = cache,
		.table_bytes = r->options->table_bytes,
		.held_bytes = HELD_BYTES,
		.names = {.inlines = r->options->inlines, .lines = r->options->lines},
	};

	r->options->sampler.nice = NICE;
	r->profile = profile_new();
	if (r->options->offcpu) {
		r->options->sampler.ring_bytes = RING_BYTES;
		r->offcpu = new_offcpu(r);
		options.sink = offcpu_event;
		options.sink_ctx = r->offcpu;
	}
	if (r->options->wall) {
		r->wall = wall_new(r->profile, r->offcpu, r->latency);
		options.sink = wall_event;
		options.sink_ctx = r->wall;
	}
	int err = pipeline_new(r->profile, &r->options->sampler, &options, &r->pipeline, &why);
	if (err)
		probe_cannot_sample(err, &why);
	return err ? 1 : 0;
}

/* Threads that wait already are seen only if they are looked for. */
static void find_waiting(struct recording *r)
{
	unsigned source = r->options->sampler.source_count - 1;
	int err = 0;

	if (r->wall)
		err = wall_find(r->wall, r->pipeline, source);
	else if (r->offcpu)
		err = offcpu_find(r->pipeline, source);
	if (err)
		log_warn("threads that were off the CPU before the recording began are missing "
			 "until they run: %s",
			 strerror(-err));
}

/* Only now, when all threads are known: that a program was made to wait until then does not count.
 */
static void begin(struct recording *r)
{
	r->wall_ns = clock_ns(CLOCK_REALTIME);
	r->began_ns = clock_ns(CLOCK_MONOTONIC);
	if (r->wall)
		wall_begin(r->wall, r->began_ns);
	else if (r->offcpu)
		offcpu_begin(r->offcpu, r->began_ns);
}

static int watch(struct recording *r)
{
	unsigned every = pipeline_pace(r->pipeline, &r->options->sampler,
				       r->offcpu ? DRAIN_MIN_MS : DRAIN_MS);
	int err = 0;

	r->loop = loop_new();
	err = err ? err : loop_end_signals(r->loop, 0, on_signal, r);
	err = err ? err : target_watch(&r->target, r->loop);
	err = err ? err : loop_timer(r->loop, every, on_tick, r);
	if (isatty(STDERR_FILENO))
		err = err ? err : loop_timer(r->loop, 500, on_progress, r);
	if (r->until_ns)
		err = err ? err : loop_after(r->loop, r->options->duration_ms, on_tick, r);
	err = err ? err : pipeline_watch(r->pipeline, r->loop);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err ? 1 : 0;
}

static void describe(struct recording *r, uint64_t end_ns)
{
	const struct sampler_source *s = &r->options->sampler.sources[0];
	struct profile_info *info = &r->profile->info;
	struct sampler_stats c;

	sampler_stats_sum(pipeline_sampler(r->pipeline), &c);
	info->type = s->kind->type;
	info->unit = s->kind->unit;
	info->period = !s->frequency       ? s->period
		       : s->kind->is_clock ? 1000000000 / s->frequency
					   : 0;
	info->start_ns = r->wall_ns;
	info->duration_ns = end_ns - r->began_ns;
	info->lost = c.lost + c.malformed;
}

static void describe_walks(const struct unwinder_stats *u)
{
	static const char *const names[WIRE_WALKS] = {
		[WIRE_WALK_COMPLETE] = "complete",     [WIRE_WALK_CUT] = "cut",
		[WIRE_WALK_NO_MAPPING] = "no mapping", [WIRE_WALK_NO_ROW] = "no row",
		[WIRE_WALK_FAULT] = "read fault",
	};
	char text[256] = "";

	for (int i = WIRE_WALK_COMPLETE; i < WIRE_WALKS; i++) {
		size_t n = strlen(text);
		snprintf(text + n, sizeof(text) - n, "%s%llu %s", n ? ", " : "",
			 (unsigned long long)u->walks[i], names[i]);
	}
	log_debug("user stacks: %s; %llu walked in the kernel, %llu from a copy, %llu by the "
		  "kernel, %llu cut as mappings had changed; %llu tables made, %llu evicted, "
		  "%llu put off, %llu rows in %.1f MB",
		  text, (unsigned long long)u->in_kernel, (unsigned long long)u->from_copy,
		  (unsigned long long)u->by_frame_pointers, (unsigned long long)u->mistrusted,
		  (unsigned long long)u->tables_made, (unsigned long long)u->tables_evicted,
		  (unsigned long long)u->tables_put_off, (unsigned long long)u->tables.rows,
		  (double)u->tables.bytes / 1e6);
}

static void say_lines(const struct debug_lines_stats *l)
{
	if (l->files)
		log_debug("debug info of %llu files: %llu of %llu addresses found (%llu cut), %.1f "
			  "MB now, "
			  "read %llu times; %llu files too large, %llu not readable",
			  (unsigned long long)l->files, (unsigned long long)l->found,
			  (unsigned long long)l->lookups, (unsigned long long)l->cut,
			  (double)l->bytes / 1e6, (unsigned long long)l->opens,
			  (unsigned long long)l->too_large, (unsigned long long)l->refused);
}

static void finish_offcpu(struct recording *r, uint64_t end_ns, const struct sampler_stats *c,
			  struct recording_result *ret)
{
	struct offcpu_stats *s = &ret->offcpu;

	offcpu_finish(r->offcpu, r->pipeline, r->options->sampler.source_count - 1, end_ns);
	offcpu_stats(r->offcpu, s);
	ret->is_offcpu = true;
	ret->lost_ns = c->lost_value + s->lost_ns;
	r->profile->info.lost += s->unfinished + s->stackless + s->capped;
	if (c->no_room)
		log_warn("only %d threads can be followed: %llu waits of other threads are missing",
			 OFFCPU_THREADS_MAX, (unsigned long long)c->no_room);
	if (c->unseen > UNSEEN_FEW + s->periods / 1000)
		log_warn("the kernel skipped %llu thread switches: those waits are attributed to "
			 "the thread's previous stack",
			 (unsigned long long)c->unseen);
	log_debug("%llu periods off the CPU: %llu still open, %llu without a stack; %llu left out, "
		  "%llu without an end, %llu too many at a time; %llu switches were not seen",
		  (unsigned long long)s->periods, (unsigned long long)s->open,
		  (unsigned long long)s->stackless, (unsigned long long)s->left_out,
		  (unsigned long long)s->unfinished, (unsigned long long)s->capped,
		  (unsigned long long)c->unseen);
}

/* What was recorded of all the time becomes one profile. */
static void finish_wall(struct recording *r, struct recording_result *ret)
{
	if (r->latency) {
		latency_sum(r->latency);
		r->profile->info.lost += latency_refused(r->latency);
		if (latency_refused(r->latency))
			log_warn("--latency keeps at most %u intervals: %llu more were dropped; "
				 "record for a shorter time, or fewer processes",
				 LATENCY_MAX, (unsigned long long)latency_refused(r->latency));
	}
	struct profile *all = recorded_wall(r->profile);
	if (r->latency)
		all->info.type = "latency";

	profile_free(r->profile);
	r->profile = all;
	ret->is_wall = true;
}

/* What happens everywhere, to some extent: in one line. */
static void say_ordinary(const struct pipeline_stats *s, const uint64_t counts[static TROUBLES])
{
	static const struct {
		enum trouble kind;
		const char *means; /* goes on from a number */
	} told[] = {
		{TROUBLE_FILES_UNREADABLE, "mapped files could not be read"},
		{TROUBLE_FILES_OTHER, "files were replaced while they were mapped"},
		{TROUBLE_TABLES_FAILED, "files have no usable unwind tables"},
		{TROUBLE_SIDEBAND_LOST, "events of mappings were lost"},
	};
	char line[1024] = "", first[TROUBLE_TEXT];

	for (size_t i = 0; i < ARRAY_SIZE(told); i++) {
		uint64_t count = counts[told[i].kind];
		size_t n = strlen(line);
		if (!count)
			continue;
		trouble_first(told[i].kind, s, first, sizeof(first));
		snprintf(line + n, sizeof(line) - n, "%s%llu %s%s", n ? "; " : "",
			 (unsigned long long)count, told[i].means, first);
	}
	if (counts[TROUBLE_NO_PRIORITY]) {
		char text[TROUBLE_TEXT];
		trouble_sentence(TROUBLE_NO_PRIORITY, counts[TROUBLE_NO_PRIORITY], text);
		log_info("%s", text);
	}
	if (*line)
		log_info("%s", line);
}

/* What had to be done without; some of it is said by finish() in words of its own. */
static void say_troubles(const struct pipeline_stats *s)
{
	uint64_t counts[TROUBLES] = {};
	char text[TROUBLE_TEXT], first[TROUBLE_TEXT];

	trouble_count(s, counts);
	counts[TROUBLE_KERNEL_NAMES] = counts[TROUBLE_CPUS_FAILED] = 0;
	counts[TROUBLE_THREADS_CAPPED] = 0;
	for (int i = 0; i < TROUBLES; i++) {
		const struct trouble_kind *k = &trouble_kinds[i];
		if (!counts[i] || k->ordinary)
			continue;
		trouble_sentence((enum trouble)i, counts[i], text);
		trouble_first((enum trouble)i, s, first, sizeof(first));
		log_warn("%s%s%s%s", text, first, *k->help ? "; " : "", k->help);
	}
	say_ordinary(s, counts);
}

static void finish(struct recording *r, struct recording_result *ret)
{
	struct pipeline_stats stats;
	const struct assembler_stats *a = &stats.assembler;
	const struct sampler_stats *c = &stats.counts;

	sampler_stop(pipeline_sampler(r->pipeline));
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC);
	int err = r->wall ? wall_end(r->wall, r->pipeline, end_ns) : 0;
	describe(r, end_ns);
	pipeline_stop(r->pipeline, TABLES_MS);
	log_progress_done();
	pipeline_stats(r->pipeline, &stats);
	if (r->wall)
		wall_finish(r->wall, r->pipeline);
	if (err)
		log_warn(
			"not all threads can be listed, so what the others ran last is missing: %s",
			err == -ENOBUFS ? "there are too many" : strerror(-err));
	if (r->offcpu)
		finish_offcpu(r, end_ns, c, ret);
	if (r->wall) {
		ret->sampled = wall_sampled(r->wall);
		finish_wall(r, ret);
	}
	ret->seconds = (double)r->profile->info.duration_ns / 1e9;
	ret->lost = r->profile->info.lost;
	if (stats.ticks_missed > MISSED_FEW)
		ret->missed = (double)stats.ticks_missed / (double)stats.ticks_due;
	ret->exit_code = target_exit_code(&r->target);
	ret->profile = TAKE_PTR(r->profile);

	if (a->names.kernel_error)
		log_warn("kernel functions have no names: %s",
			 a->names.kernel_error == -EPERM
				 ? "the kernel hides their addresses; run with CAP_SYSLOG, or "
				   "'sudo sysctl kernel.kptr_restrict=0'"
				 : strerror(-a->names.kernel_error));
	if (c->failed_cpus)
		log_warn("%llu CPUs came online during the recording and could not be sampled",
			 (unsigned long long)c->failed_cpus);
	say_troubles(&stats);
	log_debug("BPF programs ran for %.1f ms (%.2f us a sample), symbol tables hold %.1f MB, "
		  "/proc/PID/maps was read %llu times, %llu side-band records lost",
		  (double)c->run_ns / 1e6,
		  c->taken ? (double)c->run_ns / 1e3 / (double)c->taken : 0.0,
		  (double)a->names.symbol_bytes / 1e6, (unsigned long long)a->maps_read,
		  (unsigned long long)stats.sideband_lost);
	log_debug("kernel stacks: %llu walked, %llu by the kernel itself; %llu compared, %llu "
		  "different",
		  (unsigned long long)c->kernel_walked, (unsigned long long)c->kernel_asked,
		  (unsigned long long)c->kernel_compared, (unsigned long long)c->kernel_different);
	log_debug("%llu of %llu ticks did not come; %llu samples and %llu side-band records came "
		  "late, "
		  "%llu of the former after their process had changed",
		  (unsigned long long)stats.ticks_missed, (unsigned long long)stats.ticks_due,
		  (unsigned long long)stats.stream.late_events,
		  (unsigned long long)stats.stream.late_records, (unsigned long long)a->late);
	say_lines(&a->names.lines);
	describe_walks(&a->unwind);
	if (c->not_copied)
		log_debug("%llu stacks were walked by frame pointers, for want of room in the ring",
			  (unsigned long long)c->not_copied);
}

static int run(struct recording *r, struct recording_result *ret)
{
	struct recording_options *o = r->options;
	int code;

	if ((code = target_find(&r->target, &o->target, &o->sampler.filter)))
		return code;
	target_name(&o->target, ret->name, sizeof(ret->name));
	if ((code = target_start(&r->target)))
		return code;
	o->sampler.targets = target_list(&r->target, &o->sampler.target_count);
	if ((code = start_sampling(r)))
		return code;
	find_waiting(r);
	begin(r);
	if (o->duration_ms)
		r->until_ns = clock_ns(CLOCK_MONOTONIC) + o->duration_ms * 1000000;
	if ((code = watch(r)) || (code = target_go(&r->target)))
		return code;
	loop_run(r->loop);
	finish(r, ret);

	/* Time was up before the program: it goes on, and its exit code is still passed on. */
	if (o->duration_ms) {
		loop_free(TAKE_PTR(r->loop));
		target_wait(&r->target);
		ret->exit_code = target_exit_code(&r->target);
	}
	return 0;
}

int recording_run(struct recording_options *o, struct recording_result *ret)
{
	struct recording r = {.options = o};

	*ret = (struct recording_result){};
	/* Pieces of other processes' stacks pass through here: they must not end in a core dump. */
	prctl(PR_SET_DUMPABLE, 0);
	int code = run(&r, ret);
	loop_free(r.loop); /* from here on Ctrl-C ends us at once */
	pipeline_free(r.pipeline);
	wall_free(r.wall);
	latency_free(r.latency);
	offcpu_free(r.offcpu);
	profile_free(r.profile);
	target_done(&r.target);
	return code;
}

/* ", 316 s of 416 s idle" */
static const char *describe_idle(const struct profile *p, char ret[static DESCRIBE_MAX])
{
	char idle[DESCRIBE_MAX], whole[DESCRIBE_MAX];
	uint64_t idle_ns = idle_time(p), all = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		all += p->samples[i].value;
	ret[0] = '\0';
	if (idle_ns)
		snprintf(ret, DESCRIBE_MAX, ", %.100s of %.100s idle",
			 describe_amount(idle_ns, "nanoseconds", idle),
			 describe_amount(all, "nanoseconds", whole));
	return ret;
}

/* " (1.2 s)": how long those were that are lost. */
static const char *describe_lost(const struct recording_result *r, char ret[static DESCRIBE_MAX])
{
	char amount[DESCRIBE_MAX];

	ret[0] = '\0';
	if (r->lost_ns)
		snprintf(ret, DESCRIBE_MAX, " (%.100s)",
			 describe_amount(r->lost_ns, "nanoseconds", amount));
	return ret;
}

void recording_report(const struct recording_result *r, const char *path)
{
	uint64_t samples = 0;
	const struct profile *p = r->profile;

	for (uint32_t i = 0; i < p->sample_count; i++)
		samples += p->samples[i].count;
	struct quality q;
	char shares[DESCRIBE_MAX], lost[DESCRIBE_MAX], idle[DESCRIBE_MAX];
	quality_of(p, &q);
	describe_quality(&q, shares);
	if (r->is_wall)
		log_info(
			"%llu samples, %llu waits (%llu unfinished) in %.1f s, %llu lost%s%s%s%s%s",
			(unsigned long long)r->sampled, (unsigned long long)r->offcpu.periods,
			(unsigned long long)r->offcpu.open, r->seconds, (unsigned long long)r->lost,
			describe_lost(r, lost), describe_idle(p, idle), shares, path ? ": " : "",
			path ? path : "");
	else if (r->is_offcpu)
		log_info("%llu waits (%llu unfinished) in %.1f s, %llu lost%s%s%s%s",
			 (unsigned long long)r->offcpu.periods, (unsigned long long)r->offcpu.open,
			 r->seconds, (unsigned long long)r->lost, describe_lost(r, lost), shares,
			 path ? ": " : "", path ? path : "");
	else
		log_info("%llu samples in %.1f s, %llu lost%s%s%s", (unsigned long long)samples,
			 r->seconds, (unsigned long long)r->lost, shares, path ? ": " : "",
			 path ? path : "");
	if (r->missed > MISSED_MAX)
		log_warn("%.1f %% of the timer's ticks were missed: other BPF programs were "
			 "running, or the hypervisor had taken the CPUs",
			 100 * r->missed);
	if (samples == 0 && r->is_wall)
		log_warn("nothing was recorded: there was no thread that was asked for");
	else if (samples == 0 && r->is_offcpu)
		log_warn("nothing was recorded: no thread that was asked for left its CPU");
	else if (samples == 0)
		log_warn("nothing was sampled: the target was not running on a CPU, or had ended");
	if (p->info.truncated)
		log_warn("%llu stacks were deeper than %d user frames or %d kernel frames: "
			 "[truncated] marks where frames were left out",
			 (unsigned long long)p->info.truncated, WIRE_USER_FRAMES, WIRE_FRAMES);
	report_missing_names(&q, false);
}

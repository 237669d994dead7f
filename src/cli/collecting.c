#include "cli/collecting.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "base/privilege.h"
#include "cli/cli.h"
#include "collect/cgroup.h"
#include "pipeline/pipeline.h"
#include "pipeline/sender.h"
#include "pipeline/trouble.h"
#include "pipeline/windows.h"

#define ALIVE_MS       5000
#define REPLY_NS       5000000000ull /* then a message is sent again */
#define LATER_NS       1000000000ull
#define LATER_MAX_NS   (30 * LATER_NS)
#define STOP_NS        5000000000ull /* for the last windows to arrive */
#define STOP_NOBODY_NS 1000000000ull /* … at a server elsewhere that never answered */
#define TABLES_MS      200           /* for unwind tables at the end: Ctrl-C should not take long */
#define LIVE_WINDOW_MS 1000
#define METRICS_MAX    192
#define NICE           (-5)  /* what others run here matters more than when we are done */
#define DRAIN_MS       250   /* seldom: each drain has a price of its own */
#define TIMED_TICKS    7     /* as DRAINS_TIMED in pipeline.c */
#define TIMER_NS       13000 /* what an interrupt of the timer costs, as measured; an estimate */

/* The caps of what grows with all that was ever seen; then the collector begins anew. */
#define DICTIONARY_BYTES (12u << 20) /* the server has as much again */
#define FILES_MAX        16384
#define PLACES_MAX       (400 * 1000)

struct collecting {
	const struct collecting_options *options;
	struct loop *loop;
	struct profile *dict;
	struct pipeline *pipeline;
	struct cgroups *cgroups;
	struct windows *windows;
	struct sender *sender;
	struct sampler_counts first; /* the kernel's counters when we began */
	uint64_t began_ns;
	uint64_t sent_ns; /* the message on its way; 0: none */
	uint64_t pause_until_ns, pause_ns;
	uint64_t live_until_ms;
	uint64_t stop_ns; /* 0: not stopping */
	bool stopping, renew;
	bool heard; /* the server answered, once at least */
	struct window_metric metrics[METRICS_MAX];
	uint32_t metric_count;
	struct arena names;
	uint64_t metrics_ns;
	uint64_t ticks;
	uint64_t cpu_ns[3]; /* by stage: draining, windows, sending */
	size_t refused;     /* system calls of which it was said that they were refused */
	bool said[TROUBLES];
};

static bool wants_lines(void *ctx, const char *comm)
{
	const struct collecting_options *o = ctx;

	for (const char *const *l = o->lines; *l; l++)
		if (strncmp(*l, comm, WIRE_COMM - 1) == 0)
			return true;
	return false;
}

static void on_assembled(void *ctx, const struct assembled *a)
{
	struct collecting *c = ctx;

	windows_add(c->windows, pipeline_processes(c->pipeline), a);
}

static void metric(struct collecting *c, const char *name, double value)
{
	if (c->metric_count < METRICS_MAX)
		c->metrics[c->metric_count++] = (struct window_metric){name, value};
}

static void metric_label(struct collecting *c, const char *name, const char *key, const char *label,
			 double value)
{
	size_t len = strlen(name) + strlen(key) + strlen(label) + 6;
	char *full = arena_alloc(&c->names, len);

	snprintf(full, len, "%s{%s=\"%s\"}", name, key, label);
	metric(c, full, value);
}

static double cpu_seconds(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	       (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec) / 1e6;
}

static double resident_bytes(void)
{
	CLEANUP(freep) char *text = NULL;
	unsigned long long size, resident;

	if (file_read("/proc/self/statm", 4096, &text, NULL) != 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return (double)resident * (double)sysconf(_SC_PAGESIZE);
}

static void measure_walks(struct collecting *c, const struct unwinder_stats *u)
{
	static const char *const names[WIRE_WALKS] = {
		[WIRE_WALK_COMPLETE] = "complete",     [WIRE_WALK_CUT] = "cut",
		[WIRE_WALK_NO_MAPPING] = "no_mapping", [WIRE_WALK_NO_ROW] = "no_row",
		[WIRE_WALK_FAULT] = "fault",
	};

	for (int i = WIRE_WALK_COMPLETE; i < WIRE_WALKS; i++)
		metric_label(c, "collector_unwind_results_total", "result", names[i],
			     (double)u->walks[i]);
	metric_label(c, "collector_unwind_walks_total", "by", "kernel", (double)u->in_kernel);
	metric_label(c, "collector_unwind_walks_total", "by", "copy", (double)u->from_copy);
	metric_label(c, "collector_unwind_walks_total", "by", "frame_pointers",
		     (double)u->by_frame_pointers);
	metric(c, "collector_unwind_tables_bytes", (double)u->tables.bytes);
	metric(c, "collector_unwind_tables_made_total", (double)u->tables_made);
	metric(c, "collector_unwind_tables_evicted_total", (double)u->tables_evicted);
}

/* The ladder: what each stage took. BPF time is the kernel's, the rest is in our CPU time. */
static void measure_stages(struct collecting *c, const struct pipeline_stats *s)
{
	const uint64_t *ns = s->assembler.stage_ns;
	uint64_t known =
		ns[STAGE_PROCESS] + ns[STAGE_UNWIND] + ns[STAGE_SYMBOL] + ns[STAGE_AGGREGATE];
	uint64_t run = s->counts.run_ns - c->first.run_ns,
		 walk = s->counts.walk_ns - c->first.walk_ns;
	const struct {
		const char *name;
		uint64_t ns;
	} stages[] = {
		{"sampling", run - MIN(run, walk)},
		{"walking", walk},
		{"transfer", c->cpu_ns[0] - MIN(c->cpu_ns[0], known)},
		{"processes", ns[STAGE_PROCESS]},
		{"unwinding", ns[STAGE_UNWIND]},
		{"symbols", ns[STAGE_SYMBOL]},
		{"aggregation", ns[STAGE_AGGREGATE] + c->cpu_ns[1]},
		{"sending", c->cpu_ns[2]},
	};

	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		metric_label(c, "stage_seconds_total", "stage", stages[i].name,
			     (double)stages[i].ns / 1e9);
}

/* System calls that our own filter would not let us make. None, or something is not shown. */
static uint64_t measure_refused(struct collecting *c)
{
	struct privilege_refused calls[PRIVILEGE_REFUSED_MAX];
	size_t count = privilege_refused(calls);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		CLEANUP(freep) char *name = privilege_call_name(calls[i].call);
		sum += calls[i].count;
		metric_label(c, "collector_refused_calls_total", "call", name,
			     (double)calls[i].count);
		if (i >= c->refused)
			log_error("the collector may not make the system call %s, which it tried: "
				  "its filter lacks it, and what it wanted that for (a name, a "
				  "file) is missing from profiles; please report this",
				  name);
	}
	c->refused = count;
	return sum;
}

/* Each kind of trouble is said once, and counted always. */
static void measure_troubles(struct collecting *c, const struct pipeline_stats *s)
{
	uint64_t counts[TROUBLES] = {
		[TROUBLE_REFUSED_CALLS] = measure_refused(c),
		[TROUBLE_CAPABILITIES] = c->options->missing_capabilities,
		[TROUBLE_NO_CONTROL_GROUPS] = !c->cgroups,
	};

	trouble_count(s, counts);
	for (int i = 0; i < TROUBLES; i++) {
		const struct trouble_kind *k = &trouble_kinds[i];
		metric_label(c, "collector_trouble_total", "what", k->name, (double)counts[i]);
		if (!counts[i] || c->said[i] || i == TROUBLE_REFUSED_CALLS)
			continue;
		c->said[i] = true;
		char text[64];
		trouble_number((enum trouble)i, counts[i], text, sizeof(text));
		if (k->ordinary)
			log_debug("%s %s", text, k->means);
		else
			log_warn("%s %s%s%s", text, k->means, *k->help ? "; " : "", k->help);
	}
}

/* What the server's /metrics shows of us. */
static void measure(struct collecting *c)
{
	struct pipeline_stats s;
	struct windows_stats w;
	struct sender_stats out;
	struct rusage self;

	arena_done(&c->names);
	c->metric_count = 0;
	pipeline_stats(c->pipeline, &s);
	windows_stats(c->windows, &w);
	sender_stats(c->sender, &out);
	getrusage(RUSAGE_SELF, &self);

	double uptime = (double)(clock_ns(CLOCK_MONOTONIC) - c->began_ns) / 1e9;

	/* What the server adds up into smolder's own cost. */
	metric(c, "uptime_seconds", uptime);
	metric_label(c, "cpu_seconds_total", "process", "collector", cpu_seconds(&self));
	metric_label(c, "resident_bytes", "process", "collector", resident_bytes());
	metric_label(c, "bpf_seconds_total", "program", "sample",
		     (double)(s.counts.run_ns - c->first.run_ns) / 1e9);
	metric(c, "timer_seconds_total",
	       uptime * (double)c->options->frequency * s.counts.cpus * TIMER_NS / 1e9);
	measure_stages(c, &s);
	measure_troubles(c, &s);

	metric(c, "collector_stacks_not_copied_total", (double)s.counts.not_copied);
	metric(c, "collector_sampling_hertz", (double)c->options->frequency);
	metric(c, "collector_cpus", s.counts.cpus);
	measure_walks(c, &s.assembler.unwind);
	metric(c, "collector_processes", (double)s.assembler.processes);
	metric(c, "collector_files", (double)s.assembler.files);
	metric(c, "collector_maps_read_total", (double)s.assembler.maps_read);
	metric(c, "collector_sideband_lost_total", (double)s.sideband_lost);
	metric(c, "collector_ticks_due_total", (double)s.ticks_due);
	metric(c, "collector_ticks_missed_total", (double)s.ticks_missed);
	metric(c, "collector_late_samples_total", (double)s.stream.late_samples);
	metric(c, "collector_late_events_total", (double)s.stream.late_events);
	metric(c, "collector_symbol_bytes", (double)s.assembler.names.symbol_bytes);
	metric(c, "collector_symbol_places", (double)s.assembler.names.places);
	metric(c, "collector_dictionary_bytes", (double)profile_bytes(c->dict));
	metric(c, "collector_frames_total", (double)s.assembler.names.count.frames);
	metric(c, "collector_frames_unnamed_total", (double)s.assembler.names.count.unnamed);
	metric(c, "collector_other_samples_total", (double)w.other);
	metric(c, "collector_folded_threads_samples_total", (double)w.folded);
	metric(c, "collector_clock_steps_total", (double)w.steps);
	metric(c, "collector_windows_waiting", (double)out.waiting);
	metric(c, "collector_windows_dropped_total", (double)out.dropped_windows);
	metric(c, "collector_messages_total", (double)out.messages);
	metric(c, "collector_message_bytes_total", (double)out.bytes);
	metric(c, "collector_messages_repeated_total", (double)out.repeats);
	metric(c, "collector_dictionary_resets_total", (double)out.resets);
	sender_metrics(c->sender, c->metrics, c->metric_count);

	c->renew = profile_bytes(c->dict) > DICTIONARY_BYTES || s.assembler.files > FILES_MAX ||
		   s.assembler.names.places > PLACES_MAX || s.counts.beyond_cpus;
}

static struct window_counts counts_now(const struct collecting *c)
{
	struct sampler_counts now;
	struct window_counts ret = {.base = c->first.taken};

	sampler_counts(pipeline_sampler(c->pipeline), &now);
	ret.taken = now.taken;
	ret.lost[WINDOW_LOST_RING] = now.lost - c->first.lost;
	ret.lost[WINDOW_LOST_MALFORMED] = now.malformed;
	return ret;
}

/* Sends what waits, one message at a time. */
static void pump(struct collecting *c)
{
	const struct transport *t = &c->options->transport;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);

	if (c->sent_ns && now > c->sent_ns + REPLY_NS) {
		c->sent_ns = 0;
		sender_again(c->sender);
	}
	struct sender_stats s;
	sender_stats(c->sender, &s);
	if (c->sent_ns || !s.waiting || now < c->pause_until_ns)
		return;
	struct window_counts counts = counts_now(c);
	const struct pack *m = sender_message(c->sender, &counts);
	if (!m)
		return;
	if (t->send(t->ctx, m->bytes, m->len) == 0) {
		c->sent_ns = now;
	} else {
		sender_again(c->sender);
		c->pause_until_ns = now + LATER_NS;
	}
}

static void take_windows(struct collecting *c, bool flush)
{
	struct window w;

	while (windows_take(c->windows, pipeline_processes(c->pipeline), flush, &w)) {
		measure(c);
		sender_push(c->sender, &w);
	}
}

static void end_if_sent(struct collecting *c)
{
	struct sender_stats s;

	sender_stats(c->sender, &s);
	if (s.waiting == 0 || clock_ns(CLOCK_MONOTONIC) > c->stop_ns)
		loop_stop(c->loop);
}

static void drain(struct collecting *c)
{
	windows_clock(c->windows, clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME),
		      clock_ns(CLOCK_REALTIME));
	pipeline_drain(c->pipeline);
}

static void control(struct collecting *c, const struct window_reply *r)
{
	c->live_until_ms = r->live_until_ms;
	bool live = r->live_until_ms > clock_ms(CLOCK_REALTIME);
	windows_set_length(c->windows, live ? LIVE_WINDOW_MS : WINDOW_MS);
	if (r->flush && !c->stopping) {
		drain(c); /* up to this moment: someone waits for it */
		take_windows(c, true);
	}
}

void collecting_reply(struct collecting *c, const void *bytes, size_t len)
{
	struct window_reply r;

	if (window_reply_read(bytes, len, &r) == 0 && r.sequence == 0) {
		control(c, &r);
		pump(c);
		return;
	}
	if (sender_reply(c->sender, bytes, len, &r) != 0)
		return;
	c->sent_ns = 0;
	if (r.status == WINDOW_LATER) {
		c->pause_ns = c->pause_ns ? MIN(2 * c->pause_ns, LATER_MAX_NS) : LATER_NS;
		c->pause_until_ns = clock_ns(CLOCK_MONOTONIC) + c->pause_ns;
		log_warn("the server cannot store a window now: %s; it is kept and sent again",
			 r.words);
	} else {
		c->pause_ns = 0;
	}
	if (r.status == WINDOW_REFUSED)
		log_warn("the server refused a window: %s", r.words);
	c->heard = true;
	control(c, &r);
	pump(c);
	if (c->stopping)
		end_if_sent(c);
}

void collecting_lost_server(struct collecting *c)
{
	if (!c->sent_ns)
		return;
	c->sent_ns = 0;
	sender_again(c->sender);
	c->pause_until_ns = clock_ns(CLOCK_MONOTONIC) + LATER_NS;
}

/* Asking for CPU time is a system call, so only every TIMED_TICKS-th tick is timed. */
static uint64_t timed(const struct collecting *c)
{
	return c->ticks % TIMED_TICKS == 0 ? clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

static void spend(struct collecting *c, int stage, uint64_t *since)
{
	uint64_t now = timed(c);

	c->cpu_ns[stage] += TIMED_TICKS * (now - *since);
	*since = now;
}

static void stop(struct collecting *c)
{
	if (c->stopping)
		return;
	c->stopping = true;
	c->stop_ns = clock_ns(CLOCK_MONOTONIC) +
		     (c->heard || c->options->alive_fd >= 0 ? STOP_NS : STOP_NOBODY_NS);
	windows_clock(c->windows, clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_BOOTTIME),
		      clock_ns(CLOCK_REALTIME));
	pipeline_stop(c->pipeline, TABLES_MS);
	take_windows(c, true);
	pump(c);
	end_if_sent(c);
}

static void on_tick(void *ctx, int what)
{
	struct collecting *c = ctx;
	uint64_t since = timed(c);

	(void)what;
	if (c->stopping) {
		pump(c);
		end_if_sent(c);
		return;
	}
	if (c->live_until_ms && c->live_until_ms < clock_ms(CLOCK_REALTIME)) {
		c->live_until_ms = 0;
		windows_set_length(c->windows, WINDOW_MS);
	}
	drain(c);
	spend(c, 0, &since);
	take_windows(c, false);
	spend(c, 1, &since);
	pump(c);
	spend(c, 2, &since);
	c->ticks++;
	if (c->renew)
		stop(c);
}

static void on_alive(void *ctx, int what)
{
	struct collecting *c = ctx;

	(void)what;
	if (write(c->options->alive_fd, "", 1) < 0 && errno == EPIPE)
		stop(c); /* whoever started us is gone */
}

static void on_stop(void *ctx, int signo)
{
	(void)signo;
	stop(ctx);
}

static int start(struct collecting *c)
{
	const struct collecting_options *o = c->options;
	static const char *const none[] = {NULL};
	struct sampler_options sampler = {
		.frequency = o->frequency, .cpu = -1, .nice = NICE, .counters_fd = o->counters_fd};
	bool lines = o->lines && o->lines[0];
	struct collecting_options *own = (struct collecting_options *)o;
	struct assembler_options assemble = {
		.sink = on_assembled,
		.sink_ctx = c,
		.detail = wants_lines,
		.detail_ctx = own,
		.table_bytes = o->table_bytes,
		.cache_dir = o->cache_dir,
		.names = {.functions = true, .inlines = lines, .lines = lines},
	};
	struct sampler_error why;
	uint8_t instance[16];
	char host[65] = "";

	if (!own->lines)
		own->lines = none;
	sampler_event("cpu-clock", &sampler.event);
	c->cgroups = cgroups_new();
	assemble.cgroups = c->cgroups;
	sampler.filter.cgroup_subsys = c->cgroups ? cgroups_subsys(c->cgroups) : -1;
	sampler.filter.cgroups = c->cgroups != NULL;
	gethostname(host, sizeof(host) - 1);
	if (getrandom(instance, sizeof(instance), 0) != sizeof(instance))
		return -errno;
	if (o->lineage) /* so the store knows whose counters we go on with */
		memcpy(instance, o->lineage, 8);

	c->began_ns = clock_ns(CLOCK_MONOTONIC);
	c->dict = profile_new();
	struct windows_options windows = {.host = o->host ? o->host : host,
					  .cgroups = c->cgroups,
					  .threads = o->threads,
					  .period = 1000000000 / o->frequency};
	c->windows = windows_new(c->dict, &windows);
	c->sender = sender_new(c->dict, instance, 0);
	if (o->counters_fd > 0)
		sampler_counters_read(o->counters_fd, &c->first);
	int err = pipeline_new(c->dict, &sampler, &assemble, &c->pipeline, &why);
	if (err) {
		cli_cannot_sample(err, &why, "cpu-clock");
		return err;
	}
	return 0;
}

static int watch(struct collecting *c)
{
	const struct collecting_options *o = c->options;
	struct sampler_options pace = {.frequency = o->frequency};

	c->loop = loop_new();
	int err = cli_end_signals(c->loop, o->end_signal, on_stop, c);
	err = err ? err : loop_timer(c->loop, pipeline_pace(&pace, DRAIN_MS), on_tick, c);
	if (o->alive_fd >= 0)
		err = err ? err : loop_timer(c->loop, ALIVE_MS, on_alive, c);
	err = err ? err : pipeline_watch(c->pipeline, c->loop);
	err = err ? err : o->transport.watch(o->transport.ctx, c->loop, c);
	if (err)
		log_error("cannot wait for events: %s", strerror(-err));
	return err;
}

int collecting_run(const struct collecting_options *options)
{
	struct collecting_options o = *options;
	struct collecting c = {.options = &o};
	int err;

	/* Pieces of other processes' stacks pass through here: they must not end in a core dump. */
	prctl(PR_SET_DUMPABLE, 0);
	/* What is freed is joined with its neighbours at once, not all of it whenever 1 KB is
	 * wanted. */
	mallopt(M_MXFAST, 0);
	err = start(&c);
	err = err ? err : watch(&c);
	if (!err && o.confine)
		err = o.confine(&o);
	if (!err) {
		if (o.alive_fd >= 0)
			on_alive(&c, 0);
		loop_run(c.loop);
	}
	arena_done(&c.names);
	c.metric_count = 0;
	measure_refused(&c); /* says what was refused since the last window */
	if (!err && o.alive_fd >= 0 && !c.renew)
		return 0; /* our parent waits for our end, and a table may be in the making */
	loop_free(c.loop);
	sender_free(c.sender);
	windows_free(c.windows);
	pipeline_free(c.pipeline);
	cgroups_free(c.cgroups);
	profile_free(c.dict);
	arena_done(&c.names);
	return err ? 1 : c.renew ? COLLECTING_RENEW : 0;
}

static int fd_send(void *ctx, const void *bytes, size_t len)
{
	struct fd_transport *t = ctx;

	return send(t->fd, bytes, len, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len ? 0 : -errno;
}

static void on_packet(void *ctx, int fd)
{
	struct fd_transport *t = ctx;
	uint8_t bytes[1024];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0)
		collecting_reply(t->collecting, bytes, (size_t)n);
	else if (n == 0)
		loop_forget_fd(t->loop, fd);
}

static int fd_watch(void *ctx, struct loop *l, struct collecting *c)
{
	struct fd_transport *t = ctx;

	t->collecting = c;
	t->loop = l;
	return loop_fd(l, t->fd, on_packet, t);
}

struct transport fd_transport(struct fd_transport *t)
{
	return (struct transport){fd_send, fd_watch, t};
}

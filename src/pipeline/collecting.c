#include "pipeline/collecting.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/mem.h"
#include "collect/bpf_object.h"
#include "collect/cgroup.h"
#include "collect/probe.h"
#include "pipeline/findings.h"
#include "pipeline/measure.h"
#include "pipeline/pipeline.h"
#include "pipeline/sender.h"
#include "pipeline/sites.h"
#include "pipeline/source_stage.h"
#include "pipeline/windows.h"

#define ALIVE_MS       5000
#define UNUSED_MS      60000 /* between two times at which free memory goes back to the system */
#define REPLY_NS       5000000000ull /* then a message is sent again */
#define LATER_NS       1000000000ull
#define LATER_MAX_NS   (30 * LATER_NS)
#define STOP_NS        5000000000ull /* for the last windows to arrive */
#define STOP_NOBODY_NS 1000000000ull /* … at a server elsewhere that never answered */
#define TABLES_MS      200           /* for unwind tables at the end: Ctrl-C should not take long */
#define LIVE_WINDOW_MS 1000
#define NICE           (-5) /* what others run here matters more than when we are done */
#define DRAIN_MS       400  /* seldom: each drain has a price of its own */
#define TIMED_TICKS    7    /* as DRAINS_TIMED in pipeline.c */

/* The caps of what grows with all that was ever seen; then the collector begins anew. */
#define DICTIONARY_BYTES (12u << 20) /* the server has as much again */
#define FILES_MAX        16384
#define PLACES_MAX       (400 * 1000)

/* Sources that have a stage of their own: one line each. */
static const struct source_stage *const stages[] = {
	&sites_stage,
};

struct running_stage {
	const struct source_stage *kind; /* NULL: there is none */
	void *self;
};

struct collecting {
	const struct collecting_options *options;
	struct loop *loop;
	struct profile *dict;
	struct pipeline *pipeline;
	struct cgroups *cgroups;              /* NULL: there are none */
	struct places *places;                /* NULL likewise */
	struct windows *windows[SOURCES_MAX]; /* by source; after those, second types of stages */
	unsigned window_count;
	struct running_stage stages[SOURCES_MAX]; /* by source */
	bool no_offcpu;                           /* asked for, and not possible */
	struct findings *findings;                /* NULL: nothing is looked for */
	char host[65];
	struct sender *sender;
	struct sampler_stats first[SOURCES_MAX]; /* the kernel's counters when we began */
	uint64_t began_ns;
	uint64_t sent_ns; /* the message on its way; 0: none */
	uint64_t pause_until_ns, pause_ns;
	bool wants_pods;
	uint64_t asked_ns, ask_pause_ns; /* for pods: when, and how long after that not again */
	uint64_t live_until_ms;
	uint64_t stop_ns; /* 0: not stopping */
	bool stopping, renew;
	bool heard;   /* the server answered, once at least */
	bool skipped; /* the last tick had nothing to drain */
	struct measure measure;
	uint64_t ticks;
	uint64_t cpu_ns[3]; /* by stage: draining, windows, sending */
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
	struct processes *ps = pipeline_processes(c->pipeline);
	const struct running_stage *s = &c->stages[a->event->source];

	if (s->kind)
		s->kind->event(s->self, ps, a);
	else
		windows_add(c->windows[a->event->source], ps, a);
	if (a->event->source == 0 && c->findings)
		findings_sample(c->findings, a);
}

static bool is_wanted(void *ctx, const struct wire_event *s)
{
	const struct collecting *c = ctx;

	return c->stages[s->source].kind || windows_wants(c->windows[s->source], s);
}

static void on_started(void *ctx, uint32_t pid, uint32_t parent)
{
	const struct collecting *c = ctx;

	(void)pid;
	if (c->findings)
		findings_started(c->findings, parent);
}

/* What the server's /metrics shows of us; and whether something has grown past its cap. */
static void measure(struct collecting *c)
{
	struct measured now = {
		.frequency = c->options->frequency,
		.uptime_ns = clock_ns(CLOCK_MONOTONIC) - c->began_ns,
		.first = c->first,
		.drain_ns = c->cpu_ns[0],
		.window_ns = c->cpu_ns[1],
		.send_ns = c->cpu_ns[2],
		.dictionary_bytes = profile_bytes(c->dict),
		.missing_capabilities = c->options->missing_capabilities,
		.no_control_groups = !c->cgroups,
		.no_offcpu = c->no_offcpu,
		.findings = c->findings,
	};

	for (unsigned i = 0; i < c->options->source_count; i++)
		if (c->stages[i].kind)
			c->stages[i].kind->measure(c->stages[i].self, &now);
	pipeline_stats(c->pipeline, &now.pipeline);
	for (unsigned i = 0; i < c->window_count; i++)
		windows_stats(c->windows[i], &now.windows);
	struct places_stats places = {};
	if (c->places)
		places_stats(c->places, &places);
	now.state_files = places.unreadable;
	if (c->options->pods.failures)
		now.kubelet_failures = c->options->pods.failures(c->options->pods.ctx);
	sender_stats(c->sender, &now.sender);
	measure_all(&c->measure, &now);
	sender_metrics(c->sender, c->measure.metrics, c->measure.count);

	const struct assembler_stats *a = &now.pipeline.assembler;
	c->renew = now.dictionary_bytes > DICTIONARY_BYTES || a->files > FILES_MAX ||
		   a->names.places > PLACES_MAX || now.pipeline.counts.beyond_cpus;
}

static void counts_now(const struct collecting *c, struct window_counts *ret)
{
	for (unsigned i = 0; i < c->options->source_count; i++) {
		struct sampler_stats now;
		sampler_stats(pipeline_sampler(c->pipeline), i, &now);
		ret[i] = (struct window_counts){.base = c->first[i].taken, .taken = now.taken};
		ret[i].lost[WINDOW_LOST_RING] = now.lost - c->first[i].lost;
		ret[i].lost[WINDOW_LOST_MALFORMED] = now.malformed;
	}
	for (unsigned i = c->options->source_count; i < c->window_count; i++)
		ret[i] = (struct window_counts){};
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
	struct window_counts counts[SOURCES_MAX];
	counts_now(c, counts);
	const struct pack *m = sender_message(c->sender, counts);
	if (!m)
		return;
	if (t->send(t->ctx, m->bytes, m->len) == 0) {
		c->sent_ns = now;
	} else {
		sender_again(c->sender);
		c->pause_until_ns = now + LATER_NS;
	}
}

/* The CPU's last: once those have arrived, so have the others of that time. */
static void take_windows(struct collecting *c, bool flush)
{
	struct window w;

	for (unsigned i = 0; i < c->options->source_count; i++) {
		const struct running_stage *s = &c->stages[i];
		uint64_t end = clock_ns(CLOCK_MONOTONIC);
		if (s->kind && (windows_has_ended(c->windows[i], &end) || flush))
			s->kind->report(s->self, c->pipeline, end, c->stopping);
	}
	for (unsigned i = c->window_count; i-- > 0;) {
		while (windows_take(c->windows[i], pipeline_processes(c->pipeline), flush, &w)) {
			measure(c);
			sender_push(c->sender, i, &w);
		}
	}
}

static void take_findings(struct collecting *c);

static void on_soon(void *ctx, int what)
{
	(void)what;
	take_findings(ctx);
}

/* What was found, as soon as it is. */
static void take_findings(struct collecting *c)
{
	struct window w;

	if (!c->findings)
		return;
	findings_tick(c->findings, clock_ns(CLOCK_MONOTONIC));
	unsigned ms = findings_soon(c->findings);
	if (ms)
		loop_after(c->loop, ms, on_soon, c);
	if (findings_take(c->findings, clock_ms(CLOCK_REALTIME), &w))
		sender_push(c->sender, 0, &w);
}

static void set_length(struct collecting *c, uint32_t ms)
{
	for (unsigned i = 0; i < c->window_count; i++)
		windows_set_length(c->windows[i], ms);
}

static void end_if_sent(struct collecting *c)
{
	struct sender_stats s;

	sender_stats(c->sender, &s);
	if (s.waiting == 0 || clock_ns(CLOCK_MONOTONIC) > c->stop_ns)
		loop_stop(c->loop);
}

static void look_at_clock(struct collecting *c)
{
	uint64_t monotonic = clock_ns(CLOCK_MONOTONIC), boottime = clock_ns(CLOCK_BOOTTIME),
		 wall = clock_ns(CLOCK_REALTIME);

	for (unsigned i = 0; i < c->window_count; i++)
		windows_clock(c->windows[i], monotonic, boottime, wall);
}

static void drain(struct collecting *c)
{
	look_at_clock(c);
	pipeline_drain(c->pipeline);
	for (unsigned i = 0; i < c->options->source_count; i++)
		if (c->stages[i].kind)
			c->stages[i].kind->settle(c->stages[i].self, c->pipeline);
}

static void control(struct collecting *c, const struct window_reply *r)
{
	c->live_until_ms = r->live_until_ms;
	bool live = r->live_until_ms > clock_ms(CLOCK_REALTIME);
	set_length(c, live ? LIVE_WINDOW_MS : WINDOW_MS);
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
			 r.reason);
	} else {
		c->pause_ns = 0;
	}
	if (r.status == WINDOW_REFUSED)
		log_warn("the server refused a window: %s", r.reason);
	c->heard = true;
	control(c, &r);
	pump(c);
	if (c->stopping)
		end_if_sent(c);
}

static void on_pod(void *ctx, const struct pod *pod)
{
	const struct collecting *c = ctx;

	if (c->places)
		places_pod(c->places, pod);
}

void collecting_pods(struct collecting *c, const void *bytes, size_t len)
{
	if (pods_read(bytes, len, on_pod, c))
		log_warn("the server sent a list of pods that cannot be read");
}

/* For pods that are not known: of new ones at once, then after longer and longer pauses. */
static void ask_for_pods(struct collecting *c)
{
	const struct transport *t = &c->options->transport;
	const struct pods_source *pods = &c->options->pods;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	bool is_new;

	if (!c->options->expects_pods || !c->places)
		return;
	if (places_wants_pods(c->places, &is_new))
		c->wants_pods = true;
	if (is_new)
		c->ask_pause_ns = 0;
	if (!c->wants_pods || now < c->asked_ns + MAX(c->ask_pause_ns, LATER_NS))
		return;
	if (pods->ask)
		pods->ask(pods->ctx);
	else
		t->send(t->ctx, PODS_ASK, strlen(PODS_ASK));
	c->wants_pods = false;
	c->asked_ns = now;
	c->ask_pause_ns = MIN(c->ask_pause_ns ? 2 * c->ask_pause_ns : LATER_NS, LATER_MAX_NS);
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
	look_at_clock(c);
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
		set_length(c, WINDOW_MS);
	}
	/* A drain that a filling ring caused just before will do; but not twice, for the clock's
	 * sake. */
	c->skipped = !c->skipped && !pipeline_is_due(c->pipeline, DRAIN_MS);
	if (!c->skipped)
		drain(c);
	spend(c, 0, &since);
	take_windows(c, false);
	take_findings(c);
	ask_for_pods(c);
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

/* Starting needs much that is then free: the kernel's types, above all. So do a machine's first
 * minutes, when most files are met. */
static void on_unused(void *ctx, int what)
{
	(void)ctx, (void)what;
	malloc_trim(0);
	bpf_object_unread();
}

static void on_stop(void *ctx, int signo)
{
	(void)signo;
	stop(ctx);
}

/* What each source's events become: windows of its type. */
static void open_windows(struct collecting *c, const char *host, struct sampler_options *sampler)
{
	const struct collecting_options *o = c->options;

	for (unsigned i = 0; i < o->source_count; i++) {
		const struct collecting_source *src = &o->sources[i];
		struct windows_options windows = {
			.type = src->kind->type,
			.unit = src->kind->unit,
			.period =
				src->kind->is_clock ? 1000000000 / o->frequency : src->kind->period,
			.labels = {.host = host,
				   .places = c->places,
				   .threads = o->threads,
				   .rules = o->rules,
				   .expects_pods = o->expects_pods},
		};
		c->windows[c->window_count++] = windows_new(c->dict, &windows);
		sampler->sources[i] = (struct sampler_source){
			.kind = src->kind,
			.frequency = src->kind->period ? 0 : o->frequency,
			.period = src->kind->period,
			.counters_fd = src->counters_fd,
		};
		if (src->counters_fd > 0)
			sampler_counters_sum(src->counters_fd, &c->first[i]);
	}
	sampler->source_count = o->source_count;
}

static const struct source_stage *stage_of(const struct source_kind *kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(stages); i++)
		if (stages[i]->of == kind)
			return stages[i];
	return NULL;
}

/* NULL: it makes no second type of profile, or there is no room for one. */
static struct windows *open_second(struct collecting *c, const char *host, const char *type)
{
	struct windows_options o = {
		.type = type,
		.unit = "nanoseconds",
		.labels = {.host = host,
			   .places = c->places,
			   .threads = c->options->threads,
			   .rules = c->options->rules,
			   .expects_pods = c->options->expects_pods},
	};

	if (!type || c->window_count >= SOURCES_MAX)
		return NULL;
	sender_uncounted(c->sender, c->window_count);
	return c->windows[c->window_count++] = windows_new(c->dict, &o);
}

static void start_stages(struct collecting *c, const char *host)
{
	for (unsigned i = 0; i < c->options->source_count; i++) {
		const struct source_stage *kind = stage_of(c->options->sources[i].kind);
		if (!kind)
			continue;
		struct source_stage_options o = {
			.dict = c->dict,
			.windows = c->windows[i],
			.second = open_second(c, host, kind->second_type),
			.source = i,
			.waits = &c->options->waits,
		};
		look_at_clock(c);
		c->stages[i] = (struct running_stage){kind, kind->new (&o)};
		kind->begin(c->stages[i].self, c->pipeline);
	}
}

static void start_findings(struct collecting *c, const char *host)
{
	struct findings_options o = {
		.dict = c->dict,
		.places = c->places,
		.costs = c->options->costs,
		.host = host,
	};
	struct sampler_error why;

	c->findings = findings_new(&o, &why);
	if (why.doing)
		log_warn(
			"few findings are made: no process can be looked at closely: cannot %s%s%s",
			why.doing, why.detail[0] ? ": " : "", why.detail);
}

static int start(struct collecting *c)
{
	const struct collecting_options *o = c->options;
	static const char *const none[] = {NULL};
	struct sampler_options sampler = {.cpu = -1, .nice = NICE};
	bool lines = o->lines && o->lines[0];
	struct collecting_options *own = (struct collecting_options *)o;
	struct assembler_options assemble = {
		.sink = on_assembled,
		.sink_ctx = c,
		.started = on_started,
		.detail = wants_lines,
		.detail_ctx = own,
		.table_bytes = o->table_bytes,
		.cache_dir = o->cache_dir,
		.names = {.functions = true, .inlines = lines, .lines = lines},
	};
	struct sampler_error why;
	uint8_t instance[16];
	char *host = c->host;

	if (!own->lines)
		own->lines = none;
	c->cgroups = cgroups_new();
	c->places = c->cgroups ? places_new(c->cgroups, o->host_root) : NULL;
	assemble.places = c->places;
	assemble.wanted = o->rules ? is_wanted : NULL;
	sampler.filter.cgroup_subsys = c->cgroups ? cgroups_subsys(c->cgroups) : -1;
	sampler.filter.cgroups = c->cgroups != NULL;
	gethostname(host, sizeof(c->host) - 1);
	if (getrandom(instance, sizeof(instance), 0) != sizeof(instance))
		return -errno;
	if (o->lineage) /* so the store knows whose counters we go on with */
		memcpy(instance, o->lineage, 8);

	c->began_ns = clock_ns(CLOCK_MONOTONIC);
	c->dict = profile_new();
	open_windows(c, o->host ? o->host : host, &sampler);
	c->sender = sender_new(c->dict, instance, 0);
	int err = pipeline_new(c->dict, &sampler, &assemble, &c->pipeline, &why);
	const struct source_stage *last = stage_of(o->sources[o->source_count - 1].kind);
	if (err && last) {
		log_warn("%s is not recorded: cannot %s: %s%s%s", last->what, why.doing,
			 strerror(-err), why.detail[0] ? ": " : "", why.detail);
		sampler.source_count = --own->source_count;
		c->window_count--;
		windows_free(TAKE_PTR(c->windows[c->window_count]));
		c->no_offcpu = true;
		err = pipeline_new(c->dict, &sampler, &assemble, &c->pipeline, &why);
	}
	if (err)
		probe_cannot_sample(err, &why);
	else
		start_stages(c, o->host ? o->host : host);
	if (!err && !o->no_findings)
		start_findings(c, o->host ? o->host : host);
	return err;
}

static int watch(struct collecting *c)
{
	const struct collecting_options *o = c->options;
	struct sampler_options pace = {.sources = {{.frequency = o->frequency}}, .source_count = 1};

	c->loop = loop_new();
	int err = loop_end_signals(c->loop, o->end_signal, on_stop, c);
	err = err ? err
		  : loop_timer(c->loop, pipeline_pace(c->pipeline, &pace, DRAIN_MS), on_tick, c);
	if (o->alive_fd >= 0)
		err = err ? err : loop_timer(c->loop, ALIVE_MS, on_alive, c);
	err = err ? err : loop_timer(c->loop, UNUSED_MS, on_unused, c);
	err = err ? err : pipeline_watch(c->pipeline, c->loop);
	err = err ? err : o->transport.watch(o->transport.ctx, c->loop, c);
	if (o->pods.watch)
		err = err ? err : o->pods.watch(o->pods.ctx, c->loop, c);
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
		on_unused(&c, 0);
		loop_run(c.loop);
	}
	measure_refused(&c.measure); /* says what was refused since the last window */
	if (!err && o.alive_fd >= 0 && !c.renew)
		return 0; /* our parent waits for our end, and a table may be in the making */
	if (o.pods.end)
		o.pods.end(o.pods.ctx);
	loop_free(c.loop);
	findings_free(c.findings);
	sender_free(c.sender);
	for (unsigned i = 0; i < SOURCES_MAX; i++)
		if (c.stages[i].kind)
			c.stages[i].kind->free(c.stages[i].self);
	for (unsigned i = 0; i < SOURCES_MAX; i++)
		windows_free(c.windows[i]);
	pipeline_free(c.pipeline);
	places_free(c.places);
	cgroups_free(c.cgroups);
	profile_free(c.dict);
	measure_done(&c.measure);
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
	uint8_t bytes[PODS_MESSAGE_MAX];
	ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

	if (n > 0 && pods_is_message(bytes, (size_t)n))
		collecting_pods(t->collecting, bytes, (size_t)n);
	else if (n > 0)
		collecting_reply(t->collecting, bytes, (size_t)n);
	else if (n == 0)
		loop_remove_fd(t->loop, fd);
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

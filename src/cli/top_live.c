#include "cli/top_live.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/clock.h"
#include "base/index.h"
#include "base/log.h"
#include "cli/cli.h"
#include "collect/cgroup.h"
#include "collect/probe.h"
#include "collect/sites_source.h"
#include "collect/tasks.h"
#include "pipeline/findings.h"
#include "pipeline/pipeline.h"
#include "pipeline/ran.h"
#include "pipeline/sites.h"
#include "pipeline/windows.h"
#include "process/places.h"
#include "query/wall_parts.h"

#define DRAIN_MS         100
#define NICE             (-20)       /* somebody looks, maybe because the machine is overloaded */
#define DICTIONARY_BYTES (48u << 20) /* names and stacks of all that was ever seen: then anew */
#define THREADS_MAX      (1u << 20)
#define ACCOUNTS_MAX     (1u << 18) /* threads; more are left out */
#define HELD_BYTES       (32u << 20)

enum { CPU, OFF, ON, KINDS }; /* what is added up: samples, waits, and how long threads ran */

struct top_live {
	const struct top_live_options *options;
	struct target target;
	struct wire_filter filter;
	bool is_found;           /* the target */
	struct cgroups *cgroups; /* NULL: none */
	struct places *places;   /* NULL likewise */
	struct tasks *tasks;
	/* What was read the last time: [0] is not used. */
	struct task_account *before, *now;
	uint32_t before_count, now_count, before_cap, now_cap;
	struct index by_thread; /* of `before` */
	uint64_t before_ns;
	/* While it is started. */
	struct profile *dict;
	struct pipeline *pipeline;
	struct windows *windows[KINDS];
	void *stage; /* of sites_stage; NULL: without waits */
	struct findings *findings;
	uint64_t lost;
	/* What was found last; what no longer holds is left out when it is shown. */
	struct finding *found;
	uint32_t found_count;
	bool said_few;
	/* What was handed out. */
	struct top_interval interval;
	struct profile *wall;    /* that it is of; NULL: the dictionary */
	struct profile *retired; /* a dictionary that it is still of */
};

/* ---- accounts -------------------------------------------------------------------------------- */

static uint32_t thread_hash(const struct task_account *a)
{
	return index_hash2(a->tid, a->start);
}

static const struct task_account *find_before(const struct top_live *l,
					      const struct task_account *a)
{
	uint32_t id;

	INDEX_EACH(&l->by_thread, thread_hash(a), id)
		if (l->before[id].tid == a->tid && l->before[id].start == a->start)
			return &l->before[id];
	return NULL;
}

static void on_task(void *ctx, const struct task_account *a)
{
	struct top_live *l = ctx;

	if (l->now_count >= ACCOUNTS_MAX)
		return;
	while (l->now_count >= l->now_cap)
		MEM_GROW(l->now, l->now_cap, l->now_cap);
	l->now[l->now_count++] = *a;
}

static double more(uint64_t now, uint64_t before)
{
	return now > before ? (double)(now - before) : 0;
}

struct shares { /* of the time that a thread lived, ns */
	double ran, runnable, blocked;
};

/*
 * What a thread did since then. The kernel does not count as run what interrupts, or the host of a
 * virtual machine, took from it: a thread that did not block was on its CPU nevertheless.
 */
static struct shares share(const struct task_account *a, const struct task_account *b)
{
	double lived = more(a->time, b->time), ran = MIN(more(a->ran, b->ran), lived);
	double runnable = MIN(more(a->waited, b->waited), lived - ran);

	if (a->is_dead)
		return (struct shares){ran, runnable, 0};
	if (a->has_waited && a->is_ready && b->is_ready && a->blocks == b->blocks)
		return (struct shares){lived - runnable, runnable, 0};
	return (struct shares){ran, runnable, lived - ran - runnable};
}

/*
 * Threads are read one after another, and on a busy machine we may have to wait in between: what is
 * known of a thread is of its own interval, and is scaled to the one that is shown.
 */
static double stretch(const struct top_live *l, const struct task_account *a,
		      const struct task_account *b)
{
	double lived = more(a->time, b->time);

	return b->tid && lived > 0 ? l->interval.seconds * 1e9 / lived : 1;
}

/* One that is new is told of since it began. */
static void add_account(struct top_live *l, const struct task_account *a)
{
	const struct task_account new = {.time = a->start, .is_ready = 1}, *b = find_before(l, a);
	const struct place *place =
		a->cgroup && l->places ? places_get(l->places, a->cgroup) : NULL;
	char comm[WIRE_COMM + 1] = "", thread[WIRE_COMM + 1] = "";

	if (!b) /* or it was no target before: then nothing is known of its last second */
		b = a->start >= l->before_ns ? &new : a;
	memcpy(comm, a->comm, strnlen(a->comm, WIRE_COMM));
	memcpy(thread, a->thread, strnlen(a->thread, WIRE_COMM));
	struct shares shares = share(a, b);
	double by = stretch(l, a, b);
	struct top_account account = {
		.pid = a->pid,
		.tid = a->tid,
		.threads = !a->is_dead,
		.comm = comm,
		.thread = thread,
		.container = !place              ? ""
			     : *place->container ? place->container
						 : place->unit,
		.host = "",
		.ran = by * (shares.ran + more(a->past_ran, b->past_ran)),
		.runnable = a->has_waited ? by * shares.runnable : TOP_UNKNOWN,
		.blocked = by * shares.blocked,
		.idle = TOP_UNKNOWN,
		.switches =
			more(a->switches, b->switches) + more(a->past_switches, b->past_switches),
	};
	top_interval_add(&l->interval, &account);
}

static int read_tasks(struct top_live *l)
{
	l->now_count = 1;
	while (l->now_cap < 2)
		MEM_GROW(l->now, l->now_cap, l->now_cap);
	return tasks_read(l->tasks, on_task, l);
}

/* What was read now is what was before, the next time. */
static void keep_tasks(struct top_live *l, uint64_t now_ns)
{
	struct task_account *list = l->before;
	uint32_t cap = l->before_cap;

	l->before = l->now;
	l->before_count = l->now_count;
	l->before_cap = l->now_cap;
	l->before_ns = now_ns;
	l->now = list;
	l->now_cap = cap;
	index_clear(&l->by_thread);
	for (uint32_t i = 1; i < l->before_count; i++)
		index_put(&l->by_thread, thread_hash(&l->before[i]), i);
}

/* ---- samples --------------------------------------------------------------------------------- */

static void on_assembled(void *ctx, const struct assembled *a)
{
	struct top_live *l = ctx;
	struct processes *ps = pipeline_processes(l->pipeline);

	if (a->event->source == CPU) {
		windows_add(l->windows[CPU], ps, a);
		if (l->findings)
			findings_sample(l->findings, a);
	} else if (l->stage) {
		sites_stage.event(l->stage, ps, a);
	}
}

static void on_started(void *ctx, uint32_t pid, uint32_t parent)
{
	const struct top_live *l = ctx;

	(void)pid;
	if (l->findings)
		findings_started(l->findings, parent);
}

static void look_at_clock(struct top_live *l)
{
	uint64_t monotonic = clock_ns(CLOCK_MONOTONIC), boottime = clock_ns(CLOCK_BOOTTIME),
		 wall = clock_ns(CLOCK_REALTIME);

	for (int i = 0; i < KINDS; i++)
		if (l->windows[i])
			windows_clock(l->windows[i], monotonic, boottime, wall);
}

static void take_findings(struct top_live *l)
{
	struct window w;

	findings_tick(l->findings, clock_ns(CLOCK_MONOTONIC));
	if (!findings_take(l->findings, clock_ms(CLOCK_REALTIME), &w))
		return;
	free(l->found);
	l->found = TAKE_PTR(w.findings);
	l->found_count = w.finding_count;
	window_done(&w);
}

static void drain(struct top_live *l)
{
	look_at_clock(l);
	pipeline_drain(l->pipeline);
	if (l->stage)
		sites_stage.settle(l->stage, l->pipeline);
	if (l->findings)
		take_findings(l);
}

static void on_drain(void *ctx, int what)
{
	(void)what;
	drain(ctx);
}

/* All that windows have, up to this moment. */
static struct wall_parts_list take_samples(struct top_live *l, int kind)
{
	struct sample *list = NULL;
	uint32_t count = 0, cap = 0;
	struct window w;

	while (l->windows[kind] &&
	       windows_take(l->windows[kind], pipeline_processes(l->pipeline), true, &w)) {
		for (uint32_t i = 0; i < w.row_count; i++) {
			const struct window_row *r = &w.rows[i];
			MEM_GROW(list, count, cap);
			list[count++] = (struct sample){r->series, r->stack, r->count, r->value};
		}
		window_done(&w);
	}
	return (struct wall_parts_list){l->dict, list, count};
}

/* All the time of threads becomes one profile. */
static struct profile *make_wall(const struct wall_parts_list lists[static KINDS])
{
	static const char *const labels[] = {"comm",      "pid",  "thread", "tid",
					     "container", "unit", "state",  "reason"};
	struct wall_parts parts = {
		.ran = lists[ON],
		.sampled = lists[CPU],
		.off = lists[OFF],
		.owner = {"pid", "tid"},
		.by = labels,
		.by_count = ARRAY_SIZE(labels),
	};
	struct profile *all = profile_new();

	wall_parts_sum(&parts, all);
	return all;
}

static void add_idle(struct top_account *a, uint64_t ns)
{
	double idle = MIN((double)ns, a->blocked);

	a->idle += idle;
	a->blocked -= idle;
}

/* Idle time is told from blocked by what the stacks say. */
static void set_idle(struct top_interval *i, const struct profile *wall)
{
	struct index by_tid = {};
	uint32_t id;

	for (uint32_t n = 0; n < i->account_count; n++) {
		i->accounts[n].idle = 0;
		index_put(&by_tid, index_hash2(i->accounts[n].tid, 0), n + 1);
	}
	for (uint32_t n = 0; n < wall->sample_count; n++) {
		const struct sample *s = &wall->samples[n];
		const char *state = profile_label(wall, s->series, "state");
		const char *text = profile_label(wall, s->series, "tid");
		uint32_t tid = text ? (uint32_t)strtoul(text, NULL, 10) : 0;
		if (!tid || !state || strcmp(state, "idle") != 0)
			continue;
		INDEX_EACH(&by_tid, index_hash2(tid, 0), id)
			if (i->accounts[id - 1].tid == tid)
				add_idle(&i->accounts[id - 1], s->value);
	}
	index_done(&by_tid);
	i->has_idle = true;
}

static void set_samples(struct top_live *l, struct wall_parts_list lists[static KINDS])
{
	struct top_interval *i = &l->interval;

	for (uint32_t n = 0; n < lists[CPU].count; n++)
		i->sampled += lists[CPU].samples[n].count;
	i->is_wall = l->stage != NULL;
	if (!i->is_wall) {
		i->of = l->dict;
		i->samples = (struct sample *)TAKE_PTR(lists[CPU].samples);
		i->sample_count = lists[CPU].count;
		return;
	}
	l->wall = make_wall(lists);
	i->of = l->wall;
	i->sample_count = l->wall->sample_count;
	i->samples = mem_dup(l->wall->samples, i->sample_count * sizeof(*i->samples));
	i->only_accounts = !target_is_machine(&l->options->target);
	set_idle(i, l->wall);
}

static void forget_interval(struct top_live *l)
{
	top_interval_done(&l->interval);
	profile_free(TAKE_PTR(l->wall));
	profile_free(TAKE_PTR(l->retired));
}

static uint64_t count_lost(struct top_live *l)
{
	struct sampler_stats c;

	sampler_stats_sum(pipeline_sampler(l->pipeline), &c);
	return c.lost;
}

static void make_interval(struct top_live *l, struct wall_parts_list lists[static KINDS],
			  uint64_t now_ns)
{
	uint64_t lost = count_lost(l);

	forget_interval(l);
	l->interval.seconds = (double)(now_ns - l->before_ns) / 1e9;
	l->interval.end_ns = clock_ns(CLOCK_REALTIME);
	l->interval.cpus = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
	l->interval.lost = lost - l->lost;
	l->lost = lost;
	for (uint32_t i = 1; i < l->now_count; i++)
		add_account(l, &l->now[i]);
	set_samples(l, lists);
	top_interval_find(&l->interval, l->found, l->found_count);
}

static enum top_take live_take(void *self, const struct top_interval **ret)
{
	struct top_live *l = self;
	struct wall_parts_list lists[KINDS];

	drain(l);
	if (l->stage)
		sites_stage.report(l->stage, l->pipeline, clock_ns(CLOCK_MONOTONIC), false);
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	int r = read_tasks(l);
	for (int i = 0; i < KINDS; i++)
		lists[i] = take_samples(l, i);
	if (ret && !r)
		make_interval(l, lists, now_ns);
	for (int i = 0; i < KINDS; i++)
		free((void *)lists[i].samples);
	if (r) {
		log_error("cannot read the kernel's accounts of threads: %s", strerror(-r));
		return TOP_FAILED;
	}
	keep_tasks(l, now_ns);
	if (!ret)
		return TOP_SAME;
	*ret = &l->interval;
	return profile_bytes(l->dict) > DICTIONARY_BYTES ? TOP_ANEW : TOP_TAKEN;
}

/* ---- start and stop -------------------------------------------------------------------------- */

/* The target, and the accounts: once. */
static int find(struct top_live *l)
{
	struct tasks_options o = {};
	struct sampler_error why;

	/* Pieces of other processes' stacks pass through here: they must not end in a core dump. */
	prctl(PR_SET_DUMPABLE, 0);
	int code = target_find(&l->target, &l->options->target, &l->filter);
	if (code)
		return code;
	l->cgroups = l->filter.by_cgroup ? NULL : cgroups_new();
	l->places = l->cgroups ? places_new(l->cgroups, NULL) : NULL;
	if (l->cgroups)
		l->filter.cgroup_subsys = cgroups_subsys(l->cgroups);
	l->filter.cgroups = l->cgroups != NULL;
	o.filter = l->filter;
	o.targets = target_list(&l->target, &o.target_count);
	int err = tasks_new(&o, &l->tasks, &why);
	if (err) {
		probe_cannot_sample(err, &why);
		return 1;
	}
	l->is_found = true;
	return 0;
}

static struct windows *open_windows(struct top_live *l, const char *type, uint64_t period)
{
	struct windows_options o = {
		.type = type,
		.unit = "nanoseconds",
		.period = period,
		.labels = {.host = "",
			   .places = l->places,
			   .every_thread = true,
			   .threads_max = THREADS_MAX},
	};

	return windows_new(l->dict, &o);
}

static void open_all_windows(struct top_live *l, bool wall)
{
	l->windows[CPU] = open_windows(l, "cpu", 1000000000 / l->options->frequency);
	if (!wall)
		return;
	l->windows[OFF] = open_windows(l, "offcpu", 0);
	l->windows[ON] = open_windows(l, RAN_TYPE, 0);
}

static void start_waits(struct top_live *l)
{
	static const struct waiting_options waits;
	struct source_stage_options o = {
		.dict = l->dict,
		.windows = l->windows[OFF],
		.second = l->windows[ON],
		.source = OFF,
		.waits = &waits,
	};

	look_at_clock(l);
	l->stage = sites_stage.new(&o);
	sites_stage.begin(l->stage, l->pipeline);
}

static int start_sampling(struct top_live *l, bool wall)
{
	CLEANUP(freep) char *cache = cli_cache_dir();
	struct sampler_options sampler = {
		.sources = {{.kind = source_find("cpu-clock"), .frequency = l->options->frequency},
			    {.kind = &sites_source}},
		.source_count = wall ? 2 : 1,
		.filter = l->filter,
		.cpu = -1,
		.nice = NICE,
	};
	struct assembler_options assemble = {
		.sink = on_assembled,
		.sink_ctx = l,
		.started = on_started,
		.cache_dir = cache,
		.held_bytes = HELD_BYTES,
		.names = {.functions = true},
		.places = l->places,
	};
	struct sampler_error why;

	sampler.targets = target_list(&l->target, &sampler.target_count);
	int err = pipeline_new(l->dict, &sampler, &assemble, &l->pipeline, &why);
	if (err)
		probe_cannot_sample(err, &why);
	return err ? 1 : 0;
}

/* Some threads of a process alone do not tell what it does. */
static void start_findings(struct top_live *l)
{
	const struct findings_options o = {.dict = l->dict, .places = l->places, .host = ""};
	struct sampler_error why;

	if (!l->options->findings || l->options->target.tid_count)
		return;
	l->findings = findings_new(&o, &why);
	if (why.doing && !l->said_few)
		log_warn("few findings are shown, those that need no closer look at a process: "
			 "cannot %s%s%s",
			 why.doing, why.detail[0] ? ": " : "", why.detail);
	l->said_few |= why.doing != NULL;
}

static int live_start(void *self, bool wall)
{
	struct top_live *l = self;
	int code = l->is_found ? 0 : find(l);

	if (code)
		return code;
	l->dict = profile_new();
	open_all_windows(l, wall);
	if ((code = start_sampling(l, wall)))
		return code;
	if (wall)
		start_waits(l);
	start_findings(l);
	l->lost = 0;
	return live_take(l, NULL) == TOP_FAILED ? 1 : 0;
}

static int live_watch(void *self, struct loop *loop)
{
	struct top_live *l = self;
	struct sampler_options pace = {.sources = {{.frequency = l->options->frequency}},
				       .source_count = 1};
	int err = pipeline_watch(l->pipeline, loop);

	err = err ? err : target_watch(&l->target, loop);
	return err ? err
		   : loop_timer(loop, pipeline_pace(l->pipeline, &pace, DRAIN_MS), on_drain, l);
}

static void live_stop(void *self)
{
	struct top_live *l = self;

	if (l->stage)
		sites_stage.free(TAKE_PTR(l->stage));
	findings_free(TAKE_PTR(l->findings));
	pipeline_free(TAKE_PTR(l->pipeline));
	for (int i = 0; i < KINDS; i++)
		windows_free(TAKE_PTR(l->windows[i]));
	struct profile *dict = TAKE_PTR(l->dict);
	if (!dict || l->interval.of != dict) {
		profile_free(dict);
		return;
	}
	profile_free(l->retired); /* of an interval before that */
	l->retired = dict;
}

static void live_free(void *self)
{
	struct top_live *l = self;

	live_stop(l);
	forget_interval(l);
	tasks_free(l->tasks);
	places_free(l->places);
	cgroups_free(l->cgroups);
	target_done(&l->target);
	free(l->before);
	free(l->now);
	free(l->found);
	index_done(&l->by_thread);
	free(l);
}

void top_live_new(const struct top_live_options *o, struct top_source *ret)
{
	struct top_live *l = mem_alloc(sizeof(*l));

	l->options = o;
	*ret = (struct top_source){
		.start = live_start,
		.watch = live_watch,
		.take = live_take,
		.stop = live_stop,
		.free = live_free,
		.self = l,
		.name = mem_strdup("this machine"),
	};
}

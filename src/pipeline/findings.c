#include "pipeline/findings.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "collect/closeup.h"
#include "pipeline/bpf_look.h"
#include "pipeline/closeup_plans.h"
#include "pipeline/finding_rules.h"
#include "pipeline/look.h"
#include "pipeline/machine.h"
#include "process/places.h"

#define NS           1000000000ull
#define WATCHED_MAX  256
#define MISSED_MAX   2 /* looks without suspicion; then a finding is over */
#define TELL_NS      (10 * NS)
#define BACKOFF_NS   (60 * NS)
#define BACKOFF_MAX  (900 * NS)
#define THREADS_MAX  256 /* of a process whose switches are counted */
#define STATUS_BYTES 8192
#define AGING        0.25 /* of a CPU, that each look is worth in which a suspect had to wait */
#define SAMPLES_MAX  512  /* of a closeup; later ones are left out */
#define AGAIN_NS     (300 * NS) /* a finding that lasts is confirmed again so often */
#define BPF_AGAIN_NS (21 * NS)  /* … one of a BPF program, which samples may not see */
#define BPF_PART     0.01      /* of a CPU, in samples of BPF programs: reason to look sooner … */
#define BPF_SOON_NS  (30 * NS) /* … after the time before */

/* A process, say, that a rule suspects, or did not long ago: known by its rule and the next three.
 */
struct watched {
	const struct finding_rule *rule;
	uint64_t start; /* of a process; of a group or a BPF program, its id */
	uint32_t pid;   /* 0: not one process */
	char comm[WIRE_COMM + 1];
	const struct look_process *of;  /* in the last look; NULL: it was not suspected there */
	const struct bpf_cost *program; /* as it was last looked at; NULL: it is not about one */
	double strength;
	unsigned streak, missed; /* looks in a row */
	uint64_t closeup_after_ns, backoff_ns;
	bool is_found;
	struct finding finding;
};

struct findings {
	struct findings_options options;
	struct syscall_calls *calls;
	struct closeup_plan plans[SYSCALL_COMPAT];
	struct closeup *closeup; /* NULL: not possible here */
	struct code_classes classes;
	struct look looks[2]; /* the one that is being made, and the last one */
	unsigned making;
	struct machine machine;
	struct bpf_look bpf;
	struct look_process groups[MACHINE_GROUPS]; /* that are held back: the busiest of each */
	struct watched *watched[WATCHED_MAX];
	size_t count;
	struct watched *target; /* of the closeup that is under way; NULL: none is */
	uint64_t closeup_began_ns, closeup_end_ns;
	bool has_begun;                             /* a closeup, since findings_soon() was asked */
	struct finding_sample samples[SAMPLES_MAX]; /* of the target since it began */
	size_t sample_count;
	uint64_t switches;                 /* of the target's threads when it began */
	uint64_t began[CLOSEUPS_A_MINUTE]; /* closeups, a circle */
	unsigned next_began;
	uint64_t next_id, told_ns;
	bool is_news;
	struct findings_stats stats;
};

struct findings *findings_new(const struct findings_options *o, struct sampler_error *ret_err)
{
	struct findings *f = mem_alloc(sizeof(*f));

	f->options = *o;
	f->calls = syscall_calls_new();
	closeup_plans(f->calls, f->plans);
	if (closeup_new(f->plans, &f->closeup, ret_err) != 0)
		f->closeup = NULL;
	look_begin(&f->looks[0], clock_ns(CLOCK_MONOTONIC));
	look_begin(&f->looks[1], f->looks[0].began_ns);
	machine_begin(&f->machine);
	bpf_look_begin(&f->bpf, o->costs, f->looks[0].began_ns);
	return f;
}

void findings_free(struct findings *f)
{
	if (!f)
		return;
	closeup_free(f->closeup);
	bpf_look_done(&f->bpf);
	syscall_calls_free(f->calls);
	code_classes_done(&f->classes);
	look_done(&f->looks[0]);
	look_done(&f->looks[1]);
	for (size_t i = 0; i < f->count; i++)
		free(f->watched[i]);
	free(f);
}

void findings_sample(struct findings *f, const struct assembled *a)
{
	const struct wire_event *e = a->event;

	look_add(&f->looks[f->making], a);
	if (f->target && f->target->pid == e->pid && f->sample_count < SAMPLES_MAX)
		f->samples[f->sample_count++] = (struct finding_sample){
			e->time, e->tid, code_of(&f->classes, f->options.dict, a->stack).caller};
}

void findings_started(struct findings *f, uint32_t parent)
{
	look_fork(&f->looks[f->making], parent);
}

/* ---- suspects -------------------------------------------------------------------------------- */

static uint64_t group_id(const struct findings *f, const struct look_process *p)
{
	const char *path = machine_group(&f->machine, p)->path;

	return index_hash_bytes(path, strlen(path));
}

static uint64_t identity(const struct findings *f, const struct finding_rule *rule,
			 const struct finding_case *c)
{
	switch (rule->scope) {
	case FINDING_PROCESS:
		return c->of->start;
	case FINDING_GROUP:
		return group_id(f, c->of);
	case FINDING_BPF:
		return c->program->id;
	default:
		return 0;
	}
}

static struct watched *get_watched(struct findings *f, const struct finding_rule *rule,
				   const struct finding_case *c)
{
	const struct look_process *p = c->of;
	bool by_name = rule->scope == FINDING_NAME;
	uint64_t start = identity(f, rule, c);
	uint32_t pid = rule->scope == FINDING_PROCESS ? p->pid : 0;

	for (size_t i = 0; i < f->count; i++) {
		struct watched *w = f->watched[i];
		if (w->rule == rule && w->pid == pid && w->start == start &&
		    (!by_name || strcmp(w->comm, p->comm) == 0))
			return w;
	}
	if (f->count == WATCHED_MAX)
		return NULL;
	struct watched *w = mem_alloc(sizeof(*w));
	w->rule = rule;
	w->pid = pid;
	w->start = start;
	memcpy(w->comm, p->comm, sizeof(w->comm));
	f->stats.suspects++;
	return f->watched[f->count++] = w;
}

static struct finding_case case_of(const struct findings *f, const struct look_process *p)
{
	return (struct finding_case){.look = &f->looks[!f->making],
				     .of = p,
				     .dict = f->options.dict,
				     .calls = f->calls,
				     .plans = f->plans,
				     .machine = &f->machine};
}

static struct watched *suspect(struct findings *f, const struct finding_rule *rule,
			       const struct look_process *p, const struct bpf_cost *program)
{
	struct finding_case c = case_of(f, p);

	c.program = program;
	double strength = rule->suspects(&c);
	struct watched *w = strength > 0 ? get_watched(f, rule, &c) : NULL;
	if (w) {
		w->of = p;
		w->program = program;
		w->strength = strength;
	}
	return w;
}

/* The busiest process of each group that has a quota. */
static uint32_t list_groups(struct findings *f)
{
	const struct look *l = &f->looks[!f->making];
	uint32_t count = 0;

	for (uint32_t i = 1; i < l->process_count; i++) {
		const struct look_process *p = &l->processes[i];
		const struct machine_group *g = machine_group(&f->machine, p);
		uint32_t at = 0;
		if (!g || !g->path[0])
			continue;
		while (at < count && group_id(f, &f->groups[at]) != group_id(f, p))
			at++;
		if (at == count)
			f->groups[count++] = *p;
		else if (f->groups[at].part.ns < p->part.ns)
			f->groups[at] = *p;
	}
	return count;
}

static void suspect_each(struct findings *f, const struct finding_rule *r,
			 const struct look_process *of, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (of[i].comm[0] || r->scope == FINDING_MACHINE)
			suspect(f, r, &of[i], NULL);
}

static void suspect_all(struct findings *f)
{
	const struct look *l = &f->looks[!f->making];
	uint32_t groups = list_groups(f);

	for (const struct finding_rule *r = finding_rules; r->kind; r++) {
		switch (r->scope) {
		case FINDING_PROCESS:
			suspect_each(f, r, l->processes + 1, l->process_count - 1);
			break;
		case FINDING_NAME:
			suspect_each(f, r, l->names + 1, l->name_count - 1);
			break;
		case FINDING_GROUP:
			suspect_each(f, r, f->groups, groups);
			break;
		case FINDING_MACHINE:
			suspect_each(f, r, &l->all, 1);
			break;
		case FINDING_BPF: /* when they are looked at: judge_programs() */
			break;
		}
	}
}

/* ---- findings -------------------------------------------------------------------------------- */

static uint32_t active_count(const struct findings *f)
{
	uint32_t count = 0;

	for (size_t i = 0; i < f->count; i++)
		count += f->watched[i]->is_found;
	return count;
}

static void describe(const struct findings *f, const struct watched *w, struct finding *to)
{
	if (w->of->cgroup && f->options.places) {
		const struct place *p = places_get(f->options.places, w->of->cgroup);
		FINDING_SET(to->container, *p->container ? p->container : p->unit);
	}
	FINDING_SET(to->kind, w->rule->kind);
	FINDING_SET(to->means, w->rule->means);
	FINDING_SET(to->comm, w->of->comm);
	FINDING_SET(to->host, f->options.host);
	to->pid = w->rule->scope == FINDING_MACHINE ? 0 : w->of->pid;
}

/* Found, or found again: what is said of it is what holds now. False: it does not hold. */
static bool find(struct findings *f, struct watched *w, const struct closeup_view *view)
{
	struct finding_case c = case_of(f, w->of);
	struct finding now = {};

	c.closeup = view;
	c.samples = f->samples;
	c.sample_count = f->sample_count;
	c.program = w->program;
	describe(f, w, &now);
	if (!w->rule->holds(&c, &now))
		return false;
	if (!w->is_found && active_count(f) == FINDINGS_MAX) {
		f->stats.dropped++;
		return false;
	}
	now.until_ms = clock_ms(CLOCK_REALTIME);
	if (w->is_found) {
		now.id = w->finding.id;
		now.began_ms = MIN(w->finding.began_ms, now.until_ms);
	} else {
		const struct look *l = c.look;
		now.id = ++f->next_id;
		now.began_ms = now.until_ms - (clock_ns(CLOCK_MONOTONIC) - l->began_ns) / 1000000;
		f->stats.found++;
		f->is_news = true;
	}
	w->finding = now;
	w->is_found = true;
	return true;
}

static void settle(struct findings *f, struct watched *w)
{
	if (!w->of) {
		w->streak = 0;
		if (++w->missed >= (w->rule->patience ? w->rule->patience : MISSED_MAX))
			w->is_found = false;
		return;
	}
	w->missed = 0;
	w->streak++;
	if (!w->rule->closeup_ms) {
		if (w->streak >= w->rule->looks && !find(f, w, NULL))
			w->is_found = false;
	} else if (w->is_found) {
		w->finding.until_ms = MAX(w->finding.until_ms, clock_ms(CLOCK_REALTIME));
	}
}

static bool is_of_program(const struct watched *w)
{
	return w->rule->scope == FINDING_BPF;
}

static void forget_old(struct findings *f, uint64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < f->count; i++) {
		struct watched *w = f->watched[i];
		bool is_old =
			w->missed >= MISSED_MAX && !w->is_found && now_ns >= w->closeup_after_ns;
		if (is_old && w != f->target)
			free(w);
		else
			f->watched[kept++] = w;
	}
	f->count = kept;
}

static void look(struct findings *f, uint64_t now_ns)
{
	f->making = !f->making;
	look_begin(&f->looks[f->making], now_ns);
	look_end(&f->looks[!f->making], now_ns, &f->classes, f->options.dict);
	f->stats.looks++;
	for (size_t i = 0; i < f->count; i++)
		if (!is_of_program(f->watched[i]))
			f->watched[i]->of = NULL;
	machine_look(&f->machine, &f->looks[!f->making]);
	suspect_all(f);
	for (size_t i = 0; i < f->count; i++)
		if (!is_of_program(f->watched[i]))
			settle(f, f->watched[i]);
	forget_old(f, now_ns);
}

/* ---- BPF programs ---------------------------------------------------------------------------- */

static void judge_programs(struct findings *f)
{
	struct bpf_look *b = &f->bpf;

	for (size_t i = 0; i < f->count; i++)
		if (is_of_program(f->watched[i]))
			f->watched[i]->of = NULL;
	for (const struct finding_rule *r = finding_rules; r->kind; r++) {
		for (unsigned i = 0; i < b->count && r->scope == FINDING_BPF; i++) {
			struct watched *w = suspect(f, r, &b->owners[i], &b->programs[i]);
			if (!w)
				continue;
			w->missed = 0;
			if (++w->streak < r->looks)
				continue;
			bpf_look_find_owner(b, i);
			find(f, w, NULL);
		}
	}
	for (size_t i = 0; i < f->count; i++) {
		struct watched *w = f->watched[i];
		if (is_of_program(w) && !w->of) {
			w->is_found = false;
			w->streak = 0;
			w->missed = MISSED_MAX;
		}
	}
}

static bool suspects_program(const struct findings *f)
{
	bool does = false;

	for (size_t i = 0; i < f->count; i++)
		does |= is_of_program(f->watched[i]) && f->watched[i]->of;
	return does;
}

/* Whether samples of the last look show some; those of a closeup's own programs do not count. */
static bool shows_programs(const struct findings *f)
{
	const struct look *l = &f->looks[!f->making];

	return look_share(l, l->all.part.of[CODE_BPF]) >= BPF_PART &&
	       f->closeup_end_ns < l->began_ns;
}

static void look_at_programs(struct findings *f, uint64_t now_ns)
{
	struct bpf_look *b = &f->bpf;

	if (!b->costs || f->target)
		return;
	if (shows_programs(f))
		b->next_ns = MIN(b->next_ns, b->asked_ns ? b->asked_ns + BPF_SOON_NS : now_ns);
	if (b->is_asked) {
		bool is_news = bpf_look_answered(b);
		if (is_news || !b->costs)
			judge_programs(f);
		if (!b->is_asked)
			b->next_ns = now_ns + (suspects_program(f) ? BPF_AGAIN_NS
								   : BPF_LOOK_MS * 1000000ull);
	} else if (now_ns >= b->next_ns) {
		f->stats.bpf_looks++;
		bpf_look_ask(b, now_ns);
		if (!b->costs)
			judge_programs(f);
	}
}

/* ---- closeups -------------------------------------------------------------------------------- */

/* How often the threads of a process have left their CPU, of their own accord or not. */
static uint64_t switches_of(uint32_t pid)
{
	char path[64];
	uint64_t sum = 0;
	unsigned threads = 0;
	const struct dirent *e;

	snprintf(path, sizeof(path), "/proc/%u/task", pid);
	DIR *d = opendir(path);
	while (d && (e = readdir(d)) && threads < THREADS_MAX) {
		CLEANUP(freep) char *text = NULL;
		snprintf(path, sizeof(path), "/proc/%u/task/%.10s/status", pid, e->d_name);
		if (e->d_name[0] == '.' || file_read(path, STATUS_BYTES, &text, NULL) != 0)
			continue;
		threads++;
		for (const char *at = text; (at = strstr(at, "voluntary_ctxt_switches:"));) {
			at += strlen("voluntary_ctxt_switches:");
			sum += strtoull(at, NULL, 10);
		}
	}
	if (d)
		closedir(d);
	return sum;
}

static bool is_due(const struct watched *w, uint64_t now_ns)
{
	return w->of && w->rule->closeup_ms && w->streak >= w->rule->looks &&
	       now_ns >= w->closeup_after_ns;
}

/* One that was never looked at gets its turn in the end, however little is at stake. */
static double urgency(const struct watched *w)
{
	bool is_first = w->closeup_after_ns == 0;

	return w->strength + (is_first ? AGING * (w->streak - w->rule->looks) : 0);
}

static void begin_closeup(struct findings *f, uint64_t now_ns)
{
	struct watched *w = NULL;

	if (!f->closeup || f->began[f->next_began] + 60 * NS > now_ns)
		return;
	for (size_t i = 0; i < f->count; i++) {
		struct watched *o = f->watched[i];
		if (is_due(o, now_ns) && (!w || o->is_found < w->is_found ||
					  (o->is_found == w->is_found && urgency(o) > urgency(w))))
			w = o;
	}
	if (!w)
		return;
	f->began[f->next_began] = now_ns;
	f->next_began = (f->next_began + 1) % CLOSEUPS_A_MINUTE;
	f->stats.closeups++;
	if (closeup_begin(f->closeup, w->pid, w->comm) != 0) {
		f->stats.no_closeup++;
		w->closeup_after_ns = now_ns + BACKOFF_MAX;
		return;
	}
	f->target = w;
	f->sample_count = 0;
	f->switches = w->pid ? switches_of(w->pid) : 0;
	f->closeup_began_ns = now_ns;
	f->has_begun = true;
	f->closeup_end_ns = now_ns + w->rule->closeup_ms * 1000000ull;
}

/* What one closeup shows is looked at by all rules that suspect its process. */
static void end_closeup(struct findings *f, uint64_t now_ns)
{
	const struct watched *target = f->target;
	bool is_brief = now_ns < f->closeup_end_ns;
	struct closeup_view view;

	closeup_end(f->closeup, &view);
	uint64_t switches = target->pid ? switches_of(target->pid) : 0;
	view.switches = switches > f->switches ? switches - f->switches : 0;
	f->target = NULL;
	f->closeup_end_ns = now_ns;
	for (size_t i = 0; i < f->count; i++) {
		struct watched *w = f->watched[i];
		bool is_same = w->pid == target->pid && w->start == target->start &&
			       strcmp(w->comm, target->comm) == 0 && w->rule->closeup_ms &&
			       w->rule->closeup_ms <= target->rule->closeup_ms;
		if (!is_same || !w->of || w->streak < w->rule->looks ||
		    (is_brief && w != target && !w->rule->brief))
			continue;
		if (find(f, w, &view)) {
			w->backoff_ns = 0;
			w->closeup_after_ns = now_ns + AGAIN_NS;
			continue;
		}
		w->is_found = false;
		w->backoff_ns = w->backoff_ns ? MIN(2 * w->backoff_ns, BACKOFF_MAX) : BACKOFF_NS;
		w->closeup_after_ns = now_ns + w->backoff_ns;
	}
}

/* Whether a closeup is over before its time. */
static bool has_seen_enough(const struct findings *f, uint64_t now_ns)
{
	uint64_t ms = (now_ns - f->closeup_began_ns) / 1000000;
	uint64_t calls = closeup_calls(f->closeup);

	if (ms < CLOSEUP_CUT_MS || f->target->rule->whole)
		return false;
	return calls > CLOSEUP_RATE * ms / 1000 ||
	       (f->target->rule->brief && calls >= CLOSEUP_ENOUGH);
}

unsigned findings_soon(struct findings *f)
{
	bool soon = f->has_begun;

	f->has_begun = false;
	return soon ? CLOSEUP_CUT_MS : 0;
}

void findings_tick(struct findings *f, uint64_t now_ns)
{
	if (f->target && (now_ns >= f->closeup_end_ns || has_seen_enough(f, now_ns)))
		end_closeup(f, now_ns);
	if (now_ns >= f->looks[f->making].began_ns + LOOK_MS * 1000000ull)
		look(f, now_ns);
	look_at_programs(f, now_ns);
	if (!f->target && !f->bpf.is_asked)
		begin_closeup(f, now_ns);
}

bool findings_take(struct findings *f, uint64_t wall_ms, struct window *ret)
{
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	uint32_t active = active_count(f);

	if (!active || (!f->is_news && now_ns < f->told_ns + TELL_NS))
		return false;
	f->is_news = false;
	f->told_ns = now_ns;
	*ret = (struct window){.start_ms = wall_ms, .length_ms = WINDOW_MS};
	snprintf(ret->type, sizeof(ret->type), "findings");
	snprintf(ret->unit, sizeof(ret->unit), "findings");
	ret->findings = mem_alloc_array(active, sizeof(*ret->findings));
	for (size_t i = 0; i < f->count; i++)
		if (f->watched[i]->is_found)
			ret->findings[ret->finding_count++] = f->watched[i]->finding;
	return true;
}

void findings_stats(const struct findings *f, struct findings_stats *ret)
{
	*ret = f->stats;
	ret->left_out = f->looks[0].left_out + f->looks[1].left_out;
}

const char *findings_kind(unsigned i)
{
	return finding_rules[i].kind;
}

unsigned findings_active(const struct findings *f, unsigned i)
{
	unsigned count = 0;

	for (size_t k = 0; k < f->count; k++)
		count += f->watched[k]->is_found && f->watched[k]->rule == &finding_rules[i];
	return count;
}

/* Findings that samples, and what the kernel says of the machine, are enough for. */
#include "pipeline/finding_rules.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "pipeline/finding_text.h"

/* Thresholds, in the order of docs/findings.md. */
#define FORKS_RATE    150  /* processes a second that one process starts */
#define QUEUE_PER_CPU 8.0  /* threads that run or want to, for each CPU: more than a build has */
#define THROTTLED     0.20 /* of a quota's periods, that were cut short */
#define MEMORY_STALLS 0.10 /* of the time, that some thread waited for memory */
#define PART_CPU      0.30 /* of a CPU that a process takes */
#define FAULT_PART    0.35 /* of its time, that is in page faults */
#define GC_PART       0.35
#define ALLOC_PART    0.40
#define SPIN_PART     0.20
#define SOFTIRQ_PART  0.40 /* of all that the machine does */
#define BPF_CPU       0.01 /* of a CPU that a BPF program takes */

static double share_of(const struct finding_case *c)
{
	return look_share(c->look, c->of->part.ns);
}

static double suspects_part(const struct finding_case *c, enum code_class class, double least)
{
	return share_of(c) >= PART_CPU && look_part_of(&c->of->part, class) >= least ? share_of(c)
										     : 0;
}

static uint32_t process_of(const struct finding_case *c)
{
	return c->of->hottest ? c->look->threads[c->of->hottest].process : 0;
}

static void put_stack(const struct finding_case *c, enum code_class class, bool whole,
		      struct finding *ret)
{
	const struct look_row *top = look_top(c->look, process_of(c), 0, class);

	if (top)
		finding_stack(c->dict, whole ? top->stack : top->code.caller, NULL, ret);
}

/* What all that are only about the share of some code say. */
static bool holds_part(const struct finding_case *c, enum code_class class, const char *words,
		       bool whole, struct finding *ret)
{
	double part = look_part_of(&c->of->part, class);
	char who[64], cpu[FINDING_NUMBER];

	finding_headline(ret, "%s spends %.0f %% of its time %s. That is %s.",
			 finding_who(c, who, sizeof(who)), 100 * part, words,
			 finding_cpu(part * share_of(c), cpu));
	finding_next(ret, "smolder record -p %u -f tree 5", c->of->pid);
	ret->sure = 0.8;
	finding_fact(ret, "part_of_its_time", part);
	finding_fact(ret, "cpu_share", share_of(c));
	put_stack(c, class, whole, ret);
	return true;
}

double suspects_faults(const struct finding_case *c)
{
	return suspects_part(c, CODE_FAULT, FAULT_PART);
}

bool holds_faults(const struct finding_case *c, struct finding *ret)
{
	holds_part(c, CODE_FAULT, "in page faults", false, ret);
	finding_next(ret, "smolder record -e page-faults -p %u -f tree 5", c->of->pid);
	return true;
}

double suspects_collector(const struct finding_case *c)
{
	return suspects_part(c, CODE_GC, GC_PART);
}

bool holds_collector(const struct finding_case *c, struct finding *ret)
{
	return holds_part(c, CODE_GC, "in its garbage collector", false, ret);
}

double suspects_allocator(const struct finding_case *c)
{
	return suspects_part(c, CODE_ALLOC, ALLOC_PART);
}

bool holds_allocator(const struct finding_case *c, struct finding *ret)
{
	return holds_part(c, CODE_ALLOC, "allocating and freeing memory", false, ret);
}

double suspects_spinning(const struct finding_case *c)
{
	return suspects_part(c, CODE_SPIN, SPIN_PART);
}

bool holds_spinning(const struct finding_case *c, struct finding *ret)
{
	return holds_part(c, CODE_SPIN, "spinning in the kernel for a lock that others hold", true,
			  ret);
}

/* ---- processes started at a high rate -------------------------------------------------------- */

static double fork_rate(const struct finding_case *c)
{
	uint64_t ns = c->look->ended_ns - c->look->began_ns;

	return ns ? (double)c->of->forks * 1e9 / (double)ns : 0;
}

double suspects_forks(const struct finding_case *c)
{
	return fork_rate(c) >= FORKS_RATE ? fork_rate(c) : 0;
}

bool holds_forks(const struct finding_case *c, struct finding *ret)
{
	char who[64], rate[FINDING_NUMBER], cpu[FINDING_NUMBER];

	finding_headline(ret,
			 "%s starts %s processes a second. It takes %s for that, without what they "
			 "do themselves.",
			 finding_who(c, who, sizeof(who)), finding_number(fork_rate(c), rate),
			 finding_cpu(share_of(c), cpu));
	finding_next(ret, "smolder trace -p %u -e execve", c->of->pid);
	ret->sure = 0.9;
	finding_fact(ret, "processes_per_second", fork_rate(c));
	finding_fact(ret, "cpu_share", share_of(c));
	put_stack(c, CODE_CALL, false, ret);
	return true;
}

/* ---- the machine ----------------------------------------------------------------------------- */

static const struct look_process *busiest(const struct finding_case *c, enum code_class class)
{
	const struct look_process *most = NULL;
	uint64_t ns = 0;

	for (uint32_t i = 1; i < c->look->name_count; i++) {
		const struct look_process *p = &c->look->names[i];
		uint64_t is = class == CODE_CLASSES ? p->part.ns : p->part.of[class];
		if (is > ns) {
			ns = is;
			most = p;
		}
	}
	return most;
}

double suspects_queue(const struct finding_case *c)
{
	return c->machine->running >= QUEUE_PER_CPU * c->machine->cpus
		       ? c->machine->running / c->machine->cpus
		       : 0;
}

bool holds_queue(const struct finding_case *c, struct finding *ret)
{
	const struct look_process *most = busiest(c, CODE_CLASSES);
	char cpu[FINDING_NUMBER];

	finding_headline(ret,
			 "%.0f threads want to run on %u CPUs: each waits for its turn most of the "
			 "time. %s takes the most, %s.",
			 c->machine->running, c->machine->cpus, most ? most->comm : "Nobody",
			 finding_cpu(most ? look_share(c->look, most->part.ns) : 0, cpu));
	finding_next(ret, "smolder offcpu -a 5");
	ret->sure = 0.7;
	finding_fact(ret, "runnable_threads", c->machine->running);
	finding_fact(ret, "cpus", c->machine->cpus);
	return true;
}

double suspects_memory(const struct finding_case *c)
{
	return c->machine->memory_stalls >= MEMORY_STALLS ? c->machine->memory_stalls : 0;
}

bool holds_memory(const struct finding_case *c, struct finding *ret)
{
	const struct look_process *most = busiest(c, CODE_RECLAIM);
	bool is_known = most && strcmp(most->comm, "kswapd0") != 0;
	char cpu[FINDING_NUMBER];

	finding_headline(ret,
			 "Memory is short: %.0f %% of the time some thread waited for memory to be "
			 "freed, and %s went into looking for it%s%s.",
			 100 * c->machine->memory_stalls,
			 finding_cpu(look_share(c->look, c->of->part.of[CODE_RECLAIM]), cpu),
			 is_known ? ", most of it in " : "", is_known ? most->comm : "");
	finding_next(ret, "smolder query cpu --from now-1m --callers shrink_node -f tree");
	ret->sure = 0.9;
	finding_fact(ret, "stalled_share", c->machine->memory_stalls);
	finding_fact(ret, "reclaim_cpu_share", look_share(c->look, c->of->part.of[CODE_RECLAIM]));
	put_stack(c, CODE_RECLAIM, true, ret);
	return true;
}

double suspects_softirq(const struct finding_case *c)
{
	return suspects_part(c, CODE_SOFTIRQ, SOFTIRQ_PART);
}

bool holds_softirq(const struct finding_case *c, struct finding *ret)
{
	char cpu[FINDING_NUMBER];

	finding_headline(ret,
			 "%.0f %% of all that this machine does is work that interrupts left to do "
			 "(packets, timers): %s.",
			 100 * look_part_of(&c->of->part, CODE_SOFTIRQ),
			 finding_cpu(look_share(c->look, c->of->part.of[CODE_SOFTIRQ]), cpu));
	finding_next(ret, "smolder query cpu --from now-1m --callees handle_softirqs -f tree");
	ret->sure = 0.7;
	finding_fact(ret, "part_of_all_cpu_time", look_part_of(&c->of->part, CODE_SOFTIRQ));
	put_stack(c, CODE_SOFTIRQ, true, ret);
	return true;
}

/* ---- a BPF program --------------------------------------------------------------------------- */

double suspects_bpf(const struct finding_case *c)
{
	return c->program->share >= BPF_CPU ? c->program->share : 0;
}

static bool is_in_program(const struct profile *dict, uint32_t stack, const char *symbol)
{
	for (uint32_t at = stack; at; at = dict->stacks[at].parent)
		if (strncmp(profile_str(dict, dict->frames[dict->stacks[at].frame].name), symbol,
			    strlen(symbol)) == 0)
			return true;
	return false;
}

/* Which code makes it run: where samples see it, and that is not where interrupts are off. */
static void put_program_stack(const struct finding_case *c, struct finding *ret)
{
	const struct look_row *top = NULL;
	char symbol[32];

	snprintf(symbol, sizeof(symbol), "bpf_prog_%s", c->program->tag);
	for (uint32_t i = 1; i < c->look->row_count; i++) {
		const struct look_row *r = &c->look->rows[i];
		if (r->code.classes & 1u << CODE_BPF && (!top || r->ns > top->ns) &&
		    is_in_program(c->dict, r->stack, symbol))
			top = r;
	}
	if (top)
		finding_stack(c->dict, top->stack, NULL, ret);
}

bool holds_bpf(const struct finding_case *c, struct finding *ret)
{
	const struct bpf_cost *p = c->program;
	char cpu[FINDING_NUMBER], rate[FINDING_NUMBER], time[FINDING_NUMBER], who[64] = "";

	if (c->of->comm[0])
		snprintf(who, sizeof(who), " of %s (pid %u)", c->of->comm, c->of->pid);
	finding_headline(ret,
			 "The BPF program %s%s takes %s: it runs %s times a second, for %s ns each "
			 "time.",
			 p->name[0] ? p->name : "without a name", who, finding_cpu(p->share, cpu),
			 finding_number(p->rate, rate), finding_number(p->run_ns, time));
	finding_next(ret, "smolder bpf %u", p->id);
	ret->sure = 0.95;
	finding_fact(ret, "program", p->id);
	finding_fact(ret, "cpu_share", p->share);
	finding_fact(ret, "runs_per_second", p->rate);
	finding_fact(ret, "ns_per_run", p->run_ns);
	put_program_stack(c, ret);
	return true;
}

/* ---- a quota --------------------------------------------------------------------------------- */

double suspects_throttled(const struct finding_case *c)
{
	const struct machine_group *g = machine_group(c->machine, c->of);

	return g && g->held_back >= THROTTLED ? g->held_back : 0;
}

bool holds_throttled(const struct finding_case *c, struct finding *ret)
{
	const struct machine_group *g = machine_group(c->machine, c->of);
	const char *name = strrchr(g->path, '/');
	char cpu[FINDING_NUMBER];

	finding_headline(
		ret,
		"The control group %s, in which %s runs, is held back by its CPU quota (%s) in "
		"%.0f %% of the periods.",
		name ? name + 1 : g->path, c->of->comm, finding_cpu(g->quota, cpu),
		100 * g->held_back);
	finding_next(ret, "smolder offcpu --cgroup %s 5", g->path);
	ret->sure = 0.95;
	finding_fact(ret, "throttled_share_of_periods", g->held_back);
	finding_fact(ret, "quota_cpus", g->quota);
	finding_fact(ret, "thread_seconds_lost", g->seconds);
	return true;
}

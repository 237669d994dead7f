#include "pipeline/latency.h"

#include <string.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/sort.h"

enum kind { RAN, WAITED, SAMPLED };

struct span {
	uint64_t from, to; /* SAMPLED: when, and what it is worth */
	uint32_t series, stack;
	uint32_t kind;
};

/* A thread of a process begins to run, or ends to. */
struct edge {
	uint64_t time; /* first: they are sorted by it */
	uint32_t process;
	int32_t delta;
};

/* From this time on so much of each moment counts, up to the next. */
struct step {
	uint64_t time;
	double weight; /* of a nanosecond */
	double sum;    /* of all before, since the first step */
};

struct process_steps { /* its steps */
	uint32_t first, count;
};

struct latency {
	struct profile *profile;
	enum latency_of of;
	struct span *spans;
	uint32_t count, cap, max;
	uint64_t refused;
	uint32_t *process_of; /* by series: an index of processes; the machine is one for all */
	struct process_steps *processes;
	uint32_t *pids; /* of them: strings of the profile */
	uint32_t process_count, pid_cap;
	struct index by_pid;
	struct step *steps;
};

struct latency *latency_new(struct profile *p, enum latency_of of, uint32_t max)
{
	struct latency *l = mem_alloc(sizeof(*l));

	l->profile = p;
	l->of = of;
	l->max = max ? max : LATENCY_MAX;
	l->process_count = 1; /* [0] is not used: index ids start at 1 */
	return l;
}

void latency_free(struct latency *l)
{
	if (!l)
		return;
	free(l->spans);
	free(l->process_of);
	free(l->processes);
	free(l->pids);
	free(l->steps);
	index_done(&l->by_pid);
	free(l);
}

/* ---- what is kept ---------------------------------------------------------------------------- */

static void keep(struct latency *l, const struct span *s)
{
	if (l->count >= l->max) {
		l->refused++;
		return;
	}
	MEM_GROW(l->spans, l->count, l->cap);
	l->spans[l->count++] = *s;
}

void latency_ran(struct latency *l, uint32_t series, uint64_t from, uint64_t to)
{
	keep(l, &(struct span){from, to, series, 0, RAN});
}

void latency_waited(void *ctx, uint32_t series, uint32_t stack, uint64_t from, uint64_t to)
{
	keep(ctx, &(struct span){from, to, series, stack, WAITED});
}

void latency_sample(struct latency *l, uint32_t series, uint32_t stack, uint64_t at, uint64_t value)
{
	keep(l, &(struct span){at, value, series, stack, SAMPLED});
}

uint64_t latency_refused(const struct latency *l)
{
	return l->refused;
}

/* ---- how many ran, and when ------------------------------------------------------------------ */

static uint32_t find_process(struct latency *l, uint32_t series)
{
	bool is_whole = l->of == LATENCY_OF_MACHINE;
	const char *pid = is_whole ? NULL : profile_label(l->profile, series, "pid");
	uint32_t string = pid ? profile_string(l->profile, pid, strlen(pid)) : 0;
	uint32_t hash = index_hash2(string, 0), id;

	INDEX_EACH(&l->by_pid, hash, id)
		if (l->pids[id] == string)
			return id;
	while (l->process_count >= l->pid_cap)
		MEM_GROW(l->pids, l->pid_cap, l->pid_cap);
	l->pids[l->process_count] = string;
	index_put(&l->by_pid, hash, l->process_count);
	return l->process_count++;
}

/* Of each series that there is. */
static void find_processes(struct latency *l)
{
	uint32_t count = l->profile->series_count;

	l->process_of = mem_alloc_array((size_t)count + 1, sizeof(*l->process_of));
	for (uint32_t i = 0; i < count; i++)
		l->process_of[i] = find_process(l, i);
}

/* All edges in order of time; the caller frees them. */
static struct edge *list_edges(const struct latency *l, uint32_t *ret_count)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < l->count; i++)
		count += l->spans[i].kind == RAN ? 2 : 0;
	struct edge *edges = mem_alloc_array((size_t)count + 1, sizeof(*edges));
	uint32_t at = 0;
	for (uint32_t i = 0; i < l->count; i++) {
		const struct span *s = &l->spans[i];
		if (s->kind != RAN)
			continue;
		edges[at++] = (struct edge){s->from, l->process_of[s->series], 1};
		edges[at++] = (struct edge){s->to, l->process_of[s->series], -1};
	}
	sort_by_u64(edges, count, sizeof(*edges));
	*ret_count = count;
	return edges;
}

static double weight_of(int64_t running)
{
	return running > 1 ? 1.0 / (double)running : 1.0;
}

/* Each process' steps in a row, in order of time. */
static void make_steps(struct latency *l)
{
	uint32_t count;
	CLEANUP(freep) struct edge *edges = list_edges(l, &count);
	CLEANUP(freep) int64_t *running = mem_alloc_array(l->process_count, sizeof(*running));

	l->processes = mem_alloc_array(l->process_count, sizeof(*l->processes));
	l->steps = mem_alloc_array((size_t)count + 1, sizeof(*l->steps));
	for (uint32_t i = 0; i < count; i++)
		l->processes[edges[i].process].count++;
	for (uint32_t i = 1; i < l->process_count; i++) {
		l->processes[i].first = l->processes[i - 1].first + l->processes[i - 1].count;
		l->processes[i - 1].count = 0;
	}
	l->processes[l->process_count - 1].count = 0;
	for (uint32_t i = 0; i < count; i++) {
		const struct edge *e = &edges[i];
		struct process_steps *p = &l->processes[e->process];
		struct step *s = &l->steps[p->first + p->count];
		const struct step *before = p->count ? s - 1 : NULL;
		running[e->process] += e->delta;
		*s = (struct step){.time = e->time, .weight = weight_of(running[e->process])};
		if (before)
			s->sum = before->sum + (double)(e->time - before->time) * before->weight;
		p->count++;
	}
}

/* The last step at that time or before it; NULL: none. */
static const struct step *step_at(const struct latency *l, uint32_t process, uint64_t time)
{
	const struct process_steps *p = &l->processes[process];
	uint32_t low = 0, high = p->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (l->steps[p->first + middle].time <= time)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &l->steps[p->first + low - 1] : NULL;
}

/* What all moments up to that one weigh, from the process' first step on: before it, less than 0.
 */
static double weight_until(const struct latency *l, uint32_t process, uint64_t time)
{
	const struct process_steps *p = &l->processes[process];
	const struct step *s = step_at(l, process, time);

	if (s)
		return s->sum + (double)(time - s->time) * s->weight;
	return p->count ? -(double)(l->steps[p->first].time - time) : (double)time;
}

/* ---- the sum --------------------------------------------------------------------------------- */

static double weigh(const struct latency *l, const struct span *s)
{
	uint32_t process = l->process_of[s->series];

	if (s->kind != SAMPLED)
		return weight_until(l, process, s->to) - weight_until(l, process, s->from);
	const struct step *step = step_at(l, process, s->from);
	return (double)s->to * (step ? step->weight : 1);
}

void latency_sum(struct latency *l)
{
	find_processes(l);
	make_steps(l);
	for (uint32_t i = 0; i < l->count; i++) {
		const struct span *s = &l->spans[i];
		double weight = weigh(l, s);
		profile_add(l->profile, s->series, s->stack, 1, (uint64_t)(weight + 0.5));
	}
	l->count = 0;
}

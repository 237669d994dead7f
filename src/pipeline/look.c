#include "pipeline/look.h"

#include <string.h>

#include "base/mem.h"

void look_begin(struct look *l, uint64_t now_ns)
{
	index_clear(&l->by_pid);
	index_clear(&l->by_tid);
	index_clear(&l->by_row);
	index_clear(&l->by_name);
	l->process_count = l->thread_count = l->row_count = l->name_count = 1;
	l->began_ns = l->ended_ns = now_ns;
	l->ns = 0;
	l->fork_count = 0;
	l->all = (struct look_process){};
}

void look_done(struct look *l)
{
	index_done(&l->by_pid);
	index_done(&l->by_tid);
	index_done(&l->by_row);
	index_done(&l->by_name);
	free(l->names);
	free(l->processes);
	free(l->threads);
	free(l->rows);
	*l = (struct look){};
}

static uint32_t process_of(struct look *l, const struct wire_event *e)
{
	uint32_t hash = index_hash2(e->pid, e->process_start), id;

	INDEX_EACH(&l->by_pid, hash, id)
		if (l->processes[id].pid == e->pid && l->processes[id].start == e->process_start)
			return id;
	while (l->process_count >= l->process_cap)
		MEM_GROW(l->processes, l->process_cap, l->process_cap);
	id = l->process_count++;
	struct look_process *p = &l->processes[id];
	*p = (struct look_process){.start = e->process_start, .pid = e->pid};
	index_put(&l->by_pid, hash, id);
	return id;
}

static uint32_t thread_of(struct look *l, const struct wire_event *e)
{
	uint32_t hash = index_hash2(e->tid, e->process_start ^ e->pid), id;

	INDEX_EACH(&l->by_tid, hash, id) {
		const struct look_process *p = &l->processes[l->threads[id].process];
		if (l->threads[id].tid == e->tid && p->pid == e->pid &&
		    p->start == e->process_start)
			return id;
	}
	if (l->thread_count >= LOOK_THREADS)
		return 0;
	uint32_t process = process_of(l, e);
	while (l->thread_count >= l->thread_cap)
		MEM_GROW(l->threads, l->thread_cap, l->thread_cap);
	id = l->thread_count++;
	struct look_thread *t = &l->threads[id];
	*t = (struct look_thread){.process = process, .tid = e->tid};
	index_put(&l->by_tid, hash, id);
	l->processes[process].threads++;
	return id;
}

static uint32_t row_of(struct look *l, uint32_t thread, uint32_t stack)
{
	uint32_t hash = index_hash2(thread, stack), id;

	INDEX_EACH(&l->by_row, hash, id)
		if (l->rows[id].thread == thread && l->rows[id].stack == stack)
			return id;
	if (l->row_count >= LOOK_ROWS)
		return 0;
	while (l->row_count >= l->row_cap)
		MEM_GROW(l->rows, l->row_cap, l->row_cap);
	id = l->row_count++;
	l->rows[id] = (struct look_row){.thread = thread, .stack = stack};
	index_put(&l->by_row, hash, id);
	return id;
}

void look_add(struct look *l, const struct assembled *a)
{
	const struct wire_event *e = a->event;
	uint32_t thread = thread_of(l, e), row = thread ? row_of(l, thread, a->stack) : 0;

	l->ns += e->value;
	if (!row) {
		l->left_out++;
		return;
	}
	/* The latest: a name may change, and a process its group. */
	struct look_thread *t = &l->threads[thread];
	struct look_process *p = &l->processes[t->process];
	memcpy(t->name, e->thread, WIRE_COMM);
	memcpy(p->comm, e->comm, WIRE_COMM);
	p->cgroup = e->cgroup;
	p->parent = a->process ? a->process->parent : 0;
	l->rows[row].samples++;
	l->rows[row].ns += e->value;
}

void look_fork(struct look *l, uint32_t parent)
{
	uint32_t i = 0;

	while (i < l->fork_count && l->forks[i].parent != parent)
		i++;
	if (i == LOOK_PARENTS)
		return;
	if (i == l->fork_count)
		l->forks[l->fork_count++] = (struct look_forks){parent, 0};
	l->forks[i].count++;
}

static void add_forks(struct look *l)
{
	for (uint32_t i = 1; i < l->process_count; i++)
		for (uint32_t k = 0; k < l->fork_count; k++)
			if (l->forks[k].parent == l->processes[i].pid)
				l->processes[i].forks = l->forks[k].count;
}

static void add_part(struct look_part *to, const struct look_row *r)
{
	to->ns += r->ns;
	to->samples += r->samples;
	for (unsigned i = 0; i < CODE_CLASSES; i++)
		if (r->code.classes & 1u << i)
			to->of[i] += r->ns;
}

static void add_name(struct look *l, const struct look_process *p)
{
	uint32_t hash = index_hash_bytes(p->comm, strlen(p->comm)), id;

	INDEX_EACH(&l->by_name, hash, id) {
		struct look_process *n = &l->names[id];
		if (strcmp(n->comm, p->comm) != 0)
			continue;
		n->pid = 0;
		n->start = 0;
		n->parent = n->parent == p->parent ? n->parent : 0;
		n->threads += p->threads;
		n->forks += p->forks;
		n->part.ns += p->part.ns;
		n->part.samples += p->part.samples;
		for (unsigned i = 0; i < CODE_CLASSES; i++)
			n->part.of[i] += p->part.of[i];
		return;
	}
	while (l->name_count >= l->name_cap)
		MEM_GROW(l->names, l->name_cap, l->name_cap);
	l->names[l->name_count] = *p;
	index_put(&l->by_name, hash, l->name_count++);
}

void look_end(struct look *l, uint64_t now_ns, struct code_classes *classes,
	      const struct profile *dict)
{
	l->ended_ns = now_ns;
	for (uint32_t i = 1; i < l->row_count; i++) {
		struct look_row *r = &l->rows[i];
		r->code = code_of(classes, dict, r->stack);
		struct look_thread *t = &l->threads[r->thread];
		add_part(&t->part, r);
		add_part(&l->processes[t->process].part, r);
		add_part(&l->all.part, r);
	}
	for (uint32_t i = 1; i < l->thread_count; i++) {
		struct look_process *p = &l->processes[l->threads[i].process];
		if (!p->hottest || l->threads[i].part.ns > l->threads[p->hottest].part.ns)
			p->hottest = i;
	}
	add_forks(l);
	for (uint32_t i = 1; i < l->process_count; i++)
		add_name(l, &l->processes[i]);
}

double look_part_of(const struct look_part *p, enum code_class class)
{
	return p->ns ? (double)p->of[class] / (double)p->ns : 0;
}

double look_share(const struct look *l, uint64_t ns)
{
	return l->ended_ns > l->began_ns ? (double)ns / (double)(l->ended_ns - l->began_ns) : 0;
}

/* Rows that have the same caller are one: what the kernel does in a call differs. */
static uint64_t sum_of_caller(const struct look_row *const *rows, size_t count, uint32_t caller)
{
	uint64_t ns = 0;

	for (size_t i = 0; i < count; i++)
		if (rows[i]->code.caller == caller)
			ns += rows[i]->ns;
	return ns;
}

const struct look_row *look_top(const struct look *l, uint32_t process, uint32_t tid,
				enum code_class class)
{
	enum { ROWS = 512 };
	const struct look_row *rows[ROWS], *top = NULL;
	size_t count = 0;
	uint64_t most = 0;

	for (uint32_t i = 1; i < l->row_count && count < ROWS; i++) {
		const struct look_row *r = &l->rows[i];
		const struct look_thread *t = &l->threads[r->thread];
		if ((!process || t->process == process) && (!tid || t->tid == tid) &&
		    (class == CODE_CLASSES || r->code.classes & 1u << class))
			rows[count++] = r;
	}
	for (size_t i = 0; i < count; i++) {
		uint64_t ns = sum_of_caller(rows, count, rows[i]->code.caller);
		if (ns > most) {
			most = ns;
			top = rows[i];
		}
	}
	return top;
}

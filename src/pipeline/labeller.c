#include "pipeline/labeller.h"

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "process/container.h"

#define THREADS_MAX 4096 /* a fifth of the series that a day of the store has */

struct thread { /* one that is a series of its own */
	uint64_t start;
	uint32_t pid, tid;
};

struct labeller {
	struct profile *dict;
	struct labeller_options options;
	uint32_t host;
	struct thread *threads; /* of this day; [0] is not used */
	uint32_t thread_count, thread_cap;
	struct index by_thread;
	uint64_t day;
	uint64_t folded;
};

static uint32_t intern(struct labeller *l, const char *s)
{
	return profile_string(l->dict, s, strlen(s));
}

struct labeller *labeller_new(struct profile *dict, const struct labeller_options *o)
{
	struct labeller *l = mem_alloc(sizeof(*l));

	l->dict = dict;
	l->options = *o;
	l->options.threads_max = o->threads_max ? o->threads_max : THREADS_MAX;
	l->thread_count = 1;
	l->host = intern(l, o->host);
	return l;
}

void labeller_free(struct labeller *l)
{
	if (!l)
		return;
	free(l->threads);
	index_done(&l->by_thread);
	free(l);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A first word of a letter and a digit is a name, not a number: "C1 CompilerThre", "G1 Conc#0". */
static size_t first_name(const char name[static WIRE_COMM])
{
	char letter = (char)(name[0] | 0x20);

	return letter >= 'a' && letter <= 'z' && is_digit(name[1]) && name[2] == ' ' && name[3] ? 2
												: 0;
}

static void fold_digits(const char name[static WIRE_COMM], char ret[static WIRE_COMM])
{
	size_t n = 0, kept = first_name(name);

	for (size_t i = 0; i < WIRE_COMM - 1 && name[i]; i++)
		if (i < kept || !is_digit(name[i]))
			ret[n++] = name[i];
		else if (n == 0 || ret[n - 1] != '#')
			ret[n++] = '#';
	memset(ret + n, 0, WIRE_COMM - n);
}

static bool wants_threads(const struct labeller *l, const char *comm)
{
	for (const char *const *name = l->options.threads; name && *name; name++)
		if (strncmp(*name, comm, WIRE_COMM - 1) == 0)
			return true;
	return l->options.every_thread;
}

/* Whether a thread is one of those of the day that are series of their own; a new one is made so.
 */
static bool is_own_series(struct labeller *l, const struct wire_event *s, uint64_t wall_ms)
{
	uint32_t hash = index_hash2(s->pid ^ (uint32_t)s->process_start, s->tid), id;
	uint64_t day = wall_ms / DAY_MS;

	if (day != l->day) {
		l->day = day;
		l->thread_count = 1;
		index_clear(&l->by_thread);
	}
	INDEX_EACH(&l->by_thread, hash, id)
		if (l->threads[id].start == s->process_start && l->threads[id].pid == s->pid &&
		    l->threads[id].tid == s->tid)
			return true;
	if (l->thread_count > l->options.threads_max) {
		l->folded++;
		return false;
	}
	while (l->thread_count >= l->thread_cap)
		MEM_GROW(l->threads, l->thread_cap, l->thread_cap);
	l->threads[l->thread_count] = (struct thread){s->process_start, s->pid, s->tid};
	index_put(&l->by_thread, hash, l->thread_count++);
	return true;
}

void labeller_owner(struct labeller *l, const struct wire_event *s, uint64_t wall_ms,
		    struct owner *ret)
{
	*ret = (struct owner){.start = s->process_start, .cgroup = s->cgroup, .pid = s->pid};
	memcpy(ret->comm, s->comm, strnlen(s->comm, WIRE_COMM - 1));
	if (wants_threads(l, ret->comm) && is_own_series(l, s, wall_ms)) {
		ret->tid = s->tid;
		memcpy(ret->thread, s->thread, strnlen(s->thread, WIRE_COMM - 1));
	} else if (memcmp(s->comm, s->thread, WIRE_COMM) != 0) {
		fold_digits(s->thread, ret->thread);
	}
}

/* The program's file: it is mapped below the libraries. */
static uint32_t find_exe(struct labeller *l, const struct processes *ps, const struct maps *maps)
{
	for (size_t i = 0; maps && i < maps->count; i++) {
		const char *path = process_path(ps, &maps->list[i]);
		if (path[0] == '/' && path[1] != '/')
			return intern(l, path);
	}
	return 0;
}

void labeller_complete(struct labeller *l, const struct processes *ps, const struct assembled *a,
		       struct owner *o)
{
	o->is_kernel = !a->process;
	o->exe = find_exe(l, ps, a->maps);
	if (o->cgroup && l->options.cgroups) /* now: it may be gone when the window ends */
		cgroups_path(l->options.cgroups, o->cgroup);
}

static void put_label(struct labeller *l, struct label *labels, size_t *count, const char *key,
		      const char *value)
{
	if (value[0])
		labels[(*count)++] = (struct label){intern(l, key), intern(l, value)};
}

uint32_t labeller_other(struct labeller *l)
{
	struct label labels[2] = {{intern(l, "host"), l->host}};
	size_t n = 1;

	put_label(l, labels, &n, "comm", "(other)");
	return profile_series(l->dict, labels, n);
}

uint32_t labeller_series(struct labeller *l, const struct processes *ps, const struct owner *o,
			 bool is_old)
{
	struct label labels[12];
	struct container c = {};
	size_t n = 0;

	labels[n++] = (struct label){intern(l, "host"), l->host};
	put_label(l, labels, &n, "comm", o->comm);
	put_label(l, labels, &n, "thread", o->thread);
	if (o->state)
		labels[n++] = (struct label){intern(l, "state"), o->state};
	if (o->reason)
		labels[n++] = (struct label){intern(l, "reason"), o->reason};
	if (o->exe)
		labels[n++] = (struct label){intern(l, "exe"), o->exe};
	if (o->cgroup && l->options.cgroups)
		container_of_cgroup(cgroups_path(l->options.cgroups, o->cgroup), &c);
	put_label(l, labels, &n, "container", c.container);
	put_label(l, labels, &n, "pod", c.pod);
	put_label(l, labels, &n, "unit", c.unit);
	if (is_old || o->is_kernel || processes_is_alive(ps, o->pid, o->start)) {
		char id[16];
		snprintf(id, sizeof(id), "%u", o->pid);
		put_label(l, labels, &n, "pid", id);
		snprintf(id, sizeof(id), "%u", o->tid);
		if (o->tid)
			put_label(l, labels, &n, "tid", id);
	}
	return profile_series(l->dict, labels, n);
}

uint64_t labeller_folded(const struct labeller *l)
{
	return l->folded;
}

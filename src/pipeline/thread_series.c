#include "pipeline/thread_series.h"

#include "base/index.h"
#include "base/mem.h"

struct thread {
	uint32_t pid, tid;
	struct thread_labels more;
	char comm[WIRE_COMM], thread[WIRE_COMM];
	uint32_t series; /* not part of the key */
};

#define KEY_BYTES offsetof(struct thread, series)

struct thread_series {
	struct profile *profile;
	struct thread *threads; /* [0] is not used: index ids start at 1 */
	uint32_t count, cap;
	struct index by_thread;
	uint32_t key_comm, key_pid, key_thread, key_tid;
	uint32_t key_more[THREAD_SERIES_MORE];
};

static uint32_t intern(struct thread_series *t, const char *s)
{
	return profile_string(t->profile, s, strlen(s));
}

struct thread_series *thread_series_new(struct profile *p, const char *const *more)
{
	struct thread_series *t = mem_alloc(sizeof(*t));

	t->profile = p;
	t->count = 1;
	t->key_comm = intern(t, "comm");
	t->key_pid = intern(t, "pid");
	t->key_thread = intern(t, "thread");
	t->key_tid = intern(t, "tid");
	for (size_t i = 0; i < THREAD_SERIES_MORE && more[i]; i++)
		t->key_more[i] = intern(t, more[i]);
	return t;
}

void thread_series_free(struct thread_series *t)
{
	if (!t)
		return;
	free(t->threads);
	index_done(&t->by_thread);
	free(t);
}

static uint32_t put_number(struct thread_series *t, uint32_t n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	return intern(t, text);
}

static uint32_t make_series(struct thread_series *t, const struct thread *who)
{
	struct label labels[4 + THREAD_SERIES_MORE] = {
		{t->key_comm, profile_string(t->profile, who->comm, strnlen(who->comm, WIRE_COMM))},
		{t->key_pid, put_number(t, who->pid)},
		{t->key_thread,
		 profile_string(t->profile, who->thread, strnlen(who->thread, WIRE_COMM))},
		{t->key_tid, put_number(t, who->tid)},
	};
	size_t count = 4;

	for (size_t i = 0; i < THREAD_SERIES_MORE; i++)
		if (who->more.values[i])
			labels[count++] = (struct label){t->key_more[i], who->more.values[i]};
	return profile_series(t->profile, labels, count);
}

uint32_t thread_series_of(struct thread_series *t, const struct wire_event *e,
			  const struct thread_labels *more)
{
	struct thread who = {.pid = e->pid, .tid = e->tid, .more = *more};
	uint32_t id;

	memcpy(who.comm, e->comm, WIRE_COMM);
	memcpy(who.thread, e->thread, WIRE_COMM);
	uint32_t hash = index_hash_bytes(&who, KEY_BYTES);
	INDEX_EACH(&t->by_thread, hash, id)
		if (memcmp(&t->threads[id], &who, KEY_BYTES) == 0)
			return t->threads[id].series;

	who.series = make_series(t, &who);
	MEM_GROW(t->threads, t->count, t->cap);
	id = t->count++;
	t->threads[id] = who;
	index_put(&t->by_thread, hash, id);
	return who.series;
}

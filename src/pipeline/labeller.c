#include "pipeline/labeller.h"

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "profile/entries.h"

#define THREADS_MAX 4096 /* a fifth of the series that a day of the store has */
#define CHANGED_MAX 16384
#define BUILD_BYTES 6 /* of a build id */

enum key { HOST, COMM, THREAD, STATE, REASON, EXE, SERVICE, VERSION, PID, TID, KEYS };

static const char *const key_names[KEYS] = {"host", "comm",    "thread",  "state", "reason",
					    "exe",  "service", "version", "pid",   "tid"};

struct making { /* a series' labels so far */
	struct label labels[ENTRIES_LABELS_MAX];
	size_t count;
};

struct changed { /* what the rules make of a set of labels */
	struct label *labels;
	size_t count;
	uint32_t series;
};

struct group { /* a control group whose labels are known */
	uint64_t cgroup;
	uint32_t place, revision;
	bool lacks_pod;
};

struct thread { /* one that is a series of its own */
	uint64_t start;
	uint32_t pid, tid;
};

struct labeller {
	struct profile *dict;
	struct labeller_options options;
	uint32_t keys[KEYS], host; /* strings of the dictionary */
	struct group *groups;      /* [0] is not used */
	uint32_t group_count, group_cap;
	struct index by_group;
	struct changed *changed; /* [0] is not used */
	uint32_t changed_count, changed_cap;
	struct index by_labels;
	struct relabel_labels work;
	uint32_t dropped;       /* series; 0: there are no rules */
	bool drops_early;       /* what may be dropped does not depend on what is known late */
	bool context_decides;   /* … but on what a process says of itself */
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

static uint32_t marked_series(struct labeller *l, const char *comm)
{
	struct label labels[] = {{l->keys[HOST], l->host}, {l->keys[COMM], intern(l, comm)}};

	return profile_series(l->dict, labels, ARRAY_SIZE(labels));
}

static void begin_rules(struct labeller *l)
{
	static const enum key late[] = {STATE, REASON, PID, TID};
	static const char *const said[] = {"service", "version", "environment"};
	const struct series_rules *rules = l->options.rules;

	l->dropped = marked_series(l, "(dropped)");
	l->changed_count = 1;
	l->drops_early = series_rules_may_drop(rules);
	for (size_t i = 0; i < ARRAY_SIZE(late); i++)
		l->drops_early &= !series_rules_reads(rules, key_names[late[i]]);
	for (size_t i = 0; i < ARRAY_SIZE(said); i++)
		l->context_decides |= series_rules_reads(rules, said[i]);
}

static void forget_changed(struct labeller *l)
{
	for (uint32_t i = 1; i < l->changed_count; i++)
		free(l->changed[i].labels);
	l->changed_count = 1;
	index_clear(&l->by_labels);
}

struct labeller *labeller_new(struct profile *dict, const struct labeller_options *o)
{
	struct labeller *l = mem_alloc(sizeof(*l));

	l->dict = dict;
	l->options = *o;
	l->options.threads_max = o->threads_max ? o->threads_max : THREADS_MAX;
	l->thread_count = l->group_count = 1;
	for (int i = 0; i < KEYS; i++)
		l->keys[i] = intern(l, key_names[i]);
	l->host = intern(l, o->host);
	if (o->rules)
		begin_rules(l);
	return l;
}

void labeller_free(struct labeller *l)
{
	if (!l)
		return;
	forget_changed(l);
	relabel_labels_done(&l->work);
	free(l->changed);
	index_done(&l->by_labels);
	free(l->threads);
	free(l->groups);
	index_done(&l->by_thread);
	index_done(&l->by_group);
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
static struct mapping *find_exe(const struct processes *ps, const struct maps *maps)
{
	for (size_t i = 0; maps && i < maps->count; i++) {
		const char *path = process_path(ps, &maps->list[i]);
		if (path[0] == '/' && path[1] != '/')
			return &maps->list[i];
	}
	return NULL;
}

/* The build id of a program: its first digits are enough to tell builds apart. */
static uint32_t build_of(struct labeller *l, struct processes *ps, const struct process *p,
			 struct mapping *m)
{
	char text[2 * BUILD_BYTES + 1];
	uint32_t id = process_file(ps, p, m);

	if (!id)
		return 0;
	const struct mapped_file *f = mapped_files_get(processes_mapped_files(ps), id);
	if (f->build_id_len < BUILD_BYTES)
		return 0;
	for (size_t i = 0; i < BUILD_BYTES; i++)
		snprintf(text + 2 * i, 3, "%02x", f->build_id[i]);
	return intern(l, text);
}

static void put_label(struct labeller *l, struct label *labels, size_t *count, const char *key,
		      const char *value)
{
	if (value[0])
		labels[(*count)++] = (struct label){intern(l, key), intern(l, value)};
}

static uint32_t make_place(struct labeller *l, const struct place *p)
{
	const struct {
		const char *key, *value;
	} known[] = {
		{"container", p->container},
		{"container_id", p->container_id},
		{"runtime", p->runtime},
		{"pod", p->pod},
		{"pod_uid", p->pod_uid},
		{"namespace", p->namespace},
		{"qos", p->qos},
		{"unit", p->unit},
		{"slice", p->slice},
		{"user", p->user},
		{"service", p->service},
		{"version", p->version},
	};
	struct label labels[ARRAY_SIZE(known) + POD_LABELS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		put_label(l, labels, &n, known[i].key, known[i].value);
	for (uint32_t i = 0; i < p->label_count; i++)
		put_label(l, labels, &n, p->labels[i].key, p->labels[i].value);
	return n ? profile_series(l->dict, labels, n) : 0;
}

/* The labels of what a process says of itself; 0: none. */
static uint32_t make_said(struct labeller *l, const struct context_payload *says)
{
	struct label labels[3];
	size_t n = 0;

	put_label(l, labels, &n, "service", says->service);
	put_label(l, labels, &n, "version", says->version);
	put_label(l, labels, &n, "environment", says->environment);
	return n ? profile_series(l->dict, labels, n) : 0;
}

/* The labels of a control group, which are made once, and again when its pod is known. */
static uint32_t place_of(struct labeller *l, uint64_t cgroup)
{
	const struct place *p = places_get(l->options.places, cgroup);
	uint32_t hash = index_hash2(cgroup, 0), at;

	INDEX_EACH(&l->by_group, hash, at) {
		struct group *g = &l->groups[at];
		if (g->cgroup != cgroup)
			continue;
		if (g->lacks_pod && g->revision != p->revision)
			*g = (struct group){cgroup, make_place(l, p), p->revision, p->lacks_pod};
		return g->place;
	}
	if (l->group_count > PLACES_KNOWN) {
		l->group_count = 1;
		index_clear(&l->by_group);
	}
	while (l->group_count >= l->group_cap)
		MEM_GROW(l->groups, l->group_cap, l->group_cap);
	at = l->group_count++;
	l->groups[at] = (struct group){cgroup, make_place(l, p), p->revision, p->lacks_pod};
	index_put(&l->by_group, hash, at);
	return l->groups[at].place;
}

uint32_t labeller_other(struct labeller *l)
{
	return marked_series(l, "(other)");
}

uint32_t labeller_dropped(struct labeller *l)
{
	return l->dropped;
}

static void add(struct making *m, uint32_t key, uint32_t value)
{
	if (value)
		m->labels[m->count++] = (struct label){key, value};
}

static bool has(const struct making *m, uint32_t key)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->labels[i].key == key)
			return true;
	return false;
}

static void add_number(struct labeller *l, struct making *m, uint32_t key, uint32_t number)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", number);
	add(m, key, intern(l, text));
}

/* What follows from an owner alone. */
static void add_labels(struct labeller *l, const struct owner *o, struct making *m)
{
	const uint32_t *key = l->keys;
	const struct series *says = o->says ? &l->dict->series[o->says] : NULL;
	const struct series *place = o->place ? &l->dict->series[o->place] : NULL;

	for (uint32_t i = 0; says && i < says->count; i++)
		m->labels[m->count++] = says->labels[i];
	for (uint32_t i = 0; place && i < place->count; i++)
		if (!has(m, place->labels[i].key))
			m->labels[m->count++] = place->labels[i];
	add(m, key[HOST], l->host);
	uint32_t comm = intern(l, o->comm);
	add(m, key[COMM], comm);
	if (o->thread[0])
		add(m, key[THREAD], intern(l, o->thread));
	add(m, key[STATE], o->state);
	add(m, key[REASON], o->reason);
	add(m, key[EXE], o->exe);
	if (!has(m, key[SERVICE]))
		add(m, key[SERVICE], comm);
	if (!has(m, key[VERSION]))
		add(m, key[VERSION], o->version);
}

static uint32_t apply_rules(struct labeller *l, const struct making *m)
{
	struct relabel_labels *work = &l->work;
	struct making changed = {};

	relabel_labels_clear(work);
	for (size_t i = 0; i < m->count; i++)
		relabel_labels_set(work, profile_str(l->dict, m->labels[i].key),
				   profile_str(l->dict, m->labels[i].value));
	if (!series_rules_apply(l->options.rules, l->options.type, work))
		return l->dropped;
	for (size_t i = 0; i < work->count; i++)
		add(&changed, intern(l, work->list[i].name), intern(l, work->list[i].value));
	return profile_series(l->dict, changed.labels, changed.count);
}

/* The series of these labels as the rules have it; each set of labels goes through them once. */
static uint32_t changed_series(struct labeller *l, const struct making *m)
{
	size_t bytes = m->count * sizeof(m->labels[0]);
	uint32_t hash = index_hash_bytes(m->labels, bytes), at;

	INDEX_EACH(&l->by_labels, hash, at)
		if (l->changed[at].count == m->count &&
		    memcmp(l->changed[at].labels, m->labels, bytes) == 0)
			return l->changed[at].series;
	if (l->changed_count > CHANGED_MAX)
		forget_changed(l);
	while (l->changed_count >= l->changed_cap)
		MEM_GROW(l->changed, l->changed_cap, l->changed_cap);
	at = l->changed_count++;
	l->changed[at] = (struct changed){mem_dup(m->labels, bytes), m->count, apply_rules(l, m)};
	index_put(&l->by_labels, hash, at);
	return l->changed[at].series;
}

void labeller_complete(struct labeller *l, struct processes *ps, const struct assembled *a,
		       struct owner *o)
{
	/* Of a process at its end a sample has neither process nor mappings: what was known before
	 * is true. */
	const struct process *p = a->process ? a->process : processes_peek(ps, o->pid, o->start);
	struct mapping *exe = find_exe(ps, a->maps ? a->maps : p ? p->maps : NULL);

	o->is_kernel = a->event->flags & WIRE_KTHREAD;
	if (exe) {
		o->exe = intern(l, process_path(ps, exe));
		o->version = p ? build_of(l, ps, p, exe) : 0;
	}
	if (o->cgroup && l->options.places)
		o->place = place_of(l, o->cgroup);
	o->lacks_pod = o->place && places_get(l->options.places, o->cgroup)->lacks_pod;
	labeller_sample(l, a, o);
	bool may_say = l->context_decides && a->process && !context_is_settled(a->process);
	if (l->drops_early && !may_say && !(o->lacks_pod && l->options.expects_pods)) {
		struct making m = {};
		add_labels(l, o, &m);
		o->is_dropped = changed_series(l, &m) == l->dropped;
	}
}

/* What a process says of itself, if that has changed. */
static void take_said(struct labeller *l, const struct process *p, struct owner *o)
{
	const struct process_context *c = p ? context_of(p) : NULL;

	/* A process at its end may have no context any more: what it said was true before. */
	if (!c || c->revision == o->context)
		return;
	o->context = c->revision;
	o->says = make_said(l, &c->says);
}

void labeller_sample(struct labeller *l, const struct assembled *a, struct owner *o)
{
	take_said(l, a->process, o);
}

uint32_t labeller_series(struct labeller *l, const struct processes *ps, const struct owner *o,
			 bool is_old)
{
	struct making m = {};

	if (o->is_dropped)
		return l->dropped;
	struct owner who = *o;
	take_said(l, processes_peek(ps, o->pid, o->start), &who);
	if (o->lacks_pod) /* meanwhile it may be known */
		who.place = place_of(l, o->cgroup);
	add_labels(l, &who, &m);
	if (is_old || o->is_kernel || processes_is_alive(ps, o->pid, o->start)) {
		add_number(l, &m, l->keys[PID], o->pid);
		if (o->tid)
			add_number(l, &m, l->keys[TID], o->tid);
	}
	return l->options.rules ? changed_series(l, &m)
				: profile_series(l->dict, m.labels, m.count);
}

uint64_t labeller_folded(const struct labeller *l)
{
	return l->folded;
}

#include "query/top_view.h"

#include <stdio.h>
#include <string.h>

#include "base/index.h"
#include "base/text.h"
#include "query/top_hot.h"

#define NO_CONTAINER "(none)"
#define LEAST        0.05 /* %: what would be shown as 0.0 is left out */

const char *const top_by_names[TOP_BYS] = {
	[TOP_BY_PROCESS] = "process",
	[TOP_BY_THREAD] = "thread",
	[TOP_BY_CONTAINER] = "container",
};

const char *const top_sort_names[TOP_SORTS] = {
	[TOP_SORT_ID] = "pid",          [TOP_SORT_CPU] = "cpu",   [TOP_SORT_RUNNABLE] = "runnable",
	[TOP_SORT_BLOCKED] = "blocked", [TOP_SORT_IDLE] = "idle", [TOP_SORT_SWITCHES] = "switches",
	[TOP_SORT_THREADS] = "threads", [TOP_SORT_NAME] = "name",
};

/* ---- an interval ----------------------------------------------------------------------------- */

void top_interval_done(struct top_interval *i)
{
	arena_done(&i->names);
	free(i->accounts);
	free(i->samples);
	free(i->findings);
	*i = (struct top_interval){};
}

void top_interval_find(struct top_interval *i, const struct finding *list, uint32_t count)
{
	uint64_t end_ms = i->end_ns / 1000000;

	i->finding_count = 0;
	free(i->findings);
	i->findings = mem_alloc_array((size_t)count + 1, sizeof(*list));
	for (uint32_t k = 0; k < count; k++)
		if (finding_is_active(&list[k], end_ms))
			i->findings[i->finding_count++] = list[k];
	qsort(i->findings, i->finding_count, sizeof(*list), finding_order);
}

static const char *keep(struct top_interval *i, const char *name)
{
	char clean[TEXT_MAX + 1];

	return *name ? arena_strndup(&i->names, clean, text_clean(name, strlen(name), clean)) : "";
}

void top_interval_add(struct top_interval *i, const struct top_account *a)
{
	MEM_GROW(i->accounts, i->account_count, i->account_cap);
	struct top_account *to = &i->accounts[i->account_count++];

	*to = *a;
	to->comm = keep(i, a->comm);
	to->thread = keep(i, a->thread);
	to->container = keep(i, a->container);
	to->host = keep(i, a->host);
}

/* ---- rows ------------------------------------------------------------------------------------ */

struct making {
	struct top_view *view;
	const struct top_interval *interval;
	struct index by_key;
	struct index accounts; /* number + 1 of each in the interval, by account_key() */
	uint32_t *row_of;      /* by series: row + 1; 0: none yet */
	bool *is_accounted;    /* by series: it is in an account, which knows better */
};

static double add(double a, double b)
{
	return b < 0 ? a : a < 0 ? b : a + b;
}

static struct top_key key_of(enum top_by by, const struct top_account *a)
{
	struct top_key k = {};

	snprintf(k.name, sizeof(k.name), "%s", a->host);
	if (by == TOP_BY_CONTAINER)
		snprintf(k.name, sizeof(k.name), "%s", *a->container ? a->container : NO_CONTAINER);
	else if (by == TOP_BY_THREAD && a->tid)
		k.id = a->tid;
	else if (by == TOP_BY_THREAD) /* where threads are not told apart, those by one name */
		snprintf(k.name, sizeof(k.name), "%u %.31s %.31s", a->pid, a->comm, a->thread);
	else if (a->pid)
		k.id = a->pid;
	else
		snprintf(k.name, sizeof(k.name), "%s", a->comm);
	return k;
}

static bool same_key(const struct top_key *a, const struct top_key *b)
{
	return a->id == b->id && strcmp(a->name, b->name) == 0;
}

static uint32_t new_row(struct making *m, const struct top_key *key, const struct top_account *a)
{
	struct top_view *v = m->view;
	enum top_by by = v->options.by;

	MEM_GROW(v->rows, v->row_count, v->row_cap);
	struct top_row *r = &v->rows[v->row_count];
	*r = (struct top_row){
		.key = *key,
		.pid = by == TOP_BY_CONTAINER ? 0 : a->pid,
		.tid = by == TOP_BY_THREAD ? a->tid : 0,
		.comm = by == TOP_BY_CONTAINER ? "" : a->comm,
		.container = *a->container ? a->container : NO_CONTAINER,
		.host = a->host,
		.cpu = TOP_UNKNOWN,
		.runnable = TOP_UNKNOWN,
		.blocked = TOP_UNKNOWN,
		.idle = TOP_UNKNOWN,
		.switches = TOP_UNKNOWN,
	};
	r->name = by == TOP_BY_CONTAINER              ? r->container
		  : by == TOP_BY_THREAD && *a->thread ? a->thread
						      : a->comm;
	return v->row_count++;
}

static uint32_t key_hash(const struct top_key *k)
{
	return index_hash2(k->id, index_hash_bytes(k->name, strlen(k->name)));
}

static uint32_t row_for(struct making *m, const struct top_account *a)
{
	struct top_key key = key_of(m->view->options.by, a);
	uint32_t hash = key_hash(&key), id;

	INDEX_EACH(&m->by_key, hash, id)
		if (same_key(&m->view->rows[id - 1].key, &key))
			return id - 1;
	uint32_t row = new_row(m, &key, a);
	index_put(&m->by_key, hash, row + 1);
	return row;
}

/* As ns, and numbers, until all of them were added. */
static void add_account(struct top_row *r, const struct top_account *a)
{
	r->cpu = add(r->cpu, a->ran);
	r->runnable = add(r->runnable, a->runnable);
	r->blocked = add(r->blocked, a->blocked);
	r->idle = add(r->idle, a->idle);
	r->switches = add(r->switches, a->switches);
	r->threads += a->threads;
}

static uint32_t label_number(const struct profile *p, uint32_t series, const char *key)
{
	const char *text = profile_label(p, series, key);

	return text ? (uint32_t)strtoul(text, NULL, 10) : 0;
}

static const char *label_text(const struct profile *p, uint32_t series, const char *key)
{
	const char *text = profile_label(p, series, key);

	return text ? text : "";
}

/* Whose samples of a series are. */
static struct top_account owner_of(const struct profile *p, uint32_t series)
{
	struct top_account a = {
		.pid = label_number(p, series, "pid"),
		.tid = label_number(p, series, "tid"),
		.comm = label_text(p, series, "comm"),
		.thread = label_text(p, series, "thread"),
		.container = label_text(p, series, "container"),
		.host = label_text(p, series, "host"),
	};

	if (!*a.container)
		a.container = label_text(p, series, "unit");
	return a;
}

/* The account of a process has all that its threads ran, also of those that have ended. */
static struct top_key account_key(const struct making *m, const struct top_account *a)
{
	bool is_thread = m->view->options.by == TOP_BY_THREAD;

	return key_of(is_thread ? TOP_BY_THREAD : TOP_BY_PROCESS, a);
}

static bool has_account(const struct making *m, const struct top_account *a)
{
	struct top_key key = account_key(m, a);
	uint32_t id;

	INDEX_EACH(&m->accounts, key_hash(&key), id) {
		struct top_key of = account_key(m, &m->interval->accounts[id - 1]);
		if (same_key(&of, &key))
			return true;
	}
	return false;
}

/* What samples say of those that have no account: they have ended since. */
static void add_sample(struct making *m, const struct sample *s)
{
	const struct profile *p = m->interval->of;

	if (!m->row_of[s->series]) {
		struct top_account a = owner_of(p, s->series);
		m->row_of[s->series] = row_for(m, &a) + 1;
		m->is_accounted[s->series] = has_account(m, &a);
	}
	struct top_row *r = &m->view->rows[m->row_of[s->series] - 1];
	const char *state = profile_label(p, s->series, "state");
	if (m->is_accounted[s->series])
		return;
	double *to = !state                           ? &r->cpu
		     : strcmp(state, "runnable") == 0 ? &r->runnable
		     : strcmp(state, "idle") == 0     ? &r->idle
						      : &r->blocked;
	*to = add(*to, (double)s->value);
}

static void scale(struct top_row *r, double seconds)
{
	double *times[] = {&r->cpu, &r->runnable, &r->blocked, &r->idle};

	for (size_t i = 0; i < ARRAY_SIZE(times); i++)
		if (*times[i] >= 0)
			*times[i] *= seconds > 0 ? 100 / (seconds * 1e9) : 0;
	if (r->switches >= 0)
		r->switches /= seconds > 0 ? seconds : 1;
}

static void add_row(struct top_row *sum, const struct top_row *r)
{
	sum->cpu = add(sum->cpu, r->cpu);
	sum->runnable = add(sum->runnable, r->runnable);
	sum->blocked = add(sum->blocked, r->blocked);
	sum->idle = add(sum->idle, r->idle);
	sum->switches = add(sum->switches, r->switches);
	sum->threads += r->threads;
}

static void make_rows(struct making *m)
{
	struct top_view *v = m->view;
	const struct top_interval *i = m->interval;

	for (uint32_t n = 0; n < i->account_count; n++) {
		const struct top_account *a = &i->accounts[n];
		struct top_key key = account_key(m, a);
		index_put(&m->accounts, key_hash(&key), n + 1);
		uint32_t row = row_for(m, a); /* which may move the rows */
		add_account(&v->rows[row], a);
	}
	for (uint32_t n = 0; i->of && !i->only_accounts && n < i->sample_count; n++)
		add_sample(m, &i->samples[n]);
	v->sum = (struct top_row){
		.cpu = TOP_UNKNOWN,
		.runnable = TOP_UNKNOWN,
		.blocked = TOP_UNKNOWN,
		.idle = TOP_UNKNOWN,
		.switches = TOP_UNKNOWN,
	};
	for (uint32_t n = 0; n < v->row_count; n++) {
		scale(&v->rows[n], i->seconds);
		add_row(&v->sum, &v->rows[n]);
		v->many_hosts |= strcmp(v->rows[n].host, v->rows[0].host) != 0;
	}
	v->all_count = v->row_count;
}

/* ---- which of them, in which order ----------------------------------------------------------- */

static bool has_number(uint32_t id, const char *search)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", id);
	return id && strstr(text, search);
}

static bool is_searched(const struct top_row *r, const char *search)
{
	return strcasestr(r->name, search) || strcasestr(r->comm, search) ||
	       strcasestr(r->container, search) || has_number(r->pid, search) ||
	       has_number(r->tid, search);
}

static void search_rows(struct top_view *v)
{
	uint32_t n = 0;

	if (!v->options.search[0])
		return;
	for (uint32_t i = 0; i < v->row_count; i++)
		if (is_searched(&v->rows[i], v->options.search))
			v->rows[n++] = v->rows[i];
	v->row_count = n;
}

static double sort_value(const struct top_row *r, enum top_sort sort)
{
	switch (sort) {
	case TOP_SORT_RUNNABLE:
		return r->runnable;
	case TOP_SORT_BLOCKED:
		return r->blocked;
	case TOP_SORT_IDLE:
		return r->idle;
	case TOP_SORT_SWITCHES:
		return r->switches;
	case TOP_SORT_THREADS:
		return r->threads;
	default:
		return r->cpu;
	}
}

/* Those without a number come last. */
static int by_id(const struct top_row *a, const struct top_row *b)
{
	if (a->key.id != b->key.id)
		return a->key.id - 1 < b->key.id - 1 ? -1 : 1;
	return strcmp(a->key.name, b->key.name);
}

static int compare(const void *x, const void *y, void *ctx)
{
	const struct top_row *a = x, *b = y;
	const struct top_options *o = ctx;
	double va = sort_value(a, o->sort), vb = sort_value(b, o->sort);
	int order;

	if (o->sort == TOP_SORT_ID)
		order = by_id(a, b);
	else if (o->sort == TOP_SORT_NAME)
		order = strcasecmp(a->name, b->name);
	else
		order = va < vb ? 1 : va > vb ? -1 : 0;
	if (o->reversed)
		order = -order;
	if (!order)
		order = a->cpu < b->cpu ? 1 : a->cpu > b->cpu ? -1 : 0;
	return order ? order : by_id(a, b);
}

static void find_selected(struct top_view *v)
{
	v->selected = 0;
	for (uint32_t i = 0; v->options.has_selected && i < v->row_count; i++)
		if (same_key(&v->rows[i].key, &v->options.selected))
			v->selected = i;
}

/* ---- the selected one ------------------------------------------------------------------------ */

static void list_hot(struct top_view *v, const struct top_hot *h)
{
	const struct profile *p = v->interval->of;
	const struct top_row *r = &v->rows[v->selected];
	double unit = v->interval->seconds > 0 ? 100 / (v->interval->seconds * 1e9) : 0;

	/* Samples say where, the account how much. */
	if (!v->interval->is_wall && r->cpu > 0 && h->value)
		unit = r->cpu / (double)h->value;
	v->functions = mem_alloc_array(h->function_count + 1, sizeof(*v->functions));
	for (uint32_t i = 0; i < h->function_count; i++) {
		const struct hot_function *f = &h->functions[i];
		const struct frame *frame = &p->frames[f->frame];
		if ((double)f->total * unit < LEAST)
			continue;
		v->functions[v->function_count++] = (struct top_function){
			.name = profile_str(p, frame->name),
			.module = profile_str(p, p->modules[frame->module].name),
			.self = (double)f->self * unit,
			.total = (double)f->total * unit,
		};
	}
	v->stacks = mem_alloc_array(h->stack_count + 1, sizeof(*v->stacks));
	for (uint32_t i = 0; i < h->stack_count && (double)h->stacks[i].value * unit >= LEAST; i++)
		v->stacks[v->stack_count++] =
			(struct top_stack){(double)h->stacks[i].value * unit, h->stacks[i].stack};
	v->selected_samples = h->count;
}

static void make_hot(struct top_view *v)
{
	const struct top_interval *i = v->interval;

	if (!i->of || !v->row_count)
		return;
	const struct top_key *selected = &v->rows[v->selected].key;
	CLEANUP(freep) bool *wanted = mem_alloc_array(i->of->series_count + 1, sizeof(*wanted));
	for (uint32_t s = 0; s < i->of->series_count; s++) {
		struct top_account a = owner_of(i->of, s);
		struct top_key key = key_of(v->options.by, &a);
		wanted[s] = same_key(&key, selected);
	}
	struct top_hot h;
	top_hot_make(&h, i->of, i->samples, i->sample_count, wanted, i->is_wall, TOP_FUNCTIONS);
	list_hot(v, &h);
	top_hot_done(&h);
}

/* ---- all of it ------------------------------------------------------------------------------- */

void top_view_make(struct top_view *v, const struct top_interval *i, const struct top_options *o)
{
	top_view_done(v);
	v->interval = i;
	v->options = *o;
	struct making m = {.view = v, .interval = i};
	if (i->of) {
		m.row_of = mem_alloc_array(i->of->series_count + 1, sizeof(*m.row_of));
		m.is_accounted = mem_alloc_array(i->of->series_count + 1, sizeof(bool));
	}
	make_rows(&m);
	index_done(&m.by_key);
	index_done(&m.accounts);
	free(m.row_of);
	free(m.is_accounted);
	search_rows(v);
	if (v->row_count)
		qsort_r(v->rows, v->row_count, sizeof(*v->rows), compare, &v->options);
	find_selected(v);
	make_hot(v);
}

void top_view_done(struct top_view *v)
{
	free(v->rows);
	free(v->functions);
	free(v->stacks);
	*v = (struct top_view){};
}

void top_view_stack(const struct profile *p, uint32_t stack, char *ret, size_t size)
{
	size_t n = 0;

	ret[0] = '\0';
	for (uint32_t at = stack; at && n + 1 < size; at = p->stacks[at].parent) {
		const char *name = profile_str(p, p->frames[p->stacks[at].frame].name);
		n += (size_t)snprintf(ret + n, size - n, "%s%s", n ? " < " : "", name);
	}
	if (n < size)
		return;
	for (n = size - 1; n && ((unsigned char)ret[n - 1] & 0xc0) == 0x80;)
		n--; /* not in the middle of a character */
	ret[n && (unsigned char)ret[n - 1] >= 0xc0 ? n - 1 : n] = '\0';
}

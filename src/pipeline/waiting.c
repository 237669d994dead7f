/*
 * What a function's name matches is a set of bits, three for each rule: that it is the rule's
 * function of the kernel, of the program, or the other one of the program. Most functions match
 * nothing, and those that do are of few kinds; so a frame has the number of its kind, and a kind
 * has the bits. A stack has the bits of all its frames, and a rule holds if its bits are among
 * them.
 */
#include "pipeline/waiting.h"

#include "pipeline/name_pattern.h"
#include "pipeline/wait_rules.h"

enum part { KERNEL, USER, MODULE, CALLER, PARTS };

#define WORDS      (WAIT_RULES_MAX * PARTS / 64)
#define RULE_WORDS (WAIT_RULES_MAX / 64)

/*
 * Kinds are sets of what is written in the rules: some dozens. Names that are made up could match
 * any set of patterns: beyond so many kinds, such a function is looked at each time.
 */
#define KINDS_MAX 1024
#define CALLS_MAX 128 /* system calls; the same */
#define CALL_NAME 32

#define USER_OWN_MAX   3 /* functions of its own that a thread's outermost loop may be deep … */
#define KERNEL_OWN_MAX 2 /* … in the kernel */

enum decided { BY_RULES, IDLE, BLOCKED };

struct kind { /* of function */
	uint64_t bits[WORDS];
	enum decided decided; /* by waiting_options */
	bool is_plumbing;
	bool is_start;
};

struct call {
	char name[CALL_NAME];
	uint64_t rules[RULE_WORDS]; /* those that it stands in for the kernel's function of */
};

struct waiting {
	const struct profile *profile;
	struct waiting_options options;
	uint16_t *kinds_of; /* by frame: its kind + 1; 0: not looked at yet */
	uint32_t kinds_of_cap;
	struct kind *kinds; /* [0] matches nothing */
	uint32_t kind_count, kind_cap;
	struct kind latest; /* that is not among them */
	struct call calls[CALLS_MAX];
	uint32_t call_count;
};

const char *wait_reason_name(enum wait_reason r)
{
	static const char *const names[WAIT_REASONS] = {
		[WAIT_OTHER] = "other", [WAIT_CPU] = "cpu",
		[WAIT_DISK] = "disk",   [WAIT_LOCK] = "lock",
		[WAIT_TIMER] = "timer", [WAIT_NETWORK] = "network",
		[WAIT_PIPE] = "pipe",   [WAIT_POLL] = "poll",
		[WAIT_CHILD] = "child", [WAIT_PAGE_FAULT] = "page_fault",
	};

	return names[r];
}

struct waiting *waiting_new(const struct profile *p, const struct waiting_options *o)
{
	struct waiting *w = mem_alloc(sizeof(*w));

	w->profile = p;
	w->options = *o;
	MEM_GROW(w->kinds, 0u, w->kind_cap);
	w->kinds[w->kind_count++] = (struct kind){};
	return w;
}

void waiting_free(struct waiting *w)
{
	if (!w)
		return;
	free(w->kinds_of);
	free(w->kinds);
	free(w);
}

/* ---- what a function is to the rules -------------------------------------------------------- */

static void set_bit(struct kind *k, size_t rule, enum part part)
{
	size_t bit = rule * PARTS + part;

	k->bits[bit / 64] |= 1ull << bit % 64;
}

static bool is_in_list(struct name n, const char *const *patterns)
{
	for (; patterns && *patterns; patterns++)
		if (name_matches(n, *patterns))
			return true;
	return false;
}

static void kind_of_kernel(struct kind *k, struct name function)
{
	for (size_t i = 0; i < wait_rules_count; i++)
		if (name_matches(function, wait_rules[i].kernel))
			set_bit(k, i, KERNEL);
	k->is_plumbing = name_matches(function, wait_plumbing_kernel);
	k->is_start = name_matches(function, wait_start_kernel);
}

static void kind_of_user(struct kind *k, struct name function, struct name file)
{
	for (size_t i = 0; i < wait_rules_count; i++) {
		const struct wait_rule *r = &wait_rules[i];
		if (name_matches(function, r->user))
			set_bit(k, i, USER);
		if (name_matches(function, r->caller))
			set_bit(k, i, CALLER);
		if (name_matches(file, r->module))
			set_bit(k, i, MODULE);
	}
	k->is_plumbing = name_matches(function, wait_plumbing_user) ||
			 name_matches(file, wait_plumbing_modules);
	k->is_start =
		name_matches(function, wait_start_user) || name_matches(file, wait_start_modules);
}

static struct kind kind_of(const struct waiting *w, const struct frame *f)
{
	const struct profile *p = w->profile;
	struct name function = name_of_function(profile_str(p, f->name), f->kind);
	struct kind k = {};

	if (frame_is_kernel(f->kind))
		kind_of_kernel(&k, function);
	else
		kind_of_user(&k, function, name_plain(profile_str(p, p->modules[f->module].name)));
	k.is_plumbing |= f->kind == FRAME_INLINED; /* part of another, shown or not */
	if (is_in_list(function, w->options.blocked))
		k.decided = BLOCKED;
	else if (is_in_list(function, w->options.idle))
		k.decided = IDLE;
	return k;
}

static bool same_kind(const struct kind *a, const struct kind *b)
{
	return memcmp(a->bits, b->bits, sizeof(a->bits)) == 0 && a->decided == b->decided &&
	       a->is_plumbing == b->is_plumbing && a->is_start == b->is_start;
}

/* Its number; KINDS_MAX if there are too many. */
static uint32_t intern_kind(struct waiting *w, const struct kind *k)
{
	uint32_t i = 0;

	while (i < w->kind_count && !same_kind(&w->kinds[i], k))
		i++;
	if (i < w->kind_count || i == KINDS_MAX)
		return i;
	MEM_GROW(w->kinds, w->kind_count, w->kind_cap);
	w->kinds[w->kind_count++] = *k;
	return i;
}

static void make_room(struct waiting *w, uint32_t frame)
{
	uint32_t cap = MAX(w->kinds_of_cap * 2, MAX(frame + 1, 1024u));

	w->kinds_of = mem_resize_array(w->kinds_of, cap, sizeof(*w->kinds_of));
	memset(w->kinds_of + w->kinds_of_cap, 0, (cap - w->kinds_of_cap) * sizeof(*w->kinds_of));
	w->kinds_of_cap = cap;
}

/* Borrowed until the next call. */
static const struct kind *kind_of_frame(struct waiting *w, uint32_t frame)
{
	if (frame >= w->kinds_of_cap)
		make_room(w, frame);
	if (!w->kinds_of[frame]) {
		w->latest = kind_of(w, &w->profile->frames[frame]);
		uint32_t kind = intern_kind(w, &w->latest);
		if (kind == KINDS_MAX)
			return &w->latest;
		w->kinds_of[frame] = (uint16_t)(kind + 1);
	}
	return &w->kinds[w->kinds_of[frame] - 1];
}

/* ---- stacks --------------------------------------------------------------------------------- */

struct seen { /* in a stack */
	uint64_t bits[WORDS];
	enum decided decided;  /* by the innermost function that waiting_options name */
	uint32_t user, kernel; /* frames */
	uint32_t user_own, kernel_own;
	bool is_thread; /* its outermost function is where threads start */
	bool is_cut;
};

static bool is_cut_mark(const char *name)
{
	return strcmp(name, "[incomplete]") == 0 || strcmp(name, "[truncated]") == 0;
}

static struct seen look(struct waiting *w, uint32_t stack)
{
	const struct profile *p = w->profile;
	struct seen s = {};

	for (uint32_t i = stack; i; i = p->stacks[i].parent) {
		const struct frame *f = &p->frames[p->stacks[i].frame];
		if (f->kind == FRAME_MARK) {
			s.is_cut |= is_cut_mark(profile_str(p, f->name));
			continue;
		}
		const struct kind *k = kind_of_frame(w, p->stacks[i].frame);
		if (frame_is_kernel(f->kind)) {
			s.kernel++;
			s.kernel_own += !k->is_plumbing;
		} else {
			s.user++;
			s.user_own += !k->is_plumbing;
		}
		s.is_thread = k->is_start; /* the last one is the outermost */
		if (s.decided == BY_RULES)
			s.decided = k->decided;
		if (k != &w->kinds[0])
			for (size_t n = 0; n < WORDS; n++)
				s.bits[n] |= k->bits[n];
	}
	return s;
}

static bool has(const struct seen *s, size_t rule, enum part part)
{
	size_t bit = rule * PARTS + part;

	return s->bits[bit / 64] >> bit % 64 & 1;
}

/* ---- system calls --------------------------------------------------------------------------- */

static struct call make_call(const char *name)
{
	struct call c = {};

	snprintf(c.name, sizeof(c.name), "%s", name);
	for (size_t i = 0; i < wait_rules_count; i++)
		if (name_matches(name_plain(name), wait_rules[i].syscall))
			c.rules[i / 64] |= 1ull << i % 64;
	return c;
}

static struct call find_call(struct waiting *w, const char *name)
{
	for (uint32_t i = 0; i < w->call_count; i++)
		if (strcmp(w->calls[i].name, name) == 0)
			return w->calls[i];
	struct call c = make_call(name);
	if (w->call_count < CALLS_MAX)
		w->calls[w->call_count++] = c;
	return c;
}

static bool is_call(const struct wait_site *site, const char *patterns)
{
	return site->syscall && name_matches(name_plain(site->syscall), patterns);
}

/* How many descriptors poll or select waits for: 0, 1, 2 for more or unknown; -1: it is neither. */
static int descriptors(const struct wait_site *site)
{
	const uint64_t *a = site->args;

	if (!site->has_args)
		return -1;
	if (is_call(site, "poll|ppoll*"))
		return a[1] > 2 ? 2 : (int)a[1];
	if (!is_call(site, "select|newselect|pselect6*"))
		return -1;
	if ((int)a[0] <= 0 || (!a[1] && !a[2] && !a[3]))
		return 0;
	return a[0] == 1 ? 1 : 2; /* the highest number is all that it says of them */
}

static bool has_no_timeout(const struct wait_site *site)
{
	if (is_call(site, "poll"))
		return (int)site->args[2] < 0;
	return is_call(site, "ppoll*") ? !site->args[2] : !site->args[4];
}

static bool is_when(const struct wait_site *site, const struct seen *s, enum wait_when when)
{
	enum { OPERATION = 0x7f, WAIT = 0 }; /* of a futex */

	switch (when) {
	case WAIT_WHENEVER:
		return true;
	case WAIT_OUTERMOST:
		return s->is_thread && !s->is_cut &&
		       (s->user ? s->user_own <= USER_OWN_MAX : s->kernel_own <= KERNEL_OWN_MAX);
	case WAIT_FOR_NOTHING:
		return descriptors(site) == 0;
	case WAIT_FOR_ONE:
		return descriptors(site) == 1;
	case WAIT_FOR_EVER:
		return descriptors(site) >= 0 && has_no_timeout(site);
	case WAIT_ON_WORD:
		return site->has_args && is_call(site, "futex*") &&
		       (site->args[1] & OPERATION) == WAIT;
	}
	return false;
}

/* ---- the decision --------------------------------------------------------------------------- */

/* A stack without a kernel part is judged by the system call instead. */
static bool is_there(size_t i, const struct seen *s, const struct call *call)
{
	const struct wait_rule *r = &wait_rules[i];

	if (!r->kernel && !r->syscall)
		return true;
	return s->kernel ? has(s, i, KERNEL) : call->rules[i / 64] >> i % 64 & 1;
}

static bool is_thread(const struct wait_site *site, const char *patterns)
{
	return site->thread && name_matches(name_plain(site->thread), patterns);
}

static bool holds(size_t i, const struct wait_site *site, const struct seen *s,
		  const struct call *call)
{
	const struct wait_rule *r = &wait_rules[i];

	return is_there(i, s, call) && (!r->user || has(s, i, USER)) &&
	       (!r->caller || has(s, i, CALLER)) && (!r->module || has(s, i, MODULE)) &&
	       (!r->thread || is_thread(site, r->thread)) && is_when(site, s, r->when);
}

struct wait_verdict waiting_decide(struct waiting *w, const struct wait_site *site)
{
	struct wait_verdict v = {.reason = WAIT_OTHER, .rule = "none"};
	struct call call = {};

	if (site->is_runnable)
		return (struct wait_verdict){.reason = WAIT_CPU, .rule = "runnable"};
	struct seen s = look(w, site->stack);
	if (!s.kernel && site->syscall)
		call = find_call(w, site->syscall);
	for (size_t i = 0; i < wait_rules_count; i++)
		if (holds(i, site, &s, &call)) {
			v = (struct wait_verdict){wait_rules[i].reason, wait_rules[i].is_idle,
						  wait_rules[i].name};
			break;
		}
	if (s.decided != BY_RULES) {
		v.is_idle = s.decided == IDLE;
		v.rule = "configured";
	}
	return v;
}

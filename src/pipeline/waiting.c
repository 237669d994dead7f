/*
 * What a function's name matches is a set of bits, three for each rule: that it is the rule's
 * function of the kernel, of the program, or the other one of the program. Most functions match
 * nothing, and those that do are of few kinds; so a frame has the number of its kind, and a kind
 * has the bits. A stack has the bits of all its frames, and a rule holds if its bits are among
 * them.
 */
#include "pipeline/waiting.h"

#include "pipeline/wait_rules.h"

enum part { KERNEL, USER, MODULE, CALLER, PARTS };

#define BITS  (WAIT_RULES_MAX * PARTS)
#define WORDS (BITS / 64)

#define USER_OWN_MAX   3 /* functions of its own that a thread's outermost loop may be deep … */
#define KERNEL_OWN_MAX 2 /* … in the kernel */

enum decided { BY_RULES, IDLE, BLOCKED };

struct kind { /* of function */
	uint64_t bits[WORDS];
	enum decided decided; /* by waiting_options */
	bool is_plumbing;
	bool is_start;
};

struct waiting {
	const struct profile *profile;
	struct waiting_options options;
	uint16_t *kinds_of; /* by frame: its kind + 1; 0: not looked at yet */
	uint32_t kinds_of_cap;
	struct kind *kinds; /* [0] matches nothing */
	uint32_t kind_count, kind_cap;
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

/* ---- names and patterns ------------------------------------------------------------------------
 */

struct text {
	const char *s;
	size_t len;
};

static bool matches_one(struct text pattern, struct text name)
{
	size_t p = 0, n = 0, star = SIZE_MAX, again = 0;

	while (n < name.len) {
		if (p < pattern.len && pattern.s[p] == '*') {
			star = p++;
			again = n;
		} else if (p < pattern.len && (pattern.s[p] == '?' || pattern.s[p] == name.s[n])) {
			p++;
			n++;
		} else if (star != SIZE_MAX) {
			p = star + 1;
			n = ++again;
		} else {
			return false;
		}
	}
	while (p < pattern.len && pattern.s[p] == '*')
		p++;
	return p == pattern.len;
}

static struct text without_underscores(struct text t)
{
	while (t.len > 1 && *t.s == '_')
		t.s++, t.len--;
	return t;
}

/* "a|b*": whether one of them matches. */
static bool matches(const char *patterns, struct text name)
{
	for (const char *s = patterns; s && *s;) {
		size_t len = strcspn(s, "|");
		if (matches_one(without_underscores((struct text){s, len}), name))
			return true;
		s += len + (s[len] == '|');
	}
	return false;
}

/* The name itself, without what compilers add to it (".isra.0", " [clone .part.0]") and parameters.
 * Go has dots and parentheses inside of names: "sync.(*Mutex).Lock". */
static struct text plain_name(const char *name, enum frame_kind kind)
{
	static const char *const suffixes[] = {".isra.", ".part.", ".constprop.", ".cold",
					       ".lto_priv."};
	static const char anonymous[] = "(anonymous namespace)";
	size_t len = strlen(name);

	if (kind == FRAME_KERNEL)
		len = strcspn(name, ".");
	if (kind != FRAME_KERNEL && kind != FRAME_GO) {
		const char *open = name + 1;
		while ((open = strchr(open, '(')) &&
		       strncmp(open, anonymous, strlen(anonymous)) == 0)
			open++;
		if (open)
			len = (size_t)(open - name);
		for (size_t i = 0; i < ARRAY_SIZE(suffixes); i++) {
			const char *at = strstr(name, suffixes[i]);
			if (at && at > name && (size_t)(at - name) < len)
				len = (size_t)(at - name);
		}
	}
	return without_underscores((struct text){name, len});
}

static bool is_in_list(const char *const *patterns, struct text name)
{
	for (; patterns && *patterns; patterns++)
		if (matches_one(without_underscores((struct text){*patterns, strlen(*patterns)}),
				name))
			return true;
	return false;
}

/* ---- kinds of functions ------------------------------------------------------------------------
 */

static void set_bit(struct kind *k, size_t rule, enum part part)
{
	size_t bit = rule * PARTS + part;

	k->bits[bit / 64] |= 1ull << bit % 64;
}

static struct kind kind_of(const struct waiting *w, const struct frame *f)
{
	bool in_kernel = f->kind == FRAME_KERNEL;
	const struct profile *p = w->profile;
	struct text name = plain_name(profile_str(p, f->name), f->kind);
	const char *module = profile_str(p, p->modules[f->module].name);
	struct text file = {module, strlen(module)};
	struct kind k = {};

	if (f->kind == FRAME_MARK)
		return k;
	for (size_t i = 0; i < wait_rules_count; i++) {
		const struct wait_rule *r = &wait_rules[i];
		if (in_kernel && matches(r->kernel, name))
			set_bit(&k, i, KERNEL);
		if (!in_kernel && matches(r->user, name))
			set_bit(&k, i, USER);
		if (!in_kernel && matches(r->caller, name))
			set_bit(&k, i, CALLER);
		if (!in_kernel && matches(r->module, file))
			set_bit(&k, i, MODULE);
	}
	if (is_in_list(w->options.blocked, name))
		k.decided = BLOCKED;
	else if (is_in_list(w->options.idle, name))
		k.decided = IDLE;
	if (in_kernel) {
		k.is_plumbing = matches(wait_plumbing_kernel, name);
		k.is_start = matches(wait_start_kernel, name);
	} else {
		k.is_plumbing = f->kind == FRAME_INLINED || matches(wait_plumbing_user, name) ||
				matches(wait_plumbing_modules, file);
		k.is_start = matches(wait_start_user, name) || matches(wait_start_modules, file);
	}
	return k;
}

static bool same_kind(const struct kind *a, const struct kind *b)
{
	return memcmp(a->bits, b->bits, sizeof(a->bits)) == 0 && a->decided == b->decided &&
	       a->is_plumbing == b->is_plumbing && a->is_start == b->is_start;
}

static uint32_t intern_kind(struct waiting *w, const struct kind *k)
{
	for (uint32_t i = 0; i < w->kind_count; i++)
		if (same_kind(&w->kinds[i], k))
			return i;
	/* Kinds are sets of what is written in the rules: some dozens. A program that made up a
	   name for every set of them gets no more. */
	if (w->kind_count == UINT16_MAX - 1)
		return 0;
	MEM_GROW(w->kinds, w->kind_count, w->kind_cap);
	w->kinds[w->kind_count] = *k;
	return w->kind_count++;
}

static const struct kind *kind_of_frame(struct waiting *w, uint32_t frame)
{
	if (frame >= w->kinds_of_cap) {
		uint32_t cap = MAX(w->kinds_of_cap * 2, MAX(frame + 1, 1024u));
		w->kinds_of = mem_resize_array(w->kinds_of, cap, sizeof(*w->kinds_of));
		memset(w->kinds_of + w->kinds_of_cap, 0,
		       (cap - w->kinds_of_cap) * sizeof(*w->kinds_of));
		w->kinds_of_cap = cap;
	}
	if (!w->kinds_of[frame]) {
		struct kind k = kind_of(w, &w->profile->frames[frame]);
		w->kinds_of[frame] = (uint16_t)(intern_kind(w, &k) + 1);
	}
	return &w->kinds[w->kinds_of[frame] - 1];
}

/* ---- stacks ------------------------------------------------------------------------------------
 */

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
		if (f->kind == FRAME_KERNEL) {
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

/* ---- system calls ------------------------------------------------------------------------------
 */

static bool is_call(const struct wait_site *site, const char *patterns)
{
	return site->syscall &&
	       matches(patterns,
		       without_underscores((struct text){site->syscall, strlen(site->syscall)}));
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

/* ---- the decision ------------------------------------------------------------------------------
 */

/* A stack without a kernel part is judged by the system call instead. */
static bool is_there(const struct wait_rule *r, size_t i, const struct wait_site *site,
		     const struct seen *s)
{
	if (!r->kernel && !r->syscall)
		return true;
	return s->kernel ? has(s, i, KERNEL) : r->syscall && is_call(site, r->syscall);
}

static bool holds(size_t i, const struct wait_site *site, const struct seen *s)
{
	const struct wait_rule *r = &wait_rules[i];

	return is_there(r, i, site, s) && (!r->user || has(s, i, USER)) &&
	       (!r->caller || has(s, i, CALLER)) && (!r->module || has(s, i, MODULE)) &&
	       (!r->thread ||
		(site->thread &&
		 matches(r->thread, (struct text){site->thread, strlen(site->thread)}))) &&
	       is_when(site, s, r->when);
}

struct wait_verdict waiting_decide(struct waiting *w, const struct wait_site *site)
{
	struct wait_verdict v = {.reason = WAIT_OTHER, .rule = "none"};

	if (site->is_runnable)
		return (struct wait_verdict){.reason = WAIT_CPU, .rule = "runnable"};
	struct seen s = look(w, site->stack);
	for (size_t i = 0; i < wait_rules_count; i++)
		if (holds(i, site, &s)) {
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

uint32_t waiting_idle_stack(struct profile *p, uint32_t stack)
{
	struct frame mark = {.name = profile_string(p, WAITING_IDLE, strlen(WAITING_IDLE)),
			     .kind = FRAME_MARK};
	uint32_t depth = 0, at = profile_stack(p, 0, profile_frame(p, &mark));

	for (uint32_t i = stack; i; i = p->stacks[i].parent)
		depth++;
	CLEANUP(freep) uint32_t *frames = mem_alloc_array(depth + 1, sizeof(*frames));
	for (uint32_t i = stack, n = depth; i; i = p->stacks[i].parent)
		frames[--n] = p->stacks[i].frame;
	for (uint32_t n = 0; n < depth; n++)
		at = profile_stack(p, at, frames[n]);
	return at;
}

#include "pipeline/ran.h"

#include "base/mem.h"

#define WITHIN_NS 100000000ull /* in a window, however the wall clock drifts */

/* What was reported of the thread at a place of the map. */
struct reported {
	uint32_t tid;
	bool has_owner;
	struct owner owner;
	uint64_t ns;
};

struct ran {
	struct windows *windows;
	struct reported *reported; /* SITES_THREADS of them; most are never touched */
};

struct ran *ran_new(struct windows *ws)
{
	struct ran *r = mem_alloc(sizeof(*r));

	r->windows = ws;
	r->reported = mem_alloc_array(SITES_THREADS, sizeof(*r->reported));
	return r;
}

void ran_free(struct ran *r)
{
	if (r)
		free(r->reported);
	free(r);
}

static void add_row(struct ran *r, const struct owner *who, uint64_t at_ns, uint64_t ns)
{
	struct owner o = {};

	if (!ns)
		return;
	if (who) {
		o = *who;
		o.state = o.reason = 0;
	}
	windows_add_sum(r->windows, who ? &o : NULL, at_ns, 0, 1, ns);
}

/* With what it runs just now. */
static uint64_t ran_by(const struct site_thread *t, uint64_t back, uint64_t end_ns)
{
	bool is_running = t->left && back && !(t->tid & SITES_ENDED);

	return t->ran + (is_running && end_ns > back ? end_ns - back : 0);
}

void ran_thread(struct ran *r, uint32_t place, const struct site_thread *t, uint64_t back,
		const struct owner *who, uint64_t end_ns, bool is_last)
{
	struct reported *p = &r->reported[place];
	uint32_t tid = t->tid & ~SITES_ENDED;
	uint64_t ns = ran_by(t, back, end_ns);

	/* A place may be another's by now, whose sum is most likely less. */
	if (p->tid != tid || p->ns > ns + WITHIN_NS)
		*p = (struct reported){.tid = tid};
	if (who) {
		p->has_owner = true;
		p->owner = *who;
	}
	bool is_end = is_last || t->tid & SITES_ENDED;
	if (ns <= p->ns || (!p->has_owner && !is_end))
		return;
	add_row(r, p->has_owner ? &p->owner : NULL, end_ns - WITHIN_NS, ns - p->ns);
	p->ns = ns;
}

void ran_ended(struct ran *r, const struct owner *who, uint64_t at_ns, uint64_t ns)
{
	add_row(r, who, at_ns, ns);
}

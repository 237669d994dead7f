/* What the kernel adds up becomes rows: its maps are made by hand here. */
#include "unit/sample.h"
#include "unit/unit.h"

#include "collect/sites_source.h"
#include "pipeline/measure.h"
#include "pipeline/sites.h"

#define SECOND 1000000000ull
#define WALL   (1700000000ull * SECOND) /* a multiple of ten seconds */
#define START  (1000 * SECOND)
#define SITE   (SITES_FOUND << 1) /* a key, of a thread that sleeps */
#define TID    42

/* ---- the kernel's side ----------------------------------------------------------------------- */

struct kernel {
	struct {
		struct site_key key;
		struct site_value value;
	} sites[4];
	struct site_thread threads[4];
	uint64_t back[4]; /* when each came to the CPU that it is on */
	uint64_t taken, counted;
	uint32_t sites_removed, threads_removed;
	unsigned shift;
	bool is_full;
};

static struct kernel kernel;

struct sampler *pipeline_sampler(const struct pipeline *p)
{
	return (void *)(uintptr_t)p;
}

void pipeline_event(struct pipeline *p, const struct wire_event *e)
{
	(void)p;
	(void)e;
}

struct source *sampler_source(struct sampler *s, unsigned source)
{
	(void)source;
	return (void *)s;
}

void sampler_add_taken(struct sampler *s, unsigned source, uint64_t more)
{
	(void)s;
	(void)source;
	kernel.counted += more;
}

const struct source_kind sites_source = {.name = "offcpu"};

void sites_source_set_shift(struct source *s, unsigned shift)
{
	(void)s;
	kernel.shift = shift;
}

void sites_source_hold(struct source *s, bool hold)
{
	(void)s;
	kernel.is_full = hold;
}

bool sites_source_is_full(struct source *s)
{
	(void)s;
	return kernel.is_full;
}

int sites_source_read(struct source *s, const struct sites_reader *r)
{
	(void)s;
	for (uint32_t i = 0; i < ARRAY_SIZE(kernel.sites); i++)
		if (kernel.sites[i].key.key)
			r->site(r->ctx, &kernel.sites[i].key, &kernel.sites[i].value);
	for (uint32_t i = 0; i < ARRAY_SIZE(kernel.threads); i++)
		if (kernel.threads[i].tid)
			r->thread(r->ctx, i, &kernel.threads[i], kernel.back[i]);
	return 0;
}

uint64_t sites_source_taken(struct source *s)
{
	(void)s;
	return kernel.taken;
}

bool sites_source_waits_unknown(struct source *s, uint64_t since_ns)
{
	(void)s;
	(void)since_ns;
	return false;
}

int sites_source_found(struct source *s, event_fn *fn, void *ctx)
{
	(void)s;
	(void)fn;
	(void)ctx;
	return 0;
}

void sites_source_remove_site(struct source *s, const struct site_key *key)
{
	(void)s;
	for (uint32_t i = 0; i < ARRAY_SIZE(kernel.sites); i++)
		if (memcmp(&kernel.sites[i].key, key, sizeof(*key)) == 0)
			kernel.sites[i].key.key = 0;
	kernel.sites_removed++;
}

void sites_source_remove_thread(struct source *s, uint32_t place)
{
	(void)s;
	kernel.threads[place].tid = 0;
	kernel.threads_removed++;
}

/* ---- user space's ---------------------------------------------------------------------------- */

struct fixture {
	struct profile *dict;
	struct windows *windows;
	struct processes *processes;
	void *sites; /* of sites_stage */
	uint64_t now;
};

static struct pipeline *const pipeline = (void *)&kernel; /* never looked at */

static struct fixture make(void)
{
	struct fixture f = {.dict = profile_new(), .processes = processes_new(), .now = START};
	struct windows_options o = {
		.type = "offcpu", .unit = "nanoseconds", .labels = {.host = "h"}};

	kernel = (struct kernel){};
	f.windows = windows_new(f.dict, &o);
	windows_clock(f.windows, f.now, f.now, WALL);
	f.sites = sites_stage.new(&(struct source_stage_options){
		.dict = f.dict, .windows = f.windows, .waits = &(struct waiting_options){}});
	return f;
}

static void done(struct fixture *f)
{
	sites_stage.free(f->sites);
	windows_free(f->windows);
	processes_free(f->processes);
	profile_free(f->dict);
}

static uint32_t stack_of(struct profile *p, const char *names)
{
	CLEANUP(freep) char *copy = mem_strdup(names);
	char *save;
	uint32_t stack = 0;

	for (char *f = strtok_r(copy, ";", &save); f; f = strtok_r(NULL, ";", &save))
		stack = profile_stack(p, stack, sample_frame(p, f));
	return stack;
}

struct event {
	struct wire_event event;
	struct site_details details;
};

static void put(struct fixture *f, const char *stack, struct site_details d)
{
	struct event e = {
		.event = {.time = f->now, .pid = TID, .tid = TID, .details = SITES_DETAILS},
		.details = d,
	};

	e.details.tid = TID;
	e.details.of.syscall = -1;
	snprintf(e.event.comm, sizeof(e.event.comm), "waits");
	snprintf(e.event.thread, sizeof(e.event.thread), "waits");
	sites_stage.event(
		f->sites, f->processes,
		&(struct assembled){.event = &e.event, .stack = stack_of(f->dict, stack)});
}

struct found {
	uint64_t count, ns;
};

/* What a window of ten seconds more has under a frame of that name. */
static void pass(struct fixture *f, bool is_last, struct window *ret)
{
	f->now += 10 * SECOND;
	windows_clock(f->windows, f->now, f->now, WALL + f->now - START);
	windows_clock(f->windows, f->now, f->now, WALL + f->now - START);
	sites_stage.report(f->sites, pipeline, f->now, is_last);
	if (!windows_take(f->windows, f->processes, true, ret))
		*ret = (struct window){};
}

static struct found under(const struct fixture *f, const struct window *w, const char *name)
{
	uint32_t id = sample_string(f->dict, name);
	struct found sum = {};

	for (uint32_t i = 0; i < w->row_count; i++)
		for (uint32_t s = w->rows[i].stack; s; s = f->dict->stacks[s].parent)
			if (f->dict->frames[f->dict->stacks[s].frame].name == id) {
				sum.count += w->rows[i].count;
				sum.ns += w->rows[i].value;
				break;
			}
	return sum;
}

static struct found next(struct fixture *f, const char *name)
{
	struct window w;

	pass(f, false, &w);
	struct found sum = under(f, &w, name);
	window_done(&w);
	return sum;
}

static void assert_found(struct found have, uint64_t count, uint64_t ns)
{
	assert_int_equal(have.count, count);
	assert_int_equal(have.ns, ns);
}

/* A thread that leaves, or left last, at one site. */
static struct site_thread at_site(uint64_t key, uint64_t walk, uint64_t blocked, uint32_t periods)
{
	struct site_thread t = {.tid = TID, .slot_index = 1, .has_stack = 1};

	t.slots[1] = (struct site_slot){.key = key, .blocked = blocked, .periods = periods};
	t.walks[0] = walk;
	return t;
}

/* ---- tests ----------------------------------------------------------------------------------- */

/* For three hours: much longer than it takes until a site that is not used is forgotten. */
static void a_wait_that_is_open_is_in_each_window_once(void **state)
{
	enum { WINDOWS = 3 * 3600 / 10 };
	struct fixture f = make();
	struct site_thread *t = &kernel.threads[0];

	(void)state;
	put(&f, "main;stuck", (struct site_details){.walk = 7});
	*t = at_site(SITE, 7, 0, 0);
	put(&f, "main;nap", (struct site_details){.walk = 8});
	t->slots[2] = (struct site_slot){.key = SITE << 1, .blocked = 5 * SECOND, .periods = 5};
	t->walks[1] = 8;
	t->left = START + SECOND;
	assert_found(next(&f, "stuck"), 1, 9 * SECOND);
	for (uint64_t i = 0; i < WINDOWS; i++)
		assert_found(next(&f, "stuck"), 1, 10 * SECOND);

	/* It ends: the rest of it, of which the last part was waiting for a CPU. */
	kernel.back[0] = f.now + 3 * SECOND;
	t->left = 0;
	t->slots[1].blocked = (9 + 10 * WINDOWS + 2) * SECOND;
	t->slots[1].runnable = SECOND;
	t->slots[1].periods = 1;
	t->slots[2].blocked += SECOND; /* where it has not been all the time */
	t->slots[2].periods++;
	struct window w;
	pass(&f, false, &w);
	assert_found(under(&f, &w, "nap"), 1, SECOND);
	assert_found(under(&f, &w, "stuck"), 2, 3 * SECOND);
	assert_found(under(&f, &w, "[runnable]"), 1, SECOND);
	window_done(&w);
	done(&f);
}

static void sums_that_move_are_not_there_twice(void **state)
{
	struct fixture f = make();
	struct site_thread *t = &kernel.threads[0];

	(void)state;
	put(&f, "main;nap", (struct site_details){.walk = 7});
	put(&f, "main;rest", (struct site_details){.walk = 8});
	*t = at_site(SITE, 7, 5 * SECOND, 50);
	assert_found(next(&f, "nap"), 50, 5 * SECOND);

	/* To another site, and the first one's sums to the map of sites. */
	kernel.sites[0].key = (struct site_key){.key = SITE, .tid = TID};
	kernel.sites[0].value = (struct site_value){7, {6 * SECOND, 0, 60}};
	*t = at_site(SITE << 1, 8, SECOND, 1);
	struct window w;
	pass(&f, false, &w);
	assert_found(under(&f, &w, "nap"), 10, SECOND);
	assert_found(under(&f, &w, "rest"), 1, SECOND);
	window_done(&w);

	/* Read between the two: what is missing now comes later, once. */
	kernel.sites[0].key.key = 0;
	assert_found(next(&f, "nap"), 0, 0);
	kernel.sites[0].key.key = SITE;
	kernel.sites[0].value.sums.blocked += SECOND;
	assert_found(next(&f, "nap"), 1, SECOND);
	done(&f);
}

static void each_site_at_hand_has_its_own_and_what_is_open_is_of_one(void **state)
{
	struct fixture f = make();
	struct site_thread *t = &kernel.threads[0];
	struct window w;

	(void)state;
	put(&f, "main;nap", (struct site_details){.walk = 7});
	put(&f, "main;rest", (struct site_details){.walk = 8});
	*t = at_site(SITE, 7, 2 * SECOND, 20);
	t->slots[3] = (struct site_slot){.key = SITE << 1, .blocked = 3 * SECOND, .periods = 30};
	t->walks[2] = 8;
	t->slot_index = 3;
	t->left = START + 9 * SECOND;
	kernel.taken = 50;
	pass(&f, false, &w);
	assert_found(under(&f, &w, "nap"), 20, 2 * SECOND);
	assert_found(under(&f, &w, "rest"), 30, 4 * SECOND);
	window_done(&w);
	assert_int_equal(kernel.counted, 50); /* the open one is part of a row that has others */

	/* It is back since a second, and is on its CPU: no more than that. */
	kernel.back[0] = START + 11 * SECOND;
	pass(&f, false, &w);
	assert_found(under(&f, &w, "nap"), 0, 0);
	assert_found(under(&f, &w, "rest"), 1, SECOND);
	window_done(&w);
	assert_int_equal(kernel.counted, 51);
	done(&f);
}

static void a_walk_takes_over_from_the_one_before(void **state)
{
	struct fixture f = make();
	struct site_details again = {.walk = 9, .previous_periods = 4};
	struct window w;

	(void)state;
	put(&f, "main;first", (struct site_details){.walk = 7});
	again.of.previous =
		(struct offcpu_period){.began = 7, .ns = 4 * SECOND, .runnable_ns = SECOND};
	put(&f, "main;second", again);
	kernel.sites[0].key = (struct site_key){.key = SITE, .tid = TID};
	kernel.sites[0].value = (struct site_value){9, {2 * SECOND, 0, 2}};
	pass(&f, false, &w);
	assert_found(under(&f, &w, "first"), 5, 4 * SECOND); /* in two rows, by state */
	assert_found(under(&f, &w, "[runnable]"), 1, SECOND);
	assert_found(under(&f, &w, "second"), 2, 2 * SECOND);
	window_done(&w);
	done(&f);
}

static void what_no_event_tells_of_has_no_stack(void **state)
{
	struct fixture f = make();
	struct measured now;

	(void)state;
	kernel.threads[0] = at_site(SITE, 7, SECOND, 3);
	assert_found(next(&f, "[no stack]"), 0, 0); /* it may be on its way */
	assert_found(next(&f, "[no stack]"), 0, 0);
	assert_found(next(&f, "[no stack]"), 3, SECOND);
	assert_found(next(&f, "[no stack]"), 0, 0);
	sites_stage.measure(f.sites, &now);
	assert_int_equal(now.sites->stackless, 3);
	done(&f);
}

static void a_thread_that_ends_is_read_once_more_and_removed(void **state)
{
	struct fixture f = make();

	(void)state;
	put(&f, "main;nap", (struct site_details){.walk = 7});
	kernel.sites[1].key = (struct site_key){.key = SITE, .tid = TID};
	kernel.sites[1].value = (struct site_value){7, {SECOND, 0, 1}};
	kernel.threads[2] = at_site(SITE, 7, 0, 0);
	kernel.threads[2].tid |= SITES_ENDED;
	kernel.threads[2].slots[0] = (struct site_slot){.blocked = 2 * SECOND, .periods = 2};
	struct window w;
	pass(&f, false, &w);
	assert_found(under(&f, &w, "nap"), 1, SECOND);
	assert_found(under(&f, &w, "[no stack]"), 2, 2 * SECOND); /* from when it was young */
	window_done(&w);
	assert_int_equal(kernel.threads_removed, 1);
	assert_int_equal(kernel.sites_removed, 1);
	assert_found(next(&f, "nap"), 0, 0);

	/* One that never had a walk tells of itself. */
	struct site_details d = {.is_end = 1, .previous_periods = 5};
	d.of.previous = (struct offcpu_period){.began = f.now, .ns = SECOND};
	put(&f, "main", d);
	assert_found(next(&f, "[no stack]"), 5, SECOND);
	done(&f);
}

static void walks_are_as_many_as_is_affordable(void **state)
{
	struct fixture f = make();
	struct measured now;

	(void)state;
	for (uint64_t i = 1; i <= 200; i++)
		put(&f, "main;nap", (struct site_details){.walk = i});
	sites_stage.settle(f.sites, pipeline);
	assert_true(kernel.is_full); /* too many new ones: no more for now */
	sites_stage.settle(f.sites, pipeline);
	assert_false(kernel.is_full);
	kernel.is_full = true; /* the kernel says so */
	sites_stage.settle(f.sites, pipeline);
	sites_stage.settle(f.sites, pipeline);
	sites_stage.measure(f.sites, &now);
	assert_int_equal(now.sites->held, 1);
	assert_int_equal(now.sites->full, 1);
	assert_int_equal(now.sites->walked, 200);

	unsigned before = kernel.shift;
	for (uint64_t i = 1; i <= 100; i++) {
		struct site_details again = {.walk = 1000 + i};
		again.of.previous.began = 999 + i;
		put(&f, "main;nap", again);
	}
	sites_stage.settle(f.sites, pipeline);
	assert_true(kernel.shift > before); /* known ones: less likely */
	before = kernel.shift;
	for (int i = 0; i < 10; i++)
		sites_stage.settle(f.sites, pipeline);
	assert_true(kernel.shift < before);
	done(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_wait_that_is_open_is_in_each_window_once),
		cmocka_unit_test(sums_that_move_are_not_there_twice),
		cmocka_unit_test(each_site_at_hand_has_its_own_and_what_is_open_is_of_one),
		cmocka_unit_test(a_walk_takes_over_from_the_one_before),
		cmocka_unit_test(what_no_event_tells_of_has_no_stack),
		cmocka_unit_test(a_thread_that_ends_is_read_once_more_and_removed),
		cmocka_unit_test(walks_are_as_many_as_is_affordable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "pipeline/windows.h"

#include "base/clock.h"
#include "base/index.h"
#include "base/mem.h"
#include "base/sort.h"

#define ROWS_MAX     20000
#define OWNERS_MAX   8192
#define SPANS_MAX    (8 * WINDOW_SPANS_MAX) /* pairs of a span and a row */
#define OPEN_MAX     16                     /* windows at once: the one at hand, and late ones */
#define GRACE_MS     600                    /* a drain leaves the latest for the next */
#define STEP_NS      100000000ll            /* less is drift, not a step */
#define STEP_BACK_NS (60 * 1000000000ll)
#define NO_TIME      UINT64_MAX
#define NS           1000000000ull

struct row {
	uint32_t owner, stack;
	uint64_t count, value;
};

struct tick { /* a sample's time */
	uint32_t row;
	uint16_t slot;
};

struct span { /* of samples: which, and of which row of the window */
	struct window_span of;
	uint32_t row;
	uint64_t count, value;
};

struct open_window {
	uint64_t start_ms; /* NO_TIME: not in use */
	uint32_t length_ms;
	struct owner *owners; /* [0] is not used; [1] is (other) */
	uint32_t owner_count, owner_cap;
	struct row *rows;
	uint32_t row_count, row_cap;
	struct tick *ticks;
	uint32_t tick_count, tick_cap;
	struct span *spans; /* [0] is not used */
	uint32_t span_count, span_cap;
	struct index by_owner, by_row, by_span;
};

struct windows {
	struct profile *dict;
	struct windows_options options;
	struct open_window open[OPEN_MAX];
	int64_t offset_ns, next_offset_ns; /* wall less monotonic: of this drain, of the next */
	uint64_t wall_ms;
	uint64_t boot_ms;     /* the wall clock's time of CLOCK_BOOTTIME 0 */
	uint64_t frontier_ms; /* the latest window begins here, or ended here */
	uint64_t floor_ms;   /* after the clock stepped back: nothing taken since lies before … */
	uint64_t floor_ns;   /* … taken since this, CLOCK_MONOTONIC */
	uint64_t drained_ns; /* the last drain, CLOCK_MONOTONIC */
	uint64_t ended_ms;   /* as windows_has_ended() was told; 0: not yet */
	uint64_t tick_ns;    /* between a clock's; 0: it is none */
	uint32_t length_ms;
	bool cut; /* the length changed: close what is open */
	struct labeller *labeller;
	struct windows_stats stats;
};

struct windows *windows_new(struct profile *dict, const struct windows_options *o)
{
	struct windows *ws = mem_alloc(sizeof(*ws));

	ws->dict = dict;
	ws->options = *o;
	ws->options.rows_max = o->rows_max ? o->rows_max : ROWS_MAX;
	ws->options.owners_max = o->owners_max ? o->owners_max : OWNERS_MAX;
	ws->length_ms = WINDOW_MS;
	ws->tick_ns = strcmp(o->unit, "nanoseconds") == 0 ? o->period : 0;
	ws->options.labels.type = o->type;
	ws->labeller = labeller_new(dict, &ws->options.labels);
	for (size_t i = 0; i < OPEN_MAX; i++)
		ws->open[i].start_ms = NO_TIME;
	return ws;
}

void windows_free(struct windows *ws)
{
	if (!ws)
		return;
	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct open_window *w = &ws->open[i];
		free(w->owners);
		free(w->rows);
		free(w->ticks);
		free(w->spans);
		index_done(&w->by_span);
		index_done(&w->by_owner);
		index_done(&w->by_row);
	}
	labeller_free(ws->labeller);
	free(ws);
}

/*
 * What is drained now was taken before now: when the clock has stepped meanwhile, or the machine
 * slept, most of it belongs to the time before.
 */
void windows_clock(struct windows *ws, uint64_t monotonic, uint64_t boottime, uint64_t wall)
{
	int64_t offset = (int64_t)(wall - monotonic);
	int64_t moved = offset - ws->next_offset_ns;

	if (!ws->next_offset_ns) {
		ws->next_offset_ns = offset;
	} else if (moved > STEP_NS || moved < -STEP_NS) {
		ws->stats.steps++;
		bool back = moved < 0 && moved >= -STEP_BACK_NS;
		ws->floor_ms = back ? ws->frontier_ms : 0;
		ws->floor_ns = ws->drained_ns;
		ws->frontier_ms = ws->floor_ms;
	}
	ws->offset_ns = ws->next_offset_ns;
	ws->next_offset_ns = offset;
	ws->drained_ns = monotonic;
	ws->wall_ms = wall / 1000000;
	ws->boot_ms = ws->wall_ms - boottime / 1000000;
}

void windows_set_length(struct windows *ws, uint32_t ms)
{
	ws->cut |= ws->length_ms != ms;
	ws->length_ms = ms;
}

static void begin(struct open_window *w, uint64_t start_ms, uint32_t length_ms)
{
	w->start_ms = start_ms;
	w->length_ms = length_ms;
	w->owner_count = 2;
	w->row_count = 1;
	w->tick_count = 0;
	w->span_count = 1;
	index_clear(&w->by_span);
	index_clear(&w->by_owner);
	index_clear(&w->by_row);
	while (w->owner_cap < 2)
		MEM_GROW(w->owners, w->owner_cap, w->owner_cap);
	w->owners[1] = (struct owner){};
}

static struct open_window *find_open(struct windows *ws, uint64_t at_ms)
{
	struct open_window *unused = NULL, *newest = NULL;

	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct open_window *w = &ws->open[i];
		if (w->start_ms == NO_TIME) {
			unused = unused ? unused : w;
			continue;
		}
		if (at_ms >= w->start_ms && at_ms < w->start_ms + w->length_ms)
			return w;
		if (!newest || w->start_ms > newest->start_ms)
			newest = w;
	}
	if (!unused) /* as many as that are never open, unless the clock runs wild */
		return newest;
	uint64_t start = at_ms - at_ms % ws->length_ms;
	begin(unused, start, ws->length_ms);
	ws->frontier_ms = MAX(ws->frontier_ms, start);
	return unused;
}

static uint64_t wall_of(const struct windows *ws, uint64_t monotonic)
{
	uint64_t at = (uint64_t)((int64_t)monotonic + ws->offset_ns) / 1000000;

	return monotonic >= ws->floor_ns ? MAX(at, ws->floor_ms) : at;
}

/*
 * Which tick of its second a sample is, as that tick's time: a clock of 99 Hz ticks once in each
 * 99th of a second, on each CPU somewhere else in it. Counted by ticks of one grid, what a slot can
 * hold is known from the rate alone: slots of 20 ms hold two, and one of each second one.
 */
static uint64_t tick_of(const struct windows *ws, uint64_t monotonic)
{
	uint64_t wall = (uint64_t)((int64_t)monotonic + ws->offset_ns), in_second = wall % NS;
	uint64_t period = ws->tick_ns;

	if (period && period <= NS)
		in_second = MIN(in_second / period, NS / period - 1) * period;
	return (wall / NS * NS + in_second) / 1000000;
}

/* `a`: what the rest of an owner is found from; NULL: it is complete. */
static uint32_t owner_of(struct windows *ws, struct open_window *w, struct processes *ps,
			 const struct assembled *a, const struct owner *key)
{
	struct owner who = *key;
	uint32_t hash = index_hash_bytes(&who, OWNER_KEY), id;

	INDEX_EACH(&w->by_owner, hash, id)
		if (memcmp(&w->owners[id], &who, OWNER_KEY) == 0)
			return id;
	if (w->owner_count >= ws->options.owners_max)
		return 1;
	if (a)
		labeller_complete(ws->labeller, ps, a, &who);
	MEM_GROW(w->owners, w->owner_count, w->owner_cap);
	id = w->owner_count++;
	w->owners[id] = who;
	index_put(&w->by_owner, hash, id);
	return id;
}

static uint32_t find_row(const struct open_window *w, uint32_t owner, uint32_t stack)
{
	uint32_t id;

	INDEX_EACH(&w->by_row, index_hash2(owner, stack), id)
		if (w->rows[id].owner == owner && w->rows[id].stack == stack)
			return id;
	return 0;
}

/* The row of that pair, or of (other). */
static uint32_t get_row(struct windows *ws, struct open_window *w, uint32_t owner, uint32_t stack)
{
	uint32_t row = find_row(w, owner, stack);

	if (!row && w->row_count >= ws->options.rows_max) {
		owner = 1;
		stack = 0;
		row = find_row(w, owner, stack);
	}
	if (owner == 1)
		ws->stats.other++;
	if (!row) {
		MEM_GROW(w->rows, w->row_count, w->row_cap);
		row = w->row_count++;
		w->rows[row] = (struct row){owner, stack, 0, 0};
		index_put(&w->by_row, index_hash2(owner, stack), row);
	}
	return row;
}

/* Notes the span that a sample of a row was taken in. */
static void add_span(struct windows *ws, struct open_window *w, uint32_t row,
		     const struct wire_span *of, uint64_t value)
{
	struct span new = {.row = row};
	uint32_t id;

	memcpy(&new.of, of, sizeof(new.of));
	uint32_t hash = index_hash_bytes(&new, offsetof(struct span, count));
	INDEX_EACH(&w->by_span, hash, id) {
		struct span *known = &w->spans[id];
		if (memcmp(known, &new, offsetof(struct span, count)) != 0)
			continue;
		known->count++;
		known->value += value;
		return;
	}
	if (w->span_count > SPANS_MAX) {
		ws->stats.spans_left_out++;
		return;
	}
	while (w->span_count >= w->span_cap)
		MEM_GROW(w->spans, w->span_cap, w->span_cap);
	new.count = 1;
	new.value = value;
	w->spans[w->span_count] = new;
	index_put(&w->by_span, hash, w->span_count++);
}

void windows_add(struct windows *ws, struct processes *ps, const struct assembled *a)
{
	uint64_t at = wall_of(ws, a->event->time);
	struct open_window *w = find_open(ws, at);
	struct owner who;

	labeller_owner(ws->labeller, a->event, ws->wall_ms, &who);
	uint32_t owner = owner_of(ws, w, ps, a, &who);
	if (owner != 1)
		labeller_sample(ws->labeller, a, &w->owners[owner]);
	uint32_t row = get_row(ws, w, owner, a->stack);
	w->rows[row].count++;
	w->rows[row].value += a->event->value;
	const struct wire_span *span = wire_span_of(a->event);
	if (span && owner != 1)
		add_span(ws, w, row, span, a->event->value);
	uint64_t tick = tick_of(ws, a->event->time);
	uint64_t slot = (MAX(tick, w->start_ms) - w->start_ms) / WINDOW_STEP_MS;
	MEM_GROW(w->ticks, w->tick_count, w->tick_cap);
	w->ticks[w->tick_count++] =
		(struct tick){row, (uint16_t)MIN(slot, w->length_ms / WINDOW_STEP_MS - 1)};
	ws->stats.open++;
}

bool windows_wants(struct windows *ws, const struct wire_event *s)
{
	uint64_t at = wall_of(ws, s->time);
	struct owner who;
	uint32_t id;

	labeller_owner(ws->labeller, s, ws->wall_ms, &who);
	for (size_t i = 0; i < OPEN_MAX; i++) {
		const struct open_window *w = &ws->open[i];
		if (w->start_ms == NO_TIME || at < w->start_ms || at >= w->start_ms + w->length_ms)
			continue;
		INDEX_EACH(&w->by_owner, index_hash_bytes(&who, OWNER_KEY), id)
			if (memcmp(&w->owners[id], &who, OWNER_KEY) == 0)
				return !w->owners[id].is_dropped;
	}
	return true;
}

void windows_owner(struct windows *ws, struct processes *ps, const struct assembled *a,
		   struct owner *ret)
{
	labeller_owner(ws->labeller, a->event, ws->wall_ms, ret);
	labeller_complete(ws->labeller, ps, a, ret);
}

void windows_add_sum(struct windows *ws, const struct owner *who, uint64_t at_ns, uint32_t stack,
		     uint64_t count, uint64_t value)
{
	struct open_window *w = find_open(ws, wall_of(ws, at_ns));
	uint32_t owner = who ? owner_of(ws, w, NULL, NULL, who) : 1;
	uint32_t row = get_row(ws, w, owner, stack);

	w->rows[row].count += count;
	w->rows[row].value += value;
}

bool windows_has_ended(struct windows *ws, uint64_t *ret_end_ns)
{
	uint64_t end = ws->wall_ms - ws->wall_ms % ws->length_ms, before = ws->ended_ms;

	if (end == before)
		return false;
	ws->ended_ms = end;
	*ret_end_ns = (uint64_t)((int64_t)(end * 1000000) - ws->next_offset_ns);
	return before != 0;
}

struct sorted_row {
	uint64_t key; /* series, stack */
	uint32_t row;
};

struct sorted_tick {
	uint64_t key; /* row of the window, slot */
};

static uint32_t series_of(struct windows *ws, const struct processes *ps,
			  const struct open_window *w, uint32_t owner)
{
	const struct owner *o = &w->owners[owner];

	if (owner == 1)
		return labeller_other(ws->labeller);
	return labeller_series(ws->labeller, ps, o, o->start / 1000000 + ws->boot_ms < w->start_ms);
}

/* The spans, by the rows that theirs have become (`place`). */
static void merge_spans(const struct windows *ws, const struct open_window *w,
			const uint32_t *place, struct window *ret)
{
	struct window_span_row *rows = mem_alloc_array(w->span_count, sizeof(*rows));
	struct index by_span = {};
	uint32_t n = 0, id;

	ret->spans = mem_alloc_array(w->span_count, sizeof(*ret->spans));
	for (uint32_t i = 1; i < w->span_count; i++) {
		const struct span *s = &w->spans[i];
		const struct window_row *row = &ret->rows[place[s->row]];
		uint32_t hash = index_hash_bytes(&s->of, sizeof(s->of)), found = 0;
		if (row->series == labeller_dropped(ws->labeller))
			continue;
		INDEX_EACH(&by_span, hash, id)
			if (memcmp(&ret->spans[id - 1], &s->of, sizeof(s->of)) == 0)
				found = id;
		if (!found) {
			ret->spans[ret->span_count++] = s->of;
			index_put(&by_span, hash, found = ret->span_count);
		}
		rows[n++] = (struct window_span_row){row->series, row->stack, found - 1, s->count,
						     s->value};
	}
	index_done(&by_span);
	ret->span_rows = rows;
	ret->span_row_count = window_sort_spans(rows, n);
}

/* Rows of owners that turned out to be one series become one; in order of series and stack. */
static void merge_rows(struct windows *ws, const struct processes *ps, const struct open_window *w,
		       struct window *ret)
{
	uint32_t count = w->row_count - 1;
	CLEANUP(freep) uint32_t *series = mem_alloc_array(w->owner_count, sizeof(*series));
	CLEANUP(freep) struct sorted_row *sorted = mem_alloc_array(count + 1, sizeof(*sorted));
	CLEANUP(freep) uint32_t *place = mem_alloc_array(w->row_count, sizeof(*place));

	for (uint32_t i = 0; i < count; i++) {
		const struct row *r = &w->rows[i + 1];
		if (!series[r->owner])
			series[r->owner] = series_of(ws, ps, w, r->owner);
		bool is_dropped = series[r->owner] == labeller_dropped(ws->labeller);
		uint32_t stack = is_dropped ? 0 : r->stack;
		sorted[i] = (struct sorted_row){(uint64_t)series[r->owner] << 32 | stack, i + 1};
		ws->stats.dropped += is_dropped ? r->count : 0;
	}
	sort_by_u64(sorted, count, sizeof(*sorted));

	ret->rows = mem_alloc_array(count + 1, sizeof(*ret->rows));
	for (uint32_t i = 0; i < count; i++) {
		const struct row *r = &w->rows[sorted[i].row];
		if (i == 0 || sorted[i].key != sorted[i - 1].key)
			ret->rows[ret->row_count++] =
				(struct window_row){.series = (uint32_t)(sorted[i].key >> 32),
						    .stack = (uint32_t)sorted[i].key};
		struct window_row *to = &ret->rows[ret->row_count - 1];
		to->count += r->count;
		to->value += r->value;
		place[sorted[i].row] = ret->row_count - 1;
	}

	if (w->span_count > 1)
		merge_spans(ws, w, place, ret);
	if (!w->tick_count) /* of sums: when is not known */
		return;
	CLEANUP(freep)
	struct sorted_tick *ticks = mem_alloc_array(w->tick_count + 1, sizeof(*ticks));
	for (uint32_t i = 0; i < w->tick_count; i++)
		ticks[i].key = (uint64_t)place[w->ticks[i].row] << 16 | w->ticks[i].slot;
	sort_by_u64(ticks, w->tick_count, sizeof(*ticks));
	ret->times = mem_alloc_array(w->tick_count + 1, sizeof(*ret->times));
	ret->time_count = w->tick_count;
	for (uint32_t i = 0; i < w->tick_count; i++)
		ret->times[i] = (uint16_t)ticks[i].key;
}

static struct open_window *find_over(struct windows *ws, bool all)
{
	struct open_window *oldest = NULL;

	for (size_t i = 0; i < OPEN_MAX; i++) {
		struct open_window *w = &ws->open[i];
		if (w->start_ms == NO_TIME)
			continue;
		if (!all && ws->wall_ms < w->start_ms + w->length_ms + GRACE_MS &&
		    ws->wall_ms + STEP_BACK_NS / 1000000 > w->start_ms)
			continue;
		if (!oldest || w->start_ms < oldest->start_ms)
			oldest = w;
	}
	return oldest;
}

bool windows_take(struct windows *ws, struct processes *ps, bool flush, struct window *ret)
{
	struct open_window *w = find_over(ws, flush || ws->cut);
	if (!w) {
		ws->cut = false;
		return false;
	}

	*ret = (struct window){
		.start_ms = w->start_ms,
		.length_ms = w->length_ms,
		.period = ws->options.period,
	};
	snprintf(ret->type, sizeof(ret->type), "%s", ws->options.type);
	snprintf(ret->unit, sizeof(ret->unit), "%s", ws->options.unit);
	merge_rows(ws, ps, w, ret);
	ws->stats.open -= w->tick_count;
	if (ws->wall_ms >= w->start_ms + w->length_ms)
		ws->frontier_ms = MAX(ws->frontier_ms, w->start_ms + w->length_ms);
	w->start_ms = NO_TIME;
	return true;
}

void windows_stats(const struct windows *ws, struct windows_stats *sum)
{
	sum->other += ws->stats.other;
	sum->dropped += ws->stats.dropped;
	sum->open += ws->stats.open;
	sum->spans_left_out += ws->stats.spans_left_out;
	sum->steps = MAX(sum->steps, ws->stats.steps); /* all see the same clock */
	sum->folded += labeller_folded(ws->labeller);
}

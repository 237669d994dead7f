#include "store/columns.h"

#include <errno.h>

#include "base/mem.h"
#include "base/sort.h"

#define VERSION    1
#define HAS_VALUES 1u

enum { SERIES, STACKS, STACK, WINDOWS, COUNT, VALUE, COLUMNS };

void columns_done(struct columns *c)
{
	free(c->windows);
	free(c->rows);
	free(c->times);
	*c = (struct columns){};
}

void columns_clear(struct columns *c)
{
	c->window_count = 0;
	c->row_count = c->time_count = 0;
}

uint32_t columns_window(struct columns *c, uint64_t start_ms, uint32_t length_ms)
{
	/* The latest first: messages come in order of time. */
	for (uint32_t i = c->window_count; i--;)
		if (c->windows[i].start_ms == start_ms && c->windows[i].length_ms == length_ms)
			return i;
	MEM_GROW(c->windows, c->window_count, c->window_cap);
	c->windows[c->window_count] =
		(struct columns_window){.start_ms = start_ms, .length_ms = length_ms};
	return c->window_count++;
}

static uint32_t add_times(struct columns *c, const uint16_t *times, uint32_t count)
{
	uint32_t at = (uint32_t)c->time_count;

	while (c->time_cap - c->time_count < count) {
		c->time_cap = MAX(c->time_cap * 2, 1024);
		c->times = mem_resize_array(c->times, c->time_cap, sizeof(*c->times));
	}
	if (count)
		memcpy(c->times + at, times, count * sizeof(*times));
	c->time_count += count;
	return at;
}

void columns_add(struct columns *c, uint32_t series, uint32_t stack, uint32_t window,
		 uint64_t count, uint64_t value, const uint16_t *times, uint32_t known)
{
	MEM_GROW(c->rows, c->row_count, c->row_cap);
	c->rows[c->row_count++] = (struct columns_row){
		COLUMNS_KEY(series, stack, window),     count, value,
		known ? add_times(c, times, known) : 0, known,
	};
}

/* Both are in order: their times, in order, behind all others. */
static void join_times(struct columns *c, struct columns_row *to, const struct columns_row *from)
{
	if (!from->known)
		return;
	uint32_t a = to->time, b = from->time, a_end = a + to->known, b_end = b + from->known;
	CLEANUP(freep) uint16_t *both = mem_alloc_array(to->known + from->known, sizeof(*both));
	uint32_t n = 0;

	while (a < a_end || b < b_end)
		both[n++] = b == b_end || (a < a_end && c->times[a] <= c->times[b]) ? c->times[a++]
										    : c->times[b++];
	to->time = add_times(c, both, n);
	to->known = n;
}

struct window_order {
	uint64_t start;
	uint32_t length, index;
};

static void order_windows(struct columns *c)
{
	bool in_order = true;

	for (uint32_t i = 1; i < c->window_count; i++)
		in_order &= c->windows[i - 1].start_ms <= c->windows[i].start_ms;
	if (in_order)
		return;

	CLEANUP(freep) struct window_order *o = mem_alloc_array(c->window_count, sizeof(*o));
	CLEANUP(freep) struct columns_window *w = mem_alloc_array(c->window_count, sizeof(*w));
	CLEANUP(freep) uint32_t *place = mem_alloc_array(c->window_count, sizeof(*place));
	for (uint32_t i = 0; i < c->window_count; i++)
		o[i] = (struct window_order){c->windows[i].start_ms, c->windows[i].length_ms, i};
	sort_by_u64(o, c->window_count, sizeof(*o));
	for (uint32_t i = 0; i < c->window_count; i++) {
		w[i] = c->windows[o[i].index];
		place[o[i].index] = i;
	}
	memcpy(c->windows, w, c->window_count * sizeof(*w));
	for (size_t i = 0; i < c->row_count; i++) {
		uint64_t key = c->rows[i].key;
		c->rows[i].key = COLUMNS_KEY(COLUMNS_SERIES(key), COLUMNS_STACK(key),
					     place[COLUMNS_WINDOW(key)]);
	}
}

void columns_sort_merge(struct columns *c)
{
	size_t n = 0;

	order_windows(c);
	sort_by_u64(c->rows, c->row_count, sizeof(*c->rows));
	for (size_t i = 0; i < c->row_count; i++) {
		if (n && c->rows[n - 1].key == c->rows[i].key) {
			c->rows[n - 1].count += c->rows[i].count;
			c->rows[n - 1].value += c->rows[i].value;
			join_times(c, &c->rows[n - 1], &c->rows[i]);
		} else {
			c->rows[n++] = c->rows[i];
		}
	}
	c->row_count = n;
}

static void write_columns(const struct columns *c, uint64_t period, bool values,
			  struct pack col[static COLUMNS])
{
	uint32_t series = 0, stack = 0, window = 0, last_series = 0, stacks = 0, windows = 0;
	struct pack indexes = {};

	for (size_t i = 0; i < c->row_count; i++) {
		const struct columns_row *r = &c->rows[i];
		bool new_series = !i || COLUMNS_SERIES(r->key) != series;
		bool new_stack = new_series || COLUMNS_STACK(r->key) != stack;
		if (i && new_stack && c->window_count > 1) {
			pack_u64(&col[WINDOWS], windows);
			pack_raw(&col[WINDOWS], indexes.bytes, indexes.len);
		}
		if (new_stack)
			windows = window = 0, indexes.len = 0;
		if (new_series) {
			if (i)
				pack_u64(&col[STACKS], stacks);
			series = COLUMNS_SERIES(r->key);
			pack_u64(&col[SERIES], series - last_series);
			last_series = series;
			stacks = stack = 0;
		}
		if (new_stack) {
			pack_u64(&col[STACK], COLUMNS_STACK(r->key) - stack);
			stack = COLUMNS_STACK(r->key);
			stacks++;
		}
		pack_u64(&indexes, COLUMNS_WINDOW(r->key) - window);
		window = COLUMNS_WINDOW(r->key);
		windows++;
		pack_u64(&col[COUNT], r->count);
		if (values)
			pack_i64(&col[VALUE], (int64_t)(r->value - r->count * period));
	}
	if (c->row_count) {
		pack_u64(&col[STACKS], stacks);
		if (c->window_count > 1) {
			pack_u64(&col[WINDOWS], windows);
			pack_raw(&col[WINDOWS], indexes.bytes, indexes.len);
		}
	}
	pack_done(&indexes);
}

static int join(const struct pack *head, struct pack *col, int count, int level,
		struct compressor *z, struct pack *out)
{
	struct pack all = {};

	pack_raw(&all, head->bytes, head->len);
	for (int i = 0; i < count; i++)
		pack_u64(&all, col[i].len);
	for (int i = 0; i < count; i++) {
		pack_raw(&all, col[i].bytes, col[i].len);
		pack_done(&col[i]);
	}
	int r = all.len > COLUMNS_BYTES_MAX ? -EFBIG : 0;
	if (!r)
		compressor_pack(z, all.bytes, all.len, level, out);
	pack_done(&all);
	return r;
}

int columns_write(const struct columns *c, uint64_t period, int level, struct compressor *z,
		  struct pack *out)
{
	struct pack head = {}, col[COLUMNS] = {};
	bool values = false;
	uint64_t start = 0;

	for (size_t i = 0; i < c->row_count && !values; i++)
		values = c->rows[i].value != c->rows[i].count * period;
	pack_u64(&head, VERSION);
	pack_u64(&head, values ? HAS_VALUES : 0);
	pack_u64(&head, c->window_count);
	for (uint32_t i = 0; i < c->window_count; i++) {
		const struct columns_window *w = &c->windows[i];
		pack_i64(&head, (int64_t)(w->start_ms - start));
		pack_u64(&head, w->length_ms);
		pack_u64(&head, w->messages);
		pack_u64(&head, w->lost);
		pack_u64(&head, w->restarted);
		start = w->start_ms;
	}
	write_columns(c, period, values, col);
	int r = join(&head, col, COLUMNS, level, z, out);
	pack_done(&head);
	return r;
}

uint64_t columns_cut(struct columns *c, uint32_t other)
{
	CLEANUP(freep) uint64_t *counts = mem_alloc_array(c->row_count + 1, sizeof(*counts));
	size_t left = c->row_count / 2;
	uint64_t moved = 0;

	for (size_t i = 0; i < c->row_count; i++)
		counts[i] = c->rows[i].count;
	sort_by_u64(counts, c->row_count, sizeof(*counts));
	uint64_t most = left ? counts[left - 1] : 0;
	for (size_t i = 0; i < c->row_count && left; i++) {
		struct columns_row *r = &c->rows[i];
		if (r->count > most)
			continue;
		left--;
		moved += r->count;
		r->key = COLUMNS_KEY(other, 0, COLUMNS_WINDOW(r->key));
		r->known = 0;
	}
	columns_sort_merge(c);
	return moved;
}

int columns_write_times(const struct columns *c, int level, struct compressor *z, struct pack *out)
{
	struct pack head = {}, col[3] = {};
	uint64_t samples = 0;
	bool partly = false;

	for (size_t i = 0; i < c->row_count; i++) {
		partly |= c->rows[i].known != c->rows[i].count;
		samples += c->rows[i].known;
	}
	pack_u64(&head, VERSION);
	pack_u64(&head, c->row_count);
	pack_u64(&head, samples);
	CLEANUP(freep) uint8_t *low = mem_alloc_array(samples + 1, 1);
	CLEANUP(freep) uint8_t *high = mem_alloc_array(samples + 1, 1);
	size_t at = 0;
	for (size_t i = 0; i < c->row_count; i++) {
		const uint16_t *t = c->times + c->rows[i].time;
		uint16_t last = 0;
		if (partly)
			pack_u64(&col[0], c->rows[i].known);
		for (uint32_t n = c->rows[i].known; n; n--, t++) {
			uint16_t step = (uint16_t)(*t - last);
			low[at] = (uint8_t)step;
			high[at++] = (uint8_t)(step >> 8);
			last = *t;
		}
	}
	pack_raw(&col[1], low, at);
	pack_raw(&col[2], high, at);
	int r = join(&head, col, 3, level, z, out);
	pack_done(&head);
	return r;
}

static inline uint64_t get(struct unpack *u)
{
	/* Most are one byte. */
	if (u->at < u->end && *u->at < 0x80)
		return *u->at++;
	return unpack_u64(u);
}

static bool split(struct unpack *in, struct unpack *col, int count)
{
	size_t len[COLUMNS];

	for (int i = 0; i < count; i++)
		len[i] = unpack_max(in, (size_t)(in->end - in->at));
	for (int i = 0; i < count; i++) {
		const uint8_t *at = unpack_raw(in, len[i]);
		if (!at)
			return false;
		col[i] = (struct unpack){at, at + len[i], false};
	}
	return !in->bad && in->at == in->end;
}

int columns_open(struct columns_reader *r, const void *blob, size_t len, uint64_t period)
{
	size_t size;
	uint64_t start = 0;

	if (compressor_unpack(&r->compressor, blob, len, COLUMNS_BYTES_MAX, &size) < 0)
		return -EBADMSG;
	struct unpack in = {r->compressor.bytes, r->compressor.bytes + size, false};
	if (unpack_u64(&in) != VERSION)
		return -EBADMSG;
	uint64_t flags = unpack_max(&in, HAS_VALUES);
	uint64_t windows = unpack_max(&in, MIN(COLUMNS_WINDOWS_MAX, size));
	r->window_count = 0;
	for (uint64_t i = 0; i < windows; i++) {
		MEM_GROW(r->windows, r->window_count, r->window_cap);
		struct columns_window *w = &r->windows[r->window_count++];
		start += (uint64_t)unpack_i64(&in);
		w->start_ms = start;
		w->length_ms = (uint32_t)unpack_max(&in, UINT32_MAX);
		w->messages = (uint32_t)unpack_max(&in, UINT32_MAX);
		w->lost = unpack_u64(&in);
		w->restarted = unpack_max(&in, 1);
		if (in.bad || start > INT64_MAX)
			return -EBADMSG;
	}
	if (!split(&in, r->at, COLUMNS))
		return -EBADMSG;
	if (!windows && r->at[SERIES].at != r->at[SERIES].end)
		return -EBADMSG;
	r->period = period;
	r->has_values = flags & HAS_VALUES;
	r->bad = false;
	r->series = r->stack = r->window = 0;
	r->stacks_left = r->windows_left = 0;
	return 0;
}

bool columns_next_series(struct columns_reader *r, uint32_t *ret)
{
	if (r->at[SERIES].at == r->at[SERIES].end)
		return false;
	uint64_t series = r->series + get(&r->at[SERIES]);
	if (r->at[SERIES].bad || series >= 1u << 20) {
		r->bad = true;
		return false;
	}
	*ret = r->series = (uint32_t)series;
	return true;
}

static bool next_stack(struct columns_reader *r)
{
	if (!r->stacks_left) {
		uint32_t series;
		if (!columns_next_series(r, &series))
			return false;
		r->stacks_left = get(&r->at[STACKS]);
		r->stack = 0;
		if (!r->stacks_left)
			return r->bad = true, false;
	}
	r->stacks_left--;
	uint64_t stack = r->stack + get(&r->at[STACK]);
	r->windows_left = r->window_count > 1 ? get(&r->at[WINDOWS]) : 1;
	r->window = 0;
	if (stack >= 1u << 24 || !r->windows_left)
		return r->bad = true, false;
	r->stack = (uint32_t)stack;
	return true;
}

bool columns_next(struct columns_reader *r, struct columns_row *ret)
{
	if (!r->windows_left && !next_stack(r))
		return false;
	r->windows_left--;
	if (r->window_count > 1) {
		uint64_t window = r->window + get(&r->at[WINDOWS]);
		if (window >= r->window_count)
			return r->bad = true, false;
		r->window = (uint32_t)window;
	}
	ret->key = COLUMNS_KEY(r->series, r->stack, r->window);
	ret->count = get(&r->at[COUNT]);
	ret->value = ret->count * r->period;
	if (r->has_values)
		ret->value += (uint64_t)unpack_i64(&r->at[VALUE]);
	if (r->at[STACK].bad || r->at[WINDOWS].bad || r->at[COUNT].bad || r->at[VALUE].bad)
		return r->bad = true, false;
	return true;
}

void columns_reader_done(struct columns_reader *r)
{
	compressor_done(&r->compressor);
	free(r->windows);
	*r = (struct columns_reader){};
}

int columns_times_open(struct columns_times *t, const void *blob, size_t len)
{
	size_t size;
	struct unpack col[3];

	if (compressor_unpack(&t->compressor, blob, len, COLUMNS_BYTES_MAX, &size) < 0)
		return -EBADMSG;
	struct unpack in = {t->compressor.bytes, t->compressor.bytes + size, false};
	if (unpack_u64(&in) != VERSION)
		return -EBADMSG;
	t->rows = unpack_u64(&in);
	t->samples = unpack_u64(&in);
	if (!split(&in, col, 3))
		return -EBADMSG;
	t->left = (size_t)(col[1].end - col[1].at);
	if (t->left != (size_t)(col[2].end - col[2].at) || t->left != t->samples)
		return -EBADMSG;
	t->known = col[0];
	t->partly = col[0].at != col[0].end;
	t->low = col[1].at;
	t->high = col[2].at;
	t->bad = false;
	return 0;
}

bool columns_times_next(struct columns_times *t, uint64_t count, uint16_t **ret, size_t *ret_cap,
			uint32_t *ret_known)
{
	uint64_t known = t->partly ? get(&t->known) : count;
	uint16_t at = 0;

	if (t->known.bad || known > count || known > t->left)
		return t->bad = true, false;
	if (known > *ret_cap) {
		*ret_cap = known * 2;
		*ret = mem_resize_array(*ret, *ret_cap, sizeof(**ret));
	}
	for (uint64_t i = 0; i < known; i++) {
		at = (uint16_t)(at + (*t->low++ | *t->high++ << 8));
		(*ret)[i] = at;
	}
	t->left -= known;
	*ret_known = (uint32_t)known;
	return true;
}

void columns_times_done(struct columns_times *t)
{
	compressor_done(&t->compressor);
	*t = (struct columns_times){};
}

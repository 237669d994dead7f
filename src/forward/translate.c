#include "forward/translate.h"

#include <errno.h>

#include "base/mem.h"
#include "profile/entries.h"

struct placed {
	struct window_row row;
	size_t time; /* the first of its times in the window that is translated */
};

static const struct remap_caps caps = {ENTRIES_SERIES_MAX, ENTRIES_STACKS_MAX};

static int order(const void *a, const void *b)
{
	const struct window_row *x = &((const struct placed *)a)->row;
	const struct window_row *y = &((const struct placed *)b)->row;

	return x->series != y->series ? (x->series > y->series) - (x->series < y->series)
				      : (x->stack > y->stack) - (x->stack < y->stack);
}

static int translate_rows(const struct window *w, const struct profile *from, struct remap *m,
			  struct profile *to, struct placed *ret)
{
	size_t time = 0;

	for (uint32_t i = 0; i < w->row_count; i++) {
		ret[i] = (struct placed){.row = w->rows[i], .time = time};
		time += w->rows[i].count;
		ret[i].row.series = remap_series(m, from, w->rows[i].series, to, &caps);
		ret[i].row.stack = remap_stack(m, from, w->rows[i].stack, to, &caps);
		if (ret[i].row.series == REMAP_FULL || ret[i].row.stack == REMAP_FULL)
			return -EFBIG;
	}
	return 0;
}

int translate_spans(const struct window *w, const struct profile *from, struct remap *m,
		    struct profile *to, struct window *to_window)
{
	struct window *t = to_window;

	t->spans = mem_resize_array(t->spans, t->span_count + w->span_count + 1, sizeof(*t->spans));
	t->span_rows = mem_resize_array(t->span_rows, t->span_row_count + w->span_row_count + 1,
					sizeof(*t->span_rows));
	for (uint32_t i = 0; i < w->span_row_count; i++) {
		struct window_span_row r = w->span_rows[i];
		r.series = remap_series(m, from, r.series, to, &caps);
		r.stack = remap_stack(m, from, r.stack, to, &caps);
		r.span += t->span_count;
		if (r.series == REMAP_FULL || r.stack == REMAP_FULL)
			return -EFBIG;
		t->span_rows[t->span_row_count++] = r;
	}
	for (uint32_t i = 0; i < w->span_count; i++)
		t->spans[t->span_count++] = w->spans[i];
	t->span_row_count = window_sort_spans(t->span_rows, t->span_row_count);
	return 0;
}

int translate_window(const struct window *w, const struct profile *from, struct remap *m,
		     struct profile *to, struct window *ret)
{
	CLEANUP(freep)
	struct placed *placed = mem_alloc_array(w->row_count + 1, sizeof(*placed));
	struct window out = *w;
	size_t time = 0;

	remap_set_stack(m, 0, 0);
	int err = translate_rows(w, from, m, to, placed);
	if (err)
		return err;
	out.spans = NULL;
	out.span_rows = NULL;
	out.span_count = out.span_row_count = 0;
	err = translate_spans(w, from, m, to, &out);
	if (err) {
		free(out.spans);
		free(out.span_rows);
		return err;
	}
	qsort(placed, w->row_count, sizeof(*placed), order);
	out.rows = mem_alloc_array(w->row_count + 1, sizeof(*out.rows));
	out.times = w->times ? mem_alloc_array(w->time_count + 1, sizeof(*out.times)) : NULL;
	for (uint32_t i = 0; i < w->row_count; i++) {
		out.rows[i] = placed[i].row;
		if (w->times)
			memcpy(out.times + time, w->times + placed[i].time,
			       placed[i].row.count * sizeof(*out.times));
		time += placed[i].row.count;
	}
	out.metrics = window_copy_metrics(w);
	out.findings =
		w->findings ? mem_dup(w->findings, w->finding_count * sizeof(*w->findings)) : NULL;
	*ret = out;
	return 0;
}

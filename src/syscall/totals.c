#include "syscall/totals.h"

#include <string.h>

#include "base/index.h"
#include "base/mem.h"

#define OTHERS UINT64_MAX

struct syscall_totals {
	bool by_owner, by_call;
	struct syscall_row *rows; /* rows[i] has the id i + 1 in the index, until it is sorted */
	size_t count, cap;
	struct index index;
	struct syscall_row sum;
	bool is_sorted;
};

struct syscall_totals *syscall_totals_new(bool by_owner, bool by_call)
{
	struct syscall_totals *t = mem_alloc(sizeof(*t));

	t->by_owner = by_owner;
	t->by_call = by_call;
	return t;
}

void syscall_totals_clear(struct syscall_totals *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->rows[i].by_error);
	free(t->sum.by_error);
	t->sum = (struct syscall_row){};
	t->count = 0;
	t->is_sorted = false;
	index_clear(&t->index);
}

void syscall_totals_free(struct syscall_totals *t)
{
	if (!t)
		return;
	syscall_totals_clear(t);
	index_done(&t->index);
	free(t->rows);
	free(t);
}

static void index_rows(struct syscall_totals *t)
{
	index_clear(&t->index);
	for (size_t i = 0; i < t->count; i++)
		index_put(&t->index, index_hash2(t->rows[i].id, t->rows[i].call), (uint32_t)i + 1);
	t->is_sorted = false;
}

static struct syscall_row *look_up(struct syscall_totals *t, uint64_t id, uint32_t call)
{
	uint32_t at;

	INDEX_EACH(&t->index, index_hash2(id, call), at) {
		struct syscall_row *r = &t->rows[at - 1];
		if (r->id == id && r->call == call)
			return r;
	}
	return NULL;
}

/* The row that has it already, or NULL. */
static struct syscall_row *find_own_row(struct syscall_totals *t, uint64_t owner, uint32_t number)
{
	if (t->is_sorted)
		index_rows(t);
	return look_up(t, t->by_owner ? owner : 0, t->by_call ? number : 0);
}

/* The row that something is to be added to, made if there is none. */
static struct syscall_row *find_row(struct syscall_totals *t, uint64_t owner, uint32_t number)
{
	struct syscall_row *r = find_own_row(t, owner, number);
	uint64_t id = t->by_owner ? owner : 0;
	uint32_t call = t->by_call ? number : 0;

	if (!r && t->count >= SYSCALL_ROWS_MAX) {
		id = t->by_owner ? OTHERS : 0;
		r = look_up(t, id, call);
	}
	if (r)
		return r;
	MEM_GROW(t->rows, t->count, t->cap);
	t->rows[t->count] = (struct syscall_row){.id = id, .call = call};
	index_put(&t->index, index_hash2(id, call), (uint32_t)++t->count);
	return &t->rows[t->count - 1];
}

void syscall_totals_slot(void *ctx, uint64_t id, uint32_t call, const struct syscall_slot *slot,
			 const char *comm)
{
	struct syscall_row *r = find_row(ctx, id, call);

	if (comm[0] && r->id != OTHERS)
		snprintf(r->comm, sizeof(r->comm), "%s", comm);
	r->calls += slot->calls;
	r->errors += slot->errors;
	r->unfinished += slot->unfinished;
	if (!slot->timed)
		return;
	r->min_ns = r->timed ? MIN(r->min_ns, slot->min_ns) : slot->min_ns;
	r->max_ns = MAX(r->max_ns, slot->max_ns);
	r->timed += slot->timed;
	r->total_ns += slot->total_ns;
	for (int i = 0; i < SYSCALL_BUCKETS; i++)
		r->buckets[i] += slot->buckets[i];
}

static void add_error(struct syscall_row *r, int error, uint64_t count)
{
	for (size_t i = 0; i < r->error_count; i++) {
		if (r->by_error[i].error == error) {
			r->by_error[i].count += count;
			return;
		}
	}
	/* Few kinds of errors a row: not worth more room than it needs. */
	r->by_error = mem_resize_array(r->by_error, r->error_count + 1, sizeof(*r->by_error));
	r->by_error[r->error_count++] = (struct syscall_error_count){error, count};
}

/* Errors of a row that have no name yet. */
static uint64_t unnamed(const struct syscall_row *r)
{
	uint64_t left = r->errors;

	for (size_t i = 0; i < r->error_count; i++)
		left -= MIN(left, r->by_error[i].count);
	return left;
}

/* Calls that found no room for their owner are others': then their errors are, too. */
void syscall_totals_error(void *ctx, uint64_t id, uint32_t call, int error, uint64_t count)
{
	struct syscall_totals *t = ctx;
	struct syscall_row *r = find_own_row(t, id, call);
	uint64_t own = r ? MIN(count, unnamed(r)) : 0;

	if (own)
		add_error(r, error, own);
	if (count > own)
		add_error(find_row(t, OTHERS, call), error, count - own);
}

void syscall_totals_open(struct syscall_totals *t, uint64_t id, uint32_t call, uint64_t ns)
{
	struct syscall_row *r = find_row(t, id, call);

	r->unfinished++;
	r->longest_open_ns = MAX(r->longest_open_ns, ns);
}

static int compare_errors(const void *a, const void *b)
{
	const struct syscall_error_count *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->error - y->error;
}

static double rank(const struct syscall_row *r, enum syscall_order order)
{
	switch (order) {
	case SYSCALL_ORDER_CALLS:
		return (double)r->calls;
	case SYSCALL_ORDER_ERRORS:
		return (double)r->errors;
	case SYSCALL_ORDER_AVERAGE:
		return r->timed ? (double)r->total_ns / (double)r->timed : 0;
	case SYSCALL_ORDER_MAX:
		return (double)r->max_ns;
	case SYSCALL_ORDER_TOTAL:
	default:
		return (double)r->total_ns;
	}
}

static int compare_rows(const void *a, const void *b, void *order)
{
	const struct syscall_row *x = a, *y = b;
	double rx = rank(x, *(enum syscall_order *)order),
	       ry = rank(y, *(enum syscall_order *)order);

	if (rx != ry)
		return rx < ry ? 1 : -1;
	if (x->calls != y->calls)
		return x->calls < y->calls ? 1 : -1;
	if (x->id != y->id)
		return x->id > y->id ? 1 : -1;
	return x->call > y->call ? 1 : x->call < y->call ? -1 : 0;
}

const struct syscall_row *syscall_totals_rows(struct syscall_totals *t, enum syscall_order order,
					      size_t *ret_count)
{
	for (size_t i = 0; i < t->count; i++)
		if (t->rows[i].error_count)
			qsort(t->rows[i].by_error, t->rows[i].error_count,
			      sizeof(*t->rows[i].by_error), compare_errors);
	if (t->count)
		qsort_r(t->rows, t->count, sizeof(*t->rows), compare_rows, &order);
	t->is_sorted = true;
	*ret_count = t->count;
	return t->rows;
}

const struct syscall_row *syscall_totals_sum(struct syscall_totals *t)
{
	struct syscall_row *s = &t->sum;

	free(s->by_error);
	*s = (struct syscall_row){};
	for (size_t i = 0; i < t->count; i++) {
		const struct syscall_row *r = &t->rows[i];
		s->calls += r->calls;
		s->errors += r->errors;
		s->unfinished += r->unfinished;
		s->longest_open_ns = MAX(s->longest_open_ns, r->longest_open_ns);
		if (r->timed) {
			s->min_ns = s->timed ? MIN(s->min_ns, r->min_ns) : r->min_ns;
			s->max_ns = MAX(s->max_ns, r->max_ns);
		}
		s->timed += r->timed;
		s->total_ns += r->total_ns;
		for (int b = 0; b < SYSCALL_BUCKETS; b++)
			s->buckets[b] += r->buckets[b];
		for (size_t e = 0; e < r->error_count; e++)
			add_error(s, r->by_error[e].error, r->by_error[e].count);
	}
	if (s->error_count)
		qsort(s->by_error, s->error_count, sizeof(*s->by_error), compare_errors);
	return s;
}

uint64_t syscall_row_percentile(const struct syscall_row *r, double share)
{
	double wanted = share * (double)r->timed, below = 0;

	for (int i = 0; i < SYSCALL_BUCKETS && r->timed; i++) {
		double here = (double)r->buckets[i];
		if (here == 0 || below + here < wanted) {
			below += here;
			continue;
		}
		/* What is known to be in the bucket lies between these two. */
		uint64_t low = i ? 1ull << i : 0, high = 2ull << i;
		low = MAX(low, r->min_ns);
		high = i == SYSCALL_BUCKETS - 1 ? r->max_ns : MIN(high, r->max_ns);
		if (high < low)
			return low;
		return low + (uint64_t)((double)(high - low) * (wanted - below) / here);
	}
	return r->max_ns;
}

#include "query/sums.h"

#include "base/mem.h"
#include "base/sort.h"

void sums_init(struct sums *s, const struct profile *p)
{
	*s = (struct sums){
		.rows = mem_alloc_array(p->frame_count, sizeof(*s->rows)),
		.listed = mem_alloc_array(p->frame_count, sizeof(*s->listed)),
	};
}

void sums_done(struct sums *s)
{
	free(s->rows);
	free(s->listed);
	*s = (struct sums){};
}

/*
 * Adds the total of each stack to the row of its function, unless that is among its callers, too.
 * To know that, stacks are visited depth first: each function counts how often it is on the path.
 * `row_of` is by frame; NULL: each frame is its own row.
 */
static void add_totals(const struct profile *p, const uint32_t *row_of, struct tree_sum *rows,
		       uint32_t row_count, const uint64_t *totals, const uint64_t *bases)
{
	CLEANUP(freep) uint32_t *first = mem_alloc_array(p->stack_count, sizeof(*first));
	CLEANUP(freep) uint32_t *next = mem_alloc_array(p->stack_count, sizeof(*next));
	CLEANUP(freep) uint32_t *open = mem_alloc_array(row_count, sizeof(*open));
	const struct stack *stacks = p->stacks;

	for (uint32_t id = p->stack_count - 1; id > 0; id--) {
		next[id] = first[stacks[id].parent];
		first[stacks[id].parent] = id;
	}
	for (uint32_t id = first[0], after; id; id = after) {
		uint32_t row = row_of ? row_of[stacks[id].frame] : stacks[id].frame;

		if (open[row]++ == 0) {
			rows[row].total = sums_add(rows[row].total, totals[id]);
			if (bases)
				rows[row].base_total = sums_add(rows[row].base_total, bases[id]);
		}
		for (after = first[id]; !after && id; id = stacks[id].parent) {
			open[row_of ? row_of[stacks[id].frame] : stacks[id].frame]--;
			after = next[id];
		}
	}
}

void sums_totals(struct sums *s, const struct profile *p, const uint64_t *totals,
		 const uint64_t *bases)
{
	add_totals(p, NULL, s->rows, p->frame_count, totals, bases);
	s->rows[0].total = totals[0];
	s->rows[0].base_total = bases ? bases[0] : 0;
}

struct candidate {
	uint64_t least_first; /* what sort_by_u64 goes by */
	uint32_t frame;
};

static uint64_t size_of(const struct tree_sum *r, bool by_self)
{
	return by_self ? MAX(r->self, r->base_self) : MAX(r->total, r->base_total);
}

/* Lists up to `room` more of the candidates; returns how many there were. */
static uint32_t list_largest(struct sums *s, struct candidate *c, uint32_t count, bool by_self,
			     uint32_t room)
{
	uint32_t listed = 0;

	for (uint32_t i = 0; i < count; i++)
		c[i].least_first = UINT64_MAX - size_of(&s->rows[c[i].frame], by_self);
	sort_by_u64(c, count, sizeof(*c));
	for (uint32_t i = 0; i < count && listed < room; i++) {
		listed += !s->listed[c[i].frame];
		s->listed[c[i].frame] = true;
	}
	return listed;
}

/* Adds up what is not listed. */
static void sum_rest(struct sums *s, const struct profile *p, const uint64_t *totals,
		     const uint64_t *bases)
{
	enum { LISTED, REST, ROWS };
	CLEANUP(freep) uint32_t *row_of = mem_alloc_array(p->frame_count, sizeof(*row_of));
	struct tree_sum rows[ROWS] = {};

	for (uint32_t f = 1; f < p->frame_count; f++) {
		const struct tree_sum *r = &s->rows[f];
		if (s->listed[f])
			continue;
		row_of[f] = REST;
		rows[REST].self = sums_add(rows[REST].self, r->self);
		rows[REST].base_self = sums_add(rows[REST].base_self, r->base_self);
		s->unlisted += size_of(r, false) != 0;
	}
	add_totals(p, row_of, rows, ROWS, totals, bases);
	s->rest = rows[REST];
}

void sums_list(struct sums *s, const struct profile *p, uint32_t max, const uint64_t *totals,
	       const uint64_t *bases)
{
	CLEANUP(freep) struct candidate *c = mem_alloc_array(p->frame_count, sizeof(*c));
	uint32_t count = 0, listed = 0;

	for (uint32_t f = 1; f < p->frame_count; f++) {
		listed += s->listed[f];
		if (!s->listed[f] && size_of(&s->rows[f], false))
			c[count++].frame = f;
	}
	uint32_t room = max ? max - MIN(listed, max) : count;
	if (count <= room) {
		for (uint32_t i = 0; i < count; i++)
			s->listed[c[i].frame] = true;
		return;
	}
	room -= list_largest(s, c, count, false, room / 2);
	list_largest(s, c, count, true, room);
	sum_rest(s, p, totals, bases);
}

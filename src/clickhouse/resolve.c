#include "clickhouse/resolve.h"

#include <errno.h>

#define PIECE 20000 /* stacks, or frames, of a question */

void resolve_done(struct resolve *r)
{
	free(r->to);
	free(r->cut);
	free(r->stacks);
	free(r->frames);
	index_done(&r->by_stack);
	index_done(&r->by_frame);
	*r = (struct resolve){};
}

static uint32_t find_stack(const struct resolve *r, const struct content_hash *stack)
{
	uint32_t id;

	INDEX_EACH(&r->by_stack, content_index(stack), id)
		if (memcmp(&r->stacks[id - 1], stack, sizeof(*stack)) == 0)
			return id;
	return 0;
}

uint32_t resolve_put(struct resolve *r, const struct content_hash *stack)
{
	static const struct content_hash none;

	if (memcmp(stack, &none, sizeof(none)) == 0)
		return 0;
	uint32_t id = find_stack(r, stack);
	if (id)
		return id;
	MEM_GROW(r->stacks, r->count, r->cap);
	r->stacks[r->count++] = *stack;
	index_put(&r->by_stack, content_index(stack), r->count);
	return r->count;
}

static uint32_t put_frame(struct resolve *r, const struct content_hash *frame)
{
	uint32_t id;

	INDEX_EACH(&r->by_frame, content_index(frame), id)
		if (memcmp(&r->frames[id - 1].hash, frame, sizeof(*frame)) == 0)
			return id;
	MEM_GROW(r->frames, r->frame_count, r->frame_cap);
	r->frames[r->frame_count++] = (struct resolve_frame){.hash = *frame};
	index_put(&r->by_frame, content_index(frame), r->frame_count);
	return r->frame_count;
}

/* ---- frames ---------------------------------------------------------------------------------- */

static uint32_t read_string(struct unpack *in, struct profile *into)
{
	size_t len;
	const char *text = unpack_str(in, SIZE_MAX, &len);

	return len ? profile_string(into, text, len) : 0;
}

/* One row of `frames`, without its hash. */
static void read_frame(struct clickhouse_store *s, struct unpack *in, struct profile *into,
		       struct resolve_frame *ret)
{
	struct frame f = {.name = read_string(in, into)};
	struct module m = {};

	f.kind = rowbinary_get(in, 1) % FRAME_KINDS;
	f.addr = rowbinary_get(in, 8);
	f.source = read_string(in, into);
	f.line = (uint32_t)rowbinary_get(in, 4);
	f.start = (uint32_t)rowbinary_get(in, 4);
	m.name = read_string(in, into);
	m.build_id = read_string(in, into);
	m.path = read_string(in, into);
	m.start = rowbinary_get(in, 8);
	m.end = rowbinary_get(in, 8);
	m.offset = rowbinary_get(in, 8);
	if (in->bad)
		return;
	f.module = m.name || m.build_id || m.path ? profile_module(into, &m) : 0;
	ret->is_cut = f.kind == FRAME_MARK && f.name &&
		      strcmp(profile_str(into, f.name), "[truncated]") == 0;
	if (s->o.name)
		s->o.name(s->o.name_ctx, into, &f);
	ret->to = profile_frame(into, &f);
}

static int ask_frames(struct resolve *r, struct clickhouse_store *s, const struct pack *wanted,
		      const char *days, struct profile *into, struct store_error *e)
{
	struct client_table table = {"wanted", "frame FixedString(16)", wanted};
	struct client_rows rows;
	struct content_hash hash = {};

	int err = clickhouse_ask(s, &table, &rows, e,
				 "SELECT frame, name, kind, address, source, line, begins, module,"
				 " build_id, path, module_start, module_end, module_offset"
				 " FROM frames WHERE %s AND frame IN wanted LIMIT 1 BY frame",
				 days);
	if (err)
		return err;
	while (rowbinary_more(&rows.in)) {
		rowbinary_get_bytes(&rows.in, hash.bytes, sizeof(hash.bytes));
		uint32_t id = put_frame(r, &hash); /* which may move them */
		read_frame(s, &rows.in, into, &r->frames[id - 1]);
	}
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

/* Frames from number `first` on. */
static int read_frames(struct resolve *r, uint32_t first, struct clickhouse_store *s,
		       const char *days, struct profile *into, struct store_error *e)
{
	uint32_t end = r->frame_count;
	int err = 0;

	for (uint32_t at = first; at < end && !err; at += PIECE) {
		struct pack wanted = {};
		for (uint32_t i = at; i < MIN(at + PIECE, end); i++)
			pack_raw(&wanted, r->frames[i].hash.bytes, 16);
		err = ask_frames(r, s, &wanted, days, into, e);
		pack_done(&wanted);
	}
	return err;
}

/* ---- stacks ---------------------------------------------------------------------------------- */

struct piece { /* of stacks that were read: their frames, one after the other, the root first */
	uint32_t *of, *begins; /* number of the stack, and where its frames begin */
	uint32_t count, of_cap, begins_cap;
	uint32_t *frames;
	uint32_t frame_count, frame_cap;
};

static int ask_stacks(struct resolve *r, struct clickhouse_store *s, const struct pack *wanted,
		      const char *days, struct piece *ret, struct store_error *e)
{
	struct client_table table = {"wanted", "stack FixedString(16)", wanted};
	struct client_rows rows;
	struct content_hash hash = {};

	int err = clickhouse_ask(s, &table, &rows, e,
				 "SELECT stack, frames FROM stacks WHERE %s AND stack IN wanted"
				 " LIMIT 1 BY stack",
				 days);
	if (err)
		return err;
	while (rowbinary_more(&rows.in)) {
		rowbinary_get_bytes(&rows.in, hash.bytes, sizeof(hash.bytes));
		uint64_t depth = unpack_max(&rows.in, PROFILE_DEPTH_MAX);
		MEM_GROW(ret->of, ret->count, ret->of_cap);
		MEM_GROW(ret->begins, ret->count, ret->begins_cap);
		ret->of[ret->count] = find_stack(r, &hash);
		ret->begins[ret->count++] = ret->frame_count;
		for (uint64_t i = 0; i < depth && !rows.in.bad; i++) {
			rowbinary_get_bytes(&rows.in, hash.bytes, sizeof(hash.bytes));
			MEM_GROW(ret->frames, ret->frame_count, ret->frame_cap);
			ret->frames[ret->frame_count++] = put_frame(r, &hash);
		}
	}
	err = rows.in.bad ? -EPROTO : 0;
	client_rows_done(&rows);
	return err;
}

static void add_stacks(struct resolve *r, const struct piece *p, struct profile *into)
{
	for (uint32_t i = 0; i < p->count; i++) {
		uint32_t end = i + 1 < p->count ? p->begins[i + 1] : p->frame_count;
		uint32_t stack = 0, id = p->of[i];
		for (uint32_t at = p->begins[i]; id && at < end; at++) {
			const struct resolve_frame *f = &r->frames[p->frames[at] - 1];
			r->missing += !f->to;
			stack = f->to ? profile_stack(into, stack, f->to) : stack;
			r->cut[id] |= f->is_cut;
		}
		r->to[id] = stack; /* of number 0, which was not asked for: none */
	}
}

int resolve_all(struct resolve *r, struct clickhouse_store *s, uint64_t from_ms, uint64_t to_ms,
		struct profile *into, struct store_error *e)
{
	CLEANUP(freep) char *days = clickhouse_days(from_ms, to_ms);
	int err = 0;

	r->to = mem_alloc_array(r->count + 1, sizeof(*r->to));
	r->cut = mem_alloc_array(r->count + 1, sizeof(*r->cut));
	for (uint32_t at = 0; at < r->count && !err; at += PIECE) {
		uint32_t first_frame = r->frame_count, count = MIN(PIECE, r->count - at);
		struct pack wanted = {};
		struct piece p = {};
		pack_raw(&wanted, &r->stacks[at], count * sizeof(*r->stacks));
		err = ask_stacks(r, s, &wanted, days, &p, e);
		err = err ? err : read_frames(r, first_frame, s, days, into, e);
		if (!err)
			add_stacks(r, &p, into);
		r->missing += count - MIN(p.count, count);
		free(p.of);
		free(p.begins);
		free(p.frames);
		pack_done(&wanted);
	}
	return err;
}

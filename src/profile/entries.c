#include "profile/entries.h"

#include <errno.h>

#include "base/mem.h"

#define VERSION 1
#define STARTS  32 /* added to the kind of a frame with a start */

_Static_assert(FRAME_KINDS <= STARTS, "the kinds are below the mark");

bool entries_pending(const struct profile *p, const struct entries_mark *m)
{
	return MAX(1, m->strings) < profile_string_count(p) ||
	       MAX(1, m->modules) < p->module_count || MAX(1, m->frames) < p->frame_count ||
	       MAX(1, m->stacks) < p->stack_count || MAX(1, m->series) < p->series_count;
}

static void write_string(const struct profile *p, uint32_t id, struct pack *out)
{
	pack_str(out, profile_str(p, id), profile_str_len(p, id));
}

static void write_module(const struct profile *p, uint32_t id, struct pack *out)
{
	const struct module *m = &p->modules[id];

	pack_u64(out, m->name);
	pack_u64(out, m->path);
	pack_u64(out, m->build_id);
	pack_u64(out, m->start);
	pack_u64(out, m->end);
	pack_u64(out, m->offset);
}

static void write_frame(const struct profile *p, uint32_t id, struct pack *out)
{
	const struct frame *f = &p->frames[id];

	pack_u64(out, f->name);
	pack_u64(out, f->module);
	pack_u64(out, f->kind + (f->start ? STARTS : 0));
	pack_u64(out, f->addr);
	pack_u64(out, f->source);
	pack_u64(out, f->line);
	if (f->start)
		pack_u64(out, f->start);
}

static void write_stack(const struct profile *p, uint32_t id, struct pack *out)
{
	pack_u64(out, id - p->stacks[id].parent);
	pack_u64(out, p->stacks[id].frame);
}

static void write_series(const struct profile *p, uint32_t id, struct pack *out)
{
	const struct series *s = &p->series[id];

	pack_u64(out, s->count);
	for (uint32_t i = 0; i < s->count; i++) {
		pack_u64(out, s->labels[i].key);
		pack_u64(out, s->labels[i].value);
	}
}

/* Writes one section from *mark on, until the output has `end` bytes; true: to its end. */
static bool write_section(const struct profile *p, uint32_t *mark, uint32_t count, bool wanted,
			  size_t end, struct pack *out,
			  void (*write)(const struct profile *, uint32_t, struct pack *))
{
	struct pack body = {};
	uint32_t first = MAX(1, *mark), id = first;

	for (; wanted && id < count && out->len + body.len < end; id++)
		write(p, id, &body);
	pack_u64(out, first);
	pack_u64(out, id - first);
	pack_raw(out, body.bytes, body.len);
	pack_done(&body);
	*mark = id;
	return wanted && id >= count;
}

bool entries_write(const struct profile *p, struct entries_mark *m, size_t max, struct pack *out)
{
	size_t end = out->len + max;

	pack_u64(out, VERSION);
	bool all = write_section(p, &m->strings, profile_string_count(p), true, end, out,
				 write_string);
	all = write_section(p, &m->modules, p->module_count, all, end, out, write_module);
	all = write_section(p, &m->frames, p->frame_count, all, end, out, write_frame);
	all = write_section(p, &m->stacks, p->stack_count, all, end, out, write_stack);
	return write_section(p, &m->series, p->series_count, all, end, out, write_series);
}

typedef bool read_fn(struct unpack *in, uint32_t id, const struct entries_mark *have,
		     const struct entries_sink *to);

static bool read_string(struct unpack *in, uint32_t id, const struct entries_mark *have,
			const struct entries_sink *to)
{
	size_t len;
	const char *s = unpack_str(in, ENTRIES_STRING_MAX, &len);

	(void)have;
	return !in->bad && to->string(to->ctx, id, s, len);
}

static uint32_t read_id(struct unpack *in, uint32_t count)
{
	return (uint32_t)unpack_max(in, count - 1);
}

static bool read_module(struct unpack *in, uint32_t id, const struct entries_mark *have,
			const struct entries_sink *to)
{
	struct module m = {.name = read_id(in, have->strings)};

	m.path = read_id(in, have->strings);
	m.build_id = read_id(in, have->strings);
	m.start = unpack_u64(in);
	m.end = unpack_u64(in);
	m.offset = unpack_u64(in);
	return !in->bad && to->module(to->ctx, id, &m);
}

static bool read_frame(struct unpack *in, uint32_t id, const struct entries_mark *have,
		       const struct entries_sink *to)
{
	struct frame f = {.name = read_id(in, have->strings)};

	f.module = read_id(in, have->modules);
	uint64_t kind = unpack_max(in, STARTS + FRAME_KINDS - 1);
	f.kind = (enum frame_kind)(kind % STARTS);
	f.addr = unpack_u64(in);
	f.source = read_id(in, have->strings);
	f.line = (uint32_t)unpack_max(in, UINT32_MAX);
	f.start = kind < STARTS ? 0 : (uint32_t)unpack_max(in, UINT32_MAX);
	return !in->bad && f.kind < FRAME_KINDS && to->frame(to->ctx, id, &f);
}

static bool read_stack(struct unpack *in, uint32_t id, const struct entries_mark *have,
		       const struct entries_sink *to)
{
	uint32_t back = (uint32_t)unpack_max(in, id);
	struct stack s = {.parent = id - back, .frame = read_id(in, have->frames)};

	return !in->bad && back && s.frame && to->stack(to->ctx, id, &s);
}

static bool read_series(struct unpack *in, uint32_t id, const struct entries_mark *have,
			const struct entries_sink *to)
{
	struct label labels[ENTRIES_LABELS_MAX];
	size_t count = unpack_max(in, ENTRIES_LABELS_MAX);

	for (size_t i = 0; i < count; i++) {
		labels[i].key = read_id(in, have->strings);
		labels[i].value = read_id(in, have->strings);
	}
	return !in->bad && count && to->series(to->ctx, id, labels, count);
}

/* *at, a member of *have, is where the section should start. */
static inline __attribute__((always_inline)) int
read_section(struct unpack *in, uint32_t *at, uint32_t max, const struct entries_mark *have,
	     const struct entries_sink *to, read_fn *read)
{
	uint64_t first = unpack_u64(in), count = unpack_u64(in);

	if (in->bad)
		return -EBADMSG;
	if (first != *at)
		return -ESTALE;
	if (count > max - MIN(max, *at))
		return -EFBIG;
	if (count > (size_t)(in->end - in->at)) /* each has at least one byte */
		return -EBADMSG;
	for (uint32_t id = *at; count; count--, *at = ++id)
		if (!read(in, id, have, to))
			return -EBADMSG;
	return 0;
}

int entries_decode(struct unpack *in, struct entries_mark *h, const struct entries_sink *to)
{
	if (unpack_u64(in) != VERSION || in->bad)
		return -EBADMSG;

	*h = (struct entries_mark){MAX(1, h->strings), MAX(1, h->modules), MAX(1, h->frames),
				   MAX(1, h->stacks), MAX(1, h->series)};
	int r = read_section(in, &h->strings, ENTRIES_STRINGS_MAX, h, to, read_string);
	r = r ? r : read_section(in, &h->modules, ENTRIES_STRINGS_MAX, h, to, read_module);
	r = r ? r : read_section(in, &h->frames, ENTRIES_STACKS_MAX, h, to, read_frame);
	r = r ? r : read_section(in, &h->stacks, ENTRIES_STACKS_MAX, h, to, read_stack);
	return r ? r : read_section(in, &h->series, ENTRIES_SERIES_MAX, h, to, read_series);
}

/* A sink that adds to a profile. An entry that it already has would not get a new id. */

static bool add_string(void *ctx, uint32_t id, const char *s, size_t len)
{
	return profile_string(ctx, s, len) == id;
}

static bool add_module(void *ctx, uint32_t id, const struct module *m)
{
	return profile_module(ctx, m) == id;
}

static bool add_frame(void *ctx, uint32_t id, const struct frame *f)
{
	return profile_frame(ctx, f) == id;
}

static bool add_stack(void *ctx, uint32_t id, const struct stack *s)
{
	return profile_stack(ctx, s->parent, s->frame) == id;
}

static bool add_series(void *ctx, uint32_t id, const struct label *labels, size_t count)
{
	return profile_series(ctx, labels, count) == id;
}

int entries_read(struct profile *p, struct unpack *in)
{
	const struct entries_sink to = {add_string, add_module, add_frame,
					add_stack,  add_series, p};
	struct entries_mark have = {profile_string_count(p), p->module_count, p->frame_count,
				    p->stack_count, p->series_count};
	uint64_t capped = p->info.capped;

	int r = entries_decode(in, &have, &to);
	return r == -EBADMSG && p->info.capped != capped ? -EFBIG : r;
}

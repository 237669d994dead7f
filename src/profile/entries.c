#include "profile/entries.h"

#include <errno.h>

#include "base/mem.h"

#define VERSION 1

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
	pack_u64(out, f->kind);
	pack_u64(out, f->addr);
	pack_u64(out, f->source);
	pack_u64(out, f->line);
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

/* One section, from *mark on, as far as `end` bytes of output; whether that is all of it. */
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

static bool read_string(struct profile *p, uint32_t id, struct unpack *in)
{
	size_t len;
	const char *s = unpack_str(in, ENTRIES_STRING_MAX, &len);

	return !in->bad && profile_string(p, s, len) == id;
}

static uint32_t read_string_id(const struct profile *p, struct unpack *in)
{
	uint32_t count = profile_string_count(p);

	return (uint32_t)unpack_max(in, count ? count - 1 : 0);
}

static bool read_module(struct profile *p, uint32_t id, struct unpack *in)
{
	struct module m = {.name = read_string_id(p, in)};

	m.path = read_string_id(p, in);
	m.build_id = read_string_id(p, in);
	m.start = unpack_u64(in);
	m.end = unpack_u64(in);
	m.offset = unpack_u64(in);
	return !in->bad && profile_module(p, &m) == id;
}

static bool read_frame(struct profile *p, uint32_t id, struct unpack *in)
{
	struct frame f = {.name = read_string_id(p, in)};

	f.module = (uint32_t)unpack_max(in, p->module_count - 1);
	f.kind = (enum frame_kind)unpack_max(in, FRAME_KINDS - 1);
	f.addr = unpack_u64(in);
	f.source = read_string_id(p, in);
	f.line = (uint32_t)unpack_max(in, UINT32_MAX);
	return !in->bad && profile_frame(p, &f) == id;
}

static bool read_stack(struct profile *p, uint32_t id, struct unpack *in)
{
	uint64_t back = unpack_max(in, id);
	uint32_t frame = (uint32_t)unpack_max(in, p->frame_count - 1);

	if (in->bad || !back || !frame)
		return false;
	return profile_stack(p, (uint32_t)(id - back), frame) == id;
}

static bool read_series(struct profile *p, uint32_t id, struct unpack *in)
{
	struct label labels[ENTRIES_LABELS_MAX];
	size_t count = unpack_max(in, ENTRIES_LABELS_MAX);

	for (size_t i = 0; i < count; i++) {
		labels[i].key = read_string_id(p, in);
		labels[i].value = read_string_id(p, in);
	}
	return !in->bad && count && profile_series(p, labels, count) == id;
}

static int read_section(struct profile *p, uint32_t have, uint32_t max, struct unpack *in,
			bool (*read)(struct profile *, uint32_t, struct unpack *))
{
	uint64_t first = unpack_u64(in), count = unpack_u64(in), capped = p->info.capped;

	if (in->bad)
		return -EBADMSG;
	if (first != have)
		return -ESTALE;
	if (count > max - MIN(max, have))
		return -EFBIG;
	for (uint64_t i = 0; i < count; i++)
		if (!read(p, (uint32_t)(first + i), in))
			return p->info.capped != capped ? -EFBIG : -EBADMSG;
	return 0;
}

int entries_read(struct profile *p, struct unpack *in)
{
	if (unpack_u64(in) != VERSION || in->bad)
		return -EBADMSG;

	uint32_t strings = MAX(1, profile_string_count(p));
	int r = read_section(p, strings, ENTRIES_STRINGS_MAX, in, read_string);
	r = r ? r : read_section(p, p->module_count, ENTRIES_STRINGS_MAX, in, read_module);
	r = r ? r : read_section(p, p->frame_count, ENTRIES_STACKS_MAX, in, read_frame);
	r = r ? r : read_section(p, p->stack_count, ENTRIES_STACKS_MAX, in, read_stack);
	return r ? r : read_section(p, p->series_count, ENTRIES_SERIES_MAX, in, read_series);
}

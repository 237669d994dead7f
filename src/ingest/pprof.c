/*
 * pprof: the profiles of Go's runtime, and of everything else that `go tool pprof` reads.
 *
 * A file's parts point at each other in both directions (samples come before the strings that name
 * their functions), so it is walked twice: first for its tables, which become modules and frames,
 * then for its samples.
 */
#include <errno.h>

#include "base/mem.h"
#include "ingest/module.h"
#include "ingest/pprof_file.h"
#include "ingest/reader.h"
#include "render/pprof.pb-c.h"

#define LABELS_MAX 256u /* of a sample */

struct mapped {
	uint32_t module; /* of the profile */
	enum frame_kind kind;
	uint64_t shift; /* from an address in this mapping to one in the module */
};

struct pprof {
	struct pprof_file file;
	struct profile *p;
	struct mapped *mapped; /* by place of the mapping */
	uint32_t *frames;      /* of the profile; a location's frames are together, leaf first */
	uint32_t *first_frame; /* by place of the location; one more marks the end */
	uint32_t frame_count, frame_cap;
	uint32_t chosen; /* the sample type that becomes the value */
	int64_t counted; /* the one that becomes the count; -1: none */
	uint64_t sample; /* its number, from 1 */
	uint64_t walked; /* frames of the samples so far */
};

static uint32_t keep(struct pprof *f, struct pprof_slice s)
{
	return profile_string(f->p, s.s, s.len);
}

/* ---- tables ---- */

static int make_module(struct pprof *f, uint32_t place)
{
	const struct pprof_mapping *m = &f->file.mappings[place];
	uint64_t id = f->file.mapping_ids.id[place];
	struct pprof_slice path, build_id;
	size_t name_len;

	if (pprof_string(&f->file, m->filename, "mapping", id, "filename", &path) < 0 ||
	    pprof_string(&f->file, m->build_id, "mapping", id, "build_id", &build_id) < 0)
		return -EINVAL;
	if (path.len == 0 && build_id.len == 0)
		return 0;

	const char *name = module_basename(path.s, path.len, &name_len);
	struct module found = {
		.name = profile_string(f->p, name, name_len),
		.path = name_len < path.len ? keep(f, path) : 0,
		.build_id = keep(f, build_id),
		.start = m->start,
		.end = m->limit,
		.offset = m->offset,
	};
	uint32_t module = profile_module(f->p, &found);
	/* The same file may have been mapped at another address by the profile before. */
	const struct module *known = &f->p->modules[module];
	f->mapped[place] = (struct mapped){
		.module = module,
		.kind = module_kind(path.s, path.len),
		.shift = known->start - known->offset - m->start + m->offset,
	};
	return 0;
}

static uint32_t nameless(struct pprof *f, const struct pprof_location *l, uint32_t mapping)
{
	uint32_t module = f->mapped[mapping].module;
	uint64_t at = mapping ? l->address - f->file.mappings[mapping].start +
					f->file.mappings[mapping].offset
			      : l->address;
	CLEANUP(freep)
	char *name = mem_printf("[%s+0x%llx]",
				module ? profile_str(f->p, f->p->modules[module].name) : "unknown",
				(unsigned long long)at);

	return profile_string(f->p, name, strlen(name));
}

static int line_frame(struct pprof *f, uint32_t place, uint32_t i, uint32_t mapping)
{
	const struct pprof_location *l = &f->file.locations[place];
	const struct pprof_line *line = i < l->line_count ? &f->file.lines[l->line + i] : NULL;
	uint64_t id = f->file.location_ids.id[place];
	struct frame frame = {
		.module = f->mapped[mapping].module,
		.addr = l->address ? l->address + f->mapped[mapping].shift : 0,
		.kind = i + 1 < l->line_count ? FRAME_INLINED : f->mapped[mapping].kind,
	};

	if (line && line->function) {
		struct pprof_slice name, source;
		uint32_t at;
		if (pprof_place(&f->file, &f->file.function_ids, line->function, "location", id,
				"line.function_id", &at) < 0)
			return -EINVAL;
		const struct pprof_function *fn = &f->file.functions[at];
		if (pprof_string(&f->file, fn->name, "function", line->function, "name", &name) <
			    0 ||
		    pprof_string(&f->file, fn->filename, "function", line->function, "filename",
				 &source) < 0)
			return -EINVAL;
		frame.name = keep(f, name);
		frame.source = keep(f, source);
		frame.line = protobuf_line(line->line);
		frame.start = protobuf_line(fn->start_line);
	}
	if (!frame.name)
		frame.name = nameless(f, l, mapping);

	MEM_GROW(f->frames, f->frame_count, f->frame_cap);
	f->frames[f->frame_count++] = profile_frame(f->p, &frame);
	return 0;
}

static int make_frames(struct pprof *f, uint32_t place)
{
	const struct pprof_location *l = &f->file.locations[place];
	uint32_t mapping = 0;

	f->first_frame[place] = f->frame_count;
	if (l->mapping && pprof_place(&f->file, &f->file.mapping_ids, l->mapping, "location",
				      f->file.location_ids.id[place], "mapping_id", &mapping) < 0)
		return -EINVAL;
	/* A place without a line is a frame too. */
	for (uint32_t i = 0; i < MAX(l->line_count, 1u); i++)
		if (line_frame(f, place, i, mapping) < 0)
			return -EINVAL;
	return 0;
}

static int make_tables(struct pprof *f)
{
	struct pprof_file *file = &f->file;
	uint32_t locations = file->location_ids.count;

	f->mapped = mem_alloc_array(MAX(file->mapping_ids.count, 1u), sizeof(*f->mapped));
	f->first_frame = mem_alloc_array((size_t)locations + 1, sizeof(*f->first_frame));
	for (uint32_t i = 1; i < file->mapping_ids.count; i++)
		if (make_module(f, i) < 0)
			return -EINVAL;
	for (uint32_t i = 1; i < locations; i++)
		if (make_frames(f, i) < 0)
			return -EINVAL;
	f->first_frame[locations] = f->frame_count;
	return 0;
}

/* ---- what is counted ---- */

static bool is(struct pprof_slice s, const char *word)
{
	return s.len == strlen(word) && memcmp(s.s, word, s.len) == 0;
}

static int type_strings(struct pprof *f, uint32_t i, struct pprof_slice *type,
			struct pprof_slice *unit)
{
	const struct pprof_type *t = &f->file.types[i];

	if (pprof_string(&f->file, t->type, "sample_type", i, "type", type) < 0 ||
	    pprof_string(&f->file, t->unit, "sample_type", i, "unit", unit) < 0)
		return -EINVAL;
	return 0;
}

static int unknown_type(struct pprof *f)
{
	char known[160] = "";
	struct pprof_slice type, unit;

	for (uint32_t i = 0; i < f->file.type_count; i++) {
		size_t n = strlen(known);
		if (type_strings(f, i, &type, &unit) == 0)
			snprintf(known + n, sizeof(known) - n, "%s%s", n ? ", " : "",
				 READER_QUOTE(type.s, type.len));
	}
	return reader_fail_at(
		f->file.r, -EINVAL, "", "there is no sample type '%s'; it has %s",
		READER_QUOTE(f->file.r->o->sample_type, strlen(f->file.r->o->sample_type)), known);
}

/* What counts the samples: the nearest type before the chosen one whose unit is that. */
static int choose_count(struct pprof *f)
{
	struct pprof_slice type, unit;

	for (f->counted = f->chosen; f->counted >= 0; f->counted--)
		if (type_strings(f, (uint32_t)f->counted, &type, &unit) < 0 || is(unit, "count"))
			break;
	return type_strings(f, f->chosen, &type, &unit);
}

static int choose_type(struct pprof *f)
{
	const char *wanted = f->file.r->o->sample_type;
	struct pprof_slice type, unit;
	bool found = false;

	if (f->file.type_count == 0)
		return reader_fail_at(f->file.r, -EINVAL, "sample_type", "there is none");
	f->chosen = f->file.type_count - 1;
	for (uint32_t i = 0; i < f->file.type_count; i++) {
		if (type_strings(f, i, &type, &unit) < 0)
			return -EINVAL;
		if (wanted ? is(type, wanted)
			   : f->file.default_type &&
				     f->file.types[i].type == f->file.default_type) {
			f->chosen = i;
			found = true;
			break;
		}
	}
	if (wanted && !found)
		return unknown_type(f);

	return choose_count(f);
}

static void set_info(struct pprof *f)
{
	const struct pprof_file *file = &f->file;
	const struct pprof_type *chosen = &file->types[f->chosen];
	struct profile_info *info = &file->r->info;
	struct pprof_slice type = file->strings[chosen->type], unit = file->strings[chosen->unit];

	info->type = profile_str(f->p, keep(f, type));
	info->unit = is(type, "samples") && is(unit, "count") ? "samples"
							      : profile_str(f->p, keep(f, unit));
	info->start_ns = (uint64_t)MAX(file->time_ns, 0);
	info->duration_ns = (uint64_t)MAX(file->duration_ns, 0);
	info->period = is(type, "samples") ? 1
		       : file->period > 0 && file->period_type.unit == chosen->unit
			       ? (uint64_t)file->period
			       : 0;
}

/* ---- samples ---- */

static int add_label(struct pprof *f, const Pprof__Label *l, struct label *ret)
{
	struct pprof_slice key, value, unit;
	char number[64];

	if (pprof_string(&f->file, l->key, "sample", f->sample, "label.key", &key) < 0 ||
	    pprof_string(&f->file, l->str, "sample", f->sample, "label.str", &value) < 0 ||
	    pprof_string(&f->file, l->num_unit, "sample", f->sample, "label.num_unit", &unit) < 0)
		return -EINVAL;
	if (!l->str) {
		/* A unit that only repeats the key (bytes: 4096 bytes) says nothing. */
		bool plain = unit.len == 0 ||
			     (unit.len == key.len && memcmp(unit.s, key.s, key.len) == 0);
		value.len = (uint32_t)snprintf(number, sizeof(number), "%lld%s%.*s",
					       (long long)l->num, plain ? "" : " ",
					       plain ? 0 : (int)MIN(unit.len, 32u), unit.s);
		value.s = number;
	}
	*ret = (struct label){keep(f, key), keep(f, value)};
	return 0;
}

static int add_labels(struct pprof *f, const Pprof__Sample *s, uint32_t *ret)
{
	struct label labels[LABELS_MAX];
	size_t count = 0;

	if (s->n_label > LABELS_MAX)
		return pprof_fail(&f->file, "sample", f->sample, "it has more than 256 labels");
	for (size_t i = 0; i < s->n_label; i++) {
		if (f->file.r->o->words_only && !s->label[i]->str)
			continue;
		if (add_label(f, s->label[i], &labels[count++]) < 0)
			return -EINVAL;
	}
	*ret = profile_series(f->p, labels, count);
	return 0;
}

/* Locations come leaf first, and so do the frames of one; stacks are built from the root. */
static int add_stack(struct pprof *f, const Pprof__Sample *s, uint64_t count, uint32_t *ret)
{
	uint32_t stack = 0, depth = 0;

	for (size_t i = s->n_location_id; i-- > 0 && depth <= INGEST_DEPTH_MAX;) {
		uint32_t at;
		if (pprof_place(&f->file, &f->file.location_ids, s->location_id[i], "sample",
				f->sample, "location_id", &at) < 0)
			return -EINVAL;
		for (uint32_t l = f->first_frame[at + 1]; l-- > f->first_frame[at];) {
			if (++depth > INGEST_DEPTH_MAX)
				break;
			stack = profile_stack(f->p, stack, f->frames[l]);
		}
	}
	f->walked += depth;
	if (f->walked > f->file.r->caps.walk)
		return pprof_fail(&f->file, "sample", f->sample,
				  "the samples have too many frames");
	if (depth > INGEST_DEPTH_MAX) {
		f->file.r->info.truncated += count;
		stack = reader_truncated(f->file.r, stack);
	}
	*ret = stack;
	return 0;
}

static int add_sample(struct pprof *f, const Pprof__Sample *s)
{
	uint32_t series = 0, stack = 0;

	if (s->n_value != f->file.type_count)
		return pprof_fail(&f->file, "sample", f->sample,
				  "the number of values differs from the number of sample types");
	int64_t value = s->value[f->chosen];
	int64_t count = f->counted < 0 ? 1 : s->value[f->counted];
	if (value < 0 || count < 0)
		return pprof_fail(&f->file, "sample", f->sample,
				  "its value is negative: a difference of two profiles has no one "
				  "flame graph");
	if (add_labels(f, s, &series) < 0 || add_stack(f, s, (uint64_t)count, &stack) < 0)
		return -EINVAL;
	if (value == 0 && count == 0)
		return 0;
	return reader_add(f->file.r, series, stack, (uint64_t)count, (uint64_t)value);
}

static int add_samples(struct pprof *f)
{
	struct protobuf wire = {f->file.data, f->file.data + f->file.len};
	struct protobuf_field w;

	while (protobuf_next(&wire, &w) > 0) {
		if (w.number != PPROF_SAMPLE || w.type != PROTOBUF_BYTES)
			continue;
		f->sample++;
		const Pprof__Sample *s = pprof_unpack(&f->file, &pprof__sample__descriptor, &w);
		int err = s ? add_sample(f, s) : -EINVAL;
		if (err)
			return err;
	}
	return 0;
}

/* The samples of the chosen type, into f->p. */
static int read_chosen(struct pprof *f)
{
	int err = make_tables(f);

	if (!err) {
		set_info(f);
		err = add_samples(f);
	}
	free(TAKE_PTR(f->mapped));
	free(TAKE_PTR(f->frames));
	free(TAKE_PTR(f->first_frame));
	f->frame_count = f->frame_cap = 0;
	return err;
}

int pprof_read(struct reader *r)
{
	struct pprof f = {.p = r->p};
	int err = pprof_file_load(&f.file, r);

	if (!err)
		err = choose_type(&f);
	if (!err)
		err = read_chosen(&f);
	pprof_file_done(&f.file);
	return err;
}

/* What measured it, if the file says that. */
static int period_words(struct pprof *f, struct ingest_value_type *t)
{
	const struct pprof_type *period = &f->file.period_type;
	struct pprof_slice type = {}, unit = {};

	if ((period->type || period->unit) &&
	    (pprof_string(&f->file, period->type, "period_type", 0, "type", &type) < 0 ||
	     pprof_string(&f->file, period->unit, "period_type", 0, "unit", &unit) < 0))
		return -EINVAL;
	t->period_type = profile_str(f->p, keep(f, type));
	t->period_unit = profile_str(f->p, keep(f, unit));
	return 0;
}

/* 1, 0 or a reported error. */
static int is_wanted(struct pprof *f, uint32_t i)
{
	const struct ingest_options *o = f->file.r->o;
	struct pprof_slice type, unit;
	char words[2][64];

	if (!o->wants)
		return 1;
	if (type_strings(f, i, &type, &unit) < 0)
		return -EINVAL;
	snprintf(words[0], sizeof(words[0]), "%.*s", (int)MIN(type.len, 63u), type.s);
	snprintf(words[1], sizeof(words[1]), "%.*s", (int)MIN(unit.len, 63u), unit.s);
	return o->wants(o->wants_ctx, words[0], words[1]);
}

static int read_type(struct pprof *f, uint32_t i, ingest_type_fn *fn, void *ctx)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	struct reader *r = f->file.r;
	struct ingest_value_type t;

	profile_set_stacks_max(p, r->caps.stacks);
	f->p = r->p = p;
	f->chosen = i;
	f->sample = r->sum = 0;
	r->info = (struct profile_info){};
	int err = choose_count(f);
	if (!err)
		err = read_chosen(f);
	if (!err)
		err = period_words(f, &t);
	if (err)
		return err;
	r->info.capped = p->info.capped;
	p->info = r->info;
	t.type = profile_str(p, keep(f, f->file.strings[f->file.types[i].type]));
	t.unit = profile_str(p, keep(f, f->file.strings[f->file.types[i].unit]));
	return fn(ctx, TAKE_PTR(p), &t);
}

int pprof_read_types(struct reader *r, ingest_type_fn *fn, void *ctx)
{
	struct pprof f = {};
	int err = pprof_file_load(&f.file, r);

	if (!err && !f.file.type_count)
		err = reader_fail_at(r, -EINVAL, "sample_type", "there is none");
	for (uint32_t i = 0; !err && i < f.file.type_count; i++) {
		int wanted = is_wanted(&f, i);
		err = wanted > 0 ? read_type(&f, i, fn, ctx) : wanted;
	}
	pprof_file_done(&f.file);
	return err;
}

/*
 * Text has no control bytes, and a pprof can hardly be without; after that it has to walk like one,
 * as far as its start was read.
 */
bool pprof_looks_like(const char *data, size_t len)
{
	const uint8_t *bytes = (const uint8_t *)data;
	struct protobuf wire = {bytes, bytes + len};
	struct protobuf_field w;
	bool binary = false;
	int fields = 0;

	for (size_t i = 0; i < MIN(len, (size_t)4096) && !binary; i++)
		binary = bytes[i] < 0x20 && !memchr("\t\n\r\f\033", bytes[i], 5);
	if (!binary)
		return false;
	for (; fields < 16 && protobuf_next(&wire, &w) > 0; fields++) {
		bool message = w.number <= PPROF_STRING_TABLE || w.number == PPROF_PERIOD_TYPE;
		if (w.number > PPROF_DEFAULT_SAMPLE_TYPE + 8 ||
		    (message && w.type != PROTOBUF_BYTES))
			return false;
	}
	/* The first field may be larger than what was read; then its tag has to do. */
	return fields > 0 ||
	       (len > PROTOBUF_MESSAGE_MAX / 32 && (bytes[0] & 7) == PROTOBUF_BYTES &&
		bytes[0] >> 3 >= PPROF_SAMPLE_TYPE && bytes[0] >> 3 <= PPROF_STRING_TABLE);
}

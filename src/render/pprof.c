/*
 * pprof: a profile as `go tool pprof` reads it.
 *
 * A protobuf message may be written in pieces that each hold a part of it, so the file goes out as
 * a row of small Profile messages, one for each sample, location, function, … and nothing is built
 * in memory but the tables that number them. The string table comes last, when it is complete.
 *
 * All labels are written as strings, numbers like pid included: `go tool pprof -tags` prints a
 * numeric label with its key as the unit ("42pid"), and -tagfocus takes it only as a range.
 */
#include <errno.h>
#include <zlib.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/string_pool.h"
#include "render/locations.h"
#include "render/render.h"
#include "render/pprof.pb-c.h"

#define GZIP_WINDOW (15 + 16) /* zlib: the largest window, in gzip's wrapping */
#define CHUNK       (64 * 1024)

struct function {
	uint32_t name;   /* string of the profile */
	uint32_t source; /* string of the profile */
	uint32_t start;
};

struct writer {
	const struct profile *p;
	FILE *out;
	z_stream gz;
	int err;
	uint8_t *pending; /* packed, not yet compressed */
	size_t pending_len, pending_cap;
	struct string_pool strings; /* its ids are those of the string table */
	struct locations locations;
	struct function *functions;
	uint32_t function_count, function_cap;
	struct index by_function;
	uint32_t kernel, jit; /* mappings for frames of these kinds without a module; 0: none */
	uint64_t *ids;        /* of the sample being written */
	size_t id_cap;
};

static void compress_pending(struct writer *w, int flush)
{
	uint8_t buf[CHUNK];
	int r;

	w->gz.next_in = w->pending;
	w->gz.avail_in = (uInt)w->pending_len;
	w->pending_len = 0;
	do {
		w->gz.next_out = buf;
		w->gz.avail_out = sizeof(buf);
		r = deflate(&w->gz, flush);
		size_t n = sizeof(buf) - w->gz.avail_out;
		/* cppcheck-suppress uninitvar; deflate has written it */
		if (!w->err && n && fwrite(buf, 1, n, w->out) != n)
			w->err = errno ? -errno : -EIO;
	} while (w->gz.avail_out == 0 || (flush == Z_FINISH && r == Z_OK));
}

/* Writes one piece of the profile. */
static void put(struct writer *w, const Pprof__Profile *piece)
{
	size_t len = pprof__profile__get_packed_size(piece);

	if (w->pending_len + len > w->pending_cap) {
		compress_pending(w, Z_NO_FLUSH);
		if (len > w->pending_cap) {
			w->pending_cap = MAX(len, (size_t)CHUNK);
			w->pending = mem_resize_array(w->pending, w->pending_cap, 1);
		}
	}
	w->pending_len += pprof__profile__pack(piece, w->pending + w->pending_len);
}

#define PUT(w, ...)                                                                                \
	do {                                                                                       \
		Pprof__Profile piece_ = PPROF__PROFILE__INIT;                                      \
		__VA_ARGS__;                                                                       \
		put((w), &piece_);                                                                 \
	} while (0)
#define PUT_ONE(w, field, message)                                                                 \
	PUT(w, piece_.n_##field = 1; piece_.field = &(__typeof__(*piece_.field)){message})

static int64_t text(struct writer *w, const char *s)
{
	return string_pool_put(&w->strings, s, strlen(s));
}

/* A string of the profile as a string of the file. */
static int64_t string(struct writer *w, uint32_t id)
{
	return string_pool_put(&w->strings, profile_str(w->p, id), profile_str_len(w->p, id));
}

static int64_t number(uint64_t n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

static bool counts_only(const struct profile *p)
{
	return strcmp(p->info.type, "samples") == 0;
}

static void put_comment(struct writer *w, uint64_t n, const char *what)
{
	if (!n)
		return;

	CLEANUP(freep) char *words = mem_printf("%llu %s", (unsigned long long)n, what);
	PUT(w, piece_.n_comment = 1; piece_.comment = &(int64_t){text(w, words)});
}

static void put_info(struct writer *w)
{
	const struct profile_info *info = &w->p->info;
	Pprof__ValueType count = PPROF__VALUE_TYPE__INIT, value = PPROF__VALUE_TYPE__INIT;

	count.type = text(w, "samples");
	count.unit = text(w, "count");
	PUT_ONE(w, sample_type, &count);
	if (!counts_only(w->p)) {
		value.type = text(w, info->type);
		value.unit = text(w, info->unit);
		PUT_ONE(w, sample_type, &value);
	}

	Pprof__Profile piece = PPROF__PROFILE__INIT;
	piece.time_nanos = number(info->start_ns);
	piece.duration_nanos = number(info->duration_ns);
	if (info->period) {
		piece.period_type = counts_only(w->p) ? &count : &value;
		piece.period = number(info->period);
	}
	piece.default_sample_type = text(w, info->type);
	put(w, &piece);

	put_comment(w, info->lost, "samples were lost");
	put_comment(w, info->truncated, "samples have a truncated stack");
	put_comment(w, info->capped,
		    "samples have a shortened stack, because the profile was full");
}

static size_t sample_locations(struct writer *w, uint32_t stack)
{
	size_t n = 0;

	while (stack) {
		MEM_GROW(w->ids, n, w->id_cap);
		w->ids[n++] = locations_next(&w->locations, &stack);
	}
	return n;
}

static void put_samples(struct writer *w)
{
	const struct profile *p = w->p;
	CLEANUP(freep) Pprof__Label *labels = NULL;
	CLEANUP(freep) Pprof__Label **label_of = NULL;
	size_t most = 0;

	for (uint32_t i = 1; i < p->series_count; i++)
		most = MAX(most, p->series[i].count);
	labels = mem_alloc_array(most, sizeof(*labels));
	label_of = mem_alloc_array(most, sizeof(*label_of));

	for (uint32_t i = 0; i < p->sample_count && !w->err; i++) {
		const struct sample *s = &p->samples[i];
		const struct series *series = &p->series[s->series];
		Pprof__Sample sample = PPROF__SAMPLE__INIT;
		int64_t values[] = {number(s->count), number(s->value)};

		for (uint32_t l = 0; l < series->count; l++) {
			labels[l] = (Pprof__Label)PPROF__LABEL__INIT;
			labels[l].key = string(w, series->labels[l].key);
			labels[l].str = string(w, series->labels[l].value);
			label_of[l] = &labels[l];
		}
		sample.n_label = series->count;
		sample.label = label_of;
		sample.n_location_id = sample_locations(w, s->stack);
		sample.location_id = w->ids;
		sample.n_value = counts_only(p) ? 1 : 2;
		sample.value = values;
		PUT_ONE(w, sample, &sample);
	}
}

static bool outside_program(const struct profile *p, const struct module *m)
{
	return profile_str(p, m->name)[0] == '[';
}

static void put_mapping(struct writer *w, uint64_t id, const struct module *m, const char *name,
			Pprof__Mapping has)
{
	has.id = id;
	has.filename = name ? text(w, name) : m ? string(w, m->path ? m->path : m->name) : 0;
	has.has_functions = true;
	if (m) {
		has.memory_start = m->start;
		has.memory_limit = m->end;
		has.file_offset = m->offset;
		has.build_id = string(w, m->build_id);
	}
	PUT_ONE(w, mapping, &has);
}

static bool is_library(const char *name)
{
	const char *so = strstr(name, ".so");

	return so && (so[3] == '\0' || so[3] == '.');
}

/* The program that most samples went through; 0: there is none. */
static uint32_t find_program(const struct profile *p)
{
	CLEANUP(freep) uint64_t *totals = mem_alloc_array(p->stack_count, sizeof(*totals));
	CLEANUP(freep) uint64_t *in = mem_alloc_array(p->module_count, sizeof(*in));
	uint32_t most = 0;

	for (uint32_t i = 0; i < p->sample_count; i++)
		totals[p->samples[i].stack] += p->samples[i].count;
	for (uint32_t id = p->stack_count; id-- > 1;) {
		totals[p->stacks[id].parent] += totals[id];
		in[p->frames[p->stacks[id].frame].module] += totals[id];
	}
	for (uint32_t i = 1; i < p->module_count; i++)
		if (in[i] > (most ? in[most] : 0) && !outside_program(p, &p->modules[i]) &&
		    !is_library(profile_str(p, p->modules[i].name)))
			most = i;
	return most;
}

/*
 * Viewers take the first mapping for the program, so that comes first, then libraries, then
 * [kernel] and [vdso]. Frames of the kernel or of a JIT without a module get a mapping that says
 * so: the format has no kinds.
 */
static void put_mappings(struct writer *w)
{
	const struct profile *p = w->p;
	bool kernel = false, jit = false;
	CLEANUP(freep) Pprof__Mapping *has = mem_alloc_array(p->module_count, sizeof(*has));

	for (uint32_t i = 0; i < p->module_count; i++)
		has[i] = (Pprof__Mapping)PPROF__MAPPING__INIT;
	for (uint32_t i = 1; i < p->frame_count; i++) {
		const struct frame *f = &p->frames[i];
		has[f->module].has_filenames |= f->source != 0;
		has[f->module].has_line_numbers |= f->line != 0;
		has[f->module].has_inline_frames |= f->kind == FRAME_INLINED;
		kernel |= !f->module && f->kind == FRAME_KERNEL;
		jit |= !f->module && f->kind == FRAME_JIT;
	}

	uint32_t program = find_program(p);
	if (program)
		put_mapping(w, program, &p->modules[program], NULL, has[program]);
	for (int outside = 0; outside <= 1; outside++)
		for (uint32_t i = 1; i < p->module_count; i++)
			if (i != program && outside_program(p, &p->modules[i]) == outside)
				put_mapping(w, i, &p->modules[i], NULL, has[i]);
	w->kernel = kernel ? p->module_count : 0;
	w->jit = jit ? p->module_count + 1 : 0;
	if (jit)
		put_mapping(w, w->jit, NULL, "[jit]", has[0]);
	if (kernel)
		put_mapping(w, w->kernel, NULL, "[kernel]", has[0]);
}

static uint32_t function(struct writer *w, const struct frame *f)
{
	uint32_t hash = index_hash2((uint64_t)f->name << 32 | f->source, f->start);
	uint32_t id;

	INDEX_EACH(&w->by_function, hash, id)
		if (w->functions[id].name == f->name && w->functions[id].source == f->source &&
		    w->functions[id].start == f->start)
			return id;

	MEM_GROW(w->functions, w->function_count + 1, w->function_cap);
	id = ++w->function_count;
	w->functions[id] = (struct function){f->name, f->source, f->start};
	index_put(&w->by_function, hash, id);

	Pprof__Function fn = PPROF__FUNCTION__INIT;
	fn.id = id;
	fn.name = fn.system_name = string(w, f->name);
	fn.filename = string(w, f->source);
	fn.start_line = f->start;
	PUT_ONE(w, function, &fn);
	return id;
}

static uint64_t mapping(const struct writer *w, const struct frame *f)
{
	if (f->module)
		return f->module;
	return f->kind == FRAME_KERNEL ? w->kernel : f->kind == FRAME_JIT ? w->jit : 0;
}

static void put_locations(struct writer *w)
{
	const struct profile *p = w->p;
	CLEANUP(freep) Pprof__Line *lines = NULL;
	CLEANUP(freep) Pprof__Line **line_of = NULL;
	size_t line_cap = 0, line_of_cap = 0;

	for (uint32_t id = 1; id <= w->locations.count; id++) {
		const struct frame *f = NULL;
		size_t n = 0;

		if (!w->locations.all[id].used)
			continue;
		for (uint32_t at = id; at; at = w->locations.all[at].outer) {
			f = &p->frames[w->locations.all[at].frame];
			MEM_GROW(lines, n, line_cap);
			lines[n] = (Pprof__Line)PPROF__LINE__INIT;
			lines[n].function_id = function(w, f);
			lines[n++].line = f->line;
		}
		for (size_t i = 0; i < n; i++) {
			MEM_GROW(line_of, i, line_of_cap);
			line_of[i] = &lines[i];
		}

		Pprof__Location l = PPROF__LOCATION__INIT;
		l.id = id;
		l.mapping_id = mapping(w, f);
		l.address = f->addr;
		l.n_line = n;
		l.line = line_of;
		PUT_ONE(w, location, &l);
	}
}

static void put_strings(struct writer *w)
{
	for (uint32_t i = 0; i < MAX(w->strings.count, 1u); i++)
		PUT_ONE(w, string_table, (char *)string_pool_get(&w->strings, i));
}

static void writer_done(struct writer *w)
{
	deflateEnd(&w->gz);
	string_pool_done(&w->strings);
	index_done(&w->by_function);
	free(w->pending);
	locations_done(&w->locations);
	free(w->functions);
	free(w->ids);
}

int render_pprof(const struct profile *p, const struct render_options *o, FILE *out)
{
	if (o->tree.base) /* of the rest of the options nothing: its viewers choose */
		return -EOPNOTSUPP;
	CLEANUP(writer_done) struct writer w = {.p = p, .out = out};

	if (deflateInit2(&w.gz, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		return -ENOMEM;
	put_info(&w);
	locations_number(&w.locations, p);
	put_samples(&w);
	put_mappings(&w);
	put_locations(&w);
	put_strings(&w);
	compress_pending(&w, Z_FINISH);
	return w.err;
}

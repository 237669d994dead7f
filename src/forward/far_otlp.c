/*
 * OTLP profiles, by HTTP, as protobuf in gzip.
 *
 * Each series is a resource of its own, whose attributes are all of its labels, by their names in
 * the semantic conventions: backends make series of a resource's attributes, and of a sample's they
 * do not. Samples of a clock are counts with a period, as OpenTelemetry's own profiler has them,
 * and with their times if those are known; all others have one value each. What was taken in a span
 * of a trace is a sample of its own, with a link to the span and without times.
 *
 * Messages are written as they come, entries of the dictionary into a second buffer: so nothing is
 * built in memory but the tables that number them. Element 0 of each table is the empty one.
 */
#include "forward/far.h"

#include <errno.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/string_pool.h"
#include "ingest/otlp.pb-c.h"
#include "ingest/otlp_names.h"
#include "ingest/protobuf.h"
#include "render/locations.h"
#include "serve/gzip.h"

enum { /* fields of the request, its dictionary, and a resource's profiles */
       RESOURCES = 1,
       DICTIONARY = 2,
       MAPPINGS = 1,
       LOCATIONS = 2,
       FUNCTIONS = 3,
       LINKS = 4,
       STRINGS = 5,
       ATTRIBUTES = 6,
       STACKS = 7,
       PARTIAL_SUCCESS = 1,
       REJECTED = 1,
       WHY_REJECTED = 2,
};

#define LENGTH_DELIMITED 2

struct function {
	uint32_t name, source; /* strings of the profile */
};

struct writer {
	const struct profile *p;
	const struct window *w;
	struct pack out, dict;
	struct string_pool strings;
	struct locations locations;
	int32_t *mapping_of, *stack_of, *location_of, *link_of; /* by id; 0: not written */
	uint32_t location_cap;
	struct function *functions;
	uint32_t function_count, function_cap;
	struct index by_function;
	int32_t mappings, stacks, written_locations, links, attributes; /* so far, with element 0 */
	int32_t kind_of[FRAME_KINDS]; /* attributes; 0: not written */
	bool is_clock;
	Otlp__ValueType type, period_type;
};

static void put_head(struct pack *to, uint32_t field, size_t len)
{
	pack_u64(to, field << 3 | LENGTH_DELIMITED);
	pack_u64(to, len);
}

static void put(struct pack *to, uint32_t field, const ProtobufCMessage *m)
{
	size_t len = protobuf_c_message_get_packed_size(m);
	CLEANUP(freep) uint8_t *bytes = mem_resize_array(NULL, len + 1, 1);

	protobuf_c_message_pack(m, bytes);
	put_head(to, field, len);
	pack_raw(to, bytes, len);
}

#define PUT(to, field, message) put(to, field, &(message)->base)

static int32_t text(struct writer *w, const char *s, size_t len)
{
	uint32_t before = w->strings.count;
	uint32_t id = string_pool_put(&w->strings, s, len);

	if (id && w->strings.count > before) {
		put_head(&w->dict, STRINGS, len);
		pack_raw(&w->dict, s, len);
	}
	return (int32_t)id;
}

static int32_t word(struct writer *w, const char *s)
{
	return text(w, s, strlen(s));
}

/* A string of the profile. */
static int32_t string(struct writer *w, uint32_t id)
{
	return text(w, profile_str(w->p, id), profile_str_len(w->p, id));
}

static int32_t attribute(struct writer *w, const char *key, const char *value)
{
	Otlp__AnyValue v = OTLP__ANY_VALUE__INIT;
	Otlp__KeyValueAndUnit a = OTLP__KEY_VALUE_AND_UNIT__INIT;

	v.string_value = (char *)value;
	a.key_strindex = word(w, key);
	a.value = &v;
	PUT(&w->dict, ATTRIBUTES, &a);
	return w->attributes++;
}

/* ---- stacks -------------------------------------------------------------------------------- */

static int32_t mapping(struct writer *w, uint32_t module)
{
	const struct module *m = &w->p->modules[module];
	Otlp__Mapping mapping = OTLP__MAPPING__INIT;
	int32_t build_id;

	if (!module || w->mapping_of[module])
		return module ? w->mapping_of[module] : 0;
	mapping.memory_start = m->start;
	mapping.memory_limit = m->end;
	mapping.file_offset = m->offset;
	mapping.filename_strindex = string(w, m->path ? m->path : m->name);
	if (m->build_id) {
		build_id = attribute(w, "process.executable.build_id.gnu",
				     profile_str(w->p, m->build_id));
		mapping.n_attribute_indices = 1;
		mapping.attribute_indices = &build_id;
	}
	PUT(&w->dict, MAPPINGS, &mapping);
	return w->mapping_of[module] = w->mappings++;
}

static int32_t function(struct writer *w, const struct frame *f)
{
	uint32_t hash = index_hash2(f->name, f->source);
	Otlp__Function function = OTLP__FUNCTION__INIT;
	uint32_t id;

	INDEX_EACH(&w->by_function, hash, id)
		if (w->functions[id].name == f->name && w->functions[id].source == f->source)
			return (int32_t)id;
	MEM_GROW(w->functions, w->function_count + 1, w->function_cap);
	id = ++w->function_count;
	w->functions[id] = (struct function){f->name, f->source};
	index_put(&w->by_function, hash, id);
	function.name_strindex = function.system_name_strindex = string(w, f->name);
	function.filename_strindex = string(w, f->source);
	PUT(&w->dict, FUNCTIONS, &function);
	return (int32_t)id;
}

/* profile.frame.type; 0: the convention has no word for it, or more than one. */
static int32_t kind_of(struct writer *w, enum frame_kind kind)
{
	static const char *const words[FRAME_KINDS] = {
		[FRAME_USER] = "native",
		[FRAME_KERNEL] = "kernel",
		[FRAME_BPF] = "kernel",
		[FRAME_GO] = "go",
	};

	if (words[kind] && !w->kind_of[kind])
		w->kind_of[kind] = attribute(w, "profile.frame.type", words[kind]);
	return w->kind_of[kind];
}

static int32_t location(struct writer *w, uint32_t id)
{
	CLEANUP(freep) Otlp__Line *lines = NULL;
	CLEANUP(freep) Otlp__Line **line_of = NULL;
	size_t n = 0, cap = 0;
	Otlp__Location l = OTLP__LOCATION__INIT;
	const struct frame *f = NULL;

	if (w->location_of[id])
		return w->location_of[id];
	for (uint32_t at = id; at; at = w->locations.all[at].outer) {
		f = &w->p->frames[w->locations.all[at].frame];
		MEM_GROW(lines, n, cap);
		lines[n] = (Otlp__Line)OTLP__LINE__INIT;
		lines[n].function_index = function(w, f);
		lines[n++].line = f->line;
	}
	line_of = mem_alloc_array(n + 1, sizeof(*line_of));
	for (size_t i = 0; i < n; i++)
		line_of[i] = &lines[i];
	int32_t kind = kind_of(w, f->kind);
	l.mapping_index = mapping(w, f->module);
	l.address = f->addr;
	l.n_lines = n;
	l.lines = line_of;
	l.n_attribute_indices = kind != 0;
	l.attribute_indices = &kind;
	PUT(&w->dict, LOCATIONS, &l);
	return w->location_of[id] = w->written_locations++;
}

static int32_t stack(struct writer *w, uint32_t id)
{
	CLEANUP(freep) int32_t *locations = NULL;
	Otlp__Stack stack = OTLP__STACK__INIT;
	uint32_t at = id;
	size_t n = 0, cap = 0;

	if (!id || w->stack_of[id])
		return id ? w->stack_of[id] : 0;
	while (at) {
		uint32_t one = locations_next(&w->locations, &at);
		MEM_GROW(locations, n, cap);
		locations[n++] = location(w, one);
	}
	stack.n_location_indices = n;
	stack.location_indices = locations;
	PUT(&w->dict, STACKS, &stack);
	return w->stack_of[id] = w->stacks++;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* Whether each sample is worth the period, of time: then they are counted. */
static bool is_clock(const struct window *w)
{
	if (!w->period || strcmp(w->unit, "nanoseconds") != 0)
		return false;
	for (uint32_t i = 0; i < w->row_count; i++)
		if (w->rows[i].value != w->rows[i].count * w->period)
			return false;
	return true;
}

static void set_types(struct writer *w)
{
	const char *type = far_type_name(w->w);

	w->is_clock = is_clock(w->w);
	w->type = (Otlp__ValueType)OTLP__VALUE_TYPE__INIT;
	w->period_type = (Otlp__ValueType)OTLP__VALUE_TYPE__INIT;
	w->type.type_strindex = word(w, w->is_clock ? "samples" : type);
	w->type.unit_strindex = word(w, w->is_clock ? "count" : w->w->unit);
	w->period_type.type_strindex = word(w, type);
	w->period_type.unit_strindex = word(w, w->w->unit);
}

static int32_t link_to(struct writer *w, const struct window_span *s)
{
	static const uint8_t unknown[sizeof(s->trace)];
	int32_t *link = &w->link_of[s - w->w->spans];
	Otlp__Link l = OTLP__LINK__INIT;

	if (*link)
		return *link;
	if (memcmp(s->trace, unknown, sizeof(unknown)) != 0)
		l.trace_id = (ProtobufCBinaryData){sizeof(s->trace), (uint8_t *)s->trace};
	l.span_id = (ProtobufCBinaryData){sizeof(s->span), (uint8_t *)s->span};
	PUT(&w->dict, LINKS, &l);
	return *link = w->links++;
}

/* `times`: of all its samples; NULL: they are not known. */
static Otlp__Sample *make_sample(struct writer *w, uint32_t stack_id, const struct far_part *part,
				 const uint16_t *times)
{
	Otlp__Sample *s = mem_alloc(sizeof(*s));

	otlp__sample__init(s);
	s->stack_index = stack(w, stack_id);
	s->link_index = part->span ? link_to(w, part->span) : 0;
	if (w->is_clock && times) {
		s->n_timestamps_unix_nano = part->count;
		s->timestamps_unix_nano = mem_alloc_array(part->count, sizeof(uint64_t));
		for (uint64_t i = 0; i < part->count; i++)
			s->timestamps_unix_nano[i] =
				(w->w->start_ms + times[i] * (uint64_t)WINDOW_STEP_MS) * 1000000;
		return s;
	}
	s->n_values = 1;
	s->values = mem_alloc(sizeof(int64_t));
	s->values[0] = (int64_t)MIN(w->is_clock ? part->count : part->value, (uint64_t)INT64_MAX);
	return s;
}

/* Labels as attributes of a resource, in the message itself. */
static void set_resource(struct writer *w, uint32_t series, Otlp__Resource *ret)
{
	const struct series *s = &w->p->series[series];

	otlp__resource__init(ret);
	ret->attributes = mem_alloc_array(s->count + 1, sizeof(*ret->attributes));
	for (uint32_t i = 0; i < s->count; i++) {
		Otlp__KeyValue *kv = mem_alloc(sizeof(*kv));
		Otlp__AnyValue *v = mem_alloc(sizeof(*v));
		otlp__key_value__init(kv);
		otlp__any_value__init(v);
		kv->key = (char *)otlp_attribute(profile_str(w->p, s->labels[i].key));
		kv->value = v;
		v->string_value = (char *)profile_str(w->p, s->labels[i].value);
		ret->attributes[ret->n_attributes++] = kv;
	}
}

static void free_resource(Otlp__Resource *r)
{
	for (size_t i = 0; i < r->n_attributes; i++) {
		free(r->attributes[i]->value);
		free(r->attributes[i]);
	}
	free(r->attributes);
}

static void put_series(struct writer *w, const struct far_rows *rows, uint64_t nth)
{
	CLEANUP(freep)
	Otlp__Sample **samples =
		mem_alloc_array(rows->end - rows->first + w->w->span_row_count, sizeof(*samples));
	Otlp__ResourceProfiles resources = OTLP__RESOURCE_PROFILES__INIT;
	Otlp__ScopeProfiles scopes = OTLP__SCOPE_PROFILES__INIT;
	Otlp__InstrumentationScope scope = OTLP__INSTRUMENTATION_SCOPE__INIT;
	Otlp__Profile profile = OTLP__PROFILE__INIT;
	const uint16_t *times = w->w->times;
	struct far_parts parts;
	struct far_part part;
	Otlp__Resource resource;
	uint8_t id[16];

	for (uint32_t i = 0; times && i < rows->first; i++)
		times += w->w->rows[i].count;
	for (uint32_t i = rows->first; i < rows->end; i++) {
		const struct window_row *row = &w->w->rows[i];
		for (far_parts(w->w, row, &parts); far_next_part(&parts, &part);)
			samples[profile.n_samples++] =
				make_sample(w, row->stack, &part, parts.in_spans ? NULL : times);
		if (times)
			times += w->w->rows[i].count;
	}
	far_profile_id(w->w, nth, id);
	profile.samples = samples;
	profile.sample_type = &w->type;
	profile.time_unix_nano = w->w->start_ms * 1000000;
	profile.duration_nano = w->w->length_ms * 1000000ull;
	/* Where each unit is counted and none sampled, the period is one of them; of time off the
	 * CPU there is none, as in OpenTelemetry's own. */
	if (strcmp(w->w->type, "offcpu") != 0) {
		profile.period_type = &w->period_type;
		profile.period = (int64_t)MAX(w->w->period, 1u);
	}
	profile.profile_id = (ProtobufCBinaryData){sizeof(id), id};
	scope.name = (char *)"smolder";
	scope.version = (char *)SMOLDER_VERSION;
	scopes.scope = &scope;
	scopes.n_profiles = 1;
	scopes.profiles = (Otlp__Profile *[]){&profile};
	set_resource(w, w->w->rows[rows->first].series, &resource);
	resources.resource = &resource;
	resources.n_scope_profiles = 1;
	resources.scope_profiles = (Otlp__ScopeProfiles *[]){&scopes};
	PUT(&w->out, RESOURCES, &resources);
	free_resource(&resource);
	for (size_t i = 0; i < profile.n_samples; i++) {
		free(samples[i]->values);
		free(samples[i]->timestamps_unix_nano);
		free(samples[i]);
	}
}

/* ---- a request ----------------------------------------------------------------------------- */

static void writer_init(struct writer *w, const struct spooled *r)
{
	*w = (struct writer){.p = r->dict,
			     .w = &r->window,
			     .mappings = 1,
			     .stacks = 1,
			     .written_locations = 1,
			     .links = 1,
			     .attributes = 1};
	for (uint32_t table = MAPPINGS; table <= STACKS; table++)
		put_head(&w->dict, table, 0);
	locations_number(&w->locations, w->p);
	w->mapping_of = mem_alloc_array(w->p->module_count + 1, sizeof(int32_t));
	w->stack_of = mem_alloc_array(w->p->stack_count + 1, sizeof(int32_t));
	w->location_of = mem_alloc_array(w->locations.count + 1, sizeof(int32_t));
	w->link_of = mem_alloc_array(w->w->span_count + 1, sizeof(int32_t));
	set_types(w);
}

static void writer_done(struct writer *w)
{
	pack_done(&w->out);
	pack_done(&w->dict);
	string_pool_done(&w->strings);
	locations_done(&w->locations);
	index_done(&w->by_function);
	free(w->functions);
	free(w->mapping_of);
	free(w->stack_of);
	free(w->location_of);
	free(w->link_of);
}

static int make(void *self, const struct spooled *r, uint32_t most, struct far_request *ret)
{
	CLEANUP(writer_done) struct writer w;
	struct far_rows rows;

	(void)self;
	writer_init(&w, r);
	ret->through = r->through;
	while (ret->series < most && far_rows(&r->window, ret->through, &rows)) {
		put_series(&w, &rows, ret->through);
		ret->samples += rows.samples;
		ret->series++;
		ret->through++;
	}
	if (!ret->series)
		return 0;
	put_head(&w.out, DICTIONARY, w.dict.len);
	pack_raw(&w.out, w.dict.bytes, w.dict.len);
	ret->content_type = "application/x-protobuf";
	char *body = (char *)TAKE_PTR(w.out.bytes);
	ret->is_gzip = gzip_pack(&body, &w.out.len) == 0;
	ret->body = (struct pack){(uint8_t *)body, w.out.len, w.out.len};
	return 0;
}

/* What of a request that was taken was not, of ExportProfilesServiceResponse. */
static void read_partial(const struct fetch_answer *a, struct far_answer *ret)
{
	struct protobuf whole = {(uint8_t *)a->body, (uint8_t *)a->body + a->len};
	struct protobuf_field f, part;

	while (protobuf_next(&whole, &f) > 0) {
		struct protobuf inner = {f.data, f.data + f.len};
		if (f.number != PARTIAL_SUCCESS || f.type != PROTOBUF_BYTES)
			continue;
		while (protobuf_next(&inner, &part) > 0) {
			if (part.number == REJECTED && part.type == PROTOBUF_VARINT)
				ret->rejected = part.value;
			else if (part.number == WHY_REJECTED && part.type == PROTOBUF_BYTES)
				snprintf(ret->why, sizeof(ret->why), "%.*s",
					 (int)MIN(part.len, sizeof(ret->why) - 1),
					 (const char *)part.data);
		}
	}
}

static enum far_verdict judge(void *self, const struct fetch_answer *a, struct far_answer *ret)
{
	enum far_verdict v = far_judge_status(a, ret);

	(void)self;
	if (v == FAR_SENT)
		read_partial(a, ret);
	return v;
}

const struct far_protocol far_otlp = {
	.prefix = "otlp+",
	.name = "OTLP",
	.path = "/v1development/profiles",
	.make = make,
	.judge = judge,
};

#include "ingest/otlp.h"

#include <errno.h>
#include <inttypes.h>

#include "base/mem.h"
#include "base/text.h"
#include "ingest/ingest.h"
#include "ingest/module.h"
#include "ingest/otlp.pb-c.h"
#include "ingest/otlp_names.h"
#include "ingest/protobuf.h"
#include "ingest/protojson.h"

#define WALK_MAX     (64ull << 20) /* frames of all stacks */
#define ID_BYTES_MAX 16
#define LABELS_MAX   16u /* of a sample; more are left out */

/* Fields that are walked over, since they may be large. */
enum {
	REQUEST_RESOURCES = 1,
	REQUEST_DICTIONARY = 2,
	RESOURCE_RESOURCE = 1,
	RESOURCE_SCOPES = 2,
	RESOURCE_ATTRIBUTES = 1,
	SCOPE_PROFILES = 2,
	PROFILE_SAMPLE_TYPE = 1,
	PROFILE_SAMPLES = 2,
	PROFILE_TIME = 3,
	PROFILE_DURATION = 4,
	PROFILE_PERIOD_TYPE = 5,
	PROFILE_PERIOD = 6,
};

enum table { MAPPINGS = 1, LOCATIONS, FUNCTIONS, LINKS, STRINGS, ATTRIBUTES, STACKS, TABLES };

static const char *const table_names[TABLES] = {
	[MAPPINGS] = "mapping", [LOCATIONS] = "location", [FUNCTIONS] = "function",
	[LINKS] = "link",       [STRINGS] = "string",     [ATTRIBUTES] = "attribute",
	[STACKS] = "stack",
};

/* The entries of the dictionary stay as they came, and are unpacked when something names them. */
struct otlp {
	struct pushed *p;
	struct protobuf_unpacker *unpacker;
	struct protobuf_field *tables[TABLES];
	uint32_t counts[TABLES], caps[TABLES];
	uint64_t walked;
	uint64_t now_ms;
};

struct reading { /* of one profile */
	struct otlp *o;
	struct profile *p;
	const struct pushed_labels *labels;
	uint32_t *stacks; /* by index: 1 + the id in p; 0: not looked up */
	Otlp__ValueType type, period_type;
	int64_t period;
	uint64_t time_ns, duration_ns;
};

static bool wrong(struct otlp *o, const char *what)
{
	return pushed_refuse(o->p, 400, "malformed",
			     "%s; this server reads OTLP profiles as opentelemetry-proto 1.11 has "
			     "them",
			     what);
}

/* ---- the dictionary ------------------------------------------------------------------------ */

static bool load_dictionary(struct otlp *o, const struct protobuf_field *d)
{
	struct protobuf wire = {d->data, d->data + d->len};
	struct protobuf_field f;
	int n;

	while ((n = protobuf_next(&wire, &f)) > 0) {
		if (f.number >= TABLES || f.type != PROTOBUF_BYTES)
			continue;
		uint32_t t = f.number;
		if (o->counts[t] == OTLP_TABLE_MAX)
			return pushed_refuse(o->p, 413, "too_large",
					     "its %s table has more than %u entries",
					     table_names[t], OTLP_TABLE_MAX);
		MEM_GROW(o->tables[t], o->counts[t], o->caps[t]);
		o->tables[t][o->counts[t]++] = f;
	}
	return n == 0 || wrong(o, "its dictionary is not protobuf");
}

/* An entry, valid until the next; NULL after an error, also for 0. */
static void *entry(struct otlp *o, enum table t, int64_t index,
		   const ProtobufCMessageDescriptor *type)
{
	void *m = NULL;
	char what[80];

	if (index > 0 && index < o->counts[t])
		m = protobuf_unpack(o->unpacker, type, &o->tables[t][index]);
	if (!m) {
		snprintf(what, sizeof(what), "%s %" PRId64 " is not in its table, or malformed",
			 table_names[t], index);
		wrong(o, what);
	}
	return m;
}

struct slice {
	const char *s;
	size_t len;
};

static bool string(struct otlp *o, int64_t index, struct slice *ret)
{
	if (index == 0) {
		*ret = (struct slice){"", 0};
		return true;
	}
	if (index < 0 || index >= o->counts[STRINGS])
		return wrong(o, "a string is not in its table");
	const struct protobuf_field *f = &o->tables[STRINGS][index];
	*ret = (struct slice){(const char *)f->data, f->len};
	return true;
}

/* ---- attributes ---------------------------------------------------------------------------- */

/* What other series call what a semantic convention calls so. */
static struct slice label_name(struct slice key)
{
	const char *label = otlp_label(key.s, key.len);

	return label ? (struct slice){label, strlen(label)} : key;
}

/* A value as a word; a number is one only where `numbers` are wanted. "": it is none. */
static bool value_text(struct otlp *o, const Otlp__AnyValue *v, bool numbers,
		       char number[static 40], struct slice *ret)
{
	*ret = (struct slice){"", 0};
	if (!v)
		return true;
	if (v->string_value_strindex)
		return string(o, v->string_value_strindex, ret);
	*number = 0;
	if (*v->string_value)
		*ret = (struct slice){v->string_value, strlen(v->string_value)};
	else if (numbers && v->int_value)
		snprintf(number, 40, "%" PRId64, v->int_value);
	else if (numbers && v->double_value != 0)
		snprintf(number, 40, "%g", v->double_value);
	else if (numbers && v->bool_value)
		snprintf(number, 40, "true");
	if (*number)
		*ret = (struct slice){number, strlen(number)};
	return true;
}

/* Of the resource: labels of all its profiles. Numbers are wanted here: there is one set of them.
 */
static bool resource_label(struct otlp *o, const struct protobuf_field *f, struct pushed_labels *l)
{
	const Otlp__KeyValue *kv = protobuf_unpack(o->unpacker, &otlp__key_value__descriptor, f);
	struct slice key = {}, value = {};
	char number[40];

	if (!kv)
		return wrong(o, "an attribute of a resource is malformed");
	if (kv->key_strindex) {
		if (!string(o, kv->key_strindex, &key))
			return false;
	} else {
		key = (struct slice){kv->key, strlen(kv->key)};
	}
	if (!value_text(o, kv->value, true, number, &value))
		return false;
	key = label_name(key);
	/* Such as the arguments of a process: too long to select by. */
	if (!key.len || key.len > PUSHED_NAME_MAX || value.len > PUSHED_VALUE_MAX ||
	    l->count == PUSHED_LABELS_MAX) {
		o->p->long_labels++;
		return true;
	}
	return pushed_label(o->p, l, key.s, key.len, value.s, value.len);
}

/* Of a sample: only words, and the process; of numbers there would be too many. */
static bool sample_label(struct reading *r, int32_t index, struct label *labels, uint32_t *count)
{
	struct otlp *o = r->o;
	const Otlp__KeyValueAndUnit *a =
		entry(o, ATTRIBUTES, index, &otlp__key_value_and_unit__descriptor);
	struct slice key = {}, value = {};
	char number[40];

	if (!a || !string(o, a->key_strindex, &key))
		return false;
	struct slice name = label_name(key);
	bool is_pid = name.len == 3 && memcmp(name.s, "pid", 3) == 0;
	if (!value_text(o, a->value, is_pid, number, &value))
		return false;
	if (value.len && *count == LABELS_MAX)
		o->p->long_labels++;
	else if (value.len && name.len)
		labels[(*count)++] = (struct label){profile_string(r->p, name.s, name.len),
						    profile_string(r->p, value.s, value.len)};
	return true;
}

static void id_label(struct reading *r, const char *name, const ProtobufCBinaryData *id,
		     struct label *labels, uint32_t *count)
{
	char hex[2 * ID_BYTES_MAX + 1];

	if (*count == LABELS_MAX)
		return;
	text_hex_bytes(id->data, id->len, hex);
	labels[(*count)++] = (struct label){profile_string(r->p, name, strlen(name)),
					    profile_string(r->p, hex, strlen(hex))};
}

static bool span_labels(struct reading *r, int32_t index, struct label *labels, uint32_t *count)
{
	const Otlp__Link *l = entry(r->o, LINKS, index, &otlp__link__descriptor);

	if (!l)
		return false;
	if (l->span_id.len != 8)
		return true;
	id_label(r, "span_id", &l->span_id, labels, count);
	if (l->trace_id.len == ID_BYTES_MAX)
		id_label(r, "trace_id", &l->trace_id, labels, count);
	return true;
}

/* ---- stacks -------------------------------------------------------------------------------- */

static bool make_module(struct reading *r, int64_t index, uint32_t *ret, enum frame_kind *ret_kind)
{
	struct slice path = {};
	size_t name_len;

	*ret = 0;
	*ret_kind = FRAME_USER;
	if (!index)
		return true;
	const Otlp__Mapping *m = entry(r->o, MAPPINGS, index, &otlp__mapping__descriptor);
	if (!m || !string(r->o, m->filename_strindex, &path))
		return false;
	if (!path.len)
		return true;
	const char *name = module_basename(path.s, path.len, &name_len);
	*ret = profile_module(
		r->p,
		&(struct module){
			.name = profile_string(r->p, name, name_len),
			.path = name_len < path.len ? profile_string(r->p, path.s, path.len) : 0,
			.start = m->memory_start,
			.end = m->memory_limit,
			.offset = m->file_offset,
		});
	*ret_kind = module_kind(path.s, path.len);
	return true;
}

/* What the attribute profile.frame.type of a location says. */
static bool find_kind(struct reading *r, const int32_t *attributes, size_t count,
		      enum frame_kind *kind)
{
	static const struct {
		const char *word;
		enum frame_kind kind;
	} kinds[] = {
		{"kernel", FRAME_KERNEL},
		{"go", FRAME_GO},
		{"cpython", FRAME_INTERPRETED},
		{"php", FRAME_INTERPRETED},
		{"ruby", FRAME_INTERPRETED},
		{"perl", FRAME_INTERPRETED},
		{"jvm", FRAME_JIT},
		{"v8js", FRAME_JIT},
		{"dotnet", FRAME_JIT},
	};
	struct slice key = {}, value = {};
	char number[40];

	for (size_t i = 0; i < count; i++) {
		const Otlp__KeyValueAndUnit *a = entry(r->o, ATTRIBUTES, attributes[i],
						       &otlp__key_value_and_unit__descriptor);
		if (!a || !string(r->o, a->key_strindex, &key) ||
		    !value_text(r->o, a->value, false, number, &value))
			return false;
		if (key.len != strlen("profile.frame.type") ||
		    memcmp(key.s, "profile.frame.type", key.len) != 0)
			continue;
		for (size_t k = 0; k < ARRAY_SIZE(kinds); k++)
			if (value.len == strlen(kinds[k].word) &&
			    memcmp(value.s, kinds[k].word, value.len) == 0)
				*kind = kinds[k].kind;
	}
	return true;
}

static uint32_t nameless(struct reading *r, uint32_t module, uint64_t address)
{
	CLEANUP(freep)
	char *name = mem_printf("[%s+0x%" PRIx64 "]",
				module ? profile_str(r->p, r->p->modules[module].name) : "unknown",
				address);

	return profile_string(r->p, name, strlen(name));
}

static bool name_frame(struct reading *r, int64_t function, struct frame *frame)
{
	struct slice name = {}, source = {};

	if (!function)
		return true;
	const Otlp__Function *f = entry(r->o, FUNCTIONS, function, &otlp__function__descriptor);
	if (!f ||
	    !string(r->o, f->name_strindex ? f->name_strindex : f->system_name_strindex, &name) ||
	    !string(r->o, f->filename_strindex, &source))
		return false;
	frame->name = name.len ? profile_string(r->p, name.s, name.len) : 0;
	frame->source = source.len ? profile_string(r->p, source.s, source.len) : 0;
	frame->start = protobuf_line(f->start_line);
	return true;
}

/* Everything of a location that is needed once others are unpacked. */
struct place {
	int64_t mapping;
	uint64_t address;
	size_t line_count, attribute_count;
	Otlp__Line *lines;
	int32_t *attributes;
};

static bool find_place(struct reading *r, int64_t index, struct place *to)
{
	const Otlp__Location *l = entry(r->o, LOCATIONS, index, &otlp__location__descriptor);

	if (!l)
		return false;
	*to = (struct place){
		.mapping = l->mapping_index,
		.address = l->address,
		.line_count = l->n_lines,
		.attribute_count = l->n_attribute_indices,
		.lines = mem_alloc_array(l->n_lines + 1, sizeof(*to->lines)),
		.attributes = mem_dup(l->attribute_indices,
				      l->n_attribute_indices * sizeof(*to->attributes)),
	};
	for (size_t i = 0; i < l->n_lines; i++)
		to->lines[i] = *l->lines[i];
	return true;
}

/* The frames of a location, the outermost first, on top of *stack. */
static bool add_place(struct reading *r, const struct place *at, uint32_t *depth, uint32_t *stack)
{
	enum frame_kind kind;
	uint32_t module;

	if (!make_module(r, at->mapping, &module, &kind) ||
	    !find_kind(r, at->attributes, at->attribute_count, &kind))
		return false;
	for (size_t i = MAX(at->line_count, 1u); i-- > 0 && *depth <= INGEST_DEPTH_MAX;) {
		const Otlp__Line *line = i < at->line_count ? &at->lines[i] : NULL;
		struct frame frame = {
			.module = module,
			.addr = at->address,
			.line = line ? protobuf_line(line->line) : 0,
			.kind = i + 1 < at->line_count ? FRAME_INLINED : kind,
		};
		if (line && !name_frame(r, line->function_index, &frame))
			return false;
		if (!frame.name)
			frame.name = nameless(r, module, at->address);
		if (++*depth <= INGEST_DEPTH_MAX)
			*stack = profile_stack(r->p, *stack, profile_frame(r->p, &frame));
	}
	return true;
}

static bool make_stack(struct reading *r, int64_t index, uint32_t *ret)
{
	const Otlp__Stack *s = entry(r->o, STACKS, index, &otlp__stack__descriptor);
	uint32_t depth = 0, stack = 0;

	if (!s)
		return false;
	size_t count = s->n_location_indices;
	CLEANUP(freep)
	int32_t *locations = mem_dup(s->location_indices, count * sizeof(*locations));
	for (size_t i = count; i-- > 0 && depth <= INGEST_DEPTH_MAX;) {
		struct place at;
		if (!find_place(r, locations[i], &at))
			return false;
		bool ok = add_place(r, &at, &depth, &stack);
		free(at.lines);
		free(at.attributes);
		if (!ok)
			return false;
	}
	r->o->walked += depth;
	if (depth > INGEST_DEPTH_MAX)
		r->p->info.truncated++;
	if (r->o->walked > WALK_MAX)
		return pushed_refuse(r->o->p, 413, "too_large", "its stacks have too many frames");
	*ret = stack;
	return true;
}

static bool stack_of(struct reading *r, int64_t index, uint32_t *ret)
{
	*ret = 0;
	if (!index)
		return true;
	if (index < 0 || index >= r->o->counts[STACKS])
		return wrong(r->o, "a stack is not in its table");
	if (!r->stacks[index]) {
		if (!make_stack(r, index, ret))
			return false;
		r->stacks[index] = 1 + *ret;
	}
	*ret = r->stacks[index] - 1;
	return true;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* What a sample is worth: its values; without any, each of its times counts once. */
static bool sum_values(struct otlp *o, const Otlp__Sample *s, uint64_t *ret)
{
	*ret = s->n_values ? 0 : s->n_timestamps_unix_nano;
	for (size_t i = 0; i < s->n_values; i++) {
		if (s->values[i] < 0)
			return wrong(o, "a sample has a negative value");
		if (__builtin_add_overflow(*ret, (uint64_t)s->values[i], ret) || *ret > INT64_MAX)
			return wrong(o, "the values of a sample exceed 63 bits");
	}
	return true;
}

static bool add_sample(struct reading *r, const struct protobuf_field *f)
{
	struct otlp *o = r->o;
	const Otlp__Sample *s = protobuf_unpack(o->unpacker, &otlp__sample__descriptor, f);
	struct label labels[LABELS_MAX];
	uint32_t count = 0, stack;
	uint64_t value;

	if (!s)
		return wrong(o, "a sample is malformed");
	if (!sum_values(o, s, &value))
		return false;
	uint64_t times = MAX(s->n_timestamps_unix_nano, (size_t)1);
	int32_t stack_index = s->stack_index, link = s->link_index;
	size_t attributes = MIN(s->n_attribute_indices, (size_t)256);
	CLEANUP(freep)
	int32_t *indices = mem_dup(s->attribute_indices, attributes * sizeof(*indices));
	if (!stack_of(r, stack_index, &stack))
		return false;
	for (size_t i = 0; i < attributes; i++)
		if (!sample_label(r, indices[i], labels, &count))
			return false;
	if (link && !span_labels(r, link, labels, &count))
		return false;
	if (value)
		profile_add(r->p, count ? profile_series(r->p, labels, count) : 0, stack,
			    MIN(times, value), value);
	return true;
}

/* ---- profiles ------------------------------------------------------------------------------ */

static bool value_type(struct otlp *o, const struct protobuf_field *f, Otlp__ValueType *to)
{
	const Otlp__ValueType *t = protobuf_unpack(o->unpacker, &otlp__value_type__descriptor, f);

	if (!t)
		return wrong(o, "a type is malformed");
	*to = *t;
	return true;
}

static uint64_t fixed64(const struct protobuf_field *f)
{
	uint64_t v = 0;

	for (size_t i = 0; i < 8 && f->type == PROTOBUF_FIXED64; i++)
		v |= (uint64_t)f->data[i] << 8 * i;
	return v;
}

static bool put_word(struct otlp *o, int64_t index, char to[static WINDOW_TYPE_MAX])
{
	struct slice s = {};

	if (!string(o, index, &s))
		return false;
	snprintf(to, WINDOW_TYPE_MAX, "%.*s", (int)MIN(s.len, (size_t)WINDOW_TYPE_MAX), s.s);
	return true;
}

/* Samples of a clock, counted, are worth its period each: then they are time, as others have it. */
static void make_time(const struct reading *r, struct pushed_type *t, double *scale)
{
	if (strcmp(t->sample_type, "samples") != 0 || strcmp(t->unit, "count") != 0 ||
	    strcmp(t->period_unit, "nanoseconds") != 0 || r->period <= 0)
		return;
	memcpy(t->sample_type, t->period_type, sizeof(t->sample_type));
	memcpy(t->unit, t->period_unit, sizeof(t->unit));
	*scale = (double)r->period;
}

/* Twice: what it is of may come after its samples. */
static bool read_fields(struct reading *r, const struct protobuf_field *f, bool samples)
{
	struct protobuf wire = {f->data, f->data + f->len};
	struct otlp *o = r->o;
	struct protobuf_field part;
	bool ok = true;
	int n = 0;

	while (ok && (n = protobuf_next(&wire, &part)) > 0) {
		if (samples) {
			ok = part.number != PROFILE_SAMPLES || add_sample(r, &part);
			continue;
		}
		if (part.number == PROFILE_SAMPLE_TYPE)
			ok = value_type(o, &part, &r->type);
		else if (part.number == PROFILE_PERIOD_TYPE)
			ok = value_type(o, &part, &r->period_type);
		else if (part.number == PROFILE_TIME)
			r->time_ns = fixed64(&part);
		else if (part.number == PROFILE_DURATION)
			r->duration_ns = part.value;
		else if (part.number == PROFILE_PERIOD)
			r->period = (int64_t)part.value;
	}
	return ok && (n == 0 || wrong(o, "a profile is not protobuf"));
}

static bool read_profile(struct otlp *o, const struct protobuf_field *f,
			 const struct pushed_labels *labels)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	CLEANUP(freep) uint32_t *stacks = mem_alloc_array(o->counts[STACKS] + 1, sizeof(*stacks));
	struct reading r = {.o = o, .p = p, .labels = labels, .stacks = stacks};
	struct pushed_about about = {.labels = labels, .now_ms = o->now_ms};
	struct pushed_type *t = &about.type;

	if (o->p->stacks >= PUSHED_STACKS_MAX)
		return pushed_refuse(o->p, 413, "too_large", "its profiles have too many stacks");
	profile_set_stacks_max(p, (uint32_t)(PUSHED_STACKS_MAX - o->p->stacks));
	if (!read_fields(&r, f, false) || !read_fields(&r, f, true))
		return false;
	if (!put_word(o, r.type.type_strindex, t->sample_type) ||
	    !put_word(o, r.type.unit_strindex, t->unit) ||
	    !put_word(o, r.period_type.type_strindex, t->period_type) ||
	    !put_word(o, r.period_type.unit_strindex, t->period_unit))
		return false;
	if (!p->sample_count)
		return true; /* an idle process has nothing to say, nor a type */
	p->info.start_ns = r.time_ns;
	p->info.duration_ns = r.duration_ns;
	make_time(&r, t, &about.scale);
	return pushed_add(o->p, TAKE_PTR(p), t, &about);
}

static bool read_scope(struct otlp *o, const struct protobuf_field *f,
		       const struct pushed_labels *labels)
{
	struct protobuf wire = {f->data, f->data + f->len};
	struct protobuf_field part;
	int n;

	while ((n = protobuf_next(&wire, &part)) > 0)
		if (part.number == SCOPE_PROFILES && part.type == PROTOBUF_BYTES &&
		    !read_profile(o, &part, labels))
			return false;
	return n == 0 || wrong(o, "a scope is not protobuf");
}

static bool read_attributes(struct otlp *o, const struct protobuf_field *f, struct pushed_labels *l)
{
	struct protobuf wire = {f->data, f->data + f->len};
	struct protobuf_field part;
	int n;

	while ((n = protobuf_next(&wire, &part)) > 0)
		if (part.number == RESOURCE_ATTRIBUTES && !resource_label(o, &part, l))
			return false;
	return n == 0 || wrong(o, "a resource is not protobuf");
}

/* Twice: the resource may come after its profiles. */
static bool read_resource(struct otlp *o, const struct protobuf_field *f)
{
	CLEANUP(pushed_labels_done) struct pushed_labels labels = {};
	struct protobuf_field part;

	for (uint32_t number = RESOURCE_RESOURCE; number <= RESOURCE_SCOPES; number++) {
		struct protobuf wire = {f->data, f->data + f->len};
		int n;
		while ((n = protobuf_next(&wire, &part)) > 0) {
			if (part.number != number || part.type != PROTOBUF_BYTES)
				continue;
			if (number == RESOURCE_RESOURCE ? !read_attributes(o, &part, &labels)
							: !read_scope(o, &part, &labels))
				return false;
		}
		if (n < 0)
			return wrong(o, "the profiles of a resource are not protobuf");
	}
	return true;
}

/* Twice: the dictionary comes last. */
static bool read_request(struct otlp *o, const uint8_t *body, size_t len)
{
	struct protobuf_field part;

	if (!len) /* of JSON without anything in it there may be no bytes at all */
		return true;
	for (uint32_t number = REQUEST_DICTIONARY; number >= REQUEST_RESOURCES; number--) {
		struct protobuf wire = {body, body + len};
		int n;
		while ((n = protobuf_next(&wire, &part)) > 0) {
			if (part.number != number || part.type != PROTOBUF_BYTES)
				continue;
			if (number == REQUEST_DICTIONARY ? !load_dictionary(o, &part)
							 : !read_resource(o, &part))
				return false;
		}
		if (n < 0)
			return wrong(o, "it is not protobuf");
	}
	return true;
}

bool otlp_read(struct pushed *p, const void *body, size_t len, bool is_json, uint64_t now_ms)
{
	struct otlp o = {.p = p, .unpacker = protobuf_unpacker_new(), .now_ms = now_ms};
	struct protojson_error err = {};
	struct pack wire = {};
	bool ok = true;

	if (is_json) {
		int e = protojson_read(body, len,
				       &otlp__export_profiles_service_request__descriptor, true,
				       &wire, &err);
		if (e)
			ok = pushed_refuse(p, e == -EFBIG ? 413 : 400,
					   e == -EFBIG ? "too_large" : "malformed", "%s", err.text);
	}
	ok = ok && read_request(&o, is_json ? wire.bytes : body, is_json ? wire.len : len);
	pack_done(&wire);
	protobuf_unpacker_free(o.unpacker);
	for (uint32_t t = 0; t < TABLES; t++)
		free(o.tables[t]);
	return ok;
}

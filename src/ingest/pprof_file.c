#include "ingest/pprof_file.h"

#include <errno.h>

#include "base/mem.h"
#include "render/pprof.pb-c.h"

#define STRINGS_MAX (1u << 24)
#define ENTRIES_MAX INGEST_FRAMES_MAX /* of mappings, of functions, of locations */
#define LINES_MAX   (2 * ENTRIES_MAX) /* of all locations */

int pprof_fail(struct pprof_file *f, const char *what, uint64_t n, const char *why)
{
	char where[64];

	snprintf(where, sizeof(where), "%s %llu", what, (unsigned long long)n);
	return reader_fail_at(f->r, -EINVAL, where, "%s", why);
}

static int fail_reference(struct pprof_file *f, const char *what, uint64_t n, const char *field,
			  unsigned long long value)
{
	char why[128];

	snprintf(why, sizeof(why), "%s is %llu, which is not in the file", field, value);
	return pprof_fail(f, what, n, why);
}

static uint32_t find(const struct pprof_ids *t, uint64_t id)
{
	uint32_t place;

	if (id < t->count && t->id[id] == id)
		return (uint32_t)id;
	INDEX_EACH(&t->index, index_hash2(id, 0), place)
		if (t->id[place] == id)
			return place;
	return 0;
}

/* Gives a new id the next place: it, or 0 after saying what is wrong with the id. */
static uint32_t put(struct pprof_file *f, struct pprof_ids *t, const char *what, uint64_t id)
{
	const char *why = id == 0                       ? "0 cannot be an id"
			  : t->count > ENTRIES_MAX      ? "there are too many"
			  : t->count && find(t, id) > 0 ? "the same id is used twice"
							: NULL;

	if (why) {
		pprof_fail(f, what, id, why);
		return 0;
	}
	MEM_GROW(t->id, t->count + 1, t->cap);
	if (t->count == 0)
		t->id[t->count++] = 0;
	uint32_t place = t->count++;
	t->id[place] = id;
	if (id != place)
		index_put(&t->index, index_hash2(id, 0), place);
	return place;
}

int pprof_place(struct pprof_file *f, const struct pprof_ids *ids, uint64_t id, const char *what,
		uint64_t n, const char *field, uint32_t *ret)
{
	uint32_t place = id ? find(ids, id) : 0;

	if (!place)
		return fail_reference(f, what, n, field, id);
	*ret = place;
	return 0;
}

int pprof_string(struct pprof_file *f, int64_t string, const char *what, uint64_t n,
		 const char *field, struct pprof_slice *ret)
{
	if (string < 0 || (uint64_t)string >= f->string_count)
		return fail_reference(f, what, n, field, (unsigned long long)string);
	*ret = f->strings[string];
	return 0;
}

const void *pprof_unpack(struct pprof_file *f, const ProtobufCMessageDescriptor *type,
			 const struct protobuf_field *w)
{
	const void *m = protobuf_unpack(f->unpacker, type, w);

	if (!m) {
		char where[64];
		snprintf(where, sizeof(where), "%s at byte %zu", type->short_name,
			 (size_t)(w->data - f->data));
		reader_fail_at(f->r, -EINVAL, where, "%s",
			       w->len > PROTOBUF_MESSAGE_MAX ? "it is larger than 1 MB"
							     : "it is malformed");
	}
	return m;
}

static int add_mapping(struct pprof_file *f, const Pprof__Mapping *m)
{
	uint32_t at = put(f, &f->mapping_ids, "mapping", m->id);

	if (!at)
		return -EINVAL;
	MEM_GROW(f->mappings, at, f->mapping_cap);
	f->mappings[at] = (struct pprof_mapping){
		.start = m->memory_start,
		.limit = m->memory_limit,
		.offset = m->file_offset,
		.filename = m->filename,
		.build_id = m->build_id,
	};
	return 0;
}

static int add_function(struct pprof_file *f, const Pprof__Function *fn)
{
	uint32_t at = put(f, &f->function_ids, "function", fn->id);

	if (!at)
		return -EINVAL;
	MEM_GROW(f->functions, at, f->function_cap);
	f->functions[at] = (struct pprof_function){
		.name = fn->name ? fn->name : fn->system_name,
		.filename = fn->filename,
		.start_line = fn->start_line,
	};
	return 0;
}

static int add_location(struct pprof_file *f, const Pprof__Location *l)
{
	uint32_t at = put(f, &f->location_ids, "location", l->id);

	if (!at)
		return -EINVAL;
	if (l->n_line > LINES_MAX - f->line_count)
		return pprof_fail(f, "location", l->id, "there are too many lines");
	MEM_GROW(f->locations, at, f->location_cap);
	f->locations[at] = (struct pprof_location){
		.mapping = l->mapping_id,
		.address = l->address,
		.line = f->line_count,
		.line_count = (uint32_t)l->n_line,
	};
	for (size_t i = 0; i < l->n_line; i++) {
		MEM_GROW(f->lines, f->line_count, f->line_cap);
		f->lines[f->line_count++] =
			(struct pprof_line){l->line[i]->function_id, l->line[i]->line};
	}
	return 0;
}

static int add_string(struct pprof_file *f, const struct protobuf_field *w)
{
	if (f->string_count == STRINGS_MAX)
		return pprof_fail(f, "string", f->string_count, "there are too many");
	MEM_GROW(f->strings, f->string_count, f->string_cap);
	f->strings[f->string_count++] =
		(struct pprof_slice){(const char *)w->data, (uint32_t)w->len};
	return 0;
}

static int add_type(struct pprof_file *f, const Pprof__ValueType *t)
{
	if (f->type_count == PPROF_TYPES_MAX)
		return pprof_fail(f, "sample_type", f->type_count, "there are too many");
	f->types[f->type_count++] = (struct pprof_type){t->type, t->unit};
	return 0;
}

static int add_message(struct pprof_file *f, const struct protobuf_field *w)
{
	const void *m;

	switch (w->number) {
	case PPROF_SAMPLE_TYPE:
		m = pprof_unpack(f, &pprof__value_type__descriptor, w);
		return m ? add_type(f, m) : -EINVAL;
	case PPROF_MAPPING:
		m = pprof_unpack(f, &pprof__mapping__descriptor, w);
		return m ? add_mapping(f, m) : -EINVAL;
	case PPROF_LOCATION:
		m = pprof_unpack(f, &pprof__location__descriptor, w);
		return m ? add_location(f, m) : -EINVAL;
	case PPROF_FUNCTION:
		m = pprof_unpack(f, &pprof__function__descriptor, w);
		return m ? add_function(f, m) : -EINVAL;
	case PPROF_PERIOD_TYPE: {
		const Pprof__ValueType *t = pprof_unpack(f, &pprof__value_type__descriptor, w);
		if (!t)
			return -EINVAL;
		f->period_type = (struct pprof_type){t->type, t->unit};
		return 0;
	}
	case PPROF_STRING_TABLE:
		return add_string(f, w);
	default:
		return 0;
	}
}

static void set_number(struct pprof_file *f, const struct protobuf_field *w)
{
	int64_t value = (int64_t)w->value;

	switch (w->number) {
	case PPROF_TIME_NANOS:
		f->time_ns = value;
		break;
	case PPROF_DURATION_NANOS:
		f->duration_ns = value;
		break;
	case PPROF_PERIOD:
		f->period = value;
		break;
	case PPROF_DEFAULT_SAMPLE_TYPE:
		f->default_type = value;
		break;
	default:
		break;
	}
}

int pprof_file_load(struct pprof_file *f, struct reader *r)
{
	const char *data;

	*f = (struct pprof_file){.r = r, .unpacker = protobuf_unpacker_new()};
	int err = reader_rest(r, MIN(r->caps.bytes, (size_t)INGEST_PPROF_MAX), &data, &f->len);
	if (err)
		return err;
	f->data = (const uint8_t *)data;

	struct protobuf wire = {f->data, f->data + f->len};
	struct protobuf_field w;
	int n;
	while ((n = protobuf_next(&wire, &w)) > 0) {
		if (w.type == PROTOBUF_BYTES)
			err = add_message(f, &w);
		else if (w.type == PROTOBUF_VARINT)
			set_number(f, &w);
		if (err)
			return err;
	}
	if (n < 0)
		return pprof_fail(f, "byte", (uint64_t)(wire.at - f->data),
				  "not a valid protobuf field; the file is truncated or damaged");
	return 0;
}

void pprof_file_done(struct pprof_file *f)
{
	struct pprof_ids *ids[] = {&f->mapping_ids, &f->function_ids, &f->location_ids};

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		free(ids[i]->id);
		index_done(&ids[i]->index);
	}
	protobuf_unpacker_free(f->unpacker);
	free(f->mappings);
	free(f->functions);
	free(f->locations);
	free(f->lines);
	free(f->strings);
}

#include "ingest/protojson.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <math.h>

#include "base/mem.h"
#include "base/text.h"
#include "render/escape.h"

#define FIELD_MAX 64

struct reading {
	struct protojson_error *err;
	bool hex;
};

/* profile_typeID is profileTypeID. */
static void camel(const char *name, char ret[static FIELD_MAX])
{
	size_t n = 0;
	bool upper = false;

	for (; *name && n < FIELD_MAX - 1; name++) {
		bool small = *name >= 'a' && *name <= 'z';
		if (*name != '_')
			ret[n++] = (char)(upper && small ? *name - 'a' + 'A' : *name);
		upper = *name == '_';
	}
	ret[n] = 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int wrong(struct reading *r, const char *field, const char *what)
{
	snprintf(r->err->text, sizeof(r->err->text), "the field %.60s is not %s", field, what);
	return -EINVAL;
}

static void put_tag(struct pack *out, const ProtobufCFieldDescriptor *f, unsigned wire)
{
	pack_u64(out, (uint64_t)f->id << 3 | wire);
}

static void put_fixed(struct pack *out, uint64_t v, size_t size)
{
	uint8_t bytes[8];

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t)(v >> 8 * i);
	pack_raw(out, bytes, size);
}

/* A whole number, as JSON has it: 12, "12", also 12.0; as bits, whatever its sign. */
static bool whole(const json_t *v, uint64_t *ret)
{
	const char *text = json_string_value(v);
	double real = json_real_value(v);
	char *end;

	if (json_is_integer(v)) {
		*ret = (uint64_t)json_integer_value(v);
		return true;
	}
	if (json_is_real(v) && real == rint(real) && fabs(real) < 9e15) {
		*ret = (uint64_t)(int64_t)real;
		return true;
	}
	if (!text || !*text || strspn(text, "-0123456789") != strlen(text))
		return false;
	errno = 0;
	*ret = *text == '-' ? (uint64_t)strtoll(text, &end, 10) : strtoull(text, &end, 10);
	return !errno && !*end;
}

static bool real_number(const json_t *v, double *ret)
{
	const char *text = json_string_value(v);
	char *end;

	if (json_is_number(v)) {
		*ret = json_number_value(v);
		return true;
	}
	if (!text || !*text)
		return false;
	*ret = strtod(text, &end);
	return !*end;
}

static bool put_hex(struct pack *out, const char *s, size_t len)
{
	CLEANUP(freep) uint8_t *bytes = mem_alloc(len / 2 + 1);

	if (!text_parse_hex_bytes(s, len, bytes, len / 2))
		return false;
	pack_raw(out, bytes, len / 2);
	return true;
}

static int base64_digit(char c)
{
	return c >= 'A' && c <= 'Z'   ? c - 'A'
	       : c >= 'a' && c <= 'z' ? c - 'a' + 26
	       : c >= '0' && c <= '9' ? c - '0' + 52
	       : c == '+' || c == '-' ? 62
	       : c == '/' || c == '_' ? 63
				      : -1;
}

/* Of both alphabets, with or without padding. */
static bool put_base64(struct pack *out, const char *s, size_t len)
{
	uint32_t bits = 0;
	int have = 0;

	while (len && s[len - 1] == '=')
		len--;
	for (size_t i = 0; i < len; i++) {
		int digit = base64_digit(s[i]);
		if (digit < 0)
			return false;
		bits = bits << 6 | (uint32_t)digit;
		have += 6;
		if (have >= 8) {
			have -= 8;
			pack_raw(out, &(uint8_t){(uint8_t)(bits >> have)}, 1);
		}
	}
	return len % 4 != 1;
}

static int put_bytes(struct reading *r, const ProtobufCFieldDescriptor *f, const json_t *v,
		     struct pack *out)
{
	const char *text = json_string_value(v);
	size_t len = json_string_length(v);
	struct pack bytes = {};

	if (!text)
		return wrong(r, f->name, "a string");
	bool fine = r->hex ? put_hex(&bytes, text, len) : put_base64(&bytes, text, len);
	put_tag(out, f, 2);
	pack_str(out, (const char *)bytes.bytes, bytes.len);
	pack_done(&bytes);
	return fine ? 0 : wrong(r, f->name, r->hex ? "hexadecimal" : "base64");
}

static int put_enum(struct reading *r, const ProtobufCFieldDescriptor *f, const json_t *v,
		    struct pack *out)
{
	const char *name = json_string_value(v);
	uint64_t n = 0;

	if (name) {
		const ProtobufCEnumValue *value =
			protobuf_c_enum_descriptor_get_value_by_name(f->descriptor, name);
		if (!value)
			return wrong(r, f->name, "one of its values");
		n = (uint64_t)(int64_t)value->value;
	} else if (!whole(v, &n)) {
		return wrong(r, f->name, "one of its values");
	}
	put_tag(out, f, 0);
	pack_u64(out, n);
	return 0;
}

static int put_number(struct reading *r, const ProtobufCFieldDescriptor *f, const json_t *v,
		      struct pack *out)
{
	uint64_t n;

	if (!whole(v, &n))
		return wrong(r, f->name, "a whole number");
	switch (f->type) {
	case PROTOBUF_C_TYPE_SINT32:
	case PROTOBUF_C_TYPE_SINT64:
		put_tag(out, f, 0);
		pack_i64(out, (int64_t)n);
		break;
	case PROTOBUF_C_TYPE_FIXED32:
	case PROTOBUF_C_TYPE_SFIXED32:
		put_tag(out, f, 5);
		put_fixed(out, n, 4);
		break;
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_SFIXED64:
		put_tag(out, f, 1);
		put_fixed(out, n, 8);
		break;
	default:
		put_tag(out, f, 0);
		pack_u64(out, n);
	}
	return 0;
}

static int put_real(struct reading *r, const ProtobufCFieldDescriptor *f, const json_t *v,
		    struct pack *out)
{
	double real;
	uint64_t bits;

	if (!real_number(v, &real))
		return wrong(r, f->name, "a number");
	memcpy(&bits, &real, sizeof(bits));
	put_tag(out, f, 1);
	put_fixed(out, bits, 8);
	return 0;
}

static int put_message(struct reading *r, const ProtobufCMessageDescriptor *type, json_t *object,
		       struct pack *out);

/* One value of a field, repeated or not. */
/* NOLINTNEXTLINE(misc-no-recursion): as deep as messages are nested, which none is in itself. */
static int put_value(struct reading *r, const ProtobufCFieldDescriptor *f, json_t *v,
		     struct pack *out)
{
	struct pack inner = {};

	switch (f->type) {
	case PROTOBUF_C_TYPE_BOOL:
		if (!json_is_boolean(v))
			return wrong(r, f->name, "true or false");
		put_tag(out, f, 0);
		pack_u64(out, json_is_true(v));
		return 0;
	case PROTOBUF_C_TYPE_ENUM:
		return put_enum(r, f, v, out);
	case PROTOBUF_C_TYPE_DOUBLE:
		return put_real(r, f, v, out);
	case PROTOBUF_C_TYPE_STRING:
		if (!json_is_string(v))
			return wrong(r, f->name, "a string");
		put_tag(out, f, 2);
		pack_str(out, json_string_value(v), json_string_length(v));
		return 0;
	case PROTOBUF_C_TYPE_BYTES:
		return put_bytes(r, f, v, out);
	case PROTOBUF_C_TYPE_MESSAGE: {
		if (!json_is_object(v))
			return wrong(r, f->name, "an object");
		int err = put_message(r, f->descriptor, v, &inner);
		put_tag(out, f, 2);
		pack_str(out, (const char *)inner.bytes, inner.len);
		pack_done(&inner);
		return err;
	}
	default:
		return put_number(r, f, v, out);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): see put_value(). */
static int put_message(struct reading *r, const ProtobufCMessageDescriptor *type, json_t *object,
		       struct pack *out)
{
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &type->fields[i];
		char name[FIELD_MAX];
		size_t at;
		json_t *v, *one;
		int err = 0;

		camel(f->name, name);
		v = json_object_get(object, name);
		v = v ? v : json_object_get(object, f->name);
		if (!v || json_is_null(v))
			continue;
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			err = put_value(r, f, v, out);
		} else if (!json_is_array(v)) {
			err = wrong(r, f->name, "a list");
		} else {
			json_array_foreach(v, at, one)
			{
				err = put_value(r, f, one, out);
				if (err)
					break;
			}
		}
		if (err)
			return err;
	}
	return 0;
}

/* Every value but the first stands behind one of these; those in strings are counted, too. */
static bool has_too_many(const char *json, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++)
		n += json[i] == ',' || json[i] == '[' || json[i] == '{' || json[i] == ':';
	return n > PROTOJSON_VALUES_MAX;
}

int protojson_read(const char *json, size_t len, const ProtobufCMessageDescriptor *type, bool hex,
		   struct pack *out, struct protojson_error *ret_err)
{
	struct reading r = {ret_err, hex};
	json_error_t at;

	if (len > PROTOJSON_MAX || has_too_many(json, len)) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "the JSON is larger than %u MB, or has more than %u values: send "
			 "protobuf instead",
			 PROTOJSON_MAX >> 20, PROTOJSON_VALUES_MAX);
		return -EFBIG;
	}
	json_t *root = json_loadb(len ? json : "{}", len ? len : 2, JSON_REJECT_DUPLICATES, &at);
	if (!json_is_object(root)) {
		snprintf(ret_err->text, sizeof(ret_err->text), "it is not a JSON object: %s",
			 root ? "it is another value" : at.text);
		json_decref(root);
		return -EINVAL;
	}
	int err = put_message(&r, type, root, out);
	json_decref(root);
	return err;
}

/* ---- writing ------------------------------------------------------------------------------- */

static void write_base64(FILE *out, const uint8_t *s, size_t len)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

	putc_unlocked('"', out);
	for (size_t i = 0; i < len; i += 3) {
		uint32_t bits = (uint32_t)s[i] << 16 | (i + 1 < len ? (uint32_t)s[i + 1] << 8 : 0) |
				(i + 2 < len ? s[i + 2] : 0);
		for (int d = 0; d < 4; d++)
			putc_unlocked(i + (size_t)d > len ? '=' : digits[bits >> (18 - 6 * d) & 63],
				      out);
	}
	putc_unlocked('"', out);
}

/* NaN and the infinities are strings. */
static void write_real(FILE *out, double v)
{
	if (isfinite(v))
		fprintf(out, "%.17g", v);
	else
		fputs(isnan(v) ? "\"NaN\"" : v < 0 ? "\"-Infinity\"" : "\"Infinity\"", out);
}

static size_t size_of(ProtobufCType type)
{
	switch (type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
	case PROTOBUF_C_TYPE_DOUBLE:
		return 8;
	case PROTOBUF_C_TYPE_BOOL:
		return sizeof(protobuf_c_boolean);
	case PROTOBUF_C_TYPE_STRING:
	case PROTOBUF_C_TYPE_MESSAGE:
		return sizeof(void *);
	case PROTOBUF_C_TYPE_BYTES:
		return sizeof(ProtobufCBinaryData);
	default:
		return 4;
	}
}

static void write_enum(FILE *out, const ProtobufCFieldDescriptor *f, int value)
{
	const ProtobufCEnumValue *name = protobuf_c_enum_descriptor_get_value(f->descriptor, value);

	if (name)
		escape_json(out, name->name, strlen(name->name));
	else
		fprintf(out, "%d", value);
}

/* NOLINTNEXTLINE(misc-no-recursion): as deep as messages are nested, which none is in itself. */
static void write_value(FILE *out, const ProtobufCFieldDescriptor *f, const void *at)
{
	const ProtobufCBinaryData *bytes = at;
	const char *text;

	switch (f->type) {
	case PROTOBUF_C_TYPE_INT64:
	case PROTOBUF_C_TYPE_SINT64:
	case PROTOBUF_C_TYPE_SFIXED64:
		fprintf(out, "\"%" PRId64 "\"", *(const int64_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT64:
	case PROTOBUF_C_TYPE_FIXED64:
		fprintf(out, "\"%" PRIu64 "\"", *(const uint64_t *)at);
		break;
	case PROTOBUF_C_TYPE_UINT32:
	case PROTOBUF_C_TYPE_FIXED32:
		fprintf(out, "%" PRIu32, *(const uint32_t *)at);
		break;
	case PROTOBUF_C_TYPE_DOUBLE:
		write_real(out, *(const double *)at);
		break;
	case PROTOBUF_C_TYPE_BOOL:
		fputs(*(const protobuf_c_boolean *)at ? "true" : "false", out);
		break;
	case PROTOBUF_C_TYPE_ENUM:
		write_enum(out, f, *(const int *)at);
		break;
	case PROTOBUF_C_TYPE_STRING:
		text = *(char *const *)at;
		escape_json(out, text ? text : "", text ? strlen(text) : 0);
		break;
	case PROTOBUF_C_TYPE_BYTES:
		write_base64(out, bytes->data, bytes->len);
		break;
	case PROTOBUF_C_TYPE_MESSAGE:
		protojson_write(*(ProtobufCMessage *const *)at, out);
		break;
	default:
		fprintf(out, "%" PRId32, *(const int32_t *)at);
	}
}

/* NOLINTNEXTLINE(misc-no-recursion): see write_value(). */
void protojson_write(const ProtobufCMessage *m, FILE *out)
{
	const ProtobufCMessageDescriptor *type = m->descriptor;
	bool any = false;

	putc_unlocked('{', out);
	for (unsigned i = 0; i < type->n_fields; i++) {
		const ProtobufCFieldDescriptor *f = &type->fields[i];
		const uint8_t *at = (const uint8_t *)m + f->offset;
		char name[FIELD_MAX];

		if (f->label != PROTOBUF_C_LABEL_REPEATED && f->type == PROTOBUF_C_TYPE_MESSAGE &&
		    !*(void *const *)at)
			continue;
		camel(f->name, name);
		fprintf(out, "%s\"%s\":", any ? "," : "", name);
		any = true;
		if (f->label != PROTOBUF_C_LABEL_REPEATED) {
			write_value(out, f, at);
			continue;
		}
		size_t count = *(const size_t *)((const uint8_t *)m + f->quantifier_offset);
		putc_unlocked('[', out);
		for (size_t n = 0; n < count; n++) {
			if (n)
				putc_unlocked(',', out);
			write_value(out, f, *(uint8_t *const *)at + n * size_of(f->type));
		}
		putc_unlocked(']', out);
	}
	putc_unlocked('}', out);
}

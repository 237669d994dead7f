#include "ingest/pyroscope.h"

#include <errno.h>
#include <jansson.h>

#include "base/mem.h"
#include "ingest/multipart.h"
#include "ingest/protobuf.h"
#include "ingest/protojson.h"
#include "ingest/pyroscope_push.pb-c.h"

#define RATE_DEFAULT 100 /* samples in a second */
#define CONFIG_MAX   (64u << 10)
#define CONFIG_TYPES 64

/* Fields of PushRequest, RawProfileSeries and RawSample (pyroscope_push.proto). */
enum { SERIES = 1, LABELS = 1, SAMPLES = 2, RAW_PROFILE = 1 };

/* ---- the name of an application ------------------------------------------------------------ */

/* What the end of a name says of text, and what its counts are without one. */
static const struct ending {
	const char *word, *units; /* NULL: none */
	struct pushed_type type;
	bool is_time; /* counts are samples, each worth a period of time */
} endings[] = {
	{"cpu", "samples", {"process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"}, true},
	{"itimer", NULL, {"process_cpu", "itimer", "nanoseconds", "cpu", "nanoseconds"}, true},
	{"wall", NULL, {"wall", "wall", "nanoseconds", "wall", "nanoseconds"}, true},
	{"alloc_objects", "objects", {"memory", "alloc_objects", "count", "space", "bytes"}, false},
	{"alloc_space", "bytes", {"memory", "alloc_space", "bytes", "space", "bytes"}, false},
	{"inuse_objects", NULL, {"memory", "inuse_objects", "count", "space", "bytes"}, false},
	{"inuse_space", NULL, {"memory", "inuse_space", "bytes", "space", "bytes"}, false},
	{"goroutines",
	 "goroutines",
	 {"goroutine", "goroutine", "count", "goroutine", "count"},
	 false},
	{"mutex_count",
	 "lock_samples",
	 {"mutex", "contentions", "count", "contentions", "count"},
	 false},
	{"mutex_duration",
	 "lock_nanoseconds",
	 {"mutex", "delay", "nanoseconds", "contentions", "count"},
	 false},
	{"block_count", NULL, {"block", "contentions", "count", "contentions", "count"}, false},
	{"block_duration", NULL, {"block", "delay", "nanoseconds", "contentions", "count"}, false},
	{"nanoseconds",
	 "nanoseconds",
	 {"process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"},
	 false},
};

/* By the end of the application's name, which is cut off then; else by the units. */
static bool find_ending(struct pushed *p, const char *name, size_t *len, const char *units,
			const struct ending **ret)
{
	const char *dot = memrchr(name, '.', *len);

	for (size_t i = 0; dot && i < ARRAY_SIZE(endings); i++)
		if (*len - (size_t)(dot + 1 - name) == strlen(endings[i].word) &&
		    memcmp(dot + 1, endings[i].word, strlen(endings[i].word)) == 0) {
			*len = (size_t)(dot - name);
			*ret = &endings[i];
			return true;
		}
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (endings[i].units && strcmp(units ? units : "samples", endings[i].units) == 0) {
			*ret = &endings[i];
			return true;
		}
	return pushed_refuse(p, 400, "malformed",
			     "units=%.40s is not known; samples, objects, bytes, goroutines, "
			     "nanoseconds, lock_samples and lock_nanoseconds are",
			     units);
}

static const char *trim(const char *s, size_t *len)
{
	while (*len && *s == ' ')
		s++, --*len;
	while (*len && s[*len - 1] == ' ')
		--*len;
	if (*len >= 2 && *s == '"' && s[*len - 1] == '"')
		s++, *len -= 2;
	return s;
}

/* "k=v,k2=v2}": values have no quotes, and need none. */
static bool read_labels(struct pushed *p, const char *at, struct pushed_labels *l)
{
	const char *end = strrchr(at, '}');

	if (!end)
		return pushed_refuse(p, 400, "malformed", "name has a { without its }");
	while (at < end) {
		const char *comma = memchr(at, ',', (size_t)(end - at));
		const char *stop = comma ? comma : end;
		const char *is = memchr(at, '=', (size_t)(stop - at));
		size_t name_len = is ? (size_t)(is - at) : 0;
		size_t value_len = is ? (size_t)(stop - is - 1) : 0;
		const char *name = trim(at, &name_len);
		const char *value = is ? trim(is + 1, &value_len) : NULL;
		if (stop > at && !is)
			return pushed_refuse(p, 400, "malformed",
					     "name has a label without a value: %.40s", at);
		if (is && !pushed_label(p, l, name, name_len, value, value_len))
			return false;
		at = comma ? comma + 1 : end;
	}
	return true;
}

/* ---- the other parameters ------------------------------------------------------------------ */

/* Since 1970, in s, ms, µs or ns, as its size says. */
static bool read_time(struct pushed *p, const char *text, const char *what, uint64_t *ret_ms)
{
	char *end;

	if (!text || !*text)
		return true;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (errno || *end || *text < '0' || *text > '9')
		return pushed_refuse(p, 400, "malformed",
				     "%s is not a time in seconds, milliseconds, microseconds or "
				     "nanoseconds since 1970: %.40s",
				     what, text);
	*ret_ms = n < 100000000000ull         ? n * 1000
		  : n < 100000000000000ull    ? n
		  : n < 100000000000000000ull ? n / 1000
					      : n / 1000000;
	return true;
}

static bool read_rate(struct pushed *p, const char *text, double *ret_scale)
{
	char *end;
	unsigned long rate = RATE_DEFAULT;

	if (text && *text) {
		rate = strtoul(text, &end, 10);
		if (*end || *text < '0' || *text > '9' || rate < 1 || rate > 1000000)
			return pushed_refuse(p, 400, "malformed",
					     "sampleRate is not a number from 1 to 1000000: %.40s",
					     text);
	}
	*ret_scale = 1e9 / (double)rate;
	return true;
}

/* ---- pprof in a form ----------------------------------------------------------------------- */

/* {"samples": {"display-name": "cpu", "cumulative": false}}: a name, and what accumulates. */
static bool read_config(struct pushed *p, const struct multipart_part *part,
			struct pushed_about *about, char **ret_accumulated)
{
	json_error_t at;
	const char *type;
	json_t *one;
	size_t len;

	if (part->len > CONFIG_MAX)
		return pushed_refuse(p, 413, "too_large", "sample_type_config is too large");
	json_t *root = json_loadb(part->bytes, part->len, JSON_REJECT_DUPLICATES, &at);
	if (!json_is_object(root) || json_object_size(root) > CONFIG_TYPES) {
		json_decref(root);
		return pushed_refuse(p, 400, "malformed",
				     "sample_type_config is not a JSON object of sample types");
	}
	FILE *list = open_memstream(ret_accumulated, &len);
	fputs(",", list);
	json_object_foreach(root, type, one)
	{
		const char *shown = json_string_value(json_object_get(one, "display-name"));
		for (size_t i = 0; shown && i < ARRAY_SIZE(endings); i++)
			if (strcmp(endings[i].word, shown) == 0)
				snprintf(about->type.name, sizeof(about->type.name), "%s",
					 endings[i].type.name);
		if (json_is_true(json_object_get(one, "cumulative")))
			fprintf(list, "%s,", type);
	}
	fclose(list);
	about->accumulated = *ret_accumulated;
	json_decref(root);
	return true;
}

static bool read_form(struct pushed *p, const char *content_type, const void *body, size_t len,
		      struct pushed_about *about)
{
	CLEANUP(freep) char *accumulated = NULL;
	struct multipart form;
	const char *why = "";

	if (multipart_read(content_type, body, len, &form, &why) != 0)
		return pushed_refuse(p, 400, "malformed", "the form cannot be read: %s", why);
	const struct multipart_part *profile = multipart_find(&form, "profile");
	const struct multipart_part *config = multipart_find(&form, "sample_type_config");
	if (!profile)
		return pushed_refuse(p, 415, "malformed",
				     "the form has no part 'profile'; Java's format, jfr, is not "
				     "taken");
	if (config && config->len && !read_config(p, config, about, &accumulated))
		return false;
	/* Differences are sent with what they are to. */
	if (multipart_find(&form, "prev_profile") && !about->accumulated)
		return pushed_refuse(p, 400, "accumulated",
				     "prev_profile: this server takes no pairs of profiles; "
				     "configure the client to push differences");
	return pushed_pprof(p, profile->bytes, profile->len, about);
}

/* ---- a request ----------------------------------------------------------------------------- */

static bool is(const char *given, const char *word)
{
	return given && strcmp(given, word) == 0;
}

static bool read_body(struct pushed *p, const struct pyroscope_ingest *r, const void *body,
		      size_t len, struct pushed_about *about)
{
	struct pushed_type of_text = about->type;

	/* A pprof says itself what it counts. */
	about->type = (struct pushed_type){};
	if (multipart_is(r->content_type))
		return read_form(p, r->content_type, body, len, about);
	if (is(r->format, "pprof"))
		return pushed_pprof(p, body, len, about);
	about->type = of_text;
	if (!r->format || !*r->format || is(r->format, "folded") || is(r->format, "groups"))
		return pushed_folded(p, body, len, false, about);
	if (is(r->format, "lines"))
		return pushed_folded(p, body, len, true, about);
	return pushed_refuse(p, 415, "malformed",
			     "format=%.40s is not taken; folded, lines and pprof are", r->format);
}

bool pyroscope_ingest(struct pushed *p, const struct pyroscope_ingest *r, const void *body,
		      size_t len, uint64_t now_ms)
{
	CLEANUP(pushed_labels_done) struct pushed_labels labels = {};
	struct pushed_about about = {.labels = &labels, .now_ms = now_ms};
	const struct ending *ending = NULL;

	if (!r->name || !*r->name)
		return pushed_refuse(p, 400, "malformed",
				     "the parameter name is missing: name=app{key=value}");
	if (r->aggregation && *r->aggregation && !is(r->aggregation, "sum") &&
	    !is(r->aggregation, "average"))
		return pushed_refuse(p, 400, "malformed",
				     "aggregationType is sum or average, not %.40s",
				     r->aggregation);
	size_t name_len = strcspn(r->name, "{");
	const char *brace = r->name[name_len] ? r->name + name_len + 1 : NULL;
	if (!find_ending(p, r->name, &name_len, r->units, &ending))
		return false;
	about.type = ending->type;
	if (name_len &&
	    !pushed_label(p, &labels, "service_name", strlen("service_name"), r->name, name_len))
		return false;
	if ((brace && !read_labels(p, brace, &labels)) ||
	    !read_time(p, r->from, "from", &about.from_ms) ||
	    !read_time(p, r->until, "until", &about.to_ms) ||
	    (ending->is_time && !read_rate(p, r->sample_rate, &about.scale)))
		return false;
	return read_body(p, r, body, len, &about);
}

/* ---- push.v1.PusherService/Push ------------------------------------------------------------ */

static bool push_label(struct pushed *p, struct protobuf_unpacker *u,
		       const struct protobuf_field *f, struct pushed_about *about,
		       struct pushed_labels *labels)
{
	const PyroscopePush__LabelPair *l =
		protobuf_unpack(u, &pyroscope_push__label_pair__descriptor, f);

	if (!l)
		return pushed_refuse(p, 400, "malformed", "a label in it is not a LabelPair");
	if (strcmp(l->name, "__name__") == 0)
		snprintf(about->type.name, sizeof(about->type.name), "%s", l->value);
	return pushed_label(p, labels, l->name, strlen(l->name), l->value, strlen(l->value));
}

static bool push_sample(struct pushed *p, const struct protobuf_field *f,
			const struct pushed_about *about)
{
	struct protobuf wire = {f->data, f->data + f->len};
	struct protobuf_field part;
	int n;

	while ((n = protobuf_next(&wire, &part)) > 0)
		if (part.number == RAW_PROFILE && part.type == PROTOBUF_BYTES &&
		    !pushed_pprof(p, part.data, part.len, about))
			return false;
	return n == 0 || pushed_refuse(p, 400, "malformed", "a sample in it is not a RawSample");
}

/* Twice: its labels may come after its samples. */
static bool push_series(struct pushed *p, struct protobuf_unpacker *u,
			const struct protobuf_field *f, uint64_t now_ms)
{
	CLEANUP(pushed_labels_done) struct pushed_labels labels = {};
	struct pushed_about about = {.labels = &labels, .now_ms = now_ms};
	struct protobuf_field part;

	for (uint32_t number = LABELS; number <= SAMPLES; number++) {
		struct protobuf wire = {f->data, f->data + f->len};
		int n;
		while ((n = protobuf_next(&wire, &part)) > 0) {
			if (part.number != number || part.type != PROTOBUF_BYTES)
				continue;
			if (number == LABELS ? !push_label(p, u, &part, &about, &labels)
					     : !push_sample(p, &part, &about))
				return false;
		}
		if (n < 0)
			return pushed_refuse(p, 400, "malformed",
					     "a series in it is not a RawProfileSeries");
	}
	return true;
}

/* The message is the whole body: protobuf-c sees only its small parts. */
static bool push_message(struct pushed *p, const uint8_t *body, size_t len, uint64_t now_ms)
{
	if (!len) /* of JSON without anything in it there may be no bytes at all */
		return true;
	struct protobuf_unpacker *u = protobuf_unpacker_new();
	struct protobuf wire = {body, body + len};
	struct protobuf_field f;
	bool ok = true;
	int n = 0;

	while (ok && (n = protobuf_next(&wire, &f)) > 0)
		if (f.number == SERIES && f.type == PROTOBUF_BYTES)
			ok = push_series(p, u, &f, now_ms);
	protobuf_unpacker_free(u);
	return ok && (n == 0 || pushed_refuse(p, 400, "malformed", "it is not a PushRequest"));
}

bool pyroscope_push(struct pushed *p, const void *body, size_t len, bool is_json, uint64_t now_ms)
{
	struct protojson_error err = {};
	struct pack wire = {};

	if (!is_json)
		return push_message(p, body, len, now_ms);
	int e = protojson_read(body, len, &pyroscope_push__push_request__descriptor, false, &wire,
			       &err);
	bool ok = e ? pushed_refuse(p, e == -EFBIG ? 413 : 400,
				    e == -EFBIG ? "too_large" : "malformed", "%s", err.text)
		    : push_message(p, wire.bytes, wire.len, now_ms);
	pack_done(&wire);
	return ok;
}

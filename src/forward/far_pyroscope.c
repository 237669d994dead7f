/*
 * Pyroscope's push (Connect, protobuf): for each series a pprof, made by the renderer that writes
 * files of it. The profile's name is what Pyroscope calls its type by: process_cpu. The span of a
 * sample is its label span_id, the only one of which Pyroscope does not make a series.
 */
#include "forward/far.h"

#include <errno.h>

#include "base/mem.h"
#include "base/text.h"
#include "ingest/pyroscope_push.pb-c.h"
#include "profile/entries.h"
#include "profile/remap.h"
#include "render/render.h"

#define SERIES           1 /* the field of PushRequest */
#define LENGTH_DELIMITED 2

static uint32_t series_of_span(struct profile *to, const struct window_span *s)
{
	char hex[2 * sizeof(s->span) + 1];

	text_hex_bytes(s->span, sizeof(s->span), hex);
	struct label l = {profile_string(to, "span_id", strlen("span_id")),
			  profile_string(to, hex, sizeof(hex) - 1)};
	return profile_series(to, &l, 1);
}

/* The rows of one series as a profile of their own. */
static int copy_rows(const struct spooled *r, const struct far_rows *rows, struct profile *to)
{
	static const struct remap_caps caps = {ENTRIES_SERIES_MAX, ENTRIES_STACKS_MAX};
	CLEANUP(remap_done) struct remap m = {};
	const struct window *w = &r->window;
	struct far_parts parts;
	struct far_part part;

	remap_set_stack(&m, 0, 0);
	for (uint32_t i = rows->first; i < rows->end; i++) {
		uint32_t stack = remap_stack(&m, r->dict, w->rows[i].stack, to, &caps);
		if (stack == REMAP_FULL)
			return -EFBIG;
		for (far_parts(w, &w->rows[i], &parts); far_next_part(&parts, &part);)
			profile_add(to, part.span ? series_of_span(to, part.span) : 0, stack,
				    part.count, part.value);
	}
	to->info.type = profile_keep(to, far_type_name(w));
	to->info.unit = profile_keep(to, w->unit);
	to->info.period = w->period;
	to->info.start_ns = w->start_ms * 1000000;
	to->info.duration_ns = w->length_ms * 1000000ull;
	return 0;
}

static int make_pprof(const struct spooled *r, const struct far_rows *rows, char **ret, size_t *len)
{
	CLEANUP(profile_freep) struct profile *p = profile_new();
	const struct render_options o = {};
	char *bytes = NULL;

	int err = copy_rows(r, rows, p);
	if (err)
		return err;
	FILE *out = open_memstream(&bytes, len);
	if (!out)
		return -errno;
	err = render_pprof(p, &o, out);
	if (fclose(out) != 0 && !err)
		err = -ENOMEM;
	if (err)
		free(bytes);
	else
		*ret = bytes;
	return err;
}

static const char *profile_name(const struct window *w)
{
	return strcmp(w->type, "cpu") == 0 ? "process_cpu" : far_type_name(w);
}

struct labels {
	PyroscopePush__LabelPair *all, **of;
	size_t count;
};

static void add_label(struct labels *l, const char *name, const char *value)
{
	PyroscopePush__LabelPair *one = &l->all[l->count];

	pyroscope_push__label_pair__init(one);
	one->name = (char *)name;
	one->value = (char *)value;
	l->of[l->count++] = one;
}

/* All of the series, with the two that Pyroscope must have. */
static void make_labels(const struct spooled *r, uint32_t series, struct labels *ret)
{
	const struct series *s = &r->dict->series[series];
	const char *service = profile_label(r->dict, series, "service");
	const char *comm = profile_label(r->dict, series, "comm");

	ret->all = mem_alloc_array(s->count + 2, sizeof(*ret->all));
	ret->of = mem_alloc_array(s->count + 2, sizeof(*ret->of));
	add_label(ret, "__name__", profile_name(&r->window));
	if (!profile_label(r->dict, series, "service_name"))
		add_label(ret, "service_name", service ? service : comm ? comm : "unknown_service");
	for (uint32_t i = 0; i < s->count; i++)
		add_label(ret, profile_str(r->dict, s->labels[i].key),
			  profile_str(r->dict, s->labels[i].value));
}

static void labels_done(struct labels *l)
{
	free(l->all);
	free(l->of);
}

static int put_series(const struct spooled *r, const struct far_rows *rows, uint64_t nth,
		      struct pack *out)
{
	PyroscopePush__RawProfileSeries series = PYROSCOPE_PUSH__RAW_PROFILE_SERIES__INIT;
	PyroscopePush__RawSample sample = PYROSCOPE_PUSH__RAW_SAMPLE__INIT;
	CLEANUP(labels_done) struct labels labels = {};
	CLEANUP(freep) char *pprof = NULL;
	uint8_t b[16];
	char uuid[37];

	int err = make_pprof(r, rows, &pprof, &sample.raw_profile.len);
	if (err)
		return err;
	far_profile_id(&r->window, nth, b);
	snprintf(uuid, sizeof(uuid),
		 "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
		 b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
		 b[15]);
	sample.raw_profile.data = (uint8_t *)pprof;
	sample.id = uuid;
	make_labels(r, r->window.rows[rows->first].series, &labels);
	series.n_labels = labels.count;
	series.labels = labels.of;
	series.n_samples = 1;
	series.samples = (PyroscopePush__RawSample *[]){&sample};
	size_t len = pyroscope_push__raw_profile_series__get_packed_size(&series);
	CLEANUP(freep) uint8_t *bytes = mem_resize_array(NULL, len + 1, 1);
	pyroscope_push__raw_profile_series__pack(&series, bytes);
	pack_u64(out, SERIES << 3 | LENGTH_DELIMITED);
	pack_u64(out, len);
	pack_raw(out, bytes, len);
	return 0;
}

static int make(void *self, const struct spooled *r, uint32_t most, struct far_request *ret)
{
	struct far_rows rows;

	(void)self;
	ret->through = r->through;
	while (ret->series < most && far_rows(&r->window, ret->through, &rows)) {
		int err = put_series(r, &rows, ret->through, &ret->body);
		if (err)
			return err;
		ret->samples += rows.samples;
		ret->series++;
		ret->through++;
	}
	ret->content_type = "application/proto";
	return 0;
}

static enum far_verdict judge(void *self, const struct fetch_answer *a, struct far_answer *ret)
{
	(void)self;
	return far_judge_status(a, ret);
}

const struct far_protocol far_pyroscope = {
	.prefix = "pyroscope+",
	.name = "Pyroscope",
	.path = "/push.v1.PusherService/Push",
	.make = make,
	.judge = judge,
};

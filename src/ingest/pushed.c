#include "ingest/pushed.h"

#include <errno.h>
#include <stdarg.h>

#include "base/mem.h"
#include "ingest/ingest.h"

#define WALK_MAX (64ull << 20) /* frames of all samples of one pprof */

void pushed_labels_done(struct pushed_labels *l)
{
	for (uint32_t i = 0; i < l->count; i++) {
		free(l->all[i].name);
		free(l->all[i].value);
	}
	l->count = 0;
}

void pushed_drop_last(struct pushed *p)
{
	struct pushed_profile *last = p->all[--p->count];

	profile_free(last->p);
	pushed_labels_done(&last->labels);
	free(last->before);
	free(last);
}

void pushed_done(struct pushed *p)
{
	while (p->count)
		pushed_drop_last(p);
	free(p->all);
	*p = (struct pushed){};
}

bool pushed_refuse(struct pushed *p, unsigned status, const char *reason, const char *fmt, ...)
{
	va_list args;

	p->status = status;
	p->reason = reason;
	va_start(args, fmt);
	vsnprintf(p->why, sizeof(p->why), fmt, args);
	va_end(args);
	return false;
}

/* ---- labels -------------------------------------------------------------------------------- */

const char *pushed_label_value(const struct pushed_labels *l, const char *name)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (strcmp(l->all[i].name, name) == 0)
			return l->all[i].value;
	return NULL;
}

static void put_label(struct pushed_labels *l, char *name, char *value)
{
	for (uint32_t i = 0; i < l->count; i++)
		if (strcmp(l->all[i].name, name) == 0) {
			free(l->all[i].value);
			l->all[i].value = value;
			free(name);
			return;
		}
	l->all[l->count++] = (struct pushed_label){name, value};
}

bool pushed_label(struct pushed *p, struct pushed_labels *l, const char *name, size_t name_len,
		  const char *value, size_t value_len)
{
	if (name_len == 0)
		return pushed_refuse(p, 400, "labels", "a label has no name");
	if (name_len > PUSHED_NAME_MAX || value_len > PUSHED_VALUE_MAX)
		return pushed_refuse(p, 400, "labels",
				     "the label %.40s is too long: a name may have %u bytes, a "
				     "value %u",
				     name, PUSHED_NAME_MAX, PUSHED_VALUE_MAX);
	if (l->count >= PUSHED_LABELS_MAX)
		return pushed_refuse(p, 400, "labels", "there are more than %u labels",
				     PUSHED_LABELS_MAX);
	if (memchr(name, 0, name_len) || memchr(value, 0, value_len))
		return pushed_refuse(p, 400, "labels", "a label contains NUL");
	if (value_len == 0 || (name_len >= 2 && memcmp(name, "__", 2) == 0))
		return true;
	put_label(l, mem_strndup(name, name_len), mem_strndup(value, value_len));
	return true;
}

/* Every series has `service`; the room for it is kept. */
static void name_service(struct pushed_labels *l)
{
	static const char *const names[] = {"service_name", "service.name", "app", "job"};
	const char *value = pushed_label_value(l, "service");

	for (size_t i = 0; !value && i < ARRAY_SIZE(names); i++)
		value = pushed_label_value(l, names[i]);
	put_label(l, mem_strdup("service"), mem_strdup(value ? value : "unknown_service"));
}

/* ---- types --------------------------------------------------------------------------------- */

/* A part of a type has small letters, digits and _ only, as all types of the store. */
static size_t put_part(char *to, const char *part, bool first)
{
	size_t len = strlen(part);

	if (!first)
		*to++ = ':';
	for (size_t i = 0; i < len; i++) {
		char c = part[i];
		c = c >= 'A' && c <= 'Z' ? (char)(c + 'a' - 'A') : c;
		bool fine = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
		to[i] = (char)(fine ? c : '_');
	}
	return len + !first;
}

static bool set_type(struct pushed *p, struct pushed_profile *of, const struct pushed_type *t)
{
	bool has_period = *t->period_type && *t->period_unit;
	const char *parts[] = {t->name, t->sample_type, t->unit,
			       has_period ? t->period_type : t->sample_type,
			       has_period ? t->period_unit : t->unit};
	size_t len = ARRAY_SIZE(parts) - 1;

	for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
		if (!*parts[i])
			return pushed_refuse(p, 400, "malformed",
					     "a profile has no sample type, or that has no unit");
		len += strlen(parts[i]);
	}
	if (len >= WINDOW_TYPE_MAX)
		return pushed_refuse(p, 400, "malformed",
				     "the profile's type, %.20s:%.20s:…, is longer than %d bytes",
				     t->name, t->sample_type, WINDOW_TYPE_MAX - 1);
	size_t at = 0;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		at += put_part(of->type + at, parts[i], i == 0);
	put_part(of->unit, t->unit, true);
	return true;
}

/* What a profile with that sample type is called: its name, as Pyroscope has it. */
static const char *name_by(const char *sample_type)
{
	static const char *const names[][2] = {
		{"cpu", "process_cpu"},     {"wall", "wall"},
		{"inuse_space", "memory"},  {"inuse_objects", "memory"},
		{"alloc_space", "memory"},  {"alloc_objects", "memory"},
		{"space", "memory"},        {"objects", "memory"},
		{"goroutine", "goroutine"}, {"goroutines", "goroutine"},
		{"mutex_count", "mutex"},   {"mutex_duration", "mutex"},
		{"block_count", "block"},   {"block_duration", "block"},
		{"samples", "process_cpu"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(names[i][0], sample_type) == 0)
			return names[i][1];
	return NULL;
}

/* All types of one file go by one name, that of the most telling. */
static void name_types(struct pushed_profile *const *of, uint32_t count)
{
	const char *name = NULL;
	int best = -1;

	for (uint32_t i = 0; i < count; i++) {
		const char *type = of[i]->parts.sample_type, *mine = name_by(type);
		int rank = strcmp(type, "wall") == 0 ? 2 : strcmp(type, "samples") != 0;
		if (mine && rank > best) {
			name = mine;
			best = rank;
		}
	}
	for (uint32_t i = 0; i < count; i++)
		snprintf(of[i]->parts.name, sizeof(of[i]->parts.name), "%s",
			 name ? name : of[count - 1]->parts.sample_type);
}

/* ---- profiles ------------------------------------------------------------------------------ */

/* Its time, in whole seconds: that of the request, else that of the profile, else now. */
static void set_time(struct pushed_profile *of, const struct pushed_about *a)
{
	const struct profile_info *info = &of->p->info;
	uint64_t from = a->from_ms, to = a->to_ms;

	if (!from && info->start_ns) {
		from = info->start_ns / 1000000;
		to = from + info->duration_ns / 1000000;
	}
	if (!from)
		from = to ? to : a->now_ms;
	to = MAX(to, from + 1);
	of->start_ms = from / 1000 * 1000;
	of->length_ms = (uint32_t)((MIN(to - of->start_ms, WINDOW_LENGTH_MAX) + 999) / 1000 * 1000);
}

static struct pushed_profile *add(struct pushed *p, struct profile *profile,
				  const struct pushed_about *a)
{
	p->stacks += profile->stack_count;
	if (p->count == PUSHED_PROFILES_MAX) {
		profile_free(profile);
		pushed_refuse(p, 413, "too_large", "there are more than %u profiles in it",
			      PUSHED_PROFILES_MAX);
		return NULL;
	}
	struct pushed_profile *one = mem_alloc(sizeof(*one));
	one->p = profile;
	one->holds_since_ms = a->holds_since_ms;
	for (uint32_t i = 0; i < a->labels->count; i++)
		put_label(&one->labels, mem_strdup(a->labels->all[i].name),
			  mem_strdup(a->labels->all[i].value));
	name_service(&one->labels);
	set_time(one, a);
	MEM_GROW(p->all, p->count, p->cap);
	p->all[p->count++] = one;
	return one;
}

bool pushed_add(struct pushed *p, struct profile *profile, const struct pushed_type *type,
		const struct pushed_about *a)
{
	struct pushed_profile *one = add(p, profile, a);

	if (!one)
		return false;
	one->parts = *type;
	one->scale = a->scale;
	if (!*one->parts.name)
		name_types(&one, 1);
	return set_type(p, one, &one->parts);
}

/* The caps of what is left of the budgets; false: nothing is. */
static bool caps(struct pushed *p, struct ingest_caps *ret)
{
	if (p->bytes >= PUSHED_BYTES_MAX || p->stacks >= PUSHED_STACKS_MAX)
		return pushed_refuse(p, 413, "too_large",
				     "the profiles in it are together larger than the server "
				     "accepts");
	*ret = (struct ingest_caps){
		.bytes = PUSHED_BYTES_MAX - p->bytes,
		.stacks = (uint32_t)(PUSHED_STACKS_MAX - p->stacks),
		.walk = WALK_MAX,
	};
	return true;
}

/* After reading: what went wrong, as an error of the push. */
static bool read_well(struct pushed *p, int err, const struct ingest_report *report)
{
	p->bytes += report->bytes;
	if (!err)
		return true;
	if (p->status) /* it was the taking over that failed, and said so */
		return false;
	return pushed_refuse(p, err == -EFBIG ? 413 : 400,
			     err == -EFBIG ? "too_large" : "malformed",
			     "the profile cannot be read: %s%s%s", report->where,
			     *report->where ? ": " : "", report->why);
}

struct types {
	struct pushed *p;
	const struct pushed_about *a;
};

static bool is_in(const char *list, const char *word)
{
	CLEANUP(freep) char *wanted = mem_printf(",%s,", word);

	return list && strstr(list, wanted);
}

static int on_type(void *ctx, struct profile *profile, const struct ingest_value_type *t)
{
	struct types *s = ctx;

	if (is_in(s->a->accumulated, t->type)) {
		s->p->accumulated++;
		profile_free(profile);
		return 0;
	}
	struct pushed_profile *one = add(s->p, profile, s->a);
	if (!one)
		return -EFBIG;
	struct pushed_type *parts = &one->parts;
	snprintf(parts->sample_type, sizeof(parts->sample_type), "%s", t->type);
	snprintf(parts->unit, sizeof(parts->unit), "%s", t->unit);
	snprintf(parts->period_type, sizeof(parts->period_type), "%s", t->period_type);
	snprintf(parts->period_unit, sizeof(parts->period_unit), "%s", t->period_unit);
	return 0;
}

static bool wants(void *ctx, const char *type, const char *unit)
{
	const struct pushed_about *a = ((struct types *)ctx)->a;
	char known[160];

	snprintf(known, sizeof(known), "any:%s:%s", type, unit);
	return !(a->no_states && window_type_is_state(known)) &&
	       (!a->keep || is_in(a->keep, known + strlen("any:")));
}

bool pushed_pprof(struct pushed *p, const void *bytes, size_t len, const struct pushed_about *a)
{
	struct types types = {p, a};
	struct ingest_report report;
	struct ingest_caps most;
	uint32_t first = p->count;
	uint64_t left_out = p->accumulated;

	if (!len)
		return pushed_refuse(p, 400, "malformed", "the profile is empty");
	if (!caps(p, &most))
		return false;
	CLEANUP(file_closep) FILE *in = fmemopen((void *)(uintptr_t)bytes, len, "r");
	const struct ingest_options o = {.format = INGEST_PPROF,
					 .caps = &most,
					 .words_only = true,
					 .wants = wants,
					 .wants_ctx = &types};
	if (!read_well(p, ingest_pprof_types(in, &o, on_type, &types, &report), &report))
		return false;
	if (p->count == first && p->accumulated > left_out)
		return pushed_refuse(p, 400, "accumulated",
				     "its values are sums since the program's start; configure "
				     "the client to push differences (\"cumulative\": false)");
	if (p->count > first)
		name_types(p->all + first, p->count - first);
	for (uint32_t i = first; i < p->count; i++) {
		struct pushed_type *parts = &p->all[i]->parts;
		if (*a->type.name)
			snprintf(parts->name, sizeof(parts->name), "%s", a->type.name);
		if (!set_type(p, p->all[i], parts))
			return false;
	}
	return true;
}

/* Each line with a count: what makes folded stacks of them. Caller frees. */
static char *count_lines(const char *s, size_t len, size_t *ret_len)
{
	char *text = NULL;
	FILE *out = open_memstream(&text, ret_len);

	for (const char *end = s + len; s < end;) {
		const char *nl = memchr(s, '\n', (size_t)(end - s));
		const char *stop = nl ? nl : end;
		size_t line = (size_t)(stop - s);
		if (line && s[line - 1] == '\r')
			line--;
		if (line) {
			fwrite(s, 1, line, out);
			fputs(" 1\n", out);
		}
		s = nl ? nl + 1 : end;
	}
	fclose(out);
	return text;
}

bool pushed_folded(struct pushed *p, const void *bytes, size_t len, bool lines,
		   const struct pushed_about *a)
{
	CLEANUP(freep) char *counted = lines ? count_lines(bytes, len, &len) : NULL;
	struct ingest_report report;
	struct ingest_caps most;

	if (!len)
		return pushed_refuse(p, 400, "malformed", "the profile is empty");
	if (!caps(p, &most))
		return false;
	CLEANUP(file_closep)
	FILE *in = fmemopen(counted ? counted : (void *)(uintptr_t)bytes, len, "r");
	CLEANUP(profile_freep) struct profile *profile = profile_new();
	const struct ingest_options o = {.format = INGEST_FOLDED, .caps = &most};
	if (!read_well(p, ingest_read(in, &o, profile, &report), &report))
		return false;
	p->skipped += report.skipped;
	if (report.skipped && !profile->sample_count)
		return pushed_refuse(p, 400, "malformed",
				     "no line of it is a stack and a number, as in 'main;work 12'");
	return pushed_add(p, TAKE_PTR(profile), &a->type, a);
}

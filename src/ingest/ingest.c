#include "ingest/ingest.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>

#include "base/mem.h"
#include "base/text.h"
#include "ingest/reader.h"

#define PEEK (64u * 1024)

static const char *const format_names[] = {
	[INGEST_FOLDED] = "folded",
	[INGEST_PPROF] = "pprof",
	[INGEST_PERF] = "perf",
};

bool ingest_format_by_name(const char *name, enum ingest_format *ret)
{
	for (size_t i = INGEST_FOLDED; i < ARRAY_SIZE(format_names); i++)
		if (strcmp(name, format_names[i]) == 0) {
			*ret = (enum ingest_format)i;
			return true;
		}
	return false;
}

__attribute__((format(printf, 4, 0))) static int fail(struct reader *r, int err, const char *where,
						      const char *fmt, va_list ap)
{
	snprintf(r->report->where, sizeof(r->report->where), "%s", where);
	vsnprintf(r->report->why, sizeof(r->report->why), fmt, ap);
	return err;
}

int reader_fail_at(struct reader *r, int err, const char *where, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fail(r, err, where, fmt, ap);
	va_end(ap);
	return err;
}

int reader_fail(struct reader *r, int err, const char *fmt, ...)
{
	char where[32] = "";
	va_list ap;

	if (r->line)
		snprintf(where, sizeof(where), "line %llu", (unsigned long long)r->line);
	va_start(ap, fmt);
	fail(r, err, where, fmt, ap);
	va_end(ap);
	return err;
}

const char *reader_quote(const char *s, size_t len, char ret[static 64])
{
	char clean[TEXT_MAX + 1];
	size_t n = text_clean(s, MIN(len, (size_t)200), clean);

	if (n > 60) {
		/* Cut between characters, not inside one. */
		for (n = 57; n && ((unsigned char)clean[n] & 0xc0) == 0x80; n--)
			;
		memcpy(clean + n, "...", 4);
		n += 3;
	}
	memcpy(ret, clean, n + 1);
	return ret;
}

static int input_failed(struct reader *r, int err, uint64_t max)
{
	if (err == -EFBIG)
		return reader_fail(r, err, "longer than %llu MB", (unsigned long long)(max >> 20));
	return reader_fail(r, err, "%s", r->input.why ? r->input.why : strerror(-err));
}

int reader_line(struct reader *r, const char **ret, size_t *ret_len)
{
	int n = input_line(&r->input, INGEST_LINE_MAX, ret, ret_len);

	if (n == 0)
		return 0;
	r->line++;
	if (n < 0)
		return input_failed(r, n, INGEST_LINE_MAX);
	if (r->input.total > r->caps.bytes)
		return input_failed(r, -EFBIG, r->caps.bytes);
	return 1;
}

int reader_rest(struct reader *r, size_t max, const char **ret, size_t *ret_len)
{
	int err = input_rest(&r->input, max, ret, ret_len);

	return err ? input_failed(r, err, max) : 0;
}

void reader_skip(struct reader *r)
{
	if (r->report->skipped++ == 0)
		r->report->skipped_first = r->line;
}

int reader_add(struct reader *r, uint32_t series, uint32_t stack, uint64_t count, uint64_t value)
{
	const struct profile *p = r->p;

	if (__builtin_add_overflow(r->sum, MAX(count, value), &r->sum) || r->sum > INT64_MAX)
		return reader_fail(r, -EFBIG, "the sum of the values exceeds 63 bits");
	if (p->frame_count > INGEST_FRAMES_MAX)
		return reader_fail(r, -EFBIG, "more than %u distinct functions", INGEST_FRAMES_MAX);
	if (p->series_count > INGEST_SERIES_MAX)
		return reader_fail(r, -EFBIG, "more than %u distinct sets of labels",
				   INGEST_SERIES_MAX);
	if (p->sample_count >= INGEST_SAMPLES_MAX)
		return reader_fail(r, -EFBIG, "more than %u distinct stacks", INGEST_SAMPLES_MAX);
	profile_add(r->p, series, stack, count, value);
	return 0;
}

uint32_t reader_truncated(struct reader *r, uint32_t stack)
{
	static const char name[] = "[truncated]";
	struct frame mark = {
		.name = profile_string(r->p, name, strlen(name)),
		.kind = FRAME_MARK,
	};

	return profile_stack(r->p, stack, profile_frame(r->p, &mark));
}

/* Two files of one type become one profile; of two types they would add up to nonsense. */
static int join_info(struct reader *r, bool first)
{
	struct profile_info *all = &r->p->info;
	const struct profile_info *mine = &r->info;

	if (first) {
		all->type = mine->type;
		all->unit = mine->unit;
		all->period = mine->period;
		all->start_ns = mine->start_ns;
	} else if (strcmp(all->type, mine->type) != 0 || strcmp(all->unit, mine->unit) != 0) {
		r->line = 0;
		return reader_fail(r, -EINVAL,
				   "its type is %s/%s, but the files before it have %s/%s; they "
				   "cannot be added up",
				   mine->type, mine->unit, all->type, all->unit);
	}
	if (all->period != mine->period)
		all->period = 0;
	if (mine->start_ns && mine->start_ns < all->start_ns)
		all->start_ns = mine->start_ns;
	all->duration_ns += mine->duration_ns;
	all->truncated += mine->truncated;
	all->lost += mine->lost;
	return 0;
}

/* Whether the first line that says anything ends in a number, as each line of a folded file. */
static bool folded_looks_like(const char *data, size_t len)
{
	const char *end = data + len;

	while (data < end) {
		const char *nl = memchr(data, '\n', (size_t)(end - data));
		const char *stop = nl ? nl : end;
		const char *at = stop;

		while (at > data && isspace((unsigned char)at[-1]))
			at--;
		if (at > data && *data != '#') {
			const char *number = at;
			while (number > data &&
			       (isdigit((unsigned char)number[-1]) || number[-1] == '.'))
				number--;
			return number < at && number > data && isspace((unsigned char)number[-1]);
		}
		data = nl ? nl + 1 : end;
	}
	return false;
}

static bool starts_with(const char *data, size_t len, const char *word)
{
	return len >= strlen(word) && strncasecmp(data, word, strlen(word)) == 0;
}

/* What was made to be shown, by us or by others; NULL if it is none of that. */
static const char *drawn(const char *data, size_t len)
{
	while (len && isspace((unsigned char)*data))
		data++, len--;
	if (starts_with(data, len, "<!doctype html") || starts_with(data, len, "<html"))
		return "an HTML page";
	if (starts_with(data, len, "<?xml") || starts_with(data, len, "<svg"))
		return "a picture (SVG)";
	return NULL;
}

static int guess(struct reader *r, enum ingest_format *ret)
{
	const char *data;
	size_t len;
	int err = input_peek(&r->input, PEEK, &data, &len);

	if (err)
		return input_failed(r, err, 0);
	if (len == 0)
		return reader_fail(r, -EINVAL, "it is empty");
	if (len >= 8 && memcmp(data, "PERFILE2", 8) == 0)
		return reader_fail(
			r, -EINVAL,
			"it is a perf.data file; give the output of 'perf script' instead");

	const char *picture = drawn(data, len);
	if (picture)
		return reader_fail(r, -EINVAL,
				   "it is %s, not a profile; give the profile it was made from "
				   "(record -o NAME.pb.gz writes one)",
				   picture);

	if (pprof_looks_like(data, len))
		*ret = INGEST_PPROF;
	else if (perfscript_looks_like(data, len))
		*ret = INGEST_PERF;
	else if (folded_looks_like(data, len))
		*ret = INGEST_FOLDED;
	else
		return reader_fail(r, -EINVAL,
				   "it is neither folded stacks, nor pprof, nor the output of "
				   "'perf script'%s",
				   data[0] == '{' || data[0] == '[' ? "; it looks like JSON" : "");
	return 0;
}

static const struct ingest_caps most = {INGEST_TEXT_MAX, INGEST_STACKS_MAX, INGEST_WALK_MAX};

int ingest_pprof_types(FILE *in, const struct ingest_options *o, ingest_type_fn *fn, void *ctx,
		       struct ingest_report *ret)
{
	struct reader r = {.o = o, .report = ret, .caps = o->caps ? *o->caps : most};

	*ret = (struct ingest_report){.format = INGEST_PPROF};
	input_init(&r.input, in);
	int err = pprof_read_types(&r, fn, ctx);
	ret->bytes = r.input.total;
	input_done(&r.input);
	return err;
}

int ingest_read(FILE *in, const struct ingest_options *o, struct profile *p,
		struct ingest_report *ret)
{
	static int (*const readers[])(struct reader *) = {
		[INGEST_FOLDED] = folded_read,
		[INGEST_PPROF] = pprof_read,
		[INGEST_PERF] = perfscript_read,
	};
	bool first = p->sample_count == 0;
	struct reader r = {
		.p = p,
		.o = o,
		.report = ret,
		.caps = o->caps ? *o->caps : most,
		.info = {.type = "samples", .unit = "samples", .period = 1},
	};

	*ret = (struct ingest_report){.format = o->format};
	profile_set_stacks_max(p, r.caps.stacks);
	for (uint32_t i = 0; i < p->sample_count; i++)
		r.sum += MAX(p->samples[i].count, p->samples[i].value);

	input_init(&r.input, in);
	int err = o->format == INGEST_AUTO ? guess(&r, &ret->format) : 0;
	if (!err)
		err = readers[ret->format](&r);
	if (!err)
		err = join_info(&r, first);
	ret->bytes = r.input.total;
	input_done(&r.input);
	return err;
}

#include "render/describe.h"

#include <inttypes.h>
#include <stdarg.h>
#include <time.h>

#include "base/mem.h"

#define MINUTE_S 60

static void group_digits(uint64_t n, char *ret, size_t size)
{
	char plain[24];
	int len = snprintf(plain, sizeof(plain), "%" PRIu64, n);
	size_t at = 0;

	for (int i = 0; i < len && at + 2 < size; i++) {
		if (i && (len - i) % 3 == 0)
			ret[at++] = ',';
		ret[at++] = plain[i];
	}
	ret[at] = '\0';
}

struct scale {
	double least;
	const char *suffix;
};

static void scaled(double amount, const struct scale *scale, char *ret)
{
	while (scale->least > amount && scale->least > 1)
		scale++;
	double n = amount / scale->least;
	snprintf(ret, DESCRIBE_MAX,
		 n < 10    ? "%.2f %s"
		 : n < 100 ? "%.1f %s"
			   : "%.0f %s",
		 n, scale->suffix);
}

const char *describe_amount(uint64_t amount, const char *unit, char ret[static DESCRIBE_MAX])
{
	static const struct scale time[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "µs"}, {1, "ns"}};
	static const struct scale bytes[] = {{1ull << 40, "TiB"},
					     {1 << 30, "GiB"},
					     {1 << 20, "MiB"},
					     {1 << 10, "KiB"},
					     {1, "B"}};

	if (strcmp(unit, "nanoseconds") == 0)
		scaled((double)amount, time, ret);
	else if (strcmp(unit, "bytes") == 0)
		scaled((double)amount, bytes, ret);
	else
		group_digits(amount, ret, DESCRIBE_MAX);
	return ret;
}

__attribute__((format(printf, 2, 3))) static void append(char *ret, const char *fmt, ...)
{
	size_t n = strlen(ret);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(ret + n, DESCRIBE_MAX - n, fmt, ap);
	va_end(ap);
}

const char *describe_quantity(uint64_t amount, const char *unit, char ret[static DESCRIBE_MAX])
{
	describe_amount(amount, unit, ret);
	if (strcmp(unit, "nanoseconds") == 0 || strcmp(unit, "bytes") == 0)
		return ret;

	size_t len = strlen(unit);
	append(ret, " %.*s", (int)(amount == 1 && len && unit[len - 1] == 's' ? len - 1 : len),
	       unit);
	return ret;
}

const char *describe_change(uint64_t now, uint64_t base, const char *unit,
			    char ret[static DESCRIBE_MAX])
{
	char amount[DESCRIBE_MAX];

	describe_amount(now > base ? now - base : base - now, unit, amount);
	snprintf(ret, DESCRIBE_MAX, "%s%.*s",
		 now > base   ? "+"
		 : now < base ? "-"
			      : "",
		 DESCRIBE_MAX - 2, now == base ? "0" : amount);
	return ret;
}

static void append_count(char *ret, uint64_t n, const char *what)
{
	char digits[DESCRIBE_MAX];

	if (n)
		append(ret, ", %s %s", describe_amount(n, "", digits), what);
}

const char *describe_profile(const struct profile *p, const struct tree *t,
			     char ret[static DESCRIBE_MAX])
{
	const struct profile_info *info = &p->info;
	char amount[DESCRIBE_MAX];
	bool is_time = strcmp(info->unit, "nanoseconds") == 0;

	ret[0] = '\0';
	if (strcmp(info->type, "samples") != 0)
		append(ret, "%s: ", info->type);
	append(ret, "%s", describe_quantity(t->nodes[0].total, t->unit, amount));
	if (t->idle)
		append(ret, " (%s idle)",
		       describe_quantity(t->nodes[t->idle].total, t->unit, amount));
	if (info->duration_ns)
		append(ret, " in %.1f s", (double)info->duration_ns / 1e9);
	if (is_time && info->period)
		append(ret, " at %.4g Hz", 1e9 / (double)info->period);
	/* What was measured says that nothing was lost; what was converted cannot know. */
	if (info->lost || info->duration_ns)
		append(ret, ", %s lost", describe_amount(info->lost, "", amount));
	append_count(ret, info->truncated, "truncated");
	append_count(ret, info->capped, "with a shortened stack");
	if (t->base) {
		append(ret, "; base: %s",
		       describe_quantity(t->nodes[0].base_total, t->unit, amount));
		if (t->base->info.duration_ns)
			append(ret, " in %.1f s", (double)t->base->info.duration_ns / 1e9);
		if (t->base_scale > 0)
			append(ret, ", scaled by %.4g", t->base_scale);
		append_count(ret, t->base->info.lost, "lost");
	}
	return ret;
}

/* "2026-11-15 14:02:05 UTC", "2026-11-15 14:02:05 to 14:05:05 UTC"; "" where it is not known. */
static void describe_when(const struct profile_info *info, char ret[static DESCRIBE_MAX])
{
	time_t start = (time_t)(info->start_ns / 1000000000);
	time_t end = (time_t)((info->start_ns + info->duration_ns) / 1000000000);
	struct tm from, to;
	char text[64];

	ret[0] = '\0';
	if (!start || !localtime_r(&start, &from) || !localtime_r(&end, &to))
		return;
	strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &from);
	append(ret, "%s", text);
	if (end - start >= MINUTE_S) {
		bool same_day = from.tm_yday == to.tm_yday && from.tm_year == to.tm_year;
		strftime(text, sizeof(text), same_day ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &to);
		append(ret, " to %s", text);
	}
	append(ret, " %s", from.tm_zone);
}

/* What it is where nobody says whose it is. */
static const char *describe_graph(const char *type)
{
	static const struct {
		const char *type, *title;
	} known[] = {{"samples", "Flame graph"},
		     {"cpu", "CPU flame graph"},
		     {"offcpu", "Off-CPU flame graph"},
		     {"wall", "Wall-clock flame graph"},
		     {"latency", "Latency flame graph"}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (strcmp(known[i].type, type) == 0)
			return known[i].title;
	return type;
}

/* Rounded away from all and from none: what is not whole is never "100 %", nor "0 %". */
static double percent(uint64_t part, uint64_t all)
{
	double share = 100.0 * (double)part / (double)all;

	return part == 0 || part == all ? share : MAX(0.1, MIN(99.9, share));
}

const char *describe_quality(const struct quality *q, char ret[static DESCRIBE_MAX])
{
	ret[0] = '\0';
	if (q->stacks)
		append(ret, ", %.1f %% of user stacks complete",
		       percent(q->stacks - q->incomplete - q->truncated, q->stacks));
	if (q->by_pointers)
		append(ret, ", %.1f %% by frame pointers through run-time code",
		       percent(q->by_pointers, q->stacks));
	if (q->frames)
		append(ret, ", %.1f %% of frames unnamed", percent(q->unnamed, q->frames));
	return ret;
}

const char *describe_title(const struct profile *p, const struct render_options *o,
			   char ret[static TEXT_MAX + 1])
{
	char when[DESCRIBE_MAX], base[DESCRIBE_MAX] = "";

	if (o->title) {
		text_clean(o->title, strlen(o->title), ret);
		return ret;
	}
	describe_when(&p->info, when);
	if (o->tree.base)
		describe_when(&o->tree.base->info, base);
	CLEANUP(freep)
	char *made =
		mem_printf("%s%s%s%s%s", o->subject ? o->subject : describe_graph(p->info.type),
			   *when ? ", " : "", when, *base ? ", base " : "", base);
	text_clean(made, strlen(made), ret);
	return ret;
}

const char *describe_kind(enum frame_kind kind)
{
	static const char *const names[FRAME_KINDS] = {
		[FRAME_USER] = "user",       [FRAME_KERNEL] = "kernel",
		[FRAME_INLINED] = "inlined", [FRAME_INTERPRETED] = "interpreted",
		[FRAME_JIT] = "jit",         [FRAME_GO] = "go",
		[FRAME_BPF] = "bpf",         [FRAME_MARK] = "mark",
	};

	return names[kind];
}

const char *describe_annotation(enum frame_kind kind)
{
	switch (kind) {
	case FRAME_KERNEL:
	case FRAME_BPF:
		return "_[k]";
	case FRAME_INLINED:
		return "_[i]";
	case FRAME_JIT:
		return "_[j]";
	default:
		return "";
	}
}

size_t describe_fit(const char *s, size_t len, size_t columns, size_t *ret_columns)
{
	size_t n = 0, used = 0;

	for (; n < len; n++) {
		bool starts = ((unsigned char)s[n] & 0xc0) != 0x80;
		if (starts && used == columns)
			break;
		used += starts;
	}
	*ret_columns = used;
	return n;
}

bool describe_is_counted(const struct profile *p)
{
	if (!p->info.period || strcmp(p->info.unit, "nanoseconds") != 0)
		return false;
	for (uint32_t i = 0; i < p->sample_count; i++)
		if (p->samples[i].value != p->samples[i].count * p->info.period)
			return false;
	return true;
}

struct tree_options describe_lines(const struct profile *p, const struct render_options *o)
{
	struct tree_options lines = o->tree;
	const struct profile *base = lines.base;

	if (o->counted && describe_is_counted(p) &&
	    (!base || !base->sample_count ||
	     (base->info.period == p->info.period && describe_is_counted(base))))
		lines.column = TREE_COUNT;
	return lines;
}

void describe_wrap(FILE *out, const char *text, unsigned at, unsigned indent, unsigned columns)
{
	while (*text) {
		size_t word = strcspn(text, " "), used;
		describe_fit(text, word, SIZE_MAX, &used);
		if (at + used > columns && at > indent) {
			fprintf(out, "\n%*s", (int)indent, "");
			at = indent;
		}
		fprintf(out, "%.*s", (int)word, text);
		at += (unsigned)used;
		text += word;
		if (*text == ' ') {
			text++;
			if (at + 1 + strcspn(text, " ") <= columns && *text) {
				fputc(' ', out);
				at++;
			} else if (*text) {
				fprintf(out, "\n%*s", (int)indent, "");
				at = indent;
			}
		}
	}
	fputc('\n', out);
}

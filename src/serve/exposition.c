#include "serve/exposition.h"

#include <math.h>

#include "base/mem.h"
#include "base/string_pool.h"
#include "pipeline/metrics.h"

#define PREFIX  "smolder_"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_"
#define DIGITS  "0123456789"
#define UNKNOWN "Told by a collector of another version."

struct told {         /* by a collector */
	char *family; /* without the prefix */
	char *labels; /* with the instance, without braces */
	double value;
};

struct exposition {
	FILE *out;
	char family[128];       /* with the prefix: what exposition_value() is of */
	struct string_pool own; /* families of the server */
	struct told *told;
	size_t told_count, told_cap;
};

struct exposition *exposition_new(FILE *out)
{
	struct exposition *e = mem_alloc(sizeof(*e));

	e->out = out;
	return e;
}

static void put_number(FILE *out, double value)
{
	if (isnan(value))
		fputs(" NaN\n", out);
	else if (isinf(value))
		fputs(value > 0 ? " +Inf\n" : " -Inf\n", out);
	else
		fprintf(out, " %.17g\n", value);
}

static void put_head(struct exposition *e, const char *name, const char *suffix, const char *type,
		     const char *help)
{
	snprintf(e->family, sizeof(e->family), PREFIX "%s%s", name, suffix);
	fprintf(e->out, "# HELP %s %s\n# TYPE %s %s\n", e->family, help, e->family, type);
	string_pool_put(&e->own, e->family + strlen(PREFIX), strlen(e->family + strlen(PREFIX)));
}

void exposition_counters(struct exposition *e, const char *name, const char *help)
{
	put_head(e, name, "_total", "counter", help);
}

void exposition_gauges(struct exposition *e, const char *name, const char *help)
{
	put_head(e, name, "", "gauge", help);
}

void exposition_value(struct exposition *e, const char *label, const char *is, double value)
{
	fprintf(e->out, "%s{%s=\"%s\"}", e->family, label, is);
	put_number(e->out, value);
}

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n')
			fputs("\\n", out);
		else if (*text == '"' || *text == '\\')
			fprintf(out, "\\%c", *text);
		else
			fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
	}
}

void exposition_labelled(struct exposition *e, const char *const *labels, double value)
{
	fputs(e->family, e->out);
	for (size_t i = 0; labels[i]; i += 2) {
		fprintf(e->out, "%c%s=\"", i ? ',' : '{', labels[i]);
		put_escaped(e->out, labels[i + 1]);
		fputc('"', e->out);
	}
	fputc('}', e->out);
	put_number(e->out, value);
}

void exposition_counter(struct exposition *e, const char *name, const char *help, double value)
{
	exposition_counters(e, name, help);
	fputs(e->family, e->out);
	put_number(e->out, value);
}

void exposition_gauge(struct exposition *e, const char *name, const char *help, double value)
{
	exposition_gauges(e, name, help);
	fputs(e->family, e->out);
	put_number(e->out, value);
}

/* ---- what collectors say ------------------------------------------------------------------- */

/* The length of a name at the beginning; 0: there is none. */
static size_t name_len(const char *s)
{
	return strspn(s, LETTERS) ? strspn(s, LETTERS DIGITS) : 0;
}

/* a="b",c="d" up to a closing brace that ends the text. */
static bool are_labels(const char *s)
{
	for (;;) {
		size_t len = name_len(s);
		if (!len || s[len] != '=' || s[len + 1] != '"' ||
		    (len == strlen("instance") && strncmp(s, "instance", len) == 0))
			return false;
		for (s += len + 2; *s != '"'; s++) {
			if ((unsigned char)*s < ' ')
				return false;
			if (*s == '\\' && !strchr("\\\"n", *++s))
				return false;
			if (!*s)
				return false;
		}
		if (strcmp(++s, "}") == 0)
			return true;
		if (*s++ != ',')
			return false;
	}
}

void exposition_collector_metric(void *ctx, const uint8_t instance[16], const char *name,
				 double value)
{
	struct exposition *e = ctx;

	if (strncmp(name, PREFIX, strlen(PREFIX)) == 0)
		name += strlen(PREFIX);
	size_t len = name_len(name);
	const char *labels = name + len;
	if (!len || (*labels && (*labels != '{' || !are_labels(labels + 1))) ||
	    string_pool_find(&e->own, name, len))
		return;
	MEM_GROW(e->told, e->told_count, e->told_cap);
	e->told[e->told_count++] = (struct told){
		.family = mem_strndup(name, len),
		.labels = mem_printf("instance=\"%02x%02x%02x%02x\"%s%.*s", instance[0],
				     instance[1], instance[2], instance[3], *labels ? "," : "",
				     *labels ? (int)strlen(labels) - 2 : 0, labels + !!*labels),
		.value = value,
	};
}

static int by_family(const void *a, const void *b)
{
	const struct told *x = a, *y = b;
	int order = strcmp(x->family, y->family);

	return order ? order : strcmp(x->labels, y->labels);
}

static void put_told(struct exposition *e, const struct told *t, const struct told *before)
{
	size_t len = strlen(t->family), total = strlen("_total");
	bool counts = len > total && strcmp(t->family + len - total, "_total") == 0;
	const char *help = metrics_help(t->family, len);

	if (!before || strcmp(before->family, t->family) != 0)
		fprintf(e->out, "# HELP " PREFIX "%s %s\n# TYPE " PREFIX "%s %s\n", t->family,
			help ? help : UNKNOWN, t->family, counts ? "counter" : "gauge");
	else if (strcmp(before->labels, t->labels) == 0)
		return; /* said twice */
	fprintf(e->out, PREFIX "%s{%s}", t->family, t->labels);
	put_number(e->out, t->value);
}

void exposition_free(struct exposition *e)
{
	if (e->told_count)
		qsort(e->told, e->told_count, sizeof(*e->told), by_family);
	for (size_t i = 0; i < e->told_count; i++)
		put_told(e, &e->told[i], i ? &e->told[i - 1] : NULL);
	for (size_t i = 0; i < e->told_count; i++) {
		free(e->told[i].family);
		free(e->told[i].labels);
	}
	free(e->told);
	string_pool_done(&e->own);
	free(e);
}

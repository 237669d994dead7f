#include "profile/finding.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

#define TEXTS 8
#define NAME  "abcdefghijklmnopqrstuvwxyz0123456789_-"

/* All texts of a finding, in the order in which they are written. */
static void texts_of(struct finding *f, char *ret[TEXTS], size_t sizes[TEXTS])
{
	char *const texts[TEXTS] = {f->kind,      f->host,     f->comm,  f->thread,
				    f->container, f->headline, f->means, f->next};
	const size_t room[TEXTS] = {sizeof(f->kind),   sizeof(f->host),      sizeof(f->comm),
				    sizeof(f->thread), sizeof(f->container), sizeof(f->headline),
				    sizeof(f->means),  sizeof(f->next)};

	memcpy(ret, texts, sizeof(texts));
	memcpy(sizes, room, sizeof(room));
}

/* Of bytes that may be cut inside of a character: what is left of that one goes, too. */
static size_t whole_characters(const char *s, size_t len)
{
	size_t at = len;

	while (at && ((unsigned char)s[at - 1] & 0xc0) == 0x80)
		at--;
	if (at && (unsigned char)s[at - 1] >= 0xc0)
		return at - 1;
	return len;
}

static void set(char *ret, size_t size, const char *text, size_t len)
{
	char clean[TEXT_MAX + 1];
	size_t n = 0;

	/* Pieces, since what is cleaned is at most so long: a stack is longer. */
	ret[0] = '\0';
	while (len && n + 1 < size) {
		size_t piece = MIN(len, TEXT_MAX / 4);
		if (piece < len)
			piece = MAX(whole_characters(text, piece), (size_t)1);
		size_t is = text_clean(text, piece, clean);
		if (is >= size - n)
			is = whole_characters(clean, size - n - 1);
		memcpy(ret + n, clean, is);
		n += is;
		ret[n] = '\0';
		text += piece;
		len -= piece;
	}
}

void finding_set(char *ret, size_t size, const char *text)
{
	set(ret, size, text, strlen(text));
}

void finding_fact(struct finding *f, const char *name, double value)
{
	if (f->fact_count == FINDING_FACTS)
		return;
	struct finding_fact *to = &f->facts[f->fact_count++];
	snprintf(to->name, sizeof(to->name), "%s", name);
	to->value = value;
}

static double weight(const struct finding *f)
{
	for (uint32_t i = 0; i < f->fact_count; i++)
		if (strcmp(f->facts[i].name, "cpu_share") == 0)
			return f->sure * f->facts[i].value;
	return f->sure;
}

int finding_order(const void *a, const void *b)
{
	const struct finding *x = a, *y = b;
	double by = weight(x) - weight(y);

	if (by < 0 || by > 0)
		return by > 0 ? -1 : 1;
	if (x->began_ms != y->began_ms)
		return x->began_ms < y->began_ms ? -1 : 1;
	return (x->id > y->id) - (x->id < y->id);
}

bool finding_is_active(const struct finding *f, uint64_t now_ms)
{
	return f->until_ms + FINDING_OVER_MS > now_ms;
}

void finding_write(const struct finding *f, struct pack *out)
{
	struct finding copy = *f;
	char *texts[TEXTS];
	size_t sizes[TEXTS];

	pack_u64(out, f->id);
	pack_u64(out, f->began_ms);
	pack_u64(out, f->until_ms);
	pack_u64(out, f->pid);
	pack_u64(out, f->tid);
	pack_raw(out, &f->sure, sizeof(f->sure));
	texts_of(&copy, texts, sizes);
	for (size_t i = 0; i < TEXTS; i++)
		pack_str(out, texts[i], strlen(texts[i]));
	pack_str(out, f->stack, strlen(f->stack));
	pack_u64(out, f->fact_count);
	for (uint32_t i = 0; i < f->fact_count; i++) {
		pack_str(out, f->facts[i].name, strlen(f->facts[i].name));
		pack_raw(out, &f->facts[i].value, sizeof(double));
	}
}

static void read_text(struct unpack *in, char *ret, size_t size)
{
	size_t len;
	const char *s = unpack_str(in, size - 1, &len);

	set(ret, size, s, len);
}

static double read_double(struct unpack *in)
{
	const void *bytes = unpack_raw(in, sizeof(double));
	double value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return isfinite(value) ? value : 0;
}

static bool is_name(const char *s)
{
	return *s && s[strspn(s, NAME)] == '\0';
}

void finding_read(struct unpack *in, struct finding *ret)
{
	char *texts[TEXTS];
	size_t sizes[TEXTS];

	*ret = (struct finding){.id = unpack_u64(in)};
	ret->began_ms = unpack_max(in, INT64_MAX / 1000000);
	ret->until_ms = unpack_max(in, INT64_MAX / 1000000);
	ret->pid = (uint32_t)unpack_max(in, UINT32_MAX);
	ret->tid = (uint32_t)unpack_max(in, UINT32_MAX);
	ret->sure = read_double(in);
	texts_of(ret, texts, sizes);
	for (size_t i = 0; i < TEXTS; i++)
		read_text(in, texts[i], sizes[i]);
	read_text(in, ret->stack, sizeof(ret->stack));
	uint32_t facts = (uint32_t)unpack_max(in, FINDING_FACTS);
	for (uint32_t i = 0; i < facts; i++) {
		struct finding_fact *f = &ret->facts[i];
		read_text(in, f->name, sizeof(f->name));
		f->value = read_double(in);
		in->bad |= !is_name(f->name);
	}
	ret->fact_count = facts;
	if (!is_name(ret->kind) || ret->until_ms < ret->began_ms || ret->sure < 0 || ret->sure > 1)
		in->bad = true;
	if (in->bad)
		ret->fact_count = 0;
}

#include "forward/far.h"

#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/mem.h"
#include "base/text.h"

static const struct far_protocol *const protocols[] = {&far_otlp, &far_pyroscope, &far_smolder};

static const struct far_protocol *find(const char *to, const char **ret_url)
{
	for (size_t i = 0; i < ARRAY_SIZE(protocols); i++) {
		size_t len = strlen(protocols[i]->prefix);
		if (strncmp(to, protocols[i]->prefix, len) != 0 || !fetch_is_url(to + len))
			continue;
		*ret_url = to + len;
		return protocols[i];
	}
	return NULL;
}

bool far_is_url(const char *to)
{
	const char *url;

	/* A name and password would be seen by all who see the command line or the messages. */
	return find(to, &url) && !strpbrk(url, "@?#");
}

const struct far_protocol *far_find(const char *to, char **ret_url)
{
	const char *url;
	const struct far_protocol *p = far_is_url(to) ? find(to, &url) : NULL;

	if (!p)
		return NULL;
	size_t len = strlen(url), path = strlen(p->path);
	while (len && url[len - 1] == '/')
		len--;
	bool is_whole = len > path && memcmp(url + len - path, p->path, path) == 0;
	*ret_url = mem_printf("%.*s%s", (int)len, url, is_whole ? "" : p->path);
	return p;
}

enum far_verdict far_judge_status(const struct fetch_answer *a, struct far_answer *ret)
{
	char words[FAR_WHY - 32];

	if (a->status >= 200 && a->status < 300)
		return FAR_SENT;
	text_clean_to(a->body ? a->body : "", a->body ? strcspn(a->body, "\r\n") : 0, words,
		      sizeof(words));
	snprintf(ret->why, sizeof(ret->why), "status %u%s%s", a->status, *words ? ": " : "", words);
	switch (a->status) {
	case 400:
	case 422:
		return FAR_REFUSED;
	case 413:
		return FAR_TOO_LARGE;
	case 500:
		return FAR_FAULT;
	default: /* among them those that say that the settings are wrong, which can be mended */
		return FAR_LATER;
	}
}

bool far_rows(const struct window *w, uint64_t nth, struct far_rows *ret)
{
	uint32_t at = 0;

	for (uint64_t n = 0; at < w->row_count; n++) {
		struct far_rows r = {.first = at};
		while (at < w->row_count && w->rows[at].series == w->rows[r.first].series)
			r.samples += w->rows[at++].count;
		r.end = at;
		if (n == nth) {
			*ret = r;
			return true;
		}
	}
	return false;
}

static int order_of_span(const struct window_span_row *s, const struct window_row *row)
{
	return s->series != row->series ? (s->series > row->series) - (s->series < row->series)
					: (s->stack > row->stack) - (s->stack < row->stack);
}

void far_parts(const struct window *w, const struct window_row *row, struct far_parts *ret)
{
	uint32_t first = 0, end = w->span_row_count;

	while (first < end) {
		uint32_t middle = first + (end - first) / 2;
		if (order_of_span(&w->span_rows[middle], row) < 0)
			first = middle + 1;
		else
			end = middle;
	}
	while (end < w->span_row_count && order_of_span(&w->span_rows[end], row) == 0)
		end++;
	*ret = (struct far_parts){.window = w, .count = row->count, .value = row->value};
	if (w->span_row_count) {
		ret->next = w->span_rows + first;
		ret->end = w->span_rows + end;
	}
	ret->in_spans = first < end;
}

bool far_next_part(struct far_parts *p, struct far_part *ret)
{
	const struct window_span_row *r = p->next;

	/* Spans have no more than there is, whatever a message says. */
	if (r != p->end && r->count <= p->count && r->value <= p->value) {
		*ret = (struct far_part){&p->window->spans[r->span], r->count, r->value};
		p->next++;
	} else {
		*ret = (struct far_part){NULL, p->count, p->value};
		p->next = p->end;
	}
	p->count -= ret->count;
	p->value -= ret->value;
	return ret->count;
}

void far_profile_id(const struct window *w, uint64_t nth, uint8_t ret[static 16])
{
	struct {
		uint8_t instance[16];
		uint64_t sequence, part, nth;
	} of = {.sequence = w->sequence, .part = w->part, .nth = nth};

	memcpy(of.instance, w->instance, sizeof(of.instance));
	XXH128_canonical_t id;
	XXH128_canonicalFromHash(&id, XXH3_128bits(&of, sizeof(of)));
	memcpy(ret, id.digest, 16);
	ret[6] = (uint8_t)((ret[6] & 0x0f) | 0x80);
	ret[8] = (uint8_t)((ret[8] & 0x3f) | 0x80);
}

const char *far_type_name(const struct window *w)
{
	return strcmp(w->type, "offcpu") == 0 ? "off_cpu" : w->type;
}

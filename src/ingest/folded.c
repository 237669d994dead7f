/*
 * folded: one stack a line, "frame;frame;frame N".
 *
 * The number of lines is what costs here, so a line is compared with the one before it: as far as
 * they agree, the stacks found for that one hold for this one. Most files are sorted, or come from
 * a walk over a tree, and then few frames of a line are looked up at all. Where a line leaves the
 * one before it, it mostly goes on as some earlier line did: a stack's first child has the id
 * behind its own, and to compare its name is less work than to find name, frame and stack by their
 * hashes.
 */
#include <ctype.h>
#include <errno.h>

#include "base/index.h"
#include "base/mem.h"
#include "base/text.h"
#include "ingest/reader.h"

#define FRACTION 1000000u /* counts are read to six decimals */

struct word {
	const char *s;
	size_t len; /* 0: none */
};

struct folded {
	struct reader *r;
	/* The line before: its text, and for each frame where the next begins and the stack. */
	char *prev;
	size_t prev_len, prev_cap;
	struct {
		size_t end;
		uint32_t stack;
	} * at;
	uint32_t depth, at_cap;
	/* By frame: the text that named it, its mark included; and from that text to the frame. */
	struct word *words;
	uint32_t word_cap;
	struct index by_word;
	struct arena bytes;
	uint64_t fraction;          /* carried, in millionths */
	uint64_t lines, two_counts; /* with a stack; of these, with what looks like two counts */
	uint64_t first_line;        /* of these */
};

/* Bytes that a and b have in common from their start on. */
static size_t agree(const char *a, const char *b, size_t len)
{
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		uint64_t x, y;
		memcpy(&x, a + i, 8);
		memcpy(&y, b + i, 8);
		if (x != y)
			return i + (size_t)__builtin_ctzll(x ^ y) / 8;
	}
	while (i < len && a[i] == b[i])
		i++;
	return i;
}

static enum frame_kind take_mark(const char *s, size_t *len)
{
	if (*len < 5 || memcmp(s + *len - 4, "_[", 2) != 0 || s[*len - 1] != ']')
		return FRAME_USER;

	enum frame_kind kind;
	switch (s[*len - 2]) {
	case 'k':
		kind = FRAME_KERNEL;
		break;
	case 'i':
		kind = FRAME_INLINED;
		break;
	case 'j':
		kind = FRAME_JIT;
		break;
	default:
		return FRAME_USER;
	}
	*len -= 4;
	return kind;
}

/* Long words, and second ones of the same frame, are not kept: they take the long way again. */
static void keep_word(struct folded *f, uint32_t hash, const char *s, size_t len, uint32_t id)
{
	if (id >= f->word_cap) {
		uint32_t cap = MAX(id + 1, f->word_cap * 2);
		f->words = mem_resize_array(f->words, cap, sizeof(*f->words));
		memset(f->words + f->word_cap, 0, (cap - f->word_cap) * sizeof(*f->words));
		f->word_cap = cap;
	}
	if (f->words[id].len || len > TEXT_MAX)
		return;
	f->words[id] = (struct word){arena_strndup(&f->bytes, s, len), len};
	index_put(&f->by_word, hash, id);
}

static uint32_t frame(struct folded *f, const char *s, size_t len)
{
	uint32_t hash = index_hash_bytes(s, len);
	uint32_t id;

	INDEX_EACH(&f->by_word, hash, id)
		if (f->words[id].len == len && /* NOLINT: what is in the index is in words */
		    memcmp(f->words[id].s, s, len) == 0)
			return id;

	size_t name_len = len;
	enum frame_kind kind = take_mark(s, &name_len);
	uint32_t name = profile_string(f->r->p, s, name_len);
	id = profile_frame(f->r->p, &(struct frame){.name = name, .kind = kind});
	keep_word(f, hash, s, len, id);
	return id;
}

/* The length of the word of the first child of stack `id`, if s goes on with it; else 0. */
static size_t first_child(const struct folded *f, uint32_t id, const char *s, size_t len)
{
	const struct profile *p = f->r->p;

	if (id + 1 >= p->stack_count || p->stacks[id + 1].parent != id ||
	    p->stacks[id + 1].frame >= f->word_cap)
		return 0;
	const struct word *w = &f->words[p->stacks[id + 1].frame];
	if (w->len == 0 || w->len > len || (w->len < len && s[w->len] != ';'))
		return 0;
	return memcmp(w->s, s, w->len) == 0 ? w->len : 0;
}

/* Makes s the line before; their first `same` bytes are the same already. */
static void remember(struct folded *f, const char *s, size_t len, size_t same)
{
	if (len > f->prev_cap) {
		f->prev_cap = MAX(len, f->prev_cap * 2);
		f->prev = mem_resize_array(f->prev, f->prev_cap, 1);
	}
	memcpy(f->prev + same, s + same, len - same);
	f->prev_len = len;
}

/* The stack that the line s names. Empty frames ("a;;b") are passed over. */
static uint32_t stack(struct folded *f, const char *s, size_t len, uint64_t count)
{
	size_t same = agree(f->prev, s, MIN(len, f->prev_len));
	uint32_t depth = 0, id = 0;
	size_t pos = 0;

	while (depth < f->depth && f->at[depth].end <= same) {
		pos = f->at[depth].end;
		id = f->at[depth++].stack;
	}
	while (pos < len && depth < INGEST_DEPTH_MAX) {
		size_t n = first_child(f, id, s + pos, len - pos);
		if (n) {
			id++;
		} else {
			const char *semi = memchr(s + pos, ';', len - pos);
			n = (semi ? (size_t)(semi - s) : len) - pos;
			if (n)
				id = profile_stack(f->r->p, id, frame(f, s + pos, n));
		}
		pos += n + 1;
		MEM_GROW(f->at, depth, f->at_cap);
		f->at[depth].end = pos;
		f->at[depth++].stack = id;
	}
	if (pos < len) {
		f->r->info.truncated += count;
		id = reader_truncated(f->r, id);
	}
	f->depth = depth;
	remember(f, s, len, same);
	return id;
}

/*
 * Cuts "  12.5" off the end of s[0, *len): the count in whole and in millionths. False if the line
 * does not end in a number; *ret is UINT64_MAX when the number is too large.
 */
static bool take_count(const char *s, size_t *len, uint64_t *ret, uint64_t *ret_fraction)
{
	size_t start = *len, dot = *len;

	while (start &&
	       (isdigit((unsigned char)s[start - 1]) || (s[start - 1] == '.' && dot == *len))) {
		start--;
		if (s[start] == '.')
			dot = start;
	}
	if (start == *len || start == dot || start == 0 ||
	    (s[start - 1] != ' ' && s[start - 1] != '\t'))
		return false;

	uint64_t n = 0, fraction = 0, unit = FRACTION;
	bool fits = true;
	for (size_t i = start; i < dot; i++)
		fits = fits && !__builtin_mul_overflow(n, 10u, &n) &&
		       !__builtin_add_overflow(n, (uint64_t)(s[i] - '0'), &n);
	for (size_t i = dot + 1; i < *len; i++)
		fraction += (uint64_t)(s[i] - '0') * (unit /= 10);
	while (start && (s[start - 1] == ' ' || s[start - 1] == '\t'))
		start--;
	*len = start;
	*ret = fits ? n : UINT64_MAX;
	*ret_fraction = fraction;
	return true;
}

static int read_line(struct folded *f, const char *s, size_t len)
{
	uint64_t count, fraction, unused;

	while (len && isspace((unsigned char)s[len - 1]))
		len--;
	if (len == 0 || *s == '#')
		return 0;

	size_t whole = len;
	if (!take_count(s, &len, &count, &fraction))
		return reader_fail(f->r, -EINVAL, "there is no count at the end of '%s'",
				   READER_QUOTE(s, whole));
	if (len == 0)
		return reader_fail(f->r, -EINVAL, "there is no stack before the count");

	size_t name_len = len;
	if (f->lines++ == 0)
		f->first_line = f->r->line;
	f->two_counts +=
		isdigit((unsigned char)s[len - 1]) && take_count(s, &name_len, &unused, &unused);

	if (count > INT64_MAX)
		return reader_fail(f->r, -EFBIG, "the count does not fit into 63 bits");
	f->fraction += fraction;
	count += f->fraction / FRACTION;
	f->fraction %= FRACTION;
	if (count == 0)
		return 0;
	return reader_add(f->r, 0, stack(f, s, len, count), count, count);
}

int folded_read(struct reader *r)
{
	struct folded f = {.r = r};
	const char *line;
	size_t len;
	int n;

	while ((n = reader_line(r, &line, &len)) > 0) {
		n = read_line(&f, line, len);
		if (n)
			break;
	}
	free(f.prev);
	free(f.at);
	free(f.words);
	index_done(&f.by_word);
	arena_done(&f.bytes);
	if (n < 0)
		return n;
	if (f.lines == 0)
		return reader_fail_at(r, -EINVAL, "", "it holds no stacks");
	if (f.two_counts == f.lines) {
		r->line = f.first_line;
		return reader_fail(r, -EINVAL,
				   "every line has two counts: this is a difference of two "
				   "profiles, which cannot be one flame graph");
	}
	return 0;
}

/*
 * entries: encodes a profile's dictionary (strings, modules, frames, stacks and series, but no
 * samples) as bytes.
 *
 * Ids are dense and ascending, so a dictionary is sent and stored as a log: each batch has the
 * entries added since the previous one, and reading all batches into an empty profile gives the
 * same ids. Window messages and the store contain the same bytes. A batch is refused if it does not
 * continue where the previous one ended, repeats an entry, or has a stack deeper than
 * PROFILE_DEPTH_MAX.
 *
 * Format, with all integers packed (base/pack.h); the first ids tell where a batch continues:
 *
 *	version (1)
 *	first string, count; then each: bytes
 *	first module, count; then each: name, path, build id (ids of strings), start, end, offset
 *	first frame, count; then each: name, module, kind (plus 32 if `start` is there), addr,
 *		source, line, start
 *	first stack, count; then each: parent as the distance back from its own id, frame
 *	first series, count; then each: number of labels, then each: key, value
 */
#pragma once

#include "base/pack.h"
#include "profile/profile.h"

#define ENTRIES_STRING_MAX  (64u << 10)
#define ENTRIES_STRINGS_MAX (1u << 22)
#define ENTRIES_STACKS_MAX  (1u << 24)
#define ENTRIES_SERIES_MAX  (1u << 20)
#define ENTRIES_LABELS_MAX  64

struct entries_mark { /* how far a dictionary was written; zero-initialised: not at all */
	uint32_t strings, modules, frames, stacks, series;
};

/* Whether the profile has entries after *m. */
bool entries_pending(const struct profile *p, const struct entries_mark *m);

/*
 * Appends a batch of the entries after *m, of about `max` bytes at most, and advances *m. Entries
 * refer only to earlier ones, so a dictionary can be sent in several batches. Returns false if
 * there are more entries.
 */
bool entries_write(const struct profile *p, struct entries_mark *m, size_t max, struct pack *out);

/* Receives the entries of a batch, in order of their ids; false refuses the batch. */
struct entries_sink {
	bool (*string)(void *ctx, uint32_t id, const char *s, size_t len);
	bool (*module)(void *ctx, uint32_t id, const struct module *m);
	bool (*frame)(void *ctx, uint32_t id, const struct frame *f);
	bool (*stack)(void *ctx, uint32_t id, const struct stack *s);
	bool (*series)(void *ctx, uint32_t id, const struct label *labels, size_t count);
	void *ctx;
};

/*
 * Reads a batch that continues at *have, and advances that. 0; -EBADMSG: malformed, or refused by
 * the sink; -ESTALE: it does not start at *have (the sink got nothing); -EFBIG: over a cap.
 */
int entries_decode(struct unpack *in, struct entries_mark *have, const struct entries_sink *to);

/*
 * Adds a batch to a profile. 0; -EBADMSG: malformed; -ESTALE: it does not start where `p` ends
 * (nothing is added); -EFBIG: over a cap.
 */
int entries_read(struct profile *p, struct unpack *in);

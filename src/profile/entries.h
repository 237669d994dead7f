/*
 * entries: a profile's dictionary (strings, modules, frames, stacks, series; no samples) as bytes.
 *
 * Ids are dense and given in order, so a dictionary is sent and stored as a log: each batch holds
 * what was added since the one before, and reading all batches into an empty profile gives the same
 * ids. The same bytes travel in the window message and lie in the store. A batch that does not
 * follow from what is there, or says a thing twice, is refused.
 *
 * A stack that is deeper than PROFILE_DEPTH_MAX is past a cap: its batch is refused.
 *
 * Format, all integers packed (base/pack.h); first ids tell where a batch belongs:
 *
 *	version (1)
 *	first string, count; then each: bytes
 *	first module, count; then each: name, path, build id (ids of strings), start, end, offset
 *	first frame, count; then each: name, module, kind, addr, source, line
 *	first stack, count; then each: parent as the distance back from its own id, frame
 *	first series, count; then each: labels, then each: key, value
 */
#pragma once

#include "base/pack.h"
#include "profile/profile.h"

#define ENTRIES_STRING_MAX  (64u << 10)
#define ENTRIES_STRINGS_MAX (1u << 22)
#define ENTRIES_STACKS_MAX  (1u << 24)
#define ENTRIES_SERIES_MAX  (1u << 20)
#define ENTRIES_LABELS_MAX  64

struct entries_mark { /* how far a dictionary was written; zero-initialised: nothing was */
	uint32_t strings, modules, frames, stacks, series;
};

/* Whether the profile has entries that are not written yet. */
bool entries_pending(const struct profile *p, const struct entries_mark *m);

/*
 * Appends what was added since *m, at most about `max` bytes of it, and moves *m on. What is
 * written needs only what was written before it: so a dictionary can go in several batches.
 * Returns false when there is more.
 */
bool entries_write(const struct profile *p, struct entries_mark *m, size_t max, struct pack *out);

/* Where the entries of a batch go, in order of their ids: false refuses the batch. */
struct entries_sink {
	bool (*string)(void *ctx, uint32_t id, const char *s, size_t len);
	bool (*module)(void *ctx, uint32_t id, const struct module *m);
	bool (*frame)(void *ctx, uint32_t id, const struct frame *f);
	bool (*stack)(void *ctx, uint32_t id, const struct stack *s);
	bool (*series)(void *ctx, uint32_t id, const struct label *labels, size_t count);
	void *ctx;
};

/*
 * Reads a batch that follows *have, which moves on. Ids in an entry are of what came before it. 0;
 * -EBADMSG when it is malformed or the sink refuses it, -ESTALE when it does not begin where *have
 * ends (nothing was given to the sink then), -EFBIG past a cap.
 */
int entries_decode(struct unpack *in, struct entries_mark *have, const struct entries_sink *to);

/*
 * Adds a batch. 0; -EBADMSG when it is malformed, -ESTALE when it does not begin where `p` ends
 * (nothing is added then), -EFBIG past a cap.
 */
int entries_read(struct profile *p, struct unpack *in);

/*
 * growth: what a profile that only grows, such as all memory that a program ever allocated, has
 * grown by since it was read before.
 *
 * Of what was read last, a hash of each stack with its labels is kept, and how much it was worth.
 * Where the sum, or most of the stacks, are less than before, the program was started anew: all
 * that it has is new, then. A single stack that is less than before (a count that was rounded)
 * has grown by nothing.
 */
#pragma once

#include <stddef.h>

#include "ingest/pushed.h"

#define GROWTH_SAMPLES_MAX (1u << 17)
#define GROWTH_TYPES_MAX   8u

struct growth; /* what is known of one profile; each has several sample types */

struct growth *growth_new(void);
void growth_free(struct growth *g);
size_t growth_bytes(const struct growth *g);

/* Whether a sample type is a sum since the start of a program, in Go's profiles. */
bool growth_is_sum(const char *sample_type);

/*
 * Sets `before` of each profile in `p` that is such a sum. Those that were not read before are
 * taken out of `p`: there is nothing to compare them with. *ret is what is to be known next time;
 * the caller takes it in place of `g` once `p` is stored. *ret_restarted: as above. False, refused:
 * there are more than GROWTH_SAMPLES_MAX samples in one.
 */
bool growth_since(const struct growth *g, struct pushed *p, struct growth **ret,
		  bool *ret_restarted);

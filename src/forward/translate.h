/*
 * translate: the rows and spans of a window in the ids of another dictionary.
 */
#pragma once

#include "profile/remap.h"
#include "profile/window.h"

/*
 * Copies a window whose ids are those of `from`, with the entries that it needs, into `to`; `m`
 * maps from one to the other, as long as both live. Free *ret with window_done(). -EFBIG: `to` is
 * full.
 */
int translate_window(const struct window *w, const struct profile *from, struct remap *m,
		     struct profile *to, struct window *ret);

/* Its spans alone, likewise, beside those that `to_window` has: in the order of a window. */
int translate_spans(const struct window *w, const struct profile *from, struct remap *m,
		    struct profile *to, struct window *to_window);

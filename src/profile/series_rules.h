/*
 * series_rules: what users want done to the labels of series before they are counted as such:
 * labels that all get, then relabelling rules (relabel.h), then conditions that say which are kept.
 * Labels whose name begins with __ are there for the rules alone.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "profile/matcher.h"
#include "profile/relabel.h"

struct series_rules;

/* `relabel` is borrowed; NULL: none. */
struct series_rules *series_rules_new(struct relabel *relabel);
void series_rules_free(struct series_rules *r);

/* All series get this label, whatever they had under that name. Copied. */
void series_rules_label(struct series_rules *r, const char *name, const char *value);

/*
 * Series that satisfy all of the matchers are kept, or dropped; a series is kept if nothing drops
 * it and, where there is anything to be kept, one of those has it. `type`: only series of that type
 * of profile are meant; NULL: of all. The matchers are borrowed.
 */
void series_rules_choose(struct series_rules *r, bool keep, const char *type,
			 const struct matcher *list, size_t count);

/* Whether it is kept, with its labels changed. */
bool series_rules_apply(struct series_rules *r, const char *type, struct relabel_labels *l);

/* Whether some series may be dropped; whether that, or their labels, may depend on this label. */
bool series_rules_may_drop(const struct series_rules *r);
bool series_rules_reads(const struct series_rules *r, const char *name);

/*
 * series_options: --label, --keep, --drop and relabel_configs, as rules for series.
 */
#pragma once

#include "cli/settings.h"
#include "profile/series_rules.h"

struct series_options {             /* embedded */
	struct series_rules *rules; /* NULL: nothing was asked for */
	struct selector **selectors;
	size_t selector_count;
};

/* The settings have been checked, and outlive it. */
void series_options_init(struct series_options *o, const struct settings *s);
void series_options_done(struct series_options *o);

/* "NAME=VALUE" with a name that labels can have; otherwise false. */
bool series_options_is_label(const char *text);
bool series_options_is_selector(const char *text);

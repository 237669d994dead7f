/*
 * otlp_names: what labels are called by OpenTelemetry's semantic conventions, and the other way
 * round.
 */
#pragma once

#include <stddef.h>

/* The label of what a convention calls so; NULL: it goes by its own name. */
const char *otlp_label(const char *attribute, size_t len);

/* The other way: the label's own name, if there is no convention for it. */
const char *otlp_attribute(const char *label);

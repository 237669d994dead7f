/*
 * pprof: a profile as `go tool pprof` reads it, in gzip.
 *
 * Sample types are samples/count and the profile's own type and unit, or the first alone when that
 * is all the profile has. Every label of a series becomes a string label of its samples.
 */
#pragma once

#include "render/render.h"

int render_pprof(const struct profile *p, const struct render_options *o, FILE *out);

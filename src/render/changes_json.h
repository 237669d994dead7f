/*
 * changes_json: what changed (query/comparison.h), as JSON: the answer of /api/v1/changes, and what
 * `smolder changes` prints from, whoever it asked.
 */
#pragma once

#include <stdio.h>

#include "query/comparison.h"

/* One object, and the end of a line; docs/api.md says what is in it. */
void changes_json(const struct comparisons *c, FILE *out);

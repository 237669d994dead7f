/*
 * profile_file: profiles read from files, in any format that ingest/ knows.
 */
#pragma once

#include <stdbool.h>

#include "ingest/ingest.h"
#include "profile/profile.h"

/* Whether an argument names an existing file rather than a selector; "-", standard input, does. */
bool profile_file_exists(const char *arg);

/* The name to show in a title; NULL for standard input. */
const char *profile_file_name(const char *path);

/*
 * Adds the file's samples to `into`: 0, or 1 after reporting why not. What was skipped is reported
 * as well. `o` may be NULL.
 */
int profile_file_read(const char *path, const struct ingest_options *o, struct profile *into);

/*
 * changes_ask: asks what changed, of a server or of the store on this machine, and prints it for
 * people. Whoever answers, it is the same JSON (docs/api.md, /api/v1/changes).
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/query_client.h"
#include "query/comparison.h"

/* 0 with an object for json_decref(), or an exit code after reporting why not. */
int changes_ask(struct query_client *c, const struct comparison_ask *ask, json_t **ret);

/* What changed by one comparison, each line after `indent`; at most `max` functions. */
void changes_print(struct query_client *c, const json_t *comparison, const char *indent, size_t max,
		   FILE *out);

/* A path of functions, "main > work > read": the last `max` of them, and the end of the line. */
void changes_print_path(const json_t *path, size_t max, FILE *out);

/* Programs that got a new version; nothing if there are none. */
void changes_print_versions(struct query_client *c, const json_t *answer, const char *indent,
			    FILE *out);

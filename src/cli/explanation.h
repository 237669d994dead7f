/*
 * explanation: what is known of a program's last minutes, gathered into one JSON object from which
 * a page of text is printed. Nothing in it is guessed: it is made from stored profiles alone, and
 * ends with what they do not tell.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/query_client.h"

/*
 * 0 with an object for json_decref(), or an exit code after reporting why not. The selector is of
 * type cpu, as text; NULL: the whole machine.
 */
int explanation_gather(struct query_client *c, const char *selector, struct timerange range,
		       json_t **ret);

/* The page. */
void explanation_print(struct query_client *c, const json_t *e, FILE *out);

/*
 * explanation: what is known of a program's last minutes, gathered into one JSON object from which
 * a page of text is printed. Nothing in it is guessed: it is made from stored profiles and, of a
 * program that runs now, from a count of its system calls (explanation_calls.h), and ends with what
 * they do not tell.
 */
#pragma once

#include <jansson.h>
#include <stdio.h>

#include "cli/query_client.h"

struct explanation_ask {
	const char *selector; /* of type cpu, as text */
	struct timerange range;
	const char *no_calls; /* why its system calls are not to be counted; NULL: they are */
};

/* 0 with an object for json_decref(), or an exit code after reporting why not. */
int explanation_gather(struct query_client *c, const struct explanation_ask *ask, json_t **ret);

/* The page. */
void explanation_print(struct query_client *c, const json_t *e, FILE *out);

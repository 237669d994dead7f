/*
 * explanation_summary: some sentences that say the most important of an explanation.
 */
#pragma once

#include <jansson.h>

/* Of an explanation's object (explanation.h), which has all else. Caller frees; "" if there is
 * nothing to say. */
char *explanation_summary(const json_t *e);

/*
 * finding_text: the words and numbers of findings.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "pipeline/finding_rules.h"

#define FINDING_NUMBER 24

/* "1,210,000": as many digits as a person would say. */
const char *finding_number(double value, char ret[static FINDING_NUMBER]);

/* "98 % of a CPU", "2.3 CPUs". */
const char *finding_cpu(double share, char ret[static FINDING_NUMBER]);

/* "worker (pid 4211)"; of several, "ps, started again and again by sh (pid 77),". */
const char *finding_who(const struct finding_case *c, char *ret, size_t size);

/* The stack as folded text; `leaf` more at its end, unless it is NULL. */
void finding_stack(const struct profile *dict, uint32_t stack, const char *leaf,
		   struct finding *ret);

__attribute__((format(printf, 2, 3))) void finding_headline(struct finding *f, const char *fmt,
							    ...);
__attribute__((format(printf, 2, 3))) void finding_next(struct finding *f, const char *fmt, ...);

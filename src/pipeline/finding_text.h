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

/* "worker (pid 4211)"; of several, "ps, which sh (pid 77) runs again and again,". */
const char *finding_who(const struct finding_case *c, char *ret, size_t size);

/* The stack as folded text; `leaf` more at its end, unless it is NULL. */
void finding_stack(const struct profile *dict, uint32_t stack, const char *leaf,
		   struct finding *ret);

/*
 * The function whose code is to be looked at: the innermost one that is neither the call nor of the
 * C library. "it" if there is none, as where a program has no names.
 */
const char *finding_caller(const struct profile *dict, uint32_t stack, const char *call);

__attribute__((format(printf, 2, 3))) void finding_headline(struct finding *f, const char *fmt,
							    ...);
/* What it usually means, said of this one; without it, what its rule says. */
__attribute__((format(printf, 2, 3))) void finding_means(struct finding *f, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void finding_next(struct finding *f, const char *fmt, ...);

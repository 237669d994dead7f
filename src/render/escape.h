/*
 * escape: writes text of a profile so that the output format takes it as text and nothing else.
 *
 * The profile has already made it valid UTF-8 without control characters (base/text.h).
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* A JSON string with its quotes; also safe inside <script>, CDATA and XML: no <, > or & in it. */
void escape_json(FILE *out, const char *s, size_t len);

/* Text or an attribute value (either quote) of XML and HTML. */
void escape_xml(FILE *out, const char *s, size_t len);

/* Part of a URL: everything but letters, digits and -._~ is percent-encoded. */
void escape_url(FILE *out, const char *s);

/* A decimal number, faster than printf: to a file; or to memory, without a NUL (its length). */
#define ESCAPE_DIGITS 20 /* of the largest */
void escape_number(FILE *out, uint64_t n);
size_t escape_digits(char ret[static ESCAPE_DIGITS], uint64_t n);

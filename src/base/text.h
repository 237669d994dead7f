/*
 * text: names from outside, made fit to show.
 *
 * Process names, symbols and file names are whatever a program chose. text_clean() turns any bytes
 * into text that every renderer may carry: valid UTF-8, no control or bidirectional-override
 * characters (each becomes U+FFFD), at most TEXT_MAX bytes (longer ones are cut, with "…").
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 1024

/* Writes at most TEXT_MAX bytes and a NUL to `ret`; returns the length. */
size_t text_clean(const char *s, size_t len, char ret[static TEXT_MAX + 1]);

/* Whether text_clean() would return the string unchanged; the usual case, and quick to see. */
int text_is_plain(const char *s, size_t len);

/* Parses hex digits: where they end (`s` if there are none); NULL past 64 bits. */
const char *text_parse_hex(const char *s, const char *end, uint64_t *ret);

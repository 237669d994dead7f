/*
 * text: makes names from outside safe to show.
 *
 * Process names, symbols and file names can be anything. text_clean() turns any bytes into text
 * that is safe in every output format: valid UTF-8, without control or bidirectional-override
 * characters (each becomes U+FFFD), at most TEXT_MAX bytes (longer text is cut, and ends in "…").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_MAX 1024

/* Writes at most TEXT_MAX bytes and a NUL to `ret`; returns the length. */
size_t text_clean(const char *s, size_t len, char ret[static TEXT_MAX + 1]);

/* The same for less room: cut between two characters, to less than `size` bytes. */
void text_clean_to(const char *s, size_t len, char *ret, size_t size);

/* Whether it is printable ASCII that text_clean() would not change: a quick test. */
int text_is_plain(const char *s, size_t len);

/* Writes bytes as lowercase hex digits, two each, and a NUL; returns `ret`. */
char *text_hex_bytes(const uint8_t *bytes, size_t len, char *ret);

/* The bytes that a string of 2 * `len` hex digits stands for; false: it is something else. */
bool text_parse_hex_bytes(const char *s, size_t s_len, uint8_t *ret, size_t len);

/* Parses hex digits: where they end (`s` if there are none); NULL past 64 bits. */
const char *text_parse_hex(const char *s, const char *end, uint64_t *ret);

/*
 * token: a secret that requests must carry, in a header or as a cookie.
 *
 * Comparing takes the same time whatever is wrong: both sides are hashed, and all bytes of the
 * hashes compared. The cookie is not the token but a time and its HMAC with the token, so that
 * whoever sees it has neither the token nor access forever. It survives a restart of the server,
 * and becomes invalid when the token changes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TOKEN_LEAST  16 /* characters */
#define TOKEN_MOST   512
#define TOKEN_COOKIE 96
#define TOKEN_LASTS  (30u * 86400) /* seconds that a cookie is valid */

struct token;

/* NULL unless it is TOKEN_LEAST to TOKEN_MOST characters of ASCII without spaces. */
struct token *token_new(const char *text);
void token_free(struct token *t);

bool token_is(const struct token *t, const char *text);         /* text may be NULL */
bool token_in_bearer(const struct token *t, const char *value); /* value of Authorization */

void token_cookie(const struct token *t, uint64_t now_s, char ret[static TOKEN_COOKIE]);
bool token_in_cookie(const struct token *t, const char *value, uint64_t now_s);

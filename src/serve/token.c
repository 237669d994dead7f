#include "serve/token.h"

#include <inttypes.h>
#include <nettle/memops.h>

#include "base/mem.h"
#include "base/sha256.h"
#include "base/text.h"

struct token {
	uint8_t hash[SHA256_LEN];
	uint8_t key[SHA256_LEN]; /* of cookies */
};

struct token *token_new(const char *text)
{
	static const char purpose[] = "smolder cookie 1";
	size_t len = strlen(text);

	if (len < TOKEN_LEAST || len > TOKEN_MOST)
		return NULL;
	for (size_t i = 0; i < len; i++)
		if (text[i] <= ' ' || text[i] > '~')
			return NULL;
	struct token *t = mem_alloc(sizeof(*t));
	sha256(text, len, t->hash);
	sha256_hmac(text, len, purpose, sizeof(purpose) - 1, t->key);
	return t;
}

void token_free(struct token *t)
{
	if (t)
		explicit_bzero(t, sizeof(*t));
	free(t);
}

bool token_is(const struct token *t, const char *text)
{
	uint8_t hash[SHA256_LEN];

	if (!text || strlen(text) > TOKEN_MOST)
		return false;
	sha256(text, strlen(text), hash);
	return memeql_sec(hash, t->hash, sizeof(hash));
}

bool token_in_bearer(const struct token *t, const char *value)
{
	static const char scheme[] = "Bearer ";

	if (!value || strncasecmp(value, scheme, sizeof(scheme) - 1) != 0)
		return false;
	value += sizeof(scheme) - 1;
	return token_is(t, value + strspn(value, " "));
}

static void cookie_until(const struct token *t, uint64_t until_s, char ret[static TOKEN_COOKIE])
{
	uint8_t mac[SHA256_LEN];
	int n = snprintf(ret, TOKEN_COOKIE, "%" PRIu64, until_s);

	sha256_hmac(t->key, sizeof(t->key), ret, (size_t)n, mac);
	ret[n++] = '.';
	text_hex_bytes(mac, SHA256_LEN, ret + n);
}

void token_cookie(const struct token *t, uint64_t now_s, char ret[static TOKEN_COOKIE])
{
	cookie_until(t, now_s + TOKEN_LASTS, ret);
}

bool token_in_cookie(const struct token *t, const char *value, uint64_t now_s)
{
	char right[TOKEN_COOKIE];
	uint8_t a[SHA256_LEN], b[SHA256_LEN];

	if (!value || strlen(value) >= TOKEN_COOKIE || *value < '0' || *value > '9')
		return false;
	uint64_t until = strtoull(value, NULL, 10);
	if (until < now_s || until > now_s + TOKEN_LASTS)
		return false;
	cookie_until(t, until, right);
	sha256(value, strlen(value), a);
	sha256(right, strlen(right), b);
	return memeql_sec(a, b, sizeof(a));
}

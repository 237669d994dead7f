#include "unit/unit.h"

#include "base/mem.h"
#include "base/sha256.h"
#include "serve/token.h"

#define NOW 1794729600ull

static void check_hex(const uint8_t hash[static SHA256_LEN], const char *want)
{
	char hex[2 * SHA256_LEN + 1];

	for (int i = 0; i < SHA256_LEN; i++)
		snprintf(hex + 2 * i, 3, "%02x", hash[i]);
	assert_string_equal(hex, want);
}

/* The examples of FIPS 180-4, and the lengths around a block, by sha256sum. */
static void hashes_are_the_standards(void **state)
{
	uint8_t hash[SHA256_LEN];
	char many[1000];

	(void)state;
	sha256("", 0, hash);
	check_hex(hash, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
	sha256("abc", 3, hash);
	check_hex(hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
	sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56, hash);
	check_hex(hash, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
	memset(many, 'a', sizeof(many));
	sha256(many, 55, hash);
	check_hex(hash, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318");
	sha256(many, 64, hash);
	check_hex(hash, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb");
	sha256(many, 1000, hash);
	check_hex(hash, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3");
}

/* Of RFC 4231, cases 2 and 6: a short key, and one longer than a block. */
static void hmac_is_the_standards(void **state)
{
	uint8_t mac[SHA256_LEN], key[131];

	(void)state;
	sha256_hmac("Jefe", 4, "what do ya want for nothing?", 28, mac);
	check_hex(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
	memset(key, 0xaa, sizeof(key));
	sha256_hmac(key, sizeof(key), "Test Using Larger Than Block-Size Key - Hash Key First", 54,
		    mac);
	check_hex(mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void a_token_is_itself_alone(void **state)
{
	struct token *t = token_new("correct-horse-battery");

	(void)state;
	assert_non_null(t);
	assert_true(token_is(t, "correct-horse-battery"));
	assert_false(token_is(t, "correct-horse-batterz"));
	assert_false(token_is(t, "correct-horse-batter"));
	assert_false(token_is(t, "correct-horse-battery "));
	assert_false(token_is(t, ""));
	assert_false(token_is(t, NULL));
	assert_true(token_in_bearer(t, "Bearer correct-horse-battery"));
	assert_true(token_in_bearer(t, "bearer   correct-horse-battery"));
	assert_false(token_in_bearer(t, "Basic correct-horse-battery"));
	assert_false(token_in_bearer(t, "Bearer"));
	assert_false(token_in_bearer(t, "Bearer "));
	assert_false(token_in_bearer(t, "correct-horse-battery"));
	assert_false(token_in_bearer(t, NULL));
	token_free(t);
}

static void weak_tokens_are_none(void **state)
{
	char long_one[TOKEN_MOST + 2];

	(void)state;
	memset(long_one, 'x', sizeof(long_one));
	long_one[sizeof(long_one) - 1] = '\0';
	assert_null(token_new(""));
	assert_null(token_new("fifteen-letters"));
	assert_null(token_new("a space is not fine here"));
	assert_null(token_new("neither-is-\xc3\xa9-or-the-like"));
	assert_null(token_new(long_one));
	token_free(NULL);
}

static void a_cookie_is_good_for_its_time(void **state)
{
	struct token *t = token_new("correct-horse-battery"),
		     *other = token_new("another-token-of-ours");
	struct token *again = token_new("correct-horse-battery");
	char cookie[TOKEN_COOKIE], changed[TOKEN_COOKIE];

	(void)state;
	token_cookie(t, NOW, cookie);
	assert_null(strstr(cookie, "correct"));
	assert_true(token_in_cookie(t, cookie, NOW));
	assert_true(token_in_cookie(t, cookie, NOW + TOKEN_LASTS));
	assert_true(token_in_cookie(again, cookie, NOW));
	assert_false(token_in_cookie(t, cookie, NOW + TOKEN_LASTS + 1));
	assert_false(token_in_cookie(other, cookie, NOW));
	for (size_t i = 0; cookie[i]; i++) {
		memcpy(changed, cookie, sizeof(changed));
		changed[i] ^= 1;
		assert_false(token_in_cookie(t, changed, NOW));
	}
	snprintf(changed, sizeof(changed), "%llu%s", NOW + 10, strchr(cookie, '.'));
	assert_false(token_in_cookie(t, changed, NOW));
	assert_false(token_in_cookie(t, "", NOW));
	assert_false(token_in_cookie(t, ".", NOW));
	assert_false(token_in_cookie(t, NULL, NOW));
	token_free(t);
	token_free(again);
	token_free(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hashes_are_the_standards),
		cmocka_unit_test(hmac_is_the_standards),
		cmocka_unit_test(a_token_is_itself_alone),
		cmocka_unit_test(weak_tokens_are_none),
		cmocka_unit_test(a_cookie_is_good_for_its_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#include "base/sha256.h"

#include <nettle/hmac.h>
#include <string.h>

_Static_assert(SHA256_LEN == SHA256_DIGEST_SIZE, "");

void sha256(const void *bytes, size_t len, uint8_t ret[static SHA256_LEN])
{
	struct sha256_ctx c;

	sha256_init(&c);
	sha256_update(&c, len, bytes);
	sha256_digest(&c, SHA256_LEN, ret);
	explicit_bzero(&c, sizeof(c));
}

void sha256_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
		 uint8_t ret[static SHA256_LEN])
{
	struct hmac_sha256_ctx c;

	hmac_sha256_set_key(&c, key_len, key);
	hmac_sha256_update(&c, len, bytes);
	hmac_sha256_digest(&c, SHA256_LEN, ret);
	explicit_bzero(&c, sizeof(c));
}

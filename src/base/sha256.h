/*
 * sha256: FIPS 180-4, and HMAC with it (RFC 2104), by nettle; nothing of a secret stays behind.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN 32

void sha256(const void *bytes, size_t len, uint8_t ret[static SHA256_LEN]);
void sha256_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
		 uint8_t ret[static SHA256_LEN]);

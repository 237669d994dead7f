/*
 * sha256: SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104), by nettle. Wipes its state after use.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define SHA256_LEN 32

void sha256(const void *bytes, size_t len, uint8_t ret[static SHA256_LEN]);
void sha256_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
		 uint8_t ret[static SHA256_LEN]);

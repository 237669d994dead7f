#include "base/sha256.h"

#include <string.h>

#define BLOCK 64

struct sha256 {
	uint32_t state[8];
	uint8_t block[BLOCK];
	size_t used;
	uint64_t len;
};

static const uint32_t k[64] = {
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4,
	0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe,
	0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f,
	0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7,
	0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc,
	0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
	0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116,
	0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
	0xc67178f2};

static uint32_t rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static void mix(struct sha256 *s)
{
	uint32_t w[64], v[8];

	for (int i = 0; i < 16; i++)
		w[i] = (uint32_t)s->block[4 * i] << 24 | (uint32_t)s->block[4 * i + 1] << 16 |
		       (uint32_t)s->block[4 * i + 2] << 8 | s->block[4 * i + 3];
	for (int i = 16; i < 64; i++) {
		uint32_t a = w[i - 15], b = w[i - 2];
		w[i] = w[i - 16] + (rotate(a, 7) ^ rotate(a, 18) ^ a >> 3) + w[i - 7] +
		       (rotate(b, 17) ^ rotate(b, 19) ^ b >> 10);
	}
	memcpy(v, s->state, sizeof(v));
	for (int i = 0; i < 64; i++) {
		uint32_t a = v[0], e = v[4];
		uint32_t t1 = v[7] + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) +
			      ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
		uint32_t t2 = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) +
			      ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
		memmove(v + 1, v, 7 * sizeof(*v));
		v[4] += t1;
		v[0] = t1 + t2;
	}
	for (int i = 0; i < 8; i++)
		s->state[i] += v[i];
}

static void begin(struct sha256 *s)
{
	static const uint32_t first[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
					  0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

	memcpy(s->state, first, sizeof(first));
	s->used = 0;
	s->len = 0;
}

static void add(struct sha256 *s, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	s->len += len;
	for (size_t i = 0; i < len; i++) {
		s->block[s->used++] = at[i];
		if (s->used == BLOCK) {
			mix(s);
			s->used = 0;
		}
	}
}

static void end(struct sha256 *s, uint8_t ret[static SHA256_LEN])
{
	uint64_t bits = s->len * 8;
	uint8_t length[8];

	add(s, "\x80", 1);
	while (s->used != BLOCK - sizeof(length))
		add(s, "", 1);
	for (int i = 0; i < 8; i++)
		length[i] = (uint8_t)(bits >> (56 - 8 * i));
	add(s, length, sizeof(length));
	for (int i = 0; i < SHA256_LEN; i++)
		ret[i] = (uint8_t)(s->state[i / 4] >> (24 - 8 * (i % 4)));
	explicit_bzero(s, sizeof(*s));
}

void sha256(const void *bytes, size_t len, uint8_t ret[static SHA256_LEN])
{
	struct sha256 s;

	begin(&s);
	add(&s, bytes, len);
	end(&s, ret);
}

void sha256_hmac(const void *key, size_t key_len, const void *bytes, size_t len,
		 uint8_t ret[static SHA256_LEN])
{
	uint8_t inner[BLOCK] = {}, outer[BLOCK];
	struct sha256 s;

	if (key_len > BLOCK)
		sha256(key, key_len, inner);
	else if (key_len)
		memcpy(inner, key, key_len);
	for (int i = 0; i < BLOCK; i++) {
		outer[i] = inner[i] ^ 0x5c;
		inner[i] ^= 0x36;
	}
	begin(&s);
	add(&s, inner, sizeof(inner));
	add(&s, bytes, len);
	end(&s, ret);
	begin(&s);
	add(&s, outer, sizeof(outer));
	add(&s, ret, SHA256_LEN);
	end(&s, ret);
	explicit_bzero(inner, sizeof(inner));
	explicit_bzero(outer, sizeof(outer));
}

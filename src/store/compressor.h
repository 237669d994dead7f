/*
 * compressor: zstd frames, with their size and a checksum in them.
 *
 * It keeps zstd's memory, and room for what is unpacked, from frame to frame: making those costs
 * more than most frames do.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

struct compressor {     /* embedded; zero-initialised is empty */
	uint8_t *bytes; /* what was unpacked last */
	size_t cap;
	void *packer, *unpacker; /* private */
};

void compressor_pack(struct compressor *z, const void *bytes, size_t len, int level,
		     struct pack *out);

/* What a frame says it holds, by its first 18 bytes; SIZE_MAX when it does not. */
size_t compressor_size(const void *frame, size_t len);

/* Into z->bytes: 0, or -EBADMSG when it is no whole frame, or of more than `max` bytes. */
int compressor_unpack(struct compressor *z, const void *frame, size_t len, size_t max,
		      size_t *ret_len);
void compressor_done(struct compressor *z);

/*
 * compressor: zstd frames that contain their size and a checksum.
 *
 * It keeps zstd's state and the output buffer between frames: setting those up costs more than most
 * frames do.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

struct compressor {     /* embedded; zero-initialised is empty */
	uint8_t *bytes; /* the frame unpacked last */
	size_t cap;
	void *packer, *unpacker; /* private */
};

void compressor_pack(struct compressor *z, const void *bytes, size_t len, int level,
		     struct pack *out);

/* The uncompressed size, from a frame's first 18 bytes; SIZE_MAX if it is not given. */
size_t compressor_size(const void *frame, size_t len);

/* Into z->bytes: 0, or -EBADMSG if it is not a complete frame, or has more than `max` bytes. */
int compressor_unpack(struct compressor *z, const void *frame, size_t len, size_t max,
		      size_t *ret_len);
void compressor_done(struct compressor *z);

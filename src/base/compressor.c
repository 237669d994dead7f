#include "base/compressor.h"

#include <errno.h>
#include <zstd.h>

#include "base/mem.h"

static void give_up(const char *why)
{
	fprintf(stderr, "smolder: zstd: %s\n", why);
	abort(); /* as mem.h does: with room enough, only memory can be lacking */
}

void compressor_pack(struct compressor *z, const void *bytes, size_t len, int level,
		     struct pack *out)
{
	size_t room = ZSTD_compressBound(len);
	CLEANUP(freep) uint8_t *to = mem_resize_array(NULL, room, 1);

	if (!z->packer && !(z->packer = ZSTD_createCCtx()))
		give_up("out of memory");
	ZSTD_CCtx_setParameter(z->packer, ZSTD_c_compressionLevel, level);
	ZSTD_CCtx_setParameter(z->packer, ZSTD_c_checksumFlag, 1);
	size_t n = ZSTD_compress2(z->packer, to, room, bytes, len);
	if (ZSTD_isError(n))
		give_up(ZSTD_getErrorName(n));
	pack_raw(out, to, n);
}

size_t compressor_size(const void *frame, size_t len)
{
	unsigned long long size = frame ? ZSTD_getFrameContentSize(frame, len) : UINT64_MAX;

	return size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR ? SIZE_MAX : size;
}

int compressor_unpack(struct compressor *z, const void *frame, size_t len, size_t max,
		      size_t *ret_len)
{
	unsigned long long size = ZSTD_getFrameContentSize(frame, len);

	if (size == ZSTD_CONTENTSIZE_UNKNOWN || size == ZSTD_CONTENTSIZE_ERROR || size > max)
		return -EBADMSG;
	if (size + 1 > z->cap) {
		z->cap = size + size / 2 + 4096;
		free(z->bytes);
		z->bytes = mem_resize_array(NULL, z->cap, 1);
	}
	if (!z->unpacker && !(z->unpacker = ZSTD_createDCtx()))
		give_up("out of memory");
	size_t n = ZSTD_decompressDCtx(z->unpacker, z->bytes, z->cap, frame, len);
	if (ZSTD_isError(n) || n != size)
		return -EBADMSG;
	*ret_len = n;
	return 0;
}

void compressor_done(struct compressor *z)
{
	ZSTD_freeCCtx(z->packer);
	ZSTD_freeDCtx(z->unpacker);
	free(z->bytes);
	*z = (struct compressor){};
}

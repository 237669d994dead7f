#include "base/protobuf_fields.h"

#include <errno.h>

static int varint(struct protobuf *w, uint64_t *ret)
{
	uint64_t n = 0;

	for (unsigned shift = 0; shift < 64 && w->at < w->end; shift += 7) {
		uint8_t b = *w->at++;
		if (shift == 63 && b > 1)
			return -EINVAL;
		n |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80) {
			*ret = n;
			return 0;
		}
	}
	return -EINVAL;
}

int protobuf_next(struct protobuf *w, struct protobuf_field *ret)
{
	struct protobuf at = *w;
	struct protobuf_field f = {};
	uint64_t tag, len = 0;

	if (at.at == at.end)
		return 0;
	if (varint(&at, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return -EINVAL;
	f.number = (uint32_t)(tag >> 3);
	f.type = (enum protobuf_type)(tag & 7);
	switch (f.type) {
	case PROTOBUF_VARINT:
		if (varint(&at, &f.value) < 0)
			return -EINVAL;
		break;
	case PROTOBUF_BYTES:
		if (varint(&at, &len) < 0)
			return -EINVAL;
		break;
	case PROTOBUF_FIXED64:
		len = 8;
		break;
	case PROTOBUF_FIXED32:
		len = 4;
		break;
	default:
		return -EINVAL;
	}
	if (len > (size_t)(at.end - at.at))
		return -EINVAL;
	f.data = at.at;
	f.len = len;
	w->at = at.at + len;
	*ret = f;
	return 1;
}

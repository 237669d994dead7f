#include "ingest/wire.h"

#include <errno.h>

#include "base/mem.h"

#define UNPACK_MAX (96u << 20) /* the most that WIRE_MESSAGE_MAX bytes of tiny parts can take */

static int varint(struct wire *w, uint64_t *ret)
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

int wire_next(struct wire *w, struct wire_field *ret)
{
	struct wire at = *w;
	struct wire_field f = {};
	uint64_t tag, len = 0;

	if (at.at == at.end)
		return 0;
	if (varint(&at, &tag) < 0 || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
		return -EINVAL;
	f.number = (uint32_t)(tag >> 3);
	f.type = (enum wire_type)(tag & 7);
	switch (f.type) {
	case WIRE_VARINT:
		if (varint(&at, &f.value) < 0)
			return -EINVAL;
		break;
	case WIRE_BYTES:
		if (varint(&at, &len) < 0)
			return -EINVAL;
		break;
	case WIRE_FIXED64:
		len = 8;
		break;
	case WIRE_FIXED32:
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

struct wire_unpacker {
	ProtobufCAllocator allocator;
	size_t used;
	_Alignas(16) uint8_t room[]; /* UNPACK_MAX bytes, of which the kernel gives what is used */
};

static void *take(void *data, size_t size)
{
	struct wire_unpacker *u = data;
	size_t room = (size + 15) & ~(size_t)15;

	if (size > UNPACK_MAX || room > UNPACK_MAX - u->used)
		return NULL;
	u->used += room;
	return u->room + u->used - room;
}

static void give_back(void *data, void *p)
{
	(void)data;
	(void)p;
}

struct wire_unpacker *wire_unpacker_new(void)
{
	struct wire_unpacker *u = mem_resize_array(NULL, sizeof(*u) + UNPACK_MAX, 1);

	u->allocator = (ProtobufCAllocator){take, give_back, u};
	return u;
}

void wire_unpacker_free(struct wire_unpacker *u)
{
	free(u);
}

void *wire_unpack(struct wire_unpacker *u, const ProtobufCMessageDescriptor *type,
		  const struct wire_field *f)
{
	u->used = 0;
	if (f->type != WIRE_BYTES || f->len > WIRE_MESSAGE_MAX)
		return NULL;
	return protobuf_c_message_unpack(type, &u->allocator, f->len, f->data);
}

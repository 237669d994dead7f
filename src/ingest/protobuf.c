#include "ingest/protobuf.h"

#include "base/mem.h"

#define ROOM (64u << 10)
#define UNPACK_MAX                                                                                 \
	(96u << 20) /* the most that PROTOBUF_MESSAGE_MAX bytes of tiny parts can take             \
		     */

/* Room that every message uses again, and blocks for the few that need more. */
struct protobuf_unpacker {
	ProtobufCAllocator allocator;
	struct block *blocks;
	size_t used;  /* of room */
	size_t extra; /* in blocks */
	_Alignas(16) uint8_t room[ROOM];
};

struct block {
	struct block *next;
	_Alignas(16) uint8_t data[];
};

static void *take(void *data, size_t size)
{
	struct protobuf_unpacker *u = data;
	size_t aligned = (size + 15) & ~(size_t)15;

	if (size <= ROOM && aligned <= ROOM - u->used) {
		u->used += aligned;
		return u->room + u->used - aligned;
	}
	if (u->extra > UNPACK_MAX || size > UNPACK_MAX - u->extra)
		return NULL;
	struct block *b = mem_resize_array(NULL, sizeof(*b) + size, 1);
	b->next = u->blocks;
	u->blocks = b;
	u->extra += size + sizeof(*b);
	return b->data;
}

static void give_back(void *data, void *p)
{
	(void)data;
	(void)p;
}

static void empty(struct protobuf_unpacker *u)
{
	for (struct block *b = u->blocks, *next; b; b = next) {
		next = b->next;
		free(b);
	}
	u->blocks = NULL;
	u->used = u->extra = 0;
}

struct protobuf_unpacker *protobuf_unpacker_new(void)
{
	struct protobuf_unpacker *u = mem_alloc(sizeof(*u));

	u->allocator = (ProtobufCAllocator){take, give_back, u};
	return u;
}

void protobuf_unpacker_free(struct protobuf_unpacker *u)
{
	if (u)
		empty(u);
	free(u);
}

void *protobuf_unpack(struct protobuf_unpacker *u, const ProtobufCMessageDescriptor *type,
		      const struct protobuf_field *f)
{
	empty(u);
	if (f->type != PROTOBUF_BYTES || f->len > PROTOBUF_MESSAGE_MAX)
		return NULL;
	return protobuf_c_message_unpack(type, &u->allocator, f->len, f->data);
}

/*
 * protobuf: the fields of one protobuf message, one after the other, and bounded unpacking of
 * submessages.
 *
 * protobuf-c unpacks a message into a tree of heap objects, many times the size of its bytes: two
 * bytes of input become an object of a hundred. So the outermost message, which is the whole file,
 * is read here field by field, and protobuf-c sees one small submessage at a time, in memory of a
 * fixed size that is reused for the next.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define PROTOBUF_MESSAGE_MAX (1u << 20) /* bytes of a submessage */

enum protobuf_type {
	PROTOBUF_VARINT = 0,
	PROTOBUF_FIXED64 = 1,
	PROTOBUF_BYTES = 2,
	PROTOBUF_FIXED32 = 5
};

struct protobuf { /* what is left of the message; borrowed */
	const uint8_t *at;
	const uint8_t *end;
};

struct protobuf_field {
	uint32_t number;
	enum protobuf_type type;
	uint64_t value; /* of a PROTOBUF_VARINT */
	const uint8_t *data;
	size_t len; /* of PROTOBUF_BYTES */
};

/* The next field: 1; 0 at the end; -EINVAL if it is not protobuf, with `at` where. */
int protobuf_next(struct protobuf *w, struct protobuf_field *ret);

struct protobuf_unpacker;

struct protobuf_unpacker *protobuf_unpacker_new(void);
void protobuf_unpacker_free(struct protobuf_unpacker *u);

/* The field as a message, valid until the next call; NULL if it is malformed or too large. */
void *protobuf_unpack(struct protobuf_unpacker *u, const ProtobufCMessageDescriptor *type,
		      const struct protobuf_field *f);

/* The number of a line of source; 0: none that a file can have. */
static inline uint32_t protobuf_line(int64_t n)
{
	return n > 0 && n <= UINT32_MAX ? (uint32_t)n : 0;
}

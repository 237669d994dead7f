/*
 * protobuf: bounded unpacking of submessages.
 *
 * protobuf-c unpacks a message into a tree of heap objects, many times the size of its bytes: two
 * bytes of input become an object of a hundred. So the outermost message, which is the whole file,
 * is read field by field (base/protobuf_fields.h), and protobuf-c sees one small submessage at a
 * time, in memory of a fixed size that is reused for the next.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#include "base/protobuf_fields.h"

#define PROTOBUF_MESSAGE_MAX (1u << 20) /* bytes of a submessage */

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

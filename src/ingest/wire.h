/*
 * wire: the fields of one protobuf message, one after the other, and submessages unpacked within
 * bounds.
 *
 * protobuf-c unpacks a message as a tree of heap objects, many times the size of its bytes: two
 * bytes of input make an object of a hundred. So the outermost message, which is the whole file, is
 * walked here field by field, and protobuf-c sees one small submessage at a time, in memory of a
 * fixed size that the next one uses again.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <protobuf-c/protobuf-c.h>

#define WIRE_MESSAGE_MAX (1u << 20) /* bytes of a submessage */

enum wire_type { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

struct wire { /* what is left of the message; borrowed */
	const uint8_t *at;
	const uint8_t *end;
};

struct wire_field {
	uint32_t number;
	enum wire_type type;
	uint64_t value; /* of a WIRE_VARINT */
	const uint8_t *data;
	size_t len; /* of WIRE_BYTES */
};

/* The next field: 1; 0 at the end; -EINVAL when the bytes are no protobuf, with `at` where. */
int wire_next(struct wire *w, struct wire_field *ret);

struct wire_unpacker;

struct wire_unpacker *wire_unpacker_new(void);
void wire_unpacker_free(struct wire_unpacker *u);

/* The field as a message, valid until the next call; NULL if it is none or too large. */
void *wire_unpack(struct wire_unpacker *u, const ProtobufCMessageDescriptor *type,
		  const struct wire_field *f);

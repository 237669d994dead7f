/*
 * protobuf_fields: the fields of one protobuf message, one after the other, as they stand in its
 * bytes: nothing is copied.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

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

/*
 * protojson: protobuf messages as JSON, by protobuf's own mapping, and back.
 *
 * Any message works, by its descriptor: the names of fields are the lowerCamelCase ones (reading,
 * also those of the .proto), numbers of 64 bits are strings (reading, also numbers), bytes are
 * base64. What is read becomes the message's wire format, for whoever decodes that.
 *
 * JSON is hostile: its size and its number of values are capped, since each value takes some fifty
 * bytes of memory, whatever it took in the text. Fields that the descriptor does not have are
 * passed over. Messages may not contain themselves.
 */
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include <protobuf-c/protobuf-c.h>

#include "base/pack.h"

#define PROTOJSON_MAX        (16u << 20) /* bytes of text */
#define PROTOJSON_VALUES_MAX (1u << 20)

struct protojson_error {
	char text[200]; /* one sentence, without a full stop */
};

/*
 * Appends the message to `out`. hex: fields of bytes are hexadecimal, as OTLP has ids. 0; -EINVAL
 * or -EFBIG with *ret_err, and `out` is of no use.
 */
int protojson_read(const char *json, size_t len, const ProtobufCMessageDescriptor *type, bool hex,
		   struct pack *out, struct protojson_error *ret_err);

/* Every field is written, the empty ones too, but messages that are not there. */
void protojson_write(const ProtobufCMessage *m, FILE *out);

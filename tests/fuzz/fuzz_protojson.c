/* Any text as the JSON of a message; what is read unpacks, and what is written is read the same. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/protojson.h"
#include "serve/querier.pb-c.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *const types[] = {
	&querier__series_request__descriptor,         &querier__select_series_request__descriptor,
	&querier__diff_request__descriptor,           &querier__get_settings_response__descriptor,
	&querier__select_series_response__descriptor, &querier__diff_response__descriptor,
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct protojson_error err = {};
	struct pack wire = {}, again = {};

	if (!size)
		return 0;
	const ProtobufCMessageDescriptor *type = types[data[0] % (sizeof(types) / sizeof(*types))];
	if (protojson_read((const char *)data + 1, size - 1, type, data[0] & 0x80, &wire, &err) !=
	    0) {
		if (!*err.text)
			abort();
		pack_done(&wire);
		return 0;
	}
	ProtobufCMessage *m = protobuf_c_message_unpack(type, NULL, wire.len, wire.bytes);
	if (!m)
		abort();
	char *text = NULL;
	size_t len;
	FILE *out = open_memstream(&text, &len);
	protojson_write(m, out);
	fclose(out);
	/* Too many values, or one that JSON has no way to say, such as a NUL in a string. */
	if (protojson_read(text, len, type, false, &again, &err) == 0) {
		ProtobufCMessage *n = protobuf_c_message_unpack(type, NULL, again.len, again.bytes);
		if (!n)
			abort();
		protobuf_c_message_free_unpacked(n, NULL);
	}
	free(text);
	protobuf_c_message_free_unpacked(m, NULL);
	pack_done(&wire);
	pack_done(&again);
	return 0;
}

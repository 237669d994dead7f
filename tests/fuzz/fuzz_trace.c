/*
 * Any bytes as a record of any call: if it is sound, every part of its line can be written, and has
 * only printable characters.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "syscall/decode.h"
#include "syscall/decode_table.h"

static void check(const struct decode_text *t)
{
	if (t->len > DECODE_MAX)
		abort();
	for (size_t i = 0; i < t->len; i++)
		if (t->bytes[i] < ' ' || t->bytes[i] > '~')
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct decode_options options[] = {
		{32, false}, {0, true}, {DECODE_STRING_MAX, true}};
	size_t calls = 0;

	while (decode_calls[calls].name)
		calls++;
	if (size < 3 + sizeof(struct trace_record))
		return 0;
	const struct decode_call *call = &decode_calls[(data[0] | data[1] << 8) % (calls + 1)];
	const struct decode_options *o = &options[data[2] % ARRAY_SIZE(options)];
	CLEANUP(freep) struct trace_record *r = malloc(size - 3);
	memcpy(r, data + 3, size - 3);
	r->bytes = (uint32_t)(size - 3);
	if (!call->name)
		call = NULL;
	if (decode_is_sound(r, r->bytes)) {
		struct decode_text t = {};
		decode_args(call, r, o, &t);
		decode_result(call, r, o, &t);
		decode_signal(r, &t);
		decode_end(r, &t);
		decode_touches(call, r, "/tmp");
		check(&t);
		decode_text_done(&t);
	}
	return 0;
}

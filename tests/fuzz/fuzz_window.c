/* Any bytes as messages of a collector, each behind its length (two bytes), to one dictionary. */
#include <stdint.h>
#include <stdlib.h>

#include "profile/window.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What was read can be written, and read again. */
static void again(const struct window *w, const struct profile *dict)
{
	struct profile *copy = profile_new();
	struct entries_mark mark = {};
	struct pack out = {};
	struct window read;

	window_write(w, dict, &mark, SIZE_MAX / 2, &out);
	if (window_read(out.bytes, out.len, copy, &read) < 0 || read.row_count != w->row_count ||
	    read.time_count != w->time_count || read.span_row_count != w->span_row_count ||
	    copy->stack_count != dict->stack_count)
		abort();
	window_done(&read);
	pack_done(&out);
	profile_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct profile *dict = profile_new();
	struct window_reply reply;
	struct window w;

	window_reply_read(data, size, &reply);
	while (size >= 2) {
		size_t len = (size_t)(data[0] | data[1] << 8);
		data += 2;
		size -= 2;
		len = len < size ? len : size;
		window_peek(data, len, &w);
		int r = window_read(data, len, dict, &w);
		if (r == 0) {
			again(&w, dict);
			window_done(&w);
		} else {
			profile_free(dict);
			dict = profile_new();
		}
		data += len;
		size -= len;
	}
	profile_free(dict);
	return 0;
}

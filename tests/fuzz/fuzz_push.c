/*
 * What programs push: the first byte says in which way. What is refused has a reason; what is not
 * has a type and sums, and each profile can be rendered.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ingest/otlp.h"
#include "ingest/pyroscope.h"
#include "render/render.h"

#define NOW 1794733200000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_all(struct pushed *p, uint8_t how, const uint8_t *data, size_t size)
{
	const struct pushed_labels none = {};
	const struct pushed_about about = {.labels = &none, .now_ms = NOW};
	struct pyroscope_ingest request = {.name = "app.cpu{a=b}"};
	/* Of the old way, up to the first line's end: the name. */
	const uint8_t *end = size ? memchr(data, '\n', size) : NULL;
	char name[256];

	switch (how % 7) {
	case 0:
		return pushed_pprof(p, data, size, &about);
	case 1:
		return pyroscope_push(p, data, size, false, NOW);
	case 2:
		return pyroscope_push(p, data, size, true, NOW);
	case 3:
		return otlp_read(p, data, size, false, NOW);
	case 4:
		return otlp_read(p, data, size, true, NOW);
	case 5:
		request.content_type = "multipart/form-data; boundary=xYz";
		return pyroscope_ingest(p, &request, data, size, NOW);
	default:
		if (end) {
			size_t len = (size_t)(end - data);
			snprintf(name, sizeof(name), "%.*s", (int)(len < 255 ? len : 255),
				 (const char *)data);
			request.name = name;
			request.from = strchr(name, '#') ? strchr(name, '#') + 1 : NULL;
			size -= len + 1;
			data = end + 1;
		}
		return pyroscope_ingest(p, &request, data, size, NOW);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct pushed p = {};

	if (!size)
		return 0;
	bool ok = read_all(&p, data[0], data + 1, size - 1);
	if (!ok != (p.status != 0) || (!ok && (!p.reason || !*p.why)))
		abort();
	for (uint32_t i = 0; ok && i < p.count; i++) {
		const struct pushed_profile *one = p.all[i];
		char *out = NULL;
		size_t len = 0;
		if (!*one->type || !*one->unit || !one->length_ms ||
		    one->length_ms > WINDOW_LENGTH_MAX ||
		    !pushed_label_value(&one->labels, "service"))
			abort();
		FILE *f = open_memstream(&out, &len);
		if (render_folded(one->p, &(struct render_options){}, f) != 0)
			abort();
		fclose(f);
		free(out);
	}
	pushed_done(&p);
	return 0;
}

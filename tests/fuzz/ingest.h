/* What the fuzzers of ingest/ share: bytes in; if they are a profile, its sums must hold. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "ingest/ingest.h"
#include "render/render.h"

static inline void fuzz_ingest(const uint8_t *data, size_t size, enum ingest_format format)
{
	FILE *in = size ? fmemopen((void *)data, size, "r") : fopen("/dev/null", "r");
	struct profile *p = profile_new();
	struct ingest_report report;
	int err = ingest_read(in, &(struct ingest_options){.format = format}, p, &report);

	if (err && report.why[0] == '\0')
		abort(); /* an error without a reason */
	if (!err) {
		/* What was read can be written, and read again with the same sum. */
		char *out = NULL;
		size_t len = 0;
		FILE *f = open_memstream(&out, &len);
		uint64_t sum = 0, again = 0;

		if (render_pprof(p, &(struct render_options){}, f) != 0)
			abort();
		fclose(f);
		for (uint32_t i = 0; i < p->sample_count; i++)
			sum += p->samples[i].value;

		struct profile *q = profile_new();
		f = fmemopen(out, len, "r");
		if (ingest_read(f, &(struct ingest_options){.format = INGEST_PPROF}, q, &report) !=
		    0)
			abort();
		for (uint32_t i = 0; i < q->sample_count; i++)
			again += q->samples[i].value;
		if (sum != again)
			abort();
		fclose(f);
		free(out);
		profile_free(q);
	}
	profile_free(p);
	fclose(in);
}

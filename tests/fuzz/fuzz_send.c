/*
 * What an agent sends on. By the first byte: a window of a collector, which each protocol makes
 * requests of, and our own readers of those take them; or any bytes as an answer to a request.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "forward/far.h"
#include "ingest/otlp.h"
#include "ingest/pyroscope.h"
#include "serve/gzip.h"

#define NOW 1794733200000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct far_protocol *const protocols[] = {&far_smolder, &far_otlp, &far_pyroscope};

/* A reader may refuse what is too much for it, and names that it has no room for; but it can read
 * it. */
static void check(const struct pushed *p, bool ok)
{
	if (!ok && strcmp(p->reason, "too_large") != 0 && strcmp(p->reason, "labels") != 0 &&
	    !strstr(p->why, "is longer than"))
		abort();
}

static void read_back(const struct far_protocol *protocol, const struct far_request *made)
{
	struct pushed p = {};
	char *plain = NULL;
	size_t len;

	if (protocol == &far_otlp) {
		if (!made->is_gzip ||
		    gzip_unpack(made->body.bytes, made->body.len, PUSHED_BYTES_MAX, &plain, &len))
			abort();
		check(&p, otlp_read(&p, plain, len, false, NOW));
	} else if (protocol == &far_pyroscope) {
		check(&p, pyroscope_push(&p, made->body.bytes, made->body.len, false, NOW));
	}
	free(plain);
	pushed_done(&p);
}

static void read_own(const struct far_request *made, struct profile *dict, bool *ret_entries)
{
	struct window w;

	if (window_read(made->body.bytes, made->body.len, dict, &w) != 0)
		abort();
	*ret_entries = w.part == WINDOW_NO_PART;
	window_done(&w);
}

/* All requests of a record, the answers of which say that it went well. */
static void send_record(const struct far_protocol *protocol, struct spooled *r)
{
	void *self = protocol->new ? protocol->new () : NULL;
	struct profile *dict = profile_new();
	uint64_t samples = 0, through = r->through;
	bool more = true;

	for (int n = 0; more && n < 1000; n++) {
		struct far_request made = {};
		if (protocol->make(self, r, 7, &made) != 0)
			break;
		more = made.body.len != 0;
		samples += made.samples;
		if (more && protocol == &far_smolder) {
			read_own(&made, dict, &more);
			more = false; /* what comes next is told by an answer */
		} else if (more) {
			read_back(protocol, &made);
			r->through = made.through;
		}
		pack_done(&made.body);
	}
	if (!more && protocol != &far_smolder && samples != r->samples)
		abort();
	r->through = through;
	profile_free(dict);
	if (protocol->free)
		protocol->free(self);
}

static void send_window(const uint8_t *data, size_t size)
{
	struct spool_options memory = {.dir = -1, .max_memory = 8 << 20};
	struct profile *dict = profile_new();
	struct spool *s;
	struct spooled r;
	struct window w;

	if (window_read(data, size, dict, &w) == 0) {
		if (spool_open(&memory, &s) != 0)
			abort();
		if (spool_put(s, dict, &w) == 0) {
			if (!spool_next(s, 0, &r))
				abort();
			for (size_t i = 0; i < sizeof(protocols) / sizeof(*protocols); i++)
				send_record(protocols[i], &r);
			spool_settle(s, r.number);
			spooled_done(&r);
		}
		spool_close(s);
		window_done(&w);
	}
	profile_free(dict);
}

static void answer(uint8_t status, const uint8_t *data, size_t size)
{
	static const unsigned statuses[] = {200, 204, 400, 413, 429, 500, 503, 302};
	struct fetch_answer a = {.status = statuses[status % 8], .len = size};
	const uint8_t *split = memchr(data, '\n', size);

	a.body = malloc(size + 1);
	memcpy(a.body, data, size);
	a.body[size] = '\0';
	a.headers = malloc(size + 32);
	snprintf(a.headers, size + 32, "Retry-After: %.*s\r\n",
		 (int)(split ? split - data : (long)size), (const char *)data);
	fetch_retry_after_ms(&a, NOW);
	for (size_t i = 0; i < sizeof(protocols) / sizeof(*protocols); i++) {
		void *self = protocols[i]->new ? protocols[i]->new () : NULL;
		struct far_answer got = {};
		protocols[i]->judge(self, &a, &got);
		if (strlen(got.why) >= FAR_WHY)
			abort();
		if (protocols[i]->free)
			protocols[i]->free(self);
	}
	fetch_answer_done(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 2)
		answer(data[0] / 2, data + 1, size - 1);
	else
		send_window(data + 1, size - 1);
	return 0;
}

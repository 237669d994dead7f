/* Any bytes as what a ClickHouse server answers, to each question that a store asks it. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/fetch.h"
#include "base/mem.h"
#include "store/operations.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *at, *end;

/* This is the server: each answer is two bytes that tell its length, and those. */
int fetch(const struct fetch_request *r, struct fetch_answer *ret, struct fetch_error *ret_err)
{
	size_t len = 0;

	(void)r;
	(void)ret_err;
	if (end - at >= 2) {
		len = at[0] | (size_t)at[1] << 8;
		at += 2;
	}
	bool fails = len & 0x8000;
	len = MIN(len & 0x7fff, (size_t)(end - at));
	*ret = (struct fetch_answer){fails ? 500 : 200, mem_strdup(""), mem_alloc(len + 1), len};
	memcpy(ret->body, at, len);
	at += len;
	return 0;
}

void fetch_answer_done(struct fetch_answer *a)
{
	free(a->headers);
	free(a->body);
	*a = (struct fetch_answer){};
}

bool fetch_is_url(const char *url)
{
	return url;
}

static void ask(void *self, unsigned what, const struct store_query *q)
{
	const struct store_operations *o = &clickhouse_operations;
	struct store_error err = {};
	struct store_answer answer = {};
	struct store_timeline timeline;
	struct store_heat heat;
	struct store_names names;
	struct store_findings findings;
	struct store_stats stats;
	struct profile *p = profile_new();

	if (what % 8 < 3)
		o->sum(self, q, p, &answer, &err);
	else if (what % 8 == 3 && o->timeline(self, q, &timeline, &err) == 0)
		store_timeline_done(&timeline);
	else if (what % 8 == 4 && o->heat(self, q, &heat, &err) == 0)
		store_heat_done(&heat);
	else if (what % 8 == 5 &&
		 o->names(self, q, q->by_count ? STORE_VALUES : STORE_LABELS, &names, &err) == 0)
		store_names_done(&names);
	else if (what % 8 == 6 && o->findings(self, q, &findings, &err) == 0)
		store_findings_done(&findings);
	else if (what % 8 == 7)
		o->stats(self, &stats);
	profile_free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const by[] = {"pid", "thread"};
	const struct store_options o = {.read_only = true};
	struct matcher_error why;
	struct store_error err = {};
	struct matcher m;
	void *self;

	if (size < 2)
		return 0;
	unsigned what = data[0], how = data[1];
	at = data + 2;
	end = data + size;
	matcher_init(&m, how & 1 ? STORE_SPAN : "comm", how & 2 ? MATCHER_REGEX : MATCHER_PREFIX,
		     "a.*", &why);
	struct store_query q = {
		.type = "cpu",
		.from_ms = 1794733200000,
		.to_ms = 1794733200000 + 60000,
		.matchers = &m,
		.matcher_count = how & 4 ? 1 : 0,
		.by = by,
		.by_count = how >> 3 & 1 ? 2 : 0,
		.step_ms = WINDOW_MS,
		.block_ms = how & 16 ? 2 * WINDOW_MS : 0,
		.max = 10,
		.exact = how & 32,
		.kernel = how & 64,
	};
	if (clickhouse_operations.open("clickhouse://u@h:1/d", &o, &self, &err) != 0)
		__builtin_trap();
	ask(self, what, &q);
	clickhouse_operations.close(self);
	matcher_done(&m);
	return 0;
}

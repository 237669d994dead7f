/*
 * page: the routes of the web page.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/assets.h"
#include "serve/gzip.h"
#include "serve/server_internal.h"

#define PAGE_MAX (64u << 20) /* bytes of a file of it, unpacked */

/* The parts' names hold their hashes: what has one never changes. */
#define FOR_EVER "public, max-age=31536000, immutable"

static void answer(struct http_request *r, const struct asset *a)
{
	const char *known = http_header(r, "If-None-Match");
	struct http_answer answer = {
		.status = 200,
		.type = a->type,
		.headers = {{"ETag", a->etag},
			    {"Cache-Control", a->fixed ? FOR_EVER : "no-cache"},
			    {"Content-Security-Policy", ASSETS_CSP},
			    {"Referrer-Policy", "same-origin"},
			    {"Vary", "Accept-Encoding"}},
	};
	char *plain = NULL;

	if (known && strstr(known, a->etag)) {
		answer.status = 304;
	} else if (gzip_accepted(http_header(r, "Accept-Encoding"))) {
		answer.headers[5].name = "Content-Encoding";
		answer.headers[5].value = "gzip";
		answer.body = malloc(a->len);
		if (answer.body)
			memcpy(answer.body, a->bytes, a->len);
		answer.len = answer.body ? a->len : 0;
	} else if (gzip_unpack(a->bytes, a->len, PAGE_MAX, &plain, &answer.len) == 0) {
		answer.body = plain;
	} else {
		http_fail(r, 500, "the page could not be unpacked");
		return;
	}
	http_answer(r, &answer);
}

void page_index(void *ctx, struct http_request *r)
{
	(void)ctx;
	answer(r, assets_find("/"));
}

void page_asset(void *ctx, struct http_request *r)
{
	char path[128];
	int len = snprintf(path, sizeof(path), "/assets/%s", http_star(r));
	const struct asset *a = len > 0 && (size_t)len < sizeof(path) ? assets_find(path) : NULL;

	(void)ctx;
	if (a)
		answer(r, a);
	else
		http_fail(r, 404,
			  "that file belongs to another version of the page; reload the page");
}

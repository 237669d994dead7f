/*
 * assets: the web page, in the binary. web/build.mjs bundles and packs it when the program is
 * built.
 *
 * Bytes are gzipped and there is no other form of them: every browser that can run the page takes
 * gzip. An asset whose name holds its hash never changes; "/" names the others, and does.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct asset {
	const char *path; /* as requested: "/", "/assets/app-0123456789ab.js" */
	const char *type; /* Content-Type */
	const char *etag; /* with its quotes */
	const unsigned char *bytes;
	size_t len;
	bool fixed; /* may be cached for ever */
};

/* What every answer that a browser may show as a page says it may do. */
#define ASSETS_CSP                                                                                 \
	"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "        \
	"object-src 'none'"

/* The asset of a path without its query ("/index.html" is "/"), or NULL. */
const struct asset *assets_find(const char *path);

/* All of them, for tests: the nth, or NULL. */
const struct asset *assets_at(size_t n);

/*
 * assets: the files of the web page, embedded in the binary. web/build.mjs bundles and packs them
 * when the program is built.
 *
 * They are stored gzipped only: every browser that can run the page accepts gzip. An asset with a
 * hash in its name never changes; "/", which refers to the others by name, does.
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
	bool fixed; /* may be cached forever */
};

/* The Content-Security-Policy of every answer that a browser may show as a page. */
#define ASSETS_CSP                                                                                 \
	"default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "        \
	"object-src 'none'"

/* The asset of a path without its query ("/index.html" is "/"), or NULL. */
const struct asset *assets_find(const char *path);

/* All of them, for tests: the nth, or NULL. */
const struct asset *assets_at(size_t n);

/*
 * multipart: the parts of a multipart/form-data body (RFC 7578).
 *
 * Nothing is copied. Only what clients send is understood: a boundary of at most 70 bytes, and of
 * each part's head the `name` of its Content-Disposition.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define MULTIPART_PARTS_MAX    16u
#define MULTIPART_BOUNDARY_MAX 70u

struct multipart_part { /* borrowed from the body */
	const char *name;
	size_t name_len;
	const char *bytes;
	size_t len;
};

struct multipart {
	struct multipart_part parts[MULTIPART_PARTS_MAX];
	size_t count;
};

/* Whether a Content-Type (NULL: none) is of that kind. */
bool multipart_is(const char *content_type);

/* 0; -EINVAL with *ret_why (static): it is malformed, or has more parts. */
int multipart_read(const char *content_type, const char *body, size_t len, struct multipart *ret,
		   const char **ret_why);

const struct multipart_part *multipart_find(const struct multipart *m, const char *name);

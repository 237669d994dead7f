/*
 * gzip: compresses the bodies of answers, for clients that accept it, and reads those of requests.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GZIP_LEAST 1400 /* bytes; anything shorter fits into one packet anyway */

/* Whether an Accept-Encoding header (NULL: none) accepts gzip. */
bool gzip_accepted(const char *accept);

/* Replaces a body by its compressed form. 0; -ENOMEM: it is unchanged. */
int gzip_pack(char **body, size_t *len);

/*
 * Decompresses one member of gzip; *ret is from malloc. 0; -EBADMSG: it is not that, or damaged;
 * -EFBIG: it is, or says that it is, more than `max` bytes.
 */
int gzip_unpack(const void *packed, size_t len, size_t max, char **ret, size_t *ret_len);

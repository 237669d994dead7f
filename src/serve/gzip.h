/*
 * gzip: bodies of answers, packed for those who take it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define GZIP_LEAST 1400 /* bytes; less fits into one packet as it is */

/* Whether an Accept-Encoding (NULL: none) takes gzip. */
bool gzip_accepted(const char *accept);

/* Packs a body in place of the old, which is freed. 0; -ENOMEM: it is as it was. */
int gzip_pack(char **body, size_t *len);

/* The plain text of something packed that is known to be sound; from malloc. -EBADMSG if it is not.
 */
int gzip_unpack(const void *packed, size_t len, char **ret, size_t *ret_len);

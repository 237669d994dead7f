/*
 * secrets: what is in files that not everybody may read: a token, and the key of a certificate.
 *
 * `run` reads them as root, before its server becomes an ordinary user.
 */
#pragma once

#include "cli/settings.h"

struct secrets { /* embedded; NULL: not asked for */
	char *token;
	char *tls_cert, *tls_key; /* PEM */
};

/* What the settings name. 0, or an exit code after saying why. */
int secrets_read(const struct settings *s, struct secrets *ret);
void secrets_done(struct secrets *s);

/* The first line of a file, if it can be a token; caller frees. NULL after saying why. */
char *secrets_token(const char *path);

/* The same as the value of an Authorization header. */
char *secrets_bearer(const char *path);

/*
 * secrets: what is read from files that not everybody may read: a token, and a certificate's key.
 *
 * `run` reads them as root, before its server becomes an ordinary user.
 */
#pragma once

#include "cli/settings.h"

struct secrets { /* embedded; NULL: the settings name no such file */
	char *token;
	char *tls_cert, *tls_key; /* PEM */
};

/* Reads the files that the settings name. 0, or an exit code after reporting why not. */
int secrets_read(const struct settings *s, struct secrets *ret);
void secrets_done(struct secrets *s);

/* The token in the first line of a file; caller frees. NULL after reporting why not. */
char *secrets_token(const char *path);

/* The same, as the value of an Authorization header. */
char *secrets_bearer(const char *path);

/* The same of a name and password in the first line of a file: USER:PASSWORD. */
char *secrets_basic(const char *path);

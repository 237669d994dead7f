/*
 * access_list: who has access to a server on loopback: the users and groups from the settings, and
 * whoever starts the server.
 */
#pragma once

#include "cli/settings.h"
#include "serve/access.h"

struct access_list { /* embedded */
	struct access_options options;
	uid_t *users;
	gid_t *groups;
};

/*
 * Looks up the names. Whoever starts the server is the user who called sudo, else the process'
 * user. 0, or the exit code after reporting a name that does not exist.
 */
int access_list_read(const struct settings *s, struct access_list *ret);
void access_list_done(struct access_list *a);

/*
 * access_list: who may look at a server on loopback, as the settings and the command's caller say.
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
 * Names become numbers; who started this is the user that called sudo, or whose process it is. 0,
 * or the exit code after it was said which name there is not.
 */
int access_list_read(const struct settings *s, struct access_list *ret);
void access_list_done(struct access_list *a);

/*
 * spool_dir: the directory where an agent keeps what it has not sent yet.
 *
 * Root opens it, and an ordinary user uses it through that descriptor: so the path to it may be
 * closed to that user. A directory that is handed over is new, empty, or a spool already.
 */
#pragma once

#include "base/privilege.h"

/*
 * The default for that far side, as its URL has it: of root below SPOOL_DIR_SYSTEM, else in the
 * user's home. Caller frees; NULL when this user has no home.
 */
#define SPOOL_DIR_SYSTEM "/var/spool/smolder"
char *spool_dir_default(const char *to);

/* Makes it if need be and gives it to the user. 0 with a descriptor; or -errno, with why. */
struct spool_dir_error {
	char text[256];
};

int spool_dir_open(const char *path, const struct privilege_user *u, int *ret_fd,
		   struct spool_dir_error *ret_err);

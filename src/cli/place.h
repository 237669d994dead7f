/*
 * place: the directory of the store, made ready for the user that the server runs as.
 *
 * Root starts `run` and an ordinary user keeps the store, so both must be able to get there. That
 * is looked at first, as that user; then what is missing is made, and a store that root's own
 * `serve` had made is given to the user. When anything of it fails, all is as it was before.
 *
 * Only what is root's alone is given away: files of a store in a directory that nobody else can
 * write to, or root's files in a directory that is the user's already, each with one name.
 */
#pragma once

#include "base/privilege.h"

/*
 * Whom the server runs as: `name`; if that is NULL, the owner of the store if there is one and it
 * is not root, else as privilege_find_user() says. 0, or 1 after saying why not.
 */
int place_user(const char *dir, const char *name, struct privilege_user *ret);

/* 0, or 1 after saying who cannot do what where, and what would help; nothing is changed then. */
int place_prepare(const char *dir, const struct privilege_user *u);

/*
 * For root's `serve`: on a store that is another user's it goes on as that user, so that all files
 * in it stay theirs. 0, or 1 after saying why it cannot.
 */
int place_become_owner(const char *dir);

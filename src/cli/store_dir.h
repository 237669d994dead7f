/*
 * store_dir: where the store's directory is, and making it ready for the user the server runs as.
 *
 * Root starts `run`, but an ordinary user keeps the store, so both must be able to reach it. That
 * is checked first, as that user; then missing directories are created, and a store that was made
 * by root's own `serve` is handed over to the user. If any step fails, all of them are undone.
 *
 * Only what belongs to root alone is handed over: files of a store in a directory that nobody else
 * can write to, or root's files in a directory that is already the user's; no hard links.
 */
#pragma once

#include "base/privilege.h"

#define STORE_DIR_SYSTEM "/var/lib/smolder"

/*
 * The default directory to write to: STORE_DIR_SYSTEM for root, else in the user's home. Caller
 * frees; NULL when this user has no home.
 */
char *store_dir_default(void);

/*
 * The default directory to read: the same, except under sudo, where the store of the user who
 * called it is taken if it exists and STORE_DIR_SYSTEM does not. Caller frees.
 */
char *store_dir_readable(void);

/*
 * The user the server is to run as: `name`; if that is NULL, the store's owner, if it exists and is
 * not root's; else as privilege_find_user() says. 0, or 1 after reporting why not.
 */
int store_dir_user(const char *dir, const char *name, struct privilege_user *ret);

/* 0, or 1 after reporting who cannot do what, where, and what would help; nothing has changed. */
int store_dir_prepare(const char *dir, const struct privilege_user *u);

/*
 * For `serve` started by root: if the store belongs to another user, becomes that user, so that all
 * its files stay theirs. 0, or 1 after reporting why that failed.
 */
int store_dir_become_owner(const char *dir);

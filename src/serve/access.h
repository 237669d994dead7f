/*
 * access: which users of this machine have access without a token, and which may send windows.
 *
 * Root and whoever started the server may read profiles, and those who were allowed to. Root may
 * send windows, and so may whoever started the server if it has no collector of its own. The
 * members of a group are looked up in the system's user database, and cached for a minute.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct access_options {
	uid_t starter;      /* who started the server; under sudo, who called that */
	bool starter_sends; /* whether the starter may send windows */
	const uid_t *users; /* allowed to read profiles; borrowed, as are groups */
	const gid_t *groups;
	size_t user_count, group_count;
};

struct access;

struct access *access_new(const struct access_options *o);
void access_free(struct access *a); /* NULL is fine */

bool access_may_look(struct access *a, uid_t uid, uint64_t now_ms); /* CLOCK_MONOTONIC */
bool access_may_send(const struct access *a, uid_t uid);

/* "root, anna and members of prometheus", for people. Caller frees. */
char *access_describe(const struct access_options *o);

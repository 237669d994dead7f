/*
 * access: which users of this machine may look, and who may send windows, without a token.
 *
 * Root and whoever started the server may look, and those that were allowed; root may send windows,
 * and whoever started the server where it has no collector of its own. Members of a group are those
 * that the system's database names; what it said of a user is good for a minute.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct access_options {
	uid_t starter;      /* who started it; under sudo, who called that */
	bool starter_sends; /* windows */
	const uid_t *users; /* that are allowed to look; borrowed, as are groups */
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

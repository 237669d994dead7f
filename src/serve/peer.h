/*
 * peer: which user owns the other end of a loopback connection.
 *
 * The kernel is asked, by netlink (inet_diag), for the socket whose local address is the remote
 * address of the connection. That needs no privileges and is answered at once. Only a socket that
 * some process still has open counts: for a closed one the kernel reports user 0, whoever it was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {   /* embedded */
	int fd; /* netlink; -1: this kernel cannot be asked */
	uint32_t sequence;
	bool is_partial; /* not all users are mapped in this user namespace: the others appear as
			    one, the overflow uid */
};

void peer_init(struct peer *p);
void peer_done(struct peer *p);

/* Tries it on a connection of our own: 0 if it works on this kernel, or -errno. */
int peer_check(void);

/*
 * The user at the other end of this TCP socket. 0; -ENOENT if none on this machine is known; else
 * why the kernel could not be asked, such as -EOPNOTSUPP.
 */
int peer_owner(struct peer *p, int connection, uid_t *ret);

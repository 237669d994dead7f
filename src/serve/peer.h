/*
 * peer: which user owns the other end of a loopback connection.
 *
 * The kernel is asked for the socket whose own address is the connection's far one (inet_diag over
 * netlink), which needs no privileges and is answered within the call. Only a socket that some
 * process still has open counts: of one that was closed the kernel tells user 0, whoever it was.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct peer {   /* embedded */
	int fd; /* of netlink; -1: the kernel cannot be asked */
	uint32_t sequence;
	bool is_partial; /* this user namespace knows not all users: one of them stands for others
			  */
};

void peer_init(struct peer *p);
void peer_done(struct peer *p);

/* Whether that works on this kernel, tried on a connection of our own: 0 or -errno. */
int peer_check(void);

/*
 * The owner of what is connected to this TCP socket. 0; -ENOENT when there is none on this machine
 * that is known; else why the kernel could not be asked, such as -EOPNOTSUPP.
 */
int peer_owner(struct peer *p, int connection, uid_t *ret);

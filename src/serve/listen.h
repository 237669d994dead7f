/*
 * listen: the address a server listens on: parsing it, whether it is on loopback, and its socket.
 *
 *	"127.0.0.1:7117"  "[::1]:7117"  ":7117" (all addresses)  "7117" (127.0.0.1)
 */
#pragma once

#include <stdbool.h>

#define LISTEN_PORT    "7117" /* unless one is given */
#define LISTEN_ADDRESS 80

/* The host of "host:port" or "[v6]:port", without port and brackets; false if there is none. */
bool listen_split_host(const char *s, char ret[static 256]);

bool listen_is_valid(const char *listen);    /* its syntax, and that the port is one */
bool listen_is_loopback(const char *listen); /* false also if it cannot be resolved */

/*
 * The URL at which this machine reaches it, "http://127.0.0.1:7117" also if it listens on all
 * addresses. Caller frees.
 */
char *listen_url(const char *listen, bool tls);

/*
 * Opens the listening socket: 0, or -errno with *ret_why (static, or valid until the next error).
 * -EACCES: it would be reachable from other machines, and `may_be_public` is false.
 */
int listen_open(const char *address, bool may_be_public, int *ret_fd, bool *ret_public,
		const char **ret_why);

/* The address a socket really has, "127.0.0.1:7117"; "" if it is unknown. */
void listen_address(int fd, char ret[static LISTEN_ADDRESS]);

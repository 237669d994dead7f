#include "serve/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>

#include "base/mem.h"

#define BACKLOG 512

bool listen_split_host(const char *s, char ret[static 256])
{
	bool bracket = *s == '[';

	s += bracket;
	size_t len = strcspn(s, bracket ? "]" : ":");
	if (!len || len > 255 || (bracket && s[len] != ']'))
		return false;
	memcpy(ret, s, len);
	ret[len] = '\0';
	return true;
}

/* "addr:port", "[v6]:port", ":port", "port". */
static bool split_listen(const char *s, char host[static 256], char port[static 16])
{
	const char *colon = strrchr(s, ':');
	const char *number = colon ? colon + 1 : s;

	if (*s == '[' && colon && colon[-1] != ']')
		return false;
	snprintf(port, 16, "%s", *number ? number : LISTEN_PORT);
	host[0] = '\0';
	if (strspn(port, "0123456789") != strlen(port) || strlen(number) > 5 ||
	    strtoul(port, NULL, 10) > UINT16_MAX)
		return false;
	if (!colon)
		snprintf(host, 256, "127.0.0.1");
	else if (colon > s)
		return listen_split_host(s, host);
	return true;
}

static bool is_loopback(const struct sockaddr *a)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
	uint32_t v4 = ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr);

	if (a->sa_family == AF_INET)
		return v4 >> 24 == IN_LOOPBACKNET;
	return a->sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(v6) ||
		(IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET));
}

bool listen_is_valid(const char *listen)
{
	char host[256], port[16];

	return split_listen(listen, host, port);
}

bool listen_is_loopback(const char *listen)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found;
	char host[256], port[16];

	if (!split_listen(listen, host, port) ||
	    getaddrinfo(*host ? host : NULL, port, &hints, &found) != 0)
		return false;
	bool yes = is_loopback(found->ai_addr);
	freeaddrinfo(found);
	return yes;
}

char *listen_url(const char *listen, bool tls)
{
	char given[256], port[16];

	if (!split_listen(listen, given, port))
		return mem_strdup("");
	const char *host = strcmp(given, "::") == 0                   ? "::1"
			   : !*given || strcmp(given, "0.0.0.0") == 0 ? "127.0.0.1"
								      : given;
	bool is_v6 = strchr(host, ':');
	return mem_printf("http%s://%s%s%s:%s", tls ? "s" : "", is_v6 ? "[" : "", host,
			  is_v6 ? "]" : "", port);
}

void listen_address(int fd, char ret[static LISTEN_ADDRESS])
{
	struct sockaddr_storage a;
	socklen_t len = sizeof(a);
	char host[64], port[16];

	ret[0] = '\0';
	if (getsockname(fd, (struct sockaddr *)&a, &len) != 0 ||
	    getnameinfo((struct sockaddr *)&a, len, host, sizeof(host), port, sizeof(port),
			NI_NUMERICHOST | NI_NUMERICSERV) != 0)
		return;
	snprintf(ret, LISTEN_ADDRESS, strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
}

static int fail(int err, const char *why, const char **ret_why)
{
	*ret_why = why;
	return err;
}

int listen_open(const char *address, bool may_be_public, int *ret_fd, bool *ret_public,
		const char **ret_why)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
				 .ai_flags = AI_PASSIVE | AI_NUMERICSERV},
			*found;
	char host[256], port[16];

	if (!split_listen(address, host, port))
		return fail(-EINVAL, "it should be ADDRESS:PORT, with a port up to 65535", ret_why);
	int r = getaddrinfo(*host ? host : NULL, port, &hints, &found);
	if (r)
		return fail(-EINVAL, gai_strerror(r), ret_why);
	bool is_public = !is_loopback(found->ai_addr);
	if (is_public && !may_be_public) {
		freeaddrinfo(found);
		return fail(-EACCES,
			    "other machines could read this one's profiles there; require a token "
			    "(--token-file FILE), or listen on 127.0.0.1",
			    ret_why);
	}

	CLEANUP(fd_closep)
	int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1;
	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, BACKLOG) != 0)
		r = -errno;
	freeaddrinfo(found);
	if (r)
		return fail(r, strerror(-r), ret_why);
	*ret_fd = TAKE_FD(fd);
	*ret_public = is_public;
	return 0;
}

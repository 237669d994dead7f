#include "serve/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/mem.h"

#define OVERFLOW_UID 65534 /* a user that this namespace has no number for */

/* States in which a process has the socket; TIME_WAIT and LISTEN are not. */
#define OPEN_STATES                                                                                \
	(1u << TCP_ESTABLISHED | 1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2 | 1u << TCP_CLOSE_WAIT)

static bool knows_all_users(void)
{
	CLEANUP(freep) char *text = NULL;
	unsigned long long inside, outside, count;

	if (file_read("/proc/self/uid_map", 4096, &text, NULL) != 0)
		return false;
	return sscanf(text, "%llu %llu %llu", &inside, &outside, &count) == 3 && inside == 0 &&
	       outside == 0 && count >= UINT32_MAX;
}

void peer_init(struct peer *p)
{
	*p = (struct peer){
		.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK,
			     NETLINK_SOCK_DIAG),
		.is_partial = !knows_all_users(),
	};
}

void peer_done(struct peer *p)
{
	fd_closep(&p->fd);
	p->fd = -1;
}

/* An address and port of either family, as the kernel's request has them: IPv4 in its own form. */
struct end {
	int family;
	uint32_t address[4];
	uint16_t port; /* as on the wire */
};

static bool end_of(const struct sockaddr_storage *from, struct end *ret)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;

	*ret = (struct end){.family = from->ss_family};
	if (from->ss_family == AF_INET) {
		ret->address[0] = v4->sin_addr.s_addr;
		ret->port = v4->sin_port;
		return true;
	}
	if (from->ss_family != AF_INET6)
		return false;
	memcpy(ret->address, &v6->sin6_addr, sizeof(ret->address));
	ret->port = v6->sin6_port;
	if (IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr)) {
		uint32_t plain = ret->address[3];
		*ret = (struct end){.family = AF_INET, .address = {plain}, .port = v6->sin6_port};
	}
	return true;
}

/* A socket of IPv6 that speaks IPv4 tells its addresses in the mapped form. */
static bool is_end(const struct end *want, int family, const __be32 address[4], __be16 port)
{
	struct sockaddr_storage s = {.ss_family = (sa_family_t)family};
	struct end have;

	if (family == AF_INET) {
		((struct sockaddr_in *)&s)->sin_addr.s_addr = address[0];
		((struct sockaddr_in *)&s)->sin_port = port;
	} else {
		memcpy(&((struct sockaddr_in6 *)&s)->sin6_addr, address, 16);
		((struct sockaddr_in6 *)&s)->sin6_port = port;
	}
	return end_of(&s, &have) && have.family == want->family && have.port == want->port &&
	       memcmp(have.address, want->address, sizeof(have.address)) == 0;
}

static int ask(struct peer *p, const struct end *far, const struct end *near)
{
	struct {
		struct nlmsghdr head;
		struct inet_diag_req_v2 ask;
	} message = {
		.head = {.nlmsg_len = sizeof(message),
			 .nlmsg_type = SOCK_DIAG_BY_FAMILY,
			 .nlmsg_flags = NLM_F_REQUEST,
			 .nlmsg_seq = ++p->sequence},
		.ask = {.sdiag_family = (uint8_t)far->family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_states = OPEN_STATES,
			.id = {.idiag_sport = far->port,
			       .idiag_dport = near->port,
			       .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
	};

	memcpy(message.ask.id.idiag_src, far->address, sizeof(far->address));
	memcpy(message.ask.id.idiag_dst, near->address, sizeof(near->address));
	return send(p->fd, &message, sizeof(message), 0) < 0 ? -errno : 0;
}

/* One answer: 0, or what the kernel said, or -EAGAIN when it is not to this question. */
static int read_answer(struct peer *p, const struct end *far, const struct end *near, uid_t *ret)
{
	_Alignas(struct nlmsghdr) char bytes[8192];
	const struct nlmsghdr *head = (const struct nlmsghdr *)bytes;
	const struct inet_diag_msg *m = NLMSG_DATA(head);
	const struct nlmsgerr *err = NLMSG_DATA(head);

	ssize_t n = recv(p->fd, bytes, sizeof(bytes), 0);
	if (n < 0)
		return errno == EAGAIN ? -EIO : -errno;
	if (!NLMSG_OK(head, (size_t)n))
		return -EIO;
	if (head->nlmsg_seq != p->sequence)
		return -EAGAIN;
	if (head->nlmsg_type == NLMSG_ERROR && head->nlmsg_len >= NLMSG_LENGTH(sizeof(*err)))
		return err->error ? err->error : -EIO;
	if (head->nlmsg_type != SOCK_DIAG_BY_FAMILY || head->nlmsg_len < NLMSG_LENGTH(sizeof(*m)))
		return -EIO;
	/* Where there is no such connection the kernel may answer with who listens on the port. */
	if (!(1u << m->idiag_state & OPEN_STATES) || !m->idiag_inode ||
	    !is_end(far, m->idiag_family, m->id.idiag_src, m->id.idiag_sport) ||
	    !is_end(near, m->idiag_family, m->id.idiag_dst, m->id.idiag_dport))
		return -ENOENT;
	*ret = m->idiag_uid;
	return 0;
}

int peer_owner(struct peer *p, int connection, uid_t *ret)
{
	struct sockaddr_storage a = {}, b = {};
	socklen_t a_len = sizeof(a), b_len = sizeof(b);
	struct end far, near;
	uid_t owner = OVERFLOW_UID;

	if (p->fd < 0)
		return -EOPNOTSUPP;
	if (getpeername(connection, (struct sockaddr *)&a, &a_len) != 0 ||
	    getsockname(connection, (struct sockaddr *)&b, &b_len) != 0)
		return errno == ENOTCONN ? -ENOENT : -errno;
	if (!end_of(&a, &far) || !end_of(&b, &near) || far.family != near.family)
		return -ENOENT;
	int r = ask(p, &far, &near);
	if (r)
		return r;
	do
		r = read_answer(p, &far, &near, &owner);
	while (r == -EAGAIN);
	if (!r && p->is_partial && owner == OVERFLOW_UID)
		r = -ENOENT;
	if (!r)
		*ret = owner;
	return r;
}

int peer_check(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(a);
	struct peer p;
	uid_t owner = OVERFLOW_UID;

	CLEANUP(fd_closep) int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP(fd_closep) int far = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CLEANUP(fd_closep) int near = -1;
	if (listener < 0 || far < 0 || bind(listener, (struct sockaddr *)&a, len) != 0 ||
	    listen(listener, 1) != 0 || getsockname(listener, (struct sockaddr *)&a, &len) != 0 ||
	    connect(far, (struct sockaddr *)&a, len) != 0 ||
	    (near = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) < 0)
		return -errno;
	peer_init(&p);
	int r = peer_owner(&p, near, &owner);
	peer_done(&p);
	return r ? r : owner == geteuid() ? 0 : -EIO;
}

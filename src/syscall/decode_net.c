/* Arguments of calls about sockets. */
#include "syscall/decode_internal.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/mem.h"
#include "syscall/errors.h"

/* AF_UNIX, AF_INET, …: PF_ and AF_ are the same numbers. */
static const struct named families[] = {
	NAMED(AF_UNSPEC),
	NAMED(AF_UNIX),
	NAMED(AF_INET),
	NAMED(AF_INET6),
	NAMED(AF_NETLINK),
	NAMED(AF_PACKET),
	NAMED(AF_VSOCK),
	NAMED(AF_BLUETOOTH),
	NAMED(AF_ALG),
	{AF_XDP, "AF_XDP"},
	{},
};

static const struct named protocols[] = {
	NAMED(IPPROTO_IP),     NAMED(IPPROTO_ICMP), NAMED(IPPROTO_TCP),
	NAMED(IPPROTO_UDP),    NAMED(IPPROTO_IPV6), NAMED(IPPROTO_RAW),
	NAMED(IPPROTO_ICMPV6), NAMED(IPPROTO_SCTP), {},
};

void print_family(struct decoding *d, unsigned arg)
{
	text_name(d->out, families, (uint32_t)decoding_value(d, arg), "AF_");
}

static const struct named socket_flags[] = {NAMED(SOCK_CLOEXEC), NAMED(SOCK_NONBLOCK), {}};

void print_accept_flags(struct decoding *d, unsigned arg)
{
	text_flags(d->out, socket_flags, (uint32_t)decoding_value(d, arg), "SOCK_");
}

void print_socket_type(struct decoding *d, unsigned arg)
{
	static const struct named types[] = {NAMED(SOCK_STREAM),
					     NAMED(SOCK_DGRAM),
					     NAMED(SOCK_RAW),
					     NAMED(SOCK_RDM),
					     NAMED(SOCK_SEQPACKET),
					     NAMED(SOCK_PACKET),
					     {}};
	uint64_t v = (uint32_t)decoding_value(d, arg), flags = v & ~0xfull;

	text_name(d->out, types, v & 0xf, "SOCK_");
	if (flags) {
		text_add(d->out, "|");
		text_flags(d->out, socket_flags, flags, "SOCK_");
	}
}

void print_protocol(struct decoding *d, unsigned arg)
{
	static const struct named netlink[] = {NAMED(NETLINK_ROUTE),
					       NAMED(NETLINK_SOCK_DIAG),
					       NAMED(NETLINK_AUDIT),
					       NAMED(NETLINK_KOBJECT_UEVENT),
					       NAMED(NETLINK_GENERIC),
					       NAMED(NETLINK_NETFILTER),
					       {}};
	static const struct named ethernet[] = {NAMED(ETH_P_ALL),  NAMED(ETH_P_IP),
						NAMED(ETH_P_ARP),  NAMED(ETH_P_IPV6),
						NAMED(ETH_P_LLDP), {}};
	uint64_t v = (uint32_t)decoding_value(d, arg);

	switch (decoding_value(d, 0)) {
	case AF_PACKET:
		text_add(d->out, "htons(");
		text_name(d->out, ethernet, ntohs((uint16_t)v), "ETH_P_");
		text_add(d->out, ")");
		break;
	case AF_INET:
	case AF_INET6:
		text_name(d->out, protocols, v, "IPPROTO_");
		break;
	case AF_NETLINK:
		text_name(d->out, netlink, v, "NETLINK_");
		break;
	default:
		text_unsigned(d->out, v);
	}
}

/* ---- addresses ---- */

static void print_unix_address(struct decode_text *t, const struct sockaddr_un *a, size_t bytes)
{
	size_t room = bytes - offsetof(struct sockaddr_un, sun_path);
	const char *path = a->sun_path;

	if (!room) {
		text_add(t, "}");
		return;
	}
	text_add(t, ", sun_path=");
	if (*path) {
		text_quote(t, path, strnlen(path, room), 0);
	} else { /* abstract: any bytes, after a NUL */
		text_add(t, "@");
		text_quote(t, path + 1, room - 1, 0);
	}
	text_add(t, "}");
}

static void print_inet6_address(struct decode_text *t, const struct sockaddr_in6 *a)
{
	char text[INET6_ADDRSTRLEN];

	inet_ntop(AF_INET6, &a->sin6_addr, text, sizeof(text));
	text_addf(t,
		  ", sin6_port=htons(%u), sin6_flowinfo=htonl(%u), inet_pton(AF_INET6, \"%s\", "
		  "&sin6_addr), sin6_scope_id=%u}",
		  ntohs(a->sin6_port), ntohl(a->sin6_flowinfo), text, a->sin6_scope_id);
}

static void print_sockaddr_value(struct decode_text *t, const void *address, size_t bytes)
{
	const struct sockaddr *a = address;
	char text[INET_ADDRSTRLEN];

	text_add(t, "{sa_family=");
	text_name(t, families, a->sa_family, "AF_");
	if (a->sa_family == AF_UNIX) {
		print_unix_address(t, address, bytes);
	} else if (a->sa_family == AF_INET && bytes >= sizeof(struct sockaddr_in)) {
		const struct sockaddr_in *in = address;
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		text_addf(t, ", sin_port=htons(%u), sin_addr=inet_addr(\"%s\")}",
			  ntohs(in->sin_port), text);
	} else if (a->sa_family == AF_INET6 && bytes >= sizeof(struct sockaddr_in6)) {
		print_inet6_address(t, address);
	} else if (a->sa_family == AF_NETLINK && bytes >= sizeof(struct sockaddr_nl)) {
		const struct sockaddr_nl *nl = address;
		text_addf(t, ", nl_pid=%d, nl_groups=%#08x}", (int)nl->nl_pid, nl->nl_groups);
	} else {
		text_add(t, ", sa_data=");
		text_quote(t, a->sa_data, bytes - sizeof(a->sa_family), 0);
		text_add(t, "}");
	}
}

static void print_sockaddr(struct decoding *d, unsigned arg, uint64_t whole)
{
	size_t bytes = 0;
	const void *address = decoding_part(d, arg, TRACE_MAIN, false, sizeof(sa_family_t), &bytes);

	if (address)
		print_sockaddr_value(d->out, address, MIN(bytes, whole));
	else
		print_address(d, arg);
}

void print_sockaddr_in(struct decoding *d, unsigned arg)
{
	uint64_t whole = decoding_value(d, arg + 1);

	print_sockaddr(d, arg, whole < sizeof(sa_family_t) ? sizeof(sa_family_t) : whole);
}

/* How long the kernel says it is, and no longer than there was room. */
void print_sockaddr_out(struct decoding *d, unsigned arg)
{
	const uint32_t *room = decoding_part(d, arg + 1, TRACE_MAIN, true, 4, NULL);
	const uint32_t *whole = decoding_chunk(d, arg + 1, 4);

	if (!room || !whole || decode_failure(d->r))
		print_address(d, arg);
	else
		print_sockaddr(d, arg, MAX(MIN(*room, *whole), sizeof(sa_family_t)));
}

void print_socklen(struct decoding *d, unsigned arg)
{
	const int *before = decoding_part(d, arg, TRACE_MAIN, true, 4, NULL);
	const int *after = decoding_chunk(d, arg, 4);

	if (!before)
		print_address(d, arg);
	else if (!after || *after == *before || decode_failure(d->r))
		text_addf(d->out, "[%d]", *before);
	else
		text_addf(d->out, "[%d => %d]", *before, *after);
}

void print_socket_pair(struct decoding *d, unsigned arg)
{
	print_pipe(d, arg);
}

/* ---- messages ---- */

static const struct named message_flags[] = {
	NAMED(MSG_OOB),        NAMED(MSG_PEEK),     NAMED(MSG_DONTROUTE),    NAMED(MSG_CTRUNC),
	NAMED(MSG_PROXY),      NAMED(MSG_TRUNC),    NAMED(MSG_DONTWAIT),     NAMED(MSG_EOR),
	NAMED(MSG_WAITALL),    NAMED(MSG_FIN),      NAMED(MSG_SYN),          NAMED(MSG_CONFIRM),
	NAMED(MSG_RST),        NAMED(MSG_ERRQUEUE), NAMED(MSG_NOSIGNAL),     NAMED(MSG_MORE),
	NAMED(MSG_WAITFORONE), NAMED(MSG_FASTOPEN), NAMED(MSG_CMSG_CLOEXEC), {},
};

void print_message_flags(struct decoding *d, unsigned arg)
{
	text_flags(d->out, message_flags, (uint32_t)decoding_value(d, arg), "MSG_");
}

static void print_control(struct decoding *d, const struct cmsghdr *c, size_t len)
{
	static const struct named kinds[] = {{1, "SCM_RIGHTS"}, {2, "SCM_CREDENTIALS"}, {}};
	const unsigned char *data = CMSG_DATA(c);
	size_t bytes = len - sizeof(*c);
	int32_t v[3];

	text_addf(d->out, "{cmsg_len=%zu, cmsg_level=", (size_t)c->cmsg_len);
	if (c->cmsg_level != SOL_SOCKET) {
		text_addf(d->out, "%d, cmsg_type=%d}", c->cmsg_level, c->cmsg_type);
		return;
	}
	text_add(d->out, "SOL_SOCKET, cmsg_type=");
	text_name(d->out, kinds, (uint64_t)c->cmsg_type, "SCM_");
	if (c->cmsg_type == 1) {
		for (size_t i = 0; i + sizeof(*v) <= bytes; i += sizeof(*v)) {
			memcpy(v, data + i, sizeof(*v));
			text_add(d->out, i ? ", " : ", cmsg_data=[");
			text_int(d->out, v[0]);
		}
		text_add(d->out, "]");
	} else if (c->cmsg_type == 2 && bytes >= sizeof(v)) {
		memcpy(v, data, sizeof(v));
		text_addf(d->out, ", cmsg_data={pid=%d, uid=%u, gid=%u}", v[0], (unsigned)v[1],
			  (unsigned)v[2]);
	}
	text_add(d->out, "}");
}

static void print_controls(struct decoding *d, unsigned arg, const struct msghdr *m)
{
	size_t bytes = 0;
	const uint8_t *at = decoding_part(d, arg, TRACE_CONTROL, false, 1, &bytes);

	bytes = MIN(bytes, m->msg_controllen);
	if (!at || !bytes)
		return;
	text_add(d->out, ", msg_control=[");
	for (const char *comma = ""; bytes >= sizeof(struct cmsghdr); comma = ", ") {
		const struct cmsghdr *c = (const void *)at;
		if (c->cmsg_len < sizeof(*c) || c->cmsg_len > bytes)
			break;
		text_add(d->out, comma);
		print_control(d, c, c->cmsg_len);
		size_t step = MIN(CMSG_ALIGN(c->cmsg_len), bytes);
		at += step;
		bytes -= step;
	}
	text_add(d->out, "]");
}

static void print_message_name(struct decoding *d, unsigned arg, const struct msghdr *m)
{
	const struct msghdr *before = decoding_part(d, arg, TRACE_MAIN, true, sizeof(*m), NULL);
	size_t bytes = 0;
	const void *name = decoding_part(d, arg, TRACE_NAME, false, sizeof(sa_family_t), &bytes);

	text_add(d->out, "{msg_name=");
	if (name && m->msg_namelen >= sizeof(sa_family_t))
		print_sockaddr_value(d->out, name, MIN(bytes, m->msg_namelen));
	else
		text_address(d->out, (uintptr_t)m->msg_name);
	if (before && before->msg_namelen != m->msg_namelen)
		text_addf(d->out, ", msg_namelen=%u => %u", before->msg_namelen, m->msg_namelen);
	else
		text_addf(d->out, ", msg_namelen=%u", m->msg_namelen);
}

static void print_message(struct decoding *d, unsigned arg, uint64_t filled)
{
	const struct msghdr *m = decoding_chunk(d, arg, sizeof(*m));

	if (!m) {
		print_address(d, arg);
		return;
	}
	print_message_name(d, arg, m);
	text_add(d->out, ", msg_iov=");
	if (decoding_part(d, arg, TRACE_VECTOR, false, sizeof(struct iovec), NULL))
		print_vector_value(d, arg, TRACE_VECTOR, m->msg_iovlen, filled);
	else
		text_address(d->out, (uintptr_t)m->msg_iov);
	text_addf(d->out, ", msg_iovlen=%zu", m->msg_iovlen);
	print_controls(d, arg, m);
	text_addf(d->out, ", msg_controllen=%zu, msg_flags=", m->msg_controllen);
	text_flags(d->out, message_flags, (uint32_t)m->msg_flags, "MSG_");
	text_add(d->out, "}");
}

void print_message_in(struct decoding *d, unsigned arg)
{
	print_message(d, arg, UINT64_MAX);
}

void print_message_out(struct decoding *d, unsigned arg)
{
	const struct msghdr *before =
		decoding_part(d, arg, TRACE_MAIN, true, sizeof(*before), NULL);

	if (!decode_failure(d->r))
		print_message(d, arg, (uint64_t)d->r->result);
	else if (before)
		text_addf(d->out, "{msg_namelen=%u}", before->msg_namelen);
	else
		print_address(d, arg);
}

void print_shutdown(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {NAMED(SHUT_RD), NAMED(SHUT_WR), NAMED(SHUT_RDWR), {}};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SHUT_");
}

/* ---- options ---- */

void print_socket_level(struct decoding *d, unsigned arg)
{
	static const struct named names[] = {
		NAMED(SOL_SOCKET),  NAMED(SOL_IP),
		NAMED(SOL_TCP),     {17, "SOL_UDP"},
		NAMED(SOL_IPV6),    NAMED(SOL_RAW),
		NAMED(SOL_ICMPV6),  NAMED(SOL_PACKET),
		NAMED(SOL_NETLINK), {},
	};

	text_name(d->out, names, (uint32_t)decoding_value(d, arg), "SOL_");
}

void print_socket_option(struct decoding *d, unsigned arg)
{
	static const struct named socket_options[] = {NAMED(SO_DEBUG),
						      NAMED(SO_REUSEADDR),
						      NAMED(SO_TYPE),
						      NAMED(SO_ERROR),
						      NAMED(SO_DONTROUTE),
						      NAMED(SO_BROADCAST),
						      NAMED(SO_SNDBUF),
						      NAMED(SO_RCVBUF),
						      NAMED(SO_KEEPALIVE),
						      NAMED(SO_OOBINLINE),
						      NAMED(SO_PRIORITY),
						      NAMED(SO_LINGER),
						      NAMED(SO_REUSEPORT),
						      NAMED(SO_PASSCRED),
						      NAMED(SO_PEERCRED),
						      NAMED(SO_RCVLOWAT),
						      NAMED(SO_SNDLOWAT),
						      {20, "SO_RCVTIMEO_OLD"},
						      {21, "SO_SNDTIMEO_OLD"},
						      NAMED(SO_BINDTODEVICE),
						      NAMED(SO_ATTACH_FILTER),
						      NAMED(SO_ACCEPTCONN),
						      NAMED(SO_PEERSEC),
						      NAMED(SO_SNDBUFFORCE),
						      NAMED(SO_RCVBUFFORCE),
						      NAMED(SO_MARK),
						      NAMED(SO_PROTOCOL),
						      NAMED(SO_DOMAIN),
						      NAMED(SO_INCOMING_CPU),
						      NAMED(SO_COOKIE),
						      {}};
	static const struct named tcp_options[] = {NAMED(TCP_NODELAY),
						   NAMED(TCP_MAXSEG),
						   NAMED(TCP_CORK),
						   NAMED(TCP_KEEPIDLE),
						   NAMED(TCP_KEEPINTVL),
						   NAMED(TCP_KEEPCNT),
						   NAMED(TCP_SYNCNT),
						   NAMED(TCP_LINGER2),
						   NAMED(TCP_DEFER_ACCEPT),
						   NAMED(TCP_WINDOW_CLAMP),
						   NAMED(TCP_INFO),
						   NAMED(TCP_QUICKACK),
						   NAMED(TCP_CONGESTION),
						   NAMED(TCP_USER_TIMEOUT),
						   NAMED(TCP_FASTOPEN),
						   NAMED(TCP_ULP),
						   {}};
	static const struct named ip_options[] = {NAMED(IP_TOS),
						  NAMED(IP_TTL),
						  NAMED(IP_PKTINFO),
						  NAMED(IP_MTU_DISCOVER),
						  NAMED(IP_RECVERR),
						  NAMED(IP_MTU),
						  NAMED(IP_FREEBIND),
						  NAMED(IP_TRANSPARENT),
						  NAMED(IP_ADD_MEMBERSHIP),
						  NAMED(IP_BIND_ADDRESS_NO_PORT),
						  {}};
	static const struct named ipv6_options[] = {NAMED(IPV6_V6ONLY),
						    NAMED(IPV6_RECVERR),
						    NAMED(IPV6_RECVPKTINFO),
						    NAMED(IPV6_UNICAST_HOPS),
						    NAMED(IPV6_TCLASS),
						    NAMED(IPV6_MTU),
						    {}};
	uint64_t v = (uint32_t)decoding_value(d, arg);

	switch ((uint32_t)decoding_value(d, arg - 1)) {
	case SOL_SOCKET:
		text_name(d->out, socket_options, v, "SO_");
		break;
	case SOL_TCP:
		text_name(d->out, tcp_options, v, "TCP_");
		break;
	case SOL_IP:
		text_name(d->out, ip_options, v, "IP_");
		break;
	case SOL_IPV6:
		text_name(d->out, ipv6_options, v, "IPV6_");
		break;
	default:
		text_hex(d->out, v);
	}
}

static void print_option(struct decoding *d, unsigned arg, uint64_t whole)
{
	size_t bytes = 0;
	const void *data = decoding_part(d, arg, TRACE_MAIN, false, 1, &bytes);
	uint64_t level = (uint32_t)decoding_value(d, 1), option = (uint32_t)decoding_value(d, 2);
	const int *v = data;

	bytes = MIN(bytes, whole);
	if (!data || !bytes)
		print_address(d, arg);
	else if (level == SOL_SOCKET && option == SO_LINGER && bytes >= 8)
		text_addf(d->out, "{l_onoff=%d, l_linger=%d}", v[0], v[1]);
	else if (level == SOL_SOCKET && option == SO_PEERCRED && bytes >= 12)
		text_addf(d->out, "{pid=%d, uid=%u, gid=%u}", v[0], (unsigned)v[1], (unsigned)v[2]);
	else if (bytes == 4)
		text_addf(d->out, "[%d]", v[0]);
	else
		text_buffer(d, data, bytes, whole, 0);
}

void print_option_in(struct decoding *d, unsigned arg)
{
	print_option(d, arg, (uint32_t)decoding_value(d, arg + 1));
}

/* An error that waits at the socket is told by its name. */
void print_option_out(struct decoding *d, unsigned arg)
{
	const uint32_t *whole = decoding_chunk(d, arg + 1, 4);
	const int *v = decoding_chunk(d, arg, 4);

	if (!whole || decode_failure(d->r)) {
		print_address(d, arg);
		return;
	}
	const char *name = v && *v > 0 ? syscall_error_name(*v) : NULL;
	if (decoding_value(d, 1) == SOL_SOCKET && decoding_value(d, 2) == SO_ERROR && name)
		text_addf(d->out, "[%s]", name);
	else
		print_option(d, arg, *whole);
}

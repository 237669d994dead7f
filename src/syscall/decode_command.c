/* fcntl and ioctl, whose arguments are what their command says. */
#include "syscall/decode_internal.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/sockios.h>

#include "base/mem.h"

struct window_size {
	unsigned short rows, columns, x, y;
};

struct lock { /* struct flock, of 64-bit programs */
	short type, whence;
	int64_t start, len;
	int pid;
};

/* linux/fcntl.h lacks those that depend on the processor; these are the same on all that we have.
 */
static const struct named commands[] = {
	NAMED(F_DUPFD),         NAMED(F_GETFD),
	NAMED(F_SETFD),         NAMED(F_GETFL),
	NAMED(F_SETFL),         NAMED(F_GETLK),
	NAMED(F_SETLK),         NAMED(F_SETLKW),
	NAMED(F_SETOWN),        NAMED(F_GETOWN),
	NAMED(F_SETSIG),        NAMED(F_GETSIG),
	NAMED(F_SETOWN_EX),     NAMED(F_GETOWN_EX),
	NAMED(F_OFD_GETLK),     NAMED(F_OFD_SETLK),
	NAMED(F_OFD_SETLKW),    NAMED(F_SETLEASE),
	NAMED(F_GETLEASE),      NAMED(F_NOTIFY),
	NAMED(F_DUPFD_CLOEXEC), NAMED(F_SETPIPE_SZ),
	NAMED(F_GETPIPE_SZ),    NAMED(F_ADD_SEALS),
	NAMED(F_GET_SEALS),     {},
};

static const struct named lock_types[] = {NAMED(F_RDLCK), NAMED(F_WRLCK), NAMED(F_UNLCK), {}};

static const struct named seals[] = {
	NAMED(F_SEAL_SEAL),  NAMED(F_SEAL_SHRINK),       NAMED(F_SEAL_GROW),
	NAMED(F_SEAL_WRITE), NAMED(F_SEAL_FUTURE_WRITE), {},
};

static const struct named fd_flags[] = {NAMED(FD_CLOEXEC), {}};

void print_fcntl_command(struct decoding *d, unsigned arg)
{
	text_name(d->out, commands, (uint32_t)decoding_value(d, arg), "F_");
}

static void print_lock(struct decoding *d, unsigned arg)
{
	static const struct named whences[] = {
		{0, "SEEK_SET"}, {1, "SEEK_CUR"}, {2, "SEEK_END"}, {}};
	const struct lock *l = decoding_chunk(d, arg, sizeof(*l));
	uint64_t command = (uint32_t)decoding_value(d, arg - 1);

	if (!l) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{l_type=");
	text_name(d->out, lock_types, (uint64_t)l->type, "F_");
	text_add(d->out, ", l_whence=");
	text_name(d->out, whences, (uint64_t)l->whence, "SEEK_");
	text_addf(d->out, ", l_start=%lld, l_len=%lld", (long long)l->start, (long long)l->len);
	if (command == F_GETLK || command == F_OFD_GETLK)
		text_addf(d->out, ", l_pid=%d", l->pid);
	text_add(d->out, "}");
}

static void print_owner(struct decoding *d, unsigned arg)
{
	static const struct named types[] = {
		NAMED(F_OWNER_TID), NAMED(F_OWNER_PID), NAMED(F_OWNER_PGRP), {}};
	const int *owner = decoding_chunk(d, arg, 2 * sizeof(*owner));

	if (!owner) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{type=");
	text_name(d->out, types, (uint32_t)owner[0], "F_OWNER_");
	text_addf(d->out, ", pid=%d}", owner[1]);
}

void print_fcntl_arg(struct decoding *d, unsigned arg)
{
	uint64_t v = decoding_value(d, arg);

	switch ((uint32_t)decoding_value(d, arg - 1)) {
	case F_GETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_GETSIG:
	case F_GETLEASE:
	case F_GETPIPE_SZ:
	case F_GET_SEALS:
		break; /* none */
	case F_SETFD:
		text_flags(d->out, fd_flags, (uint32_t)v, "FD_");
		break;
	case F_SETFL:
		print_open_flags_value(d->out, (uint32_t)v);
		break;
	case F_SETLEASE:
		text_name(d->out, lock_types, v, "F_");
		break;
	case F_ADD_SEALS:
		text_flags(d->out, seals, (uint32_t)v, "F_SEAL_");
		break;
	case F_SETOWN_EX:
	case F_GETOWN_EX:
		print_owner(d, arg);
		break;
	case F_SETSIG:
		print_signal_value(d->out, (unsigned)v);
		break;
	case F_SETLK:
	case F_SETLKW:
	case F_GETLK:
	case F_OFD_GETLK:
	case F_OFD_SETLK:
	case F_OFD_SETLKW:
		print_lock(d, arg);
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_SETOWN:
	case F_SETPIPE_SZ:
		text_int(d->out, (int)v);
		break;
	default:
		text_hex(d->out, v);
	}
}

void print_fcntl_result(struct decoding *d)
{
	uint64_t v = (uint64_t)d->r->result;

	switch ((uint32_t)decoding_value(d, 1)) {
	case F_GETFD:
		text_hex(d->out, v);
		if (v) {
			text_add(d->out, " (flags ");
			text_flags(d->out, fd_flags, v, "FD_");
			text_add(d->out, ")");
		}
		break;
	case F_GET_SEALS:
		text_hex(d->out, v);
		if (v) {
			text_add(d->out, " (seals ");
			text_flags(d->out, seals, v, "F_SEAL_");
			text_add(d->out, ")");
		}
		break;
	case F_GETLEASE:
		text_hex(d->out, v);
		text_addf(d->out, " (%s)", named_find(lock_types, v) ?: "F_???");
		break;
	case F_GETFL:
		text_hex(d->out, v);
		text_add(d->out, " (flags ");
		print_open_flags_value(d->out, v);
		text_add(d->out, ")");
		break;
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		print_fd_of(d, (int)v, TRACE_RESULT_FD);
		break;
	default:
		text_int(d->out, d->r->result);
	}
}

/* ---- ioctl ---- */

static const struct named requests[] = {
	NAMED(TCGETS),
	{TCSETS, "SNDCTL_TMR_START or TCSETS"},
	NAMED(TCSETSW),
	NAMED(TCSETSF),
	NAMED(TCFLSH),
	NAMED(TIOCGWINSZ),
	NAMED(TIOCSWINSZ),
	NAMED(TIOCGPGRP),
	NAMED(TIOCSPGRP),
	NAMED(TIOCSCTTY),
	NAMED(TIOCGPTN),
	NAMED(TIOCSPTLCK),
	NAMED(TIOCNOTTY),
	NAMED(TIOCGSID),
	NAMED(TIOCGPTPEER),
	NAMED(FIONBIO),
	NAMED(FIONREAD),
	NAMED(FIOCLEX),
	NAMED(FIONCLEX),
	NAMED(FIOASYNC),
	NAMED(SIOCGIFNAME),
	NAMED(SIOCGIFINDEX),
	NAMED(SIOCGIFCONF),
	NAMED(SIOCGIFADDR),
	NAMED(FS_IOC_GETFLAGS),
	NAMED(FS_IOC_SETFLAGS),
	NAMED(FICLONE),
	NAMED(FICLONERANGE),
	NAMED(BLKGETSIZE64),
	NAMED(SIOCOUTQ),
	{},
};

void print_ioctl_command(struct decoding *d, unsigned arg)
{
	static const struct named directions[] = {{0, "_IOC_NONE"},
						  {1, "_IOC_WRITE"},
						  {2, "_IOC_READ"},
						  {3, "_IOC_READ|_IOC_WRITE"},
						  {}};
	uint32_t v = (uint32_t)decoding_value(d, arg);
	const char *name = named_find(requests, v);

	/* 5413 is the number of several: the rest tells which, where there is one. */
	if (name)
		text_add(d->out, name);
	else
		text_addf(d->out, "_IOC(%s, %#x, %#x, %#x)", named_find(directions, v >> 30),
			  v >> 8 & 0xff, v & 0xff, v >> 16 & 0x3fff);
}

/* One of the values of a field of several bits, then the flags. */
static uint64_t print_choice(struct decode_text *t, const struct named *names, uint64_t v,
			     uint64_t mask)
{
	const char *name = named_find(names, v & mask);

	if (name)
		text_addf(t, "%s|", name);
	return v & ~mask;
}

static void print_output_modes(struct decode_text *t, uint64_t v)
{
	static const struct named nl[] = {NAMED(NL0), NAMED(NL1), {}};
	static const struct named cr[] = {NAMED(CR0), NAMED(CR1), NAMED(CR2), NAMED(CR3), {}};
	static const struct named tab[] = {NAMED(TAB0), NAMED(TAB1), NAMED(TAB2), NAMED(TAB3), {}};
	static const struct named bs[] = {NAMED(BS0), NAMED(BS1), {}};
	static const struct named vt[] = {NAMED(VT0), NAMED(VT1), {}};
	static const struct named ff[] = {NAMED(FF0), NAMED(FF1), {}};
	static const struct named flags[] = {NAMED(OPOST), NAMED(OLCUC), NAMED(ONLCR),
					     NAMED(OCRNL), NAMED(ONOCR), NAMED(ONLRET),
					     NAMED(OFILL), NAMED(OFDEL), {}};

	v = print_choice(t, nl, v, NLDLY);
	v = print_choice(t, cr, v, CRDLY);
	v = print_choice(t, tab, v, TABDLY);
	v = print_choice(t, bs, v, BSDLY);
	v = print_choice(t, vt, v, VTDLY);
	v = print_choice(t, ff, v, FFDLY);
	if (v)
		text_flags(t, flags, v, NULL);
	else
		t->len -= t->len && t->bytes[t->len - 1] == '|';
}

static void print_terminal(struct decoding *d, unsigned arg)
{
	static const struct named input[] = {
		NAMED(IGNBRK), NAMED(BRKINT),  NAMED(IGNPAR), NAMED(PARMRK),
		NAMED(INPCK),  NAMED(ISTRIP),  NAMED(INLCR),  NAMED(IGNCR),
		NAMED(ICRNL),  NAMED(IUCLC),   NAMED(IXON),   NAMED(IXANY),
		NAMED(IXOFF),  NAMED(IMAXBEL), NAMED(IUTF8),  {}};
	static const struct named speeds[] = {NAMED(B0),     NAMED(B300),    NAMED(B1200),
					      NAMED(B9600),  NAMED(B19200),  NAMED(B38400),
					      NAMED(B57600), NAMED(B115200), {}};
	static const struct named sizes[] = {NAMED(CS5), NAMED(CS6), NAMED(CS7), NAMED(CS8), {}};
	static const struct named control[] = {
		NAMED(CSTOPB), NAMED(CREAD),  NAMED(PARENB),  NAMED(PARODD),
		NAMED(HUPCL),  NAMED(CLOCAL), NAMED(CRTSCTS), {}};
	static const struct named local[] = {
		NAMED(ISIG),   NAMED(ICANON),  NAMED(XCASE),   NAMED(ECHO),
		NAMED(ECHOE),  NAMED(ECHOK),   NAMED(ECHONL),  NAMED(NOFLSH),
		NAMED(IEXTEN), NAMED(ECHOCTL), NAMED(ECHOPRT), NAMED(ECHOKE),
		NAMED(FLUSHO), NAMED(PENDIN),  NAMED(TOSTOP),  {}};
	const struct termios *t = decoding_chunk(d, arg, sizeof(*t));

	if (!t) {
		print_address(d, arg);
		return;
	}
	text_add(d->out, "{c_iflag=");
	text_flags(d->out, input, t->c_iflag, NULL);
	text_add(d->out, ", c_oflag=");
	print_output_modes(d->out, t->c_oflag);
	text_add(d->out, ", c_cflag=");
	uint64_t rest = print_choice(d->out, speeds, t->c_cflag, CBAUD);
	text_flags(d->out, control, print_choice(d->out, sizes, rest, CSIZE), NULL);
	text_add(d->out, ", c_lflag=");
	text_flags(d->out, local, t->c_lflag, NULL);
	text_add(d->out, ", ...}");
}

static void print_window_size(struct decoding *d, unsigned arg)
{
	const struct window_size *w = decoding_chunk(d, arg, sizeof(*w));

	if (w)
		text_addf(d->out, "{ws_row=%u, ws_col=%u, ws_xpixel=%u, ws_ypixel=%u}", w->rows,
			  w->columns, w->x, w->y);
	else
		print_address(d, arg);
}

static void print_int_behind(struct decoding *d, unsigned arg)
{
	const int *v = decoding_chunk(d, arg, sizeof(*v));

	if (v)
		text_addf(d->out, "[%d]", *v);
	else
		print_address(d, arg);
}

void print_ioctl_arg(struct decoding *d, unsigned arg)
{
	bool failed = decode_failure(d->r) != 0;

	switch ((uint32_t)decoding_value(d, arg - 1)) {
	case FIOCLEX:
	case FIONCLEX:
	case TIOCNOTTY:
		break; /* none */
	case TCSETS:
	case TCSETSW:
	case TCSETSF:
		print_terminal(d, arg);
		break;
	case TIOCSWINSZ:
		print_window_size(d, arg);
		break;
	case FIONBIO:
	case FIOASYNC:
	case TIOCSPGRP:
	case TIOCSPTLCK:
		print_int_behind(d, arg);
		break;
	case TCGETS:
		failed ? print_address(d, arg) : print_terminal(d, arg);
		break;
	case TIOCGWINSZ:
		failed ? print_address(d, arg) : print_window_size(d, arg);
		break;
	case FIONREAD:
	case TIOCGPGRP:
	case TIOCGPTN:
	case TIOCGSID:
		failed ? print_address(d, arg) : print_int_behind(d, arg);
		break;
	case FICLONE:
	case TIOCSCTTY:
	case TCFLSH:
		print_int(d, arg);
		break;
	default:
		print_hex(d, arg);
	}
}

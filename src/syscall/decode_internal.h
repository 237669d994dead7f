/*
 * decode_internal: what the files that write kinds of arguments share.
 *
 * A printer writes argument `arg` of the call that is being decoded. It finds what was captured of
 * it by decoding_chunk(), which returns NULL unless enough bytes are there.
 */
#pragma once

#include "syscall/decode.h"

struct decoding {
	const struct trace_record *r;
	const struct decode_call *call;
	const struct decode_options *o;
	struct decode_text *out;
};

typedef void decode_printer(struct decoding *d, unsigned arg);

/* ---- what was captured ---- */

/* At least `min` bytes of a part; *ret_bytes, if not NULL: how many. Borrowed, aligned to 8. */
const void *decoding_part(const struct decoding *d, unsigned arg, unsigned part, bool at_entry,
			  size_t min, size_t *ret_bytes);

/* The main part, as it was at exit. */
static inline const void *decoding_chunk(const struct decoding *d, unsigned arg, size_t min)
{
	return decoding_part(d, arg, TRACE_MAIN, false, min, NULL);
}

static inline uint64_t decoding_value(const struct decoding *d, unsigned arg)
{
	return d->r->args[arg];
}

/* The path of the descriptor in an argument, or of TRACE_RESULT_FD; false: it was not captured. */
#define DECODE_PATH 8192
bool decoding_file(const struct decoding *d, unsigned arg, char ret[static DECODE_PATH]);

/* ---- text ---- */

struct named { /* ends with a NULL name */
	uint64_t value;
	const char *name;
};

#define NAMED(x)                                                                                   \
	{                                                                                          \
		(uint64_t)(x), #x                                                                  \
	}

void text_add(struct decode_text *t, const char *s);
void text_add_bytes(struct decode_text *t, const char *s, size_t len);
__attribute__((format(printf, 2, 3))) void text_addf(struct decode_text *t, const char *fmt, ...);
void text_int(struct decode_text *t, int64_t v);
void text_unsigned(struct decode_text *t, uint64_t v);
void text_hex(struct decode_text *t, uint64_t v);     /* 0x1f */
void text_address(struct decode_text *t, uint64_t v); /* the same, or NULL */
void text_octal(struct decode_text *t, uint64_t v);   /* 0644 */

/* "A|B|0x10"; where nothing is known, with the comment A_??? if `unknown` is "A_", not NULL. */
void text_flags(struct decode_text *t, const struct named *names, uint64_t v, const char *unknown);

/* One name, or the number with a comment. */
void text_name(struct decode_text *t, const struct named *names, uint64_t v, const char *unknown);
const char *named_find(const struct named *names, uint64_t v); /* or NULL */

enum { QUOTE_HEX = 1, QUOTE_CUT = 2 };
/* In double quotes, what is not printable as \n or octal; QUOTE_CUT: then "...". */
void text_quote(struct decode_text *t, const void *bytes, size_t len, unsigned flags);

/* At most string_max of `whole` bytes, of which `have` are there. */
void text_buffer(const struct decoding *d, const void *bytes, size_t have, uint64_t whole,
		 unsigned flags);

/* ---- printers that other files build on ---- */

/* An iovec that is a part of an argument, and as much of its buffers as is filled. */
void print_vector_value(struct decoding *d, unsigned arg, unsigned part, uint64_t count,
			uint64_t filled);
void print_fd_value(struct decoding *d, int fd);
void print_fd_of(struct decoding *d, int fd, unsigned arg); /* with its path */
void print_signal_value(struct decode_text *t, unsigned signal);
void print_sigset_value(struct decode_text *t, uint64_t set);
void print_mode_value(struct decode_text *t, uint64_t mode); /* S_IFREG|0644 */
void print_open_flags_value(struct decode_text *t, uint64_t flags);
void print_timespec_value(struct decode_text *t, const void *timespec); /* {tv_sec=…} */
void print_fcntl_result(struct decoding *d);
void print_ready_result(struct decoding *d); /* poll, select: " ([{fd=3, revents=POLLIN}])" */

/* ---- the printers, by file ---- */

/* clang-format off */
#define PRINTERS(X) \
	X(int) X(uint) X(long) X(address) X(size) X(hex) X(octal) X(fd) X(dirfd) X(path) \
	X(buffer_in) X(buffer_out) X(random_out) X(vector_in) X(vector_out) X(text_out) \
	X(name_in) \
	X(open_flags) X(open_mode) X(stat) X(at_flags) X(access) X(whence) X(pipe) \
	X(dup_flags) X(pipe_flags) \
	X(fcntl_command) X(fcntl_arg) X(ioctl_command) X(ioctl_arg) \
	X(dirents) X(statfs) X(flock) X(statx_flags) X(statx_mask) X(statx) \
	X(unlink_flags) X(rename_flags) X(advice_file) X(offset_pointer) X(offset_in) \
	X(access_flags) X(fallocate_flags) X(memfd_flags) \
	X(xattr_out) \
	X(xattr_flags) X(timespecs) X(link_flags) \
	X(prot) X(map_flags) X(map_offset) X(advice) X(mremap_flags) X(msync_flags) \
	X(rseq_flags) X(brk) X(mremap_to) X(pkey_rights) \
	X(shm_key) X(shm_flags) X(shm_command) X(shmat_flags) \
	X(family) X(socket_type) X(protocol) X(sockaddr_in) X(sockaddr_out) X(socklen) \
	X(message_flags) X(message_in) X(message_out) X(shutdown) X(socket_level) \
	X(socket_option) X(option_in) X(option_out) X(accept_flags) X(socket_pair) \
	X(pollfds) X(timeout) X(fdset) X(timeval_in) X(timespec_in) X(timespec_rest) \
	X(epoll_operation) X(epoll_event) X(epoll_events) X(epoll_flags) \
	X(sigmask_in) X(sigmask_entry) X(sigmask_out) X(sigmask_pair) \
	X(clock) X(clock_flags) X(timespec_out) X(eventfd_flags) X(signalfd_flags) \
	X(timerfd_flags) \
	X(itimerspec_in) X(itimerspec_out) X(timer_kind) X(itimerval_in) X(itimerval_out) \
	X(timerfd_set) \
	X(clone) X(clone3) X(argv) X(envp) X(wait_status) X(wait_options) X(rusage) \
	X(id_kind) X(siginfo) \
	X(signal) X(signal_how) X(sigaction_in) X(sigaction_out) X(sigstack_in) \
	X(sigstack_out) X(sigreturn) \
	X(futex_op) X(futex_rest) X(prctl) X(arch_prctl) X(arch_prctl_arg) X(rlimit_kind) \
	X(rlimit_in) X(rlimit_out) X(rusage_who) X(uname) X(sysinfo) X(random_flags) \
	X(affinity) X(cap_header) X(cap_data) \
	X(membarrier) \
	X(close_range_flags) \
	X(groups_in) X(groups_out) X(id_out) \
	X(uid) \
	X(priority_kind) X(restart) \
	X(sync_range_flags) X(unmount_flags) X(watch_events) X(watch_flags) X(rw_flags) \
	X(scheduler) X(int_out) \
	X(timeval_out)
/* clang-format on */

#define DECLARE_PRINTER(name) decode_printer print_##name;
PRINTERS(DECLARE_PRINTER)

/* Kinds of arguments that many calls have: numbers, descriptors, paths, buffers. */
#include "syscall/decode_internal.h"

#include <fcntl.h>
#include <sys/uio.h>

#include "base/mem.h"
#include "syscall/decode_table.h"

void print_int(struct decoding *d, unsigned arg)
{
	text_int(d->out, (int)decoding_value(d, arg));
}

void print_uint(struct decoding *d, unsigned arg)
{
	text_unsigned(d->out, (unsigned)decoding_value(d, arg));
}

void print_long(struct decoding *d, unsigned arg)
{
	text_int(d->out, (int64_t)decoding_value(d, arg));
}

void print_size(struct decoding *d, unsigned arg)
{
	text_unsigned(d->out, decoding_value(d, arg));
}

void print_hex(struct decoding *d, unsigned arg)
{
	text_hex(d->out, decoding_value(d, arg));
}

void print_octal(struct decoding *d, unsigned arg)
{
	uint64_t mode = (uint32_t)decoding_value(d, arg);

	/* As strace: at least three digits. */
	text_addf(d->out, mode < 0100 ? "%#03llo" : "%#llo", (unsigned long long)mode);
}

void print_address(struct decoding *d, unsigned arg)
{
	text_address(d->out, decoding_value(d, arg));
}

/* -1 is "no change". */
void print_uid(struct decoding *d, unsigned arg)
{
	uint32_t id = (uint32_t)decoding_value(d, arg);

	if (id == UINT32_MAX)
		text_add(d->out, "-1");
	else
		text_unsigned(d->out, id);
}

void print_fd_value(struct decoding *d, int fd)
{
	text_int(d->out, fd);
}

static void print_file(struct decoding *d, unsigned arg)
{
	char path[DECODE_PATH];

	if (!d->o->descriptors || !decoding_file(d, arg, path))
		return;
	text_add_bytes(d->out, "<", 1);
	/* A path may hold anything: as in a string, but for the quotes. */
	struct decode_text quoted = {};
	text_quote(&quoted, path, strlen(path), 0);
	text_add_bytes(d->out, quoted.bytes + 1, quoted.len - 2);
	decode_text_done(&quoted);
	text_add_bytes(d->out, ">", 1);
}

void print_fd_of(struct decoding *d, int fd, unsigned arg)
{
	text_int(d->out, fd);
	print_file(d, arg);
}

void print_fd(struct decoding *d, unsigned arg)
{
	print_fd_of(d, (int)decoding_value(d, arg), arg);
}

void print_dirfd(struct decoding *d, unsigned arg)
{
	int fd = (int)decoding_value(d, arg);

	if (fd == AT_FDCWD)
		text_add(d->out, "AT_FDCWD");
	else
		text_int(d->out, fd);
	print_file(d, arg);
}

static void print_text(struct decoding *d, unsigned arg)
{
	size_t bytes;
	const char *text = decoding_part(d, arg, TRACE_MAIN, false, 1, &bytes);

	if (!text)
		text = decoding_part(d, arg, TRACE_MAIN, true, 1, &bytes);
	if (!text) {
		print_address(d, arg);
		return;
	}
	size_t len = strnlen(text, bytes);
	text_quote(d->out, text, len, len + 1 >= TRACE_STRING ? QUOTE_CUT : 0);
}

void print_path(struct decoding *d, unsigned arg)
{
	print_text(d, arg);
}

void print_name_in(struct decoding *d, unsigned arg)
{
	print_text(d, arg);
}

void print_text_out(struct decoding *d, unsigned arg)
{
	print_text(d, arg);
}

/* A buffer of `whole` bytes, whose beginning was captured. */
static void print_buffer(struct decoding *d, unsigned arg, uint64_t whole, unsigned flags)
{
	size_t bytes = 0;
	const void *data = decoding_part(d, arg, TRACE_MAIN, false, 1, &bytes);

	if (!decoding_value(d, arg))
		text_add(d->out, "NULL");
	else if (!whole)
		text_add(d->out, "\"\"");
	else if (data)
		text_buffer(d, data, MIN(bytes, whole), whole, flags);
	else
		print_address(d, arg);
}

void print_buffer_in(struct decoding *d, unsigned arg)
{
	print_buffer(d, arg, arg + 1 < TRACE_ARGS ? decoding_value(d, arg + 1) : 0, 0);
}

/* What the kernel wrote: nothing is known of it when the call failed. */
void print_buffer_out(struct decoding *d, unsigned arg)
{
	if (decode_failure(d->r) || d->r->kind != TRACE_CALL)
		print_address(d, arg);
	else
		print_buffer(d, arg, (uint64_t)d->r->result, 0);
}

void print_random_out(struct decoding *d, unsigned arg)
{
	if (decode_failure(d->r) || d->r->kind != TRACE_CALL)
		print_address(d, arg);
	else
		print_buffer(d, arg, (uint64_t)d->r->result, QUOTE_HEX);
}

/* With a size of 0 the result is how much there would be. */
void print_xattr_out(struct decoding *d, unsigned arg)
{
	if (arg + 1 >= TRACE_ARGS || !decoding_value(d, arg + 1))
		print_address(d, arg);
	else
		print_buffer_out(d, arg);
}

/* ---- vectors ---- */

void print_vector_value(struct decoding *d, unsigned arg, unsigned part, uint64_t count,
			uint64_t filled)
{
	size_t bytes = 0;
	const struct iovec *v = decoding_part(d, arg, part, false, sizeof(*v), &bytes);
	size_t have = bytes / sizeof(*v);

	text_add(d->out, "[");
	for (size_t i = 0; i < count && i < have; i++) {
		size_t n = 0;
		const void *data = decoding_part(d, arg, TRACE_ITEMS + (unsigned)i, false, 1, &n);
		uint64_t whole = MIN(v[i].iov_len, filled);
		filled -= whole;
		text_add(d->out, i ? ", {iov_base=" : "{iov_base=");
		if (!whole)
			text_add(d->out, v[i].iov_base ? "\"\"" : "NULL");
		else if (data)
			text_buffer(d, data, MIN(n, whole), whole, 0);
		else
			text_address(d->out, (uintptr_t)v[i].iov_base);
		text_addf(d->out, ", iov_len=%zu}", v[i].iov_len);
	}
	text_add(d->out, have < count ? ", ...]" : "]");
}

static void print_vector(struct decoding *d, unsigned arg, uint64_t filled)
{
	if (arg + 1 < TRACE_ARGS && decoding_value(d, arg) && !decoding_value(d, arg + 1))
		text_add(d->out, "[]");
	else if (!decoding_chunk(d, arg, sizeof(struct iovec)) || arg + 1 >= TRACE_ARGS)
		print_address(d, arg);
	else
		print_vector_value(d, arg, TRACE_MAIN, decoding_value(d, arg + 1), filled);
}

void print_vector_in(struct decoding *d, unsigned arg)
{
	print_vector(d, arg, UINT64_MAX);
}

void print_vector_out(struct decoding *d, unsigned arg)
{
	print_vector(d, arg, decode_failure(d->r) ? 0 : (uint64_t)d->r->result);
}

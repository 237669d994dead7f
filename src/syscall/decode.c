#include "syscall/decode.h"

#include <errno.h>

#include "base/mem.h"
#include "syscall/decode_table.h"

#define ERRNO_MAX 4095 /* results from -ERRNO_MAX to -1 are failures */

const struct decode_call *decode_find(const char *name)
{
	for (const struct decode_call *c = decode_calls; c->name; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	return NULL;
}

/* ---- what to capture ---- */

static struct trace_capture capture_of(const struct decode_call *call, unsigned arg,
				       unsigned string_max)
{
	struct trace_capture c = decode_kinds[call->kinds[arg]].capture;

	c.arg = (uint8_t)arg;
	c.count_arg = (uint8_t)(c.count_arg + arg);
	if (c.max == DECODE_AS_LONG_AS_SHOWN)
		c.max = (uint16_t)(string_max + 2); /* one more to see that there is more, a NUL */
	return c;
}

static bool is_descriptor(unsigned kind)
{
	return kind == K_fd || kind == K_dirfd;
}

static bool is_path_kind(unsigned kind)
{
	return kind == K_path || kind == K_path_entry;
}

bool decode_has_file(const struct decode_call *call)
{
	for (unsigned i = 0; call && i < TRACE_ARGS; i++)
		if (is_path_kind(call->kinds[i]) || is_descriptor(call->kinds[i]))
			return true;
	return call && call->result == R_FD;
}

static void plan_add(struct trace_plan *p, struct trace_capture c)
{
	if (c.kind == TRACE_NOTHING || p->count == TRACE_CAPTURES)
		return;
	p->captures[p->count++] = c;
	p->entry |= c.when & TRACE_AT_ENTRY;
}

void decode_plan(const struct decode_call *call, const struct decode_options *o,
		 struct trace_plan *ret)
{
	*ret = (struct trace_plan){.traced = 1};
	if (!call)
		return;
	ret->starts = strncmp(call->name, "execve", 6) == 0;
	for (unsigned i = 0; i < TRACE_ARGS; i++) {
		struct trace_capture c = capture_of(call, i, o->string_max);
		if (o->early_paths && call->kinds[i] == K_path)
			c.when |= TRACE_AT_ENTRY;
		plan_add(ret, c);
		if (o->descriptors && is_descriptor(call->kinds[i]))
			plan_add(ret, (struct trace_capture){.kind = TRACE_FILE,
							     .when = TRACE_AT_ENTRY,
							     .arg = (uint8_t)i});
		/* recvmsg replaces lengths: what they were before. */
		if (call->kinds[i] == K_message_out) {
			struct trace_capture before = decode_kinds[K_message_before].capture;
			before.arg = (uint8_t)i;
			plan_add(ret, before);
		}
	}
	if (o->descriptors && call->result == R_FD)
		plan_add(ret, (struct trace_capture){.kind = TRACE_FILE,
						     .when = TRACE_AT_EXIT | TRACE_OUTPUT,
						     .arg = TRACE_RESULT_FD});
}

/* ---- what was captured ---- */

static size_t aligned(size_t bytes)
{
	return (bytes + 7) & ~(size_t)7;
}

bool decode_is_sound(const struct trace_record *r, size_t bytes)
{
	if (bytes < sizeof(*r) || r->bytes != bytes || r->kind > TRACE_SIGNAL)
		return false;
	const uint8_t *at = (const uint8_t *)(r + 1), *end = (const uint8_t *)r + bytes;
	while (at < end) {
		const struct trace_chunk *c = (const void *)at;
		if ((size_t)(end - at) < sizeof(*c) ||
		    (size_t)(end - at) < sizeof(*c) + aligned(c->bytes))
			return false;
		at += sizeof(*c) + aligned(c->bytes);
	}
	return true;
}

/* The n-th chunk of that kind. */
static const struct trace_chunk *find_chunk(const struct trace_record *r, unsigned arg,
					    unsigned part, bool at_entry)
{
	const uint8_t *at = (const uint8_t *)(r + 1), *end = (const uint8_t *)r + r->bytes;

	while (at < end) {
		const struct trace_chunk *c = (const void *)at;
		if (c->arg == arg && c->part == part && c->at_entry == at_entry)
			return c;
		at += sizeof(*c) + aligned(c->bytes);
	}
	return NULL;
}

const void *decoding_part(const struct decoding *d, unsigned arg, unsigned part, bool at_entry,
			  size_t min, size_t *ret_bytes)
{
	const struct trace_chunk *c = find_chunk(d->r, arg, part, at_entry);

	if (!c || c->bytes < min)
		return NULL;
	if (ret_bytes)
		*ret_bytes = c->bytes;
	return c + 1;
}

/* ---- descriptors ---- */

/*
 * A descriptor's path, from its names, which come leaf first, or from the kind of file system that
 * it is in.
 */
bool decoding_file(const struct decoding *d, unsigned arg, char ret[static DECODE_PATH])
{
	bool at_entry = arg != TRACE_RESULT_FD;
	const struct trace_file *f =
		decoding_part(d, arg, TRACE_FILE_HEAD, at_entry, sizeof(*f), NULL);
	char *at = &ret[DECODE_PATH - 1];

	if (!f)
		return false;
	if (f->magic == TRACE_PIPES || f->magic == TRACE_SOCKETS) {
		snprintf(ret, DECODE_PATH, "%s:[%llu]", f->magic == TRACE_PIPES ? "pipe" : "socket",
			 (unsigned long long)f->inode);
		return true;
	}
	*at = '\0';
	for (unsigned i = 0; i < TRACE_NAMES; i++) {
		size_t bytes;
		const char *name = decoding_part(d, arg, TRACE_ITEMS + i, at_entry, 1, &bytes);
		size_t len = name ? strnlen(name, bytes) : 0;
		if (!name || len + 1 > (size_t)(at - ret))
			break;
		at -= len;
		memcpy(at, name, len);
		if (f->magic != TRACE_ANONYMOUS)
			*--at = '/';
	}
	if (!*at)
		*--at = '/';
	if (f->magic == TRACE_ANONYMOUS)
		at = memcpy(at - 11, "anon_inode:", 11);
	memmove(ret, at, strlen(at) + 1);
	return true;
}

/* As it was at the end if it was captured there, else as it was at the beginning. */
static bool is_path(const struct trace_record *r, const struct decode_call *call, unsigned arg,
		    const char *path)
{
	const struct trace_chunk *c = NULL;

	if (is_path_kind(call->kinds[arg])) {
		c = find_chunk(r, arg, TRACE_MAIN, false);
		c = c ? c : find_chunk(r, arg, TRACE_MAIN, true);
	}
	return c && c->bytes == strlen(path) + 1 && memcmp(c + 1, path, c->bytes) == 0;
}

bool decode_touches(const struct decode_call *call, const struct trace_record *r, const char *path)
{
	struct decoding d = {.r = r, .call = call};
	char file[DECODE_PATH];

	for (unsigned i = 0; call && i < TRACE_ARGS; i++) {
		if (is_path(r, call, i, path))
			return true;
		if (is_descriptor(call->kinds[i]) && decoding_file(&d, i, file) &&
		    strcmp(file, path) == 0)
			return true;
	}
	return call && decoding_file(&d, TRACE_RESULT_FD, file) && strcmp(file, path) == 0;
}

/* ---- a line ---- */

/* A 32-bit program's structures are others: only what is the same in them is decoded. */
static bool is_same_in_32_bit(unsigned kind)
{
	static const uint8_t same[] = {K_int,       K_uint,      K_fd,         K_dirfd,
				       K_path,      K_buffer_in, K_buffer_out, K_open_flags,
				       K_open_mode, K_access,    K_prot,       K_octal,
				       K_at_flags,  K_whence,    K_text_out,   K_signal};

	return memchr(same, (int)kind, sizeof(same)) != NULL;
}

bool decode_arg(const struct decode_call *call, const struct trace_record *r, unsigned arg,
		const struct decode_options *o, struct decode_text *out)
{
	struct decoding d = {r, call, o, out};

	if (arg >= TRACE_ARGS || (call && call->kinds[arg] == K_none))
		return false;
	if (!call) {
		text_hex(out, r->args[arg]);
		return true;
	}
	decode_printer *print = decode_kinds[call->kinds[arg]].print;
	if (r->call >= SYSCALL_COMPAT && !is_same_in_32_bit(call->kinds[arg]))
		print = print_hex;
	if (print)
		print(&d, arg);
	return true;
}

void decode_args(const struct decode_call *call, const struct trace_record *r,
		 const struct decode_options *o, struct decode_text *out)
{
	for (unsigned i = 0; i < TRACE_ARGS; i++) {
		size_t before = out->len;
		if (i)
			text_add_bytes(out, ", ", 2);
		size_t start = out->len;
		bool more = decode_arg(call, r, i, o, out);
		/* One that its neighbour writes leaves no comma behind. */
		if (out->len == start && !out->cut && out->bytes) {
			out->len = before;
			out->bytes[before] = '\0';
		}
		if (!more)
			break;
	}
}

unsigned decode_failure(const struct trace_record *r)
{
	return r->kind == TRACE_CALL && r->result < 0 && r->result >= -ERRNO_MAX
		       ? (unsigned)-r->result
		       : 0;
}

/* Errors that are between the kernel and itself: the call is begun again, or ends with EINTR. */
static const char *restart_reason(unsigned number, const char **ret_name)
{
	static const struct {
		unsigned number;
		const char *name, *reason;
	} restarts[] = {
		{512, "ERESTARTSYS", "To be restarted if SA_RESTART is set"},
		{513, "ERESTARTNOINTR", "To be restarted"},
		{514, "ERESTARTNOHAND", "To be restarted if no handler"},
		{516, "ERESTART_RESTARTBLOCK", "Interrupted by signal"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(restarts); i++) {
		if (restarts[i].number == number) {
			*ret_name = restarts[i].name;
			return restarts[i].reason;
		}
	}
	return NULL;
}

static void print_failure(struct decode_text *out, unsigned number)
{
	const char *name, *reason = restart_reason(number, &name);

	if (reason) {
		text_addf(out, "? %s (%s)", name, reason);
		return;
	}
	name = strerrorname_np((int)number);
	if (name)
		text_addf(out, "-1 %s (%s)", name, strerrordesc_np((int)number));
	else
		text_addf(out, "-1 (errno %u)", number);
}

void decode_result(const struct decode_call *call, const struct trace_record *r,
		   const struct decode_options *o, struct decode_text *out)
{
	struct decoding d = {r, call, o, out};
	unsigned failure = decode_failure(r);

	if (r->kind != TRACE_CALL) {
		text_add(out, "?");
		return;
	}
	if (failure) {
		print_failure(out, failure);
		return;
	}
	switch (call && r->call < SYSCALL_COMPAT ? (int)call->result : R_INT) {
	case R_FD:
		print_fd_of(&d, (int)r->result, TRACE_RESULT_FD);
		break;
	case R_ADDRESS:
		text_hex(out, (uint64_t)r->result);
		break;
	case R_OCTAL:
		text_octal(out, (uint64_t)r->result);
		break;
	case R_FCNTL:
		print_fcntl_result(&d);
		break;
	case R_READY:
		print_ready_result(&d);
		break;
	default:
		text_int(out, r->result);
	}
}

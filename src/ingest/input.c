#include "ingest/input.h"

#include <errno.h>

#include "base/mem.h"

#define BLOCK       (128u * 1024)
#define GZIP_WINDOW (15 + 16)

void input_init(struct input *in, FILE *f)
{
	*in = (struct input){.f = f, .cap = 2 * BLOCK};
	in->buf = mem_resize_array(NULL, in->cap, 1);
}

void input_done(struct input *in)
{
	if (in->gzip)
		inflateEnd(&in->gz);
	free(in->packed);
	free(in->buf);
	*in = (struct input){};
}

/* Makes room for at least one block behind what is there. */
static void make_room(struct input *in)
{
	if (in->start && (in->len == 0 || in->cap - in->start - in->len < BLOCK)) {
		memmove(in->buf, in->buf + in->start, in->len);
		in->start = 0;
	}
	if (in->cap - in->start - in->len < BLOCK) {
		in->cap *= 2;
		in->buf = mem_resize_array(in->buf, in->cap, 1);
	}
}

static int read_block(struct input *in, void *to, size_t room, size_t *ret)
{
	errno = 0;
	*ret = fread(to, 1, room, in->f);
	if (*ret < room && ferror(in->f))
		return errno ? -errno : -EIO;
	return 0;
}

static int damaged(struct input *in, const char *why)
{
	in->why = why;
	return -EINVAL;
}

static int gunzip_block(struct input *in, char *to, size_t room, size_t *ret)
{
	in->gz.next_out = (unsigned char *)to;
	in->gz.avail_out = (uInt)room;
	while (in->gz.avail_out == room) {
		if (in->gz.avail_in == 0) {
			size_t n;
			int err = read_block(in, in->packed, BLOCK, &n);
			if (err)
				return err;
			if (n == 0)
				return damaged(in, "the gzip data ends early");
			in->gz.next_in = in->packed;
			in->gz.avail_in = (uInt)n;
		}
		int r = inflate(&in->gz, Z_NO_FLUSH);
		if (r == Z_STREAM_END) {
			/* gzip files may be joined end to end; padding behind the last is fine. */
			int c = in->gz.avail_in ? *in->gz.next_in : fgetc(in->f);
			if (!in->gz.avail_in && c != EOF)
				ungetc(c, in->f);
			if (c != 0x1f) {
				in->end = true;
				break;
			}
			inflateReset(&in->gz);
		} else if (r == Z_MEM_ERROR) {
			return -ENOMEM;
		} else if (r != Z_OK && r != Z_BUF_ERROR) {
			return damaged(in, "the gzip data is damaged");
		}
	}
	*ret = room - in->gz.avail_out;
	return 0;
}

/* The first block tells whether it is gzip: then it becomes what inflate reads. */
static int start(struct input *in)
{
	size_t n;

	in->started = true;
	make_room(in);
	int err = read_block(in, in->buf, BLOCK, &n);
	if (err)
		return err;
	if (n < 2 || (unsigned char)in->buf[0] != 0x1f || (unsigned char)in->buf[1] != 0x8b) {
		in->len = in->total = n;
		in->end = n < BLOCK;
		return 0;
	}

	in->packed = mem_resize_array(NULL, BLOCK, 1);
	memcpy(in->packed, in->buf, n);
	in->gz.next_in = in->packed;
	in->gz.avail_in = (uInt)n;
	if (inflateInit2(&in->gz, GZIP_WINDOW) != Z_OK)
		return -ENOMEM;
	in->gzip = true;
	return 0;
}

static int fill(struct input *in)
{
	if (!in->started)
		return start(in);

	size_t n = 0;
	make_room(in);
	char *to = in->buf + in->start + in->len;
	int err = in->gzip ? gunzip_block(in, to, BLOCK, &n) : read_block(in, to, BLOCK, &n);
	if (err)
		return err;
	in->end |= !in->gzip && n < BLOCK;
	in->len += n;
	in->total += n;
	return 0;
}

int input_peek(struct input *in, size_t want, const char **ret, size_t *ret_len)
{
	while (in->len < want && !in->end) {
		int err = fill(in);
		if (err)
			return err;
	}
	*ret = in->buf + in->start;
	*ret_len = in->len;
	return 0;
}

static void consume(struct input *in, size_t n)
{
	in->start += n;
	in->len -= n;
}

int input_line(struct input *in, size_t max, const char **ret, size_t *ret_len)
{
	size_t seen = 0;

	for (;;) {
		char *line = in->buf + in->start;
		char *nl = in->len > seen ? memchr(line + seen, '\n', in->len - seen) : NULL;
		size_t n = nl ? (size_t)(nl - line) : in->len;

		if (n > max)
			return -EFBIG;
		if (nl || in->end) {
			if (!nl && n == 0)
				return 0;
			consume(in, n + (nl != NULL));
			*ret = line;
			*ret_len = n && line[n - 1] == '\r' ? n - 1 : n;
			return 1;
		}
		seen = n;
		int err = fill(in);
		if (err)
			return err;
	}
}

int input_rest(struct input *in, size_t max, const char **ret, size_t *ret_len)
{
	while (!in->end) {
		int err = fill(in);
		if (err)
			return err;
		if (in->len > max)
			return -EFBIG;
	}
	*ret = in->buf + in->start;
	*ret_len = in->len;
	consume(in, in->len);
	return 0;
}

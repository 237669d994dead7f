#include "ingest/multipart.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define TYPE "multipart/form-data"

bool multipart_is(const char *content_type)
{
	return content_type && strncasecmp(content_type, TYPE, strlen(TYPE)) == 0;
}

static int wrong(const char **ret_why, const char *why)
{
	*ret_why = why;
	return -EINVAL;
}

/* "\r\n--BOUNDARY", and its length; 0: there is no usable one. */
static size_t delimiter(const char *content_type, char ret[static MULTIPART_BOUNDARY_MAX + 5])
{
	const char *at = strcasestr(content_type, "boundary=");

	if (!at)
		return 0;
	at += strlen("boundary=");
	const char *end = at + strcspn(at, "; \t");
	if (*at == '"') {
		end = strchr(++at, '"');
		if (!end)
			return 0;
	}
	size_t len = (size_t)(end - at);
	if (len == 0 || len > MULTIPART_BOUNDARY_MAX)
		return 0;
	return (size_t)snprintf(ret, MULTIPART_BOUNDARY_MAX + 5, "\r\n--%.*s", (int)len, at);
}

/* The value of `name="…"` in the head of a part; the file's name is another parameter. */
static void read_name(const char *head, size_t len, struct multipart_part *to)
{
	static const char word[] = "name=\"";

	for (const char *at = head;
	     (at = memmem(at, len - (size_t)(at - head), word, strlen(word))) != NULL; at++) {
		if (at == head || (at[-1] != ' ' && at[-1] != ';'))
			continue;
		at += strlen(word);
		const char *end = memchr(at, '"', len - (size_t)(at - head));
		if (!end)
			return;
		to->name = at;
		to->name_len = (size_t)(end - at);
		return;
	}
}

int multipart_read(const char *content_type, const char *body, size_t len, struct multipart *ret,
		   const char **ret_why)
{
	char mark[MULTIPART_BOUNDARY_MAX + 5];
	size_t mark_len = delimiter(content_type, mark);
	const char *end = body + len;

	*ret = (struct multipart){};
	if (!mark_len)
		return wrong(ret_why, "its Content-Type has no boundary");
	/* The first has no line before it. */
	if (len < mark_len - 2 || memcmp(body, mark + 2, mark_len - 2) != 0)
		return wrong(ret_why, "it does not begin with its boundary");
	const char *at = body + mark_len - 2;
	while (end - at >= 2 && memcmp(at, "--", 2) != 0) {
		const char *head = at;
		const char *head_end = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
		if (!head_end)
			return wrong(ret_why, "the head of a part does not end");
		const char *bytes = head_end + 4;
		const char *stop =
			memmem(head_end + 2, (size_t)(end - head_end - 2), mark, mark_len);
		if (!stop)
			return wrong(ret_why, "a part does not end: it was cut off");
		if (ret->count == MULTIPART_PARTS_MAX)
			return wrong(ret_why, "it has more than 16 parts");
		struct multipart_part *p = &ret->parts[ret->count++];
		*p = (struct multipart_part){.name = "",
					     .bytes = bytes,
					     .len = stop < bytes ? 0 : (size_t)(stop - bytes)};
		read_name(head, (size_t)(head_end - head), p);
		at = stop + mark_len;
	}
	return end - at >= 2 ? 0 : wrong(ret_why, "its last part is not the end of it");
}

const struct multipart_part *multipart_find(const struct multipart *m, const char *name)
{
	for (size_t i = 0; i < m->count; i++)
		if (m->parts[i].name_len == strlen(name) &&
		    memcmp(m->parts[i].name, name, strlen(name)) == 0)
			return &m->parts[i];
	return NULL;
}

#include "process/context_payload.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/protobuf_fields.h"
#include "base/text.h"

struct text { /* borrowed */
	const char *at;
	size_t len;
};

struct reading {
	struct context_payload *ret;
	char former_environment[CONTEXT_VALUE_MAX + 1]; /* by the name that it had before */
};

static bool is(struct text t, const char *word)
{
	return t.len == strlen(word) && memcmp(t.at, word, t.len) == 0;
}

static bool begins(struct text t, const char *word)
{
	return t.len >= strlen(word) && memcmp(t.at, word, strlen(word)) == 0;
}

/* Each field of a message that is bytes goes to `field`, with its number. */
static int each_field(const uint8_t *bytes, size_t len, void *ctx,
		      int (*field)(void *ctx, uint32_t number, struct text t))
{
	struct protobuf in = {bytes, bytes + len};
	struct protobuf_field f;
	int r;

	while ((r = protobuf_next(&in, &f)) > 0) {
		if (f.type != PROTOBUF_BYTES)
			continue;
		r = field(ctx, f.number, (struct text){(const char *)f.data, f.len});
		if (r)
			return r;
	}
	return r ? -EBADMSG : 0;
}

static int each_field_of(struct text t, void *ctx,
			 int (*field)(void *ctx, uint32_t number, struct text t))
{
	return each_field((const uint8_t *)t.at, t.len, ctx, field);
}

static void take(struct reading *r, struct text key, struct text value)
{
	const struct {
		const char *key;
		char *to;
	} known[] = {
		{"service.name", r->ret->service},
		{"service.version", r->ret->version},
		{"deployment.environment.name", r->ret->environment},
		{"deployment.environment", r->former_environment},
	};

	if (is(key, "threadlocal.schema_version"))
		r->ret->has_threads = begins(value, "tlsdesc_v1") || begins(value, "tls_v1");
	/* What an SDK makes up for a program that was given no name says nothing. */
	if (is(key, "service.name") && begins(value, "unknown_service"))
		return;
	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (is(key, known[i].key))
			text_clean_to(value.at, value.len, known[i].to, CONTEXT_VALUE_MAX + 1);
}

static int any_value_field(void *ctx, uint32_t number, struct text t)
{
	struct text *value = ctx;

	if (number == 1)
		*value = t;
	return 0;
}

struct attribute {
	struct text key, value;
};

static int attribute_field(void *ctx, uint32_t number, struct text t)
{
	struct attribute *a = ctx;

	if (number == 1)
		a->key = t;
	return number == 2 ? each_field_of(t, &a->value, any_value_field) : 0;
}

static int read_attribute(struct reading *r, struct text t)
{
	struct attribute a = {};
	int err = each_field_of(t, &a, attribute_field);

	if (!err && a.key.at && a.value.at)
		take(r, a.key, a.value);
	return err;
}

static int resource_field(void *ctx, uint32_t number, struct text t)
{
	return number == 1 ? read_attribute(ctx, t) : 0;
}

static int context_field(void *ctx, uint32_t number, struct text t)
{
	if (number == 1)
		return each_field_of(t, ctx, resource_field);
	return number == 2 ? read_attribute(ctx, t) : 0;
}

int context_payload_read(const void *bytes, size_t len, struct context_payload *ret)
{
	struct context_payload read = {};
	struct reading r = {.ret = &read};
	int err = each_field(bytes, len, &r, context_field);

	if (err)
		return err;
	if (!*read.environment)
		memcpy(read.environment, r.former_environment, sizeof(read.environment));
	*ret = read;
	return 0;
}

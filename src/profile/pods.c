#include "profile/pods.h"

#include <ctype.h>
#include <errno.h>

#include "base/json_fields.h"
#include "base/mem.h"

#define VERSION 1

static const char mark[4] = {'S', 'M', 'N', VERSION};

/* ---- from the kubelet ---------------------------------------------------------------------- */

static void put(char to[static POD_TEXT + 1], const char *text)
{
	snprintf(to, POD_TEXT + 1, "%s", text);
}

/* "containerd://HEX"; containers that are not made yet have no id. */
static void add_containers(struct pod *p, const json_t *list)
{
	size_t i;
	json_t *one;

	json_array_foreach(list, i, one)
	{
		const char *id = strstr(json_text(one, "containerID"), "://");
		if (!id || strlen(id + 3) != 64 || p->container_count == POD_CONTAINERS_MAX)
			continue;
		struct pod_container *c = &p->containers[p->container_count++];
		snprintf(c->id, sizeof(c->id), "%s", id + 3);
		put(c->name, json_text(one, "name"));
		put(c->image, json_text(one, "image"));
	}
}

static void add_labels(struct pod *p, const json_t *all, const char *const *wanted)
{
	for (; wanted && *wanted && p->label_count < POD_LABELS_MAX; wanted++) {
		const char *value = json_text(all, *wanted);
		struct pod_label *l = &p->labels[p->label_count];
		if (!*value)
			continue;
		put(l->key, *wanted);
		for (char *c = l->key; *c; c++)
			*c = isalnum((unsigned char)*c) ? *c : '_';
		put(l->value, value);
		p->label_count++;
	}
}

static void write_pod(const struct pod *p, struct pack *out)
{
	pack_str(out, p->uid, strlen(p->uid));
	pack_str(out, p->namespace, strlen(p->namespace));
	pack_str(out, p->name, strlen(p->name));
	pack_u64(out, p->container_count);
	for (uint32_t i = 0; i < p->container_count; i++) {
		pack_str(out, p->containers[i].id, strlen(p->containers[i].id));
		pack_str(out, p->containers[i].name, strlen(p->containers[i].name));
		pack_str(out, p->containers[i].image, strlen(p->containers[i].image));
	}
	pack_u64(out, p->label_count);
	for (uint32_t i = 0; i < p->label_count; i++) {
		pack_str(out, p->labels[i].key, strlen(p->labels[i].key));
		pack_str(out, p->labels[i].value, strlen(p->labels[i].value));
	}
}

/* Pods that wait for their message to be full. */
struct batch {
	struct pack pods;
	uint32_t count;
};

static void end_batch(struct batch *b, struct pack *out)
{
	struct pack head = {};

	if (!b->count)
		return;
	pack_raw(&head, mark, sizeof(mark));
	pack_u64(&head, b->count);
	uint32_t len = (uint32_t)(head.len + b->pods.len);
	pack_raw(out, &len, sizeof(len));
	pack_raw(out, head.bytes, head.len);
	pack_raw(out, b->pods.bytes, b->pods.len);
	pack_done(&head);
	pack_done(&b->pods);
	*b = (struct batch){};
}

static void add_pod(struct batch *b, const struct pod *p, struct pack *out)
{
	struct pack one = {};

	write_pod(p, &one);
	if (b->pods.len + one.len + 16 > PODS_MESSAGE_MAX)
		end_batch(b, out);
	pack_raw(&b->pods, one.bytes, one.len);
	b->count++;
	pack_done(&one);
}

/* A static pod's control group is named after the hash of its file, where that is not the uid. */
static const char *group_uid(const json_t *meta)
{
	const char *hash =
		json_text(json_object_get(meta, "annotations"), "kubernetes.io/config.hash");

	return *hash ? hash : json_text(meta, "uid");
}

static bool read_item(const json_t *item, const char *const *labels, struct pod *p)
{
	const json_t *meta = json_object_get(item, "metadata");
	const json_t *status = json_object_get(item, "status");

	*p = (struct pod){};
	snprintf(p->uid, sizeof(p->uid), "%s", group_uid(meta));
	put(p->namespace, json_text(meta, "namespace"));
	put(p->name, json_text(meta, "name"));
	add_containers(p, json_object_get(status, "containerStatuses"));
	add_containers(p, json_object_get(status, "initContainerStatuses"));
	add_containers(p, json_object_get(status, "ephemeralContainerStatuses"));
	add_labels(p, json_object_get(meta, "labels"), labels);
	return *p->uid && *p->name;
}

int pods_from_json(const char *bytes, size_t len, const char *const *labels, struct pack *out,
		   uint64_t *ret_left_out)
{
	json_t *list = json_loadb(bytes, len, 0, NULL), *item;
	const json_t *items = json_object_get(list, "items");
	CLEANUP(freep) struct pod *p = mem_alloc(sizeof(*p));
	struct batch b = {};
	int count = 0;
	size_t i;

	*ret_left_out = 0;
	/* Without pods it is null. */
	if (!json_is_array(items) && !(json_is_null(items) && json_is_object(list))) {
		json_decref(list);
		return -EBADMSG;
	}
	json_array_foreach(items, i, item)
	{
		if (count == PODS_MAX || !read_item(item, labels, p)) {
			++*ret_left_out;
			continue;
		}
		add_pod(&b, p, out);
		count++;
	}
	end_batch(&b, out);
	json_decref(list);
	return count;
}

/* ---- to the collector ---------------------------------------------------------------------- */

bool pods_is_message(const void *bytes, size_t len)
{
	return len > sizeof(mark) && memcmp(bytes, mark, sizeof(mark)) == 0;
}

bool pods_is_ask(const void *bytes, size_t len)
{
	return len == strlen(PODS_ASK) && memcmp(bytes, PODS_ASK, len) == 0;
}

static void read_text(struct unpack *in, char *to, size_t size)
{
	size_t len;
	const char *text = unpack_str(in, size - 1, &len);

	memcpy(to, text, len);
	to[len] = '\0';
}

static void read_pod(struct unpack *in, struct pod *p)
{
	*p = (struct pod){};
	read_text(in, p->uid, sizeof(p->uid));
	read_text(in, p->namespace, sizeof(p->namespace));
	read_text(in, p->name, sizeof(p->name));
	p->container_count = (uint32_t)unpack_max(in, POD_CONTAINERS_MAX);
	for (uint32_t i = 0; i < p->container_count; i++) {
		struct pod_container *c = &p->containers[i];
		read_text(in, c->id, sizeof(c->id));
		read_text(in, c->name, sizeof(c->name));
		read_text(in, c->image, sizeof(c->image));
	}
	p->label_count = (uint32_t)unpack_max(in, POD_LABELS_MAX);
	for (uint32_t i = 0; i < p->label_count; i++) {
		read_text(in, p->labels[i].key, sizeof(p->labels[i].key));
		read_text(in, p->labels[i].value, sizeof(p->labels[i].value));
	}
}

int pods_read(const void *bytes, size_t len, pods_fn *fn, void *ctx)
{
	CLEANUP(freep) struct pod *p = mem_alloc(sizeof(*p));

	if (!pods_is_message(bytes, len))
		return -EBADMSG;
	struct unpack in = {(const uint8_t *)bytes + sizeof(mark), (const uint8_t *)bytes + len,
			    false};
	for (uint64_t n = unpack_max(&in, PODS_MAX); n && !in.bad; n--) {
		read_pod(&in, p);
		if (!in.bad)
			fn(ctx, p);
	}
	return in.bad || in.at != in.end ? -EBADMSG : 0;
}

/*
 * pods: the pods of a machine as its kubelet lists them, and the messages that carry them from the
 * server half of `run`, which has a network, to the collector, which has none.
 *
 * A kubelet may be lied to, or be another program: texts are cut, lists are capped, and a message
 *of it is read as anything from outside is.
 *
 *	"SMN", version (1 byte), number of pods, then each: uid, namespace, name,
 *	number of containers, then each: id, name, image; number of labels, then each: key, value
 *
 * A collector asks with "SMA" when it meets a pod that it does not know.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pack.h"

#define PODS_MAX           1024 /* of a list; the rest is left out, and counted */
#define POD_CONTAINERS_MAX 32
#define POD_LABELS_MAX     16
#define POD_TEXT           254 /* bytes of a name */
#define PODS_MESSAGE_MAX   (60u << 10)
#define PODS_ASK           "SMA"

struct pod_container {
	char id[65], name[POD_TEXT + 1], image[POD_TEXT + 1];
};

struct pod_label {
	char key[POD_TEXT + 1]; /* as a label may be called: app_kubernetes_io_name */
	char value[POD_TEXT + 1];
};

struct pod {
	char uid[65]; /* as it is in the name of its control group */
	char namespace[POD_TEXT + 1], name[POD_TEXT + 1];
	struct pod_container containers[POD_CONTAINERS_MAX];
	struct pod_label labels[POD_LABELS_MAX];
	uint32_t container_count, label_count;
};

/*
 * Reads a v1.PodList in JSON and appends messages, of at most PODS_MESSAGE_MAX bytes each, to
 * `out`: each behind its length as a uint32_t. `labels`: the keys that are wanted; ends with NULL;
 * NULL: none. How many pods those are, *ret_left_out more were not taken; -EBADMSG: it is no such
 * list.
 */
int pods_from_json(const char *bytes, size_t len, const char *const *labels, struct pack *out,
		   uint64_t *ret_left_out);

/* Calls fn for each pod of a message. `one` is borrowed. 0 or -EBADMSG, after those before the
 * fault. */
typedef void pods_fn(void *ctx, const struct pod *one);
int pods_read(const void *bytes, size_t len, pods_fn *fn, void *ctx);
bool pods_is_message(const void *bytes, size_t len);
bool pods_is_ask(const void *bytes, size_t len);

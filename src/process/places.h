/*
 * places: what runs in a control group, by the group's id: what its path tells (container.h), with
 * the names that container runtimes keep (container_names.h).
 *
 * Each group is looked at once, when it is first asked for, so do that while it exists. At most
 * PLACES_KNOWN are known; then all are forgotten, and those that still exist are looked at again.
 *
 * What a kubelet tells of a pod (places_pod()) is added when it comes: `revision` tells that a
 * place has changed.
 */
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>

#include "collect/cgroup.h"
#include "profile/pods.h"

#define PLACES_KNOWN 4096

struct place {                     /* strings: "" where there is none */
	const char *container;     /* its name, or the first 12 digits of its id */
	const char *container_id;  /* the first 12 digits */
	const char *pod;           /* its name, or its uid */
	const char *pod_uid;       /* or, of Podman's pods, the first 12 digits of their id */
	const char *namespace;     /* of the pod */
	const char *runtime, *qos; /* as in container.h */
	const char *unit, *slice;
	const char *user;    /* whose session or service it is: the name, or the uid */
	const char *service; /* what a pod, container or unit makes of it; "": the program's name */
	const char *version; /* the image's tag */
	struct place_label {
		const char *key, *value;
	} labels[POD_LABELS_MAX]; /* of the pod: "pod_label_app" */
	uint32_t label_count;
	uint32_t revision;
	bool lacks_pod; /* it is a pod's, and the kubelet has not told of it, or of the container */
};

struct places;

/* `root`: where the host's files are, of runtimes and users; NULL: "/". Both are borrowed. */
struct places *places_new(struct cgroups *groups, const char *root);
void places_free(struct places *p); /* NULL is fine */

/* Never NULL. Borrowed until the next call. */
const struct place *places_get(struct places *p, uint64_t cgroup);

/* What a kubelet lists. PODS_MAX are remembered. */
void places_pod(struct places *p, const struct pod *pod);

/* Whether a kubelet should be asked: since the last time a place was met that lacks its pod, or one
 * still lacked it when more was known. *ret_is_new: the former. */
bool places_wants_pods(struct places *p, bool *ret_is_new);

/* The name of a pod without what a controller put behind it: "web-7d9f8b6c54-x2x4z" is one of
 * "web". Returns how many bytes that is. */
size_t places_workload(const char *pod);

/* The version that an image's name has: "registry:5000/nginx:1.25@sha256:…" is "1.25"; without a
 * tag it is the digest's first digits. Borrowed, not NUL-terminated; returns how many bytes. */
size_t places_tag(const char *image, const char **ret);

struct places_stats {
	uint64_t unreadable; /* files of a runtime that are there but cannot be read */
};

void places_stats(const struct places *p, struct places_stats *ret);

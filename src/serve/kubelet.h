/*
 * kubelet: asks the kubelet of this machine which pods there are, on a thread of its own, and hands
 * the answer to the collector (profile/pods.h): every minute, and when the collector has met a pod
 * that it does not know, but once a second at most.
 *
 * The token is read again for each request, since Kubernetes replaces it now and then.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/loop.h"

struct kubelet;

struct kubelet_options {               /* borrowed */
	const char *url;               /* "https://node-1:10250"; /pods is added */
	const char *token_file;        /* NULL: none */
	const char *ca_file;           /* NULL: the system's */
	const char *const *pod_labels; /* keys of those that are wanted; ends with NULL; or NULL */
};

struct kubelet_stats {
	uint64_t requests, failures, pods, left_out; /* pods: of the latest answer */
};

/* Takes a message of pods.h, on the loop's thread. 0; -EAGAIN: offer it again in a moment; else it
 * never will be taken. */
typedef int kubelet_sink(void *ctx, const void *bytes, size_t len);

/* NULL after saying why not. */
struct kubelet *kubelet_new(struct loop *l, const struct kubelet_options *o, kubelet_sink *sink,
			    void *ctx);
void kubelet_free(struct kubelet *k); /* NULL is fine; before the loop */

void kubelet_ask(struct kubelet *k); /* soon */
void kubelet_stats(struct kubelet *k, struct kubelet_stats *ret);

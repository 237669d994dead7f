/*
 * kubelet: asks the kubelet of this machine which pods there are, on a thread of its own, and sends
 * the answer to the collector (profile/pods.h): every minute, and when the collector has met a pod
 * that it does not know, but once a second at most.
 *
 * The token is read again for each request, since Kubernetes replaces it now and then.
 */
#pragma once

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

/* Messages go to `fd`, a SOCK_SEQPACKET. NULL after saying why not. */
struct kubelet *kubelet_new(struct loop *l, const struct kubelet_options *o, int fd);
void kubelet_free(struct kubelet *k); /* NULL is fine; before the loop */

void kubelet_ask(struct kubelet *k); /* soon */
void kubelet_stats(struct kubelet *k, struct kubelet_stats *ret);

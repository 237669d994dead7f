#include "cli/pod_names.h"

#include <string.h>
#include <unistd.h>

#include "base/mem.h"

#define SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount/"

/* What was given, or what Kubernetes mounts into containers. */
static const char *file_of(const struct settings *s, enum setting which, const char *mounted)
{
	const char *given = settings_text(s, which);

	if (given)
		return given;
	/* A token must not be read on the way, unless somebody says that it may. */
	const char *url = settings_text(s, SET_KUBELET);
	bool is_safe = url && strncmp(url, "https://", 8) == 0;
	return is_safe && access(mounted, R_OK) == 0 ? mounted : NULL;
}

struct kubelet_options pod_names_kubelet(const struct settings *s)
{
	return (struct kubelet_options){
		.url = settings_text(s, SET_KUBELET),
		.token_file = file_of(s, SET_KUBELET_TOKEN, SERVICE_ACCOUNT "token"),
		.ca_file = file_of(s, SET_KUBELET_CA, SERVICE_ACCOUNT "ca.crt"),
		.pod_labels = (const char *const *)settings_list(s, SET_POD_LABEL)->items,
	};
}

static int take(void *ctx, const void *bytes, size_t len)
{
	const struct pod_names *n = ctx;

	collecting_pods(n->collecting, bytes, len);
	return 0;
}

/* Without a kubelet, which is said, there are fewer names. */
static int watch(void *ctx, struct loop *l, struct collecting *c)
{
	struct pod_names *n = ctx;

	n->collecting = c;
	n->kubelet = kubelet_new(l, &n->options, take, n);
	return 0;
}

static void ask(void *ctx)
{
	const struct pod_names *n = ctx;

	if (n->kubelet)
		kubelet_ask(n->kubelet);
}

static uint64_t failures(void *ctx)
{
	const struct pod_names *n = ctx;
	struct kubelet_stats stats = {};

	if (n->kubelet)
		kubelet_stats(n->kubelet, &stats);
	return stats.failures;
}

static void end(void *ctx)
{
	struct pod_names *n = ctx;

	kubelet_free(TAKE_PTR(n->kubelet));
}

struct pods_source pod_names_source(struct pod_names *n, const struct settings *s)
{
	n->options = pod_names_kubelet(s);
	return n->options.url ? (struct pods_source){watch, ask, failures, end, n}
			      : (struct pods_source){};
}

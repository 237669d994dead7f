#include "cli/pod_names.h"

#include <string.h>
#include <unistd.h>

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

/*
 * pod_names: the settings of a kubelet that knows the names of pods; and for an agent, which has no
 * server half, the asking itself.
 */
#pragma once

#include "cli/settings.h"
#include "pipeline/collecting.h"
#include "serve/kubelet.h"

/* Its url is NULL if none is to be asked. Borrows from the settings. */
struct kubelet_options pod_names_kubelet(const struct settings *s);

struct pod_names { /* embedded, zero-initialised; outlives the collecting */
	struct kubelet_options options;
	struct kubelet *kubelet;
	struct collecting *collecting;
};

/* For collecting_options: zero if no kubelet is to be asked. */
struct pods_source pod_names_source(struct pod_names *n, const struct settings *s);

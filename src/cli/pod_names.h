/*
 * pod_names: the settings of a kubelet that knows the names of pods.
 */
#pragma once

#include "cli/settings.h"
#include "serve/kubelet.h"

/* Its url is NULL if none is to be asked. Borrows from the settings. */
struct kubelet_options pod_names_kubelet(const struct settings *s);

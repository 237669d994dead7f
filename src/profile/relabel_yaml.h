/*
 * relabel_yaml: relabel_configs in YAML, as Prometheus' documentation has them, become rules.
 */
#pragma once

#include <yaml.h>

#include "profile/relabel.h"

/* `list` is a sequence of rules in `doc`; they are added to `r`. 0, or -EINVAL with *ret_err, which
 * says in which line. */
int relabel_yaml_read(yaml_document_t *doc, const yaml_node_t *list, struct relabel *r,
		      struct relabel_error *ret_err);

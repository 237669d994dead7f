/*
 * rules_yaml: the list `rules:` of the configuration.
 *
 *	rules:
 *	  - name: tax
 *	    query: cpu{comm="api"}
 *	    function: compute_tax
 */
#pragma once

#include <stdbool.h>

#include <yaml.h>

#include "query/rules.h"

/* Adds what the list has; false with *ret_err, which names the line. */
bool rules_yaml_read(yaml_document_t *doc, const yaml_node_t *list, struct rules *to,
		     struct rules_error *ret_err);

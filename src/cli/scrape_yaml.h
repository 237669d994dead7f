/*
 * scrape_yaml: scrape_configs in YAML, as Prometheus and Parca document them, become jobs.
 *
 * Keys that these two know and that have no effect here are collected, to be told; others are
 * errors. Relative paths of files are below `dir`.
 */
#pragma once

#include <stdio.h>
#include <yaml.h>

#include "serve/scrape_config.h"

struct scrape_yaml_error {
	char text[256]; /* with the line */
};

struct scrape_yaml { /* borrowed */
	yaml_document_t *doc;
	const char *dir;                  /* of the configuration */
	uint64_t interval_ms, timeout_ms; /* of `global`; 0: not given */
	FILE *ignored;                    /* gets ", NAME" for each key without effect */
	struct scrape_yaml_error *err;
};

/* Of Prometheus' `global`: sets interval_ms and timeout_ms. False with *err. */
bool scrape_yaml_global(struct scrape_yaml *y, const yaml_node_t *node);

/* Adds the jobs of a list. False with *err. */
bool scrape_yaml_read(struct scrape_yaml *y, const yaml_node_t *list, struct scrape_config *to);

/*
 * found_targets: the targets that somebody says there are, each a set of labels with an
 * __address__.
 *
 *	[{"targets": ["10.0.0.1:6060", …], "labels": {"env": "prod"}}, …]
 *
 * is how Prometheus has them: in a file (YAML or JSON), in the answer of a URL (JSON), or in the
 * configuration. It comes from anywhere: labels have at most RELABEL_VALUE_MAX bytes, a target at
 * most RELABEL_LABELS_MAX - 8 of them; what is more is left out and counted.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/mem.h"
#include "profile/relabel.h"

#define FOUND_TARGETS_MAX 1000u
#define FOUND_BYTES_MAX   (4u << 20) /* of a file or an answer */

struct found_target {
	struct relabel_label *labels;
	size_t count;
};

struct found_targets { /* embedded; zero-initialised is empty */
	struct found_target *list;
	size_t count, cap;
	uint64_t left_out; /* targets beyond FOUND_TARGETS_MAX, labels that are too long or too many
			    */
	struct arena text;
};

void found_targets_done(struct found_targets *f);

struct found_error {
	char text[192]; /* without a full stop */
};

/*
 * Adds those of one list; each gets one more label, of where it was found (NULL: none). False with
 * *ret_err: it is not such a list; nothing is added then.
 */
bool found_targets_json(struct found_targets *f, const char *text, size_t len,
			const struct relabel_label *more, struct found_error *ret_err);
bool found_targets_yaml(struct found_targets *f, const char *text, size_t len,
			const struct relabel_label *more, struct found_error *ret_err);
bool found_targets_node(struct found_targets *f, yaml_document_t *doc, const yaml_node_t *list,
			const struct relabel_label *more, struct found_error *ret_err);

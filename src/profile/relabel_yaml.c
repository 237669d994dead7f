#include "profile/relabel_yaml.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

__attribute__((format(printf, 3, 4))) static int
wrong(const yaml_node_t *at, struct relabel_error *e, const char *fmt, ...)
{
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(e->text, sizeof(e->text), "line %zu: %s", at->start_mark.line + 1, what);
	return -EINVAL;
}

/* NULL: it is no plain value. */
static const char *text_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

static int read_sources(yaml_document_t *doc, const yaml_node_t *list, struct relabel_rule *rule,
			struct relabel_error *e)
{
	size_t count = 0;

	if (list->type != YAML_SEQUENCE_NODE)
		return wrong(list, e, "source_labels takes a list of names");
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const char *name = text_of(yaml_document_get_node(doc, *i));
		if (!name || count == RELABEL_SOURCES_MAX)
			return wrong(list, e, "source_labels takes a list of at most %d names",
				     RELABEL_SOURCES_MAX);
		rule->source_labels[count++] = name;
	}
	return 0;
}

static int read_key(yaml_document_t *doc, const yaml_node_pair_t *pair, struct relabel_rule *rule,
		    struct relabel_error *e)
{
	const struct {
		const char *name, **to;
	} keys[] = {
		{"action", &rule->action},
		{"separator", &rule->separator},
		{"regex", &rule->regex},
		{"target_label", &rule->target_label},
		{"replacement", &rule->replacement},
		{"modulus", &rule->modulus},
	};
	const yaml_node_t *key = yaml_document_get_node(doc, pair->key);
	const yaml_node_t *value = yaml_document_get_node(doc, pair->value);
	const char *name = text_of(key);

	if (name && strcmp(name, "source_labels") == 0)
		return read_sources(doc, value, rule, e);
	for (size_t i = 0; name && i < ARRAY_SIZE(keys); i++) {
		if (strcmp(name, keys[i].name) != 0)
			continue;
		*keys[i].to = text_of(value);
		return *keys[i].to ? 0 : wrong(value, e, "%s takes one value", name);
	}
	return wrong(key, e, "a relabelling rule has no '%.64s'", name ? name : "");
}

static int read_rule(yaml_document_t *doc, const yaml_node_t *node, struct relabel *r,
		     struct relabel_error *e)
{
	struct relabel_rule rule = {};
	struct relabel_error why;

	if (node->type != YAML_MAPPING_NODE)
		return wrong(node, e, "a relabelling rule has the form 'name: value, …'");
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		int err = read_key(doc, p, &rule, e);
		if (err)
			return err;
	}
	return relabel_add(r, &rule, &why) ? wrong(node, e, "%s", why.text) : 0;
}

int relabel_yaml_read(yaml_document_t *doc, const yaml_node_t *list, struct relabel *r,
		      struct relabel_error *ret_err)
{
	if (list->type != YAML_SEQUENCE_NODE)
		return wrong(list, ret_err, "relabel_configs takes a list of rules");
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const yaml_node_t *node = yaml_document_get_node(doc, *i);
		int err = node ? read_rule(doc, node, r, ret_err)
			       : wrong(list, ret_err, "a rule is missing");
		if (err)
			return err;
	}
	return 0;
}

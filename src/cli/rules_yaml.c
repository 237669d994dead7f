#include "cli/rules_yaml.h"

#include <stdio.h>

enum { NAME, QUERY, FUNCTION, KEYS };

static const char *text_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value : "";
}

/* NULL, or what is wrong. */
static const char *read_keys(yaml_document_t *doc, const yaml_node_t *rule,
			     const char *ret[static KEYS])
{
	static const char *const names[KEYS] = {"name", "query", "function"};

	if (!rule || rule->type != YAML_MAPPING_NODE)
		return "a rule has a name, a query and a function";
	for (const yaml_node_pair_t *p = rule->data.mapping.pairs.start;
	     p < rule->data.mapping.pairs.top; p++) {
		const char *key = text_of(yaml_document_get_node(doc, p->key));
		int k = 0;
		while (k < KEYS && strcmp(key, names[k]) != 0)
			k++;
		if (k == KEYS)
			return "a rule has a name, a query and a function, and nothing else";
		ret[k] = text_of(yaml_document_get_node(doc, p->value));
	}
	return NULL;
}

bool rules_yaml_read(yaml_document_t *doc, const yaml_node_t *list, struct rules *to,
		     struct rules_error *ret_err)
{
	if (list->type != YAML_SEQUENCE_NODE) {
		snprintf(ret_err->text, sizeof(ret_err->text),
			 "line %zu: rules is a list, of rules with a name, a query and a function",
			 list->start_mark.line + 1);
		return false;
	}
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const yaml_node_t *rule = yaml_document_get_node(doc, *i);
		const char *keys[KEYS] = {"", "cpu", ""};
		struct rules_error why = {};
		const char *wrong = read_keys(doc, rule, keys);
		if (!wrong && rules_add(to, keys[NAME], keys[QUERY], keys[FUNCTION], &why) == 0)
			continue;
		snprintf(ret_err->text, sizeof(ret_err->text), "line %zu: rules: %.200s",
			 (rule ? rule : list)->start_mark.line + 1, wrong ? wrong : why.text);
		return false;
	}
	return true;
}

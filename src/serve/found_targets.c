#include "serve/found_targets.h"

#include <jansson.h>
#include <stdarg.h>

#define LABELS_MAX (RELABEL_LABELS_MAX - 8u) /* room for what a job adds */

/* One group: what its targets have in common. */
struct group {
	struct relabel_label labels[LABELS_MAX];
	size_t count;
};

void found_targets_done(struct found_targets *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->list[i].labels);
	free(f->list);
	arena_done(&f->text);
	*f = (struct found_targets){};
}

/* Back to how many there were. */
static bool fail(struct found_targets *f, size_t count, struct found_error *e, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));
static bool fail(struct found_targets *f, size_t count, struct found_error *e, const char *fmt, ...)
{
	va_list ap;

	while (f->count > count)
		free(f->list[--f->count].labels);
	va_start(ap, fmt);
	vsnprintf(e->text, sizeof(e->text), fmt, ap);
	va_end(ap);
	return false;
}

static void add_label(struct found_targets *f, struct group *g, const char *name, const char *value)
{
	size_t name_len = strlen(name), value_len = strlen(value);

	if (!name_len || g->count == LABELS_MAX || name_len > RELABEL_VALUE_MAX ||
	    value_len > RELABEL_VALUE_MAX) {
		f->left_out++;
		return;
	}
	g->labels[g->count++] = (struct relabel_label){arena_strndup(&f->text, name, name_len),
						       arena_strndup(&f->text, value, value_len)};
}

static void add_target(struct found_targets *f, const struct group *g, const char *address)
{
	struct group own = *g;
	uint64_t left_out = f->left_out;

	if (f->count == FOUND_TARGETS_MAX) {
		f->left_out++;
		return;
	}
	if (own.count == LABELS_MAX) /* it needs room for where it is */
		own.count--, f->left_out++;
	add_label(f, &own, "__address__", address);
	if (f->left_out != left_out && own.count == g->count)
		return; /* its address is too long to be one */
	MEM_GROW(f->list, f->count, f->cap);
	f->list[f->count++] = (struct found_target){
		.labels = mem_dup(own.labels, own.count * sizeof(*own.labels)), .count = own.count};
}

/* ---- JSON ---------------------------------------------------------------------------------- */

static bool json_group(struct found_targets *f, size_t had, const json_t *node,
		       const struct relabel_label *more, struct found_error *e)
{
	const json_t *targets = json_object_get(node, "targets"), *one;
	json_t *labels = json_object_get(node, "labels"), *value;
	struct group g = {};
	const char *name;
	size_t i;

	if (!json_is_object(node) || (targets && !json_is_array(targets)) ||
	    (labels && !json_is_object(labels)))
		return fail(f, had, e, "a group has targets, a list, and may have labels");
	if (more)
		add_label(f, &g, more->name, more->value);
	json_object_foreach(labels, name, value)
	{
		if (!json_is_string(value))
			return fail(f, had, e, "the value of the label %.40s is no text", name);
		add_label(f, &g, name, json_string_value(value));
	}
	json_array_foreach(targets, i, one)
	{
		if (!json_is_string(one))
			return fail(f, had, e, "a target is no text, such as \"10.0.0.1:6060\"");
		add_target(f, &g, json_string_value(one));
	}
	return true;
}

bool found_targets_json(struct found_targets *f, const char *text, size_t len,
			const struct relabel_label *more, struct found_error *ret_err)
{
	size_t had = f->count, i;
	json_error_t why;
	json_t *root = json_loadb(text, len, 0, &why), *one;
	bool good = json_is_array(root);

	if (!root)
		fail(f, had, ret_err, "line %d: %s", why.line, why.text);
	else if (!good)
		fail(f, had, ret_err, "it is no list of groups of targets");
	json_array_foreach(root, i, one) good = good && json_group(f, had, one, more, ret_err);
	json_decref(root);
	return good;
}

/* ---- YAML ---------------------------------------------------------------------------------- */

static const char *text_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

static bool yaml_labels(struct found_targets *f, size_t had, yaml_document_t *doc,
			const yaml_node_t *node, struct group *g, struct found_error *e)
{
	if (node->type != YAML_MAPPING_NODE)
		return fail(f, had, e, "line %zu: labels are lines of 'name: value'",
			    node->start_mark.line + 1);
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const char *name = text_of(yaml_document_get_node(doc, p->key));
		const char *value = text_of(yaml_document_get_node(doc, p->value));
		if (!name || !value)
			return fail(f, had, e, "line %zu: labels are lines of 'name: value'",
				    node->start_mark.line + 1);
		add_label(f, g, name, value);
	}
	return true;
}

static bool yaml_targets(struct found_targets *f, size_t had, yaml_document_t *doc,
			 const yaml_node_t *list, const struct group *g, struct found_error *e)
{
	bool good = list->type == YAML_SEQUENCE_NODE;

	for (const yaml_node_item_t *i = good ? list->data.sequence.items.start : NULL;
	     good && i < list->data.sequence.items.top; i++) {
		const char *address = text_of(yaml_document_get_node(doc, *i));
		good = address;
		if (good)
			add_target(f, g, address);
	}
	return good || fail(f, had, e, "line %zu: targets takes a list such as [\"10.0.0.1:6060\"]",
			    list->start_mark.line + 1);
}

static bool yaml_group(struct found_targets *f, size_t had, yaml_document_t *doc,
		       const yaml_node_t *node, const struct relabel_label *more,
		       struct found_error *e)
{
	const yaml_node_t *targets = NULL, *labels = NULL;
	struct group g = {};

	if (node->type != YAML_MAPPING_NODE)
		return fail(f, had, e, "line %zu: a group has targets and may have labels",
			    node->start_mark.line + 1);
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const char *name = text_of(yaml_document_get_node(doc, p->key));
		const yaml_node_t *value = yaml_document_get_node(doc, p->value);
		if (name && value && strcmp(name, "targets") == 0)
			targets = value;
		else if (name && value && strcmp(name, "labels") == 0)
			labels = value;
		else
			return fail(f, had, e,
				    "line %zu: a group has targets and labels, not '%.40s'",
				    node->start_mark.line + 1, name ? name : "");
	}
	if (more)
		add_label(f, &g, more->name, more->value);
	return (!labels || yaml_labels(f, had, doc, labels, &g, e)) &&
	       (!targets || yaml_targets(f, had, doc, targets, &g, e));
}

bool found_targets_node(struct found_targets *f, yaml_document_t *doc, const yaml_node_t *list,
			const struct relabel_label *more, struct found_error *ret_err)
{
	size_t had = f->count;

	if (list->type != YAML_SEQUENCE_NODE)
		return fail(f, had, ret_err, "line %zu: this is no list of groups of targets",
			    list->start_mark.line + 1);
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const yaml_node_t *node = yaml_document_get_node(doc, *i);
		if (!node || !yaml_group(f, had, doc, node, more, ret_err))
			return node ? false : fail(f, had, ret_err, "a group is missing");
	}
	return true;
}

bool found_targets_yaml(struct found_targets *f, const char *text, size_t len,
			const struct relabel_label *more, struct found_error *ret_err)
{
	size_t had = f->count;
	yaml_parser_t parser;
	yaml_document_t doc;

	if (!yaml_parser_initialize(&parser))
		return fail(f, had, ret_err, "there is no memory to read it");
	yaml_parser_set_input_string(&parser, (const unsigned char *)text, len);
	bool good = yaml_parser_load(&parser, &doc);
	if (!good) {
		fail(f, had, ret_err, "line %zu: %s", parser.problem_mark.line + 1,
		     parser.problem ? parser.problem : "not YAML");
	} else {
		const yaml_node_t *root = yaml_document_get_root_node(&doc);
		good = !root || found_targets_node(f, &doc, root, more, ret_err);
		yaml_document_delete(&doc);
	}
	yaml_parser_delete(&parser);
	return good;
}

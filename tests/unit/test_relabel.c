#include "unit/unit.h"

#include <jansson.h>
#include <stdbool.h>

#include "base/mem.h"
#include "profile/relabel_yaml.h"

/*
 * Each case is labels, rules, and what Prometheus makes of them. The expectations were written down
 * from its documentation; where promtool is installed, it is asked as well.
 */
static const struct {
	const char *labels; /* a="1",b="2" as JSON's inside; the names sorted */
	const char *rules;
	const char *want; /* NULL: dropped */
} cases[] = {
	{"'a':'1'", "[]", "'a':'1'"},
	{"'a':'1','b':'2'", "[{source_labels: [a, b], target_label: c}]",
	 "'a':'1','b':'2','c':'1;2'"},
	{"'a':'1','b':'2'", "[{source_labels: [a, b], separator: '-', target_label: c}]",
	 "'a':'1','b':'2','c':'1-2'"},
	{"'a':'1'", "[{source_labels: [a, none], separator: '', target_label: c}]",
	 "'a':'1','c':'1'"},
	{"'a':'foo'",
	 "[{source_labels: [a], regex: 'f(.*)', target_label: c, replacement: 'x${1}y'}]",
	 "'a':'foo','c':'xooy'"},
	{"'a':'foo'",
	 "[{source_labels: [a], regex: 'f(.*)', target_label: c, replacement: 'x$1y'}]",
	 "'a':'foo','c':'x'"},
	{"'a':'foo'", "[{source_labels: [a], regex: 'o', target_label: c, replacement: x}]",
	 "'a':'foo'"},
	{"'a':'foo'", "[{source_labels: [a], regex: 'f|foo', target_label: c, replacement: x}]",
	 "'a':'foo','c':'x'"},
	{"'a':'foo'",
	 "[{source_labels: [a], regex: '(?P<n>f)oo', target_label: c, replacement: '${n}$n$2.'}]",
	 "'a':'foo','c':'ff.'"},
	{"'a':'foo'", "[{source_labels: [a], target_label: c, replacement: '$$1 ${ $} $'}]",
	 "'a':'foo','c':'$1 ${ $} $'"},
	{"'a':'foo'",
	 "[{source_labels: [a], regex: '(f)(x)?.*', target_label: c, replacement: '$2'}]",
	 "'a':'foo'"},
	{"'a':'foo','c':'old'",
	 "[{source_labels: [a], regex: 'f.*', target_label: c, replacement: ''}]", "'a':'foo'"},
	{"'a':'foo'", "[{source_labels: [none], regex: '', target_label: c, replacement: unset}]",
	 "'a':'foo','c':'unset'"},
	{"'a':'foo'", "[{target_label: c, replacement: always}]", "'a':'foo','c':'always'"},
	{"'a':'foo'",
	 "[{source_labels: [a], regex: '(f)(.*)', target_label: '${1}_$2', replacement: x}]",
	 "'a':'foo','f_oo':'x'"},
	{"'a':'f-oo'",
	 "[{source_labels: [a], regex: '(.*)', target_label: 'x_$1', replacement: x}]",
	 "'a':'f-oo'"},
	{"'a':'foo'", "[{source_labels: [a], regex: 'fo+', action: keep}]", "'a':'foo'"},
	{"'a':'foo'", "[{source_labels: [a], regex: 'fo', action: keep}]", NULL},
	{"'a':'foo'", "[{source_labels: [a], regex: 'fo+', action: drop}]", NULL},
	{"'a':'foo'", "[{source_labels: [a], regex: 'fo', action: Drop}]", "'a':'foo'"},
	{"'a':'foo'", "[{source_labels: [none], regex: '.+', action: keep}]", NULL},
	{"'a':'foo','b':'foo'", "[{source_labels: [a], target_label: b, action: keepequal}]",
	 "'a':'foo','b':'foo'"},
	{"'a':'foo','b':'bar'", "[{source_labels: [a], target_label: b, action: keepequal}]", NULL},
	{"'a':'foo','b':'foo'", "[{source_labels: [a], target_label: b, action: dropequal}]", NULL},
	{"'a':'foo'", "[{source_labels: [a], target_label: c, modulus: 1000, action: hashmod}]",
	 "'a':'foo','c':'696'"},
	{"'a':'foo\\nbar'",
	 "[{source_labels: [a], target_label: c, modulus: 1000, action: hashmod}]",
	 "'a':'foo\\nbar','c':'734'"},
	{"'a':'','b':'x'",
	 "[{source_labels: [none], target_label: c, modulus: 18446744073709551615, action: "
	 "hashmod}]",
	 "'b':'x','c':'16825458760271544958'"},
	{"'a':'FoO-1'", "[{source_labels: [a], target_label: c, action: lowercase}]",
	 "'a':'FoO-1','c':'foo-1'"},
	{"'a':'FoO-1'", "[{source_labels: [a], target_label: a, action: uppercase}]",
	 "'a':'FOO-1'"},
	{"'k8s_app':'x','k8s_tier':'y','z':'1'", "[{regex: 'k8s_(.+)', action: labelmap}]",
	 "'app':'x','k8s_app':'x','k8s_tier':'y','tier':'y','z':'1'"},
	{"'k8s_app':'x'", "[{regex: 'k8s_(.+)', replacement: 'pod_$1', action: labelmap}]",
	 "'k8s_app':'x','pod_app':'x'"},
	{"'ab':'1','abc':'2','b':'3'", "[{regex: 'a.*', action: labeldrop}]", "'b':'3'"},
	{"'ab':'1','abc':'2','b':'3'", "[{regex: 'ab|b', action: labelkeep}]", "'ab':'1','b':'3'"},
	/* Each rule sees what those before it have made. */
	{"'a':'foo'",
	 "[{source_labels: [a], target_label: b}, {source_labels: [b], regex: foo, target_label: "
	 "c, "
	 "replacement: bar}, {regex: 'a|b', action: labeldrop}]",
	 "'c':'bar'"},
	{"'a':'foo'",
	 "[{source_labels: [a], target_label: b, regex: x}, {source_labels: [b], regex: '', "
	 "action: drop}]",
	 NULL},
	{"'a':'ä€'", "[{source_labels: [a], regex: '(.)€', target_label: c}]", "'a':'ä€','c':'ä'"},
};

/* What Prometheus refuses. */
static const char *const invalid[] = {
	"[{action: replace}]",
	"[{action: replace, target_label: 'a-b'}]",
	"[{action: unheard, target_label: a}]",
	"[{action: hashmod, target_label: a, source_labels: [b]}]",
	"[{action: hashmod, source_labels: [b], modulus: 8}]",
	"[{action: lowercase, target_label: '${1}'}]",
	"[{action: labelmap, replacement: 'a-$1'}]",
	"[{action: labeldrop, regex: a, source_labels: [b]}]",
	"[{action: labelkeep, regex: a, target_label: b}]",
	"[{action: keepequal, source_labels: [a], target_label: b, regex: c}]",
	"[{source_labels: [a], regex: '(', target_label: b}]",
	"[{source_labels: ['a-b'], target_label: b}]",
	"[{source_labels: a, target_label: b}]",
	"[{target_label: b, colour: red}]",
	"[{target_label: [b]}]",
	"[a]",
	"{a: b}",
};

static char *with_quotes(const char *text)
{
	char *copy = mem_strdup(text);

	for (char *c = copy; *c; c++)
		*c = *c == '\'' ? '"' : *c;
	return copy;
}

static json_t *labels_of(const char *text)
{
	CLEANUP(freep) char *quoted = with_quotes(text);
	CLEANUP(freep) char *object = mem_printf("{%s}", quoted);
	json_t *json = json_loads(object, 0, NULL);

	assert_non_null(json);
	return json;
}

static int read_rules(const char *rules, struct relabel *r, struct relabel_error *e)
{
	yaml_parser_t parser;
	yaml_document_t doc;

	assert_true(yaml_parser_initialize(&parser));
	yaml_parser_set_input_string(&parser, (const unsigned char *)rules, strlen(rules));
	assert_true(yaml_parser_load(&parser, &doc));
	int err = relabel_yaml_read(&doc, yaml_document_get_root_node(&doc), r, e);
	yaml_document_delete(&doc);
	yaml_parser_delete(&parser);
	return err;
}

/* NULL: dropped. */
static json_t *apply(const char *labels, const char *rules)
{
	struct relabel *r = relabel_new();
	struct relabel_labels l = {};
	struct relabel_error e;
	json_t *in = labels_of(labels), *out = NULL, *value;
	const char *key;

	if (read_rules(rules, r, &e))
		fail_msg("%s: %s", rules, e.text);
	json_object_foreach(in, key, value)
	{
		relabel_labels_set(&l, key, json_string_value(value));
	}
	if (relabel_apply(r, &l)) {
		out = json_object();
		for (size_t i = 0; i < l.count; i++)
			json_object_set_new(out, l.list[i].name, json_string(l.list[i].value));
	}
	json_decref(in);
	relabel_labels_done(&l);
	relabel_free(r);
	return out;
}

static void check_same(const char *whose, const char *rules, const json_t *is, const json_t *want)
{
	CLEANUP(freep) char *a = is ? json_dumps(is, JSON_SORT_KEYS) : mem_strdup("dropped");
	CLEANUP(freep) char *b = want ? json_dumps(want, JSON_SORT_KEYS) : mem_strdup("dropped");

	if (strcmp(a, b) != 0)
		fail_msg("%s: %s is %s, not %s", rules, whose, a, b);
}

static void does_what_prometheus_documents(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *is = apply(cases[i].labels, cases[i].rules);
		json_t *want = cases[i].want ? labels_of(cases[i].want) : NULL;
		check_same("it", cases[i].rules, is, want);
		json_decref(is);
		json_decref(want);
	}
}

static void refuses_what_prometheus_refuses(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(invalid); i++) {
		struct relabel *r = relabel_new();
		struct relabel_error e = {};
		if (read_rules(invalid[i], r, &e) != -EINVAL)
			fail_msg("%s was taken", invalid[i]);
		assert_int_equal(strncmp(e.text, "line 1: ", 8), 0);
		relabel_free(r);
	}
}

/* ---- beside promtool ----------------------------------------------------------------------- */

/* A job for each case, whose one target has the labels; promtool adds some of its own. */
static void write_config(FILE *f, const char *labels, const char *rules)
{
	CLEANUP(freep) char *quoted = with_quotes(labels);

	fprintf(f,
		"scrape_configs:\n- job_name: job\n  static_configs:\n"
		"  - targets: [t]\n    labels: {%s}\n  relabel_configs: %s\n",
		quoted, rules);
}

/* It waits for as long as it may for more targets. */
static FILE *ask_promtool(const char *labels, const char *rules, const char *path)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	write_config(f, labels, rules);
	fclose(f);
	CLEANUP(freep)
	char *command = mem_printf("promtool check service-discovery --timeout=2s %s job "
				   "2>/dev/null",
				   path);
	return popen(command, "r");
}

/* What it adds to every target is not ours; a rule about names drops that as well. */
static json_t *own_labels(const json_t *answer)
{
	static const char *const added[] = {"instance",          "job",
					    "__address__",       "__metrics_path__",
					    "__scheme__",        "__scrape_interval__",
					    "__scrape_timeout__"};
	json_t *labels = json_object_get(json_array_get(answer, 0), "labels");

	if (!json_object_size(labels))
		return NULL;
	json_t *own = json_copy(labels);
	for (size_t i = 0; i < ARRAY_SIZE(added); i++)
		json_object_del(own, added[i]);
	return own;
}

static void does_what_promtool_does(void **state)
{
	(void)state;
	if (system("command -v promtool >/dev/null") != 0)
		skip();
	char dir[] = "/tmp/smolder-relabel-XXXXXX";
	FILE *asked[ARRAY_SIZE(cases)] = {};
	assert_non_null(mkdtemp(dir));
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		CLEANUP(freep) char *path = mem_printf("%s/%zu", dir, i);
		/* It scrapes no target without an address. */
		if (!strstr(cases[i].rules, "labelkeep") && !strstr(cases[i].rules, "equal"))
			asked[i] = ask_promtool(cases[i].labels, cases[i].rules, path);
	}
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		json_t *answer = asked[i] ? json_loadf(asked[i], 0, NULL) : NULL;
		if (!asked[i])
			continue;
		pclose(asked[i]);
		if (!json_is_array(answer))
			fail_msg("promtool does not answer to %s", cases[i].rules);
		json_t *is = apply(cases[i].labels, cases[i].rules), *want = own_labels(answer);
		check_same("beside promtool, it", cases[i].rules, is, want);
		json_decref(is);
		json_decref(want);
		json_decref(answer);
	}
	CLEANUP(freep) char *remove = mem_printf("rm -r %s", dir);
	assert_int_equal(system(remove), 0);
}

/* ---- caps ---------------------------------------------------------------------------------- */

static void keeps_its_caps(void **state)
{
	struct relabel *r = relabel_new();
	struct relabel_labels l = {};
	struct relabel_error e;
	char name[16];

	(void)state;
	assert_int_equal(
		read_rules("[{source_labels: [a], regex: '(a+)+[bc]', action: drop}]", r, &e), 0);
	relabel_labels_set(&l, "a", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaad");
	assert_true(relabel_apply(r, &l));
	assert_int_equal(relabel_given_up(r), 1);
	assert_true(relabel_reads(r, "a"));
	assert_false(relabel_reads(r, "b"));

	CLEANUP(freep) char *large = mem_alloc(2 * RELABEL_VALUE_MAX);
	memset(large, 'x', 2 * RELABEL_VALUE_MAX - 1);
	relabel_labels_set(&l, "b", large);
	assert_int_equal(strlen(relabel_labels_get(&l, "b")), RELABEL_VALUE_MAX);
	assert_int_equal(l.refused, 1);
	relabel_free(r);
	r = relabel_new();
	assert_int_equal(read_rules("[{source_labels: [b, b, b], target_label: c, replacement: "
				    "'$1$1$1'}]",
				    r, &e),
			 0);
	assert_true(relabel_apply(r, &l));
	assert_true(strlen(relabel_labels_get(&l, "c")) <= RELABEL_VALUE_MAX);
	relabel_labels_clear(&l);
	for (int i = 0; i < RELABEL_LABELS_MAX + 5; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		relabel_labels_set(&l, name, "1");
	}
	assert_int_equal(l.count, RELABEL_LABELS_MAX);
	relabel_labels_done(&l);
	const struct relabel_rule rule = {.target_label = "a"};
	while (relabel_count(r) < RELABEL_RULES_MAX)
		assert_int_equal(relabel_add(r, &rule, &e), 0);
	assert_int_equal(relabel_add(r, &rule, &e), -EINVAL);
	relabel_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(does_what_prometheus_documents),
		cmocka_unit_test(refuses_what_prometheus_refuses),
		cmocka_unit_test(does_what_promtool_does),
		cmocka_unit_test(keeps_its_caps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

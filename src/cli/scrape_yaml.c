#include "cli/scrape_yaml.h"

#include <stdarg.h>
#include <string.h>

#include "base/duration.h"
#include "base/fetch.h"
#include "base/mem.h"
#include "profile/relabel_yaml.h"

#define LIST_MAX 64

__attribute__((format(printf, 3, 4))) static bool wrong(struct scrape_yaml *y,
							const yaml_node_t *at, const char *fmt, ...)
{
	char what[200];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(what, sizeof(what), fmt, ap);
	va_end(ap);
	snprintf(y->err->text, sizeof(y->err->text), "line %zu: %s",
		 at ? at->start_mark.line + 1 : 0, what);
	return false;
}

static const char *text_of(const yaml_node_t *node)
{
	return node && node->type == YAML_SCALAR_NODE ? (const char *)node->data.scalar.value
						      : NULL;
}

/* ---- kinds of values ----------------------------------------------------------------------- */

typedef bool read_fn(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to);

/* NULL at the end: `read` of NULL is a key without effect. */
struct key {
	const char *name;
	read_fn *read;
	size_t at; /* of what it sets */
};

static bool read_text(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	const char *text = text_of(value);
	char **set = to;

	if (!text)
		return wrong(y, value, "%s takes one value", key);
	free(*set);
	*set = mem_strdup(text);
	return true;
}

static bool read_path(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	char **set = to;

	if (!read_text(y, value, key, to))
		return false;
	if (*set && **set && **set != '/') {
		char *whole = mem_printf("%s/%s", y->dir, *set);
		free(*set);
		*set = whole;
	}
	return true;
}

static bool read_flag(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	static const char *const words[] = {"true", "yes", "on", "false", "no", "off"};
	const char *text = text_of(value);

	for (size_t i = 0; text && i < ARRAY_SIZE(words); i++)
		if (strcasecmp(text, words[i]) == 0) {
			*(bool *)to = i < ARRAY_SIZE(words) / 2;
			return true;
		}
	return wrong(y, value, "%s takes true or false", key);
}

static bool read_off(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	bool on = false;

	if (!read_flag(y, value, key, &on))
		return false;
	*(bool *)to = !on;
	return true;
}

/* 0 is what Parca has for "not given". */
static bool read_time(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	const char *text = text_of(value);
	uint64_t ms = 0;

	if (!text || (strcmp(text, "0") != 0 && strcmp(text, "0s") != 0 &&
		      duration_parse_ms(text, 0, &ms) != 0))
		return wrong(y, value, "%s takes a time such as 10s, not '%.40s'", key,
			     text ? text : "");
	*(uint64_t *)to = ms;
	return true;
}

static bool read_nothing(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	(void)value, (void)to;
	fprintf(y->ignored, ", %s", key);
	return true;
}

/* Each key of a mapping by its line in the table. */
static bool read_mapping(struct scrape_yaml *y, const yaml_node_t *node, const char *what,
			 const struct key *keys, void *to)
{
	if (!node || node->type != YAML_MAPPING_NODE)
		return wrong(y, node, "%s takes lines of 'name: value'", what);
	for (const yaml_node_pair_t *p = node->data.mapping.pairs.start;
	     p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *at = yaml_document_get_node(y->doc, p->key);
		const yaml_node_t *value = yaml_document_get_node(y->doc, p->value);
		const char *name = text_of(at);
		const struct key *k = keys;
		while (k->name && (!name || strcmp(k->name, name) != 0))
			k++;
		if (!k->name || !value)
			return wrong(y, at ? at : node, "%s has no '%.64s'", what,
				     name ? name : "");
		if (!k->read(y, value, k->name, (char *)to + k->at))
			return false;
	}
	return true;
}

typedef bool item_fn(struct scrape_yaml *y, const yaml_node_t *item, void *to);

static bool read_list(struct scrape_yaml *y, const yaml_node_t *list, const char *what,
		      item_fn *read, void *to)
{
	if (list->type != YAML_SEQUENCE_NODE)
		return wrong(y, list, "%s takes a list", what);
	for (const yaml_node_item_t *i = list->data.sequence.items.start;
	     i < list->data.sequence.items.top; i++) {
		const yaml_node_t *item = yaml_document_get_node(y->doc, *i);
		if (!item || !read(y, item, to))
			return item ? false : wrong(y, list, "%s has an item that is empty", what);
	}
	return true;
}

/* ---- access -------------------------------------------------------------------------------- */

static const struct key basic_auth[] = {
	{"username", read_text, offsetof(struct scrape_access, user)},
	{"password", read_text, offsetof(struct scrape_access, password)},
	{"password_file", read_path, offsetof(struct scrape_access, password_file)},
	{},
};

static bool read_basic(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	struct scrape_access *a = to;

	return read_mapping(y, value, key, basic_auth, to) &&
	       (a->user || wrong(y, value, "basic_auth needs a username"));
}

static bool read_bearer_kind(struct scrape_yaml *y, const yaml_node_t *value, const char *key,
			     void *to)
{
	const char *text = text_of(value);

	(void)to;
	return (text && strcasecmp(text, "Bearer") == 0) ||
	       wrong(y, value, "%s of authorization can only be Bearer", key);
}

static const struct key authorization[] = {
	{"type", read_bearer_kind, 0},
	{"credentials", read_text, offsetof(struct scrape_access, bearer)},
	{"credentials_file", read_path, offsetof(struct scrape_access, bearer_file)},
	{},
};

static bool read_authorization(struct scrape_yaml *y, const yaml_node_t *value, const char *key,
			       void *to)
{
	return read_mapping(y, value, key, authorization, to);
}

static const struct key tls_config[] = {
	{"ca_file", read_path, offsetof(struct scrape_access, ca_file)},
	{"cert_file", read_path, offsetof(struct scrape_access, cert_file)},
	{"key_file", read_path, offsetof(struct scrape_access, key_file)},
	{"server_name", read_text, offsetof(struct scrape_access, server_name)},
	{"insecure_skip_verify", read_flag, offsetof(struct scrape_access, unverified)},
	{"min_version", read_nothing, 0},
	{"max_version", read_nothing, 0},
	{},
};

static bool read_tls(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	return read_mapping(y, value, key, tls_config, to);
}

#define ACCESS_KEYS(of)                                                                            \
	{"basic_auth", read_basic, offsetof(of, access)},                                          \
		{"authorization", read_authorization, offsetof(of, access)},                       \
		{"bearer_token", read_text, offsetof(of, access.bearer)},                          \
		{"bearer_token_file", read_path, offsetof(of, access.bearer_file)},                \
		{"tls_config", read_tls, offsetof(of, access)},                                    \
		{"follow_redirects", read_off, offsetof(of, access.stay)},                         \
		{"enable_http2", read_nothing, 0}, {"oauth2", read_nothing, 0},                    \
		{"proxy_url", read_nothing, 0}, {"no_proxy", read_nothing, 0},                     \
		{"proxy_from_environment", read_nothing, 0},                                       \
		{"proxy_connect_header", read_nothing, 0},                                         \
	{                                                                                          \
		"http_headers", read_nothing, 0                                                    \
	}

static bool check_access(struct scrape_yaml *y, const yaml_node_t *at,
			 const struct scrape_access *a)
{
	if (a->user && (a->bearer || a->bearer_file))
		return wrong(y, at, "a job has either basic_auth or a bearer token");
	if (a->password && a->password_file)
		return wrong(y, at, "basic_auth has either password or password_file");
	if (a->bearer && a->bearer_file)
		return wrong(y, at, "a token is given twice, as itself and as a file");
	return true;
}

/* ---- where targets come from --------------------------------------------------------------- */

static struct scrape_source *add_source(struct scrape_job *j, enum scrape_source_kind kind)
{
	j->sources = mem_resize_array(j->sources, j->source_count + 1, sizeof(*j->sources));
	struct scrape_source *s = &j->sources[j->source_count++];
	*s = (struct scrape_source){.kind = kind, .refresh_ms = SCRAPE_REFRESH_S * 1000};
	return s;
}

static bool read_static(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	struct scrape_source *s = add_source(to, SCRAPE_STATIC);
	struct found_error why;

	(void)key;
	if (found_targets_node(&s->targets, y->doc, value, NULL, &why))
		return true;
	snprintf(y->err->text, sizeof(y->err->text), "%s", why.text);
	return false;
}

static bool add_file(struct scrape_yaml *y, const yaml_node_t *item, void *to)
{
	char ***files = to;
	size_t n = 0;

	while (*files && (*files)[n])
		n++;
	if (n == LIST_MAX)
		return wrong(y, item, "files has more than %d patterns", LIST_MAX);
	*files = mem_resize_array(*files, n + 2, sizeof(**files));
	(*files)[n] = (*files)[n + 1] = NULL;
	return read_path(y, item, "files", &(*files)[n]);
}

static bool read_files(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	return read_list(y, value, key, add_file, to);
}

static const struct key file_sd[] = {
	{"files", read_files, offsetof(struct scrape_source, files)},
	{"refresh_interval", read_time, offsetof(struct scrape_source, refresh_ms)},
	{},
};

static const struct key http_sd[] = {
	{"url", read_text, offsetof(struct scrape_source, url)},
	{"refresh_interval", read_time, offsetof(struct scrape_source, refresh_ms)},
	ACCESS_KEYS(struct scrape_source),
	{},
};

static bool add_file_sd(struct scrape_yaml *y, const yaml_node_t *item, void *to)
{
	struct scrape_source *s = add_source(to, SCRAPE_FILE);

	return read_mapping(y, item, "file_sd_configs", file_sd, s) &&
	       (s->files || wrong(y, item, "file_sd_configs needs files"));
}

static bool add_http_sd(struct scrape_yaml *y, const yaml_node_t *item, void *to)
{
	struct scrape_source *s = add_source(to, SCRAPE_HTTP);

	if (!read_mapping(y, item, "http_sd_configs", http_sd, s) ||
	    !check_access(y, item, &s->access))
		return false;
	if (!s->url || !fetch_is_url(s->url))
		return wrong(y, item,
			     "http_sd_configs needs a url such as http://10.0.0.1/targets");
	s->refresh_ms = MAX(s->refresh_ms, 1000);
	return true;
}

static bool read_file_sd(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	return read_list(y, value, key, add_file_sd, to);
}

static bool read_http_sd(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	return read_list(y, value, key, add_http_sd, to);
}

/* ---- what is asked for --------------------------------------------------------------------- */

struct sample_type {
	char *type, *unit;
};

static const struct key sample_type[] = {
	{"type", read_text, offsetof(struct sample_type, type)},
	{"unit", read_text, offsetof(struct sample_type, unit)},
	{},
};

static bool add_sample_type(struct scrape_yaml *y, const yaml_node_t *item, void *to)
{
	struct sample_type t = {};
	char **keep = to;
	bool good = read_mapping(y, item, "keep_sample_type", sample_type, &t);

	if (good && (!t.type || !t.unit))
		good = wrong(y, item, "keep_sample_type needs a type and a unit");
	if (good) {
		char *more = mem_printf("%s%s:%s,", *keep ? *keep : ",", t.type, t.unit);
		free(*keep);
		*keep = more;
	}
	free(t.type);
	free(t.unit);
	return good;
}

static bool read_keep(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	return read_list(y, value, key, add_sample_type, to);
}

static bool read_delta(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	struct scrape_profile *p = to;

	p->has_delta = true;
	return read_flag(y, value, key, &p->delta);
}

static const struct key one_profile[] = {
	{"enabled", read_off, offsetof(struct scrape_profile, off)},
	{"path", read_text, offsetof(struct scrape_profile, path)},
	{"delta", read_delta, 0},
	{"keep_sample_type", read_keep, offsetof(struct scrape_profile, keep)},
	{},
};

static bool read_profiles(struct scrape_yaml *y, const yaml_node_t *value, const char *key,
			  void *to)
{
	if (value->type != YAML_MAPPING_NODE)
		return wrong(y, value, "%s takes the names of profiles", key);
	for (const yaml_node_pair_t *p = value->data.mapping.pairs.start;
	     p < value->data.mapping.pairs.top; p++) {
		const yaml_node_t *node = yaml_document_get_node(y->doc, p->value);
		const char *name = text_of(yaml_document_get_node(y->doc, p->key));
		if (!name || !*name || strlen(name) > 32)
			return wrong(y, value, "the name of a profile has 1 to 32 bytes");
		struct scrape_profile *one = scrape_job_profile(to, name);
		if (!one)
			return wrong(y, value, "%s has more than %d profiles", key,
				     SCRAPE_PROFILES_MAX - 5);
		if (!read_mapping(y, node, name, one_profile, one))
			return false;
	}
	return true;
}

static const struct key profiling[] = {
	{"pprof_config", read_profiles, 0},
	{"path_prefix", read_text, offsetof(struct scrape_job, path_prefix)},
	{},
};

static bool read_profiling(struct scrape_yaml *y, const yaml_node_t *value, const char *key,
			   void *to)
{
	return read_mapping(y, value, key, profiling, to);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

static bool read_params(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	struct scrape_job *j = to;

	if (value->type != YAML_MAPPING_NODE)
		return wrong(y, value, "%s takes lines of 'name: [value]'", key);
	for (const yaml_node_pair_t *p = value->data.mapping.pairs.start;
	     p < value->data.mapping.pairs.top; p++) {
		const char *name = text_of(yaml_document_get_node(y->doc, p->key));
		const yaml_node_t *list = yaml_document_get_node(y->doc, p->value);
		const char *first = NULL;
		if (list && list->type == YAML_SEQUENCE_NODE &&
		    list->data.sequence.items.start < list->data.sequence.items.top)
			first = text_of(
				yaml_document_get_node(y->doc, *list->data.sequence.items.start));
		if (!name || !first || j->param_count == LIST_MAX)
			return wrong(y, value, "%s takes lines of 'name: [value]'", key);
		j->params = mem_resize_array(j->params, j->param_count + 1, sizeof(*j->params));
		j->params[j->param_count++] =
			(struct scrape_text){mem_strdup(name), mem_strdup(first)};
	}
	return true;
}

static bool read_relabel(struct scrape_yaml *y, const yaml_node_t *value, const char *key, void *to)
{
	struct relabel **set = to;
	struct relabel_error why;

	(void)key;
	relabel_free(*set);
	*set = relabel_new();
	if (relabel_yaml_read(y->doc, value, *set, &why) == 0)
		return true;
	snprintf(y->err->text, sizeof(y->err->text), "%s", why.text);
	return false;
}

static const struct key job_keys[] = {
	{"job_name", read_text, offsetof(struct scrape_job, name)},
	{"scrape_interval", read_time, offsetof(struct scrape_job, interval_ms)},
	{"scrape_timeout", read_time, offsetof(struct scrape_job, timeout_ms)},
	{"scheme", read_text, offsetof(struct scrape_job, scheme)},
	{"params", read_params, 0},
	{"static_configs", read_static, 0},
	{"file_sd_configs", read_file_sd, 0},
	{"http_sd_configs", read_http_sd, 0},
	{"relabel_configs", read_relabel, offsetof(struct scrape_job, relabel)},
	{"profiling_config", read_profiling, 0},
	ACCESS_KEYS(struct scrape_job),
	{"normalized_addresses", read_nothing, 0},
	{"metrics_path", read_nothing, 0},
	{"metric_relabel_configs", read_nothing, 0},
	{"honor_labels", read_nothing, 0},
	{"honor_timestamps", read_nothing, 0},
	{"track_timestamps_staleness", read_nothing, 0},
	{"enable_compression", read_nothing, 0},
	{"body_size_limit", read_nothing, 0},
	{"sample_limit", read_nothing, 0},
	{"label_limit", read_nothing, 0},
	{"label_name_length_limit", read_nothing, 0},
	{"label_value_length_limit", read_nothing, 0},
	{"target_limit", read_nothing, 0},
	{"keep_dropped_targets", read_nothing, 0},
	{"azure_sd_configs", read_nothing, 0},
	{"consul_sd_configs", read_nothing, 0},
	{"digitalocean_sd_configs", read_nothing, 0},
	{"docker_sd_configs", read_nothing, 0},
	{"dockerswarm_sd_configs", read_nothing, 0},
	{"dns_sd_configs", read_nothing, 0},
	{"ec2_sd_configs", read_nothing, 0},
	{"eureka_sd_configs", read_nothing, 0},
	{"gce_sd_configs", read_nothing, 0},
	{"hetzner_sd_configs", read_nothing, 0},
	{"kubernetes_sd_configs", read_nothing, 0},
	{"kuma_sd_configs", read_nothing, 0},
	{"linode_sd_configs", read_nothing, 0},
	{"marathon_sd_configs", read_nothing, 0},
	{"nomad_sd_configs", read_nothing, 0},
	{"openstack_sd_configs", read_nothing, 0},
	{"serverset_sd_configs", read_nothing, 0},
	{"triton_sd_configs", read_nothing, 0},
	{},
};

/* What was not said, and whether it fits together. */
static bool complete(struct scrape_yaml *y, const yaml_node_t *at, struct scrape_job *j,
		     const struct scrape_config *all)
{
	if (!j->name || !*j->name)
		return wrong(y, at, "a job of scrape_configs needs a job_name");
	for (size_t i = 0; i + 1 < all->job_count; i++)
		if (strcmp(all->jobs[i].name, j->name) == 0)
			return wrong(y, at, "there are two jobs with the name %.64s", j->name);
	if (j->scheme && strcmp(j->scheme, "http") != 0 && strcmp(j->scheme, "https") != 0)
		return wrong(y, at, "scheme is http or https, not '%.40s'", j->scheme);
	if (!j->interval_ms)
		j->interval_ms = y->interval_ms ? y->interval_ms : SCRAPE_INTERVAL_S * 1000;
	if (j->interval_ms < 1000 || j->interval_ms > SCRAPE_LONGEST_S * 1000)
		return wrong(y, at, "the scrape_interval of the job %.64s is not from 1s to %dm",
			     j->name, SCRAPE_LONGEST_S / 60);
	if (!j->timeout_ms)
		j->timeout_ms = y->timeout_ms ? y->timeout_ms : j->interval_ms + 3000;
	if (j->timeout_ms > 2 * SCRAPE_LONGEST_S * 1000)
		return wrong(y, at, "the scrape_timeout of the job %.64s is over %dm", j->name,
			     2 * SCRAPE_LONGEST_S / 60);
	scrape_job_defaults(j);
	return check_access(y, at, &j->access);
}

static bool add_job(struct scrape_yaml *y, const yaml_node_t *item, void *to)
{
	struct scrape_config *all = to;

	if (all->job_count == SCRAPE_JOBS_MAX)
		return wrong(y, item, "there are more than %d jobs", SCRAPE_JOBS_MAX);
	all->jobs = mem_resize_array(all->jobs, all->job_count + 1, sizeof(*all->jobs));
	struct scrape_job *j = &all->jobs[all->job_count++];
	*j = (struct scrape_job){};
	return read_mapping(y, item, "a job of scrape_configs", job_keys, j) &&
	       complete(y, item, j, all);
}

bool scrape_yaml_read(struct scrape_yaml *y, const yaml_node_t *list, struct scrape_config *to)
{
	return read_list(y, list, "scrape_configs", add_job, to);
}

static const struct key global_keys[] = {
	{"scrape_interval", read_time, offsetof(struct scrape_yaml, interval_ms)},
	{"scrape_timeout", read_time, offsetof(struct scrape_yaml, timeout_ms)},
	{"evaluation_interval", read_nothing, 0},
	{"external_labels", read_nothing, 0},
	{},
};

bool scrape_yaml_global(struct scrape_yaml *y, const yaml_node_t *node)
{
	return read_mapping(y, node, "global", global_keys, y);
}

/*
 * grafana_settings: what Grafana's Profiles Drilldown keeps at its data source: names and values,
 * in a file beside the store. Few and small; calls come from several threads.
 */
#include <errno.h>
#include <jansson.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/mem.h"
#include "serve/connect.h"
#include "serve/querier.pb-c.h"

#define SETTINGS_MAX 64
#define NAME_BYTES   256u
#define VALUE_BYTES  (32u << 10)
#define FILE_BYTES   (16u << 20)

struct grafana_settings {
	pthread_mutex_t lock;
	char *path;
	json_t *all; /* {"name": {"value": …, "modifiedAt": …}} */
};

struct grafana_settings *grafana_settings_new(const char *dir)
{
	struct grafana_settings *g = mem_alloc(sizeof(*g));
	CLEANUP(freep) char *text = NULL;
	size_t len;

	pthread_mutex_init(&g->lock, NULL);
	g->path = mem_printf("%s/grafana-settings.json", dir);
	if (file_read(g->path, FILE_BYTES, &text, &len) == 0)
		g->all = json_loadb(text, len, 0, NULL);
	if (!json_is_object(g->all)) { /* none yet; or damaged, and Grafana has its defaults */
		json_decref(g->all);
		g->all = json_object();
	}
	return g;
}

void grafana_settings_free(struct grafana_settings *g)
{
	if (!g)
		return;
	json_decref(g->all);
	pthread_mutex_destroy(&g->lock);
	free(g->path);
	free(g);
}

static int save(const struct grafana_settings *g)
{
	struct file_out out;
	int r = file_out_open(&out, g->path);

	if (r)
		return r;
	if (json_dumpf(g->all, out.f, JSON_SORT_KEYS) != 0) {
		file_out_abort(&out);
		return -EIO;
	}
	return file_out_commit(&out);
}

static char *text_of(json_t *one, const char *key)
{
	const char *text = json_string_value(json_object_get(one, key));

	return (char *)(uintptr_t)(text ? text : "");
}

static void get(struct connect_call *c, struct store *s)
{
	struct grafana_settings *g = c->q.server->grafana_settings;
	Querier__GetSettingsResponse answer = QUERIER__GET_SETTINGS_RESPONSE__INIT;
	CLEANUP(arena_done) struct arena a = {};
	const char *name;
	json_t *one;

	(void)s;
	pthread_mutex_lock(&g->lock);
	size_t count = json_object_size(g->all);
	Querier__Setting *settings = CONNECT_LIST(&a, Querier__Setting, count);
	answer.settings = CONNECT_LIST(&a, Querier__Setting *, count);
	json_object_foreach(g->all, name, one)
	{
		Querier__Setting *to = &settings[answer.n_settings];
		querier__setting__init(to);
		to->name = (char *)(uintptr_t)name;
		to->value = text_of(one, "value");
		to->modifiedat = json_integer_value(json_object_get(one, "modifiedAt"));
		answer.settings[answer.n_settings++] = to;
	}
	connect_answer(c, &answer.base);
	pthread_mutex_unlock(&g->lock);
}

static bool keep(struct connect_call *c, struct grafana_settings *g, const Querier__Setting *s)
{
	json_t *one =
		json_pack("{s:s, s:I}", "value", s->value, "modifiedAt", (json_int_t)s->modifiedat);

	if (!one)
		return query_job_wrong(&c->q, 400, "the value is not UTF-8");
	if (!json_object_get(g->all, s->name) && json_object_size(g->all) >= SETTINGS_MAX) {
		json_decref(one);
		return query_job_wrong(&c->q, 429, "there are %d settings already", SETTINGS_MAX);
	}
	if (json_object_set_new(g->all, s->name, one) != 0)
		return query_job_wrong(&c->q, 400, "the name is not UTF-8");
	int r = save(g);
	return !r || query_job_wrong(&c->q, 500, "%s: cannot write: %s", g->path, strerror(-r));
}

static void set(struct connect_call *c, struct store *s)
{
	const Querier__SetSettingsRequest *r = (const Querier__SetSettingsRequest *)c->request;
	struct grafana_settings *g = c->q.server->grafana_settings;
	Querier__SetSettingsResponse answer = QUERIER__SET_SETTINGS_RESPONSE__INIT;

	(void)s;
	if (!r->setting || !*r->setting->name || strlen(r->setting->name) > NAME_BYTES ||
	    strlen(r->setting->value) > VALUE_BYTES) {
		query_job_wrong(&c->q, 400,
				"a setting has a name, of at most %u bytes, and a value, of at "
				"most %u",
				NAME_BYTES, VALUE_BYTES);
		return;
	}
	Querier__Setting setting = *r->setting;
	if (!setting.modifiedat)
		setting.modifiedat = (int64_t)clock_ms(CLOCK_REALTIME);
	pthread_mutex_lock(&g->lock);
	bool ok = keep(c, g, &setting);
	pthread_mutex_unlock(&g->lock);
	answer.setting = &setting;
	if (ok)
		connect_answer(c, &answer.base);
}

static const struct connect_method methods[] = {
	{"Get", &querier__get_settings_request__descriptor, get},
	{"Set", &querier__set_settings_request__descriptor, set},
	{},
};

void grafana_settings_get(void *ctx, struct http_request *r)
{
	connect_start(ctx, r, methods, "Get");
}

void grafana_settings_set(void *ctx, struct http_request *r)
{
	connect_start(ctx, r, methods, "Set");
}

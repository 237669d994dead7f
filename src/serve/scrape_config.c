#include "serve/scrape_config.h"

#include "base/mem.h"

struct scrape_config *scrape_config_new(void)
{
	return mem_alloc(sizeof(struct scrape_config));
}

void scrape_access_done(struct scrape_access *a)
{
	char *all[] = {a->user,    a->password,  a->password_file, a->bearer,     a->bearer_file,
		       a->ca_file, a->cert_file, a->key_file,      a->server_name};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		free(all[i]);
	*a = (struct scrape_access){};
}

static void source_done(struct scrape_source *s)
{
	found_targets_done(&s->targets);
	for (size_t i = 0; s->files && s->files[i]; i++)
		free(s->files[i]);
	free(s->files);
	free(s->url);
	scrape_access_done(&s->access);
}

static void job_done(struct scrape_job *j)
{
	free(j->name);
	free(j->scheme);
	free(j->path_prefix);
	for (size_t i = 0; i < j->param_count; i++) {
		free(j->params[i].name);
		free(j->params[i].value);
	}
	free(j->params);
	scrape_access_done(&j->access);
	relabel_free(j->relabel);
	for (size_t i = 0; i < j->profile_count; i++) {
		free(j->profiles[i].name);
		free(j->profiles[i].path);
		free(j->profiles[i].keep);
	}
	for (size_t i = 0; i < j->source_count; i++)
		source_done(&j->sources[i]);
	free(j->sources);
}

void scrape_config_free(struct scrape_config *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->job_count; i++)
		job_done(&c->jobs[i]);
	free(c->jobs);
	free(c);
}

struct scrape_profile *scrape_job_profile(struct scrape_job *j, const char *name)
{
	for (size_t i = 0; i < j->profile_count; i++)
		if (strcmp(j->profiles[i].name, name) == 0)
			return &j->profiles[i];
	if (j->profile_count == SCRAPE_PROFILES_MAX)
		return NULL;
	struct scrape_profile *p = &j->profiles[j->profile_count++];
	*p = (struct scrape_profile){.name = mem_strdup(name)};
	return p;
}

void scrape_job_defaults(struct scrape_job *j)
{
	static const struct {
		const char *name, *path;
		bool delta;
	} all[] = {
		{"process_cpu", "/debug/pprof/profile", true},
		{"memory", "/debug/pprof/allocs", false},
		{"goroutine", "/debug/pprof/goroutine", false},
		{"mutex", "/debug/pprof/mutex", false},
		{"block", "/debug/pprof/block", false},
	};

	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		struct scrape_profile *p = scrape_job_profile(j, all[i].name);
		if (!p)
			continue;
		if (!p->path)
			p->path = mem_strdup(all[i].path);
		if (!p->has_delta)
			p->delta = all[i].delta;
	}
	for (size_t i = 0; i < j->profile_count; i++) {
		struct scrape_profile *p = &j->profiles[i];
		if (!p->path)
			p->path = mem_printf("/debug/pprof/%s", p->name);
	}
}

uint64_t scrape_job_seconds(const struct scrape_job *j)
{
	uint64_t most = j->timeout_ms > 2000 ? j->timeout_ms - 1000 : 1000;

	return MAX(MIN(j->interval_ms, most) / 1000, 1);
}

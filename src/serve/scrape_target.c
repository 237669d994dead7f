#include "serve/scrape_target.h"

#include <ctype.h>
#include <errno.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/fetch.h"
#include "base/mem.h"

#define PARAM "__param_"

static void set(struct relabel_labels *l, const char *name, const char *value)
{
	if (!*relabel_labels_get(l, name))
		relabel_labels_set(l, name, value);
}

/* What is known before relabelling. */
static void fill(struct relabel_labels *l, const struct scrape_job *j,
		 const struct scrape_profile *p, const struct found_target *found)
{
	for (size_t i = 0; i < found->count; i++)
		relabel_labels_set(l, found->labels[i].name, found->labels[i].value);
	set(l, "job", j->name);
	set(l, "__scheme__", j->scheme ? j->scheme : "http");
	set(l, "__name__", p->name);
	if (!*relabel_labels_get(l, "__profile_path__")) {
		const char *prefix = j->path_prefix ? j->path_prefix : "";
		size_t len = strlen(prefix);
		while (len && prefix[len - 1] == '/')
			len--;
		CLEANUP(freep)
		char *path = mem_printf("%s%.*s%s%s", len && *prefix != '/' ? "/" : "", (int)len,
					prefix, *p->path == '/' ? "" : "/", p->path);
		relabel_labels_set(l, "__profile_path__", path);
	}
	for (size_t i = 0; i < j->param_count; i++) {
		CLEANUP(freep) char *name = mem_printf(PARAM "%s", j->params[i].name);
		set(l, name, j->params[i].value);
	}
}

/* ---- where it is --------------------------------------------------------------------------- */

static void put_escaped(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (isalnum((unsigned char)*text) || strchr("-._~", *text))
			fputc(*text, out);
		else
			fprintf(out, "%%%02X", (unsigned char)*text);
	}
}

static bool is_address(const char *text)
{
	for (const char *c = text; *c; c++)
		if (!isalnum((unsigned char)*c) && !strchr("-._:[]%", *c))
			return false;
	return *text;
}

static bool is_path(const char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 0x7f)
			return false;
	return true;
}

/* "HOST:PORT", with that of the scheme if none is given. Caller frees. */
static char *with_port(const char *address, const char *scheme)
{
	const char *colon = strrchr(address, ':'), *bracket = strrchr(address, ']');
	bool has = *address == '[' ? bracket && bracket[1] == ':' : colon != NULL;

	return has ? mem_strdup(address)
		   : mem_printf("%s:%s", address, strcmp(scheme, "https") == 0 ? "443" : "80");
}

static void put_params(FILE *out, const struct relabel_labels *l, const char *path,
		       const struct scrape_target *t)
{
	char between = strchr(path, '?') ? '&' : '?';

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->list[i].name;
		if (strncmp(name, PARAM, strlen(PARAM)) != 0)
			continue;
		fputc(between, out);
		put_escaped(out, name + strlen(PARAM));
		fputc('=', out);
		put_escaped(out, l->list[i].value);
		between = '&';
	}
	if (t->profile->delta && !*relabel_labels_get(l, PARAM "seconds"))
		fprintf(out, "%cseconds=%llu", between,
			(unsigned long long)scrape_job_seconds(t->job));
}

static int locate(struct scrape_target *t, const struct relabel_labels *l, struct found_error *e)
{
	const char *address = relabel_labels_get(l, "__address__");
	const char *scheme = relabel_labels_get(l, "__scheme__");
	const char *path = relabel_labels_get(l, "__profile_path__");
	const char *host = t->job->access.server_name;
	size_t len;

	if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
		snprintf(e->text, sizeof(e->text), "the scheme '%.40s' is not http or https",
			 scheme);
		return -EINVAL;
	}
	if (!is_address(address) || !is_path(path)) {
		snprintf(e->text, sizeof(e->text), "'%.60s' with the path '%.60s' is no address %s",
			 address, path, "such as 10.0.0.1:6060");
		return -EINVAL;
	}
	CLEANUP(freep) char *at = with_port(address, scheme);
	FILE *out = open_memstream(&t->url, &len);
	if (host)
		fprintf(out, "%s://%s:%s", scheme, host, strrchr(at, ':') + 1);
	else
		fprintf(out, "%s://%s", scheme, at);
	fprintf(out, "%s%s", *path == '/' ? "" : "/", path);
	put_params(out, l, path, t);
	fclose(out);
	t->connect_to = host ? mem_strdup(at) : NULL;
	if (!fetch_is_url(t->url)) {
		snprintf(e->text, sizeof(e->text), "'%.100s' is no address such as 10.0.0.1:6060",
			 address);
		return -EINVAL;
	}
	return 0;
}

/* ---- its labels ---------------------------------------------------------------------------- */

static int label(struct scrape_target *t, const struct relabel_labels *l, struct found_error *e)
{
	struct pushed why = {};

	for (size_t i = 0; i < l->count; i++) {
		const char *name = l->list[i].name, *value = l->list[i].value;
		if (!pushed_label(&why, &t->labels, name, strlen(name), value, strlen(value))) {
			snprintf(e->text, sizeof(e->text), "%.180s", why.why);
			return -EINVAL;
		}
	}
	if (!pushed_label_value(&t->labels, "instance")) {
		const char *address = relabel_labels_get(l, "__address__");
		CLEANUP(freep)
		char *at = with_port(address, relabel_labels_get(l, "__scheme__"));
		if (!pushed_label(&why, &t->labels, "instance", strlen("instance"), at,
				  strlen(at))) {
			snprintf(e->text, sizeof(e->text), "%.180s", why.why);
			return -EINVAL;
		}
	}
	return 0;
}

static uint64_t key_of(const struct scrape_target *t)
{
	uint64_t sum = XXH3_64bits(t->url, strlen(t->url));

	for (uint32_t i = 0; i < t->labels.count; i++) {
		const struct pushed_label *l = &t->labels.all[i];
		sum += XXH3_64bits_withSeed(l->value, strlen(l->value),
					    XXH3_64bits(l->name, strlen(l->name)));
	}
	return XXH3_64bits_withSeed(t->name, strlen(t->name), sum);
}

DEFINE_CLEANUP(struct scrape_target *, scrape_target_free)

int scrape_target_new(const struct scrape_job *job, const struct scrape_profile *profile,
		      const struct found_target *found, struct scrape_target **ret,
		      struct found_error *ret_err)
{
	CLEANUP(scrape_target_freep) struct scrape_target *t = mem_alloc(sizeof(*t));
	struct relabel_labels l = {};
	int r = 0;

	t->job = job;
	t->profile = profile;
	fill(&l, job, profile, found);
	if (job->relabel && !relabel_apply(job->relabel, &l))
		r = -ENOENT;
	r = r ? r : locate(t, &l, ret_err);
	r = r ? r : label(t, &l, ret_err);
	t->name = mem_strdup(relabel_labels_get(&l, "__name__"));
	relabel_labels_done(&l);
	if (r)
		return r;
	t->key = key_of(t);
	*ret = TAKE_PTR(t);
	return 0;
}

void scrape_target_free(struct scrape_target *t)
{
	if (!t)
		return;
	free(t->url);
	free(t->connect_to);
	free(t->name);
	pushed_labels_done(&t->labels);
	growth_free(t->growth);
	free(t);
}

const char *scrape_target_label(const struct scrape_target *t, const char *name)
{
	const char *value = pushed_label_value(&t->labels, name);

	return value ? value : "";
}

/*
 * What a scrape brings: the first byte says what it is. A list of targets, as JSON or YAML, becomes
 * targets whose addresses are URLs, whatever relabelling makes of them; a profile that accumulates
 * is compared with itself, from which it has not grown.
 */
#include <stdlib.h>
#include <string.h>

#include "base/fetch.h"
#include "ingest/growth.h"
#include "serve/scrape_target.h"

#define NOW 1794733200000ull

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void take_targets(const struct found_targets *f)
{
	static const struct relabel_rule rules[] = {
		{.action = "labelmap", .regex = "__meta_(.+)"},
		{.source_labels = {"__path__"},
		 .regex = "(.+)",
		 .target_label = "__profile_path__"},
	};
	struct scrape_job job = {.name = (char *)(uintptr_t) "job",
				 .interval_ms = 10000,
				 .timeout_ms = 13000,
				 .relabel = relabel_new()};
	struct relabel_error wrong;

	for (size_t i = 0; i < 2; i++)
		if (relabel_add(job.relabel, &rules[i], &wrong) != 0)
			abort();
	scrape_job_defaults(&job);
	for (size_t i = 0; i < f->count && i < 16; i++) {
		struct scrape_target *t = NULL;
		struct found_error why = {};
		int r = scrape_target_new(&job, &job.profiles[i % job.profile_count], &f->list[i],
					  &t, &why);
		if (r == 0 && (!fetch_is_url(t->url) || !*scrape_target_label(t, "job") ||
			       !*scrape_target_label(t, "instance")))
			abort();
		if (r && !*why.text)
			abort();
		scrape_target_free(t);
	}
	relabel_free(job.relabel);
	for (size_t i = 0; i < job.profile_count; i++) {
		free(job.profiles[i].name);
		free(job.profiles[i].path);
	}
}

static void read_targets(const uint8_t *data, size_t size, bool is_json)
{
	const struct relabel_label where = {"__meta_url", "http://10.0.0.1/targets"};
	struct found_targets f = {};
	struct found_error why = {};
	const char *text = (const char *)data;

	bool good = is_json ? found_targets_json(&f, text, size, &where, &why)
			    : found_targets_yaml(&f, text, size, &where, &why);
	if (good == !!*why.text || (!good && f.count) || f.count > FOUND_TARGETS_MAX)
		abort();
	take_targets(&f);
	found_targets_done(&f);
}

static bool read_once(struct pushed *p, const uint8_t *data, size_t size)
{
	const struct pushed_labels none = {};
	const struct pushed_about about = {.labels = &none, .now_ms = NOW, .from_ms = NOW - 10000};

	return pushed_pprof(p, data, size, &about);
}

static void read_profile(const uint8_t *data, size_t size)
{
	struct pushed first = {}, again = {};
	struct growth *known = NULL, *next = NULL;
	bool restarted = true;

	if (read_once(&first, data, size) && growth_since(NULL, &first, &known, &restarted)) {
		if (restarted)
			abort(); /* nothing was known */
		for (uint32_t i = 0; i < first.count; i++)
			if (growth_is_sum(first.all[i]->parts.sample_type))
				abort();
		if (!read_once(&again, data, size) ||
		    !growth_since(known, &again, &next, &restarted) || restarted)
			abort();
		for (uint32_t i = 0; i < again.count; i++) {
			const struct pushed_profile *of = again.all[i];
			if (!growth_is_sum(of->parts.sample_type))
				continue;
			if (!of->before)
				abort();
			for (uint32_t k = 0; k < of->p->sample_count; k++)
				if (of->before[k].value < of->p->samples[k].value)
					abort();
		}
	}
	growth_free(known);
	growth_free(next);
	pushed_done(&first);
	pushed_done(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	if (data[0] % 3 == 2)
		read_profile(data + 1, size - 1);
	else
		read_targets(data + 1, size - 1, data[0] % 3 == 0);
	return 0;
}

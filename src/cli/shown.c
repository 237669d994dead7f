#include "cli/shown.h"

#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "query/callers.h"

#define SUGGESTIONS 3

bool shown_range(const char *from, const char *to, struct timerange *ret)
{
	struct timerange_error err;

	if (timerange_parse(from, to, timerange_now_ms(), ret, &err) == 0)
		return true;
	log_error("%s", err.text);
	return false;
}

void shown_keep(const struct cli_output *o, struct source_question *ask)
{
	static const char *const comm[] = {"comm"};

	ask->keep = o->options.tree.by ? &o->options.tree.by : comm;
	ask->keep_count = 1;
}

static const char *function_of(const struct shown_options *o)
{
	return o->callers ? o->callers : o->callees;
}

void shown_no_function(const struct profile *p, const struct shown_options *o)
{
	const char *name = function_of(o);
	const char *near[SUGGESTIONS];
	uint32_t n = callers_suggest(p, name, near, SUGGESTIONS);

	if (n)
		log_error("no function is called '%s'; did you mean '%s'%s%s%s%s?", name, near[0],
			  n > 1 ? " or '" : "", n > 1 ? near[1] : "", n > 1 ? "'" : "",
			  n > 2 ? " …" : "");
	else
		log_error("no function is called '%s', and none holds it in its name", name);
}

bool shown_cut(struct profile **p, const struct shown_options *o)
{
	if (!function_of(o))
		return true;
	struct profile *cut = callers_new(*p, function_of(o), o->callers ? CALLERS : CALLEES);
	if (!cut->sample_count) {
		profile_free(cut);
		return false;
	}
	profile_free(*p);
	*p = cut;
	return true;
}

int shown_nothing(struct source *s, const struct source_question *ask, const struct store_answer *a)
{
	struct store_names names = {};
	struct source_question any = *ask;

	if (a->damaged)
		log_warn("%llu damaged files of the store could not be read",
			 (unsigned long long)a->damaged);
	any.selector = NULL;
	bool some = source_names(s, &any, "comm", &names) == 0 && names.count;
	if (some)
		log_error("nothing matches; in that time there was e.g. cpu{comm=\"%s\"}; 'smolder "
			  "labels comm' lists all",
			  names.names[0]);
	else
		log_error("nothing is stored of that time");
	store_names_done(&names);
	return 1;
}

#include "cli/report.h"

#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "render/describe.h"

void report_time(uint64_t ms, char ret[static 32])
{
	time_t t = (time_t)(ms / 1000), now = time(NULL);
	struct tm tm, today;

	localtime_r(&t, &tm);
	localtime_r(&now, &today);
	bool same = tm.tm_year == today.tm_year && tm.tm_yday == today.tm_yday;
	strftime(ret, 32, same ? "%H:%M:%S" : "%Y-%m-%d %H:%M:%S", &tm);
}

void report_missing_names(const struct quality *q, bool debuginfod)
{
	CLEANUP(freep) char *cache = cli_cache_dir();
	CLEANUP(packages_freep) struct packages *packages = packages_new(cache);
	struct quality_help help = {packages, debuginfod};
	char hint[QUALITY_HINT];

	if (log_level > LOG_QUIET && *quality_hint(q, help, hint))
		log_info("%s", hint);
}

bool report_unreadable(const struct store_answer *a)
{
	uint64_t bad = a->damaged - MIN(a->damaged, a->refused + a->newer);
	const char *where = a->trouble[0] ? a->trouble : "see the server's log";

	if (a->refused)
		log_warn("%llu files of the store are not readable for this user (%s), so the "
			 "answer is incomplete; run with sudo, or ask the server",
			 (unsigned long long)a->refused, where);
	if (a->newer)
		log_warn("%llu files of the store were written by a newer version of smolder (%s), "
			 "so the answer is incomplete; use that version",
			 (unsigned long long)a->newer, where);
	if (bad)
		log_warn("%llu files of the store are damaged (%s), so the answer is incomplete",
			 (unsigned long long)bad, where);
	return a->damaged;
}

void report_answer(const struct profile *p, const struct store_answer *a, const char *prefix)
{
	char from[32], to[32], samples[DESCRIBE_MAX], lost[DESCRIBE_MAX], shares[DESCRIBE_MAX];
	struct quality q;

	quality_of(p, &q);

	report_time(a->from_ms, from);
	report_time(a->to_ms, to);
	log_info("%s%s to %s: %s samples, %s lost%s", prefix, from, to,
		 describe_amount(a->samples, "", samples), describe_amount(a->lost, "", lost),
		 describe_quality(&q, shares));
	report_unreadable(a);
	if (p->info.truncated)
		log_warn("%llu stacks were too deep and have been truncated",
			 (unsigned long long)p->info.truncated);
	if (p->info.capped)
		log_warn("%llu samples have a shortened stack, because there are too many "
			 "different stacks",
			 (unsigned long long)p->info.capped);
	report_missing_names(&q, !a->debuginfod);
}
